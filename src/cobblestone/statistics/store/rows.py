"""The rows of one project's export: each number once; changes become history; merged accounts are joined.

Accounts that a project merged: the history of the one that went goes on under the one that has its credit.

An account was merged when it is gone on a day on which another one with the same cross-project id took over its credit.  Its
history stays where it is; a note says under which account it counts, and until when.  The note is kept from export to export
as long as that account is known, and ends when the account that went is back.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb

from cobblestone.domain.exports import ExportedBadge
from cobblestone.statistics.folder import ExportFolder, RowCounts
from cobblestone.statistics.store import history
from cobblestone.statistics.store.engine import (
    WHOLE,
    count,
    decayed,
    known,
    parquet,
    workbench,
    write_parquet,
)

#: An account took over another one's credit if it grew by at least and at most so many times that much: who grows by more
#: grew by own work, and a small account that was erased that day is none that was merged.
LEAST_SHARE, MOST_SHARE = 0.999, 2.0
#: Of one project, the last ones.
MOST_MERGED = 10_000
#: Into one account, the last ones.
MOST_INTO_ONE = 20


def merged_file(rows: Path) -> Path:
    """Return the path of the list of merged accounts."""
    return rows / "merged.parquet"


def find_merged(db: duckdb.DuckDBPyConnection, rows: Path, previous: Path | None, day: float) -> None:
    """Make the table ``merged`` of accounts that are gone (id), with the one they were merged into (heir), since when (day), and
    since when they had claimed to be who they were (claimed).

    ``known_merged`` holds those that the export before knew.
    """
    columns = "(id BIGINT, heir BIGINT, day DOUBLE, claimed DOUBLE DEFAULT 0)"
    db.execute(f"CREATE TEMP TABLE known_merged {columns}")
    db.execute(f"CREATE TEMP TABLE merged {columns}")
    if previous is None:
        return
    if merged_file(previous).exists():  # a version before knew none
        db.execute(f"INSERT INTO known_merged BY NAME FROM {parquet(merged_file(previous))}")
    new, old = parquet(rows / "user.parquet"), known(previous / "user.parquet", "id, cpid, total, claimed")
    db.execute(f"""
        CREATE TEMP TABLE just_merged AS
        WITH lost AS (
            SELECT id, cpid, total, coalesce(claimed, {day!r}) AS claimed
            FROM ({old}) AS old ANTI JOIN {new} AS new USING (id) WHERE cpid <> '' AND total > 0),
        credit AS (SELECT cpid, sum(total) AS total FROM lost GROUP BY cpid),
        heir AS (
            SELECT cpid, min(new.id) AS id
            FROM credit JOIN {new} AS new USING (cpid) LEFT JOIN ({old}) AS former ON former.id = new.id
            WHERE new.total - coalesce(former.total, 0)
                BETWEEN {LEAST_SHARE} * credit.total AND {MOST_SHARE} * credit.total
            GROUP BY cpid)
        SELECT lost.id, heir.id AS heir, {day!r}::DOUBLE AS day, claimed FROM lost JOIN heir USING (cpid)""")
    db.execute(f"""
        INSERT INTO merged
        FROM (
            FROM just_merged
            UNION ALL
            SELECT known.id, coalesce(next.heir, known.heir), known.day, known.claimed
            FROM known_merged AS known LEFT JOIN just_merged AS next ON next.id = known.heir
            WHERE known.id NOT IN (SELECT id FROM {new}))
        QUALIFY row_number() OVER (PARTITION BY heir ORDER BY day DESC, id) <= {MOST_INTO_ONE}
        ORDER BY day DESC, id LIMIT {MOST_MERGED}""")


def keep_merged(db: duckdb.DuckDBPyConnection, rows: Path) -> None:
    """Write the table ``merged`` without those whose heirs are forgotten.  In the table ``forgotten`` are then also those
    that count under no account any more, and none that does."""
    accounts = "SELECT id FROM forgotten WHERE kind = 'user'"
    db.execute(f"DELETE FROM merged WHERE heir IN ({accounts})")
    db.execute("DELETE FROM forgotten WHERE kind = 'user' AND id IN (SELECT id FROM merged)")
    db.execute(f"""
        INSERT INTO forgotten
        SELECT 'user', id FROM known_merged
        WHERE id NOT IN (SELECT id FROM merged) AND id NOT IN (SELECT id FROM {parquet(rows / "user.parquet")})""")
    write_parquet(db, "FROM merged ORDER BY heir, id", merged_file(rows))


pa: Any = import_module("pyarrow")  # Any: PyArrow has no types

KINDS = ("user", "host", "team")
WITH_BADGES = ("user", "team")
#: Of a user or team at one project, the newest.
MOST_BADGES_OF_ONE = 50
#: Of one account; more is a mistake or a lie (the largest projects grant some 1e14 in all).
MOST_CREDIT = 1e16
#: Who is missing in the exports for so long without being announced as deleted is forgotten.
PATIENCE_DAYS = 30
#: A computer that grew by this part of another one's credit, on the day when that went, was merged with it.
SAME_CREDIT = 0.999


def raw_file(rows: Path, table: str) -> Path:
    """Return the path of a table's columns as they were read, before cleaning: an Arrow file."""
    return rows / f"{table}.arrow"


