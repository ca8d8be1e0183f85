"""Compiled: a client's round of decisions, its whole run, and the one function that is called from outside."""

from __future__ import annotations

from functools import lru_cache
from inspect import getsource
from pathlib import Path
from types import ModuleType
from typing import Any

from cobblestone.policy.client.core.decisions import LONGEST_LIFE, SAFE
from cobblestone.policy.client.published import round_robin
from cobblestone.policy.client.published.work_fetch import FETCH_PERIOD
from cobblestone.simulator import kernel
from cobblestone.simulator.code_version import digest
from cobblestone.simulator.host.engine import TINY
from cobblestone.simulator.kernel.accounts import (
    charge_pending,
    charge_task,
    estimate,
    learn,
    learn_gap,
    look_ahead,
    settle,
)
from cobblestone.simulator.kernel.choices import (
    back_off,
    choose_changes,
    fetch_by_queue,
    fetch_by_shortfall,
    list_stands,
    look_at_projects,
    make_run_list,
    next_look,
)
from cobblestone.simulator.kernel.host import (
    answer,
    collect_ended,
    count_round,
    drop,
    leave,
    next_event,
    pass_time,
    recompute,
    report,
    squares,
    start_task,
    stop_task,
)
from cobblestone.simulator.kernel.world import (
    DONE,
    ENDED,
    FINISHED,
    GIVEN_WAY,
    JOBS,
    RUNNING,
    SENT,
    STARTED,
    WANTED,
    KernelWorld,
    compiled,
    failing_jobs_wait,
    numba,
    numpy,
    shared_functions,
    take_out,
    toggle,
)

# -- decisions --------------------------------------------------------------------------------------------------------


@compiled
def _may_contact(w: KernelWorld, at: float) -> bool:
    s = w.host[0]
    return s.interval <= 0.0 or at == s.last_contact or at - s.last_contact >= s.interval


@compiled
def _next_contact(w: KernelWorld, now: float) -> float:
    s = w.host[0]
    return now if _may_contact(w, now) else s.last_contact + s.interval


@compiled
def _schedule(w: KernelWorld) -> None:
    s = w.host[0]
    s.must_schedule, s.last_schedule = 0, s.core_now
    if not s.every_poll:
        settle(w)
    look_ahead(w)
    if s.every_poll:
        settle(w)
        s.has_outcome = 0
    charge_pending(w)
    make_run_list(w)
    s.must_enforce = 1


@compiled
def _enforce(w: KernelWorld) -> None:
    s = w.host[0]
    s.must_enforce, s.last_enforce, s.look_again = 0, s.core_now, numpy.inf
    for p in w.projects:
        p.trouble = p.misses
    same = s.running == s.wanted
    for k in w.lists[WANTED, : s.wanted]:
        same = same and w.job[k].running
    if same:
        return
    choose_changes(w)
    for k in w.lists[GIVEN_WAY, : s.given_way]:
        j = w.job[k]
        stop_task(w, k)
        s.running = take_out(w.lists[RUNNING], s.running, k)
        j.running = 0
        if s.polled:
            j.counted = j.done
    for k in w.lists[STARTED, : s.started]:
        j = w.job[k]
        j.running, j.run_start = 1, s.core_now
        if not j.start_order:
            s.starts += 1
            j.start_order = s.starts
        w.lists[RUNNING, s.running] = k
        s.running += 1
        start_task(w, k)
        if s.cs == 1 or not w.projects[j.project].misses:
            charge_pending(w)  # the client says by which debt the job runs


@compiled
def _plan_fetch(w: KernelWorld) -> None:
    s, now = w.host[0], w.host[0].core_now
    s.must_fetch = 0
    settle(w)
    if s.wf == 1:
        estimate(w)
        look_at_projects(w)
        wait = fetch_by_queue(w)
    else:
        look_at_projects(w)
        look_ahead(w)
        fetch_by_shortfall(w)
        wait = 0.0
        if not s.every_poll:
            first = numpy.inf
            for p in w.projects:
                first = min(first, max(p.not_before, 0.0))
            wait = max(next_look(w), first - now)
    s.next_fetch = now + FETCH_PERIOD if s.every_poll else max(now + wait, _next_contact(w, now))


