"""Several machines on a network that fails: one is cut off in the middle of its work, another has a bad contact."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.helpers.eventually import eventually
from tests.helpers.killed_project import check, make_project
from tests.helpers.machines import Machines, Relay
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.server_process import Server

from cobblestone.store.engine.database import Store

N_JOBS = 40
PORT, DATABASE_PORT = 8080, 5432
ROLES = "scheduler,upload,transitioner,validator,assimilator"


class Machine(Server):
    """A server on a machine; whether it answers is asked from there."""

    def __init__(self, machines: Machines, name: str, root: Path, *options: str) -> None:
        self.program = (*machines.on(name), *Server.program)
        address = machines.address(name)
        super().__init__(root, f"http://{address}:{PORT}/", "--host", address, "--port", str(PORT), *options)
        self._machines, self._name = machines, name

    def start(self) -> None:
        self.process = subprocess.Popen([*self.program, "run", str(self.root), *self.options])
        eventually(self.is_ready, seconds=180, pause=0.2)

    def is_ready(self) -> bool:
        """Whether it can do all of its work."""
        assert self.process is not None
        assert self.process.poll() is None, "the server has ended"
        ask = f"import httpx; raise SystemExit(httpx.get('{self.url}readyz', timeout=5).status_code != 200)"
        return not subprocess.run(
            [*self._machines.on(self._name), sys.executable, "-c", ask], stderr=subprocess.DEVNULL
        ).returncode


class Volunteers:
    """Volunteers on the machine of the database, in a process of their own."""

    def __init__(
        self, machines: Machines, number: int, user: str, urls: list[str], *, patience: float
    ) -> None:
        program = (sys.executable, "-m", "tests.helpers.distant_volunteers")
        words = (*program, str(number), user, str(patience), *urls)
        self._process = subprocess.Popen(
            [*machines.on("hub"), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def end(self) -> tuple[list[str], list[float]]:
        """Stop; names of results whose report was acknowledged, and seconds of the scheduler's answers."""
        said, _ = self._process.communicate("stop\n", timeout=120)
        names, seconds = json.loads(said)
        return names, seconds

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def machines() -> Iterator[Machines]:
    found = Machines("hub", "one", "two")
    yield found
    found.close()


class Network:
    """A project of two servers on machines of their own, its database on a third, and volunteers who reach both servers."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        machines: Machines,
        root: Path,
        *,
        n_jobs: int,
        delay: float,
        patience: float = 5.0,
    ) -> None:
        """``delay``: seconds that each part of a conversation with the database is under way; ``patience``: of a volunteer."""
        durable = PostgresServer(durable=True)
        stack.callback(durable.close)
        local = durable.project_database()
        name = conninfo_to_dict(local)["dbname"]
        path = str(durable.folder / ".s.PGSQL.5432")
        stack.callback(Relay(machines, "hub", port=DATABASE_PORT, path=path, seconds=delay).close)
        remote = f"postgresql://cobblestone@{machines.address('hub')}:{DATABASE_PORT}/{name}"
        url = f"http://{machines.address('one')}:{PORT}/"
        users = make_project(root, url=url, port=PORT, n_jobs=n_jobs, database=local)
        settings = root / "cobblestone.toml"
        settings.write_text(settings.read_text().replace(local, remote))
        self.servers = [Machine(machines, each, root, "--role", ROLES) for each in ("one", "two")]
        for server in self.servers:
            server.start()
            stack.callback(server.stop)
        urls = [each.url for each in self.servers]
        self._volunteers = [
            Volunteers(machines, n, user, urls, patience=patience) for n, user in enumerate(users)
        ]
        for each in self._volunteers:
            stack.callback(each.close)
        self._database = Store(local, readers=1)
        stack.callback(self._database.close)
        self._root, self._n_jobs = root, n_jobs

    def left(self) -> int:
        """Jobs whose answers have not been handed over."""
        sql = "SELECT COUNT(*) FROM workunit WHERE assimilate_state <> 2"
        return self._database.read(lambda db: db.value(sql))

    def check(self) -> list[float]:
        """Stop the volunteers; see that nothing that was acknowledged to them was lost or doubled.

        Return how long the scheduler's answers took, in order.
        """
        ends = [each.end() for each in self._volunteers]
        acknowledged = {name for names, _ in ends for name in names}
        check(self._database, self._root, acknowledged, n_jobs=self._n_jobs)
        return sorted(second for _, seconds in ends for second in seconds)


def test_a_machine_that_is_cut_off_and_one_with_a_bad_contact_lose_and_double_nothing(
    tmp_path: Path, machines: Machines
):
    with contextlib.ExitStack() as stack:
        network = Network(stack, machines, tmp_path / "project", n_jobs=N_JOBS, delay=0.002)
        eventually(lambda: network.left() < N_JOBS, seconds=120)
        machines.loosen("two", lost=0.05)
        machines.connect("one", connected=False)
        before = network.left()
        began = time.monotonic()
        eventually(lambda: network.left() == 0, seconds=240, pause=0.2)
        assert before
        print(f"{before} jobs were finished by the other machine in {time.monotonic() - began:.0f} s")
        assert not network.servers[0].is_ready(), "who is cut off says so"
        machines.connect("one")
        eventually(network.servers[0].is_ready, seconds=60, pause=0.2)
        network.check()


@pytest.mark.parametrize(("milliseconds", "n_jobs"), [(0, 200), (20, 100), (200, 20)])
def test_a_database_that_is_far_away_slows_the_work_down_and_loses_nothing(
    tmp_path: Path, machines: Machines, milliseconds: int, n_jobs: int
):
    """``milliseconds``: from a server to the database and back."""
    with contextlib.ExitStack() as stack:
        away = milliseconds / 2000
        network = Network(stack, machines, tmp_path / "project", n_jobs=n_jobs, delay=away, patience=60)
        warm = n_jobs // 2
        eventually(lambda: network.left() <= warm, seconds=240, pause=0.2)
        n_left, began = network.left(), time.monotonic()
        eventually(lambda: network.left() == 0, seconds=240, pause=0.2)
        minutes = (time.monotonic() - began) / 60
        seconds = network.check()
        p50, p99 = (seconds[int(len(seconds) * part)] for part in (0.5, 0.99))
        print(
            f"{milliseconds} ms away: {n_left / minutes:.0f} jobs/min, requests p50 {p50:.2f} s, p99 {p99:.2f} s"
        )
