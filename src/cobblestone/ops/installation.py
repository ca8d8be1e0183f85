"""How this copy of cobblestone was installed, and how to install extras."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, requires
from typing import Any
from urllib.parse import unquote, urlsplit


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    It names where the program came from (a folder, a repository, a file, or the package index), as pip noted it in
    ``direct_url.json`` (PEP 610).
    """
    return f"pip install {_target(extra, _origin())}"


def extra_of(module: str) -> str:
    """Return the extra that a module belongs to; empty if it belongs to none."""
    with suppress(PackageNotFoundError):
        for text in requires("cobblestone") or ():
            name, extra = re.match(r"[\w.-]+", text), re.search(r"extra == .(\w+)", text)
            if name and extra and name[0].lower().replace("-", "_") == module.partition(".")[0].lower():
                return extra[1]
    return ""


def where_from() -> str:
    """Return the origin of this copy, for people."""
    return str(_origin().get("url", "")) or "the package index"


def _target(extra: str, origin: dict[str, Any]) -> str:
    url = str(origin.get("url", ""))
    if url.startswith("file://") and "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return editable + shlex.quote(f"{unquote(urlsplit(url).path)}[{extra}]")
    if url and "vcs_info" in origin:
        return shlex.quote(f"cobblestone[{extra}] @ {origin['vcs_info'].get('vcs', 'git')}+{url}")
    if url:
        return shlex.quote(f"cobblestone[{extra}] @ {url}")
    return shlex.quote(f"cobblestone[{extra}]")


def _origin() -> dict[str, Any]:  # Any: what pip wrote
    try:
        text = distribution("cobblestone").read_text("direct_url.json")
        return dict(json.loads(text)) if text else {}
    except (PackageNotFoundError, ValueError, TypeError):
        return {}
