"""The family's remote job submission: each call, what a repetition does, and whom it is refused."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import URL, World, failed
from tests.helpers.remote_client import FILES, RPC, RemoteClient, element, job

from cobblestone.domain.people import Scope, SubmitRights
from cobblestone.domain.values import UserId
from cobblestone.domain.work import ReplicationRules
from cobblestone.store.catalog.files import place_of
from cobblestone.store.people import account_changes, credentials
from cobblestone.store.work import submitters

pytestmark = pytest.mark.both_databases


def client(world: World, authenticator: str) -> RemoteClient:
    def send(method: str, path: str, **options: Any) -> Any:
        return world.run(world.http.request(method, path, **options))

    return RemoteClient(send, authenticator)


class Lab:
    """A project with a native program, Ada, who may submit its jobs, and a volunteer's computer."""

    def __init__(self, world: World) -> None:
        self.world = world
        rules = ReplicationRules(min_quorum=1, target_nresults=1, max_error_results=0)
        self.app = world.add_app("sum", rules=rules)
        self.ada = client(world, world.user("ada"))
        self.bob = client(world, world.user("bob"))
        self.allow(1)
        self.host = world.host(world.user("volunteer"))

    def allow(self, user_id: int, **rights: Any) -> None:
        self.world.write(
            lambda tx: submitters.allow(tx, UserId(user_id), SubmitRights(**rights), now=self.world.now)
        )

    def n_jobs(self) -> int:
        return self.world.value("SELECT count(*) FROM workunit")

    def compute(self, answer: bytes = b"42", fail: str = "") -> None:
        """Let the volunteer compute all jobs; those with ``fail`` in their label fail until they are given up."""
        self.world.settle()
        for _ in range(8):
            self.host.rpc(ask=1e6)
            if not self.host.held:
                break
            labels = {
                name: self.world.value(
                    "SELECT w.label FROM workunit w JOIN result r ON r.workunit_id = w.id WHERE r.name = ?",
                    name,
                )
                for name in sorted(self.host.held)
            }
            self.world.now += 3600
            reports = [
                failed(name, exit_status=7, stderr="no <sum> of it")
                if fail and fail in label
                else self.host.finish(name, answer)
                for name, label in labels.items()
            ]
            self.host.rpc(reports=reports)
            self.world.settle()


@pytest.fixture
def lab(world: World) -> Lab:
    return Lab(world)


def test_the_way_of_htcondor_from_templates_to_retirement(lab: Lab):
    ada = lab.ada
    content = b"1 2 3"
    md5 = hashlib.md5(content).hexdigest()
    templates = ada.good("get_templates", app_name="sum")
    assert [each.text for each in templates.iterfind("templates/output_template//open_name")] == ["out"]
    number = ada.create("sum", "condor 1")
    assert ada.create("sum", "condor 1") == number
    assert ada.absent([md5], "md5") == [0]
    assert ada.upload({f"jf_{md5}": content}, batch_id=number).find("success") is not None
    assert ada.absent([f"jf_{md5}", "jf_other"]) == [1]
    jobs = [job(f"job.{place}", f"jf_{md5}", line=f"--seed {place} ") for place in range(5)]
    assert ada.submit("sum", jobs, batch_id=number) == number
    time, told = ada.status("condor 1")
    assert told == {f"job.{place}": "UNSENT" for place in range(5)}
    lab.world.now += 3600
    lab.compute()
    assert ada.status("condor 1", time)[1] == {f"job.{place}": "DONE" for place in range(5)}
    done = ada.good("query_completed_job", element("job_name", "job.3")).find("completed_job")
    assert done is not None
    assert done.findtext("error_mask") == done.findtext("exit_status") == "0"
    assert int(done.findtext("canonical_resultid", "")) > 0
    assert float(done.findtext("cpu_time", "")) == 100.0
    assert done.findtext("stderr_out", "").strip() == "hello"
    for path in ("/get_output.php", f"{URL}/get_output.php"):
        answer = ada.get(path, cmd="workunit_file", auth_str=ada.authenticator, wu_name="job.3", file_num=0)
        assert (answer.status_code, answer.content) == (200, b"42")
    time, _ = ada.status("condor 1")
    lab.world.now += 3600
    assert ada.status("condor 1", lab.world.now - 60)[1] == {}
    assert "do not expire" in ada.refused("set_expire_time", batch_name="condor 1", expire_time=2e9)
    ada.good("retire_batch", batch_name="condor 1")
    assert ada.good("query_batches").findall("batch") == []
    line = lab.world.value("SELECT command_line FROM workunit WHERE label = 'job.4'")
    assert line == "--seed 4"


