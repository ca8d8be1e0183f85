"""CS3 and WF3 at work: give up early what would be late, ask only for what will be in time, contact when it pays.

The rules are in ``unmeetable_deadlines``, ``cautious_fetch``, ``contact_time``, ``interruptions`` and ``job_history``; everything
else is as in the published family.  Either of the two may be combined with the published other half.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobblestone.policy.client.cautious_fetch import Prospect, fetch_in_time
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.contact_time import PendingReport, contact_delay
from cobblestone.policy.client.core.plain import from_plain
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import NEVER, Job, Phase
from cobblestone.policy.client.estimates import DCF_MAX, DCF_MIN
from cobblestone.policy.client.interruptions import Interruptions
from cobblestone.policy.client.job_history import PROBE_SECONDS, JobHistory, remaining_by_progress
from cobblestone.policy.client.published import Availability, Published, PublishedMemory
from cobblestone.policy.client.round_robin import ProjectQueue, RoundRobinOutcome
from cobblestone.policy.client.round_robin_backends import PURE, RoundRobinBackends
from cobblestone.policy.client.run_list import make_run_list
from cobblestone.policy.client.unmeetable_deadlines import can_be_in_time, hopeless_jobs
from cobblestone.policy.client.ways_2007 import TODAY, Ways2007
from cobblestone.policy.client.work_fetch import TROUBLE_PERIOD, FetchPlan, FetchProject
from cobblestone.policy.dispatch.deadline_check import BookedJob

TINY = 1e-6


@dataclass(slots=True)
class OwnMemory(PublishedMemory):
    """What the policy remembers."""

    interruptions: Interruptions = field(default_factory=Interruptions)
    histories: list[JobHistory] = field(default_factory=list[JobHistory])
    unmeetable: set[int] = field(default_factory=set[int])
    """Serial numbers of jobs that will be late, kept for want of better ones."""
    gap_clock: float = 0.0
    probe_at: float = NEVER  #: when a running job will have shown its size
    waits: bool = False  #: a contact waits


class OwnPolicy(Published):
    """The published family with CS3, WF3 or both."""

    memory: OwnMemory  # pyright: ignore[reportIncompatibleVariableOverride]  # a wider memory, made in _new_memory

    def __init__(
        self,
        choice: PolicyChoice,
        rng: random.Random,
        *,
        availability: Availability = "statistics",
        ways: Ways2007 = TODAY,
        backends: RoundRobinBackends = PURE,
    ) -> None:
        super().__init__(choice, rng, availability=availability, ways=ways, backends=backends)
        self.own_scheduling = choice.cpu_scheduling == 3
        self.own_fetch = choice.work_fetch == 3
        self._prospects: list[tuple[JobHistory, Interruptions, Prospect] | None] = []

    @property
    def trouble_period(self) -> float:
        """These policies clear deadline trouble up themselves, so they look more often."""
        return TROUBLE_PERIOD

    @property
    def name(self) -> str:
        """The name to make it by."""
        return f"own {self.choice}"

    def _new_memory(self) -> OwnMemory:
        return OwnMemory()

    def _recall(self, plain: Any) -> OwnMemory:
        return from_plain(OwnMemory, plain)

    def refit(self) -> None:
        """Look anew at projects and preferences."""
        super().refit()
        memory = self.memory
        memory.histories += [JobHistory()] * (len(self.shares) - len(memory.histories))
        self._prospects = [None] * len(self.shares)
        self.connection_interval = self.state.preferences.connection_interval

    def detached(self, project: int) -> None:
        """Forget a project."""
        super().detached(project)
        del self.memory.histories[project]

    def off(self, seconds: float) -> None:
        """Learn from a time off."""
        super().off(seconds)
        memory, clock = self.memory, self.state.clock
        memory.interruptions = memory.interruptions.after_gap(
            on_seconds=clock - memory.gap_clock, gap_seconds=seconds
        )
        memory.gap_clock = clock

    # -- what it learns -----------------------------------------------------------------------------------------------

    def learn(self, job: Job, elapsed: float) -> None:
        """Remember the size of a job that ended well."""
        if not job.failed and self.choice.job_completion == 2:
            self._remember(job, elapsed)

    def _remember(self, job: Job, size: float) -> None:
        i = job.project
        histories = self.memory.histories
        histories[i] = histories[i].after_job(size / job.raw if job.raw > 0.0 else 1.0)
        self._correct(i)

    def _correct(self, i: int) -> None:
        history = self.memory.histories[i]
        if history.estimate > 0.0 and history.ratios:
            busy, _ = history.busy_seconds(self._fits(i))
            self.changed.add(i)
            # rounded down, since a job that just fits would be refused for the last digit of a sum
            self.memory.dcf[i] = min(DCF_MAX, max(DCF_MIN, busy / history.estimate * (1.0 - 1e-8)))

    def _fits(self, project: int) -> Callable[[float], bool]:
        left = self.memory.histories[project].latency_bound - self.connection_interval
        interruptions = self.memory.interruptions
        return lambda computing: can_be_in_time(computing, left, interruptions)

    def cutoff(self, job: Job) -> float:
        """Take note of a delivery too."""
        histories = self.memory.histories
        histories[job.project] = histories[job.project].after_delivery(
            estimate=job.raw, latency_bound=job.report_deadline - job.received
        )
        return super().cutoff(job)

    def _safe_report(self, deadline: float) -> float:
        """Return the last time before a deadline at which the client may be in contact, if it never waits with one."""
        interval = self.connection_interval
        if interval <= 0.0:
            return deadline
        first = self.state.next_contact(self.state.now)
        if first > deadline:
            return deadline
        return first + math.floor((deadline - first) / interval) * interval

    def _last_report(self, deadline: float) -> float:
        """Return the last time before a deadline at which the client can be in contact; in the past if it cannot."""
        return deadline if self.state.next_contact(self.state.now) <= deadline else -NEVER

    def estimate(self) -> list[ProjectQueue]:
        """Bring remaining times up to date; jobs that will be late are left out of the queues."""
        if not self.own_scheduling:
            return super().estimate()
        changed = self.changed
        running = self.state.running
        changed.update([job.project for job in running])
        late = self.memory.unmeetable
        for i in changed:
            jobs = self.state.projects[i].queue
            dcf = self.memory.dcf[i]
            for job in jobs:
                job.remaining = remaining_by_progress(
                    estimate=job.raw * dcf, used=job.done, fraction_done=job.fraction_done or 0.0
                )
            hopeful = [j for j in jobs if j.serial not in late] if late else jobs
            self.prepared[i] = ProjectQueue(
                self.shares[i], [j.remaining for j in hopeful], [j.cutoff for j in hopeful]
            )
        changed.clear()
        changed.update([job.project for job in running])
        return self.prepared

    def before(self, *, deciding: bool) -> None:
        """Settle debts; a job that has just shown its size may turn out to be too large."""
        self.memory.waits = False
        if deciding and self.state.now >= self.memory.probe_at - TINY:
            self.state.must_schedule = True
        super().before(deciding=deciding)

    # -- CS3 ----------------------------------------------------------------------------------------------------------

    def unmeetable(self) -> Sequence[tuple[Job, Why]]:
        """Find the jobs that will be late; give them up if there is something better to do.

        Between two contacts nothing is gained by giving up: the project would not hear of it, and nothing could come in
        its place.  So such jobs stay, for processors that would be idle otherwise.
        """
        if not self.own_scheduling:
            return ()
        self.estimate()
        state, memory = self.state, self.memory
        before = memory.unmeetable
        now = state.now
        # first those on which most was spent, then those of the project that is owed most
        order = sorted(state.jobs, key=lambda j: (-(j.done // state.slice), -self.debts.long[j.project]))
        least = [
            job.remaining if job.done >= PROBE_SECONDS else memory.histories[job.project].least_seconds()
            for job in order
        ]
        left = [self._last_report(job.report_deadline) - now for job in order]
        late = hopeless_jobs(order, least, left, memory.interruptions, ncpus=self.ncpus)
        memory.unmeetable = {job.serial for job in late}
        if memory.unmeetable != before:
            self.changed.update(range(len(self.shares)))
        if (
            not late
            or not state.preferences.may_give_up
            or not state.may_contact(now)
            or self._contact_delay() > 0.0
        ):
            return ()
        hopeful = [h.can_be_in_time(self._fits(i)) for i, h in enumerate(memory.histories)]
        others = sum(hopeful[job.project] and job.serial not in memory.unmeetable for job in state.jobs)
        if others < self.ncpus and not any(hopeful):
            return ()
        self._learn_of_late(late)
        return [(job, why("give_up.late")) for job in late]

    def _learn_of_late(self, late: Sequence[Job]) -> None:
        now = self.state.now
        for job in late:
            if job.done >= PROBE_SECONDS:
                self._remember(job, job.done + job.remaining)
            elif job.start_order == 0:
                # asking again at once would bring the same kind of job, for ever
                project = self.state.projects[job.project]
                project.not_before = max(project.not_before, now + TROUBLE_PERIOD)
        self.memory.unmeetable = set()

    def schedule(self) -> list[Job]:
        """Make the run list of jobs that can be in time; only processors without one run the others."""
        wanted = super().schedule()
        late = self.memory.unmeetable
        if not self.own_scheduling or not late or not wanted:
            return wanted
        runnable = [job for job in self.state.jobs if job.runnable]
        wanted = self._run_list([j for j in runnable if j.serial not in late], self.ncpus)
        if len(wanted) < self.ncpus:
            wanted += self._run_list([j for j in runnable if j.serial in late], self.ncpus - len(wanted))
        return wanted

    def _run_list(self, jobs: list[Job], ncpus: int) -> list[Job]:
        return make_run_list(
            jobs,
            ncpus=ncpus,
            slice_seconds=self.state.slice,
            shares=self.shares,
            short_term_debts=self.debts.short,
            misses=self.memory.misses,
            dcf=self.memory.dcf,
        )

    # -- when to be in contact ----------------------------------------------------------------------------------------

    def contact_wait(self) -> float:
        """Return how long a contact waits for jobs that it would make late."""
        # once one project was contacted the door is shut for all
        delay = self._contact_delay() if self.state.last_contact < self.state.now else 0.0
        self.memory.waits = delay > 0.0
        return delay

    def _contact_delay(self) -> float:
        state = self.state
        now = state.now
        if not self.own_scheduling or self.connection_interval <= 0.0 or not state.may_contact(now):
            return 0.0
        interruptions, late = self.memory.interruptions, self.memory.unmeetable
        pending = [
            PendingReport(0.0, j.report_deadline - now, j.done, 0.0)
            for j in state.finished
            if not j.failed and j.phase is not Phase.GIVEN_UP
        ]
        for job in state.jobs:
            if job.serial not in late:
                ready = interruptions.wall_seconds(job.remaining)
                pending.append(PendingReport(ready, job.report_deadline - now, job.done, job.remaining))
        return contact_delay(
            pending,
            interval=self.connection_interval,
            ncpus=self.ncpus,
            stretch=interruptions.wall_seconds(1.0),
        )

    def next_wake(self) -> float:
        """Return when a running job will have shown its size, or a waiting contact is to be looked at again."""
        state, memory = self.state, self.memory
        young = [PROBE_SECONDS - j.done for j in state.running if j.done < PROBE_SECONDS]
        memory.probe_at = state.now + min(young) + 1.0 if young and self.own_scheduling else NEVER
        return min(memory.probe_at, state.now + TROUBLE_PERIOD) if memory.waits else memory.probe_at

    def next_look(
        self, projects: list[FetchProject], outcome: RoundRobinOutcome, running: list[int], nobody: bool
    ) -> float:
        """Look often while caution holds work fetch back."""
        if self.own_fetch and nobody and outcome.shortfall > 0.0:
            return TROUBLE_PERIOD
        return super().next_look(projects, outcome, running, nobody)

    # -- WF3 ----------------------------------------------------------------------------------------------------------

    def ask(self, projects: list[FetchProject], outcome: RoundRobinOutcome) -> FetchPlan:
        """Return whom to ask for how much."""
        if not self.own_fetch:
            return super().ask(projects, outcome)
        state, late = self.state, self.memory.unmeetable
        now = state.now
        return fetch_in_time(
            projects,
            outcome,
            [
                self._prospect(i, history) if history.latency_bound else Prospect()
                for i, history in enumerate(self.memory.histories)
            ],
            [
                BookedJob(self._safe_report(j.report_deadline) - now, j.remaining)
                for j in state.jobs
                if j.serial not in late
            ],
            self.memory.interruptions,
            prefs=self.prefs,
            idle_cpus=self.ncpus - len(state.running),
            until_next_contact=self.connection_interval,
            explain=self.explain,
        )

    def _prospect(self, project: int, history: JobHistory) -> Prospect:
        """Return what is expected of a project's next job; worked out anew when something was learned."""
        known = self._prospects[project]
        interruptions = self.memory.interruptions
        if known is None or known[0] is not history or known[1] is not interruptions:
            busy, deviation = history.busy_seconds(self._fits(project))
            left = history.latency_bound - self.connection_interval
            prospect = Prospect(known=True, busy=busy, deviation=deviation, time_left=left)
            known = self._prospects[project] = (history, interruptions, prospect)
        return known[2]


def from_name(name: str, rng: random.Random) -> OwnPolicy:
    """Make the policy of a name such as ``own CS3_WF3_WS2_JC2``.  Raises :class:`ConfigError` for what is no policy."""
    text = name.split(maxsplit=1)[1] if " " in name else "CS3_WF3_WS2_JC2"
    return OwnPolicy(PolicyChoice.parse(text), rng)
