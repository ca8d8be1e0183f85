"""From the validator's decisions to ledger entries, statistics and host quality.

A batch reads each shared row once, goes through its workunits one by one, each seeing what the one before it taught, and
writes each shared row once.  All of it happens inside the validator's one write, so that several validators add to what
the rows hold by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cobblestone.domain.apps import App, generalised_on_gpu, is_generalised
from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.ids import AppId, AppVersionId, HostId, ResultId, WorkunitId
from cobblestone.domain.states import AssimilateState, ValidateState
from cobblestone.domain.work import Result
from cobblestone.ops.settings import CreditSection
from cobblestone.policy.credit import host_quality
from cobblestone.policy.credit.claims import (
    AppStatistics,
    PlatformKind,
    StatisticIncrements,
    VersionStatistics,
)
from cobblestone.policy.credit.cobblestone import CreditUnit
from cobblestone.policy.credit.increments import app_after, host_version_after, version_after
from cobblestone.policy.credit.system import (
    ClaimInput,
    GrantOutcome,
    Statistics,
    WorkunitFacts,
    grant_straggler,
    grant_workunit,
)
from cobblestone.policy.dispatch.plan_class import is_gpu_class
from cobblestone.policy.dispatch.quota import bad_after_failure, bad_after_valid, quota_after_valid
from cobblestone.policy.lifecycle.effects import WorkunitView
from cobblestone.policy.validation.canonical import ValidationDecision
from cobblestone.server.core.offer import OfferCache
from cobblestone.server.credit.systems import find_system
from cobblestone.store.credit import credit_statistics, ledger
from cobblestone.store.credit.credit_facts import GrantFacts, write_facts
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts

Decided = Sequence[tuple[WorkunitView, ValidationDecision]]
RecordKey = tuple[HostId, AppVersionId]


class GrantBook:
    """All that the credit of a batch of workunits depends on and changes.  Lives for one write."""

    def __init__(
        self,
        tx: Transaction,
        views: Sequence[WorkunitView],
        *,
        offers: OfferCache,
        settings: CreditSection,
        daily_quota: int,
        assigned: Mapping[ResultId, float] | None = None,
        now: float,
    ) -> None:
        """``assigned``: what the project's own function gave to results."""
        self._tx = tx
        self._assigned = assigned or {}
        self._now = now
        self._unit = CreditUnit(settings.per_gflops_day)
        self._max_granted = settings.max_granted
        self._daily_quota = daily_quota
        catalogue = offers.get(tx).catalogue
        self._apps = catalogue.apps
        results = [
            result
            for view in views
            for result in view.results
            if result.host_id is not None and result.app_version_id is not None
        ]
        keys = {key_of(result) for result in results}
        versions = sorted({key[1] for key in keys if not is_generalised(key[1])})
        app_ids = sorted({view.workunit.app_id for view in views})
        self._hosts = hosts.qualities(tx, keys)
        tx.lock("app_version", versions)
        tx.lock("app", app_ids)
        self._processors = hosts.processors(tx, sorted({key[0] for key in keys}))
        self._statistics = credit_statistics.app_statistics(tx, app_ids)
        self._versions = credit_statistics.version_statistics(tx, versions)
        self._gpu = {
            version.id: is_gpu_class(version.plan_class, catalogue.plan_classes)
            for of_app in catalogue.versions.values()
            for version in of_app
        }
        self._changed_hosts: set[RecordKey] = set()
        self._changed_versions: set[AppVersionId] = set()
        self._changed_apps: set[AppId] = set()
        self._entries: list[ledger.CreditEntry] = []
        self._wrong: list[ResultId] = []
        self._canonical: dict[WorkunitId, float] = {}

    # ------------------------------------------------------------------ one workunit

    def decide(self, view: WorkunitView, decision: ValidationDecision) -> None:
        """Grant what a decision makes due, learn from it, and judge the hosts."""
        if decision.newly_valid:
            app = self._apps.get(view.workunit.app_id)
            # What nobody else computed proves nothing about the host: it must not earn the trust that spares checks.
            replicated = app is None or not app.dispatch.adaptive or view.workunit.rules.min_quorum > 1
            for outcome, facts in self._outcomes(view, decision):
                for fact in facts:
                    key = (fact.result.host_id, fact.result.app_version_id)
                    self._judge_valid(key, replicated=replicated)
                late = view.workunit.assimilate_state is AssimilateState.DONE
                if not outcome.pending or late:
                    self._enter(view, outcome, facts)
                if decision.newly_canonical:
                    self._canonical[view.workunit.id] = outcome.canonical_credit
        if decision.newly_invalid or decision.unusable:
            self._judge_wrong(view, decision)

    def pay(self, view: WorkunitView, amounts: dict[ResultId, float]) -> None:
        """Grant credit after assimilation: ``amounts`` are what the project's function gave to results."""
        valid = [result for result in view.results if result.validate_state is ValidateState.VALID]
        canonical = view.workunit.canonical_result_id
        self._assigned = {result.id: amounts.get(result.id, 0.0) for result in valid}
        inputs = [self._claim_input(result, canonical=result.id == canonical) for result in valid]
        if inputs:
            outcome, facts = self._grant(view, inputs)
            self._enter(view, outcome, facts)
            self._canonical[view.workunit.id] = outcome.canonical_credit

    def _enter(self, view: WorkunitView, outcome: GrantOutcome, facts: list[GrantFacts]) -> None:
        """Learn, and write the entries.  Always both, and in one order: so the ledger proves the statistics too."""
        self._learn(view.workunit.app_id, outcome.increments)
        self._entries += entries_of(view, outcome, facts)

    def save(self) -> None:
        """Write everything that changed."""
        tx = self._tx
        ledger.grant(tx, self._entries, now=self._now)
        ledger.take_back_provisional(tx, self._wrong, now=self._now)
        ledger.set_canonical_credit(tx, self._canonical)
        hosts.save_qualities(tx, ((key, self._hosts[key]) for key in sorted(self._changed_hosts)))
        credit_statistics.save_version_statistics(
            tx, {id_: self._versions[id_] for id_ in sorted(self._changed_versions)}
        )
        credit_statistics.save_app_statistics(
            tx, {id_: self._statistics[id_] for id_ in sorted(self._changed_apps)}
        )

    # ------------------------------------------------------------------ claims

    def _outcomes(
        self, view: WorkunitView, decision: ValidationDecision
    ) -> Iterator[tuple[GrantOutcome, list[GrantFacts]]]:
        """What is due, one after the other: each straggler sees what the one before taught."""
        valid = [result for result in view.results if result.id in decision.newly_valid]
        canonical = decision.canonical_id
        if decision.newly_canonical:
            yield self._grant(
                view, [self._claim_input(result, canonical=result.id == canonical) for result in valid]
            )
        else:
            for result in valid:
                one = self._claim_input(result, canonical=result.id == canonical)
                yield self._grant(view, [one], straggler=True)

    def _grant(
        self, view: WorkunitView, inputs: list[ClaimInput], *, straggler: bool = False
    ) -> tuple[GrantOutcome, list[GrantFacts]]:
        app = self._apps[view.workunit.app_id]
        system = find_system(app.credit_system)
        workunit = workunit_facts(view, app)
        app_statistics = self._statistics.get(app.id, AppStatistics())
        statistics = Statistics(app=app_statistics, versions=self._versions)
        if straggler:
            outcome = grant_straggler(
                system,
                workunit,
                inputs[0],
                statistics,
                canonical_credit=view.workunit.canonical_credit,
                unit=self._unit,
                max_granted=self._max_granted,
                now=self._now,
            )
        else:
            outcome = grant_workunit(
                system,
                workunit,
                inputs,
                statistics,
                unit=self._unit,
                max_granted=self._max_granted,
                now=self._now,
            )
        facts = [
            GrantFacts(
                result=one,
                workunit=workunit,
                app=app_statistics,
                version=self._versions.get(one.app_version_id, VersionStatistics()),
                max_granted=self._max_granted,
                straggler=straggler,
                canonical_credit=view.workunit.canonical_credit,
            )
            for one in inputs
        ]
        return outcome, facts

    def _claim_input(self, result: Result, *, canonical: bool) -> ClaimInput:
        host_id, version_id = key_of(result)
        processors = self._processors.get(host_id, hosts.Processors())
        anonymous = is_generalised(version_id)
        return ClaimInput(
            result_id=result.id,
            host_id=host_id,
            app_version_id=version_id,
            platform=PlatformKind.ANONYMOUS if anonymous else PlatformKind.NORMAL,
            is_gpu=generalised_on_gpu(version_id) if anonymous else self._gpu.get(version_id, False),
            canonical=canonical,
            elapsed_time=result.elapsed_time,
            cpu_time=result.cpu_time,
            sent_time=result.sent_time or self._now,
            received_time=result.received_time or self._now,
            peak_flops=result.peak_flops,
            ncpus=float(processors.p_ncpus),
            p_fpops=processors.p_fpops,
            p_iops=processors.p_iops,
            fpops_counted=result.fpops_counted,
            intops_counted=result.intops_counted,
            trickle_credit=result.granted_credit,  # before the grant it is all from messages
            outlier=result.outlier,
            claimed_credit=self._assigned.get(result.id, result.claimed_credit),
            host_version=self._hosts[host_id, version_id].statistics,
        )

    # ------------------------------------------------------------------ what is learned

    def _learn(self, app_id: AppId, increments: StatisticIncrements) -> None:
        for host in increments.host_versions:
            key = (host.host_id, host.app_version_id)
            quality = self._hosts[key]
            quality.statistics = host_version_after(quality.statistics, host)
            self._changed_hosts.add(key)
        for version in increments.versions:
            version_id = version.app_version_id
            before = self._versions.get(version_id)
            if before is not None:
                self._versions[version_id] = version_after(before, version)
                self._changed_versions.add(version_id)
        if increments.app is not None and app_id in self._statistics:
            self._statistics[app_id] = app_after(self._statistics[app_id], increments.app)
            self._changed_apps.add(app_id)

    def _judge_valid(self, key: RecordKey, *, replicated: bool) -> None:
        """A result was found valid.  Comes before learning, so that a suspicion outlives the result that raised it."""
        quality = self._hosts[key]
        quality.statistics = host_quality.after_valid(
            quality.statistics, replicated=replicated, now=self._now
        )
        quality.max_jobs_per_day = quota_after_valid(quality.max_jobs_per_day, self._daily_quota)
        quality.bad_results = bad_after_valid(quality.bad_results, self._daily_quota)
        self._changed_hosts.add(key)

    def _judge_wrong(self, view: WorkunitView, decision: ValidationDecision) -> None:
        for result in view.results:
            if result.id in decision.newly_invalid or result.id in decision.unusable:
                key = key_of(result)
                quality = self._hosts[key]
                quality.statistics = host_quality.after_invalid(quality.statistics)
                quality.bad_results = bad_after_failure(
                    quality.bad_results, quality.n_jobs_today, self._daily_quota
                )
                self._changed_hosts.add(key)
                if result.granted_credit > 0.0:  # by messages while it ran
                    self._wrong.append(result.id)


