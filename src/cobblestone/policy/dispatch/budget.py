"""The part of a computer that the client may use, and the rest that a reply may give: work, jobs held, daily quota, disk.

What of a computer the client may use: CPUs, memory, disk.

Source: BOINC's ``sched_send.cpp`` and ``sched_check.cpp`` (facts). Zero in a preference means that it was not
given.

What one reply may still give: requested work, caps on jobs held, daily quota, disk.

A budget lives for one decision and is used up by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cobblestone.domain.apps import App
from cobblestone.domain.computing import DispatchPreferences
from cobblestone.domain.hosts import CPU, HostAppVersion, HostDescription
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import AppId, AppVersionId, changed, value
from cobblestone.policy.dispatch import limits as quota
from cobblestone.policy.dispatch.catalogue import ResourceUsage
from cobblestone.policy.dispatch.explain import Code, explain
from cobblestone.policy.dispatch.limits import DispatchLimits, InProgressLimits, JobCap
from cobblestone.policy.dispatch.request import ProjectPreferences, ResourceRequest, WorkRequest

GIGABYTE = 1e9
UNKNOWN_RAM = 1e9  #: bytes, of a host that does not tell
MAX_CLAIMED_NCPUS = 1_000_000
DEFAULT_MIN_FREE = 1e9  #: bytes of disk that stay free when preferences do not say


@value(kw_only=True)
class Capacity:
    """Usable CPUs (at least 1), bytes of memory and bytes of free disk (0 or more)."""

    ncpus: float
    ram_bytes: float
    disk_bytes: float


def bounded_ncpus(ncpus: float, limits: DispatchLimits, preferences: ProjectPreferences) -> float:
    """CPUs that count: at least 1, at most what the operator and the volunteer allow."""
    most = min(limits.max_ncpus, preferences.max_cpus) if preferences.max_cpus > 0 else limits.max_ncpus
    return max(min(ncpus, most), 1.0)


def usable_capacity(
    description: HostDescription,
    computing: DispatchPreferences,
    *,
    preferences: ProjectPreferences,
    limits: DispatchLimits,
) -> Capacity:
    """CPUs, memory and free disk that a host leaves to the client."""
    percent = computing.max_ncpus_pct if 0 < computing.max_ncpus_pct <= 100 else 100.0
    ram = description.m_nbytes if description.m_nbytes > 0 else UNKNOWN_RAM
    ram_percent = max(computing.ram_max_used_busy_pct, computing.ram_max_used_idle_pct)
    if 0 < ram_percent <= 100:
        ram *= ram_percent / 100.0
    return Capacity(
        ncpus=bounded_ncpus(
            min(description.p_ncpus, MAX_CLAIMED_NCPUS) * percent / 100.0, limits, preferences
        ),
        ram_bytes=ram,
        disk_bytes=usable_disk(description, computing),
    )


def usable_disk(description: HostDescription, computing: DispatchPreferences) -> float:
    """Bytes that the client may still fill: the tightest of the volunteer's three disk limits."""
    used = description.d_boinc_used_total
    keep_free = computing.disk_min_free_gb * GIGABYTE if computing.disk_min_free_gb > 0 else DEFAULT_MIN_FREE
    available = description.d_free - keep_free
    if computing.disk_max_used_pct > 0:
        available = min(available, description.d_total * computing.disk_max_used_pct / 100.0 - used)
    if computing.disk_max_used_gb > 0:
        available = min(available, computing.disk_max_used_gb * GIGABYTE - used)
    return max(available, 0.0)


MAX_REQUEST_SECONDS = 28 * 86400.0  #: per instance
MAX_GPUS = 64  #: of one type; more are not believed


class Want:
    """The remaining request for one processor type."""

    __slots__ = ("delay", "instances", "processors", "seconds")

    def __init__(self, asked: ResourceRequest, processors: float) -> None:
        self.processors = max(processors, 1.0)
        self.seconds = min(max(asked.seconds, 0.0), MAX_REQUEST_SECONDS * self.processors)
        self.instances = min(max(asked.instances, 0.0), self.processors)
        self.delay = max(asked.estimated_delay, 0.0)

    @property
    def open(self) -> bool:
        """Return whether more work of this type is wanted."""
        return self.seconds > 0 or self.instances > 0


