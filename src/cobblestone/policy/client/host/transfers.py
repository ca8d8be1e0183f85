"""Which file transfers to start, how fast the network is, and when feeds of notices are fetched.

Which file transfers to start, and how long to wait after one has failed.

Waits exist for the file, for the project and its direction, and for the *server*: where many files of several projects lie on one
machine that is down, one try tells enough.  Source: BOINC's client, ``pers_file_xfer`` and ``file_xfer`` (the first two); the
third is ours.

How fast this computer's network is, from transfers that have ended.

Source: BOINC's ``net_stats``: the highest rate moves towards each transfer's by ``ln(bytes) / 500``, so that large files count
more; the average is bytes a day, with a half-life of a week.

When feeds of notices are fetched, and which of their items are shown.

Source: BOINC's client, ``rss`` (only items of the last 30 days are shown; facts).  The least interval and the waits after
failures are ours: a feed says itself how often it wants to be fetched.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from cobblestone.domain.statistics import RecentAverage
from cobblestone.domain.values import value
from cobblestone.policy.credit.rac import update_average

BACKOFF_MIN = 60.0
BACKOFF_MAX = 6 * 3600.0
#: Failures in a row after which a project's other transfers wait, too.
PROJECT_FAILURES = 3
SERVER_FAILURES = 2
GIVE_UP_AFTER = 90 * 86400.0


def transfer_backoff(failures: int, *, rng: random.Random) -> float:
    """Seconds to wait after ``failures`` (from 1) failed tries in a row."""
    top = min(BACKOFF_MIN * 2.0 ** min(failures, 20), BACKOFF_MAX)
    return top * (0.5 + 0.5 * rng.random())


class FileToMove(Protocol):
    """A file whose transfer is wanted."""

    project: str
    num_retries: int
    next_request_time: float

    @property
    def upload(self) -> object: ...  #: None: it is downloaded
    @property
    def url(self) -> str: ...


FileT = TypeVar("FileT", bound=FileToMove)


@value(kw_only=True)
class TransferLimits:
    """Most simultaneous transfers, per direction."""

    total: int = 8
    per_project: int = 2


class Backoffs:
    """Failures in a row and ends of waits, of projects (per direction) or of servers."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._failures: Counter[str] = Counter()
        self._until: dict[str, float] = {}

    def failed(self, key: str, now: float, *, rng: random.Random) -> None:
        """Count a failure; those during a wait tell nothing new."""
        if self.until(key) > now:
            return
        self._failures[key] += 1
        if self._failures[key] >= self._threshold:
            self._until[key] = now + transfer_backoff(self._failures[key], rng=rng)

    def succeeded(self, key: str) -> None:
        """Forget all failures."""
        self._failures.pop(key, None)
        self._until.pop(key, None)

    def clock_set_back(self, seconds: float) -> None:
        """Move the ends of waits along with a clock that was set back."""
        self._until = {key: until - seconds for key, until in self._until.items()}

    def until(self, key: str) -> float:
        """Return the end of the wait; 0 if there is none."""
        return self._until.get(key, 0.0)


def direction(project: str, *, upload: bool) -> str:
    """Return the key of a project's transfers in one direction."""
    return f"{'up' if upload else 'down'} {project}"


def choose_transfers(
    waiting: Iterable[FileT],
    running: Iterable[FileToMove],
    *,
    server_of: Callable[[str], str],
    projects: Backoffs,
    servers: Backoffs,
    limits: TransferLimits,
    now: float,
) -> list[FileT]:
    """Choose the transfers to start: those that have begun first, then in the order given; ``server_of``: of an address."""
    places = Counter((each.project, each.upload is not None) for each in running)
    totals = Counter(upload for _, upload in places.elements())
    start: list[FileT] = []
    for each in sorted(waiting, key=lambda one: one.num_retries == 0):
        upload = each.upload is not None
        place = (each.project, upload)
        # most are ruled out here, at next to no cost: there may be ten thousand
        full = places[place] >= limits.per_project or totals[upload] >= limits.total
        if full or each.next_request_time > now:
            continue
        wait = projects.until(direction(each.project, upload=upload)) if each.num_retries else 0.0
        if max(wait, servers.until(server_of(each.url))) <= now:
            totals[upload] += 1
            places[place] += 1
            start.append(each)
    return start


HALF_LIFE = 7 * 86400.0


@value(kw_only=True)
class TransferRate:
    """One direction: bytes per second, and the average behind it."""

    highest: float = 0.0
    average: float = 0.0  #: bytes a day
    average_at: float = 0.0  #: Unix seconds


def after_transfer(rate: TransferRate, *, nbytes: float, started: float, now: float) -> TransferRate:
    """Return the rate after ``nbytes`` have been moved since ``started``."""
    seconds = now - started
    if nbytes <= 1.0 or seconds <= 0.0:
        return rate
    weight = min(1.0, math.log(nbytes) / 500.0) if rate.highest else 1.0
    average = update_average(
        RecentAverage(rate.average, rate.average_at),
        credit=nbytes,
        work_start=started,
        now=now,
        half_life=HALF_LIFE,
    )
    return TransferRate(
        highest=weight * nbytes / seconds + (1.0 - weight) * rate.highest,
        average=average.value,
        average_at=average.time,
    )


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
    """Return the items that are young enough, latest first; one without a date, or of the future, is of now."""
    young = [each for each in items if not each.published or now - each.published < SHOWN_FOR]
    return sorted(young, key=lambda each: min(each.published or now, now), reverse=True)[:MAX_SHOWN]
