"""Work fetch with hysteresis (today's clients): start asking below the minimal buffer, then fill to the
total, per device type.

Source: BOINC's ``work_fetch`` of today.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.values import float_sum, value
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import ClientJob, PlannedFetch
from cobblestone.policy.client.core.values import CPU, FetchRequest
from cobblestone.policy.client.estimates import DCF_TRUSTED
from cobblestone.policy.client.recent.concurrency import ProjectLimits
from cobblestone.policy.client.recent.rec import Devices, priority
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook

MIN_BUFFER = 180.0
MAX_RUNNABLE = 1000


@dataclass(slots=True, kw_only=True)
class DeviceFetchProject:
    """The attributes of one project that work fetch uses."""

    share: float
    rec: float
    supplies: frozenset[str]  #: device types (empty text = CPU) for which it has apps that are allowed
    contactable: bool = True
    suspended: bool = False
    no_new_work: bool = False
    group: int = 0  #: projects of a higher group come first
    non_cpu_intensive: bool = False  #: it keeps one job that uses next to no CPU
    first_contact: bool = False  #: it has never been in contact
    backed_off: frozenset[str] = frozenset()  #: types for which it had nothing lately
    deferred: frozenset[str] = frozenset()  #: types of which a job has put itself off
    runnable: int = 0
    held: int = 0  #: all its unfinished jobs
    waiting: int = 0  #: of them, those that do not run
    uploading: int = 0
    fetches_on_update: bool = False  #: the volunteer wants a contact, and work with it
    uploads_young: bool = False  #: an upload has begun a short time ago: the next contact can report it too
    dcf: float = 1.0
    queued_flops: float = 0.0  #: of all its jobs, remaining
    queued_instances: dict[str, float] = field(default_factory=dict[str, float])
    queued_seconds: dict[str, float] = field(default_factory=dict[str, float])  #: instance-seconds
    blocked: bool = False
    limits: ProjectLimits = ProjectLimits()


@value(kw_only=True)
class FetchSettings:
    """Settings for all projects."""

    buffer_min: float
    buffer_total: float
    minimal: bool = False  #: one job per device at a time


def queued_work(
    jobs: Iterable[ClientJob], devices: Devices
) -> tuple[float, dict[str, float], dict[str, float]]:
    """Return what jobs will need, without those that always run: seconds times peak speed, and by device type the instances
    that they would take all at once and the instance-seconds.
    """
    needs: dict[tuple[float, str, float], list[float]] = {}
    for job in jobs:
        if not job.always_runs:
            needs.setdefault((job.cpus, job.gpu, job.gpus), []).append(job.remaining)
    flops = 0.0
    instances: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for (cpus, gpu, gpus), remaining in needs.items():
        use, total = gpus if gpu else cpus, float_sum(remaining)
        instances[gpu] = instances.get(gpu, 0.0) + use * len(remaining)
        seconds[gpu] = seconds.get(gpu, 0.0) + use * total
        flops += total * devices.job_peak(cpus=cpus, gpu=gpu, gpus=gpus)
    return flops, instances, seconds


def plan_device_fetch(
    projects: Sequence[DeviceFetchProject],
    outlook: RoundRobinOutlook,
    *,
    devices: Devices,
    settings: FetchSettings,
) -> PlannedFetch:
    """Return the next request; its reasons name projects by their positions.

    Projects are asked in order of group and priority, which queued work lowers; the first that can supply a type
    below the minimal buffer is asked for that type and for every other type that no project before it could
    supply.  Projects that keep a single job come before all.
    """
    return _Fetch(projects, outlook, devices, settings).plan()


class _Fetch:
    def __init__(
        self,
        projects: Sequence[DeviceFetchProject],
        outlook: RoundRobinOutlook,
        devices: Devices,
        settings: FetchSettings,
    ) -> None:
        self.projects, self.outlook, self.devices, self.settings = projects, outlook, devices, settings
        self.low = max(MIN_BUFFER, settings.buffer_min)
        self.total = max(1.0, settings.buffer_total)
        self.biggest = max([devices.ncpus, *(g.count for g in devices.gpus)])
        share_sum = float_sum(p.share for p in projects)
        rec_sum = float_sum(p.rec for p in projects) or 1.0
        peak = self.total * devices.peak
        scores = [
            priority(p.rec, p.share, share_sum, rec_sum) - (p.queued_flops / peak if peak > 0 else 0.0)
            for p in projects
        ]
        self.order = sorted(range(len(projects)), key=lambda i: (-projects[i].group, -scores[i]))

    def plan(self) -> PlannedFetch:
        for i, p in enumerate(self.projects):
            if p.non_cpu_intensive and not p.held and self._ruled_out(p) is None:
                only = {CPU: self._told(CPU, 1.0)}
                return PlannedFetch(i, only, why=(why("fetch.non_cpu_intensive", project=i),))
        others = self._others()
        needed = {kind for kind, d in self.outlook.devices.items() if d.saturated < self.low}
        if not needed:
            return PlannedFetch(others=others, why=(why("fetch.busy"),))
        reasons: list[Why] = []
        claimed: set[str] = set()
        for i in self.order:
            p = self.projects[i]
            no = self._ruled_out(p)
            if no is None and p.uploads_young and not any(self._idle(kind) for kind in needed):
                no = "fetch.uploading"
            if no is not None:
                uploading = {"uploading": p.uploading} if no == "fetch.uploads" else {}
                reasons.append(why(no, project=i, **uploading))
                continue
            able = self._able(i)
            now = able - p.backed_off
            if not now & needed:
                claimed |= now
                reasons.append(why("fetch.nothing", project=i))
                continue
            wanted = {k for k in able if k not in claimed and self.outlook.devices[k].saturated < self.total}
            reasons.append(why("fetch.first", project=i))
            others.pop(i, None)
            requests = {k: self._request(i, k) for k in sorted(wanted)}
            return PlannedFetch(i, requests, others, tuple(reasons))
        return PlannedFetch(others=others, why=tuple(reasons))

    def _others(self) -> dict[int, dict[str, FetchRequest]]:
        """Return what each project is asked for if it is contacted anyway: what no project before it could supply, or what it can
        if the volunteer wants that.
        """
        found: dict[int, dict[str, FetchRequest]] = {}
        claimed: set[str] = set()
        for i in self.order:
            p = self.projects[i]
            if self._ruled_out(p) is not None:
                continue
            able = self._able(i) - p.backed_off
            free = able if p.fetches_on_update else able - claimed
            wanted = {k for k in free if self.outlook.devices[k].saturated < self.total}
            if wanted:
                found[i] = {k: self._request(i, k) for k in sorted(wanted)}
            claimed |= able
        return found

    def _ruled_out(self, p: DeviceFetchProject) -> str | None:
        if p.suspended:
            return "fetch.suspended"
        if p.no_new_work:
            return "fetch.no_new_work"
        if p.blocked:
            return "fetch.blocked"
        if p.uploading > 2 * self.biggest:
            return "fetch.uploads"
        if p.runnable > MAX_RUNNABLE:
            return "fetch.runnable"
        return None if p.contactable else "fetch.not_contactable"

    def _idle(self, kind: str) -> bool:
        return self.outlook.devices[kind].idle_now > 0.0

    def _able(self, i: int) -> set[str]:
        """Return the device types for which a project may have useful work."""
        p = self.projects[i]
        if p.non_cpu_intensive:
            return set()
        kinds = {k for k in p.supplies if k in self.outlook.devices} - p.deferred
        if p.share <= 0.0:
            kinds = {k for k in kinds if self._idle(k) or self.outlook.devices[k].saturated < MIN_BUFFER}
        return {k for k in kinds if self._useful(i, k)}

    def _useful(self, i: int, kind: str) -> bool:
        """Tell whether more jobs of a device type could be run, as the volunteer's limits are."""
        p, device = self.projects[i], self.outlook.devices[kind]
        usable = p.limits.usable_count(self.devices, kind)
        if usable == 0:
            return False
        if p.limits.limited:
            if self.outlook.limit_shortfalls.get((i, kind), 0.0) <= 0.0:
                return False
            if p.share <= 0.0 and p.waiting:
                return False  # a backup project is asked for what can start now
        excluded = usable < device.instances
        enough = p.queued_seconds.get(kind, 0.0) > self.low * usable
        return not (excluded and p.queued_instances.get(kind, 0.0) >= usable and enough)

    def _told(self, kind: str, seconds: float, instances: float = 0.0) -> FetchRequest:
        """Return a request with the seconds until a job sent now could start."""
        return FetchRequest(seconds, instances, self.outlook.devices[kind].busy)

    def _request(self, i: int, kind: str) -> FetchRequest:
        p, device = self.projects[i], self.outlook.devices[kind]
        usable = p.limits.usable_count(self.devices, kind)
        if p.share <= 0.0:
            return self._told(kind, 1.0, max(1.0, min(device.idle_now, float(usable))))
        if self.settings.minimal:
            return self._told(kind, 1.0, float(usable))
        if p.first_contact:
            return self._told(kind, 1.0)
        seconds = device.shortfall
        if not DCF_TRUSTED[0] <= p.dcf <= DCF_TRUSTED[1]:
            seconds = 1.0
        if p.limits.limited:
            # what its limit lets it use, and no more: idle instances beyond it are for others
            return self._told(kind, self.outlook.limit_shortfalls.get((i, kind), 0.0))
        seconds *= usable / device.instances
        fair = min(device.instances * self._part(i, kind), usable) - p.queued_instances.get(kind, 0.0)
        instances = min(max(device.idle_now, fair, 0.0), float(usable))
        if instances > 0.0 and seconds <= 0.0:
            seconds = 1.0
        return self._told(kind, seconds, instances)

    def _part(self, i: int, kind: str) -> float:
        """Return a project's part of the shares of those that can be asked for a device type."""
        sharing = float_sum(
            q.share
            for q in self.projects
            if kind in q.supplies and self._ruled_out(q) is None and kind not in q.backed_off
        )
        return self.projects[i].share / sharing if sharing > 0 else 1.0
