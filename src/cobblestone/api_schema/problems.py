"""The one form of all errors."""

from __future__ import annotations

from cobblestone.api_schema.values import Reply


class Problem(Reply, frozen=True, kw_only=True):
    """What went wrong."""

    code: str  #: stable, for programs
    message: str  #: what and where, for people
    hint: str = ""  #: what to do
    member: str = ""  #: of the body or query that is wrong, as the message names it


class ErrorReply(Reply, frozen=True, kw_only=True):
    """The body of every answer with a status from 400 up."""

    error: Problem
