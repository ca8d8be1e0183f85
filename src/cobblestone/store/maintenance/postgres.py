"""PostgreSQL's dumps by its own programs, and the upgrade of a PostgreSQL database in use."""

from __future__ import annotations

import contextlib
import importlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import structlog
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cobblestone.domain.errors import StoreError
from cobblestone.ops.files import sync_file, sync_folder
from cobblestone.store.engine import postgres_process_group as process_group
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.postgres import first_line, opened, shown
from cobblestone.store.engine.process_group import Program
from cobblestone.store.maintenance.steps import Schema, UpgradePlan, name_of_backup, take_steps

if TYPE_CHECKING:
    import sqlalchemy as sa


#: Where Debian keeps the programs of each version; those on the path choose by cluster, not by server.
DEBIAN = Path("/usr/lib/postgresql")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_WHAT_FAILED = 500  # characters of a program's complaint that are repeated


def dump(address: str, target: Path, *, queries: Sequence[str] = ()) -> list[list[Row]]:
    """Write a dump of a database as a snapshot, while it is in use; return the results of queries on that snapshot.

    Raises:
        StoreError: the server cannot be reached, the program is missing or too old, or the dump cannot be written.
    """
    with opened(address) as connection:
        program = _program("pg_dump", connection.info.server_version // 10000)
        # the program works for us meanwhile
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = [connection.execute(query.encode()).fetchall() for query in queries]
        for (snapshot,) in connection.execute("SELECT pg_export_snapshot()").fetchall():
            options = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
            options.append("--exclude-table-data=server_process")  # where it is restored, they do not run
            _run(program, address, *options, f"--file={target}")
    return found


def restore(address: str, source: Path) -> None:
    """Fill an empty database from a dump, atomically.

    Raises:
        StoreError: the server cannot be reached, the program is missing or too old, or the dump is damaged.
    """
    with opened(address) as connection:
        program = _program("pg_restore", connection.info.server_version // 10000)
    _run(
        program,
        address,
        "--no-owner",
        "--no-privileges",
        "--single-transaction",
        "--exit-on-error",
        str(source),
    )
    with opened(address) as connection:
        connection.execute("ANALYZE")


def check_archive(source: Path) -> None:
    """Read the contents of a dump.

    Raises:
        StoreError: it is none, or the program is missing or too old.
    """
    _run(_program("pg_restore", 0), "", "--list", str(source))


def _program(name: str, server: int) -> Path:
    """Return the program of a name whose version is nearest to the server's, but not older; the newest without a server (0).

    A restore by a newer one may say things that the server does not know yet (version 17: ``transaction_timeout``), and an
    older machine may not read what a newer one has dumped.
    """
    on_path = shutil.which(name)
    places = [*DEBIAN.glob(f"*/bin/{name}"), *([Path(on_path)] if on_path else [])]
    versions = {place: version for place in places if (version := _version(place))}
    wanted = server or "VERSION"
    if not versions:
        raise StoreError(
            f"{name} is not installed; it goes with PostgreSQL. On Debian: sudo apt install postgresql-client-{wanted}"
        )
    newest = max(versions, key=lambda place: versions[place])
    if versions[newest] < server:
        raise StoreError(
            f"{name} of PostgreSQL {versions[newest]} is older than the server, which is {server}. On Debian:"
            f" sudo apt install postgresql-client-{server}"
        )
    fit = {place: version for place, version in versions.items() if version >= server}
    return min(fit, key=lambda place: fit[place]) if server else newest


def _version(program: Path) -> int:
    with contextlib.suppress(OSError):
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        if found := _VERSION.search(said):
            return int(found[1])
    return 0


def _run(program: Path, address: str, *options: str) -> None:
    with _without_password(address) as database:
        command = [program, *([f"--dbname={database}"] if database else []), *options]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
            )
        except OSError as error:
            raise StoreError(f"{program} cannot be run: {error}.") from error
    if done.returncode:
        said = " ".join(done.stderr.split())[:_WHAT_FAILED] or f"exit code {done.returncode}"
        place = f" on {shown(address)}" if address else ""
        raise StoreError(f"{program.name}{place} failed: {said.rstrip('.')}.")


@contextmanager
def _without_password(address: str) -> Generator[str]:
    """Yield the address for a command line, which any user can read; its password is in a private file."""
    if not address:
        yield ""
        return
    parts = conninfo_to_dict(address)
    if "sslpassword" in parts:
        raise StoreError(
            "An address with sslpassword cannot be passed to PostgreSQL's programs without revealing it to all"
            " users of this machine. Give the client's key without a passphrase, in a file that only its owner can read."
        )
    password = parts.pop("password", None)
    with tempfile.NamedTemporaryFile("w", prefix="cobblestone-", suffix=".pgpass") as handle:  # mode 0600
        if password:
            escaped = re.sub(r"([\\:])", r"\\\1", str(password))
            handle.write(f"*:*:*:*:{escaped}\n")
            handle.flush()
            parts["passfile"] = handle.name
        yield make_conninfo("", **parts)


UPGRADE_LOCK = 7_204_001  #: any number that is not used otherwise in this database
#: So long a step waits for a table that others use.  All others wait behind it meanwhile, and they give up after a second.
TABLE_SECONDS = 0.3
TABLE_ATTEMPTS = 60
TABLE_PAUSE_SECONDS = 0.5
#: An upgrade that says nothing for so long in the middle of its steps (stopped, or cut off) loses what it has done, and
#: with it the tables that others wait for.
HANGS_SECONDS = 20
_HOLDERS = f"""
SELECT coalesce(host(client_addr), 'this machine'), backend_start FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE locktype = 'advisory' AND objid = {UPGRADE_LOCK} AND granted AND pg_locks.database = pg_stat_activity.datid
"""

log = structlog.get_logger(__name__)


def upgrade_postgres(
    address: str, schema: Schema, *, program: Program | None, keep: Path | None, now: float
) -> Path | None:
    """See `cobblestone.store.maintenance.upgrade.upgrade`."""
    with _alone(address) as connection:
        current = postgres_revision(connection)
        if current is not None:
            process_group.make_tables(connection)
        backup = None
        if not is_ahead(connection, current, shown(address), schema):
            plan = _plan(connection, current, schema)
            plan.refuse(shown(address))
            if plan.steps:
                if keep is not None and current is not None:
                    backup = _dump_before(address, keep, current, now)
                _take(address, schema, current, plan)
        process_group.make_tables(connection)
        if program is not None:
            process_group.note_program(connection, program, seconds=process_group.LEASE_SECONDS)
        return backup


def plan_of_postgres(
    address: str, schema: Schema, *, replaces: tuple[str, int] | None = None
) -> tuple[UpgradePlan, list[Program]]:
    """Return what an upgrade would do now, and all running programs; ``replaces``: machine and process that will be gone."""
    with opened(address) as connection:
        current = postgres_revision(connection)
        programs = list(process_group.living_programs(connection)) if current is not None else []
        if is_ahead(connection, current, shown(address), schema):
            return UpgradePlan(steps=()), programs
        staying = [program for program in programs if (program.host, program.pid) != replaces]
        return schema.plan(current, staying), programs


def is_ahead(connection: psycopg.Connection[Row], current: str | None, name: str, schema: Schema) -> bool:
    """Return whether a newer program has upgraded a database that this one can still use.

    Raises:
        StoreError: it does not.
    """
    if current is None or current in schema.known():
        return False
    oldest = process_group.oldest_borne(connection)
    if current < schema.head or oldest is None or oldest > schema.head:
        raise schema.unknown(name, current)
    return True


def postgres_revision(connection: psycopg.Connection[Row]) -> str | None:
    """Return the revision of a database; None if it has none."""
    row = connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


def _plan(connection: psycopg.Connection[Row], current: str | None, schema: Schema) -> UpgradePlan:
    return schema.plan(current, process_group.living_programs(connection) if current is not None else ())


@contextmanager
def _alone(address: str) -> Generator[psycopg.Connection[Row]]:
    """Return a connection while no other process upgrades or starts work."""
    with opened(address) as connection:
        for machine, since in connection.execute(_HOLDERS.encode()).fetchall():
            log.warning("upgrade_waits", upgrades=machine, since=since.isoformat(timespec="seconds"))
        connection.execute("SELECT pg_advisory_lock(%s)", (UPGRADE_LOCK,))
        yield connection


def _take(address: str, schema: Schema, current: str | None, plan: UpgradePlan) -> None:
    """Take steps in one transaction, which waits for the tables that others use without holding all others up."""
    import sqlalchemy as sa

    importlib.import_module("alembic.command")  # it takes a second, in which the transaction would be idle
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: _plain(address), poolclass=sa.NullPool)
    try:
        for attempt in range(TABLE_ATTEMPTS):
            try:
                with engine.begin() as connection:
                    connection.exec_driver_sql(f"SET lock_timeout = {round(1000 * TABLE_SECONDS)}")
                    take_steps(connection, schema, plan.steps[-1].revision)
                    if current is not None:
                        _note_oldest(connection, schema, plan)
                return
            except Exception as error:
                in_the_way = isinstance(_cause(error), errors.LockNotAvailable | errors.DeadlockDetected)
                if not in_the_way or attempt == TABLE_ATTEMPTS - 1:
                    raise _upgrade_error(shown(address), current, error) from error
            time.sleep(TABLE_PAUSE_SECONDS)
    finally:
        engine.dispose()


