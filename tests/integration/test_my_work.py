"""The pages of accounts that may submit: batches, failures, answers, and a new batch from files or a table."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from lxml import html
from tests.helpers.project_world import World, failed
from tests.helpers.visitors import Visitor, text_of
from tests.helpers.volunteers import email

from cobblestone.domain.apps import App
from cobblestone.domain.hosts import Host
from cobblestone.domain.job_form import InputSlot, JobForm
from cobblestone.domain.people import SubmitRights
from cobblestone.domain.values import UserId
from cobblestone.domain.work import JobLimits, OutputSpec, ReplicationRules
from cobblestone.server.web.submitting import drafts
from cobblestone.service import context
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts
from cobblestone.store.work import submitters
from cobblestone.wire.scheduler.report import ReportedResult

COMMAND = ("python3", "period.py", "{input}", "{output}", "--band", "{arg:band}")
Files = dict[str, bytes]


class Lab:
    """A project with an app, and Ada, who may submit its jobs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.people = {name: Visitor(world) for name in ("ada", "bruno", "nobody")}
        for name in ("ada", "bruno"):
            world.user(name)
            self.people[name].log_in(name)
        self.ada = self.people["ada"]
        self.app = self.add_app("period", COMMAND)
        self.allow("ada", SubmitRights())
        self.host = world.host(world.user("volunteer"))
        self.host.rpc()

    def add_app(self, name: str, command: tuple[str, ...]) -> App:
        rules = ReplicationRules(min_quorum=1, target_nresults=1, max_error_results=0)
        app = self.world.add_app(name, rules=rules, outputs=(OutputSpec(open_name="output"),),
            limits=JobLimits(rsc_fpops_est=7.2e12))  # fmt: skip
        form = JobForm(command=command, inputs=(InputSlot(name="input"),))
        return self.world.write(lambda tx: apps.update_app(tx, app, form=form))

    def allow(self, name: str, rights: SubmitRights) -> None:
        user_id = UserId(
            int(self.world.value("SELECT id FROM user_account WHERE email_addr = ?", email(name)))
        )
        self.world.write(lambda tx: submitters.allow(tx, user_id, rights, now=self.world.now))

    def give(
        self, given: Files, table: bytes | None = None, app: str = "period", **typed: str
    ) -> httpx.Response:
        """Send the form of a new batch as a browser without scripts does."""
        address = f"/my_batch_new.php?app={app}"
        parts = [("inputs", (name, content)) for name, content in given.items()]
        parts += [("table", ("jobs.csv", table))] if table is not None else []
        data = {**self.hidden(self.ada.get(address)), **typed}
        return self.world.run(self.ada.http.post(address, data=data, files=parts or [("inputs", ("", b""))]))

    def hidden(self, page: httpx.Response) -> dict[str, str]:
        """The hidden fields of the form in the middle of a page."""
        found = html.fromstring(page.text).xpath("//main//form")[0].xpath(".//input[@type='hidden']")
        return {field.get("name"): field.get("value") for field in found}

    def submit(self, preview: httpx.Response) -> httpx.Response:
        parts = {name: (None, value) for name, value in self.hidden(preview).items()}
        return self.world.run(self.ada.http.post("/my_batch_submit.php", files=parts))

    def batch(self, files: Files, table: bytes | None = None, **typed: str) -> int:
        """Submit a batch."""
        answer = self.submit(self.give(files, table, **typed))
        assert answer.status_code == 303, text_of(answer)
        return int(answer.headers["location"].rpartition("=")[2])

    def compute(self, answers: dict[str, bytes]) -> None:
        """Let the volunteer compute all that there is: jobs by their names; others fail."""
        self.world.settle()
        self.host.rpc(ask=1e6)
        while self.host.held:
            self.world.now += 7200
            self.host.rpc(ask=1e6, reports=[self.report(name, answers) for name in sorted(self.host.held)])
            self.world.settle()

    def report(self, name: str, answers: dict[str, bytes]) -> ReportedResult:
        label = self.world.value(
            "SELECT w.label FROM workunit w JOIN result r ON r.workunit_id = w.id WHERE r.name = ?", name
        )
        if label in answers:
            return self.host.finish(name, answers[label], cpu_time=7200.0)
        return failed(name, exit_status=7, stderr=f"reading\nno light in <frame> {label[-1]}\n")

    def act(self, batch: int, action: str) -> httpx.Response:
        token = self.hidden(self.ada.get(f"/my_batch.php?id={batch}"))["form_token"]
        return self.ada.post("/my_batch_do.php", form_token=token, action=action, id=str(batch))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    world = World(tmp_path / "project")
    lab = Lab(world)
    yield lab
    for visitor in lab.people.values():
        world.run(visitor.http.aclose())
    world.close()


