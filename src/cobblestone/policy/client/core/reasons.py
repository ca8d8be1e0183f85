"""Reasons of decisions as data: a code and its values.  Sentences are made here and nowhere else.

Codes are stable; logs, the interfaces of the daemon and tests refer to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Value = str | int | float | bool | None


class Why(NamedTuple):
    """One reason."""

    code: str
    values: Mapping[str, Value]


def why(code: str, **values: Value) -> Why:
    """Make a reason."""
    return Why(code, values)


#: Sentences by code; names in braces are values.
SENTENCES: dict[str, str] = {}


def sentence(reason: Why) -> str:
    """Return the reason in words."""
    text = SENTENCES.get(reason.code)
    return reason.code if text is None else text.format_map(dict(reason.values))
