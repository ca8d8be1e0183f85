"""From a scheduler request to the description of a host, and to what was wrong with its figures."""

from __future__ import annotations

from cobblestone.domain.hosts import Coprocessor, HostDescription
from cobblestone.domain.reasons import Reason, reason
from cobblestone.policy.dispatch.own_versions import OwnVersion
from cobblestone.policy.dispatch.request import ANONYMOUS_PLATFORM
from cobblestone.wire.lenience import Lenience, LenienceKind
from cobblestone.wire.scheduler_request import ReportedResult, SchedulerRequest

_GPU_TYPES = {"CUDA": "NVIDIA", "AMD": "ATI"}  # old and new names of the same
_ABOUT_SPEED = ("host_info/", "coproc", "time_stats/", "disk_usage/")


def describe_host(message: SchedulerRequest) -> HostDescription:
    """The host as this request describes it."""
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
    """The app versions that a client of the anonymous platform brings."""
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


def refused_figures(message: SchedulerRequest, report: ReportedResult) -> tuple[Reason, ...]:
    """Why figures of a report, and of its host, were not taken: they were no usable numbers."""
    of_host = (note for note in message.leniences if note.where.startswith(_ABOUT_SPEED))
    return tuple(
        _refused(note) for note in (*report.leniences, *of_host) if note.kind is LenienceKind.BAD_NUMBER
    )


def _refused(note: Lenience) -> Reason:
    return reason(
        "number_refused",
        "{name} was sent as {value}: no usable number, so it counts as not reported.",
        name=note.where,
        value=note.detail,
    )