@compiled
def _choose_contact(w: KernelWorld) -> None:
    """Choose the project to contact now, and for what."""
    s, now = w.host[0], w.host[0].core_now
    s.contact = -1
    if not _may_contact(w, now):
        return
    for k in w.lists[FINISHED, : s.finished]:
        j = w.job[k]
        due = now > j.report_at if s.quantum else now > j.report_at - TINY
        if due and w.projects[j.project].not_before <= now:
            s.contact = j.project
            break
    if s.contact < 0:
        if s.plan < 0 or w.projects[s.plan].not_before > now:
            return
        s.contact = s.plan
    s.asked = s.contact == s.plan and s.plan_seconds > 0.0
    if s.contact != s.plan:
        s.plan_seconds = w.projects[s.contact].others if s.wf == 1 and s.plan_known else 0.0
        s.asked = s.plan_seconds > 0.0
    s.plan, s.plan_known = -1, 0
    s.last_contact = now
    if s.asked and s.ws == 2:
        estimate(w)


@compiled
def _least_wait(w: KernelWorld) -> float:
    quantum = w.host[0].quantum
    return quantum if quantum else 1.0


@compiled
def _set_alarm(w: KernelWorld) -> None:
    s, now = w.host[0], w.host[0].core_now
    wake = min(s.look_again, now + s.quantum) if s.every_poll else s.look_again
    if s.jobs:
        wake = min(wake, s.next_schedule)
    if s.contact < 0:
        wake = min(wake, s.next_fetch)
        for p in w.projects:
            if now + TINY < p.not_before < wake and _may_contact(w, p.not_before):
                wake = p.not_before
        due = numpy.inf
        for k in w.lists[FINISHED, : s.finished]:
            due = min(due, max(w.job[k].report_at, w.projects[w.job[k].project].not_before))
        if s.finished:
            wake = min(wake, max(due, _next_contact(w, now)))
    if wake <= now + TINY:
        wake = now + _least_wait(w)
    s.alarm = wake


