"""Handing the code-signing key to a client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredKey:
    """A code-signing key that was in use before, and the current key's signature made with it."""

    key: str
    signature: str  #: over the current key's text, stripped


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyExchange:
    """What the reply says of the code-signing key."""

    key: str = ""  #: put into the reply; empty = leave it out
    signature: str = ""
    may_send_work: bool = True
    reason: Reason | None = None


def exchange_key(sent: str | None, *, current: str, retired: Sequence[RetiredKey] = ()) -> KeyExchange:
    """Decide what to answer to a client that holds the key ``sent`` (``None`` or empty: none)."""
    raise NotImplementedError
