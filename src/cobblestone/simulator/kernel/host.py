"""Compiled: the host over time, its books, and a project's reply to a request for work."""

from __future__ import annotations

import math
from typing import Any

from cobblestone.simulator.host.engine import MAX_ROUNDS, TINY
from cobblestone.simulator.host.server import MAX_JOBS_PER_REQUEST, SHORT
from cobblestone.simulator.kernel.world import (
    ENDED,
    FREE,
    JOBS,
    RUNNING,
    SENT,
    SHORT_TABLES,
    TOO_MUCH,
    KernelWorld,
    compiled,
    normal,
    numpy,
    sum_of_squares,
    total_of,
    uniform,
)

# -- books ------------------------------------------------------------------------------------------------------------


@compiled
def squares(w: KernelWorld, seconds: float) -> float:
    """Return the integral of the squared waiting time over a spell."""
    return sum_of_squares(seconds, w.host[0].quantum)


@compiled
def _project_runs(w: KernelWorld, i: int) -> None:
    s, p = w.host[0], w.projects[i]
    since = p.idle_since
    if since >= 0.0:
        p.idle_squares += squares(w, s.clock - since)
        p.idle_since = -1.0
        p.spell_start, p.spell_end = since, s.clock


@compiled
def _project_stops(w: KernelWorld, i: int) -> None:
    s, p = w.host[0], w.projects[i]
    if p.spell_end == s.clock:
        p.idle_squares -= squares(w, s.clock - p.spell_start)
        p.idle_since = p.spell_start
    else:
        p.idle_since = s.clock


@compiled
def report(w: KernelWorld, k: int) -> None:
    """Book a report."""
    s, j = w.host[0], w.job[k]
    p = w.projects[j.project]
    flops = j.task_done * p.peak
    if j.task_done > j.limit:
        p.rounding += (j.task_done - j.limit) * p.peak
        flops = j.limit * p.peak
    p.turnaround += s.now - j.received
    if j.failed:
        p.failed += flops
        p.errors += 1
    elif s.now > j.deadline:
        p.late += flops
        p.missed += 1
    else:
        p.used += flops
        p.met += 1


@compiled
def leave(w: KernelWorld, k: int) -> None:
    """Book a job that is not reported when the run ends."""
    s, j = w.host[0], w.job[k]
    p = w.projects[j.project]
    done = min(j.task_done, j.limit) * p.peak
    p.rounding += j.task_done * p.peak - done
    p.unfinished += done
    if s.duration > j.deadline:
        p.unfinished_late += done


# -- tasks and time ---------------------------------------------------------------------------------------------------


@compiled
def start_task(w: KernelWorld, k: int) -> None:
    """Start or resume a task."""
    j = w.job[k]
    j.active = 1
    w.projects[j.project].host_runs += 1
    _project_runs(w, j.project)
    w.host[0].changed = 1


@compiled
def stop_task(w: KernelWorld, k: int) -> None:
    """Take a task off its processor."""
    j = w.job[k]
    p = w.projects[j.project]
    j.active = 0
    p.host_runs -= 1
    if not p.host_runs:
        _project_stops(w, j.project)
    w.host[0].changed = 1


@compiled
def recompute(w: KernelWorld) -> None:
    """Compute when the next task ends."""
    s = w.host[0]
    finish = numpy.inf
    peak = 0.0
    for k in w.lists[RUNNING, : s.running]:
        j = w.job[k]
        if j.active:
            peak += w.projects[j.project].peak
            finish = min(finish, j.limit - j.task_done)
    s.finish = finish if finish > 0.0 else 0.0
    s.used_peak = peak
    s.changed = 0


@compiled
def pass_time(w: KernelWorld, to: float) -> None:
    """Run the tasks until ``to``."""
    s = w.host[0]
    seconds = to - s.now
    if seconds <= 0.0:
        return
    s.now = to
    s.clock += seconds
    for k in w.lists[RUNNING, : s.running]:
        w.job[k].task_done += seconds
    s.finish -= seconds
    s.available += seconds
    s.delivered += seconds * s.used_peak
    if s.used_peak < s.peak:
        s.idle += seconds * (s.peak - s.used_peak)


@compiled
def collect_ended(w: KernelWorld) -> None:
    """Remove ended tasks from their processors, in the order of their first start."""
    s = w.host[0]
    s.ended = 0
    if s.finish > TINY:
        return
    for k in w.lists[RUNNING, : s.running]:
        j = w.job[k]
        if j.active and j.limit - j.task_done <= TINY and (not s.quantum or j.run_start < s.now):
            place = s.ended
            while place and w.job[w.lists[ENDED, place - 1]].start_order > j.start_order:
                w.lists[ENDED, place] = w.lists[ENDED, place - 1]
                place -= 1
            w.lists[ENDED, place] = k
            s.ended += 1
    for k in w.lists[ENDED, : s.ended]:
        stop_task(w, k)
    if s.ended:
        recompute(w)


@compiled
def next_event(w: KernelWorld) -> float:
    """Return when the client wants to be called, or a task ends."""
    s = w.host[0]
    q = s.quantum
    wake = s.wake
    if not q:
        return min(max(wake, s.now), s.now + s.finish)
    first = s.now if s.now > s.on_since else s.on_since + q
    if wake > first:
        first = q * math.ceil(wake / q - 1e-9)
    if s.finish == numpy.inf:
        return first
    return min(first, s.now + q * max(1, math.ceil(s.finish / q - 1e-9)))


@compiled
def count_round(w: KernelWorld) -> None:
    """Fail if the client decides endlessly while the clock stands still."""
    s = w.host[0]
    if s.now - s.rounds_since > 1e-3:
        s.rounds, s.rounds_since = 0, s.now
    s.rounds += 1
    if s.rounds > MAX_ROUNDS:
        s.status = TOO_MUCH


# -- the server -------------------------------------------------------------------------------------------------------


@compiled
def _make_job(w: KernelWorld, i: int, now: float) -> int:
    """Make a project's next job; return its place, -1 if there is none."""
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
def _next_job(w: KernelWorld, i: int, now: float) -> int:
    """Return the place of the job at the head of a project's queue, as if sent now; -1 if there is none."""
    p = w.projects[i]
    k = p.kept
    if k < 0:
        return _make_job(w, i, now)
    p.kept = -1
    w.job[k].received, w.job[k].deadline = now, now + p.latency
    return k


@compiled
def drop(w: KernelWorld, k: int) -> None:
    """Free the place of a job."""
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
def _in_order(w: KernelWorld, deadlines: Any) -> Any:
    """Return the order of deadlines; ties keep their order, or with the C library's generator as its library sorts."""
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
def _book(w: KernelWorld, deadlines: Any, needs: Any, late: Any) -> bool:
    """Schedule jobs by deadline; ``late`` is the latest allowed end of each, -1 for its deadline.  Return whether all are met."""
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
    """Record when the jobs that are already late will end."""
    booked = numpy.zeros(ncpus)
    for k in range(len(deadlines)):
        first = 0
        for cpu in range(1, ncpus):
            if booked[cpu] < booked[first]:
                first = cpu
        booked[first] += needs[k]
        late[k] = booked[first] if booked[first] > deadlines[k] else -1.0


@compiled
def answer(w: KernelWorld, i: int, seconds: float) -> None:
    """Send jobs for a request: fill the list of sent jobs, and return whether one was refused."""
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
