"""A project's folder: its paths, keys and lock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cobblestone import __version__
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.settings import Settings, load_settings
from cobblestone.service.folder_lock import take_folder
from cobblestone.service.upgrading import UpgradedDatabase, open_upgraded
from cobblestone.store.engine.database import Store
from cobblestone.store.schema.project import PROJECT


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """Where the parts of a project lie on disk."""

    root: Path

    @property
    def database(self) -> Path:
        """The SQLite database, unless the settings name another."""
        return self.root / "project.sqlite"

    @property
    def keys(self) -> Path:
        """Secrets, readable by the owner only."""
        return self.root / "keys"

    @property
    def download(self) -> Path:
        """Files that clients download."""
        return self.root / "download"

    @property
    def upload(self) -> Path:
        """Large output files; small ones stand in the database."""
        return self.root / "upload"

    @property
    def archive(self) -> Path:
        """Database of purged jobs."""
        return self.root / "archive.sqlite"

    @property
    def results(self) -> Path:
        """What assimilators write: a folder per app."""
        return self.root / "results"

    @property
    def exports(self) -> Path:
        """Exports for statistics sites: a folder each, and a link to the newest."""
        return self.root / "exports"

    @property
    def pyodide(self) -> Path:
        """Python with compiled packages for browsers, where the operator has put it: a folder per version."""
        return self.root / "pyodide"

    @property
    def staging(self) -> Path:
        """Files on their way in; emptied at start."""
        return self.root / "staging"

    @property
    def run_file(self) -> Path:
        """Address and process id of the running server, as JSON."""
        return self.root / "server.json"

    @property
    def lock_file(self) -> Path:
        """Held by the process that has the project open."""
        return self.root / "lock"

    @property
    def secret_file(self) -> Path:
        """Random bytes from which upload signatures and cookies are made."""
        return self.keys / "secret"

    @property
    def admin_token_file(self) -> Path:
        """API token of whoever may read this folder."""
        return self.keys / "admin.token"

    @property
    def code_sign_private(self) -> Path:
        """Private key that signs app files; may be kept on another machine instead."""
        return self.keys / "code_sign_private"

    @property
    def code_sign_public(self) -> Path:
        """Public key that clients check app files with."""
        return self.keys / "code_sign_public"

    def make(self) -> None:
        """Create the sub-folders that are missing."""
        for path in (self.keys, self.download, self.upload, self.results, self.staging):
            path.mkdir(parents=True, exist_ok=True)
        self.keys.chmod(0o700)

    def settings(self) -> Settings:
        """Read the settings.

        Raises:
            ConfigError: the folder is not a project, or the file is wrong.
        """
        return load_settings(self.root)

    def read_secret(self) -> bytes:
        """Return the random bytes from which upload signatures and cookies are made.

        Raises:
            ConfigError: they are gone.
        """
        try:
            return self.secret_file.read_bytes()
        except FileNotFoundError as error:
            raise ConfigError(
                f"{self.secret_file} is missing: the project in {self.root} is damaged. Restore it from a backup."
            ) from error

    def lock(self, *, shared: bool = False) -> IO[str]:
        """Take the project; the lock is held until the returned file is closed (or the process dies).

        ``shared``: with others that say the same.

        Raises:
            Busy: another process has it.
        """
        return take_folder(self.root, self.lock_file, what="project", shared=shared)

    def location(self, settings: Settings) -> Path | str:
        """Return where the rows are."""
        return settings.database.url or self.database

    def open_store(self, settings: Settings) -> Store:
        """Upgrade the database as far as needed and possible, and open it.  Hold the lock.

        Raises:
            Busy: older programs run that could not work with what this one needs.
        """
        return open_upgraded(self.upgraded(settings), readers=settings.database.readers, version=__version__)

    def upgraded(self, settings: Settings) -> UpgradedDatabase:
        """Return the database as upgrades see it."""
        return UpgradedDatabase(
            location=self.location(settings),
            schema=PROJECT,
            lock=lambda: self.lock(shared=bool(settings.database.url)),
            keep=self.root if settings.database.backup_before_upgrade else None,
        )