def test_the_way_of_the_python_client_with_numbers_for_names(lab: Lab):
    ada = lab.ada
    assert ada.upload({"a.txt": b"A", "b.txt": b"B"}, path=f"{URL}/job_file.php").find("success") is not None
    number = ada.submit("sum", [job("", "a.txt"), job("", "b.txt")], batch_id=0, app_version_num=0)
    [listed] = ada.good("query_batches", get_cpu_time=1).findall("batch")
    assert {each: listed.findtext(each) for each in ("id", "njobs", "state", "app_name", "name")} == {
        "id": str(number),
        "njobs": "2",
        "state": "1",
        "app_name": "sum",
        "name": "sum",
    }
    lab.compute()
    batch = ada.good("query_batch", batch_id=number, get_cpu_time=1, get_job_details=1)
    assert batch.findtext("state") == "2"
    assert float(batch.findtext("fraction_done", "")) == 1.0
    assert float(batch.findtext("total_cpu_time", "")) == 200.0
    jobs = batch.findall("job")
    assert [each.findtext("status") for each in jobs] == ["done", "done"]
    assert [each.findtext("name") for each in jobs] == [f"sum_{number}_0", f"sum_{number}_1"]
    instance = ada.good("query_job", job_id=jobs[0].findtext("id")).find("instance")
    assert instance is not None
    assert instance.findtext("state") == "valid"
    assert instance.findtext("outfile/size") == "2"
    assert jobs[0].findtext("canonical_instance_id") == instance.findtext("id")
    name = instance.findtext("name", "")
    assert jobs[0].findtext("canonical_instance_name") == name
    link = {"cmd": "result_file", "result_name": name, "file_num": 0, "auth_str": ada.digest(name)}
    assert ada.get("/get_output.php", **link).content == b"42"
    found = ada.get("/get_output.php", cmd="batch_files", batch_id=number, auth_str=ada.digest(number))
    assert len(zipfile.ZipFile(io.BytesIO(found.content)).namelist()) == 2
    for path, options in (("2", {"cmd": "batch"}), ("3", {"action": "get_batch"})):
        again = ada.get(f"/get_output{path}.php", batch_id=number, auth=ada.authenticator, **options)
        assert again.status_code == 200
    assert (
        ada.good("query_completed_job", element("job_name", f"sum_{number}_0")).find(
            "completed_job/exit_status"
        )
        is not None
    )


def test_a_call_may_come_in_a_form_in_its_parts_or_alone(lab: Lab):
    text = lab.ada.text("query_batches")
    for options in (
        {"data": {"request": text}},
        {"files": {"request": (None, text)}},
        {"content": text, "headers": {"Content-Type": "text/xml"}},
    ):
        assert lab.ada.read(lab.ada.send("POST", RPC, **options)).tag == "query_batches"
    assert lab.ada.submit("sum", [job(line="--tab\t1 ü&2")])
    assert lab.world.value("SELECT command_line FROM workunit") == "--tab 1 ü&2"
    assert lab.ada.post("<ping> </ping>\n").findtext("success") == "1"
    assert lab.ada.read(lab.ada.send("POST", RPC, files={"request": (None, "<ping/>")})).tag == "ping"


def test_an_estimate_grows_with_the_jobs(lab: Lab):
    def seconds(n: int) -> float:
        inside = element("app_name", "sum") + job(rsc_fpops_est="1e15") * n
        return float(lab.ada.good("estimate_batch", element("batch", inside)).findtext("seconds", ""))

    assert seconds(20) > seconds(1) > 0
    assert lab.n_jobs() == 0


