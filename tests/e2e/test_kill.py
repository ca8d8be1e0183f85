"""SIGKILL at random moments: nothing acknowledged is lost, nothing is credited twice, every job finishes."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.helpers.killed_project import check, make_project, work
from tests.helpers.project_world import SimHost
from tests.helpers.server_process import RemoteWorld, Server

from cobblestone.demo.processes import free_port
from cobblestone.store.engine.database import Store

N_JOBS = 60


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Server, list[str]]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    root = tmp_path / "project"
    users = make_project(root, url=url, port=port, n_jobs=N_JOBS)
    server = Server(root, url)
    yield server, users
    if server.process is not None and server.process.poll() is None:
        server.stop()


@pytest.mark.timeout(900)
def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    project: tuple[Server, list[str]], rng: random.Random, kills: int
):
    server, users = project
    acknowledged: set[str] = set()
    remote = RemoteWorld(server.url)
    hosts = [SimHost(remote, user, f"{number:032x}", {}) for number, user in enumerate(users)]
    for _ in range(kills):
        server.start()
        killer = threading.Timer(rng.uniform(0.05, 1.5), server.kill)
        killer.start()
        while killer.is_alive():
            with contextlib.suppress(httpx.HTTPError):
                host = rng.choice(hosts)
                work(host, rng, acknowledged, lies=host is hosts[-1])
        killer.join()
    server.start()
    database = Store(server.root / "project.sqlite", readers=1)
    deadline = time.monotonic() + 120
    while database.read(lambda db: db.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state <> 2")):
        assert time.monotonic() < deadline, "jobs do not finish"
        for host in hosts:  # what was uploaded before the last kill is not uploaded otherwise
            work(host, rng, acknowledged, lies=host is hosts[-1])
    server.stop()
    remote.close()
    check(database, server.root, acknowledged, n_jobs=N_JOBS)
    database.close()