def jobs_of(lab: Lab) -> int:
    return int(lab.world.value("SELECT count(*) FROM workunit") or 0)


def test_only_accounts_that_may_submit_see_the_pages_and_only_their_own_batches(lab: Lab):
    batch = lab.batch({"a.txt": b"1"}, arg_band="5")
    for page in ("my_work.php", f"my_batch.php?id={batch}", "my_batch_new.php?app=period",
                 f"my_answers_zip.php?id={batch}", f"my_answers_csv.php?id={batch}"):  # fmt: skip
        found = {who: visitor.get("/" + page).status_code for who, visitor in lab.people.items()}
        assert found == {"ada": 200, "bruno": 403, "nobody": 303}, page
    assert "my_work.php" in lab.ada.get("/home.php").text
    assert "my_work.php" not in lab.people["bruno"].get("/home.php").text
    lab.add_app("other", COMMAND)
    lab.allow("bruno", SubmitRights(apps=("other",)))
    bruno = lab.people["bruno"]
    assert "period" not in bruno.get("/my_work.php").text
    assert bruno.get("/my_batch_new.php?app=period").status_code == 403
    for page in ("my_batch.php", "my_answers_zip.php", "my_answers_csv.php"):
        assert bruno.get(f"/{page}?id={batch}").status_code == 404
    token = lab.hidden(bruno.get("/my_batch_new.php?app=other"))["form_token"]
    assert bruno.post("/my_batch_do.php", form_token=token, action="cancel", id=str(batch)).status_code == 404


def test_files_become_jobs_that_are_shown_with_their_price_before_they_are_submitted(lab: Lab):
    preview = lab.give({"low.dat": b"12", "high.dat": b"345"}, arg_band="4 to 5", name="bands")
    said = text_of(preview)
    assert "python3 period.py input.dat output --band '4 to 5'" in said
    assert "input.dat ← low.dat 2 bytes" in said
    assert "Core-hours, about2.00 (1.00 per job)" in said  # 7.2e12 operations at 2e9 a second
    assert jobs_of(lab) == 0, "nothing is made before the last step"
    first, again = lab.submit(preview), lab.submit(preview)
    assert first.headers["location"] == again.headers["location"] == "/my_batch.php?id=1"
    assert jobs_of(lab) == 2
    assert "1 bands" in text_of(lab.ada.get("/my_work.php"))


def test_a_script_sends_only_files_that_the_project_lacks(lab: Lab):
    page = lab.ada.get("/my_batch_new.php?app=period")
    header = {"x-form-token": lab.hidden(page)["form_token"]}
    content = b"light"
    sha256 = hashlib.sha256(content).hexdigest()

    def call(method: str, address: str, **options: Any) -> httpx.Response:
        return lab.world.run(lab.ada.http.request(method, address, headers=header, **options))

    wanted = {"names": [f"jf_{sha256}"]}
    assert call("POST", "/my_files.php", json=wanted).json()["missing"] == [f"jf_{sha256}"]
    assert (
        call("PUT", f"/my_file.php?sha256={sha256}", content=b"dark").json()["error"]["code"] == "wrong_hash"
    )
    assert call("PUT", f"/my_file.php?sha256={sha256}", content=content).status_code == 200
    assert call("POST", "/my_files.php", json=wanted).json()["missing"] == []
    given = f'{{"files": [{{"name": "sky/a.fits", "sha256": "{sha256}"}}]}}'
    assert "input.fits ← sky/a.fits 5 bytes" in text_of(lab.give({}, arg_band="1", files=given))
    header["x-form-token"] = "another"
    assert call("PUT", f"/my_file.php?sha256={sha256}", content=content).status_code == 403
    missing = given.replace(sha256, 64 * "0")
    assert "is not stored" in text_of(lab.give({}, arg_band="1", files=missing))


GOOD = b"input,band,name\na.txt,1,first\nsub/b.txt,2,second\n"


