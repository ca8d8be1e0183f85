"""How often a process waits for its PostgreSQL: each time costs the way there and back, where the database is far away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import World

from cobblestone.store.engine.database import Store
from cobblestone.store.engine.postgres_connection import PostgresConnection
from cobblestone.wire.scheduler.report import MsgFromHost
from cobblestone.wire.scheduler.request import InProgressResult

REQUEST, REPORT, UPLOAD = 4, 3, 2
LATE, LOST = 4, 8
TURNS = {"transitioner": 4, "validator": 8, "assimilator": 7}


class Trips:
    """Counts how often connections wait for an answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n = 0
        for name in ("_send_waiting", "_result"):
            monkeypatch.setattr(PostgresConnection, name, self._counted(getattr(PostgresConnection, name)))
        begin = PostgresConnection.begin

        def begun(connection: PostgresConnection) -> None:
            self.n -= connection._unheard  # what is said to a ROLLBACK came while the process went on
            begin(connection)

        monkeypatch.setattr(PostgresConnection, "begin", begun)

    def _counted(
        self, wait: Callable[[PostgresConnection], object]
    ) -> Callable[[PostgresConnection], object]:
        def counted(connection: PostgresConnection) -> object:
            self.n += 1
            return wait(connection)

        return counted

    @contextmanager
    def at_most(self, n: int, what: str) -> Iterator[None]:
        before = self.n
        yield
        assert 0 < self.n - before <= n, f"{what}: {self.n - before}"


def test_requests_and_daemons_wait_for_the_database_a_few_times_only(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = World(tmp_path / "project", database=postgres.project_database())
    world.add_jobs(world.add_app(quorum=2), n=20)
    early, *hosts = [world.host(world.user(name)) for name in ("carol", "alice", "bob")]
    early.rpc(ask=1, instances=1)  # the first request reads what there is to send
    early.rpc(reports=[early.finish(name, b"answer") for name in early.held])
    for host in hosts:  # the first calls make the computers known
        host.rpc()
    trips = Trips(monkeypatch)
    for host in hosts:
        with trips.at_most(REQUEST, "a request for work"):
            host.rpc(ask=1, instances=1)
        (name,) = host.held
        with trips.at_most(UPLOAD, "an upload"):
            report = host.finish(name, b"answer")
        with trips.at_most(REPORT, "a report"):
            host.rpc(reports=[report])
        assert not host.held
    for name, n in TURNS.items():
        with trips.at_most(n, name):
            assert world.run(getattr(world, name).step())
    assert world.value("SELECT COUNT(*) FROM workunit WHERE need_validate = 1") == 0
    world.close()


def test_a_request_about_many_jobs_waits_as_often_as_one_about_few(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = World(tmp_path / "project", database=postgres.project_database())
    world.add_jobs(world.add_app(), n=40)
    host = world.host(world.user("alice"), p_ncpus=40)
    host.rpc()
    host.rpc(ask=1, instances=40)
    assert len(host.held) == 40
    world.now += 86400
    trips = Trips(monkeypatch)
    late = tuple(
        InProgressResult(name=name, report_deadline=world.now, time_remaining=1e6) for name in host.held
    )
    with trips.at_most(LATE, "jobs that will be late"):
        host.rpc(in_progress_results=late)
    assert world.value("SELECT COUNT(*) FROM result WHERE told_time IS NOT NULL") == 40
    said = [MsgFromHost(result_name=name, time=1.0, variety="own", text="") for name in host.held]
    with trips.at_most(REQUEST, "messages of running jobs"):
        host.rpc(trickles=said)
    assert world.value("SELECT COUNT(*) FROM msg_from_host") == 40
    host.held.clear()
    with trips.at_most(LOST, "lost jobs"):
        host.rpc(ask=1, host_info=replace(host.request.host_info, d_free=0.0))
    assert world.value("SELECT COUNT(*) FROM result WHERE report_deadline < ?", world.now) == 40
    world.close()


def test_a_statement_that_is_new_to_the_server_costs_no_trip_of_its_own(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    store = Store(postgres.project_database(), readers=1)
    trips = Trips(monkeypatch)
    with trips.at_most(2, "a question and the commit"):
        assert store.write(lambda tx: tx.value("SELECT 1 + 1")) == 2
    store.close()


def test_a_wrong_statement_is_still_unknown_to_the_server_when_it_comes_again(postgres: PostgresServer):
    store = Store(postgres.project_database(), readers=1)
    for _ in range(2):
        with pytest.raises(Exception, match="no_such_table"):
            store.write(lambda tx: tx.value("SELECT 1 FROM no_such_table"))
    store.write(lambda tx: tx.execute("CREATE TABLE no_such_table (id BIGINT)"))
    assert store.write(lambda tx: tx.value("SELECT 1 FROM no_such_table")) is None
    store.write(lambda tx: tx.execute("DROP TABLE no_such_table"))
    store.close()