@pytest.mark.parametrize(
    "of_batch", [{}, {"batch_name": "mine"}, {"batch_id": 1}], ids=["none", "name", "number"]
)
def test_a_repeated_submission_makes_no_job_twice(lab: Lab, of_batch: dict[str, object]):
    ada = lab.ada
    if "batch_id" in of_batch:
        ada.create("sum", "mine")
    jobs = [job("one"), job("two")]
    number = ada.submit("sum", jobs, **of_batch)
    assert ada.submit("sum", jobs, **of_batch) == number
    assert lab.n_jobs() == 2
    again = ada.submit_text("sum", [job("one")], batch_name="other")
    assert ada.reason(ada.post(again)) == "Job 0: another job of yours is called 'one'."
    assert "its jobs already" in ada.reason(ada.post(ada.submit_text("sum", [job("three")], batch_id=number)))
    assert lab.n_jobs() == 2
    assert lab.world.value("SELECT count(*) FROM batch") == 1


def test_jobs_without_names_in_a_batch_that_is_named_are_not_made_twice(lab: Lab):
    for of_batch in ({"batch_name": "mine"}, {"batch_id": lab.ada.create("sum", "other")}):
        before = lab.n_jobs()
        numbers = {lab.ada.submit("sum", [job(), job()], **of_batch) for _ in range(3)}
        assert (len(numbers), lab.n_jobs() - before) == (1, 2)
        assert "its jobs already" in lab.ada.reason(
            lab.ada.post(lab.ada.submit_text("sum", [job()], **of_batch))
        )


def test_two_people_may_use_the_same_names_and_see_nothing_of_each_other(lab: Lab):
    lab.allow(2)
    for who, content in ((lab.ada, b"hers"), (lab.bob, b"his")):
        assert who.absent(["in"]) == [0]
        who.upload({"in": content})
        who.submit("sum", [job("one", "in")], batch_name="mine")
    assert lab.n_jobs() == 2
    assert lab.world.value("SELECT count(DISTINCT input_files) FROM workunit") == 2
    hers = lab.ada.good("query_batch", batch_name="mine").findtext("id")
    raw = lab.world.value("SELECT name FROM workunit WHERE batch_id = ?", int(hers or 0))
    for told in (
        lab.bob.refused("query_batch", batch_id=hers),
        lab.bob.refused("abort_batch", batch_id=hers),
        lab.bob.refused("retire_batch", batch_id=hers),
        lab.bob.refused("query_job", job_id=1),
        lab.bob.refused("query_completed_job", element("job_name", raw)),
        lab.bob.refused("abort_jobs", element("job_name", "one"), element("job_name", raw)),
        lab.bob.reason(lab.bob.post(lab.bob.submit_text("sum", [job()], batch_id=hers))),
    ):
        assert told.startswith("There is no"), told
    assert lab.world.value("SELECT sum(error_mask) FROM workunit") == 0
    lab.compute()
    mine = {"cmd": "workunit_file", "auth_str": lab.bob.authenticator, "wu_name": "one"}
    assert lab.bob.get("/get_output.php", **mine).content == b"42"
    for link in (
        {"wu_name": raw, "auth_str": lab.bob.authenticator},
        {"batch_id": hers, "auth_str": lab.bob.digest(hers)},
        {"batch_id": hers, "auth_str": lab.bob.authenticator},
        {"batch_id": "9" * 400, "auth_str": lab.bob.authenticator},
        {"batch_id": hers, "auth_str": "ünbekannt"},
        {"result_name": raw + "_0", "auth_str": lab.bob.digest(raw + "_0")},
        {"result_name": "none", "auth_str": lab.bob.authenticator},
        {},
    ):
        answer = lab.bob.get("/get_output.php", **link)
        assert answer.status_code in (401, 404)
        assert b"<error_num>-1</error_num>" in answer.content
    unknown = lab.bob.get("/get_output.php", result_name="none", auth_str=lab.bob.authenticator)
    assert "There is no result 'none'." in unknown.text


