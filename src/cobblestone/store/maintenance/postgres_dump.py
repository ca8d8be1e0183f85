"""Dumps of a PostgreSQL database by PostgreSQL's own programs, ``pg_dump`` and ``pg_restore``."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.postgres import connect, shown

DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs of each version; those on the path choose by cluster, not by server."""
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_WHAT_FAILED = 500  # characters of a program's complaint that are repeated


def dump(address: str, target: Path, *, queries: Sequence[str] = ()) -> list[list[Row]]:
    """Write a dump of a database as it is at one moment, while others read and write it; return what queries find in it then.

    Raises:
        StoreError: the server cannot be reached, the program is missing or too old, or the dump cannot be written.
    """
    with connect(address) as connection:
        program = _program("pg_dump", connection.info.server_version // 10000)
        connection.execute(
            "SET idle_in_transaction_session_timeout = 0"
        )  # the program works for us meanwhile
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = [connection.execute(query.encode()).fetchall() for query in queries]
        for (snapshot,) in connection.execute("SELECT pg_export_snapshot()").fetchall():
            options = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
            _run(program, address, *options, f"--file={target}")
    return found


def restore(address: str, source: Path) -> None:
    """Fill an empty database from a dump, whole or not at all.

    Raises:
        StoreError: the server cannot be reached, the program is missing or too old, or the dump is damaged.
    """
    with connect(address) as connection:
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
    with connect(address) as connection:
        connection.execute("ANALYZE")


def check(source: Path) -> None:
    """Read the contents of a dump.

    Raises:
        StoreError: it is none, or the program is missing or too old.
    """
    _run(_program("pg_restore", 0), "", "--list", str(source))


def _program(name: str, server: int) -> Path:
    """Return the program of a name that is nearest to the server, but not older; the newest if no server is asked (0).

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
    """Yield the address for a command line, which everybody on this machine can read; its password stands in a file for us."""
    if not address:
        yield ""
        return
    parts = conninfo_to_dict(address)
    if "sslpassword" in parts:
        raise StoreError(
            "An address with sslpassword cannot be handed to PostgreSQL's programs without showing it to everybody on"
            " this machine. Give the client's key without a passphrase, in a file for its owner alone."
        )
    password = parts.pop("password", None)
    with tempfile.NamedTemporaryFile("w", prefix="cobblestone-", suffix=".pgpass") as handle:  # mode 0600
        if password:
            escaped = re.sub(r"([\\:])", r"\\\1", str(password))
            handle.write(f"*:*:*:*:{escaped}\n")
            handle.flush()
            parts["passfile"] = handle.name
        yield make_conninfo("", **parts)
