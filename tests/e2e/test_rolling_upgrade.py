"""A new version takes over from the old one on PostgreSQL, under load: both work side by side, and no request fails."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.helpers.killed_project import check, make_project, work
from tests.helpers.newer_version import CONTRACTED, EXPANDED, VERSION, install_newer
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import SimHost
from tests.helpers.server_process import RemoteWorld, Server

from cobblestone import __version__
from cobblestone.demo.processes import free_port
from cobblestone.store.engine.database import Store
from cobblestone.store.maintenance.upgrade import current_revision
from cobblestone.store.schema.project import PROJECT

N_JOBS = 40


class Proxy:
    """Carries each request to one of the servers that are in use."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.worlds: dict[Server, RemoteWorld] = {}
        self.in_use: list[Server] = []
        self.answers: Counter[tuple[str, int]] = Counter()
        self._idle = threading.Condition()
        self._busy: Counter[Server] = Counter()

    def add(self, server: Server) -> None:
        self.worlds[server] = RemoteWorld(server.url)
        self.in_use.append(server)

    def take_out(self, server: Server) -> None:
        """Send nothing more to a server, and wait until it has answered what it got."""
        with self._idle:
            self.in_use.remove(server)
            assert self._idle.wait_for(lambda: not self._busy[server], 60)

    def post(self, path: str, **options: object) -> httpx.Response:
        with self._idle:
            server = self.rng.choice(self.in_use)
            self._busy[server] += 1
        try:
            response = self.worlds[server].post(path, **options)
        finally:
            with self._idle:
                self._busy[server] -= 1
                self._idle.notify_all()
        self.answers[server.url, response.status_code] += 1
        return response

    def close(self) -> None:
        for world in self.worlds.values():
            world.close()


class Volunteers(threading.Thread):
    """Hosts that work until they are told to stop; anything that fails is noted and ends them."""

    def __init__(self, proxy: Proxy, users: list[str], rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.hosts = [
            SimHost(proxy, user, f"{n:032x}", {"domain_name": f"h{n}"}) for n, user in enumerate(users)
        ]
        self.acknowledged: set[str] = set()
        self.failures: list[str] = []
        self.ended = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                work(self.rng.choice(self.hosts), self.rng, self.acknowledged)
            except Exception as error:  # noqa: BLE001  # told by the test
                self.failures.append(repr(error))
                return
            time.sleep(0.02)


def until(condition: object, volunteers: Volunteers) -> None:
    end = time.monotonic() + 120
    while not condition():  # type: ignore[operator]  # a function without arguments
        assert not volunteers.failures
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.timeout(600)
def test_a_new_version_takes_over_under_load_and_no_request_fails(
    tmp_path: Path, postgres: PostgresServer, rng: random.Random
):
    address, root = postgres.empty_database(), tmp_path / "project"
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}/" for port in ports]
    users = make_project(root, url=urls[0], port=ports[0], n_jobs=N_JOBS, database=address)
    old = Server(root, urls[0])
    new = Server(root, urls[1], "--port", str(ports[1]))
    new.program = install_newer(tmp_path / "newer")
    upgrade = [*new.program, "upgrade", str(root)]
    database = Store(address, readers=1)
    proxy = Proxy(rng)
    old.start()
    proxy.add(old)
    volunteers = Volunteers(proxy, users, rng)
    try:
        until(lambda: volunteers.acknowledged, volunteers)
        new.start()
        assert current_revision(address, PROJECT) == EXPANDED
        assert list(root.glob(f"project-before-upgrade-{PROJECT.head}-*.dump"))
        proxy.add(new)
        before = Counter(proxy.answers)
        until(lambda: all(proxy.answers[url, 200] - before[url, 200] > 30 for url in urls), volunteers)
        refused = subprocess.run(upgrade, capture_output=True, text=True)
        assert refused.returncode == 1
        assert old.process is not None
        assert f"process {old.process.pid} on " in refused.stderr
        assert f"(cobblestone {__version__}, schema {PROJECT.head})" in refused.stderr
        versions = database.read(lambda db: db.query("SELECT version, program FROM server_process"))
        assert {(__version__, ""), ("", VERSION)} == {(row[0], row[1]) for row in versions}

        waiting = subprocess.Popen([*upgrade, "--wait", "60"])
        proxy.take_out(old)
        old.stop()
        assert waiting.wait(60) == 0
        assert current_revision(address, PROJECT) == CONTRACTED
        unfinished = "SELECT COUNT(*) FROM workunit WHERE assimilate_state <> 2"
        until(lambda: not database.read(lambda db: db.value(unfinished)), volunteers)
    finally:
        volunteers.ended.set()
        volunteers.join()
        for server in (old, new):
            if server.process is not None and server.process.poll() is None:
                server.stop()
        proxy.close()
    assert volunteers.failures == []
    assert {status for _, status in proxy.answers} == {200}
    check(database, root, volunteers.acknowledged, n_jobs=N_JOBS)
    database.close()
