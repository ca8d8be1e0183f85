"""What projects granted reaches the account manager: from a project of ours in each way, and from hostile ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.manager_world import Caller, ManagerWorld
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import URL as PROJECT_URL
from tests.helpers.project_world import World, succeeded

from cobblestone.account_manager import collector
from cobblestone.account_manager.core import operation
from cobblestone.account_manager.core.folder import AccountingSection
from cobblestone.account_manager.core.projects_web import check_address
from cobblestone.account_manager.store import accounts, granted
from cobblestone.account_manager.store.granted import AccountStanding
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.people import Scope
from cobblestone.domain.work import OutputSpec
from cobblestone.policy.account_manager.accounting_policies import CEILING, HOLD, KAPPA, STARTER_POOL
from cobblestone.store.people import users
from cobblestone.wire.client.account_manager import MAX_JOBS, parse_manager_request
from cobblestone.wire.project.signatures import HEADER, SignedExchange, sign_reply

DAY = 86400.0
TOKEN = "cob_" + "t" * 40
NAME = "a" * 32


class Family:
    """A project and an account manager that asks it, on one clock."""

    def __init__(self, root: Path) -> None:
        self.project = World(root / "project")
        self.manager = ManagerWorld(root / "manager", projects_http=self.project.http._transport)
        self.manager.loop.close()
        self.manager.loop = self.project.loop
        self.project.now = self.manager.now
        url = PROJECT_URL
        self.id: int = self.manager.write(
            lambda tx: operation.add_project(
                tx, url, signature=operation.sign_address(self.manager.ctx.folder, url), now=self.manager.now
            )
        )
        app = self.project.add_app(outputs=(OutputSpec(open_name="out", optional=True),))
        self.project.add_jobs(app, 5)
        self.manager.read(self.manager.ctx.projects.load)
        self.weak = self.manager.join()
        self.account = int(self.weak.partition("_")[0])
        self.manager.run(self.manager.maker.step())
        found = self.manager.read(lambda db: accounts.project_accounts(db, self.account))[self.id]
        named = self.project.run(
            self.project.ctx.store.aread(lambda db: users.user_by_authenticator(db, found.weak_key))
        )
        assert named is not None
        self.host = self.project.host(named[0].authenticator, p_fpops=4.32e9)
        self.caller = Caller(self.manager, authenticator=self.weak, totals={PROJECT_URL: [0.0] * 6})
        self.token = (
            ApiClient(self.project, [Scope.ACCOUNTING]).headers["Authorization"].removeprefix("Bearer ")
        )

    def close(self) -> None:
        self.manager.release()
        self.project.close()

    def use(self, policy: str) -> None:
        """Have the project asked in this way."""
        set_policy(self.manager, policy)
        self.manager.write(
            lambda tx: operation.change_accounting(
                tx, str(self.id), token=self.token, vouched=True, now=self.manager.now
            )
        )

    def passes(self, seconds: float) -> None:
        self.manager.now += seconds
        self.project.now = self.manager.now

    def call(self) -> None:
        """Let the client call the account manager, with a list of its jobs."""
        reply = self.caller.call()
        assert (reply.send_tasks == "all") is (self.manager.ctx.settings.accounting.policy == "jobs")

    def standing(self) -> AccountStanding | None:
        return standing_of(self.manager, self.account)


def set_policy(manager: ManagerWorld, policy: str) -> None:
    section = AccountingSection.model_validate({"policy": policy})
    manager.ctx.settings = manager.ctx.settings.model_copy(update={"accounting": section})


def standing_of(manager: ManagerWorld, account: int) -> AccountStanding | None:
    return manager.read(lambda db: granted.standing(db, account, now=manager.now))


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    made = Family(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("policy", ["sums", "totals", "jobs"])
def test_what_a_project_granted_is_shown_and_grows_into_place(family: Family, policy: str):
    family.use(policy)
    family.call()
    family.manager.run(family.manager.collector.step())
    family.host.rpc(ask=1)
    job = next(iter(family.host.held))
    family.caller.jobs = [(PROJECT_URL, job)]
    family.passes(DAY / 2)
    family.caller.works(PROJECT_URL, DAY / 2)
    family.call()
    family.host.rpc(reports=[replace(succeeded(job), final_cpu_time=1000.0)])
    family.project.settle()
    family.passes(DAY)
    family.manager.run(family.manager.collector.step())
    worth = family.project.value("SELECT total_credit FROM user_account WHERE total_credit > 0")
    now = family.standing()
    assert now is not None
    assert now.target.final == pytest.approx(worth)
    assert worth <= now.target.whole <= worth * (1 + KAPPA) + STARTER_POOL
    assert now.target.waiting > 0
    family.passes(DAY / 4)
    later = family.standing()
    assert later is not None
    assert later.shown > now.shown
    family.passes(3 * DAY)
    last = family.standing()
    assert last is not None
    assert last.shown == pytest.approx(last.target.whole, rel=0.05)
    page = family.manager.get("home.php").text
    assert "Projects granted" in page
    assert "estimate only" not in page
    family.manager.run(family.manager.collector.step())
    again = family.standing()
    assert again is not None
    assert again.target.final == pytest.approx(worth)


@pytest.mark.parametrize(
    "rubbish", ["<result>" * 100_000, "<result><name>" * 50_000, "<result><name>" + " " * 500_000]
)
def test_lists_of_jobs_that_are_rubbish_are_read_in_linear_time(rubbish: str):
    good = f"<result><name>job_1</name><project_url>{PROJECT_URL}</project_url></result>"
    body = f"<acct_mgr_request><name>ann</name><results>{good}{rubbish}</results></acct_mgr_request>"
    assert parse_manager_request(body.encode()).jobs == ((PROJECT_URL, "job_1"),)


def test_a_client_lists_no_more_jobs_than_are_read():
    job = f"<result><name>job_1</name><project_url>{PROJECT_URL}</project_url></result>"
    body = f"<acct_mgr_request><results>{job * (MAX_JOBS + 5)}</results></acct_mgr_request>"
    assert len(parse_manager_request(body.encode()).jobs) == MAX_JOBS


def test_a_project_that_does_not_tell_keeps_its_estimate(family: Family):
    family.call()
    family.passes(DAY)
    family.caller.works(PROJECT_URL, DAY)
    family.call()
    family.manager.run(family.manager.collector.step())
    assert family.standing() is None
    assert "estimated credit in total" in family.manager.get("home.php").text
    assert "its credit stays an estimate" in family.manager.get("ops.php").text


def test_a_revoked_token_is_said_and_what_was_granted_stays(family: Family):
    family.use("totals")
    family.project.write(lambda tx: tx.execute("UPDATE api_token SET revoke_time = 1"))
    family.manager.run(family.manager.collector.step())
    state = family.manager.read(lambda db: granted.project_accounting(db, family.id))
    assert "401" in state.problem
    assert state.next_ask > family.manager.now
    assert "401" in family.manager.get("ops.php").text
    assert family.manager.run(family.manager.collector.step()) == 0


def test_an_account_of_a_project_counts_for_one_person(family: Family):
    family.use("totals")
    weak = family.manager.read(lambda db: accounts.project_accounts(db, family.account))[family.id].weak_key
    family.manager.http = family.manager.browser()
    other = int(family.manager.join("Bob", "bob@example.org").partition("_")[0])
    family.manager.write(lambda tx: accounts.set_own(tx, other, family.id, weak))
    family.manager.run(family.manager.collector.step())
    names = family.manager.read(lambda db: granted.told_names(db, family.id))
    assert list(names.values()) == [family.account]


# -- hostile projects -------------------------------------------------------------------------------------


class Liar:
    """A project that answers as it likes; signed, unless it is told otherwise."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Any], Any]] = {
            "accounts": lambda asked: {"accounts": [f"{number:032x}" for number in range(len(asked["keys"]))]}
        }
        self.signed = True
        self.asked: list[str] = []
        self.now = 0.0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        what = request.url.path.rpartition("/")[2]
        self.asked.append(what)
        content = request.content
        query = dict(request.url.params)
        answer = self.answers[what](json.loads(content) if content else query)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        target = request.url.raw_path.decode().partition("/api/v1")[2]
        exchange = SignedExchange(method=request.method, target=target, question=content, answer=body)
        token = TOKEN if self.signed else "guess"
        return httpx.Response(200, content=body, headers={HEADER: sign_reply(token, exchange, now=self.now)})


