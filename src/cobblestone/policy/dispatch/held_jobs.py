"""Jobs that a host should have and does not, and jobs that it has and that are no longer wanted.

Results that the host should have, but does not: the reply was lost, or the client's state was.

They are sent again under the same name when they are still needed and can be done in time, and time out at
once otherwise.

Source: BOINC's ``sched_resend.cpp`` (facts). Difference: the deadline is stated once and explicitly: the old
one, or a full new delay bound when the job cannot make the old one any more.

Jobs on a client that are not wanted any more.

Source: BOINC's ``sched_resend.cpp`` and ``handle_request.cpp`` (facts).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from functools import cache

from cobblestone.domain.hosts import CPU
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import HostId, ResultId, value
from cobblestone.domain.work import AssimilateState, Outcome, Result, ServerState, WorkunitError
from cobblestone.policy.dispatch.budget import Budget
from cobblestone.policy.dispatch.catalogue import Assignment, Candidate, Catalogue, ResourceUsage, job_seconds
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.match import VersionChooser, address_space
from cobblestone.policy.dispatch.request import WorkRequest


@value(kw_only=True)
class LostResult:
    """A lost result with what is needed to send it again."""

    candidate: Candidate
    report_deadline: float  #: Unix seconds, as the client was told (no grace period)
    error_mask: WorkunitError = WorkunitError.NONE
    has_canonical_result: bool = False


@value(kw_only=True)
class ExpiredResult:
    """A lost result that is not sent again: it times out at once."""

    result_id: ResultId
    result_name: str
    reason: Reason


@value(kw_only=True)
class LostDecision:
    """The decision about lost results."""

    resent: tuple[Assignment, ...] = ()
    expired: tuple[ExpiredResult, ...] = ()


def resend_lost(
    request: WorkRequest,
    lost: Sequence[LostResult],
    catalogue: Catalogue,
    *,
    limits: DispatchLimits,
    now: float,
    rng: random.Random,
) -> LostDecision:
    """Decide which lost results are sent again.  When any is, the reply carries no new work.

    Neither daily quota nor caps apply: the host was given these results before.
    """
    resending = _Resending(request, catalogue, limits, now, rng)
    resent: list[Assignment] = []
    expired: list[ExpiredResult] = []
    for each in lost:
        answer = resending.judge(each)
        if isinstance(answer, Assignment):
            resent.append(answer)
        else:
            candidate = each.candidate
            expired.append(
                ExpiredResult(result_id=candidate.result_id, result_name=candidate.result_name, reason=answer)
            )
    return LostDecision(resent=tuple(resent), expired=tuple(expired))


class _Resending:
    """Keeps count of disk and queue while results are sent again."""

    def __init__(
        self,
        request: WorkRequest,
        catalogue: Catalogue,
        limits: DispatchLimits,
        now: float,
        rng: random.Random,
    ) -> None:
        self._request = request
        self._catalogue = catalogue
        self._limits = limits
        self._now = now
        self._budget = Budget(request, limits, now)
        self._chooser = VersionChooser(request, catalogue, limits, self._budget, rng, limited=False, now=now)
        self._delays = {name: max(each.estimated_delay, 0.0) for name, each in request.resources.items()}
        self._address_space = address_space(request.host.description.os_name)
        # Neither caps nor quota count here, so jobs that are alike get the same answer.
        self._choose = cache(self._chooser.choose)

    def judge(self, lost: LostResult) -> Assignment | Reason:
        candidate = lost.candidate
        job = candidate.limits
        unneeded = self._unneeded(lost)
        if unneeded is not None:
            return unneeded
        match = self._choose(
            candidate.app_id,
            committed=candidate.app_version_id,
            needs_64_bit=job.rsc_memory_bound > self._address_space,
        )
        if isinstance(match, tuple):
            return match[0] if match else reason("lost_no_app", "The app is no longer in use.")
        if job.rsc_memory_bound > self._request.ram_bytes or job.rsc_disk_bound > self._budget.disk_left:
            return reason("lost_infeasible", "The computer has too little memory or disk for it now.")
        usage = match.usage
        seconds = job_seconds(job.rsc_fpops_est, usage.flops, match.available)
        deadline = self._deadline(lost, usage.resource, seconds)
        if deadline is None:
            return reason("lost_too_late", "It could no longer be finished in time.")
        self._budget.disk_left -= job.rsc_disk_bound
        self._queue(usage, seconds)
        return Assignment(
            candidate=candidate,
            version=match.version,
            platform=match.platform,
            usage=usage,
            report_deadline=deadline,
            estimated_seconds=seconds,
        )

    def _unneeded(self, lost: LostResult) -> Reason | None:
        if lost.has_canonical_result:
            return reason("lost_unneeded", "Its workunit already has an answer.")
        if lost.error_mask:
            return reason("lost_failed", "Its workunit has failed or was cancelled.")
        app = self._catalogue.apps.get(lost.candidate.app_id)
        preferences = self._request.preferences
        selected = preferences.selected_apps
        if app is not None and selected and app.id not in selected and not preferences.allow_non_preferred:
            return reason("lost_not_selected", "Its app is no longer selected in the project preferences.")
        if app is not None and app.beta and not preferences.allow_beta:
            return reason("lost_not_selected", "The project preferences exclude test applications now.")
        return None

    def _deadline(self, lost: LostResult, resource: str, seconds: float) -> float | None:
        """Unix seconds; None when the job cannot be done in time."""
        delay = self._delays.get(resource, 0.0)
        if not self._limits.check_deadline or self._now + delay + seconds <= lost.report_deadline:
            return max(lost.report_deadline, self._now)
        bound = lost.candidate.limits.delay_bound
        # As with new work, a host with nothing queued may have one job, however slow it is.
        return self._now + bound if delay == 0 or delay + seconds <= bound else None

    def _queue(self, usage: ResourceUsage, seconds: float) -> None:
        resource = usage.resource
        want = self._budget.wants.get(resource)
        processors = want.processors if want is not None else (self._budget.ncpus if resource == CPU else 1.0)
        instances = usage.ngpus if usage.gpu_type else usage.avg_ncpus
        self._delays[resource] = self._delays.get(resource, 0.0) + seconds * instances / processors


class Abort(Enum):
    """The message to the client about a job it holds."""

    NO = "no"
    IF_NOT_STARTED = "if_not_started"
    ALWAYS = "always"


@value(kw_only=True)
class HeldJob:
    """What the server knows of a job that the client lists."""

    result: Result
    error_mask: WorkunitError = WorkunitError.NONE
    assimilate_state: AssimilateState = AssimilateState.INIT


def judge_held_job(job: HeldJob | None, *, host_id: HostId) -> Abort:
    """Decide whether host ``host_id`` shall abort a job that it lists; None: the server knows of no such job.

    A job that no one needs is aborted only before it starts: once it runs, its volunteer gets credit for it.
    Jobs that this very request reports must not be judged.
    """
    if job is None or job.result.host_id != host_id:
        return Abort.ALWAYS
    result = job.result
    timed_out = result.server_state == ServerState.OVER and result.outcome == Outcome.NO_REPLY
    if result.server_state != ServerState.IN_PROGRESS and not timed_out:
        return Abort.ALWAYS
    if WorkunitError.CANCELLED in job.error_mask:
        return Abort.ALWAYS
    if job.assimilate_state == AssimilateState.DONE or timed_out:
        return Abort.IF_NOT_STARTED
    return Abort.NO
