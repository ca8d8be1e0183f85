"""Finds the project that is meant: an address, a folder, or what is around."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.connection import PROJECT_VARIABLE, TOKEN_VARIABLE, connection_defaults
from cobblestone.ops.settings import FILE_NAME, load_settings

_RUN_FILE = "server.json"
_TOKEN_FILE = Path("keys", "admin.token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a project is."""

    urls: tuple[str, ...] = ()  #: addresses of its server, to be tried in this order; empty: not running
    token: str = ""
    folder: Path | None = None  #: when it lies on this machine


def locate(given: str | Path | None = None, token: str | None = None) -> Target:
    """Find a project.

    ``given`` is an address (``http…``) or a folder; None: the variable COBBLESTONE_PROJECT, else the current folder,
    one above it, or the only project in it.

    Raises:
        ConfigError: there is no project there, or a remote one was given without a token.
    """
    defaults = connection_defaults()
    wanted = str(given) if given is not None else defaults.project
    if wanted.startswith(("http://", "https://")):
        key = token or defaults.token
        if not key:
            raise ConfigError(
                f"A token is needed for {wanted}. Give it with --token (token=… in Python) or in {TOKEN_VARIABLE}."
                " The operator makes one with: cobblestone token create NAME"
            )
        return Target(urls=(wanted.rstrip("/"),), token=key)
    folder = Path(wanted).expanduser().absolute() if wanted else find_folder()
    return _local(folder, token or "")


def find_folder(start: Path | None = None) -> Path:
    """Return the project folder that ``start`` (by default the current folder) is or lies in, or the only one in it.

    Raises:
        ConfigError: there is none, or several.
    """
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder
    below = sorted(path.parent for path in here.glob(f"*/{FILE_NAME}"))
    if len(below) == 1:
        return below[0]
    if below:
        names = ", ".join(folder.name for folder in below)
        raise ConfigError(
            f"There are several projects here: {names}. Say which one is meant, for instance -p {below[0].name}"
        )
    raise ConfigError(
        f"No project here: neither {here} nor a folder above it has a {FILE_NAME}. Say which one is meant:"
        f" --project FOLDER or ADDRESS, or the variable {PROJECT_VARIABLE}; or make one: cobblestone project create DIR"
    )


def _local(folder: Path, token: str) -> Target:
    settings = load_settings(folder)
    key = token or _admin_token(folder)
    try:
        running = json.loads((folder / _RUN_FILE).read_text(encoding="utf-8"))
        url, process = str(running["url"]), int(running["pid"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Target(token=key, folder=folder)
    if not _alive(process):
        return Target(token=key, folder=folder)
    host = "127.0.0.1" if settings.server.host in ("0.0.0.0", "::") else settings.server.host  # noqa: S104  # compared
    direct = f"http://{f'[{host}]' if ':' in host else host}:{settings.server.port}"
    path = "/" + "/".join(url.rstrip("/").split("/")[3:])
    urls = dict.fromkeys((f"{direct}{path}".rstrip("/"), url.rstrip("/")))
    return Target(urls=tuple(urls), token=key, folder=folder)


def _admin_token(folder: Path) -> str:
    path = folder / _TOKEN_FILE
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}). Use the project as its owner, or by its address with a token of your own."
        ) from error


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
