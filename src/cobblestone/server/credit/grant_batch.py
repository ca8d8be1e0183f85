"""Convert the validator's decisions to ledger entries, statistics and host quality.

A batch reads each shared row once, lets the book (`cobblestone.policy.credit.book`) go through its workunits one by one, each
seeing what the one before it taught, and writes each shared row once.  All of it happens inside the validator's one write, so
that several validators add to what the rows hold by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from cobblestone.domain.apps import App, generalised_on_gpu, is_generalised
from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import AppVersionId, HostId, ResultId, changed, form_of
from cobblestone.domain.work import AssimilateState, CreditOfRows, Result, ValidateState
from cobblestone.policy.credit.book import BookEntry, CreditBook, GrantTerms, RecordKey, ResultsJudged
from cobblestone.policy.credit.claims import ClaimInput, CreditUnit, PlatformKind, WorkunitFacts
from cobblestone.policy.credit.ledger_system.records import Price
from cobblestone.policy.dispatch.limits import bad_after_failure, bad_after_valid, quota_after_valid
from cobblestone.policy.dispatch.versions import is_gpu_class
from cobblestone.policy.lifecycle.states import WorkunitView
from cobblestone.policy.validation.canonical import ValidationDecision, wait_for_third
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import OfferCache
from cobblestone.server.credit.ledger_accounts import LedgerAccounts, uses_ledger
from cobblestone.server.credit.systems import find_system
from cobblestone.store.credit import credit_statistics, ledger, ledger_state
from cobblestone.store.credit.credit_facts import write_facts
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts


class GrantBatch:
    """The credit of a batch of workunits.  Used for one write."""

    def __init__(
        self,
        ctx: ServerContext,
        tx: Transaction,
        views: Sequence[WorkunitView],
        *,
        assigned: Mapping[ResultId, float] | None = None,
        now: float,
    ) -> None:
        """Start a batch; ``assigned``: credit that the project's own function gave to results."""
        settings = ctx.settings
        self._tx = tx
        self._assigned = dict(assigned or {})
        self._now = now
        self._unit = CreditUnit(settings.credit.per_gflops_day)
        self._max_granted = settings.credit.max_granted
        self._daily_quota = settings.scheduler.daily_result_quota
        self._catalogue = ctx.offers.get(tx).catalogue
        self._apps = self._catalogue.apps
        self._book = CreditBook()
        self._prices: dict[ResultId, Price] = {}
        self._load(ctx.offers, views)
        self._judged: set[RecordKey] = set()
        self._entries: list[ledger.CreditEntry] = []
        self._wrong: list[ResultId] = []

    def _load(self, offers: OfferCache, views: Sequence[WorkunitView]) -> None:
        """Read all rows that the batch may change, locked."""
        tx, book = self._tx, self._book
        keys = {
            key_of(result)
            for view in views
            for result in view.results
            if result.host_id is not None and result.app_version_id is not None
        }
        versions = sorted({key[1] for key in keys if not is_generalised(key[1])})
        app_ids = sorted({view.workunit.app_id for view in views})
        host_ids = sorted({key[0] for key in keys})
        tx.lock("host", host_ids)
        tx.lock("app_version", versions)
        tx.lock("app", app_ids)
        if any(uses_ledger(self._apps[id_]) and ledger_state.has_left(tx, id_) for id_ in app_ids):
            offers.invalidate()  # another process has changed the system, and this one has not heard of it yet
            self._apps = offers.get(tx).catalogue.apps
        tx.ask_ahead(
            partial(hosts.records, keys=keys),
            partial(hosts.processors, host_ids=host_ids),
            partial(credit_statistics.version_statistics, version_ids=versions),
            partial(credit_statistics.app_statistics, app_ids=app_ids),
        )
        self._records = hosts.records(tx, keys)
        self._processors = hosts.processors(tx, host_ids)
        by_work = any(getattr(find_system(self._apps[id_].credit_system), "votes", False) for id_ in app_ids)
        self._computers = hosts.computers_of_owners(tx, host_ids) if by_work else {}
        book.hosts = {key: record.statistics for key, record in self._records.items()}
        book.versions = credit_statistics.version_statistics(tx, versions)
        book.apps = credit_statistics.app_statistics(tx, app_ids)
        book.canonical_credit = {view.workunit.id: view.workunit.canonical_credit for view in views}
        self._accounts = {
            id_: LedgerAccounts(tx, self._apps[id_], host_ids, unit=self._unit, now=self._now)
            for id_ in app_ids
            if uses_ledger(self._apps[id_])
        }

    # ------------------------------------------------------------------ one workunit

    def decide(
        self, view: WorkunitView, decision: ValidationDecision
    ) -> tuple[WorkunitView, ValidationDecision]:
        """Grant the credit due after a decision, learn from it, and judge the hosts.

        Return the workunit, which may have provisional credit now, and the decision, which may be to wait for more.
        """
        accounts = self._accounts.get(view.workunit.app_id)
        if accounts is not None and decision.newly_canonical:
            prices = accounts.judged(view, decision)
            if prices is None:
                decision = wait_for_third(view, decision, now=self._now)
            else:
                self._prices |= prices
                self._assigned |= {id_: price.amount for id_, price in prices.items()}
                view = changed(view, in_escrow=any(price.provisional for price in prices.values()))
        elif accounts is not None and decision.audit is not None:
            accounts.audited(view, right=decision.audit)
        valid = [result for result in view.results if result.id in decision.newly_valid]
        wrong = [
            result
            for result in view.results
            if result.id in decision.newly_invalid or result.id in decision.unusable
        ]
        late = not decision.newly_canonical
        # each straggler learns of the one before
        for group in [[result] for result in valid] if late else [valid]:
            self._apply(
                view,
                valid=[self._claim_input(one, canonical=one.id == decision.canonical_id) for one in group],
                verdicts=[(key_of(one), True) for one in group],
                straggler=late,
            )
        if wrong:
            self._apply(view, verdicts=[(key_of(one), False) for one in wrong])
        for result in valid:
            self._judge_valid(key_of(result))
        for result in wrong:
            self._judge_wrong(result)
        return view, decision

    def settle(self, view: WorkunitView) -> None:
        """Under the ledger system: settle what computers did not finish of a job with an answer, and an audit that failed."""
        self._accounts[view.workunit.app_id].settle(view)

    def pay(self, view: WorkunitView, amounts: dict[ResultId, float]) -> None:
        """Grant credit after assimilation: ``amounts`` are from the project's function."""
        valid = [result for result in view.results if result.validate_state is ValidateState.VALID]
        self._assigned = {result.id: amounts.get(result.id, 0.0) for result in valid}
        canonical = view.workunit.canonical_result_id
        inputs = [self._claim_input(one, canonical=one.id == canonical) for one in valid]
        self._apply(view, valid=inputs, assimilated=True)

    def _apply(
        self,
        view: WorkunitView,
        *,
        valid: Sequence[ClaimInput] = (),
        verdicts: Sequence[tuple[RecordKey, bool]] = (),
        straggler: bool = False,
        assimilated: bool = False,
    ) -> None:
        """Record the findings in the book, and keep its entries."""
        workunit, app = view.workunit, self._apps[view.workunit.app_id]
        terms = GrantTerms(
            system=find_system(app.credit_system), unit=self._unit, max_granted=self._max_granted
        )
        event = ResultsJudged(
            terms=terms,
            app_id=app.id,
            workunit_id=workunit.id,
            workunit=workunit_facts(view, app),
            valid=valid,
            verdicts=verdicts,
            replicated=not app.dispatch.adaptive or workunit.rules.min_quorum > 1,
            straggler=straggler,
            amounts_known=assimilated or workunit.assimilate_state is AssimilateState.DONE,
            now=self._now,
        )
        results = {result.id: result for result in view.results}
        for entry in self._book.apply(event):
            price = self._prices.get(entry.credit.result_id)
            self._entries.append(
                ledger_entry(
                    results[entry.credit.result_id],
                    entry,
                    system=terms.system.name,
                    unit=terms.unit,
                    why=() if price is None else price.reasons,
                    kind=ledger.ESCROW if price is not None and price.provisional else ledger.GRANT,
                )
            )

    def save(self) -> CreditOfRows:
        """Write all changes except the returned ones, which are for callers that write rows of results and workunits anyway."""
        tx, book = self._tx, self._book
        fresh = ledger.enter(tx, self._entries, now=self._now)
        ledger.take_back_provisional(tx, self._wrong, now=self._now)
        for accounts in self._accounts.values():
            accounts.save()
        hosts.save_records(tx, self._changed_records())
        credit_statistics.save_version_statistics(
            tx, {id_: book.versions[id_] for id_ in sorted(book.changed.versions)}
        )
        credit_statistics.save_app_statistics(tx, {id_: book.apps[id_] for id_ in sorted(book.changed.apps)})
        return CreditOfRows(
            results=ledger.credit_of_results(fresh),
            workunits={id_: book.canonical_credit[id_] for id_ in book.changed.canonical_credit},
        )

    def _changed_records(self) -> Iterator[HostAppVersion]:
        for key in sorted(self._judged | self._book.changed.hosts):
            yield changed(self._records[key], statistics=self._book.hosts[key])

    def _claim_input(self, result: Result, *, canonical: bool) -> ClaimInput:
        host_id, version_id = key_of(result)
        processors = self._processors.get(host_id, hosts.Processors())
        return form_of(
            ClaimInput,
            result,
            processors,
            result_id=result.id,
            host_id=host_id,
            app_version_id=version_id,
            platform=PlatformKind.ANONYMOUS if is_generalised(version_id) else PlatformKind.NORMAL,
            is_gpu=self._on_gpu(version_id),
            canonical=canonical,
            sent_time=result.sent_time or self._now,
            received_time=result.received_time or self._now,
            ncpus=float(processors.p_ncpus),
            trickle_credit=result.granted_credit,  # before the grant it is all from messages
            claimed_credit=self._assigned.get(result.id, result.claimed_credit),
            host_age=max(0.0, self._now - processors.known_since),
            owner_computers=self._computers.get(host_id, 1),
        )

    def _on_gpu(self, version_id: AppVersionId) -> bool:
        if is_generalised(version_id):
            return generalised_on_gpu(version_id)
        version = self._catalogue.version_of.get(version_id)
        return version is not None and is_gpu_class(version.plan_class, self._catalogue.plan_classes)

    # ------------------------------------------------------------------ daily quota

    def _judge_valid(self, key: RecordKey) -> None:
        record = self._records[key]
        quota = quota_after_valid(record.max_jobs_per_day, self._daily_quota)
        bad = bad_after_valid(record.bad_results, self._daily_quota)
        if quota != record.max_jobs_per_day or bad != record.bad_results:
            self._records[key] = changed(record, max_jobs_per_day=quota, bad_results=bad)
        self._judged.add(key)

    def _judge_wrong(self, result: Result) -> None:
        key = key_of(result)
        record = self._records[key]
        bad = bad_after_failure(record.bad_results, record.n_jobs_today, self._daily_quota)
        self._records[key] = changed(record, bad_results=bad)
        self._judged.add(key)
        if result.granted_credit > 0.0:  # by messages while it ran
            self._wrong.append(result.id)


