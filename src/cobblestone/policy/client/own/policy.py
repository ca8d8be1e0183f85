"""Our own policy (CS3, WF3): give up early what would be late, ask only for what will be in time, contact when it pays.

It keeps the published rules where it has none of its own.  Its parts are ``learning`` (what it expects of projects and jobs),
``late_jobs`` (which jobs cannot be in time), ``cautious_fetch`` (whom to ask for how much CPU work, and when to be in contact),
``packing`` and ``gpu_fetch`` (GPUs, jobs of many CPUs, limits and memory, by the rules of today's family).

CPU jobs go by debts.  GPU jobs go first, in the order of their projects' recent credit, and take their parts of CPUs off; CPU
jobs get the processors that are left.  Where they do not fit in one by one, because some need several processors, or the
volunteer limits the jobs of a project, or memory may run out, they are packed in the order of our own policy, by today's
rules for those that wait for each other, and the look ahead is today's, which knows all this.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import float_sum
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.protocol import Changes
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import NEVER, ClientJob, ClientProject, CoreState, PlannedFetch
from cobblestone.policy.client.core.values import CPU, FetchRequest
from cobblestone.policy.client.own.cautious_fetch import fetch_before_deadlines, wait_for_reports
from cobblestone.policy.client.own.gpu_fetch import fetch_for_gpus
from cobblestone.policy.client.own.history import PROBE_SECONDS
from cobblestone.policy.client.own.late_jobs import LateJobs
from cobblestone.policy.client.own.lateness import WASTE_AVERSION
from cobblestone.policy.client.own.learning import Learning
from cobblestone.policy.client.own.memory import OwnMemory
from cobblestone.policy.client.own.packing import OwnPacking, cpus_of_gpu_jobs, for_cpus, on_cpu, width
from cobblestone.policy.client.published.policy import TINY, Availability, PublishedPolicy
from cobblestone.policy.client.published.round_robin import (
    PURE,
    ProjectQueue,
    RoundRobinBackends,
    RoundRobinOutcome,
)
from cobblestone.policy.client.published.run_list import TODAY, Behaviour2007, make_run_list
from cobblestone.policy.client.published.work_fetch import TROUBLE_PERIOD, FetchPlan, FetchProject, Urgency
from cobblestone.policy.client.recent import state as report_times
from cobblestone.policy.client.recent.packing import nothing_ahead
from cobblestone.policy.client.recent.run_list import NO_CPU, RunList
from cobblestone.policy.client.recent.state import back_off_types, gpu_available, run_as_listed, together

#: Why a job waits that was packed beside others.
PACKING = ("wait.cpus", "wait.memory", "wait.swap", "wait.project", "wait.app")
#: Jobs that are given up with one run list; a host that comes back after weeks may hold thousands.
MOST_AT_ONCE = 100
#: Time slices that a job in deadline trouble must have to spare to wait for the end of another's.
CALM = 1.5


class OwnPolicy(PublishedPolicy):
    """CS3 and WF3, with everything that a real computer has."""

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
        return self.choice.within("own")

    def bind(self, state: CoreState, memory: Any = None, *, explain: bool = False) -> None:
        """Work for a client."""
        self._packs = False  #: as of the last look ahead
        self._run_list: RunList | None = None  #: until it is enforced
        super().bind(state, memory, explain=explain)
        self._packing.watch.expect_all(state.jobs)

    # -- what it is told ----------------------------------------------------------------------------------------------

    def refit(self) -> None:
        """Refresh projects, preferences and devices."""
        state, memory = self.state, self.memory
        self._packing = OwnPacking(state, memory)
        self._plain: bool | None = None  #: all jobs are for one CPU each; None: to be seen
        super().refit()
        self._learning = Learning(state, memory, waste_aversion=self.waste_aversion)
        self._late_jobs = LateJobs(state, memory, self._learning)
        self._learning.fit()
        self._estimated_at = -NEVER
        if memory.full_shares == self.shares:
            self._share_out(memory.shares)
        else:
            memory.full_shares = list(self.shares)
            for i in range(len(self.shares)):
                self._look_out(i)
                self._weigh(i)
            memory.shares = list(self.shares)
        self._leave_cpus()

    def _leave_cpus(self) -> None:
        """Take the processors that GPU jobs leave for all that there are."""
        left = max(1, self.state.ncpus - self.memory.gpu_cpus)
        if left != self.ncpus:
            self.ncpus, self.prefs, self.outcome = left, replace(self.prefs, ncpus=left), None

    def detached(self, project: int) -> None:
        """Forget a project."""
        super().detached(project)
        self._learning.forget(project)
        del self.memory.credit.recs[project]

    def passed(self, seconds: float) -> None:
        """Count computing time."""
        super().passed(seconds)
        self.memory.credit.computed += seconds

    def off(self, seconds: float) -> None:
        """Take note of a time off, and learn from it."""
        super().off(seconds)
        self._learning.off(seconds)

    def before(self, *, deciding: bool) -> None:
        """Settle debts; note what tasks need and what ran; a job that has just begun may show that it is too large."""
        memory = self.memory
        self._packing.watch.measure()
        if deciding:
            memory.credit.credit(self.state, self._packing.devices)
        memory.waits = False
        self._estimated_at = -NEVER  # running jobs may have said something since
        if deciding and self.state.now >= memory.probe_at - TINY:
            memory.probe_at = NEVER
            self.estimate()
            young = [job for job in self.state.running if job.done < 2 * PROBE_SECONDS]
            if any(self._late_jobs.claim(job) is not None for job in young):
                self.state.must_schedule = True
        super().before(deciding=deciding)

    def pressing(self) -> bool:
        """Tell whether the tasks have outgrown the memory that they may use."""
        return self._packing.watch.pressing()

    def outdated(self, project: int | None = None) -> None:
        """Repeat the forecast at the next question."""
        super().outdated(project)
        if project is not None:
            self._plain = None

    def arrived(self, job: ClientJob) -> None:
        """Estimate a job that has come."""
        super().arrived(job)
        self._packing.watch.expect(job)

    def cutoff(self, job: ClientJob) -> float:
        """Return the time by which a job should be computed, and take note of its delivery."""
        if self._learning.typical(job):
            self._learning.note_delivery(job)
            self._look_out(job.project)
        return self._learning.latest_end(job)

    def preempted(self, job: ClientJob) -> None:
        """Close its account for now; what it still needs may not have been looked at since it ran."""
        super().preempted(job)
        self.changed.add(job.project)

    def learn(self, job: ClientJob, elapsed: float) -> None:
        """Remember what a job needed, and whether anything came of it, unless it runs as long as it likes."""
        if job.always_runs:
            return
        memory = self.memory
        readings, claim = memory.progress.pop(job.serial, {}), memory.claims.pop(job.serial, None)
        if job.given_up:
            return  # that was learned when it was given up
        self._book(job.project, elapsed, useful=self.state.now <= job.report_deadline)
        if job.failed or self.choice.job_completion == 1:
            return
        self._learning.after_job(job, elapsed, readings, claim)
        self._look_out(job.project)

    def replied(self, project: int, requests: Mapping[str, FetchRequest], jobs: Sequence[ClientJob]) -> None:
        """Back off from the project; from device types for which there was nothing if it has work for GPUs, too."""
        kinds = {CPU, *requests, *self.state.projects[project].description.supplies}
        if not kinds.intersection(gpu.name for gpu in self.state.devices.gpus):
            super().replied(project, requests, jobs)
            return
        back_off_types(self.state, project, requests, jobs, rng=self.rng)
        self.state.must_schedule = True

    # -- shares and jobs ----------------------------------------------------------------------------------------------

    def _book(self, i: int, seconds: float, *, useful: bool) -> None:
        """Take note of what came of a project's time, and weigh its share again."""
        if len(self.shares) > 1:
            self._learning.book(i, seconds, useful=useful)
            self._weigh(i)

    def _weigh(self, i: int) -> None:
        share = self._learning.new_share(i, self.shares[i])
        if share is None:
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
        if self._learning.look_out(i):
            self.changed.add(i)

    def on_cpus(self, jobs: list[ClientJob]) -> list[ClientJob]:
        """Return the jobs that take a processor, each as often as it needs one."""
        if self._all_plain():
            return jobs
        most = max(1, self.state.ncpus)
        return [job for job in jobs if on_cpu(job) for _ in range(width(job, most))]

    def _all_plain(self) -> bool:
        if self._plain is None:
            self._plain = all(job.cpus == 1.0 and on_cpu(job) for job in self.state.jobs)
        return self._plain

    def processors(self, job: ClientJob) -> float:
        """Return how many processors a task is charged for while it runs; GPUs are shared by recent credit."""
        return (job.cpus or 1.0) if on_cpu(job) else 0.0

    def may_ask(self, project: ClientProject) -> bool:
        """Tell whether a project can be asked for CPU work now."""
        backed_off = project.backoffs.get(CPU, (0.0, 0.0))[1] > self.state.now
        return super().may_ask(project) and not backed_off and for_cpus(project)

    # -- what it expects ----------------------------------------------------------------------------------------------

    def estimate(self) -> list[ProjectQueue]:
        """Bring remaining times up to date; jobs that will be late are left out of the queues."""
        changed, late, state = self.changed, self.memory.unmeetable, self.state
        if state.now != self._estimated_at:
            self._estimated_at = state.now
            changed.update([job.project for job in state.running])
        learning, outlooks = self._learning, self.memory.outlooks
        for i in changed:
            jobs = state.projects[i].queue
            for job in jobs:
                job.remaining = (
                    learning.remaining(job) if job.done > 0.0 else learning.expected(job, outlooks[i])
                )
            hopeful = self.on_cpus([j for j in jobs if j.serial not in late] if late else jobs)
            self.prepared[i] = ProjectQueue(
                self.shares[i], [j.remaining for j in hopeful], [j.cutoff for j in hopeful]
            )
        changed.clear()
        return self.prepared

    def look_ahead(self) -> RoundRobinOutcome:
        """Simulate what will run, unless nothing has happened since."""
        if self.outcome is not None:
            return self.outcome
        packing = self._packing
        alike = self._all_plain() and packing.unlimited
        queue = [] if alike else [job for job in self.state.jobs if job.queued and not job.always_runs]
        self._packs = not alike and packing.is_needed(queue)
        if self._packs:
            self.estimate()
        else:
            super().look_ahead()
            queue = [job for job in queue if job.gpu] if packing.devices.gpus else []
        if self._packs or packing.devices.gpus:
            packing.look_ahead(
                queue,
                buffer_total=self.prefs.buffer_total,
                available=self.available(),
                gpu_available=gpu_available(self.state),
            )
        else:
            packing.outlook = nothing_ahead()
        if self.outcome is None:
            self.outcome = found = self._on_cpus_alone()
            self.memory.misses, self.memory.shortfalls = found.misses, found.shortfalls
        return self.outcome

    def _on_cpus_alone(self) -> RoundRobinOutcome:
        """Return what was found of CPU jobs as the published simulation has it."""
        total, speed = self.prefs.buffer_total, self.available()
        fair = total * self.ncpus / self.total_share if self.total_share > 0.0 else 0.0
        waiting = [self.on_cpus(project.queue) for project in self.state.projects]
        held = [float_sum([job.remaining for job in jobs]) / max(0.01, speed) for jobs in waiting]
        missing = [max(0.0, share * fair - had) for share, had in zip(self.shares, held, strict=True)]
        return self._packing.cpu_outcome(missing)

    # -- what is given up ---------------------------------------------------------------------------------------------

    def unmeetable(self) -> Sequence[tuple[ClientJob, Why]]:
        """Find the jobs that will be late; give them up as far as the allowance goes.

        Between two contacts nothing is gained by giving up: the project would not hear of it, and nothing could come in
        its place.  So such jobs stay, for processors that would be idle otherwise.
        """
        self.estimate()
        state, before = self.state, self.memory.unmeetable
        late = self._late_jobs.find(self.on_cpus(state.jobs), self.ncpus)
        if self.memory.unmeetable != before:
            self.changed.update([job.project for job in state.jobs])
        may = state.may_give_up and state.may_contact(state.now)
        if not late or not may or self._contact_delay() > 0.0:
            return ()
        given_up = (job for job in late if self._give_up(job))
        return [(job, why("give_up.late", job=job.id)) for job in islice(given_up, MOST_AT_ONCE)]

    def _give_up(self, job: ClientJob) -> bool:
        """Tell whether a job may be given up, and learn from it if so."""
        i, now, memory = job.project, self.state.now, self.memory
        # one that has not begun by its deadline costs nothing: the project has given it up already, and its size is not known
        if not (job.done <= 0.0 and now > job.report_deadline and memory.interval <= 0.0):
            known = memory.projects[i]
            known.giving_up = known.giving_up.at(now, ncpus=self.ncpus)
            if not known.giving_up.possible:
                return False
            known.giving_up = known.giving_up.after_one()
            self._book(i, job.done, useful=False)
            self._learning.after_giving_up(job, memory.claims.pop(job.serial, None))
        memory.unmeetable.discard(job.serial)
        self.outcome = None
        return True

    # -- what runs ----------------------------------------------------------------------------------------------------

    def schedule(self) -> list[ClientJob]:
        """Return the jobs that ought to run: first those that do not need CPUs alone."""
        state, memory, packing = self.state, self.memory, self._packing
        if self._all_plain() and packing.unlimited:
            self._run_list, memory.packed, memory.gpu_cpus = RunList(), False, 0
            self._leave_cpus()
            return self._schedule_cpus()
        waiting = [job for job in state.jobs if job.runnable]
        runnable = packing.watch.without_swap_hogs([job for job in waiting if state.ncpus or job.always_runs])
        packing.watch.expect_all([job for job in runnable if job.start_order])
        self.look_ahead()
        beside = [job for job in runnable if not on_cpu(job)]
        found = RunList()
        if beside and not self._packs:
            found = packing.pack(beside, None, available=self.available())
        memory.packed = self._packs or cpus_of_gpu_jobs(found) >= state.ncpus
        if memory.packed:
            found = packing.pack(runnable, self._cpu_order(runnable), available=self.available())
        memory.gpu_cpus = cpus_of_gpu_jobs(found)
        self._leave_cpus()
        for job in waiting:
            if (memory.packed or not on_cpu(job)) and id(job) not in found.instances and not job.must_quit:
                job.why = (found.waiting.get(id(job), NO_CPU),)
            elif not job.must_quit and job.why and job.why[0].code in PACKING:
                job.why = ()
        self._run_list = found
        return found.jobs if memory.packed else found.jobs + self._schedule_cpus()

    def _schedule_cpus(self) -> list[ClientJob]:
        """Make the run list of CPU jobs that can be in time; only processors without one run the others."""
        wanted, late = super().schedule(), self.memory.unmeetable
        if not late or not wanted:
            return wanted
        runnable = self.on_cpus([job for job in self.state.jobs if job.runnable])
        misses = self.memory.misses
        wanted = self._by_debts([j for j in runnable if j.serial not in late], self.ncpus, misses)
        if (idle := self.ncpus - len(wanted)) > 0:
            wanted += self._by_debts([j for j in runnable if j.serial in late], idle, misses)
        return wanted

    def _by_debts(self, jobs: list[ClientJob], ncpus: int, misses: Sequence[int] | None) -> list[ClientJob]:
        """Return a run list of CPU jobs by the published rules; without ``misses`` deadlines do not count."""
        return make_run_list(
            jobs,
            ncpus=ncpus,
            slice_seconds=self.state.slice,
            shares=self.shares,
            short_term_debts=self.debts.short,
            misses=misses,
            dcf=self.memory.dcf,
        )

    def _cpu_order(self, runnable: Sequence[ClientJob]) -> list[ClientJob]:
        """Return the jobs without GPU in the order of their projects' debts; those that will be late are last."""
        jobs, late = [job for job in runnable if not job.gpu], self.memory.unmeetable
        self.settle()
        order: list[ClientJob] = []
        for some in ([j for j in jobs if j.serial not in late], [j for j in jobs if j.serial in late]):
            order += self._by_debts(some, len(some), None)
        projects = self.state.projects
        return sorted(order, key=lambda job: -projects[job.project].description.priority_group)

    def enforce(self, wanted: Sequence[ClientJob]) -> Changes:
        """Return who starts and who gives way; what does not compute on CPUs alone changes only with a new run list."""
        found, self._run_list = self._run_list, None
        running = self.state.running
        if self.memory.packed:
            return Changes() if found is None else run_as_listed(running, wanted, found.instances)
        change = super().enforce([job for job in wanted if on_cpu(job)])
        if found is None:
            return change
        others = run_as_listed(
            [job for job in running if not on_cpu(job)],
            [job for job in wanted if not on_cpu(job)],
            found.instances,
        )
        return Changes([*others.start, *change.start], [*others.preempt, *change.preempt], change.look_again)

    def patient(self, job: ClientJob, seconds: float) -> bool:
        """Tell whether a job in trouble can well wait so long for its turn, if it runs alone then."""
        spare = job.cutoff - self.state.now - self.memory.interruptions.wall_seconds(job.remaining)
        return spare > max(0.0, seconds) + CALM * self.state.slice

    def list_stands(self) -> float:
        """Return 0: each look learns from the progress of the jobs."""
        return 0.0

    def reason(self, job: ClientJob) -> Why:
        """Return why a job is on the run list."""
        if job.always_runs:
            return why("run.always", job=job.id)
        if job.edf and (job.gpu or self.memory.packed):
            hours = (job.report_deadline - self.state.now) / 3600.0
            return why("run.edf", job=job.id, hours=hours, left=job.remaining / 3600.0)
        if job.gpu:
            return why("run.rec", job=job.id, rec=self.memory.credit.recs[job.project])
        return super().reason(job)

    # -- when to be in contact ----------------------------------------------------------------------------------------

    def report_due(self, job: ClientJob) -> Why | None:
        """Return why a finished job is to be reported now."""
        return report_times.why_now(self.state, job) or super().report_due(job)

    def contact_wait(self) -> float:
        """Return how long a contact waits for jobs that it would make late."""
        # once one project was contacted the door is shut for all
        delay = self._contact_delay() if self.state.last_contact < self.state.now else 0.0
        self.memory.waits = delay > 0.0
        return delay

    def _contact_delay(self) -> float:
        state = self.state
        if self.memory.interval <= 0.0 or not state.may_contact(state.now):
            return 0.0
        return wait_for_reports(state, self.memory, self.on_cpus(state.jobs), ncpus=self.ncpus)

    def next_wake(self) -> float:
        """Return when a running job will have shown its size, a contact waits no more, or reports are due before a suspension."""
        state, memory = self.state, self.memory
        young = [PROBE_SECONDS - j.done for j in state.running if j.done < PROBE_SECONDS]
        memory.probe_at = wake = state.now + min(young) + 1.0 if young else NEVER
        if memory.waits:
            wake = min(wake, state.now + TROUBLE_PERIOD)
        suspension = report_times.before_suspension(state)
        return min(wake, suspension) if suspension > state.now and state.finished else wake

    # -- work fetch ---------------------------------------------------------------------------------------------------

    def fetch(self) -> PlannedFetch:
        """Return whom to ask for work, and when to look again."""
        plan = super().fetch()
        self.look_ahead()
        more = fetch_for_gpus(self.state, self.memory, self._packing, self.prefs)
        return plan if more is None else together(plan, more)

    def look_at_projects(self, long_debts: list[float]) -> list[FetchProject]:
        """Return the inputs of work fetch for CPUs."""
        state, rows = self.state, super().look_at_projects(long_debts)
        uploading = state.uploading()
        blocked = {job.project for job in state.jobs if job.stalled or job.suspended}
        for i, row in enumerate(rows):
            row.blocked, row.uploading = i in blocked, uploading[i]
            if self._packing.limits[i].limited:
                self._mind_limit(i, row)
            if self.memory.gpu_cpus and self.memory.gpu_cpus >= state.ncpus:
                row.contactable = False
        groups = [project.description.priority_group for project in state.projects]
        top = max([group for group, row in zip(groups, rows, strict=True) if row.contactable], default=0)
        for group, row in zip(groups, rows, strict=True):
            row.contactable = row.contactable and group == top
        return rows

    def _mind_limit(self, i: int, row: FetchProject) -> None:
        """Let a project with a limit be asked only for what the limit lets run; what it keeps waiting is no work."""
        self.look_ahead()
        jobs = [job for job in self.state.jobs if job.project == i]
        full = self._packing.outlook.limit_shortfalls.get((i, CPU), 0.0) <= 0.0
        if full or (row.share <= 0.0 and not all(job.running for job in jobs)):
            row.contactable = False
        row.queued = min(row.queued, len(self.on_cpus([job for job in jobs if job.running])))

    def ask(self, projects: list[FetchProject], outcome: RoundRobinOutcome) -> FetchPlan:
        """Return whom to ask for how much CPU work."""
        for i in range(len(projects)):
            self._look_out(i)
        state, packing = self.state, self._packing
        plan = fetch_before_deadlines(
            state,
            self.memory,
            projects,
            outcome,
            self.on_cpus(state.jobs),
            prefs=self.prefs,
            idle_cpus=self.ncpus - len(self.on_cpus(state.running)),
            explain=self.explain,
        )
        self.memory.urgency = int(plan.urgency)
        if plan.project is None or not packing.limits[plan.project].limited:
            return plan
        most = packing.outlook.limit_shortfalls.get((plan.project, CPU), 0.0)
        return replace(plan, seconds=min(plan.seconds, most))

    def next_look(
        self, projects: list[FetchProject], outcome: RoundRobinOutcome, running: list[int], nobody: bool
    ) -> float:
        """Return after how many seconds fetch of CPU work may find something new."""
        if nobody and self.memory.urgency != Urgency.DONT_NEED:
            wait = self.state.slice  # caution holds work fetch back
        else:
            wait = super().next_look(projects, outcome, running, nobody)
        if any(project.open and for_cpus(project) for project in self.state.projects):
            return wait
        return max(wait, self.state.slice)


def from_name(name: str, rng: random.Random) -> OwnPolicy:
    """Make the policy of a name such as ``own CS3_WF3_WS2_JC2``.  Raises :class:`ConfigError` for what is no policy."""
    choice = PolicyChoice.parse(name)
    if choice.cpu_scheduling != 3:
        raise ConfigError(f"{name}: the policy own is CS3_WF3; write own, or own CS3_WF3_WSc_JCd")
    return OwnPolicy(choice, rng)
