"""Codes that work once: links that log in, confirm an address, or lead to a new password or address, and codes in place of the
second factor; and those that attach computers for a day.

Only their SHA-256 is stored.  A code has at least 80 random bits and is looked at under a rate limit, so no slow hash is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.ids import UserId
from cobblestone.store.engine.database import Database, Transaction


class Purpose(StrEnum):
    """What a code is good for."""

    RESET_PASSWORD = "reset_password"  # noqa: S105  # a name, not a password
    LOG_IN = "log_in"
    CONFIRM_EMAIL = "confirm_email"  #: that mails to the account's address arrive
    CHANGE_EMAIL = "change_email"
    ATTACH = "attach"  #: for clients that attach by themselves: any number of them, as long as it is good
    RECOVERY = "recovery"  #: in place of the second factor


@dataclass(frozen=True, slots=True)
class OneTimeCode:
    """A code that may be used now."""

    id: int
    user_id: UserId
    payload: str


def _hash(purpose: Purpose, code: str) -> str:
    return hashlib.sha256(f"{purpose} {code}".encode("utf-8", "surrogatepass")).hexdigest()


def add_codes(
    tx: Transaction,
    user_id: UserId,
    purpose: Purpose,
    codes: Sequence[str],
    *,
    now: float,
    expire_time: float | None = None,
    payload: str = "",
) -> None:
    """Store new codes; those that the user had for this purpose end."""
    drop_codes(tx, user_id, purpose)
    tx.execute_many(
        "INSERT INTO one_time_code (user_id, purpose, code_hash, payload, create_time, expire_time) VALUES (?, ?, ?, ?, ?, ?)",
        [(user_id, purpose, _hash(purpose, code), payload, now, expire_time) for code in codes],
    )


def find_code(db: Database, purpose: Purpose, code: str, *, now: float) -> OneTimeCode | None:
    """Return a code that may still be used, or None."""
    row = db.one(
        "SELECT id, user_id, payload FROM one_time_code WHERE code_hash = ? AND used_time IS NULL"
        " AND (expire_time IS NULL OR expire_time > ?)",
        (_hash(purpose, code), now),
    )
    return None if row is None else OneTimeCode(row[0], UserId(row[1]), row[2])


def use_code(tx: Transaction, purpose: Purpose, code: str, *, now: float) -> OneTimeCode | None:
    """Take a code, so that nobody can use it again; None: it is not (or no more) good."""
    found = find_code(tx, purpose, code, now=now)
    if found is None:
        return None
    taken = tx.execute(
        "UPDATE one_time_code SET used_time = ? WHERE id = ? AND used_time IS NULL", (now, found.id)
    )
    return found if taken else None  # another process was faster


def count_codes(db: Database, user_id: UserId, purpose: Purpose) -> int:
    """Return how many unused codes a user has."""
    return int(
        db.value(
            "SELECT count(*) FROM one_time_code WHERE user_id = ? AND purpose = ? AND used_time IS NULL",
            (user_id, purpose),
        )
    )


def drop_codes(tx: Transaction, user_id: UserId, *purposes: Purpose) -> None:
    """Forget a user's codes."""
    for purpose in purposes:
        tx.execute("DELETE FROM one_time_code WHERE user_id = ? AND purpose = ?", (user_id, purpose))


def drop_expired(tx: Transaction, *, now: float, limit: int = 1000) -> int:
    """Forget codes whose time is over; return how many."""
    return tx.execute(
        "DELETE FROM one_time_code WHERE id IN (SELECT id FROM one_time_code WHERE expire_time < ? ORDER BY id LIMIT ?)",
        (now, limit),
    )
