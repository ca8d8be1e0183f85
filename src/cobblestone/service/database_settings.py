"""Where the rows of a service are, as its settings file says."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.durable_files import write_durably
from cobblestone.ops.settings import toml_value
from cobblestone.service.backup import Manifest

_SECTION = re.compile(r"^\[database\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)
_KEY = re.compile(r"^url[ \t]*=[^\n]*", re.MULTILINE)


def with_database(text: str, address: str) -> str:
    """Return the text of a settings file that names a database; everything else stays as it was."""
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
    """Permissions of a settings file: nobody else may read it when it holds a password."""
    if urlsplit(address).password:
        return 0o600
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644


def database_of_restored(
    settings: Path, database: str, manifest: Manifest, address_now: Callable[[], str], *, advice: str
) -> str:
    """Return the address of the PostgreSQL database that a restored service shall have; empty: it is on SQLite.

    ``database``: the one that was asked for, which then stands in the settings; ``address_now`` reads what they name.
    ``advice``: what who wants to have a service on SQLite moved shall do.

    Raises:
        ConfigError: one was asked for, and the backup is of a service on SQLite.
    """
    if database and manifest.database != "postgresql":
        raise ConfigError(
            f"This backup is of a service on SQLite. Restore it without --database, then {advice}."
        )
    if database:
        write_durably(settings, with_database(settings.read_text(encoding="utf-8"), database).encode())
    address = address_now()
    settings.chmod(settings_mode(settings, address))
    return address
