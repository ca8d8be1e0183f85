"""The effects of each event on the state.  Nothing is decided here."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.decisions import DecisionRound, by_arrival, hand_in, lose
from cobblestone.policy.client.core.reasons import why
from cobblestone.policy.client.core.state import (
    ENDED_PHASES,
    LONGEST,
    NEVER,
    NOTHING,
    ClientJob,
    ClientProject,
    CoreState,
    PendingContact,
    Phase,
    within,
)
from cobblestone.policy.client.core.values import ABSURD_GAP, JobDescription, failing_jobs_wait

#: A silence longer than this (seconds) is a sleep of the computer, for drivers that are never silent so long.
SLEEP = 180.0
#: Seconds of computing for which nothing is given up after the clock has leapt: it may be wrong until a time server is asked.
DOUBT = 3600.0


class Intake:
    """Takes events in."""

    def __init__(self, decisions: DecisionRound, *, notices_sleep: bool) -> None:
        self.decisions = decisions
        self.state = decisions.state
        self.policy = decisions.policy
        self.notices_sleep = notices_sleep

    def advance(self, now: float) -> None:
        """Let the time since the last event pass."""
        s = self.state
        seconds = now - s.now
        if seconds < 0.0:
            set_clock_back(s, seconds)
        elif s.off_since is None:
            if self.notices_sleep and seconds > SLEEP:
                self.host_on(ev.HostOn(now))
            else:
                s.clock += seconds
                if s.running:
                    self.policy.passed(seconds)
        s.now = now

    def host_on(self, event: ev.HostOn) -> None:
        """Count the time since the last event, or since the host went off, as off."""
        s = self.state
        if event.now < s.now:
            set_clock_back(s, event.now - s.now)
        since = s.now if s.off_since is None else s.off_since
        s.off_since = None
        seconds = event.now - since
        s.now = event.now
        if seconds > ABSURD_GAP:
            s.doubted_until = s.clock + DOUBT
        if seconds > 0.0:
            self.policy.off(seconds)
            if not all(map(_saved, s.running)):  # what they lose was not foreseen
                s.next_schedule = min(s.next_schedule, s.slice_after(since))
            s.on.gap(seconds, event.now)
            for each in s.estimates_on:
                each.since += seconds

    def availability_known(self, event: ev.AvailabilityKnown) -> None:
        """Go on from what another client has measured."""
        s, times = self.state, event.times
        known = (times.active_frac, times.gpu_active_frac, times.connected_frac, times.cpu_and_network_frac)
        for estimate, fraction in zip((s.on, *s.estimates_on), (times.on_frac, *known), strict=True):
            estimate.fraction, estimate.since = 1.0 if fraction is None else fraction, s.now

    def host_off(self, event: ev.HostOff) -> None:
        """Remember when."""
        self.state.off_since = event.now

    def time_passed(self, event: ev.TimePassed) -> None:
        """Nothing to do but to decide."""

    def preferences_changed(self, event: ev.PreferencesChanged) -> None:
        """Take them over."""
        self.state.preferences = event.preferences
        self._all_changed()

    def permission_changed(self, event: ev.PermissionChanged) -> None:
        """Take it over, and learn how often computing is allowed."""
        s = self.state
        before = s.parts_of_time_on()
        s.permission = event.permission
        for (estimate, held), (_, holds) in zip(before, s.parts_of_time_on(), strict=True):
            if held != holds:
                estimate.turn(s.now, held=held)
        self._all_changed()

    def devices_changed(self, event: ev.DevicesChanged) -> None:
        """Take them over."""
        self.state.devices = event.devices
        self._all_changed()

    def _all_changed(self) -> None:
        s = self.state
        s.requeue()
        s.must_schedule = s.must_fetch = True
        self.policy.refit()
        self.policy.outdated()
        self._set_report_times(s.finished)

    def project_attached(self, event: ev.ProjectAttached) -> None:
        """Add a project, or change its description."""
        s = self.state
        known = next((p for p in s.projects if p.description.id == event.project.id), None)
        if known is None:
            s.projects.append(ClientProject(event.project))
        elif known.description == event.project:
            return
        else:
            known.description = event.project
        self._all_changed()

    def project_detached(self, event: ev.ProjectDetached) -> None:
        """Forget a project and its jobs."""
        s = self.state
        i = s.position(event.project)
        if s.contact is not None and s.contact.project == event.project:
            s.contact = None
        s.slow = [each for each in s.slow if each.project != event.project]
        for listed in (s.jobs, s.finished, s.running, s.wanted):
            listed[:] = [job for job in listed if job.project != i]
        s.by_id = {job.id: job for job in (*s.jobs, *s.finished)}
        del s.projects[i]
        for job in s.by_id.values():
            job.project -= job.project > i
        s.plan = NOTHING
        self.policy.detached(i)
        self._all_changed()

    def contact_asked(self, event: ev.ContactAsked) -> None:
        """Remember it; a volunteer's wish ends all waits."""
        project = self.state.projects[self.state.position(event.project)]
        project.contact_asked = event.why
        if event.why == "user" and self.state.under_way(event.project) not in self.state.slow:
            project.not_before = min(project.not_before, event.now)
            project.backoffs.clear()
            self.state.last_contact = -NEVER
        self.state.must_fetch = True

    def reply_received(self, event: ev.ReplyReceived) -> None:
        """Forget reported jobs, take in new ones."""
        s = self.state
        i, contact = self._contact_over(event.project)
        project = s.projects[i]
        project.first_contact = False
        project.contact_by = (
            event.now + min(event.next_contact, LONGEST) if event.next_contact > 0.0 else NEVER
        )
        for identity in contact.report if event.acknowledged is None else event.acknowledged:
            job = s.by_id.get(identity)
            if job is not None and job.phase is Phase.REPORTABLE:
                s.finished.remove(job)
                del s.by_id[identity]
        jobs = [self._arrive(each) for each in event.jobs]
        for identity in event.abort:
            self._abort(identity, started_too=True)
        for identity in event.abort_unstarted:
            self._abort(identity, started_too=False)
        if event.refused:
            project.not_before = event.now + 1.0
        self.policy.replied(i, contact.requests, jobs)
        project.not_before = max(project.not_before, event.now + within(event.request_delay, LONGEST))
        s.must_fetch = True

    def contact_failed(self, event: ev.ContactFailed) -> None:
        """Let the policy set a wait."""
        i, _ = self._contact_over(event.project)
        self.policy.unreachable(i)
        self.state.must_fetch = True

    def contact_slow(self, event: ev.ContactSlow) -> None:
        """Leave it aside, and its project out, until the answer comes."""
        s = self.state
        assert s.contact is not None  # noqa: S101  # else the event would not have been taken
        s.slow.append(s.contact)
        s.contact = None
        project = s.projects[s.position(event.project)]
        project.not_before = max(project.not_before, event.now + LONGEST)
        s.must_fetch = True

    def _contact_over(self, identity: str) -> tuple[int, PendingContact]:
        s = self.state
        contact = s.under_way(identity)
        assert contact is not None  # noqa: S101  # else the event would not have been taken
        i = s.position(identity)
        if contact in s.slow:
            s.slow.remove(contact)
            s.projects[i].not_before = min(s.projects[i].not_before, s.now)
        else:
            s.contact = None
        s.projects[i].contact_asked = ""
        return i, contact

    def _abort(self, identity: str, *, started_too: bool) -> None:
        job = self.state.by_id.get(identity)
        if job is None or job.phase in ENDED_PHASES or (job.start_order and not started_too):
            return  # it has ended in the meantime
        self.state.must_schedule = True
        self.decisions.give_up(job, why("give_up.project"), "project")

    def jobs_found(self, event: ev.JobsFound) -> None:
        """Take them in."""
        for each in event.jobs:
            self._arrive(each)

    def jobs_described(self, event: ev.JobsDescribed) -> None:
        """Take over what may change of jobs that are here."""
        s = self.state
        for each in event.jobs:
            job = s.by_id.get(each.id)
            if job is None:
                continue
            job.cpus, job.gpus = within(each.cpus), within(each.gpus)
            job.exact_fraction, job.report_immediately = each.exact_fraction, each.report_immediately
        self._all_changed()

    def _arrive(self, description: JobDescription) -> ClientJob:
        s = self.state
        job = ClientJob.of(description, s.position(description.project))
        s.arrivals += 1
        job.serial = s.arrivals
        s.jobs.append(job)
        s.by_id[job.id] = job
        project = s.projects[job.project]
        if not project.description.suspended:
            project.queue.append(job)
        job.runnable = s.can_run(job)
        project.backoffs.pop(job.gpu, None)
        self.policy.outdated(job.project)
        self.policy.arrived(job)
        s.must_schedule = True
        return job

    def job_ready(self, event: ev.JobReady) -> None:
        """Let it run."""
        job = self.state.job(event.job)
        job.move("ready")
        job.stalled = False
        self._queue_changed(job)

    def download_stalled(self, event: ev.DownloadStalled) -> None:
        """Note that it no longer counts as work, or does again."""
        job = self.state.job(event.job)
        if job.stalled != event.stalled:
            job.stalled = event.stalled
            self._queue_changed(job)

    def job_suspended(self, event: ev.JobSuspended) -> None:
        """Note that it no longer counts as work, or does again."""
        job = self.state.job(event.job)
        job.suspended = event.suspended
        self._queue_changed(job)

    def _queue_changed(self, job: ClientJob) -> None:
        s = self.state
        queue = s.projects[job.project].queue
        counts = job.queued and not s.projects[job.project].description.suspended
        at = bisect_left(queue, job.serial, key=by_arrival)
        queue[at : at + (job in queue[at : at + 1])] = [job] if counts else []
        job.runnable = s.can_run(job)
        s.must_schedule = s.must_fetch = True
        self.policy.outdated(job.project)

    def job_progressed(self, event: ev.JobProgressed) -> None:
        """Take the figures over."""
        s = self.state
        by_id = s.by_id
        for reading in event.readings:
            job = by_id.get(reading[0])
            if job is None or not job.running:
                continue  # it has ended or was stopped in the meantime
            _, done, fraction, at, saved, working_set, swap, _ = reading
            if not isfinite(done + (fraction or 0.0) + (at or 0.0) + (saved or 0.0) + working_set + swap):
                # apps may say anything; what is no number is as good as not said, and the rest still counts
                done = done if isfinite(done) else job.done
                fraction, at, saved = map(_number, (fraction, at, saved))
                working_set, swap = _number(working_set) or 0.0, _number(swap) or 0.0
            job.done = within(done, LONGEST)
            if fraction is not None:
                fraction = 0.0 if fraction < 0.0 else min(fraction, 1.0)
            if fraction is not None and fraction != job.fraction_done:
                if job.fraction_done is not None and fraction < job.fraction_done:
                    s.next_schedule = min(s.next_schedule, s.slice_after(s.now))
                job.fraction_done, job.fraction_at = fraction, job.done
            job.checkpointed_at = at
            if saved is not None:
                job.checkpoint_elapsed = max(0.0, min(saved, job.done))
            if working_set > 0.0:
                job.measured = working_set = min(working_set, LONGEST)
                job.largest = max(job.largest, working_set)
            job.swap = within(swap, LONGEST)

    def job_checkpointed(self, event: ev.JobCheckpointed) -> None:
        """Take the figures over."""
        job = self.state.job(event.job)
        elapsed = within(event.elapsed, LONGEST)
        job.checkpointed_at, job.checkpoint_elapsed = event.now, elapsed
        job.done = max(job.done, elapsed)
        self.policy.outdated(job.project)

    def job_finished(self, event: ev.JobFinished) -> None:
        """Hand it in."""
        self._end(self.state.job(event.job), event.elapsed, event.uploading)

    def job_failed(self, event: ev.JobFailed) -> None:
        """Hand it in."""
        job = self.state.job(event.job)
        job.failed = True
        self._end(job, event.elapsed, event.uploading)

    def _end(self, job: ClientJob, elapsed: float, uploading: bool) -> None:
        s = self.state
        given_up = job.phase is Phase.GIVEN_UP
        job.move("end_uploading" if uploading else "end")
        elapsed = min(elapsed, LONGEST) if isfinite(elapsed) and elapsed >= 0.0 else job.done
        if given_up:
            s.must_fetch = True
            s.must_schedule = s.must_schedule or bool(job.gpu)  # others may have waited for its instance
            return  # everything else was done when it was given up
        if job in s.running:
            s.running.remove(job)
        job.completed_at = s.now
        self.policy.ended(job, elapsed)
        hand_in(self.state, self.policy, job)
        project = s.projects[job.project]
        project.failed = project.failed + 1 if job.failed else 0
        project.not_before = max(project.not_before, s.now + failing_jobs_wait(project.failed))
        project.backoffs.pop(job.gpu, None)
        if uploading and project.upload_since == -NEVER:
            project.upload_since = s.now
            self._set_report_times([each for each in s.finished if each.project == job.project])
        s.must_schedule = s.must_fetch = True

    def _set_report_times(self, jobs: Iterable[ClientJob]) -> None:
        for job in jobs:
            job.report_at = self.policy.report_at(job)

    def job_deferred(self, event: ev.JobDeferred) -> None:
        """Let it not run before its time."""
        job = self.state.job(event.job)
        self._stopped(job)
        if job.phase in ENDED_PHASES:
            return
        job.deferred_until = within(event.until, NEVER)
        self.state.deferrals = True
        job.runnable = self.state.can_run(job)
        self.state.must_fetch = True

    def task_stopped(self, event: ev.TaskStopped) -> None:
        """Note that it goes on from its checkpoint some time."""
        self._stopped(self.state.job(event.job))

    def _stopped(self, job: ClientJob) -> None:
        s = self.state
        if job.phase in ENDED_PHASES:
            return
        if job.phase is Phase.QUITTING:
            s.must_schedule = s.must_schedule or bool(job.gpu)  # others may have waited for its instance
        else:
            s.must_schedule = True
        if job.running:
            s.running.remove(job)
            self.policy.preempted(job)
        job.move("stopped")
        lose(job)
        job.runnable = s.can_run(job)
        self.policy.outdated(job.project)

    def job_uploaded(self, event: ev.JobUploaded) -> None:
        """Let it be reported."""
        job = self.state.job(event.job)
        job.move("uploaded")
        project = self.state.projects[job.project]
        others = reversed(self.state.finished)  # the first to come are uploaded first
        if not any(j.phase is Phase.UPLOADING and j.project == job.project for j in others):
            project.upload_since = -NEVER
            self._set_report_times([each for each in self.state.finished if each.project == job.project])
        project.backoffs.pop(job.gpu, None)
        self.state.must_fetch = True


