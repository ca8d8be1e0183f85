"""The validator: compares results, chooses the canonical one, and grants credit.

Workunits whose checksums agree are read, decided and credited in one write for a whole batch.  Outputs that must be read
are compared before the write begins.
"""

from __future__ import annotations

from functools import partial

import structlog

from cobblestone.domain.apps import App
from cobblestone.domain.errors import JobError
from cobblestone.domain.ids import ResultId, WorkunitId
from cobblestone.policy.lifecycle.effects import WorkunitView
from cobblestone.policy.lifecycle.handler_retries import next_attempt
from cobblestone.policy.validation.agreement import kind_named
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    judge,
    pairs_to_compare,
    results_to_check,
)
from cobblestone.server.core.comparisons import comparison_kinds
from cobblestone.server.core.context import ServerContext
from cobblestone.server.credit.grant_batch import GrantBatch
from cobblestone.server.daemons.project_work import ResultOutputs, ValidationTask, validate
from cobblestone.server.daemons.workers import Workers
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.work import lifecycle
from cobblestone.store.work.uploads import StoredOutput, outputs_of_results

log = structlog.get_logger(__name__)

BATCH = 200
RETRY_SECONDS = 60.0
LONGEST_RETRY_SECONDS = 6 * 3600.0

Outputs = dict[ResultId, list[StoredOutput]]  # of the results to look at, in their order
Work = list[tuple[App, WorkunitView, Outputs]]


class Validator:
    """Looks at workunits that need validation."""

    name = "validator"

    def __init__(self, ctx: ServerContext, workers: Workers) -> None:
        self._ctx = ctx
        self._workers = workers

    async def step(self) -> int:
        """Handle up to a batch of workunits; how many."""
        with self._ctx.processes.lease_shards(self.name) as shards:
            due = partial(lifecycle.ids_to_validate, now=self._ctx.clock(), limit=BATCH, shards=shards)
            ids = await self._ctx.store.aread(due)
            if ids:
                slow = await self._ctx.store.awrite(partial(self._validate_by_checksum, ids=ids))
                await self._validate_in_workers(slow)
        return len(ids)

    def _validate_by_checksum(self, tx: Transaction, *, ids: list[WorkunitId]) -> list[WorkunitId]:
        """Decide workunits whose checksums say enough, within one write; those that somebody must look closer at."""
        reports: list[tuple[WorkunitView, ValidationReport]] = []
        slow: list[WorkunitId] = []
        for app, view, outputs in _load(tx, ids=ids):
            if not view.workunit.need_validate:  # another validator was faster
                continue
            report = _quick_report(app, view, outputs)
            if report is None:
                slow.append(view.workunit.id)
            else:
                reports.append((view, report))
        self._apply(tx, reports)
        return slow

    async def _validate_in_workers(self, ids: list[WorkunitId]) -> None:
        """Read and compare outputs in workers, then decide."""
        if not ids:
            return
        reports: dict[WorkunitId, ValidationReport] = {}
        failed: list[tuple[WorkunitView, str]] = []
        for app, view, outputs in await self._ctx.store.aread(partial(_load, ids=ids, with_data=True)):
            try:
                reports[view.workunit.id] = await self._report(app, view, outputs)
            except JobError as error:
                failed.append((view, str(error)))
        await self._ctx.store.awrite(partial(self._transact, reports=reports, failed=failed))

    async def _report(self, app: App, view: WorkunitView, outputs: Outputs) -> ValidationReport:
        if not outputs:
            return ValidationReport(checked=())
        ids = tuple(outputs)
        by_id = {result.id: result for result in view.results}
        task = ValidationTask(
            rule=app.comparison,
            specs=view.workunit.output_specs,
            results=tuple(
                ResultOutputs(
                    result_id=result.id,
                    outputs=tuple(outputs[result.id]),
                    name=result.name,
                    elapsed_time=result.elapsed_time,
                    cpu_time=result.cpu_time,
                    peak_flops=result.peak_flops,
                )
                for result in (by_id[id_] for id_ in ids)
            ),
            credit_function=app.credit_function,
            pairs=pairs_to_compare(view, ids),
            upload_folder=self._ctx.folder.upload,
            project_folder=self._ctx.folder.root,
        )
        return await self._workers.call(validate, task)

    def _transact(
        self,
        tx: Transaction,
        *,
        reports: dict[WorkunitId, ValidationReport],
        failed: list[tuple[WorkunitView, str]],
    ) -> None:
        # Read again: a report may have come in, or an operator cancelled, while outputs were compared.
        views = lifecycle.views(tx, list(reports))
        # Another validator may have been faster.
        open_ = [view for view in views if view.workunit.need_validate]
        self._apply(tx, [(view, reports[view.workunit.id]) for view in open_])
        self._postpone(tx, failed, now=self._ctx.clock())

    def _apply(self, tx: Transaction, reports: list[tuple[WorkunitView, ValidationReport]]) -> None:
        """Decide and grant; the views are those of this write."""
        if not reports:
            return
        now = self._ctx.clock()
        decided = [(view, judge(view, report, now=now)) for view, report in reports]
        assigned = {
            found.result_id: found.assigned_credit
            for _, report in reports
            for found in report.checked
            if found.assigned_credit is not None
        }
        lifecycle.apply_decisions(tx, decided, now=now)
        batch = GrantBatch(
            tx,
            [view for view, _ in decided],
            offers=self._ctx.offers,
            settings=self._ctx.settings.credit,
            daily_quota=self._ctx.settings.scheduler.daily_result_quota,
            assigned=assigned,
            now=now,
        )
        for view, decision in decided:
            batch.decide(view, decision)
        batch.save()

    def _postpone(self, tx: Transaction, failed: list[tuple[WorkunitView, str]], *, now: float) -> None:
        attempts = lifecycle.handler_failures(tx, [view.workunit.id for view, _ in failed])
        for view, problem in failed:
            n = attempts.get(view.workunit.id, 0)
            log.error("validation_failed", workunit=view.workunit.name, attempt=n + 1, error=problem)
            until = next_attempt(
                n + 1,
                max_attempts=self._ctx.settings.checks.max_attempts,
                first_pause=RETRY_SECONDS,
                longest_pause=LONGEST_RETRY_SECONDS,
                now=now,
            )
            lifecycle.postpone(tx, view.workunit.id, until=until, problem=problem)


