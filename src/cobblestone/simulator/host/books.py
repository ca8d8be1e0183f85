"""Simulated jobs, the accounts of a run, and its figures of merit.

The books of a run and the figures of merit that follow from them.

Idleness, waste, share violation and monotony are defined as in Kondo et al. 2007, section 4, with the
formulas of the simulator of that year; amounts are FLOPs of peak speed (on a host without GPUs: CPU time
times the CPU's speed), so that GPUs can be counted together with CPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from cobblestone.domain.values import float_sum, value
from cobblestone.simulator.world.scenario import AppModel, Scenario


@dataclass(slots=True, kw_only=True, eq=False)
class SimTask:
    """One job on the simulated host.  Times are in seconds, sizes in seconds on the job's own devices."""

    project: int
    app: AppModel
    number: int
    raw: float  #: the project's estimate, uncorrected
    size: float  #: what it really needs
    received: float
    peak: float  #: FLOP/s of the devices that it occupies
    id: str = ""  #: on the host that has it
    limit: float = field(init=False)  #: where it ends: its size, or earlier if it fails
    failed: bool = False
    given_up: bool = False  #: by the client, because it would have been late
    report_deadline: float = field(init=False)
    cpus: float = field(init=False)
    gpu: str = field(init=False)
    gpus: float = field(init=False)
    done: float = 0.0
    saved: float = 0.0  #: of ``done``, what the last checkpoint holds
    lost: float = 0.0  #: done and lost again
    running: bool = False
    run_start: float = field(init=False)
    rate: float = 1.0
    edf: bool = False
    completed_at: float = 0.0
    slot: int = 0

    def __post_init__(self) -> None:
        self.limit, self.run_start = self.size, self.received
        self.report_deadline = self.received + self.app.latency_bound
        self.cpus, self.gpu, self.gpus = self.app.cpus, self.app.gpu, self.app.gpus

    @property
    def fraction_done(self) -> float | None:
        """Return the progress that its app reports, 0 to 1; None if it reports nothing."""
        part = self.done / self.size if self.size > 0.0 else 1.0
        return self.app.progress.reported(part)

    @property
    def width(self) -> int:
        """Return the devices that it covers in a picture."""
        return 1 if self.gpu else max(1, math.ceil(self.cpus))


@dataclass(slots=True)
class ProjectBook:
    """The accounts of one project."""

    used: float = 0.0  #: FLOPs of jobs reported in time
    late: float = 0.0  #: FLOPs of jobs reported late
    failed: float = 0.0  #: FLOPs of jobs that failed
    lost: float = 0.0  #: FLOPs lost since a checkpoint
    unfinished: float = 0.0  #: FLOPs in jobs not reported by the end
    unfinished_late: float = 0.0  #: of those, in jobs whose deadline had passed
    rounding: float = 0.0  #: FLOPs between the end of a job and the end of its polling period
    met: int = 0
    missed: int = 0
    errors: int = 0
    sent: int = 0
    rpcs: int = 0
    refused: int = 0
    given_up: int = 0  #: of the errors, jobs that the client gave up because they would have been late
    turnaround: float = 0.0  #: sum of seconds from sending to report


