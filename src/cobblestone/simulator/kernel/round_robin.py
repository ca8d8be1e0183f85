"""Compiled twins of the two round-robin simulations of the published family, operation by operation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cobblestone.policy.client.published.round_robin import PESSIMISM

numpy: Any = import_module("numpy")  # Any: Numba has no types
numba: Any = import_module("numba")
_inline: Any = numba.njit(forceinline=True, error_model="numpy")
_cached: Any = numba.njit(
    cache=True, error_model="numpy"
)  #: once per machine, with every rounding as written


@_inline
def _rate(share: float, running_share: float, active: int, ncpus: int) -> float:
    rate = max(share / running_share, 1e-9) if running_share > 0 else 1.0
    if active < ncpus:
        rate *= ncpus / active
    return rate if rate < 1.0 else 1.0


@_inline
def _sort_in(level: Any, job: Any, k: int) -> None:
    """Sift the entry ``k`` to its place among those before it: descending levels, ties with the later job first."""
    while k and (level[k] > level[k - 1] or (level[k] == level[k - 1] and job[k] > job[k - 1])):
        level[k], level[k - 1] = level[k - 1], level[k]
        job[k], job[k - 1] = job[k - 1], job[k]
        k -= 1


@_cached
def flow(  # noqa: C901, PLR0915  # one compiled loop; names as in the pure twin
    values: Any, count: int, now: float, ncpus: int, fraction: float, buffer_seconds: float, total_share: float
) -> Any:  # fmt: skip
    """Simulate; ``values``: numbers of jobs of ``count`` projects, their shares, and of all jobs what is left and the cutoffs.

    Returns the projects' shortfalls, when they are dry and misses, the shortfall, and when a processor is idle.
    """
    jobs = (len(values) - 2 * count) // 2
    counts = values[:count].astype(numpy.int64)
    share, remaining = values[count : 2 * count], values[2 * count : 2 * count + jobs]
    cutoffs = values[2 * count + jobs :]
    first = numpy.zeros(count, numpy.int64)  # position of the project's first job in the flat lists
    upcoming = numpy.zeros(count, numpy.int64)
    level = numpy.zeros((count, ncpus))
    job = numpy.zeros((count, ncpus), numpy.int64)
    size = numpy.zeros(count, numpy.int64)
    found = numpy.zeros(3 * count + 2)
    shortfalls, dry_after, misses = found[:count], found[count : 2 * count], found[2 * count : 3 * count]
    wanted = numpy.zeros(count)
    rates = numpy.zeros(count)
    next_time = numpy.full(count, numpy.inf)
    running_share = 0.0
    live = active = position = 0
    for i in range(count):
        first[i] = position
        position += counts[i]
        wanted[i] = ncpus * (share[i] / total_share if total_share > 0 else 1.0)
        upcoming[i] = min(ncpus, counts[i])
        dry_after[i] = 0.0 if upcoming[i] < wanted[i] else -1.0
        for k in range(upcoming[i]):
            level[i, k], job[i, k] = remaining[first[i] + k], k
            _sort_in(level[i], job[i], k)
        size[i] = upcoming[i]
        if size[i]:
            live += 1
            active += size[i]
            running_share += share[i]
    for i in range(count):
        if size[i]:
            rates[i] = _rate(share[i], running_share, size[i], ncpus) * fraction
            next_time[i] = level[i, size[i] - 1] / rates[i]
        else:
            shortfalls[i] = buffer_seconds * fraction * wanted[i]
    shortfall = elapsed = 0.0
    idle_after = 0.0 if active < ncpus else -1.0
    while live:
        i = numpy.argmin(next_time)
        finished_at = next_time[i]
        before, active_before = size[i], active
        size[i] -= 1
        done, which = level[i, size[i]], job[i, size[i]]
        if finished_at > PESSIMISM * (cutoffs[first[i] + which] - now):
            misses[i] += 1
        if upcoming[i] < counts[i]:
            k = upcoming[i]
            upcoming[i] = k + 1
            last = size[i]
            level[i, last], job[i, last] = done + remaining[first[i] + k], k
            size[i] += 1
            if last and level[i, last] > level[i, last - 1]:
                for m in range(1, size[i]):
                    _sort_in(level[i], job[i], m)
        else:
            active -= 1
            if dry_after[i] < 0.0 and size[i] < wanted[i]:
                dry_after[i] = finished_at
            if idle_after < 0.0 and active < ncpus:
                idle_after = finished_at
        if elapsed < buffer_seconds:
            end = finished_at if finished_at < buffer_seconds else buffer_seconds
            length = end - elapsed
            if active_before < ncpus:
                shortfall += length * (ncpus - active_before)
            if before < wanted[i]:
                shortfalls[i] += length * (wanted[i] - before)
            if not size[i]:
                shortfalls[i] += (buffer_seconds - end) * wanted[i]
        elapsed = finished_at
        if size[i]:
            next_time[i] = finished_at + (level[i, size[i] - 1] - done) / rates[i]
            continue
        live -= 1
        next_time[i] = numpy.inf
        running_share -= share[i]
        for j in range(count):
            if size[j]:
                old = rates[j]
                new = _rate(share[j], running_share, size[j], ncpus) * fraction
                if new != old:
                    rates[j] = new
                    next_time[j] = finished_at + (next_time[j] - finished_at) * old / new
    if elapsed < buffer_seconds:
        shortfall += (buffer_seconds - elapsed) * ncpus
    for i in range(count):
        dry_after[i] = max(0.0, dry_after[i])
    found[3 * count], found[3 * count + 1] = shortfall, max(0.0, idle_after)
    return found


@_cached
def steps(  # noqa: C901, PLR0915  # one compiled loop
    values: Any, count: int, now: float, ncpus: int, fraction: float, buffer_seconds: float
) -> Any:
    """As :func:`flow`, of 2007; ``values``: the shares of ``count`` projects; of each job its project, what is left, cutoff."""
    jobs = (len(values) - count) // 3
    share = values[:count]
    queue = values[count:].reshape((jobs, 3))
    total_share = 0.0
    for i in range(count):
        total_share += share[i]
    running = numpy.zeros(count, numpy.int64)
    active = numpy.zeros(jobs, numpy.int64)
    left = numpy.zeros(jobs)
    follower = numpy.full(jobs, -1)  # the project's next job that is not active yet
    waiting = numpy.full(count, -1)  # the first of them
    last = numpy.full(count, -1)
    number = 0
    for k in range(jobs):
        i = int(queue[k, 0])
        if running[i] < ncpus:
            running[i] += 1
            active[number], left[number] = k, queue[k, 1]
            number += 1
        elif waiting[i] < 0:
            waiting[i] = last[i] = k
        else:
            follower[last[i]] = k
            last[i] = k
    found = numpy.zeros(3 * count + 2)
    shortfalls, dry_after, misses = found[:count], found[count : 2 * count], found[2 * count : 3 * count]
    fair = numpy.zeros(count)
    rates = numpy.ones(count)
    running_share = 0.0
    for i in range(count):
        part = share[i] / total_share if total_share else 1.0
        fair[i] = ncpus * part
        if running[i]:
            running_share += share[i]
        else:
            shortfalls[i] = buffer_seconds * fraction * ncpus * part
        dry_after[i] = 0.0 if running[i] < fair[i] else -1.0
    for i in range(count):
        if running[i]:
            rates[i] = _rate(share[i], running_share, running[i], ncpus) * fraction
    idle_after = 0.0 if number < ncpus else -1.0
    end = now + buffer_seconds
    at = now
    shortfall = 0.0
    while number:
        delay = numpy.inf
        first = 0
        for a in range(number):
            after = left[a] / rates[int(queue[active[a], 0])]
            if after < delay:
                delay, first = after, a
        k = active[first]
        i = int(queue[k, 0])
        if at + delay - ((queue[k, 2] - now) * PESSIMISM + now) > 0:
            misses[i] += 1
        active_before, before = number, running[i]
        number -= 1
        for a in range(number):
            b = a if a < first else a + 1
            done = rates[int(queue[active[b], 0])] * delay
            active[a], left[a] = active[b], left[b] - done
        if waiting[i] >= 0:
            k = waiting[i]
            waiting[i] = follower[k]
            active[number], left[number] = k, queue[k, 1]
            number += 1
        else:
            running[i] -= 1
            if not running[i]:
                running_share -= share[i]
                for j in range(count):
                    if running[j]:
                        rates[j] = _rate(share[j], running_share, running[j], ncpus) * fraction
        if idle_after < 0.0 and number < ncpus:
            idle_after = at + delay - now
        if dry_after[i] < 0.0 and running[i] < fair[i]:
            dry_after[i] = at + delay - now
        if at < end:
            stop = min(at + delay, end)
            length = stop - at
            if active_before < ncpus:
                shortfall += length * (ncpus - active_before)
            if before < fair[i]:
                shortfalls[i] += length * (fair[i] - before)
            if stop < end and not running[i]:
                shortfalls[i] += (end - stop) * fair[i]
        at += delay
    if at < end:
        shortfall += (end - at) * ncpus
    for i in range(count):
        dry_after[i] = max(0.0, dry_after[i])
    found[3 * count], found[3 * count + 1] = shortfall, max(0.0, idle_after)
    return found
