"""The project's offer and its order, the expected speed of a host, and the answer of the dispatch rule.

Projected speed of a version on a host, and how long a job takes there.

Projected FLOPS is the number such that elapsed time = ``rsc_fpops_est`` / projected FLOPS. The client is told
this number: it estimates run times with it, and aborts a job after ``rsc_fpops_bound`` / projected FLOPS
seconds. A speed that is too high therefore kills good jobs, one that is too low only makes estimates long;
hence the low guess where nothing was measured.  A GPU's is a fraction of its peak speed, and its jobs may all the same
take as long as on ten CPUs.

Source of the levels: BOINC's ``sched_version.cpp`` and ``sched_send.cpp`` (facts). Differences: every speed
is kept within the bounds below, since benchmarks and GPU descriptions come from strangers.

Fairness between submitters and between their batches: the place of each job in the queue.

Among results of one priority the one with the smallest *turn* is sent first.  A batch's jobs get turns at equal distances,
from the turn that is being served when they are submitted; the distance is the size of a job divided by the batch's
weight.  So two batches of equal weight that wait at the same time are served alternately, in proportion to their
operations, however large each is and whichever came first; no one who comes late is preferred over the backlog, and
whoever was idle has no claim on what was computed meanwhile.

The weight of a batch is the share of its submitter divided by the number of batches that he has running when it begins,
itself included.  With k batches a submitter therefore gets at most 1 + ln k times his share, not k times.

Source: start-time fair queueing (Goyal, Vin, Cheng 1996).  Difference from BOINC's ``allocation_priority``, which
remembers for ever what each user computed and orders whole batches: here past use is not held against anybody.

The last jobs of a batch, which clients report as soon as they are done.

A client reports finished jobs with its next request for work, or after an hour (BOINC's ``cs_scheduler.cpp``, facts), and one
that lately got no work asks seldom.  So a batch may end an hour later than its last job.  A job with ``report_immediately``
costs a request of its own; to ask for that where a batch ends brings its answer forward for few requests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.apps import App, AppVersion, PlanClass
from cobblestone.domain.hosts import CPU, HostAppVersion, HostDescription
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import (
    AppId,
    AppVersionId,
    BatchId,
    HostId,
    ResultId,
    TeamId,
    UserId,
    WorkunitId,
    value,
)
from cobblestone.domain.work import InputFile, JobLimits, OutputSpec

UNKNOWN_CPU_FLOPS = 1e9
MIN_FLOPS = 1e6
MAX_CPU_FLOPS = 1e12  #: of one CPU
MAX_GPU_FLOPS = 1e16  #: of one GPU
GPU_PER_CPU = 10.0  #: guessed speed of a GPU, in CPUs

#: Of a GPU's peak speed, that an app reaches as long as nothing is known of its plan class.
GPU_FRACTION = 0.05

HOST_SAMPLES = 3  #: from so many jobs on the host's own mean is used alone; the first ones count in part
GPU_SAMPLES = 2  #: the same for GPUs
VERSION_SAMPLES = 100  #: more samples than this: the mean over the version's hosts is used
MEASURED_CAP = 250.0  #: a measured speed counts for at most this many times the plan class's estimate
UNKNOWN_FPOPS_EST = 1e12

MIN_AVAILABILITY = 0.1

GpuFractions = Mapping[tuple[AppId | None, str], float]


#: From so many people on a project knows how fast computers are; one in twenty who lies does not change that.
MANY_PEOPLE = 20

USUAL_SPEED = 3.3e9
YOUNG_SPEED = 1e10  #: before that: about what the fastest processors reach
#: honest benchmarks spread less, and the median needs half of the people to be moved
FASTEST_PER_MEDIAN = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPopulation:
    """Percentiles of CPU speed in FLOPS of one CPU, over people whose computers returned valid work lately."""

    median: float = USUAL_SPEED
    percentile_95: float = YOUNG_SPEED
    people: int = 0

    @classmethod
    def of(cls, speeds: Sequence[float]) -> SpeedPopulation:
        """Return the population of people whose fastest proven computers have these benchmarks.

        So neither records of computers that returned nothing nor many computers of one person count.  The percentile is at
        least `USUAL_SPEED`, for fast computers among slow ones, and at most `FASTEST_PER_MEDIAN` times the median.
        """
        ordered = sorted(speed for speed in speeds if speed > 0.0)
        if len(ordered) < MANY_PEOPLE:
            return cls(people=len(speeds))
        median = ordered[len(ordered) // 2]
        percentile = ordered[math.ceil(0.95 * len(ordered)) - 1]
        highest = max(USUAL_SPEED, min(percentile, FASTEST_PER_MEDIAN * median))
        return cls(median=median, percentile_95=highest, people=len(speeds))


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


def believed_speed(description: HostDescription, population: SpeedPopulation) -> float:
    """FLOPS of one CPU by its benchmark, as far as it is believed: at most 1.1 times the 95th percentile."""
    return min(cpu_speed(description), 1.1 * population.percentile_95)


def capped_cpu_speed(description: HostDescription, population: SpeedPopulation) -> float:
    """FLOPS of one CPU as plan classes count it; the median without a benchmark."""
    return believed_speed(description, population) if description.p_fpops > 0 else population.median


def availability(description: HostDescription, *, gpu: bool = False) -> float:
    """Fraction of time in which the host computes, 0.1 to 1."""
    active = description.gpu_active_frac if gpu else description.active_frac
    return min(max(active * description.on_frac, MIN_AVAILABILITY), 1.0)


def projected_flops(
    usage: ResourceUsage,
    *,
    cpu_flops: float,
    record: HostAppVersion | None = None,
    version_mean: PeakFlopCount | None = None,
    gpu_fraction: float = GPU_FRACTION,
) -> float:
    """Speed of one job in FLOPS, by the best knowledge there is; that of ``usage`` is the plan class's estimate.

    1. More than 100 jobs of this version on any host: peak speed / mean peak FLOP count.
    2. Otherwise ``gpu_fraction`` of the peak speed on a GPU, and ``cpu_flops`` * CPUs without one.
    3. Measured jobs of this version on this host correct that, see `corrected_flops`.
    """
    most = MEASURED_CAP * usage.flops
    if version_mean is not None and version_mean.n > VERSION_SAMPLES and version_mean.avg > 0:
        flops = min(usage.peak_flops / version_mean.avg, most)
    else:
        flops = gpu_fraction * usage.peak_flops if usage.ngpus > 0 else cpu_flops * usage.avg_ncpus
    return corrected_flops(flops, record, most=most, samples=GPU_SAMPLES if usage.ngpus > 0 else HOST_SAMPLES)


def gpu_fractions(
    versions: Iterable[AppVersion],
    counts: Mapping[AppVersionId, PeakFlopCount],
    classes: Mapping[str, PlanClass],
) -> GpuFractions:
    """Return the measured fraction of peak speed, 0 to 1, by app and plan class, and of all apps by None and plan class.

    Each version counts with its jobs, up to `VERSION_SAMPLES`; without any, the app or class is left out.
    """
    jobs: Counter[tuple[AppId | None, str]] = Counter()
    sums: dict[tuple[AppId | None, str], float] = {}
    for version in versions:
        known, used = counts.get(version.id), classes.get(version.plan_class)
        if known is None or known.n < 1 or known.avg <= 0 or used is None or not used.gpu_type:
            continue
        n = min(known.n, VERSION_SAMPLES)
        for key in ((version.app_id, version.plan_class), (None, version.plan_class)):
            jobs[key] += n
            sums[key] = sums.get(key, 0.0) + n * known.avg
    return {key: min(1.0, n / sums[key]) for key, n in jobs.items()}


def corrected_flops(
    guess: float, record: HostAppVersion | None, *, most: float, samples: int = HOST_SAMPLES
) -> float:
    """Speed of a version on a host: ``guess``, corrected by what it measured there, which counts up to ``most``.

    With n of three jobs (``samples``) in the mean it is guess^(1 - n / 3) x mean^(n / 3), from the third on the mean alone.
    The speed a client states is often wrong by a factor (a benchmark that never ran is exactly 1e9), a job by a fraction: so
    the first jobs say more than it does.  The family waits for ten.
    """
    flops = guess
    if record is not None and (known := record.statistics.elapsed).n > 0 and known.mean > 0:
        # the mean may be so small that its reciprocal overflows to infinity: min() brings it back.
        measured = min(1.0 / max(known.mean, 1e-300), most)
        weight = min(1.0, known.n / samples)
        flops = max(guess, MIN_FLOPS) ** (1.0 - weight) * measured**weight
    return max(flops, MIN_FLOPS)


def job_seconds(rsc_fpops_est: float, flops: float, available: float) -> float:
    """Return the expected elapsed seconds of a job: computing at ``flops`` in the fraction ``available`` of the time."""
    return (rsc_fpops_est if rsc_fpops_est > 0 else UNKNOWN_FPOPS_EST) / flops / available


@value(kw_only=True)
class Candidate:
    """One unsent result with what is needed of its workunit to judge it and to describe it in a reply."""

    result_id: ResultId
    result_name: str
    workunit_id: WorkunitId
    workunit_name: str
    app_id: AppId
    limits: JobLimits = JobLimits()
    priority: int = 0
    batch_id: BatchId | None = None
    hr_class: int = 0  #: class that the workunit is committed to; 0 = none
    app_version_id: AppVersionId | None = None  #: version that the workunit is committed to
    target_host_id: HostId | None = None  #: only for this host …
    target_user_id: UserId | None = None  #: … or this user
    target_team_id: TeamId | None = None  #: … or this team
    size_class: int = -1
    retry: bool = False  #: an earlier result of the workunit was lost
    create_time: float = 0.0  #: Unix seconds
    turn: float = 0.0  #: see `cobblestone.policy.dispatch.catalogue`
    replicated: bool = True  #: more than one result is wanted: adaptive replication has nothing to decide
    command_line: str = ""
    input_files: tuple[InputFile, ...] = ()
    output_specs: tuple[OutputSpec, ...] = ()

    @property
    def targeted(self) -> bool:
        """Return whether it is for one host, user or team alone."""
        return (
            self.target_host_id is not None
            or self.target_user_id is not None
            or self.target_team_id is not None
        )


@value(kw_only=True)
class Catalogue:
    """Apps, their versions and plan classes; built once and used until something of it changes."""

    apps: Mapping[AppId, App]
    versions: Mapping[AppId, tuple[AppVersion, ...]]
    #: Versions that are not sent any more, while computers may still have jobs of theirs.
    retired: Sequence[AppVersion] = ()
    plan_classes: Mapping[str, PlanClass] = field(default_factory=dict[str, PlanClass])
    population: SpeedPopulation = SpeedPopulation()
    peak_flop_counts: Mapping[AppVersionId, PeakFlopCount] = field(
        default_factory=dict[AppVersionId, PeakFlopCount]
    )
    #: See the function of this name.
    gpu_fractions: GpuFractions = field(default_factory=dict[tuple[AppId | None, str], float])
    always_apps: frozenset[AppId] = field(init=False)  #: apps of which every host should have one job
    scored: bool = field(init=False)  #: some app's jobs suit some hosts better than others
    version_of: Mapping[AppVersionId, AppVersion] = field(init=False)  #: by id, also those
    platforms: frozenset[str] = field(init=False)  #: of versions of apps in use

    def gpu_fraction(self, version: AppVersion) -> float:
        """Return the fraction of a GPU's peak speed that a version of this app and plan class is expected to reach."""
        of_class = self.gpu_fractions.get((None, version.plan_class), GPU_FRACTION)
        return self.gpu_fractions.get((version.app_id, version.plan_class), of_class)

    def plan_class_of(self, version_id: AppVersionId | None) -> PlanClass | None:
        """Return the plan class of a version; None: it has none that is known."""
        version = None if version_id is None else self.version_of.get(version_id)
        return None if version is None else self.plan_classes.get(version.plan_class)

    def __post_init__(self) -> None:
        used = [app for app in self.apps.values() if not app.deprecated]
        always = frozenset(app.id for app in used if app.dispatch.non_cpu_intensive)
        object.__setattr__(self, "always_apps", always)
        object.__setattr__(self, "scored", any(app.dispatch.scored for app in used))
        by_id = {each.id: each for of_app in (self.retired, *self.versions.values()) for each in of_app}
        object.__setattr__(self, "version_of", by_id)
        platforms = frozenset(each.platform for app in used for each in self.versions.get(app.id, ()))
        object.__setattr__(self, "platforms", platforms)


