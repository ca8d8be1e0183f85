"""The results that a request gets where there is little to choose: one app, one version for all hosts, CPUs alone.

It is `choose_work` without what has no meaning there, in a third of its time.  What a host may hold, how fast it is and how
long a job takes is said by the rules' own functions; a test compares the choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from cobblestone.domain.apps import AppVersion
from cobblestone.domain.hosts import CPU, HostAppVersion
from cobblestone.domain.values import WorkunitId, changed
from cobblestone.domain.work import JobLimits
from cobblestone.policy.dispatch import limits as quota
from cobblestone.policy.dispatch.budget import Want, bounded_ncpus
from cobblestone.policy.dispatch.catalogue import (
    Assignment,
    Candidate,
    Catalogue,
    ResourceUsage,
    availability,
    job_seconds,
    projected_flops,
)
from cobblestone.policy.dispatch.choose import FIRST_LOOK, LONGEST_LOOK
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import WorkRequest
from cobblestone.policy.dispatch.versions import sequential_usage


def choose_alike(
    request: WorkRequest,
    candidates: Iterable[Candidate],
    catalogue: Catalogue,
    *,
    job: JobLimits,
    limits: DispatchLimits,
    already_at_host: Callable[[Sequence[WorkunitId]], AbstractSet[WorkunitId]],
    now: float,
) -> tuple[list[Assignment], HostAppVersion | None]:
    """Return what `choose_work` assigns, and the host's record if it changes.

    All ``candidates`` have the limits ``job``; they are read exactly as far as there.
    """
    ((app_id, (version,)),) = catalogue.versions.items()
    ncpus = bounded_ncpus(request.usable_ncpus, limits, request.preferences)
    want = Want(request.resources[CPU], ncpus)
    if not want.open:
        return [], None
    known = request.records.get(version.id)
    record = quota.for_today(
        known or HostAppVersion(host_id=request.host.id, app_version_id=version.id),
        daily_quota=limits.daily_quota,
        initial=limits.daily_quota_init,
        now=now,
    )
    left = _jobs_left(record, request.in_progress.get(app_id, 0), ncpus, limits)
    usage = _usage(request, catalogue, version, known)
    seconds = job_seconds(job.rsc_fpops_est, usage.flops, availability(request.host.description))
    most = max(math.floor(limits.max_jobs_per_rpc * ncpus), 1) if limits.max_jobs_per_rpc else math.inf
    given: list[Assignment] = []
    taken: set[WorkunitId] = set()

    def passes(candidate: Candidate) -> bool:
        if len(given) >= left or candidate.workunit_id in taken:
            return False
        # a host with nothing queued always gets one job
        return want.delay <= 0 or not limits.check_deadline or want.delay + seconds <= job.delay_bound

    for chunk in _chunks(candidates, passes):
        at_host = already_at_host([each.workunit_id for each in chunk])
        for each in chunk:
            if each.workunit_id in at_host or (taken and not passes(each)):
                continue
            taken.add(each.workunit_id)
            given.append(
                Assignment(
                    candidate=each,
                    version=version,
                    platform=request.platforms[0],
                    usage=usage,
                    report_deadline=now + job.delay_bound,
                    estimated_seconds=seconds,
                )
            )
            want.seconds -= seconds
            want.instances -= 1.0
            want.delay += seconds / want.processors
            if not want.open or len(given) >= most:
                return given, _after(record, given)
    return given, _after(record, given)


def _jobs_left(record: HostAppVersion, held: int, ncpus: float, limits: DispatchLimits) -> float:
    """Return how many jobs the host's quota leaves."""
    initial, reference = limits.daily_quota_init, limits.daily_quota
    first = limits.first_jobs or initial
    most = quota.unproven_limit(record, initial=initial, first=first, processors=ncpus)
    today = quota.daily_limit(record, daily_quota=reference, processors=ncpus) - record.n_jobs_today
    return today if most is None else min(most - held, today)


def _usage(
    request: WorkRequest, catalogue: Catalogue, version: AppVersion, known: HostAppVersion | None
) -> ResourceUsage:
    usage = sequential_usage(request.host.description, catalogue.population, version.command_line)
    mean = catalogue.peak_flop_counts.get(version.id)
    flops = projected_flops(usage, cpu_flops=usage.flops, record=known, version_mean=mean)
    return usage if flops == usage.flops else changed(usage, flops=flops)


def _chunks(
    candidates: Iterable[Candidate], passes: Callable[[Candidate], bool]
) -> Iterator[list[Candidate]]:
    """Yield candidates that pass, as many together as `choose_work` looks up."""
    look, chunk = FIRST_LOOK, list[Candidate]()
    for candidate in candidates:
        if passes(candidate):
            chunk.append(candidate)
            if len(chunk) >= look:
                yield chunk
                chunk = []
                look = min(4 * look, LONGEST_LOOK)
    if chunk:
        yield chunk


def _after(record: HostAppVersion, given: Sequence[Assignment]) -> HostAppVersion | None:
    return changed(record, n_jobs_today=record.n_jobs_today + len(given)) if given else None
