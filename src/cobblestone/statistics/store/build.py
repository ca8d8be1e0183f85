"""One DuckDB file of all projects for the pages: accounts joined to persons, ranked, and sorted for the pages' queries.

Everything with credit is an *entity* of a kind (user, host, team, country, system, processor, project).  An entity belongs to a
project, or to none (``project = 0``): then it stands for all its members at projects, a person for accounts, for instance.

When an account belongs to a person.  A cross-project id is a claim that any project can copy from another one's export.  So:

1. a project in whose export several accounts have the id joins none of them;
2. the first project on the operator's list that has the id (and may join accounts) says who the person is;
3. an account elsewhere belongs to the same person if the operator vouches for its project (``join = "cpid"``), or if it has
   the person's name too, but for case and spaces.

An account that is not joined is a person of its own.  The order of the list alone decides, so no project can take an id
away from one above it, rename a person, or hide what others say; at worst it adds an account of its own to a page.
Computers are joined by their ids within one person only, teams by their names.  The table ``member`` holds the
persons of such a team, with what they did at all projects where they are in it.

From when an account counts to a person.  What a project says of the past of an account is its own affair, until the account says
that it is somebody's.  So each account notes since when it has had its id and name (``claimed``), and counts from then on:

4. the account that has claimed them longest has its whole past; the holder of the id has it too, if it claimed them not more than
   `GRACE_DAYS` later than the first: people who change their address do so at one project after the other;
5. who was with the same holder before, under another id or name, counts since then (``joined.parquet`` remembers it), and so
   does the holder.

The same holds for computers (their id and owner) and teams (their name).
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from cobblestone.ops.files import sync_file, sync_folder
from cobblestone.statistics.folder import CollectedSource, Join, SiteFolder
from cobblestone.statistics.store import history
from cobblestone.statistics.store.engine import decayed, known, parquet, text, write_parquet
from cobblestone.statistics.store.rows import PATIENCE_DAYS, badge_file, merged_file

FORMAT = 5
GRACE_DAYS = PATIENCE_DAYS
JOINED = ("user", "host", "team")
AGGREGATED = ("country", "system", "processor", "gpu", "project")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedProject:
    """A project whose rows are published."""

    number: int  #: its place on the list, from 1
    source: CollectedSource
    rows: Path
    exported: float


def published(folder: SiteFolder) -> Path | None:
    """Return the newest file for pages; None if there is none yet."""
    return max(folder.published.glob("[0-9]*.duckdb"), default=None)


def build(
    folder: SiteFolder, members: Sequence[PublishedProject], *, now: float, step: float = history.DAY_SECONDS
) -> Path:
    """Make the file for pages from the latest data of all projects, and record the day's figures; return it.  Raises OSError."""
    folder.published.mkdir(parents=True, exist_ok=True)
    for left in folder.published.glob(".*"):  # by one that was killed
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    before = published(folder)  # its name may be of the future, if the clock was wrong then
    name = f"{max(int(now * 1000), int(before.stem) + 1 if before else 0):015d}.duckdb"
    temporary = folder.published / f".{name}.{secrets.token_hex(4)}"
    with duckdb.connect(temporary, config={"temp_directory": str(folder.published / ".scratch")}) as db:
        # What does not fit goes to disk.  Without a limit two million accounts took 8 GB, and no less time.
        db.execute("SET memory_limit = '1GB'")
        db.execute("CREATE MACRO fold(name) AS lower(trim(regexp_replace(name, '\\s+', ' ', 'g')))")
        _projects(db, members, now)
        _accounts(db, members, now)
        _persons(db)
        _hosts(db, members, now)
        _teams(db, members, now)
        _badges(db, members)
        _merged(db, members)
        _since(db, folder, history.day_of(now, step))
        _aggregates(db)
        _ranked(db)
        _note_day(db, folder, history.day_of(now, step))
        db.execute("CHECKPOINT")
    sync_file(temporary)
    target = folder.published / name
    temporary.replace(target)
    sync_folder(folder.published)
    for old in sorted(folder.published.glob("[0-9]*.duckdb"))[:-1]:
        os.unlink(old)  # noqa: PTH108  # a process that has it open reads on
    return target


def _union(members: Iterable[PublishedProject], file: str, columns: str, now: float) -> str:
    return " UNION ALL BY NAME ".join(
        f"SELECT {member.number}::INTEGER AS project, * EXCLUDE (recent_time)"
        f" REPLACE ({decayed('recent', 'recent_time', now)} AS recent)"
        f" FROM ({known(member.rows / file, f'{columns}, total, recent, recent_time')})"
        for member in members
    )


