"""Accounts that a project merged: the history of the one that went goes on under the one that has its credit.

An account was merged when it is gone on a day on which another one with the same cross-project id took over its credit.  Its
history stays where it is; a note says under which account it counts, and until when.  The note is kept from export to export
as long as that account is known, and ends when the account that went is back.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from cobblestone.statistics.store.engine import parquet, write_parquet

LEAST_SHARE, MOST_SHARE = 0.999, 2.0
"""An account took over another one's credit if it grew by at least and at most so many times that much: who grows by more
grew by own work, and a small account that was erased that day is none that was merged."""
MOST_MERGED = 10_000
"""Of one project, the last ones."""
MOST_INTO_ONE = 20
"""Into one account, the last ones."""


def merged_file(rows: Path) -> Path:
    """Return where it stands which accounts were merged."""
    return rows / "merged.parquet"


def find_merged(db: duckdb.DuckDBPyConnection, rows: Path, previous: Path | None, day: float) -> None:
    """Make the table ``merged`` of accounts that are gone (id), with the one that each went on in (heir) and since when (day).

    ``known_merged`` holds those that the export before knew.
    """
    db.execute("CREATE TEMP TABLE known_merged (id BIGINT, heir BIGINT, day DOUBLE)")
    db.execute("CREATE TEMP TABLE merged (id BIGINT, heir BIGINT, day DOUBLE)")
    if previous is None:
        return
    if merged_file(previous).exists():  # a version before knew none
        db.execute(f"INSERT INTO known_merged FROM {parquet(merged_file(previous))}")
    new, old = parquet(rows / "user.parquet"), parquet(previous / "user.parquet")
    db.execute(f"""
        CREATE TEMP TABLE just_merged AS
        WITH lost AS (SELECT id, cpid, total FROM {old} ANTI JOIN {new} AS new USING (id) WHERE cpid <> '' AND total > 0),
        credit AS (SELECT cpid, sum(total) AS total FROM lost GROUP BY cpid),
        heir AS (
            SELECT cpid, min(new.id) AS id
            FROM credit JOIN {new} AS new USING (cpid) LEFT JOIN {old} AS former ON former.id = new.id
            WHERE new.total - coalesce(former.total, 0)
                BETWEEN {LEAST_SHARE} * credit.total AND {MOST_SHARE} * credit.total
            GROUP BY cpid)
        SELECT lost.id, heir.id AS heir, {day!r}::DOUBLE AS day FROM lost JOIN heir USING (cpid)""")
    db.execute(f"""
        INSERT INTO merged
        FROM (
            FROM just_merged
            UNION ALL
            SELECT known.id, coalesce(next.heir, known.heir), known.day
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
