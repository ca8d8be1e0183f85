"""Tokens for programs of the operator; as those of a project, only their SHA-256 is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.errors import NotFound
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper
from cobblestone.store.people.tokens import IssuedToken, hash_of

USE_SECONDS = 60.0
"""The last use of a token is noted once in so many seconds: not every question is to write."""


class OperatorScope(StrEnum):
    """What the holder of a token may do."""

    READ = "read"  #: figures, projects, daemons, news
    OPERATE = "operate"  #: pause and resume projects, publish and withdraw news


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorToken(IssuedToken):
    """A token of an account manager."""

    scopes: frozenset[OperatorScope]
    used_time: float | None = None  #: Unix seconds; None: never


_TOKENS = RowMapper(
    OperatorToken,
    {"scopes": Column(decode=lambda text: frozenset(OperatorScope(word) for word in text.split()))},
)


def create_token(
    tx: Transaction,
    secret: str,
    *,
    name: str,
    scopes: Iterable[OperatorScope],
    now: float,
    expire_time: float | None,
) -> OperatorToken:
    """Store a token whose text is ``secret``, which cannot be read back."""
    token_id = tx.insert(
        "INSERT INTO api_token (name, token_hash, scopes, create_time, expire_time) VALUES (?, ?, ?, ?, ?)",
        (name, hash_of(secret), " ".join(sorted(scopes)), now, expire_time),
    )
    return _token(tx, token_id)


def token_by_secret(db: Database, secret: str) -> OperatorToken | None:
    """Return the token of a text, usable or not; None: unknown."""
    row = db.one(f"SELECT {_TOKENS.columns} FROM api_token WHERE token_hash = ?", (hash_of(secret),))
    return None if row is None else _TOKENS.load(row)


def list_tokens(db: Database) -> list[OperatorToken]:
    """Return all tokens, the newest first."""
    return [
        _TOKENS.load(row) for row in db.query(f"SELECT {_TOKENS.columns} FROM api_token ORDER BY id DESC")
    ]


def revoke_token(tx: Transaction, token_id: int, *, now: float) -> OperatorToken:
    """Make a token useless from now on; repeating it changes nothing.  Raises NotFound."""
    tx.execute("UPDATE api_token SET revoke_time = ? WHERE id = ? AND revoke_time IS NULL", (now, token_id))
    return _token(tx, token_id)


def note_use(tx: Transaction, token_id: int, *, now: float) -> None:
    """Note that a token was used."""
    tx.execute("UPDATE api_token SET used_time = ? WHERE id = ?", (now, token_id))


def _token(db: Database, token_id: int) -> OperatorToken:
    row = db.one(f"SELECT {_TOKENS.columns} FROM api_token WHERE id = ?", (token_id,))
    if row is None:
        raise NotFound(f"There is no token {token_id}. See: cobblestone manager token list DIR")
    return _TOKENS.load(row)
