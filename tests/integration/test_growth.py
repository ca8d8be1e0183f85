"""The cost of a statement does not grow with the project."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.bench_growth import LITTLE, Work, counted_sqlite, grown, measure
from tests.bench.project import MANY
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

from cobblestone.domain.values import HostId, UserId
from cobblestone.domain.work import Recipients
from cobblestone.server.credit.trickle_daemon import TrickleCredit
from cobblestone.server.daemons.file_deleter import purge
from cobblestone.store.catalog import kept_files
from cobblestone.store.people import hosts

OF_ONE_OWNER = ("WHERE r.host_id = ", "WHERE r.user_id = ", "WHERE e.user_id = ", "WHERE e.host_id = ")
"""Pages about somebody's own tasks and credit read what he has of them."""
COUNTED = ("SELECT count(*) FROM host", "SELECT count(*) FROM user_account", "SELECT count(DISTINCT user_id)")
"""Readers count computers and volunteers, for pages, figures and ranks: a few milliseconds for 100,000."""

KEPT = ("SELECT total_credit, id FROM (SELECT", "SELECT expavg_credit, id FROM (SELECT")
"""Places in lists of more than 100,000, which are kept so that finding them takes a hundredth of the time."""


def test_no_statement_reads_more_when_many_more_results_are_finished_and_computers_known(tmp_path: Path):
    few = measure(tmp_path / "few", n=60_000)
    many = measure(tmp_path / "many", n=180_000, n_hosts=100_000)
    found = [
        f"{before:,.0f} -> {after:,.0f} steps in each of {calls} calls: {sql}"
        for before, after, calls, sql in grown(few, many, little=LITTLE["sqlite"])
        if not any(condition in sql for condition in OF_ONE_OWNER)
        and not sql.lower().startswith(tuple(map(str.lower, COUNTED)))
        and not (sql.startswith(KEPT) and calls == 1)
    ]
    assert not found, "\n".join(found)


JOBS = [{"args": {"k": "3"}}] * 1000


@contextmanager
def open_batch(folder: Path, n: int) -> Iterator[tuple[World, ApiClient, str]]:
    """Make a project with an open batch of ``n`` jobs; yield it, its API and the batch's address."""
    world = World(folder / str(n))
    api = ApiClient(world)
    api.add_app(command=["p", "{output}", "{arg:k}"])
    batch = f"/batches/{api.post('/batches', {'app': 'period', 'open': True})['id']}"
    for first in range(0, n, 1000):
        api.post(f"{batch}/jobs", {"first": first, "jobs": JOBS})
    yield world, api, batch
    world.close()


def test_no_statement_of_a_submission_reads_more_when_the_batch_has_many_more_jobs(tmp_path: Path):
    def added(n: int) -> Work:
        with open_batch(tmp_path, n) as (world, api, batch), counted_sqlite(world.ctx) as work:
            api.post(f"{batch}/jobs", {"first": n, "jobs": JOBS[:10]})
        return work

    assert not grown(added(1000), added(20_000), little=LITTLE["sqlite"])


def test_no_page_of_a_batchs_jobs_reads_more_when_the_batch_has_many_more_jobs(tmp_path: Path):
    def looked_at(n: int) -> Work:
        with open_batch(tmp_path, n) as (world, api, batch), counted_sqlite(world.ctx) as work:
            page = api.get(f"{batch}/jobs?limit=100")["jobs"]
            assert len(api.get(f"{batch}/jobs?limit=100&after={page[-1]['id']}")["jobs"]) == 100
        return work

    assert not grown(looked_at(1000), looked_at(20_000), little=LITTLE["sqlite"])


def test_messages_that_were_handled_are_not_gone_through_again(tmp_path: Path):
    def handled(n: int) -> Work:
        world = World(tmp_path / str(n))
        daemon = TrickleCredit(world.ctx)
        sql = "INSERT INTO msg_from_host (host_id, time, variety, handled) VALUES (?, ?, 'trickle_credit', ?)"
        world.write(lambda tx: tx.execute_many(sql, [(1, number, 1) for number in range(n)]))
        while world.run(daemon.step()):
            pass
        world.write(lambda tx: tx.execute_many(sql, [(2, number, 0) for number in range(10)]))
        with counted_sqlite(world.ctx) as work:
            while world.run(daemon.step()):
                pass
        assert world.value("SELECT COUNT(*) FROM msg_from_host WHERE handled = 0") == 0
        world.close()
        return work

    assert not grown(handled(30_000), handled(120_000), little=LITTLE["sqlite"])


