"""Computers, and their reports about projects."""

from __future__ import annotations

from collections.abc import Iterable

from cobblestone.account_manager.model import ComputerFacts, HostProject, ManagedHost
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

FACTS = RowMapper(ComputerFacts)
HOST = RowMapper(ManagedHost, {"facts": FACTS})
_CALLING = RowMapper(ManagedHost, {"facts": FACTS, "why": "'[]' AS why"})
HOST_PROJECT = RowMapper(HostProject)
_NEW = HOST.writer(without=("id",))
_CONTACT = HOST.writer(without=("id", "account_id", "host_key", "venue", "hidden", "create_time"))
_PUT_CONTACT = _CONTACT.update("host")
_REPORT = HOST_PROJECT.writer()
_PUT_REPORT = (
    f"{_REPORT.insert('host_project', 'host_id', 'kept_back')} ON CONFLICT (host_id, project_id) DO UPDATE SET"
    " project_host_id = excluded.project_host_id, record = excluded.record, expected = excluded.expected,"
    " kept_back = excluded.kept_back"
)


def add_host(tx: Transaction, new: ManagedHost) -> int:
    """Add a computer; ``new.id`` is assigned here."""
    return tx.insert(_NEW.insert("host"), _NEW.values(new))


def calling_host(db: Database, host_id: int) -> ManagedHost | None:
    """Return a computer for a contact, without the reasons of its last one; or None."""
    return db.first(_CALLING, "host WHERE id = ?", (host_id,))


def host_by_id(db: Database, host_id: int) -> ManagedHost | None:
    """Return a computer, or None."""
    return db.first(HOST, "host WHERE id = ?", (host_id,))


def host_like(db: Database, account_id: int, facts: ComputerFacts) -> ManagedHost | None:
    """Return the computer of an account with this client's id and name and the latest contact; as `calling_host`."""
    return db.first(
        _CALLING,
        "host WHERE account_id = ? AND host_cpid = ? AND domain_name = ? AND host_cpid <> ''"
        " ORDER BY contact_time DESC, id DESC LIMIT 1",
        (account_id, facts.host_cpid, facts.domain_name),
    )


def count_hosts(db: Database, account_id: int, *, since: float = 0.0) -> int:
    """Return how many computers of an account were added since then."""
    sql = "SELECT COUNT(*) FROM host WHERE account_id = ? AND create_time >= ?"
    return int(db.value(sql, (account_id, since)))


def hosts_of(db: Database, account_id: int, *, limit: int, offset: int = 0) -> list[ManagedHost]:
    """Return an account's computers, latest contact first."""
    order = "ORDER BY contact_time DESC, id"
    of_account = f"SELECT id FROM host WHERE account_id = ? AND hidden = 0 {order} LIMIT ? OFFSET ?"
    return db.load(HOST, f"host WHERE id IN ({of_account}) {order}", (account_id, limit, offset))


def put_contact(tx: Transaction, host: ManagedHost) -> None:
    """Store the changes of a computer by a contact."""
    tx.execute(_PUT_CONTACT, (*_CONTACT.values(host), host.id))


def set_venue(tx: Transaction, host_id: int, account_id: int, venue: str) -> None:
    """Set the venue of a computer."""
    tx.execute("UPDATE host SET venue = ? WHERE id = ? AND account_id = ?", (venue, host_id, account_id))


def set_hidden(tx: Transaction, host_id: int, account_id: int) -> None:
    """Hide a computer from lists until its next contact."""
    tx.execute("UPDATE host SET hidden = 1 WHERE id = ? AND account_id = ?", (host_id, account_id))


def n_young(db: Database, address_block: str, p_model: str, *, since: float) -> int:
    """Return how many computers of this model came from this address block since then."""
    return int(
        db.value(
            "SELECT COUNT(*) FROM host WHERE address_block = ? AND p_model = ? AND create_time > ?",
            (address_block, p_model, since),
        )
    )


def model_speeds(db: Database, model: str, *, gpu: bool, limit: int = 51) -> dict[int, float]:
    """Return the speeds that people's computers report for a model of processor or GPU: the lowest of each account."""
    column, speed = ("gpu_model", "gpu_flops") if gpu else ("p_model", "p_fpops")
    rows = db.query(
        f"SELECT account_id, MIN({speed}) FROM host WHERE {column} = ? GROUP BY account_id ORDER BY account_id LIMIT ?",
        (model, limit),
    )
    return {row[0]: float(row[1]) for row in rows if row[1] > 0}


def host_projects(db: Database, host_id: int) -> dict[int, HostProject]:
    """Return a computer's reports about projects."""
    found = db.load(HOST_PROJECT, "host_project WHERE host_id = ?", (host_id,))
    return {each.project_id: each for each in found}


def put_host_projects(tx: Transaction, host_id: int, reports: Iterable[HostProject]) -> None:
    """Store a computer's reports about projects."""
    tx.execute_many(
        _PUT_REPORT,
        [
            (*_REPORT.values(each), host_id, (each.record.held + each.record.disputed).credit)
            for each in reports
        ],
    )
