"""The ledger system in the server: prices by batch, provisional credit that is released or taken back, audits, refused jobs.

`LedgerAccounts` is the part of a batch of workunits that concerns one app.  The batch has locked the row of the app, so that
its events follow each other; records, events, entries and the provisional results change in the write that decides the workunits.
`checks_drawn` comes before, in the transitioner: whether others compute a job, too, is drawn when its upload is there.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Mapping, Sequence

from cobblestone.domain.apps import App
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import AppId, AppVersionId, ResultId, UserId, changed, form_of
from cobblestone.domain.work import ExitStatus, Outcome, Result, ValidateState
from cobblestone.policy.credit.claims import CreditUnit
from cobblestone.policy.credit.ledger_credit import LEDGER_RULES
from cobblestone.policy.credit.ledger_system import engine, records, words
from cobblestone.policy.credit.ledger_system.book import LedgerBook, Moves
from cobblestone.policy.lifecycle.states import WorkunitView
from cobblestone.policy.lifecycle.transition import audit_failed, wants_check
from cobblestone.policy.validation.canonical import ValidationDecision
from cobblestone.store.catalog import apps
from cobblestone.store.credit import credit_statistics, ledger, ledger_state
from cobblestone.store.credit.ledger_state import Audit, Escrowed
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import to_json
from cobblestone.store.operation.invariants import look_again

_REFUSED = (Outcome.CLIENT_ERROR, Outcome.VALIDATE_ERROR, Outcome.NO_REPLY, Outcome.CLIENT_DETACHED)


def uses_ledger(app: App) -> bool:
    """Return whether the ledger system grants the credit of an app."""
    return app.credit_system in LEDGER_RULES


def record_key(result: Result) -> records.HostKey:
    """Return the record that a sent result is counted on."""
    usage = f"{result.avg_ncpus:g}" if result.avg_ncpus else ""
    return result.host_id or 0, result.app_version_id or 0, usage


class LedgerAccounts:
    """One app under the ledger system; used for one write, which has locked the app's row."""

    def __init__(
        self, tx: Transaction, app: App, host_ids: Collection[int] | None, *, unit: CreditUnit, now: float
    ) -> None:
        """Read the records of the app and of some hosts (None: all)."""
        self._tx, self._app, self._unit, self._now = tx, app, unit, now
        self._book = ledger_state.read_book(tx, app.id, host_ids, LEDGER_RULES[app.credit_system])
        self._last_event = ledger_state.last_event(tx, app.id)
        self._events: list[records.Event] = []
        self._stored: dict[int, Escrowed] = {}  # provisional results that had to be read, by result, ...
        self._escrow: dict[int, Escrowed] = {}  # ... and what became of them, with new ones
        self._read: set[int] = set()
        self._entries: list[ledger.CreditEntry] = []
        self._revoked: list[tuple[ResultId, Reason, int]] = []
        if not self._book.app.unit:
            factor = credit_statistics.app_statistics(tx, [app.id])[app.id].min_avg_pfc
            self.begin(unit.per_flop * (factor if factor > 0.0 else 1.0))

    def begin(self, per_flop: float) -> None:
        """Take the system, or other rules of it, at this level in credits per estimated FLOP (0: as it was)."""
        self._apply(records.Begun(early_exits=self._book.rules.early_exits, unit=per_flop))

    def leave(self) -> float:
        """Make all provisional credit final, for another system; return the credits per estimated FLOP that it can go on with."""
        self._read_escrow(None)
        self._apply(records.Left())
        return engine.level(self._book.app)

    # ------------------------------------------------------------------ events

    def judged(
        self, view: WorkunitView, decision: ValidationDecision
    ) -> dict[ResultId, records.Price] | None:
        """Return the prices of the valid results of a workunit that was just decided; take what follows for their computers.

        None: nothing was done, as the two computers say that the job was very long, and a third shall have its say.
        """
        valid = [result for result in view.results if result.id in decision.newly_valid]
        reports = tuple(map(_report, valid))
        if engine.third_opinion(self._book.state, _job(view), reports, self._book.rules):
            return None
        drawn = [result for result in valid if result.checks]
        self._read_escrow([result.host_id or 0 for result in drawn])
        quorum = _quorum(view)
        checked = tuple(each.id for each in drawn if not self._under_audit(record_key(each)))
        event = records.JobDecided(job=_job(view), reports=reports, quorum=quorum, checked=checked)
        moves = self._apply(event, *map(self._row, valid))
        for result in view.results:
            agreed = result.id in decision.wrong_together
            # With a quorum of two and more, one that is wrong by itself was refused by the quorum.
            if result.id in decision.newly_invalid and (quorum < 2 or agreed):
                self._read_escrow([result.host_id or 0])
                self._apply(records.CheckFailed(host=record_key(result), agreed=agreed), self._row(result))
        self._refused(view, reports)
        return {ResultId(price.result_id): price for price in moves.prices}

    def settle(self, view: WorkunitView) -> None:
        """Settle what computers did not finish of a job with an answer, and end an audit that failed."""
        valid = [result for result in view.results if result.validate_state is ValidateState.VALID]
        self._refused(view, tuple(map(_report, valid)))
        if audit_failed(view):
            self.audited(view, right=True)

    def _refused(self, view: WorkunitView, reports: Sequence[records.Report]) -> None:
        """Settle what computers did not finish, however that came, with what others say of its size; once for each."""
        refused = [
            result
            for result in view.results
            if result.host_id is not None
            and result.outcome in _REFUSED
            and result.exit_status != ExitStatus.ABORTED_BY_PROJECT
        ]
        before = ledger.settled_before(self._tx, [result.id for result in refused])
        for result in refused:
            of_others = tuple(each for each in reports if each.owner != result.user_id)
            if of_others and result.id not in before:
                key = record_key(result)
                record = self._book.hosts.get(key, records.HostRecord())
                replicated = _quorum(view) > 1 or record.trusted <= self._book.rules.check_scale
                event = records.JobRefused(job=_job(view), host=key, reports=of_others, replicated=replicated)
                self._apply(event, self._row(result))

    def audited(self, view: WorkunitView, *, right: bool) -> None:
        """Take the outcome of an audit: a provisional result was computed again, and found or not."""
        self._read_escrow([result.host_id or 0 for result in view.results])
        for each in list(self._escrow.values()):
            if each.workunit_id == view.workunit.id and each.audit is Audit.ASKED:
                audit = Audit.RIGHT if right else Audit.WRONG
                self._escrow[each.result_id] = changed(each, audit=audit)
                self._end_audit(each)

    def _apply(self, event: records.Event, *about: Escrowed) -> Moves:
        """Apply an event, and keep what it moves; ``about``: results of the computers that it concerns."""
        sources = {row.key: row for row in about}
        for key in sources:
            if (met := _version_met(self._tx, self._book, key)) is not None:
                self._apply(met)
        moves = self._book.apply(event)
        self._events.append(event)
        for result_id in moves.released:
            row = self._escrow.pop(result_id)
            self._enter(row, ledger.RELEASE, 0.0, moves.reasons or (words.RELEASED,))
        for result_id in moves.revoked:
            del self._escrow[result_id]
            self._revoked.append((ResultId(result_id), moves.reasons[0], self._seq))
        for price in moves.prices:
            if price.provisional:
                self._escrow[price.result_id] = changed(
                    sources[price.host], result_id=ResultId(price.result_id), price=price.amount
                )
        for key, amount in moves.settled.items():
            self._enter(sources[key], ledger.SETTLEMENT, amount, moves.reasons or (words.HELD,))
        for key, n in moves.audits.items():
            self._ask_for_audits(sources[key], n)
        return moves

    # ------------------------------------------------------------------ provisional results

    def _read_escrow(self, host_ids: Collection[int] | None) -> None:
        """Read the provisional results of hosts (None: of all) that were not read yet."""
        missing = None if host_ids is None else set(host_ids) - self._read
        if missing is None or missing:
            self._read |= missing or set()
            for row in ledger_state.escrow_of_hosts(self._tx, self._app.id, missing):
                self._stored[row.result_id] = self._escrow[row.result_id] = row
                self._book.escrow.setdefault(row.key, {})[row.result_id] = row.price

    def _rows(self, key: records.HostKey) -> list[Escrowed]:
        return [self._escrow[result_id] for result_id in self._book.escrow.get(key, ())]

    def _under_audit(self, key: records.HostKey) -> bool:
        return any(row.audit is Audit.ASKED for row in self._rows(key))

    def _ask_for_audits(self, source: Escrowed, n: int | None) -> None:
        """Have some of a computer's provisional results (None: all) computed again, drawn now."""
        rows = [row for row in self._rows(source.key) if row.audit is Audit.NO]
        for row in rows if n is None else random.SystemRandom().sample(rows, min(n, len(rows))):
            self._escrow[row.result_id] = changed(row, audit=Audit.ASKED)
            look_again(self._tx, [row.workunit_id], now=self._now)
        self._end_audit(source)

    def _end_audit(self, of: Escrowed) -> None:
        """Let the audit of a computer have its consequence once all that it asked for is decided."""
        if not self._under_audit(of.key):
            rows = self._rows(of.key)
            bad = sum(row.audit is Audit.WRONG for row in rows)
            right = tuple(row.result_id for row in rows if row.audit is Audit.RIGHT)
            self._apply(records.AuditFinished(host=of.key, bad=bad, right=right), of)

    def _row(self, result: Result) -> Escrowed:
        _, version_id, usage = record_key(result)
        owner = result.user_id or UserId(0)
        return form_of(
            Escrowed,
            result,
            result_id=result.id,
            app_version_id=version_id,
            usage=usage,
            user_id=owner,
            price=0.0,
        )

    # ------------------------------------------------------------------ entries

    @property
    def _seq(self) -> int:
        """The number of the newest event."""
        return self._last_event + len(self._events)

    def _enter(self, row: Escrowed, kind: str, amount: float, reasons: tuple[Reason, ...]) -> None:
        facts = {"granted_time": self._now, "event": self._seq, "record": row.key}
        entry = form_of(
            ledger.CreditEntry,
            row,
            system=self._app.credit_system,
            granted=amount,
            unit=self._unit.per_gflops_day,
            work_start=self._now,
            reasons=reasons,
            facts=to_json(facts),
            kind=kind,
        )
        self._entries.append(entry)

    def save(self) -> None:
        """Write everything, after the grants: a computer never owes more than it has."""
        tx, app_id = self._tx, self._app.id
        ledger_state.save_book(tx, app_id, self._book)
        ledger_state.save_events(tx, app_id, self._events, after=self._last_event, now=self._now)
        ledger_state.change_escrow(tx, self._stored, self._escrow)
        ledger.settle(tx, self._entries, now=self._now)
        for result_id, why, event in self._revoked:
            ledger.revoke(tx, result_id, why, event=event, now=self._now)