@value(kw_only=True)
class ResourceUsage:
    """The resources of a version on a host, and its expected speed there."""

    avg_ncpus: float = 1.0
    gpu_type: str = ""  #: empty = CPU only
    ngpus: float = 0.0
    command_line: str = ""  #: of the version and its plan class together; the job's own comes first
    flops: float = 1e9  #: projected FLOPS; the client divides ``rsc_fpops_est`` and ``rsc_fpops_bound`` by it
    peak_flops: float = 1e9  #: of the devices used; the basis of credit
    client_flops: float = 0.0  #: anonymous platform: speed by which the client estimates; 0 = as it is told
    patient_flops: float = 0.0  #: lower speed at which a job must not be aborted either; 0 = none

    @property
    def operations_factor(self) -> float:
        """By which the job's operations are multiplied so that the client's estimate comes out right."""
        return self.client_flops / self.flops if self.client_flops > 0 else 1.0

    @property
    def bound_factor(self) -> float:
        """By which the job's bound is multiplied, so that a speed that was guessed too high aborts no good job."""
        return self.operations_factor * (
            max(1.0, self.flops / self.patient_flops) if self.patient_flops > 0 else 1.0
        )

    @property
    def resource(self) -> str:
        """Name of the processor type whose request this usage fills."""
        return self.gpu_type or CPU