def take_rows(
    folder: ExportFolder,
    rows: Path,
    previous: Path | None,
    *,
    in_order: Container[str],
    badges: Sequence[ExportedBadge],
    now: float,
    exported: float,
    step: float,
) -> RowCounts:
    """Clean the raw columns in ``rows``, and record what changed since ``previous``.

    ``in_order``: kinds whose rows are sorted by number, each of which is there once; ``badges``: those that there are;
    ``exported``: when the project made the export, by its own clock.
    """
    db = workbench(rows)
    for raw in rows.glob("*.arrow"):
        db.register(f"raw_{raw.stem}", pa.ipc.open_file(pa.memory_map(str(raw))).read_all())
    day, n_doubled = history.day_of(now, step), 0
    for kind in KINDS:
        recent_time = _by_our_clock(now, exported)
        n_doubled += _clean(db, rows, previous, kind, recent_time, day=day, in_order=kind in in_order)
    _badges(db, rows, badges)
    find_merged(db, rows, previous, day)
    _gone(db, rows, previous, int(day))
    keep_merged(db, rows)
    for kind in KINDS:
        new, target = rows / f"{kind}.parquet", folder.history(kind)
        recent = decayed("recent", "recent_time", now)
        changed = f"SELECT {day!r}::DOUBLE AS day, id, total, {recent} AS recent FROM {parquet(new)} AS new"
        if previous is not None:
            changed += (
                f" WHERE NOT EXISTS (FROM {parquet(previous / new.name)} AS old"
                " WHERE old.id = new.id AND old.total = new.total)"
            )
        history.add_day(db, target, day, changed)
        history.forget(db, target, f"SELECT id FROM forgotten WHERE kind = '{kind}'")
    users, hosts, teams = (
        count(db, f"SELECT count(*) FROM {parquet(rows / f'{kind}.parquet')}") for kind in KINDS
    )
    db.close()
    for raw in rows.glob("*.arrow"):
        raw.unlink()
    return RowCounts(users=users, hosts=hosts, teams=teams, doubled=n_doubled)


def _by_our_clock(now: float, exported: float) -> str:
    """Return the SQL for the time of an average by our clock: none lies ahead of now, where nothing decays.

    A project whose clock is ahead dated its export ahead, too.  An average without a time is one of the export.
    """
    ahead = max(0.0, exported - now)
    return f"CASE WHEN recent_time > 0 THEN least(recent_time - {ahead!r}, {now!r}) ELSE {exported - ahead!r} END"


#: What a row says about who it is over all projects.
_CLAIMS = {"user": "cpid, name", "host": "cpid, user_id", "team": "name"}
#: What at most one row of a project can claim.
_ONE_EACH = {"user": "cpid", "host": "cpid, user_id"}


def _clean(
    db: duckdb.DuckDBPyConnection,
    rows: Path,
    previous: Path | None,
    kind: str,
    recent_time: str,
    *,
    day: float,
    in_order: bool,
) -> int:
    """Write the valid rows of a table; return how many had the number of another one."""
    raw = f"raw_{kind}"
    condition = f"total <= {MOST_CREDIT} AND recent <= {MOST_CREDIT}"
    if kind != "team":
        condition += f" AND id NOT IN (SELECT id FROM {raw}_deleted)"
    replaced = f"{recent_time} AS recent_time"
    if kind == "host":  # its owner is hidden: nothing is known but the computer
        users = f"SELECT id FROM {parquet(rows / 'user.parquet')}"
        replaced += f", CASE WHEN user_id IN ({users}) THEN user_id ELSE 0 END AS user_id"
    n_doubled = 0 if in_order else count(db, f"SELECT count(*) - count(DISTINCT id) FROM {raw}")
    source = raw
    if n_doubled:
        source = f"""(SELECT * EXCLUDE (place) FROM (SELECT *, row_number() OVER () AS place FROM {raw})
            QUALIFY row_number() OVER (PARTITION BY id ORDER BY place) = 1)"""
    valid = f"(SELECT * REPLACE ({replaced}) FROM {source} WHERE {condition})"
    # What the first export of a project brings has claimed it always, as far as the site knows.
    claims, claimed, before = _CLAIMS[kind], "0.0::DOUBLE", ""
    if previous is not None:
        claimed = f"coalesce(former.claimed, {day!r})"
        same = known(previous / f"{kind}.parquet", f"id, {claims}, claimed")
        before = f"LEFT JOIN ({same}) AS former USING (id, {claims})"
    if kind in _ONE_EACH:  # who is not the only one that claims an id does not claim it yet
        claimed = (
            f"CASE WHEN cpid = '' OR count(*) OVER (PARTITION BY {_ONE_EACH[kind]}) = 1 THEN {claimed} END"
        )
    query = f"SELECT valid.*, {claimed} AS claimed FROM {valid} AS valid {before} ORDER BY id"
    write_parquet(db, query, rows / f"{kind}.parquet", group=WHOLE)
    return n_doubled