def _load(db: Database, *, ids: list[WorkunitId], with_data: bool = False) -> Work:
    """Workunits to look at, with the outputs of their results."""
    views = [(view, results_to_check(view)) for view in lifecycle.views(db, ids)]
    outputs = outputs_of_results(db, [id_ for _, checked in views for id_ in checked], with_data=with_data)
    found = {app.id: app for app in apps.list_apps(db)}
    return [
        (found[view.workunit.app_id], view, {id_: outputs[id_] for id_ in checked}) for view, checked in views
    ]


def _quick_report(app: App, view: WorkunitView, outputs: Outputs) -> ValidationReport | None:
    """Compare by checksum where all agree, without a worker; None: somebody must look closer."""
    if not outputs:
        return ValidationReport(checked=())
    if app.credit_function:
        return None
    kind = kind_named(app.comparison.kind, comparison_kinds())
    if any(output.gzipped for of_result in outputs.values() for output in of_result):
        return None
    specs = view.workunit.output_specs
    checked: list[OutputCheck] = []
    sums: dict[ResultId, list[tuple[int, int, str]]] = {}
    for id_, of_result in outputs.items():
        present = {output.index for output in of_result}
        missing = [
            spec.open_name for index, spec in enumerate(specs) if index not in present and not spec.optional
        ]
        problem = f"The output {missing[0]} is missing." if missing else ""
        checked.append(OutputCheck(result_id=id_, usable=not missing, problem=problem))
        sums[id_] = [(output.index, output.nbytes, output.md5) for output in of_result]
    usable = {each.result_id for each in checked if each.usable}
    comparable = [pair for pair in pairs_to_compare(view, tuple(outputs)) if usable.issuperset(pair)]
    # Each with itself as well: who does not take even that for granted wants to read the outputs.
    pairs = [*comparable, *((one, one) for one in usable)]
    if not all(kind.agree_by_checksum(sums[one], sums[other]) for one, other in pairs):
        return None  # the worker says where they differ, and looks into packed files
    return ValidationReport(checked=tuple(checked), matches=frozenset(comparable))
