"""What all requests and replies are made of, and the bounds of single values."""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_ID = 2**53
"""Ids beyond this are none: JSON numbers are exact up to here."""


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object of a request: unknown members are refused."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters behind the ``?`` of an address: unknown ones are refused."""


class Reply(msgspec.Struct, frozen=True):
    """A JSON object of a reply: later versions may add members."""


# Texts are bounded, and hold no control characters: they end up in log lines, XML and file names.
Line = Annotated[str, msgspec.Meta(max_length=200, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
FilledLine = Annotated[Line, msgspec.Meta(min_length=1)]
Text = Annotated[
    str, msgspec.Meta(min_length=1, max_length=20_000, pattern=r"\A[^\x00-\x08\x0b-\x1f\x7f]*\Z")
]
FileName = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"\A[A-Za-z0-9_\-.~]+\Z")]
Id = Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]
Position = Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]
"""Where a part of a list begins: 0, or the id of the last one before."""
Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Part = Annotated[float, msgspec.Meta(gt=0, le=1)]


class PageQuery(Query, frozen=True):
    """A part of a long list that begins with the newest."""

    before: Position | None = None  #: only smaller ids
    limit: Limit = 100
