"""How programs on this computer find a client and prove that they may control it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from cobblestone.domain.errors import ConfigError

ACCESS_FILE = "control.json"


class Access(msgspec.Struct, kw_only=True):
    """How programs on this computer find the interface; the file is readable by its owner alone."""

    port: int
    control_token: str
    reading_token: str
    tls: bool = False


def read_access(folder: Path) -> Access:
    """Return what the client of a data directory wrote.

    Raises:
        ConfigError: no client has run there, or the file belongs to somebody else.
    """
    path = folder / ACCESS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Access)
    except FileNotFoundError:
        raise ConfigError(
            f"No client has run in {folder}. Start one with: cobblestone client run {folder}"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def known_access(folder: Path) -> Access | None:
    """As `read_access`, or None."""
    with contextlib.suppress(ConfigError):
        return read_access(folder)
    return None
