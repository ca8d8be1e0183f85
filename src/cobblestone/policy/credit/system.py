"""The interface of a credit system, and the one function that a validator calls.

A system answers three questions about a workunit with valid results, each by a pure method:

1. `CreditSystem.claim`: what does one result claim?
2. `CreditSystem.grant`: what does each result get, given all claims?
3. `CreditSystem.learn`: which samples do the statistics take from it?

Statistics leave as *increments* (samples and sums, never new values): several validators may add theirs to the current row,
in any order, without losing any.  `grant_workunit` asks the questions in order, bounds hostile numbers before and
amounts after, and keeps every reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from cobblestone.domain.ids import AppVersionId, HostId, ResultId
from cobblestone.domain.reasons import Reason
from cobblestone.domain.statistics import RunningAverage
from cobblestone.policy.credit.cobblestone import DEPLOYED, CreditUnit

# ---------------------------------------------------------------------------------------------- statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVersionStatistics:
    """What is known of one app version on one host (anonymous platform: of one kind of processor of the app)."""

    pfc: RunningAverage = RunningAverage()  #: peak FLOP count / rsc_fpops_est
    elapsed: RunningAverage = RunningAverage()  #: elapsed seconds / rsc_fpops_est
    turnaround: RunningAverage = RunningAverage()  #: seconds from sending to receipt
    consecutive_valid: int = 0
    error_rate: float = 0.1  #: the design's estimate; consecutive_valid replaced it in the deployed system
    scale_probation: bool = True  #: design: the host scale is not trusted yet
    host_scale_time: float = 0.0  #: design: no host scale before this time (Unix seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStatistics:
    """What is known of one app version over all hosts."""

    pfc: RunningAverage = RunningAverage()  #: peak FLOP count / rsc_fpops_est
    pfc_scale: float = 0.0  #: cross-version scale; 0 = not known


@dataclass(frozen=True, slots=True, kw_only=True)
class AppStatistics:
    """What is known of one app."""

    min_avg_pfc: float = (
        1.0  #: claimed FLOPs per rsc_fpops_est of the most efficient kind of version; 0 = not known
    )
    host_scale_check: bool = False  #: trust host scales only of proven hosts (per app, default off)
    flops_scale: float = 1.0  #: second system: credit of counted FLOPs x this = credit of the first system
    credit_per_cpu_second: float = 0.0  #: second system, for what cannot count: published average


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics that the claims of one workunit may need; those of hosts come with each `ClaimInput`."""

    app: AppStatistics = AppStatistics()
    versions: Mapping[AppVersionId, VersionStatistics] = field(
        default_factory=dict[AppVersionId, VersionStatistics]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVersionIncrement:
    """Samples for one host and app version; apply with `RunningAverage.with_samples` and ``HOST_VERSION_RULE``."""

    host_id: HostId
    app_version_id: AppVersionId
    pfc: tuple[float, ...] = ()
    elapsed: tuple[float, ...] = ()
    turnaround: tuple[float, ...] = ()
    on_probation: bool = False  #: design: a suspicious claim; error rate and scale probation start anew


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionIncrement:
    """Samples and credit for one app version; apply samples with ``VERSION_RULE``."""

    app_version_id: AppVersionId
    pfc: tuple[float, ...] = ()
    credit: float = 0.0  #: for the recent average credit of the version
    work_start: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppIncrement:
    """Sums for one app, with which the second system keeps its scale."""

    benchmark_credit: float = 0.0  #: what the first system would have claimed for jobs that counted
    counted_credit: float = 0.0  #: what their counted FLOPs are worth unscaled
    cpu_seconds: float = 0.0  #: of those jobs


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimInput:
    """Facts of one valid result that its claim may rest on.  Seconds, Unix seconds, operations per second."""

    result_id: ResultId
    host_id: HostId
    app_version_id: AppVersionId  #: anonymous platform: the generalised id, app id * 1 000 000 + kind
    platform: PlatformKind = PlatformKind.NORMAL
    is_gpu: bool = False
    elapsed_time: float = 0.0
    cpu_time: float = 0.0
    sent_time: float = 0.0
    received_time: float = 0.0
    peak_flops: float = 0.0  #: of the devices that the job used, together
    ncpus: float = 1.0  #: processors of the host
    p_fpops: float = 0.0  #: Whetstone, per processor
    p_iops: float = 0.0  #: Dhrystone, per processor
    fpops_counted: float = 0.0  #: floating-point operations as counted by the program
    intops_counted: float = 0.0
    trickle_credit: float = 0.0  #: already granted for this result while it ran
    outlier: bool = False  #: the validator asks to keep its run time out of the statistics
    claimed_credit: float = 0.0  #: what the project's own validator put there (granted after assimilation)
    host_version: HostVersionStatistics | None = None  #: None: no record yet


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkunitFacts:
    """Facts of the job."""

    rsc_fpops_est: float
    rsc_fpops_bound: float
    fixed_credit: float = 0.0  #: stored when the job was made, in the project's unit


@dataclass(frozen=True, slots=True, kw_only=True)
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
    REFUSED = "refused"  #: cannot be; the result gets nothing and does not count


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one result claims."""

    amount: float  #: credit in the project's unit
    mode: ClaimMode = ClaimMode.NORMAL
    reasons: tuple[Reason, ...] = ()
    flops: float = 0.0  #: claimed peak FLOP count, where the system has one
    raw_flops: float = 0.0  #: before any scale; what statistics are made of
    outlier: bool = False  #: keep it out of statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What the results of a workunit get, in the order of their claims."""

    credits: tuple[float, ...]
    reasons: tuple[Reason, ...] = ()


class CreditSystem(Protocol):
    """A way to turn valid results into credit.  Implementations keep no state."""

    @property
    def name(self) -> str:
        """Name under which an app chooses it, and which the ledger keeps."""
        ...

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """What one result claims."""
        ...

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """What each result gets."""
        ...

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Which samples the statistics take."""
        ...


# ------------------------------------------------------------------------------- what a validator calls


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCredit:
    """What one result claimed and got, and why: the content of its ledger entry."""

    result_id: ResultId
    claimed: float
    granted: float
    mode: ClaimMode = ClaimMode.NORMAL
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOutcome:
    """What follows for a workunit: credit per result, the credit that stragglers will get, statistic increments."""

    system: str
    unit: CreditUnit
    results: tuple[ResultCredit, ...]
    canonical_credit: float
    increments: StatisticIncrements = StatisticIncrements()


def grant_workunit(
    system: CreditSystem,
    workunit: WorkunitFacts,
    inputs: Sequence[ClaimInput],
    statistics: Statistics,
    *,
    unit: CreditUnit = DEPLOYED,
    max_granted: float | None = None,
    now: float,
) -> GrantOutcome:
    """Credit for the valid results of a workunit whose canonical result was just found.

    ``inputs`` are its VALID results, in the order of their ids; ``max_granted`` limits a single grant (default: a
    TFLOPS-year in ``unit``).  ``now`` is in Unix seconds.
    """
    raise NotImplementedError


def grant_straggler(
    system: CreditSystem,
    workunit: WorkunitFacts,
    facts: ClaimInput,
    statistics: Statistics,
    *,
    canonical_credit: float,
    unit: CreditUnit = DEPLOYED,
    max_granted: float | None = None,
    now: float,
) -> GrantOutcome:
    """Credit for a result that became valid after the canonical one: the same as the canonical result got.

    Its own claim is kept in the outcome, and statistics learn from its own times.
    """
    raise NotImplementedError