@value(kw_only=True)
class Assignment:
    """One result for the requesting host."""

    candidate: Candidate
    version: AppVersion
    platform: str  #: a platform that the client named; never the pseudo platform
    usage: ResourceUsage
    report_deadline: float  #: Unix seconds, as the client is told (no grace period)
    estimated_seconds: float  #: expected elapsed time, availability of the host included
    hr_class: int = 0  #: class that the workunit becomes committed to; 0 = none
    commit_version: bool = False  #: the workunit becomes committed to the version
    quorum: int = 0  #: adaptive replication: so many results must agree; 0 = as it is


@value(kw_only=True)
class DispatchDecision:
    """The results to send, and why not more."""

    assignments: tuple[Assignment, ...] = ()
    refusals: tuple[Reason, ...] = ()  #: most important first; never empty when nothing is sent
    request_delay: float = 0.0  #: seconds that the client shall wait; 0 = it decides itself
    records: tuple[HostAppVersion, ...] = ()  #: records whose quota counters changed; to be stored


OPERATIONS_PER_TURN = 1e9  #: a turn is one second at a GFLOPS
_LARGEST_STEP = 1e12


def batch_weight(share: float, running_batches: int) -> float:
    """Weight of a new batch of a submitter with this share who has ``running_batches`` others unfinished."""
    return max(share, 1e-6) / (1 + max(running_batches, 0))


