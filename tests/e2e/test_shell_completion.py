"""The Tab key in real shells, after the one documented command."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cobblestone.cli import run_command
from cobblestone.ops.environment import typed_noun

CONTROL = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]|[\x00-\x1f]")
SHELLS = ("bash", "zsh", "fish")


class Terminal:
    """A shell in a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def complete(self, typed: str, expected: str) -> None:
        """Type something and the Tab key.  zsh loads a function at the first Tab that it is for, and completes at the next."""
        self.type(typed + "\t")
        self.wait_for(expected, again="\t")

    def wait_for(self, text: str, *, again: str = "", seconds: float = 180.0) -> None:
        """Read until a text has come; what was read before does not count.  Type ``again`` while it does not come."""
        end = time.monotonic() + seconds
        start, typed = len(self.seen), time.monotonic()
        while text not in self.seen[start:]:
            if again and time.monotonic() > typed + 10:
                self.type(again)
                typed = time.monotonic()
            assert time.monotonic() < end, f"{text!r} did not come; there is: {self.seen[-2000:]!r}"
            if select.select([self._descriptor], [], [], 0.2)[0]:
                self.seen += CONTROL.sub("", os.read(self._descriptor, 65536).decode(errors="replace"))


@contextmanager
def terminal(shell: str, home: Path) -> Iterator[Terminal]:
    """Start an interactive shell, as a person with this home folder would."""
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
    }
    child, descriptor = pty.fork()
    if child == 0:  # pragma: no cover  # the child is the shell
        os.chdir(home)
        os.execvpe(shell, [shell, "-i"], environment)
    try:
        yield Terminal(descriptor)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(descriptor)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a project that has an app and a batch."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "period.py").write_text("print(1)\n")
    (tmp_path / "low.json").write_text("1")
    for name in (".bashrc", ".zshrc"):  # without one zsh first asks an ordinary user how to set it up
        (tmp_path / name).write_bytes(b"# caf\xe9\n")
    for line in (
        ["project", "create", "sky", "--port", "18997"],
        [
            "app",
            "create",
            "period",
            "-p",
            "sky",
            "--files",
            "period.py",
            "--command",
            "python3 period.py {input} {output}",
        ],
        ["submit", "period", "low.json", "-p", "sky", "--name", "first-light"],
    ):
        assert run_command(line) == 0
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_commands_apps_and_batches(shell: str, home: Path):
    with terminal(shell, home) as first:
        first.type("cobblestone --install-completion\n")
        first.wait_for("completion installed")
    with terminal(shell, home) as second:
        second.type("echo $((40 + 2))\n" if shell != "fish" else "math 40 + 2\n")
        second.wait_for("42")  # it has read its files
        second.complete("cobblestone app sho", "show ")
        second.complete("-p sky per", "iod")
        second.type("\n")
        second.wait_for("python3 period.py {input} {output}")
        second.complete("cobblestone batch status -p sky ", "1")
        second.type("\n")
        second.wait_for("first-light")


def test_completion_outside_of_a_project_offers_nothing_and_says_nothing(tmp_path: Path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for name, value in (("COMP_WORDS", "cobblestone app show "), ("COMP_CWORD", "3")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("_COBBLESTONE_COMPLETE", "bash_complete")
    run_command([])
    printed = capfd.readouterr()
    assert (printed.out.strip(), printed.err) == ("", "")


@pytest.mark.parametrize(
    ("typed", "noun"),
    [
        ("cobblestone", ""),
        ("cobblestone ap", ""),
        ("cobblestone app ", "app"),
        ("cobblestone app show 'x", ""),
        ("cobblestone app show", "app"),
    ],
)
def test_only_the_command_that_is_typed_is_loaded(typed: str, noun: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COMP_WORDS", typed)
    assert typed_noun() == noun
