"""Limits that the operator sets on dispatch.

Source: BOINC's ``config.xml`` and ``config_aux.xml`` (names and meaning).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cobblestone.domain.ids import AppId
from cobblestone.policy.dispatch.reliability import RetryRules


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCap:
    """At most ``jobs`` jobs, or that many per processor."""

    jobs: int
    per_processor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgressLimits:
    """Caps on the jobs a host may hold at a time; ``None`` = no cap.  ``total`` is never per processor."""

    total: int | None = None
    cpu: JobCap | None = None
    gpu: JobCap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchLimits:
    """The operator's limits on what one host gets."""

    daily_quota: int = 500  #: per host app version and CPU; the reference value Q of the quota rule
    daily_quota_init: int = 0  #: the value I that a new host begins with; 0 = Q
    gpu_multiplier: float = 1.0  #: weight of a GPU in the daily quota and in ``max_jobs_per_rpc``
    max_jobs_per_rpc: int = 50  #: per processor; 0 = no limit
    max_ncpus: int = 256  #: CPUs counted at most, whatever the host claims
    project_in_progress: InProgressLimits = InProgressLimits()
    app_in_progress: Mapping[AppId, InProgressLimits] = field(default_factory=dict[AppId, InProgressLimits])
    min_sendwork_interval: float = 0.0  #: seconds between requests that get work; 0 = no minimum
    one_result_per_user_per_wu: bool = True
    one_result_per_host_per_wu: bool = True
    version_random_factor: float = 1.0  #: how much chance there is in the choice of a version; 0 = none
    check_deadline: bool = True
    workload_sim: bool = (
        True  #: check deadlines against all jobs that the client holds, earliest deadline first
    )
    retries: RetryRules = RetryRules()
    unsupported_delay: float = 86400.0  #: seconds until a host that cannot be served may ask again