def _projects(db: duckdb.DuckDBPyConnection, members: Sequence[PublishedProject], now: float) -> None:
    db.execute(
        "CREATE TABLE project (project INTEGER, name VARCHAR, title VARCHAR, url VARCHAR, joins VARCHAR,"
        " credit_per_gflops_day DOUBLE, exported DOUBLE)"
    )
    db.executemany(
        "INSERT INTO project VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (n, of.name, of.title, of.url, of.join.value, of.credit_per_gflops_day, member.exported)
            for member in members
            for n, of in [(member.number, member.source)]
        ],
    )
    db.execute(f"CREATE TABLE site AS SELECT {FORMAT} AS format, {now!r}::DOUBLE AS time")
    db.execute(
        "CREATE TABLE entity_raw (kind VARCHAR, project INTEGER, key VARCHAR, name VARCHAR, country VARCHAR, total DOUBLE,"
        " recent DOUBLE, n INTEGER, parent VARCHAR, detail VARCHAR, created DOUBLE, whole VARCHAR, since DOUBLE)"
    )


def _accounts(db: duckdb.DuckDBPyConnection, members: Sequence[PublishedProject], now: float) -> None:
    """Make the table of accounts with the person that each belongs to."""
    rows = _union(members, "user.parquet", "id, name, cpid, country, team_id, create_time, claimed", now)
    db.execute(f"""
        CREATE TEMP TABLE claim AS
        SELECT rows.*, project.name AS project_name, project.joins, cpid <> '' AND joins <> '{Join.NO}'
            AND count(*) OVER (PARTITION BY rows.project, cpid) = 1 AS sound
        FROM ({rows}) AS rows JOIN project USING (project)""")
    db.execute("""
        CREATE TEMP TABLE holder AS
        SELECT cpid, arg_min(name, project) AS name, min(project) AS project FROM claim WHERE sound GROUP BY cpid""")
    db.execute(f"""
        CREATE TEMP TABLE account AS
        SELECT claim.*, CASE WHEN sound AND (claim.joins = '{Join.CPID}' OR claim.project = holder.project
                OR (claim.name <> '' AND fold(claim.name) = fold(holder.name)))
            THEN claim.cpid ELSE claim.project_name || '-' || id END AS person
        FROM claim LEFT JOIN holder USING (cpid)""")
    db.execute("""
        CREATE TABLE joining AS
        SELECT project, count(*) FILTER (person = cpid) AS joined, count(*) FILTER (cpid <> '' AND person <> cpid) AS not_joined
        FROM account GROUP BY project""")


def _persons(db: duckdb.DuckDBPyConnection) -> None:
    db.execute("""
        INSERT INTO entity_raw
        SELECT 'user', project, id::VARCHAR, name, country, total, recent, 1,
            CASE WHEN team_id > 0 THEN team_id::VARCHAR END, '', create_time, person, claimed FROM account
        UNION ALL
        SELECT 'user', 0, person, arg_min(name, project), arg_min(country, project), sum(total), sum(recent), count(*), NULL, '',
            min(create_time), NULL, 0 FROM account GROUP BY person""")


def _hosts(db: duckdb.DuckDBPyConnection, members: Sequence[PublishedProject], now: float) -> None:
    rows = _union(
        members, "host.parquet", "id, name, cpid, system, user_id, n_cpus, create_time, gpus, claimed", now
    )
    db.execute(f"""
        CREATE TEMP TABLE computer AS
        SELECT rows.* REPLACE (trim(regexp_replace(rows.name, '\\s*\\[.*\\]$', '')) AS name), project.name AS project_name,
            account.person, CASE WHEN rows.cpid <> '' AND account.person IS NOT NULL
                AND count(*) OVER (PARTITION BY rows.project, account.person, rows.cpid) = 1
            THEN md5(account.person || rows.cpid) ELSE project.name || '-' || rows.id END AS whole,
            CASE WHEN system ILIKE '%windows%' THEN 'Windows' WHEN system ILIKE '%android%' THEN 'Android'
                WHEN system ILIKE '%linux%' THEN 'Linux' WHEN system ILIKE '%darwin%' OR system ILIKE '%mac%' THEN 'macOS'
                WHEN system ILIKE '%bsd%' THEN 'BSD' ELSE 'other' END AS platform,
            CASE WHEN gpus = '' THEN '' ELSE ' · ' || replace(gpus, chr(10), ', ') END AS gpu_text
        FROM ({rows}) AS rows JOIN project USING (project)
        LEFT JOIN account ON account.project = rows.project AND account.id = rows.user_id AND rows.user_id > 0""")
    db.execute("""
        INSERT INTO entity_raw
        SELECT 'host', project, id::VARCHAR, name, '', total, recent, n_cpus,
            CASE WHEN user_id > 0 THEN user_id::VARCHAR END, system || gpu_text, create_time, whole, claimed FROM computer
        UNION ALL
        SELECT 'host', 0, whole, arg_min(name, project), '', sum(total), sum(recent), max(n_cpus), any_value(person),
            arg_min(system || gpu_text, project), min(create_time), NULL, 0 FROM computer GROUP BY whole""")