@compiled
def _decide(w: KernelWorld) -> None:
    s, now = w.host[0], w.host[0].core_now
    if (s.jobs or s.finished) and (s.must_schedule or now >= s.next_schedule - TINY):
        _schedule(w)
    due = now - s.last_enforce > 60.0 if s.quantum else now >= s.look_again - TINY
    if s.must_enforce or due:
        _enforce(w)
    if s.last_schedule == now:
        stands = min(list_stands(w), LONGEST_LIFE)
        span = s.slice
        s.next_schedule = now + (((stands - SAFE) // span + 1.0) * span if span < stands else span)
    if s.must_fetch or now >= s.next_fetch - TINY:
        _plan_fetch(w)
        s.plan_known = 1
    _choose_contact(w)
    _set_alarm(w)


# -- what happens -----------------------------------------------------------------------------------------------------


@compiled
def _core_to(w: KernelWorld, now: float) -> None:
    """Advance the client's time."""
    s = w.host[0]
    seconds = now - s.core_now
    s.core_now = now
    if not s.polled:
        for k in w.lists[RUNNING, : s.running]:
            w.projects[w.job[k].project].wall += seconds


@compiled
def _read(w: KernelWorld) -> None:
    """Update the client's progress of the running tasks."""
    s = w.host[0]
    for k in w.lists[RUNNING, : s.running]:
        j = w.job[k]
        j.done = j.task_done
        j.fraction = min(1.0, j.done / j.size) if j.size > 0.0 else 1.0
        j.checked = s.core_now


@compiled
def _end(w: KernelWorld, k: int) -> None:
    """Tell the client that a task has ended."""
    s, j = w.host[0], w.job[k]
    p = w.projects[j.project]
    s.running = take_out(w.lists[RUNNING], s.running, k)
    j.running = 0
    if s.polled:
        charge_task(w, k, s.core_now - s.settled_at)
    learn(w, k)
    s.jobs = take_out(w.lists[JOBS], s.jobs, k)
    s.wanted = take_out(w.lists[WANTED], s.wanted, k)
    p.queued -= 1
    p.outdated = 1
    place = s.finished
    while place and w.job[w.lists[FINISHED, place - 1]].serial > j.serial:
        w.lists[FINISHED, place] = w.lists[FINISHED, place - 1]
        place -= 1
    w.lists[FINISHED, place] = k
    s.finished += 1
    j.report_at = min(j.deadline - max(86400.0, s.buffer_min), s.core_now + 86400.0)
    p.failing = p.failing + 1 if j.failed else 0
    p.not_before = max(p.not_before, s.core_now + failing_jobs_wait(p.failing))
    s.must_schedule = s.must_fetch = 1


@compiled
def _tell(w: KernelWorld) -> None:
    """Contact the project and report; the reported tasks are in the list of the started."""
    s, i = w.host[0], w.host[0].contact
    w.projects[i].rpcs += 1
    left = s.started = 0
    for n in range(s.finished):
        k = w.lists[FINISHED, n]
        if s.reports_all or w.job[k].project == i:
            report(w, k)
            drop(w, k)
            w.lists[STARTED, s.started] = k
            s.started += 1
        else:
            w.lists[FINISHED, left] = k
            left += 1
    s.finished = left
    s.sent = s.refused = 0


@compiled
def _take_reply(w: KernelWorld, i: int) -> None:
    """Process a project's reply in the client."""
    s, p = w.host[0], w.projects[i]
    p.sent += s.sent
    p.refused += s.refused
    for k in w.lists[SENT, : s.sent]:
        j = w.job[k]
        s.serial += 1
        j.serial = s.serial
        j.remaining = j.raw * p.dcf
        j.cutoff = j.deadline - (s.buffer_min + s.slice)
        w.lists[JOBS, s.jobs] = k
        s.jobs += 1
        p.queued += 1
        p.outdated = 1
    if s.refused:
        p.not_before = s.core_now + 1.0
    if s.asked and not s.sent:
        back_off(w, i)
    else:
        p.failures = 0
    s.must_schedule = s.must_fetch = 1


@compiled
def _step(w: KernelWorld) -> None:
    """Wake the client with all new events, until it wants nothing more."""
    s = w.host[0]
    _core_to(w, s.now)
    _read(w)
    collect_ended(w)
    s.contact = -1
    _go_through_rounds(w)


@compiled
def _go_through_rounds(w: KernelWorld) -> None:
    """Run the client's decisions until it wants nothing more; with outside servers, until it wants a contact."""
    s = w.host[0]
    while s.status == DONE:
        count_round(w)
        s.has_outcome = 0
        if not s.quantum:
            settle(w)
        if s.contact >= 0:
            _take_reply(w, s.contact)
        for k in w.lists[ENDED, : s.ended]:
            _end(w, k)
        _decide(w)
        if s.contact >= 0:
            _tell(w)
            if s.outside:
                s.visiting = 1
                return
            if s.asked:
                answer(w, s.contact, s.plan_seconds)
        _look_around(w)
        if s.contact < 0 and not s.ended:
            break
    s.wake = s.now + s.quantum if s.every_poll else s.alarm


@compiled
def _look_around(w: KernelWorld) -> None:
    """Find the tasks that have ended, after the client's instructions."""
    if w.host[0].changed:
        recompute(w)
    collect_ended(w)


@compiled
def _account(w: KernelWorld) -> None:
    """2007: update the client's figures."""
    s = w.host[0]
    _core_to(w, s.now)
    _read(w)
    settle(w)


@compiled
def _go_off(w: KernelWorld) -> None:
    s = w.host[0]
    s.off_since = s.now
    if s.quantum:
        _account(w)
    toggle(w)


@compiled
def _come_back(w: KernelWorld) -> None:
    """Pass the time off and tell the client."""
    s = w.host[0]
    if s.until >= s.duration:
        s.now = s.duration
        return
    seconds = s.until - s.now
    s.now = s.on_since = s.until
    toggle(w)
    if s.off_since >= 0.0:
        _core_to(w, s.off_since)
    else:
        s.core_now = s.now - seconds  # the client has never run
    since = s.core_now
    seconds = s.now - since
    s.core_now = s.now
    if not s.polled and s.by_efficiency and 1.0 <= seconds <= 2.0 * s.slice:
        for k in w.lists[RUNNING, : s.running]:
            w.projects[w.job[k].project].wall += seconds
            s.unused += seconds
    saved = True
    for k in w.lists[RUNNING, : s.running]:
        j = w.job[k]
        saved = saved and j.checked > -numpy.inf
    if not saved:
        s.next_schedule = min(
            s.next_schedule, s.last_schedule + ((since - s.last_schedule) // s.slice + 1.0) * s.slice
        )
        due = max(s.next_schedule, s.core_now + _least_wait(w))
        if s.jobs and due < s.alarm:
            s.alarm = due
    if seconds > 0.0:
        learn_gap(w, seconds)
    s.wake = min(s.wake, s.alarm)


@compiled
def _go_on(w: KernelWorld) -> None:
    """Advance to the next event."""
    s = w.host[0]
    if not s.on:
        _come_back(w)
        return
    change = s.until
    stop = min(change, s.duration)
    at = next_event(w)
    if at <= stop:
        if s.quantum and at - s.now > s.quantum:
            pass_time(w, at - s.quantum)
            _account(w)
        pass_time(w, at)
        _step(w)
    else:
        pass_time(w, stop)
    if s.now >= change and not s.visiting:
        _go_off(w)


def go_through(w: KernelWorld) -> None:
    """Run the whole duration and close the books; with outside servers, up to the next contact.

    The caller tells the server of the jobs in the list of the started, fills that of the jobs sent, and calls again.
    """
    s = w.host[0]
    if s.visiting:
        s.visiting = 0
        _look_around(w)
        _go_through_rounds(w)
        if s.now >= s.until and not s.visiting:
            _go_off(w)
    elif not s.begun:
        s.begun = 1
        if s.on:
            _step(w)
    while s.now < s.duration and s.status == DONE and not s.visiting:
        _go_on(w)
    if s.status == DONE and not s.visiting:
        _close(w)


@compiled
def _close(w: KernelWorld) -> None:
    """Stop everything and close the books."""
    s = w.host[0]
    while s.running:
        k = w.lists[RUNNING, 0]
        stop_task(w, k)
        s.running = take_out(w.lists[RUNNING], s.running, k)
    for p in w.projects:
        if p.idle_since >= 0.0:
            p.idle_squares += squares(w, s.clock - p.idle_since)
    for k in w.lists[JOBS, : s.jobs]:
        leave(w, k)
    for k in w.lists[FINISHED, : s.finished]:
        leave(w, k)


_go_through = compiled(go_through)  # not in the closure below, whose values name the compiled code


@lru_cache(maxsize=1)
def load_kernel() -> Any:  # Any: Numba has no types
    """Return the compiled :func:`go_through`.

    It is compiled once per machine and version of the code: a change in another file, or of a constant or a function of the
    policies, is nothing that Numba sees by itself.
    """
    version = f"{digest([Path(__file__).parent])} {_constants()} {list(map(getsource, [*shared_functions, round_robin]))}"

    def run(world: KernelWorld) -> None:
        _ = version
        _go_through(world)

    return numba.njit(error_model="numpy", cache=True)(run)


def _constants() -> str:
    modules = [vars(module) for module in vars(kernel).values() if isinstance(module, ModuleType)]
    modules += [each.__globals__ for each in shared_functions]
    return repr(sorted({(name, repr(each[name])) for each in modules for name in each if name.isupper()}))
