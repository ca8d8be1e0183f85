"""Names of the kinds of comparison rules.  A project's own kinds are entry points, which the server resolves."""

from __future__ import annotations

from cobblestone.policy.validation.comparisons.bitwise import Bitwise
from cobblestone.policy.validation.comparisons.function import PythonFunction
from cobblestone.policy.validation.comparisons.kind import ComparisonKind
from cobblestone.policy.validation.comparisons.numbers import Numeric
from cobblestone.policy.validation.comparisons.trivial import Trivial

ENTRY_POINT_GROUP = "cobblestone.comparisons"
"""Group in which a package announces its own kind."""


def _built_in() -> dict[str, ComparisonKind]:
    kinds: tuple[ComparisonKind, ...] = (Bitwise(), Trivial(), Numeric(), PythonFunction())
    return {kind.name: kind for kind in kinds}


COMPARISON_KINDS: dict[str, ComparisonKind] = _built_in()
"""The built-in kinds by name."""
