"""Totals and recent averages of all whom a ledger entry names: host, user, team and app version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.policy.credit.rac import HALF_LIFE, corrected, credited_together, idle_decayed, joined

OWNERS = ("host", "user_account", "team", "app_version")
"""Kinds of owners, by the tables of their rows."""

Owners = Sequence[int | None]
"""Whom an entry names: ids in the order of `OWNERS`; None: nobody of this kind."""


class CreditTotals:
    """What everybody has, from the entries of a ledger in their order.

    Whoever drives it fills `rows` with those that it keeps; entries for others change nothing.
    """

    def __init__(self, *, half_life: float = HALF_LIFE) -> None:
        """Begin without rows; ``half_life`` of the recent averages in seconds."""
        self.rows: dict[str, dict[int, CreditStatement]] = {kind: {} for kind in OWNERS}
        self._half_life = half_life

    def open(self, owners: Owners) -> None:
        """Begin to keep the rows that an entry names."""
        for kind, row_id in zip(OWNERS, owners, strict=True):
            if row_id is not None:
                self.rows[kind].setdefault(row_id, CreditStatement())

    def credit(self, shares: Iterable[tuple[Owners, float, float]], *, now: float) -> None:
        """Add entries of one moment, each (owners, credit, start of the work in Unix seconds)."""
        by_row: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for owners, credit, work_start in shares:
            for kind, row_id in zip(OWNERS, owners, strict=True):
                if row_id is not None:
                    by_row.setdefault((kind, row_id), []).append((credit, work_start))
        for (kind, row_id), amounts in by_row.items():
            rows = self.rows[kind]
            if row_id in rows:
                rows[row_id] = credited_together(rows[row_id], amounts, now=now, half_life=self._half_life)

    def correct(self, owners: Owners, *, credit: float, granted_time: float, now: float) -> None:
        """Take back (negative) or add what was granted at ``granted_time``."""
        for kind, row_id in zip(OWNERS, owners, strict=True):
            rows = self.rows[kind]
            if row_id is not None and row_id in rows:
                rows[row_id] = corrected(
                    rows[row_id],
                    credit=credit,
                    granted_time=granted_time,
                    now=now,
                    half_life=self._half_life,
                )

    def merge(self, kind: str, earlier: int, later: int, *, now: float) -> None:
        """Let one row have what two had; nothing is left of ``earlier``."""
        rows = self.rows[kind]
        if earlier in rows and later in rows:
            rows[later] = joined(rows[earlier], rows[later], now=now)
            rows[earlier] = CreditStatement(0.0, RecentAverage(0.0, now))

    def decay(self, kind: str, ids: range, *, now: float) -> None:
        """Bring the averages of rows with these ids up to date that nothing touched for a day."""
        rows = self.rows[kind]
        for row_id in ids if len(ids) < len(rows) else tuple(rows):
            if row_id in ids and row_id in rows:
                statement = rows[row_id]
                recent = idle_decayed(statement.recent, now=now, half_life=self._half_life)
                if recent is not None:
                    rows[row_id] = CreditStatement(statement.total, recent)
