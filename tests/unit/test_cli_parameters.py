"""Options and arguments that are made of annotations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from click.testing import CliRunner

from cobblestone.cli import completion, run_command
from cobblestone.cli.parameters import Argument, Commands, Option


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How it looks."""

    panel: ClassVar[str] = "Shape"

    colour: Colour = Colour.RED
    """The colour of
    the line."""
    width: Annotated[float, Option("--width -w", min=0.5, max=9.0)] = 1.5
    """In points."""
    dashed: bool | None = None
    """Whether it is dashed."""


def called(*words: str) -> dict[str, Any] | str:
    """What a function gets from these words; the last line of the error, if they are refused."""
    group, got = Commands("Draws."), dict[str, Any]()

    @group.verb("draw-it")
    def draw(
        places: Annotated[list[Path], Argument(metavar="PLACE", help="Where to.")],
        shape: Shape = Shape(),
        names: Annotated[list[str] | None, Option("--name", help="Names.")] = None,
        kind: Annotated[Literal["line", "arc"] | None, Option(help="What.")] = None,
        copies: Annotated[int, Option(min=1, help="How many.")] = 1,
        factor: Annotated[float, Option(help="Any number.")] = 1.0,
        clean: Annotated[bool, Option("--clean", help="First clean.")] = False,
    ) -> None:
        """Draw."""
        got.update(
            places=places, shape=shape, names=names, kind=kind, copies=copies, factor=factor, clean=clean
        )

    result = CliRunner().invoke(group, ["draw-it", *words])
    return got if result.exit_code == 0 and got else result.output.splitlines()[-1]


def test_defaults_and_values_come_in_their_own_kinds() -> None:
    plain: dict[str, Any] = {
        "places": [Path("a"), Path("b c")], "shape": Shape(), "names": None, "kind": None, "copies": 1, "factor": 1.0,
        "clean": False,
    }  # fmt: skip
    assert called("a", "b c") == plain
    words = "a --colour green -w 9 --no-dashed --name x --name y --kind arc --copies 3 --factor 1e3 --clean"
    assert called(*words.split()) == {
        "places": [Path("a")], "shape": Shape(colour=Colour.GREEN, width=9.0, dashed=False), "names": ["x", "y"],
        "kind": "arc", "copies": 3, "factor": 1000.0, "clean": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Missing argument 'PLACE...'."),
        ("a --width nan", "nan is not a number."),
        ("a --width 9.01", "9.01 is not in the range 0.5<=x<=9.0."),
        ("a --width wide", "'wide' is not a valid number."),
        ("a --factor wide", "'wide' is not a valid float."),
        ("a --factor nan", "nan is not a number."),
        ("a --factor -inf", "-inf is not a number."),
        ("a --factor 1e400", "inf is not a number."),
        ("a --copies 0", "0 is not in the range x>=1."),
        ("a --copies 1.5", "'1.5' is not a valid integer."),
        ("a --colour blue", "'blue' is not one of 'red', 'green'."),
        ("a --kind RED", "'RED' is not one of 'line', 'arc'."),
        ("a --dash", "No such option '--dash'."),
        ("a --clean=1", "Option '--clean' does not take a value."),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(words: str, said: str) -> None:
    answer = called(*words.split())
    assert isinstance(answer, str)
    assert said.rstrip(".") in answer


def test_the_help_has_panels_defaults_and_the_texts_below_fields() -> None:
    group = Commands("Draws.")

    def draw(shape: Shape = Shape()) -> None: ...

    group.verb("draw", "Draw a shape.")(draw)
    text = CliRunner().invoke(group, ["draw", "--help"]).output
    assert "─ Shape ─" in text
    assert "The colour of the line.  [default: red]" in text
    assert "-w, --width N" in text
    assert "In points.  [default: 1.5; 0.5<=x<=9.0]" in text
    assert "--dashed / --no-dashed" in text


def test_a_group_without_a_command_shows_its_help_and_is_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["batch"]) == 2
    printed = capsys.readouterr()
    assert "Usage: cobblestone batch [OPTIONS] COMMAND [ARGS]..." in printed.out
    assert printed.err == ""


def test_completion_is_installed_from_a_known_shell_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(completion, "_PLACES", {})
    assert run_command(["--install-completion"]) == 1
    assert "Call this in one of these shells" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
