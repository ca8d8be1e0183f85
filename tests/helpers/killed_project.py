"""A project under kills: hosts that compute its jobs, and what must hold afterwards (the invariants of the design)."""

from __future__ import annotations

import random
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.project_world import SimHost, World

from cobblestone.domain.work import JobLimits
from cobblestone.policy.lifecycle.states import check_invariants
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Store
from cobblestone.store.work import lifecycle
from cobblestone.wire.scheduler.report import MsgFromHost


def make_project(root: Path, *, url: str, port: int, n_jobs: int, database: str = "") -> list[str]:
    """A project with jobs of quorum 2 and an assimilator of its own; authenticators of three users."""
    world = World(
        root,
        database=database,
        project={"url": url},
        server={"port": port},
        scheduler={"daily_result_quota": 100_000},
        log={"level": "error"},
    )
    world.now = time.time()
    # The hosts are done within milliseconds; a larger estimate would make their run times too small to learn from.
    limits = JobLimits(rsc_fpops_est=1e10)
    app = world.add_app(quorum=2, assimilator="merge.py:assimilate", limits=limits)
    app = replace(app, credit_system="creditnew-deployed", partial_credit=True)
    world.write(lambda tx: apps.update_app(tx, app))
    (world.ctx.folder.root / "merge.py").write_text(
        "def assimilate(workunit):\n"
        "    (workunit.folder / str(workunit.id)).write_bytes(workunit.outputs['out'].read_bytes())\n"
    )
    world.add_jobs(app, n=n_jobs)
    users = [world.user(name) for name in ("alice", "bob", "carol")]
    world.close()
    return users


def work(host: SimHost, rng: random.Random, acknowledged: set[str], *, lies: bool = False) -> None:
    """What a client does: messages of what runs, upload and report what is finished, ask for more."""
    host.rpc(
        trickles=[
            MsgFromHost(
                result_name=name, time=int(time.time()), variety="trickle_credit", text="<runtime>1</runtime>"
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


def check(database: Store, root: Path, acknowledged: set[str], *, n_jobs: int) -> None:
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
            "SELECT SUM(e.granted), SUM(CASE WHEN e.kind = 'correction' THEN 1 ELSE 0 END)"
            " FROM result r JOIN credit_entry e ON e.result_id = r.id"
            " WHERE r.validate_state = 2 GROUP BY r.id"
        )
    )
    assert [(total, n) for total, n in wrong if abs(total) > 1e-9 or n > 1] == []
    differences = database.read(recompute).differences
    assert differences == []
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
    assert len(answers) == n_jobs
