"""Granting: ledger entries, and totals and recent averages of hosts, users, teams and app versions.

The ledger is append-only: a correction is a further entry.  A batch of grants reads each shared row once, adds in order,
and writes it once.  The unique index on the ledger makes a second grant for the same result impossible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from cobblestone.domain.errors import Conflict
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.statistics import CreditStatement
from cobblestone.domain.values import (
    AppVersionId,
    HostId,
    ResultId,
    TeamId,
    UserId,
    WorkunitId,
    changed,
    float_sum,
    form_of,
    value,
)
from cobblestone.domain.work import CreditOfRows
from cobblestone.policy.credit.rac import OWNERS, CreditTotals, common_moment
from cobblestone.store.averages import CREDIT
from cobblestone.store.credit.credit_facts import ENTRY_COLUMNS, DamagedEntry, LedgerLine, read_line
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.mapping import RowMapper, to_json

GRANT = "grant"
TRICKLE = "trickle"  # provisional: part of the final grant
CORRECTION = "correction"
MERGE = "merge"  # two computers became one: nothing is granted, what they have goes over
# Of the ledger system:
ESCROW = "escrow"  # a grant that is provisional …
RELEASE = "release"  # … is final now (no amount) …
REVOKE = "revoke"  # … or taken back
SETTLEMENT = "settlement"  # what a computer gains or loses beside the prices of its results, as for jobs that it did not finish

GRANTS, CORRECTIONS = (GRANT, ESCROW), (CORRECTION, REVOKE)
IS_GRANT = f"kind IN ('{GRANT}', '{ESCROW}')"
IS_CORRECTION = f"kind IN ('{CORRECTION}', '{REVOKE}')"


@value(kw_only=True)
class CreditEntry:
    """A ledger entry to be written.  ``granted`` may be negative in a correction."""

    result_id: ResultId
    workunit_id: WorkunitId
    host_id: HostId
    user_id: UserId
    app_version_id: AppVersionId | None  #: anonymous platform: the generalised id
    system: str
    claimed: float = 0.0
    granted: float
    unit: float  #: credit per GFLOPS-day
    work_start: float  #: Unix seconds
    reasons: tuple[Reason, ...] = ()
    facts: str = "{}"  #: JSON: what the amount was computed from
    kind: str = GRANT


_ENTRY = RowMapper(CreditEntry).writer(without=("reasons",))
_INSERT_ENTRY = _ENTRY.insert("credit_entry", "time", "team_id", "reasons")
_CREDIT = CREDIT.writer()


def grant(tx: Transaction, entries: Sequence[CreditEntry], *, now: float) -> int:
    """Write ledger entries, add them to all totals and averages, and to their results; return how many were new."""
    fresh = enter(tx, entries, now=now)
    note_credit(tx, CreditOfRows(results=credit_of_results(fresh), workunits={}))
    return len(fresh)


def enter(tx: Transaction, entries: Sequence[CreditEntry], *, now: float) -> list[CreditEntry]:
    """Write ledger entries and add them to all totals and averages; return the new ones, to be written to their results.

    The team is the one that the user belongs to now.  A second grant for a result is left out.
    """
    results = [entry.result_id for entry in entries if entry.kind in GRANTS]
    tx.ask_ahead(
        partial(_granted, result_ids=results),
        partial(_teams, user_ids=sorted({entry.user_id for entry in entries})),
    )
    granted_before = _granted(tx, results)
    fresh = [entry for entry in entries if entry.kind not in GRANTS or entry.result_id not in granted_before]
    _write(tx, fresh, corrects=False, now=now)
    return fresh


def settle(tx: Transaction, entries: Sequence[CreditEntry], *, now: float) -> None:
    """Write entries that grant nothing to a result: settlements of computers, which change totals, and releases, which do not."""
    sql = "SELECT id, merged_into FROM host WHERE merged_into IS NOT NULL AND id IN (??)"
    survivors = dict(tx.query_in(sql, sorted({entry.host_id for entry in entries})))
    known = [changed(each, host_id=survivors.get(each.host_id, each.host_id)) for each in entries]
    _write(tx, known, corrects=True, now=now)


def _write(tx: Transaction, entries: Sequence[CreditEntry], *, corrects: bool, now: float) -> None:
    team_of = _teams(tx, sorted({entry.user_id for entry in entries}))
    owners = [
        (each.host_id, each.user_id, team_of.get(each.user_id), each.app_version_id) for each in entries
    ]
    # Before the entries get their ids: those of one owner are then in the order in which they were added to its average.
    _lock(tx, owners)
    tx.execute_many(
        _INSERT_ENTRY,
        [
            (*_ENTRY.values(entry), now, team_of.get(entry.user_id), _reasons_text(entry.reasons))
            for entry in entries
        ],
    )
    totals = _totals(tx, owners)
    if corrects:
        for of, entry in zip(owners, entries, strict=True):
            if entry.granted:
                totals.correct(of, credit=entry.granted, granted_time=now, now=now)
    else:
        shares = [(of, each.granted, each.work_start) for of, each in zip(owners, entries, strict=True)]
        totals.credit(shares, now=now)
    _save_totals(tx, totals)


def credit_of_results(entries: Iterable[CreditEntry]) -> dict[ResultId, tuple[float, float]]:
    """Return what results claimed and were granted by entries, by id."""
    found: dict[ResultId, tuple[float, float]] = {}
    for entry in entries:
        _, before = found.get(entry.result_id, (0.0, 0.0))
        found[entry.result_id] = entry.claimed, before + entry.granted
    return found


def note_credit(tx: Transaction, credit: CreditOfRows) -> None:
    """Write to results and workunits what they were granted."""
    tx.execute_many(
        "UPDATE result SET claimed_credit = ?, granted_credit = granted_credit + ? WHERE id = ?",
        [(claimed, granted, id_) for id_, (claimed, granted) in credit.results.items()],
    )
    tx.execute_many(
        "UPDATE workunit SET canonical_credit = ? WHERE id = ?",
        [(amount, id_) for id_, amount in credit.workunits.items()],
    )


def _granted(db: Database, result_ids: Sequence[ResultId]) -> set[int]:
    """Return those of the results that have their grant."""
    sql = f"SELECT result_id FROM credit_entry WHERE {IS_GRANT} AND result_id IN (??)"
    return {row[0] for row in db.query_in(sql, result_ids)}


def _teams(db: Database, user_ids: Sequence[UserId]) -> dict[UserId, TeamId | None]:
    """Return the teams that users belong to."""
    return dict(db.query_in("SELECT id, team_id FROM user_account WHERE id IN (??)", user_ids))


def _reasons_text(reasons: Iterable[Reason]) -> str:
    """Return reasons as JSON: each a list of code, sentence and values."""
    return to_json([(each.code, each.sentence, each.plain_values()) for each in reasons])


def _statements(db: Database, table: str, ids: Sequence[int]) -> dict[int, CreditStatement]:
    rows = db.query_in(f"SELECT {CREDIT.columns}, id FROM {table} WHERE id IN (??)", ids)
    return {row[-1]: CREDIT.load(row) for row in rows}


def _lock(tx: Transaction, owners: Iterable[Sequence[int | None]]) -> None:
    """Lock the rows of the named owners, in the order of the schema."""
    found = _ids(owners)
    for kind in ("host", "app_version", "user_account", "team"):
        tx.lock(kind, found.get(kind, ()))


def _ids(owners: Iterable[Sequence[int | None]]) -> dict[str, list[int]]:
    """Return the ids of owners by table."""
    found = zip(OWNERS, zip(*owners, strict=True), strict=False)
    return {kind: sorted({id_ for id_ in ids if id_ is not None}) for kind, ids in found}


def _totals(db: Database, owners: Iterable[Sequence[int | None]]) -> CreditTotals:
    """Return totals and averages of the named owners."""
    totals, wanted = CreditTotals(), _ids(owners)
    db.ask_ahead(*(partial(_statements, table=kind, ids=ids) for kind, ids in wanted.items()))
    for kind, ids in wanted.items():
        totals.rows[kind] = _statements(db, kind, ids)
    return totals


def _save_totals(tx: Transaction, totals: CreditTotals) -> None:
    for kind, rows in totals.rows.items():
        changes = [(*_CREDIT.values(statement), id_) for id_, statement in rows.items()]
        tx.execute_many(_CREDIT.update(kind), changes)


def correct(tx: Transaction, grant_line: LedgerLine, amount: float, why: Reason, *, now: float) -> LedgerLine:
    """Correct a grant with a new entry (negative: claw-back) for the same host, user, team and app version.

    The recent averages lose or gain what is left of the grant in them.

    Raises:
        Conflict: the result would end up with less than nothing.
    """
    grant_line = _survivor(tx, grant_line)
    _lock(tx, [grant_line.owners()])
    got = float_sum(line.granted for line in entries_of_result(tx, grant_line.result_id))
    if got + amount < -1e-9 * max(got, 1.0):
        raise Conflict(
            f"Result {grant_line.result_id} has {got:.6g} credit, so {-amount:.6g} cannot be taken back. At most: {-got:.6g}."
        )
    _append_correction(tx, grant_line, amount, why, CORRECTION, {}, granted_time=grant_line.time, now=now)
    return entries_of_result(tx, grant_line.result_id)[-1]


def take_back_provisional(tx: Transaction, result_ids: Iterable[ResultId], *, now: float) -> None:
    """Take back what messages brought results that turned out invalid, or ended without one, with new entries.

    What was taken back, or granted for good, stays as it is; so doing it twice changes nothing.
    """
    for result_id in result_ids:
        lines = entries_of_result(tx, result_id)
        if not any(line.kind in GRANTS for line in lines):
            _take_back(tx, lines, None, CORRECTION, {}, now=now)


def revoke(tx: Transaction, result_id: ResultId, why: Reason, *, event: int, now: float) -> None:
    """Take back all that a result was granted provisionally, with new entries; ``event``: of the ledger system."""
    _take_back(tx, entries_of_result(tx, result_id), why, REVOKE, {"event": event}, now=now)


def _take_back(
    tx: Transaction,
    lines: Iterable[LedgerLine],
    why: Reason | None,
    kind: str,
    facts: Mapping[str, object],
    *,
    now: float,
) -> None:
    by_owners: dict[tuple[int | None, ...], list[LedgerLine]] = {}
    for line in lines:  # the user may have changed teams between them
        if line.kind != SETTLEMENT:
            left = _survivor(tx, line)
            by_owners.setdefault(left.owners(), []).append(left)
    _lock(tx, by_owners)
    for of_owners in by_owners.values():
        amount = float_sum(line.granted for line in of_owners)
        if amount <= 0.0:
            continue
        messages = [(line.granted, line.time) for line in of_owners if line.granted > 0.0]
        told = why or reason(
            "provisional_taken_back",
            "Not valid: {amount}, which {n} trickle {n:message|messages} had already granted, is taken back.",
            amount=amount,
            n=len(messages),
        )
        moment = common_moment(messages)
        _append_correction(tx, of_owners[0], -amount, told, kind, facts, granted_time=moment, now=now)


def settled_before(db: Database, result_ids: Sequence[int]) -> set[int]:
    """Return those of the results that a settlement was written for."""
    sql = f"SELECT result_id FROM credit_entry WHERE kind = '{SETTLEMENT}' AND result_id IN (??)"
    return {row[0] for row in db.query_in(sql, result_ids)}


def merge_hosts(
    tx: Transaction, user_id: UserId, earlier: HostId, later: HostId, *, created: float, now: float
) -> None:
    """Add the credit of an earlier record of a computer to the newer one; the entries of both are unchanged.

    ``created`` is when the later record was made (Unix seconds): its average began then.
    """
    why = reason(
        "computers_merged", "Computer {earlier} was merged into {later}.", earlier=earlier, later=later
    )
    entry = CreditEntry(
        result_id=ResultId(0),
        workunit_id=WorkunitId(0),
        host_id=later,
        user_id=user_id,
        app_version_id=None,
        system="",
        granted=0.0,
        unit=0.0,
        work_start=now,
        reasons=(why,),
        facts=to_json({"from_host": earlier, "created": created}),
        kind=MERGE,
    )
    _append(tx, entry, None, now=now)
    totals = CreditTotals()
    totals.rows["host"] = _statements(tx, "host", [earlier, later])
    totals.merge("host", earlier, later, now=now)
    _save_totals(tx, totals)


def creation_before_merges(db: Database) -> Iterator[tuple[int, float]]:
    """Yield when the surviving records of merged computers were created, by host: the rows hold the time of the oldest.

    What comes first of a host is right.
    """
    sql = f"SELECT host_id, facts FROM credit_entry WHERE id > ? AND id <= ? AND kind = '{MERGE}' ORDER BY id"
    for host_id, facts in db.in_parts(sql, "credit_entry"):
        # damaged: `ledger` says so
        with contextlib.suppress(msgspec.MsgspecError, KeyError, TypeError, ValueError):
            yield host_id, float(msgspec.json.decode(facts)["created"])


def _survivor(db: Database, line: LedgerLine) -> LedgerLine:
    """Return the line with the computer into which its own was merged."""
    merged = db.value("SELECT merged_into FROM host WHERE id = ?", (line.host_id,))
    return line if merged is None else replace(line, host_id=int(merged))


def _append_correction(
    tx: Transaction,
    line: LedgerLine,
    amount: float,
    why: Reason,
    kind: str,
    facts: Mapping[str, object],
    *,
    granted_time: float,
    now: float,
) -> None:
    """Write a correction for the owners of ``line``, of what was granted at ``granted_time``."""
    entry = form_of(
        CreditEntry,
        line,
        claimed=0.0,
        granted=amount,
        reasons=(why,),
        facts=to_json({"granted_time": granted_time, **facts}),
        kind=kind,
    )
    _append(tx, entry, line.team_id, now=now)
    totals = _totals(tx, [line.owners()])
    totals.correct(line.owners(), credit=amount, granted_time=granted_time, now=now)
    _save_totals(tx, totals)
    tx.execute("UPDATE result SET granted_credit = granted_credit + ? WHERE id = ?", (amount, line.result_id))


def _append(tx: Transaction, entry: CreditEntry, team_id: int | None, *, now: float) -> None:
    tx.execute(_INSERT_ENTRY, (*_ENTRY.values(entry), now, team_id, _reasons_text(entry.reasons)))


def trickle_seconds(db: Database, result_ids: Sequence[ResultId]) -> dict[ResultId, float]:
    """Return the run time of results already credited for trickle messages."""
    return dict(db.query_in("SELECT id, trickle_seconds FROM result WHERE id IN (??)", result_ids))


def open_and_returned(db: Database, user_id: UserId, *, after: float) -> tuple[float, float]:
    """Return a person's credit for messages since ``after`` (Unix seconds) of jobs that are not valid yet, and all other."""
    provisional = db.value(
        "SELECT SUM(granted) FROM credit_entry e WHERE user_id = ? AND time > ? AND kind IN ('trickle', 'correction')"
        f" AND NOT EXISTS (SELECT 1 FROM credit_entry g WHERE g.result_id = e.result_id AND g.{IS_GRANT})",
        (user_id, after),
    )
    total = db.value("SELECT total_credit FROM user_account WHERE id = ?", (user_id,))
    return provisional or 0.0, (total or 0.0) - (provisional or 0.0)


