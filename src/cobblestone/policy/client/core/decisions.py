"""The round of decisions after events, and why a job runs or waits as things stand.

The round of decisions after events.

Questions of judgement are put to a policy (see ``protocol``); when they are put, and that the answers fit what the volunteer
allows, is settled here and holds for every policy.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping
from operator import attrgetter

from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.protocol import Policy
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import (
    NOTHING,
    ClientJob,
    ClientProject,
    CoreState,
    PendingContact,
    Phase,
)
from cobblestone.policy.client.core.values import FetchRequest, QueuedWork

_BY_PHASE = {
    Phase.QUITTING: "wait.quitting",
    Phase.GIVEN_UP: "wait.given_up",
    Phase.UPLOADING: "wait.uploading",
    Phase.REPORTABLE: "wait.report",
}


def why_job(state: CoreState, job: ClientJob) -> tuple[Why, ...]:
    """Return every reason that holds; of a running job those for which it was started."""
    return job.why if job.running else why_waits(state, job) or job.why or (why("wait.turn"),)


def why_waits(state: CoreState, job: ClientJob) -> tuple[Why, ...]:
    """Return what keeps a job from running regardless of others; nothing if it only waits for its turn."""
    if job.phase in _BY_PHASE:
        return (
            (why(_BY_PHASE[job.phase]), *job.why)
            if job.phase is Phase.GIVEN_UP
            else (why(_BY_PHASE[job.phase]),)
        )
    allowed = state.permission
    found: list[Why] = []
    if job.suspended:
        found.append(why("wait.suspended"))
    if state.projects[job.project].description.suspended:
        found.append(why("wait.project_suspended"))
    if job.phase is Phase.DOWNLOADING:
        found.append(why("wait.stalled" if job.stalled else "wait.files"))
    if job.deferred(state.now):
        found.append(why("wait.deferred", minutes=(job.deferred_until - state.now) / 60.0))
    if allowed.cpu:
        found.append(why("wait.cpu_suspended", cause=allowed.cpu))
    if job.gpu and allowed.gpu:
        found.append(why("wait.gpu_suspended", cause=allowed.gpu))
    if job.needs_network and allowed.network:
        found.append(why("wait.network_suspended", cause=allowed.network))
    return tuple(found)


def why_project(state: CoreState, project: ClientProject) -> tuple[Why, ...]:
    """Return why it was last asked for work, or is not."""
    d = project.description
    if d.suspended:
        return (why("fetch.suspended", project=d.id),)
    if d.no_new_work:
        return (why("fetch.no_new_work", project=d.id), *project.why)
    return project.why


#: Seconds that count as none, against rounding of the last digit.
TINY = 1e-6
#: Seconds by which a look is taken early rather than late.
SAFE = 1.0
#: Seconds after which a run list is made again whatever is known: figures of apps and clocks may be wrong.
LONGEST_LIFE = 86400.0
by_arrival = attrgetter("serial")


class DecisionRound:
    """Decides, and collects what is to be done."""

    def __init__(self, state: CoreState, policy: Policy, *, explain: bool) -> None:
        self.state = state
        self.policy = policy
        self.explain = explain
        self.out: list[ev.Instruction] = []
        self._contact_waits = False  #: in this round

    def decide(self) -> None:
        """Decide everything that is due."""
        s = self.state
        now = s.now
        if s.deferrals:
            self._wake_deferred()
        gave_up = self._contact_waits = False
        if (s.jobs or s.finished) and (s.must_schedule or now >= s.next_schedule - TINY):
            gave_up = self._schedule()
        if s.must_enforce or self.policy.enforce_due():
            self._enforce()
        if s.last_schedule == now:
            s.next_schedule = now + self._list_stands()
        if not s.permission.network and s.contact is None:
            if s.must_fetch or now >= s.next_fetch - TINY:
                self._plan_fetch()
            # the ends of those jobs will be told at once, and are to be reported with the rest
            if not gave_up:
                self._contact()
        self._set_alarm()

    def _wake_deferred(self) -> None:
        s = self.state
        for job in s.jobs:
            if job.deferred_until and job.deferred_until <= s.now:
                job.deferred_until = 0.0
                job.runnable = s.can_run(job)
                s.must_schedule = s.must_fetch = True
                self.policy.outdated(job.project)
        s.deferrals = any(job.deferred_until for job in s.jobs)

    def _schedule(self) -> bool:
        """Make a new run list; returns whether jobs were given up."""
        s = self.state
        s.must_schedule = False
        s.last_schedule = s.now
        unmeetable = self.policy.unmeetable()
        for job, reason in unmeetable:
            self.give_up(job, reason, "unmeetable_deadline")
        for job in [each for each in s.running if not each.runnable]:
            s.running.remove(job)
            self._stop(job)
        s.wanted = self.policy.schedule()
        s.must_enforce = True
        if self.explain and s.wanted:
            self._explain("schedule", tuple(self.policy.reason(job) for job in s.wanted))
        return bool(unmeetable)

    def _list_stands(self) -> float:
        """Return after how many seconds to make the next run list: at the end of the first time slice that may bring another."""
        span = self.state.slice
        stands = min(self.policy.list_stands(), LONGEST_LIFE)
        return ((stands - SAFE) // span + 1.0) * span if span < stands else span

    def give_up(self, job: ClientJob, reason: Why, code: str) -> None:
        """Give a job up."""
        s = self.state
        if job.running:
            s.running.remove(job)
        job.move("give_up")
        job.failed = job.given_up = True
        job.completed_at = s.now
        job.why = (reason,)
        hand_in(self.state, self.policy, job)
        self.out.append(ev.GiveUp(job=job.id, code=code, why=job.why))
        if self.explain:
            self._explain("give_up", (why("give_up.job", job=job.id), reason))
        s.must_fetch = True
        self.policy.outdated()

    def _enforce(self) -> None:
        s = self.state
        s.must_enforce = False
        s.last_enforce = s.now
        change = self.policy.enforce(s.wanted)
        s.look_again = change.look_again
        for job in change.preempt:
            s.running.remove(job)
            self._stop(job)
        self._quit_hogs()
        for job in change.start:
            self._start(job)
        if self.explain:
            waiting = [job for job in s.wanted if not job.running]
            if waiting:
                self._explain("enforce", tuple(why("wait.slice", job=job.id) for job in waiting))

    def _stop(self, job: ClientJob) -> None:
        s = self.state
        if all(each.code.startswith("run.") for each in job.why):
            job.why = why_waits(s, job) or (why("wait.turn"),)
        self.policy.preempted(job)
        allowed = s.permission.leave_in_memory
        stays = s.preferences.leave_in_memory if allowed is None else allowed
        if job.gpu or job.must_quit or (not stays and job.checkpointed_at is not None):
            self._quit(job)
            self.policy.outdated(job.project)
        else:
            job.move("suspend")  # what it still needs stays the same
            self.out.append(ev.SuspendTask(job=job.id, why=job.why))

    def _quit_hogs(self) -> None:
        """Quit tasks in memory that may not stay there."""
        for job in self.state.jobs:
            if job.must_quit and job.phase is Phase.IN_MEMORY:
                self._quit(job)

    def _quit(self, job: ClientJob) -> None:
        job.move("quit")
        job.runnable = False
        lose(job)
        self.out.append(ev.QuitTask(job=job.id, why=job.why))

    def _start(self, job: ClientJob) -> None:
        s = self.state
        job.move("start")
        job.run_start = s.now
        if not job.start_order:
            s.starts += 1
            job.start_order = s.starts
        s.running.append(job)
        job.why = (self.policy.reason(job),)
        self.out.append(ev.StartTask(job=job.id, instances=job.instances, why=job.why))

    def _plan_fetch(self) -> None:
        s = self.state
        s.must_fetch = False
        s.plan = self.policy.fetch()
        if self.explain and s.plan.why:
            self._explain("fetch", s.plan.why)

    def _contact(self) -> None:
        s = self.state
        now = s.now
        if not s.may_contact(now):
            return
        wait = self.policy.contact_wait()
        self._contact_waits = wait > 0.0
        if self._contact_waits:
            if self.explain:
                self._explain("wait", (why("contact.waits", hours=wait / 3600.0),))
            return
        plan = s.plan
        ready = [job for job in s.finished if job.phase is Phase.REPORTABLE]
        s.ready = Counter(job.project for job in ready)
        not_due: set[tuple[int, bool]] = set()  # if one job of a project may wait, the others may
        for job in ready:
            i, kind = job.project, (job.project, job.report_immediately)
            if s.projects[i].not_before > now or (kind in not_due and job.report_at > now + TINY):
                continue
            due = self.policy.report_due(job)
            if due is not None:
                self._contact_project(i, due)
                return
            not_due.add(kind)
        for i, project in enumerate(s.projects):
            if (project.contact_asked or project.contact_by <= now) and project.not_before <= now:
                self._contact_project(i, why("contact.asked", who=project.contact_asked or "project"))
                return
        if plan.project is not None and s.projects[plan.project].not_before <= now:
            self._contact_project(plan.project, why("contact.work"))

    def _contact_project(self, i: int, reason: Why) -> None:
        s = self.state
        planned = s.plan.requests if i == s.plan.project else s.plan.others.get(i, {})
        s.plan = NOTHING
        s.last_contact = s.now
        requests = self.policy.requests(i, planned)
        everything = self.policy.reports_all
        report = tuple(
            [j.id for j in s.finished if j.phase is Phase.REPORTABLE and (everything or j.project == i)]
        )
        if s.preferences.max_reported > 0:
            report = report[: s.preferences.max_reported]
        project = s.projects[i]
        identity = project.description.id
        s.contact = PendingContact(identity, requests, report, project.contact_asked)
        project.why = (reason,)
        self.out.append(self.contact_instruction(i, requests, report, reason))

    def contact_instruction(
        self, i: int, requests: Mapping[str, FetchRequest], report: tuple[str, ...], *reasons: Why
    ) -> ev.ContactProject:
        """Return the instruction to contact a project."""
        s = self.state
        jobs = self.policy.workload() if requests else None
        workload = (
            None
            if jobs is None
            else tuple([QueuedWork(j.id, j.report_deadline, j.remaining, j.gpu, j.cpus) for j in jobs])
        )
        return ev.ContactProject(
            project=s.projects[i].description.id,
            requests=requests,
            report=report,
            workload=workload,
            correction=self.policy.correction(i),
            available=self.policy.available() if requests else 1.0,
            why=reasons,
        )

    def _set_alarm(self) -> None:
        s = self.state
        now = s.now
        wake = min(s.look_again, self.policy.next_wake())
        if s.jobs:
            wake = min(wake, s.next_schedule)
            if s.deferrals:
                wake = min([wake, *(job.deferred_until for job in s.jobs if job.deferred(now))])
        if not s.permission.network and s.contact is None:
            wake = min(wake, self._next_contact_wanted(wake))
        if wake <= now + TINY:
            wake = now + self.policy.least_wait()
        if wake != s.alarm:
            s.alarm = wake
            self.out.append(ev.SetAlarm(at=wake))

    def bring_alarm_forward(self) -> None:
        """Let the alarm ring for a run list that is due earlier than was thought."""
        s = self.state
        due = max(s.next_schedule, s.now + self.policy.least_wait())
        if s.jobs and due < s.alarm:
            s.alarm = due
            self.out.append(ev.SetAlarm(at=due))

    def _next_contact_wanted(self, wake: float) -> float:
        s = self.state
        now = s.now
        wake = min(wake, s.next_fetch)
        for project in s.projects:
            if now + TINY < project.not_before < wake and s.may_contact(project.not_before):
                wake = project.not_before
            wake = min(wake, max(project.contact_by, project.not_before))
        due = [
            max(job.report_at, s.projects[job.project].not_before)
            for job in s.finished
            if job.phase is Phase.REPORTABLE
        ]
        # a report that is due but waits must not wake the client again and again
        if due and not self._contact_waits:
            wake = min(wake, max(min(due), s.next_contact(now)))
        return wake

    def _explain(self, about: str, reasons: tuple[Why, ...]) -> None:
        self.out.append(ev.Explain(about=about, why=reasons))


def hand_in(state: CoreState, policy: Policy, job: ClientJob) -> None:
    """Move a job that no longer needs a device to those that wait for their report."""
    queue = state.projects[job.project].queue
    if job in queue:
        queue.remove(job)
    state.jobs.remove(job)
    if job in state.wanted:
        state.wanted = [other for other in state.wanted if other is not job]
    policy.outdated(job.project)
    insort(state.finished, job, key=by_arrival)
    job.report_at = policy.report_at(job)


def lose(job: ClientJob) -> None:
    """Set a job back to its last checkpoint."""
    if job.done > job.checkpoint_elapsed:
        if job.fraction_done is not None:
            job.fraction_done *= job.checkpoint_elapsed / job.done
            job.fraction_at = job.checkpoint_elapsed
        job.done = job.checkpoint_elapsed
