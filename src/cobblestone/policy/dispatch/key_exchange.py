"""Handing the code-signing key to a client.

The client keeps the first key that it gets from a project, and takes another only with a signature made by
the key that it holds. A client with a key that nobody knows would refuse every program, so it gets no work.

Source: BOINC's ``handle_request.cpp`` (facts) and the observed behaviour of client 7.20.5: keys are compared
without surrounding white space, and sending the current key again is only noise.
"""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import value


@value(kw_only=True)
class RetiredKey:
    """A code-signing key that was in use before, and the current key's signature made with it."""

    key: str
    signature: str  #: over the current key's text, stripped


@value(kw_only=True)
class KeyExchange:
    """What the reply says of the code-signing key."""

    key: str = ""  #: put into the reply; empty = leave it out
    signature: str = ""
    may_send_work: bool = True
    reason: Reason | None = None


def exchange_key(sent: str | None, *, current: str, retired: Sequence[RetiredKey] = ()) -> KeyExchange:
    """Decide what to answer to a client that holds the key ``sent`` (``None`` or empty: none)."""
    held = (sent or "").strip()
    own = current.strip()
    if held == own:
        return KeyExchange()
    if not held:
        return KeyExchange(key=current)
    if not own:
        return KeyExchange(
            may_send_work=False,
            reason=reason(
                "project_without_key",
                "The project's code-signing key is missing, so it sends no tasks. "
                "Its administrators must restore it.",
            ),
        )
    for old in retired:
        if old.key.strip() == held and old.signature:
            return KeyExchange(key=current, signature=old.signature)
    return KeyExchange(
        may_send_work=False,
        reason=reason(
            "key_unknown",
            "The project's code-signing key has changed, and this client's cannot be replaced safely. "
            "Remove the project from the client and add it again to get tasks.",
        ),
    )
