"""Commands that documents and messages name exist, and docs/commands.md lists them all.

`python -m tests.unit.test_cli_documented` writes that list anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cobblestone.cli import build, run_command

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "commands.md"
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")])
SOURCES = sorted((ROOT / "src" / "cobblestone").rglob("*.py"))
NAMED = re.compile(
    r"(?:^|[`\s(])cobblestone +([a-z][a-z-]*)(?: +([a-z][a-z-]*))?(?: +([a-z][a-z-]*))?", re.MULTILINE
)


@cache
def commands() -> Any:
    """The whole command, a tree."""
    return get_command(build())


def walk(command: Any, name: str = "cobblestone") -> Iterator[tuple[str, Any]]:
    """All commands below, by their whole names."""
    yield name, command
    for word, sub in getattr(command, "commands", {}).items():
        yield from walk(sub, f"{name} {word}")


def unknown_commands(text: str) -> list[str]:
    """Verbs that a known noun does not have.  Other words after the name are prose."""
    found: list[str] = []
    for match in NAMED.finditer(text):
        place, said = commands(), "cobblestone"
        for word in filter(None, match.groups()):
            below = getattr(place, "commands", {})
            if not below or (place is commands() and word not in below):
                break  # an argument, or a sentence about the project
            said += f" {word}"
            if word not in below:
                found.append(said)
                break
            place = below[word]
    return found


def reference() -> str:
    """A list of all commands with the first clauses of their help."""
    lines = [
        "# All commands",
        "",
        "`cobblestone NOUN VERB --help` tells the options. `-p DIR|URL` says which project is meant; without it the",
        "variable `COBBLESTONE_PROJECT` counts, else the current folder, one above it, or the only project in it. `--json`",
        "prints JSON, `-q` only ids. Exit status: 0 done; 1 refused or failed, with one message that says what to do; 2 wrong",
        "usage; 3 done, but some jobs have no answer; 130 interrupted.",
    ]
    heading = ""
    for name, command in walk(commands()):
        noun = " ".join(name.split()[:2])
        if not getattr(command, "commands", {}):
            if heading != (heading := noun if name != noun else "cobblestone"):
                lines += ["", f"## {heading}", ""]
            summary = re.split(r"(?<!e\.g)[:;.](?= |$)", " ".join((command.help or "").split()))[0]
            lines.append(f"* `{name.removeprefix(heading).strip()}`: {summary}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", [*DOCUMENTS, *SOURCES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_that_are_named_exist(path: Path):
    assert unknown_commands(path.read_text()) == []


def test_the_list_of_commands_is_complete():
    assert REFERENCE.read_text() == reference(), "write it anew: python -m tests.unit.test_cli_documented"


def test_every_command_explains_itself():
    assert [name for name, command in walk(commands()) if not command.help] == []


def shown(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command([*words, "--help"]) == 0
    return capsys.readouterr().out


VERBS = [name.split()[1:] for name, command in walk(commands()) if not getattr(command, "commands", {})]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_command_shows_its_help_in_the_same_form_with_whole_names(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    text = shown(words, capsys, monkeypatch)
    assert text.lstrip().startswith(f"Usage: cobblestone {' '.join(words)}")
    assert "─ Options ─" in text
    assert "-h, --help" in text
    command = commands()
    for word in words:
        command = command.commands[word]
    names = [
        name for each in command.params for name in (*each.opts, *each.secondary_opts) if name[:2] == "--"
    ]
    assert [name for name in names if not re.search(rf"{name}(?![\w-])", text)] == []
    assert max(map(len, text.splitlines())) <= 80


def test_the_help_of_app_create_begins_with_the_usual_calls_and_has_its_options_in_groups(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    text = shown(["app", "create"], capsys, monkeypatch)
    head, *panels = re.split(r"╭─ (.*?) ─+╮", text)
    assert head.count("  cobblestone app create") == 3
    titles = panels[::2]
    assert titles[:2] == ["Arguments", "Program"]
    assert titles[-2:] == ["Credit", "Options"]
    assert len(text.splitlines()) < 125


if __name__ == "__main__":
    REFERENCE.write_text(reference())
