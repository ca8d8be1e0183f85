"""A daemon learns how many rows its writes may take, so that none holds the writer for long."""

from __future__ import annotations

import pytest

from cobblestone.service import supervision
from cobblestone.service.supervision import LEAST_PORTION, Portion
from cobblestone.store.engine.database import BACKGROUND_SECONDS

QUICK, SLOW = BACKGROUND_SECONDS / 2, BACKGROUND_SECONDS * 4


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always 0."""
    monkeypatch.setattr(supervision.time, "monotonic", lambda: 0.0)


def sizes(portion: Portion, *writes: tuple[int, float], waiting: int = 1) -> list[int]:
    """The size after each write of so many rows, which took so many seconds."""
    found: list[int] = []
    for n, seconds in writes:
        portion.took(n, -seconds, waiting=waiting)
        found.append(portion.size)
    return found


def test_quick_writes_let_it_grow_slowly_and_slow_ones_shrink_at_once():
    portion = Portion(100)
    assert portion.size == LEAST_PORTION == 10
    assert sizes(portion, *[(10, QUICK), (12, QUICK), (14, QUICK), (16, QUICK)]) == [12, 14, 16, 19]
    assert sizes(portion, (3, QUICK)) == [19], "there were no more rows"
    assert sizes(portion, (19, SLOW), waiting=0) == [38], "nobody waits"
    assert sizes(portion, (80, SLOW), (20, SLOW), (1, SLOW)) == [20, LEAST_PORTION, LEAST_PORTION]


def test_it_has_a_bound():
    portion = Portion(100)
    for _ in range(100):
        portion.took(portion.size, -QUICK, waiting=1)
    assert portion.size == 100
    assert Portion(5).size == 5
    assert sizes(Portion(5), (5, QUICK), (5, SLOW)) == [5, 5]


def test_it_shrinks_no_further_where_many_wait_whose_requests_take_as_long():
    assert sizes(Portion(100), (40, SLOW), waiting=6) == [LEAST_PORTION]
    assert sizes(Portion(100), (40, SLOW), waiting=24) == [46]
    assert sizes(Portion(100), (40, 2 * SLOW), waiting=24) == [20]
