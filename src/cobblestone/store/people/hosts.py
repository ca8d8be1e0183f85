"""Hosts, their records per app version, and the settings by their owners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from cobblestone.domain.errors import Conflict
from cobblestone.domain.hosts import Host, HostAppVersion, HostDescription, HostVersionStatistics
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import AppVersionId, HostId, UserId
from cobblestone.domain.work import ServerState
from cobblestone.policy.dispatch.catalogue import availability, cpu_speed
from cobblestone.store.averages import CREDIT, running_average
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper, to_json

HOSTS = RowMapper(Host, {"credit": CREDIT, "missing_runtime": "trouble", "missing_since": "trouble_time"})
_STATISTICS = RowMapper(
    HostVersionStatistics,
    {
        "pfc": running_average("pfc"),
        "elapsed": running_average("et"),
        "turnaround": running_average("turnaround"),
    },
)
RECORDS = RowMapper(HostAppVersion, {"statistics": _STATISTICS})
_SAVED_RECORD = RECORDS.writer()
_SAVE_RECORD = _SAVED_RECORD.upsert("host_app_version", "host_id", "app_version_id")


def host_by_id(db: Database, host_id: HostId) -> Host | None:
    """Return a host, or None; a merged record leads to its survivor."""
    for _ in range(10):
        row = db.one(f"SELECT {HOSTS.columns}, merged_into FROM host WHERE id = ?", (host_id,))
        if row is None:
            return None
        if row[-1] is None:
            return HOSTS.load(row)
        host_id = HostId(row[-1])
    return None


_LISTED = "user_id = ? AND merged_into IS NULL AND (removed_time IS NULL OR rpc_time > removed_time)"


def hosts_of_user(db: Database, user_id: UserId, *, limit: int = 1000, offset: int = 0) -> list[Host]:
    """Return a user's computers, latest contact first, without those removed by the owner that did not call again."""
    # Sorted without their descriptions, which are long.
    ids = f"SELECT id FROM host WHERE {_LISTED} ORDER BY rpc_time DESC, id LIMIT ? OFFSET ?"
    sql = f"SELECT {HOSTS.columns} FROM host WHERE id IN ({ids}) ORDER BY rpc_time DESC, id"
    return [*db.readable(HOSTS.load, db.query(sql, (user_id, limit, offset)))]


def count_hosts(db: Database, user_id: UserId) -> int:
    """Return how many computers `hosts_of_user` finds without a limit."""
    return db.number(f"SELECT COUNT(*) FROM host WHERE {_LISTED}", (user_id,))


def hosts_named(
    db: Database, user_id: UserId, column: Literal["host_cpid", "domain_name"], name: str
) -> list[Host]:
    """Return a user's records with one (hashed) host id, or of one network name, newest first."""
    source = f"host WHERE user_id = ? AND {column} = ? AND merged_into IS NULL ORDER BY id DESC LIMIT 10"
    return db.load(HOSTS, source, (user_id, name)) if name else []


def list_hosts(db: Database, *, limit: int) -> list[Host]:
    """Return hosts in the order of their ids."""
    return db.load(HOSTS, "host WHERE merged_into IS NULL ORDER BY id LIMIT ?", (limit,))


def recent_hosts(db: Database, *, limit: int) -> list[Host]:
    """Return the hosts with the latest contacts."""
    return db.load(HOSTS, "host WHERE merged_into IS NULL ORDER BY rpc_time DESC, id LIMIT ?", (limit,))


def cores_at_hand(db: Database, *, since: float) -> tuple[float, float]:
    """Return how many cores compute on average on computers that called since then, and their speed (operations per second).

    Of at most the 1000 that called last.
    """
    active = [host.description for host in recent_hosts(db, limit=1000) if host.rpc_time >= since]
    cores = [max(each.usable_ncpus or each.p_ncpus, 1) * availability(each) for each in active]
    operations = sum(n * cpu_speed(each) for n, each in zip(cores, active, strict=True))
    return sum(cores), operations / max(sum(cores), 1e-9)


