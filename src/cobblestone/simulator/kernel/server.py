"""Compiled: a project's answer to a request for work (`cobblestone.simulator.server`)."""

from __future__ import annotations

from typing import Any

from cobblestone.simulator.kernel.world import (
    FREE,
    JOBS,
    SENT,
    SHORT_TABLES,
    TOO_MUCH,
    World,
    compiled,
    normal,
    numpy,
    total_of,
    uniform,
)
from cobblestone.simulator.paper.admission_2007 import SHORT
from cobblestone.simulator.server import MAX_JOBS_PER_REQUEST

# -- the server -------------------------------------------------------------------------------------------------------


@compiled
def _make_job(w: World, i: int, now: float) -> int:
    """Make a project's next job; returns its place, -1 if there is none."""
    s, p = w.host[0], w.projects[i]
    if not s.free:
        s.status = TOO_MUCH
        return -1
    if s.shared:
        uniform(w)
        flops = p.mean + p.stdev * normal(w)
    elif p.sizes_at == p.sizes_end:
        s.status = SHORT_TABLES
        return -1
    else:
        flops = w.numbers[p.sizes_at]
        p.sizes_at += 1
    s.free -= 1
    k = w.lists[FREE, s.free]
    j = w.job[k]
    j.project, j.raw = i, p.raw
    j.size = j.limit = max(0.0, flops) / p.speed
    j.received, j.deadline = now, now + p.latency
    j.done = j.task_done = j.counted = 0.0
    j.fraction, j.checked, j.run_start = -1.0, -numpy.inf, now
    j.start_order = j.running = j.active = j.failed = 0
    return k


@compiled
def _next_job(w: World, i: int, now: float) -> int:
    """Return the place of the job at the head of a project's queue, as if it were sent now; -1 if there is none."""
    p = w.projects[i]
    k = p.kept
    if k < 0:
        return _make_job(w, i, now)
    p.kept = -1
    w.job[k].received, w.job[k].deadline = now, now + p.latency
    return k


@compiled
def drop(w: World, k: int) -> None:
    """Let the place of a job be used again."""
    s = w.host[0]
    w.lists[FREE, s.free] = k
    s.free += 1


@compiled
def _partition(order: Any, by: Any, first: int, last: int) -> int:
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    x, y, z = by[order[a]], by[order[b]], by[order[c]]
    median = (b if y < z else (c if x < z else a)) if x < y else (a if x < z else (c if y < z else b))
    order[first], order[median] = order[median], order[first]
    pivot = by[order[first]]
    low, high = first + 1, last
    while True:
        while by[order[low]] < pivot:
            low += 1
        high -= 1
        while pivot < by[order[high]]:
            high -= 1
        if low >= high:
            return low
        order[low], order[high] = order[high], order[low]
        low += 1


@compiled
def _in_order(w: World, deadlines: Any) -> Any:
    """Return the order of deadlines; of equal ones as it was, or with the C library's generator as its library sorts."""
    order = numpy.arange(len(deadlines))
    if w.host[0].shared:
        firsts, lasts, parts = [0], [len(order)], 1
        while parts:
            first, last = firsts.pop(), lasts.pop()
            parts -= 1
            while last - first > SHORT:
                cut = _partition(order, deadlines, first, last)
                firsts.append(cut)
                lasts.append(last)
                parts += 1
                last = cut
    return order[numpy.argsort(deadlines[order], kind="mergesort")]


@compiled
def _book(w: World, deadlines: Any, needs: Any, late: Any) -> bool:
    """Run jobs by deadline; ``late`` is the latest end that each may have, -1 for its deadline.  Tells whether all keep to it."""
    ncpus = w.host[0].ncpus
    booked = numpy.zeros(ncpus)
    for k in _in_order(w, deadlines):
        first = 0
        for cpu in range(1, ncpus):
            if booked[cpu] < booked[first]:
                first = cpu
        booked[first] += needs[k]
        if booked[first] > (late[k] if late[k] >= 0.0 else deadlines[k]):
            return False
    return True


@compiled
def _note_late(ncpus: int, deadlines: Any, needs: Any, late: Any) -> None:
    """Note when the jobs that are late already will end."""
    booked = numpy.zeros(ncpus)
    for k in range(len(deadlines)):
        first = 0
        for cpu in range(1, ncpus):
            if booked[cpu] < booked[first]:
                first = cpu
        booked[first] += needs[k]
        late[k] = booked[first] if booked[first] > deadlines[k] else -1.0


@compiled
def answer(w: World, i: int, seconds: float) -> None:
    """Send jobs for a request: fill the list of those sent, and tell whether one was refused."""
    s, p = w.host[0], w.projects[i]
    now = s.now
    s.sent = s.refused = 0
    refused = 0
    origin = 0.0 if s.absolute else now
    count = 0
    size = s.jobs + MAX_JOBS_PER_REQUEST + 1 if s.ws == 2 else 1
    deadlines, needs, late = numpy.empty(size), numpy.empty(size), numpy.full(size, -1.0)
    total = 0.0
    if s.ws == 2:
        for k in w.lists[JOBS, : s.jobs]:
            if w.job[k].remaining > 0.0:
                deadlines[count], needs[count] = w.job[k].deadline - s.buffer_min - origin, w.job[k].remaining
                count += 1
        order = _in_order(w, deadlines[:count])
        deadlines[:count], needs[:count] = deadlines[:count][order], needs[:count][order]
        _note_late(s.ncpus, deadlines[:count], needs[:count], late[:count])
        total = total_of(needs, count)
    while seconds > 0.0 and s.sent < MAX_JOBS_PER_REQUEST:
        k = _next_job(w, i, now)
        if k < 0:
            return
        j = w.job[k]
        if s.ws == 2:
            deadlines[count] = j.deadline - origin
            needs[count] = j.size if s.true_size else p.dcf * j.raw
            soonest = deadlines[: count + 1].min()
            if s.shared:
                total = total_of(needs, count)
                alone = total_of(needs, count + 1) <= soonest
            else:
                alone = total + needs[count] <= soonest
            if not alone and not _book(w, deadlines[: count + 1], needs[: count + 1], late[: count + 1]):
                refused += 1
                if s.true_size:
                    drop(w, k)
                    if refused <= p.tries:
                        continue
                else:
                    p.kept = k
                break
            total += needs[count]
            count += 1
        w.lists[SENT, s.sent] = k
        s.sent += 1
        seconds -= p.dcf * j.raw
    s.refused = refused > p.tries