def test_jobs_and_batches_are_aborted(lab: Lab):
    number = lab.ada.submit("sum", [job("one"), job("two"), job()], batch_name="mine")
    assert "'three'" in lab.ada.refused(
        "abort_jobs", element("job_name", "one"), element("job_name", "three")
    )
    assert lab.ada.status("mine")[1]["one"] == "UNSENT"
    lab.ada.good("abort_jobs", element("job_name", "one"), element("job_name", f"sum_{number}_2"))
    assert list(lab.ada.status("mine")[1].values()) == ["ERROR", "UNSENT", "ERROR"]
    assert "not finished" in lab.ada.refused("retire_batch", batch_id=number)
    lab.ada.good("abort_batch", batch_id=number)
    batch = lab.ada.good("query_batch", batch_id=number)
    assert (batch.findtext("state"), batch.findtext("nerror_jobs")) == ("3", "3")
    lab.ada.good("retire_batch", batch_id=number)


def test_a_job_that_failed_is_told_with_its_last_words(lab: Lab):
    lab.ada.submit("sum", [job("good"), job("bad")], batch_name="mine")
    assert (
        lab.ada.good("query_completed_job", element("job_name", "bad")).find("completed_job/exit_status")
        is None
    )
    lab.compute(fail="bad")
    assert lab.ada.status("mine")[1] == {"good": "DONE", "bad": "ERROR"}
    told = lab.ada.good("query_completed_job", element("job_name", "bad")).find("completed_job")
    assert told is not None
    assert told.findtext("canonical_resultid") is None
    assert int(told.findtext("error_resultid", "")) > 0
    assert told.findtext("exit_status") == "7"
    # escaped within CDATA, as callers expect it
    assert told.findtext("stderr_out", "").strip() == "no &lt;sum&gt; of it"


def test_a_file_may_stand_in_the_call_itself_or_have_been_sent_to_a_sandbox(lab: Lab):
    inline = element("input_file", element("mode", "inline") + element("source", "1 &lt; 2\n3"))
    lab.ada.upload({"old": b"sandy"})
    sandbox = element("input_file", element("mode", "sandbox") + element("source", "old"))
    for _ in range(2):
        lab.ada.submit("sum", [element("job", inline), element("job", sandbox)], batch_name="b")
    contents = [
        place_of(lab.world.ctx.folder.download, file["name"]).read_bytes()
        for (text,) in lab.world.query("SELECT input_files FROM workunit ORDER BY id")
        for file in msgspec.json.decode(text)
    ]
    assert contents == [b"1 < 2\n3", b"sandy"]
    assert "source" in lab.ada.reason(
        lab.ada.post(lab.ada.submit_text("sum", [element("job", inline.replace("3", "3" * 65_000))]))
    )


def test_what_a_job_may_not_be_is_refused_in_words_and_nothing_is_made(lab: Lab):
    def refused(*jobs: str, **of_batch: object) -> str:
        return lab.ada.reason(lab.ada.post(lab.ada.submit_text("sum", jobs, **of_batch)))

    def given(mode: str, source: str = "/etc/passwd") -> str:
        return element("job", element("input_file", element("mode", mode) + element("source", source)))

    for mode in ("local", "semilocal", "remote", "other"):
        assert repr(mode) in refused(job(), given(mode))
    assert "<input_template>" in refused(element("job", "<input_template><workunit/></input_template>"))
    assert "<job_params>" in refused(job(), job_params="<delay_bound>9</delay_bound>")
    assert "<target_user>" in refused(job(target_user=1))
    assert "app_version_num" in refused(job(), app_version_num=3)
    assert "no jobs" in refused()
    assert "nothing" in refused(job("", "nothing"))
    assert "../etc" in refused(job("", "../etc"))
    assert refused(job("b"), job(""), job("a"), job("a")) == "Job 3: another job of yours is called 'a'."
    assert "priority" in refused(job(), priority=5)
    assert "Job 1: `name` is 'a/b'" in refused(job("a"), job("a/b"))
    assert "no app called 'other'" in lab.ada.refused("create_batch", app_name="other", batch_name="b")
    assert "command_line" in refused(job(line="x" * 9000))
    assert "rsc_fpops_est" in refused(job(rsc_fpops_est="nan"))
    assert "priority" in refused(job(priority="1e300"))
    assert lab.n_jobs() == 0
    assert lab.world.value("SELECT count(*) FROM batch") == 0


