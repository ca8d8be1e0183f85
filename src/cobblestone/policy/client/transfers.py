"""Which file transfers to start, and how long to wait after one has failed.

Waits exist for the file, for the project and its direction, and for the *server*: where many files of several projects lie on one
machine that is down, one try tells enough.  Source: BOINC's client, ``pers_file_xfer`` and ``file_xfer`` (the first two); the
third is ours.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from cobblestone.domain.values import value

BACKOFF_MIN = 60.0
BACKOFF_MAX = 6 * 3600.0
PROJECT_FAILURES = 3
"""Failures in a row after which a project's other transfers wait, too."""
SERVER_FAILURES = 2
GIVE_UP_AFTER = 90 * 86400.0


def transfer_backoff(failures: int, *, rng: random.Random) -> float:
    """Seconds to wait after ``failures`` (from 1) failed tries in a row."""
    top = min(BACKOFF_MIN * 2.0 ** min(failures, 20), BACKOFF_MAX)
    return top * (0.5 + 0.5 * rng.random())


@value(kw_only=True)
class Waiting:
    """A transfer that could be started."""

    file: str  #: unique
    project: str
    server: str  #: host and port
    upload: bool
    due: float  #: not before
    first_try: bool = False
    unlimited: bool = False  #: a project's own file, which does not count


@value(kw_only=True)
class TransferLimits:
    """How many at once, per direction."""

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


@value(kw_only=True)
class TransferChoice:
    """What to start now, and when to look again."""

    start: tuple[str, ...]
    look_again: float = float("inf")


def choose_transfers(
    waiting: Sequence[Waiting],
    running: Iterable[Waiting],
    *,
    projects: Backoffs,
    servers: Backoffs,
    limits: TransferLimits,
    now: float,
) -> TransferChoice:
    """Choose the transfers to start: those that have begun first, then in the order given."""
    totals: Counter[bool] = Counter()
    per_project: Counter[tuple[str, bool]] = Counter()
    for each in running:
        if not each.unlimited:
            totals[each.upload] += 1
            per_project[each.project, each.upload] += 1
    start: list[str] = []
    look_again = float("inf")
    for each in sorted(waiting, key=lambda one: one.first_try):
        key = direction(each.project, upload=each.upload)
        wait = max(each.due, servers.until(each.server), 0.0 if each.first_try else projects.until(key))
        if wait > now:
            look_again = min(look_again, wait)
            continue
        place = (each.project, each.upload)
        if not each.unlimited:
            if totals[each.upload] >= limits.total or per_project[place] >= limits.per_project:
                continue
            totals[each.upload] += 1
            per_project[place] += 1
        start.append(each.file)
    return TransferChoice(start=tuple(start), look_again=look_again)
