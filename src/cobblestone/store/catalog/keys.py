"""Public keys that app files are signed with.  Private keys are never in the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cobblestone.domain.errors import Conflict
from cobblestone.store.catalog.apps import CATALOGUE_CHANGED
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSignKey:
    """A public code signing key, current or retired."""

    id: int
    public_key: str  #: text in the family's form, without white space at its ends
    create_time: float  #: Unix seconds
    is_current: bool
    successor_signature: str  #: the current key, signed with this older one; empty: clients must attach anew


_KEYS = RowMapper(CodeSignKey)


def list_keys(db: Database) -> list[CodeSignKey]:
    """Return all keys, the newest first."""
    return [
        _KEYS.load(row) for row in db.query(f"SELECT {_KEYS.columns} FROM code_sign_key ORDER BY id DESC")
    ]


def current_key(db: Database) -> CodeSignKey | None:
    """Return the key that clients shall hold, or None."""
    return next((key for key in list_keys(db) if key.is_current), None)


def set_current_key(
    tx: Transaction, public_key: str, *, successor_signatures: Mapping[int, str], now: float
) -> CodeSignKey:
    """Make a new key the current one.

    ``successor_signatures`` holds, by the id of an older key, the signature of the new key's text made with
    that older one.  Older keys without one lose theirs: it belonged to a key that is not current any more.

    Raises:
        Conflict: the project has this key already.
    """
    text = public_key.strip()
    older = list_keys(tx)
    if any(key.public_key == text for key in older):
        raise Conflict("The project has this key already. Make a new one with: cobblestone key create")
    tx.execute_many(
        "UPDATE code_sign_key SET is_current = 0, successor_signature = ? WHERE id = ?",
        [(successor_signatures.get(key.id, "").strip(), key.id) for key in older],
    )
    key_id = tx.insert(
        "INSERT INTO code_sign_key (public_key, create_time, is_current, successor_signature)"
        " VALUES (?, ?, 1, '')",
        (text, now),
    )
    tx.wake(CATALOGUE_CHANGED)
    return CodeSignKey(id=key_id, public_key=text, create_time=now, is_current=True, successor_signature="")
