"""Ctrl-C, once and again, at a sweep whose processes have just started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil


def test_a_second_ctrl_c_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    sweep = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "cobblestone",
            "frontier",
            str(tmp_path / "out"),
            "--only",
            "tight",
            "--workers",
            "2",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert sweep.stderr is not None
    said = b""
    try:
        while not (tmp_path / "out" / "runs.jsonl").exists() or len(psutil.Process(sweep.pid).children()) < 2:
            assert sweep.poll() is None
            time.sleep(0.02)
        os.killpg(sweep.pid, signal.SIGINT)
        while b"interrupted; the same command continues" not in said:
            line = sweep.stderr.readline()
            assert line
            said += line
        while sweep.poll() is None:
            os.killpg(sweep.pid, signal.SIGINT)
            time.sleep(0.02)
        said += sweep.communicate(timeout=60)[1]
    except BaseException:
        os.killpg(sweep.pid, signal.SIGKILL)
        raise
    assert sweep.returncode in (130, -signal.SIGINT)  # a shell shows both as 130
    assert b"Traceback" not in said
