"""Programs of others, and other computers, control our client: boinctui in a terminal, and TLS with a token."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import ENDLESS, LiveProject
from tests.helpers.own_client import OwnClient

ESCAPE, DOWN = b"\x1b", b"\x1bOB"
SEQUENCES = re.compile(rb"\x1b[\[(][0-9;?]*[A-Za-z0-9]|\x1b[=>]|\x0f")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnClient]:
    client = OwnClient(tmp_path / "own")
    yield client
    client.stop()
    assert "Internal error" not in client.log()


class Terminal:
    """A program in a terminal of 50 lines."""

    def __init__(self, home: Path, *command: str) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, os.environ | {"TERM": "xterm", "HOME": str(home)})
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.shown = b""

    def look(self, seconds: float) -> None:
        """Read what is drawn."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.descriptor], [], [], left)[0]:
                self.shown += SEQUENCES.sub(b"", os.read(self.descriptor, 65536))

    def press_until(self, done: Callable[[], bool], *keys: bytes, what: str) -> None:
        """Press keys, again while nothing comes of it: what is pressed while a window is drawn is lost."""
        for _ in range(10):
            for key in keys:
                os.write(self.descriptor, key)
                self.look(3.0)
            if done():
                return
        raise AssertionError(f"{what} in vain: {self.shown[-3000:]!r}")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)


def test_boinctui_shows_its_tasks_and_suspends_one(
    live: Callable[..., LiveProject], own: OwnClient, tmp_path: Path
):
    project = live()
    project.app("work", ENDLESS)
    project.submit("work", "1")
    own.start()
    own.cli("attach", project.url, "--key", project.account("alice"))
    own.wait_for(
        lambda: [task["state"] for task in own.ask("tasks")] == ["running"], seconds=60, what="a running task"
    )
    password = (own.folder / "gui_rpc_auth.cfg").read_text().strip()
    terminal = Terminal(tmp_path, "boinctui", f"--boinchost=127.0.0.1:{own.port}", f"--pwd={password}")
    try:
        terminal.press_until(lambda: b"E2E" in terminal.shown, ESCAPE, what="to close the list of hosts")
        terminal.press_until(lambda: own.ask("tasks")[0]["suspended"], DOWN, b"S", what="to suspend")
        assert b"Susp" in terminal.shown
        why = f"{own.ask('tasks')[0]['name']}: the volunteer has suspended it\n"
        own.wait_for(lambda: why in own.cli("why").stdout, seconds=60, what="why the task waits")
        terminal.press_until(lambda: not own.ask("tasks")[0]["suspended"], b"R", what="to resume")
    finally:
        terminal.close()


def test_tasks_of_two_projects_that_have_the_same_name_run_together_and_are_told_apart(
    live: Callable[..., LiveProject], tmp_path: Path
):
    own = OwnClient(tmp_path / "own", ncpus=2)
    try:
        own.start()
        places: list[str] = []
        for project in (live(), live()):
            project.app("work", ENDLESS)
            project.submit("work", "1")
            own.cli("attach", project.url, "--key", project.account("alice"))
            places.append(project.url + "work_1_0_0")
        states = dict.fromkeys(places, "running")
        own.wait_for(
            lambda: {task["project"] + task["name"]: task["state"] for task in own.ask("tasks")} == states,
            seconds=90,
            what="both tasks",
        )
        told = own.cli("why").stdout
        assert all(f"{place}: its project's turn" in told for place in places)
        refused = own.cli("suspend", "work_1_0_0", check=False)
        assert refused.returncode == 1
        assert all(place in refused.stderr for place in places)
        assert "No GPU NVIDIA:99 was found" in own.cli("suspend", "NVIDIA:99", check=False).stderr
        assert "no account manager is in use" in own.boinccmd("--acct_mgr", "sync")
        own.cli("suspend", places[1])
        assert [task["suspended"] for task in own.ask("tasks")] == [False, True]
        own.wait_for(
            lambda: "the volunteer has suspended it" in own.cli("why", places[1]).stdout,
            seconds=60,
            what="why it waits",
        )
    finally:
        own.stop()


def test_another_computer_asks_over_tls_with_a_token(own: OwnClient, tmp_path: Path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=volunteer", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    own.start("--remote", "--tls-certificate", str(certificate), "--tls-key", str(key))
    access = own.access()
    elsewhere = OwnClient(tmp_path / "elsewhere")  # a data directory in which nothing runs
    address = f"{access.reading_token}@127.0.0.1:{access.port}"
    seen = elsewhere.ask("status", "--host", address, "--certificate", str(certificate))
    assert seen["data_directory"] == str(own.folder)
    refused = elsewhere.cli(
        "mode", "run", "never", "--host", address, "--certificate", str(certificate), check=False
    )
    assert "only allows reading" in refused.stderr
    wrong = elsewhere.cli("status", "--host", f"x{address}", "--certificate", str(certificate), check=False)
    assert "does not accept this token" in wrong.stderr
    stranger = elsewhere.cli(
        "status", "--host", address, check=False
    )  # plain, or without trust in the certificate
    assert stranger.returncode == 1
    assert "Traceback" not in stranger.stderr


def test_what_a_project_has_to_say_is_listed(live: Callable[..., LiveProject], own: OwnClient):
    project = live()
    own.start()
    assert own.cli("notices").stdout == "No notices.\n"
    assert own.boinccmd("--project_attach", project.url, "0" * 32) == ""
    words = "E2E: This project does not know your account key."
    own.wait_for(lambda: words in own.cli("status").stdout, seconds=60, what="what the project says")
    assert words in own.cli("notices").stdout
    (notice,) = own.ask("notices")
    assert (notice["project_name"], notice["category"]) == ("E2E", "scheduler")
    assert "account not accepted: see cobblestone client notices" in own.cli("projects").stdout
    own.cli("detach", project.url)
    own.wait_for(lambda: own.ask("notices") == [], seconds=30, what="the end of the notice")


def test_attaching_with_a_wrong_key_fails_and_with_the_right_one_works_afterwards(
    live: Callable[..., LiveProject], own: OwnClient
):
    project = live()
    own.start()
    wrong = own.cli("attach", project.url, "--key", "0" * 32, check=False)
    assert wrong.returncode == 1
    assert wrong.stdout == ""
    assert wrong.stderr.startswith(
        "Error: E2E does not accept this account, so it was not attached. It says: This project"
    )
    assert own.ask("projects") == []
    assert own.ask("notices") == []
    right = own.cli("attach", project.url, "--key", project.account("alice"))
    assert (right.stdout, right.stderr) == ("Attached to E2E.\n", "")
    (row,) = own.ask("projects")
    assert row["host_id"] > 0
