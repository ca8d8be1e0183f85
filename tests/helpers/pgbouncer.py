"""Debian's pgbouncer in front of a PostgreSQL server, configured as docs/postgresql.md says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.helpers.postgres_server import SOCKETS, PostgresServer

PROGRAM = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
DOCS = Path(__file__).parents[2] / "docs" / "postgresql.md"


def documented_settings() -> str:
    """The part of its settings that the documentation shows."""
    (found,) = re.findall(r"```ini\n(pool_mode.*?)```", DOCS.read_text(), re.DOTALL)
    return found


class Pgbouncer:
    """Runs until closed."""

    def __init__(self, server: PostgresServer, *, folder: Path | None = None, mode: str = "session") -> None:
        """``folder``: the same as another had, which was closed; ``mode``: of the pool, if not that of the documentation."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="cobblestone-pool-", dir=SOCKETS))
        self.folder.mkdir(exist_ok=True)
        user: dict[str, object] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            user = {"user": server.folder.owner(), "extra_groups": []}  # who may reach its socket
            shutil.chown(self.folder, server.folder.owner())
        settings = self.folder / "pgbouncer.ini"
        names = self.folder / "users.txt"
        names.write_text('"cobblestone" ""\n')
        names.chmod(0o644)
        settings.write_text(
            f"[databases]\n* = host={server.folder}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {self.folder}\n"
            f"auth_type = trust\nauth_file = {names}\nlogfile = {self.folder}/log\npidfile =\n"
            + documented_settings().replace("pool_mode = session", f"pool_mode = {mode}")
        )
        settings.chmod(0o644)
        self._process = subprocess.Popen([PROGRAM, "-q", settings], **user)  # type: ignore[call-overload]  # user and group, where root starts it
        end = time.monotonic() + 30
        while not (self.folder / ".s.PGSQL.6432").exists():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end
            time.sleep(0.02)

    def address(self, database: str) -> str:
        """Where a database is through it."""
        return f"postgresql://cobblestone@/{database}?host={self.folder}&port=6432"

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)
