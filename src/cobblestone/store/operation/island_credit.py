"""Credit that islands granted on its way to the centre, each entry of their ledgers exactly once.

The centre keeps the number of the last entry that it took from an island, and moves it, from the very number that it read
from, in the transaction that enters what follows: whatever is killed, and if two do this at once, nothing is entered twice
or left out.  A grant has its result besides, which the ledger takes once.

An entry has the time of its arrival at the centre, and the team that its user is in there by then: the ledger of the centre is
in the order in which it was written, as whoever follows or replays it expects.  Its facts say where it comes from.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

import msgspec

from cobblestone.domain.errors import Conflict, NotFound, StoreError
from cobblestone.domain.ids import AppVersionId, HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.reasons import Reason, restored
from cobblestone.policy.dispatch.islands import HOST_IDS, ROW_IDS
from cobblestone.store.credit import ledger
from cobblestone.store.credit.follower import is_fresh
from cobblestone.store.credit.ledger_line import ENTRY_COLUMNS, ISLAND, LedgerLine, read_line
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Row
from cobblestone.store.operation.merged_computers import merge_computers

PORTION = 500
_SUMMED = 200_000
_MERGED, _CORRECTED, _GRANTED = range(3)
_DESCRIBED = (
    *("host_cpid", "rpc_seqno", "rpc_time", "domain_name", "external_ip_addr", "description"),
    *("trouble", "trouble_time"),
)
_HOST = ", ".join(("id", "user_id", "create_time", *_DESCRIBED))
_encode = msgspec.json.Encoder().encode
_Version = tuple[str, str, int, str]  # app, platform, number, plan class


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """What the centre takes from an island at once."""

    lines: Sequence[LedgerLine]
    versions: Mapping[int, _Version]  #: of the lines, by their ids on the island
    hosts: Sequence[Row]  #: computers of the lines, and new ones


def _mark(number: int) -> str:
    return f"island_{number}_entry"


def reached(db: Database, number: int) -> int:
    """Return the last entry that the centre took from an island; 0: none."""
    return int(db.value("SELECT value FROM meta WHERE key = ?", (_mark(number),)) or 0)


def last_host(db: Database, number: int) -> int:
    """Return the newest computer of an island that the centre knows."""
    first = number * HOST_IDS
    sql = "SELECT COALESCE(MAX(id), ?) FROM host WHERE id > ? AND id < ?"
    return int(db.value(sql, (first, first, first + HOST_IDS)))


# -- on the island -------------------------------------------------------------


def next_portion(db: Database, *, after: int, after_host: int, now: float, limit: int = PORTION) -> Portion:
    """Return what an island has behind an entry and a computer.

    Raises:
        DamagedEntry: an entry cannot be read.
        StoreError: its ledger ends before what was taken from it.
    """
    rows = db.query(
        f"SELECT {ENTRY_COLUMNS} FROM credit_entry WHERE id >= ? ORDER BY id LIMIT ?", (after, limit + 1)
    )
    if after and (not rows or rows[0][0] != after):
        raise StoreError(
            f"The ledger of the island has no entry {after}, which was taken from it: was an older backup restored there? Its"
            " ids would come twice. Begin a new island, with another number."
        )
    lines = list(
        takewhile(
            lambda line: not is_fresh(line.time, now=now), (read_line(row) for row in rows if row[0] > after)
        )
    )
    versions = db.query_in(
        "SELECT v.id, a.name, v.platform, v.version_num, v.plan_class FROM app_version v JOIN app a ON a.id = v.app_id"
        " WHERE v.id IN (??)",
        sorted({line.app_version_id for line in lines if line.app_version_id is not None}),
    )
    new = db.query(f"SELECT {_HOST}, venue FROM host WHERE id > ? ORDER BY id LIMIT ?", (after_host, limit))
    credited = db.query_in(
        f"SELECT {_HOST}, venue FROM host WHERE id IN (??)", sorted({line.host_id for line in lines})
    )
    return Portion(
        lines=lines,
        versions={row[0]: tuple(row[1:]) for row in versions},
        hosts=list({row[0]: row for row in (*new, *credited)}.values()),
    )


# -- at the centre -------------------------------------------------------------


def take_portion(tx: Transaction, number: int, after: int, portion: Portion, *, now: float) -> int:
    """Enter what an island granted behind entry ``after``; return how many entries, 0 if somebody else did it meanwhile.

    Raises:
        StoreError: an account is not known here.
    """
    _take_hosts(tx, portion.hosts, now=now)
    if not portion.lines:
        return 0
    if not _move_mark(tx, number, after, portion.lines[-1].id):
        return 0
    _check_users(tx, portion.lines)
    survivors = _merged(tx, portion.lines)
    versions = _versions_here(tx, portion.versions)
    for kind, lines in groupby(portion.lines, key=_kind):
        if kind == _GRANTED:
            entries = [_entry(line, number, survivors, versions) for line in lines]
            ledger.enter(tx, entries, now=now)
            continue
        for line in lines:
            if kind == _MERGED:
                with contextlib.suppress(
                    NotFound, Conflict
                ):  # the centre does not have both, or had merged them
                    earlier, later = HostId(line.facts["from_host"]), HostId(line.host_id)
                    merge_computers(tx, UserId(line.user_id), earlier, later, now=now)
            else:
                _correct(tx, line, number, now=now)
    return len(portion.lines)


def _kind(line: LedgerLine) -> int:
    return {ledger.MERGE: _MERGED, ledger.CORRECTION: _CORRECTED}.get(line.kind, _GRANTED)


def _move_mark(tx: Transaction, number: int, before: int, after: int) -> bool:
    """Move the mark from where it was read; False: it is not there any more."""
    tx.execute("INSERT INTO meta (key, value) VALUES (?, '0') ON CONFLICT (key) DO NOTHING", (_mark(number),))
    sql = "UPDATE meta SET value = ? WHERE key = ? AND value = ?"
    return tx.execute(sql, (str(after), _mark(number), str(before))) == 1


def _check_users(tx: Transaction, lines: Iterable[LedgerLine]) -> None:
    wanted = {line.user_id for line in lines}
    known = {row[0] for row in tx.query_in("SELECT id FROM user_account WHERE id IN (??)", sorted(wanted))}
    if unknown := sorted(wanted - known):
        raise StoreError(
            f"The island credited user {unknown[0]}, whom the centre does not know. Was an older backup restored here?"
        )


def _take_hosts(tx: Transaction, hosts: Sequence[Row], *, now: float) -> None:
    """Store computers as the island describes them; what their owners chose here, and their credit, stays."""
    owners = sorted({row[1] for row in hosts})
    known = dict(tx.query_in("SELECT id, erased_time FROM user_account WHERE id IN (??)", owners))
    sets = ", ".join(f"{name} = excluded.{name}" for name in _DESCRIBED)
    tx.lock("host", [row[0] for row in hosts])
    tx.execute_many(
        f"INSERT INTO host ({_HOST}, venue, expavg_time) VALUES ({', '.join('?' * (len(_DESCRIBED) + 3))}, ?, ?)"
        f" ON CONFLICT (id) DO UPDATE SET {sets}",
        [(*row, row[2]) for row in sorted(hosts) if known.get(row[1], now) is None],
    )


def _merged(tx: Transaction, lines: Iterable[LedgerLine]) -> Mapping[int, int]:
    """Return by their ids the computers that have become part of others here."""
    hosts = sorted({line.host_id for line in lines})
    return dict(
        tx.query_in("SELECT id, merged_into FROM host WHERE merged_into IS NOT NULL AND id IN (??)", hosts)
    )


def _versions_here(tx: Transaction, versions: Mapping[int, _Version]) -> Mapping[int, AppVersionId]:
    """Return the centre's own versions of the same names, by the ids of the island's."""
    sql = (
        "SELECT v.id FROM app_version v JOIN app a ON a.id = v.app_id WHERE a.name = ? AND v.platform = ?"
        " AND v.version_num = ? AND v.plan_class = ?"
    )
    found = {id_: tx.value(sql, version) for id_, version in versions.items()}
    return {id_: AppVersionId(here) for id_, here in found.items() if here is not None}


def _origin(line: LedgerLine, number: int) -> Mapping[str, object]:
    return {ISLAND: number, "entry": line.id, "time": line.time}


def _reasons(line: LedgerLine) -> tuple[Reason, ...]:
    return tuple(restored(str(each["code"]), str(each["sentence"]), each["values"]) for each in line.reasons)  # pyright: ignore[reportArgumentType]  # as they were written


def _entry(
    line: LedgerLine, number: int, survivors: Mapping[int, int], versions: Mapping[int, AppVersionId]
) -> ledger.CreditEntry:
    return ledger.CreditEntry(
        result_id=ResultId(line.result_id),
        workunit_id=WorkunitId(line.workunit_id),
        host_id=HostId(survivors.get(line.host_id, line.host_id)),
        user_id=UserId(line.user_id),
        app_version_id=versions.get(line.app_version_id or 0),
        system=line.system,
        claimed=line.claimed,
        granted=line.granted,
        unit=line.unit,
        work_start=line.work_start,
        reasons=_reasons(line),
        facts=_encode(_origin(line, number)).decode(),
        kind=line.kind,
    )


def _correct(tx: Transaction, line: LedgerLine, number: int, *, now: float) -> None:
    """Correct for those whom the first entry of the result credited here."""
    here = ledger.entries_of_result(tx, line.result_id)
    first = next((each for each in here if each.kind == ledger.GRANT), here[0] if here else line)
    of = ledger.survivor(tx, first)
    tx.lock("host", [of.host_id])
    tx.lock("user_account", [of.user_id])
    ledger.append_correction(
        tx, of, line.granted, _reasons(line)[0], granted_time=of.time, now=now, origin=_origin(line, number)
    )


# -- how far it is -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits on an island."""

    entries: int
    oldest: float | None  #: time of the oldest, Unix seconds


