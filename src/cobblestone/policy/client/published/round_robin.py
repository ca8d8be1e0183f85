"""Weighted round-robin simulation of the published family: which jobs will be late, and how much work is missing.

A fluid model, not a slice-by-slice one.  Every project runs its first ``ncpus`` jobs at once, each at a
rate that follows from the project's share; when a project runs dry the others speed up.  Source: BOINC's
``cpu_sched`` of 2007 (``rr_simulation``); Kondo et al. 2007, 2.1.

Known property, kept on purpose: the rates may add up to more than the host has, and a project's rate is
recomputed only when some project runs dry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

#: Share of the time to the computation deadline that may be used before a job counts as endangered.
PESSIMISM = 0.9


class ProjectQueue(NamedTuple):
    """One project's jobs that are (nearly) runnable, in arrival order."""

    share: float
    remaining: Sequence[float]  #: estimated CPU seconds left, per job
    cutoffs: Sequence[float]  #: computation deadline (absolute), per job


class RoundRobinOutcome(NamedTuple):
    """The result of the simulation; lists are in the order of the queues."""

    misses: list[int]  #: jobs per project that would be late
    shortfalls: list[float]  #: CPU seconds missing per project within the buffer
    shortfall: float  #: CPU seconds of idle processors within the buffer
    dry_after: list[float]  #: seconds until the project first uses less than its share of the processors
    idle_after: float  #: seconds until a processor first becomes idle


def computation_deadline(report_deadline: float, *, buffer_min: float, slice_seconds: float) -> float:
    """Return the time by which a job should be computed to be reported in time.

    The host may be disconnected for ``buffer_min`` seconds and its processor busy with another time slice.
    """
    return report_deadline - (buffer_min + slice_seconds)


def simulate_round_robin(
    queues: Sequence[ProjectQueue],
    now: float,
    ncpus: int,
    cpu_fraction: float,
    buffer_seconds: float,
    total_share: float,
) -> RoundRobinOutcome:
    """Run the queues down and report endangered jobs and shortfalls.

    ``cpu_fraction`` is the CPU time that a scheduled task gets per second of wall time; it is clamped to
    0.01 ... 1.
    """
    fraction = min(1.0, max(0.01, cpu_fraction))
    shares = [each.share for each in queues]
    ends = list(accumulate([len(each.remaining) for each in queues]))
    remaining = [left for each in queues for left in each.remaining]
    cutoffs = [cutoff for each in queues for cutoff in each.cutoffs]
    return run_down(shares, ends, remaining, cutoffs, now, ncpus, fraction, buffer_seconds, total_share)


def run_down(  # noqa: C901, PLR0915  # one loop, which is compiled, too
    shares: Sequence[float],
    ends: Sequence[int],
    remaining: Sequence[float],
    cutoffs: Sequence[float],
    now: float,
    ncpus: int,
    fraction: float,
    buffer_seconds: float,
    total_share: float,
) -> RoundRobinOutcome:
    """Run down the jobs of projects, one project after the other, each up to its end.

    This function and those that it calls are also compiled as they are, with arrays instead of lists.
    """
    count = len(shares)
    size, upcoming = whole_numbers(count, 0), whole_numbers(count, 0)
    # at ``ncpus`` places for each project
    level, job = floats(count * ncpus), whole_numbers(count * ncpus, 0)
    active = line_up(ends, remaining, ncpus, size, upcoming, level, job)
    misses, tied = whole_numbers(count, 0), whole_numbers(count, 0)
    shortfalls, dry_after, wanted = floats(count), floats(count), floats(count)
    rates, next_time = floats(count), floats(count)
    running_share = 0.0
    for i in range(count):
        if size[i]:
            running_share += shares[i]
    for i in range(count):
        wanted[i] = ncpus * (shares[i] / total_share if total_share > 0 else 1.0)
        dry_after[i] = 0.0 if size[i] < wanted[i] else -1.0
        if size[i]:
            rates[i] = rate_of(shares[i], running_share, size[i], ncpus) * fraction
            next_time[i] = level[i * ncpus + size[i] - 1] / rates[i]
        else:
            shortfalls[i] = buffer_seconds * fraction * wanted[i]
            next_time[i] = math.inf
    shortfall = elapsed = 0.0
    idle_after = 0.0 if active < ncpus else -1.0
    while active:
        i = first_least(next_time)
        finished_at = next_time[i]
        before, active_before = size[i], active
        begin, last = i * ncpus, i * ncpus + before - 1
        done = level[last]
        if finished_at > PESSIMISM * (cutoffs[job[last]] - now):
            misses[i] += 1
        k = upcoming[i]
        if k < ends[i]:
            upcoming[i] = k + 1
            level[last], job[last] = done + remaining[k], k
            if last > begin and level[last] >= level[last - 1]:
                if level[last] == level[last - 1]:
                    tied[i] = 1  # the later job is to come first, but only when the others are sorted next
                else:
                    sort_in(level, job, begin, begin + 1 if tied[i] else last, last + 1)
                    tied[i] = 0
        else:
            size[i] -= 1
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
            next_time[i] = finished_at + (level[begin + size[i] - 1] - done) / rates[i]
        else:
            running_share -= shares[i]
            next_time[i] = math.inf
            speed_up(rates, next_time, size, shares, running_share, ncpus, fraction, finished_at)
    if elapsed < buffer_seconds:
        shortfall += (buffer_seconds - elapsed) * ncpus
    for i in range(count):
        dry_after[i] = max(0.0, dry_after[i])
    return RoundRobinOutcome(misses, shortfalls, shortfall, dry_after, max(0.0, idle_after))


