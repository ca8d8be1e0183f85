"""Jobs that need nobody's program and no file on a disk go all the way in the one write that found them due.

Validated by checksum, credited, handed to their batch, their outputs let go: the same rules as the daemons of each step apply, to
the workunit as the step before leaves it, and its row is written once.  Whatever else there is to do is left to those daemons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import structlog

from cobblestone.domain.ids import ResultId, WorkunitId
from cobblestone.domain.states import AssimilateState, FileDeleteState
from cobblestone.domain.values import changed
from cobblestone.domain.work import NO_CREDIT
from cobblestone.policy.lifecycle.application import advance_assimilation, advance_files, advance_inputs
from cobblestone.policy.lifecycle.effects import WorkunitView
from cobblestone.policy.lifecycle.states import Cause
from cobblestone.policy.lifecycle.transition import LifecycleTiming, apply_transition, next_transition
from cobblestone.policy.validation.canonical import ValidationReport, apply_decision, results_to_check
from cobblestone.server.core.context import ServerContext
from cobblestone.server.daemons.verdicts import judge_and_grant, quick_report
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work import files, lifecycle, uploads

log = structlog.get_logger(__name__)


class Finisher:
    """Takes workunits further within one write; lives for that write."""

    def __init__(
        self,
        ctx: ServerContext,
        tx: Transaction,
        timing: LifecycleTiming,
        new_ids: Iterator[ResultId],
        *,
        now: float,
    ) -> None:
        self._ctx = ctx
        self._tx = tx
        self._timing = timing
        self._new_ids = new_ids
        self._now = now
        self._apps = ctx.offers.get(tx).catalogue.apps
        self.places: dict[
            WorkunitId, int
        ] = {}  #: of those that were handed over, in the lists of their batches
        self.credit = NO_CREDIT  #: to be noted on the rows

    def finish(self, views: Sequence[WorkunitView]) -> list[WorkunitView]:
        """Return what becomes of workunits that the transitioner has looked at, in their order."""
        after = {view.workunit.id: view for view in views}
        moved = {view.workunit.id: view for view in self._validated(views)}
        moved |= {view.workunit.id: view for view in self._handed_over(list((after | moved).values()))}
        for id_, view in moved.items():
            transition = next_transition(view, timing=self._timing, now=self._now)
            moved[id_] = apply_transition(view, transition, self._now, self._new_ids)
        moved |= {view.workunit.id: view for view in self._without_files(list(moved.values()))}
        return list((after | moved).values())

    def _validated(self, views: Sequence[WorkunitView]) -> list[WorkunitView]:
        """Return those that need validation and whose checksums say enough, decided and credited."""
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
        """Return those of which files were released, as far as that takes no work on a disk."""
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
