"""Weighted round-robin simulation of the published family: who will be late, and how much work is missing.

A fluid model, not a slice-by-slice one.  Every project runs its first ``ncpus`` jobs at once, each at a rate that follows from the project's
share; when a project runs dry the others speed up.  Source: BOINC's ``cpu_sched`` of 2007 (``rr_simulation``); Kondo et al. 2007, 2.1.

Known property, kept on purpose: the rates may add up to more than the host has, and a project's rate is recomputed only when some project
runs dry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: Share of the time to the computation deadline that may be used before a job counts as endangered.
PESSIMISM = 0.9


class ProjectQueue(NamedTuple):
    """One project's jobs that are (nearly) runnable, in arrival order."""

    share: float
    remaining: Sequence[float]  #: estimated CPU seconds left, per job
    cutoffs: Sequence[float]  #: computation deadline (absolute), per job


class RoundRobinOutcome(NamedTuple):
    """What the simulation found; lists are in the order of the queues."""

    misses: list[int]  #: jobs per project that would be late
    late: list[tuple[int, ...]]  #: which ones, by position in the queue
    shortfalls: list[float]  #: CPU seconds missing per project within the buffer
    shortfall: float  #: CPU seconds of idle processors within the buffer
    dry_after: list[float]  #: seconds until the project first uses less than its share of the processors
    idle_after: float  #: seconds until a processor first becomes idle


_NOBODY: tuple[int, ...] = ()


def computation_deadline(report_deadline: float, *, buffer_min: float, slice_seconds: float) -> float:
    """Return the time by which a job should be computed to be reported in time.

    The host may be disconnected for ``buffer_min`` seconds and its processor busy with another time slice.
    """
    return report_deadline - (buffer_min + slice_seconds)


def simulate_round_robin(
    queues: Sequence[ProjectQueue],
    *,
    now: float,
    ncpus: int,
    cpu_fraction: float,
    buffer_seconds: float,
    total_share: float,
) -> RoundRobinOutcome:
    """Run the queues down and report endangered jobs and shortfalls.

    ``cpu_fraction`` is the CPU time that a scheduled task gets per second of wall time; it is clamped to 0.01 ... 1.
    """
    fraction = min(1.0, max(0.01, cpu_fraction))
    count = len(queues)
    misses = [0] * count
    late = [_NOBODY] * count
    shortfalls = [0.0] * count
    dry_after = [0.0] * count
    dry_found = [False] * count
    # per project: rate per active job, progress of each active job, and the progress at which active jobs finish
    rates = [0.0] * count
    progress = [0.0] * count
    finish: list[list[tuple[float, int]]] = [[] for _ in range(count)]
    upcoming = [0] * count
    next_time = [float("inf")] * count
    wanted = [0.0] * count
    running_share = 0.0
    active = 0
    for i, (share, remaining, _) in enumerate(queues):
        wanted[i] = ncpus * share / total_share if total_share > 0 else float(ncpus)
        jobs = len(remaining)
        if jobs == 0:
            fair = share / total_share if total_share > 0 else 1.0
            shortfalls[i] = buffer_seconds * fraction * ncpus * fair
            dry_found[i] = True
            continue
        running_share += share
        first = min(ncpus, jobs)
        finish[i] = sorted([(remaining[k], k) for k in range(first)], reverse=True)
        upcoming[i] = first
        active += first
        if first < wanted[i]:
            dry_found[i] = True
    live = [i for i in range(count) if finish[i]]
    for i in live:
        rates[i] = _rate(queues[i].share, running_share, len(finish[i]), ncpus) * fraction
        next_time[i] = finish[i][-1][0] / rates[i]
    elapsed = 0.0
    shortfall = 0.0
    idle_after = 0.0 if active < ncpus else -1.0
    while live:
        finished_at = min(next_time)
        i = next_time.index(finished_at)
        step = finished_at - elapsed
        mine = finish[i]
        queue = queues[i]
        level, job = mine.pop()
        if finished_at > PESSIMISM * (queue.cutoffs[job] - now):
            misses[i] += 1
            late[i] = (*late[i], job)
        before = len(mine) + 1
        active_before = active
        progress[i] = level
        k = upcoming[i]
        if k < len(queue.remaining):
            upcoming[i] = k + 1
            entry = (level + queue.remaining[k], k)
            mine.append(entry)
            if len(mine) > 1 and entry[0] > mine[-2][0]:
                mine.sort(reverse=True)
        else:
            active -= 1
            if not dry_found[i] and len(mine) < wanted[i]:
                dry_found[i] = True
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
            if not mine:
                shortfalls[i] += (buffer_seconds - end) * wanted[i]
        elapsed += step
        if mine:
            next_time[i] = finished_at + (mine[-1][0] - level) / rates[i]
            continue
        live.remove(i)
        next_time[i] = float("inf")
        running_share -= queue.share
        for j in live:
            old = rates[j]
            new = _rate(queues[j].share, running_share, len(finish[j]), ncpus) * fraction
            if new != old:
                left = (next_time[j] - finished_at) * old
                rates[j] = new
                next_time[j] = finished_at + left / new
    if elapsed < buffer_seconds:
        shortfall += (buffer_seconds - elapsed) * ncpus
    return RoundRobinOutcome(misses, late, shortfalls, shortfall, dry_after, max(0.0, idle_after))


def _rate(share: float, running_share: float, active: int, ncpus: int) -> float:
    """Return the part of one processor that each active job of a project gets."""
    rate = share / running_share if running_share > 0 else 1.0
    if active < ncpus:
        rate *= ncpus / active
    return rate if rate < 1.0 else 1.0
