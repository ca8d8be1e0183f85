"""When feeds of notices are fetched, and which of their items are shown.

Source: BOINC's client, ``rss`` (only items of the last 30 days are shown; facts).  The least interval and the waits after
failures are ours: a feed says itself how often it wants to be fetched.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Protocol, TypeVar

LEAST_INTERVAL = 3600.0
LONGEST_INTERVAL = 7 * 86400.0
SHOWN_FOR = 30 * 86400.0
MAX_SHOWN = 30


class Dated(Protocol):
    """Something that was published some time."""

    @property
    def published(self) -> float: ...


DatedT = TypeVar("DatedT", bound=Dated)


def next_poll(now: float, *, interval: float, failures: int, rng: random.Random) -> float:
    """Return when to fetch a feed again: at its own interval, within bounds; after failures ever later."""
    wait = min(max(interval, LEAST_INTERVAL), LONGEST_INTERVAL)
    if failures:
        wait = min(LEAST_INTERVAL * 2.0 ** min(failures - 1, 20), LONGEST_INTERVAL)
    return now + wait * (0.9 + 0.2 * rng.random())


def items_to_show(items: Iterable[DatedT], now: float) -> list[DatedT]:
    """Return the items that are young enough, the latest first; one without a date, or of the future, is of now."""
    young = [each for each in items if not each.published or now - each.published < SHOWN_FOR]
    return sorted(young, key=lambda each: min(each.published or now, now), reverse=True)[:MAX_SHOWN]
