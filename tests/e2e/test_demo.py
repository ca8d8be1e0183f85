"""The demonstration with our own client beside the unmodified one: their answers agree, and both earn credit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
from tests.helpers.client_tasks import open_to_other_accounts


def demo(folder: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", "demo", "--folder", str(folder), "--quick", *options],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_demonstration_runs_with_our_own_client_beside_the_stock_client(tmp_path: Path):
    open_to_other_accounts(tmp_path)
    said = demo(tmp_path / "demo", "--jobs", "2", "--own-client")
    assert "Alice: Debian's unmodified BOINC client" in said
    assert "Bob: cobblestone's own client" in said
    (answer,) = (tmp_path / "demo" / "project" / "results").glob("*/batch-*/answer.json")
    assert json.loads(answer.read_text())["answer"]
    credit = re.findall(r"(Alice|Bob)\W+([0-9.]+)", said)
    assert {name for name, amount in credit if float(amount) > 0} == {"Alice", "Bob"}
    assert "Traceback" not in (tmp_path / "demo" / "bob" / "client.log").read_text()
    left = [
        each
        for each in psutil.process_iter(["cmdline"])
        if str(tmp_path) in " ".join(each.info["cmdline"] or ())
    ]
    assert left == []
