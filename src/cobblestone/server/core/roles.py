"""Roles of server processes.  One process has all of them, or several divide them (on PostgreSQL)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from cobblestone.domain.errors import ConfigError


class Role(StrEnum):
    """A part of the server's work."""

    SCHEDULER = "scheduler"  #: clients' scheduler requests
    UPLOAD = "upload"  #: clients' output files, and downloads
    WEB = "web"  #: pages, accounts, the HTTP API
    TRANSITIONER = "transitioner"
    VALIDATOR = "validator"
    ASSIMILATOR = "assimilator"
    FILE_DELETER = "file_deleter"
    PURGER = "purger"
    STATISTICS = "statistics"  #: averages, scales of app versions, credit for trickle messages


HTTP_ROLES = frozenset({Role.SCHEDULER, Role.UPLOAD, Role.WEB})
ALL_ROLES = frozenset(Role)

WATCHER = "watcher"
#: Daemons that may run several times, each with workunits of its own.
SHARDED = (Role.VALIDATOR, Role.ASSIMILATOR)
#: Daemons of which only one acts at a time; more are a reserve.
SINGLE = (Role.FILE_DELETER, Role.PURGER, Role.STATISTICS)
#: All that processes divide among them.
DIVIDED_ROLES = (*SHARDED, *SINGLE, WATCHER, Role.SCHEDULER)


def parse_roles(text: str) -> frozenset[Role]:
    """Return the roles from a list with commas; empty: all.

    Raises:
        ConfigError: a name is not one of a role.
    """
    names = [name.strip().lower().replace("-", "_") for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in set(Role)]
    if unknown:
        raise ConfigError(f"--role {unknown[0]}: there is no such role. Roles: {', '.join(Role)}.")
    return frozenset(map(Role, names)) or ALL_ROLES


def single_of(roles: Sequence[Role] | frozenset[Role]) -> list[str]:
    """Return the roles that only one process has at a time; the watcher runs with the pages that show its data."""
    held = [role for role in (*SINGLE, Role.SCHEDULER) if role in roles]
    return [*held, WATCHER] if Role.WEB in roles else [*held]