def key_of(result: Result) -> tuple[HostId, AppVersionId]:
    """Return host and app version (or generalised id) of a sent result."""
    if result.host_id is None or result.app_version_id is None:
        raise PolicyViolation(f"{result.name} was judged but never sent to a host.")
    return result.host_id, result.app_version_id


def workunit_facts(view: WorkunitView, app: App) -> WorkunitFacts:
    """Return the facts about a job that credit systems may use."""
    workunit = view.workunit
    return form_of(WorkunitFacts, workunit.limits, fixed_credit=workunit.fixed_credit or app.fixed_credit)


def ledger_entry(
    result: Result, entry: BookEntry, *, system: str, unit: CreditUnit, why: Sequence[Reason] = (), kind: str
) -> ledger.CreditEntry:
    """Return the book's entry with the names of those who get the credit; ``why``: reasons before its own.

    Raises:
        PolicyViolation: the result was never sent to anybody.
    """
    if result.host_id is None or result.user_id is None:
        raise PolicyViolation(f"{result.name} is valid but has no owner.")
    return form_of(
        ledger.CreditEntry,
        entry.credit,
        entry,
        result,
        system=system,
        unit=unit.per_gflops_day,
        reasons=(*why, *entry.credit.reasons),
        facts=write_facts(entry.facts),
        kind=kind,
    )
