"""Commands and programs on a project's own folder, with a server at another port than the settings say, and without one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.server_process import Server

from cobblestone.cli import run_command
from cobblestone.demo.processes import free_port
from cobblestone.server.core.project import ProjectFolder

PROGRAM = """
import sys
import cobblestone

project = cobblestone.connect(sys.argv[1])
print(project.apps())
"""

LEFT = """
import sys
import cobblestone

pool = cobblestone.connect(sys.argv[1]).executor("square")
futures = [pool.submit(text) for text in (b"1", b"2", b"3")]
"""

FORK = """
import os, time
while not all(each.workunit for each in futures):
    time.sleep(0.1)
if os.fork() == 0:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
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


@pytest.mark.parametrize(("more", "printed"), [("", ""), (FORK, "3\n")], ids=["alone", "with-a-child"])
def test_what_an_executor_took_is_sent_at_the_end_of_a_program_that_did_not_leave_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, printed: str
):
    (tmp_path / "square.py").write_text("")
    assert (
        run_command(
            ["app", "create", "square", "--python", str(tmp_path / "square.py"), "--project", str(root)]
        )
        == 0
    )
    server = Server(root, f"http://127.0.0.1:{ProjectFolder(root).settings().server.port}/")
    server.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", LEFT + more, str(root)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, printed)
        assert "Open jobs of batch 1: 3 of 3 (" in done.stderr
        assert done.stderr.count("Open jobs") == 1, "a child that was forked has none"
        capsys.readouterr()
        assert run_command(["batch", "status", "1", "--json", "--project", str(root)]) == 0
        batch = json.loads(capsys.readouterr().out)
        assert (batch["state"], batch["njobs"]) == ("open", 3)
    finally:
        server.stop()


def test_a_program_whose_last_jobs_cannot_be_sent_says_what_it_waits_for(root: Path, tmp_path: Path):
    (tmp_path / "square.py").write_text("")
    made = ["app", "create", "square", "--python", str(tmp_path / "square.py"), "--project", str(root)]
    assert run_command(made) == 0
    server = Server(root, f"http://127.0.0.1:{ProjectFolder(root).settings().server.port}/")
    server.start()
    assert server.process is not None
    program = LEFT.replace(
        "futures =", f"import os; os.kill({server.process.pid}, {signal.SIGSTOP:d})\nfutures ="
    )
    try:
        with subprocess.Popen(
            [sys.executable, "-c", program, str(root)], stderr=subprocess.PIPE, text=True
        ) as running:
            assert running.stderr is not None
            assert "still being sent" in running.stderr.readline()
            server.process.send_signal(signal.SIGCONT)
            assert "Open jobs of batch 1: 3 of 3 (" in running.stderr.read()
        assert running.returncode == 0
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.stop()
