"""Claims: the unit of credit, what credit systems work on, bounds of figures, and one amount from several claims.

The unit of credit and its three historical sizes.

The Cobblestone (after Jeff Cobb of SETI@home) has been defined three times:

* in BOINC's first documents: 1/100 of a day on a machine of 1000 double-precision MIPS Whetstone **and**
  1000 VAX MIPS Dhrystone (`REFERENCE_MACHINE`);
* in the CreditNew design: 100 per GFLOPS-day of peak floating-point speed (`DESIGNED`);
* in the deployed server and client (``lib/cobblestone`` constant, client 7.20.5): 200 per GFLOPS-day
  (`DEPLOYED`).

The first two agree for a machine whose two benchmarks are equal; the third is half as large, so that the
same work has twice as many of it.  Amounts of different units never meet without `CreditUnit.convert`.

Values that credit systems work on: statistics, facts of a result and a workunit, claims and grants.

Statistics leave a system as *increments* (samples and sums, never new values): several validators may add
theirs to the current row, in any order, without losing any.

What a report may claim: hostile, broken and impossible figures are refused or bounded, with a reason.

A client can write anything into its report.  Each figure is looked at by itself, so that one bad number loses
nothing else of the report:

* not a finite number, or negative: refused, counts as not reported (0);
* larger than anything that exists (`MAX_*`): bounded;
* longer than the time since the result was sent: bounded to that time; CPU time to that time x processors;
* received in the future, or before it was sent: bounded to now, to the time of sending.

No counterpart in BOINC, which bounds only the credit at the end (features of the deployed system: 16.5).

How the claims of several replicas become one amount.

All functions take finite, non-negative claims and return a figure between the smallest and the largest of
them; of no claims they make 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.statistics import HOST_VERSION_RULE, VERSION_RULE, AveragingRule, RunningAverage
from cobblestone.domain.values import DAY, AppVersionId, HostId, ResultId, float_sum, value

GIGAFLOPS = 1e9


@dataclass(frozen=True, slots=True)
class CreditUnit:
    """Size of the credit unit: how many of it are a day of a device of 1 GFLOPS peak speed.

    Raises `PolicyViolation` unless the size is positive and finite.
    """

    per_gflops_day: float = 200.0

    def __post_init__(self) -> None:
        """Refuse sizes that no amount can be expressed in."""
        if not (math.isfinite(self.per_gflops_day) and self.per_gflops_day > 0):
            raise PolicyViolation(
                f"credit unit: {self.per_gflops_day!r} per GFLOPS-day; give a positive number such as 200"
            )

    @property
    def per_flop(self) -> float:
        """Credit of one floating-point operation."""
        return self.per_gflops_day / (DAY * GIGAFLOPS)

    @property
    def tflops_year(self) -> float:
        """Return the credit of a year at 1 TFLOPS: BOINC's default limit of a single grant (73 000 000 at 200)."""
        return self.per_gflops_day * 1000.0 * 365.0

    def of_flops(self, flops: float) -> float:
        """Credit of a number of floating-point operations (server-semantics: units)."""
        return flops * self.per_flop

    def flops(self, credit: float) -> float:
        """Return the floating-point operations that an amount of credit corresponds to."""
        return credit / self.per_flop

    def of_reference_machine(self, cpu_seconds: float, p_fpops: float, p_iops: float) -> float:
        """Credit by both benchmarks of a CPU: the mean of Whetstone and Dhrystone speed (operations/s) x
        CPU time."""
        return self.of_flops(0.5 * (p_fpops + p_iops) * cpu_seconds)

    def convert(self, credit: float, to: CreditUnit) -> float:
        """Return the same work expressed in another unit."""
        return credit * (to.per_gflops_day / self.per_gflops_day)


#: First definition; its amounts come from `CreditUnit.of_reference_machine`.
REFERENCE_MACHINE = CreditUnit(100.0)

#: Second definition: the CreditNew design.
DESIGNED = CreditUnit(100.0)

#: Third definition: what every current server and client uses, and our default.
DEPLOYED = CreditUnit(200.0)


# ---------------------------------------------------------------------------------------------- statistics


@value(kw_only=True)
class VersionStatistics:
    """Statistics of one app version over all hosts."""

    pfc: RunningAverage = RunningAverage()  #: peak FLOP count / rsc_fpops_est
    pfc_scale: float = 0.0  #: cross-version scale; 0 = not known


