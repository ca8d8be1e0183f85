"""The ledger of storage and network contributions, and the bytes that computers received and sent.

Bytes that computers received and sent, as the server knows them: for valid results, by the ledger of credit.

Outputs count as they were taken in.  Inputs and the files of programs count once per computer: the scheduler asked for them,
and the job cannot have been done without; a file that is fetched again brings nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cobblestone.domain.statistics import Contribution, CreditStatement
from cobblestone.domain.values import form_of, value
from cobblestone.policy.credit.rac import credited, joined
from cobblestone.store.averages import CREDIT
from cobblestone.store.credit.app_credit import FollowedEntry, Owner, follow, meta
from cobblestone.store.credit.ledger import GRANTS
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

_SAVED = CREDIT.writer()
_SAVE = _SAVED.upsert("contribution", "owner", "owner_id", "kind")
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


_ENTRY = RowMapper(ContributionEntry).writer()


def grant(tx: Transaction, entries: Sequence[ContributionEntry]) -> None:
    """Add entries to the ledger, and to totals and averages of their computers and volunteers."""
    tx.execute_many(_ENTRY.insert("contribution_entry"), map(_ENTRY.values, entries))
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
    """Add the contributions of an older record of a computer to the newer one; the ledger is unchanged."""
    before, after = contributions(tx, Owner.HOST, old), contributions(tx, Owner.HOST, new)
    for kind, statement in before.items():
        together = joined(after.get(kind, CreditStatement()), statement, now=now)
        tx.execute(_SAVE, (*_SAVED.values(together), Owner.HOST, new, kind))
    tx.execute("DELETE FROM contribution WHERE owner = ? AND owner_id = ?", (Owner.HOST, old))


PORTION = 100
_MARK = "transfer_entry"


class _Sized(msgspec.Struct):
    """A file in the list of a job or of an app version."""

    name: str
    nbytes: int
    gzipped_nbytes: int | None = None

    @property
    def moved(self) -> int:
        """Return the bytes on the wire."""
        return self.nbytes if self.gzipped_nbytes is None else self.gzipped_nbytes


_files = msgspec.json.Decoder(tuple[_Sized, ...]).decode


def follow_transfers(tx: Transaction, *, now: float, limit: int = PORTION) -> int:
    """Count transfers of the next entries of the ledger; return how many entries.  Those before the first call are skipped."""
    if meta(tx, _MARK) is None:
        tx.execute(
            "INSERT INTO meta (key, value) SELECT ?, CAST(coalesce(max(id), 0) AS TEXT) FROM credit_entry",
            (_MARK,),
        )
        return 0
    return follow(tx, _MARK, _take, now=now, limit=limit)


def _take(tx: Transaction, entries: Sequence[FollowedEntry]) -> None:
    grants = [entry for entry in entries if entry.kind in GRANTS]
    if grants:
        sql = "SELECT result_id, CAST(sum(nbytes) AS INTEGER) FROM upload WHERE result_id IN (??) GROUP BY result_id"
        sent = dict(tx.query_in(sql, [entry.result_id for entry in grants]))
        lines = [line for entry in grants for line in _lines(tx, entry, sent.get(entry.result_id, 0))]
        grant(tx, lines)


def _lines(tx: Transaction, entry: FollowedEntry, sent: int) -> Sequence[ContributionEntry]:
    new = _newly_received(tx, entry)
    found: tuple[tuple[Contribution, int, dict[str, object]], ...] = (
        (Contribution.SENT, sent, {}),
        (Contribution.RECEIVED, sum(new.values()), {"files": sorted(new)}),
    )
    return [
        form_of(
            ContributionEntry,
            entry,
            kind=kind,
            amount=float(amount),
            facts={"result": entry.result_id, **facts},
        )
        for kind, amount, facts in found
        if amount
    ]


def _newly_received(tx: Transaction, entry: FollowedEntry) -> dict[str, int]:
    """Return the bytes of the files, by name, that the computer had to download for a result, and record them."""
    row = tx.one(
        "SELECT w.input_files, v.files FROM result r JOIN workunit w ON w.id = r.workunit_id"
        " LEFT JOIN app_version v ON v.id = r.app_version_id WHERE r.id = ?",
        (entry.result_id,),
    )
    if row is None:  # purged
        return {}
    files = {file.name: file.moved for text in row if text for file in _files(text)}
    known = {
        name
        for (name,) in tx.query_in(
            "SELECT file_name FROM received_file WHERE host_id = ? AND file_name IN (??)",
            sorted(files),
            (entry.host_id,),
        )
    }
    new = {name: moved for name, moved in files.items() if name not in known}
    tx.execute_many(
        "INSERT INTO received_file (host_id, file_name) VALUES (?, ?)",
        [(entry.host_id, name) for name in sorted(new)],
    )
    return new
