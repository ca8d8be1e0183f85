"""The loop of the benchmark: jobs find computers, results come back, are compared and judged.  Needs the extra ``lab``.

Compiled.  It stops where others decide, and goes on from its state when it is called again: an attacker is asked for a job
(`ASK`) or for a report (`REPORT`), a system may want another replica (`CHECK`), a job is decided (`DECIDED`), the
rows are full (`FULL`).

Random numbers are functions of a key, the job and the computer, not of an order: whoever else is there, the same computer
takes as long for the same job.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from cobblestone.credit_lab.joblog import ERROR, INVALID, VALID
from cobblestone.credit_lab.rows import Floats, Integers, Row, Rows, compiled, inlined
from cobblestone.credit_lab.systems.chance import uniform
from cobblestone.credit_lab.systems.tape import GPU, OWN_BUILD

DONE, ASK, REPORT, CHECK, DECIDED, FULL = range(6)
"""Why the loop stops."""

NONE, VISIBLE, LATE, OWN = range(4)
"""Who checks results of a quorum of one: nobody; the server when it gives the job out, for all to see; the server
after the upload; the system under test."""

HOST = np.dtype(
    [
        ("speed", "f8"),  # true operations per second
        ("peak", "f8"),  # of the devices that the job uses
        ("benchmark", "f8"),  # of one processor
        ("noise", "f8"),  # standard deviation of the logarithm of run times
        ("wrong", "f8"),  # share of its results that are wrong
        ("fails", "f8"),  # share of its jobs that crash
        ("wait", "f8"),  # seconds until a result is reported / its run time
        ("begins", "f8"),
        ("ends", "f8"),
        ("switches", "f8"),  # Unix seconds: takes up the release
        ("busy", "f8"),  # processors that the program really keeps busy
        ("person", "i4"),
        ("group", "i4"),  # of accomplices; 0: honest
        ("threads", "i2"),
        ("kind", "i1"),
        ("fast", "?"),  # among the faster half
        ("identity", "i8"),
        ("results", "i8"),  # of the identity: judged, refused, …
        ("refused", "i8"),
        ("trusted", "i8"),
        ("since_pass", "i8"),
        ("passes", "i8"),
        ("caught", "i8"),
    ],
    align=True,
)
"""A computer, and what the server's record of its identity would say."""

(JOB_NO, PHASE, DRAWN, ASSIGNED, REPORTED, WANTED, AGREEING, PENDING, ANSWERED, FILLED, FIRST, MATE,
 TRUSTED) = range(13)  # fmt: skip
STATE_SIZE = 13
BEGIN, ASSIGNING, REPORTING, CHECKING, JUDGING = range(5)

MOST_REPLICAS = 12
MOST_DRAWS = 400
BURST_DAYS, BURST_FACTOR = 0.02, 10.0
CLOCK_JUMPS = 1e-4

_named: Any = namedtuple  # Any: the loop reads it by name
Rules: Any = _named(
    "Rules", "quorum checks check_factor asks pause release route pick noise fail wrong burst jump check"
)
"""Options of a run; the last seven are keys of random numbers.  ``route``: 0 none, 1 by tag, 2 by speed."""