class Deceived:
    """An account manager that asks a liar about one person who computes."""

    def __init__(self, root: Path, policy: str = "totals", *, database: str = "") -> None:
        self.liar = Liar()
        self.manager = ManagerWorld(root, projects_http=httpx.MockTransport(self.liar), database=database)
        self.liar.now = self.manager.now
        set_policy(self.manager, policy)
        url = "https://liar.example.org/"
        self.id: int = self.manager.write(
            lambda tx: operation.add_project(
                tx, url, signature=operation.sign_address(self.manager.ctx.folder, url), now=self.manager.now
            )
        )
        self.manager.read(self.manager.ctx.projects.load)
        self.weak = self.manager.join()
        self.account = int(self.weak.partition("_")[0])
        key = f"5_{'c' * 32}"
        self.manager.write(lambda tx: accounts.set_own(tx, self.account, self.id, key))
        self.manager.write(
            lambda tx: operation.change_accounting(
                tx, str(self.id), token=TOKEN, vouched=True, now=self.manager.now
            )
        )
        self.caller = Caller(self.manager, authenticator=self.weak, totals={url: [0.0] * 6})
        self.url = url
        self.caller.call()

    def day(self) -> str:
        """Let a day pass; returns what the operator reads of the project."""
        self.manager.now += DAY
        self.liar.now = self.manager.now
        self.caller.works(self.url, DAY)
        self.caller.call()
        self.manager.run(self.manager.collector.step())
        return self.manager.read(lambda db: granted.project_accounting(db, self.id)).problem

    def figure(self) -> tuple[float, float]:
        """What is shown, and what was estimated."""
        found = standing_of(self.manager, self.account)
        assert found is not None
        return found.shown, found.records[self.id].estimate