def speeds(db: Database) -> list[float]:
    """Return the speed of one CPU of each of the newest 20,000 hosts, FLOPS, with the part of the time in which it computes."""
    newest = db.load(HOSTS, "host WHERE merged_into IS NULL ORDER BY id DESC LIMIT 20000")
    return [cpu_speed(host.description) * availability(host.description) for host in newest]


def create_host(tx: Transaction, user_id: UserId, *, host_cpid: str, venue: str, now: float) -> Host:
    """Create a record for a new computer."""
    host_id = tx.insert(
        "INSERT INTO host (user_id, host_cpid, venue, create_time, rpc_time, expavg_time) VALUES (?, ?, ?, ?, ?, ?)",
        (user_id, host_cpid, venue, now, now, now),
    )
    return Host(
        id=HostId(host_id),
        user_id=user_id,
        host_cpid=host_cpid,
        venue=venue,
        create_time=now,
        rpc_time=now,
        credit=CreditStatement(0.0, RecentAverage(0.0, now)),
    )


def update_host(
    tx: Transaction,
    host_id: HostId,
    description: HostDescription,
    *,
    rpc_seqno: int,
    external_ip_addr: str,
    now: float,
) -> None:
    """Store a host's description from a scheduler request."""
    tx.execute_many(
        "UPDATE host SET description = ?, domain_name = ?, rpc_seqno = ?, external_ip_addr = ?, rpc_time = ? WHERE id = ?",
        [(to_json(description), description.domain_name, rpc_seqno, external_ip_addr, now, host_id)],
    )


def set_cpid(tx: Transaction, host_id: HostId, host_cpid: str) -> None:
    """Set a host's (hashed) cross-project id.  It hardly ever changes, and has an index."""
    tx.change("host", host_id, host_cpid=host_cpid)


def set_missing_runtime(tx: Transaction, host_id: HostId, missing: str, *, now: float) -> None:
    """Record (or, with an empty text, forget) what apps of every platform lack on a host."""
    tx.change("host", host_id, trouble=missing, trouble_time=now)


def reset_errors(tx: Transaction, host_id: HostId, *, now: float) -> None:
    """Forget what a host lacks, and its bad results as far as they block tasks."""
    set_missing_runtime(tx, host_id, "", now=now)
    tx.execute(
        "UPDATE host_app_version SET bad_results = 0, n_jobs_today = 0 WHERE host_id = ? AND bad_results > 0",
        (host_id,),
    )


def records_of_host(db: Database, host_id: HostId) -> dict[AppVersionId, HostAppVersion]:
    """Return quota and reliability of one host, by app version."""
    found = db.load(RECORDS, "host_app_version WHERE host_id = ?", (host_id,))
    return {each.app_version_id: each for each in found}


def records(
    db: Database, keys: Iterable[tuple[HostId, AppVersionId]]
) -> dict[tuple[HostId, AppVersionId], HostAppVersion]:
    """Return records of several hosts; a missing one is a new one."""
    found = {key: HostAppVersion(host_id=key[0], app_version_id=key[1]) for key in keys}
    hosts = sorted({key[0] for key in found})
    db.lock("host", hosts)  # it stands for its records, of which some may not exist yet
    for record in db.load_in(RECORDS, "host_app_version WHERE host_id IN (??)", hosts):
        if (key := (record.host_id, record.app_version_id)) in found:
            found[key] = record
    return found


def save_records(tx: Transaction, changed: Iterable[HostAppVersion]) -> None:
    """Store records."""
    tx.execute_many(_SAVE_RECORD, map(_SAVED_RECORD.values, changed))


def all_statistics(db: Database) -> Iterator[tuple[tuple[HostId, AppVersionId], HostVersionStatistics]]:
    """Yield the credit statistics of every host and app version."""
    key = "host_id, app_version_id"
    sql = f"SELECT {_STATISTICS.columns}, {key} FROM host_app_version WHERE ({key}) > (?, ?) ORDER BY {key}"
    return ((row[-2:], _STATISTICS.load(row)) for row in db.stream(sql, after=(0, 0)))