@dataclass(slots=True)
class Books:
    """Everything that is counted during a run."""

    scenario: Scenario
    projects: list[ProjectBook] = field(default_factory=list[ProjectBook])
    peak: float = 0.0  #: FLOP/s of all devices
    available: float = 0.0  #: seconds
    delivered: float = 0.0
    idle: float = 0.0
    _running: list[int] = field(default_factory=list[int])
    _idle_since: list[float] = field(default_factory=list[float])
    idle_squares: list[float] = field(default_factory=list[float])
    #: Start and end of the last spell without running tasks.
    _ended_spell: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def __post_init__(self) -> None:
        count = len(self.scenario.projects)
        host = self.scenario.host
        self.projects = [ProjectBook() for _ in range(count)]
        self.peak = host.ncpus * host.flops + float_sum(g.count * g.flops for g in host.gpus)
        self._running = [0] * count
        self._idle_since = [0.0] * count
        self.idle_squares = [0.0] * count
        self._ended_spell = [(0.0, -1.0)] * count

    def pass_time(self, seconds: float, used_peak: float) -> None:
        """Count available time in which devices of ``used_peak`` FLOP/s computed."""
        self.available += seconds
        self.delivered += seconds * used_peak
        if used_peak < self.peak:
            self.idle += seconds * (self.peak - used_peak)

    def project_runs(self, project: int, clock: float) -> None:
        """Note that a task of the project starts."""
        self._running[project] = 1
        since = self._idle_since[project]
        if since >= 0.0:
            self.idle_squares[project] += self._squares(clock - since)
            self._idle_since[project] = -1.0
            self._ended_spell[project] = (since, clock)

    def project_stops(self, project: int, clock: float) -> None:
        """Note that the last running task of the project stops."""
        self._running[project] = 0
        since, start = self._ended_spell[project]
        if start == clock:  # started and stopped at once: it has not run, and the spell goes on
            self.idle_squares[project] -= self._squares(clock - since)
            self._idle_since[project] = since
        else:
            self._idle_since[project] = clock

    def report(self, task: SimTask, now: float) -> None:
        """Note that a finished job is reported."""
        book = self.projects[task.project]
        flops = task.done * task.peak
        if task.done > task.limit:
            book.rounding += (task.done - task.limit) * task.peak
            flops = task.limit * task.peak
        book.lost += task.lost * task.peak
        book.turnaround += now - task.received
        if task.failed:
            book.failed += flops
            book.errors += 1
            book.given_up += task.given_up
        elif now > task.report_deadline:
            book.late += flops
            book.missed += 1
        else:
            book.used += flops
            book.met += 1

    def leave(self, task: SimTask, now: float) -> None:
        """Note that a job is not reported when the run ends."""
        book = self.projects[task.project]
        book.lost += task.lost * task.peak
        done = min(task.done, task.limit) * task.peak
        book.rounding += task.done * task.peak - done
        book.unfinished += done
        if now > task.report_deadline:
            book.unfinished_late += done

    def close(self, clock: float) -> None:
        """Count the last idle spells."""
        for i, since in enumerate(self._idle_since):
            if since >= 0.0:
                self.idle_squares[i] += self._squares(clock - since)

    def _squares(self, seconds: float) -> float:
        return sum_of_squares(seconds, self.scenario.compatibility.quantum)

    def imbalance(self) -> float:
        """Return the part of the delivered FLOPs by which the books fail to balance; 0 except for rounding."""
        sides = (
            float_sum(p.used + p.late + p.failed + p.lost + p.unfinished + p.rounding for p in self.projects),
            self.peak * self.available - self.idle,
        )
        scale = max(self.peak * self.available, 1.0)
        return max(abs(self.delivered - side) for side in sides) / scale

    def share_violation(self) -> float:
        """Return how much of what was done should have been another project's, counted with both."""
        got = [p.used + p.late + p.failed + p.lost for p in self.projects]
        everything = float_sum(got)
        if everything <= 0.0:
            return 0.0
        shares = [p.share for p in self.scenario.projects]
        share_sum = float_sum(shares)
        return (
            float_sum(abs(g - everything * s / share_sum) for g, s in zip(got, shares, strict=True))
            / everything
        )

    def monotony(self) -> float:
        """Return 1 - 1/(1 + X); X compares the mean waiting of projects with n time slices."""
        if self.available <= 0.0:
            return 0.0
        n = len(self.projects)
        waiting = float_sum(math.sqrt(s / self.available) for s in self.idle_squares)
        x = waiting / (n * self.scenario.preferences.slice_seconds * n)
        return 1.0 - 1.0 / (x + 1.0)


def sum_of_squares(seconds: float, quantum: float) -> float:
    """Return the integral of the squared waiting time over a spell; with polling, the sum over the polls."""
    if quantum <= 0.0:
        return math.pow(seconds, 3.0) / 3.0
    n = round(seconds / quantum)
    return quantum * quantum * quantum * (n * (n + 1) * (2 * n + 1) / 6.0)


@value(kw_only=True)
class FiguresOfMerit:
    """Figures of merit of one run.  0 is best for all, except RPCs per job, turnaround and throughput."""

    idleness: float  #: idle / (used + wasted + idle)
    waste: float  #: FLOPs of late, failed and lost work / (used + wasted + idle)
    share_violation: float  #: sum of |what a project got - its share| / total; 0 to 2
    monotony: float
    share_violation_normalised: float  #: half of the share violation; 0 to 1
    rpcs_per_job: float
    missed: float  #: part of the reported jobs that came late
    turnaround: float  #: mean seconds from sending to report
    unfinished: float  #: part of the delivered FLOPs in jobs not reported at the end
    waste_with_tail: float  #: waste, counting unreported jobs past their deadline
    given_up: float  #: part of the reported jobs that the client gave up because they would have been late
    jobs: float  #: jobs reported in time


def compute_metrics(*hosts: Books) -> FiguresOfMerit:
    """Compute the figures of merit from the books of a host, or of several together, weighted by what they can compute; share
    violation and monotony are means over hosts.
    """
    projects = [p for books in hosts for p in books.projects]
    used = float_sum(p.used for p in projects)
    wasted = float_sum(p.late + p.failed + p.lost for p in projects)
    idle = float_sum(books.idle for books in hosts)
    delivered = float_sum(books.delivered for books in hosts)
    total = used + wasted + idle
    violation = float_sum(books.share_violation() for books in hosts) / len(hosts)
    met = sum(p.met for p in projects)
    missed = sum(p.missed for p in projects)
    reported = met + missed + sum(p.errors for p in projects)
    tail = float_sum(p.unfinished_late for p in projects)
    return FiguresOfMerit(
        idleness=idle / total if total > 0 else 0.0,
        waste=wasted / total if total > 0 else 0.0,
        share_violation=violation,
        monotony=float_sum(books.monotony() for books in hosts) / len(hosts),
        share_violation_normalised=violation / 2.0,
        rpcs_per_job=sum(p.rpcs for p in projects) / max(1, reported),
        missed=missed / max(1, met + missed),
        turnaround=float_sum(p.turnaround for p in projects) / max(1, reported),
        unfinished=float_sum(p.unfinished for p in projects) / delivered if delivered > 0 else 0.0,
        waste_with_tail=(wasted + tail) / (total + tail) if total + tail > 0 else 0.0,
        given_up=sum(p.given_up for p in projects) / max(1, reported),
        jobs=float(met),
    )