def _teams(db: duckdb.DuckDBPyConnection, members: Sequence[PublishedProject], now: float) -> None:
    rows = _union(members, "team.parquet", "id, type, name, country, create_time, claimed", now)
    db.execute(f"""
        CREATE TEMP TABLE team AS
        SELECT rows.*, CASE WHEN type > 0 THEN type::VARCHAR END AS told,
            CASE WHEN fold(rows.name) <> '' THEN md5(fold(rows.name)) ELSE project.name || '-' || id END AS whole
        FROM ({rows}) AS rows JOIN project USING (project)""")
    db.execute("""
        INSERT INTO entity_raw
        SELECT 'team', project, id::VARCHAR, name, country, total, recent, 1, NULL, coalesce(told, ''), create_time, whole,
            claimed FROM team
        UNION ALL
        SELECT 'team', 0, whole, arg_min(name, project), arg_min(country, project), sum(total), sum(recent), count(*), NULL,
            coalesce(arg_min(told, project), ''), min(create_time), NULL, 0 FROM team GROUP BY whole""")
    db.execute("""
        CREATE TABLE member AS
        SELECT *, row_number() OVER (PARTITION BY whole ORDER BY total DESC, key)::INTEGER AS rank_total,
            row_number() OVER (PARTITION BY whole ORDER BY recent DESC, key)::INTEGER AS rank_recent
        FROM (SELECT whole, person AS key, arg_min(account.name, account.project) AS name,
                arg_min(account.country, account.project) AS country, sum(account.total) AS total,
                sum(account.recent) AS recent, count(*)::INTEGER AS n, min(account.create_time) AS created
            FROM account JOIN team ON team.project = account.project AND team.id = account.team_id GROUP BY whole, person)
        ORDER BY whole, rank_total""")


def _badges(db: duckdb.DuckDBPyConnection, members: Sequence[PublishedProject]) -> None:
    """Add the badges of accounts and teams; rows written by an earlier version have none."""
    db.execute(
        "CREATE TEMP TABLE badge_raw (kind VARCHAR, whole VARCHAR, project INTEGER, key VARCHAR, title VARCHAR, image VARCHAR,"
        " since DOUBLE)"
    )
    for member in members:
        for kind, owners in (("user", "(SELECT *, person AS whole FROM account)"), ("team", "team")):
            if (path := badge_file(member.rows, kind)).exists():
                db.execute(f"""
                    INSERT INTO badge_raw
                    SELECT '{kind}', owner.whole, owner.project, owner.id::VARCHAR, had.title, had.image, had.since
                    FROM {parquet(path)} AS had JOIN {owners} AS owner
                    ON owner.project = {member.number} AND owner.id = had.id""")
    db.execute("CREATE TABLE badge AS FROM badge_raw ORDER BY kind, whole, project, since, title")


def _merged(db: duckdb.DuckDBPyConnection, members: Sequence[PublishedProject]) -> None:
    """Record which accounts were merged into which: see `store.rows`."""
    db.execute("CREATE TABLE merged (project INTEGER, id BIGINT, heir BIGINT, day DOUBLE, claimed DOUBLE)")
    for member in members:
        if (path := merged_file(member.rows)).exists():
            db.execute(
                f"INSERT INTO merged SELECT {member.number}, * FROM ({known(path, 'id, heir, day, claimed')})"
            )