class Budget:
    """Counters of one decision.  All amounts stay within the limits, whatever the request claims."""

    def __init__(self, request: WorkRequest, limits: DispatchLimits, now: float) -> None:
        self._limits = limits
        self._host_id = request.host.id
        self._stored: Mapping[AppVersionId, HostAppVersion] = request.records
        self._now = now
        self._preferences: ProjectPreferences = request.preferences
        self.ncpus = bounded_ncpus(request.usable_ncpus, limits, request.preferences)
        gpus: dict[str, int] = {}
        for each in request.host.description.coprocessors:
            gpus[each.type] = min(gpus.get(each.type, 0) + max(each.count, 0), MAX_GPUS)
        self._gpus = gpus
        self._gpu_total = sum(gpus.values())
        self.wants: dict[str, Want] = {}
        for name, asked in request.resources.items():
            want = Want(asked, self.ncpus if name == CPU else gpus.get(name, 0))
            if want.open:
                self.wants[name] = want
        self.open: set[str] = set(self.wants)
        per_processor = self.ncpus + limits.gpu_multiplier * self._gpu_total
        self.most_per_request = max(math.floor(limits.max_jobs_per_rpc * per_processor), 1)
        self.disk_left = request.disk_bytes
        self.given = 0
        self._held = dict(request.in_progress)
        self._held_gpu = dict(request.in_progress_gpu)
        self._held_total = sum(self._held.values())
        self._held_gpu_total = sum(self._held_gpu.values())
        self._records: dict[AppVersionId, HostAppVersion] = {}
        self._sent: dict[AppVersionId, int] = {}
        self._given_of_app: dict[AppId, int] = {}

    def record(self, version_id: AppVersionId, initial: int = 0) -> HostAppVersion:
        """Return the host's record of this version as it stands today; ``initial``: the app's own quota of new hosts."""
        found = self._records.get(version_id)
        if found is None:
            found = self._stored.get(version_id)
            if found is None:
                found = HostAppVersion(host_id=self._host_id, app_version_id=version_id)
            limits = self._limits
            found = quota.for_today(
                found,
                daily_quota=limits.daily_quota,
                initial=initial or limits.daily_quota_init,
                now=self._now,
            )
            self._records[version_id] = found
        return found

    def stop(self) -> Reason | None:
        """Return why nothing more can be given at all."""
        limits = self._limits
        if limits.max_jobs_per_rpc and self.given >= self.most_per_request:
            return explain(Code.PER_REQUEST, limit=self.most_per_request)
        held = self._held_total
        most = self._preferences.max_jobs
        if 0 < most <= held:
            return explain(Code.HELD_BY_PREFERENCE, held=held, limit=most)
        total = limits.project_in_progress.total
        if total is not None and held >= total:
            return explain(Code.HELD_TOTAL, held=held, limit=total)
        return None

    def refuse(self, app: App, version_id: AppVersionId, resource: str) -> Reason | None:
        """Return why this host gets no more jobs of this app and version now: limits on jobs held, daily quota."""
        gpu = resource != CPU
        project = self._limits.project_in_progress
        held = self._held_gpu_total if gpu else self._held_total - self._held_gpu_total
        most = self._most(project, gpu)
        if most is not None and held >= most:
            return explain(Code.HELD_OF_TYPE, held=held, limit=most, subject="GPU" if gpu else CPU)
        own = self._limits.app_in_progress.get(app.id)
        if own is not None:
            refusal = self._refuse_app(own, app, resource, gpu)
            if refusal is not None:
                return refusal
        per_reply = app.dispatch.max_jobs_per_rpc
        if per_reply and self._given_of_app.get(app.id, 0) >= per_reply:
            return explain(Code.PER_REQUEST_OF_APP, app=app.title, limit=per_reply)
        return self._refuse_by_quota(app, version_id, resource)

    def refuse_always(self, app: App) -> Reason | None:
        """Return why this host gets no job of an app of which it should always have one."""
        held = self._held.get(app.id, 0)
        return explain(Code.HELD_OF_APP, app=app.title, held=held, limit=1) if held else None

    def _refuse_by_quota(self, app: App, version_id: AppVersionId, resource: str) -> Reason | None:
        limits = self._limits
        initial = app.dispatch.max_jobs_per_day_init or limits.daily_quota_init
        record = self.record(version_id, initial)
        processors = self._processors(resource)
        if initial and not record.statistics.elapsed.n and not record.statistics.consecutive_valid:
            # Nothing was found right yet: what a host can waste before anybody notices is bounded here.
            first = app.dispatch.max_jobs_per_day_init or limits.first_jobs or initial
            grown = max(record.max_jobs_per_day / initial, 1.0) ** 2
            held, most = self._held.get(app.id, 0), max(int(first * processors * grown), 1)
            if held >= most:
                return explain(Code.UNPROVEN, app=app.title, held=held, limit=most)
        limit = quota.daily_limit(record, daily_quota=limits.daily_quota, processors=processors)
        if record.n_jobs_today + self._sent.get(version_id, 0) < limit:
            return None
        seconds = quota.seconds_to_next_quota(record, daily_quota=limits.daily_quota, now=self._now)
        hours_left = round(seconds / 3600, 1)
        if not record.bad_results:
            return explain(Code.QUOTA, app=app.title, limit=limit, hours_left=hours_left)
        paused = quota.pause_days(record, limits.daily_quota) > 1
        return explain(
            Code.QUOTA_PAUSED if paused else Code.QUOTA_FAILING,
            app=app.title,
            version=version_id,
            bad=record.bad_results,
            limit=limit,
            hours_left=hours_left,
        )

    def take(self, app: App, version_id: AppVersionId, usage: ResourceUsage, seconds: float) -> None:
        """Count one job of ``seconds`` expected seconds as given."""
        resource = usage.resource
        gpu = resource != CPU
        app_id = app.id
        if not app.dispatch.non_cpu_intensive:
            instances = usage.ngpus if gpu else usage.avg_ncpus
            want = self.wants[resource]
            want.seconds -= seconds * instances
            want.instances -= instances
            want.delay += seconds * instances / want.processors
            if not want.open:
                self.open.discard(resource)
        self.given += 1
        if app.dispatch.max_jobs_per_rpc:
            self._given_of_app[app_id] = self._given_of_app.get(app_id, 0) + 1
        self._held_total += 1
        self._held[app_id] = self._held.get(app_id, 0) + 1
        if gpu:
            self._held_gpu_total += 1
            self._held_gpu[app_id] = self._held_gpu.get(app_id, 0) + 1
        self._sent[version_id] = self._sent.get(version_id, 0) + 1

    def changed_records(self) -> tuple[HostAppVersion, ...]:
        """Return records of the versions that were given, with today's count raised."""
        return tuple(
            changed(self.record(version_id), n_jobs_today=self.record(version_id).n_jobs_today + count)
            for version_id, count in self._sent.items()
        )

    def _processors(self, resource: str) -> float:
        """Processors that a daily quota is multiplied by."""
        if resource == CPU:
            return self.ncpus
        return self._gpus.get(resource, 1) * self._limits.gpu_multiplier

    def _most(self, limits: InProgressLimits, gpu: bool) -> int | None:
        cap: JobCap | None = limits.gpu if gpu else limits.cpu
        if cap is None:
            return None
        if not cap.per_processor:
            return cap.jobs
        return int(cap.jobs * (self._gpu_total if gpu else self.ncpus))

    def _refuse_app(self, limits: InProgressLimits, app: App, resource: str, gpu: bool) -> Reason | None:
        name = app.title
        held = self._held.get(app.id, 0)
        if limits.total is not None and held >= limits.total:
            return explain(Code.HELD_OF_APP, app=name, held=held, limit=limits.total)
        held_gpu = self._held_gpu.get(app.id, 0)
        held = held_gpu if gpu else held - held_gpu
        most = self._most(limits, gpu)
        if most is not None and held >= most:
            return explain(
                Code.HELD_OF_APP_AND_TYPE, app=name, held=held, limit=most, subject="GPU" if gpu else CPU
            )
        return None
