"""Work fetch with hysteresis (today's clients): start asking below the minimal buffer, then fill to the
total, per device type.

Source: BOINC's ``work_fetch`` of today.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cobblestone.policy.client.concurrency import ProjectLimits
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.device_round_robin import Outlook
from cobblestone.policy.client.estimates import DCF_TRUSTED
from cobblestone.policy.client.rec import priority

MIN_BUFFER = 180.0
MAX_RUNNABLE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """What one device type is asked for."""

    seconds: float  #: instance-seconds
    instances: float


@dataclass(slots=True, kw_only=True)
class DeviceFetchProject:
    """What work fetch looks at in one project."""

    share: float
    rec: float
    supplies: frozenset[str]  #: device types (empty text = CPU) for which it has apps
    contactable: bool = True
    backed_off: frozenset[str] = frozenset()  #: types for which it had nothing lately
    runnable: int = 0
    uploading: int = 0
    dcf: float = 1.0
    queued_flops: float = 0.0  #: of all its jobs, remaining
    queued_instances: dict[str, float] = field(default_factory=dict[str, float])
    queued_seconds: dict[str, float] = field(default_factory=dict[str, float])  #: instance-seconds
    blocked: bool = False
    limits: ProjectLimits = ProjectLimits()


@dataclass(frozen=True, slots=True)
class DeviceFetchPlan:
    """Whom to ask for what, and why (``project`` is None: nobody)."""

    project: int | None
    requests: dict[str, DeviceRequest]
    reasons: tuple[Why, ...] = ()


def plan_device_fetch(
    projects: Sequence[DeviceFetchProject],
    outlook: Outlook,
    *,
    ncpus: int,
    total_peak: float,
    buffer_min: float,
    buffer_total: float,
    fetch_share_by_type: bool = True,
) -> DeviceFetchPlan:
    """Return the next request.

    Projects are asked in order of priority, which queued work lowers; the first that can supply a type
    below the minimal buffer is asked for that type and for every other type that nobody before it could
    supply.
    """
    low = max(MIN_BUFFER, buffer_min)
    total = max(1.0, buffer_total)
    share_sum = sum(p.share for p in projects)
    rec_sum = sum(p.rec for p in projects) or 1.0
    scores = [
        priority(p.rec, p.share, share_sum, rec_sum)
        - (p.queued_flops / (total * total_peak) if total_peak > 0 else 0.0)
        for p in projects
    ]
    order = sorted(range(len(projects)), key=lambda i: -scores[i])
    needed = {kind for kind, d in outlook.devices.items() if d.saturated < low}
    reasons: list[Why] = []
    if not needed:
        return DeviceFetchPlan(
            None,
            {},
            (why("fetch.busy"),),
        )
    claimed: set[str] = set()
    for i in order:
        p = projects[i]
        no = _ruled_out(p, ncpus)
        if no is None and p.share <= 0.0:
            able = {
                k for k in p.supplies if k in outlook.devices and outlook.devices[k].saturated < MIN_BUFFER
            }
        else:
            able = {k for k in p.supplies if _useful(p, i, k, outlook, low)}
        if no is not None:
            reasons.append(why(no, project=i))
            continue
        open_kinds = able - p.backed_off
        if not open_kinds & needed:
            claimed |= open_kinds
            reasons.append(why("fetch.nothing", project=i))
            continue
        wanted = {k for k in able if k not in claimed and outlook.devices[k].saturated < total}
        requests = {k: _request(projects, i, k, outlook, fetch_share_by_type) for k in sorted(wanted)}
        reasons.append(why("fetch.first", project=i))
        return DeviceFetchPlan(i, requests, tuple(reasons))
    return DeviceFetchPlan(None, {}, tuple(reasons))


def _ruled_out(p: DeviceFetchProject, ncpus: int) -> str | None:
    if p.blocked:
        return "fetch.blocked"
    if p.uploading > 2 * ncpus:
        return "fetch.uploads"
    if p.runnable > MAX_RUNNABLE:
        return "fetch.runnable"
    return None if p.contactable else "fetch.not_contactable"


def _useful(p: DeviceFetchProject, i: int, kind: str, outlook: Outlook, low: float) -> bool:
    """Whether more jobs of a device type could be run for the project, as the volunteer's limits are."""
    device = outlook.devices.get(kind)
    if device is None:
        return False
    usable = p.limits.usable(kind, device.instances)
    if usable == 0:
        return False
    if p.limits.limited and outlook.limit_shortfalls.get((i, kind), 0.0) <= 0.0:
        return False
    excluded = usable < device.instances
    enough = p.queued_seconds.get(kind, 0.0) > low * usable
    return not (excluded and p.queued_instances.get(kind, 0.0) >= usable and enough)


def _request(
    projects: Sequence[DeviceFetchProject], i: int, kind: str, outlook: Outlook, by_share: bool
) -> DeviceRequest:
    p = projects[i]
    device = outlook.devices[kind]
    if p.share <= 0.0:
        return DeviceRequest(seconds=1.0, instances=1.0)
    seconds = device.shortfall
    if not DCF_TRUSTED[0] <= p.dcf <= DCF_TRUSTED[1]:
        seconds = 1.0
    if p.limits.limited:
        # what its limit lets it use, and no more: idle instances beyond it are for others
        return DeviceRequest(seconds=outlook.limit_shortfalls.get((i, kind), 0.0), instances=0.0)
    usable = p.limits.usable(kind, device.instances)
    seconds *= usable / device.instances
    sharing = sum(
        q.share for q in projects if kind in q.supplies and q.contactable and kind not in q.backed_off
    )
    part = p.share / sharing if by_share and sharing > 0 else 1.0
    fair = min(device.instances * part, usable) - p.queued_instances.get(kind, 0.0)
    instances = min(max(device.idle_now, fair, 0.0), float(usable))
    if instances > 0.0 and seconds <= 0.0:
        seconds = 1.0
    return DeviceRequest(seconds=seconds, instances=instances)
