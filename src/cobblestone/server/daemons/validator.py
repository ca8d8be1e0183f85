"""The validator: compares results, chooses the canonical one, and grants credit.

Workunits whose checksums agree are read, decided and credited in one write for some of them.  Those whose outputs must be read
are looked at one by one in workers, and decided in a write of their own.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from itertools import chain

import structlog

from cobblestone.domain.apps import App
from cobblestone.domain.errors import JobError, StoreError
from cobblestone.domain.reasons import Reason, phrase, sayable
from cobblestone.domain.values import ResultId, WorkunitId, form_of
from cobblestone.policy.lifecycle.states import WorkunitView
from cobblestone.policy.validation import canonical
from cobblestone.policy.validation.archives import ReadLimits
from cobblestone.policy.validation.comparison import kind_named
from cobblestone.server.core.comparisons import comparison_kinds
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.storage import bring_outputs
from cobblestone.server.daemons import project_work
from cobblestone.server.daemons.side_work import SideWork
from cobblestone.server.daemons.verdicts import Outputs, judge_and_grant, quick_report
from cobblestone.server.daemons.workers import WorkerFailedError, WorkerKilledError, Workers
from cobblestone.service.supervision import Portion
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.work import lifecycle
from cobblestone.store.work.uploads import outputs_of_results

log = structlog.get_logger(__name__)

BATCH = 200
#: Workunits that are decided in one write, at most: of quorum 2 some five milliseconds' work.
DECIDED_AT_ONCE = 40
RETRY_SECONDS = 60.0
LONGEST_RETRY_SECONDS = 6 * 3600.0
#: Part of a worker's memory that one output may take, for two of them are in it at once.
READ_SHARE = 0.4

Work = list[tuple[App, WorkunitView, Outputs]]


class Validator:
    """Checks workunits that need validation."""

    name = "validator"

    def __init__(self, ctx: ServerContext, workers: Workers) -> None:
        self._ctx = ctx
        self._workers = workers
        self._portion = Portion(DECIDED_AT_ONCE)
        self.side_work = SideWork(
            ctx,
            self.name,
            failed="validation_failed",
            first_pause=RETRY_SECONDS,
            longest_pause=LONGEST_RETRY_SECONDS,
        )

    async def step(self) -> int:
        """Handle up to a batch of workunits; return how many."""
        with self._ctx.processes.lease_shards(self.name) as lease:
            busy = self.side_work.unfinished
            limit = BATCH + len(busy)
            due = partial(lifecycle.ids_to_validate, now=self._ctx.clock(), limit=limit, shards=lease.shards)
            ids = [id_ for id_ in await self._ctx.store.aread(due) if id_ not in busy][:BATCH]
            if not ids:
                return 0
            slow = await self._validate_by_checksum(ids)
            begun = slow[: self.side_work.room]
            await self._begin_in_workers(begun)
            await self.side_work.wait(set(begun))
        return len(ids) - len(slow) + len(begun)

    async def _validate_by_checksum(self, ids: list[WorkunitId]) -> list[WorkunitId]:
        """Decide workunits by checksum where possible, in several writes; return those that need a closer look."""
        size = self._portion.size
        # Queued together: while nobody else waits they share a commit.
        parts = [ids[start : start + size] for start in range(0, len(ids), size)]
        return [*chain.from_iterable(await asyncio.gather(*map(self._decide_part, parts)))]

    async def _decide_part(self, part: list[WorkunitId]) -> list[WorkunitId]:
        """Decide some in one write; return those that need a closer look."""
        try:
            return await self._ctx.store.awrite(partial(self._decide_by_checksum, ids=part))
        except StoreError:
            raise
        except Exception:  # one of them spoils the write for all
            log.exception("validation_failed_of_batch", workunits=len(part))
        slow: list[WorkunitId] = []
        for id_ in part:
            async with self.side_work.attempt(id_):
                slow += await self._ctx.store.awrite(partial(self._decide_by_checksum, ids=[id_]))
        return slow

    def _decide_by_checksum(self, tx: Transaction, *, ids: list[WorkunitId]) -> list[WorkunitId]:
        began = time.monotonic()
        reports: list[tuple[WorkunitView, canonical.ValidationReport]] = []
        slow: list[WorkunitId] = []
        for app, view, outputs in _load(tx, ids=ids):
            if not view.workunit.need_validate:  # another validator was faster
                continue
            report = quick_report(app, view, outputs)
            if report is None:
                slow.append(view.workunit.id)
            else:
                reports.append((view, report))
        self._apply(tx, reports)
        self._portion.took(len(ids), began, waiting=self._ctx.store.backlog())
        return slow

    async def _begin_in_workers(self, ids: list[WorkunitId]) -> None:
        """Start reading and comparing outputs in workers."""
        if ids:
            for app, view, outputs in await self._ctx.store.aread(partial(_load, ids=ids, with_data=True)):
                work = partial(self._validate_in_worker, app, view, outputs)
                self.side_work.begin(view.workunit.id, work)

    async def _validate_in_worker(self, app: App, view: WorkunitView, outputs: Outputs) -> None:
        """Compare, then decide.

        The decision needs no lease: it is made on rows that are read and locked by its own write.
        """
        report = await self._report(app, view, outputs)
        await self._ctx.store.awrite(partial(self._decide, id_=view.workunit.id, report=report))

    async def _report(self, app: App, view: WorkunitView, outputs: Outputs) -> canonical.ValidationReport:
        if not outputs:
            return canonical.ValidationReport(checked=())
        for of_result in outputs.values():
            await bring_outputs(self._ctx.storage, self._ctx.folder.upload, of_result)
        ids = tuple(outputs)
        by_id = {result.id: result for result in view.results}
        task = project_work.ValidationTask(
            rule=app.comparison,
            specs=view.workunit.output_specs,
            results=tuple(
                form_of(project_work.ResultOutputs, by_id[id_], result_id=id_, outputs=tuple(outputs[id_]))
                for id_ in ids
            ),
            credit_function=app.credit_function,
            pairs=canonical.pairs_to_compare(view, ids),
            upload_folder=self._ctx.folder.upload,
            project_folder=self._ctx.folder.root,
            limits=ReadLimits(max_memory=int(self._ctx.settings.checks.memory_bytes * READ_SHARE)),
        )
        try:
            return await self._workers.call(project_work.validate, task, app=app.name)
        except WorkerKilledError:
            raise
        except JobError as error:
            kind = kind_named(app.comparison.kind, comparison_kinds())
            if isinstance(error, WorkerFailedError) and not kind.project_function(app.comparison.options):
                return await self._without_unreadable(app, task)
            return await self._one_by_one(app, task, error)

    async def _without_unreadable(
        self, app: App, task: project_work.ValidationTask
    ) -> canonical.ValidationReport:
        """Compare once more after time, memory or the process ran out.

        Each result is read by itself first: one with which that happens again cannot be read, and while others can, that is its
        host's affair.  If none can, it is rather the server's: a disk that does not answer, or limits that are too tight.

        Raises:
            WorkerFailedError: they can all be read, but not compared, or none can be read.
        """
        bad: list[canonical.OutputCheck] = []
        for result in task.results:
            alone = replace(task, results=(result,), pairs=(), credit_function="")
            try:
                await self._workers.call(project_work.validate, alone, app=app.name)
            except WorkerFailedError as error:
                problem = project_work.unreadable(str(error))
                bad.append(canonical.OutputCheck(result_id=result.result_id, usable=False, problem=problem))
                if len(bad) == len(task.results):
                    raise
        bad_ids = {found.result_id for found in bad}
        rest = replace(
            task,
            results=tuple(result for result in task.results if result.result_id not in bad_ids),
            pairs=tuple(pair for pair in task.pairs if bad_ids.isdisjoint(pair)),
        )
        report = await self._workers.call(project_work.validate, rest, app=app.name)
        return replace(report, checked=(*report.checked, *bad))

    async def _one_by_one(
        self, app: App, task: project_work.ValidationTask, failure: JobError
    ) -> canonical.ValidationReport:
        """Compare each result with itself, then each pair, in separate calls after a comparison has failed.

        What fails again stays undecided, which harms no host and lets the others find their quorum.

        Raises:
            JobError: the failure, if every result fails with itself: the comparison must be mended.
        """
        checked: list[canonical.OutputCheck] = []
        problems: dict[ResultId, Reason] = {}
        for result in task.results:
            id_ = result.result_id
            alone = await self._try(app, replace(task, results=(result,), pairs=((id_, id_),)))
            if isinstance(alone, Reason):
                problems[id_] = alone
                checked.append(canonical.OutputCheck(result_id=id_, usable=True))
            else:
                checked += alone.checked
        if len(problems) == len(task.results):
            raise failure
        reports: list[canonical.ValidationReport] = []
        undecided: dict[canonical.Pair, Reason] = {}
        for pair in task.pairs:
            found = problems.get(pair[0]) or problems.get(pair[1])
            if found is None:
                two = tuple(result for result in task.results if result.result_id in pair)
                found = await self._try(app, replace(task, results=two, pairs=(pair,), credit_function=""))
            if isinstance(found, Reason):
                undecided[pair] = found
            else:
                reports.append(found)
        log.warning("comparison_undecided", app=app.name, pairs=sorted(undecided), error=str(failure))
        return canonical.ValidationReport(
            checked=tuple(checked),
            matches=frozenset(chain.from_iterable(report.matches for report in reports)),
            differences=dict(chain.from_iterable(report.differences.items() for report in reports)),
            undecided=undecided,
        )

    async def _try(self, app: App, task: project_work.ValidationTask) -> canonical.ValidationReport | Reason:
        """Compare, or return why that fails."""
        try:
            return await self._workers.call(project_work.validate, task, app=app.name)
        except WorkerKilledError:
            raise
        except JobError as error:
            return phrase("the comparison failed: {problem}", problem=sayable(str(error)))

    def _decide(self, tx: Transaction, *, id_: WorkunitId, report: canonical.ValidationReport) -> None:
        # Read again: a report may have come in, an operator cancelled, or another validator been faster.
        self._apply(
            tx, [(view, report) for view in lifecycle.views(tx, [id_]) if view.workunit.need_validate]
        )

    def _apply(self, tx: Transaction, reports: list[tuple[WorkunitView, canonical.ValidationReport]]) -> None:
        """Decide and grant; the views are those of this write."""
        if not reports:
            return
        now = self._ctx.clock()
        decided, credit = judge_and_grant(self._ctx, tx, reports, now=now)
        lifecycle.apply_decisions(tx, decided, credit, now=now)


def _load(db: Database, *, ids: list[WorkunitId], with_data: bool = False) -> Work:
    """Return workunits to check, with the outputs of their results."""
    views = [(view, canonical.results_to_check(view)) for view in lifecycle.views(db, ids)]
    wanted = [id_ for _, checked in views for id_ in checked]
    db.ask_ahead(partial(outputs_of_results, result_ids=wanted, with_data=with_data), apps.list_apps)
    outputs = outputs_of_results(db, wanted, with_data=with_data)
    found = {app.id: app for app in apps.list_apps(db)}
    return [
        (found[view.workunit.app_id], view, {id_: outputs[id_] for id_ in checked}) for view, checked in views
    ]