def test_purging_takes_no_statement_for_each_retired_batch_whose_jobs_are_too_young(tmp_path: Path):
    def purged(n: int) -> Work:
        world = World(tmp_path / str(n))
        world.add_app()
        numbers = MANY.format(first=1, last=n)
        batch = f"INSERT INTO batch (name, app_id, state, njobs, released_seq) {numbers} SELECT i, 1, 4, 1, -1 FROM n"
        world.write(lambda tx: tx.execute(batch))
        jobs = (
            "INSERT INTO workunit (name, app_id, batch_id, assimilate_state, file_delete_state, completed_time)"
            f" {numbers} SELECT i, 1, i, 2, 2, CASE WHEN i <= 3 THEN 1.0 ELSE {world.now} END FROM n"
        )
        world.write(lambda tx: tx.execute(jobs))
        with counted_sqlite(world.ctx) as work:
            assert world.run(purge(world.ctx)) == 3
        assert world.value("SELECT COUNT(*) FROM batch WHERE archived = 1") == 3
        world.close()
        return work

    few, many = purged(10), purged(1000)
    assert few.calls == many.calls
    changes = {sql: units for sql, units in many.per_call().items() if sql.startswith("UPDATE batch")}
    assert max(changes.values()) < 100


def test_the_computers_of_a_farm_are_counted_once_for_all_of_them(tmp_path: Path):
    def counted(n: int) -> Work:
        world = World(tmp_path / str(n))
        numbers = MANY.format(first=1, last=2000)
        owned = f"INSERT INTO host (user_id, host_cpid) {numbers} SELECT CASE WHEN i = 2000 THEN 2 ELSE 1 END, i FROM n"
        world.write(lambda tx: tx.execute(owned))
        asked = [HostId(number) for number in range(2001 - n, 2001)]
        with counted_sqlite(world.ctx) as work:
            found = world.write(lambda tx: hosts.computers_of_owners(tx, asked))
        assert found == {**dict.fromkeys(asked, 1999), HostId(2000): 1}
        world.close()
        return work

    assert not grown(counted(2), counted(20), little=LITTLE["sqlite"])


def test_the_home_page_asks_no_more_for_more_apps(world: World):
    def calls() -> int:
        assert world.get("/").status_code == 200  # what is kept for a while is there
        with counted_sqlite(world.ctx) as work:
            assert world.get("/").status_code == 200
        return sum(work.calls.values())

    world.add_app("first")
    few = calls()
    for number in range(10):
        world.add_app(f"app{number}")
    assert calls() == few


def test_other_holders_of_a_file_are_looked_at_once_for_many_computers(tmp_path: Path):
    def done(n: int) -> tuple[float, float]:
        world = World(tmp_path / str(n))
        world.write(
            lambda tx: tx.execute_many(
                "INSERT INTO kept_file (host_id, file_name, user_id, network, listed, counted) VALUES (?, 'big', ?, ?, 1, ?)",
                [(i, i if i > n else 5000, str(i), int(i > n)) for i in range(1, 2001)],
            )
        )
        with counted_sqlite(world.ctx) as counting:
            assert world.write(lambda tx: kept_files.count(tx, limit=100)) == n
        # They are of one owner: one of them counts.
        assert world.query("SELECT host_id FROM kept_file WHERE counted = 1 AND host_id <= ?", n) == [(1,)]
        with counted_sqlite(world.ctx) as leaving:
            world.write(lambda tx: kept_files.forget(tx, [(n, "big")]))
        assert world.value("SELECT COUNT(*) FROM kept_file WHERE counted = 0") == 0
        world.write(lambda tx: kept_files.forget(tx, [(1, "big")]))
        assert world.value("SELECT COUNT(*) FROM kept_file WHERE counted = 0") == n - 2
        world.close()
        return sum(counting.units.values()), sum(leaving.units.values())

    few, many = done(3), done(90)
    assert many[0] < 2 * few[0]
    assert many[1] < 2 * few[1]


def test_requests_read_no_more_when_very_many_jobs_are_for_others_alone(tmp_path: Path):
    def asked(n: int) -> Work:
        world = World(tmp_path / str(n), scheduler={"max_jobs_per_day_init": 100})
        app = world.add_app()
        one, other = world.host(world.user("alice")), world.host(world.user("bob"))
        one.rpc()
        other.rpc()
        world.add_jobs(app, n=n, target=Recipients(host_id=HostId(one.id)))
        world.add_jobs(app, n=40, target=Recipients(user_id=UserId(2)))
        world.now += 100
        other.rpc(ask=1)  # the head of the queue is read
        before = len(other.held)
        world.now += 100
        with counted_sqlite(world.ctx) as work:
            other.rpc(ask=1)
        assert len(other.held) > before > 0
        world.close()
        return work

    assert not grown(asked(3000), asked(30_000), little=LITTLE["sqlite"])
