"""The ledger system in a running project: escrow, checks, claw-back, audits, refused jobs, changes of the system."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import SimHost, World, failed

from cobblestone.domain.apps import App
from cobblestone.domain.values import HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.work import JobLimits
from cobblestone.policy.credit.claims import CreditUnit
from cobblestone.server.credit import ledger_accounts
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.server.credit.systems import change_system
from cobblestone.server.daemons.transitioner import Transitioner
from cobblestone.server.daemons.validator import Validator
from cobblestone.server.run import open_project
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger as credit
from cobblestone.store.credit.ledger import LedgerLine
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work import lifecycle

pytestmark = pytest.mark.both_databases

ESTIMATE = 1e13
WORTH = ESTIMATE * 200.0 / 86400e9


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is drawn for the next uploads; no check when the list is empty."""
    wanted: list[float] = []
    monkeypatch.setattr(
        ledger_accounts, "draw_of", lambda _secret, _result_id: wanted.pop(0) if wanted else 0.999
    )
    return wanted


def an_app(world: World, quorum: int = 1, system: str = "ledger") -> App:
    limits = JobLimits(rsc_fpops_est=ESTIMATE, rsc_fpops_bound=1e16)
    return world.add_app(quorum=quorum, limits=limits, credit_system=system)


def hosts(world: World, *names: str) -> list[SimHost]:
    return [world.host(world.user(name), f"{n:032x}", p_fpops=2e9) for n, name in enumerate(names, 1)]


def fetch(host: SimHost) -> None:
    host.rpc(ask=1, instances=1)


def answer(world: World, host: SimHost, *, content: bytes = b"right", seconds: float = 5000.0) -> str:
    """Report the oldest result that a host holds, as many seconds after now as it took."""
    name = next(iter(host.held))
    world.now += seconds
    report = replace(host.finish(name, content), final_elapsed_time=seconds, final_cpu_time=seconds)
    host.rpc(reports=[report])
    world.settle()
    return name


def one_job(world: World, app: App, *of: SimHost, content: bytes = b"right") -> str:
    """A job that these computers compute one after the other."""
    world.add_jobs(app)
    name = ""
    for host in of:
        fetch(host)
        name = answer(world, host, content=content if host is of[0] else b"right")
    return name


def trusted(world: World, app: App, host: SimHost, checker: SimHost, n: int = 11) -> None:
    for _ in range(n):
        one_job(world, app, host, checker)


def lines(world: World, name: str = "") -> list[LedgerLine]:
    found = world.ctx.store.read(lambda db: list(credit.ledger(db)))
    if not name:
        return found
    result_id = world.value("SELECT id FROM result WHERE name = ?", name)
    return [line for line in found if line.result_id == result_id]


def total(world: World, host: SimHost) -> float:
    return world.value("SELECT total_credit FROM host WHERE id = ?", host.id)


def agrees(world: World) -> None:
    audit = world.ctx.store.read(recompute)
    assert audit.differences == []


def test_results_of_a_newcomer_are_always_checked_after_their_upload(world: World, draws: list[float]):
    app = an_app(world)
    alice, bob = hosts(world, "alice", "bob")
    world.add_jobs(app)
    fetch(alice)
    assert world.value("SELECT COUNT(*) FROM result") == 1, "no one can see that it will be checked"
    first = answer(world, alice)
    assert world.value("SELECT min_quorum FROM workunit") == 2
    assert lines(world) == []
    fetch(bob)
    second = answer(world, bob)
    assert [line.kind for line in lines(world)][:2] == ["grant", "grant"]
    assert lines(world, first)[0].granted == pytest.approx(WORTH, rel=0.2)
    assert lines(world, second)[0].granted == pytest.approx(WORTH, rel=0.2)
    agrees(world)


def test_credit_of_a_computer_that_is_believed_is_provisional_until_it_passes_a_check(
    world: World, draws: list[float]
):
    app = an_app(world)
    alice, bob = hosts(world, "alice", "bob")
    trusted(world, app, alice, bob)
    name = one_job(world, app, alice)
    (entry,) = lines(world, name)
    assert entry.kind == "escrow"
    assert "Provisional until the computer passes its next check" in str(entry.reasons)
    assert world.query("SELECT price, audit FROM escrow") == [(entry.granted, 0)]
    draws[:] = [0.0]
    one_job(world, app, alice, bob)
    assert [line.kind for line in lines(world, name)] == ["escrow", "release"]
    assert world.query("SELECT * FROM escrow") == []
    explained = ApiClient(world).get(f"/credit/results/{name}")["entries"]
    assert [entry["provisional"] for entry in explained] == [False, False]
    agrees(world)


