"""Compiled: debts, and what a client of the published family expects (``debt_accounting``, ``published``)."""

from __future__ import annotations

import math
from typing import Any

from cobblestone.policy.client.core.values import ABSURD_GAP, TIME_CONSTANT
from cobblestone.policy.client.published.debts import MAX_SHORT_TERM_DEBT
from cobblestone.simulator.kernel.round_robin import flow, steps
from cobblestone.simulator.kernel.world import (
    JOBS,
    RUNNING,
    KernelWorld,
    compiled,
    numpy,
    remaining_2007,
    total_of,
    update_cpu_efficiency,
    update_dcf,
)

# -- accounts ---------------------------------------------------------------------------------------------------------


@compiled
def _charge(w: KernelWorld) -> None:
    """Charge the projects for ``wall``, by who was ``pending_runnable`` and ``pending_contactable``."""
    projects = w.projects
    total = counted = able = 0.0
    for p in projects:
        p.counted = p.pending_runnable or p.pending_contactable or p.wall > 0.0
        total += p.wall
        if p.counted:
            counted += p.share
        if p.pending_runnable:
            able += p.share
    mean = number = ready = 0.0
    for p in projects:
        part = p.share / counted if p.counted and counted > 0.0 else 0.0
        p.long += part * total - p.wall
        mean += p.long
        part = p.share / able if p.pending_runnable and able > 0.0 else 0.0
        p.short += part * total - p.wall
        if p.pending_runnable:
            number += 1.0
            ready += p.short
    mean /= len(projects)
    ready = ready / number if number else 0.0
    for p in projects:
        p.long -= mean
        p.short = p.short - ready if p.pending_runnable else 0.0
        p.short = min(MAX_SHORT_TERM_DEBT, max(-MAX_SHORT_TERM_DEBT, p.short))


@compiled
def charge_pending(w: KernelWorld) -> None:
    """2007: charge what has been put off."""
    s = w.host[0]
    if s.has_pending:
        _charge(w)
        s.has_pending = 0
        for p in w.projects:
            p.wall = 0.0


@compiled
def charge_task(w: KernelWorld, k: int, seconds: float) -> None:
    """2007: charge a task with the time since the last look."""
    s, j = w.host[0], w.job[k]
    w.projects[j.project].latest += seconds
    s.total += seconds
    s.cpu += j.done - j.counted


@compiled
def settle(w: KernelWorld) -> None:
    """Settle the accounts up to now."""
    s = w.host[0]
    if s.core_now == s.settled_now:
        return
    s.settled_now = s.core_now
    if s.polled:
        _settle_polled(w)
    else:
        _settle_exactly(w)


@compiled
def _settle_exactly(w: KernelWorld) -> None:
    s = w.host[0]
    total = total_of(w.projects["wall"], len(w.projects))
    if total < 1.0:
        return
    if s.by_efficiency:
        s.efficiency = update_cpu_efficiency(s.efficiency, total, total - s.unused)
        s.unused = 0.0
    if len(w.projects) > 1:
        for p in w.projects:
            p.pending_runnable, p.pending_contactable = p.queued > 0, p.not_before <= s.core_now
        _charge(w)
    for p in w.projects:
        p.wall = 0.0


@compiled
def _settle_polled(w: KernelWorld) -> None:
    s = w.host[0]
    seconds = s.core_now - s.settled_at
    if seconds < 1.0:
        return
    if seconds <= 2.0 * s.slice:
        for k in w.lists[RUNNING, : s.running]:
            charge_task(w, k, seconds)
        s.efficiency = update_cpu_efficiency(s.efficiency, s.total, s.cpu)
        if len(w.projects) > 1:
            same = s.has_pending
            for p in w.projects:
                p.runnable, p.contactable = p.queued > 0, p.not_before <= s.core_now
                if p.runnable != p.pending_runnable or p.contactable != p.pending_contactable:
                    same = 0
            if not same:
                charge_pending(w)
                s.has_pending = 1
                for p in w.projects:
                    p.pending_runnable, p.pending_contactable = p.runnable, p.contactable
            for p in w.projects:
                p.wall += p.latest
            if s.every_poll:
                charge_pending(w)
    for k in w.lists[RUNNING, : s.running]:
        w.job[k].counted = w.job[k].done
    s.settled_at = s.core_now
    s.total = s.cpu = 0.0
    for p in w.projects:
        p.latest = 0.0


