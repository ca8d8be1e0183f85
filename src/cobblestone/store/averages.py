"""Totals and averages as columns of users, hosts, teams, app versions and records."""

from __future__ import annotations

from cobblestone.domain.statistics import CreditStatement, RecentAverage, RunningAverage
from cobblestone.store.engine.mapping import RowMapper

RECENT = RowMapper(RecentAverage, {"value": "expavg_credit", "time": "expavg_time"})
#: Total and recent average.
CREDIT = RowMapper(CreditStatement, {"recent": RECENT, "total": "total_credit"})


def running_average(column: str) -> RowMapper[RunningAverage]:
    """Return the mapper of a running mean whose columns start with a name."""
    parts = (("n", "n"), ("mean", "avg"), ("variance", "var"), ("q", "q"))
    return RowMapper(RunningAverage, {part: f"{column}_{end}" for part, end in parts})