def simulate_round_robin_2007(
    queue: Sequence[tuple[int, float, float]],
    now: float,
    ncpus: int,
    cpu_fraction: float,
    buffer_seconds: float,
    shares: Sequence[float],
) -> RoundRobinOutcome:
    """Return the same model, operation by operation as the client of 2007 did it; slower.

    ``queue`` holds (project, remaining CPU seconds, computation deadline) of all jobs in arrival order.  In
    loads whose projects are multiples of each other many jobs end at the same moment, and who of them is taken
    first, hence who is booked a shortfall, is decided by the rounding of this very order of operations.
    """
    owners = [owner for owner, _, _ in queue]
    sizes, cutoffs = [size for _, size, _ in queue], [cutoff for _, _, cutoff in queue]
    fraction = min(1.0, max(0.01, cpu_fraction))
    return run_down_2007(owners, sizes, cutoffs, now, ncpus, fraction, buffer_seconds, shares)


def run_down_2007(  # noqa: C901, PLR0915  # one loop, which is compiled, too: calls inside would make it slow
    owners: Sequence[int],
    sizes: Sequence[float],
    cutoffs: Sequence[float],
    now: float,
    ncpus: int,
    fraction: float,
    buffer_seconds: float,
    shares: Sequence[float],
) -> RoundRobinOutcome:
    """Run down a queue of jobs, each of a project.

    This function and those that it calls are also compiled as they are, with arrays instead of lists.
    """
    count, jobs = len(shares), len(owners)
    running, misses, waiting = whole_numbers(count, 0), whole_numbers(count, 0), whole_numbers(count, -1)
    follower, active, left = whole_numbers(jobs, -1), whole_numbers(jobs, 0), floats(jobs)
    number = line_up_2007(owners, ncpus, running, waiting, follower, active)
    for a in range(number):
        left[a] = sizes[active[a]]
    fair, rates, shortfalls, dry_after = floats(count), floats(count), floats(count), floats(count)
    total_share = running_share = 0.0
    for i in range(count):
        total_share += shares[i]
    for i in range(count):
        part = shares[i] / total_share if total_share else 1.0
        fair[i] = ncpus * part
        if running[i]:
            running_share += shares[i]
        else:
            shortfalls[i] = buffer_seconds * fraction * ncpus * part
        dry_after[i] = 0.0 if running[i] < fair[i] else -1.0
    set_rates(rates, running, shares, running_share, ncpus, fraction)
    idle_after = 0.0 if number < ncpus else -1.0
    end = now + buffer_seconds
    at = now
    shortfall = 0.0
    while number:
        delay, first = math.inf, 0
        for a in range(number):
            after = left[a] / rates[owners[active[a]]]
            if after < delay:
                delay, first = after, a
        k = active[first]
        i = owners[k]
        if at + delay - ((cutoffs[k] - now) * PESSIMISM + now) > 0:
            misses[i] += 1
        active_before, before = number, running[i]
        number -= 1
        for a in range(number):
            b = a if a < first else a + 1
            active[a], left[a] = active[b], left[b] - rates[owners[active[b]]] * delay
        k = waiting[i]
        if k >= 0:
            waiting[i] = follower[k]
            active[number], left[number] = k, sizes[k]
            number += 1
        else:
            running[i] -= 1
            if not running[i]:
                running_share -= shares[i]
                set_rates(rates, running, shares, running_share, ncpus, fraction)
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
    return RoundRobinOutcome(misses, shortfalls, shortfall, dry_after, max(0.0, idle_after))


