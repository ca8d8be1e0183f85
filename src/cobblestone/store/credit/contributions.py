"""The ledger of storage and network beside computing, with totals and recent averages of computers and volunteers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cobblestone.domain.contributions import Contribution
from cobblestone.domain.statistics import CreditStatement
from cobblestone.domain.values import value
from cobblestone.policy.credit.rac import credited, joined
from cobblestone.store.averages import CREDIT
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.engine.database import Database, Transaction

_SAVED = CREDIT.writer()
_SAVE = _SAVED.upsert("contribution", "owner", "owner_id", "kind")
_encode = msgspec.json.Encoder().encode

_Key = tuple[Owner, int, Contribution]


@value(kw_only=True)
class ContributionEntry:
    """One line of the ledger.  Times in Unix seconds."""

    time: float
    kind: Contribution
    host_id: int
    user_id: int
    amount: float  #: in the unit of its kind
    work_start: float  #: since when it was given
    facts: Mapping[str, object]  #: what the amount was computed from


def grant(tx: Transaction, entries: Sequence[ContributionEntry]) -> None:
    """Add entries to the ledger, and to totals and averages of their computers and volunteers."""
    tx.execute_many(
        "INSERT INTO contribution_entry (time, kind, host_id, user_id, amount, work_start, facts) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                each.time,
                each.kind,
                each.host_id,
                each.user_id,
                each.amount,
                each.work_start,
                _encode(each.facts).decode(),
            )
            for each in entries
        ],
    )
    by_owner: defaultdict[_Key, list[ContributionEntry]] = defaultdict(list)
    for entry in entries:
        by_owner[Owner.HOST, entry.host_id, entry.kind].append(entry)
        by_owner[Owner.USER, entry.user_id, entry.kind].append(entry)
    for key in sorted(by_owner):
        _add(tx, key, by_owner[key])


def _add(tx: Transaction, key: _Key, entries: Iterable[ContributionEntry]) -> None:
    row = tx.one(
        f"SELECT {CREDIT.columns} FROM contribution WHERE owner = ? AND owner_id = ? AND kind = ?", key
    )
    statement = CreditStatement() if row is None else CREDIT.load(row)
    for entry in entries:
        statement = credited(statement, credit=entry.amount, work_start=entry.work_start, now=entry.time)
    tx.execute(_SAVE, (*_SAVED.values(statement), *key))


def contributions(db: Database, owner: Owner, owner_id: int) -> dict[Contribution, CreditStatement]:
    """Return totals and recent averages (a day) by kind, in the units of `Contribution`."""
    rows = db.query(
        f"SELECT kind, {CREDIT.columns} FROM contribution WHERE owner = ? AND owner_id = ? ORDER BY kind",
        (owner, owner_id),
    )
    return {Contribution(row[0]): CREDIT.load(row[1:]) for row in rows}


def merge_hosts(tx: Transaction, old: int, new: int, *, now: float) -> None:
    """Give a computer what an older record of it contributed; the ledger stays as it is."""
    before, after = contributions(tx, Owner.HOST, old), contributions(tx, Owner.HOST, new)
    for kind, statement in before.items():
        together = joined(after.get(kind, CreditStatement()), statement, now=now)
        tx.execute(_SAVE, (*_SAVED.values(together), Owner.HOST, new, kind))
    tx.execute("DELETE FROM contribution WHERE owner = ? AND owner_id = ?", (Owner.HOST, old))
