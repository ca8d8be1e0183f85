"""Whether a host can run a version: plan classes, a volunteer's own versions, and missing runtimes.

Plan classes: whether a host may run a version, and with how much of which processor.

Source: BOINC's ``plan_class_spec.cpp`` (facts). One definition of peak FLOPS for all GPU classes: that of the
file-defined ones (scaled GPU peak), where the family's built-in classes count the unscaled one.

Anonymous platform: jobs for the app versions that a volunteer built or installed himself (``app_info.xml``).

The client lists its versions in every request.  The server sends jobs for them and no files of its own versions;
statistics and credit run under generalised ids, one for each app and kind of processor, since it cannot know what these
programs are.  The client estimates run times by the speed that it states for its version; for it to come out right, the
job's operations are multiplied by that speed over the one that we expect.

Source: BOINC's ``sched_version.cpp`` and ``sched_types.cpp`` (facts): peak FLOPS = CPUs used x Whetstone + GPUs used x their
peak; expected speed = as the client states, corrected by what was measured on this host.  Difference: the stated
speed is believed within bounds only.

What a host lacks that apps of every platform need, such as Python.

The launcher ends with status 195 where it finds no interpreter, within a second, so such a host would burn one job after
the other.  No app of the pseudo platform "any" is sent there again until something changed: its system or client, or the
owner or an operator resets its errors; and since installing Python changes nothing that a client reports, it is
tried again after a week.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion, PlanClass, generalised_version_id
from cobblestone.domain.hosts import CPU, Coprocessor, Host, HostAppVersion, HostDescription
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.work import ExitStatus
from cobblestone.policy.dispatch.catalogue import (
    GPU_PER_CPU,
    MAX_GPU_FLOPS,
    MEASURED_CAP,
    MIN_FLOPS,
    Catalogue,
    ResourceUsage,
    SpeedPopulation,
    believed_speed,
    capped_cpu_speed,
    corrected_flops,
)
from cobblestone.policy.dispatch.explain import Code, explain

MEGABYTE = 1e6
DOCKER_ON_MAC = 80206  #: first client that starts Docker on macOS
_TEXT_LIMIT = 256  # patterns of the operator meet texts of strangers: short ones only

_GPU_NAMES = ("cuda", "nvidia", "ati", "amd", "intel_gpu", "apple_gpu")
_SAME_TYPE = {"amd": "ati", "apple": "apple_gpu", "cuda": "nvidia", "intel": "intel_gpu"}


def plan_class_usage(
    plan_class: PlanClass,
    description: HostDescription,
    *,
    app: str,
    usable_ncpus: float,
    population: SpeedPopulation,
    command_line: str = "",
) -> ResourceUsage | Reason:
    """Return the resources of a version of this plan class on the host, or why the host cannot run it.

    ``usable_ncpus`` is at least 1.  ``command_line`` is the version's own; the plan class appends to it.
    ``flops`` of the answer is the class's estimate, before any measurement.
    """
    refusal = _refuse_host(plan_class, description, app, usable_ncpus)
    if refusal is not None:
        return refusal
    if plan_class.gpu_type:
        return _gpu_usage(plan_class, description, app, population, command_line)
    threads = max(min(int(usable_ncpus), plan_class.max_threads), 1)
    if plan_class.nthreads_command_line:
        command_line = f"{command_line} --nthreads {threads}".strip()
    peak = capped_cpu_speed(description, population) * threads
    return ResourceUsage(
        avg_ncpus=threads,
        command_line=command_line,
        flops=peak * plan_class.projected_flops_scale,
        peak_flops=peak,
    )


def is_gpu_class(name: str, plan_classes: Mapping[str, PlanClass]) -> bool:
    """Return whether versions of the plan class ``name`` use a GPU; of an unknown class its name says so.

    Source of the names: BOINC's ``plan_class_to_proc_type`` (facts).
    """
    known = plan_classes.get(name)
    if known is not None:
        return bool(known.gpu_type)
    return any(part in name for part in _GPU_NAMES)


def sequential_usage(
    description: HostDescription, population: SpeedPopulation, command_line: str = ""
) -> ResourceUsage:
    """Return the resources of a version without a plan class: one CPU."""
    speed = believed_speed(description, population)
    return ResourceUsage(command_line=command_line, flops=speed, peak_flops=speed)


def find_gpu(description: HostDescription, gpu_type: str) -> Coprocessor | None:
    """Return the host's GPUs of this type, if any.  Old and new names of the makers' types are the same."""
    wanted = _type_key(gpu_type)
    for coprocessor in description.coprocessors:
        if coprocessor.count > 0 and _type_key(coprocessor.type) == wanted:
            return coprocessor
    return None


def _type_key(gpu_type: str) -> str:
    key = gpu_type.lower()
    return _SAME_TYPE.get(key, key)


def _refuse_host(
    plan_class: PlanClass, host: HostDescription, app: str, usable_ncpus: float
) -> Reason | None:
    """Return the first condition that the host does not meet; GPUs are looked at later."""
    if plan_class.min_ncpus > usable_ncpus:
        return explain(Code.CPU_COUNT, app=app, need=plan_class.min_ncpus, have=usable_ncpus)
    if plan_class.cpu_features:
        features = host.p_features.lower().split()
        for feature in plan_class.cpu_features:
            if feature.lower() not in features:
                return explain(Code.CPU_FEATURE, app=app, wanted=feature)
    if plan_class.min_memory_mb * MEGABYTE > host.m_nbytes:
        return explain(
            Code.HOST_MEMORY,
            app=app,
            need_mb=plan_class.min_memory_mb,
            have_mb=round(host.m_nbytes / MEGABYTE),
        )
    system = f"{host.os_name} {host.os_version}"[:_TEXT_LIMIT]
    for pattern, text, code in (
        (plan_class.os_regex, system, Code.OPERATING_SYSTEM),
        (plan_class.cpu_vendor_regex, host.p_vendor[:_TEXT_LIMIT], Code.CPU_VENDOR),
    ):
        if pattern:
            compiled = _compile(pattern)
            if compiled is None:
                return explain(Code.PLAN_CLASS_BROKEN, app=app, wanted=plan_class.name)
            if not compiled.search(text):
                return explain(code, app=app, have=text)
    return _refuse_container(plan_class, host, app)


def _refuse_container(plan_class: PlanClass, host: HostDescription, app: str) -> Reason | None:
    if plan_class.virtualbox and not host.virtualbox_version:
        return explain(Code.VIRTUALBOX, app=app)
    if plan_class.docker:
        if not host.docker_version:
            return explain(Code.DOCKER, app=app)
        if host.os_name.startswith("Darwin") and host.client_version < DOCKER_ON_MAC:
            return explain(Code.DOCKER_CLIENT, app=app, need="8.2.6")
    return None


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _gpu_usage(
    plan_class: PlanClass, host: HostDescription, app: str, population: SpeedPopulation, command_line: str
) -> ResourceUsage | Reason:
    gpu = find_gpu(host, plan_class.gpu_type)
    if gpu is None:
        return explain(Code.GPU_MISSING, app=app, wanted=plan_class.gpu_type)
    ngpus = plan_class.ngpus if plan_class.ngpus > 0 else 1.0
    if ngpus > gpu.count:
        return explain(Code.GPU_COUNT, app=app, wanted=plan_class.gpu_type, need=ngpus, have=gpu.count)
    if plan_class.min_gpu_ram_mb * MEGABYTE > gpu.ram:
        have_mb = round(gpu.ram / MEGABYTE)
        return explain(Code.GPU_MEMORY, app=app, need_mb=plan_class.min_gpu_ram_mb, have_mb=have_mb)
    if plan_class.min_driver_version > gpu.driver_version:
        return explain(Code.GPU_DRIVER, app=app, need=plan_class.min_driver_version, have=gpu.driver_version)
    cpu = capped_cpu_speed(host, population)
    gpu_peak = min(gpu.peak_flops, MAX_GPU_FLOPS) if gpu.peak_flops > 0 else GPU_PER_CPU * cpu
    scaled_peak = plan_class.gpu_peak_flops_scale * ngpus * gpu_peak
    # A part cpu_frac of the operations runs on the CPU, the rest on the GPU, one after the other.
    on_gpu = max(plan_class.projected_flops_scale * ngpus * gpu_peak, 1.0)
    mixed = plan_class.cpu_frac * on_gpu + (1.0 - plan_class.cpu_frac) * cpu
    avg_ncpus = plan_class.avg_ncpus if plan_class.avg_ncpus > 0 else plan_class.cpu_frac * on_gpu / mixed
    return ResourceUsage(
        avg_ncpus=avg_ncpus,
        gpu_type=gpu.type,
        ngpus=ngpus,
        command_line=command_line,
        flops=cpu * on_gpu / mixed,
        peak_flops=scaled_peak + avg_ncpus * cpu,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchCount:
    """How many of the known hosts a plan class would match, and what excludes the others."""

    matching: int
    total: int
    refusals: Mapping[str, int]  #: reason code → hosts


def count_matching_hosts(plan_class: PlanClass, hosts: Iterable[HostDescription]) -> MatchCount:
    """Try a plan class on the known hosts before a version with it is released."""
    refusals: Counter[str] = Counter()
    total = 0
    for description in hosts:
        total += 1
        usage = plan_class_usage(
            plan_class,
            description,
            app=plan_class.name,
            usable_ncpus=max(description.p_ncpus, 1),
            population=SpeedPopulation(),
        )
        if isinstance(usage, Reason):
            refusals[usage.code] += 1
    return MatchCount(matching=total - refusals.total(), total=total, refusals=dict(refusals))


MAX_CPUS = 1024.0
MAX_GPUS = 64.0
#: What one reply says of ``app_info.xml`` at most.
MAX_FAULTS = 5
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


def own_usage(
    own: OwnVersion, description: HostDescription, population: SpeedPopulation, record: HostAppVersion | None
) -> ResourceUsage:
    """Return the resources of the version on the host, and its expected speed there."""
    ncpus = min(max(own.avg_ncpus, 0.0), MAX_CPUS)
    ngpus = min(max(own.ngpus, 0.0), MAX_GPUS) if own.gpu_type else 0.0
    peak = ncpus * believed_speed(description, population)
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
    """Return the errors in a client's ``app_info.xml``; ``platforms`` are those that the client runs.

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
                "Your app_info.xml does not list {apps}: this computer gets no such tasks.",
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
            "Your app_info.xml has version {have} of {app}, and the project has {newest}, with the "
            "files {files}.",
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


RETRY_SECONDS = 7 * 86400.0
NO_PYTHON = "no_python"


def environment_fingerprint(description: HostDescription) -> str:
    """Return a short text that changes if the system or the client is reinstalled."""
    text = f"{description.os_name}\0{description.os_version}\0{description.client_version}"
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:12]


def missing_runtime_after_report(
    host: Host, exit_status: int | None, *, now: float
) -> tuple[str, float] | None:
    """Return the host's missing runtime to store after one of its results ended this way; None: nothing."""
    if exit_status != ExitStatus.NO_PYTHON:
        return None
    return f"{NO_PYTHON}:{environment_fingerprint(host.description)}", now


def lacks_interpreter(host: Host, *, now: float) -> bool:
    """Return whether apps of every platform are not worth sending to this host now."""
    if not host.missing_runtime:
        return False
    still_same = host.missing_runtime == f"{NO_PYTHON}:{environment_fingerprint(host.description)}"
    return still_same and now < host.missing_since + RETRY_SECONDS


def needs_interpreter(version: AppVersion) -> bool:
    """Return whether the version is run by an interpreter that the host must have."""
    return version.platform == ANY_PLATFORM
