"""Debts: what the host owes each project (published family).

Long-term debt steers work fetch, short-term debt the choice of what runs next.  Both count wall-clock
seconds of scheduled tasks, because reported CPU time may lie.  Source: BOINC's ``cpu_sched`` of 2007
(``adjust_debts``), ``time_stats`` (CPU efficiency).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SECONDS_PER_DAY = 86400.0
#: Short-term debt is kept within plus or minus this many seconds.
MAX_SHORT_TERM_DEBT = SECONDS_PER_DAY


def is_overworked(long_term_debt: float, *, slice_seconds: float) -> bool:
    """Tell whether a project has had so much more than its share that it should wait."""
    return long_term_debt < -slice_seconds


def interval_counts(elapsed: float, *, slice_seconds: float) -> bool:
    """Tell whether an accounting interval may be used: not too short, and not a sleep of the machine."""
    return 1.0 <= elapsed <= 2.0 * slice_seconds


def portions(shares: Sequence[float], counted: Sequence[bool]) -> list[float]:
    """Return each counting project's part of the shares of all that count; 0 for the others."""
    total = _in_turn([share for share, ok in zip(shares, counted, strict=True) if ok])
    if total <= 0.0:
        return [0.0] * len(shares)
    return [share / total if ok else 0.0 for share, ok in zip(shares, counted, strict=True)]


def adjust_long_term(debts: Sequence[float], *, parts: Sequence[float], wall: Sequence[float]) -> list[float]:
    """Return long-term debts after an interval in which tasks of project i were scheduled for ``wall[i]``
    seconds (summed over tasks).

    ``parts``: the :func:`portions` of the projects that could have run (runnable, contactable or downloading) or did.
    The mean stays zero.
    """
    return centre([debt + gain for debt, gain in zip(debts, gains(parts, wall), strict=True)])


def adjust_short_term(
    debts: Sequence[float], *, parts: Sequence[float], wall: Sequence[float], runnable: Sequence[bool]
) -> list[float]:
    """Return short-term debts after an interval; a project without a runnable job has none."""
    return centre_runnable(
        [debt + gain for debt, gain in zip(debts, gains(parts, wall), strict=True)], runnable
    )


def gains(parts: Sequence[float], wall: Sequence[float]) -> list[float]:
    """Return what each project gains in debt by an interval: its part of all wall time less what it had."""
    total = _in_turn(wall)
    return [part * total - used for part, used in zip(parts, wall, strict=True)]


def centre(debts: Sequence[float]) -> list[float]:
    """Return long-term debts with mean zero."""
    mean = _in_turn(debts) / len(debts) if debts else 0.0
    return [debt - mean for debt in debts]


def centre_runnable(debts: Sequence[float], runnable: Sequence[bool]) -> list[float]:
    """Return short-term debts with mean zero among the runnable projects, none for the others, within the
    limits.
    """
    number = total = 0.0
    for debt, ok in zip(debts, runnable, strict=True):
        if ok:
            number += 1.0
            total += debt
    mean = total / number if number else 0.0
    low, high = -MAX_SHORT_TERM_DEBT, MAX_SHORT_TERM_DEBT
    centred = [debt - mean if ok else 0.0 for debt, ok in zip(debts, runnable, strict=True)]
    if centred and low <= min(centred) and max(centred) <= high:
        return centred
    return [min(high, max(low, debt)) for debt in centred]


def _in_turn(values: Sequence[float]) -> float:
    """Add up one after the other: ``sum`` rounds differently from Python 3.12 on, and ties would be broken
    otherwise.
    """
    total = 0.0
    for value in values:
        total += value
    return total


def update_cpu_efficiency(efficiency: float, *, wall: float, cpu: float) -> float:
    """Return the running average of CPU time per second of scheduled wall time; weight e**-1 after a day of
    wall time.
    """
    if wall < 0.01:
        return efficiency
    weight = efficiency_weight(wall)
    return weight * efficiency + (1.0 - weight) * (cpu / wall)


def efficiency_weight(wall: float) -> float:
    """Return the weight that CPU efficiency keeps after so much scheduled wall time."""
    return math.exp(-wall / SECONDS_PER_DAY)
