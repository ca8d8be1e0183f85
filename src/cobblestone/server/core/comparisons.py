"""The kinds of comparison rules that an app may name: built-in ones, and those of installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

import structlog

from cobblestone.policy.validation.comparison import COMPARISON_KINDS, ENTRY_POINT_GROUP, ComparisonKind

log = structlog.get_logger(__name__)


@cache
def comparison_kinds() -> dict[str, ComparisonKind]:
    """Return all kinds by name; built-in ones are never replaced, and one that fails to load affects only its own apps."""
    installed: dict[str, ComparisonKind] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        try:
            installed[entry.name] = entry.load()()
        except (Exception, SystemExit):
            log.exception("comparison_kind_not_loaded", kind=entry.name, source=entry.value)
    return installed | COMPARISON_KINDS
