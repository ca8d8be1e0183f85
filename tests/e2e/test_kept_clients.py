"""A project of each released schema is upgraded; clients that were in the middle of its tasks go on, report, and get credit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.helpers.kept_clients import CLIENTS, LONG, unpack
from tests.helpers.kept_project import RELEASED
from tests.helpers.newer_version import CONTRACTED, install_newer
from tests.helpers.server_process import Server
from tests.helpers.stock_client import StockClient

from cobblestone.demo.processes import free_port
from cobblestone.domain.values import ResultId
from cobblestone.store.engine.database import Store
from cobblestone.store.maintenance.upgrade import current_revision
from cobblestone.store.schema.project import PROJECT
from cobblestone.store.work import rows as work

THIS = (sys.executable, "-m", "cobblestone")


#: Runs commands of one version one after the other, without a second of imports for each; a line after what each printed.
PROGRAM = """
import json, sys
from cobblestone.cli import run_command
for words in json.loads(sys.argv[1]):
    status = run_command(words)
    if status:
        sys.exit(f"{words}: {status}")
    print("\\f", flush=True)
"""


def carried_out(program: Sequence[str], *commands: Sequence[str]) -> list[str]:
    """What commands of one version printed."""
    python = program[: program.index("-m")]
    done = subprocess.run(
        [*python, "-c", PROGRAM, json.dumps(commands)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("\f\n")[:-1]


@pytest.mark.parametrize("newer", [False, True], ids=["this version", "a version with another schema"])
@pytest.mark.parametrize("version", sorted(path.name for path in RELEASED.iterdir()))
def test_clients_in_the_middle_of_tasks_go_on_after_an_upgrade(version: str, newer: bool, tmp_path: Path):
    url = unpack(version, tmp_path, port=free_port())
    root = tmp_path / "project"
    program = install_newer(tmp_path / "newer") if newer else THIS
    subprocess.run([*program, "upgrade", str(root)], check=True)
    assert current_revision(root / "project.sqlite", PROJECT) == (CONTRACTED if newer else PROJECT.head)

    server = Server(root, url)
    server.program = program
    server.start()
    clients = [StockClient(tmp_path / name, ncpus=2, buffer_days=0.001) for name in CLIENTS]
    database = Store(root / "project.sqlite", readers=1)
    try:
        for client in clients:
            client.start()
            assert len(client.tasks()) == 2, "it knows its tasks"

        def all_granted() -> bool:
            for client in clients:
                client.update(url)
            return (
                database.read(lambda db: db.value("SELECT COUNT(*) FROM result WHERE validate_state = 1"))
                == 6
            )

        clients[0].wait_for(all_granted, seconds=180, what="credit for every task")
        for client in clients:
            client.wait_for(lambda client=client: client.tasks() == [], seconds=60, what="acknowledgement")
            assert client.unparsed_xml() == []
    finally:
        for client in clients:
            client.stop()
        server.stop()
    outcomes = database.read(
        lambda db: db.query(
            "SELECT u.name, COUNT(*), MIN(e.granted) > 0, SUM(e.granted) - u.total_credit FROM credit_entry e"
            " JOIN user_account u ON u.id = e.user_id WHERE e.kind = 'grant' GROUP BY u.id, u.name, u.total_credit"
        )
    )
    assert outcomes == [
        ("Alice", 3, 1, pytest.approx(0, abs=1e-9)),
        ("Bob", 3, 1, pytest.approx(0, abs=1e-9)),
    ]
    texts = [database.read(lambda db, n=n: work.result_text(db, ResultId(n))) for n in range(1, 7)]
    database.close()
    starts = sorted([int(at) for at in re.findall(r"start at (\d+)", each.stderr)] for each in texts)
    assert starts[:4] == [[0]] * 4
    assert [len(each) for each in starts[4:]] == [2, 2], "the tasks that ran were begun twice"
    assert all(0 < each[1] < LONG for each in starts[4:]), "and went on from their checkpoints"
    here = ("--project", str(root))
    jobs = [("workunit", "show", str(job), *here) for job in range(1, 4)]
    asked = [("doctor", *here), ("credit", "recompute", *here), ("export", *here)]
    check = ("export", "--json", "--check", str(root / "exports" / "current"))
    *shown, _, recomputed, _, checked = carried_out(program, *jobs, *asked, check)
    assert all(shown)
    assert "agree with the ledger" in recomputed
    files = json.loads(checked)
    assert {each["problem"] for each in files} == {""}
    assert {each["name"]: each["records"] for each in files}["user.gz"] == 2