@value(kw_only=True)
class AppStatistics:
    """Statistics of one app, and its two credit options."""

    min_avg_pfc: float = 1.0  #: claimed FLOPs per rsc_fpops_est of the more efficient kind; 0 = not known
    host_scale_check: bool = False  #: option: trust host scales of proven hosts only
    flops_scale: float = 1.0  #: second system: credit of counted FLOPs x this = credit of the first system
    #: second system, for what cannot count: published average; 0: of the app
    credit_per_cpu_second: float = 0.0
    counted: AppIncrement | None = None  #: second system: sums that flops_scale comes from


@value(kw_only=True)
class Statistics:
    """Statistics that the claims of one workunit may need; those of hosts come with each `ClaimInput`."""

    app: AppStatistics = AppStatistics()
    versions: Mapping[AppVersionId, VersionStatistics] = field(
        default_factory=dict[AppVersionId, VersionStatistics]
    )


@value(kw_only=True)
class HostVersionIncrement:
    """Samples for one host and app version, to be applied with ``rule``."""

    host_id: HostId
    app_version_id: AppVersionId
    pfc: tuple[float, ...] = ()
    elapsed: tuple[float, ...] = ()
    turnaround: tuple[float, ...] = ()
    on_probation: bool = False  #: design: a suspicious claim; error rate and scale probation start over
    rule: AveragingRule = HOST_VERSION_RULE


@value(kw_only=True)
class VersionIncrement:
    """Samples for one app version, to be applied with ``rule``."""

    app_version_id: AppVersionId
    pfc: tuple[float, ...] = ()
    rule: AveragingRule = VERSION_RULE


@dataclass(frozen=True, slots=True, kw_only=True)
class AppIncrement:
    """Sums over jobs that counted their operations, from which the second system keeps its scale."""

    benchmark_credit: float = 0.0  #: what the first system claims for them
    counted_credit: float = 0.0  #: what their counted operations are worth unscaled
    cpu_seconds: float = 0.0
    jobs: int = 0


@value(kw_only=True)
class StatisticIncrements:
    """The additions to the statistics from one workunit (or straggler)."""

    host_versions: tuple[HostVersionIncrement, ...] = ()
    versions: tuple[VersionIncrement, ...] = ()
    app: AppIncrement | None = None


# --------------------------------------------------------------------------------------------------- facts


class PlatformKind(StrEnum):
    """The origin of the program that computed the result."""

    NORMAL = "normal"
    ANONYMOUS = "anonymous"  #: the volunteer's own build


@value(kw_only=True)
class ClaimInput:
    """Facts of one valid result that its claim may rest on.  Seconds, Unix seconds, operations per second."""

    result_id: ResultId
    host_id: HostId
    app_version_id: AppVersionId  #: anonymous platform: the generalised id, app id * 1 000 000 + kind
    platform: PlatformKind = PlatformKind.NORMAL
    is_gpu: bool = False
    canonical: bool = False
    elapsed_time: float = 0.0
    cpu_time: float = 0.0
    sent_time: float = 0.0  #: 0 = not known
    received_time: float = 0.0  #: 0 = not known
    peak_flops: float = 0.0  #: of the devices that the job used, together
    ncpus: float = 1.0  #: processors of the host
    p_fpops: float = 0.0  #: Whetstone, per processor
    p_iops: float = 0.0  #: Dhrystone, per processor
    fpops_counted: float = 0.0  #: floating-point operations as counted by the program
    intops_counted: float = 0.0
    trickle_credit: float = 0.0  #: already granted for this result while it ran
    outlier: bool = False  #: the validator asks to keep its run time out of the statistics
    claimed_credit: float = 0.0  #: what the project's own function put there (granted after assimilation)
    host_age: float = 0.0  #: seconds since the host's first call
    owner_computers: int = 1  #: that the host's owner ever had
    host_version: HostVersionStatistics | None = HostVersionStatistics()  #: None: the record is lost


@value(kw_only=True)
class WorkunitFacts:
    """Facts of the job."""

    rsc_fpops_est: float
    rsc_fpops_bound: float
    fixed_credit: float = 0.0  #: stored when the job was made, in the project's unit


@value(kw_only=True)
class CreditContext:
    """The context shared by all claims of a workunit."""

    statistics: Statistics = Statistics()
    unit: CreditUnit = DEPLOYED
    max_granted: float = 73_000_000.0
    now: float = 0.0


# ------------------------------------------------------------------------------------------ claims, grants


class ClaimMode(StrEnum):
    """How reliable a claim is."""

    NORMAL = "normal"
    APPROXIMATE = "approximate"  #: a scale is missing, or the host is not proven
    ESTIMATE = "estimate"  #: nothing is known but the job's own estimate
    REFUSED = "refused"  #: cannot be; the claim does not count


