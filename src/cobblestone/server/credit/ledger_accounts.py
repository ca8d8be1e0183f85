"""The ledger system in the server: prices by batch, provisional credit that is released or taken back, audits, refused jobs.

`LedgerAccounts` is the part of a batch of workunits that concerns one app.  The batch has locked the row of the app, so that
its events follow each other; records, events, entries and the provisional results change in the write that decides the workunits.
`checks_drawn` comes before, in the transitioner: whether others compute a job, too, is drawn when its upload is there.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Mapping, Sequence

from cobblestone.domain.apps import App, is_generalised
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, changed, form_of
from cobblestone.domain.work import ExitStatus, Outcome, Result, ValidateState
from cobblestone.policy.credit.claims import CreditUnit
from cobblestone.policy.credit.ledger_book import LEDGER_RULES, AppBook, Begun, Happening, Left, Moves
from cobblestone.policy.credit.ledger_system import engine
from cobblestone.policy.credit.ledger_system.records import (
    AuditFinished,
    CheckFailed,
    HostKey,
    HostRecord,
    Job,
    JobDecided,
    JobRefused,
    Price,
    Report,
)
from cobblestone.policy.lifecycle.states import WorkunitView
from cobblestone.policy.lifecycle.transition import wants_check
from cobblestone.policy.validation.canonical import ValidationDecision
from cobblestone.store.catalog import apps
from cobblestone.store.credit import credit_statistics, ledger, ledger_state
from cobblestone.store.credit.ledger_state import Audit, Escrowed, StoredEvent
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation.invariants import look_again

_REFUSED = (Outcome.CLIENT_ERROR, Outcome.VALIDATE_ERROR, Outcome.NO_REPLY, Outcome.CLIENT_DETACHED)


def uses_ledger(app: App) -> bool:
    """Return whether the ledger system grants the credit of an app."""
    return app.credit_system in LEDGER_RULES


def record_key(result: Result) -> HostKey:
    """Return the record that a sent result is counted on."""
    usage = f"{result.avg_ncpus:g}" if result.avg_ncpus else ""
    return result.host_id or 0, result.app_version_id or 0, usage


def refused_results(view: WorkunitView, timed_out: Collection[ResultId] = ()) -> list[Result]:
    """Return the results of a workunit that their computers did not finish, however that came."""
    return [
        result
        for result in view.results
        if result.host_id is not None
        and (
            result.id in timed_out
            or (result.outcome in _REFUSED and result.exit_status != ExitStatus.ABORTED_BY_PROJECT)
        )
    ]


class LedgerAccounts:
    """One app under the ledger system; used for one write, which has locked the app's row."""

    def __init__(
        self, tx: Transaction, app: App, host_ids: Collection[int] | None, *, unit: CreditUnit, now: float
    ) -> None:
        """Read the records of the app and of some hosts (None: all)."""
        self._tx, self._app, self._unit, self._now = tx, app, unit, now
        self._book = AppBook(rules=LEDGER_RULES.get(app.credit_system))
        known = ledger_state.read_records(tx, app.id, host_ids, self._book)
        self._seq = ledger_state.last_event(tx, app.id)
        self._escrow: dict[
            int, Escrowed
        ] = {}  # of computers whose provisional results had to be read, and new ones
        self._read: set[int] = set()
        self._events: list[StoredEvent] = []
        self._new: list[Escrowed] = []
        self._ended: list[int] = []
        self._audits: dict[int, Audit] = {}
        self._entries: list[ledger.CreditEntry] = []
        self._revoked: list[tuple[int, Reason, dict[str, object]]] = []
        if not known:
            factor = credit_statistics.app_statistics(tx, [app.id])[app.id].min_avg_pfc
            self.begin(unit.per_flop * (factor if factor > 0.0 else 1.0))

    def begin(self, per_flop: float, granted: Sequence[tuple[float, float]] = ()) -> None:
        """Take the system, or other rules of it, at the level of what was ``granted``: (credit, estimate) of results."""
        self._apply(Begun(system=self._app.credit_system, unit=per_flop, granted=tuple(granted)))

    def leave(self) -> float:
        """Make all provisional credit final, for another system; return the credits per estimated FLOP that it can go on with."""
        self._read_escrow(None)
        self._apply(Left())
        return engine.level(self._book.app)

    # ------------------------------------------------------------------ events

    def judged(self, view: WorkunitView, decision: ValidationDecision) -> dict[ResultId, Price] | None:
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
        event = JobDecided(
            job=_job(view),
            reports=reports,
            quorum=quorum,
            checked=tuple(each.id for each in drawn if not self._under_audit(record_key(each))),
        )
        moves = self._apply(event, *valid)
        for result in view.results:
            agreed = result.id in decision.wrong_together
            # With a quorum of two and more, one that is wrong by itself was refused by the quorum.
            if result.id in decision.newly_invalid and (quorum < 2 or agreed):
                self._read_escrow([result.host_id or 0])
                self._apply(CheckFailed(host=record_key(result), agreed=agreed), result)
        self.refused(view, refused_results(view), reports)
        return {ResultId(price.result_id): price for price in moves.prices}

    def refused(
        self, view: WorkunitView, results: Sequence[Result], reports: Sequence[Report] | None = None
    ) -> None:
        """Settle jobs that computers did not finish, with what others say of their size (None: valid ones); once for each."""
        if not results:
            return
        if reports is None:
            reports = [_report(each) for each in view.results if each.validate_state is ValidateState.VALID]
        before = ledger.settled_before(self._tx, [result.id for result in results])
        for result in results:
            of_others = tuple(each for each in reports if each.owner != result.user_id)
            if of_others and result.id not in before:
                key = record_key(result)
                record = self._book.hosts.get(key, HostRecord())
                replicated = _quorum(view) > 1 or record.trusted <= self._book.rules.check_scale
                self._apply(
                    JobRefused(job=_job(view), host=key, reports=of_others, replicated=replicated), result
                )

    def audited(self, view: WorkunitView, *, right: bool) -> None:
        """Take the outcome of an audit: a provisional result was computed again, and found or not."""
        self._read_escrow([result.host_id or 0 for result in view.results])
        for each in list(self._escrow.values()):
            if each.workunit_id == view.workunit.id and each.audit is Audit.ASKED:
                self._note_audit(each, Audit.RIGHT if right else Audit.WRONG)
                if not self._under_audit(each.key):
                    rows = self._rows(each.key)
                    bad = sum(row.audit is Audit.WRONG for row in rows)
                    found = tuple(row.result_id for row in rows if row.audit is Audit.RIGHT)
                    self._apply(AuditFinished(host=each.key, bad=bad), each, right=found)

    def _apply(self, event: Happening, *about: Result | Escrowed, right: tuple[int, ...] = ()) -> Moves:
        """Apply an event, and keep what it moves; ``about``: results of the computers that it concerns."""
        rows = [each if isinstance(each, Escrowed) else self._row(each) for each in about]
        sources = {row.key: row for row in rows}
        inherited = tuple((key, old) for key in sources if (old := earlier_record(self._tx, self._book, key)))
        moves = self._book.take(event, inherited, right)
        self._seq += 1
        self._events.append(
            StoredEvent(seq=self._seq, time=self._now, event=event, inherited=inherited, right=right)
        )
        self._ended += (*moves.released, *moves.revoked)
        for result_id in moves.released:
            row = self._escrow.pop(result_id)
            self._entries.append(self._entry(row, ledger.RELEASE, 0.0, _final(event, moves)))
        for result_id in moves.revoked:
            row = self._escrow.pop(result_id)
            self._revoked.append((result_id, _why(moves)[0], self._facts(row.key)))
        for price in moves.prices:
            if price.provisional:
                row = changed(sources[price.host], price=price.amount)
                self._escrow[row.result_id] = row
                self._new.append(row)
        settled = moves.settled
        if isinstance(event, JobRefused):
            settled = {event.host: 0.0, **settled}
        for key, amount in settled.items():
            self._entries.append(self._entry(sources[key], ledger.SETTLEMENT, amount, _why(moves)))
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
                self._escrow[row.result_id] = row
                self._book.escrow.setdefault(row.key, {})[row.result_id] = row.price

    def _rows(self, key: HostKey) -> list[Escrowed]:
        return [self._escrow[result_id] for result_id in self._book.escrow.get(key, ())]

    def _under_audit(self, key: HostKey) -> bool:
        return any(row.audit is Audit.ASKED for row in self._rows(key))

    def _note_audit(self, row: Escrowed, audit: Audit) -> None:
        self._escrow[row.result_id] = changed(row, audit=audit)
        self._audits[row.result_id] = audit

    def _ask_for_audits(self, source: Escrowed, n: int | None) -> None:
        """Have some of a computer's provisional results (None: all) computed again, drawn now."""
        rows = [row for row in self._rows(source.key) if row.audit is Audit.NO]
        for row in rows if n is None else random.SystemRandom().sample(rows, min(n, len(rows))):
            self._note_audit(row, Audit.ASKED)
            look_again(self._tx, [row.workunit_id], now=self._now)
        if not self._under_audit(source.key):
            self._apply(AuditFinished(host=source.key, bad=0), source)

    def _row(self, result: Result) -> Escrowed:
        host_id, version_id, usage = record_key(result)
        return Escrowed(
            result_id=result.id,
            workunit_id=result.workunit_id,
            app_id=self._app.id,
            host_id=HostId(host_id),
            app_version_id=AppVersionId(version_id),
            usage=usage,
            user_id=result.user_id or UserId(0),
            price=0.0,
        )

    # ------------------------------------------------------------------ entries

    def _entry(
        self, row: Escrowed, kind: str, amount: float, reasons: tuple[Reason, ...]
    ) -> ledger.CreditEntry:
        return form_of(
            ledger.CreditEntry,
            row,
            system=self._app.credit_system,
            claimed=0.0,
            granted=amount,
            unit=self._unit.per_gflops_day,
            work_start=self._now,
            reasons=reasons,
            facts=ledger_state.text_of({"granted_time": self._now, **self._facts(row.key)}),
            kind=kind,
        )

    def _facts(self, key: HostKey) -> dict[str, object]:
        return {"event": self._seq, "record": key}

    def save(self) -> None:
        """Write everything, after the grants: a computer never owes more than it has."""
        tx = self._tx
        ledger_state.save_records(tx, self._app.id, self._book)
        ledger_state.save_events(tx, self._app.id, self._events)
        ledger_state.change_escrow(tx, new=self._new, ended=self._ended, audits=self._audits)
        ledger.settle(tx, self._entries, now=self._now)
        for result_id, why, facts in self._revoked:
            ledger.revoke(tx, [result_id], why, facts=facts, now=self._now)