def _note_oldest(connection: sa.Connection, schema: Schema, plan: UpgradePlan) -> None:
    first = schema.steps()[0].revision
    if plan.bears is not None:
        connection.exec_driver_sql(process_group.NOTE_OLDEST.format(plan.bears))
    elif connection.exec_driver_sql("SELECT count(*) FROM schema_bears").scalar() == 0:
        connection.exec_driver_sql(process_group.NOTE_OLDEST.format(first))


def _cause(error: BaseException) -> BaseException:
    """Return the driver's error behind SQLAlchemy's."""
    return getattr(error, "orig", None) or error


def _dump_before(address: str, folder: Path, current: str, now: float) -> Path:
    """Dump the database; the upgrade does not start without it."""
    backup = folder / f"{name_of_backup('project', current, now)}.dump"
    working = folder / f".{backup.name}"
    try:
        for left in folder.glob(".project-before-upgrade-*.dump"):  # of an upgrade that was killed
            left.unlink(missing_ok=True)
        # Only its owner may read it, also while it is written: it holds addresses and the hashes of passwords.
        working.touch(0o600)
        dump(address, working)
        sync_file(working)
        working.replace(backup)
        sync_folder(folder)
    except (StoreError, OSError) as error:
        raise StoreError(
            f"No upgrade without a backup: {error} Nothing was changed. (Or make one yourself, and set"
            " database.backup_before_upgrade = false.)"
        ) from error
    finally:
        working.unlink(missing_ok=True)
    return backup


def _upgrade_error(name: str, current: str | None, error: Exception) -> StoreError:
    cause = _cause(error)
    if current is None and isinstance(cause, psycopg.ProgrammingError):
        return StoreError(
            f"The tables of {name} cannot be created: {first_line(cause)}."
            " Make the database's owner the user that cobblestone connects as."
        )
    return StoreError(
        f"The upgrade of {name} from schema {current or 'none'} failed: {first_line(cause)}. Nothing was changed: the"
        " former version of cobblestone runs with it as before."
    )


def _plain(address: str) -> Any:  # a connection as SQLAlchemy wants it
    connection = psycopg.connect(address, autocommit=True)
    connection.execute(f"SET idle_in_transaction_session_timeout = '{HANGS_SECONDS}s'".encode())
    with contextlib.suppress(psycopg.Error):  # the server's system cannot look
        # A statement may take hours: who was killed meanwhile must not hold its tables for so long.
        connection.execute("SET client_connection_check_interval = '1s'")
    connection.autocommit = False
    return connection