@value(kw_only=True)
class Claim:
    """The claim of one result."""

    amount: float  #: credit in the project's unit
    mode: ClaimMode = ClaimMode.NORMAL
    reasons: tuple[Reason, ...] = ()
    outlier: bool = False  #: keep it out of statistics
    on_probation: bool = False  #: design: suspicious; the host has to prove itself again


@value(kw_only=True)
class Grant:
    """The grants of a workunit's results, in the order of their claims."""

    credits: tuple[float, ...]
    reasons: tuple[Reason, ...] = ()


MAX_SPEED = 1e12  #: operations/s of one processor by benchmark
MAX_PEAK_FLOPS = 1e17  #: of all devices of a job
MAX_PROCESSORS = 1e5
MAX_SECONDS = 1e10  #: three centuries
MAX_OPERATIONS = 1e27  #: `MAX_PEAK_FLOPS` for three centuries
MAX_CREDIT = 1e15
MAX_TIME = 1e12  #: Unix seconds
DEFAULT_ESTIMATE = 1e12  #: rsc_fpops_est of a job that has none (server-semantics: duration)

CLOCK_TOLERANCE = 60.0  #: seconds by which a time stamp may be ahead of now

_LIMITS = {
    "elapsed_time": MAX_SECONDS,
    "cpu_time": MAX_SECONDS,
    "sent_time": MAX_TIME,
    "received_time": MAX_TIME,
    "peak_flops": MAX_PEAK_FLOPS,
    "ncpus": MAX_PROCESSORS,
    "p_fpops": MAX_SPEED,
    "p_iops": MAX_SPEED,
    "fpops_counted": MAX_OPERATIONS,
    "intops_counted": MAX_OPERATIONS,
    "trickle_credit": MAX_CREDIT,
    "claimed_credit": MAX_CREDIT,
    "host_age": MAX_TIME,
}


def bounded_number(name: str, value: float, limit: float) -> tuple[float, Reason | None]:
    """One reported figure within 0 … ``limit``, and the reason when that changed it.

    Figures that JSON cannot carry appear in the reason as text.
    """
    if 0.0 <= value <= limit:
        return value, None
    if not math.isfinite(value):
        return 0.0, reason(
            "number_refused",
            "{name} is {value}, which is not a number: not counted.",
            name=name,
            value=str(value),
        )
    if value < 0.0:
        return 0.0, reason(
            "number_refused", "{name} is negative ({value}): not counted.", name=name, value=value
        )
    return limit, reason(
        "number_bounded",
        "{name} {value} is impossible; counted as {limit}.",
        name=name,
        value=value,
        limit=limit,
    )


def bounded_input(facts: ClaimInput, *, now: float) -> tuple[ClaimInput, tuple[Reason, ...]]:
    """Return the facts of a result as far as they can be true at ``now`` (Unix seconds), and what was wrong."""
    changes: dict[str, float] = {}
    reasons: list[Reason] = []
    for name, limit in _LIMITS.items():
        value = getattr(facts, name)
        if 0.0 <= value <= limit:
            continue
        value, why = bounded_number(name, value, limit)
        if why is not None:
            changes[name] = value
            reasons.append(why)
    if changes.get("ncpus", facts.ncpus) < 1.0:
        changes["ncpus"] = 1.0
    _bound_times(facts, changes, reasons, now)
    return (replace(facts, **changes) if changes else facts), tuple(reasons)


def _bound_times(facts: ClaimInput, changes: dict[str, float], reasons: list[Reason], now: float) -> None:
    """Bound the times of a report by each other; ``changes`` holds what is bounded already."""
    sent = changes.get("sent_time", facts.sent_time)
    received = changes.get("received_time", facts.received_time)
    if received > now + CLOCK_TOLERANCE:
        received = changes["received_time"] = now
        reasons.append(
            reason(
                "time_bounded", "Received in the future ({value}); counted as now.", value=facts.received_time
            )
        )
    if not (sent and received):
        return
    if sent > received:
        sent = changes["sent_time"] = received
        reasons.append(reason("time_bounded", "Sent ({value}) after it was received.", value=facts.sent_time))
    window = received - sent
    elapsed = changes.get("elapsed_time", facts.elapsed_time)
    if elapsed > window:
        changes["elapsed_time"] = window
        reasons.append(
            reason(
                "elapsed_time_bounded",
                "Reported {value} s of run time, but only {limit} s passed since the task was sent.",
                value=elapsed,
                limit=window,
            )
        )
    cpu_time = changes.get("cpu_time", facts.cpu_time)
    available = window * changes.get("ncpus", facts.ncpus)
    if cpu_time > available:
        changes["cpu_time"] = available
        reasons.append(
            reason(
                "cpu_time_bounded",
                "Reported {value} s of CPU time; the host's processors had {limit} s since the task "
                "was sent.",
                value=cpu_time,
                limit=available,
            )
        )


