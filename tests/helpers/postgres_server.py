"""A PostgreSQL server of our own: a cluster in a temporary folder, reached through a socket in that folder."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.store.schema.project import PROJECT

#: Deletes all rows of the project; ids begin at 1 again.  Most tables were never written to, and a sequence that is restarted
#: by `ALTER SEQUENCE` gets a new file, which takes longer than all else.
EMPTY = """
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    AND relname <> 'alembic_version' AND pg_relation_size(oid) > 0 LOOP EXECUTE format('DELETE FROM %I', name); END LOOP;
  PERFORM setval(oid, 1, false) FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace;
END $$
"""
#: The name of a socket has 107 bytes at most, and stands in addresses as it is: no long or odd TMPDIR.
SOCKETS = "/tmp"
UNPRIVILEGED = ("postgres", "nobody")


def programs() -> Path:
    """Debian's folder of the newest version's programs, or where `initdb` is found."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]), reverse=True
    )
    here = shutil.which("initdb")
    if found:
        return found[0].parent
    if here:
        return Path(here).parent
    raise FileNotFoundError("PostgreSQL is not installed: run tools/setup.sh test")


class PostgresServer:
    """Runs until closed.  ``durable``: flush commits to the disk, as in earnest."""

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: dict[str, str] | None = None,
        follows: PostgresServer | None = None,
    ) -> None:
        """``follows``: be a standby of that server."""
        self.folder = Path(tempfile.mkdtemp(prefix="cobblestone-pg-", dir=SOCKETS))
        self._user: dict[str, object] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            name = next(name for name in UNPRIVILEGED if _exists(name))
            entry = pwd.getpwnam(name)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self._data = self.folder / "data"
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "64MB",
            "max_connections": "200",
            "fsync": "on" if durable else "off",
            "full_page_writes": "on" if durable else "off",
            "max_wal_size": "2GB",
            "autovacuum_naptime": "10s",
            "deadlock_timeout": "100ms",
            **(settings or {}),
        }
        if follows is None:
            arguments = "-U cobblestone -A trust -E UTF8 --locale=C --no-sync --no-instructions"
            self._run("initdb", "-D", str(self._data), *arguments.split())
        else:
            source = f"user=cobblestone host={follows.folder} application_name=standby"
            self._run(
                "pg_basebackup", "-D", str(self._data), "-d", source, *["-R", "-c", "fast", "--no-sync"]
            )
        self._template = ""
        self._free: list[str] = []
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [programs() / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            **self._user,  # type: ignore[arg-type]  # user and group, where root starts it
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    def start(self) -> None:
        """Start, or start again."""
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [programs() / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                **self._user,  # type: ignore[arg-type]  # user and group, where root starts it
            )
        for _ in range(600):
            try:
                psycopg.connect(self.address("postgres")).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.05)
        raise TimeoutError("PostgreSQL does not start")

    def stop(self, *, abruptly: bool = False) -> None:
        """Stop; ``abruptly``: as after a power cut, without saving anything."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if abruptly else signal.SIGINT)
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """Stop, and remove everything."""
        self.stop(abruptly=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database: str) -> str:
        """Where a database of this server is."""
        return f"postgresql://cobblestone@/{database}?host={self.folder}"

    def address_of_both(self, standby: PostgresServer, database: str) -> str:
        """The address that programs use with a standby: whichever of the two takes writes."""
        hosts = f"{self.folder},{standby.folder}"
        return f"postgresql://cobblestone@/{database}?host={hosts}&target_session_attrs=read-write"

    def execute(self, sql: str, *, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run something as the superuser."""
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def empty_database(self) -> str:
        """A new database without any table; its address."""
        name = f"empty{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def project_database(self) -> str:
        """A database with the empty tables of a project; its address.  Give it back with `release`."""
        if self._free:
            return self._free.pop()
        if not self._template:
            self._template = f"bare{next(self._numbers)}"
            self.execute(f"CREATE DATABASE {self._template}")
            upgrade(self.address(self._template), PROJECT)
        name = f"project{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {self._template}")
        return self.address(name)

    def release(self, address: str) -> None:
        """Empty a project's database, for the next test: much quicker than a new one."""
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(EMPTY)
            connection.execute("UPDATE alembic_version SET version_num = %s", [PROJECT.head])
        self._free.append(address)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