def badge_file(rows: Path, kind: str) -> Path:
    """Return the path of the badges of users or teams."""
    return rows / f"badge_{kind}.parquet"


def _badges(db: duckdb.DuckDBPyConnection, rows: Path, badges: Sequence[ExportedBadge]) -> None:
    """Write which badges the displayed users and teams have."""
    columns = {
        "badge_id": pa.array([each.id for each in badges], pa.int64()),
        "title": pa.array([each.title for each in badges], pa.string()),
        "image": pa.array([each.image_url for each in badges], pa.string()),
    }
    db.register("badge", pa.table(columns))
    for kind in WITH_BADGES:
        query = f"""
            SELECT id, badge_id, any_value(title) AS title, any_value(image) AS image, min(since) AS since
            FROM raw_badge_{kind} JOIN badge USING (badge_id) SEMI JOIN {parquet(rows / f"{kind}.parquet")} USING (id)
            GROUP BY id, badge_id"""
        newest = f"row_number() OVER (PARTITION BY id ORDER BY since DESC, badge_id) <= {MOST_BADGES_OF_ONE}"
        write_parquet(db, f"FROM ({query}) QUALIFY {newest} ORDER BY id", badge_file(rows, kind))


def _gone(db: duckdb.DuckDBPyConnection, rows: Path, previous: Path | None, day: int) -> None:
    """Write who is no longer exported and since when; the table ``forgotten`` has those whose history is deleted, too."""
    db.execute(
        "CREATE TEMP TABLE gone (kind VARCHAR, id BIGINT, since INTEGER, why VARCHAR, merged_into BIGINT)"
    )
    db.execute("CREATE TEMP TABLE forgotten (kind VARCHAR, id BIGINT)")
    for kind in KINDS:
        new = parquet(rows / f"{kind}.parquet")
        announced = "SELECT NULL::BIGINT AS id WHERE false"
        if kind != "team":
            announced = f"SELECT id FROM raw_{kind}_deleted"
            db.execute(f"INSERT INTO forgotten SELECT DISTINCT '{kind}', id FROM ({announced})")
        if previous is None:
            continue
        old = parquet(previous / f"{kind}.parquet")
        merged = _HEIR_OF_ACCOUNT if kind == "user" else _heir(new, old) if kind == "host" else "NULL"
        db.execute(f"""
            INSERT INTO gone
            SELECT '{kind}', lost.id, {day},
                CASE WHEN lost.id IN ({announced}) THEN 'deleted' ELSE 'missing' END, {merged}
            FROM {old} AS lost ANTI JOIN {new} AS new ON new.id = lost.id""")
        db.execute(f"""
            INSERT INTO gone
            FROM {parquet(previous / "gone.parquet")} AS before
            WHERE kind = '{kind}' AND since >= {day} - 2 * {PATIENCE_DAYS}
                AND id NOT IN (SELECT id FROM {new}) AND id NOT IN (SELECT id FROM gone WHERE kind = '{kind}')""")
    db.execute(f"INSERT INTO forgotten SELECT kind, id FROM gone WHERE since <= {day} - {PATIENCE_DAYS}")
    write_parquet(db, "FROM gone ORDER BY kind, id", rows / "gone.parquet")


_HEIR_OF_ACCOUNT = "(SELECT heir FROM merged WHERE merged.id = lost.id)"


def _heir(new: str, old: str) -> str:
    """Return the SQL for the computer of the same user that took over the credit of ``lost``; NULL if there is none."""
    return f"""(SELECT min(heir.id) FROM {new} AS heir JOIN {old} AS former ON former.id = heir.id
        WHERE lost.user_id > 0 AND heir.user_id = lost.user_id AND lost.total > 0
            AND heir.total - former.total >= {SAME_CREDIT} * lost.total)"""
