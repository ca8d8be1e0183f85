"""Recent estimated credit (REC): what each project has had of all devices lately, and the priority that follows.

Recent estimated credit (REC) and project priorities: how today's clients keep to resource shares.

Source: BOINC's ``rec``/``project`` code of today and the wiki page ClientSchedOctTen.  One Cobblestone is
1/200 of a day at 1 GFLOPS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from cobblestone.domain.values import DAY, float_sum, value
from cobblestone.policy.client.core.state import CoreState

#: Credit per FLOP.
CREDIT_PER_FLOP = 200.0 / (DAY * 1e9)
#: What a GPU is taken to achieve of its peak.
GPU_EFFICIENCY = 0.2
NO_SHARE_RANK = 1000.0
#: Days of the whole host's work that a project is charged for in advance when its jobs are picked for all devices.
PICK_CHARGE = 1.0 / 24.0


@value(kw_only=True)
class GpuType:
    """GPUs of one type; ``relative_speed`` is that of one instance in units of a CPU.

    BOINC multiplies it by the number of instances and so counts a host with n GPUs n times too high; here
    it is per instance.
    """

    name: str
    count: int
    relative_speed: float
    suspended: tuple[int, ...] = ()  #: instances that are not to be used

    @property
    def usable(self) -> list[int]:
        """The instances that may be used."""
        return [n for n in range(self.count) if n not in self.suspended]


def gpu_relative_speed(*, peak_flops: float, cpu_flops: float) -> float:
    """Return the speed of one GPU instance in units of a CPU."""
    return GPU_EFFICIENCY * peak_flops / cpu_flops if cpu_flops > 0 else 0.0


@value(kw_only=True)
class Devices:
    """The devices that may be used."""

    ncpus: int
    cpu_flops: float
    gpus: tuple[GpuType, ...] = ()

    @property
    def peak(self) -> float:
        """FLOP/s of everything, GPUs at their assumed efficiency."""
        return self.cpu_flops * (self.ncpus + float_sum(len(g.usable) * g.relative_speed for g in self.gpus))

    def speed_of(self, gpu: str) -> float:
        """Return the relative speed of a GPU type (0 if the host has none)."""
        for g in self.gpus:
            if g.name == gpu:
                return g.relative_speed
        return 0.0

    def job_peak(self, *, cpus: float, gpu: str, gpus: float) -> float:
        """Return the FLOP/s that a job is charged for."""
        return self.cpu_flops * (cpus + gpus * self.speed_of(gpu))


def update_rec(rec: float, *, credit: float, seconds: float, half_life: float) -> float:
    """Return REC (credit per day, exponentially averaged) after ``credit`` was earned within ``seconds``."""
    if seconds <= 0.0:
        return rec
    gone = -math.expm1(-seconds * math.log(2.0) / half_life)
    if gone <= 1e-6:
        return rec + math.log(2.0) * credit * DAY / half_life
    return rec * (1.0 - gone) + gone * credit / (seconds / DAY)


def priority_terms(share: float, share_sum: float) -> tuple[float, float]:
    """Return what a project's part of all REC is to be multiplied with, and what then to be added, to get its rank: the
    negative of its priority.
    """
    if share <= 0.0 or share_sum <= 0.0:
        return 1.0, NO_SHARE_RANK
    return share_sum / share, 0.0


def priority(rec: float, share: float, share_sum: float, rec_sum: float) -> float:
    """Return one project's priority; those without a share come after all others."""
    weight, offset = priority_terms(share, share_sum)
    return -(rec / rec_sum * weight + offset)


def picked_bump(job_peak: float, *, total_peak: float, rec_sum: float) -> float:
    """Return how much REC a project is charged in advance when one of its jobs is picked: an hour's worth."""
    return job_peak / total_peak * rec_sum * PICK_CHARGE if total_peak > 0 else 0.0


@dataclass(slots=True)
class RecMemory:
    """The accounts; stored."""

    recs: list[float] = field(default_factory=list[float])
    computed: float = 0.0  #: seconds of computing that are not credited yet
    credited_at: float = 0.0

    def credit(self, state: CoreState, devices: Devices) -> None:
        """Credit the projects for what ran; the set of running tasks has not changed since the last time."""
        now = state.now
        self.credited_at = min(self.credited_at, now)  # the clock may have been set back
        elapsed = now - self.credited_at
        if elapsed < 1.0:
            return
        computed = self.computed * state.permission.throttle
        credit = [0.0] * len(self.recs)
        for job in state.running:
            if not job.always_runs:
                peak = devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
                credit[job.project] += computed * peak * CREDIT_PER_FLOP
        half_life = state.preferences.rec_half_life
        self.recs = [
            update_rec(rec, credit=c, seconds=elapsed, half_life=half_life)
            for rec, c in zip(self.recs, credit, strict=True)
        ]
        self.computed, self.credited_at = 0.0, now
