"""Creates a new project's folder: settings, keys, database, the first token."""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.environment import FILE_NAME
from cobblestone.ops.files import write_durably, write_private
from cobblestone.ops.settings import Settings
from cobblestone.server.core import plan_classes
from cobblestone.server.core.project import ProjectFolder
from cobblestone.service.settings import NewService, settings_mode, settings_of_new
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Transaction
from cobblestone.store.maintenance.snapshot import check_empty
from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.store.people import credentials
from cobblestone.wire.project import signatures as wire

ADMIN_TOKEN_NAME = "admin"  # noqa: S105  # a name, not a secret
DEFAULT_PORT = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject(NewService):
    """The choices of the creator of a project."""

    public_key: str = ""  #: not empty: the private key stays on another machine


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedProject:
    """The result of creating a project."""

    folder: ProjectFolder
    url: str
    port: int
    has_private_key: bool


def create_project(root: Path, wish: NewProject, *, now: float) -> CreatedProject:
    """Create a project in a folder that is empty or does not exist.

    The settings file comes last: what is left by a crash is no project, and may be deleted.

    Raises:
        ConfigError: the folder is not empty, a value is wrong, or no port is free; the text says what to do.
        BadKey: the given public key is not one of 1024 bits in the family's form.
    """
    root = root.absolute()
    settings, text, port = settings_of_new(root, wish, Settings, section="project", first_port=DEFAULT_PORT)
    if wish.database:
        check_empty(wish.database)
    public_key, private_key = _keys(wish)
    folder = ProjectFolder(root)
    try:
        folder.keys.mkdir(parents=True)  # of two at once, one goes on
        folder.make()
        write_private(folder.secret_file, secrets.token_bytes(32))
        if private_key:
            write_private(folder.code_sign_private, private_key.encode())
        write_durably(folder.code_sign_public, public_key.strip().encode() + b"\n")
        _fill_database(folder, settings, public_key, now)
        write_durably(root / plan_classes.FILE_NAME, plan_classes.TEMPLATE.encode())
        write_durably(root / FILE_NAME, text.encode(), mode=settings_mode(root / FILE_NAME, wish.database))
    except OSError as error:
        raise ConfigError(f"The project cannot be created in {root}: {error.strerror or error}.") from error
    return CreatedProject(
        folder=folder, url=settings.project.url, port=port, has_private_key=bool(private_key)
    )


def _keys(wish: NewProject) -> tuple[str, str]:
    """Return the texts of the public and the private key; the latter is empty if it is kept elsewhere."""
    if wish.public_key:
        wire.decode_public_key(wish.public_key)
        return wish.public_key, ""
    key = wire.generate_key()
    return wire.encode_public_key(key.public_key()), wire.encode_private_key(key)


def _fill_database(folder: ProjectFolder, settings: Settings, public_key: str, now: float) -> None:
    secret = credentials.new_secret()

    def fill(tx: Transaction) -> None:
        apps.set_current_key(tx, public_key, successor_signatures={}, now=now)
        credentials.create_token(tx, secret, name=ADMIN_TOKEN_NAME, scopes=list(credentials.Scope), now=now)

    with folder.lock():
        upgrade(folder.location(settings), folder.schema)
        with closing(folder.open_store(settings)) as store:
            store.write(fill)
    write_private(folder.admin_token_file, secret.encode())
