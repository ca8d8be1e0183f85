"""The project's side of a contact: jobs with a true size, sent by WS1 or WS2; and the deadline check of 2007.

The server's deadline check with the order of equal deadlines that the simulator of 2007 gave them.

It sorted with its C++ library, whose sort (Musser's introsort, 1997: quicksort by the median of three down to 16 elements,
then insertion) leaves equal elements as they were among 16 jobs at most.  With more, who of those with equal deadlines
comes first decides whether a candidate is refused.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cobblestone.domain.values import float_sum
from cobblestone.policy.client.choice import Faults2007
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload
from cobblestone.simulator.host.books import SimTask
from cobblestone.simulator.world.distributions import normal_by_inversion
from cobblestone.simulator.world.scenario import AppModel, HostModel, ProjectModel, pick_weighted

if TYPE_CHECKING:
    from cobblestone.policy.client.core.events import ContactProject


#: Runs up to this length are sorted by insertion, which is stable.
SHORT = 16


class Workload2007:
    """As :class:`cobblestone.policy.dispatch.deadline_check.Workload`, in the original's order."""

    def __init__(self, jobs: Iterable[BookedJob], *, ncpus: int) -> None:
        self.ncpus = ncpus
        self._jobs = sorted_2007([(job.deadline, job.remaining, -1.0) for job in jobs])
        booked = [0.0] * ncpus
        for k, (deadline, remaining, _) in enumerate(self._jobs):
            first = booked.index(min(booked))
            booked[first] += remaining
            if booked[first] > deadline:
                self._jobs[k] = (deadline, remaining, booked[first])

    def admits(self, candidate: BookedJob) -> bool:
        """Return whether the candidate would be in time and make no other job later."""
        jobs = [*self._jobs, (candidate.deadline, candidate.remaining, -1.0)]
        if float_sum([remaining for _, remaining, _ in jobs]) <= min(jobs)[0]:
            return True  # one processor alone would do it all before the first deadline
        booked = [0.0] * self.ncpus
        for deadline, remaining, late in sorted_2007(jobs):
            first = booked.index(min(booked))
            booked[first] += remaining
            if booked[first] > (late if late >= 0.0 else deadline):
                return False
        return True

    def add(self, job: BookedJob) -> None:
        """Book a sent job."""
        self._jobs.append((job.deadline, job.remaining, -1.0))


