"""Batches: submit, watch, cancel, retire."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from cobblestone.api_schema import batches as schema
from cobblestone.api_schema.apps import LimitsBody
from cobblestone.api_schema.values import PageQuery
from cobblestone.domain.apps import App
from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import Scope
from cobblestone.domain.states import BatchState
from cobblestone.server.api.app_rules import limits_with
from cobblestone.server.api.apps import app_named
from cobblestone.server.api.batch_notes import batch_notes, stuck_text
from cobblestone.server.api.files import check_free_disk
from cobblestone.server.api.job_replies import (
    batch_reply,
    describe_jobs,
)
from cobblestone.server.api.job_rules import JobMaker, check_targets, target_from
from cobblestone.server.api.routing import LARGE_BODY, PREFIX, Call, endpoint
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import Offer
from cobblestone.server.operation import interventions as operations
from cobblestone.server.operation.reach import stuck_jobs
from cobblestone.service.http.problems import ApiProblem
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import interventions
from cobblestone.store.work import batches, files
from cobblestone.store.work.batches import Batch


def _describe(call: Call, db: Database, batch: Batch, offer: Offer | None = None) -> schema.BatchStatus:
    app = apps.app_by_id(db, batch.app_id)
    if (
        batch.state is BatchState.ABORTED
    ):  # what is cancelled is not waited for, though the transitioner closes it later
        batch = replace(batch, n_error=batch.n_error + interventions.count_cancelled_open(db, batch.id))
    return batch_reply(
        batch,
        app.name,
        running=0 if batch.finished else batches.count_running(db, batch.id),
        notes=batch_notes(db, batch, app, offer, address=call.ctx.master_url, now=call.now),
    )


def _add_jobs(
    tx: Transaction,
    ctx: ServerContext,
    batch: Batch,
    app: App,
    body: schema.NewBatch | schema.MoreJobs,
    *,
    now: float,
) -> Batch:
    bodies, limits = body.jobs, body.limits
    check_targets(tx, [body.target, *(job.target for job in bodies)])
    names = {file.file for body in bodies for file in body.inputs}
    maker = JobMaker(
        app,
        apps.job_form(tx, app.id),
        limits_with(limits, app.limits) if limits != LimitsBody() else app.limits,
        frozenset(file.open_name for version in apps.list_versions(tx, app.id) for file in version.files),
        target_from(body.target),
    )
    jobs = maker.make(bodies, files.files_by_name(tx, sorted(names)), first=batch.njobs)
    served = ctx.candidates.served(batch.priority)
    return batches.add_jobs(tx, batch, app.name, jobs, served=served, now=now)


async def _check_room(ctx: ServerContext) -> None:
    """Refuse jobs when the disk is full or too many results wait already.  Raises ApiProblem."""
    check_free_disk(ctx)
    most = ctx.settings.watch.max_unsent
    if most and await ctx.store.aread(lambda db: batches.many_unsent(db, most)):
        raise ApiProblem(
            429,
            "too_much_waits",
            f"{most} or more results wait to be sent; no more jobs are taken for now (watch.max_unsent).",
            "Submit again when volunteers have computed some of them.",
        )


@endpoint(
    "POST",
    "/batches",
    scope=Scope.SUBMIT,
    tag="batches",
    status=201,
    max_body=LARGE_BODY,
    idempotent=True,
    problems=(404, 409, 429, 507),
)
async def create_batch(call: Call, body: schema.NewBatch) -> schema.BatchStatus:
    """Submit a batch.

    At most 1000 jobs in one request. For more, or for jobs that come one by one, create it with `open`, add jobs in
    several requests, and close it. The whole request is stored, or nothing of it.
    """
    await _check_room(call.ctx)
    if not body.jobs and not body.open:
        raise ApiProblem(
            422, "no_jobs", "The batch has no jobs.", "Give jobs, or open = true if they follow later."
        )

    def create(tx: Transaction) -> schema.BatchStatus:
        if call.request_key is not None:
            earlier = batches.batch_by_key(tx, call.request_key)
            if earlier is not None:
                return _describe(call, tx, earlier)
        app = app_named(tx, body.app)
        if app.deprecated:
            raise Conflict(
                f"The app {app.name} is deprecated and takes no jobs. Allow it again with:"
                f" cobblestone app update {app.name} --no-deprecated"
            )
        batch = batches.create_batch(
            tx,
            name=body.name or app.name,
            app_id=app.id,
            priority=body.priority,
            token_id=None if call.token is None else call.token.id,
            request_key=call.request_key,
            now=call.now,
        )
        batch = _add_jobs(tx, call.ctx, batch, app, body, now=call.now)
        if not body.open:
            batch = batches.close_batch(tx, batch.id, now=call.now)
        return _describe(call, tx, batch, call.ctx.offers.get(tx))

    return await call.write_once(create, schema.BatchStatus)


@endpoint(
    "POST",
    "/batches/{batch_id:int}/jobs",
    scope=Scope.SUBMIT,
    tag="batches",
    max_body=LARGE_BODY,
    problems=(404, 409, 429, 507),
)
async def add_jobs(call: Call, batch_id: int, body: schema.MoreJobs) -> schema.BatchStatus:
    """Add jobs to an open batch.

    `first` is the number of jobs that the batch has already, so a repeated request adds nothing.
    """
    await _check_room(call.ctx)

    def add(tx: Transaction) -> schema.BatchStatus:
        batch = batches.batch_by_id(tx, batch_id)
        if body.first + len(body.jobs) <= batch.njobs:
            return _describe(call, tx, batch)  # a repetition
        if body.first != batch.njobs:
            raise Conflict(
                f"Batch {batch_id} has {batch.njobs} jobs, so the next ones must come with first = {batch.njobs},"
                f" not {body.first}. Is somebody else adding to it?"
            )
        app = apps.app_by_id(tx, batch.app_id)
        return _describe(call, tx, _add_jobs(tx, call.ctx, batch, app, body, now=call.now))

    return await call.ctx.store.awrite(add)


@endpoint("POST", "/batches/{batch_id:int}/close", scope=Scope.SUBMIT, tag="batches", problems=(404,))
async def close_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Say that no more jobs follow."""
    return await call.ctx.store.awrite(
        lambda tx: _describe(call, tx, batches.close_batch(tx, batch_id, now=call.now))
    )


