"""What a reader forgave: each tolerated departure from the format is a value, to be counted and shown."""

from __future__ import annotations

from enum import StrEnum

from cobblestone.domain.values import value


class LenienceKind(StrEnum):
    """Kinds of departures that are tolerated; used as metric labels."""

    BAD_NUMBER = "bad_number"  #: not a number, not finite or out of range; the default was taken
    CONTROL_CHARACTERS = "control_characters"  #: removed from a text
    CUT = "cut"  #: a text longer than its bound was shortened
    DUPLICATE = "duplicate"  #: a second element where one is meant; the first was kept
    MISSING = "missing"  #: an element that every client sends was absent
    NAMELESS = "nameless"  #: a block without a usable name was dropped
    NOT_UTF8 = "not_utf8"  #: read as Latin-1 instead
    TOO_MANY = "too_many"  #: more elements than the bound; the rest was dropped
    UNUSUAL_LAYOUT = (
        "unusual_layout"  #: not the layout of the family's client; read with a general XML parser
    )
    RECOVERED = "recovered"  #: not well-formed either; repaired before reading, something may be lost


@value(kw_only=True)
class Lenience:
    """One tolerated departure: its kind, the element it was found in, and a short detail."""

    kind: LenienceKind
    where: str
    detail: str = ""