def test_a_row_of_a_table_is_a_job(lab: Lab):
    batch = lab.batch({"a.txt": b"1", "b.txt": b"2"}, b"\xef\xbb\xbf" + GOOD.replace(b",", b";"))
    lab.compute({"first": b"-1.5\n", "second": b"=HYPERLINK()"})
    table = list(csv.DictReader(io.StringIO(lab.ada.get(f"/my_answers_csv.php?id={batch}").text)))
    assert [(row["name"], row["arguments"], row["output:output"]) for row in table] == [
        ("first", "band=1", "-1.5"), ("second", "band=2", "'=HYPERLINK()")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (GOOD + b"gone.txt,3,third\n", "Row 4, column input: There is no file 'gone.txt'"),
        (GOOD + b",3,third\n", "Row 4, column input: The name of the file is missing."),
        (GOOD + b"a.txt,3,first\n", "Row 4, column name: Another row has this name, too."),
        (GOOD + b"a.txt,3,x/y\n", "Row 4, column name: `name` is"),
        (GOOD + b"\n,,\na.txt,3,third\n", "Row 4: The row is empty. Row 5: The row is empty."),
        (GOOD + b"a.txt,3\n", "Row 4: The row has values: 2, but the header has columns: 3."),
        (GOOD + b"a.txt,\xe9,third\n", "Row 4, column band: The text is not UTF-8."),
        (GOOD + b'a.txt,"3,third\nb.txt,4,fourth\n', "Row 4, column band: A quote"),
        (b"input,input,band\na.txt,a.txt,1\n", "Row 1, column input: The column 'input' occurs twice."),
        (b"input,bend\na.txt,1\n", "Row 1, column bend: The app has no input and no argument of this name."),
        (b"band\n1\n", "Row 1, column input: This column is missing"),
        (b"input,band\n", "Row 1: The table has no rows"),
        (b"", "Row 1: The first line must name the columns"),
        (b"PK\x03\x04" + bytes(200), "Row 1: This is a packed archive, not a table."),
        (b"input,band\n" + b"a.txt,1\n" * 100_000, "Row 10002: The table has more than 10000 jobs."),
        (b"x" * (drafts.MAX_TABLE_BYTES + 1), "Row 1: The table is larger than 8 MB."),
        (b"input,band,priority\na.txt,1,9\n", "Only the project's operators set a priority above 0."),
    ],
)
def test_each_fault_of_a_table_is_named_with_its_place_and_nothing_is_made(lab: Lab, table: bytes, said: str):
    answer = lab.give({"a.txt": b"1", "b.txt": b"2"}, table)
    assert answer.status_code == 422
    assert said in text_of(answer)
    assert jobs_of(lab) == 0


def test_faults_are_said_in_the_language_of_the_page(lab: Lab):
    lab.ada.get("/language.php?to=fr")
    assert "Ligne 4" in text_of(lab.give({"a.txt": b"1", "b.txt": b"2"}, GOOD + b"\na.txt,1,x\n"))


def test_what_the_api_refuses_is_said_in_the_language_of_the_page_and_in_english_by_the_api(lab: Lab):
    two: Files = {"a.txt": b"1", "b.txt": b"2"}
    lab.allow("ada", SubmitRights(max_jobs=1))
    for code, missing, many in (
        ("en", "Job 0 (a): the command uses {arg:band}", "You may submit 1 more job until"),
        (
            "fr",
            "Travail 0 (a) : la commande utilise {arg:band}",
            "Vous pouvez encore soumettre 1 travail avant",
        ),
        ("sk", "Práca 0 (a): príkaz používa {arg:band}", "môžete zadať ešte 1 prácu."),
    ):
        lab.ada.get(f"/language.php?to={code}")
        assert missing in text_of(lab.give({"a.txt": b"1"}))
        assert many in text_of(lab.give(two, arg_band="1"))
    refused = lab.ada.get("/my_batch.php?id=77")
    assert [refused.status_code, "Dávka 77 neexistuje" in text_of(refused)] == [404, True]


