"""CS3 and WF3 at work: give up early what would be late, ask only for what will be in time, contact when it pays.

The rules are in ``app_history`` (what a job still needs), ``project_history`` (what is to be expected of a project),
``unmeetable_deadlines`` (what to give up, and how much of it), ``yields`` (what a share is worth), ``cautious_fetch``,
``contact_time`` and ``interruptions``; everything else is as in the published family.  Either of the two may be combined with
the published other half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import LONGEST, NEVER, ClientJob, Phase
from cobblestone.policy.client.own.cautious_fetch import PendingReport, contact_delay, fetch_in_time
from cobblestone.policy.client.own.history import (
    PROBE_SECONDS,
    JobOutlook,
    PastJob,
    ProgressClaim,
    Trials,
    note_progress,
)
from cobblestone.policy.client.own.lateness import can_be_in_time
from cobblestone.policy.client.own.learning import OwnLearning, bound_of
from cobblestone.policy.client.published.round_robin import ProjectQueue, RoundRobinOutcome
from cobblestone.policy.client.published.run_list import make_run_list
from cobblestone.policy.client.published.work_fetch import TROUBLE_PERIOD, FetchPlan, FetchProject, Urgency
from cobblestone.policy.dispatch.deadline_check import BookedJob, all_in_time, too_many

TINY = 1e-6
#: Jobs that are given up with one run list; a host that comes back after weeks may hold thousands.
MOST_AT_ONCE = 100
#: Time slices that a job in deadline trouble must have to spare to wait for the end of another's.
CALM = 1.5


class OwnPolicy(OwnLearning):
    """The published family with CS3, WF3 or both."""

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
        changed, late, state = self.changed, self.memory.unmeetable, self.state
        if state.now != self._estimated_at:
            self._estimated_at = state.now
            changed.update([job.project for job in state.running])
        for i in changed:
            jobs = state.projects[i].queue
            outlook = self.outlooks[i]
            for job in jobs:
                job.remaining = self._remaining(job) if job.done > 0.0 else self.expected(job, outlook)
            hopeful = self.on_cpus([j for j in jobs if j.serial not in late] if late else jobs)
            self.prepared[i] = ProjectQueue(
                self.shares[i], [j.remaining for j in hopeful], [j.cutoff for j in hopeful]
            )
        changed.clear()
        return self.prepared

    def expected(self, job: ClientJob, outlook: JobOutlook) -> float:
        """Return the probable need of a job that has not started."""
        return min(job.raw * outlook.by_app.get(job.app_name, outlook.correction), LONGEST)

    def _remaining(self, job: ClientJob) -> float:
        """Return the probable remaining need of a started job, and record its progress."""
        fraction = job.fraction_done
        note_progress(self.memory.progress.setdefault(job.serial, {}), job.done, fraction)
        likely = self._history(job).need(estimate=job.raw, used=job.done, fraction=fraction).likely
        return min(max(1.0, likely), LONGEST)

    def before(self, *, deciding: bool) -> None:
        """Settle debts; a job that has just begun may show that it is too large."""
        memory = self.memory
        memory.waits = False
        self._estimated_at = -NEVER  # running jobs may have said something since
        if deciding and self.state.now >= memory.probe_at - TINY:
            memory.probe_at = NEVER
            self.estimate()
            young = [job for job in self.state.running if job.done < 2 * PROBE_SECONDS]
            if any(self._claim(job) is not None for job in young):
                self.state.must_schedule = True
        super().before(deciding=deciding)

    # -- CS3 ----------------------------------------------------------------------------------------------------------

    def unmeetable(self) -> Sequence[tuple[ClientJob, Why]]:
        """Find the jobs that will be late; give them up as far as the allowance goes.

        Between two contacts nothing is gained by giving up: the project would not hear of it, and nothing could come in
        its place.  So such jobs stay, for processors that would be idle otherwise.
        """
        self.estimate()
        state, memory = self.state, self.memory
        before = memory.unmeetable
        stretch = memory.interruptions.wall_seconds(1.0)
        late = [
            job
            for job in state.jobs
            if job.report_deadline - state.now < job.remaining * stretch + self.connection_interval
            and not self.outlooks[job.project].hopeless
            and (claim := self._claim(job)) is not None
            and (claim.certain or self._believes(job, claim))
        ]
        memory.unmeetable = {job.serial for job in late}
        memory.unmeetable |= self._too_many()
        if memory.unmeetable != before:
            self.changed.update([job.project for job in state.jobs])
        may = state.may_give_up and state.may_contact(state.now)
        if not late or not may or self._contact_delay() > 0.0:
            return ()
        given_up = (job for job in late if self._give_up(job))
        return [(job, why("give_up.late", job=job.id)) for job in islice(given_up, MOST_AT_ONCE)]

    def _claim(self, job: ClientJob) -> ProgressClaim | None:
        """Return the need of a job that would be late even with luck; None for one with the benefit of the doubt."""
        left = self._last_report(job.report_deadline) - self.state.now
        if left <= 0.0:
            return ProgressClaim(LONGEST, LONGEST, certain=True)
        interruptions = self.memory.interruptions
        if can_be_in_time(job.remaining, left, interruptions):
            return None
        history = self._history(job)
        need = history.need(estimate=job.raw, used=job.done, fraction=job.fraction_done).least
        if need <= 0.0 or can_be_in_time(need, left, interruptions):
            return None
        sizes = history.by_sizes(job.raw, job.done, job.fraction_done).least
        certain = sizes > 0.0 and not can_be_in_time(sizes, left, interruptions)
        return ProgressClaim(job.done + need, job.done + sizes, certain)

    def _believes(self, job: ClientJob, claim: ProgressClaim) -> bool:
        """Tell whether a job is late because its progress alone says so; it is put on trial while that is not believed."""
        memory = self.memory
        if job.serial in memory.unmeetable:
            return True
        history = self._history(job)
        if not history.trials.believed or job.serial in memory.claims:
            memory.claims.setdefault(job.serial, claim)
            return False
        self._with_trials(job, history.trials.after_belief())
        return True

    def _with_trials(self, job: ClientJob, trials: Trials) -> None:
        apps = self.memory.projects[job.project].apps
        apps[self.app_key(job)] = self._history(job).with_trials(trials)

    def _too_many(self) -> set[int]:
        """Return the jobs not begun for which there is no time beside those that were: better some late than all."""
        if not any(self.memory.misses):
            return set()
        now, late = self.state.now, self.memory.unmeetable
        wall = self.memory.interruptions.wall_seconds
        promised = [
            (job, BookedJob(job.report_deadline - now, wall(job.remaining)))
            for job in self.on_cpus(self.state.jobs)
            if job.serial not in late and not self.outlooks[job.project].hopeless
        ]
        if all_in_time([booked for _, booked in promised], ncpus=self.ncpus):
            return set()
        waiting = [(job.serial, booked) for job, booked in promised if job.done <= 0.0]
        begun = [booked for job, booked in promised if job.done > 0.0]
        excess = too_many(begun, [booked for _, booked in waiting], ncpus=self.ncpus)
        return {serial for (serial, _), late in zip(waiting, excess, strict=True) if late}

    def _give_up(self, job: ClientJob) -> bool:
        """Tell whether a job may be given up, and learn from it if so."""
        i, now = job.project, self.state.now
        if job.done <= 0.0 and now > job.report_deadline and self.connection_interval <= 0.0:
            # the project has given it up already, and its size is not known
            self.memory.unmeetable.discard(job.serial)
            self.outcome = None
            return True
        known = self.memory.projects[i]
        known.giving_up = known.giving_up.at(now, ncpus=self.ncpus)
        if not known.giving_up.possible:
            return False
        known.giving_up = known.giving_up.after_one()
        self._book(i, job.done, useful=False)
        claim = self.memory.claims.pop(job.serial, None)
        if claim is not None:
            self._with_trials(job, self._history(job).trials.after_trial(claim, job.done, ended=False))
        size = job.done + job.remaining
        self.remember(job, PastJob(size, job.raw, bound_of(job), given_up=True, app=job.app_name))
        self.memory.unmeetable.discard(job.serial)
        self.outcome = None
        return True

    def schedule(self) -> list[ClientJob]:
        """Make the run list of jobs that can be in time; only processors without one run the others."""
        wanted = super().schedule()
        late = self.memory.unmeetable
        if not late or not wanted:
            return wanted
        runnable = self.on_cpus([job for job in self.state.jobs if job.runnable])
        wanted = self._run_list([j for j in runnable if j.serial not in late], self.ncpus)
        if len(wanted) < self.ncpus:
            wanted += self._run_list([j for j in runnable if j.serial in late], self.ncpus - len(wanted))
        return wanted

    def patient(self, job: ClientJob, seconds: float) -> bool:
        """Tell whether a job in trouble can well wait so long for its turn, if it runs alone then."""
        spare = job.cutoff - self.state.now - self.memory.interruptions.wall_seconds(job.remaining)
        return spare > max(0.0, seconds) + CALM * self.state.slice

    def _run_list(self, jobs: list[ClientJob], ncpus: int) -> list[ClientJob]:
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
        if self.connection_interval <= 0.0 or not state.may_contact(now):
            return 0.0
        interruptions, late = self.memory.interruptions, self.memory.unmeetable
        pending = [
            PendingReport(0.0, j.report_deadline - now, j.done, 0.0)
            for j in state.finished
            if not j.failed and j.phase is not Phase.GIVEN_UP
        ]
        for job in self.on_cpus(state.jobs):
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
        memory.probe_at = state.now + min(young) + 1.0 if young else NEVER
        return min(memory.probe_at, state.now + TROUBLE_PERIOD) if memory.waits else memory.probe_at

    def next_look(
        self, projects: list[FetchProject], outcome: RoundRobinOutcome, running: list[int], nobody: bool
    ) -> float:
        """Look again after a time slice while caution holds work fetch back."""
        if nobody and self.memory.urgency != Urgency.DONT_NEED:
            return self.state.slice
        return super().next_look(projects, outcome, running, nobody)

    def list_stands(self) -> float:
        """Return 0: each look learns from the progress of the jobs."""
        return 0.0

    # -- WF3 ----------------------------------------------------------------------------------------------------------

    def ask(self, projects: list[FetchProject], outcome: RoundRobinOutcome) -> FetchPlan:
        """Return whom to ask for how much."""
        state, late = self.state, self.memory.unmeetable
        now, jobs = state.now, self.on_cpus(state.jobs)
        for i in range(len(projects)):
            self._look_out(i)
        promised = [
            BookedJob(
                NEVER if self.outlooks[j.project].hopeless else self._safe_report(j.report_deadline) - now,
                j.remaining,
            )
            for j in jobs
            if j.serial not in late
        ]
        held = [0.0] * len(projects)
        for job in jobs:
            held[job.project] += job.remaining
        plan = fetch_in_time(
            projects,
            outcome,
            self.outlooks,
            promised,
            self.memory.interruptions,
            prefs=self.prefs,
            held=held,
            remaining=[job.remaining for job in jobs],
            idle_cpus=self.ncpus - len(self.on_cpus(state.running)),
            until_next_contact=self.connection_interval,
            explain=self.explain,
        )
        self.memory.urgency = int(plan.urgency)
        return plan
