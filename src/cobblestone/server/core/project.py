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


TEXT_NAMES = ("about", "science", "terms")
MAX_TEXT_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: tuple[int, int]
    text: str


class ProjectTexts:
    """Reads the texts; again when a file has changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[Path, _Read] = {}

    def text(self, name: str, language: str) -> str | None:
        """Return a text in a language, else in the language that the project wrote it in; None: there is none."""
        translated = self._read(self._root / f"{name}.{language}.md")
        return translated if translated is not None else self._read(self._root / f"{name}.md")

    def present(self) -> list[str]:
        """Return the names of the texts that there are."""
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
    """Return the key of an account's notices; it reads them and nothing else, and ends when the account gets new keys."""
    text = f"notices {user.id} {user.authenticator}"
    return hmac.digest(secret, text.encode(), "sha256").hex()[:_KEY_LETTERS]


def notice_page(secret: bytes, user: User) -> str:
    """Return the page of an account's notices, with its key."""
    return f"notices.php?userid={user.id}&auth={notice_key(secret, user)}"