def test_who_may_not_submit_is_refused_everywhere(lab: Lab):
    assert "may not submit" in lab.bob.refused("query_batches")
    for wrong in ("", "x", "0" * 32, "1_" + "0" * 32):
        assert "unknown" in client(lab.world, wrong).refused("query_batches")
    weak = lab.world.value("SELECT weak_authenticator FROM user_account WHERE id = 1")
    assert "unknown" in client(lab.world, weak).refused("query_batches")
    assert "may not submit" in lab.bob.reason(lab.bob.upload({"a": b"x" * 200_000}))
    lab.world.add_app("other")
    lab.allow(2, max_jobs=2, apps=("other",))
    assert "You may submit jobs of " in lab.bob.reason(lab.bob.post(lab.bob.submit_text("sum", [job()])))
    assert "You may submit jobs of " in lab.bob.refused("create_batch", app_name="sum", batch_name="b")
    lab.allow(2, max_jobs=2)
    assert "You may submit 2 more jobs" in lab.bob.reason(
        lab.bob.post(lab.bob.submit_text("sum", [job()] * 3))
    )
    lab.bob.submit("sum", [job()] * 2)
    lab.world.write(lambda tx: account_changes.ask_to_erase(tx, UserId(2), lab.world.now))
    assert "may not submit" in lab.bob.refused("query_batches")


def test_a_token_opens_what_it_opens_in_the_api(lab: Lab):
    def with_token(*scopes: Scope, user_id: int | None = None) -> RemoteClient:
        secret = credentials.new_secret()
        lab.world.write(
            lambda tx: credentials.create_token(
                tx,
                secret,
                name="t",
                scopes=scopes,
                now=lab.world.now,
                user_id=None if user_id is None else UserId(user_id),
            )
        )
        return client(lab.world, secret)

    number = lab.ada.submit("sum", [job("one")], batch_name="mine")
    own = with_token(Scope.SUBMIT, user_id=1)
    assert own.status("mine")[1] == {"one": "UNSENT"}
    operator = with_token(Scope.SUBMIT)
    assert operator.good("query_batch", batch_id=number).findtext("njobs") == "1"
    assert "scope" in with_token(Scope.READ).refused("query_batches")
    link = operator.get("/get_output.php", batch_id=number, auth_str=operator.authenticator)
    assert link.status_code == 200


def test_authenticators_are_in_no_log(lab: Lab, capfd: pytest.CaptureFixture[str]):
    with capture_logs() as logs:
        lab.ada.submit("sum", [job("one")], batch_name="mine")
        lab.ada.get("/get_output.php", cmd="workunit_file", auth_str=lab.ada.authenticator, wu_name="one")
        lab.ada.post(lab.ada.text("query_batch", batch_id="x"))
        lab.ada.post(lab.ada.text("nothing"))
        lab.ada.post(lab.ada.text("submit_batch")[:-20])
        lab.ada.upload({"a": b"1"}, batch_id="x" * 2000)
    written = "".join(capfd.readouterr())
    assert lab.ada.authenticator not in repr(logs) + written


