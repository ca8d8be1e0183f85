"""Numbers that note what a rule does with them, so that its answer can be given again without asking the rule.

A pure rule that gets marked numbers goes one way through its code: the tape notes each sum and each comparison on that way.
What it noted is a function of other numbers, which gives the rule's answer to them if all comparisons come out the same,
else none.  What a rule does with a number that is not known here (rounding, a look-up in a table, a call of `math`) is a
`TypeError`, so that nothing is overlooked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from cobblestone.domain.values import changed

Way: TypeAlias = "Callable[[Sequence[float], Callable[..., object] | None], tuple[Any, ...] | None]"
"""A rule's way: of numbers, and of a function that answers questions to others, to its answer if it goes this way."""

#: Ways that are remembered of one case at most.
MOST_WAYS = 50
T = TypeVar("T")
_NAMES = re.compile(r"\bn\d+\b")


class Tape:
    """What rules did with numbers, as lines of Python; more than ``most`` are a `TypeError`, too."""

    def __init__(self, most: float = math.inf) -> None:
        self._most = most
        self._lines: list[str] = []
        self._names: dict[str, str] = {}  #: of what was worked out, by how it was
        self._noted: set[str] = set()

    def number(self, place: int, value: float) -> Any:  # Any: goes for a number
        """Mark a number that the function finds at a place of its list."""
        return Marked(value, f"t[{place}]", self)

    def compute(self, value: float, text: str) -> Marked:
        """Note a number that is worked out of others."""
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"n{len(self._lines)}"
            self._add(f"{name} = {text}")
        return Marked(value, name, self)

    def take_note(self, question: str, answer: object) -> None:
        """Note how a question was answered."""
        if question not in self._noted:
            self._noted.add(question)
            self._add(f"if ({question}) != {answer!r}: return None")

    def _add(self, line: str) -> None:
        if len(self._lines) >= self._most:
            raise TypeError("this way is too long to be noted")
        self._lines.append(line)

    def way(self, results: Sequence[object]) -> Way:
        """Return the function, of these results: marked numbers among plain values."""
        lines = [f"return ({''.join(f'{text_of(each)}, ' for each in results)})"]
        used = set(_NAMES.findall(lines[0]))
        for line in reversed(self._lines):
            name, _, text = line.partition(" = ")
            if not text or name in used:
                used.update(_NAMES.findall(text or line))
                lines.append(line)
        source = "\n    ".join(["def way(t, ask):", *reversed(lines)])
        scope: dict[str, Any] = {"inf": math.inf, "floor": math.floor}
        exec(source, scope)  # noqa: S102  # the operators below, and what is plain enough to be written out
        return scope["way"]


class Ways(Generic[T]):
    """The ways that a rule was seen to go in one case, each with what they have in common."""

    __slots__ = ("_ways",)

    def __init__(self) -> None:
        self._ways: list[tuple[Way, T]] = []

    def find(
        self, numbers: Sequence[float], ask: Callable[..., object] | None = None
    ) -> tuple[T, tuple[Any, ...]] | None:
        """Return what is common to the way of these numbers, and its results of them; None: a way not seen yet."""
        for place, (way, common) in enumerate(self._ways):
            found = way(numbers, ask)
            if found is not None:
                if place:  # those that are gone often come to the front
                    self._ways[place - 1 : place + 1] = self._ways[place], self._ways[place - 1]
                return common, found
        return None

    def add(self, way: Way, common: T) -> None:
        """Remember one more; of too many, all are forgotten."""
        if len(self._ways) >= MOST_WAYS:
            self._ways.clear()
        self._ways.append((way, common))


def text_of(value: object) -> str:
    """Return a marked number's name, or a plain value written out."""
    return value.text if isinstance(value, Marked) else repr(value)


def marked_fields(tape: Tape, first: int, original: T, names: Sequence[str]) -> T:
    """Return a copy of a value whose fields of these names are marked, as numbers from a place of the list on."""
    found = {name: tape.number(first + i, getattr(original, name)) for i, name in enumerate(names)}
    return changed(original, **found)


def changes(before: T, after: T, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of these names that have become something else."""
    found = {name: getattr(after, name) for name in names}
    return {name: each for name, each in found.items() if text_of(each) != text_of(getattr(before, name))}


def _texts(one: Marked, other: object, sign: str, *, swapped: bool) -> tuple[Any, Any, str]:
    value = other.value if isinstance(other, Marked) else other
    if swapped:
        return value, one.value, f"{text_of(other)} {sign} {one.text}"
    return one.value, value, f"{one.text} {sign} {text_of(other)}"


def _work_out(sign: str) -> Any:
    return eval(f"lambda a, b: a {sign} b")  # noqa: S307  # the signs below


def _computed(sign: str, *, swapped: bool = False) -> Any:
    compute = _work_out(sign)

    def method(self: Marked, other: Marked | float) -> Marked:
        left, right, text = _texts(self, other, sign, swapped=swapped)
        return self.tape.compute(compute(left, right), text)

    return method


def _compared(sign: str) -> Any:
    compare = _work_out(sign)

    def method(self: Marked, other: Marked | float) -> bool:
        left, right, text = _texts(self, other, sign, swapped=False)
        found = compare(left, right)
        self.tape.take_note(text, found)
        return found

    return method


class Marked:
    """A number, its name in the noted lines, and the tape that they are on."""

    __slots__ = ("tape", "text", "value")

    __add__, __radd__ = _computed("+"), _computed("+", swapped=True)
    __sub__, __rsub__ = _computed("-"), _computed("-", swapped=True)
    __mul__, __rmul__ = _computed("*"), _computed("*", swapped=True)
    __truediv__, __rtruediv__ = _computed("/"), _computed("/", swapped=True)
    __pow__, __rpow__ = _computed("**"), _computed("**", swapped=True)
    __floordiv__, __mod__ = _computed("//"), _computed("%")
    __lt__, __le__, __gt__, __ge__ = (_compared(sign) for sign in ("<", "<=", ">", ">="))
    __eq__, __ne__ = _compared("=="), _compared("!=")
    __hash__ = None  # type: ignore[assignment]  # a look-up in a table would be a question, too

    def __init__(self, value: float, text: str, tape: Tape) -> None:
        self.value = value
        self.text = text
        self.tape = tape

    def __bool__(self) -> bool:
        return self != 0.0

    def __floor__(self) -> Marked:
        return self.tape.compute(math.floor(self.value), f"floor({self.text})")

    def __format__(self, how: str) -> str:
        return format(self.value, how)  # for the texts of errors
