"""Parts of a running server die or cannot write; the rest goes on, and it ends when it is told to."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from tests.helpers.eventually import eventually

from cobblestone.cli import run_command
from cobblestone.demo.processes import free_port

HOLD_DATABASE = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(100)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    assert run_command(["project", "create", str(root), "--name", "Tides", "--port", str(free_port())]) == 0
    return root


def url_of(folder: Path) -> str:
    found = re.search(r'^url = "(http[^"]+)"', (folder / "cobblestone.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def answers(url: str, path: str = "readyz") -> int:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url + path, timeout=30, verify=False).status_code
    return 0


def test_a_log_that_cannot_be_written_stops_nothing(folder: Path):
    with Path("/dev/full").open("w") as full:
        server = subprocess.Popen(
            [sys.executable, "-m", "cobblestone", "run", str(folder)], stdout=full, stderr=full
        )
    try:
        url = url_of(folder)
        eventually(lambda: answers(url) == 200)
        for _ in range(20):  # each of them is worth a line or more
            httpx.post(url + "cgi-bin/cgi", content=b"<scheduler_request>nonsense", timeout=30, verify=False)
            httpx.post(url + "cgi-bin/file_upload_handler", content=b"nonsense", timeout=30, verify=False)
        assert answers(url) == 200
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    finally:
        server.kill()
        server.wait()


def test_readiness_says_within_seconds_that_the_database_hangs(folder: Path):
    server = subprocess.Popen(
        [sys.executable, "-m", "cobblestone", "run", str(folder)], stderr=subprocess.DEVNULL
    )
    try:
        url = url_of(folder)
        eventually(lambda: answers(url) == 200)
        blocker = subprocess.Popen(
            [*(sys.executable, "-c"), HOLD_DATABASE, str(next(folder.glob("*.sqlite")))],
            stdout=subprocess.PIPE,
        )
        try:
            assert blocker.stdout is not None
            assert blocker.stdout.readline() == b"held\n"
            began = time.monotonic()
            eventually(lambda: answers(url) != 200)
            assert time.monotonic() - began < 15
            assert answers(url, "healthz") == 200
        finally:
            blocker.kill()
            blocker.communicate()
        eventually(lambda: answers(url) == 200)
    finally:
        for process in psutil.Process(server.pid).children(recursive=True):
            process.kill()
        server.terminate()
        server.wait(60)


def test_readiness_is_true_while_the_disk_is_full(folder: Path, tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    script = 'mount -t tmpfs -o size=48m disk "$2" && cp -a "$1/." "$2" && exec "$3" -m cobblestone run "$2"'
    words = ("unshare", "--map-root-user", "--mount", "sh", "-ec", script, "sh")
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([*words, folder, disk, sys.executable], stderr=log)
    try:
        url = url_of(folder)
        eventually(lambda: answers(url) == 200)
        seen = Path(f"/proc/{server.pid}/root") / disk.relative_to("/")  # the disk is its own
        fill(seen / "filling")
        eventually(lambda: answers(url) == 503)
        assert "No space left" in httpx.get(url + "readyz", timeout=30).json()["disk"]
        assert answers(url, "healthz") == 200
        (seen / "filling").unlink()
        eventually(lambda: answers(url) == 200)
        assert not list(seen.glob(".trial*"))
    finally:
        for process in psutil.Process(server.pid).children(recursive=True):
            process.kill()
        server.terminate()
        server.wait(60)


def test_a_start_on_a_full_disk_says_that_it_is_full(folder: Path, tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size=48m disk "$2" && cp -a "$1/." "$2"; head -c 64M /dev/zero > "$2/filling" || true;'
        ' exec "$3" -m cobblestone run "$2"'
    )
    words = ("unshare", "--map-root-user", "--mount", "sh", "-ec", script, "sh")
    done = subprocess.run([*words, folder, disk, sys.executable], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "project.sqlite cannot be read" in done.stderr
    assert "The disk is full." in done.stderr


def fill(path: Path) -> None:
    """Fill a disk to the last byte."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