def _job(view: WorkunitView) -> Job:
    return Job(estimate=view.workunit.limits.rsc_fpops_est)


def _quorum(view: WorkunitView) -> int:
    """Return how many results the job asked for before checks were drawn."""
    return view.workunit.rules.min_quorum - max((result.checks for result in view.results), default=0)


def _report(result: Result) -> Report:
    """Return what a result says; more run time than passed since it was sent is not believed."""
    run_time = result.elapsed_time
    if result.sent_time and result.received_time:
        run_time = min(run_time, max(0.0, result.received_time - result.sent_time))
    return Report(
        result_id=result.id,
        host=record_key(result),
        owner=result.user_id or 0,
        run_time=_finite(run_time),
        speed=_finite(result.peak_flops),
    )


def _finite(figure: float) -> float:
    return figure if abs(figure) < 1e300 else 0.0


def _why(moves: Moves) -> tuple[Reason, ...]:
    found = moves.outcome.reasons if moves.outcome is not None else ()
    return found or (
        reason(
            "ledger_held",
            "Held of the first prices of this computer, or paid back; what unfinished jobs cost is taken into account.",
        ),
    )


def _final(event: Happening, moves: Moves) -> tuple[Reason, ...]:
    if isinstance(event, AuditFinished):
        return _why(moves)
    if isinstance(event, Left):
        return (reason("ledger_left", "Final: the app has another credit system now."),)
    return (reason("ledger_released", "Final: this computer passed a check."),)


