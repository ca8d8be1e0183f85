"""Compiled: the host on its way through time, and its books (`cobblestone.simulator.engine` and ``metrics``)."""

from __future__ import annotations

import math

from cobblestone.simulator.engine import MAX_ROUNDS, TINY
from cobblestone.simulator.kernel.world import ENDED, RUNNING, TOO_MUCH, World, compiled, numpy

# -- books ------------------------------------------------------------------------------------------------------------


@compiled
def squares(w: World, seconds: float) -> float:
    """Return the integral of the squared waiting time over a spell."""
    q = w.host[0].quantum
    if q <= 0.0:
        return math.pow(seconds, 3.0) / 3.0
    n = round(seconds / q)
    return q * q * q * (n * (n + 1) * (2 * n + 1) / 6.0)


@compiled
def _project_runs(w: World, i: int) -> None:
    s, p = w.host[0], w.projects[i]
    since = p.idle_since
    if since >= 0.0:
        p.idle_squares += squares(w, s.clock - since)
        p.idle_since = -1.0
        p.spell_start, p.spell_end = since, s.clock


@compiled
def _project_stops(w: World, i: int) -> None:
    s, p = w.host[0], w.projects[i]
    if p.spell_end == s.clock:
        p.idle_squares -= squares(w, s.clock - p.spell_start)
        p.idle_since = p.spell_start
    else:
        p.idle_since = s.clock


@compiled
def report(w: World, k: int) -> None:
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
def leave(w: World, k: int) -> None:
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
def start_task(w: World, k: int) -> None:
    """Let a task compute from now on."""
    j = w.job[k]
    j.active = 1
    w.projects[j.project].host_runs += 1
    _project_runs(w, j.project)
    w.host[0].changed = 1


@compiled
def stop_task(w: World, k: int) -> None:
    """Take a task off its processor."""
    j = w.job[k]
    p = w.projects[j.project]
    j.active = 0
    p.host_runs -= 1
    if not p.host_runs:
        _project_stops(w, j.project)
    w.host[0].changed = 1


@compiled
def recompute(w: World) -> None:
    """Work out when the next task ends."""
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
def pass_time(w: World, to: float) -> None:
    """Let the running tasks compute until ``to``."""
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
def collect_ended(w: World) -> None:
    """Take the tasks that have reached their end off their processors, in the order of their first start."""
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
def next_event(w: World) -> float:
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
def count_round(w: World) -> None:
    """Give up if the client decides without end while the clock stands still."""
    s = w.host[0]
    if s.now - s.rounds_since > 1e-3:
        s.rounds, s.rounds_since = 0, s.now
    s.rounds += 1
    if s.rounds > MAX_ROUNDS:
        s.status = TOO_MUCH
