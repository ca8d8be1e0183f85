"""The client is killed at random moments: no job is lost, none starts again from its beginning, no process stays behind."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.helpers.client_daemon import JOBS
from tests.helpers.client_tasks import open_to_other_accounts, process_state

from cobblestone.client.sandbox.processes import marked_processes

STEPS_PER_KILL = 16
"""So that no job is done before it has been interrupted often."""


def living(data_dir: Path) -> set[int]:
    slots = data_dir / "slots"
    found: set[int] = set()
    for slot in slots.iterdir() if slots.exists() else ():
        found |= {pid for pid in marked_processes(slot) if process_state(pid) not in ("", "Z", "X")}
    return found


@pytest.mark.parametrize("bubblewrap", ["always", "never"])
def test_kills_at_random_moments_lose_nothing(
    tmp_path: Path, rng: random.Random, kills: int, bubblewrap: str
) -> None:
    steps = STEPS_PER_KILL * kills
    open_to_other_accounts(tmp_path)
    folder = tmp_path / "home of Jürgen"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.helpers.client_daemon", str(folder), bubblewrap, str(steps)]
    root = Path(__file__).parents[2]
    killed = outlived = 0
    for _ in range(kills):
        with (folder / "log").open("ab") as log:
            daemon = subprocess.Popen(command, cwd=root, stderr=log)
        try:
            daemon.wait(timeout=rng.uniform(0.4, 1.6))
            break
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
            killed += 1
        if bubblewrap == "always":  # the system ends the sandboxes; without them the next start does
            deadline = time.monotonic() + 10
            while living(folder / "data") and time.monotonic() < deadline:
                time.sleep(0.02)
            outlived += bool(living(folder / "data"))
    with (folder / "log").open("ab") as log:
        last = subprocess.run(command, cwd=root, stderr=log, timeout=90 + steps)
    print(f"{killed} kills, {outlived} of them outlived by jobs")
    # Bubblewrap asks the system to end it with its parent. Where the client dies before that, its next start ends the job.
    assert outlived <= max(1, kills / 10)
    assert killed > kills / 5, "the jobs were done before they could be interrupted"
    assert last.returncode == 0, (folder / "log").read_text()
    assert sorted((folder / "done").read_text().split()) == sorted(JOBS)
    assert not living(folder / "data")
    for name in JOBS:
        journal = [
            int(line)
            for line in (folder / f"data/projects/example.invalid_project/{name}_r0").read_text().split()
        ]
        assert sorted(set(journal)) == list(range(1, steps + 1))
        # After a kill a job may repeat the one step that it had not yet saved, never more.
        assert all(after - before in (0, 1) for before, after in itertools.pairwise(journal)), journal
