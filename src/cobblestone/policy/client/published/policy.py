"""The published family at work: CS1/CS2, WF1/WF2, JC1/JC2 (Kondo et al. 2007).

The rules themselves are in ``round_robin``, ``run_list``, ``work_fetch``, ``debts`` and ``estimates``; this module keeps their
figures up to date and asks them.  The faults of the code of 2007 are switches that are off unless asked for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Literal

from cobblestone.domain.values import float_sum
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.events import from_plain
from cobblestone.policy.client.core.protocol import Changes, Policy
from cobblestone.policy.client.core.reasons import Why, named, why
from cobblestone.policy.client.core.state import (
    NEVER,
    NOTHING,
    ClientJob,
    ClientProject,
    CoreState,
    PlannedFetch,
)
from cobblestone.policy.client.core.values import CPU, FetchRequest, rpc_backoff_2007
from cobblestone.policy.client.estimates import remaining_2007, update_dcf
from cobblestone.policy.client.published import work_fetch
from cobblestone.policy.client.published.debts import (
    DebtAccounting,
    ExactAccounting,
    PolledAccounting,
    PublishedMemory,
)
from cobblestone.policy.client.published.round_robin import (
    PURE,
    ProjectQueue,
    RoundRobinBackends,
    RoundRobinOutcome,
    computation_deadline,
)
from cobblestone.policy.client.published.run_list import (
    TODAY,
    Behaviour2007,
    enforce_run_list,
    last_checkpoints,
    make_run_list,
    stands_2007,
)
from cobblestone.policy.client.published.work_fetch import FetchPreferences, FetchProject

TINY = 1e-6
_by_start = attrgetter("start_order")
Availability = Literal["efficiency", "statistics"] | float


class PublishedPolicy(Policy):
    """CS1 or CS2 with WF1 or WF2.

    ``availability``: what part of the time the host is taken to compute: learned from processor efficiency (2007) or from
    today's statistics, or a number.
    """

    remembers: ClassVar[type[PublishedMemory]] = PublishedMemory  #: a derived policy's is wider
    memory: PublishedMemory
    debts: DebtAccounting
    state: CoreState

    def __init__(
        self,
        choice: PolicyChoice,
        rng: random.Random,
        *,
        availability: Availability = "statistics",
        ways: Behaviour2007 = TODAY,
        backends: RoundRobinBackends = PURE,
    ) -> None:
        self.choice = choice
        self.rng = rng
        self.availability: Availability = availability
        self.ways = ways
        self.faults = ways.faults
        self.backends = backends
        self.polling = ways.poll_seconds > 0.0
        self.reports_all = ways.one_contact_reports_all
        self.explain = False
        self.outcome: RoundRobinOutcome | None = None
        self._settled_at = -1.0

    @property
    def name(self) -> str:
        """The name to make it by."""
        return self.choice.within("published")

    def bind(self, state: CoreState, memory: Any = None, *, explain: bool = False) -> None:
        """Work for a client."""
        self.state = state
        self.explain = explain
        self.memory = self.remembers() if memory is None else from_plain(self.remembers, memory)
        debts = self.memory.debts
        if self.faults.wall_time_to_latest:
            self.debts = PolledAccounting(state, debts, literally=self.ways.every_poll)
        else:
            self.debts = ExactAccounting(
                state, debts, count_off_time=self.availability == "efficiency", processors=self.processors
            )
        self.refit()

    # -- what it is told ----------------------------------------------------------------------------------------------

    def refit(self) -> None:
        """Refresh projects and preferences."""
        state, memory = self.state, self.memory
        prefs = state.preferences
        self.ncpus = max(1, state.ncpus)
        self.prefs = FetchPreferences(
            ncpus=self.ncpus,
            slice_seconds=prefs.slice_seconds,
            buffer_min=prefs.buffer_min,
            buffer_additional=prefs.buffer_additional,
        )
        self.shares = [p.share for p in state.projects]
        self.total_share = float_sum(self.shares)
        more = len(self.shares) - len(memory.dcf)
        memory.dcf += [1.0] * more
        memory.misses = memory.misses + [0] * more
        memory.trouble = memory.trouble + [0] * more
        memory.shortfalls = memory.shortfalls + [0.0] * more
        self.debts.refit()
        self.prepared = [ProjectQueue(share, (), ()) for share in self.shares]
        self.fetch_rows = [FetchProject(share, contactable=True, long_term_debt=0.0) for share in self.shares]
        self.changed = set(range(len(self.shares)))  #: projects whose entry in ``prepared`` is out of date
        self.outcome = None

    def detached(self, project: int) -> None:
        """Forget a project."""
        memory = self.memory
        del memory.dcf[project]
        for name in ("misses", "trouble", "shortfalls"):  # two of them may be the same list
            column: list[float] = getattr(memory, name)
            setattr(memory, name, column[:project] + column[project + 1 :])
        self.debts.forget(project)

    def passed(self, seconds: float) -> None:
        """Count scheduled time."""
        self.debts.passed(seconds)

    def off(self, seconds: float) -> None:
        """Take note of a time off."""
        self.debts.gap(seconds)

    def before(self, *, deciding: bool) -> None:
        """Settle debts; a polling client does so at the poll before something happens, and late in those where it decides."""
        if deciding != self.polling:
            self.settle()

    def settle(self) -> None:
        """Settle debts up to now, before something changes."""
        now = self.state.now
        if now != self._settled_at:
            self._settled_at = now
            self.debts.settle(self._standing)

    def _standing(self) -> tuple[list[bool], list[bool]]:
        """Return which projects have runnable jobs, and which can be asked for work."""
        projects = self.state.projects
        return [bool(self.on_cpus(p.queue)) for p in projects], [self.may_ask(p) for p in projects]

    def on_cpus(self, jobs: list[ClientJob]) -> list[ClientJob]:
        """Return the jobs that take a processor: all of them, as far as this family knows."""
        return jobs

    def processors(self, job: ClientJob) -> float:
        """Return how many processors a task is charged for while it runs."""
        return 1.0

    def may_ask(self, project: ClientProject) -> bool:
        """Tell whether a project can be asked for work now."""
        return project.contactable(self.state.now)

    def outdated(self, project: int | None = None) -> None:
        """Repeat the forecast at the next question."""
        self.outcome = None
        if project is not None:
            self.changed.add(project)

    def arrived(self, job: ClientJob) -> None:
        """Estimate a job that has come."""
        job.remaining = job.raw * self.memory.dcf[job.project]
        job.cutoff = self.cutoff(job)

    def cutoff(self, job: ClientJob) -> float:
        """Return the time by which a job should be computed."""
        return computation_deadline(
            job.report_deadline, buffer_min=self.prefs.buffer_min, slice_seconds=self.state.slice
        )

    def ended(self, job: ClientJob, elapsed: float) -> None:
        """Charge it and learn from it."""
        self.debts.ended(job)
        self.learn(job, elapsed)

    def learn(self, job: ClientJob, elapsed: float) -> None:
        """Draw conclusions from a job that has ended."""
        if self.choice.job_completion == 2 and not job.failed:
            dcf = self.memory.dcf
            dcf[job.project] = update_dcf(dcf[job.project], actual=elapsed, raw_estimate=job.raw)

    def preempted(self, job: ClientJob) -> None:
        """Close its account for now."""
        self.debts.preempted(job)

    def replied(self, project: int, requests: Mapping[str, FetchRequest], jobs: Sequence[ClientJob]) -> None:
        """Wait before the next contact if there was no work."""
        if requests and not jobs:
            self.unreachable(project)
        else:
            self.state.projects[project].failures = 0
        self.state.must_schedule = True

    def unreachable(self, project: int) -> None:
        """Wait before the next contact."""
        row = self.state.projects[project]
        row.failures += 1
        row.not_before = self.state.now + rpc_backoff_2007(row.failures, rng=self.rng)

    # -- what it expects ----------------------------------------------------------------------------------------------

    def available(self) -> float:
        """Return the CPU seconds that a scheduled task is expected to get per second of wall time."""
        if self.availability == "statistics":
            state = self.state
            return state.on.at(state.now) * state.active.at(state.now) * state.permission.throttle
        return self.memory.debts.efficiency if self.availability == "efficiency" else self.availability

    def workload(self) -> list[ClientJob] | None:
        """Return all jobs, their remaining times up to date, if the server's check (WS2) wants them."""
        if self.choice.work_send != 2:
            return None
        self.estimate()
        return self.state.jobs

    def correction(self, project: int) -> float:
        """Return the project's duration correction factor."""
        return self.memory.dcf[project]

    def estimate(self) -> list[ProjectQueue]:
        """Bring remaining times up to date and return the queues for the round-robin simulation.

        Only those of projects whose tasks ran or whose queue changed since the last time are made again.
        """
        changed = self.changed
        changed.update([job.project for job in self.state.running])
        for i in changed:
            dcf = self.memory.dcf[i]
            jobs = self.state.projects[i].queue
            for job in jobs:
                if job.done > 0.0:
                    job.remaining = remaining_2007(
                        estimate=job.raw * dcf, used=job.done, fraction_done=job.fraction_done or 0.0
                    )
                else:
                    job.remaining = job.raw * dcf
            jobs = self.on_cpus(jobs)
            self.prepared[i] = ProjectQueue(
                self.shares[i], [j.remaining for j in jobs], [j.cutoff for j in jobs]
            )
        changed.clear()
        changed.update([job.project for job in self.state.running])
        return self.prepared

    def look_ahead(self) -> RoundRobinOutcome:
        """Simulate round robin, unless nothing has happened since."""
        if self.outcome is None:
            queues = self.estimate()
            if self.ways.every_poll:
                jobs = [(j.project, j.remaining, j.cutoff) for j in self.state.jobs]
                self.outcome = self.backends.steps(
                    jobs, self.state.now, self.ncpus, self.available(), self.prefs.buffer_total, self.shares
                )
            else:
                self.outcome = self.backends.queues(
                    queues,
                    self.state.now,
                    self.ncpus,
                    self.available(),
                    self.prefs.buffer_total,
                    self.total_share,
                )
            self.memory.misses = self.outcome.misses
            self.memory.shortfalls = self.outcome.shortfalls
        return self.outcome

    # -- what runs ----------------------------------------------------------------------------------------------------

    def schedule(self) -> list[ClientJob]:
        """Return the jobs that ought to run."""
        state = self.state
        literal = self.ways.every_poll
        if not literal:
            self.settle()
        outcome = self.look_ahead()
        if literal:
            self.settle()
            self.outcome = None  # in that order the availability has changed
        if state.ncpus == 0:
            return []
        return make_run_list(
            self.on_cpus([job for job in state.jobs if job.runnable]),
            ncpus=self.ncpus,
            slice_seconds=state.slice,
            shares=self.shares,
            short_term_debts=self.debts.short,
            misses=None if self.choice.cpu_scheduling == 1 else outcome.misses,
            dcf=self.memory.dcf,
            ties_ignore_progress=self.faults.ties_ignore_progress,
        )

    def reason(self, job: ClientJob) -> Why:
        """Return why a job is on the run list."""
        i = job.project
        project = self.state.projects[i].description.id
        misses = self.memory.misses[i] if self.choice.cpu_scheduling != 1 else 0
        if misses:
            return why(
                "run.deadlines",
                job=job.id,
                project=project,
                misses=misses,
                hours=(job.report_deadline - self.state.now) / 3600.0,
                left=job.remaining / 3600.0,
            )
        return why("run.debt", job=job.id, project=project, debt=self.debts.short[i])

    def list_stands(self) -> float:
        """Return until when no deadline can change the list; 0 where polls, faults or the processor efficiency matter."""
        if self.ways != TODAY or self.availability == "efficiency":
            return 0.0
        misses = None if self.choice.cpu_scheduling == 1 else self.memory.misses
        return stands_2007(self.state, misses, self.memory.dcf, self.available())

    def enforce_due(self) -> bool:
        """Return whether a job may have waited long enough."""
        state = self.state
        if self.polling:
            return state.now - state.last_enforce > 60.0
        return state.now >= state.look_again - TINY

    def enforce(self, wanted: Sequence[ClientJob]) -> Changes:
        """Return who starts and who gives way."""
        memory, running = self.memory, self.on_cpus(self.state.running)
        memory.trouble = memory.misses
        if len(running) == len(wanted) and all(job.running for job in wanted):
            return Changes()
        running = sorted(running, key=_by_start)
        change, memory.trouble = enforce_run_list(
            wanted,
            running,
            now=self.state.now,
            ncpus=self.ncpus,
            slice_seconds=self.state.slice,
            misses=memory.misses,
            last_checkpoint=last_checkpoints([job.checkpointed_at for job in running], self.state.now),
            line_up=self.ways.line_up,
            patient=self.patient,
        )
        for job in change.start:
            job.edf = bool(memory.misses[job.project]) and self.choice.cpu_scheduling != 1
        return change

    def patient(self, job: ClientJob, seconds: float) -> bool:
        """Tell whether a job in deadline trouble can wait so long for another's time slice to end: no."""
        return False

    # -- work fetch ---------------------------------------------------------------------------------------------------

    def fetch(self) -> PlannedFetch:
        """Return whom to ask for work, and when to look again."""
        state = self.state
        now = state.now
        literal = self.ways.every_poll
        self.settle()
        if self.choice.work_fetch == 1:
            self.estimate()
        projects = self.look_at_projects(self.debts.long)
        running = [0] * len(self.shares)
        for job in state.running:
            running[job.project] += 1
        wait = work_fetch.FETCH_PERIOD
        if self.choice.work_fetch == 1:
            plan = work_fetch.fetch_by_queue(
                projects, self.memory.shortfalls, prefs=self.prefs, explain=self.explain
            )
            if not literal:
                wait = work_fetch.next_queue_check(projects, prefs=self.prefs, running=running)
        else:
            outcome = self.look_ahead()
            plan = self.ask(projects, outcome)
            if not literal:
                wait = self.next_look(projects, outcome, running, plan.project is None)
        state.next_fetch = now + wait if literal else max(now + wait, state.next_contact(now))
        if plan is work_fetch.NOBODY:
            return NOTHING
        others = {i: {CPU: FetchRequest(seconds)} for i, seconds in plan.others.items() if seconds > 0.0}
        requests = {CPU: FetchRequest(plan.seconds)} if plan.seconds > 0.0 else {}
        return PlannedFetch(
            plan.project, requests, others, named(plan.reasons, [p.description.id for p in state.projects])
        )

    def look_at_projects(self, long_debts: list[float]) -> list[FetchProject]:
        """Return the inputs of work fetch."""
        by_queue = self.choice.work_fetch == 1
        rows = zip(self.fetch_rows, self.state.projects, long_debts, self.memory.dcf, strict=True)
        for row, project, debt, dcf in rows:
            queue = self.on_cpus(project.queue)
            row.contactable = self.may_ask(project)
            row.long_term_debt = debt
            row.dcf = dcf
            row.queued = len(queue)
            if by_queue:
                row.queued_seconds = float_sum([job.remaining for job in queue])
        return self.fetch_rows

    def ask(self, projects: list[FetchProject], outcome: RoundRobinOutcome) -> work_fetch.FetchPlan:
        """Return WF2's answer."""
        return work_fetch.fetch_by_shortfall(
            projects,
            outcome,
            prefs=self.prefs,
            misses=self.memory.trouble if self.polling else None,
            order_dependent=self.faults.order_dependent_fetch,
            explain=self.explain,
        )

    def next_look(
        self, projects: list[FetchProject], outcome: RoundRobinOutcome, running: list[int], nobody: bool
    ) -> float:
        """Return after how many seconds work fetch may find something new: not before some project can be asked.

        While jobs in trouble hold it back, a look with each new run list is enough: more change no figure beyond its interval.
        """
        wait = work_fetch.next_fetch_check(
            projects,
            outcome,
            prefs=self.prefs,
            cpu_fraction=self.available(),
            running=running,
            trouble_period=self.state.slice,
        )
        return max(wait, self.state.first_supplier() - self.state.now)

    # -- contacts -----------------------------------------------------------------------------------------------------

    def report_at(self, job: ClientJob) -> float:
        """Return when a finished job alone is reason enough for a contact."""
        return work_fetch.report_due(
            report_deadline=job.report_deadline,
            completed_at=job.completed_at,
            buffer_min=self.prefs.buffer_min,
        )

    def report_due(self, job: ClientJob) -> Why | None:
        """Return why it is; the polling client of 2007 waited until a report was overdue."""
        now = self.state.now
        due = now > job.report_at if self.polling else now > job.report_at - TINY
        return why("contact.report", job=job.id) if due else None

    def next_wake(self) -> float:
        """Return never; a literal client of 2007 wakes at each poll."""
        return self.state.now + self.ways.poll_seconds if self.ways.every_poll else NEVER

    def least_wait(self) -> float:
        """Return the length of a poll, or a second."""
        return self.ways.poll_seconds or 1.0


def from_name(name: str, rng: random.Random) -> PublishedPolicy:
    """Make the policy of a name such as ``published CS2_WF2_WS2_JC2``.

    Raises :class:`ConfigError` for combinations that are not of this family.
    """
    return PublishedPolicy(PolicyChoice.parse(name), rng)