def test_without_files_or_with_two_of_one_name_or_too_many_jobs_nothing_is_made(lab: Lab):
    assert "Choose the files first" in text_of(lab.give({}, arg_band="1"))
    both = ",".join(f'{{"name": "a.txt", "sha256": "{64 * each}"}}' for each in "01")
    twice = f'{{"files": [{both}]}}'
    assert "Two different files are called 'a.txt'." in text_of(lab.give({}, arg_band="1", files=twice))
    assert "the command uses {arg:band}" in text_of(lab.give({"a.txt": b"1"}))
    lab.allow("ada", SubmitRights(max_jobs=1))
    two: Files = {"a.txt": b"1", "b.txt": b"2"}
    assert "You may submit 1 more job until some are finished." in text_of(lab.give(two, arg_band="1"))
    lab.allow("ada", SubmitRights(max_jobs=2))
    preview = lab.give({"a.txt": b"1", "b.txt": b"2"}, arg_band="1")
    lab.allow("ada", SubmitRights(max_jobs=1))
    assert lab.submit(preview).status_code == 409
    assert jobs_of(lab) == 0


def test_failures_are_grouped_and_jobs_filtered_and_failed_ones_submitted_again(lab: Lab):
    names = [f"night_{n}" for n in range(5)]
    batch = lab.batch({f"{name}.txt": name.encode() for name in names}, arg_band="1")
    lab.compute(dict.fromkeys(names[:2], b"ok"))
    page = lab.ada.get(f"/my_batch.php?id={batch}")
    (row,) = html.fromstring(page.text).xpath("//table[thead//th='Last line of its output']/tbody/tr")
    cells = [" ".join(cell.text_content().split()) for cell in row.xpath("td")]
    assert cells[0] == "Error Exit status 7 (0x7)."
    assert re.fullmatch(r"no light in <frame> \dAll that it wrotereading no light in <frame> \d", cells[1])
    assert cells[2:5] == ["period 1.00 anyLinux Debian", "3", "3"]
    assert "2 of 5 done, 3 failed" in text_of(page)
    (hours,) = html.fromstring(page.text).xpath("//dt[.='Core-hours, about']/following-sibling::dd[1]/text()")
    assert hours == "4.08", "two of 7200 seconds, three of 100"

    def listed(query: str) -> list[str]:
        tree = html.fromstring(lab.ada.get(f"/my_batch.php?id={batch}&{query}").text)
        return [link.text for link in tree.xpath("//section[h2='Jobs']//tbody//th/a")]

    assert listed("state=done") == names[:2]
    assert listed("state=failed&q=NIGHT_3") == ["night_3"]
    assert listed("q=night%25") == [], "a character of the pattern language means itself"
    assert lab.act(batch, "retry").headers["location"] == "/my_batch.php?id=2"
    assert "2 retry of period" in text_of(lab.ada.get("/my_work.php"))
    assert lab.act(2, "cancel").status_code == 303
    assert lab.act(batch, "retire").status_code == 303
    assert "retired" in text_of(lab.ada.get(f"/my_batch.php?id={batch}"))


def test_the_zip_holds_all_answers_and_no_name_leads_out_of_it(lab: Lab):
    table = b"input,band,name\n" + b"".join(b"a.txt,%d,%s\n" % (n, name) for n, name in enumerate(NAMES))
    batch = lab.batch({"a.txt": b"1"}, table)
    lab.compute({name.decode(): name for name in NAMES})
    answer = lab.ada.get(f"/my_answers_zip.php?id={batch}")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        found = {name: archive.read(f"{name}") for name in archive.namelist()}
    assert sorted(found.values()) == sorted(NAMES)
    folders = [name.removesuffix("/output") for name in found]
    assert all("/" not in name and name not in (".", "..") and ":" not in name for name in folders)
    assert len({name.casefold() for name in folders}) == len(NAMES)
    job = lab.world.value("SELECT id FROM workunit WHERE label = '..'")
    assert lab.ada.get(f"/my_answer.php?id={batch}&job={job}&name=output").content == b".."


NAMES = (b"..", b".", b"con", b"C:", b"a", b"A")


def test_the_projects_computers_are_looked_at_once_where_that_takes_long(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    lab.give({"a.dat": b"a"}, band="low")
    looked: list[int] = []
    recent = hosts.recent_hosts

    def noted(db: Database, *, limit: int) -> list[Host]:
        looked.append(limit)
        return recent(db, limit=limit)

    monkeypatch.setattr(hosts, "recent_hosts", noted)
    monkeypatch.setattr(context, "QUICK", -1.0)
    monkeypatch.setattr(context, "MAX_SHARE", 1e-9)
    for _ in range(3):
        assert lab.ada.get("/my_work.php").status_code == 200
    assert len(looked) == 1