def test_a_failed_check_has_provisional_results_computed_again_and_takes_the_credit_back(
    world: World, draws: list[float]
):
    app = an_app(world)
    alice, bob, carol = hosts(world, "alice", "bob", "carol")
    trusted(world, app, alice, bob)
    forged = [one_job(world, app, alice, content=b"lie") for _ in range(3)]
    before = total(world, alice)
    draws[:] = [0.0]
    one_job(world, app, alice, content=b"lie")
    for checker in (bob, carol):
        fetch(checker)
        answer(world, checker)
    assert world.value("SELECT COUNT(*) FROM escrow WHERE audit = 1") == 3
    while fetch(bob) or bob.held:
        answer(world, bob)
    assert world.query("SELECT * FROM escrow") == []
    for name in forged:
        assert [line.kind for line in lines(world, name)] == ["escrow", "revoke"]
    taken = sum(line.granted for line in lines(world) if line.kind == "revoke")
    assert total(world, alice) == pytest.approx(before + taken)
    agrees(world)


def test_files_stay_for_an_audit_also_where_one_process_does_everything(world: World, draws: list[float]):
    world.transitioner = Transitioner(world.ctx, finishes=True)
    app = an_app(world)
    alice, bob = hosts(world, "alice", "bob")
    trusted(world, app, alice, bob)
    name = one_job(world, app, alice)
    files = (
        "SELECT w.file_delete_state FROM workunit w JOIN result r ON r.workunit_id = w.id WHERE r.name = ?"
    )
    assert [line.kind for line in lines(world, name)] == ["escrow"]
    assert world.value(files, name) == 0
    draws[:] = [0.0]
    one_job(world, app, alice, bob)
    world.now += 2 * 86400.0
    world.settle()
    assert world.value(files, name) == 2
    agrees(world)


def test_an_honest_computer_that_failed_once_keeps_its_credit(world: World, draws: list[float]):
    app = an_app(world)
    alice, bob, carol = hosts(world, "alice", "bob", "carol")
    trusted(world, app, alice, bob)
    honest = [one_job(world, app, alice) for _ in range(3)]
    draws[:] = [0.0]
    one_job(world, app, alice, content=b"broken memory")
    for checker in (bob, carol):
        fetch(checker)
        answer(world, checker)
    while fetch(bob) or bob.held:
        answer(world, bob)
    for name in honest:
        assert [line.kind for line in lines(world, name)] == ["escrow", "release"]
    agrees(world)


def test_an_unfinished_job_is_settled_once_others_have_finished_it(world: World, draws: list[float]):
    app = an_app(world)
    alice, bob, carol = hosts(world, "alice", "bob", "carol")
    for host, other in ((alice, bob), (bob, carol), (carol, alice)):
        trusted(world, app, host, other, n=5)
    world.add_jobs(app)
    fetch(alice)
    (name,) = alice.held
    alice.rpc(reports=[failed(name, exit_status=203, state=6)])
    world.settle()
    assert lines(world, name) == []
    for host in (bob, carol):
        fetch(host)
        if host.held:
            answer(world, host, seconds=7000.0)
    (entry,) = lines(world, name)
    assert entry.kind == "settlement"
    assert "did not finish" in str(entry.reasons)
    assert world.value("SELECT granted_credit FROM result WHERE name = ?", name) == 0.0
    agrees(world)


def change(world: World, app: App, system: str) -> None:
    ApiClient(world).patch(f"/apps/{app.name}", {"credit": {"system": system}})


def test_an_app_changes_to_the_system_and_back_without_a_jump(world: World, draws: list[float]):
    app = an_app(world, system="fixed")
    world.write(lambda tx: apps.update_app(tx, replace(app, fixed_credit=50.0)))
    alice, bob = hosts(world, "alice", "bob")
    for _ in range(20):
        one_job(world, app, alice)
    change(world, app, "ledger")
    trusted(world, app, alice, bob)
    name = one_job(world, app, alice)
    assert [line.kind for line in lines(world, name)] == ["escrow"]
    paid = [line.granted for line in lines(world)[20:] if line.kind in ("grant", "escrow")]
    assert sum(paid) / len(paid) == pytest.approx(50.0, rel=0.03)
    agrees(world)
    change(world, app, "steady")
    assert [line.kind for line in lines(world, name)] == ["escrow", "release"]
    assert world.query("SELECT * FROM escrow") == []
    later = one_job(world, app, bob)
    assert lines(world, later)[0].granted == pytest.approx(50.0, rel=0.03)
    change(world, app, "ledger-early-exits")
    one_job(world, app, alice)
    agrees(world)


def test_a_process_that_has_not_heard_yet_of_a_change_keeps_no_credit_provisional(
    world: World, draws: list[float]
):
    app = an_app(world)
    alice, bob = hosts(world, "alice", "bob")
    trusted(world, app, alice, bob)

    def elsewhere(tx: Transaction) -> None:
        tx.execute("UPDATE app SET credit_system = 'steady'")
        change_system(tx, app, replace(app, credit_system="steady"), unit=CreditUnit(200.0), now=world.now)

    world.write(elsewhere)
    name = one_job(world, app, alice)
    assert [(line.kind, line.system) for line in lines(world, name)] == [("grant", "steady")]
    assert world.query("SELECT * FROM escrow") == []


