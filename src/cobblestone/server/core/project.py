"""A project's folder: its paths, keys, lock and texts.

Texts that the project writes itself, in Markdown: about it, its science, its terms of use.

They are files in the project's folder, ``about.md``, ``science.md`` and ``terms.md``, with translations beside them
(``about.fr.md``).  A text exists as soon as its file does.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.people import User
from cobblestone.ops.environment import FILE_NAME
from cobblestone.ops.running import RUN_FILE
from cobblestone.ops.settings import Settings, load_settings
from cobblestone.service.folder import Kind, Place, ServiceFolder
from cobblestone.store.schema.project import PROJECT


@dataclass(frozen=True, slots=True)
class ProjectFolder(ServiceFolder):
    """Where the parts of a project lie on disk."""

    kind: ClassVar[Kind] = Kind(
        what="project",
        settings=FILE_NAME,
        address=lambda root: load_settings(root).database.url,
        schema=PROJECT,
        database="project.sqlite",
        advice_to_move="call cobblestone project move",
    )

    keys = Place("keys")  #: folder of secrets, readable only by the owner
    download = Place("download")  #: folder of files that clients download
    upload = Place("upload")  #: folder of large output files; small ones are in the database
    archive = Place("archive.sqlite")  #: database of purged jobs
    results = Place("results")  #: folder that assimilators write to: one subfolder per app
    #: folder of exports for statistics sites: one subfolder each, and a link to the newest
    exports = Place("exports")
    pyodide = Place("pyodide")  #: folder of Pyodide, installed by the operator: one subfolder per version
    staging = Place("staging")  #: folder for incoming files; emptied at start
    run_file = Place(RUN_FILE)  #: the note of a running server
    #: random bytes from which upload signatures and cookies are derived
    secret_file = Place("keys", "secret")
    admin_token_file = Place("keys", "admin.token")  #: API token for users who can read this folder
    ownership_private = Place("keys", "account_ownership_private.pem")  #: signs proofs of ownership; optional
    #: private key that signs app files; may be kept elsewhere
    code_sign_private = Place("keys", "code_sign_private")
    code_sign_public = Place("keys", "code_sign_public")  #: public key with which clients check app files

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


TEXT_NAMES = ("about", "science", "terms")
MAX_TEXT_BYTES = 200_000


class ProjectTexts:
    """Reads the project's texts from its folder each time: they are short, and few pages show them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def text(self, name: str, language: str) -> str | None:
        """Return a text in a language, or in the language that the project wrote it in; None if there is none."""
        translated = self._read(self._root / f"{name}.{language}.md")
        return translated if translated is not None else self._read(self._root / f"{name}.md")

    def present(self) -> list[str]:
        """Return the names of the existing texts."""
        return [name for name in TEXT_NAMES if (self._root / f"{name}.md").is_file()]

    def _read(self, path: Path) -> str | None:
        try:
            with path.open("rb") as file:
                return file.read(MAX_TEXT_BYTES).decode("utf-8", "replace").strip() or None
        except OSError:
            return None


_KEY_LETTERS = 32


def notice_key(secret: bytes, user: User) -> str:
    """Return the key of an account's notices; it only gives access to them, until the account gets new keys."""
    return _key(secret, f"notices {user.id} {user.authenticator}")


@lru_cache(2048)  # every reply to a client says it
def _key(secret: bytes, text: str) -> str:
    return hmac.digest(secret, text.encode(), "sha256").hex()[:_KEY_LETTERS]


def notice_page(secret: bytes, user: User) -> str:
    """Return the page of an account's notices, with its key."""
    return f"notices.php?userid={user.id}&auth={notice_key(secret, user)}"
