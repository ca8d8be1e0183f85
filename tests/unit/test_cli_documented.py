"""Commands that documents and messages name exist, and the page of commands has them all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cobblestone.cli import build, docs, run_command

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")])
SOURCES = sorted((ROOT / "src" / "cobblestone").rglob("*.py"))
NAMED = re.compile(
    r"(?:^|[`\s(])cobblestone +([a-z][a-z-]*)(?: +([a-z][a-z-]*))?(?: +([a-z][a-z-]*))?", re.MULTILINE
)


@cache
def commands() -> Any:
    """The whole command, a tree."""
    return build()


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


@pytest.mark.parametrize("path", [*DOCUMENTS, *SOURCES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_that_are_named_exist(path: Path):
    assert unknown_commands(path.read_text()) == []


def test_the_page_of_commands_has_every_command_and_option():
    text = docs.commands()
    for name, command in walk(commands()):
        if not getattr(command, "commands", {}):
            assert f"# {name}\n" in text
            for option in command.params:
                if {"--project", "--json", "--quiet"} & {*option.opts}:
                    continue
                if option.param_type_name == "option":
                    assert option.help, f"{name} {option.name}"
                    assert f"`{' / '.join((*option.opts, *option.secondary_opts))}`: " in text
                else:
                    assert f"`{option.human_readable_name}`: " in text


def test_every_command_explains_itself():
    assert [name for name, command in walk(commands()) if not command.help] == []


def shown(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command([*words, "--help"]) == 0
    return capsys.readouterr().out


WORDS = [name.split()[1:] for name, _ in walk(commands())]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_every_command_and_group_shows_its_help_in_the_same_form_with_whole_names(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    text = shown(words, capsys, monkeypatch)
    assert text.lstrip().startswith(f"Usage: {' '.join(['cobblestone', *words])} [OPTIONS]")
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
    if below := getattr(command, "commands", {}):
        listed = text.partition("─ Commands ─")[2].partition("─ Options ─")[0]
        assert sorted(re.findall(r"^│ (\S+)", listed, re.MULTILINE)) == sorted(below)
        assert "<bool>" not in text


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


def test_every_example_says_where_to_begin():
    examples = [folder for folder in (ROOT / "examples").iterdir() if folder.is_dir()]
    assert [folder.name for folder in examples if not (folder / "README.md").is_file()] == []


def test_the_help_keeps_all_words_on_a_narrow_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "40")
    assert run_command(["submit", "--help"]) == 0
    assert "…" not in capsys.readouterr().out
