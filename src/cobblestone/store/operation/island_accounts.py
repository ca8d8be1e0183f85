"""Accounts and teams of a centre on its islands: each row as it is at the centre, but for what an island counts itself; and
what was chosen for computers.

Rows are compared page by page, again and again, instead of following what changed: nothing has to be noted where accounts
change, whatever an island missed or lost (a backup of last week) mends itself, and both databases can be of any kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cobblestone.domain.errors import StoreError
from cobblestone.policy.dispatch.islands import HOST_IDS, ROW_IDS
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Row

MIRRORED = ("team", "user_account", "host")
_CHOSEN = ("id", "venue", "blocked_reason")
"""Of a computer, which its island knows better, what its owner and operators choose at the centre."""
_COUNTED_THERE = frozenset({"total_credit", "expavg_credit", "expavg_time", "erased_time"})
"""Columns of an island's own: what was earned there, and when it erased what it knew of somebody."""
_UNIQUE: Mapping[str, Sequence[str]] = {
    "team": ("name_lc",),
    "user_account": ("email_addr", "authenticator", "weak_authenticator"),
}
_OWN_IDS = {
    "host": HOST_IDS,
    "workunit": ROW_IDS,
    "result": ROW_IDS,
    "batch": ROW_IDS,
    "credit_entry": ROW_IDS,
}
_IDENTITY = "island"


# -- what an island is ---------------------------------------------------------


class Identity(msgspec.Struct, frozen=True):
    """Whose island a database is."""

    number: int
    master_url: str


def found_island(tx: Transaction, identity: Identity) -> None:
    """Make an empty PostgreSQL database that of an island: what it creates gets ids of its range."""
    for table, ids in _OWN_IDS.items():
        sequence = f"pg_get_serial_sequence('{table}', 'id')"
        tx.execute(f"SELECT setval({sequence}, {identity.number * ids}, true)")
    text = msgspec.json.encode(identity).decode()
    tx.execute("INSERT INTO meta (key, value) VALUES (?, ?)", (_IDENTITY, text))


def check_island(db: Database, expected: Identity) -> None:
    """Refuse a database that is another project's, or another island's.

    Raises:
        StoreError: it is; the text says which.
    """
    text = db.value("SELECT value FROM meta WHERE key = ?", (_IDENTITY,))
    if text is None:
        raise StoreError(
            "The database is that of a project of its own, not of an island. Look at islands.toml."
        )
    found = msgspec.json.decode(str(text), type=Identity)
    if found != expected:
        raise StoreError(
            f"The database is that of island {found.number} of {found.master_url}, not of island {expected.number} of"
            f" {expected.master_url}. Look at islands.toml, and at [project] url on both sides."
        )


# -- rows ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table, by id."""

    columns: tuple[str, ...]  #: the first is the id
    rows: Mapping[int, Row]

    @property
    def last(self) -> int:
        """The greatest id."""
        return max(self.rows, default=0)


def read_rows(db: Database, table: str, *, number: int, after: int, limit: int) -> Rows:
    """Return the next rows of the centre's table for an island, by id; of computers those of its range."""
    columns, last = _CHOSEN, (number + 1) * HOST_IDS
    after = max(after, first_id(table, number))
    if table != "host":
        others = (name for name in db.columns(table) if name != "id" and name not in _COUNTED_THERE)
        columns, last = ("id", *others), ROW_IDS
    names = ", ".join(columns)
    sql = f"SELECT {names} FROM {table} WHERE id > ? AND id < ? ORDER BY id LIMIT ?"
    rows = db.query(sql, (after, last, limit))
    return Rows(columns, {row[0]: tuple(row) for row in rows})


def first_id(table: str, number: int) -> int:
    """Return the id behind which an island's rows of a table begin at the centre."""
    return number * HOST_IDS if table == "host" else 0


def last_id(db: Database, table: str) -> int:
    """Return the greatest id of a table; 0 if it is empty."""
    return int(db.value(f"SELECT COALESCE(MAX(id), 0) FROM {table}") or 0)


def changed_rows(db: Database, table: str, of_centre: Rows) -> Rows:
    """Return those rows that an island does not have, or has otherwise."""
    names = ", ".join(of_centre.columns)
    rows = db.query_in(f"SELECT {names} FROM {table} WHERE id IN (??)", list(of_centre.rows))
    own = {row[0]: tuple(row) for row in rows}
    changed = {id_: row for id_, row in of_centre.rows.items() if own.get(id_) != row}
    return Rows(of_centre.columns, changed)


def take_over(tx: Transaction, table: str, changed: Rows) -> None:
    """Let an island have rows as they are at the centre."""
    at = {name: place for place, name in enumerate(changed.columns)}
    rows = [changed.rows[id_] for id_ in sorted(changed.rows)]
    tx.lock(table, sorted(changed.rows))
    if table == "host":
        sql = "UPDATE host SET venue = ?, blocked_reason = ? WHERE id = ?"
        tx.execute_many(sql, [(*row[1:], row[0]) for row in rows])
        return
    for name in _UNIQUE[table]:  # an address may have gone from one account to another; that one's turn comes
        tx.execute_many(
            f"UPDATE {table} SET {name} = 'moved-' || id WHERE {name} = ? AND id <> ?",
            [(row[at[name]], row[0]) for row in rows],
        )
    sets = ", ".join(f"{name} = excluded.{name}" for name in changed.columns[1:])
    places = ", ".join("?" * (len(changed.columns) + 1))
    tx.execute_many(
        f"INSERT INTO {table} ({', '.join(changed.columns)}, expavg_time) VALUES ({places})"
        f" ON CONFLICT (id) DO UPDATE SET {sets}",
        [(*row, row[at["create_time"]]) for row in rows],
    )


# -- preferences, which clients bring to islands -------------------------------


@dataclass(frozen=True, slots=True)
class NewerPreferences:
    """Computing preferences that a client brought to an island."""

    user_id: int
    text: str
    time: float  #: when they were changed, Unix seconds


def newer_preferences(db: Database, of_centre: Rows) -> list[NewerPreferences]:
    """Return what an island has that is newer than the centre's."""
    place = of_centre.columns.index("global_prefs_time")
    rows = db.query_in(
        "SELECT id, global_prefs, global_prefs_time FROM user_account WHERE id IN (??)", list(of_centre.rows)
    )
    return [NewerPreferences(*row) for row in rows if row[2] > of_centre.rows[row[0]][place]]


def keep_newer_preferences(tx: Transaction, found: Sequence[NewerPreferences]) -> None:
    """Store at the centre what is newer there too; accounts that were erased have none."""
    tx.lock("user_account", [each.user_id for each in found])
    tx.execute_many(
        "UPDATE user_account SET global_prefs = ?, global_prefs_time = ?"
        " WHERE id = ? AND global_prefs_time < ? AND erased_time IS NULL",
        [(each.text, each.time, each.user_id, each.time) for each in found],
    )
