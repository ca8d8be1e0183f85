"""The validator: compares results, chooses the canonical one, and grants credit.

Outputs are read and compared before the write begins; the write applies decisions and credit of a whole batch.
"""

from __future__ import annotations

from functools import partial

import structlog

from cobblestone.domain.apps import App
from cobblestone.domain.errors import JobError
from cobblestone.domain.ids import ResultId
from cobblestone.policy.lifecycle.effects import WorkunitView
from cobblestone.policy.validation.canonical import (
    LookedAt,
    Pair,
    ValidationReport,
    judge,
    pairs_to_compare,
    results_to_look_at,
)
from cobblestone.server.context import ServerContext
from cobblestone.server.daemons.granting import GrantBook
from cobblestone.server.daemons.project_work import ResultOutputs, ValidationTask, validate
from cobblestone.server.daemons.workers import Workers
from cobblestone.store import apps, lifecycle
from cobblestone.store.database import Database, Transaction
from cobblestone.store.uploads import StoredOutput, outputs_of_results

log = structlog.get_logger(__name__)

BATCH = 200
RETRY_SECONDS = 60.0
LONGEST_RETRY_SECONDS = 6 * 3600.0

Work = list[tuple[App, WorkunitView, dict[ResultId, list[StoredOutput]]]]


class Validator:
    """Looks at workunits that need validation."""

    name = "validator"

    def __init__(self, ctx: ServerContext, workers: Workers) -> None:
        self._ctx = ctx
        self._workers = workers

    async def step(self) -> int:
        """Handle up to a batch of workunits; how many."""
        now = self._ctx.clock()
        work = await self._ctx.store.aread(partial(_load, now=now))
        reports: list[tuple[WorkunitView, ValidationReport]] = []
        failed: list[tuple[WorkunitView, str]] = []
        for app, view, outputs in work:
            try:
                reports.append((view, await self._report(app, view, outputs)))
            except JobError as error:
                failed.append((view, str(error)))
        if work:
            await self._ctx.store.awrite(partial(self._transact, reports=reports, failed=failed))
        return len(work)

    async def _report(
        self, app: App, view: WorkunitView, outputs: dict[ResultId, list[StoredOutput]]
    ) -> ValidationReport:
        ids = results_to_look_at(view)
        if not ids:
            return ValidationReport(looked_at=())
        pairs = pairs_to_compare(view)
        quick = _quick_report(app, view, outputs, ids, pairs)
        if quick is not None:
            return quick
        task = ValidationTask(
            rule=app.comparison,
            specs=view.workunit.output_specs,
            results=tuple(ResultOutputs(result_id=id_, outputs=tuple(outputs[id_])) for id_ in ids),
            pairs=pairs,
            upload_folder=self._ctx.folder.upload,
            project_folder=self._ctx.folder.root,
        )
        return await self._workers.call(validate, task)

    def _transact(
        self,
        tx: Transaction,
        *,
        reports: list[tuple[WorkunitView, ValidationReport]],
        failed: list[tuple[WorkunitView, str]],
    ) -> None:
        now = self._ctx.clock()
        # Read again: a report may have come in, or an operator cancelled, while outputs were compared.
        current = {
            view.workunit.id: view
            for view in lifecycle.views(tx, [view.workunit.id for view, _ in reports])
            if view.workunit.need_validate  # else another validator was faster
        }
        decided = [
            (current[view.workunit.id], judge(current[view.workunit.id], report, now=now))
            for view, report in reports
            if view.workunit.id in current
        ]
        lifecycle.apply_decisions(tx, decided, now=now)
        if decided:
            book = GrantBook(
                tx,
                [view for view, _ in decided],
                offers=self._ctx.offers,
                settings=self._ctx.settings.credit,
                daily_quota=self._ctx.settings.scheduler.daily_result_quota,
                now=now,
            )
            for view, decision in decided:
                book.decide(view, decision)
            book.save()
        self._postpone(tx, failed, now=now)

    def _postpone(self, tx: Transaction, failed: list[tuple[WorkunitView, str]], *, now: float) -> None:
        attempts = lifecycle.handler_failures(tx, [view.workunit.id for view, _ in failed])
        for view, problem in failed:
            n = attempts.get(view.workunit.id, 0)
            log.error("validation_failed", workunit=view.workunit.name, attempt=n + 1, error=problem)
            pause = min(RETRY_SECONDS * 2**n, LONGEST_RETRY_SECONDS)
            lifecycle.postpone(tx, [view.workunit.id], until=now + pause)


def _load(db: Database, *, now: float) -> Work:
    """Workunits to look at, with the outputs of their results."""
    views = lifecycle.workunits_to_validate(db, now=now, limit=BATCH)
    ids = [id_ for view in views for id_ in results_to_look_at(view)]
    outputs = outputs_of_results(db, ids)
    found = {app.id: app for app in apps.list_apps(db)}
    return [(found[view.workunit.app_id], view, outputs) for view in views]


def _quick_report(
    app: App,
    view: WorkunitView,
    outputs: dict[ResultId, list[StoredOutput]],
    ids: tuple[ResultId, ...],
    pairs: tuple[Pair, ...],
) -> ValidationReport | None:
    """Compare by checksum where all agree, without a worker; None: somebody must look closer."""
    if app.comparison.kind not in ("bitwise", "trivial"):
        return None
    if any(output.gzipped for id_ in ids for output in outputs[id_]):
        return None
    specs = view.workunit.output_specs
    looked_at: list[LookedAt] = []
    sums: dict[ResultId, list[tuple[int, int, str]]] = {}
    for id_ in ids:
        present = {output.index for output in outputs[id_]}
        missing = [
            spec.open_name for index, spec in enumerate(specs) if index not in present and not spec.optional
        ]
        problem = f"The output {missing[0]} is missing." if missing else ""
        looked_at.append(LookedAt(result_id=id_, usable=not missing, problem=problem))
        sums[id_] = [(output.index, output.nbytes, output.md5) for output in outputs[id_]]
    usable = {each.result_id for each in looked_at if each.usable}
    comparable = [pair for pair in pairs if usable.issuperset(pair)]
    if app.comparison.kind == "bitwise" and any(sums[one] != sums[other] for one, other in comparable):
        return None  # the worker says where they differ, and looks into packed files
    return ValidationReport(looked_at=tuple(looked_at), matches=frozenset(comparable))
