"""Several processes on one PostgreSQL database: side by side, and killed, they lose and double nothing."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.helpers.eventually import eventually
from tests.helpers.killed_project import check, make_project, work
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import SimHost, World
from tests.helpers.server_process import RemoteWorld, Server

from cobblestone.cli import run_command
from cobblestone.demo.processes import free_port
from cobblestone.ops.running import RunningServer, read_note
from cobblestone.server.core.project import ProjectFolder
from cobblestone.store.engine.database import Store

N_JOBS = 120
HOSTS_PER_USER = 3
TWINS = "scheduler,upload,transitioner,validator,assimilator"


@dataclass
class Cluster:
    """The processes of a project, and its users."""

    address: str
    root: Path
    twins: list[Server]
    rest: Server
    users: list[str]

    @property
    def servers(self) -> list[Server]:
        return [*self.twins, self.rest]


@pytest.fixture(scope="module")
def durable() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True)
    yield server
    server.close()


@pytest.fixture
def cluster(tmp_path: Path, durable: PostgresServer) -> Iterator[Cluster]:
    address, root = durable.project_database(), tmp_path / "project"
    ports = [free_port() for _ in range(3)]
    urls = [f"http://127.0.0.1:{port}/" for port in ports]
    users = make_project(root, url=urls[2], port=ports[2], n_jobs=N_JOBS, database=address)
    twins = [
        Server(root, url, "--role", TWINS, "--port", str(port))
        for url, port in zip(urls[:2], ports[:2], strict=True)
    ]
    rest = Server(root, urls[2], "--role", "web,file_deleter,purger,statistics")
    found = Cluster(address=address, root=root, twins=twins, rest=rest, users=users)
    yield found
    for server in found.servers:
        if server.process is not None and server.process.poll() is None:
            server.stop()


class EitherWorld:
    """Carries each request to one of several servers, as a proxy does."""

    def __init__(self, urls: list[str], rng: random.Random) -> None:
        self.worlds = [RemoteWorld(url) for url in urls]
        self.rng = rng

    def post(self, path: str, **options: object) -> httpx.Response:
        return self.rng.choice(self.worlds).post(path, **options)

    def close(self) -> None:
        for world in self.worlds:
            world.close()


class Volunteers:
    """Hosts of one user that work in a thread of their own, whatever fails."""

    def __init__(self, cluster: Cluster, number: int, seed: float) -> None:
        self.rng = random.Random(seed)
        self.world = EitherWorld([server.url for server in cluster.twins], self.rng)
        user = cluster.users[number]
        self.hosts = [
            SimHost(self.world, user, f"{number * 100 + each:032x}", {"domain_name": f"h{number}-{each}"})
            for each in range(HOSTS_PER_USER)
        ]
        self.acknowledged: set[str] = set()
        self.failures: list[str] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.stop.is_set():
            try:
                work(self.rng.choice(self.hosts), self.rng, self.acknowledged)
            except httpx.HTTPError:
                time.sleep(0.1)
            except Exception as error:  # noqa: BLE001  # told by the test
                self.failures.append(repr(error))
                return

    def end(self) -> None:
        self.stop.set()
        self.thread.join()
        self.world.close()


def wait_for_all(database: Store, volunteers: list[Volunteers], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := database.read(
        lambda db: db.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state <> 2")
    ):
        assert time.monotonic() < deadline, f"{left} jobs do not finish"
        assert [each.failures for each in volunteers if each.failures] == []
        time.sleep(0.1)


@pytest.mark.timeout(900)
def test_twins_that_are_killed_again_and_again_lose_and_double_nothing(
    cluster: Cluster, rng: random.Random, kills: int
):
    for server in cluster.servers:
        server.start()
    volunteers = [Volunteers(cluster, number, rng.random()) for number in range(len(cluster.users))]
    database = Store(cluster.address, readers=1)
    try:
        for _ in range(kills):
            victim = rng.choice([*cluster.twins, rng.choice(cluster.servers)])
            time.sleep(rng.uniform(0.05, 0.8))
            victim.kill()
            victim.start()
        wait_for_all(database, volunteers, 300)
    finally:
        for each in volunteers:
            each.end()
    for server in cluster.servers:
        server.stop()
    acknowledged = set().union(*(each.acknowledged for each in volunteers))
    check(database, cluster.root, acknowledged, n_jobs=N_JOBS)
    sides = database.read(lambda db: db.value("SELECT COUNT(*) FROM host"))
    assert sides >= len(cluster.users) * HOSTS_PER_USER
    database.close()
    assert [each.failures for each in volunteers if each.failures] == []


@pytest.mark.timeout(300)
def test_work_that_one_process_leaves_is_taken_over_at_once(cluster: Cluster):
    first, second = cluster.twins
    first.start()
    second.start()
    cluster.rest.start()
    figures = {server.url: httpx.get(f"{server.url}metrics").text for server in cluster.servers}
    assert all("cobblestone_up_seconds " in text for text in figures.values())
    assert [url for url, text in figures.items() if "cobblestone_users " in text] == [cluster.rest.url], (
        "once"
    )
    time.sleep(3)
    first.kill()  # half of the shards were its own
    volunteer = EitherWorld([second.url], random.Random(1))
    hosts = [SimHost(volunteer, user, f"{n:032x}", {}) for n, user in enumerate(cluster.users)]
    acknowledged: set[str] = set()
    database = Store(cluster.address, readers=1)
    deadline = time.monotonic() + 60
    while database.read(lambda db: db.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state <> 2")):
        assert time.monotonic() < deadline
        for host in hosts:
            work(host, random.Random(2), acknowledged)
    volunteer.close()
    second.stop()
    cluster.rest.stop()
    check(database, cluster.root, acknowledged, n_jobs=N_JOBS)
    database.close()


def test_sqlite_is_not_shared(tmp_path: Path):
    import subprocess
    import sys

    port = free_port()
    make_project(tmp_path / "project", url=f"http://127.0.0.1:{port}/", port=port, n_jobs=1)
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", "run", str(tmp_path / "project"), "--role", "web"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "cobblestone project move" in done.stderr


def test_an_unknown_role_is_named(tmp_path: Path):
    import subprocess
    import sys

    port = free_port()
    make_project(tmp_path / "project", url=f"http://127.0.0.1:{port}/", port=port, n_jobs=1)
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", "run", str(tmp_path / "project"), "--role", "web,feeder"],
        capture_output=True,
        text=True,
    )
    assert "there is no such role" in done.stderr


@pytest.mark.timeout(300)
def test_the_note_in_the_folder_is_that_of_a_process_that_still_runs(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
):
    ports = [free_port() for _ in range(2)]
    first, second = (
        Server(cluster.root, f"http://127.0.0.1:{port}/", "--role", "web", "--port", str(port))
        for port in ports
    )

    def is_noted(server: Server) -> bool:
        found = read_note(cluster.root / "server.json")
        return (
            found is not None
            and server.process is not None
            and (found.pid, found.direct) == (server.process.pid, server.url)
        )

    try:
        first.start()
        second.start()
        eventually(lambda: is_noted(second))
        first.stop()
        assert is_noted(second), "the one that ended was not the one of the note"
        first.start()
        eventually(lambda: is_noted(first))
        capsys.readouterr()
        assert run_command(["stop", str(cluster.root)]) == 0
        assert "Other processes of the project still run" in capsys.readouterr().out
        assert first.process is not None
        assert first.process.wait(10) == 0
        eventually(lambda: is_noted(second))
        first.start()
        eventually(lambda: is_noted(first))
        first.kill()
        eventually(lambda: is_noted(second))
    finally:
        for server in (first, second):
            if server.process is not None and server.process.poll() is None:
                server.stop()
    assert not (cluster.root / "server.json").exists()


def test_a_note_of_another_machine_leads_to_no_process_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    root = tmp_path / "project"
    World(root).close()
    innocent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    note = RunningServer(innocent.pid, 1.0, "another-machine")
    (root / "server.json").write_bytes(msgspec.json.encode(note))
    try:
        with ProjectFolder(root).lock():
            assert run_command(["stop", str(root)]) == 1
        assert "runs on another-machine: call this there" in capsys.readouterr().err
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.communicate()
