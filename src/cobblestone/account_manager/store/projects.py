"""Projects and keywords."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cobblestone.account_manager.model import Keyword, ManagedProject
from cobblestone.domain.errors import Conflict
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

PROJECT = RowMapper(ManagedProject)
_NEW = PROJECT.writer(without=("id",))
_SHARED = ("done", "done_time", "expected", "dryness")
_PUT = PROJECT.writer(without=("id", *_SHARED))
_BALANCES = PROJECT.writer(only=_SHARED)
_KEYWORD = RowMapper(Keyword)


def add_project(tx: Transaction, new: ManagedProject) -> int:
    """Add a project; ``new.id`` is assigned here.

    Raises:
        Conflict: its address is known already.
    """
    if tx.one("SELECT 1 FROM project WHERE address_key = ?", (new.address_key,)):
        raise Conflict(f"{new.url} is already a project of this account manager.")
    id_ = tx.insert(_NEW.insert("project"), _NEW.values(new))
    tx.wake("projects", "project_list")
    return id_


def all_projects(db: Database) -> list[ManagedProject]:
    """Return all projects, in order of creation."""
    return db.load(PROJECT, "project ORDER BY id")


def locked_projects(tx: Transaction) -> list[ManagedProject]:
    """Return all projects, locked until this write ends."""
    tx.lock("project", [row[0] for row in tx.query("SELECT id FROM project")])
    return all_projects(tx)


def project_by_id(db: Database, project_id: int) -> ManagedProject:
    """Return a project.  Raises NotFound."""
    db.lock("project", [project_id])
    missing = f"There is no project {project_id} here."
    return db.needed(PROJECT, "project WHERE id = ?", (project_id,), missing)


def put_project(tx: Transaction, project: ManagedProject) -> None:
    """Store a project's new state, except its balance."""
    tx.execute(_PUT.update("project"), (*_PUT.values(project), project.id))
    tx.wake("projects", "project_list")


def put_balances(tx: Transaction, projects: Iterable[ManagedProject]) -> None:
    """Store the projects' balances, and their rates of requests without work."""
    tx.execute_many(_BALANCES.update("project"), [(*_BALANCES.values(each), each.id) for each in projects])


def expected_work(db: Database, *, since: float) -> dict[int, float]:
    """Return the credit booked for projects, by computers with a contact since then."""
    rows = db.query(
        "SELECT p.project_id, SUM(p.expected) FROM host_project p JOIN host h ON h.id = p.host_id"
        " WHERE h.contact_time >= ? GROUP BY p.project_id",
        (since,),
    )
    return {row[0]: float(row[1]) for row in rows}


def keywords(db: Database) -> list[Keyword]:
    """Return all keywords, by kind and name."""
    return db.load(_KEYWORD, "keyword ORDER BY kind DESC, name")


def put_keywords(tx: Transaction, named: Mapping[int, tuple[str, str]]) -> None:
    """Set the kind and name of keywords by number."""
    tx.execute_many(
        "INSERT INTO keyword (id, kind, name) VALUES (?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, name = excluded.name",
        [(id_, kind, name) for id_, (kind, name) in named.items()],
    )
