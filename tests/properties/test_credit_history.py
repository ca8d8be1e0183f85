"""Credit over time from any ledger."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.policy.credit.history import LedgerMark, credit_history, day_of
from cobblestone.policy.credit.rac import LARGEST

NOW = 1_800_000_000.0

times = st.floats(NOW - 100 * 86400, NOW + 86400)
marks = st.builds(
    LedgerMark,
    time=times,
    granted=st.floats(-1e12, 1e12),
    work_start=times,
    n_results=st.integers(0, 3),
    granted_time=st.none() | times,
)


@given(st.lists(marks, max_size=30), times, st.integers(1, 60), st.booleans())
def test_days_are_complete_finite_and_not_negative(
    ledger: list[LedgerMark], created: float, n_days: int, ordered: bool
) -> None:
    if ordered:
        ledger = sorted(ledger, key=lambda mark: mark.time)
    first_day = day_of(NOW) - n_days + 1
    found = credit_history(ledger, created=created, first_day=first_day, now=NOW)
    assert [item.day for item in found] == list(range(first_day, day_of(NOW) + 1))
    assert all(0.0 <= item.average <= LARGEST for item in found)
    shown = [mark for mark in ledger if day_of(mark.time) >= first_day]
    if ordered:
        expected = math.fsum(mark.granted for mark in shown)
        assert math.fsum(item.granted for item in found) == pytest.approx(expected, abs=1.0)
        assert sum(item.n_results for item in found) == sum(mark.n_results for mark in shown)
