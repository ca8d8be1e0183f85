"""Tokens of the HTTP API.

Only their SHA-256 is stored.  A token has 256 random bits, so no slow hash is needed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.errors import NotFound
from cobblestone.store.database import Database, Row, Transaction

PREFIX = "cob_"

_COLUMNS = "id, name, scopes, create_time, expire_time, revoke_time, share"


class Scope(StrEnum):
    """What the holder of a token may do."""

    READ = "read"  #: look at apps, batches and outputs
    SUBMIT = "submit"  #: upload input files, submit, cancel and retire batches
    MANAGE = "manage"  #: apps, versions, signatures, tokens, users, teams, news


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A token, without the token itself."""

    id: int
    name: str
    scopes: frozenset[Scope]
    create_time: float  #: Unix seconds
    expire_time: float | None = None  #: Unix seconds; None: never
    revoke_time: float | None = None
    share: float = (
        1.0  #: of the computers, against other submitters; see `cobblestone.policy.dispatch.fairness`
    )

    def usable(self, now: float) -> bool:
        """Whether it is accepted at ``now`` (Unix seconds)."""
        return self.revoke_time is None and (self.expire_time is None or now < self.expire_time)


def _token(row: Row) -> ApiToken:
    return ApiToken(
        id=row[0],
        name=row[1],
        scopes=frozenset(Scope(word) for word in row[2].split()),
        create_time=row[3],
        expire_time=row[4],
        revoke_time=row[5],
        share=row[6],
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """A fresh token text."""
    return PREFIX + secrets.token_urlsafe(32)


def create_token(
    tx: Transaction,
    secret: str,
    *,
    name: str,
    scopes: Iterable[Scope],
    now: float,
    expire_time: float | None = None,
    share: float = 1.0,
) -> ApiToken:
    """Store a token made by :func:`new_secret`; the text itself cannot be read back."""
    granted = frozenset(scopes)
    token_id = tx.insert(
        "INSERT INTO api_token (name, token_hash, scopes, create_time, expire_time, share) VALUES (?, ?, ?, ?, ?, ?)",
        (name, _hash(secret), " ".join(sorted(granted)), now, expire_time, share),
    )
    return ApiToken(
        id=token_id, name=name, scopes=granted, create_time=now, expire_time=expire_time, share=share
    )


def token_by_secret(db: Database, secret: str) -> ApiToken | None:
    """The token of a text, usable or not; None: unknown."""
    row = db.one(f"SELECT {_COLUMNS} FROM api_token WHERE token_hash = ?", (_hash(secret),))
    return None if row is None else _token(row)


def list_tokens(db: Database) -> list[ApiToken]:
    """All tokens, the newest first."""
    return [_token(row) for row in db.query(f"SELECT {_COLUMNS} FROM api_token ORDER BY id DESC")]


def revoke_token(tx: Transaction, token_id: int, *, now: float) -> ApiToken:
    """Make a token useless from now on; repeating it changes nothing.

    Raises:
        NotFound: there is no such token.
    """
    tx.execute("UPDATE api_token SET revoke_time = ? WHERE id = ? AND revoke_time IS NULL", (now, token_id))
    row = tx.one(f"SELECT {_COLUMNS} FROM api_token WHERE id = ?", (token_id,))
    if row is None:
        raise NotFound(f"There is no token {token_id}. See: cobblestone token list")
    return _token(row)
