"""Compiled: who starts and who gives way (``run_list.enforce_run_list``, `preemption_2007`)."""

from __future__ import annotations

from typing import Any

from cobblestone.policy.client.run_list import RECENT_CHECKPOINT
from cobblestone.simulator.kernel.world import (
    GIVEN_WAY,
    RUNNING,
    STARTED,
    WANTED,
    World,
    compiled,
    numpy,
    take_out,
)

# -- who gives way ----------------------------------------------------------------------------------------------------


@compiled
def _gives_way_later(w: World, a: int, b: int) -> bool:
    """2007: tell whether the first of two tasks lies below the other in the heap upside down."""
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
def _place(w: World, heap: Any, count: int, hole: int, job: int) -> None:
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
def _build(w: World, heap: Any, count: int) -> None:
    for k in range(count // 2 - 1, -1, -1):
        _place(w, heap, count, k, heap[k])


@compiled
def _top(w: World, heap: Any, count: int) -> int:
    """Return the place of the next task to give way."""
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
def _pop(w: World, heap: Any, count: int, at: int) -> int:
    """Take the task at that place out; returns how many are left."""
    if not w.host[0].inverted:
        for k in range(at, count - 1):
            heap[k] = heap[k + 1]
    elif count > 1:
        _place(w, heap, count - 1, 0, heap[count - 1])
    return count - 1


@compiled
def _line_up(w: World, heap: Any) -> int:
    """Put the running tasks in the order in which they give way; returns how many there are."""
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
def choose_changes(w: World) -> None:
    """Fill the lists of tasks that start and of those that give way."""
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
