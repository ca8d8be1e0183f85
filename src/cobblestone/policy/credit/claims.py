"""Values that credit systems work on: statistics, facts of a result and a workunit, claims and grants.

Statistics leave a system as *increments* (samples and sums, never new values): several validators may add
theirs to the current row, in any order, without losing any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cobblestone.domain.ids import AppVersionId, HostId, ResultId
from cobblestone.domain.reasons import Reason
from cobblestone.domain.statistics import HOST_VERSION_RULE, VERSION_RULE, AveragingRule, RunningAverage
from cobblestone.domain.values import value
from cobblestone.policy.credit.cobblestone import DEPLOYED, CreditUnit

# ---------------------------------------------------------------------------------------------- statistics


@value(kw_only=True)
class HostVersionStatistics:
    """What is known of one app version on one host (anonymous platform: of one kind of processor)."""

    pfc: RunningAverage = RunningAverage()  #: peak FLOP count / rsc_fpops_est
    elapsed: RunningAverage = RunningAverage()  #: elapsed seconds / rsc_fpops_est
    turnaround: RunningAverage = RunningAverage()  #: seconds from sending to receipt
    consecutive_valid: int = 0
    error_rate: float = 0.1  #: the design's estimate; consecutive_valid replaced it in the deployed system
    scale_probation: bool = True  #: design: the host scale is not trusted yet
    host_scale_time: float = 0.0  #: design: no host scale before this time (Unix seconds)


@value(kw_only=True)
class VersionStatistics:
    """What is known of one app version over all hosts."""

    pfc: RunningAverage = RunningAverage()  #: peak FLOP count / rsc_fpops_est
    pfc_scale: float = 0.0  #: cross-version scale; 0 = not known


@value(kw_only=True)
class AppStatistics:
    """What is known of one app, and its two credit options."""

    min_avg_pfc: float = 1.0  #: claimed FLOPs per rsc_fpops_est of the more efficient kind; 0 = not known
    host_scale_check: bool = False  #: option: trust host scales of proven hosts only
    flops_scale: float = 1.0  #: second system: credit of counted FLOPs x this = credit of the first system
    credit_per_cpu_second: float = (
        0.0  #: second system, for what cannot count: published average; 0: of the app
    )
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
    on_probation: bool = False  #: design: a suspicious claim; error rate and scale probation start anew
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
    """What the statistics take from one workunit (or straggler)."""

    host_versions: tuple[HostVersionIncrement, ...] = ()
    versions: tuple[VersionIncrement, ...] = ()
    app: AppIncrement | None = None


# --------------------------------------------------------------------------------------------------- facts


class PlatformKind(StrEnum):
    """Whose program computed the result."""

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
    """What all claims of a workunit share."""

    statistics: Statistics = Statistics()
    unit: CreditUnit = DEPLOYED
    max_granted: float = 73_000_000.0
    now: float = 0.0


# ------------------------------------------------------------------------------------------ claims, grants


class ClaimMode(StrEnum):
    """How well founded a claim is."""

    NORMAL = "normal"
    APPROXIMATE = "approximate"  #: a scale is missing, or the host is not proven
    ESTIMATE = "estimate"  #: nothing is known but the job's own estimate
    REFUSED = "refused"  #: cannot be; the claim does not count


@value(kw_only=True)
class Claim:
    """What one result claims."""

    amount: float  #: credit in the project's unit
    mode: ClaimMode = ClaimMode.NORMAL
    reasons: tuple[Reason, ...] = ()
    outlier: bool = False  #: keep it out of statistics
    on_probation: bool = False  #: design: suspicious; the host has to prove itself again


@value(kw_only=True)
class Grant:
    """What the results of a workunit get, in the order of their claims."""

    credits: tuple[float, ...]
    reasons: tuple[Reason, ...] = ()