def turns(operations: Sequence[float], *, weight: float, served: float, last: float) -> list[float]:
    """Return turns of jobs that are added to a batch.

    ``operations`` are those of each job with all its results; ``served`` is the turn that was sent last, ``last`` that of
    the batch's last job so far.
    """
    turn = max(served, last)
    found: list[float] = []
    for each in operations:
        turn += min(max(each, 0.0) / OPERATIONS_PER_TURN / weight, _LARGEST_STEP)
        found.append(turn)
    return found


@value(kw_only=True)
class BatchProgress:
    """The progress of a batch."""

    unfinished: int  #: jobs without an answer
    last_turn: float  #: of its last job
    fair_weight: float = 1.0


def reported_at_once(
    candidates: Sequence[Candidate], batches: Mapping[BatchId, BatchProgress], *, ncpus: float, served: float
) -> frozenset[ResultId]:
    """Those of a reply's results that the client shall report as soon as they are done.

    They are of batches in their last round: no more jobs wait than are on computers, so those that wait begin before most of
    the others are back.  Of each batch they are the last ones in the reply, as many as the host computes at a time
    (``ncpus``), since earlier ones are reported along with them.  ``served`` is the turn that was sent last.
    """
    found: set[ResultId] = set()
    left: dict[BatchId, int] = {}
    for candidate in reversed(candidates):
        batch = None if candidate.batch_id is None else batches.get(candidate.batch_id)
        if batch is None or candidate.batch_id is None:
            continue
        room = left.setdefault(candidate.batch_id, max(int(ncpus), 1))
        if room and jobs_waiting(candidate, batch, served=served) <= batch.unfinished / 2:
            left[candidate.batch_id] = room - 1
            found.add(candidate.result_id)
    return frozenset(found)


def jobs_waiting(candidate: Candidate, batch: BatchProgress, *, served: float) -> float:
    """About how many jobs of its batch wait behind a result that was just sent, were they all of its size.

    Jobs are sent in the order of their turns.  A retry has the turn of a job that was sent long ago; what counts then is the
    turn that was sent last.
    """
    place = max(candidate.turn, served) if candidate.retry else candidate.turn
    operations = candidate.limits.rsc_fpops_est * (2 if candidate.replicated else 1)
    (step,) = turns([operations], weight=batch.fair_weight, served=0.0, last=0.0)
    return max(batch.last_turn - place, 0.0) / step if step > 0 else 0.0