def _job(view: WorkunitView) -> records.Job:
    return records.Job(estimate=view.workunit.limits.rsc_fpops_est)


def _quorum(view: WorkunitView) -> int:
    """Return how many results the job asked for before checks were drawn."""
    return view.workunit.rules.min_quorum - max((result.checks for result in view.results), default=0)


def _report(result: Result) -> records.Report:
    """Return what a result says; more run time than passed since it was sent is not believed."""
    run_time = result.elapsed_time
    if result.sent_time and result.received_time:
        run_time = min(run_time, max(0.0, result.received_time - result.sent_time))
    return records.Report(
        result_id=result.id,
        host=record_key(result),
        owner=result.user_id or 0,
        run_time=_finite(run_time),
        speed=_finite(result.peak_flops),
    )


def _finite(figure: float) -> float:
    return figure if abs(figure) < 1e300 else 0.0


def _version_met(db: Database, book: LedgerBook, key: records.HostKey) -> records.VersionMet | None:
    """Return what a record begins with that is not there yet: that of the newest earlier version, with the same usage."""
    if key in book.hosts:
        return None
    others = {each[1] for each in book.hosts if each[0] == key[0] and each[2] == key[2]}
    version = apps.version_by_id(db, AppVersionId(key[1])) if others else None
    earlier = apps.earlier_versions(db, version) if version is not None else ()
    before = max(((number, id_) for id_, number in earlier if id_ in others), default=None)
    return None if before is None else records.VersionMet(host=key, before=(key[0], before[1], key[2]))


