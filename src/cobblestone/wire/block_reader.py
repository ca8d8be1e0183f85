"""Readers of blocks, written out from a table of their fields.

A scheduler request has some 170 scalars, nearly all of them plain.  A call for each takes half of the time of reading one, so the
reader of a block is one function with the usual case of every field in a row; whatever is not plain goes to `FieldReader`, which
knows all there is to know of bounds and leniences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, cast

from cobblestone.domain.values import made_of_fields
from cobblestone.wire.xml_reader import HUGE, MAX_TEXT

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Number:
    """See `FieldReader.number`."""

    default: float = 0.0
    low: float = 0.0
    high: float = HUGE
    element: str = ""  #: empty: named like the field

    def lines(self, element: str, target: str) -> list[str]:
        """Return what sets ``target`` to the value of ``text``."""
        return _bounded(self, element, target, usual="number", else_by="reader.number")


@dataclass(frozen=True, slots=True)
class Whole:
    """See `FieldReader.integer`."""

    default: int = 0
    low: int = 0
    high: int = 2**31 - 1
    element: str = ""

    def lines(self, element: str, target: str) -> list[str]:
        """See `Number.lines`."""
        return _bounded(self, element, target, usual="int(number)", else_by="reader.integer")


def _bounded(kind: Number | Whole, element: str, target: str, *, usual: str, else_by: str) -> list[str]:
    call = f"{else_by}({element!r}, {kind.default!r}, {kind.low!r}, {kind.high!r})"
    return [
        "if text is None:",
        f"    {target} = {kind.default!r}",
        "else:",
        "    try:",
        "        number = float(text)",
        "    except ValueError:",
        "        number = nan",
        f"    {target} = {usual} if {kind.low!r} <= number <= {kind.high!r} else {call}",
    ]


@dataclass(frozen=True, slots=True)
class Flag:
    """See `FieldReader.flag`."""

    element: str = ""

    def lines(self, element: str, target: str) -> list[str]:
        """See `Number.lines`."""
        return [f"{target} = text is not None and text != '0' and (text == '1' or reader.flag({element!r}))"]


@dataclass(frozen=True, slots=True)
class Text:
    """See `FieldReader.text`."""

    limit: int = MAX_TEXT
    element: str = ""

    def lines(self, element: str, target: str) -> list[str]:
        """See `Number.lines`."""
        return [
            f"if text is None or len(text) <= {self.limit} and text.isascii() and text.isprintable() and '&' not in text:",
            f"    {target} = text or ''",
            "else:",
            f"    {target} = reader.text({element!r}, {self.limit})",
        ]


Kind = Number | Whole | Flag | Text


def block_reader(cls: type[T], table: Mapping[str, Kind]) -> Callable[..., T]:
    """Return the reader of a `value` of which the fields in ``table`` are scalars of one block.

    It takes a `FieldReader`, and the other fields by name, as far as they have no defaults.
    """
    known = {each.name: each for each in fields(cast("Any", cls))}
    unknown = table.keys() - known.keys()
    if unknown or not made_of_fields(cls):
        raise TypeError(
            f"{cls.__name__} is no plain value with {', '.join(sorted(unknown)) or 'such fields'}"
        )
    scope: dict[str, Any] = {"new": object.__new__, "cls": cls, "nan": float("nan")}
    given: list[str] = []
    lines: list[str] = []
    for name, each in known.items():
        if name not in table:
            scope[f"default_{name}"] = each.default
            given.append(name if each.default is MISSING else f"{name}=default_{name}")
            lines.append(f"made.{name} = {name}")
    for name, kind in table.items():
        element = kind.element or name
        lines += [f"text = get({element!r})", *kind.lines(element, f"made.{name}")]
    head = f"def read(reader{', *, ' if given else ''}{', '.join(given)}):"
    source = [head, "get = reader.fields.get", "made = new(cls)", *lines, "return made"]
    exec("\n    ".join(source), scope)  # noqa: S102  # names of our own classes' fields, nothing else
    return scope["read"]