def backlog(db: Database, *, after: int) -> Backlog:
    """Return what an island's ledger has behind an entry."""
    n, oldest = db.one("SELECT COUNT(*), MIN(time) FROM credit_entry WHERE id > ?", (after,)) or (0, None)
    return Backlog(entries=n, oldest=oldest)


Sums = tuple[int, float]
"""Number of entries, and what they grant together."""


def sums_of_island(db: Database, number: int, *, until: int) -> Sums:
    """Return the sums of an island's own ledger up to an entry."""
    return _sums(db, "id", number * ROW_IDS, until)


def sums_at_centre(db: Database, number: int) -> Sums:
    """Return the sums of what the centre has from an island: entries for results of its range."""
    first = number * ROW_IDS
    last = db.value("SELECT MAX(result_id) FROM credit_entry WHERE result_id < ?", (first + ROW_IDS,))
    return _sums(db, "result_id", first, int(last or 0))


def _sums(db: Database, column: str, first: int, last: int) -> Sums:
    """Sum entries but merges, piece by piece: no statement takes long."""
    sql = (
        "SELECT COUNT(*), COALESCE(SUM(granted), 0.0) FROM credit_entry"
        f" WHERE {column} > ? AND {column} <= ? AND kind <> 'merge'"
    )
    pieces = [
        db.one(sql, (start, min(start + _SUMMED, last))) or (0, 0.0) for start in range(first, last, _SUMMED)
    ]
    return sum(piece[0] for piece in pieces), math.fsum(piece[1] for piece in pieces)