def key_of(result: Result) -> RecordKey:
    """Host and app version (or generalised id) of a result that was sent."""
    if result.host_id is None or result.app_version_id is None:
        raise PolicyViolation(f"{result.name} was judged but never sent to a host.")
    return result.host_id, result.app_version_id


def workunit_facts(view: WorkunitView, app: App) -> WorkunitFacts:
    """What credit systems may know of a job."""
    workunit = view.workunit
    return WorkunitFacts(
        rsc_fpops_est=workunit.limits.rsc_fpops_est,
        rsc_fpops_bound=workunit.limits.rsc_fpops_bound,
        fixed_credit=workunit.fixed_credit or app.fixed_credit,
    )


def entries_of(
    view: WorkunitView, outcome: GrantOutcome, facts: Iterable[GrantFacts]
) -> list[ledger.CreditEntry]:
    """Ledger entries of an outcome; ``facts`` in the order of its results."""
    results: dict[ResultId, Result] = {result.id: result for result in view.results}
    entries: list[ledger.CreditEntry] = []
    for share, fact in zip(outcome.results, facts, strict=True):
        result = results[share.result_id]
        if result.host_id is None or result.user_id is None:
            raise PolicyViolation(f"{result.name} is valid but belongs to nobody.")
        entries.append(
            ledger.CreditEntry(
                result_id=result.id,
                workunit_id=view.workunit.id,
                host_id=result.host_id,
                user_id=result.user_id,
                app_version_id=result.app_version_id,
                system=outcome.system,
                claimed=share.claimed,
                granted=share.granted,
                unit=outcome.unit.per_gflops_day,
                work_start=result.sent_time or 0.0,
                reasons=share.reasons,
                facts=write_facts(fact),
            )
        )
    return entries
