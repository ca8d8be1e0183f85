"""Sums are the same on every version of Python: `sum` of numbers that are not whole changed in 3.12."""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.cli import run_command
from cobblestone.domain.values import float_sum

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulator"
FIGURES = ("cobblestone.policy", "cobblestone.simulator", "cobblestone.credit_lab")


@given(st.lists(st.floats(-1e300, 1e300) | st.integers(-(2**53), 2**53)))
def test_each_value_is_added_to_those_before(values: list[float]) -> None:
    total = 0.0
    for value in values:
        total += value
    found = float_sum(iter(values))
    assert type(found) is float
    assert found == total or math.isnan(total)


def test_roundings_are_not_made_up_for() -> None:
    assert float_sum([1e16, 1.0, 1.0]) == 1e16
    assert float_sum([]) == 0.0


def strict_sum(values: Iterable[Any], /, start: Any = 0) -> Any:
    """Sum as ever, but not of three numbers in what makes figures, unless they are whole: there `float_sum` is wanted."""
    items = list(values)
    caller = sys._getframe(1).f_globals.get("__name__", "")
    if type(start) is int and len(items) > 2 and any(isinstance(each, float) for each in items):
        assert not caller.startswith(FIGURES), f"{caller} sums numbers that are not whole by sum()"
    return SUM(items, start)


SUM = builtins.sum


@pytest.mark.parametrize(
    ("scenario", "policy"),
    [
        ("laptop", "own"),
        ("contradiction", "CS1_WF1_WS1_JC1"),
        ("laptop", "CS3_WF3_WS2_JC2"),
        ("laptop", "CS2_WF2_WS2_JC2"),
        ("mix20", "CS4_WF4"),
        ("gpu", "CS3_WF3"),
        ("gpu", "own"),
    ],
)
def test_no_simulation_sums_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scenario: str, policy: str
) -> None:
    monkeypatch.setattr(builtins, "sum", strict_sum)
    words = ["simulate", str(EXAMPLES / f"{scenario}.toml"), "--policy", policy, "--json"]
    assert run_command(words) == 0
    assert '"idleness"' in capsys.readouterr().out


def test_a_sum_of_numbers_that_are_not_whole_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "sum", strict_sum)
    program = compile("sum([0.1, 0.2, 0.3])", "figures", "eval")
    with pytest.raises(AssertionError, match="by sum"):
        eval(program, {"__name__": "cobblestone.policy.client.recent.rec"})
    assert eval(program, {"__name__": "cobblestone.cli"}) == pytest.approx(0.6)
