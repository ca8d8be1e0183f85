"""Compiled: debts, and what a client of the published family expects (``debt_accounting``, ``published``)."""

from __future__ import annotations

import math
from typing import Any

from cobblestone.policy.client.core.values import ABSURD_GAP, TIME_CONSTANT
from cobblestone.policy.client.published.debts import MAX_SHORT_TERM_DEBT
from cobblestone.simulator.kernel.round_robin import run_down, run_down_2007
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
    on = min(1.0, max(0.01, available(w)))
    shares = projects["share"]
    sizes, cutoffs = numpy.empty(s.jobs), numpy.empty(s.jobs)
    places = numpy.empty(s.jobs if s.every_poll else len(projects), numpy.int64)
    if s.every_poll:
        for n in range(s.jobs):
            j = w.job[w.lists[JOBS, n]]
            places[n], sizes[n], cutoffs[n] = j.project, j.remaining, j.cutoff
        found = run_down_2007(places, sizes, cutoffs, s.core_now, s.ncpus, on, s.buffer_total, shares)
    else:
        total, buffer = total_of(shares, len(shares)), s.buffer_total
        _by_project(w, places, sizes, cutoffs)
        found = run_down(shares, places, sizes, cutoffs, s.core_now, s.ncpus, on, buffer, total)
    for i in range(len(projects)):
        p = projects[i]
        p.shortfall, p.dry_after, p.misses = found.shortfalls[i], found.dry_after[i], found.misses[i]
    s.shortfall, s.idle_after = found.shortfall, found.idle_after
    s.has_outcome = 1


@compiled
def _by_project(w: KernelWorld, places: Any, sizes: Any, cutoffs: Any) -> None:
    """Write down jobs project by project; ``places`` become the ends."""
    place = 0
    for i in range(len(places)):
        places[i] = place
        place += w.projects[i].queued
    for k in w.lists[JOBS, : w.host[0].jobs]:
        j = w.job[k]
        place = places[j.project]
        sizes[place], cutoffs[place] = j.remaining, j.cutoff
        places[j.project] = place + 1


@compiled
def total_share(w: KernelWorld) -> float:
    """Return the sum of all shares."""
    return total_of(w.projects["share"], len(w.projects))


@compiled
def learn(w: KernelWorld, k: int) -> None:
    """Learn from a finished job."""
    j = w.job[k]
    p = w.projects[j.project]
    if w.host[0].jc == 2 and not j.failed:
        p.dcf = update_dcf(p.dcf, j.size, j.raw)
