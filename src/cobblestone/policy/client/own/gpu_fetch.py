"""Fetch of work for GPUs, and of jobs that always run: by today's rules, but no more than can be in time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cobblestone.policy.client.core.state import ClientJob, CoreState, PlannedFetch
from cobblestone.policy.client.core.values import CPU, FetchRequest
from cobblestone.policy.client.estimates import DCF_MIN
from cobblestone.policy.client.own.cautious_fetch import PART_OF_BOUND
from cobblestone.policy.client.own.memory import OwnMemory
from cobblestone.policy.client.published.work_fetch import FETCH_PERIOD, TROUBLE_PERIOD, FetchPreferences
from cobblestone.policy.client.recent.packing import Packing
from cobblestone.policy.client.recent.round_robin import DeviceOutlook
from cobblestone.policy.client.recent.state import explained, fetch_project, first_supplier_of, gpu_available
from cobblestone.policy.client.recent.work_fetch import MIN_BUFFER, FetchSettings, plan_device_fetch


def fetch_for_gpus(
    state: CoreState, memory: OwnMemory, packing: Packing, prefs: FetchPreferences
) -> PlannedFetch | None:
    """Return whom to ask for work that is not for CPUs alone, and bring the next look forward; None if there is no such work."""
    kinds = frozenset(gpu.name for gpu in packing.devices.gpus)
    if not kinds and not any(p.description.non_cpu_intensive for p in state.projects):
        return None
    low = max(MIN_BUFFER, prefs.buffer_min)
    cpus = DeviceOutlook(prefs.ncpus, saturated=math.inf)  # they have a plan of their own
    outlook = replace(packing.outlook, devices={**packing.outlook.devices, CPU: cpus})
    uploading = state.uploading()
    plan = plan_device_fetch(
        [
            fetch_project(
                state, i, supplies=kinds, rec=memory.credit.recs[i], dcf=1.0,
                devices=packing.devices, limits=packing.limits[i], uploading=uploading[i],
            )
            for i in range(len(state.projects))
        ],
        outlook,
        devices=packing.devices,
        settings=FetchSettings(
            buffer_min=low,
            buffer_total=max(low, prefs.buffer_total),
            minimal=state.preferences.fetch_minimal_work,
        ),
    )  # fmt: skip

    first = plan.project
    requests = {} if first is None else _in_time(state, memory, packing, first, plan.requests)
    others = {i: _in_time(state, memory, packing, i, each) for i, each in plan.others.items()}
    # where no one can be asked nothing helps but an event, or a wait that ends
    wait = FETCH_PERIOD if requests else TROUBLE_PERIOD
    saturated = min([outlook.devices[kind].saturated for kind in kinds], default=low)
    wait = max(wait, 0.9 * gpu_available(state) * (saturated - low))
    look = max(state.now + wait, state.next_contact(state.now), first_supplier_of(state, kinds))
    state.next_fetch = min(state.next_fetch, look)
    found = PlannedFetch(first if requests else None, requests, others, plan.why)
    return explained(state, found)


def _in_time(
    state: CoreState, memory: OwnMemory, packing: Packing, i: int, requests: Mapping[str, FetchRequest]
) -> dict[str, FetchRequest]:
    """Return a project's requests for GPU work, no larger than what can be in time."""
    found: dict[str, FetchRequest] = {}
    devices = packing.outlook.devices
    for kind, request in requests.items():
        fitting = gpu_request_in_time(
            request,
            [job for job in state.jobs if job.project == i and job.gpu == kind],
            instances=packing.limits[i].usable_count(packing.devices, kind),
            idle=devices[kind].idle_now if kind in devices else 0.0,
            available=gpu_available(state),
            told=memory.dcf[i],
        )
        if fitting is not None:
            found[kind] = fitting
    return found


def gpu_request_in_time(
    request: FetchRequest,
    jobs: Sequence[ClientJob],
    *,
    instances: float,
    idle: float,
    available: float,
    told: float,
) -> FetchRequest | None:
    """Return a request for GPU work that brings no more than can be done well before its deadline, None for nothing.

    ``jobs``: those of the project for this type of GPU, of which it may use so many ``instances``; if there are none, what
    to expect is not known and one for each idle instance will do; ``idle`` ones get a job in any case.  ``told``: the
    correction factor that the project is told, by which it multiplies its estimates, whatever it should be for GPU jobs.
    """
    estimated = math.fsum([job.raw for job in jobs])
    if request.seconds <= 1.0 or estimated <= 0.0:
        return request._replace(seconds=min(request.seconds, 1.0))
    bound = min([job.report_deadline - job.received for job in jobs])
    held = math.fsum([job.remaining * job.gpus for job in jobs])
    most = PART_OF_BOUND * bound * available * instances - held
    correction = math.fsum([job.done + job.remaining for job in jobs]) / estimated
    seconds = min(request.seconds, most) * told / max(correction, DCF_MIN)
    if seconds <= 0.0 and idle <= 0.0:
        return None
    return request._replace(seconds=max(1.0, seconds), instances=min(request.instances, idle))
