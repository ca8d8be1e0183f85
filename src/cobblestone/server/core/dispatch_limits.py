"""From settings and apps to the limits that the dispatch rule obeys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cobblestone.domain.apps import App
from cobblestone.domain.ids import AppId
from cobblestone.ops.settings import SchedulerSection
from cobblestone.policy.dispatch.limits import DispatchLimits, InProgressLimits, JobCap
from cobblestone.policy.dispatch.reliability import RetryRules

INITIAL_PART = 25  #: of the daily quota: what a new host begins with, unless the settings say


def dispatch_limits(settings: SchedulerSection) -> DispatchLimits:
    """Return the operator's limits, as the settings have them; those of apps come with the offer."""
    initial = settings.max_jobs_per_day_init or settings.daily_result_quota // INITIAL_PART
    return DispatchLimits(
        daily_quota=settings.daily_result_quota,
        daily_quota_init=min(max(initial, 1), settings.daily_result_quota),
        gpu_multiplier=settings.gpu_multiplier,
        max_jobs_per_rpc=settings.max_jobs_per_rpc,
        max_ncpus=settings.max_ncpus,
        min_sendwork_interval=settings.min_sendwork_interval,
        one_result_per_user_per_wu=settings.one_result_per_user,
        project_in_progress=in_progress_limits(
            total=settings.max_jobs_on_host,
            per_cpu=settings.max_jobs_in_progress,
            per_gpu=settings.max_gpu_jobs_in_progress,
        ),
        workload_sim=settings.workload_sim,
        retries=RetryRules(
            reliable_seconds=settings.retries_to_reliable_hosts,
            max_turnaround=settings.reliable_max_turnaround,
            delay_factor=settings.retry_delay_factor,
        ),
    )


def with_apps(limits: DispatchLimits, apps: Sequence[App]) -> DispatchLimits:
    """Return the limits with those of the apps."""
    found: dict[AppId, InProgressLimits] = {}
    for app in apps:
        rules = app.dispatch
        if rules.max_jobs_on_host or rules.max_jobs_in_progress or rules.max_gpu_jobs_in_progress:
            found[app.id] = in_progress_limits(
                total=rules.max_jobs_on_host,
                per_cpu=rules.max_jobs_in_progress,
                per_gpu=rules.max_gpu_jobs_in_progress,
            )
    return replace(limits, app_in_progress=found)


def in_progress_limits(*, total: int, per_cpu: int, per_gpu: int) -> InProgressLimits:
    """Caps on jobs that a host holds; 0 = no cap."""
    return InProgressLimits(
        total=total or None,
        cpu=JobCap(jobs=per_cpu, per_processor=True) if per_cpu else None,
        gpu=JobCap(jobs=per_gpu, per_processor=True) if per_gpu else None,
    )
