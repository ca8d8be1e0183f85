"""A project's folder: its paths, keys, lock and texts.

Texts that the project writes itself, in Markdown: about it, its science, its terms of use.

They are files in the project's folder, ``about.md``, ``science.md`` and ``terms.md``, with translations beside them
(``about.fr.md``).  A text exists as soon as its file does.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cobblestone import __version__
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.people import User
from cobblestone.ops.settings import Settings, load_settings
from cobblestone.service.folder import UpgradedDatabase, open_upgraded, take_folder
from cobblestone.store.engine.database import Store
from cobblestone.store.schema.project import PROJECT


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """The paths of a project on disk."""

    root: Path

    @property
    def database(self) -> Path:
        """Return the path of the SQLite database, unless the settings name another."""
        return self.root / "project.sqlite"

    @property
    def keys(self) -> Path:
        """Return the folder of secrets, readable only by the owner."""
        return self.root / "keys"

    @property
    def download(self) -> Path:
        """Return the folder of files that clients download."""
        return self.root / "download"

    @property
    def upload(self) -> Path:
        """Return the folder of large output files; small ones are in the database."""
        return self.root / "upload"

    @property
    def archive(self) -> Path:
        """Return the path of the database of purged jobs."""
        return self.root / "archive.sqlite"

    @property
    def results(self) -> Path:
        """Return the folder that assimilators write to: one subfolder per app."""
        return self.root / "results"

    @property
    def exports(self) -> Path:
        """Return the folder of exports for statistics sites: one subfolder each, and a link to the newest."""
        return self.root / "exports"

    @property
    def pyodide(self) -> Path:
        """Return the folder of Pyodide, installed by the operator: one subfolder per version."""
        return self.root / "pyodide"

    @property
    def staging(self) -> Path:
        """Return the folder for incoming files; emptied at start."""
        return self.root / "staging"

    @property
    def run_file(self) -> Path:
        """Return the path of the file with address and process id of the running server, as JSON."""
        return self.root / "server.json"

    @property
    def lock_file(self) -> Path:
        """Return the path of the lock held by the process that has the project open."""
        return self.root / "lock"

    @property
    def secret_file(self) -> Path:
        """Return the path of the random bytes from which upload signatures and cookies are derived."""
        return self.keys / "secret"

    @property
    def admin_token_file(self) -> Path:
        """Return the path of the API token for users who can read this folder."""
        return self.keys / "admin.token"

    @property
    def code_sign_private(self) -> Path:
        """Return the path of the private key that signs app files; it may be kept on another machine instead."""
        return self.keys / "code_sign_private"

    @property
    def code_sign_public(self) -> Path:
        """Return the path of the public key with which clients check app files."""
        return self.keys / "code_sign_public"

    def make(self) -> None:
        """Create missing subfolders."""
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
        """Return the random bytes from which upload signatures and cookies are derived.

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
        """Lock the project; the lock is held until the returned file is closed (or the process dies).

        ``shared``: with others that say the same.

        Raises:
            Busy: another process has it.
        """
        return take_folder(self.root, self.lock_file, what="project", shared=shared)

    def location(self, settings: Settings) -> Path | str:
        """Return the location of the database."""
        return settings.database.url or self.database

    def open_store(self, settings: Settings) -> Store:
        """Upgrade the database as far as needed and possible, and open it.  The caller must hold the lock.

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


TEXT_NAMES = ("about", "science", "terms")
MAX_TEXT_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: tuple[int, int]
    text: str


class ProjectTexts:
    """Reads the project's texts; reads them again after a change."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[Path, _Read] = {}

    def text(self, name: str, language: str) -> str | None:
        """Return a text in a language, or in the language that the project wrote it in; None if there is none."""
        translated = self._read(self._root / f"{name}.{language}.md")
        return translated if translated is not None else self._read(self._root / f"{name}.md")

    def present(self) -> list[str]:
        """Return the names of the existing texts."""
        return [name for name in TEXT_NAMES if (self._root / f"{name}.md").is_file()]

    def _read(self, path: Path) -> str | None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._known.get(path)
            if known is None or known.stamp != stamp:
                with path.open("rb") as file:
                    known = _Read(stamp, file.read(MAX_TEXT_BYTES).decode("utf-8", "replace").strip())
                self._known[path] = known
        except OSError:
            return None
        return known.text or None


_KEY_LETTERS = 32


def notice_key(secret: bytes, user: User) -> str:
    """Return the key of an account's notices; it only gives access to them, until the account gets new keys."""
    text = f"notices {user.id} {user.authenticator}"
    return hmac.digest(secret, text.encode(), "sha256").hex()[:_KEY_LETTERS]


def notice_page(secret: bytes, user: User) -> str:
    """Return the page of an account's notices, with its key."""
    return f"notices.php?userid={user.id}&auth={notice_key(secret, user)}"
