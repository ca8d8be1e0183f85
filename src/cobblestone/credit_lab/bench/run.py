"""One run of a world: jobs find computers, results come back, are compared and judged; attackers and systems take part.

Random numbers are functions of a key, the job and the computer, not of an order: whoever else is there, the same computer
takes as long for the same job.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cobblestone.credit_lab.attacks.acts import HONEST, Act, Attack, Seen, never
from cobblestone.credit_lab.bench.population import Host, computers, enlist, membership, work
from cobblestone.credit_lab.bench.streams import stream_key
from cobblestone.credit_lab.bench.worlds import World
from cobblestone.credit_lab.systems.chance import normal, uniform
from cobblestone.credit_lab.systems.find import LATE, OWN, VISIBLE
from cobblestone.credit_lab.systems.pay import Watcher
from cobblestone.credit_lab.systems.tape import (
    AT_A_TIME,
    DELAY_BOUND,
    ERROR,
    GPU,
    INVALID,
    OWN_BUILD,
    RESULT,
    VALID,
    Job,
    Result,
    Table,
    Tape,
    objects_of,
    table_of,
)
from cobblestone.policy.dispatch.limits import SPOT_CHECK_FACTOR, spot_check_probability

#: Nobody checks results of a quorum of one; other kinds are those of `systems.find`.
NONE = ""

MOST_REPLICAS = 12
MOST_DRAWS = 400
BURST_DAYS, BURST_FACTOR = 0.02, 10.0
CLOCK_JUMPS = 1e-4
_RECORD = ("results", "refused", "trusted", "since_pass", "passes", "caught")


@dataclass(slots=True)
class _Course:
    """How far a job has come."""

    wanted: int
    agreeing: int
    drawn: int = 0
    trusted: bool = False  #: only trusted computers get it now
    refusals: list[Result] = field(default_factory=list[Result])
    assigned: list[Host] = field(default_factory=list[Host])
    reports: list[Result] = field(default_factory=list[Result])

    @property
    def open(self) -> bool:
        """Return whether one more computer may be asked."""
        return self.drawn < MOST_DRAWS and len(self.assigned) < MOST_REPLICAS


class Run:
    """A run that has not ended; ``checks`` is one of the kinds above."""

    def __init__(self, world: World, seed: int, *, attack: Attack | None = None, checks: str = NONE) -> None:
        """Draw the population and its work."""
        self.world, self.checks = world, checks
        self._attack = attack or Attack("", "")
        self._asks = self._attack.refuse is not never or self._attack.renew is not never or self._attack.meets
        honest = computers(world, seed)
        self.hosts: Table = enlist(honest, attack, seed)
        self.jobs = work(world, seed)
        self._known: list[Host] = list(objects_of(self.hosts, Host))
        self._member = membership(honest, world, seed)
        #: account of each identity; 0 is not one
        self.accounts: list[int] = [0, *(host.person + 1 for host in self._known)]
        names = ("pick", "noise", "fail", "wrong", "burst", "jump", "check", "attackers")
        self._keys = {name: stream_key(seed, name) for name in names}

    def finish(self, watchers: Sequence[Watcher] = ()) -> Tape:
        """Run to the end.  All watchers see it; the first decides about checks, if the system does."""
        tables: list[Table] = []
        rows: list[Result] = []
        for number, job in enumerate(objects_of(self.jobs, Job)):
            results = self._results(number, job, watchers)
            rows += results
            for watcher in watchers if results else ():
                began = time.perf_counter()
                watcher.decided(results, job)
                watcher.seconds += time.perf_counter() - began
            if len(rows) > AT_A_TIME:
                tables.append(table_of(rows, RESULT))
                rows.clear()
        table = np.concatenate([*tables, table_of(rows, RESULT)])
        return Tape(jobs=self.jobs, results=table, accounts=np.array(self.accounts), quorum=self.world.quorum)

    def _results(self, number: int, job: Job, watchers: Sequence[Watcher]) -> list[Result]:
        """Return what comes of a job; those that were refused come first."""
        course = _Course(self.world.quorum, self.world.quorum)
        while True:
            self._assign(course, number, job)
            if len(course.assigned) < self.world.quorum:  # nobody takes it: the job is given up
                return course.refusals
            for host in course.assigned[len(course.reports) :]:
                course.reports.append(self._reported(course, number, job, host))
            if course.open and self._checked(course, number, job, watchers):
                continue
            right = self._right(course)
            if right is not None or not course.open:
                return [*course.refusals, *self._judged(course, right)]
            course.wanted = len(course.assigned) + 1

    # ------------------------------------------------------------------------------------- assignment

    def _assign(self, course: _Course, number: int, job: Job) -> None:
        """Find computers until there are as many as wanted, or none are left."""
        mate: Host | None = None
        while len(course.assigned) < course.wanted:
            host, mate = mate, None
            if host is None:
                if course.drawn >= MOST_DRAWS:
                    return
                host = self._candidate(number, course.drawn, job.app)
                course.drawn += 1
            if not self._suits(job, host, course.assigned):
                continue
            # while hardly anybody is trusted yet, others may check
            if course.trusted and host.trusted < SPOT_CHECK_FACTOR and course.drawn < MOST_DRAWS // 4:
                continue
            if host.group and self._asks:
                refusal = self._asked(host, number, job, first=not course.assigned)
                if self._attack.meets and refusal == HONEST and not course.assigned:
                    mate = next(
                        (one for one in self._known if one.group == host.group and one is not host), None
                    )
            else:
                refusal = 2 if uniform(self._keys["fail"], number, host.place) < host.fails else 0
            if refusal:
                course.refusals.append(self._refused(host, number, job, refusal))
                continue
            visible = self.checks == VISIBLE and self.world.quorum == 1 and not course.assigned
            if visible and self._spot_checked(number, host):
                course.wanted = course.agreeing = 2
            course.assigned.append(host)

    def _candidate(self, number: int, n: int, app: int) -> Host:
        """Return the computer that asks as the ``n``th for a job: those that work more ask more often."""
        members, cumulative = self._member[app]
        at = uniform(self._keys["pick"], number, n) * cumulative[-1]
        return self._known[members[bisect_left(cumulative, at)]]

    def _suits(self, job: Job, host: Host, assigned: Sequence[Host]) -> bool:
        """Return whether a computer may get a job: it is there, its owner has no other replica, and the job is routed to it."""
        if not host.begins <= job.time < host.ends or any(one.person == host.person for one in assigned):
            return False
        if self.world.route == "tag" and not job.crossed:
            return (job.stratum == 1) == (host.kind == GPU)
        return self.world.route != "speed" or (job.length > 1.0) == host.fast

    def _spot_checked(self, number: int, host: Host) -> bool:
        return uniform(self._keys["check"], number, host.place) < spot_check_probability(host.passes)

    def _refused(self, host: Host, number: int, job: Job, kind: int) -> Result:
        """Return a result that crashed, was aborted or did not come back."""
        host.refused += 1
        result = self._bare(host, number, job, released=False)
        result.sent, result.run_time, result.cpu_time = job.time - 7200.0, 60.0, 60.0
        result.refusal, result.outcome = kind, ERROR
        return result

    # ---------------------------------------------------------------------------------------- reports

    @staticmethod
    def _bare(host: Host, number: int, job: Job, *, released: bool) -> Result:
        own = host.kind == OWN_BUILD
        return Result(
            job=number,
            host=host.place,
            identity=host.identity,
            version=job.app * 1_000_000 + 2 if own else job.app * 10 + host.kind + (5 if released else 0),
            kind=host.kind,
            ncpus=host.threads,
            time=job.time,
            peak=host.peak,
            benchmark=host.benchmark,
        )

    def _reported(self, course: _Course, number: int, job: Job, host: Host) -> Result:
        """Return what a computer reports, truthfully or not."""
        released = job.time >= host.switches
        keys, place = self._keys, host.place
        speed = host.speed * (self.world.release if released else 1.0)
        result = self._bare(host, number, job, released=released)
        result.work = speed * job.fixed if job.fixed > 0.0 else job.work
        spent = result.work / speed
        result.run_time = spent * math.exp(host.noise * normal(keys["noise"], number, place))
        if uniform(keys["jump"], number, place) < CLOCK_JUMPS:
            result.run_time *= 100.0
        result.sent = job.time - min(DELAY_BOUND, spent * host.wait + 3600.0)
        result.cpu_time = result.run_time * host.busy * (0.15 if host.kind == GPU else 0.97)
        result.counted = 0.9 * result.work
        burst = uniform(keys["burst"], int(job.time // 86400.0), place) < BURST_DAYS
        if uniform(keys["wrong"], number, place) < host.wrong * (BURST_FACTOR if burst else 1.0):
            result.answer = -(place + 1)
        if host.group:
            _falsify(self._act(course, host, number, job), result, host.group)
        return result

    def _checked(self, course: _Course, number: int, job: Job, watchers: Sequence[Watcher]) -> bool:
        """Return whether a check is wanted of what was reported."""
        if self.checks == OWN:
            began = time.perf_counter()
            more = watchers[0].wants(course.reports, job)
            watchers[0].seconds += time.perf_counter() - began
            if more <= 0:
                return False
            course.wanted = min(MOST_REPLICAS, len(course.reports) + more)
            course.agreeing = max(course.agreeing, min(3, len(course.reports) + more))
            course.trusted = True
            return True
        if self.checks == LATE and course.agreeing == 1 and self._spot_checked(number, course.assigned[0]):
            course.wanted = course.agreeing = 2
            return True
        return False

    # --------------------------------------------------------------------------------------- verdicts

    @staticmethod
    def _right(course: _Course) -> int | None:
        """Return the first answer that enough results agree on."""
        answers = [report.answer for report in course.reports]
        return next((answer for answer in answers if answers.count(answer) >= course.agreeing), None)

    def _judged(self, course: _Course, right: int | None) -> list[Result]:
        """Give the reports of a job their verdicts, and bring the records of their computers up to date."""
        replicated = len(course.reports) > 1
        for place, (report, host) in enumerate(zip(course.reports, course.assigned, strict=True)):
            report.check = place >= self.world.quorum
            host.results += 1
            if report.answer != right:
                report.outcome = INVALID
                host.trusted = host.passes = 0
                host.caught += 1
                continue
            report.outcome = VALID
            host.trusted += 1
            host.since_pass = 0 if replicated else host.since_pass + 1
            host.passes += replicated
        return course.reports

    # -------------------------------------------------------------------------------------- attackers

    def _seen(self, host: Host, number: int, job: Job, *, first: bool) -> Seen:
        draw = uniform(self._keys["attackers"], number, host.place)
        record = {name: getattr(host, name) for name in _RECORD}
        return Seen(job=number, time=job.time, length=job.length, first=first, draw=draw, **record)

    def _asked(self, host: Host, number: int, job: Job, *, first: bool) -> int:
        """Return the kind of refusal of an attacker that is given a job; it may begin as somebody else before."""
        attack, seen = self._attack, self._seen(host, number, job, first=first)
        if attack.renew(seen, attack.strength):
            host.identity = len(self.accounts)
            self.accounts.append(len(self.accounts) + self.world.hosts)  # nobody has this account
            for name in _RECORD:
                setattr(host, name, 0)
            seen = self._seen(host, number, job, first=first)
        return attack.refuse(seen, attack.strength)

    def _act(self, course: _Course, host: Host, number: int, job: Job) -> Act:
        seen = self._seen(host, number, job, first=not course.reports)
        seen.accomplices = sum(one.group == host.group for one in course.assigned) - 1
        seen.alone = len(course.assigned) == 1 and self.checks == VISIBLE
        act = Act()
        self._attack.report(seen, act, self._attack.strength)
        return act


def _falsify(act: Act, result: Result, group: int) -> None:
    """Change a truthful report to what an attacker reports; accomplices forge the same."""
    result.run_time *= act.time
    result.cpu_time *= act.time
    # it holds the job that long
    result.sent = min(result.sent, result.time - min(result.run_time, DELAY_BOUND))
    result.peak *= act.peak
    result.benchmark *= act.benchmark
    result.counted *= act.counts
    if act.threads != 1.0 and result.kind != GPU:
        result.peak *= act.threads
        result.cpu_time *= act.threads
        result.ncpus = int(result.ncpus * act.threads)
    if act.benchmark_failed:
        result.peak = result.benchmark = 1e9
    if act.run_time is not None:
        result.run_time = result.cpu_time = act.run_time
    if act.forged or act.copied:
        result.work, result.answer = 0.0, group if act.forged else 0