@inlined
def normal(key: Any, a: int, b: int) -> float:
    """Return a normal random number.  Source: Box and Muller (1958)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, a, 2 * b)))
    return radius * math.cos(2.0 * math.pi * uniform(key, a, 2 * b + 1))


@inlined
def check_probability(factor: float, trusted: int) -> float:
    """Twin of `spot_check_probability` of the dispatch."""
    return 1.0 if trusted <= factor else factor / trusted


@inlined
def candidate(
    rules: Any, j: int, n: int, app: int, starts: Integers, members: Integers, cumulative: Floats
) -> int:
    """Return the computer that asks as the ``n``th for job ``j``: those that work more ask more often."""
    low, high = starts[app], starts[app + 1]
    at = uniform(rules.pick, j, n) * cumulative[high - 1]
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] < at:
            low = middle + 1
        else:
            high = middle
    return members[min(low, starts[app + 1] - 1)]


@inlined
def suits(rules: Any, job: Row, host: Row, scratch: Rows, assigned: int, hosts: Rows) -> bool:
    """Return whether a computer may get a job: it is there, its owner has no other replica, and the job is routed to it."""
    if not host.begins <= job.time < host.ends:
        return False
    for k in range(assigned):
        if hosts[scratch[k].host].person == host.person:
            return False
    if rules.route == 1 and not job.crossed:
        return (job.stratum == 1) == (host.kind == GPU)
    if rules.route == 2:
        return (job.length > 1.0) == host.fast
    return True


@inlined
def fill(rules: Any, j: int, h: int, job: Row, host: Row, row: Row) -> None:
    """Write what a truthful computer reports."""
    released = job.time >= host.switches
    speed = host.speed * (rules.release if released else 1.0)
    work = speed * job.fixed if job.fixed > 0.0 else job.work
    spent = work / speed
    elapsed = spent * math.exp(host.noise * normal(rules.noise, j, h))
    if uniform(rules.jump, j, h) < CLOCK_JUMPS:
        elapsed *= 100.0
    row.job, row.host, row.identity, row.time = j, h, host.identity, job.time
    row.sent = job.time - min(604800.0, spent * host.wait + 3600.0)
    row.elapsed = elapsed
    row.cpu = elapsed * host.busy * (0.15 if host.kind == GPU else 0.97)
    row.peak, row.benchmark, row.threads, row.kind = host.peak, host.benchmark, host.threads, host.kind
    row.counted, row.work = 0.9 * work, work
    if host.kind == OWN_BUILD:
        row.version = job.app * 1000000 + 2
    else:
        row.version = job.app * 10 + host.kind + (5 if released else 0)
    wrong = host.wrong
    if uniform(rules.burst, int(job.time // 86400.0), h) < BURST_DAYS:
        wrong *= BURST_FACTOR
    row.answer = -(h + 1) if uniform(rules.wrong, j, h) < wrong else 0
    row.refusal, row.outcome, row.check = 0, VALID, False


@inlined
def falsify(act: Row, row: Row, now: float) -> None:
    """Change a truthful report to what an attacker reports."""
    row.elapsed *= act.time
    row.cpu *= act.time
    row.sent = min(row.sent, now - min(row.elapsed, 604800.0))  # it holds the job that long
    row.peak *= act.peak
    row.benchmark *= act.benchmark
    row.counted *= act.counts
    if act.threads != 1.0 and row.kind != GPU:
        row.peak *= act.threads
        row.cpu *= act.threads
        row.threads = int(row.threads * act.threads)
    if act.benchmark_failed:
        row.peak = row.benchmark = 1e9
    if act.run_time != -1.0:  # NaN too
        row.elapsed = row.cpu = act.run_time
    if act.forged or act.copied:
        row.work = 0.0
        row.answer = act.group if act.forged else 0


@inlined
def refuse(job: Row, host: Row, j: int, h: int, row: Row, kind: int) -> None:
    """Write a result that crashed, was aborted or did not come back."""
    row.job, row.host, row.identity, row.time, row.sent = j, h, host.identity, job.time, job.time - 7200.0
    row.elapsed = row.cpu = 60.0
    row.peak, row.benchmark, row.threads, row.kind = host.peak, host.benchmark, host.threads, host.kind
    row.counted = row.work = 0.0
    row.version = job.app * 1000000 + 2 if host.kind == OWN_BUILD else job.app * 10 + host.kind
    row.answer, row.refusal, row.outcome, row.check = 0, kind, ERROR, False
    host.refused += 1


@inlined
def assign(
    rules: Any, state: Integers, hosts: Rows, job: Row, starts: Integers, members: Integers, cumulative: Floats,
    act: Rows, scratch: Rows, rows: Rows,
) -> int:  # fmt: skip
    """Find computers until there are as many as wanted; -1: an attacker is asked, 0: there are none left."""
    j = state[JOB_NO]
    while state[ASSIGNED] < state[WANTED]:
        if state[ANSWERED]:
            h = state[PENDING]
            state[ANSWERED] = 0
            refusal = act[0].refusal
        else:
            if state[DRAWN] >= MOST_DRAWS:
                return 0
            h = state[MATE]
            state[MATE] = -1
            if h < 0:
                h = candidate(rules, j, state[DRAWN], job.app, starts, members, cumulative)
                state[DRAWN] += 1
            if not suits(rules, job, hosts[h], scratch, state[ASSIGNED], hosts):
                continue
            # while hardly anybody is trusted yet, others may check
            if state[TRUSTED] and hosts[h].trusted < rules.check_factor and state[DRAWN] < MOST_DRAWS // 4:
                continue
            if hosts[h].group and rules.asks:
                state[PENDING] = h
                return -1
            refusal = 2 if uniform(rules.fail, j, h) < hosts[h].fails else 0
        if refusal:
            refuse(job, hosts[h], j, h, rows[state[FILLED]], refusal)
            state[FILLED] += 1
            continue
        scratch[state[ASSIGNED]].host = h
        first = rules.checks == VISIBLE and rules.quorum == 1 and state[ASSIGNED] == 0
        if first and uniform(rules.check, j, h) < check_probability(rules.check_factor, hosts[h].passes):
            state[WANTED] = state[AGREEING] = 2
        state[ASSIGNED] += 1
    return 1


@inlined
def judge(state: Integers, scratch: Rows) -> int:
    """Return the place of the first answer that enough results agree on, or -1."""
    for k in range(state[REPORTED]):
        count = 0
        for m in range(state[REPORTED]):
            if scratch[m].answer == scratch[k].answer:
                count += 1
        if count >= state[AGREEING]:
            return k
    return -1


@inlined
def decide(rules: Any, state: Integers, hosts: Rows, scratch: Rows, rows: Rows, right: int) -> None:
    """Write the results of a job with their verdicts, and bring the records of their computers up to date."""
    n = state[REPORTED]
    for k in range(n):
        valid = right >= 0 and scratch[k].answer == scratch[right].answer
        scratch[k].outcome = VALID if valid else INVALID
        scratch[k].check = k >= rules.quorum
        rows[state[FILLED] + k] = scratch[k]
        host = hosts[scratch[k].host]
        host.results += 1
        if not valid:
            host.trusted, host.passes = 0, 0
            host.caught += 1
            continue
        host.trusted += 1
        host.since_pass += 1
        if n > 1:
            host.passes += 1
            host.since_pass = 0
    state[FILLED] += n


@inlined
def report_all(rules: Any, state: Integers, hosts: Rows, job: Row, act: Rows, scratch: Rows) -> bool:
    """Write what the computers of a job report; whether it is done, or an attacker is asked."""
    while state[REPORTED] < state[ASSIGNED]:
        row = scratch[state[REPORTED]]
        h = row.host
        if hosts[h].group and not state[ANSWERED]:
            state[PENDING] = h
            return False
        fill(rules, state[JOB_NO], h, job, hosts[h], row)
        if hosts[h].group:
            falsify(act[0], row, job.time)
            state[ANSWERED] = 0
        state[REPORTED] += 1
    state[PHASE] = CHECKING if rules.checks == OWN else JUDGING
    if rules.checks == LATE and state[AGREEING] == 1 and rules.quorum == 1:
        h = scratch[0].host
        if uniform(rules.check, state[JOB_NO], h) < check_probability(rules.check_factor, hosts[h].passes):
            state[WANTED] = state[AGREEING] = 2
            state[PHASE] = ASSIGNING
    return True


@inlined
def next_job(state: Integers) -> None:
    """Begin with the next job."""
    state[PHASE] = BEGIN
    state[JOB_NO] += 1


@compiled
def advance(
    rules: Any, state: Integers, hosts: Rows, jobs: Rows, starts: Integers, members: Integers, cumulative: Floats,
    act: Rows, scratch: Rows, rows: Rows,
) -> int:  # fmt: skip
    """Go on until somebody else has to decide; return what is to be decided."""
    while state[JOB_NO] < jobs.size:
        job = jobs[state[JOB_NO]]
        if state[PHASE] == BEGIN:
            if rows.size - state[FILLED] < MOST_DRAWS + MOST_REPLICAS:
                return FULL
            state[FIRST] = state[FILLED]
            state[DRAWN] = state[ASSIGNED] = state[REPORTED] = state[TRUSTED] = 0
            state[WANTED] = state[AGREEING] = rules.quorum
            state[MATE] = -1
            state[PHASE] = ASSIGNING
        if state[PHASE] == ASSIGNING:
            found = assign(rules, state, hosts, job, starts, members, cumulative, act, scratch, rows)
            if found < 0:
                return ASK
            if found == 0 and state[ASSIGNED] < rules.quorum:  # nobody takes it: the job is given up
                next_job(state)
                continue
            state[PHASE] = REPORTING
        if state[PHASE] == REPORTING and not report_all(rules, state, hosts, job, act, scratch):
            return REPORT
        if state[PHASE] == CHECKING:
            if not state[ANSWERED] and state[DRAWN] < MOST_DRAWS and state[ASSIGNED] < MOST_REPLICAS:
                return CHECK
            state[ANSWERED] = 0
            state[PHASE] = ASSIGNING if state[WANTED] > state[ASSIGNED] else JUDGING
        if state[PHASE] == ASSIGNING:
            continue
        right = judge(state, scratch)
        if right < 0 and state[ASSIGNED] < MOST_REPLICAS and state[DRAWN] < MOST_DRAWS:
            state[WANTED] = state[ASSIGNED] + 1
            state[PHASE] = ASSIGNING
            continue
        decide(rules, state, hosts, scratch, rows, right)
        next_job(state)
        if rules.pause:
            return DECIDED
    return DONE
