"""The assimilator: passes finished workunits to the project, each at least once, with an id that never repeats."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Set
from functools import partial
from pathlib import Path

import structlog

from cobblestone.domain.apps import App
from cobblestone.domain.errors import JobError, StoreError
from cobblestone.domain.texts import folder_name
from cobblestone.domain.values import AppId, ResultId, WorkunitId
from cobblestone.domain.work import AssimilateState, WorkunitError
from cobblestone.ops.files import write_durably
from cobblestone.policy.lifecycle.states import WorkunitView
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.storage import bring_outputs
from cobblestone.server.credit.grant_batch import GrantBatch
from cobblestone.server.credit.systems import find_system
from cobblestone.server.daemons.project_work import MAX_COMPARED_BYTES, AssimilationTask, assimilate
from cobblestone.server.daemons.side_work import SideWork
from cobblestone.server.daemons.workers import Workers
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.process_group import Lease, Shards
from cobblestone.store.work import lifecycle
from cobblestone.store.work.lifecycle import ToAssimilate
from cobblestone.store.work.uploads import StoredOutput, output_content, outputs_of_results

log = structlog.get_logger(__name__)

BATCH = 200
RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 3600.0
FOLDER_PREFIX = "folder:"
#: In place of an app whose row cannot be read: its jobs wait, the others do not.
UNREADABLE = App(id=AppId(0), name="", assimilator="?")

Work = list[tuple[App, ToAssimilate, list[StoredOutput]]]


class Assimilator:
    """Delivers answers: to the batch (kept for the API), to a folder, or to the project's own function."""

    name = "assimilator"

    def __init__(self, ctx: ServerContext, workers: Workers) -> None:
        self._ctx = ctx
        self._workers = workers
        self.side_work = SideWork(
            ctx,
            self.name,
            failed="assimilation_failed",
            first_pause=RETRY_SECONDS,
            longest_pause=LONGEST_RETRY_SECONDS,
        )

    async def step(self) -> int:
        """Handle up to a batch of workunits; return how many."""
        with self._ctx.processes.lease_shards(self.name) as lease:
            busy = self.side_work.unfinished
            work = await self._ctx.store.aread(
                partial(_load, now=self._ctx.clock(), shards=lease.shards, busy=busy)
            )
            # Without a handler the outputs stay in the store for the batch, and many workunits share a write.
            done = [item.view for app, item, _ in work if not app.assimilator]
            if done:
                await self._record(done, lease)
            others = [each for each in work if each[0].assimilator][: self.side_work.room]
            for app, item, outputs in others:
                # On the lease under which it was read: who hung since may have another one, and not know what was done meanwhile.
                work_on_it = partial(self._handle, app, item, outputs, lease)
                self.side_work.begin(item.view.workunit.id, work_on_it)
            begun = {item.view.workunit.id for _, item, _ in others}
            await self.side_work.wait(begun)
        return len(done) + len(begun)

    async def _record(self, done: list[WorkunitView], lease: Lease) -> None:
        """Record workunits without a handler, one by one if one of them spoils the write for all."""
        write = partial(self._transact, lease=lease, amounts={})
        try:
            await self._ctx.store.awrite(partial(write, done=done))
        except StoreError:
            raise
        except Exception:
            log.exception("assimilation_failed_of_batch", workunits=len(done))
            for view in done:
                async with self.side_work.attempt(view.workunit.id):
                    await self._ctx.store.awrite(partial(write, done=[view]))

    async def _handle(self, app: App, item: ToAssimilate, outputs: list[StoredOutput], lease: Lease) -> None:
        """Deliver one workunit, and record it."""
        workunit = item.view.workunit
        if app is UNREADABLE:
            raise JobError(f"Its app, {workunit.app_id}, cannot be read. See the log, or: cobblestone doctor")
        await bring_outputs(self._ctx.storage, self._ctx.folder.upload, outputs)
        amount = await self._hand_over(app, item, outputs, lease)
        pays = not workunit.error_mask and pays_after_assimilation(app)
        amounts = {workunit.id: amount or 0.0} if pays else {}
        await self._ctx.store.awrite(partial(self._transact, lease=lease, done=[item.view], amounts=amounts))

    async def _hand_over(
        self, app: App, item: ToAssimilate, outputs: list[StoredOutput], lease: Lease
    ) -> float | None:
        """Deliver a workunit; return the value of the project's function, if it is a number.

        Raises:
            LeaseLost: when its turn came, it was another process's: a call may wait long for a worker, or all of us hung.
        """
        folder = self._ctx.folder
        workunit = item.view.workunit
        if app.assimilator.startswith(FOLDER_PREFIX):
            if workunit.error_mask:
                return None
            target = folder.root / app.assimilator.removeprefix(FOLDER_PREFIX)
            if not target.resolve().is_relative_to(folder.root.resolve()):
                raise JobError(f"The assimilator's folder {target} is outside the project.")
            lease.ensure(workunit.id)
            await asyncio.to_thread(_write_outputs, item, outputs, target, folder.upload)
            return None
        task = AssimilationTask(
            function=app.assimilator,
            id=workunit.id,
            name=workunit.name,
            label=item.label,
            batch_id=workunit.batch_id,
            error=describe_error(workunit.error_mask),
            outputs=tuple(outputs),
            specs=workunit.output_specs,
            app_folder=folder.results / app.name,
            upload_folder=folder.upload,
            project_folder=folder.root,
        )
        return await self._workers.call(
            assimilate, task, app=app.name, before=partial(lease.ensure, workunit.id)
        )

    def _transact(
        self, tx: Transaction, *, lease: Lease, done: list[WorkunitView], amounts: dict[WorkunitId, float]
    ) -> None:
        lease.check(tx, [view.workunit.id for view in done])
        now = self._ctx.clock()
        if amounts:
            self._pay(tx, amounts, now=now)
        lifecycle.mark_assimilated(tx, done, now=now)

    def _pay(self, tx: Transaction, amounts: dict[WorkunitId, float], *, now: float) -> None:
        """Grant the credit from the project's function, in the same write that records the assimilation."""
        views = [
            view
            for view in lifecycle.views(tx, list(amounts))
            if view.workunit.assimilate_state is AssimilateState.READY
        ]
        batch = GrantBatch(self._ctx, tx, views, now=now)
        for view in views:
            canonical = view.workunit.canonical_result_id
            if canonical is not None:
                batch.pay(view, {canonical: amounts[view.workunit.id]})
        ledger.note_credit(tx, batch.save())


