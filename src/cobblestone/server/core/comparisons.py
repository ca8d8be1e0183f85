"""The kinds of comparison rules that an app may name: built-in ones, and those of installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from cobblestone.policy.validation.comparisons.kind import ComparisonKind
from cobblestone.policy.validation.comparisons.registry import COMPARISON_KINDS, ENTRY_POINT_GROUP


@cache
def comparison_kinds() -> dict[str, ComparisonKind]:
    """All kinds by name; a built-in one is never replaced."""
    installed: dict[str, ComparisonKind] = {
        entry.name: entry.load()() for entry in entry_points(group=ENTRY_POINT_GROUP)
    }
    return installed | COMPARISON_KINDS
