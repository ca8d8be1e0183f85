"""What our own policy (CS3, WF3) learns from jobs, and the effects on shares, estimates and deadlines."""

from __future__ import annotations

import random
from collections.abc import Sequence

from cobblestone.domain.values import float_sum
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.state import NEVER, ClientJob
from cobblestone.policy.client.core.values import ABSURD_GAP
from cobblestone.policy.client.estimates import DCF_MAX, DCF_MIN
from cobblestone.policy.client.own.history import AppHistory, JobOutlook, PastJob
from cobblestone.policy.client.own.lateness import WASTE_AVERSION, can_be_in_time
from cobblestone.policy.client.own.memory import OwnMemory, ProjectMemory
from cobblestone.policy.client.published.policy import Availability, PublishedPolicy
from cobblestone.policy.client.published.round_robin import PURE, RoundRobinBackends
from cobblestone.policy.client.published.run_list import TODAY, Behaviour2007

#: Standard deviations of bad luck with off-times that the order of deadlines allows for.
EDF_CAUTION = 1.0
#: A caution that changes by less (seconds) leaves deadlines as they are.
SAME_CAUTION = 600.0
#: A project's weight that changes by less leaves its share as it is.
SAME_WEIGHT = 0.01


class OwnLearning(PublishedPolicy):
    """The knowledge of our own policy, and the deadlines and shares that it derives from it."""

    remembers = OwnMemory
    memory: OwnMemory  # pyright: ignore[reportIncompatibleVariableOverride]  # a wider memory

    def __init__(
        self,
        choice: PolicyChoice,
        rng: random.Random,
        *,
        availability: Availability = "statistics",
        ways: Behaviour2007 = TODAY,
        backends: RoundRobinBackends = PURE,
        waste_aversion: float = WASTE_AVERSION,
    ) -> None:
        super().__init__(choice, rng, availability=availability, ways=ways, backends=backends)
        self.waste_aversion = waste_aversion

    @property
    def name(self) -> str:
        """The name to make it by."""
        return f"own {self.choice}"

    def refit(self) -> None:
        """Refresh projects and preferences."""
        super().refit()
        memory = self.memory
        count = len(self.shares)
        memory.projects += [ProjectMemory() for _ in range(count - len(memory.projects))]
        self.full_shares = list(self.shares)
        more = count - len(memory.outlooks)
        memory.outlooks += [JobOutlook()] * more
        memory.cautions += [0.0] * more
        memory.outlook_of += [None] * more
        self.outlooks, self.cautions = memory.outlooks, memory.cautions
        self._estimated_at = -NEVER
        self.connection_interval = self.state.preferences.connection_interval
        if memory.interval != self.connection_interval:
            memory.interval = self.connection_interval
            memory.outlook_of = [None] * count
        if memory.full_shares == self.full_shares:
            self._share_out(memory.shares)
            return
        memory.full_shares = list(self.full_shares)
        for i in range(count):
            self._look_out(i)
            self._weigh(i)
        memory.shares = list(self.shares)

    def detached(self, project: int) -> None:
        """Forget a project."""
        super().detached(project)
        memory = self.memory
        for column in (memory.projects, memory.outlooks, memory.outlook_of, memory.cautions):
            del column[project]

    def off(self, seconds: float) -> None:
        """Learn from a time off, unless it is so long that the clock may be wrong."""
        super().off(seconds)
        if seconds > ABSURD_GAP:
            return
        memory, clock = self.memory, self.state.clock
        memory.interruptions = memory.interruptions.after_gap(
            on_seconds=clock - memory.gap_clock, gap_seconds=seconds
        )
        memory.gap_clock = clock

    def preempted(self, job: ClientJob) -> None:
        """Close its account for now; what it still needs may not have been looked at since it ran."""
        super().preempted(job)
        self.changed.add(job.project)

    # -- what it learns -----------------------------------------------------------------------------------------------

    def learn(self, job: ClientJob, elapsed: float) -> None:
        """Remember what a job needed, and whether anything came of it."""
        readings, claim = self.memory.progress.pop(job.serial, {}), self.memory.claims.pop(job.serial, None)
        if job.given_up:
            return  # that was learned when it was given up
        i = job.project
        known = self.memory.projects[i]
        self._book(i, elapsed, useful=self.state.now <= job.report_deadline)
        if job.failed or self.choice.job_completion == 1:
            return
        ratio = elapsed / job.raw if job.raw > 0.0 else 1.0
        history = self._history(job).after_job(ratio, tuple(readings.values()), elapsed)
        if claim is not None:
            history = history.with_trials(history.trials.after_trial(claim, elapsed, ended=True))
        known.apps[self.app_key(job)] = history
        self.remember(job, PastJob(elapsed, job.raw, bound_of(job), app=job.app_name))
        self._look_out(i)

    def _history(self, job: ClientJob) -> AppHistory:
        return self.memory.projects[job.project].apps.get(self.app_key(job)) or AppHistory()

    def app_key(self, job: ClientJob) -> str:
        """Return under which name a project's jobs like this one are remembered."""
        return job.app_name

    def remember(self, job: ClientJob, past: PastJob) -> None:
        """Remember a job for what is to be expected of its project's next ones."""
        known = self.memory.projects[job.project]
        known.history = known.history.after_job(past)

    def _book(self, i: int, seconds: float, *, useful: bool) -> None:
        """Record the outcome of a project's time, and reweigh its share."""
        if len(self.shares) == 1:
            return
        known = self.memory.projects[i]
        known.worth = known.worth.after_job(seconds, useful=useful, now=self.state.now)
        self._weigh(i)

    def _weigh(self, i: int) -> None:
        worth = self.memory.projects[i].worth
        share = self.full_shares[i] * worth.weight(waste_aversion=self.waste_aversion)
        if abs(share - self.shares[i]) < SAME_WEIGHT * self.full_shares[i]:
            return
        self.settle()
        self._share_out([share if j == i else each for j, each in enumerate(self.shares)])
        self.memory.shares = list(self.shares)
        self.changed.add(i)

    def _share_out(self, shares: Sequence[float]) -> None:
        """Take other shares than the volunteer's."""
        self.shares = list(shares)
        for row, share in zip(self.fetch_rows, shares, strict=True):
            row.share = share
        self.total_share = float_sum(self.shares)
        self.debts.reweigh(self.shares)

    def _look_out(self, i: int) -> None:
        """Work out what is to be expected of a project's jobs, if something was learned."""
        interruptions, margin = self.memory.interruptions, self.connection_interval
        history = self.memory.projects[i].history
        if self.memory.outlook_of[i] == (history, interruptions):
            return
        self.memory.outlook_of[i] = (history, interruptions)
        before = self.outlooks[i]
        self.outlooks[i] = found = history.outlook(
            lambda computing, bound: can_be_in_time(computing, bound - margin, interruptions)
        )
        # rounded down, since a job that just fits would be refused for the last digit of a sum
        self.memory.dcf[i] = min(DCF_MAX, max(DCF_MIN, found.correction * (1.0 - 1e-8)))
        self.changed.add(i)
        caution = self._caution(i)
        if found.hopeless != before.hopeless or abs(caution - self.cautions[i]) > SAME_CAUTION:
            self.cautions[i] = caution
            for job in self.state.projects[i].queue:
                job.cutoff = self._latest_end(job)

    def cutoff(self, job: ClientJob) -> float:
        """Return the time by which a job should be computed, and take note of its delivery."""
        known = self.memory.projects[job.project]
        known.history = known.history.after_delivery(estimate=job.raw, latency_bound=bound_of(job))
        self._look_out(job.project)
        return self._latest_end(job)

    def _latest_end(self, job: ClientJob) -> float:
        """Return until when a job should be computed; a job that cannot be in time does not press."""
        if self.outlooks[job.project].hopeless:
            return NEVER
        return super().cutoff(job) - self.cautions[job.project]

    def _caution(self, i: int) -> float:
        """Return how much earlier than its deadline a project's job should be ready, since off-times vary."""
        busy, bound = self.outlooks[i].busy, self.memory.projects[i].history.latency_bound
        wall = self.memory.interruptions.wall_seconds
        return min(wall(busy, deviations=EDF_CAUTION) - wall(busy), 0.5 * max(0.0, bound))


def bound_of(job: ClientJob) -> float:
    """Return a job's latency bound, to the millisecond, since it is worked out of two times."""
    return round(job.report_deadline - job.received, 3)
