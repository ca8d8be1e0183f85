"""The Python package against a whole project."""

from __future__ import annotations

import concurrent.futures
import csv
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from numpy import float32
from tests.helpers.eventually import eventually
from tests.helpers.project_world import World
from tests.helpers.served_world import LoopThread, Volunteers, connect

from cobblestone.api_schema import batches, endpoints
from cobblestone.api_schema.apps import AppChanges, RulesBody
from cobblestone.api_schema.endpoints import Endpoint
from cobblestone.cli.work.app import deadline_lines
from cobblestone.domain.apps import POSIX
from cobblestone.domain.errors import Conflict, JobError, NotFound
from cobblestone.sdk import executor
from cobblestone.sdk.api import batch as batch_module
from cobblestone.sdk.api.batch import AnswerFolder, JobResult
from cobblestone.sdk.api.connection import Connection, JobFailed, NotRunning, RequestRefused, Unreachable
from cobblestone.sdk.api.jobs import Job, content_of
from cobblestone.sdk.project import Project
from cobblestone.wire.project.signatures import decode_private_key, encode_public_key, verify_md5


@pytest.fixture
def project(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project with an app that takes one input and one argument."""
    monkeypatch.chdir(tmp_path)
    Path("period.py").write_text("print(1)\n")
    with LoopThread(world), connect(world) as project:
        project.create_app("period", "python3 period.py {input} {output}", ["period.py"])
        yield project


@pytest.fixture
def volunteers(world: World, project: Project) -> Volunteers:
    """One host."""
    return Volunteers(world)


@pytest.fixture
def busy_volunteers(world: World, volunteers: Volunteers) -> Iterator[Volunteers]:
    """One host that works in the background."""
    enough = threading.Event()
    thread = threading.Thread(target=volunteers.work_until, args=[enough])
    thread.start()
    yield volunteers
    enough.set()
    thread.join()


def test_an_app_of_a_command_consists_of_launcher_description_and_files(project: Project, world: World):
    app = project.app("period")
    (version,) = app.versions
    assert [file.open_name for file in version.files] == [
        "cobblestone_launcher.py",
        "cobblestone_app.json",
        "period.py",
    ]
    assert [file.main_program for file in version.files] == [True, False, False]
    assert [file.copy_file for file in version.files] == [False, True, True]
    assert version.signed
    assert all(file.file not in ("period.py", "cobblestone_launcher.py") for file in version.files)


def test_jobs_go_out_and_results_come_back(project: Project, volunteers: Volunteers, tmp_path: Path):
    for name in ("low", "high"):
        Path(f"{name}.json").write_text(f'"{name}"')
    batch = project.submit("period", ["low.json", Path("high.json"), {"a": 1}, b"[2]"], name="mixed")
    assert (batch.status().njobs, batch.status().fraction_done) == (4, 0)
    volunteers.work()
    results = list(batch.results(timeout=60))
    assert [result.json() for result in results] == [
        {"got": "low"},
        {"got": "high"},
        {"got": {"a": 1}},
        {"got": [2]},
    ]
    assert [result.name for result in results[:2]] == ["low", "high"]
    assert results[2].name == f"period_{batch.id}_2"
    assert results[0].text() == '{"got":"low"}'
    assert dict(results[0].outputs) == {"output": b'{"got":"low"}'}
    assert repr(results[0].outputs) == "<Outputs output>"
    (path,) = results[0].save(tmp_path / "answers")
    assert path == tmp_path / "answers" / "low" / "output"
    assert path.read_bytes() == b'{"got":"low"}'
    status = batch.wait()
    assert (status.state, status.n_success, status.n_error, status.finished) == ("complete", 4, 0, True)
    assert project.batch(batch.id).status() == status
    assert [each.id for each in project.batches()] == [batch.id]


def test_results_come_while_others_are_computed(project: Project, busy_volunteers: Volunteers):
    batch = project.submit("period", [{"n": n} for n in range(20)])
    assert sorted(result.json()["got"]["n"] for result in batch.results(timeout=60)) == list(range(20))


def test_a_batch_is_saved_and_retired(project: Project, volunteers: Volunteers, tmp_path: Path):
    batch = project.submit("period", [Job(inputs=[b"1"], name="a"), Job(inputs=[b"2"], name="..")])
    volunteers.work()
    paths = batch.save(tmp_path / "answers", timeout=60)
    assert {path.relative_to(tmp_path / "answers").as_posix() for path in paths} == {
        "a/output",
        "job_2/output",
    }
    assert batch.retire().state == "retired"


def test_inputs_of_one_name_from_different_folders_keep_their_own_answers(
    project: Project, volunteers: Volunteers, tmp_path: Path
):
    for number, folder in enumerate(("north", "south", "SOUTH2")):
        (tmp_path / folder).mkdir()
        name = "star.json" if number < 2 else "Star.json"
        (tmp_path / folder / name).write_text(str(number))
    inputs = [tmp_path / "north/star.json", tmp_path / "south/star.json", tmp_path / "SOUTH2/Star.json"]
    batch = project.submit("period", inputs)
    volunteers.work()
    answers = tmp_path / "answers"
    paths = batch.save(answers, timeout=60)
    assert sorted(path.read_text() for path in paths) == ['{"got":0}', '{"got":1}', '{"got":2}']
    assert sorted(batch.save(answers, timeout=60)) == sorted(paths), (
        "written again, they find the same places"
    )
    with (answers / "jobs.csv").open(newline="") as file:
        listed = {row["folder"]: row["name"] for row in csv.DictReader(file)}
    assert len(listed) == 3
    assert sorted(listed.values()) == ["Star", "star", "star"]
    assert {path.parent.name for path in paths} == set(listed)


def answered(number: int, name: str) -> JobResult:
    """A job of some project, without outputs."""
    status = batches.JobStatus(
        id=number, name=name, workunit=f"period_1_{number}", status="done", seq=1, error="", exit_status=0,
        stderr="", outputs=[], inputs=[], args={}, command_line="", result="", host=1, run_time=1.0, credit=1.0,
    )  # fmt: skip
    return JobResult(cast(Connection, None), 1, status)


def test_what_another_program_or_a_job_of_another_project_wrote_is_not_overwritten(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    one, other = AnswerFolder(tmp_path), AnswerFolder(tmp_path)
    one.save(answered(1, "star"))
    other.save(answered(2, "star"))  # a program that has begun at the same time
    other.save(answered(3, "mine"))
    AnswerFolder(tmp_path).save(answered(1, "moon"))  # the first job of a project that was made anew
    again = AnswerFolder(tmp_path)
    for number, name in ((1, "star"), (2, "star"), (3, "mine"), (1, "moon")):
        again.save(answered(number, name))
    with (tmp_path / "jobs.csv").open(newline="") as file:
        listed = [(row["job"], row["name"], row["folder"]) for row in csv.DictReader(file)]
    assert listed == [
        ("1", "star", "star"),
        ("2", "star", "star~2"),
        ("3", "mine", "mine~3"),
        ("1", "moon", "moon"),
    ]
    assert len(list(tmp_path.iterdir())) == 6


def test_a_list_of_answers_that_is_no_text_is_named(tmp_path: Path):
    (tmp_path / "jobs.csv").write_bytes(b"job,name\n1,\xff\n")
    with pytest.raises(JobError, match=r"jobs\.csv, line 2.*UTF-8"):
        AnswerFolder(tmp_path)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"k": (1, "é"), "big": 2**80}, '{"k":[1,"é"],"big":1208925819614629174706176}'.encode()),
        (bytearray(b"raw"), b"raw"),
        (memoryview(b"raw"), b"raw"),
        (b"raw", b"raw"),
    ],
)
def test_values_are_sent_as_json_and_all_kinds_of_bytes_as_they_are(given: object, sent: bytes):
    assert content_of(given).data == sent


@pytest.mark.parametrize("given", [float("nan"), {"k": [float("inf")]}, print, "\udcff", {(1, 2): 3}])
def test_what_json_cannot_hold_is_refused_and_not_changed(given: object):
    with pytest.raises(JobError, match="cannot be written as JSON"):
        content_of(given)


def test_a_single_input_of_a_job_needs_no_list_nor_does_a_single_file_of_an_app(
    project: Project, volunteers: Volunteers
):
    Path("one.json").write_text("1")
    program = "python3 period.py {input} {output} {arg:k}"
    project.create_app("single", program, "period.py", quorum=1)
    given = ("one.json", Path("one.json"), b"1")
    batch = project.submit("single", [Job(inputs=each, args={"k": float32(3)}) for each in given])
    assert [dict(job.args) for job in batch.jobs()] == [{"k": "3.0"}] * 3
    volunteers.work()
    assert [result.json() for result in batch.results(timeout=60)] == [{"got": 1}] * 3


def test_a_list_says_which_answer_belongs_to_which_input_and_where_it_comes_from(
    project: Project, volunteers: Volunteers, tmp_path: Path
):
    project.change_app("period", AppChanges(rules=RulesBody(max_error_results=0)))
    project.update_app("period", ["period.py"], command="python3 period.py {input} {output} {arg:k}")
    Path("stars").mkdir()
    Path("stars/vega.json").write_text("7")
    volunteers.failing = {"bad"}
    jobs = [
        Job(inputs=["stars/vega.json"], args={"k": "a b; 3"}, name="vega"),
        Job(inputs=[b"1"], args={"k": 2}, name="bad"),
    ]
    batch = project.submit("period", jobs)
    volunteers.work()
    results = {result.name: result for result in batch.results(timeout=60)}
    good, bad = results["vega"], results["bad"]
    assert (good.inputs, dict(good.args), good.host) == (("stars/vega.json",), {"k": "a b; 3"}, 1)
    assert good.result == f"period_{batch.id}_0_0"
    assert None not in (good.run_time, good.credit)
    assert (bad.inputs, dict(bad.args), bad.host, bad.result) == (
        ("",),
        {"k": "2"},
        1,
        f"period_{batch.id}_1_0",
    )
    for _ in range(2):  # written again, nothing is listed twice
        batch.save(tmp_path / "answers", timeout=60)
    with (tmp_path / "answers" / "jobs.csv").open(newline="") as file:
        listed = {row["name"]: row for row in csv.DictReader(file)}
        assert len(listed) == 2
    assert (listed["vega"]["inputs"], listed["vega"]["folder"]) == ("stars/vega.json", "vega")
    assert listed["vega"]["arguments"] == "k=a b; 3"
    assert (listed["bad"]["folder"], listed["bad"]["status"]) == ("", "failed")
    assert "too many computers" in listed["bad"]["error"]
    assert (tmp_path / "answers" / "vega" / "output").read_text() == '{"got":7}'


def test_answers_are_not_written_into_a_file(project: Project, volunteers: Volunteers, tmp_path: Path):
    batch = project.submit("period", [1])
    volunteers.work()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(JobError, match="cannot be used as a folder"):
        batch.save(tmp_path / "file", timeout=60)


@pytest.mark.parametrize("single", ["one.json", Path("one.json"), b"1", {"k": 1}, Job(inputs=[b"1"])])
def test_one_input_where_a_list_is_meant_is_refused(project: Project, single: object):
    with pytest.raises(JobError, match=r"submit\(app, \[input\]\)"):
        project.submit("period", single)  # pyright: ignore[reportArgumentType]  # what people write


def test_names_of_jobs_cannot_lead_out_of_the_folder(project: Project):
    with pytest.raises(RequestRefused, match="name"):
        project.submit("period", [Job(inputs=[b"1"], name="../../etc/x")])


def test_a_failed_job_tells_why(project: Project, volunteers: Volunteers):
    project.change_app("period", AppChanges(rules=RulesBody(max_error_results=0)))
    volunteers.failing = {"bad"}
    batch = project.submit("period", [Job(inputs=[b"1"], name="bad"), Job(inputs=[b"2"], name="good")])
    while volunteers.work():
        pass
    results = {result.name: result for result in batch.results(timeout=60)}
    bad = results["bad"]
    assert (bad.succeeded, bad.exit_status, len(bad.outputs)) == (False, 1, 0)
    assert "too many computers" in bad.error
    assert "it broke" in bad.stderr
    with pytest.raises(JobFailed, match="bad"):
        bad.json()
    assert results["good"].succeeded
    assert "failed" in repr(bad)


def test_waiting_has_an_end(project: Project):
    batch = project.submit("period", [1])
    with pytest.raises(TimeoutError, match="did not finish"):
        list(batch.results(timeout=0.05))
    with pytest.raises(TimeoutError):
        batch.wait(timeout=0.05, progress=True)


def test_a_cancelled_batch_ends(project: Project, world: World):
    batch = project.submit("period", [1, 2])
    assert batch.cancel().state == "cancelled"
    world.settle()
    assert [result.error for result in batch.results(timeout=60)] == ["The job was cancelled."] * 2


def test_more_jobs_than_a_request_takes_become_one_batch(project: Project, world: World):
    told: list[int] = []
    batch = project.submit("period", (Job(inputs=[b"same"]) for _ in range(2500)), progress=told.append)
    status = batch.status()
    assert (status.njobs, status.state, told) == (2500, "running", [1000, 2000, 2500])
    assert world.value("SELECT COUNT(*) FROM file WHERE name LIKE 'jf_%'") == 1
    assert len(list(batch.jobs())) == 2500


def test_the_bytes_of_input_files_are_counted_while_they_go_each_content_once(
    project: Project, tmp_path: Path
):
    (tmp_path / "table").write_bytes(bytes(300_000))
    told: list[tuple[int, int]] = []
    inputs = [tmp_path / "table", b"in memory", b"in memory"]
    project.submit("period", inputs, sending=lambda sent, total: told.append((sent, total)))
    assert {total for _, total in told} == {300_009}
    assert sorted(sent for sent, _ in told) == [sent for sent, _ in told]
    assert told[-1] == (300_009, 300_009)
    told.clear()
    project.submit("period", inputs, sending=lambda sent, total: told.append((sent, total)))
    assert told == []


def test_after_a_failed_upload_or_ctrl_c_the_others_end(project: Project, monkeypatch: pytest.MonkeyPatch):
    begun: list[str] = []
    failed = threading.Event()

    def put(sha256: str, source: bytes, *, sent: Callable[[int], None]) -> None:
        begun.append(sha256)
        if len(begun) == 1:
            failed.set()
            raise KeyboardInterrupt
        failed.wait(20)
        for _ in range(300_000):
            sent(1)

    monkeypatch.setattr(project.connection, "put_file", put)
    with pytest.raises(KeyboardInterrupt):
        project.submit("period", range(100))
    assert len(begun) < 30


def test_answers_in_the_json_that_python_writes_are_read(world: World, project: Project):
    batch = project.submit("period", [1])
    Volunteers(
        world, compute=lambda inputs: b'{"x": [NaN, -Infinity, 123456789012345678901234567890]}'
    ).work()
    (result,) = batch.results(timeout=60)
    nan, low, large = result.json()["x"]
    assert (nan != nan, low, large) == (True, float("-inf"), 123456789012345678901234567890)


def test_an_executor_waits_for_a_server_that_is_stopped_and_started_again(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(executor, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(project.connection, "_sleep", lambda seconds: None)
    client, requests = project.connection._client, iter(range(60))
    request = client.request

    def away(*words: Any, **more: Any) -> Any:
        if gone.is_set() and next(requests, None) is not None:
            raise httpx.ConnectError("refused")
        return request(*words, **more)

    gone = threading.Event()
    monkeypatch.setattr(client, "request", away)
    with project.executor("period") as pool:
        future = pool.submit(1)
        eventually(lambda: pool._sent == 1)
        gone.set()
        eventually(lambda: next(requests, None) is None)
        volunteers = Volunteers(world)
        eventually(lambda: bool(volunteers.work()) or future.done())
        later = pool.submit(2)
        eventually(lambda: bool(volunteers.work()) or later.done())
        assert [each.result(20).json()["got"] for each in (future, later)] == [1, 2]
    assert "does not answer; it is asked again for ten minutes" in caplog.text


def test_what_waits_to_be_sent_is_not_sent_to_be_cancelled(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batches, "MAX_JOBS_PER_REQUEST", 1)
    begun, go_on, put = threading.Event(), threading.Event(), project.connection.put_file

    def late(*words: Any, **more: Any) -> Any:
        begun.set()
        go_on.wait(20)
        return put(*words, **more)

    monkeypatch.setattr(project.connection, "put_file", late)
    pool = project.executor("period")
    futures = [pool.submit(number) for number in range(5)]
    begun.wait(20)
    leaving = threading.Thread(
        target=pool.shutdown, kwargs={"wait": False, "cancel_futures": True}, daemon=True
    )
    leaving.start()
    eventually(futures[4].cancelled)
    go_on.set()
    leaving.join(20)
    assert not leaving.is_alive()
    assert all(future.cancelled() for future in futures)
    assert pool.batch.status().njobs <= 1


def test_futures_are_cancelled_although_the_project_does_not_answer(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    def fail() -> None:
        raise Unreachable("gone")

    pool = project.executor("period")
    future = pool.submit(1)
    monkeypatch.setattr(pool.batch, "cancel", fail)
    eventually(lambda: pool._sent == 1)
    with pytest.raises(Unreachable):
        pool.shutdown(cancel_futures=True)
    assert future.cancelled()


def test_a_mistake_in_a_later_request_cancels_the_batch(project: Project):
    jobs = [Job(inputs=[b"x"]) for _ in range(1500)]
    jobs[1234] = Job(inputs={"unknown": b"x"})
    with pytest.raises(RequestRefused, match="Job 1234") as raised:
        project.submit("period", jobs)
    assert "has been cancelled" in raised.value.__notes__[0]
    assert [each.state for each in project.batches()] == ["cancelled"]


def test_a_mistake_in_the_first_request_leaves_nothing(project: Project):
    for wrong in (
        ["gone.json"],
        [Job(inputs={"unknown": b"x"})],
        [object()],
        [Job(inputs=[b"x"], args={"k": [1]})],
    ):
        with pytest.raises((JobError, RequestRefused)):
            project.submit("period", [b"fine", *wrong])
    assert project.batches() == []


def test_files_are_uploaded_once(project: Project, world: World, monkeypatch):
    project.submit("period", [b"one", b"two"])
    uploads: list[str] = []
    put = project.connection.put_file
    monkeypatch.setattr(
        project.connection, "put_file", lambda path, *a, **k: uploads.append(path) or put(path, *a, **k)
    )
    project.submit("period", [b"one", b"three"])
    assert len(uploads) == 1


def test_map_keeps_the_order(project: Project, busy_volunteers: Volunteers):
    assert [result.json()["got"] for result in project.map("period", [3, 1, 2])] == [3, 1, 2]


def test_the_executor_runs_jobs_on_volunteers_computers(project: Project, busy_volunteers: Volunteers):
    with project.executor("period", name="loop") as pool:
        futures = {pool.submit(n): n for n in range(10)}
        for future in concurrent.futures.as_completed(futures, timeout=60):
            assert future.result().json() == {"got": futures[future]}
    status = pool.batch.status()
    assert (status.name, status.state, status.njobs) == ("loop", "complete", 10)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(1)


def test_the_executor_maps_in_order(project: Project, busy_volunteers: Volunteers):
    with project.executor("period") as pool:
        assert [result.json()["got"] for result in pool.map([3, 1, 2], timeout=60)] == [3, 1, 2]


def test_one_wrong_job_does_not_harm_the_others_of_an_executor(project: Project, busy_volunteers: Volunteers):
    project.change_app("period", AppChanges(rules=RulesBody(max_error_results=0)))
    busy_volunteers.failing = {"bad"}
    with project.executor("period") as pool:
        good, wrong, missing, bad = (
            pool.submit(b"1"),
            pool.submit(Job(inputs={"unknown": b"2"})),
            pool.submit("gone.json"),
            pool.submit(Job(inputs=[b"3"], name="bad")),
        )
        assert good.result(60).bytes() == b'{"got":1}'
        with pytest.raises(RequestRefused, match="unknown"):
            wrong.result(60)
        with pytest.raises(JobError, match=r"gone\.json"):
            missing.result(60)
        with pytest.raises(JobFailed):
            bad.result(60)


def test_a_value_or_file_of_a_wrong_kind_is_the_matter_of_its_own_job_alone(
    project: Project, busy_volunteers: Volunteers, monkeypatch: pytest.MonkeyPatch
):
    Path("gone.json").write_text("3")
    put, small = project.connection.put_file, b"1"

    def lose(sha256: str, source: Path | bytes, **more: Any) -> Any:
        if isinstance(source, Path):
            source.unlink()  # between the look at it and its way
        return put(sha256, source, **more)

    monkeypatch.setattr(project.connection, "put_file", lose)
    with project.executor("period") as pool:
        futures = [pool.submit(each) for each in (small, Job(inputs=[print]), "gone.json", "b\udcff", b"5")]  # pyright: ignore[reportArgumentType]  # what people write
        for wrong in futures[1:4]:
            with pytest.raises((JobError, OSError)):
                wrong.result(60)
        assert [futures[place].result(60).json()["got"] for place in (0, 4)] == [1, 5]


@pytest.mark.parametrize("lost", ["QUERY_FILES", "ADD_JOBS"])
def test_jobs_that_are_being_sent_when_the_project_is_lost_end_and_so_does_the_executor(
    project: Project, monkeypatch: pytest.MonkeyPatch, lost: str
):
    monkeypatch.setattr(executor, "POLL_SECONDS", 0.1)
    call = project.connection.call

    def fail(endpoint: Endpoint[Any], *places: Any, **more: Any) -> Any:
        if endpoint is getattr(endpoints, lost):
            raise Unreachable("gone")
        return call(endpoint, *places, **more)

    monkeypatch.setattr(project.connection, "call", fail)
    pool = project.executor("period")
    future = pool.submit(1)
    with pytest.raises(Unreachable):
        future.result(20)
    leaving = threading.Thread(target=pool.shutdown, daemon=True)
    leaving.start()
    leaving.join(20)
    assert not leaving.is_alive()


def test_leaving_an_executor_by_an_exception_waits_for_no_job(
    project: Project, world: World, caplog: pytest.LogCaptureFixture
):
    pool = project.executor("period")
    future = pool.submit(1)
    with pytest.raises(ZeroDivisionError), pool:
        raise ZeroDivisionError
    assert not future.done()
    assert "Open jobs of batch 1: 1 of 1" in caplog.text
    volunteers = Volunteers(world)
    while not future.done():
        volunteers.work()
    assert pool.batch.status().state == "complete"


@pytest.mark.parametrize("broken", ["_settle", "_collect"])
def test_a_mistake_in_a_thread_of_an_executor_ends_all_its_futures(
    project: Project, busy_volunteers: Volunteers, monkeypatch: pytest.MonkeyPatch, broken: str
):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    pool = project.executor("period")
    monkeypatch.setattr(pool, broken, fail)
    with suppress(ZeroDivisionError):
        pool.submit(1).result(60)
    with pytest.raises(ZeroDivisionError):
        pool.submit(2).result(60)
    pool.shutdown(wait=False)


def test_an_executor_that_fails_while_it_is_closed_ends(project: Project, monkeypatch: pytest.MonkeyPatch):
    go_on, collect = threading.Event(), executor.JobExecutor._collect

    def late(pool: executor.JobExecutor) -> tuple[list[executor.JobFuture], bool]:
        go_on.wait(20)
        return collect(pool)

    monkeypatch.setattr(executor.JobExecutor, "_collect", late)
    pool = project.executor("period")
    closer = threading.Thread(target=pool.shutdown, daemon=True)
    closer.start()
    eventually(lambda: not pool._queue.empty())
    pool._fail(JobError("gone"))
    go_on.set()
    closer.join(20)
    assert not closer.is_alive()


def test_an_executor_can_be_left_at_once(project: Project, world: World):
    with project.executor("period") as pool:
        future = pool.submit(1)
        closer = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True})
        closer.start()
        while closer.is_alive():
            world.settle()
        closer.join()
    assert future.cancelled()


def test_a_job_that_failed_and_that_nobody_else_can_try_ends_its_future_with_what_went_wrong(
    project: Project, busy_volunteers: Volunteers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(executor, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(executor, "STUCK_SECONDS", 0.2)
    busy_volunteers.failing = {"bad"}
    with project.executor("period") as pool:
        good, bad = pool.submit(1), pool.submit(Job(inputs=[b"3"], name="bad"))
        assert good.result(60).json() == {"got": 1}
        with pytest.raises(
            JobFailed,
            match=r"no one available could take it except people who had it already.*[Ee]xit status",
        ):
            bad.result(60)
    status = pool.batch.status()
    assert (status.n_success, status.n_error, status.finished) == (1, 1, True)


def test_a_batch_ends_when_a_job_failed_and_nobody_else_can_try_it_and_its_last_line_is_told(
    project: Project, busy_volunteers: Volunteers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(batch_module, "POLL_SECONDS", 0.2)
    busy_volunteers.failing = {"bad"}
    batch = project.submit("period", [1, Job(inputs=[b"3"], name="bad")])
    good, bad = sorted(batch.results(60), key=lambda each: not each.succeeded)
    assert good.json() == {"got": 1}
    with pytest.raises(JobFailed, match=r"(?s)cancelled.*[Ee]xit status.*Its last line: "):
        bad.raise_for_error()
    assert batch.wait(60).finished
    batch.save(tmp_path)
    assert "Its last line: " in (tmp_path / "jobs.csv").read_text()


def test_a_future_is_cancelled_also_after_its_job_was_sent(project: Project, world: World):
    with project.executor("period") as pool:
        first, second = pool.submit(1), pool.submit(2)
        while len(list(pool.batch.jobs())) < 2:
            world.settle()
        assert first.cancel()
        assert first.cancel()  # once is enough
        assert concurrent.futures.wait([first], timeout=0).done
        jobs = list(pool.batch.jobs())
        assert [job.status for job in jobs] == ["cancelled", "waiting"]
        assert not second.done()
        volunteers = Volunteers(world)
        while not second.done():
            volunteers.work()
        assert not second.cancel()
    assert second.result().json() == {"got": 2}
    with pytest.raises(concurrent.futures.CancelledError):
        first.result()


def test_a_future_that_is_cancelled_before_it_is_sent_is_never_sent(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(executor, "COLLECT_SECONDS", 0.5)
    with project.executor("period") as pool:
        assert pool.submit(1).cancel()
    assert pool.batch.status().njobs == 0


def test_leaving_an_executor_says_what_is_open(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(executor, "TELL_SECONDS", 0.1)
    pool = project.executor("period")
    pool.submit(Job(inputs=[b"3"], name="third"))
    leaving = threading.Thread(target=pool.shutdown)
    leaving.start()
    eventually(lambda: "batch 1: 1 of 1" in caplog.text)
    assert "(third); 0 were sent to computers" in caplog.text
    assert "No volunteer's computer was in contact" in caplog.text
    volunteers = Volunteers(world)
    while leaving.is_alive():
        volunteers.work()


def test_functions_are_not_inputs(project: Project):
    with project.executor("period") as pool:
        with pytest.raises(TypeError, match="one input"):
            pool.submit(print, 3)
        pool.shutdown(cancel_futures=True)


def test_a_project_that_does_not_run_says_so_instead_of_waiting(world: World, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with LoopThread(world), connect(world, running=False) as project:
        project.create_app("plain", "cat {input}", stdout="out")
        batch = project.submit("plain", [1])
        with pytest.raises(NotRunning, match="cobblestone run"):
            batch.wait()
        with pytest.raises(NotRunning):
            project.executor("plain")


# -- apps ----------------------------------------------------------------------------------------------------


def test_a_new_version_has_one_number_more_and_keeps_the_rest(project: Project):
    Path("period.py").write_text("print(2)\n")
    assert project.update_app("period", ["period.py"]).number == "1.01"
    app = project.app("period")
    assert app.command == ["python3", "period.py", "{input}", "{output}"]
    assert [spec.name for spec in app.outputs] == ["output"]
    assert [version.number for version in project.versions("period")] == ["1.00", "1.01"]
    added = project.update_app(
        "period", ["period.py"], command="python3 period.py {input:table}", stdout="log.txt"
    )
    assert added.number == "1.02"
    assert [slot.name for slot in project.app("period").inputs] == ["table"]
    assert [spec.name for spec in project.app("period").outputs] == ["output", "log.txt"]


@pytest.mark.parametrize(("quorum", "needed"), [(None, 2), (1, 2), (3, 3)])
def test_an_app_with_spot_checks_begins_each_job_with_one_computer(
    project: Project, world: World, quorum: int | None, needed: int
):
    app = project.create_app("checked", "cat {input}", stdout="out", quorum=quorum, spot_checks=True)
    assert (app.dispatch.adaptive, app.rules.min_quorum, app.credit.system) == (True, needed, "steady")
    project.submit("checked", [b"1", b"2"])
    assert world.query("SELECT DISTINCT min_quorum, target_nresults FROM workunit") == [(1, 1)]


def test_an_app_is_not_made_twice(project: Project):
    with pytest.raises(Conflict, match="app update"):
        project.create_app("period", "cat {input}", stdout="out")


def test_a_taken_name_does_not_overwrite_the_app_s_functions(project: Project, world: World):
    Path("merge.py").write_text("def take(w): ...\n")
    target = world.ctx.folder.root / "functions" / "period" / "merge.py"
    with pytest.raises(Conflict):
        project.create_app("period", "cat {input}", stdout="out", assimilate="merge.py:take")
    assert not target.exists()


def test_functions_travel_into_the_project(project: Project, world: World, volunteers: Volunteers):
    Path("merge.py").write_text(
        "def take(workunit):\n    (workunit.folder / workunit.label).write_bytes(workunit.outputs['out'].read_bytes())\n"
    )
    project.create_app("merged", "cat {input}", stdout="out", assimilate="merge.py:take")
    assert project.app("merged").assimilator == "functions/merged/merge.py:take"
    project.submit("merged", [Job(inputs=[b"7"], name="seven")])
    volunteers.work()
    assert (world.ctx.folder.results / "merged" / "seven").read_bytes() == b'{"got":7}'


def test_a_script_for_a_shell_gets_versions_for_systems_that_have_one(project: Project):
    Path("run.sh").write_text("#!/bin/sh\ncp $1 $2\n")
    app = project.create_app("shell", "./run.sh {input} {output}", ["run.sh"])
    assert {version.platform for version in app.versions} == set(POSIX)
    assert {version.number for version in app.versions} == {"1.00"}


def test_a_command_for_certain_platforms_replaces_the_one_for_all_and_back(project: Project):
    with pytest.raises(RequestRefused, match="cannot be started on 'windows_x86_64'"):
        project.update_app("period", ["period.py"], platforms=["x86_64-pc-linux-gnu", "windows_x86_64"])
    project.update_app("period", ["period.py"], platforms=["x86_64-pc-linux-gnu", "arm64-apple-darwin"])
    found = {(each.platform, each.number) for each in project.app("period").versions}
    assert found == {("x86_64-pc-linux-gnu", "1.00"), ("arm64-apple-darwin", "1.00")}
    project.update_app("period", ["period.py"])
    assert {(each.platform, each.number) for each in project.app("period").versions} == {("any", "1.01")}


def test_a_native_app_gets_a_version_for_each_platform(project: Project):
    Path("gaps").write_bytes(b"\x7fELF")
    Path("gaps.exe").write_bytes(b"MZ")
    Path("other").write_bytes(b"\x7fELF\2\1\1" + bytes(11) + b"\x3e\0")
    Path("table.dat").write_bytes(b"1")
    project.create_app("gaps", inputs=["in.txt"], outputs=["out.txt"], quorum=2)
    linux = project.add_native_version(
        "gaps", platform="x86_64-pc-linux-gnu", main="gaps", files=["table.dat"]
    )
    windows = project.add_native_version(
        "gaps", platform="windows_x86_64", main="gaps.exe", command_line="-w"
    )
    assert [file.open_name for file in linux.files] == ["gaps", "table.dat"]
    assert [file.executable for file in linux.files] == [True, False]
    assert windows.files[0].file.endswith(".exe")
    assert windows.command_line == "-w"
    assert {each.platform for each in project.app("gaps").versions} == {
        "x86_64-pc-linux-gnu",
        "windows_x86_64",
    }
    assert project.deprecate_version(linux.id).deprecated
    with pytest.raises(JobError, match="app update"):
        project.add_native_version("period", platform="x86_64-pc-linux-gnu", main="gaps")
    with pytest.raises(JobError, match="app version add"):
        project.update_app("gaps", [])
    with pytest.raises(JobError, match="cannot be started on windows_x86_64, but on x86_64-pc-linux-gnu"):
        project.add_native_version("gaps", platform="windows_x86_64", main="other")
    with pytest.raises(JobError, match="one platform"):
        project.add_native_version("gaps", platform="any", main="gaps")
    with pytest.raises(JobError, match="at least one output"):
        project.create_app("empty")


def test_unknown_things_are_not_found(project: Project):
    for look in (lambda: project.app("nope"), lambda: project.batch(77), lambda: project.app("a/b?c")):
        with pytest.raises(NotFound):
            look()


# -- administration ------------------------------------------------------------------------------------------


def test_teams_are_listed_and_joined_however_many_there_are(project: Project, world: World):
    user = project.admin.create_user("a@example.org", "A", password="long enough")
    rows = [(f"Team {n}", f"team {n}", user.id) for n in range(1, 2002)]
    insert = "INSERT INTO team (name, name_lc, founder_id) VALUES (?, ?, ?)"
    world.write(lambda tx: tx.execute_many(insert, rows))
    assert [each.id for each in project.admin.teams()] == list(range(1, 2002))
    assert project.admin.join_team("2001", user.id).name == "Team 2001"
    assert project.admin.join_team("team 1999", user.id).id == 1999


def test_the_operator_s_part(project: Project):
    admin = project.admin
    token = admin.create_token("bob", ["read"], days=1)
    assert token.token.startswith("cob_")
    assert not admin.revoke_token(token.id).usable
    assert {each.name for each in admin.tokens()} == {"bob", "sdk"}
    user = admin.create_user("a@example.org", "A", password="long enough")
    assert len(user.authenticator) == 32
    team = admin.create_team("Reds", user.id)
    other = admin.create_user("b@example.org", "B")
    assert admin.join_team("reds", other.id).id == team.id
    assert admin.join_team(str(team.id), other.id).id == team.id
    for unknown in ("blues", "99"):
        with pytest.raises(NotFound, match="There is no team"):
            admin.join_team(unknown, other.id)
    assert [each.team_id for each in admin.users()] == [team.id, team.id]
    assert admin.add_news("Hello", "World").id == 1
    assert project.status().counts.users == 2


def test_a_key_is_rotated_and_everything_signed_anew(project: Project, world: World):
    from cobblestone.sdk.api.signing import rotate_key

    keys = world.ctx.folder.keys
    first = (keys / "code_sign_private").read_text()
    rotated = rotate_key(project.connection, world.ctx.folder.root)
    assert rotated.versions_changed == 1
    private = decode_private_key((keys / "code_sign_private").read_text())
    assert encode_public_key(private.public_key()).strip() == rotated.public_key.strip()
    assert (keys / "code_sign_public").read_text().strip() == rotated.public_key.strip()
    assert (keys / "retired" / "code_sign_private_1").read_text() == first
    import msgspec

    for file in msgspec.json.decode(world.value("SELECT files FROM app_version")):
        assert verify_md5(private.public_key(), file["md5"], file["signature"])
    rotate_key(project.connection, world.ctx.folder.root)
    found = project.connection.call(endpoints.LIST_KEYS).keys
    assert [(key.current, key.has_successor_signature) for key in found] == [
        (True, False),
        (False, True),
        (False, True),
    ]


def test_an_interrupted_rotation_is_finished(project: Project, world: World, monkeypatch):
    from cobblestone.sdk.api import signing

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    root, keys = world.ctx.folder.root, world.ctx.folder.keys
    with monkeypatch.context() as patch:
        patch.setattr(signing, "_put_in_place", killed)
        with pytest.raises(KeyboardInterrupt):
            signing.rotate_key(project.connection, root)
    fresh = (keys / "code_sign_private.new").read_text()
    signing.rotate_key(project.connection, root)
    assert (keys / "code_sign_private").read_text() == fresh
    assert not (keys / "code_sign_private.new").exists()
    with monkeypatch.context() as patch:
        call = project.connection.call

        def killed_in_between(endpoint: Endpoint[Any], **options: Any) -> object:
            return killed() if endpoint is endpoints.CHANGE_KEY else call(endpoint, **options)

        patch.setattr(project.connection, "call", killed_in_between)
        with pytest.raises(KeyboardInterrupt):
            signing.rotate_key(project.connection, root)
    signing.rotate_key(project.connection, root)
    assert world.value("SELECT COUNT(*) FROM code_sign_key") == 3


def test_signing_on_another_machine(project: Project, world: World, tmp_path: Path):
    from cobblestone.sdk.api import signing
    from cobblestone.sdk.api.signing import read_private_key, write_key_pair

    private_file = world.ctx.folder.code_sign_private
    offline = tmp_path / "offline.key"
    private_file.rename(offline)
    project.update_app("period", ["period.py"], command="python3 period.py {input} {output:o}", outputs=["o"])
    assert not project.app("period").versions[-1].signed
    stick = tmp_path / "stick"
    assert len(signing.export_manifest(project.connection, stick, everything=False).files) == 1
    signing.sign_manifest(stick, read_private_key(offline))
    assert signing.import_signatures(project.connection, signing.read_signatures(stick)).still_unsigned == []
    assert project.app("period").versions[-1].signed

    # another key: everything is signed anew, and the old key vouches for it
    new = write_key_pair(tmp_path / "new.key", tmp_path / "new.key.pub")
    all_files = tmp_path / "all"
    signing.export_manifest(project.connection, all_files, everything=True)
    with pytest.raises(Exception, match="--old-key"):
        signing.sign_manifest(all_files, new)
    signing.sign_manifest(all_files, new, [read_private_key(offline)])
    reply = signing.import_signatures(project.connection, signing.read_signatures(all_files))
    assert (reply.versions_changed, reply.still_unsigned) == (2, [])


def test_a_changed_file_is_not_signed(project: Project, world: World, tmp_path: Path):
    from cobblestone.sdk.api import signing

    manifest = signing.export_manifest(project.connection, tmp_path / "m", everything=True)
    (tmp_path / "m" / "files" / manifest.files[0].file).write_bytes(b"evil")
    with pytest.raises(JobError, match="not the file described in the manifest"):
        signing.sign_manifest(tmp_path / "m", world.key)


def test_a_proposed_deadline_is_shown_and_applied(
    project: Project, volunteers: Volunteers, world: World, capsys: pytest.CaptureFixture[str]
):
    project.submit("period", list(range(20)))
    for _ in range(3):  # a new computer begins with few
        volunteers.work()
    world.write(
        lambda tx: tx.execute("UPDATE result SET elapsed_time = 3600, received_time = sent_time + 86400")
    )
    found = project.propose_deadline("period")
    assert (found.n, found.run_time, found.turnaround, found.proposed) == (20, 3600, 86400, 2 * 86400)
    text = " ".join(deadline_lines(found, applied=False))
    assert "95 % took at most 1 h to compute, and at most 1 d to come back." in text
    assert "Proposed: 2 d. Set it with: cobblestone app deadline period --apply" in text
