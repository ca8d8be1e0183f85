"""How demonstrations end: what they say last is true, and leads somewhere."""

from __future__ import annotations

import io
import os
import shlex
import signal
import time
from pathlib import Path

import pytest
from rich.console import Console

from cobblestone.demo.services import finish, stage
from cobblestone.domain.errors import CobblestoneError, ConfigError

ADDRESS = "http://127.0.0.1:1/"


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=80)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_is_stopped_is_not_shown_as_if_it_could_be_visited(console: Console, tmp_path: Path):
    folder = tmp_path / "a demo"
    with stage(console, folder, {folder / "project": "run", folder / "other": "manager run"}):
        (folder / "project").mkdir()
        finish(console, time.monotonic(), keep=False, addresses={"The project's page": ADDRESS})
    text = said(console)
    assert ADDRESS not in text
    assert "--keep" in text
    (again,) = [line for line in text.splitlines() if "again:" in line]
    assert shlex.split(again)[-2:] == ["run", str(folder / "project")]  # the other has not come to be


class Impatient(io.StringIO):
    """Somebody who presses Ctrl-C as soon as it is offered."""

    def write(self, text: str, /) -> int:
        written = super().write(text)
        if "Ctrl-C" in text:
            os.kill(os.getpid(), signal.SIGINT)
        return written


def test_what_is_kept_is_shown_until_it_is_interrupted(tmp_path: Path):
    console = Console(file=Impatient(), width=80)
    with stage(console, tmp_path / "demo", {}) as stack:
        stack.callback(console.print, "stopping")
        finish(console, time.monotonic(), keep=True, addresses={"Page": ADDRESS}, notes=["a note"])
    words = [ADDRESS, "a note", "Ctrl-C", "stopping", "The demonstration has stopped"]
    places = [said(console).index(each) for each in words]
    assert places == sorted(places)


def test_interruptions_while_it_ends_leave_nothing_running(console: Console, tmp_path: Path):
    stopped: list[int] = []

    def stop(number: int) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), each)
        stopped.append(number)

    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    def interrupted() -> None:
        with stage(console, tmp_path / "demo", {}) as stack:
            stack.callback(stop, 1)
            stack.callback(stop, 2)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stopped == [2, 1]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert "The demonstration has stopped" in said(console)


def test_a_failure_says_where_the_logs_are(console: Console, tmp_path: Path):
    with pytest.raises(CobblestoneError), stage(console, tmp_path / "demo", {}):
        raise CobblestoneError("2 of 4 jobs failed")
    assert str(tmp_path / "demo") in said(console)


def test_a_folder_of_somebody_else_is_left_alone(console: Console, tmp_path: Path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ConfigError), stage(console, tmp_path, {}):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]
    assert said(console) == ""
