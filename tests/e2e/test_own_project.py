"""Commands and programs on a project's own folder, with a server at another port than the settings say, and without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.server_process import Server

from cobblestone.cli import run_command
from cobblestone.demo.processes import free_port

PROGRAM = """
import sys
import cobblestone

project = cobblestone.connect(sys.argv[1])
print(project.apps())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    assert run_command(["project", "create", str(tmp_path / "sky"), "--port", str(free_port())]) == 0
    return tmp_path / "sky"


def test_commands_find_a_server_that_listens_elsewhere(root: Path, capsys: pytest.CaptureFixture[str]):
    port = free_port()
    server = Server(root, f"http://127.0.0.1:{port}/", "--port", str(port))
    server.start()
    try:
        capsys.readouterr()
        assert run_command(["status", "--project", str(root)]) == 0
        assert "running since" in capsys.readouterr().out
    finally:
        server.stop()


def test_a_program_that_closes_nothing_ends(root: Path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
