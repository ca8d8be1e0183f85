"""Projected speed of a version on a host, and how long a job takes there.

Projected FLOPS is the number such that elapsed time = ``rsc_fpops_est`` / projected FLOPS. The client is told
this number: it estimates run times with it, and aborts a job after ``rsc_fpops_bound`` / projected FLOPS
seconds. A speed that is too high therefore kills good jobs, one that is too low only makes estimates long;
hence the low guess where nothing was measured.

Source of the levels: BOINC's ``sched_version.cpp`` and ``sched_send.cpp`` (facts). Differences: every speed
is kept within the bounds below, since benchmarks and GPU descriptions come from strangers.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.hosts import HostAppVersion, HostDescription

UNKNOWN_CPU_FLOPS = 1e9
MIN_FLOPS = 1e6
MAX_CPU_FLOPS = 1e12  #: of one CPU
MAX_GPU_FLOPS = 1e16  #: of one GPU
GPU_PER_CPU = 10.0  #: guessed speed of a GPU, in CPUs

HOST_SAMPLES = 3  #: from so many jobs on the host's own mean is used alone; the first ones count in part
VERSION_SAMPLES = 100  #: more samples than this: the mean over the version's hosts is used
MEASURED_CAP = 250.0  #: a measured speed counts for at most this many times the plan class's estimate
UNKNOWN_FPOPS_EST = 1e12

MIN_AVAILABILITY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPopulation:
    """Percentiles of CPU speed over active hosts, in FLOPS of one CPU; defaults for an unknown population."""

    median: float = 3.3e9
    percentile_95: float = 3.3e9


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakFlopCount:
    """Running mean of (peak FLOP count / ``rsc_fpops_est``) over all hosts of one app version."""

    n: int = 0
    avg: float = 0.0


def cpu_speed(description: HostDescription) -> float:
    """FLOPS of one CPU by its benchmark; a guess when the host has none, and always within bounds."""
    if description.p_fpops <= 0:
        return UNKNOWN_CPU_FLOPS
    return min(max(description.p_fpops, MIN_FLOPS), MAX_CPU_FLOPS)


def capped_cpu_speed(description: HostDescription, population: SpeedPopulation) -> float:
    """FLOPS of one CPU as plan classes count it: at most 1.1 times the 95th percentile."""
    if description.p_fpops <= 0:
        return population.median
    return min(cpu_speed(description), 1.1 * population.percentile_95)


def availability(description: HostDescription, *, gpu: bool = False) -> float:
    """Fraction of time in which the host computes, 0.1 to 1."""
    active = description.gpu_active_frac if gpu else description.active_frac
    return min(max(active * description.on_frac, MIN_AVAILABILITY), 1.0)


def projected_flops(
    *,
    cpu_flops: float,
    avg_ncpus: float,
    ngpus: float,
    estimate: float,
    peak_flops: float,
    record: HostAppVersion | None = None,
    version_mean: PeakFlopCount | None = None,
) -> float:
    """Speed of one job in FLOPS, by the best knowledge there is.

    1. More than 100 jobs of this version on any host: ``peak_flops`` / mean peak FLOP count.
    2. Otherwise ``cpu_flops`` * (CPUs + 10 * GPUs), deliberately low.
    3. Measured jobs of this version on this host correct that, see `corrected_flops`.
    """
    if version_mean is not None and version_mean.n > VERSION_SAMPLES and version_mean.avg > 0:
        flops = min(peak_flops / version_mean.avg, MEASURED_CAP * estimate)
    else:
        flops = cpu_flops * (avg_ncpus + GPU_PER_CPU * ngpus)
    return corrected_flops(flops, record, most=MEASURED_CAP * estimate)


def corrected_flops(guess: float, record: HostAppVersion | None, *, most: float) -> float:
    """Speed of a version on a host: ``guess``, corrected by what it measured there, which counts up to ``most``.

    With n jobs in the mean it is guess^(1 - n / 3) x mean^(n / 3), from the third on the mean alone.  The speed a client
    states is often wrong by a factor (a benchmark that never ran is exactly 1e9), a job by a fraction: so the first jobs say
    more than it does.  The family waits for ten.
    """
    flops = guess
    if record is not None and record.et_n > 0 and record.et_avg > 0:
        # et_avg may be so small that its reciprocal overflows to infinity: min() brings it back.
        measured = min(1.0 / max(record.et_avg, 1e-300), most)
        weight = min(1.0, record.et_n / HOST_SAMPLES)
        flops = max(guess, MIN_FLOPS) ** (1.0 - weight) * measured**weight
    return max(flops, MIN_FLOPS)


def job_seconds(rsc_fpops_est: float, flops: float, available: float) -> float:
    """Return the expected elapsed seconds of a job: computing at ``flops`` in the fraction ``available`` of the time."""
    return (rsc_fpops_est if rsc_fpops_est > 0 else UNKNOWN_FPOPS_EST) / flops / available
