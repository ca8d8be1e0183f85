"""Settings of a service: its address and its database, and the move to PostgreSQL."""

from __future__ import annotations

import re
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.files import write_durably
from cobblestone.ops.settings import FileSettings, parse_settings, settings_template, toml_value
from cobblestone.service.diagnosis import holds_secret
from cobblestone.service.folder import ServiceFolder
from cobblestone.store.maintenance.copy_to_postgres import MovedTable, Progress, move

F = TypeVar("F", bound=FileSettings)

PORTS_TRIED = 200


def port_of(url: str) -> int | None:
    """Return the port in an address.  Raises ConfigError if it is invalid."""
    try:
        return urlsplit(url).port
    except ValueError as error:
        raise ConfigError(f"--url {url}: {error}.") from error


def address_to_show(host: str) -> str:
    """Return the host part of an address at which a service listening on ``host`` can be reached from this machine."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104  # compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def free_port(host: str, *, first: int) -> int:
    """Return the first free port from ``first`` on.  Raises ConfigError if many are in use."""
    for port in range(first, first + PORTS_TRIED):
        if port_is_free(host, port):
            return port
    text = f"No port between {first} and {first + PORTS_TRIED - 1} is free on {host}. Give one: --port N"
    raise ConfigError(text)


def port_is_free(host: str, port: int) -> bool:
    """Return whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class NewService:
    """The choices of the creator of a service."""

    name: str = ""  #: empty: that of the folder
    url: str = ""  #: empty: loopback with the port
    host: str = "127.0.0.1"
    port: int | None = None  #: None: the usual one, or the next free one
    database: str = ""  #: address of an empty PostgreSQL database; empty: SQLite


def settings_of_new(
    root: Path, wish: NewService, kind: type[F], *, section: str, first_port: int
) -> tuple[F, str, int]:
    """Return the settings of a new service, the text of their file, and the port; ``section`` is that of its public name.

    Raises:
        ConfigError: the folder is not empty, a value is wrong, or no port is free; the text says what to do.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        text = f"{root} is not an empty folder. Give another name, or delete it first if you do not need it."
        raise ConfigError(text)
    port = wish.port or port_of(wish.url) or free_port(wish.host, first=first_port)
    url = wish.url or f"http://{address_to_show(wish.host)}:{port}/"
    values: dict[str, dict[str, object]] = {
        section: {"name": wish.name or root.name, "url": url},
        "server": {"host": wish.host, "port": port},
        "database": {"url": wish.database},
    }
    settings = parse_settings(dict(values), source=f"{kind.what} create", kind=kind)
    return settings, settings_template(kind, **values), port


_SECTION = re.compile(r"^\[database\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)
_KEY = re.compile(r"^url[ \t]*=[^\n]*", re.MULTILINE)


def with_database(text: str, address: str) -> str:
    """Return the text of a settings file that names a database; everything else is unchanged."""
    line = f"url = {toml_value(address)}"
    section = _SECTION.search(text)
    if section is None:
        return f"{text.rstrip()}\n\n[database]\n{line}\n"
    old = section[0]
    new, replaced = _KEY.subn(lambda _: line, old, count=1)
    if not replaced:
        new = old.replace("\n", f"\n{line}\n", 1)
    return text[: section.start()] + new + text[section.end() :]


def settings_mode(path: Path, address: str) -> int:
    """Return the permissions of a settings file: private if it contains a password, or is about to name ``address`` with one."""
    if urlsplit(address).password or holds_secret(path):
        return 0o600
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The result of a move."""

    tables: list[MovedTable]
    settings: Path
    kept: Path  #: the SQLite database, as it was


def move_service(folder: ServiceFolder, address: str, *, progress: Progress) -> Moved:
    """Copy a stopped service's rows to PostgreSQL, compare them, and name the new database in the settings.

    Calling it again after an interruption goes on.  The SQLite database is not changed.

    Raises:
        ConfigError: it is on PostgreSQL already, or the target is not empty.
        Busy: the service is running.
        StoreError: the target cannot be reached, or something arrived differently.
    """
    settings = folder.root / folder.kind.settings
    if folder.kind.address(folder.root):
        raise ConfigError(
            f"The {folder.kind.what} in {folder.root} is on PostgreSQL already, by [database] url in its settings."
        )
    with folder.lock():
        tables = move(folder.database, address, folder.schema, progress=progress)
        text = with_database(settings.read_text(encoding="utf-8"), address)
        write_durably(settings, text.encode(), mode=settings_mode(settings, address))
    return Moved(tables=tables, settings=settings, kept=folder.database)
