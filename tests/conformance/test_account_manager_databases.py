"""An account manager on SQLite and PostgreSQL; and two processes of one on PostgreSQL (here: two that are open at once)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.conformance.conftest import DATABASES
from tests.helpers.eventually import eventually
from tests.helpers.manager_world import CREDIT_SECOND, Caller, ManagerWorld
from tests.helpers.postgres_server import PostgresServer

from cobblestone.account_manager.core.folder import ManagerFolder
from cobblestone.account_manager.model import AccountChoices
from cobblestone.account_manager.run import open_manager
from cobblestone.account_manager.store import accounts, figures, hosts, ledger, projects
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.account_manager.upkeep import CHECKS, Opened, manager_contents
from cobblestone.domain.errors import Busy
from cobblestone.service.backup import make_backup, restore_backup
from cobblestone.service.settings import move_service
from cobblestone.store.maintenance.upgrade import current_revision

HOUR = 3600.0
URL = "http://p1.example.org/"


@pytest.fixture(params=DATABASES)
def new_database(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes addresses of empty PostgreSQL databases, or "" for SQLite."""
    if request.param == "sqlite":
        return lambda: ""
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.empty_database


@pytest.fixture
def world(new_database: Callable[[], str], tmp_path: Path) -> Iterator[ManagerWorld]:
    found = ManagerWorld(tmp_path / "manager", database=new_database())
    yield found
    found.close()


def wrong(world: ManagerWorld) -> dict[str, list[str]]:
    opened = Opened(world.ctx.folder, world.ctx.store)
    found = {
        name: world.read(lambda db, check=check: check.look(opened, db)) for name, check in CHECKS.items()
    }
    return {
        name: [each.code for each in diagnosis.findings]
        for name, diagnosis in found.items()
        if diagnosis.findings
    }


def test_everything_that_is_stored_is_read_again(
    world: ManagerWorld, new_database: Callable[[], str], tmp_path: Path
):
    ctx = world.ctx
    assert current_revision(ctx.folder.location(ctx.settings), MANAGER) == MANAGER.head
    first, second = world.project(1), world.project(2, shared=False)
    weak = world.join()
    caller = Caller(world, authenticator=weak)
    assert caller.call().accounts
    world.now += HOUR
    caller.works(URL, HOUR)
    caller.call()
    account = world.read(lambda db: accounts.account_by_key(db, weak))
    (host,) = world.read(lambda db: hosts.hosts_of(db, account.id, limit=9))
    assert {each.project_id for each in host.why} == {first, second}
    world.run(world.days.step())
    earned = 4 * HOUR * CREDIT_SECOND
    owners: tuple[tuple[ledger.Owner, int], ...] = (("all", 0), ("account", account.id), ("project", first))
    for owner in owners:
        for read in (ledger.sum_of, ledger.replayed):
            assert world.read(lambda db, r=read, o=owner: r(db, *o)).credit == pytest.approx(earned)
    world.write(
        lambda tx: accounts.change_choices(
            tx, account.id, lambda _: AccountChoices(kept_out=(first,), yes=(3,))
        )
    )
    world.write(lambda tx: projects.put_keywords(tx, {3: ("subject", "Stars")}))
    assert [each.name for each in world.read(projects.keywords)] == ["Stars"]
    assert world.read(lambda db: accounts.account_by_key(db, weak)).choices.kept_out == (first,)
    (wanted,) = world.read(lambda db: accounts.wanted_accounts(db, now=world.now, limit=9))
    assert wanted.project_id == second
    world.write(lambda tx: accounts.set_not_made(tx, wanted, "no", next_try=world.now + 1))
    world.run(world.balances.step())
    assert world.read(lambda db: figures.figures(db, now=world.now)).credit == pytest.approx(earned)
    assert wrong(world) == {}
    make_backup(manager_contents(ctx.folder), tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "again", ManagerFolder.kind, database=new_database())
    with open_manager(tmp_path / "again", clock=lambda: world.now) as again:
        assert again.store.read(lambda db: ledger.replayed(db, "all")).credit == pytest.approx(earned)
        assert again.projects.balances[first] == ctx.projects.balances[first]
    (entry,) = world.read(lambda db: ledger.largest_entries(db, since_day=0, limit=5))
    world.write(lambda tx: ledger.delete_entries(tx, [entry.id]))
    world.write(lambda tx: accounts.erase_account(tx, account.id))
    assert wrong(world) == {}