def earlier_record(db: Database, book: AppBook, key: HostKey) -> HostKey | None:
    """Return the record that a new one begins with: of the newest earlier version on this computer, with the same usage."""
    if key in book.hosts or is_generalised(AppVersionId(key[1])):
        return None
    others = [each[1] for each in book.hosts if each[0] == key[0] and each[2] == key[2]]
    found = apps.newest_before(db, AppVersionId(key[1]), others) if others else None
    return None if found is None else (key[0], found, key[2])


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
    if not uploads:
        return list(views)
    books: dict[AppId, AppBook] = {}
    for app_id in {view.workunit.app_id for view in views if view.workunit.id in uploads}:
        book = books[app_id] = AppBook(rules=LEDGER_RULES[found_apps[app_id].credit_system])
        of_app = [view for view in views if view.workunit.app_id == app_id and view.workunit.id in uploads]
        hosts = {result.host_id for view in of_app for result in view.results if result.host_id is not None}
        ledger_state.read_records(db, app_id, hosts, book)
    return [
        _with_check(db, view, uploads[view.workunit.id], books[view.workunit.app_id], secret)
        if view.workunit.id in uploads
        else view
        for view in views
    ]


def _with_check(
    db: Database, view: WorkunitView, ids: Sequence[ResultId], book: AppBook, secret: bytes
) -> WorkunitView:
    known: list[tuple[HostRecord, Result]] = []
    for result in view.results:
        if result.id in ids:
            key = record_key(result)
            old = earlier_record(db, book, key)
            known.append(
                (engine.inherit(book.hosts[old]) if old else book.hosts.get(key, HostRecord()), result)
            )
    draw = draw_of(secret, min(known, key=lambda each: each[0].trusted)[1].id)
    decisions = [
        engine.decide_check(
            record,
            book.rules,
            quorum=view.workunit.rules.min_quorum,
            draw=draw,
            size=engine.relative_size(book.app, record, _job(view)),
        )
        for record, _ in known
    ]
    return changed(view, checks=max(each.replicas for each in decisions))


def draw_of(secret: bytes, result_id: int) -> float:
    """Return the number in [0, 1) that is drawn for an upload: the same for the same one, and no one else can compute it."""
    digest = hashlib.blake2b(f"check {result_id}".encode(), key=secret[:64], digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2.0**53
