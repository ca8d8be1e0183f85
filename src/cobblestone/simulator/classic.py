"""The published family's client on a simulated host: calls the policies at events and carries out what they
decide.
"""

from __future__ import annotations

import random
from bisect import insort
from operator import attrgetter

from cobblestone.policy.client import work_fetch
from cobblestone.policy.client.backoff import rpc_backoff_2007
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.estimates import remaining_2007, update_dcf
from cobblestone.policy.client.round_robin import (
    ProjectQueue,
    RoundRobinOutcome,
    computation_deadline,
)
from cobblestone.policy.client.run_list import enforce_run_list, make_run_list
from cobblestone.policy.client.work_fetch import FetchPlan, FetchPreferences, FetchProject, Urgency
from cobblestone.simulator.accounts import Accounts, ExactAccounts, PolledAccounts
from cobblestone.simulator.belief import OnStatistics, fixed_belief
from cobblestone.simulator.engine import NEVER, TINY, HostRun
from cobblestone.simulator.fluid import PURE
from cobblestone.simulator.narration import note_who_waits, why_it_runs, with_names
from cobblestone.simulator.network import Network
from cobblestone.simulator.paper.preemption_2007 import Heap2007
from cobblestone.simulator.task import Task

_by_arrival, _by_start = attrgetter("serial"), attrgetter("start_order")
NOTHING = FetchPlan(None, 0.0, Urgency.DONT_NEED)


