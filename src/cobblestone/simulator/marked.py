"""Numbers that note what a rule asks of them, so that its answer can be given again without asking the rule.

A pure rule that gets marked numbers has, for all other numbers of which the same things are true, the same answer: what is
noted is a condition in Python, and a number of the answer is a formula.  What a rule does with a number that is not known
here (rounding, a look-up in a table, a call of `math`) is a `TypeError`, so that nothing is overlooked.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any


def _operands(
    one: Marked, other: Marked | float, sign: str, *, swapped: bool = False
) -> tuple[tuple[float, float], str]:
    value, text = (other.value, other.text) if isinstance(other, Marked) else (other, repr(other))
    if swapped:
        return (value, one.value), f"({text} {sign} {one.text})"
    return (one.value, value), f"({one.text} {sign} {text})"


def _computed(sign: str, compute: Callable[[float, float], float], *, swapped: bool = False) -> Any:
    def method(self: Marked, other: Marked | float) -> Marked:
        (left, right), text = _operands(self, other, sign, swapped=swapped)
        return Marked(compute(left, right), text, self.asked)

    return method


def _compared(sign: str, compare: Callable[[float, float], bool]) -> Any:
    def method(self: Marked, other: Marked | float) -> bool:
        (left, right), text = _operands(self, other, sign)
        found = compare(left, right)
        self.asked.append(text if found else f"not {text}")
        return found

    return method


class Marked:
    """A number, how it comes from a list ``t`` of numbers, and where questions about it are noted."""

    __slots__ = ("asked", "text", "value")

    __add__, __radd__ = _computed("+", operator.add), _computed("+", operator.add, swapped=True)
    __sub__, __rsub__ = _computed("-", operator.sub), _computed("-", operator.sub, swapped=True)
    __mul__, __rmul__ = _computed("*", operator.mul), _computed("*", operator.mul, swapped=True)
    __lt__, __le__ = _compared("<", operator.lt), _compared("<=", operator.le)
    __gt__, __ge__ = _compared(">", operator.gt), _compared(">=", operator.ge)
    __eq__, __ne__ = _compared("==", operator.eq), _compared("!=", operator.ne)
    __hash__ = None  # type: ignore[assignment]  # a look-up in a table would be a question, too

    def __init__(self, value: float, text: str, asked: list[str]) -> None:
        self.value = value
        self.text = text
        self.asked = asked

    def __bool__(self) -> bool:
        return self != 0.0

    def __format__(self, how: str) -> str:
        return format(self.value, how)  # for the texts of errors


def condition(asked: Sequence[str]) -> Callable[[Sequence[float]], bool]:
    """Return the function that tells whether the same is true of other numbers as what was noted."""
    return _function(" and ".join(dict.fromkeys(asked)) or "True")


def formulas(texts: Sequence[str]) -> Callable[[Sequence[float]], tuple[float, ...]]:
    """Return the function that works these formulas out."""
    return _function(f"({''.join(f'{text}, ' for text in texts)})")


def _function(text: str) -> Any:  # Any: made of text
    return eval(f"lambda t: {text}", {"inf": math.inf})  # noqa: S307  # numbers and the operators above, nothing else