def _number(figure: float | None) -> float | None:
    return figure if figure is not None and isfinite(figure) else None


def _saved(job: ClientJob) -> bool:
    """Tell whether a running task had saved everything at its last reading."""
    return job.checkpointed_at is not None and job.checkpoint_elapsed >= job.done


def set_clock_back(s: CoreState, seconds: float) -> None:
    """Set the clock back: move everything that counts from the old time with it (deadlines stay as they are)."""
    for name in (
        "last_schedule",
        "next_schedule",
        "last_enforce",
        "next_fetch",
        "look_again",
        "last_contact",
        "alarm",
    ):
        setattr(s, name, getattr(s, name) + seconds)
    if s.off_since is not None:
        s.off_since += seconds
    for estimate in (s.on, *s.estimates_on):
        estimate.since += seconds
    for project in s.projects:
        project.not_before += seconds
        project.contact_by += seconds
        project.upload_since += seconds
        project.backoffs = {kind: (each, end + seconds) for kind, (each, end) in project.backoffs.items()}
    for job in (*s.jobs, *s.finished):
        job.run_start += seconds
        job.completed_at += seconds
        job.report_at += seconds
        for name in ("deferred_until", "checkpointed_at", "late_since", "preferred_since"):
            if at := getattr(job, name):
                setattr(job, name, at + seconds)


#: What to do with each event: the method that is named after it, such as ``job_ready`` for `JobReady`.
HANDLERS: dict[type[ev.Event], Callable[[Intake, Any], None]] = {  # Any: the event of that kind
    kind: getattr(Intake, re.sub("(?<!^)(?=[A-Z])", "_", name).lower()) for name, kind in ev.EVENTS.items()
}