def bounded_workunit(workunit: WorkunitFacts) -> tuple[WorkunitFacts, tuple[Reason, ...]]:
    """Return a job's estimates, made usable: an estimate is positive, a missing limit does not limit."""
    changes: dict[str, float] = {}
    reasons: list[Reason] = []
    if not 0.0 < workunit.rsc_fpops_est <= MAX_OPERATIONS:
        changes["rsc_fpops_est"] = DEFAULT_ESTIMATE
        reasons.append(_workunit_reason("rsc_fpops_est", workunit.rsc_fpops_est, DEFAULT_ESTIMATE))
    if not 0.0 < workunit.rsc_fpops_bound <= MAX_OPERATIONS:
        changes["rsc_fpops_bound"] = MAX_OPERATIONS
        reasons.append(_workunit_reason("rsc_fpops_bound", workunit.rsc_fpops_bound, MAX_OPERATIONS))
    credit, why = bounded_number("fixed_credit", workunit.fixed_credit, MAX_CREDIT)
    if why is not None:
        changes["fixed_credit"] = credit
        reasons.append(why)
    return (replace(workunit, **changes) if changes else workunit), tuple(reasons)


def _workunit_reason(name: str, value: float, used: float) -> Reason:
    shown = value if math.isfinite(value) else str(value)
    return reason(
        "workunit_number_replaced",
        "The job's {name} {value} is unusable; counted as {used}.",
        name=name,
        value=shown,
        used=used,
    )


Combination = Callable[[Sequence[float]], float]

#: Claims below this are not counted when extremes are dropped (``CREDIT_EPSILON`` of the first
#: validators).
INFINITESIMAL = 0.001

PEG_WIDTH = 0.1

#: Claims for one job that differ by more than this factor do not enter a mean together.
FAR_APART = 10.0


def mean(claims: Sequence[float]) -> float:
    """Return the plain average."""
    return float_sum(claims) / len(claims) if claims else 0.0


def guarded_mean(claims: Sequence[float]) -> float:
    """Return the plain average; where one claim is more than `FAR_APART` times another, the smaller of two, the median of more.

    Of an even number the lower of the two in the middle.  So no one gains by a claim that its partners do not bear out.
    """
    if len(claims) > 1 and max(claims) > FAR_APART * min(claims):
        return sorted(claims)[(len(claims) - 1) // 2]
    return mean(claims)


def minimum(claims: Sequence[float]) -> float:
    """Return the smallest claim: claiming too much gains nothing."""
    return min(claims, default=0.0)


def without_extremes(claims: Sequence[float]) -> float:
    """Return the mean without the lowest and the highest; of two the lower, of one itself.

    Source: BOINC's first validators (``sched/validate_util``, median-mean credit).
    """
    counted = sorted(claim for claim in claims if claim >= INFINITESIMAL)
    if len(counted) <= 2:
        return counted[0] if counted else 0.0
    return mean(counted[1:-1])


LEAST_DISTANCE = 1e-300


def low_average(claims: Sequence[float]) -> float:
    """Return the mean in which each claim weighs as much as the sum of the others: high ones count less.

    Sum of x (S - x) over (n - 1) S with S the sum; source: ``sched/credit.cpp``, credit from run time.
    """
    if len(claims) <= 1:
        return mean(claims)
    total = float_sum(claims)
    if total <= 0.0:
        return 0.0
    # divided first: squares of large claims would overflow
    return float_sum(claim * ((total - claim) / total) for claim in claims) / (len(claims) - 1)


def pegged_average(claims: Sequence[float], peg: float) -> float:
    """Return the mean in which a claim weighs less the farther it is from ``peg``, the a-priori figure.

    Weights 1 / (0.1 peg + |peg - x|); a single claim is itself.  Source: ``sched/credit.cpp``.
    """
    if len(claims) <= 1:
        return mean(claims)
    weights = total = 0.0
    for claim in claims:
        distance = PEG_WIDTH * peg + abs(peg - claim)
        if distance < LEAST_DISTANCE:  # peg 0, claim 0, or as good as that: its weight would be infinite
            return claim
        weight = 1.0 / distance
        weights += weight
        total += weight * claim
    return total / weights


#: The ways of the first and second system, by the name that follows the colon in a system's name.
COMBINATIONS: dict[str, Combination] = {
    "mean": guarded_mean,
    "minimum": minimum,
    "drop-extremes": without_extremes,
}
