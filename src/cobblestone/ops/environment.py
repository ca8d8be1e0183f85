"""The process environment, for those who start other programs."""

from __future__ import annotations

import getpass
import os
import re
from pathlib import Path

_PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def environment_without_proxies() -> dict[str, str]:
    """Our environment for a program that must talk to loopback directly."""
    return {key: value for key, value in os.environ.items() if key.lower() not in _PROXY_VARIABLES}


def cache_folder() -> Path:
    """Return the user's folder for files that can be made or fetched again."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "cobblestone"


def launchers_folder() -> Path | None:
    """Return where a distribution keeps native launchers of its own making; None: nowhere."""
    given = os.environ.get("COBBLESTONE_LAUNCHERS", "")
    return Path(given) if given else None


def environment_with(**values: str) -> dict[str, str]:
    """Our environment with other values, for a program that takes its options from there."""
    return {**os.environ, **values}


def person() -> str:
    """Return the log-in name of whoever runs this program, for records; ``unknown`` where there is none."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # no environment and no entry in the list of users
        return "unknown"
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name)[:60] or "unknown"
