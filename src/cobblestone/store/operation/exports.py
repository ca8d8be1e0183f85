"""Reads the export for statistics sites, table by table, from one snapshot.

Rows come in pages, each found where the one before it ended, so that a million of them need no more memory than a page.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cobblestone.domain import exports as domain
from cobblestone.domain.errors import StoreError
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import HostId, TeamId, UserId
from cobblestone.policy.credit.history import Badge, BadgeKind, web_address
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.engine import DatabaseFault, Row
from cobblestone.store.engine.reading import engine_for
from cobblestone.store.people.consents import EXPORTED
from cobblestone.wire.project.account import external_cpid

PAGE = 2000
MOST_MEMBERS = 10_000
"""Of one team in one answer; the export has all."""

_USERS = f"user_account u WHERE u.total_credit > 0 AND {EXPORTED}"
# A cross join: SQLite keeps this order of the tables, and so needs no sorting.
_HOSTS = (
    "host h CROSS JOIN user_account u WHERE u.id = h.user_id AND h.total_credit > 0 AND h.merged_into IS NULL"
    f" AND h.removed_time IS NULL AND h.hidden = 0 AND u.show_hosts = 1 AND {EXPORTED}"
)
_HOLDERS: Mapping[domain.ExportedTable, tuple[str, str]] = {
    domain.ExportedTable.BADGE_USER: ("user", f"SELECT u.id FROM {_USERS}"),
    domain.ExportedTable.BADGE_TEAM: ("team", "SELECT t.id FROM team t WHERE t.total_credit > 0"),
    domain.ExportedTable.BADGE_HOST: ("host", f"SELECT h.id FROM {_HOSTS}"),
}
"""By table: who may have a badge there, and the query for those that are exported."""

_BEFORE_ALL: Mapping[domain.ExportOrder, tuple[object, ...]] = {
    domain.ExportOrder.ID: (0,),
    domain.ExportOrder.TOTAL: (1e300, 0),
    domain.ExportOrder.RECENT: (1e300, 0),
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


def _pages(db: Database, query: str, alias: str, order: domain.ExportOrder) -> Iterator[list[Row]]:
    """Yield pages of a query that ends with a condition; its first columns are id, total, average and time of it."""
    if order is domain.ExportOrder.ID:
        keys, after, direction = f"{alias}.id", "> (?)", "ASC"
    else:
        keys, after, direction = f"{alias}.{order}, {alias}.id", "< (?, ?)", "DESC"
    sorted_by = ", ".join(f"{key} {direction}" for key in keys.split(", "))
    text = f"{query} AND ({keys}) {after} ORDER BY {sorted_by} LIMIT {PAGE}"
    place = {domain.ExportOrder.TOTAL: 1, domain.ExportOrder.RECENT: 2}.get(order, 0)
    last = _BEFORE_ALL[order]
    while rows := db.query(text, last):
        yield rows
        row = rows[-1]
        last = (row[0],) if order is domain.ExportOrder.ID else (row[place], row[0])
        if len(rows) < PAGE:
            return


def _credit(row: Row) -> CreditStatement:
    return CreditStatement(row[1], RecentAverage(row[2], row[3]))


_USER_QUERY = (
    "SELECT u.id, u.total_credit, u.expavg_credit, u.expavg_time, u.name, u.create_time, u.country, u.url, u.team_id,"
    " u.cross_project_id, u.email_addr, EXISTS (SELECT 1 FROM profile p WHERE p.user_id = u.id)"
    f" FROM {_USERS}"
)


def users(db: Database, order: domain.ExportOrder) -> Iterator[domain.ExportedUser]:
    """Yield users with credit who agreed to the export."""
    for rows in _pages(db, _USER_QUERY, "u", order):
        yield from map(_user, rows)


def members(db: Database, team_id: TeamId) -> list[domain.ExportedUser]:
    """Return such users of one team, most credit first; at most `MOST_MEMBERS`."""
    query = f"{_USER_QUERY} AND u.team_id = ? ORDER BY u.total_credit DESC, u.id LIMIT {MOST_MEMBERS}"
    return [_user(row) for row in db.query(query, (team_id,))]


def _user(row: Row) -> domain.ExportedUser:
    return domain.ExportedUser(
        id=UserId(row[0]),
        credit=_credit(row),
        name=row[4],
        create_time=row[5],
        country=row[6],
        url=web_address(row[7]),
        team_id=row[8],
        cpid=external_cpid(row[9], row[10]),
        has_profile=bool(row[11]),
    )


_hardware = msgspec.json.Decoder(domain.ExportedHardware).decode


def hosts(db: Database, order: domain.ExportOrder) -> Iterator[domain.ExportedHost]:
    """Yield computers with credit shown by users who agreed, without merged or removed ones."""
    query = (
        "SELECT h.id, h.total_credit, h.expavg_credit, h.expavg_time, h.create_time, h.rpc_time, h.host_cpid, h.description,"
        " u.id "
        f"FROM {_HOSTS}"
    )
    for rows in _pages(db, query, "h", order):
        turnarounds = _turnarounds(db, [row[0] for row in rows])
        for row in rows:
            yield domain.ExportedHost(
                id=HostId(row[0]),
                user_id=row[8],
                credit=_credit(row),
                create_time=row[4],
                rpc_time=row[5],
                host_cpid=row[6],
                hardware=_hardware(row[7]),
                avg_turnaround=turnarounds.get(row[0], 0.0),
            )


def _turnarounds(db: Database, host_ids: list[int]) -> dict[int, float]:
    """Return the mean turnaround of several hosts over all their app versions, seconds."""
    rows = db.query_in(
        "SELECT host_id, SUM(turnaround_n * turnaround_avg) / SUM(turnaround_n) FROM host_app_version"
        " WHERE turnaround_n > 0 AND host_id IN (??) GROUP BY host_id",
        host_ids,
    )
    return {row[0]: row[1] for row in rows}


def teams(db: Database, order: domain.ExportOrder) -> Iterator[domain.ExportedTeam]:
    """Yield teams with credit; the founder appears only after agreeing."""
    query = (
        "SELECT t.id, t.total_credit, t.expavg_credit, t.expavg_time, t.name, t.create_time, t.description, t.url, t.country,"
        " t.type, t.name_html,"
        f" u.id, COALESCE(u.name, '') FROM team t LEFT JOIN user_account u ON u.id = t.founder_id AND {EXPORTED}"
        " WHERE t.total_credit > 0"
    )
    for rows in _pages(db, query, "t", order):
        for row in rows:
            yield domain.ExportedTeam(
                id=TeamId(row[0]),
                credit=_credit(row),
                name=row[4],
                create_time=row[5],
                description=row[6],
                url=web_address(row[7]),
                country=row[8],
                type=row[9],
                name_html=row[10],
                founder_id=row[11],
                founder_name=row[12],
            )


def applications(db: Database) -> tuple[str, ...]:
    """Return the names of the apps in use, for people."""
    rows = db.query("SELECT name, user_friendly_name FROM app WHERE deprecated = 0 ORDER BY id")
    return tuple(friendly or name for name, friendly in rows)


def badges(db: Database) -> list[tuple[int, Badge]]:
    """Return the badges that the project gives, with their numbers."""
    rows = db.query("SELECT id, kind, level FROM badge ORDER BY id")
    return [(row[0], Badge(BadgeKind(row[1]), row[2])) for row in rows]


def badge_holders(db: Database, table: domain.ExportedTable) -> Iterator[domain.BadgeHolder]:
    """Yield which exported users, hosts and teams have which badge, and since when."""
    owner, exported = _HOLDERS[table]
    query = (
        "SELECT o.owner_id, o.badge_id, o.create_time FROM badge_owner o"
        f" WHERE o.owner = '{owner}' AND (o.owner_id, o.badge_id) > (?, ?) AND o.owner_id IN ({exported} AND {{id}} = o.owner_id)"
        f" ORDER BY o.owner_id, o.badge_id LIMIT {PAGE}"
    ).format(id=f"{owner[0]}.id")
    last: tuple[object, ...] = (0, 0)
    while rows := db.query(query, last):
        yield from (domain.BadgeHolder(*row) for row in rows)
        last = rows[-1][:2]
