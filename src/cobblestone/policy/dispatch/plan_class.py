"""Plan classes: whether a host may run a version, and with how much of which processor.

Source: BOINC's ``plan_class_spec.cpp`` (facts). One definition of peak FLOPS for all GPU classes: that of the
file-defined ones (scaled GPU peak), where the family's built-in classes count the unscaled one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from cobblestone.domain.apps import PlanClass
from cobblestone.domain.hosts import Coprocessor, HostDescription
from cobblestone.domain.reasons import Reason
from cobblestone.policy.dispatch.decision import ResourceUsage
from cobblestone.policy.dispatch.explain import Code, explain
from cobblestone.policy.estimate.speed import (
    GPU_PER_CPU,
    MAX_GPU_FLOPS,
    SpeedPopulation,
    capped_cpu_speed,
    cpu_speed,
)

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
    """Return what a version of this plan class uses on the host, or why the host cannot run it.

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
    """Whether versions of the plan class ``name`` use a GPU; of an unknown class its name says so.

    Source of the names: BOINC's ``plan_class_to_proc_type`` (facts).
    """
    known = plan_classes.get(name)
    if known is not None:
        return bool(known.gpu_type)
    return any(part in name for part in _GPU_NAMES)


def sequential_usage(description: HostDescription, command_line: str = "") -> ResourceUsage:
    """Return what a version without a plan class uses: one CPU."""
    speed = cpu_speed(description)
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

    def text(self) -> str:
        """One line for the operator."""
        return f"would match {self.matching} of {self.total} hosts"


def count_matching_hosts(
    plan_class: PlanClass, hosts: Iterable[HostDescription], *, population: SpeedPopulation | None = None
) -> MatchCount:
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
            population=population or SpeedPopulation(),
        )
        if isinstance(usage, Reason):
            refusals[usage.code] += 1
    return MatchCount(matching=total - refusals.total(), total=total, refusals=dict(refusals))
