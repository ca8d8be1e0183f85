"""A client with our own policies, CS3 and WF3, on a simulated host."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from cobblestone.policy.client.cautious_fetch import Prospect, fetch_in_time
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.contact_time import PendingReport, contact_delay
from cobblestone.policy.client.estimates import DCF_MAX, DCF_MIN
from cobblestone.policy.client.hopeless import can_be_in_time, hopeless_jobs
from cobblestone.policy.client.interruptions import Interruptions
from cobblestone.policy.client.job_history import PROBE_SECONDS, JobHistory, remaining_by_progress
from cobblestone.policy.client.round_robin import ProjectQueue, RoundRobinOutcome
from cobblestone.policy.client.run_list import make_run_list
from cobblestone.policy.client.work_fetch import TROUBLE_PERIOD, FetchPlan, FetchProject
from cobblestone.policy.dispatch.deadline_check import BookedJob
from cobblestone.simulator.classic import ClassicClient
from cobblestone.simulator.engine import NEVER, TINY, HostRun
from cobblestone.simulator.network import Network
from cobblestone.simulator.task import Task


class OwnClient(ClassicClient):
    """The published client with CS3, WF3 or both."""

    def __init__(self, host: HostRun, network: Network, choice: PolicyChoice, rng: random.Random) -> None:
        super().__init__(host, network, choice, rng)
        self.own_scheduling = choice.cpu_scheduling == 3
        self.own_fetch = choice.work_fetch == 3
        self.interruptions = Interruptions()
        self.histories = [JobHistory()] * len(self.shares)
        self._prospects: list[tuple[JobHistory, Interruptions, Prospect] | None] = [None] * len(self.shares)
        self.connection_interval = host.host.connection_interval
        self._gap_clock = 0.0
        self._probe_at = NEVER
        self._contact_waits = False
        self._contact_at = -NEVER  #: time of the last contact
        self._hopeless: set[int] = set()
        """Serial numbers of jobs that will be late, kept for want of better ones."""

    def gap(self, seconds: float) -> None:
        """The host was off for some time."""
        super().gap(seconds)
        clock = self.host.clock
        self.interruptions = self.interruptions.after_gap(
            on_seconds=clock - self._gap_clock, gap_seconds=seconds
        )
        self._gap_clock = clock

    # -- what the client learns -----------------------------------------------------------------------------------

    def _learn(self, task: Task) -> None:
        if task.failed or self.choice.job_completion == 1:
            return
        self._remember(task, task.size)

    def _remember(self, task: Task, size: float) -> None:
        i = task.project
        self.histories[i] = self.histories[i].after_job(size / task.raw if task.raw > 0.0 else 1.0)
        self._correct(i)

    def _correct(self, i: int) -> None:
        history = self.histories[i]
        if history.estimate > 0.0 and history.ratios:
            busy, _ = history.busy_seconds(self._fits(i))
            self._changed.add(i)
            # rounded down, since a job that just fits would be refused for the last digit of a sum
            self.dcf[i] = min(DCF_MAX, max(DCF_MIN, busy / history.estimate * (1.0 - 1e-8)))

    def _fits(self, project: int) -> Callable[[float], bool]:
        left = self.histories[project].latency_bound - self._margin()
        return lambda computing: can_be_in_time(computing, left, self.interruptions)

    def _margin(self) -> float:
        return self.connection_interval

    def _cutoff(self, task: Task) -> float:
        i = task.project
        self.histories[i] = self.histories[i].after_delivery(
            estimate=task.raw, latency_bound=task.app.latency_bound
        )
        return super()._cutoff(task)

    def _safe_report(self, deadline: float) -> float:
        """Return the last time before a deadline at which the client may be in contact, if it never waits with one."""
        interval = self.connection_interval
        if interval <= 0.0:
            return deadline
        first = self.network.next_contact(self.host.now)
        if first > deadline:
            return deadline
        return first + math.floor((deadline - first) / interval) * interval

    def _last_report(self, deadline: float) -> float:
        """Return the last time before a deadline at which the client can be in contact; in the past if it cannot."""
        return deadline if self.network.next_contact(self.host.now) <= deadline else -NEVER

    def _estimate(self) -> list[ProjectQueue]:
        if not self.own_scheduling:
            return super()._estimate()
        changed = self._changed
        changed.update([task.project for task in self.host.running])
        for i in changed:
            tasks = self.queues[i]
            for task in tasks:
                task.remaining = remaining_by_progress(
                    estimate=task.raw * self.dcf[i],
                    used=task.done,
                    fraction_done=task.fraction_done or 0.0,
                )
            hopeful = [t for t in tasks if t.serial not in self._hopeless] if self._hopeless else tasks
            self._prepared[i] = ProjectQueue(
                self.shares[i], [t.remaining for t in hopeful], [t.cutoff for t in hopeful]
            )
        changed.clear()
        changed.update([task.project for task in self.host.running])
        return self._prepared

    def step(self) -> None:
        """Do everything that is due now; a job that has just shown its size may turn out to be hopeless."""
        if self.host.now >= self._probe_at - TINY:
            self.must_schedule = True
        super().step()

    def _set_alarm(self) -> None:
        super()._set_alarm()
        young = [PROBE_SECONDS - t.done for t in self.host.running if t.done < PROBE_SECONDS]
        self._probe_at = self.host.now + min(young) + 1.0 if young and self.own_scheduling else NEVER
        self.wake = min(self.wake, self._probe_at)
        if self._contact_waits:
            self.wake = min(self.wake, self.host.now + TROUBLE_PERIOD)

    def _next_report(self) -> float:
        # a report that is due but waits must not wake the client again and again
        return NEVER if self._contact_waits else super()._next_report()

    # -- CS3 ----------------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self.own_scheduling:
            super()._schedule()
            return
        self._judge()
        super()._schedule()
        if self._hopeless:
            self._prefer_hopeful()

    def _judge(self) -> None:
        """Find the jobs that will be late; give them up if there is something better to do.

        Between two contacts nothing is gained by giving up: the project would not hear of it, and nothing could come in
        its place.  So such jobs stay, for processors that would be idle otherwise.
        """
        self._estimate()
        before = self._hopeless
        now = self.host.now
        # first those on which most was spent, then those of the project that is owed most
        order = sorted(self.jobs, key=lambda t: (-(t.done // self.slice), -self.accounts.long[t.project]))
        least = [
            task.remaining if task.done >= PROBE_SECONDS else self.histories[task.project].least_seconds()
            for task in order
        ]
        left = [self._last_report(task.report_deadline) - now for task in order]
        hopeless = hopeless_jobs(order, least, left, self.interruptions, ncpus=self.ncpus)
        self._hopeless = {task.serial for task in hopeless}
        if self._hopeless != before:
            self._changed.update(range(len(self.shares)))
        if not hopeless or not self.network.may_contact(now) or self._contact_delay() > 0.0:
            return
        hopeful = [h.can_be_in_time(self._fits(i)) for i, h in enumerate(self.histories)]
        others = sum(hopeful[task.project] and task.serial not in self._hopeless for task in self.jobs)
        if others >= self.ncpus or any(hopeful):
            self._give_up(hopeless)

    def _give_up(self, hopeless: list[Task]) -> None:
        now = self.host.now
        for task in hopeless:
            if task.running:
                self.host.stop(task)
            if task.done >= PROBE_SECONDS:
                self._remember(task, task.done + task.remaining)
            elif task.start_order == 0:
                # asking again at once would bring the same kind of job, for ever
                self.not_before[task.project] = max(self.not_before[task.project], now + TROUBLE_PERIOD)
            task.failed = task.given_up = True
            task.limit = task.done
            task.completed_at = now
            self._hand_in(task)
            if self.host.recorder is not None:
                self.host.recorder.note(
                    now, "give up", f"{self.network.names[task.project]} job {task.number} would be late"
                )
        self._hopeless = set()
        self.host.recompute()
        self.must_fetch = True
        self.outcome = None

    def _prefer_hopeful(self) -> None:
        """Make the run list of jobs that can be in time; only processors without one run the others."""
        runnable = [t for t in self.jobs if t.arrived]
        hopeful = [t for t in runnable if t.serial not in self._hopeless]
        self.wanted = self._run_list(hopeful, self.ncpus)
        if len(self.wanted) < self.ncpus:
            hopeless = [t for t in runnable if t.serial in self._hopeless]
            self.wanted += self._run_list(hopeless, self.ncpus - len(self.wanted))

    def _run_list(self, jobs: list[Task], ncpus: int) -> list[Task]:
        return make_run_list(
            jobs,
            ncpus=ncpus,
            slice_seconds=self.slice,
            shares=self.shares,
            short_term_debts=self.accounts.short,
            misses=self.misses,
            dcf=self.dcf,
        )

    # -- when to be in contact ----------------------------------------------------------------------------------------

    def _contact_delay(self) -> float:
        now = self.host.now
        if not self.own_scheduling or self.connection_interval <= 0.0 or not self.network.may_contact(now):
            return 0.0
        pending = [
            PendingReport(0.0, t.report_deadline - now, t.done, 0.0) for t in self.finished if not t.failed
        ]
        for task in self.jobs:
            if task.serial not in self._hopeless:
                ready = self.interruptions.wall_seconds(task.remaining)
                pending.append(PendingReport(ready, task.report_deadline - now, task.done, task.remaining))
        return contact_delay(
            pending,
            interval=self.connection_interval,
            ncpus=self.ncpus,
            stretch=self.interruptions.wall_seconds(1.0),
        )

    def _contact(self) -> bool:
        now = self.host.now
        # once one project was contacted the door is shut for all
        delay = self._contact_delay() if self._contact_at < now else 0.0
        self._contact_waits = delay > 0.0
        if self._contact_waits:
            if self.host.recorder is not None:
                text = f"no contact for {delay / 3600:.1f} h: jobs that need a little more would be late with the next one"
                self.host.recorder.note(now, "wait", text)
            return False
        if not super()._contact():
            return False
        self._contact_at = now
        return True

    def _next_look(
        self, projects: list[FetchProject], outcome: RoundRobinOutcome, running: list[int]
    ) -> float:
        held_back = self.own_fetch and self.plan.project is None and outcome.shortfall > 0.0
        return TROUBLE_PERIOD if held_back else super()._next_look(projects, outcome, running)

    # -- WF3 ----------------------------------------------------------------------------------------------------------

    def _ask(self, projects: list[FetchProject], outcome: RoundRobinOutcome) -> FetchPlan:
        if not self.own_fetch:
            return super()._ask(projects, outcome)
        now = self.host.now
        prospects: list[Prospect] = []
        for i, history in enumerate(self.histories):
            if not history.latency_bound:
                prospects.append(Prospect())
                continue
            prospects.append(self._prospect(i, history))
        return fetch_in_time(
            projects,
            outcome,
            prospects,
            [
                BookedJob(self._safe_report(t.report_deadline) - now, t.remaining)
                for t in self.jobs
                if t.serial not in self._hopeless
            ],
            self.interruptions,
            prefs=self.prefs,
            idle_cpus=self.ncpus - len(self.host.running),
            until_next_contact=self.connection_interval,
            explain=self.explain,
        )

    def _prospect(self, project: int, history: JobHistory) -> Prospect:
        """Return what is expected of a project's next job; worked out anew when something was learned."""
        known = self._prospects[project]
        if known is None or known[0] is not history or known[1] is not self.interruptions:
            busy, deviation = history.busy_seconds(self._fits(project))
            left = history.latency_bound - self._margin()
            prospect = Prospect(known=True, busy=busy, deviation=deviation, time_left=left)
            known = self._prospects[project] = (history, self.interruptions, prospect)
        return known[2]
