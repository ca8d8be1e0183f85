"""Hosts and their records per app version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cobblestone.domain.hosts import Host, HostAppVersion, HostDescription
from cobblestone.domain.ids import AppVersionId, HostId, UserId
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.store.database import Database, Row, Transaction

_COLUMNS = (
    "id, user_id, host_cpid, rpc_seqno, rpc_time, create_time, venue, description, blocked_reason,"
    " total_credit, expavg_credit, expavg_time"
)
_RECORD_COLUMNS = (
    "host_id, app_version_id, max_jobs_per_day, n_jobs_today, quota_day, consecutive_valid, et_n, et_avg,"
    " turnaround_n, turnaround_avg"
)
_encode = msgspec.json.Encoder().encode
_decode_description = msgspec.json.Decoder(HostDescription).decode


def _host(row: Row) -> Host:
    return Host(
        id=HostId(row[0]),
        user_id=UserId(row[1]),
        host_cpid=row[2],
        rpc_seqno=row[3],
        rpc_time=row[4],
        create_time=row[5],
        venue=row[6],
        description=_decode_description(row[7]),
        blocked_reason=row[8],
        credit=CreditStatement(row[9], RecentAverage(row[10], row[11])),
    )


def host_by_id(db: Database, host_id: HostId) -> Host | None:
    """A host, or None; a record that was merged away leads to its survivor."""
    for _ in range(10):
        row = db.one(f"SELECT {_COLUMNS}, merged_into FROM host WHERE id = ?", (host_id,))
        if row is None:
            return None
        if row[-1] is None:
            return _host(row)
        host_id = HostId(row[-1])
    return None


def hosts_of_user(db: Database, user_id: UserId, *, limit: int = 1000) -> list[Host]:
    """A user's computers, the one that called last first."""
    rows = db.query(
        f"SELECT {_COLUMNS} FROM host WHERE user_id = ? AND merged_into IS NULL ORDER BY rpc_time DESC LIMIT ?",
        (user_id, limit),
    )
    return [_host(row) for row in rows]


def hosts_by_cpid(db: Database, user_id: UserId, host_cpid: str) -> list[Host]:
    """A user's records with one (hashed) host id, newest first."""
    rows = db.query(
        f"SELECT {_COLUMNS} FROM host WHERE user_id = ? AND host_cpid = ? AND merged_into IS NULL"
        " ORDER BY id DESC LIMIT 10",
        (user_id, host_cpid),
    )
    return [_host(row) for row in rows]


def hosts_by_name(db: Database, user_id: UserId, domain_name: str) -> list[Host]:
    """A user's computers of one network name, newest first."""
    if not domain_name:
        return []
    rows = db.query(
        f"SELECT {_COLUMNS} FROM host WHERE user_id = ? AND domain_name = ? AND merged_into IS NULL"
        " ORDER BY id DESC LIMIT 10",
        (user_id, domain_name),
    )
    return [_host(row) for row in rows]


def list_hosts(db: Database, *, after: int = 0, limit: int = 1000) -> list[Host]:
    """Hosts in the order of their ids."""
    rows = db.query(
        f"SELECT {_COLUMNS} FROM host WHERE id > ? AND merged_into IS NULL ORDER BY id LIMIT ?",
        (after, limit),
    )
    return [_host(row) for row in rows]


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
    host_cpid: str,
    external_ip_addr: str,
    now: float,
) -> None:
    """Store what a host said of itself in a scheduler request."""
    tx.execute(
        "UPDATE host SET description = ?, domain_name = ?, rpc_seqno = ?, host_cpid = ?, external_ip_addr = ?, rpc_time = ?"
        " WHERE id = ?",
        (
            _encode(description).decode(),
            description.domain_name,
            rpc_seqno,
            host_cpid,
            external_ip_addr,
            now,
            host_id,
        ),
    )


def set_blocked(tx: Transaction, host_id: HostId, reason: str) -> None:
    """Stop (or, with an empty reason, resume) giving work to a host."""
    tx.execute("UPDATE host SET blocked_reason = ? WHERE id = ?", (reason, host_id))


def _record(row: Row) -> HostAppVersion:
    return HostAppVersion(
        host_id=HostId(row[0]),
        app_version_id=AppVersionId(row[1]),
        max_jobs_per_day=row[2],
        n_jobs_today=row[3],
        quota_day=row[4],
        consecutive_valid=row[5],
        et_n=row[6],
        et_avg=row[7],
        turnaround_n=row[8],
        turnaround_avg=row[9],
    )


def records_of_host(db: Database, host_id: HostId) -> dict[AppVersionId, HostAppVersion]:
    """Quota and reliability of one host, by app version."""
    rows = db.query(f"SELECT {_RECORD_COLUMNS} FROM host_app_version WHERE host_id = ?", (host_id,))
    return {AppVersionId(row[1]): _record(row) for row in rows}


def records(
    db: Database, keys: Sequence[tuple[HostId, AppVersionId]]
) -> dict[tuple[HostId, AppVersionId], HostAppVersion]:
    """Records of several hosts; a missing one is a fresh one."""
    found = {key: HostAppVersion(host_id=key[0], app_version_id=key[1]) for key in keys}
    hosts = sorted({key[0] for key in found})
    for row in db.query_in(f"SELECT {_RECORD_COLUMNS} FROM host_app_version WHERE host_id IN (??)", hosts):
        key = (HostId(row[0]), AppVersionId(row[1]))
        if key in found:
            found[key] = _record(row)
    return found


def save_records(tx: Transaction, changed: Iterable[HostAppVersion]) -> None:
    """Store records."""
    tx.execute_many(
        f"INSERT INTO host_app_version ({_RECORD_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (host_id, app_version_id) DO UPDATE SET max_jobs_per_day = excluded.max_jobs_per_day,"
        " n_jobs_today = excluded.n_jobs_today, quota_day = excluded.quota_day,"
        " consecutive_valid = excluded.consecutive_valid, et_n = excluded.et_n, et_avg = excluded.et_avg,"
        " turnaround_n = excluded.turnaround_n, turnaround_avg = excluded.turnaround_avg",
        [
            (
                record.host_id,
                record.app_version_id,
                record.max_jobs_per_day,
                record.n_jobs_today,
                record.quota_day,
                record.consecutive_valid,
                record.et_n,
                record.et_avg,
                record.turnaround_n,
                record.turnaround_avg,
            )
            for record in changed
        ],
    )


def descriptions(db: Database, host_ids: Sequence[HostId]) -> dict[HostId, HostDescription]:
    """What several hosts said of themselves."""
    rows = db.query_in("SELECT id, description FROM host WHERE id IN (??)", host_ids)
    return {HostId(row[0]): _decode_description(row[1]) for row in rows}