@pytest.fixture
def both(postgres: PostgresServer, tmp_path: Path) -> Iterator[list[ManagerWorld]]:
    """Two processes of one account manager."""
    address = postgres.empty_database()
    found = [ManagerWorld(tmp_path / "manager", database=address) for _ in range(2)]
    yield found
    for world in found:
        world.close()


def test_contacts_of_one_person_at_two_processes_lose_no_credit(both: list[ManagerWorld]):
    both[0].project(1)
    both[1].read(both[1].ctx.projects.load)
    weak = both[0].join()
    callers = [Caller(world, authenticator=weak) for world in both]
    for caller in callers:
        caller.call()
    n = 15

    def work(number: int) -> None:
        for _ in range(n):
            both[number].now += HOUR
            callers[number].works(URL, HOUR)
            callers[number].call()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    earned = 2 * n * 4 * HOUR * CREDIT_SECOND
    world = both[0]
    at_project = world.read(lambda db: accounts.project_accounts(db, 1))[1]
    assert at_project.total == pytest.approx(earned)
    assert world.read(lambda db: ledger.replayed(db, "account", 1)).credit == pytest.approx(earned)
    world.run(both[0].days.step())
    assert wrong(world) == {}


def test_processes_share_what_each_booked(both: list[ManagerWorld]):
    one, other = (world.ctx.projects for world in both)
    both[0].project(1)
    both[1].read(other.load)
    for world in both:  # the first time counts what is expected of computers: there are none
        world.run(world.balances.step())
    one.book({1: 10.0}, {1: 4.0}, {(1, "CPU"): False}, now=both[0].now)
    other.book({1: 5.0}, {1: -1.0}, {}, now=both[1].now)
    for world in (*both, both[0]):
        world.run(world.balances.step())
    assert one.balances[1].done == pytest.approx(15.0)
    assert one.balances[1].expected == pytest.approx(3.0)
    assert other.balances[1] == one.balances[1]
    assert dict(other.dryness(1)) == pytest.approx({"CPU": 0.1})


def test_a_daemon_acts_in_one_process_and_the_other_takes_over(both: list[ManagerWorld]):
    for world in both:
        world.ctx.join_processes()

    def acting() -> list[bool]:
        found: list[bool] = []
        for world in both:
            with world.ctx.processes.lease_shards("days") as lease:
                found.append(lease.shards != ())
        return found

    eventually(lambda: acting() == [True, False], seconds=60)
    both[0].ctx.processes.close()
    eventually(lambda: acting()[1], seconds=60)


def test_on_sqlite_a_second_process_is_refused(tmp_path: Path):
    world = ManagerWorld(tmp_path / "manager")
    with pytest.raises(Busy, match="already open"):
        ManagerWorld(tmp_path / "manager")
    world.close()


def test_a_manager_is_moved_from_sqlite_to_postgresql_also_when_the_move_was_cut_off(
    tmp_path: Path, postgres: PostgresServer
):
    world = ManagerWorld(tmp_path / "manager")
    world.project(1)
    caller = Caller(world, authenticator=world.join())
    caller.call()
    address = postgres.empty_database()

    def stumble(name: str, done: int, total: int) -> None:
        if name == "ledger":
            raise KeyboardInterrupt

    with pytest.raises(Busy):
        move_service(ManagerFolder(tmp_path / "manager"), address, progress=stumble)
    world.close()
    with pytest.raises(KeyboardInterrupt):
        move_service(ManagerFolder(tmp_path / "manager"), address, progress=stumble)
    rows = {
        table.name: table.rows
        for table in move_service(
            ManagerFolder(tmp_path / "manager"), address, progress=lambda *_: None
        ).tables
    }
    assert (rows["account"], rows["host"]) == (1, 1)
    moved = ManagerWorld(tmp_path / "manager")
    caller.world = moved
    moved.now += HOUR
    caller.works(URL, HOUR)
    caller.call()
    counted = moved.read(lambda db: ledger.replayed(db, "all")).credit
    assert counted == pytest.approx(4 * HOUR * CREDIT_SECOND)
    assert moved.read(lambda db: db.value("SELECT COUNT(*) FROM host")) == 1
    moved.run(moved.days.step())
    assert wrong(moved) == {}
    moved.close()