@pytest.fixture
def deceived(tmp_path: Path) -> Iterator[Deceived]:
    made = Deceived(tmp_path / "manager")
    yield made
    made.manager.close()


@pytest.mark.parametrize("figure", [b"1e300", b"123456789012345678901234567890", b"-5e20"])
def test_huge_and_negative_credit_counts_up_to_a_multiple_of_the_estimate(deceived: Deceived, figure: bytes):
    deceived.liar.answers["totals"] = lambda asked: b'{"totals": [0]}'
    assert deceived.day() == ""
    deceived.liar.answers["totals"] = lambda asked: b'{"totals": [' + figure + b"]}"
    for _ in range(5):
        assert deceived.day() == ""
    shown, estimate = deceived.figure()
    assert 0 <= shown <= (1 + HOLD) * ((1 + KAPPA) * CEILING * estimate + STARTER_POOL)
    limited = "at most twice the estimate counts" in deceived.manager.get("home.php").text
    assert limited is (figure[:1] != b"-")


def test_what_an_unvouched_project_grants_is_worth_no_more_than_a_claim(deceived: Deceived):
    deceived.manager.write(
        lambda tx: operation.change_accounting(tx, str(deceived.id), vouched=False, now=deceived.manager.now)
    )
    totals = iter([0.0, *[1e9] * 10])
    deceived.liar.answers["totals"] = lambda asked: {"totals": [next(totals)]}
    for _ in range(6):
        assert deceived.day() == ""
    assert deceived.figure()[0] <= (1 + HOLD) * STARTER_POOL
    assert "not trusted to grant credit" in deceived.manager.get("ops.php").text


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b'{"totals": []}', "asked about 1 items and answered about 0"),
        (b'{"totals": ["many"]}', "cannot be read"),
        (b"<html>", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"totals": [1' + b"0" * 1_100_000 + b"]}", "more than 1000000 bytes"),
    ],
)
def test_an_answer_that_is_none_is_said_and_changes_nothing(deceived: Deceived, answer: bytes, says: str):
    deceived.liar.answers["totals"] = lambda asked: answer
    assert says in deceived.day()
    assert standing_of(deceived.manager, deceived.account) is None


def test_an_answer_that_is_not_signed_is_not_believed(deceived: Deceived):
    deceived.liar.signed = False
    assert "not signed" in deceived.day()


