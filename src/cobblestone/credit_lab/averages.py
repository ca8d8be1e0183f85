"""Compiled kernels beside the credit systems: recent averages, and which lines of a log belong together."""

from __future__ import annotations

import math

from cobblestone.credit_lab.compilation import compiled
from cobblestone.credit_lab.joblog import INVALID, VALID
from cobblestone.credit_lab.rows import Flags, Floats, Integers


@compiled
def replay_averages(
    place: Integers,
    credit: Floats,
    work_start: Floats,
    time: Floats,
    half_life: float,
    largest: float,
    totals: Floats,
    values: Floats,
    times: Floats,
) -> None:
    """Totals and recent averages of the hosts (users, teams, versions) at ``place``; -1 is nobody."""
    rate = math.log(2.0) / half_life
    for i in range(place.size):
        k = place[i]
        if k < 0:
            continue
        amount = credit[i]
        now = time[i] if math.isfinite(time[i]) else times[k]
        first = times[k] == 0.0 and amount > 0.0
        seconds = now - (work_start[i] if first else times[k])
        if not 0.0 < seconds < math.inf:
            seconds = 0.0
        weight = math.exp(-seconds * rate)
        if 1.0 - weight <= 1e-6:
            value = values[k] * weight + rate * 86400.0 * amount
        elif first:
            value = amount / (seconds / 86400.0)
        else:
            value = values[k] * weight + (1.0 - weight) * amount / (seconds / 86400.0)
        values[k] = min(value, largest) if value > 0.0 else 0.0
        times[k] = now
        totals[k] = min(totals[k] + amount, largest)


@compiled
def group_lines(
    workunit: Integers, marked: Integers, outcome: Integers, seen: Flags, start: Integers, late: Flags
) -> int:
    """Fill in the first lines of workunits, stragglers and other events; returns how many there are."""
    count = 0
    i = 0
    while i < workunit.size:
        k = workunit[i]
        end = i + 1
        judged = outcome[i] <= INVALID
        is_late = judged and (marked[i] != 0 or seen[k])
        granted = outcome[i] == VALID
        while (
            judged
            and not is_late
            and end < workunit.size
            and workunit[end] == k
            and outcome[end] <= INVALID
            and marked[end] == 0
        ):
            granted = granted or outcome[end] == VALID
            end += 1
        if granted:
            seen[k] = True
        start[count], late[count] = i, is_late
        count += 1
        i = end
    start[count] = workunit.size
    return count