def remove_record(tx: Transaction, host_id: HostId, version_id: AppVersionId) -> None:
    """Remove a record that another version took over."""
    tx.execute("DELETE FROM host_app_version WHERE host_id = ? AND app_version_id = ?", (host_id, version_id))


class Processors(msgspec.Struct):
    """The part of a host's description on which credit claims rest."""

    p_ncpus: int = 1
    p_fpops: float = 0.0
    p_iops: float = 0.0
    known_since: float = 0.0  #: first call, Unix seconds


@dataclass(frozen=True, slots=True)
class HostProcessors:
    """The processors of a computer, its owner and its first contact."""

    id: HostId
    user_id: int
    processors: Processors
    create_time: float


_PROCESSORS = RowMapper(HostProcessors, {"processors": "description"})


def processors(db: Database, host_ids: Sequence[HostId]) -> dict[HostId, Processors]:
    """Return number and speed of the processors of several hosts, and their first contact."""
    found: dict[HostId, Processors] = {}
    for each in db.load_in(_PROCESSORS, "host WHERE id IN (??)", host_ids):
        found[each.id] = each.processors
        each.processors.known_since = each.create_time
    return found


def computers_of_owners(db: Database, host_ids: Sequence[HostId]) -> dict[HostId, int]:
    """Return how many computers the owners of some computers ever had, by computer id."""
    # Counted once for each owner: the computers of a farm come together.
    sql = (
        "WITH h AS (SELECT id, user_id FROM host WHERE id IN (??)), o AS (SELECT user_id, COUNT(*) AS n FROM host"
        " WHERE user_id IN (SELECT user_id FROM h) GROUP BY user_id) SELECT h.id, o.n FROM h JOIN o ON o.user_id = h.user_id"
    )
    return dict(db.query_in(sql, host_ids))


def proven_speeds(db: Database, *, results: int = 2000) -> list[float]:
    """Return the benchmark of each person's fastest computer, among those that the newest grants went to."""
    fastest: dict[int, float] = {}
    rows = db.query(
        f"SELECT {_PROCESSORS.columns} FROM host WHERE id IN (SELECT host_id FROM"
        f" (SELECT host_id FROM credit_entry WHERE kind IN ('grant', 'release') ORDER BY id DESC LIMIT {results}) newest)"
    )
    for each in db.readable(_PROCESSORS.load, rows):
        fastest[each.user_id] = max(each.processors.p_fpops, fastest.get(each.user_id, 0.0))
    return list(fastest.values())


def set_computer(tx: Transaction, host_id: HostId, *, label: str, venue: str, hidden: bool) -> None:
    """Store an owner's choices."""
    tx.change("host", host_id, label=label, venue=venue, hidden=int(hidden))


def has_work(db: Database, host_id: HostId) -> bool:
    """Return whether a computer has unreported tasks."""
    in_progress = f"FROM result WHERE server_state = {ServerState.IN_PROGRESS} AND host_id = ?"
    return db.value(f"SELECT 1 {in_progress} LIMIT 1", (host_id,)) is not None


def remove_computer(tx: Transaction, host_id: HostId, *, now: float) -> None:
    """Remove a computer from its owner's list and delete its description; it comes back at its next contact.

    Raises:
        Conflict: it still has tasks.
    """
    if has_work(tx, host_id):
        raise Conflict(f"Computer {host_id} has tasks in progress.")
    tx.execute(
        "UPDATE host SET removed_time = ?, domain_name = '', label = '', external_ip_addr = '', description = '{}'"
        " WHERE id = ?",
        (now, host_id),
    )


def take_back_returned(tx: Transaction) -> int:
    """Show removed computers again that have called since; return how many."""
    return tx.execute(
        "UPDATE host SET removed_time = NULL WHERE removed_time IS NOT NULL AND rpc_time > removed_time"
    )