# -- checks ---------------------------------------------------------------------------------------------


def checks_drawn(
    db: Database, views: Sequence[WorkunitView], found_apps: Mapping[AppId, App], *, secret: bytes
) -> list[WorkunitView]:
    """Return workunits with the checks that are drawn for uploads which complete a quorum now, in their order."""
    uploads = {
        view.workunit.id: ids
        for view in views
        if uses_ledger(found_apps[view.workunit.app_id]) and (ids := wants_check(view))
    }
    complete = [view for view in views if view.workunit.id in uploads]
    hosts = {result.host_id or 0 for view in complete for result in view.results}
    books = {
        id_: ledger_state.read_book(db, id_, hosts, LEDGER_RULES[found_apps[id_].credit_system])
        for id_ in {view.workunit.app_id for view in complete}
    }
    found = list(views)
    for place, view in enumerate(views):
        if ids := uploads.get(view.workunit.id):
            sent = [result for result in view.results if result.id in ids]
            checks = _checks(db, view, sent, books[view.workunit.app_id], secret=secret)
            found[place] = changed(view, checks=checks)
    return found


def _checks(
    db: Database, view: WorkunitView, uploads: Sequence[Result], book: LedgerBook, *, secret: bytes
) -> int:
    """Draw how many further results check the uploads."""
    known: dict[ResultId, records.HostRecord] = {}
    for result in uploads:
        key = record_key(result)
        if (met := _version_met(db, book, key)) is not None:
            book.apply(met)
        known[result.id] = book.hosts.get(key, records.HostRecord())
    draw = draw_of(secret, min(known, key=lambda id_: known[id_].trusted))
    quorum, more = view.workunit.rules.min_quorum, 0
    for record in known.values():
        size = engine.relative_size(book.app, record, _job(view))
        decision = engine.decide_check(record, book.rules, quorum=quorum, draw=draw, size=size)
        more = max(more, decision.replicas)
    return more


def draw_of(secret: bytes, result_id: int) -> float:
    """Return the number in [0, 1) that is drawn for an upload: the same for the same one, and no one else can compute it."""
    digest = hashlib.blake2b(f"check {result_id}".encode(), key=secret[:64], digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2.0**53