@endpoint("GET", "/batches", scope=Scope.READ, tag="batches")
async def list_batches(call: Call, query: PageQuery) -> schema.BatchList:
    """List batches."""
    return await call.ctx.store.aread(
        lambda db: schema.BatchList(
            batches=[
                _describe(call, db, batch)
                for batch in batches.list_batches(db, limit=query.limit, before=query.before)
            ]
        )
    )


@endpoint("GET", "/batches/{batch_id:int}", scope=Scope.READ, tag="batches", problems=(404,))
async def get_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Tell how far a batch is."""
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    return await call.ctx.store.aread(
        lambda db: _describe(call, db, batches.batch_by_id(db, batch_id), offer)
    )


@endpoint("GET", "/batches/{batch_id:int}/jobs", scope=Scope.READ, tag="batches", problems=(404,))
async def list_jobs(call: Call, batch_id: int, query: schema.JobsQuery) -> schema.JobList:
    """List jobs."""

    def load(db: Database) -> schema.JobList:
        batches.batch_by_id(db, batch_id)
        found = batches.list_jobs(db, batch_id, after=query.after, limit=query.limit)
        return schema.JobList(jobs=describe_jobs(db, batch_id, found, _base_url(call.ctx)))

    return await call.ctx.store.aread(load)


@endpoint("GET", "/batches/{batch_id:int}/stuck", scope=Scope.READ, tag="batches", problems=(404,))
async def list_stuck_jobs(call: Call, batch_id: int) -> schema.JobList:
    """List jobs that cannot go on.

    They failed on computers, and nobody at hand is left who may try them: at most 200, with what went wrong.
    """
    offer = await call.ctx.store.awrite(call.ctx.offers.get)

    def load(db: Database) -> schema.JobList:
        batches.batch_by_id(db, batch_id)
        stuck = stuck_jobs(db, offer, batch_id, now=call.now)
        found = [batches.job_of_batch(db, batch_id, id_) for id_ in stuck]
        why = {id_: f"It failed, and {stuck_text(missing)}." for id_, missing in stuck.items()}
        return schema.JobList(jobs=describe_jobs(db, batch_id, found, _base_url(call.ctx), stuck=why))

    return await call.ctx.store.aread(load)


@endpoint("POST", "/batches/{batch_id:int}/jobs/cancel", scope=Scope.SUBMIT, tag="batches", problems=(404,))
async def cancel_jobs(call: Call, batch_id: int, body: schema.JobNames) -> schema.BatchStatus:
    """Cancel jobs of a batch.

    Those that have an answer keep it, and names that the batch does not have are passed over; computers that compute a
    cancelled one are told to stop at their next contact.
    """

    def cancel(tx: Transaction) -> schema.BatchStatus:
        batch = batches.batch_by_id(tx, batch_id)
        batches.cancel_workunits(tx, batches.open_jobs_named(tx, batch_id, body.workunits), now=call.now)
        return _describe(call, tx, batch)

    return await call.ctx.store.awrite(cancel)


@endpoint(
    "GET", "/batches/{batch_id:int}/jobs/{job_id:int}", scope=Scope.READ, tag="batches", problems=(404,)
)
async def get_job(call: Call, batch_id: int, job_id: int) -> schema.JobStatus:
    """Describe a job."""

    def load(db: Database) -> schema.JobStatus:
        job = batches.job_of_batch(db, batch_id, job_id)
        return describe_jobs(db, batch_id, [job], _base_url(call.ctx))[0]

    return await call.ctx.store.aread(load)


@endpoint("GET", "/batches/{batch_id:int}/results", scope=Scope.READ, tag="batches", problems=(404,))
async def get_results(call: Call, batch_id: int, query: schema.ResultsQuery) -> schema.ResultsPage:
    """Jobs as they finish.

    Jobs that finished after `after`, in the order in which they did. With `wait` the request is held until there is
    one, at most so many seconds. Repeat with `next` until `finished`.
    """
    ctx = call.ctx

    def load(db: Database) -> schema.ResultsPage:
        batch = batches.batch_by_id(db, batch_id)
        found = batches.finished_jobs(db, batch_id, after=query.after, limit=query.limit)
        last = (found[-1].completed_seq or 0) if found else query.after
        return schema.ResultsPage(
            results=describe_jobs(db, batch_id, found, _base_url(ctx)),
            next=last,
            finished=batch.finished and len(found) < query.limit,
        )

    deadline = time.monotonic() + query.wait
    while True:
        remaining = deadline - time.monotonic()
        # Listening starts before the look, so that nothing can happen unheard in between.
        news = asyncio.create_task(ctx.signals.wait("results", at_most=max(remaining, 0.0)))
        try:
            reply = await ctx.store.aread(load)
            if reply.results or reply.finished or remaining <= 0 or ctx.signals.closed:
                return reply
            await news
        finally:
            news.cancel()


def _base_url(ctx: ServerContext) -> str:
    return ctx.master_url.rstrip("/") + PREFIX


@endpoint("POST", "/batches/{batch_id:int}/cancel", scope=Scope.SUBMIT, tag="batches", problems=(404, 409))
async def cancel_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Cancel a batch.

    Jobs that are done stay; hosts that compute one are told to stop at their next contact.
    """
    batch = await operations.cancel_batch(call.ctx, batch_id, call.actor)
    return await call.ctx.store.aread(lambda db: _describe(call, db, batch))


@endpoint(
    "POST",
    "/batches/{batch_id:int}/retry",
    scope=Scope.SUBMIT,
    tag="batches",
    status=201,
    problems=(404, 409, 429, 507),
)
async def retry_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Submit failed jobs of a batch anew.

    They become a batch of their own, which is the reply. Their input files must still be there.
    """
    await _check_room(call.ctx)
    batch = await operations.retry_batch(call.ctx, batch_id, call.actor)
    return await call.ctx.store.aread(lambda db: _describe(call, db, batch))


@endpoint("POST", "/batches/{batch_id:int}/retire", scope=Scope.SUBMIT, tag="batches", problems=(404, 409))
async def retire_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Retire a batch.

    Its outputs are deleted and its jobs move to the archive. Fetch what you need before.
    """
    return await call.ctx.store.awrite(lambda tx: _describe(call, tx, batches.retire_batch(tx, batch_id)))