def test_a_third_computer_is_asked_when_two_say_that_a_job_was_very_long(world: World, draws: list[float]):
    app = an_app(world, quorum=2)
    alice, bob, carol = hosts(world, "alice", "bob", "carol")
    for _ in range(4):
        for two in ((alice, bob), (bob, carol), (carol, alice)):
            one_job(world, app, *two)
    world.add_jobs(app)
    for host in (alice, bob):
        fetch(host)
        name = answer(world, host, seconds=90_000.0)
    assert lines(world, name) == []
    fetch(carol)
    answer(world, carol, seconds=5000.0)
    assert lines(world, name)[0].granted == pytest.approx(WORTH, rel=0.5)
    agrees(world)


def test_provisional_credit_is_shown_as_the_project_wants(tmp_path: Path, draws: list[float]):
    for shown in (True, False):
        world = World(tmp_path / str(shown), credit={"show_provisional": shown})
        app = an_app(world)
        alice, bob = hosts(world, "alice", "bob")
        trusted(world, app, alice, bob)
        before = float(alice.rpc().get("host_total_credit"))
        name = one_job(world, app, alice)
        reply = alice.rpc()
        provisional = lines(world, name)[0].granted
        assert float(reply.get("host_total_credit")) == pytest.approx(
            before + (provisional if shown else 0.0)
        )
        page = world.get("/show_user.php?userid=1").text
        assert "is provisional until the computers pass a check" in page
        task = world.value("SELECT id FROM result WHERE name = ?", name)
        told = world.get(f"/result.php?resultid={task}").text
        assert "granted provisionally" in told
        assert "Provisional until" in told
        explained = ApiClient(world).get(f"/credit/results/{name}")
        assert explained["entries"][0]["provisional"] is True
        assert "provisional until the next passed check" in str(explained["account"])
        world.close()


def test_validators_of_two_processes_apply_each_event_once(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: list[float]
):
    """No check is drawn: one job in fifty would wait for a third computer."""
    world = World(tmp_path / "project", database=postgres.project_database())
    app = an_app(world, quorum=2)
    world.add_jobs(app, 24)
    for host in hosts(world, *(f"user{n}" for n in range(12))):
        host.rpc(ask=1e7)
        world.now += 5000.0
        done = [host.finish(name, b"right", cpu_time=4000.0) for name in sorted(host.held)]
        host.rpc(reports=done)
    world.run(world.transitioner.step())
    ids = [row[0] for row in world.query("SELECT id FROM workunit WHERE need_validate = 1 ORDER BY id")]
    halves = [ids[::2], ids[1::2]]
    monkeypatch.setattr(lifecycle, "ids_to_validate", lambda _db, **_: halves.pop())

    async def both(*validators: Validator) -> None:
        await asyncio.gather(*(validator.step() for validator in validators))

    with open_project(world.ctx.folder.root, clock=lambda: world.now) as other:
        world.run(both(world.validator, Validator(other, world.workers)))
    assert len(ids) == 24
    assert world.query("SELECT seq FROM ledger_event ORDER BY seq") == [(seq,) for seq in range(1, 26)]
    assert world.value("SELECT COUNT(*) FROM escrow") == 48
    agrees(world)
    world.close()


def test_a_settlement_waits_for_a_grant_of_the_same_person(postgres: PostgresServer, tmp_path: Path):
    """Of two processes none overwrites a total that the other one has just changed."""
    world = World(tmp_path / "project", database=postgres.project_database())
    (alice,) = hosts(world, "alice")
    entry = credit.CreditEntry(
        result_id=ResultId(1),
        workunit_id=WorkunitId(1),
        host_id=HostId(alice.id),
        user_id=UserId(1),
        app_version_id=None,
        system="ledger",
        granted=5.0,
        unit=200.0,
        work_start=world.now,
    )
    entered = threading.Event()

    def grant(tx: Transaction) -> None:
        credit.enter(tx, [entry], now=world.now)
        entered.set()
        for _ in range(20_000):  # until the other one waits for a row
            if tx.value("SELECT COUNT(*) FROM pg_locks WHERE NOT granted"):
                return

    thread = threading.Thread(target=world.write, args=[grant])
    thread.start()
    assert entered.wait(30)
    settled = replace(entry, kind=credit.SETTLEMENT, granted=-2.0)
    with open_project(world.ctx.folder.root, clock=lambda: world.now) as other:
        other.store.write(lambda tx: credit.settle(tx, [settled], now=world.now))
    thread.join()
    assert world.query("SELECT total_credit FROM user_account") == [(3.0,)]
    world.close()


def test_a_job_that_is_not_returned_in_time_is_settled_when_its_size_is_known(
    world: World, draws: list[float]
):
    app = an_app(world, quorum=2)
    alice, bob, carol = hosts(world, "alice", "bob", "carol")
    for _ in range(3):
        for two in ((alice, bob), (bob, carol), (carol, alice)):
            one_job(world, app, *two)
    rules = replace(app.rules, target_nresults=3)
    world.add_jobs(app, rules=rules)
    for host in (alice, bob, carol):
        fetch(host)
    (late,) = alice.held
    for host in (bob, carol):
        answer(world, host)
    assert lines(world, late) == []
    world.now += 30 * 86400.0
    world.settle()
    assert [line.kind for line in lines(world, late)] == ["settlement"]
    world.settle()
    assert len(lines(world, late)) == 1
    agrees(world)