def floats(count: int) -> list[float]:
    """Return so many zeros; compiled, an array of them."""
    return [0.0] * count


def whole_numbers(count: int, each: int) -> list[int]:
    """Return so many times a number; compiled, an array."""
    return [each] * count


def line_up_2007(
    owners: Sequence[int],
    ncpus: int,
    running: list[int],
    waiting: list[int],
    follower: list[int],
    active: list[int],
) -> int:
    """Start the first jobs of each project, and return how many.

    Lists of projects: how many run, and the first that waits; of jobs: the next one of the project that waits, those that run.
    """
    last = whole_numbers(len(running), -1)
    number = 0
    for k in range(len(owners)):
        i = owners[k]
        if running[i] < ncpus:
            running[i] += 1
            active[number] = k
            number += 1
            continue
        if waiting[i] < 0:
            waiting[i] = k
        else:
            follower[last[i]] = k
        last[i] = k
    return number


def set_rates(
    rates: list[float],
    running: Sequence[int],
    shares: Sequence[float],
    running_share: float,
    ncpus: int,
    fraction: float,
) -> None:
    """Work out how fast the jobs that run are, by project."""
    for i in range(len(shares)):
        if running[i]:
            rates[i] = rate_of(shares[i], running_share, running[i], ncpus) * fraction


def line_up(
    ends: Sequence[int],
    remaining: Sequence[float],
    ncpus: int,
    size: list[int],
    upcoming: list[int],
    level: list[float],
    job: list[int],
) -> int:
    """Start the first jobs of each project, and return how many.

    Lists of projects: how many run, and the first that does not yet; of places: the progress at which the job there ends, and
    its position.  Those of a project that end next come last.
    """
    active = first = 0
    for i in range(len(ends)):
        size[i] = min(ncpus, ends[i] - first)
        upcoming[i] = first + size[i]
        begin = i * ncpus
        for k in range(size[i]):
            level[begin + k], job[begin + k] = remaining[first + k], first + k
        sort_in(level, job, begin, begin + 1, begin + size[i])
        active += size[i]
        first = ends[i]
    return active


def sort_in(level: list[float], job: list[int], begin: int, first: int, end: int) -> None:
    """Sort entries in among those before them: descending levels, equal ones with the later job first."""
    for m in range(first, end):
        mine, number, k = level[m], job[m], m
        while k > begin and level[k - 1] <= mine and (level[k - 1] < mine or job[k - 1] < number):
            level[k], job[k] = level[k - 1], job[k - 1]
            k -= 1
        level[k], job[k] = mine, number


def first_least(values: list[float]) -> int:
    """Return the place of the least, the first of equal ones; compiled, by a function of arrays."""
    return values.index(min(values))


def speed_up(
    rates: list[float],
    next_time: list[float],
    size: Sequence[int],
    shares: Sequence[float],
    running_share: float,
    ncpus: int,
    fraction: float,
    now: float,
) -> None:
    """Let the other projects be faster, since one has run dry."""
    for j in range(len(shares)):
        if size[j]:
            old = rates[j]
            new = rate_of(shares[j], running_share, size[j], ncpus) * fraction
            if new != old:
                rates[j] = new
                next_time[j] = now + (next_time[j] - now) * old / new


def rate_of(share: float, running_share: float, active: int, ncpus: int) -> float:
    """Return the part of one processor that each active job of a project gets; never quite nothing, so that a
    project without a share ends too.
    """
    rate = max(share / running_share, 1e-9) if running_share > 0 else 1.0
    if active < ncpus:
        rate *= ncpus / active
    return rate if rate < 1.0 else 1.0


class RoundRobinBackends(NamedTuple):
    """Today's form and that of 2007."""

    queues: Callable[[Sequence[ProjectQueue], float, int, float, float, float], RoundRobinOutcome]
    steps: Callable[
        [Sequence[tuple[int, float, float]], float, int, float, float, Sequence[float]], RoundRobinOutcome
    ]


#: The policy's own functions.
PURE = RoundRobinBackends(simulate_round_robin, simulate_round_robin_2007)