HOSTILE = {
    "nothing": b"",
    "no XML": b"request",
    "not ended": b"<submit_batch><authenticator>",
    "deep": b"<submit_batch>" + b"<a>" * 100_000,
    "many stray": b"<submit_batch>" + b"<" * 500_000 + b"</submit_batch>",
    "many jobs": b"<submit_batch><batch>" + b"<job></job>" * 10_001 + b"</batch></submit_batch>",
    "many names": b"<abort_jobs>" + b"<job_name>a</job_name>" * 10_001 + b"</abort_jobs>",
    "long name": b"<create_batch><batch_name>" + b"n" * 100_000 + b"</batch_name></create_batch>",
    "entities": b'<!DOCTYPE x [<!ENTITY a "b">]><ping>&a;</ping>',
    "controls": b"<create_batch><batch_name>a\x00b</batch_name></create_batch>",
    "many fields": b"a=1&" * 20 + b"request=<ping/>",
    "encoded": b"request=" + b"%" * 90_000,
    "unknown": b"<_make_batch></_make_batch>",
    "no number": b"<query_batch><batch_id>many</batch_id></query_batch>",
    "large": b"<submit_batch>" + b" " * 16_000_001,
    "surrogate": b"<query_batch><batch_name>&#xD800;\xff</batch_name></query_batch>",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_calls_are_refused_in_the_shape_of_the_family(lab: Lab, body: bytes):
    for options in (
        {"content": body},
        {"content": body, "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
        {"data": {"request": body.decode("latin-1")}},
        {"files": {"request": (None, body)}},
        {"content": body, "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
        {"content": body, "headers": {"Content-Type": "multipart/form-data"}},
    ):
        for path in (RPC, FILES):
            answer = lab.ada.send("POST", path, **options)
            words = lab.ada.reason(lab.ada.read(answer))
            assert words
            assert "failed to process" not in words
    assert lab.n_jobs() == 0


def test_files_that_do_not_fit_their_names_are_refused(lab: Lab):
    ada = lab.ada
    md5 = hashlib.md5(b"right").hexdigest()
    assert "changed on the way" in ada.reason(ada.upload({f"jf_{md5}": b"wrong"}))
    assert "changed on the way" in ada.reason(ada.upload({md5: b"wrong"}))
    ada.upload({"a": b"1"})
    assert "another file" in ada.reason(ada.upload({"a": b"2"}))
    named = element("phys_name", "a") + element("phys_name", "b")
    text = ada.text("upload_files", named)
    only_b = ada.read(ada.send("POST", FILES, data={"request": text}, files=[("file_0", ("b", b"B"))]))
    assert only_b.find("success") is not None
    assert ada.absent(["a", "b", "c"]) == [2]
    other = ada.send("POST", FILES, data={"request": text}, files=[("file_0", ("c", b"C"))])
    assert "call names: 2" in ada.reason(ada.read(other))
    many = [(f"file_{place}", (f"{place}", b"")) for place in range(1001)]
    assert "cannot be read" in ada.reason(
        ada.read(ada.send("POST", FILES, data={"request": text}, files=many))
    )
    assert not list(lab.world.ctx.folder.staging.iterdir())


def test_a_large_form_of_a_stranger_is_not_kept(lab: Lab):
    stranger = client(lab.world, "0" * 32)
    assert "unknown" in stranger.reason(stranger.upload({"a": b"x" * 3_000_000}))
    late = lab.ada.send("POST", FILES, files=[("file_0", ("a", b"x" * 3_000_000))], data={})
    assert "larger" in lab.ada.reason(lab.ada.read(late))


def test_many_files_of_a_form_are_not_held_in_memory(lab: Lab):
    names = [f"f{place}" for place in range(60)]
    text = lab.ada.text("upload_files", *(element("phys_name", name) for name in names))

    async def body() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="request"\r\n\r\n' + text.encode()
        for name in names:
            head = f'\r\n--x\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'
            yield head.encode()
            for _ in range(9):
                yield name.encode() * 33_000
        yield b"\r\n--x--\r\n"

    tracemalloc.start()
    try:
        sent = lab.ada.send(
            "POST", FILES, content=body(), headers={"Content-Type": "multipart/form-data; boundary=x"}
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lab.ada.read(sent).find("success") is not None
    assert lab.ada.absent(names) == []
    assert peak < 25_000_000


def test_a_large_call_of_a_stranger_is_not_read(lab: Lab):
    unreadable = job("a" * 300) * 500
    for caller, words in ((client(lab.world, "0" * 32), "unknown"), (lab.ada, "cannot be used")):
        text = caller.submit_text("sum", [unreadable])
        for options in ({"content": text}, {"data": {"request": text}}):
            assert words in caller.reason(caller.read(caller.send("POST", RPC, **options)))


def test_files_larger_than_the_project_takes_are_refused(make_world: Any):
    lab = Lab(make_world(server={"max_upload_bytes": 1_000_000}))
    assert "larger than" in lab.ada.reason(lab.ada.upload({"a": b"x" * 1_000_001}))
    assert "larger than" in lab.ada.reason(lab.ada.upload({"a": b"x" * 17_100_000}))
    assert lab.ada.absent(["a"]) == [0]


def test_the_same_limits_hold_as_in_the_api(world: World, api: ApiClient):
    lab = Lab(world)
    api.call("PATCH", "/apps/sum", {"deprecated": True})
    assert "deprecated" in lab.ada.reason(lab.ada.post(lab.ada.submit_text("sum", [job()])))