def sorted_2007(jobs: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return the jobs by their first member, as the C++ library puts them."""
    items = list(jobs)
    parts = [(0, len(items))]
    while parts:
        first, last = parts.pop()
        while last - first > SHORT:
            cut = _partition(items, first, last)
            parts.append((cut, last))
            last = cut
    return sorted(items, key=_deadline)  # insertion keeps the order of equals


def _deadline(job: tuple[float, float, float]) -> float:
    return job[0]


def _partition(items: list[tuple[float, float, float]], first: int, last: int) -> int:
    """Split by the median of the second, the middle and the last; return where the upper part begins."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    median = _median(items, a, b, c)
    items[first], items[median] = items[median], items[first]
    pivot = items[first][0]
    low, high = first + 1, last
    while True:
        while items[low][0] < pivot:
            low += 1
        high -= 1
        while pivot < items[high][0]:
            high -= 1
        if low >= high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1


def _median(items: list[tuple[float, float, float]], a: int, b: int, c: int) -> int:
    """Return which one is the median; of equals, the one that the library's comparisons yield."""
    if items[a][0] < items[b][0]:
        return b if items[b][0] < items[c][0] else (c if items[a][0] < items[c][0] else a)
    return a if items[a][0] < items[c][0] else (c if items[b][0] < items[c][0] else b)


MAX_JOBS_PER_REPLY = 1000  #: to today's clients
MAX_JOBS_PER_REQUEST = 5000  #: to a request of one kind of processor (the published policies know no limit)


class ProjectServer:
    """Sends the jobs of one project to one host.

    The k-th job that is made has the same size under every policy.
    """

    def __init__(
        self, model: ProjectModel, index: int, host: HostModel, rng: random.Random, *, inversion: bool = False
    ) -> None:
        self.model = model
        self.index = index
        self.host = host
        self.rng = rng
        self.inversion = inversion
        self.made = 0
        self.sent = 0
        self._weights = tuple(a.weight for a in model.apps)
        self._speeds = [job_speed(app, host) for app in model.apps]
        self._peaks = [job_peak(app, host) for app in model.apps]
        self._kept: SimTask | None = None

    def make_job(self, now: float, *, gpu: str | None = None) -> SimTask:
        """Make the next job, as if it were sent now; of an app for this device type, if one is named (empty
        = CPU).
        """
        weights = self._weights
        if gpu is not None:
            weights = tuple(a.weight if a.gpu == gpu else 0.0 for a in self.model.apps)
        number = 0
        if self.inversion or len(weights) > 1:
            number = pick_weighted(weights, self.rng.random())
        app = self.model.apps[number]
        sizes = app.sizes
        flops = (
            sizes.draw(self.rng)
            if not self.inversion
            else sizes.mean + sizes.stdev * normal_by_inversion(self.rng)
        )
        flops = max(0.0, flops)
        speed = self._speeds[number]
        task = SimTask(
            project=self.index,
            app=app,
            number=self.made,
            raw=app.flops_estimate / speed,
            size=flops / speed,
            received=now,
            peak=self._peaks[number],
        )
        self.made += 1
        draw_luck(task, self.rng)
        return task

    def answer(
        self, contact: ContactProject, now: float, buffer_min: float, faults: Faults2007
    ) -> tuple[list[SimTask], bool]:
        """Return the jobs sent for a request of one kind of processor, and whether a candidate was refused.

        The workload is the host's list of jobs in progress (WS2) or None (WS1).
        """
        seconds, dcf, workload = contact.requests[CPU].seconds, contact.correction, contact.workload
        sent: list[SimTask] = []
        refused = 0
        origin = 0.0 if faults.absolute_admission_deadlines else now
        known: Workload | Workload2007 | None = None
        if workload is not None:
            booked = [
                BookedJob(t.report_deadline - buffer_min - origin, t.remaining)
                for t in workload
                if t.remaining > 0.0
            ]
            kind = Workload2007 if self.inversion else Workload
            known = kind(booked, ncpus=self.host.ncpus)
        while seconds > 0.0 and len(sent) < MAX_JOBS_PER_REQUEST:
            task = self._next(now)
            if known is not None:
                needs = task.size if faults.true_size_in_admission else dcf * task.raw
                candidate = BookedJob(task.report_deadline - origin, needs)
                if not known.admits(candidate):
                    if not faults.true_size_in_admission:
                        self._kept = task  # not sent, so it stays at the head of the project's queue
                    refused += 1
                    if refused > self.model.max_infeasible:
                        break
                    if len(self.model.apps) > 1 or faults.true_size_in_admission:
                        self._kept = None
                        continue
                    break
                known.add(candidate)
            sent.append(task)
            seconds -= dcf * task.raw
        self.sent += len(sent)
        return sent, refused > self.model.max_infeasible

    def answer_devices(self, contact: ContactProject, now: float) -> list[SimTask]:
        """Return the jobs sent for a request of today's clients.

        A job is sent if the device's delay and its own run time (stretched by the available fraction of
        time) fit into the latency bound, and with a workload (WS2) if the deadline check admits it.
        """
        dcf, fraction, workload = contact.correction, contact.available, contact.workload
        known: Workload | None = None
        if workload is not None:
            booked = [
                BookedJob(t.report_deadline - now, t.remaining / fraction) for t in workload if not t.gpu
            ]
            known = Workload(booked, ncpus=self.host.ncpus)
        sent: list[SimTask] = []
        for kind, wanted in contact.requests.items():
            if not any(a.gpu == kind and a.weight > 0 for a in self.model.apps):
                continue
            seconds, instances, delay = wanted
            while (seconds > 0.0 or instances > 0.0) and len(sent) < MAX_JOBS_PER_REPLY:
                task = self.make_job(now, gpu=kind)
                duration = dcf * task.raw / fraction
                use = task.gpus if kind else task.cpus
                if delay + duration > task.app.latency_bound:
                    break
                if known is not None and not kind:
                    job = BookedJob(task.report_deadline - now, duration)
                    if not known.admits(job):
                        break
                    known.add(job)
                sent.append(task)
                seconds -= duration * use
                instances -= use
        self.sent += len(sent)
        return sent

    def contacted(self, now: float) -> None:
        """Record a contact."""

    def reported(self, task: SimTask, now: float) -> None:
        """Record a report; a project with endless jobs needs nothing from it."""

    def _next(self, now: float) -> SimTask:
        task = self._kept
        if task is None:
            return self.make_job(now)
        self._kept = None
        task.received = now
        task.report_deadline = now + task.app.latency_bound
        return task


def job_speed(app: AppModel, host: HostModel) -> float:
    """Return the FLOP/s that a job achieves on its devices."""
    gpu = float_sum(g.flops for g in host.gpus if g.type == app.gpu) * app.gpus
    return (gpu + app.cpus * host.flops) * app.efficiency


def draw_luck(task: SimTask, rng: random.Random) -> None:
    """Let a job fail or end early, by the rates of its app."""
    app = task.app
    if app.error_rate and rng.random() < app.error_rate:
        task.failed = True
        task.limit = task.size * rng.random()
    if app.early_exit_rate and rng.random() < app.early_exit_rate:
        task.size = task.limit = task.limit * rng.random()


def job_peak(app: AppModel, host: HostModel) -> float:
    """Return the FLOP/s of the devices that a job occupies."""
    gpu = float_sum(g.flops for g in host.gpus if g.type == app.gpu) * app.gpus
    return gpu + app.cpus * host.flops