def test_names_that_are_none_and_pages_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    deceived = Deceived(tmp_path / "manager", "sums")
    deceived.liar.answers["accounts"] = lambda asked: {"accounts": ["none 1"]}
    assert "cannot be read" in deceived.day()
    deceived.liar.answers["accounts"] = lambda asked: {"accounts": [NAME]}
    deceived.liar.answers["sums"] = lambda asked: {
        "day": int(asked["day"]),
        "complete": True,
        "accounts": [["f" * 32, 1e9, 0.0, 0.0], [NAME, -1e9, -1.0, 1e300]],
        "next": NAME,
    }
    assert "another question" in deceived.day()
    shown, _ = deceived.figure()
    assert shown <= STARTER_POOL
    pages = iter(range(1, 10**9))
    deceived.liar.answers["sums"] = lambda asked: {
        "day": int(asked["day"]),
        "complete": True,
        "accounts": [],
        "next": f"{next(pages):032x}",
    }
    monkeypatch.setattr(collector, "MAX_PAGES", 5)
    deceived.manager.now += DAY
    assert "more than 5 pages" in deceived.day()
    monkeypatch.setattr(collector, "MAX_SECONDS", 0.0)
    deceived.manager.now += DAY
    assert "took longer than 0 s" in deceived.day()
    deceived.manager.close()


def test_a_token_is_only_sent_over_https(deceived: Deceived):
    id_ = deceived.manager.project(1)
    with pytest.raises(ConfigError, match="only sent over https"):
        deceived.manager.write(lambda tx: operation.change_accounting(tx, str(id_), token=TOKEN, now=0.0))
    with pytest.raises(ConfigError, match="is not a valid address"):
        check_address("http://[x/")


def test_who_leaves_takes_everything_along(deceived: Deceived):
    deceived.liar.answers["totals"] = lambda asked: {"totals": [5.0]}
    deceived.day()
    deceived.manager.write(lambda tx: accounts.erase_account(tx, deceived.account))
    for table in ("granted_account", "figure", "listed_job"):
        assert deceived.manager.read(lambda db, table=table: db.value(f"SELECT COUNT(*) FROM {table}")) == 0


def test_projects_are_asked_once_a_day_and_less_often_when_they_fail(deceived: Deceived):
    deceived.liar.answers["totals"] = lambda asked: {"totals": [0.0]}
    deceived.day()
    assert deceived.liar.asked.count("totals") == 1
    for _ in range(10):
        deceived.manager.now += 3600
        deceived.manager.run(deceived.manager.collector.step())
    assert deceived.liar.asked.count("totals") == 1
    deceived.liar.answers["totals"] = lambda asked: b"no"
    waits: list[float] = []
    for _ in range(12):
        deceived.manager.now = deceived.manager.read(
            lambda db: granted.project_accounting(db, deceived.id)
        ).next_ask
        deceived.liar.now = deceived.manager.now
        deceived.manager.run(deceived.manager.collector.step())
        state = deceived.manager.read(lambda db: granted.project_accounting(db, deceived.id))
        waits.append(state.next_ask - deceived.manager.now)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (600.0, DAY)


@pytest.mark.parametrize("policy", ["sums", "jobs"])
def test_answers_are_booked_on_postgresql_as_on_sqlite(tmp_path: Path, postgres: PostgresServer, policy: str):
    shown: list[tuple[float, float]] = []
    for root, database in ((tmp_path / "one", ""), (tmp_path / "other", postgres.empty_database())):
        deceived = Deceived(root, policy, database=database)
        deceived.liar.answers["sums"] = lambda asked: {
            "day": int(asked["day"]),
            "complete": False,
            "accounts": [[f"{0:032x}", 50.0, 20.0, 5.0]],
            "next": "",
        }
        deceived.liar.answers["jobs"] = lambda asked: {
            "jobs": [
                {"state": "granted", "credit": 70.0} if number else {"state": "refused", "credit": 0}
                for number, _ in enumerate(asked["jobs"])
            ]
        }
        deceived.caller.jobs = [(deceived.url, name) for name in ("a_1", "b_1", "c_1")]
        for _ in range(3):
            assert deceived.day() == ""
        shown.append(deceived.figure())
        deceived.manager.close()
    assert shown[0] == pytest.approx(shown[1])
    assert shown[0][0] > 50.0
