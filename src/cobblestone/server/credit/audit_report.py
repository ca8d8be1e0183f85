"""What an audit of the ledger found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

MAX_LISTED = 1000
RELATIVE_TOLERANCE = 1e-9
"""Computers differ in the last digit of an exponential; a wrong entry differs in the first."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure that is not what the ledger makes of it."""

    table: str
    id: int
    figure: str
    stored: float | None
    computed: float | None
    note: str = ""


@dataclass(slots=True)
class LedgerAudit:
    """What a recomputation found."""

    entries: int = 0
    grants: int = 0  #: entries whose amount was computed again
    corrections: int = 0
    rows: dict[str, int] = field(default_factory=dict[str, int])  #: compared rows by table
    differences: list[Difference] = field(default_factory=list["Difference"])
    more: int = 0  #: differences beyond those listed

    @property
    def agrees(self) -> bool:
        """Whether everything is as the ledger says."""
        return not self.differences

    def compare(self, table: str, row_id: int, figure: str, stored: float, computed: float) -> None:
        """Note a difference, if it is one."""
        if not math.isclose(stored, computed, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-9):
            self.note(Difference(table, row_id, figure, stored, computed))

    def note(self, difference: Difference) -> None:
        """Add a difference; the list is bounded."""
        if len(self.differences) < MAX_LISTED:
            self.differences.append(difference)
        else:
            self.more += 1
