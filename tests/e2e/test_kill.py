"""SIGKILL at random moments: nothing acknowledged is lost, nothing is credited twice, every job finishes."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.helpers.project_world import SimHost, World
from tests.helpers.server_process import RemoteWorld, Server

from cobblestone.demo.stock_client import free_port
from cobblestone.policy.lifecycle.states import check_invariants
from cobblestone.server.recompute import recompute
from cobblestone.store import apps, lifecycle
from cobblestone.store.database import Store
from cobblestone.wire.scheduler_request import MsgFromHost

ROUNDS = 50
N_JOBS = 60


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Server, list[str]]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    world = World(
        tmp_path / "project",
        project={"url": url},
        server={"port": port},
        scheduler={"daily_result_quota": 100_000},
        log={"level": "error"},
    )
    world.now = time.time()
    app = world.add_app(quorum=2, assimilator="merge.py:assimilate")
    app = replace(app, credit_system="creditnew-deployed", partial_credit=True)
    world.write(lambda tx: apps.update_app(tx, app))
    (world.ctx.folder.root / "merge.py").write_text(
        "def assimilate(workunit):\n"
        "    (workunit.folder / str(workunit.id)).write_bytes(workunit.outputs['out'].read_bytes())\n"
    )
    world.add_jobs(app, n=N_JOBS)
    users = [world.user(name) for name in ("alice", "bob", "carol")]
    root = world.ctx.folder.root
    world.close()
    server = Server(root, url)
    yield server, users
    if server.process is not None and server.process.poll() is None:
        server.stop()


def work(host: SimHost, rng: random.Random, acknowledged: set[str], *, lies: bool = False) -> None:
    """What a client does: messages of what runs, upload and report what is finished, ask for more."""
    host.rpc(
        trickles=[
            MsgFromHost(
                result_name=name,
                time=int(time.time()),
                variety="trickle_credit",
                text="<runtime>1</runtime>",
            )
            for name in host.held
        ]
    )
    reports = []
    for name in list(host.held):
        workunit = name.rpartition("_")[0]
        number = zlib.crc32(workunit.encode())
        said = "lie" if lies and number % 3 == 0 else "answer"
        # every other answer is too large for the database
        content = f"{said} of {workunit}\n".encode() * (4000 if number % 2 else 1)
        reports.append(host.finish(name, content))
    reply = host.rpc(ask=rng.choice([1, 1e13]), reports=reports)
    acknowledged.update(ack.get("name") for ack in reply.all("result_ack"))


@pytest.mark.timeout(300)
def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    project: tuple[Server, list[str]], rng: random.Random
):
    server, users = project
    acknowledged: set[str] = set()
    remote = RemoteWorld(server.url)
    hosts = [SimHost(remote, user, f"{number:032x}", {}) for number, user in enumerate(users)]
    for _ in range(ROUNDS):
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
        for host in hosts:
            work(host, rng, acknowledged)
    server.stop()
    remote.close()
    check(database, server.root, acknowledged)
    database.close()


def check(database: Store, root: Path, acknowledged: set[str]) -> None:
    """The invariants of the design."""
    lost = database.read(
        lambda db: db.query_in(
            "SELECT name FROM result WHERE server_state <> 5 AND name IN (??)", sorted(acknowledged)
        )
    )
    assert lost == [], "acknowledged but not stored"
    valid = database.read(lambda db: db.query("SELECT id FROM result WHERE validate_state = 1 ORDER BY id"))
    credited = database.read(
        lambda db: db.query("SELECT result_id FROM credit_entry WHERE kind = 'grant' ORDER BY result_id")
    )
    assert valid == credited
    # what messages of wrong results brought was taken back, once
    wrong = database.read(
        lambda db: db.query(
            "SELECT SUM(e.granted), SUM(e.kind = 'correction') FROM result r JOIN credit_entry e ON e.result_id = r.id"
            " WHERE r.validate_state = 2 GROUP BY r.id"
        )
    )
    assert set(wrong) <= {(0.0, 1)}
    assert database.read(recompute).differences == []
    samples = database.read(lambda db: db.value("SELECT SUM(pfc_n) FROM host_app_version"))
    assert samples == database.read(lambda db: db.value("SELECT pfc_n FROM app_version")) == len(valid)
    total = database.read(lambda db: db.value("SELECT SUM(granted) FROM credit_entry"))
    for table in ("host", "user_account", "app_version"):
        summed = database.read(lambda db, table=table: db.value(f"SELECT SUM(total_credit) FROM {table}"))
        assert summed == pytest.approx(total, rel=1e-9)
    twice = database.read(
        lambda db: db.query(
            "SELECT 1 FROM result WHERE user_id IS NOT NULL GROUP BY workunit_id, user_id HAVING COUNT(*) > 1"
        )
    )
    assert twice == []
    ids = [row[0] for row in database.read(lambda db: db.query("SELECT id FROM workunit"))]
    for view in database.read(lambda db: lifecycle.views(db, ids)):
        assert check_invariants(view) == []
    assert database.read(lambda db: db.value("SELECT COUNT(*) FROM workunit WHERE error_mask <> 0")) == 0
    answers = [path for path in (root / "results" / "demo").iterdir() if path.is_file()]
    assert sorted(int(path.name) for path in answers) == sorted(ids)
    assert len(answers) == N_JOBS