def save_trickle_seconds(tx: Transaction, seconds: Mapping[ResultId, float]) -> None:
    """Store the values that `trickle_seconds` reads."""
    tx.execute_many(
        "UPDATE result SET trickle_seconds = ? WHERE id = ?",
        [(spent, result_id) for result_id, spent in seconds.items()],
    )


@dataclass(frozen=True, slots=True)
class DecayPass:
    """One pass of the daily task over the rows of a table from ``first_id`` to ``last_id``."""

    id: int
    time: float
    table: str
    first_id: int
    last_id: int
    last_entry_id: int  #: the newest ledger entry at that time


_DECAYS = RowMapper(DecayPass, {"table": "table_name"})


def decay_passes(db: Database) -> Iterator[DecayPass]:
    """Return all of them, oldest first."""
    sql = f"SELECT {_DECAYS.columns}, id FROM credit_decay WHERE id > ? ORDER BY id"
    return map(_DECAYS.load, db.stream(sql))


@dataclass(frozen=True, slots=True)
class Inheritance:
    """A new app version took over a host's record of an earlier one, which no longer has a record."""

    id: int
    time: float
    host_id: int
    from_version_id: int
    to_version_id: int
    last_entry_id: int  #: the newest ledger entry at that time


_INHERITANCES = RowMapper(Inheritance)


