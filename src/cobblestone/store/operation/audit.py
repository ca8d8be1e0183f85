"""Records of requests: the audit log, and replies stored so that a repetition creates nothing twice.

Rows of the log are only ever added; nothing here changes or deletes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from cobblestone.domain.errors import Conflict
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.operation.listings import Page, newest

MAX_VALUE_CHARACTERS = 4000
SECRET_NAMES = frozenset(
    {"password", "passwd", "token", "secret", "private_key", "signature", "authenticator"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts, and from where."""

    name: str  #: ``user:3 Ada``, ``token:1 admin``, or ``system``
    origin: str  #: ``web``, ``api``, ``command line`` or ``server``, and the network address


#: The project itself, for instance a roll-out that stops by its own rule.
SYSTEM = Actor(name="system", origin="server")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One action."""

    id: int
    time: float  #: Unix seconds
    actor: str
    origin: str
    action: str
    target: str  #: noun and id, such as ``host 12``
    before: str  #: JSON
    after: str


_ENTRIES = RowMapper(AuditRow)


def record(
    tx: Transaction,
    actor: Actor,
    action: str,
    target: str,
    *,
    now: float,
    before: object = None,
    after: object = None,
) -> None:
    """Record an action, in the transaction that carries it out.  Secrets among the values are left out."""
    tx.execute(
        "INSERT INTO audit_entry (time, actor, origin, action, target, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (now, actor.name, actor.origin, action, target[:200], _text(before), _text(after)),
    )


def entries(
    db: Database, *, limit: int, before: int | None = None, target: str = "", actor: str = ""
) -> list[AuditRow]:
    """Return actions, newest first; ``before``: only those with smaller ids.

    ``target`` is exact; ``actor`` is the beginning of the name.
    """
    conditions = {"target = ?": target or None, f"substr(actor, 1, {len(actor)}) = ?": actor or None}
    return newest(db, Page(limit=limit, before=before), _ENTRIES, "audit_entry WHERE 1 = 1", conditions)


def _text(value: object) -> str:
    text = msgspec.json.encode(without_secrets(msgspec.to_builtins(value))).decode()
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    return msgspec.json.encode(text[: MAX_VALUE_CHARACTERS - 200] + " …").decode()


def without_secrets(value: object) -> object:
    """Return the value with everything named like a secret replaced."""
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return {
            str(key): "…" if str(key).lower() in SECRET_NAMES and item else without_secrets(item)
            for key, item in members.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in cast("Sequence[object]", value)]
    return value


KEEP_REPLIES_SECONDS = 7 * 86400.0


def recall_reply(db: Database, request_key: str, digest: str, *, now: float = 0.0) -> str | None:
    """Return the reply to the request with this key, or None; ``now``: one that has expired since is not returned.

    Raises:
        Conflict: the key belongs to a request with another body (``digest``).
    """
    kept = "SELECT digest, reply FROM api_reply WHERE request_key = ? AND expire_time >= ?"
    row = db.one(kept, (request_key, now))
    if row is None:
        return None
    if row[0] != digest:
        raise Conflict(
            "This Idempotency-Key was used for a request with another body. Use a new key for each new request."
        )
    return str(row[1])


def remember_reply(tx: Transaction, request_key: str, digest: str, reply: str, *, now: float) -> None:
    """Store a reply, in the transaction of its action; delete old ones."""
    tx.execute("DELETE FROM api_reply WHERE expire_time < ?", (now,))
    tx.execute(
        "INSERT INTO api_reply (request_key, digest, reply, expire_time) VALUES (?, ?, ?, ?)",
        (request_key, digest, reply, now + KEEP_REPLIES_SECONDS),
    )
