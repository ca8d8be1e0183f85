"""A server on a terminal: what it says first, and how ``cobblestone stop`` ends it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cobblestone.cli import run_command
from cobblestone.demo.processes import free_port


class Terminal:
    """A server that was started in a terminal."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "cobblestone", "run", str(folder)]
        own, others = pty.openpty()
        self.process = subprocess.Popen(command, stdin=others, stdout=others, stderr=others)
        os.close(others)
        self._shown = b""
        self._grown = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(own,))
        self._reader.start()

    def _read(self, own: int) -> None:
        with open(own, "rb", buffering=0) as stream:
            try:
                while part := stream.read(4096):
                    with self._grown:
                        self._shown += part
                        self._grown.notify()
            except OSError:
                pass  # the other side is closed

    def lines(self, n: int) -> list[str]:
        with self._grown:
            assert self._grown.wait_for(lambda: self._shown.count(b"\n") >= n, timeout=60), self._shown
            return re.sub(r"\x1b\[[0-9;]*m", "", self._shown.decode()).splitlines()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    assert run_command(["project", "create", str(root), "--name", "Tides", "--port", str(free_port())]) == 0
    return root


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    running = Terminal(folder)
    yield running
    running.close()


@pytest.mark.timeout(200)
def test_a_server_greets_people_first_and_stops_when_told(
    folder: Path, terminal: Terminal, capsys: pytest.CaptureFixture[str]
):
    greeting, event = terminal.lines(2)[:2]
    assert re.fullmatch(r"Tides runs at http://127\.0\.0\.1:\d+/ – stop it with Ctrl-C\.", greeting)
    assert re.match(r"\d\d:\d\d:\d\d \[info +\] project_running", event)
    assert "roles=all" in event
    capsys.readouterr()
    assert run_command(["stop", str(folder)]) == 0
    assert re.fullmatch(
        rf"Stopped \(process {terminal.process.pid}, after \d+\.\d s\)\.\n", capsys.readouterr().out
    )
    assert terminal.process.wait(10) == 0
    assert not (folder / "server.json").exists()
    assert run_command(["stop", str(folder)]) == 1
    assert "is not running. Start it" in capsys.readouterr().err


def test_a_file_that_a_killed_server_left_leads_to_no_other_process(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    innocent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (folder / "server.json").write_text(f'{{"pid": {innocent.pid}, "started": 1.0}}')
        assert run_command(["stop", str(folder)]) == 1
        assert "is not running. Start it" in capsys.readouterr().err
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.communicate()


def test_a_folder_that_is_no_project_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run_command(["stop", str(tmp_path)]) == 1
    assert f"{tmp_path} is not a cobblestone project" in capsys.readouterr().err
