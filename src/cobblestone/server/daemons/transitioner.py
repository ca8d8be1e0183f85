"""The transitioner: advances workunits, and finishes those at once that need no other daemon.

Jobs that need no function of the project and no file on a disk go all the way in the one write that found them due.

Validated by checksum, credited, handed to their batch, their outputs let go: the same rules as the daemons of each step apply, to
the workunit as the step before leaves it, and its row is written once.  Whatever else there is to do is left to those daemons.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.values import AppVersionId, HostId, ResultId, WorkunitId, changed
from cobblestone.domain.work import NO_CREDIT, AssimilateState, FileDeleteState, ValidateState
from cobblestone.policy.credit import host_records
from cobblestone.policy.dispatch.limits import after_failure
from cobblestone.policy.lifecycle.application import advance_assimilation, advance_files, advance_inputs
from cobblestone.policy.lifecycle.states import Cause, TimeOutResult, Transition, WorkunitView
from cobblestone.policy.lifecycle.transition import apply_transition, lost_for_credit, next_transition
from cobblestone.policy.validation.canonical import ValidationReport, apply_decision, results_to_check
from cobblestone.server.core.context import ServerContext
from cobblestone.server.credit.grant_batch import GrantBatch
from cobblestone.server.credit.ledger_accounts import checks_drawn, uses_ledger
from cobblestone.server.daemons.verdicts import judge_and_grant, quick_report
from cobblestone.service.supervision import SWEEP_SECONDS, Portion
from cobblestone.store.catalog import files
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts
from cobblestone.store.work import lifecycle, uploads

log = structlog.get_logger(__name__)


class Finisher:
    """Advances workunits within one write; used for that write."""

    def __init__(
        self, ctx: ServerContext, tx: Transaction, new_ids: Iterator[ResultId], *, now: float
    ) -> None:
        self._ctx = ctx
        self._tx = tx
        self._delete_delay = ctx.settings.files.delete_delay
        self._new_ids = new_ids
        self._now = now
        self._apps = ctx.offers.get(tx).catalogue.apps
        #: of those that were handed over, in the lists of their batches
        self.places: dict[WorkunitId, int] = {}
        self.credit = NO_CREDIT  #: to be noted on the rows

    def finish(self, views: Sequence[WorkunitView]) -> list[WorkunitView]:
        """Return the new state of workunits that the transitioner has processed, in their order."""
        after = {view.workunit.id: view for view in views}
        moved = {view.workunit.id: view for view in self._validated(views)}
        moved |= {view.workunit.id: view for view in self._handed_over(list((after | moved).values()))}
        for id_, view in moved.items():
            transition = next_transition(view, delete_delay=self._delete_delay, now=self._now)
            moved[id_] = apply_transition(view, transition, self._now, self._new_ids)
        moved |= {view.workunit.id: view for view in self._without_files(list(moved.values()))}
        return list((after | moved).values())

    def _validated(self, views: Sequence[WorkunitView]) -> list[WorkunitView]:
        """Return those that need validation and can be decided by checksum, decided and credited."""
        checked = {view.workunit.id: results_to_check(view) for view in views if view.workunit.need_validate}
        outputs = uploads.outputs_of_results(
            self._tx, [id_ for ids in checked.values() for id_ in ids], with_data=False
        )
        reports: list[tuple[WorkunitView, ValidationReport]] = []
        for view in views:
            if view.workunit.id in checked:
                of_view = {id_: outputs[id_] for id_ in checked[view.workunit.id]}
                report = quick_report(self._apps[view.workunit.app_id], view, of_view)
                if report is not None:
                    reports.append((view, report))
        if not reports:
            return []
        decided, self.credit = judge_and_grant(self._ctx, self._tx, reports, now=self._now)
        lifecycle.note_reasons(self._tx, decided)
        return [apply_decision(view, decision, self._now) for view, decision in decided]

    def _handed_over(self, views: Sequence[WorkunitView]) -> list[WorkunitView]:
        """Return those with an answer, or a failure, that no handler of the project waits for."""
        ready = [
            view
            for view in views
            if view.workunit.assimilate_state is AssimilateState.READY
            and not self._apps[view.workunit.app_id].assimilator
        ]
        if ready:
            self.places |= lifecycle.count_assimilated(self._tx, ready, now=self._now)
        return [
            changed(view, workunit=advance_assimilation(view.workunit, Cause.ASSIMILATED)) for view in ready
        ]

    def _without_files(self, views: Sequence[WorkunitView]) -> list[WorkunitView]:
        """Return those whose files were released, as far as that needs no disk access."""
        released = {
            result.id
            for view in views
            for result in view.results
            if result.file_delete_state is FileDeleteState.READY
        }
        released -= uploads.on_disk(self._tx, sorted(released))
        uploads.forget_outputs(self._tx, sorted(released))
        inputs: Counter[str] = Counter()
        found: list[WorkunitView] = []
        for view in views:
            workunit = view.workunit
            if workunit.file_delete_state is FileDeleteState.READY:
                inputs.update(file.name for file in workunit.input_files)
                workunit = advance_inputs(workunit, Cause.FILES_DELETED)
            results = tuple(
                advance_files(result, Cause.FILES_DELETED) if result.id in released else result
                for result in view.results
            )
            found.append(changed(view, workunit=workunit, results=results))
        files.release_references(self._tx, inputs, now=self._now)
        return found


BATCH = 200
#: Workunits that are taken all the way in one write, at most: some four milliseconds' work.  New ones take a sixth of that.
FINISHED_AT_ONCE = 20
LONGEST_SLEEP = 60.0
#: How long a workunit that cannot be handled is left alone.
RETRY_SECONDS = 600.0


class Transitioner:
    """Applies the life-cycle rules to workunits that are due."""

    name = "transitioner"

    def __init__(self, ctx: ServerContext, *, finishes: bool = False) -> None:
        """Create the daemon; with ``finishes`` it completes simple jobs, as the process also has the later roles."""
        self._ctx = ctx
        self._delete_delay = ctx.settings.files.delete_delay
        self._finishes = finishes
        self._portion = Portion(FINISHED_AT_ONCE if finishes else BATCH)

    async def step(self) -> int:
        """Handle up to a batch of due workunits; return how many."""
        for finish in (True, False) if self._finishes else (False,):
            try:
                return await self._advance_some(finish=finish)
            except StoreError:
                raise
            except Exception:  # one of them spoils it for all
                if finish:  # if nothing else is wrong with it, the validator will find out which
                    log.exception("finishing_failed")
        return await self._one_by_one()

    async def _one_by_one(self) -> int:
        """Handle a batch, each in a write of its own, so that what cannot be handled lets the others pass."""
        store, now = self._ctx.store, self._ctx.clock()
        ids = await store.aread(partial(lifecycle.ids_due, now=now, limit=BATCH))
        until = now + RETRY_SECONDS
        for id_ in ids:
            try:
                await store.awrite(partial(self._transact, limit=1, finish=False, only=[id_]))
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, it is noted
                await store.awrite(partial(lifecycle.put_off, workunit_id=id_, error=error, until=until))
        return len(ids)

    async def _advance_some(self, *, finish: bool) -> int:
        """Handle a batch, in several writes so that others get their turn."""
        n = 0
        while n < BATCH:
            limit = self._portion.size
            done = await self._ctx.store.awrite(partial(self._transact, limit=limit, finish=finish))
            n += done
            if done < limit:
                break
        return n

    async def until_next(self) -> float:
        """Return the seconds until the next workunit is due."""
        due = await self._ctx.store.aread(lifecycle.next_transition_time)
        if due is None:
            return LONGEST_SLEEP
        return min(max(due - self._ctx.clock(), 0.05), SWEEP_SECONDS)

    def _transact(self, tx: Transaction, *, limit: int, finish: bool, only: Sequence[WorkunitId] = ()) -> int:
        began, now = time.monotonic(), self._ctx.clock()
        found_apps = self._ctx.offers.get(tx).catalogue.apps
        due = lifecycle.views(tx, only) if only else lifecycle.due_workunits(tx, now=now, limit=limit)
        due = checks_drawn(tx, due, found_apps, secret=self._ctx.secret)
        decided = [(view, next_transition(view, delete_delay=self._delete_delay, now=now)) for view in due]
        if finish and due:
            self._apply_and_finish(tx, decided, now=now)
        else:
            lifecycle.apply_transitions(tx, decided, now=now)
        self._punish_time_outs(tx, decided)
        self._settle(tx, [view for view in due if uses_ledger(found_apps[view.workunit.app_id])], now=now)
        lost = [result_id for view, transition in decided for result_id in lost_for_credit(view, transition)]
        ledger.take_back_provisional(tx, lost, now=now)
        self._portion.took(len(due), began, waiting=self._ctx.store.backlog())
        return len(due)

    def _apply_and_finish(
        self, tx: Transaction, decided: list[tuple[WorkunitView, Transition]], *, now: float
    ) -> None:
        new_ids = lifecycle.ids_of_new_results()
        finisher = Finisher(self._ctx, tx, new_ids, now=now)
        after = finisher.finish([apply_transition(view, each, now, new_ids) for view, each in decided])
        before = (view for view, _ in decided)
        changes = zip(before, after, strict=True)
        lifecycle.save_changes(tx, changes, places=finisher.places, credit=finisher.credit, now=now)

    def _settle(self, tx: Transaction, before: Sequence[WorkunitView], *, now: float) -> None:
        """Under the ledger system: settle what was not finished of jobs whose answer was known before, and failed audits."""
        unfinished = [
            view.workunit.id
            for view in before
            if view.workunit.canonical_result_id is not None
            and any(each.host_id and each.validate_state is not ValidateState.VALID for each in view.results)
        ]
        if unfinished:
            views = lifecycle.views(tx, unfinished)
            batch = GrantBatch(self._ctx, tx, views, now=now)
            for view in views:
                batch.settle(view)
            batch.save()

    def _punish_time_outs(self, tx: Transaction, decided: list[tuple[WorkunitView, Transition]]) -> None:
        late: list[tuple[tuple[HostId, AppVersionId], float]] = []
        for view, transition in decided:
            results = {result.id: result for result in view.results}
            for effect in transition.effects:
                if isinstance(effect, TimeOutResult):
                    result = results[effect.result_id]
                    if result.host_id is not None and result.app_version_id is not None:
                        key = (result.host_id, result.app_version_id)
                        late.append((key, view.workunit.limits.delay_bound))
        if not late:
            return
        quota = self._ctx.settings.scheduler.daily_result_quota
        records: dict[tuple[HostId, AppVersionId], HostAppVersion] = hosts.records(
            tx, [key for key, _ in late]
        )
        now = self._ctx.clock()
        for key, delay_bound in late:
            record = after_failure(records[key], quota)
            quality = host_records.after_failure(record.statistics, delay_bound=delay_bound, now=now)
            records[key] = changed(record, statistics=quality)
        hosts.save_records(tx, records.values())