class ClassicClient:
    """CS1/CS2, WF1/WF2, JC1/JC2 at work."""

    def __init__(self, host: HostRun, network: Network, choice: PolicyChoice, rng: random.Random) -> None:
        scenario = host.scenario
        prefs = scenario.preferences
        self.host = host
        self.network = network
        self.choice = choice
        self.rng = rng
        self.fluid = PURE  #: may be replaced by compiled twins
        self.compat = scenario.compatibility
        self.faults = scenario.compatibility.faults
        self.ncpus = scenario.host.ncpus
        self.slice = prefs.slice_seconds
        self.prefs = FetchPreferences(
            ncpus=self.ncpus,
            slice_seconds=prefs.slice_seconds,
            buffer_min=prefs.buffer_min,
            buffer_additional=prefs.buffer_additional,
        )
        count = len(scenario.projects)
        self.shares = [p.share for p in scenario.projects]
        self.total_share = sum(self.shares)
        self.queues: list[list[Task]] = [[] for _ in range(count)]
        self.finished: list[Task] = []
        self.jobs: list[Task] = []  #: unfinished, in arrival order
        self.dcf = [1.0] * count
        self.failures = [0] * count
        self.not_before = [0.0] * count  #: earliest next contact
        self.misses = [0] * count
        self.trouble = self.misses  #: misses as of the last enforcement
        self.last_enforce = 0.0
        self.shortfalls = [0.0] * count
        self._prepared = [ProjectQueue(share, (), ()) for share in self.shares]
        self._projects = [FetchProject(share, contactable=True, long_term_debt=0.0) for share in self.shares]
        self._changed = set(range(count))  #: projects whose entry in ``_prepared`` is out of date
        self.wanted: list[Task] = []
        self.starts = 0
        self.arrivals = 0
        self.plan = NOTHING
        self._settled_at = -1.0
        #: Deadline trouble that holds work fetch back is looked at with each new run list: more often changes no figure
        #: of merit beyond its interval.  CS3 and WF3 clear trouble up themselves, and look more often.
        self.trouble_period = (
            work_fetch.TROUBLE_PERIOD if 3 in (choice.cpu_scheduling, choice.work_fetch) else self.slice
        )
        self.must_schedule = False
        self.must_enforce = False
        self.must_fetch = True
        self.last_schedule = 0.0
        self.next_fetch = 0.0
        self.look_again = NEVER
        self.wake = 0.0
        self.outcome: RoundRobinOutcome | None = None
        self.explain = host.recorder is not None
        self._on_statistics = OnStatistics()
        self._fixed_fraction = fixed_belief(scenario.host)
        self.by_efficiency = scenario.host.believed_availability == "efficiency"
        self.accounts: Accounts = (
            PolledAccounts(host, slice_seconds=self.slice, literally=self.compat.every_poll)
            if self.faults.wall_time_to_latest
            else ExactAccounts(host, slice_seconds=self.slice, count_off_time=self.by_efficiency)
        )

    # -- what the client knows ----------------------------------------------------------------------------------------

    def cpu_fraction(self) -> float:
        """Return the CPU seconds that the client expects per second of wall time of a scheduled task."""
        if self._fixed_fraction is not None:
            return self._fixed_fraction
        return self.accounts.efficiency if self.by_efficiency else self._on_statistics.at(self.host.now)

    def gap(self, seconds: float) -> None:
        """The host was off for some time; the client finds out now."""
        self.accounts.gap(seconds)
        self._on_statistics.gap(seconds, self.host.now)

    def account(self) -> None:
        """Settle debts up to now, before something changes."""
        now = self.host.now
        if now == self._settled_at:
            return
        self._settled_at = now
        self.accounts.settle(
            runnable=[bool(q) for q in self.queues], contactable=[at <= now for at in self.not_before]
        )

    def _estimate(self) -> list[ProjectQueue]:
        """Bring remaining times up to date and return the queues for the round-robin simulation.

        Only those of projects whose tasks ran or whose queue changed since the last time are made anew.
        """
        changed = self._changed
        changed.update([task.project for task in self.host.running])
        for i in changed:
            dcf = self.dcf[i]
            tasks = self.queues[i]
            for task in tasks:
                if task.done > 0.0:
                    task.remaining = remaining_2007(
                        estimate=task.raw * dcf,
                        used=task.done,
                        fraction_done=task.fraction_done or 0.0,
                    )
                else:
                    task.remaining = task.raw * dcf
            self._prepared[i] = ProjectQueue(
                self.shares[i], [t.remaining for t in tasks], [t.cutoff for t in tasks]
            )
        changed.clear()
        changed.update([task.project for task in self.host.running])
        return self._prepared

    def _simulate(self) -> RoundRobinOutcome:
        if self.outcome is None:
            queues = self._estimate()
            if self.compat.every_poll:
                self.outcome = self._round_robin_2007(self.host.now, self.cpu_fraction())
            else:
                self.outcome = self.fluid.flow(
                    queues,
                    now=self.host.now,
                    ncpus=self.ncpus,
                    cpu_fraction=self.cpu_fraction(),
                    buffer_seconds=self.prefs.buffer_total,
                    total_share=self.total_share,
                )
            self.misses = self.outcome.misses
            self.shortfalls = self.outcome.shortfalls
        return self.outcome

    def _round_robin_2007(self, now: float, cpu_fraction: float) -> RoundRobinOutcome:
        return self.fluid.steps(
            [(t.project, t.remaining, t.cutoff) for t in self.jobs],
            now=now,
            ncpus=self.ncpus,
            cpu_fraction=cpu_fraction,
            buffer_seconds=self.prefs.buffer_total,
            shares=self.shares,
        )

    # -- events -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do everything that is due now, in the order of the 2007 client's poll loop."""
        now = self.host.now
        self.outcome = None
        self.network.progress(self._arrived)
        polling = self.compat.quantum > 0.0
        if not polling:
            self.account()
        again = True
        while again:
            self.host.count_round()
            again = self._take_finished()
            if (self.jobs or self.finished) and (
                self.must_schedule or now - self.last_schedule >= self.slice - TINY
            ):
                self._schedule()
                again = True
            if self.must_enforce or (
                now - self.last_enforce > 60.0 if polling else now >= self.look_again - TINY
            ):
                again = self._enforce() or again
            if self.must_fetch or now >= self.next_fetch - TINY:
                self._plan_fetch()
            again = self._contact() or again
        self._set_alarm()

    def left_over(self) -> list[Task]:
        """Return the jobs that have not been reported."""
        return self.jobs + self.finished

    def _arrived(self, task: Task) -> None:
        self.must_schedule = True

    def _take_finished(self) -> bool:
        ended = self.host.ended()
        if not ended:
            return False
        host = self.host
        ended.sort(key=_by_start)
        for task in ended:
            host.stop(task)
            self.accounts.ended(task)
            task.completed_at = host.now
            self._learn(task)
        # debts count a project that has just finished its only job as still eligible through its wall time
        for task in ended:
            self._hand_in(task)
            self.network.upload(task)
        host.recompute()
        self.must_schedule = True
        self.must_fetch = True
        self.outcome = None
        return True

    def _learn(self, task: Task) -> None:
        """Draw conclusions from a job that has ended."""
        if self.choice.job_completion == 2 and not task.failed:
            i = task.project
            self.dcf[i] = update_dcf(self.dcf[i], actual=task.size, raw_estimate=task.raw)

    def _hand_in(self, task: Task) -> None:
        """Put a job that needs no processor any more among those that wait for their report."""
        self.queues[task.project].remove(task)
        self._changed.add(task.project)
        self.jobs.remove(task)
        insort(self.finished, task, key=_by_arrival)
        task.report_at = work_fetch.report_due(
            report_deadline=task.report_deadline,
            completed_at=self.host.now,
            buffer_min=self.prefs.buffer_min,
        )
        if self.host.recorder is not None:
            self.host.recorder.finished(task, self.host.now)

    def _schedule(self) -> None:
        host = self.host
        self.must_schedule = False
        self.last_schedule = host.now
        if not self.compat.every_poll:
            self.account()
        outcome = self._simulate()
        if self.compat.every_poll:
            self.account()
            self.outcome = None  # in that order the belief has changed
        runnable = [t for t in self.jobs if t.arrived]
        self.wanted = make_run_list(
            runnable,
            ncpus=self.ncpus,
            slice_seconds=self.slice,
            shares=self.shares,
            short_term_debts=self.accounts.short,
            misses=None if self.choice.cpu_scheduling == 1 else outcome.misses,
            dcf=self.dcf,
            ties_ignore_progress=self.faults.ties_ignore_progress,
        )
        self.must_enforce = True
        if host.recorder is not None:
            for task in self.wanted:
                i = task.project
                misses = self.misses[i] if self.choice.cpu_scheduling != 1 else 0
                text = why_it_runs(
                    task, self.network.names[i], now=host.now, misses=misses, debt=self.accounts.short[i]
                )
                host.recorder.note(host.now, "schedule", text)

    def _enforce(self) -> bool:
        host = self.host
        self.must_enforce = False
        self.last_enforce = host.now
        self.trouble = self.misses
        running = host.running
        if len(running) == len(self.wanted) and all(t.running for t in self.wanted):
            self.look_again = NEVER
            return False
        change = enforce_run_list(
            self.wanted,
            sorted(running, key=_by_start),
            now=host.now,
            ncpus=self.ncpus,
            slice_seconds=self.slice,
            misses=self.misses,
            last_checkpoint=self._checkpoints(running),
            line_up=Heap2007 if self.faults.inverted_preemption else None,
        )
        if host.recorder is not None:
            note_who_waits(host.recorder, self.wanted, change.start, self.network.names, host.now)
        self.trouble = change.misses
        self.look_again = NEVER if change.look_again is None else change.look_again
        for task in change.preempt:
            self.accounts.preempted(task)
            self._changed.add(task.project)
            host.stop(task, keep=self.host.host.leave_in_memory)
        for task in change.start:
            if not task.start_order:
                self.starts += 1
                task.start_order = self.starts
            task.edf = bool(self.misses[task.project]) and self.choice.cpu_scheduling != 1
            host.start(task)
        if change.start or change.preempt:
            host.recompute()
            return True
        return False

    def _checkpoints(self, running: list[Task]) -> list[float] | None:
        """When each running task last checkpointed; None if all do so all the time."""
        if not any(t.app.checkpoint_period for t in running):
            return None
        now = self.host.now
        return [now - t.done % t.app.checkpoint_period if t.app.checkpoint_period else now for t in running]

    def _plan_fetch(self) -> None:
        host = self.host
        now = host.now
        self.must_fetch = False
        self.account()
        if self.choice.work_fetch == 1:
            self._estimate()
        projects = self.fetch_projects(self.accounts.long)
        running = [0] * len(self.shares)
        for task in host.running:
            running[task.project] += 1
        wait = work_fetch.FETCH_PERIOD
        if self.choice.work_fetch == 1:
            self.plan = work_fetch.fetch_by_queue(
                projects, self.shortfalls, prefs=self.prefs, explain=self.explain
            )
            if not self.compat.every_poll:
                wait = work_fetch.next_queue_check(projects, prefs=self.prefs, running=running)
        else:
            outcome = self._simulate()
            self.plan = self._ask(projects, outcome)
            if not self.compat.every_poll:
                wait = self._next_look(projects, outcome, running)
        self.next_fetch = now + wait
        if not self.compat.every_poll:
            self.next_fetch = max(self.next_fetch, self.network.next_contact(now))
        if self.explain and host.recorder is not None and self.plan.reasons:
            host.recorder.note(now, "fetch", with_names(self.plan.reasons, self.network.names))

    def fetch_projects(self, long_debts: list[float]) -> list[FetchProject]:
        """Return what work fetch looks at."""
        now = self.host.now
        by_queue = self.choice.work_fetch == 1
        rows = zip(self._projects, self.queues, self.not_before, long_debts, self.dcf, strict=True)
        for project, tasks, not_before, debt, dcf in rows:
            project.contactable = not_before <= now
            project.long_term_debt = debt
            project.dcf = dcf
            project.queued = len(tasks)
            if by_queue:
                project.queued_seconds = sum([t.remaining for t in tasks])
        return self._projects

    def _ask(self, projects: list[FetchProject], outcome: RoundRobinOutcome) -> FetchPlan:
        return work_fetch.fetch_by_shortfall(
            projects,
            outcome,
            prefs=self.prefs,
            misses=self.trouble if self.compat.quantum else None,
            order_dependent=self.faults.order_dependent_fetch,
            explain=self.explain,
        )

    def _next_look(
        self, projects: list[FetchProject], outcome: RoundRobinOutcome, running: list[int]
    ) -> float:
        """Return after how many seconds work fetch may find something new."""
        return work_fetch.next_fetch_check(
            projects,
            outcome,
            prefs=self.prefs,
            cpu_fraction=self.cpu_fraction(),
            running=running,
            trouble_period=self.trouble_period,
        )

    # -- contacts -----------------------------------------------------------------------------------------------------

    def _contact(self) -> bool:
        now = self.host.now
        if not self.network.may_contact(now):
            return False
        plan = self.plan
        for task in self.finished:
            # the polling client of 2007 waits until a report is overdue
            due = now > task.report_at if self.compat.quantum else now > task.report_at - TINY
            if due and self.not_before[task.project] <= now and not self.network.uploading(task):
                if task.project == plan.project:
                    return self._rpc(task.project, plan.seconds)
                return self._rpc(task.project, plan.others.get(task.project, 0.0))
        if plan.project is not None and self.not_before[plan.project] <= now:
            return self._rpc(plan.project, plan.seconds)
        return False

    def _rpc(self, project: int, seconds: float) -> bool:
        """Contact one project: report, and ask for ``seconds`` of work."""
        host = self.host
        now = host.now
        self.plan = NOTHING
        book = host.books.projects[project]
        book.rpcs += 1
        if not self.network.contact(project, now):
            self._failed(project, now)
            self.must_fetch = True
            return True
        for task in list(self.finished):
            mine = task.project == project or self.compat.one_contact_reports_all
            if mine and not self.network.uploading(task):
                self.finished.remove(task)
                self.network.report(task, now)
        sent: list[Task] = []
        refused = False
        if seconds > 0.0:
            workload = None
            if self.choice.work_send == 2:
                self._estimate()
                workload = self.jobs
            sent, refused = self.network.servers[project].answer(
                seconds,
                now=now,
                dcf=self.dcf[project],
                workload=workload,
                buffer_min=self.prefs.buffer_min,
                faults=self.faults,
            )
        for task in sent:
            task.remaining = task.raw * self.dcf[project]
            self.arrivals += 1
            task.serial = self.arrivals
            task.cutoff = self._cutoff(task)
            self.queues[project].append(task)
            self._changed.add(project)
            self.jobs.append(task)
            self.network.download(task)
        book.sent += len(sent)
        book.refused += refused
        if refused:
            self.not_before[project] = now + 1.0
        if seconds > 0.0 and not sent:
            self._failed(project, now)
        else:
            self.failures[project] = 0
        if host.recorder is not None:
            text = f"{self.network.names[project]}: asked for {seconds:.3g} s, jobs sent: {len(sent)}"
            host.recorder.note(now, "rpc", text)
        self.outcome = None
        self.must_schedule = True
        self.must_fetch = True
        return True

    def _cutoff(self, task: Task) -> float:
        """Return the time by which a job that has just come should be computed."""
        return computation_deadline(
            task.report_deadline, buffer_min=self.prefs.buffer_min, slice_seconds=self.slice
        )

    def _failed(self, project: int, now: float) -> None:
        self.failures[project] += 1
        self.not_before[project] = now + rpc_backoff_2007(self.failures[project], rng=self.rng)

    def _set_alarm(self) -> None:
        now = self.host.now
        wake = self.next_fetch
        if self.jobs:
            wake = min(wake, self.last_schedule + self.slice)
        wake = min(wake, self.look_again, self.network.next_arrival())
        if max(self.not_before) > now + TINY:
            for at in self.not_before:
                if now + TINY < at < wake and self.network.may_contact(at):
                    wake = at
        if self.finished:
            wake = min(wake, self._next_report())
        self.wake = wake if wake > now + TINY else now + (self.compat.quantum or 1.0)

    def _next_report(self) -> float:
        """Return when the first of the finished jobs can be reported."""
        now = self.host.now
        due = [
            max(t.report_at, self.not_before[t.project], now + self.network.uploading(t))
            for t in self.finished
        ]
        return max(min(due), self.network.next_contact(now))
