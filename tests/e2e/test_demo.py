"""The demonstration with our own client beside the unmodified one: their answers agree, and both earn credit."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest
from tests.helpers.client_tasks import open_to_other_accounts


def command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "cobblestone", "demo", "--folder", str(folder), "--quick", *options]


def demo(folder: Path, *options: str) -> str:
    done = subprocess.run(command(folder, *options), capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def left_of(folder: Path) -> list[psutil.Process]:
    """Processes that have to do with the folder."""
    every = psutil.process_iter(["cmdline"])
    return [each for each in every if str(folder) in " ".join(each.info["cmdline"] or ())]


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
    assert left_of(tmp_path) == []
    # the last lines tell of nothing that is not there any more
    end = said[said.index("Done in") :]
    assert "--keep" in end
    assert "http://" not in end
    (again,) = re.findall(r"again: (.+)", end)
    program = (
        again.replace("cobblestone ", "", 1)
        if again.startswith("cobblestone ")
        else again.split(" -m cobblestone ")[1]
    )
    checked = subprocess.run(
        [sys.executable, "-m", "cobblestone", *shlex.split(program), "--check"], timeout=60
    )
    assert checked.returncode == 0


@pytest.mark.parametrize(
    ("options", "until", "status"),
    [((), "Adding the program", 130), (("--keep", "--jobs", "1"), "Ctrl-C", 0)],
)
def test_interrupted_it_ends_everything_and_says_so(
    tmp_path: Path, options: tuple[str, ...], until: str, status: int
):
    with subprocess.Popen(command(tmp_path / "demo", *options), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if until in line:
                break
        address = re.findall(r"http://[\d.:]+/", said)[-1]
        assert httpx.get(address, trust_env=False).status_code == 200
        process.send_signal(signal.SIGINT)
        end, _ = process.communicate(timeout=120)
    assert process.returncode == status
    assert "The demonstration has stopped" in end
    assert "http://" not in end
    assert left_of(tmp_path) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(address, trust_env=False)
