"""The project's side of a contact: jobs with a true size, sent by WS1 or WS2."""

from __future__ import annotations

import random
from collections.abc import Iterable

from cobblestone.policy.client.choice import Faults2007
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload
from cobblestone.simulator.scenario import AppModel, HostModel, ProjectModel, pick_weighted
from cobblestone.simulator.streams import normal_by_inversion
from cobblestone.simulator.task import Task


class ProjectServer:
    """Hands out the jobs of one project to one host.

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
        self._speeds = [_speed(app, host) for app in model.apps]
        self._peaks = [_peak(app, host) for app in model.apps]
        self._kept: Task | None = None

    def make_job(self, now: float) -> Task:
        """Make the next job, as if it were sent now."""
        number = 0
        if self.inversion:
            number = pick_weighted(self._weights, self.rng.random())
        elif len(self._weights) > 1:
            number = pick_weighted(self._weights, self.rng.random())
        app = self.model.apps[number]
        sizes = app.sizes
        if self.inversion:
            flops = max(0.0, sizes.mean + sizes.stdev * normal_by_inversion(self.rng))
        else:
            flops = sizes.draw(self.rng)
        speed = self._speeds[number]
        task = Task(
            project=self.index,
            app=app,
            number=self.made,
            raw=app.flops_estimate / speed,
            size=flops / speed,
            received=now,
            peak=self._peaks[number],
        )
        self.made += 1
        if app.error_rate and self.rng.random() < app.error_rate:
            task.failed = True
            task.limit = task.size * self.rng.random()
        if app.early_exit_rate and self.rng.random() < app.early_exit_rate:
            task.size = task.limit = task.limit * self.rng.random()
        return task

    def answer(
        self, seconds: float, *, now: float, dcf: float, workload: Iterable[Task] | None, buffer_min: float, faults: Faults2007
    ) -> tuple[list[Task], bool]:
        """Return the jobs sent for a request of ``seconds``, and whether a candidate was refused.

        ``workload`` is the host's list of jobs in progress (WS2) or None (WS1).
        """
        sent: list[Task] = []
        refused = 0
        origin = 0.0 if faults.absolute_admission_deadlines else now
        known: Workload | None = None
        if workload is not None:
            booked = [
                BookedJob(t.report_deadline - buffer_min - origin, t.remaining) for t in workload if t.remaining > 0.0
            ]
            known = Workload(booked, ncpus=self.host.ncpus)
        while seconds > 0.0:
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

    def _next(self, now: float) -> Task:
        task = self._kept
        if task is None:
            return self.make_job(now)
        self._kept = None
        task.received = now
        task.report_deadline = task.cutoff = now + task.app.latency_bound
        return task


def _speed(app: AppModel, host: HostModel) -> float:
    """FLOP/s of a job on its devices."""
    gpu = sum(g.flops for g in host.gpus if g.type == app.gpu) * app.gpus
    return (gpu + app.cpus * host.flops) * app.efficiency


def _peak(app: AppModel, host: HostModel) -> float:
    gpu = sum(g.flops for g in host.gpus if g.type == app.gpu) * app.gpus
    return gpu + app.cpus * host.flops
