"""A server that is killed while many upload at once: what it acknowledged is there, byte for byte."""

from __future__ import annotations

import contextlib
import hashlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.e2e.test_kill import RemoteWorld
from tests.helpers.project_world import SimHost, World
from tests.helpers.server_process import Server

from cobblestone.demo.processes import free_port
from cobblestone.store.engine.database import Store
from cobblestone.store.work.uploads import output_content, outputs_of_results

ROUNDS = 5
N_JOBS = 240
N_UPLOADERS = 6
SMALL = 65_536  #: larger outputs become files


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Server, list[str]]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    world = World(
        tmp_path / "project",
        project={"url": url},
        server={"port": port},
        scheduler={"daily_result_quota": 100_000, "max_jobs_per_day_init": 100_000, "max_jobs_per_rpc": 1000},
        log={"level": "error"},
    )
    world.now = time.time()
    world.add_jobs(world.add_app(), n=N_JOBS)
    users = [world.user(f"user{number}") for number in range(N_UPLOADERS)]
    root = world.ctx.folder.root
    world.close()
    server = Server(root, url)
    yield server, users
    if server.process is not None and server.process.poll() is None:
        server.stop()


def content_of(name: str) -> bytes:
    """Mostly 1 kB; some are files, some empty, some on the border between database and file."""
    size = random.Random(name).choice([1024, 1024, 1024, 0, 1, SMALL, SMALL + 1, 200_000])
    return random.Random(name).randbytes(size)


class Uploader(threading.Thread):
    """A host that uploads its outputs one after the other, and notes what was acknowledged."""

    def __init__(self, url: str, authenticator: str, number: int) -> None:
        super().__init__()
        self.world = RemoteWorld(url)
        self.host = SimHost(self.world, authenticator, f"{number:032x}", {})
        self.acknowledged: set[str] = set()
        self.stopping = threading.Event()

    def ask(self) -> None:
        self.host.rpc(ask=1e10)

    def run(self) -> None:
        while not self.stopping.is_set() and (left := self.left()):
            with contextlib.suppress(httpx.HTTPError):
                name = left[0]
                if self.host.upload(f"{name}_0", content_of(name)).get("status") == "0":
                    self.acknowledged.add(name)

    def left(self) -> list[str]:
        return [name for name in self.host.held if name not in self.acknowledged]


@pytest.mark.timeout(300)
def test_acknowledged_uploads_outlive_kills(project: tuple[Server, list[str]], rng: random.Random):
    server, users = project
    server.start()
    uploaders = [Uploader(server.url, user, number) for number, user in enumerate(users)]
    for uploader in uploaders:
        uploader.ask()
    assert sum(len(uploader.host.held) for uploader in uploaders) == N_JOBS
    for uploader in uploaders:
        uploader.start()
    for _ in range(ROUNDS):
        time.sleep(rng.uniform(0.05, 0.6))
        server.kill()
        acknowledged = set().union(*(uploader.acknowledged for uploader in uploaders))
        check(server.root, acknowledged)
        server.start()
    for uploader in uploaders:
        uploader.join(120)
        uploader.world.close()
    server.stop()
    assert not any(uploader.left() for uploader in uploaders)
    assert check(server.root, set().union(*(uploader.acknowledged for uploader in uploaders))) == N_JOBS


def check(root: Path, acknowledged: set[str]) -> int:
    """Every acknowledged output is there whole, and nothing is noted that is not there; how many are."""
    store = Store(root / "project.sqlite", readers=1)
    try:
        found = store.read(
            lambda db: outputs_of_results(db, [row[0] for row in db.query("SELECT id FROM result")])
        )
    finally:
        store.close()
    outputs = {output.name.removesuffix("_0"): output for each in found.values() for output in each}
    assert acknowledged <= outputs.keys(), "acknowledged but not stored"
    for name, output in outputs.items():
        content = content_of(name)
        assert output.md5 == hashlib.md5(content).hexdigest()
        assert (output.data is None) == (len(content) > SMALL)
        assert output_content(output, root / "upload", max_nbytes=10**6) == content
    return len(outputs)