def _since(db: duckdb.DuckDBPyConnection, folder: SiteFolder, day: float) -> None:
    """Note from which day what is at one project counts to what it belongs to over all projects; ``since`` was ``claimed``."""
    path = folder.history / "joined.parquet"
    db.execute(
        "CREATE TEMP TABLE known (kind VARCHAR, project VARCHAR, key VARCHAR, holder_project VARCHAR, holder VARCHAR,"
        " since DOUBLE, seen DOUBLE)"
    )
    if path.exists():
        db.execute(f"INSERT INTO known FROM {parquet(path)} WHERE seen >= {day - PATIENCE_DAYS!r}")
    db.execute(f"""
        CREATE TEMP TABLE joined AS
        WITH together AS (
            SELECT kind, whole, key, project, since AS claimed, min(since) OVER every AS first, first(key) OVER every AS holder,
                first(project) OVER every AS holder_project, first(since) OVER every AS holder_claimed
            FROM entity_raw WHERE whole IS NOT NULL
            WINDOW every AS (PARTITION BY kind, whole ORDER BY project, key::BIGINT
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
            QUALIFY count(*) OVER (PARTITION BY kind, whole) > 1)
        SELECT together.* EXCLUDE (holder_project), own.name AS project_name, theirs.name AS holder_project, CASE
            WHEN holder_claimed <= first + {GRACE_DAYS} AND together.project = theirs.project AND together.key = together.holder
                THEN coalesce(known.since, 0)
            WHEN holder_claimed <= first + {GRACE_DAYS} THEN least(claimed, coalesce(known.since, claimed))
            WHEN claimed = first THEN 0 ELSE least(claimed, coalesce(known.since, claimed)) END AS since
        FROM together JOIN project AS own USING (project) JOIN project AS theirs ON theirs.project = holder_project
        LEFT JOIN known ON known.kind = together.kind AND known.project = own.name AND known.key = together.key
            AND known.holder_project = theirs.name AND known.holder = together.holder""")
    db.execute("UPDATE entity_raw SET since = 0")
    db.execute("""
        UPDATE entity_raw SET since = joined.since FROM joined
        WHERE entity_raw.kind = joined.kind AND entity_raw.project = joined.project AND entity_raw.key = joined.key""")
    db.execute("""
        UPDATE entity_raw SET since = greatest(entity_raw.since, owner.since) FROM entity_raw AS owner
        WHERE entity_raw.kind = 'host' AND owner.kind = 'user' AND owner.project = entity_raw.project
            AND owner.key = entity_raw.parent AND entity_raw.project > 0""")
    names = "kind, project_name AS project, key, holder_project, holder"
    write_parquet(
        db,
        f"""SELECT {names}, since, {day!r}::DOUBLE AS seen FROM joined
            UNION ALL FROM known ANTI JOIN (SELECT {names} FROM joined) USING (kind, project, key, holder_project, holder)
            ORDER BY ALL""",
        path,
    )


def _aggregates(db: duckdb.DuckDBPyConnection) -> None:
    """Add countries (by accounts), systems, processors and GPUs (by computers; one with two models counts for both), projects."""
    for kind, name, source in (
        ("country", "country", "account"),
        ("system", "platform", "computer"),
        ("processor", "name", "computer"),
        (
            "gpu",
            "gpu",
            "(SELECT * EXCLUDE (name), unnest(string_split(gpus, chr(10))) AS gpu FROM computer WHERE gpus <> '')",
        ),
    ):
        db.execute(f"""
            INSERT INTO entity_raw
            SELECT '{kind}', coalesce(project, 0), md5(fold({name})), any_value({name}), '', sum(total), sum(recent), count(*),
                NULL, '', NULL, NULL, 0
            FROM {source} WHERE {name} <> '' GROUP BY GROUPING SETS ((project, fold({name})), (fold({name})))""")
    db.execute("""
        INSERT INTO entity_raw
        SELECT 'project', 0, project_name, any_value(title), '', sum(total), sum(recent), count(*), NULL, '', NULL, NULL, 0
        FROM account JOIN project USING (project) GROUP BY project_name""")


def _ranked(db: duckdb.DuckDBPyConnection) -> None:
    """Sort the rows by each key that pages use: reading a few rows then reads one small part of the file."""
    db.execute("""
        CREATE TEMP TABLE ranked AS
        SELECT *, row_number() OVER by_total::INTEGER AS rank_total, row_number() OVER by_recent::INTEGER AS rank_recent
        FROM entity_raw
        WINDOW by_total AS (PARTITION BY kind, project ORDER BY total DESC, key),
            by_recent AS (PARTITION BY kind, project ORDER BY recent DESC, key)""")
    db.execute("DROP TABLE entity_raw")
    short = "kind, project, key, rank_total"
    for table, query in {
        "entity": "SELECT * FROM ranked ORDER BY kind, project, rank_total",
        "by_key": f"SELECT {short} FROM ranked ORDER BY kind, project, key",
        "by_recent": f"SELECT {short}, rank_recent FROM ranked ORDER BY kind, project, rank_recent",
        "by_name": f"SELECT {short}, fold(name) AS folded FROM ranked WHERE kind <> 'host' ORDER BY kind, project, folded",
        "by_parent": "SELECT * FROM ranked WHERE parent IS NOT NULL ORDER BY kind, project, parent, rank_total",
        "by_whole": "SELECT * FROM ranked WHERE whole IS NOT NULL ORDER BY kind, whole, project",
        "size": "SELECT kind, project, count(*) AS n, sum(total) AS total, sum(recent) AS recent"
        " FROM ranked GROUP BY kind, project",
    }.items():
        db.execute(f"CREATE TABLE {table} AS {query}")


def _note_day(db: duckdb.DuckDBPyConnection, folder: SiteFolder, day: float) -> None:
    kinds = ", ".join(map(text, AGGREGATED))
    history.add_day(
        db,
        folder.history,
        day,
        f"SELECT {day!r}::DOUBLE AS day, kind, coalesce(project.name, '') AS project, key, total, recent, n"
        f" FROM entity LEFT JOIN project USING (project) WHERE kind IN ({kinds})",
        key=("kind", "project", "key"),
    )
