"""Reasons as data: why something happened or did not.

A reason is a code with named values.  ``text()`` gives the sentence that people read; codes are stable, sentences are not.
A value may be a part of a sentence with values of its own (`phrase`), so that the whole can be said in another language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from cobblestone.domain.values import value

Value: TypeAlias = "str | int | float | bool | Reason | None"

_EMPTY: Mapping[str, Value] = MappingProxyType({})


@value()
class Reason:
    """One reason: a stable code, a sentence with ``{names}``, and the values that fill it."""

    code: str
    sentence: str
    values: Mapping[str, Value] = field(default_factory=lambda: _EMPTY)

    def text(self) -> str:
        """Return the sentence with its values filled in."""
        return self.sentence.format_map(dict(self.values))

    def __str__(self) -> str:
        """Say it as a part of another sentence."""
        return self.text()

    def as_json(self) -> dict[str, object]:
        """Return a form for JSON: code, values, the finished sentence, and the sentence as it can be said in another language."""
        return {
            "code": self.code,
            "text": self.text(),
            "sentence": self.sentence,
            "values": self.plain_values(),
        }

    def plain_values(self) -> dict[str, object]:
        """Return the values, parts of sentences as mappings; `restored` reads them."""
        return {
            name: {"text": part.text(), "sentence": part.sentence, "values": part.plain_values()}
            if isinstance(part, Reason)
            else part
            for name, part in self.values.items()
        }


def reason(code: str, sentence: str, **values: Value) -> Reason:
    """Make a reason; ``sentence`` may name any of ``values`` in braces."""
    return Reason(code, sentence, values)


def phrase(sentence: str, **values: Value) -> Reason:
    """Make a part of a sentence, to be a value of a reason or of another part."""
    return Reason("", sentence, values)


def joined(parts: Sequence[Reason]) -> Reason:
    """Put several together, with semicolons between them."""
    names = [f"part{number}" for number in range(len(parts))]
    sentence = "; ".join(f"{{{name}}}" for name in names)
    return phrase(sentence, **dict(zip(names, parts, strict=True)))


def sayable(text: str) -> str:
    """Return a text of somebody's program as databases and pages take it: halves of characters and zero bytes spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")


def sayable_reason(given: Reason) -> Reason:
    """Return a reason of somebody's program as databases and pages take it.

    Raises whatever it raises when it is put into words, for example because its sentence names a value that it lacks.
    """
    values = {name: _sayable_value(each) for name, each in given.values.items()}
    said = Reason(sayable(given.code), sayable(given.sentence), values)
    said.text()
    return said


def _sayable_value(given: object) -> Value:
    if isinstance(given, Reason):
        return sayable_reason(given)
    if given is None or type(given) in (int, float, bool):
        return cast("Value", given)
    return sayable(str(given))


def restored(code: str, sentence: str, values: Mapping[str, Any]) -> Reason:  # as JSON has them
    """Make a reason of what was stored of it (`Reason.plain_values`)."""
    return Reason(code, sentence, {name: _restored_value(each) for name, each in values.items()})


def _restored_value(stored: object) -> Value:
    if isinstance(stored, dict):
        part = cast("dict[str, Any]", stored)
        return restored("", part["sentence"], part["values"])
    return cast("Value", stored)
