"""Deadlines: proposed from what an app's jobs took, and extended for one that makes progress but will be late.

A deadline that is too short throws away work that was almost done; one that is too long lets a workunit wait for a computer
that will never return.  Both sides are seen in the turnaround of the app's own results, from sending to receipt.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from cobblestone.domain.values import value

HOUR, DAY = 3600.0, 86400.0

SAMPLES = 20
"""From so many results on a deadline is proposed."""
QUANTILE = 0.95
SLACK = 2.0
"""A deadline is twice what 95 % of the results took: computers are switched off, and hold work of others."""
RUN_TIMES = 10.0
"""… and at least ten run times, so that a computer that computes a tenth of the time is in time."""
STEPS = tuple(
    [HOUR * n for n in (1, 2, 3, 4, 6, 8, 12, 18)]
    + [DAY * n for n in (1, 1.5, 2, 3, 4, 5, 7, 10, 14, 21, 28, 42, 60, 90)]
)

MIN_PROGRESS = 0.05
"""A job makes progress when the time that it still needs falls by this part of the time that has passed, or more."""
MARGIN = 0.25
"""So much more than the client expects is given."""


@value(kw_only=True)
class Turnaround:
    """What one good result took, in seconds."""

    run_time: float  #: elapsed on its computer
    total: float  #: from sending to receipt


@value(kw_only=True)
class DeadlineProposal:
    """A deadline for the jobs of an app, and what it follows from; seconds."""

    n: int  #: results
    run_time: float  #: of 95 % of them at most
    turnaround: float  #: of 95 % of them at most
    delay_bound: float


def propose_delay_bound(results: Sequence[Turnaround]) -> DeadlineProposal | None:
    """Return the time that jobs should be given, by what good results took; None when there are too few."""
    if len(results) < SAMPLES:
        return None
    run_time = _quantile([each.run_time for each in results])
    turnaround = _quantile([each.total for each in results])
    wanted = max(SLACK * turnaround, RUN_TIMES * run_time)
    bound = next((step for step in STEPS if step >= wanted), ceil(wanted / DAY) * DAY)
    return DeadlineProposal(n=len(results), run_time=run_time, turnaround=turnaround, delay_bound=bound)


def _quantile(values: Sequence[float]) -> float:
    """Return the smallest value that the wanted part of all do not exceed."""
    return sorted(values)[ceil(QUANTILE * len(values)) - 1]


@value(kw_only=True)
class Told:
    """What a client said of a running job."""

    remaining: float  #: computing time that it still needs, seconds
    time: float  #: Unix seconds


def will_be_late(told: Told, *, deadline: float, available: float) -> bool:
    """Whether a job that goes on like that ends after its deadline; ``available``: part of the time that is computed."""
    return told.time + told.remaining / max(available, 1e-3) > deadline


def extended_deadline(
    told: Told,
    before: Told | None,
    *,
    sent: float,
    deadline: float,
    delay_bound: float,
    available: float,
    factor: float,
) -> float | None:
    """Return a later deadline for a job that would be late but makes progress; None: it stays.

    Progress shows in two reports: what a client still needs has become less meanwhile.  A job never gets more than ``factor``
    times its ``delay_bound`` in all, so one whose client promises for ever is given up in the end.
    """
    if before is None or not will_be_late(told, deadline=deadline, available=available):
        return None
    passed = told.time - before.time
    if passed <= 0 or before.remaining - told.remaining < MIN_PROGRESS * passed:
        return None
    needed = told.remaining / max(available, 1e-3) * (1.0 + MARGIN)
    later = min(told.time + needed, sent + factor * delay_bound)
    return later if later > deadline else None