def pays_after_assimilation(app: App) -> bool:
    """Return whether the app's credit system waits for the project's handler."""
    return bool(getattr(find_system(app.credit_system), "after_assimilation", False))


def describe_error(mask: WorkunitError) -> str:
    """Return in words why a workunit has no answer; empty if it has one."""
    texts = {
        WorkunitError.COULDNT_SEND_RESULT: "no computer could be found for it",
        WorkunitError.TOO_MANY_ERROR_RESULTS: "it failed on too many computers",
        WorkunitError.TOO_MANY_SUCCESS_RESULTS: "too many results came in that do not agree",
        WorkunitError.TOO_MANY_TOTAL_RESULTS: "too many attempts were made",
        WorkunitError.CANCELLED: "it was cancelled",
        WorkunitError.NO_CANONICAL_RESULT: "its canonical result is missing",
    }
    return "; ".join(text for bit, text in texts.items() if mask & bit)


def _load(db: Database, *, now: float, shards: Shards, busy: Set[WorkunitId]) -> Work:
    found_items = lifecycle.workunits_to_assimilate(db, now=now, limit=BATCH + len(busy), shards=shards)
    items = [item for item in found_items if item.view.workunit.id not in busy][:BATCH]
    if not items:
        return []
    found = defaultdict(lambda: UNREADABLE, {app.id: app for app in apps.list_apps(db)})
    wanted: list[ResultId] = [
        item.view.workunit.canonical_result_id
        for item in items
        if item.view.workunit.canonical_result_id is not None and found[item.view.workunit.app_id].assimilator
    ]
    outputs = outputs_of_results(db, wanted)
    return [
        (
            found[item.view.workunit.app_id],
            item,
            outputs.get(item.view.workunit.canonical_result_id or ResultId(0), []),
        )
        for item in items
    ]


def _write_outputs(item: ToAssimilate, outputs: list[StoredOutput], target: Path, upload: Path) -> None:
    workunit = item.view.workunit
    folder = target / str(workunit.batch_id or "single") / folder_name(item.label, workunit.name)
    for output in outputs:
        try:
            data = output_content(output, upload, max_nbytes=MAX_COMPARED_BYTES)
        except StoreError as error:
            raise JobError(str(error)) from error
        write_durably(folder / workunit.output_specs[output.index].open_name, data)
