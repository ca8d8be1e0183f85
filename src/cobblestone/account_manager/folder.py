"""An account manager's folder: its paths, keys and lock; and how one is made."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cobblestone import __version__
from cobblestone.account_manager.settings import FILE_NAME, ManagerSettings
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.durable_files import write_durably, write_private
from cobblestone.ops.settings import load_settings, parse_settings, settings_template
from cobblestone.service.addresses import address_to_show, free_port, port_of
from cobblestone.service.database_settings import settings_mode
from cobblestone.service.folder_lock import take_folder
from cobblestone.service.upgrading import UpgradedDatabase, open_upgraded
from cobblestone.store.engine.database import Store
from cobblestone.wire.signatures import encode_private_key, encode_public_key, generate_key

DEFAULT_PORT = 8180


@dataclass(frozen=True, slots=True)
class ManagerFolder:
    """Where the parts of an account manager lie on disk."""

    root: Path

    @property
    def database(self) -> Path:
        """The SQLite database."""
        return self.root / "manager.sqlite"

    @property
    def keys(self) -> Path:
        """Secrets, readable by the owner only."""
        return self.root / "keys"

    @property
    def secret_file(self) -> Path:
        """Random bytes from which cookies are made."""
        return self.keys / "secret"

    @property
    def sign_private(self) -> Path:
        """Private key that signs projects' addresses; may be kept on another machine instead."""
        return self.keys / "url_sign_private"

    @property
    def sign_public(self) -> Path:
        """Public key that clients check addresses with.  They keep it: it must never change."""
        return self.keys / "url_sign_public"

    def settings(self) -> ManagerSettings:
        """Read the settings.  Raises ConfigError."""
        return load_settings(self.root, ManagerSettings)

    def read_key(self, path: Path) -> str:
        """Return a key or secret as a text.

        Raises:
            ConfigError: it is gone.
        """
        try:
            return path.read_text(encoding="ascii")
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path} is missing or damaged. Restore it from a backup: clients refuse an account manager whose key changed."
            ) from error

    @property
    def lock_file(self) -> Path:
        """Held by the process that has it open."""
        return self.root / "lock"

    def lock(self, settings: ManagerSettings) -> IO[str]:
        """Take the account manager; on PostgreSQL several processes may have it.  Raises Busy: another one has it."""
        shared = bool(settings.database.url)
        return take_folder(self.root, self.lock_file, what="account manager", shared=shared)

    def location(self, settings: ManagerSettings) -> Path | str:
        """Return where the rows are."""
        return settings.database.url or self.database

    def upgraded(self, settings: ManagerSettings) -> UpgradedDatabase:
        """Return the database as upgrades see it."""
        return UpgradedDatabase(
            location=self.location(settings),
            schema=MANAGER,
            lock=lambda: self.lock(settings),
            keep=self.root if settings.database.backup_before_upgrade else None,
        )

    def open_store(self, settings: ManagerSettings) -> Store:
        """Upgrade the database as far as needed and possible, and open it.  Hold the lock.

        Raises:
            Busy: older programs run that could not work with what this one needs.
        """
        return open_upgraded(self.upgraded(settings), readers=settings.database.readers, version=__version__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedManager:
    """What was made."""

    folder: ManagerFolder
    url: str
    port: int


def create_manager(
    root: Path,
    *,
    name: str = "",
    url: str = "",
    host: str = "127.0.0.1",
    port: int | None = None,
    database: str = "",
) -> CreatedManager:
    """Make an account manager in a folder that is empty or does not exist.

    ``database``: address of an empty PostgreSQL database; else it is on SQLite.  The settings file comes last: what is left by a
    crash is none, and may be deleted.

    Raises:
        ConfigError: the folder is not empty, a value is wrong, or no port is free.
    """
    root = root.absolute()
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ConfigError(
            f"{root} is not an empty folder. Give another name, or delete it first if you do not need it."
        )
    port = port or port_of(url) or free_port(host, first=DEFAULT_PORT)
    values: dict[str, dict[str, object]] = {
        "manager": {
            "name": name or root.name or "My account manager",
            "url": url or f"http://{address_to_show(host)}:{port}/",
        },
        "server": {"host": host, "port": port},
        "database": {"url": database},
    }
    settings = parse_settings(dict(values), source="manager create", kind=ManagerSettings)
    folder = ManagerFolder(root)
    key = generate_key()
    try:
        folder.keys.mkdir(parents=True)
        folder.keys.chmod(0o700)
        write_private(folder.secret_file, secrets.token_hex(32).encode())
        write_private(folder.sign_private, encode_private_key(key).encode())
        write_durably(folder.sign_public, encode_public_key(key.public_key()).encode())
        with folder.lock(settings):
            folder.open_store(settings).close()
        write_durably(
            root / FILE_NAME,
            settings_template(ManagerSettings, **values).encode(),
            mode=settings_mode(root / FILE_NAME, database),
        )
    except OSError as error:
        raise ConfigError(
            f"The account manager cannot be made in {root}: {error.strerror or error}."
        ) from error
    return CreatedManager(folder=folder, url=settings.manager.url, port=port)
