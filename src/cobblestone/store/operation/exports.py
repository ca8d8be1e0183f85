"""Reads the export for statistics sites, table by table, from one snapshot.

Rows come in pages, each found where the one before it ended, so that a million of them need no more memory than a page.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cobblestone.domain import exports as domain
from cobblestone.domain.errors import StoreError
from cobblestone.domain.values import TeamId
from cobblestone.policy.credit.history import web_address
from cobblestone.store.averages import CREDIT
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.engine import DatabaseFault
from cobblestone.store.engine.mapping import Column, RowMapper
from cobblestone.store.engine.reading import engine_for
from cobblestone.store.people.consents import EXPORTED
from cobblestone.wire.project.account import external_cpid

T = TypeVar("T")
#: Of one team in one answer; the export has all.
MOST_MEMBERS = 10_000

_USERS = f"user_account u WHERE u.total_credit > 0 AND {EXPORTED}"
# A cross join: SQLite keeps this order of the tables, and so needs no sorting.
_HOSTS = (
    "host h CROSS JOIN user_account u WHERE u.id = h.user_id AND h.total_credit > 0 AND h.merged_into IS NULL"
    f" AND h.removed_time IS NULL AND h.hidden = 0 AND u.show_hosts = 1 AND {EXPORTED}"
)
#: By table: who may have a badge there, and the query for those that are exported.
_HOLDERS: Mapping[domain.ExportedTable, tuple[str, str]] = {
    domain.ExportedTable.BADGE_USER: ("user", f"SELECT u.id FROM {_USERS}"),
    domain.ExportedTable.BADGE_TEAM: ("team", "SELECT t.id FROM team t WHERE t.total_credit > 0"),
    domain.ExportedTable.BADGE_HOST: ("host", f"SELECT h.id FROM {_HOSTS}"),
}


@contextmanager
def snapshot(location: Path | str) -> Generator[Database]:
    """Open a snapshot of a database beside its users.

    Raises:
        StoreError: it cannot be reached, or not be read any more.
    """
    engine = engine_for(location)
    connection = engine.connect(read_only=True)
    try:
        connection.begin()
        yield Database(connection)
    except Exception as error:
        if engine.fault(error) is DatabaseFault.JOB:  # not the database's
            raise
        raise StoreError(f"The database cannot be read: {error}. Try again.") from error
    finally:
        connection.rollback()
        connection.close()


def _pages(
    db: Database, mapper: RowMapper[T], source: str, alias: str, order: domain.ExportOrder
) -> Iterator[T]:
    """Return the values of a source that ends with a condition, read page by page."""
    last: tuple[object, ...]
    if order is domain.ExportOrder.ID:
        keys, after, direction, last = f"{alias}.id", "> (?)", "ASC", (0,)
    else:
        keys, after, direction, last = f"{alias}.{order}, {alias}.id", "< (?, ?)", "DESC", (1e300, 0)
    sorted_by = ", ".join(f"{key} {direction}" for key in keys.split(", "))
    text = f"SELECT {mapper.columns}, {keys} FROM {source} AND ({keys}) {after} ORDER BY {sorted_by}"
    return map(mapper.load, db.stream(text, after=last))


def _of(alias: str, *names: str) -> dict[str, str | Column | RowMapper[Any]]:
    """Return where these fields and the credit of a kind of records are read."""
    return {"credit": CREDIT.embedded(alias), **{name: f"{alias}.{name}" for name in names}}


_EXPORTED_USERS = RowMapper(
    domain.ExportedUser,
    {
        **_of("u", "id", "name", "create_time", "country", "team_id"),
        # The hash is of both together, so they may come as one.
        "cpid": Column(
            sql="u.cross_project_id || u.email_addr", decode=partial(external_cpid, email_addr="")
        ),
        "url": Column(sql="u.url", decode=web_address),
        "has_profile": "EXISTS (SELECT 1 FROM profile p WHERE p.user_id = u.id)",
    },
)
_EXPORTED_HOSTS = RowMapper(
    domain.ExportedHost,
    {
        **_of("h", "id", "user_id", "create_time", "rpc_time", "host_cpid"),
        "hardware": "h.description",
        "avg_turnaround": "COALESCE((SELECT SUM(v.turnaround_n * v.turnaround_avg) / SUM(v.turnaround_n)"
        " FROM host_app_version v WHERE v.turnaround_n > 0 AND v.host_id = h.id), 0.0)",
    },
)
_EXPORTED_TEAMS = RowMapper(
    domain.ExportedTeam,
    {
        **_of("t", "id", "name", "create_time", "type", "name_html", "description", "country"),
        "founder_id": "u.id",
        "founder_name": "COALESCE(u.name, '')",
        "url": Column(sql="t.url", decode=web_address),
    },
)
_TEAMS = f"team t LEFT JOIN user_account u ON u.id = t.founder_id AND {EXPORTED} WHERE t.total_credit > 0"


def users(db: Database, order: domain.ExportOrder) -> Iterator[domain.ExportedUser]:
    """Yield users with credit who agreed to the export."""
    return _pages(db, _EXPORTED_USERS, _USERS, "u", order)


def members(db: Database, team_id: TeamId) -> list[domain.ExportedUser]:
    """Return such users of one team, most credit first; at most `MOST_MEMBERS`."""
    of_team = f"{_USERS} AND u.team_id = ? ORDER BY u.total_credit DESC, u.id LIMIT {MOST_MEMBERS}"
    return db.load(_EXPORTED_USERS, of_team, (team_id,))


def hosts(db: Database, order: domain.ExportOrder) -> Iterator[domain.ExportedHost]:
    """Yield computers with credit shown by users who agreed, without merged or removed ones."""
    return _pages(db, _EXPORTED_HOSTS, _HOSTS, "h", order)


def teams(db: Database, order: domain.ExportOrder) -> Iterator[domain.ExportedTeam]:
    """Yield teams with credit; the founder appears only after agreeing."""
    return _pages(db, _EXPORTED_TEAMS, _TEAMS, "t", order)


def applications(db: Database) -> tuple[str, ...]:
    """Return the names of the apps in use, for people."""
    rows = db.query("SELECT name, user_friendly_name FROM app WHERE deprecated = 0 ORDER BY id")
    return tuple(friendly or name for name, friendly in rows)


def badge_holders(db: Database, table: domain.ExportedTable) -> Iterator[domain.BadgeHolder]:
    """Return which exported users, hosts and teams have which badge, and since when."""
    owner, exported = _HOLDERS[table]
    query = (
        "SELECT o.create_time, o.owner_id, o.badge_id FROM badge_owner o"
        f" WHERE o.owner = '{owner}' AND (o.owner_id, o.badge_id) > (?, ?) AND o.owner_id IN ({exported} AND {{id}} = o.owner_id)"
        " ORDER BY o.owner_id, o.badge_id"
    ).format(id=f"{owner[0]}.id")
    return (domain.BadgeHolder(row[1], row[2], row[0]) for row in db.stream(query, after=(0, 0)))
