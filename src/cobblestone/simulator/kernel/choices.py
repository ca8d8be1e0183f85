"""Compiled: run list, tasks to start and to preempt, and the project to ask for work."""

from __future__ import annotations

import math
from typing import Any

from cobblestone.policy.client.core.values import RPC_BACKOFF_MAX, RPC_BACKOFF_MIN, TIME_CONSTANT
from cobblestone.policy.client.estimates import DCF_ENDANGERED, DCF_TRUSTED
from cobblestone.policy.client.published.round_robin import PESSIMISM
from cobblestone.policy.client.published.run_list import RECENT_CHECKPOINT
from cobblestone.policy.client.published.work_fetch import FETCH_PERIOD
from cobblestone.simulator.kernel.accounts import available, charge_pending, total_share
from cobblestone.simulator.kernel.world import (
    GIVEN_WAY,
    JOBS,
    RUNNING,
    STARTED,
    WANTED,
    KernelWorld,
    compiled,
    numpy,
    take_out,
    wait_number,
)

DONT_NEED, OK, NEED, NEED_IMMEDIATELY = 0, 1, 2, 3
_LOW, _HIGH = DCF_TRUSTED

# -- what runs --------------------------------------------------------------------------------------------------------


@compiled
def _endangered(w: KernelWorld, k: int) -> bool:
    p = w.projects[w.job[k].project]
    return p.left != 0 or p.dcf >= DCF_ENDANGERED


@compiled
def _sooner(w: KernelWorld, a: int, b: int) -> bool:
    """Return whether the first of two jobs runs before the other by deadline."""
    x, y = w.job[a], w.job[b]
    if x.deadline != y.deadline:
        return x.deadline < y.deadline
    if not w.host[0].ties and (x.start_order == 0) != (y.start_order == 0):
        return x.start_order > 0
    return x.remaining < y.remaining


@compiled
def _take_endangered(w: KernelWorld) -> None:
    s = w.host[0]
    while s.wanted < s.ncpus:
        best = -1
        for k in w.lists[JOBS, : s.jobs]:
            if not w.job[k].chosen and _endangered(w, k) and (best < 0 or _sooner(w, k, best)):
                best = k
        if best < 0:
            return
        p = w.projects[w.job[best].project]
        p.left -= 1
        p.debt -= p.pay
        w.job[best].chosen = 1
        w.lists[WANTED, s.wanted] = best
        s.wanted += 1


@compiled
def _ahead(w: KernelWorld, a: int, b: int) -> bool:
    """Return whether the first of two jobs of a project is its candidate: running, then preempted, then by arrival."""
    x, y = w.job[a], w.job[b]
    rank_x = 0 if x.running else (1 if x.start_order else 2)
    rank_y = 0 if y.running else (1 if y.start_order else 2)
    if rank_x != rank_y:
        return rank_x < rank_y
    return rank_x < 2 and x.start_order < y.start_order


@compiled
def make_run_list(w: KernelWorld) -> None:
    """Fill the list of jobs that ought to run."""
    s, projects = w.host[0], w.projects
    s.wanted = 0
    running_share = 0.0
    trouble = False
    for p in projects:
        if p.queued:
            running_share += p.share
        trouble = trouble or p.misses != 0 or p.dcf >= DCF_ENDANGERED
    for p in projects:
        p.left, p.debt = p.misses, p.short
        p.pay = p.share / running_share * s.slice if running_share > 0 else 0.0
    for k in w.lists[JOBS, : s.jobs]:
        w.job[k].chosen = 0
    if s.cs == 2 and trouble:
        _take_endangered(w)
    while s.wanted < s.ncpus:
        for p in projects:
            p.best = -1
        for k in w.lists[JOBS, : s.jobs]:
            p = projects[w.job[k].project]
            if not w.job[k].chosen and (p.best < 0 or _ahead(w, k, p.best)):
                p.best = k
        best = -1
        for i in range(len(projects)):
            if projects[i].best >= 0 and (best < 0 or projects[i].debt > projects[best].debt):
                best = i
        if best < 0:
            return
        k = projects[best].best
        w.job[k].chosen = 1
        projects[best].debt -= projects[best].pay
        w.lists[WANTED, s.wanted] = k
        s.wanted += 1


