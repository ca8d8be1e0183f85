"""New work for one request: choose, claim, and update the host's records of app versions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import AppVersionId, WorkunitId, changed
from cobblestone.domain.work import ExitStatus, Outcome
from cobblestone.policy.credit import host_records
from cobblestone.policy.credit.credit_new import DeployedSystem, inherited_version
from cobblestone.policy.dispatch.catalogue import Assignment, Candidate, Catalogue, DispatchDecision
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.limits import DispatchLimits, is_throttled
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.dispatch.request import WorkRequest
from cobblestone.policy.dispatch.status import host_status
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import Offer
from cobblestone.server.core.roles import Role
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts
from cobblestone.store.work import dispatch
from cobblestone.store.work.candidates import candidates_of_results
from cobblestone.store.work.reserve import Reserve


def record_after_report(
    record: HostAppVersion, accepted: AcceptedReport, *, delay_bound: float, now: float
) -> HostAppVersion:
    """Return the record after a report: a lost job raises the error rate and ends the trust in the credit scale."""
    if accepted.outcome is not Outcome.CLIENT_ERROR or accepted.exit_status == ExitStatus.ABORTED_BY_PROJECT:
        return record
    quality = host_records.after_failure(record.statistics, delay_bound=delay_bound, now=now)
    return changed(record, statistics=quality)


def records_after_sending(
    tx: Transaction,
    unsaved: dict[AppVersionId, HostAppVersion],
    records: Sequence[HostAppVersion],
    sent: Sequence[Assignment],
    request: WorkRequest,
    catalogue: Catalogue,
    *,
    now: float,
) -> None:
    """Add records of the sent versions to ``unsaved``: with what an earlier one taught, and a new probation time."""
    longest: dict[AppVersionId, float] = {}
    for assignment in sent:
        id_ = assignment.version.id
        longest[id_] = max(longest.get(id_, 0.0), assignment.candidate.limits.delay_bound)
    for record in records:
        known = _inherited(tx, unsaved, record, sent, request, catalogue, now=now)
        after = host_records.after_sending(
            known.statistics, delay_bound=longest.get(known.app_version_id, 0.0), now=now
        )
        unsaved[known.app_version_id] = changed(known, statistics=after)


def _inherited(
    tx: Transaction,
    unsaved: dict[AppVersionId, HostAppVersion],
    record: HostAppVersion,
    sent: Sequence[Assignment],
    request: WorkRequest,
    catalogue: Catalogue,
    *,
    now: float,
) -> HostAppVersion:
    """As the deployed system has it, a new version takes over the host's record of the one before."""
    if record.app_version_id in request.records or not request.records or request.anonymous:
        return record
    version = next((each.version for each in sent if each.version.id == record.app_version_id), None)
    if version is None or catalogue.apps[version.app_id].credit_system != DeployedSystem().name:
        return record
    earlier = inherited_version(
        (id_, number) for id_, number in apps.earlier_versions(tx, version) if id_ in request.records
    )
    if earlier is None:
        return record
    hosts.remove_record(tx, record.host_id, earlier)
    unsaved.pop(earlier, None)
    ledger.note_inheritance(tx, record.host_id, earlier=earlier, later=record.app_version_id, now=now)
    return changed(record, statistics=request.records[earlier].statistics)


CLAIM_ATTEMPTS = 3


class WorkSender:
    """Sends new work to one host; used for one write."""

    def __init__(
        self,
        ctx: ServerContext,
        offer: Offer,
        limits: DispatchLimits,
        rng: random.Random,
        tx: Transaction,
        request: WorkRequest,
        *,
        now: float,
    ) -> None:
        self._ctx = ctx
        self._offer = offer
        self._limits = limits
        self._rng = rng
        self._tx = tx
        self._request = request
        self._now = now

    def send(self, unsaved: dict[AppVersionId, HostAppVersion]) -> tuple[DispatchDecision, list[Assignment]]:
        """Choose results and claim them; return the last decision, and what was claimed.

        ``unsaved``: the host's records that its caller will store, to which those that change now are added.
        """
        self._ctx.candidates.set_slice(*self._ctx.processes.rank(Role.SCHEDULER))
        decision = self._choose()
        claimed = self._claim(decision)
        for _ in range(CLAIM_ATTEMPTS - 1):
            if claimed or not decision.assignments:
                break
            decision = self._choose()
            claimed = self._claim(decision)
        records_after_sending(
            self._tx, unsaved, decision.records, claimed, self._request, self._offer.catalogue, now=self._now
        )
        refusals = dispatch.with_bad_counted(self._tx, self._request.host.id, decision.refusals)
        return changed(decision, refusals=refusals), claimed

    def problems_of_host(self) -> tuple[Reason, ...]:
        """Return the problems of a host that gets tasks of some apps, but not of others."""
        limits, records = self._limits, self._request.records.values()
        if not any(is_throttled(record, limits.daily_quota) for record in records):
            return ()
        host = self._request.host
        status = host_status(host, records, self._offer.catalogue, limits=limits, now=self._now)
        return dispatch.with_bad_counted(self._tx, host.id, status.problems)

    def _choose(self) -> DispatchDecision:
        tx, request, queue = self._tx, self._request, self._ctx.candidates
        host, reserve = request.host, Reserve.of(tx)

        def at_user(workunit_ids: Sequence[WorkunitId]) -> set[WorkunitId]:
            if request.in_browser:
                return dispatch.workunits_closed_to_browser(tx, host.user_id, host.id, workunit_ids)
            return reserve.at(workunit_ids, host.user_id, host=False, queue=queue.workunits())

        def at_host(workunit_ids: Sequence[WorkunitId]) -> set[WorkunitId]:
            # A host belongs to one user, so the other look-up says it all when that rule is on.
            if self._limits.one_result_per_user_per_wu:
                return set()
            return reserve.at(workunit_ids, host.id, host=True, queue=queue.workunits())

        return choose_work(
            request,
            chain(queue.targeted(tx, host, request.team_id), queue.scan(tx)),
            self._offer.catalogue,
            limits=self._limits,
            already_at_user=at_user,
            already_at_host=at_host,
            now=self._now,
            rng=self._rng,
        )

    def _claim(self, decision: DispatchDecision) -> list[Assignment]:
        """Claim the chosen results; return those that succeeded."""
        host = self._request.host
        claimed = dispatch.claim(
            self._tx,
            decision.assignments,
            host_id=host.id,
            user_id=host.user_id,
            grace_period=self._ctx.settings.scheduler.grace_period,
            one_result_per_user=self._limits.one_result_per_user_per_wu,
            in_browser=self._request.in_browser,
            now=self._now,
        )
        got = {assignment.candidate.result_id for assignment in claimed}
        for assignment in decision.assignments:
            if assignment.candidate.result_id in got:
                self._ctx.candidates.sent(assignment.candidate)
            else:
                self._look_again(assignment.candidate)
        return claimed

    def _look_again(self, candidate: Candidate) -> None:
        """Give up a result: its workunit is committed to other hosts, or another process has it."""
        fresh = candidates_of_results(self._tx, [candidate.result_id]).get(candidate.result_id)
        if fresh is not None and (fresh.hr_class, fresh.app_version_id) != (
            candidate.hr_class,
            candidate.app_version_id,
        ):
            self._ctx.candidates.replace(fresh)
        else:
            self._ctx.candidates.remove(candidate.result_id, claimed=False)
