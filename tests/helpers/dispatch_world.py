"""Builders for tests of dispatch: hosts, requests, apps, candidates with sane defaults."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from cobblestone.domain.apps import App, AppFile, AppVersion, PlanClass
from cobblestone.domain.hosts import (
    CPU,
    Coprocessor,
    Host,
    HostAppVersion,
    HostDescription,
    HostVersionStatistics,
)
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.work import JobLimits
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue, DispatchDecision
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import ResourceRequest, WorkRequest

LINUX = "x86_64-pc-linux-gnu"
WINDOWS = "windows_x86_64"
NOW = 1_800_000_000.0
HOUR = 3600.0

DESCRIPTION = HostDescription(
    p_ncpus=4,
    p_vendor="GenuineIntel",
    p_features="fpu sse2 avx avx2",
    p_fpops=4e9,
    m_nbytes=16e9,
    d_total=500e9,
    d_free=100e9,
    os_name="Linux Debian",
    os_version="12",
    client_version=72005,
)
NVIDIA = Coprocessor(type="NVIDIA", count=1, name="Card", peak_flops=1e13, ram=8e9, driver_version=55000)


def description(**changes: Any) -> HostDescription:
    return replace(DESCRIPTION, **changes)


def host(number: int = 1, user: int = 1, **changes: Any) -> Host:
    values: dict[str, Any] = {"description": DESCRIPTION} | changes
    return Host(id=HostId(number), user_id=UserId(user), **values)


def request(
    *,
    seconds: float = 1.0,
    instances: float = 0.0,
    delay: float = 0.0,
    gpu_seconds: float = 0.0,
    **changes: Any,
) -> WorkRequest:
    """A request of a Linux host with 4 CPUs for so many seconds of CPU (and NVIDIA) work."""
    resources = {CPU: ResourceRequest(seconds=seconds, instances=instances, estimated_delay=delay)}
    if gpu_seconds:
        resources["NVIDIA"] = ResourceRequest(seconds=gpu_seconds)
    values: dict[str, Any] = {
        "host": host(),
        "platforms": (LINUX,),
        "client_version": 72005,
        "resources": resources,
        "usable_ncpus": 4.0,
        "ram_bytes": 8e9,
        "disk_bytes": 50e9,
    } | changes
    return WorkRequest(**values)


def app(number: int = 1, **changes: Any) -> App:
    return App(id=AppId(number), name=f"app{number}", **changes)


def version(number: int = 1, app_number: int = 1, **changes: Any) -> AppVersion:
    file = AppFile(
        name=f"program_{number}", open_name="program", nbytes=1, md5="", main_program=True, signature="ab."
    )
    values: dict[str, Any] = {"platform": LINUX, "version_num": 100, "files": (file,)} | changes
    return AppVersion(id=AppVersionId(number), app_id=AppId(app_number), **values)


def unsigned(one: AppVersion) -> AppVersion:
    return replace(one, files=tuple(replace(file, signature="") for file in one.files))


def catalogue(
    *versions: AppVersion, apps: Iterable[App] = (), plan_classes: Iterable[PlanClass] = (), **changes: Any
) -> Catalogue:
    """A catalogue of these versions; apps that are not given are made."""
    known = {each.id: each for each in apps}
    grouped: dict[AppId, list[AppVersion]] = {}
    for each in versions:
        known.setdefault(each.app_id, app(each.app_id))
        grouped.setdefault(each.app_id, []).append(each)
    return Catalogue(
        apps=known,
        versions={app_id: tuple(members) for app_id, members in grouped.items()},
        plan_classes={each.name: each for each in plan_classes},
        **changes,
    )


class CountedVersions(tuple[AppVersion, ...]):
    """The versions of an app, which count how often those of any app are gone through."""

    __slots__ = ()
    looks = 0

    def __iter__(self) -> Iterator[AppVersion]:
        CountedVersions.looks += 1
        return super().__iter__()


def counted(offer: Catalogue) -> Catalogue:
    """The same catalogue with versions that count, from 0 on."""
    versions = {app_id: CountedVersions(each) for app_id, each in offer.versions.items()}
    found = replace(offer, versions=versions)
    CountedVersions.looks = 0
    return found


def candidate(
    number: int = 1, *, workunit: int | None = None, app_number: int = 1, **changes: Any
) -> Candidate:
    workunit = number if workunit is None else workunit
    values: dict[str, Any] = {"limits": JobLimits(rsc_fpops_est=4e9 * HOUR)} | changes
    return Candidate(
        result_id=ResultId(number),
        result_name=f"wu{workunit}_{number}",
        workunit_id=WorkunitId(workunit),
        workunit_name=f"wu{workunit}",
        app_id=AppId(app_number),
        **values,
    )


def candidates(count: int, **changes: Any) -> list[Candidate]:
    return [candidate(number, **changes) for number in range(1, count + 1)]


def record(
    version_number: int = 1, host_number: int = 1, *, et_n: int = 0, et_avg: float = 0.0, **changes: Any
) -> HostAppVersion:
    known = {name: changes.pop(name) for name in ("consecutive_valid", "error_rate") if name in changes}
    return HostAppVersion(
        host_id=HostId(host_number),
        app_version_id=AppVersionId(version_number),
        statistics=HostVersionStatistics(elapsed=RunningAverage(et_n, et_avg), **known),
        **changes,
    )


def records(*members: HostAppVersion) -> Mapping[AppVersionId, HostAppVersion]:
    return {each.app_version_id: each for each in members}


def choose(
    asked: WorkRequest,
    offered: Iterable[Candidate],
    offer: Catalogue | None = None,
    *,
    limits: DispatchLimits | None = None,
    now: float = NOW,
    seed: int = 0,
    **held: Any,
) -> DispatchDecision:
    return choose_work(
        asked,
        offered,
        catalogue(version()) if offer is None else offer,
        limits=limits or DispatchLimits(),
        now=now,
        rng=random.Random(seed),
        **held,
    )


def codes(decision: DispatchDecision) -> list[str]:
    return [each.code for each in decision.refusals]