@compiled
def list_stands(w: KernelWorld) -> float:
    """Return until when no deadline can change the run list (`run_list_life.stands_2007`)."""
    s, p = w.host[0], w.projects[0]
    if not s.plain or s.by_efficiency or len(w.projects) != 1 or s.running != min(s.ncpus, s.jobs):
        return 0.0
    if s.cs == 1 or _first_deadlines_run(w):
        return numpy.inf
    if p.misses or p.dcf >= DCF_ENDANGERED:
        return 0.0
    part = available(w)
    calm = _calm(w, min(1.0, max(0.01, part)))
    if calm <= 0.0:
        return calm
    return _calm(w, min(1.0, max(0.01, part * math.exp(-calm / TIME_CONSTANT))))


@compiled
def _first_deadlines_run(w: KernelWorld) -> bool:
    s = w.host[0]
    last = numpy.inf if not s.running else -numpy.inf
    for k in w.lists[RUNNING, : s.running]:
        last = max(last, w.job[k].deadline)
    for k in w.lists[JOBS, : s.jobs]:
        j = w.job[k]
        if not j.running and (j.deadline < last or (j.deadline == last and j.start_order > 0)):
            return False
    return True


@compiled
def _calm(w: KernelWorld, speed: float) -> float:
    s = w.host[0]
    before = steepness = 0.0
    calm = numpy.inf
    for n in range(s.jobs):
        j = w.job[w.lists[JOBS, n]]
        needs, growth = j.remaining, 0.0
        if j.running:
            growth = max(0.0, 1.0 - max(j.fraction, 0.0))
            needs = max(needs, growth * (j.done + growth * (j.raw * w.projects[0].dcf)))
        waits = before / s.ncpus if n >= s.ncpus else 0.0
        slows = steepness / s.ncpus if n >= s.ncpus else 0.0
        spare = PESSIMISM * (j.cutoff - s.core_now) - (waits + needs) / speed
        calm = min(calm, spare / (1.0 + (slows + growth) / speed))
        before += needs
        steepness += growth
    return calm


# -- work fetch -------------------------------------------------------------------------------------------------------


@compiled
def look_at_projects(w: KernelWorld) -> None:
    """Update the inputs of work fetch."""
    s = w.host[0]
    charge_pending(w)
    for p in w.projects:
        p.contactable = p.not_before <= s.core_now
        p.runs = 0
    for k in w.lists[RUNNING, : s.running]:
        w.projects[w.job[k].project].runs += 1


@compiled
def fetch_by_queue(w: KernelWorld) -> float:
    """WF1; return the seconds until the next check."""
    s = w.host[0]
    total = total_share(w)
    seconds = numpy.zeros(len(w.projects))
    for k in w.lists[JOBS, : s.jobs]:
        seconds[w.job[k].project] += w.job[k].remaining
    best = -1
    best_score = -numpy.inf
    wait = s.slice
    for i in range(len(w.projects)):
        p = w.projects[i]
        fair = p.share / total if total > 0 else 1.0
        queued = seconds[i]
        target = s.ncpus * s.buffer_sum * fair
        need = target - queued
        if p.runs:
            wait = min(wait, 0.9 * (queued - target) / p.runs)
        if need <= 0.0 and not p.queued and p.share > 0.0:
            need = 1.0
        p.others = max(0.0, need)
        if need > 0.0 and p.contactable and p.long + p.shortfall >= best_score:
            best, best_score = i, p.long + p.shortfall
    s.plan, s.plan_seconds = best, 0.0
    if best >= 0:
        s.plan_seconds = w.projects[best].others
        w.projects[best].others = 0.0
    return max(FETCH_PERIOD, wait)


@compiled
def _urgency(w: KernelWorld) -> int:
    s = w.host[0]
    if s.shortfall <= 0.0:
        wanted = False
        for p in w.projects:
            if p.misses:
                return DONT_NEED
            wanted = wanted or (p.shortfall > 0.0 and p.long > -s.slice)
        if not wanted:
            return DONT_NEED
    if s.jobs < s.ncpus:
        return NEED_IMMEDIATELY
    return NEED if s.shortfall > 0.0 else OK