# -- what is expected -------------------------------------------------------------------------------------------------


@compiled
def fraction_on(w: KernelWorld, now: float) -> float:
    """Return the part of the time for which the host is on, as learned."""
    s = w.host[0]
    if s.on_fraction == 1.0 or now - s.on_at <= 0.0:
        return s.on_fraction
    return 1.0 - (1.0 - s.on_fraction) * math.exp(-(now - s.on_at) / TIME_CONSTANT)


@compiled
def learn_gap(w: KernelWorld, seconds: float) -> None:
    """Record that the host was off for this long, until now."""
    s = w.host[0]
    on = fraction_on(w, s.core_now - seconds)
    s.on_fraction = on if seconds > ABSURD_GAP else on * math.exp(-seconds / TIME_CONSTANT)
    s.on_at = s.core_now


@compiled
def available(w: KernelWorld) -> float:
    """Return the CPU seconds that a task is expected to get per second."""
    s = w.host[0]
    if s.statistics:
        return fraction_on(w, s.core_now)
    return s.efficiency if s.by_efficiency else s.told


@compiled
def estimate(w: KernelWorld) -> None:
    """Update the remaining times of projects whose tasks ran or whose queue changed."""
    s = w.host[0]
    for k in w.lists[RUNNING, : s.running]:
        w.projects[w.job[k].project].outdated = 1
    for k in w.lists[JOBS, : s.jobs]:
        j = w.job[k]
        p = w.projects[j.project]
        if not p.outdated:
            continue
        whole = j.raw * p.dcf
        j.remaining = remaining_2007(whole, j.done, max(j.fraction, 0.0)) if j.done > 0.0 else whole
    for p in w.projects:
        p.outdated = 0
    for k in w.lists[RUNNING, : s.running]:
        w.projects[w.job[k].project].outdated = 1


@compiled
def look_ahead(w: KernelWorld) -> None:
    """Run the round-robin simulation, unless nothing has happened since."""
    s, projects = w.host[0], w.projects
    if s.has_outcome:
        return
    estimate(w)
    count = len(projects)
    on = min(1.0, max(0.01, available(w)))
    if s.every_poll:
        values = numpy.empty(count + 3 * s.jobs)
        for i in range(count):
            values[i] = projects[i].share
        at = count
        for k in w.lists[JOBS, : s.jobs]:
            j = w.job[k]
            values[at], values[at + 1], values[at + 2] = j.project, j.remaining, j.cutoff
            at += 3
        found = steps(values, count, s.core_now, s.ncpus, on, s.buffer_total)
    else:
        found = flow(_queues(w), count, s.core_now, s.ncpus, on, s.buffer_total, total_share(w))
    for i in range(count):
        p = projects[i]
        p.shortfall, p.dry_after, p.misses = found[i], found[count + i], int(found[2 * count + i])
    s.shortfall, s.idle_after = found[3 * count], found[3 * count + 1]
    s.has_outcome = 1


@compiled
def total_share(w: KernelWorld) -> float:
    """Return the sum of all shares."""
    total = 0.0
    for p in w.projects:
        total += p.share
    return total


@compiled
def _queues(w: KernelWorld) -> Any:
    s, projects = w.host[0], w.projects
    count, jobs = len(projects), s.jobs
    values = numpy.empty(2 * (count + jobs))
    places = numpy.empty(count, numpy.int64)
    at = 2 * count
    for i in range(count):
        values[i], values[count + i], places[i] = projects[i].queued, projects[i].share, at
        at += projects[i].queued
    for k in w.lists[JOBS, :jobs]:
        j = w.job[k]
        place = places[j.project]
        values[place], values[place + jobs] = j.remaining, j.cutoff
        places[j.project] = place + 1
    return values


@compiled
def learn(w: KernelWorld, k: int) -> None:
    """Learn from a finished job."""
    j = w.job[k]
    p = w.projects[j.project]
    if w.host[0].jc == 2 and not j.failed:
        p.dcf = update_dcf(p.dcf, j.size, j.raw)
