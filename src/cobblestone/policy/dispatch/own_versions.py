"""Anonymous platform: jobs for the app versions that a volunteer built or installed himself (``app_info.xml``).

The client lists its versions in every request.  The server sends jobs for them and no files of its own versions;
statistics and credit run under generalised ids, one for each app and kind of processor, since it cannot know what these
programs are.  The client estimates run times by the speed that it states for its version; for it to come out right, the
job's operations are multiplied by that speed over the one that we expect.

Source: BOINC's ``sched_version.cpp`` and ``sched_types.cpp`` (facts): peak FLOPS = CPUs used x Whetstone + GPUs used x their
peak; expected speed = as the client states, corrected by what was measured on this host.  Difference: the stated
speed is believed within bounds only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion, generalised_version_id
from cobblestone.domain.hosts import CPU, HostAppVersion, HostDescription
from cobblestone.domain.reasons import Reason, reason
from cobblestone.policy.dispatch.catalogue import Catalogue
from cobblestone.policy.dispatch.decision import ResourceUsage
from cobblestone.policy.dispatch.plan_class import find_gpu
from cobblestone.policy.estimate.speed import (
    MAX_GPU_FLOPS,
    MEASURED_CAP,
    MIN_FLOPS,
    corrected_flops,
    cpu_speed,
)

MAX_CPUS = 1024.0
MAX_GPUS = 64.0
MAX_FAULTS = 5
"""What one reply says of ``app_info.xml`` at most."""
MAX_FILES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnVersion:
    """An app version that the client brings."""

    app_name: str
    version_num: int
    platform: str  #: as the client calls it; the reply must name it alike
    plan_class: str = ""
    avg_ncpus: float = 1.0
    gpu_type: str = ""
    ngpus: float = 0.0
    flops: float = 0.0  #: speed by which the client estimates run times; 0: not stated


def own_usage(own: OwnVersion, description: HostDescription, record: HostAppVersion | None) -> ResourceUsage:
    """Return what the version uses on the host, and how fast it is expected to be there."""
    ncpus = min(max(own.avg_ncpus, 0.0), MAX_CPUS)
    ngpus = min(max(own.ngpus, 0.0), MAX_GPUS) if own.gpu_type else 0.0
    peak = ncpus * cpu_speed(description)
    gpu = find_gpu(description, own.gpu_type) if own.gpu_type else None
    if gpu is not None:
        peak += ngpus * min(max(gpu.peak_flops, 0.0), MAX_GPU_FLOPS)
    peak = max(peak, MIN_FLOPS)
    stated = min(max(own.flops, MIN_FLOPS), MEASURED_CAP * peak) if own.flops > 0 else peak
    flops = corrected_flops(stated, record, most=MEASURED_CAP * peak)
    return ResourceUsage(
        avg_ncpus=ncpus,
        gpu_type=own.gpu_type,
        ngpus=ngpus,
        flops=flops,
        peak_flops=peak,
        client_flops=own.flops if own.flops > 0 else flops,
    )


def own_version_faults(
    brought: Sequence[OwnVersion], catalogue: Catalogue, *, platforms: Sequence[str]
) -> tuple[Reason, ...]:
    """Return what a client's ``app_info.xml`` lacks or has wrong; ``platforms`` are those that the client runs.

    A request does not say which files such a version has, so they are named where the version is not the project's.
    """
    apps = {app.name: app for app in catalogue.apps.values() if not app.deprecated}
    faults = [
        reason(
            "own_app_unknown",
            "Your app_info.xml names the application {app}, which this project does not have. It has: {known}.",
            app=name,
            known=", ".join(sorted(apps)) or "-",
        )
        for name in dict.fromkeys(own.app_name for own in brought)
        if name not in apps
    ]
    if missing := sorted(set(apps) - {own.app_name for own in brought}):
        faults.append(
            reason(
                "own_app_missing",
                "Your app_info.xml says nothing about {apps}: this computer gets no tasks of that.",
                apps=", ".join(missing),
            )
        )
    for own in brought:
        if own.app_name in apps:
            faults += _version_faults(own, catalogue, apps[own.app_name], platforms)
    return tuple(faults[:MAX_FAULTS])


def _version_faults(
    own: OwnVersion, catalogue: Catalogue, app: App, platforms: Sequence[str]
) -> Iterator[Reason]:
    if own.platform not in platforms:
        yield reason(
            "own_platform",
            "Your app_info.xml has {app} for the platform {platform}, and this client runs {platforms}.",
            app=app.name,
            platform=own.platform or "-",
            platforms=", ".join(platforms) or "-",
        )
    alike = [
        version
        for version in catalogue.versions.get(app.id, ())
        if version.platform in (own.platform, ANY_PLATFORM) and version.plan_class == own.plan_class
    ]
    newest = max(alike, key=lambda version: version.version_num, default=None)
    if newest is not None and own.version_num < newest.version_num:
        yield reason(
            "own_version_old",
            "Your app_info.xml has version {have} of {app}, and the project is at {newest}, with the files {files}.",
            have=own.version_num,
            app=app.name,
            newest=newest.version_num,
            files=", ".join(file.open_name for file in newest.files[:MAX_FILES]),
        )
    plan_class = catalogue.plan_classes.get(own.plan_class)
    if plan_class is not None and plan_class.gpu_type and not own.gpu_type:
        yield reason(
            "own_coprocessor",
            "The version of {app} in your app_info.xml has the plan class {plan_class} and names no coprocessor for it.",
            app=app.name,
            plan_class=own.plan_class,
        )


def own_app_version(own: OwnVersion, app: App) -> AppVersion:
    """Return a stand-in for the client's version: no files, and the generalised id."""
    return AppVersion(
        id=generalised_version_id(app.id, own.gpu_type or CPU),
        app_id=app.id,
        platform=own.platform,
        version_num=own.version_num,
        plan_class=own.plan_class,
    )