@compiled
def fetch_by_shortfall(w: KernelWorld) -> None:
    """WF2."""
    s = w.host[0]
    s.plan, s.plan_seconds = -1, 0.0
    urgency = _urgency(w)
    if urgency == DONT_NEED:
        return
    best = -1
    top_share = top_calm = top_fit = False
    top_score = top_missing = 0.0
    for i in range(len(w.projects)):
        p = w.projects[i]
        missing = p.shortfall
        trouble = p.trouble if s.quantum else p.misses
        overworked = p.long < -s.slice
        if not p.contactable or (p.share <= 0.0 and urgency != NEED_IMMEDIATELY):
            continue
        if trouble >= s.ncpus and urgency != NEED_IMMEDIATELY:
            continue
        if urgency < NEED and (overworked or missing == 0.0):
            continue
        if not _LOW <= p.dcf <= _HIGH:
            if p.queued:
                continue
            missing = 1.0
        has, calm, fit, score = p.share > 0.0, trouble == 0, not overworked, p.long + missing
        if s.order_dependent:
            better = has >= top_share and calm >= top_calm and fit >= top_fit and score >= top_score
        elif has != top_share:
            better = has
        elif calm != top_calm:
            better = calm
        elif fit != top_fit:
            better = fit
        else:
            better = score >= top_score
        if best < 0 or better:
            best, top_missing = i, missing
            top_share, top_calm, top_fit, top_score = has, calm, fit, score
    if best >= 0:
        s.plan, s.plan_seconds = best, _request(w, best, top_missing)


@compiled
def _request(w: KernelWorld, best: int, missing: float) -> float:
    s = w.host[0]
    fetchable = 0.0
    for p in w.projects:
        if p.contactable and not p.long < -s.slice:
            fetchable += p.share
    factor = w.projects[best].share / fetchable if fetchable > 0 else 1.0
    seconds = max(missing, s.shortfall * factor)
    if seconds <= 0.0:
        return 1.0
    return min(seconds, 1.01 * s.buffer_total * s.ncpus)


@compiled
def next_look(w: KernelWorld) -> float:
    """Return the seconds after which WF2 may find something (`work_fetch.next_fetch_check`)."""
    s, projects = w.host[0], w.projects
    speed = min(1.0, max(0.01, available(w)))
    troubled = False
    total = 0.0
    for p in projects:
        troubled = troubled or p.misses != 0
        total += p.share
    pause = s.slice
    if s.shortfall > 0.0:
        return pause if troubled else FETCH_PERIOD
    caution = 0.9 if len(projects) == 1 else 0.5
    wait = (s.idle_after - s.buffer_total) * caution * speed
    if troubled:
        return max(FETCH_PERIOD, min(wait, pause))
    for p in projects:
        dry = p.dry_after - s.buffer_total
        if p.long <= -s.slice:
            pace = s.ncpus * p.share / total if total > 0 else 1.0
            owed = (-s.slice - p.long) / pace if pace > 0 else s.buffer_total
            dry = owed if owed > dry else dry
        elif dry <= 0.0 and p.shortfall == 0.0:
            dry = s.slice
        elif dry > 0.0 and p.runs and p.share > 0:
            pace = p.runs * total / (p.share * s.ncpus * speed)
            dry = caution * dry / pace if pace > 1.0 else caution * dry
        else:
            dry *= 0.5
        wait = min(wait, dry)
    return max(wait, FETCH_PERIOD)


@compiled
def back_off(w: KernelWorld, i: int) -> None:
    """Wait before the next contact with a project."""
    p = w.projects[i]
    p.failures += 1
    top = min(RPC_BACKOFF_MAX, math.exp(min(p.failures, 20)))
    wait = RPC_BACKOFF_MIN
    if top > RPC_BACKOFF_MIN:
        wait = wait_number(w) * (top - RPC_BACKOFF_MIN) + RPC_BACKOFF_MIN
    p.not_before = w.host[0].core_now + wait


# -- who gives way ----------------------------------------------------------------------------------------------------


@compiled
def _gives_way_later(w: KernelWorld, a: int, b: int) -> bool:
    """2007: return whether the first of two tasks is below the other in the upside-down heap."""
    s, x, y = w.host[0], w.job[a], w.job[b]
    trouble_x, trouble_y = w.projects[x.project].left > 0, w.projects[y.project].left > 0
    if trouble_x != trouble_y:
        return trouble_y
    start_x = 0.0 if trouble_x else x.run_start - s.core_now
    start_y = 0.0 if trouble_y else y.run_start - s.core_now
    if start_x != start_y:
        return start_x < start_y
    return -x.deadline < -y.deadline


