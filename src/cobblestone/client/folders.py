"""The data directory: where things lie, and the small files in it that other programs read."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.durable_files import write_private
from cobblestone.wire.web_rpc_client import folder_of

PASSWORD_FILE = "gui_rpc_auth.cfg"  # noqa: S105  # a file's name
MAX_PASSWORD = 255


class DataFolder:
    """One client's directory.  Names that come from servers have been checked by `wire` before they get here."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()

    def project(self, master_url: str) -> Path:
        """Where a project's files lie."""
        return self.root / "projects" / folder_of(master_url)

    def slot(self, number: int) -> Path:
        """Where a job runs."""
        return self.root / "slots" / str(number)

    def account_file(self, master_url: str) -> Path:
        """Return what other clients of the family would read to belong to a project."""
        return self.root / f"account_{folder_of(master_url)}.xml"

    def password(self) -> str:
        """Return the password of those who control this client; made at the first start.

        Raises:
            ConfigError: the file cannot be read.
        """
        path = self.root / PASSWORD_FILE
        try:
            if not path.exists():
                write_private(path, f"{secrets.token_hex(16)}\n".encode())
            return path.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0].strip()[:MAX_PASSWORD]
        except OSError as error:
            raise ConfigError(f"{path} cannot be used: {error.strerror}.") from error

    def free_space(self) -> tuple[float, float]:
        """Size of the disk and what is free on it, in bytes."""
        usage = shutil.disk_usage(self.root)
        return float(usage.total), float(usage.free)

    def used_by(self, folder: Path) -> float:
        """Bytes on disk below a folder."""
        total = 0.0
        for path in _files(folder):
            try:
                total += path.lstat().st_blocks * 512
            except OSError:
                continue
        return total


def _files(folder: Path) -> Iterable[Path]:
    for base, folders, names in os.walk(folder):
        yield from (Path(base, name) for name in (*folders, *names))