def note_inheritance(
    tx: Transaction, host_id: HostId, *, earlier: AppVersionId, later: AppVersionId, now: float
) -> None:
    """Record beside the ledger that ``later`` took over a host's record of ``earlier``."""
    tx.execute(
        "INSERT INTO credit_inheritance (time, host_id, from_version_id, to_version_id, last_entry_id)"
        " VALUES (?, ?, ?, ?, (SELECT COALESCE(MAX(id), 0) FROM credit_entry))",
        (now, host_id, earlier, later),
    )


def inheritances(db: Database) -> Iterator[Inheritance]:
    """Return all of them, oldest first."""
    sql = f"SELECT {_INHERITANCES.columns}, id FROM credit_inheritance WHERE id > ? ORDER BY id"
    return map(_INHERITANCES.load, db.stream(sql))


def all_statements(db: Database, table: str) -> Iterator[tuple[int, float, CreditStatement]]:
    """Yield id, creation time, and total and average of every row of a table."""
    sql = f"SELECT {CREDIT.columns}, create_time, id FROM {table} WHERE id > ? ORDER BY id"
    return ((row[-1], row[-2], CREDIT.load(row)) for row in db.stream(sql))


def ledger(db: Database, on_damage: Callable[[DamagedEntry], None] | None = None) -> Iterator[LedgerLine]:
    """Yield the whole ledger, oldest first; entries that cannot be read go to ``on_damage`` instead.

    Raises:
        DamagedEntry: an entry cannot be read, and the caller gave no function to tell.
    """
    for row in db.stream(f"SELECT {ENTRY_COLUMNS}, id FROM credit_entry WHERE id > ? ORDER BY id"):
        try:
            yield read_line(row[:-1])
        except DamagedEntry as error:
            if on_damage is None:
                raise
            on_damage(error)


def granted_credits(db: Database) -> Iterator[Row]:
    """Yield the credit in the rows of results, what their entries say, and their ids; purged ones are missing."""
    # a settlement is of the computer
    entries = f"SELECT sum(granted) FROM credit_entry e WHERE e.result_id = r.id AND kind <> '{SETTLEMENT}'"
    return db.stream(
        f"SELECT granted_credit, coalesce(({entries}), 0.0), id FROM result r WHERE granted_credit <> 0 AND id > ? ORDER BY id"
    )


def entries_of_result(db: Database, result_id: int) -> list[LedgerLine]:
    """Return the ledger of one result, oldest first."""
    rows = db.query(f"SELECT {ENTRY_COLUMNS} FROM credit_entry WHERE result_id = ? ORDER BY id", (result_id,))
    return [read_line(row) for row in rows]
