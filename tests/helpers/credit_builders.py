"""Facts of results and jobs with sane defaults, for tests of credit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppVersionId, HostId, ResultId
from cobblestone.policy.credit.claims import (
    AppStatistics,
    ClaimInput,
    Statistics,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.registry import credit_system
from cobblestone.policy.credit.system import GrantOutcome, grant_workunit

NOW = 1_700_000_000.0
VERSION = AppVersionId(7)
ESTIMATE = 1e13
#: Operations that are worth one credit at 200 per GFLOPS-day.
PER_CREDIT = 86400e9 / 200.0

WORKUNIT = WorkunitFacts(rsc_fpops_est=ESTIMATE, rsc_fpops_bound=1e16)


def facts(number: int = 1, **changes: Any) -> ClaimInput:
    """A result that ran 1000 s at 10 GFLOPS, in time, on its own host."""
    usual = ClaimInput(
        result_id=ResultId(number),
        host_id=HostId(number),
        app_version_id=VERSION,
        elapsed_time=1000.0,
        cpu_time=900.0,
        sent_time=NOW - 5000.0,
        received_time=NOW - 10.0,
        peak_flops=1e10,
        ncpus=4.0,
        p_fpops=2e9,
        p_iops=6e9,
        host_age=1e7,
    )
    return replace(usual, **changes)


def claiming(credit: float, number: int = 1, **changes: Any) -> ClaimInput:
    """A result whose run time x peak speed is worth ``credit``, and so is its CPU time x Whetstone."""
    usual = facts(
        number,
        sent_time=NOW - 1e7,
        elapsed_time=credit * PER_CREDIT / 1e12,
        peak_flops=1e12,
        cpu_time=credit * PER_CREDIT / 2e9,
        p_fpops=2e9,
    )
    return replace(usual, **changes)


def average(n: int, mean: float) -> RunningAverage:
    return RunningAverage(n, mean)


def host(n: int = 0, mean: float = 0.0, **changes: Any) -> HostVersionStatistics:
    """A host's record with ``n`` samples of PFC / estimate of this mean."""
    return HostVersionStatistics(pfc=average(n, mean), **changes)


def statistics(n: int = 0, mean: float = 0.0, *, scale: float = 0.0, **app: Any) -> Statistics:
    """Statistics of an app with one version."""
    return Statistics(
        app=AppStatistics(**app), versions={VERSION: VersionStatistics(pfc=average(n, mean), pfc_scale=scale)}
    )


def grant(
    system: str,
    inputs: list[ClaimInput],
    known: Statistics | None = None,
    *,
    workunit: WorkunitFacts = WORKUNIT,
    **options: Any,
) -> GrantOutcome:
    """What a system grants for a workunit now."""
    return grant_workunit(credit_system(system), workunit, inputs, known or Statistics(), now=NOW, **options)


def codes(outcome: GrantOutcome, index: int = 0) -> list[str]:
    """Codes of the reasons of one result."""
    return [why.code for why in outcome.results[index].reasons]
