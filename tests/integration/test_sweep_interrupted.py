"""A sweep that is interrupted keeps what it has and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cobblestone.cli.lab.sweeping import sweeping
from cobblestone.sweep.grid import read_results

SWEEP = """
import sys
from pathlib import Path
from cobblestone.sweep.backends import open_backend
from cobblestone.sweep.grid import run_grid

def work(number):
    while number >= 4:
        pass
    return number

if __name__ == "__main__":
    backend = open_backend(workers=2)
    try:
        run_grid(work, {str(i): i for i in range(9)}, backend=backend, keep=Path(sys.argv[1]),
                 progress=lambda done, total: print(done, flush=True))
    finally:
        backend.close()
"""


@pytest.mark.parametrize(
    ("sign", "everybody"),
    [(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGKILL, False)],
    ids=["ctrl-c", "terminated", "killed"],
)
def test_an_interrupted_sweep_keeps_its_results_and_ends_its_workers(
    tmp_path: Path, sign: signal.Signals, everybody: bool
) -> None:
    script, keep = tmp_path / "sweep.py", tmp_path / "runs.jsonl"
    script.write_text(SWEEP, encoding="utf-8")
    sweep = subprocess.Popen(
        [sys.executable, str(script), str(keep)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert sweep.stdout is not None
    try:
        while sweep.stdout.readline().strip() != b"4":
            assert sweep.poll() is None
        if everybody:  # as a terminal does
            os.killpg(sweep.pid, sign)
        else:
            sweep.send_signal(sign)
        # the workers hold the other end: this returns when the last of them is gone
        sweep.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        os.killpg(sweep.pid, signal.SIGKILL)
        raise
    assert read_results(keep) == {str(i): i for i in range(4)}


def test_the_search_for_attacks_that_keeps_nothing_does_not_promise_to_continue(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), sweeping("tries", None):
        raise KeyboardInterrupt
    with pytest.raises(click.exceptions.Exit), sweeping("runs", tmp_path):
        raise KeyboardInterrupt