@compiled
def _place(w: KernelWorld, heap: Any, count: int, hole: int, job: int) -> None:
    top = hole
    while 2 * hole + 2 <= count:
        child = 2 * hole + 2
        if child == count or _gives_way_later(w, heap[child], heap[child - 1]):
            child -= 1
        heap[hole] = heap[child]
        hole = child
    while hole > top and _gives_way_later(w, heap[(hole - 1) // 2], job):
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = job


@compiled
def _build(w: KernelWorld, heap: Any, count: int) -> None:
    for k in range(count // 2 - 1, -1, -1):
        _place(w, heap, count, k, heap[k])


@compiled
def _top(w: KernelWorld, heap: Any, count: int) -> int:
    """Return the place of the next task to preempt."""
    s = w.host[0]
    if s.inverted:
        return 0
    best = 0
    for k in range(1, count):
        x, y = w.job[heap[k]], w.job[heap[best]]
        calm_x, calm_y = w.projects[x.project].left == 0, w.projects[y.project].left == 0
        if calm_x != calm_y:
            better = calm_x
        else:
            had_x = s.core_now - x.run_start if calm_x else 0.0
            had_y = s.core_now - y.run_start if calm_y else 0.0
            better = had_x > had_y if had_x != had_y else x.deadline > y.deadline
        if better:
            best = k
    return best


@compiled
def _pop(w: KernelWorld, heap: Any, count: int, at: int) -> int:
    """Remove the task at this place; return how many are left."""
    if not w.host[0].inverted:
        for k in range(at, count - 1):
            heap[k] = heap[k + 1]
    elif count > 1:
        _place(w, heap, count - 1, 0, heap[count - 1])
    return count - 1


@compiled
def _line_up(w: KernelWorld, heap: Any) -> int:
    """Sort the running tasks in order of preemption; return how many there are."""
    s = w.host[0]
    count = 0
    for k in w.lists[RUNNING, : s.running]:
        wanted = False
        for other in w.lists[WANTED, : s.wanted]:
            wanted = wanted or other == k
        if s.inverted or not wanted:
            place = count
            while place and w.job[heap[place - 1]].start_order > w.job[k].start_order:
                heap[place] = heap[place - 1]
                place -= 1
            heap[place] = k
            count += 1
    if s.inverted:
        _build(w, heap, count)
    return count


@compiled
def choose_changes(w: KernelWorld) -> None:
    """Fill the lists of tasks to start and to preempt."""
    s, now = w.host[0], w.host[0].core_now
    s.started = s.given_way = 0
    for p in w.projects:
        p.left = p.misses
    fresh = True
    for k in w.lists[RUNNING, : s.running]:
        fresh = fresh and w.job[k].checked == now
    heap = numpy.empty(s.running + 1, numpy.int64)
    count = _line_up(w, heap)
    used = s.running
    for k in w.lists[WANTED, : s.wanted]:
        j = w.job[k]
        gone = False
        for other in w.lists[GIVEN_WAY, : s.given_way]:
            gone = gone or other == k
        if j.running and not gone:
            if s.inverted:
                left = take_out(heap, count, k)
                if left < count:
                    count = left
                    _build(w, heap, count)
            continue
        if used >= s.ncpus and count:
            at = _top(w, heap, count)
            victim = w.job[heap[at]]
            slice_end = victim.run_start + s.slice
            p = w.projects[j.project]
            if not p.left and not (now >= slice_end and (fresh or now - victim.checked < RECENT_CHECKPOINT)):
                s.look_again = min(s.look_again, slice_end if slice_end > now else now + RECENT_CHECKPOINT)
                continue
            if p.left:
                p.left -= 1
            w.lists[GIVEN_WAY, s.given_way] = heap[at]
            s.given_way += 1
            count = _pop(w, heap, count, at)
            used -= 1
        if j.running:
            s.given_way = take_out(w.lists[GIVEN_WAY], s.given_way, k)
        else:
            w.lists[STARTED, s.started] = k
            s.started += 1
        used += 1
    for p in w.projects:
        p.trouble = p.left
