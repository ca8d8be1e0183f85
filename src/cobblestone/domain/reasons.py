"""Reasons as data: why something happened or did not.

A reason is a code with named values.  ``text()`` gives the sentence that people read; codes are stable, sentences are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from cobblestone.domain.values import value

Value = str | int | float | bool | None

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

    def as_json(self) -> dict[str, object]:
        """Return a form for JSON: code, values, the finished sentence, and the sentence as it can be said in another language."""
        return {
            "code": self.code,
            "text": self.text(),
            "sentence": self.sentence,
            "values": dict(self.values),
        }


def reason(code: str, sentence: str, **values: Value) -> Reason:
    """Make a reason; ``sentence`` may name any of ``values`` in braces."""
    return Reason(code, sentence, values)
