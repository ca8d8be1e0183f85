"""From a scheduler request to the description of a host, its volunteer's limits and own app versions."""

from __future__ import annotations

from cobblestone.domain.hosts import Coprocessor, Host, HostDescription
from cobblestone.domain.reasons import Reason
from cobblestone.policy.dispatch.capacity import ComputingPreferences
from cobblestone.policy.dispatch.catalogue import Catalogue
from cobblestone.policy.dispatch.own_versions import OwnVersion, own_version_faults
from cobblestone.policy.dispatch.request import ANONYMOUS_PLATFORM
from cobblestone.wire.preferences import GlobalPreferences
from cobblestone.wire.scheduler_request import SchedulerRequest

DAY = 86400.0
_GPU_TYPES = {"CUDA": "NVIDIA", "AMD": "ATI"}  # old and new names of the same


def describe_host(message: SchedulerRequest) -> HostDescription:
    """Return the host as this request describes it."""
    info, stats, disk = message.host_info, message.time_stats, message.disk_usage
    return HostDescription(
        domain_name=info.domain_name,
        ip_addr=info.ip_addr,
        timezone=info.timezone,
        p_ncpus=info.p_ncpus,
        p_vendor=info.p_vendor,
        p_model=info.p_model,
        p_features=info.p_features,
        p_fpops=info.p_fpops,
        p_iops=info.p_iops,
        p_membw=info.p_membw,
        m_nbytes=info.m_nbytes,
        m_cache=info.m_cache,
        m_swap=info.m_swap,
        d_total=info.d_total,
        d_free=info.d_free,
        d_boinc_used_total=disk.d_boinc_used_total,
        d_boinc_used_project=disk.d_boinc_used_project,
        os_name=info.os_name,
        os_version=info.os_version,
        product_name=info.product_name,
        virtualbox_version=info.virtualbox_version,
        docker_version=info.docker_version,
        on_frac=stats.on_frac,
        connected_frac=stats.connected_frac,
        active_frac=stats.active_frac,
        gpu_active_frac=stats.gpu_active_frac,
        n_bwup=message.net_stats.bwup,
        n_bwdown=message.net_stats.bwdown,
        client_version=message.client_version,
        coprocessors=tuple(
            Coprocessor(
                type=gpu.type,
                count=gpu.count,
                name=gpu.name,
                peak_flops=gpu.peak_flops,
                ram=gpu.ram,
                driver_version=gpu.driver_version,
            )
            for gpu in message.coprocs
        ),
    )


def own_versions(message: SchedulerRequest) -> tuple[OwnVersion, ...]:
    """Return the app versions that a client of the anonymous platform brings."""
    if not message.platforms or message.platforms[0] != ANONYMOUS_PLATFORM:
        return ()
    return tuple(
        OwnVersion(
            app_name=each.app_name,
            version_num=each.version_num,
            platform=each.platform,
            plan_class=each.plan_class,
            avg_ncpus=each.avg_ncpus,
            gpu_type=_GPU_TYPES.get(each.coproc_type, each.coproc_type) if each.coproc_count > 0 else "",
            ngpus=each.coproc_count,
            flops=each.flops,
        )
        for each in message.app_versions
        if each.app_name
    )


def faults_of_the_day(
    message: SchedulerRequest, host: Host, catalogue: Catalogue, *, now: float
) -> tuple[Reason, ...]:
    """Return what the client's ``app_info.xml`` lacks, in the first request of a day (UTC); in others nothing."""
    brought = own_versions(message)
    said_today = host.create_time < now and now // DAY == host.rpc_time // DAY
    if not brought or said_today:
        return ()
    return own_version_faults(brought, catalogue, platforms=message.platforms[1:])


def computing_preferences(preferences: GlobalPreferences | None) -> ComputingPreferences:
    """Return the limits that the volunteer set, as far as the dispatch rule knows them."""
    if preferences is None:
        return ComputingPreferences()
    return ComputingPreferences(
        disk_max_used_gb=preferences.disk_max_used_gb,
        disk_max_used_pct=preferences.disk_max_used_pct,
        disk_min_free_gb=preferences.disk_min_free_gb,
        work_buf_min_days=preferences.work_buf_min_days,
        ram_max_used_busy_pct=preferences.ram_max_used_busy_pct,
        ram_max_used_idle_pct=preferences.ram_max_used_idle_pct,
        max_ncpus_pct=preferences.max_ncpus_pct,
    )
