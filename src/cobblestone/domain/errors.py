"""Exceptions of the whole package.

::

    CobblestoneError
    ├── ProtocolError
    │   ├── RemoteProtocolError    the peer sent something that cannot be read
    │   └── LocalProtocolError     we tried to write something that the protocol cannot carry
    ├── PolicyViolation            a rule was asked to do what it forbids
    │   └── IllegalTransition
    ├── StoreError
    │   ├── NotFound
    │   ├── Conflict               the row changed, or a name is taken
    │   ├── NotAllowed             the caller has no right to it
    │   └── Busy                   another process holds the project
    ├── UnreadableRow              a row of the database does not hold what it should; the database itself is well
    ├── ConfigError                a settings file, folder or command line is wrong
    └── JobError                   a project's own function failed, or a job description is wrong

Expected outcomes (no work, quota reached) are values, not exceptions.
"""

from __future__ import annotations

import re

from cobblestone.domain.reasons import Reason

_FOR_PROGRAMMERS = re.compile(r"\[(?:(?:Errno|WinError) -?\d+|SSL: \w+)\] | \(_ssl\.c:\d+\)")


def words_of(error: BaseException) -> str:
    """Return what an error of the system or a library says to people, without its number in parentheses."""
    kind = type(error).__name__
    return _FOR_PROGRAMMERS.sub("", str(error)) or ("no answer in time" if "Timeout" in kind else kind)


class CobblestoneError(Exception):
    """Something went wrong.  The text says what, where, and what to do."""

    def __init__(self, message: str | Reason | None = None) -> None:
        #: The text as a sentence that can be said in other languages, where it is one.
        self.sentence = message if isinstance(message, Reason) else None
        text = str(message or (type(self).__doc__ or "").strip().splitlines()[0])
        super().__init__(_FOR_PROGRAMMERS.sub("", text))


class ProtocolError(CobblestoneError):
    """A message does not follow the protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer sent a message that cannot be read.

    ``reply_hint`` is a sentence that may be sent back to the peer.
    """

    def __init__(
        self, message: str | None = None, *, reply_hint: str = "The request could not be read."
    ) -> None:
        super().__init__(message)
        self.reply_hint = reply_hint


class LocalProtocolError(ProtocolError):
    """We tried to write a message that the protocol cannot carry."""


class PolicyViolation(CobblestoneError):
    """A rule was asked to do something that it forbids."""


class IllegalTransition(PolicyViolation):
    """A state machine was asked for a step that does not exist."""


class StoreError(CobblestoneError):
    """The database or the file store reported an error."""


class NotFound(StoreError):
    """The object does not exist."""


class Conflict(StoreError):
    """The object already exists, or has changed meanwhile."""


class NotAllowed(StoreError):
    """The caller has no right to do this."""


class Busy(StoreError):
    """Another process is using this project."""


class UnreadableRow(CobblestoneError):
    """A row of the database cannot be read, as after a change by hand; the others can."""


class ConfigError(CobblestoneError):
    """A setting, folder or argument is wrong."""


class JobError(CobblestoneError):
    """A job description is wrong, or a project's own function failed."""
