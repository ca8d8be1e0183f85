"""Batches: submit, watch, cancel, retire."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from cobblestone.domain.apps import App
from cobblestone.domain.errors import Conflict
from cobblestone.domain.states import BatchState
from cobblestone.server.api.app_models import LimitsBody
from cobblestone.server.api.app_rules import limits_with
from cobblestone.server.api.apps import app_named
from cobblestone.server.api.errors import ApiProblem
from cobblestone.server.api.files import check_free_disk
from cobblestone.server.api.job_models import (
    BatchList,
    BatchReply,
    JobList,
    JobReply,
    JobsQuery,
    MoreJobs,
    NewBatch,
    PageQuery,
    ResultsQuery,
    ResultsReply,
    batch_reply,
    describe_jobs,
)
from cobblestone.server.api.job_rules import JobMaker, check_targets, target_from
from cobblestone.server.api.routing import LARGE_BODY, PREFIX, Call, Endpoint, Nothing
from cobblestone.server.core.context import ServerContext
from cobblestone.server.operation import interventions as operations
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import interventions
from cobblestone.store.people.tokens import Scope
from cobblestone.store.work import batches, files
from cobblestone.store.work.batches import Batch
from cobblestone.store.work.rows import result_text


def _notes(db: Database, app: App) -> list[str]:
    """Why nothing may come, in words."""
    versions = apps.list_versions(db, app.id)
    if app.deprecated:
        return [f"The app {app.name} is deprecated: its jobs are not sent."]
    if not versions:
        return [f"The app {app.name} has no version yet, so its jobs cannot be sent."]
    if not any(version.signed for version in versions):
        sentence = (
            f"No version of {app.name} is signed yet, so its jobs are not sent. On the computer with the private"
            " key: cobblestone key sign; then here: cobblestone key import"
        )
        return [sentence]
    return []


def _failure_notes(db: Database, batch: Batch) -> list[str]:
    """What failed on some computers, though other computers may still try it."""
    n_jobs, newest = batches.failed_so_far(db, batch.id)
    if newest is None:
        return []
    # The launcher's own last line only tells the exit status: the program's word stands before it.
    last = " / ".join(result_text(db, newest).stderr.split("\n")[-2:]).strip(" /")[:300]
    return [
        f"{n_jobs} unfinished jobs failed on a computer and wait for another person's. Last failure: {last or 'no error output'}"
    ]


def _describe(db: Database, batch: Batch) -> BatchReply:
    app = apps.app_by_id(db, batch.app_id)
    if (
        batch.state is BatchState.ABORTED
    ):  # what is cancelled is not waited for, though the transitioner closes it later
        batch = replace(batch, n_error=batch.n_error + interventions.count_cancelled_open(db, batch.id))
    return batch_reply(
        batch,
        app.name,
        running=0 if batch.finished else batches.count_running(db, batch.id),
        notes=[] if batch.finished else _notes(db, app) + _failure_notes(db, batch),
    )


def _add_jobs(
    tx: Transaction, ctx: ServerContext, batch: Batch, app: App, body: NewBatch | MoreJobs, *, now: float
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


async def create_batch(call: Call[NewBatch, Nothing]) -> BatchReply:
    """Submit a batch."""
    body = call.body
    await _check_room(call.ctx)
    if not body.jobs and not body.open:
        raise ApiProblem(
            422, "no_jobs", "The batch has no jobs.", "Give jobs, or open = true if they follow later."
        )

    def create(tx: Transaction) -> BatchReply:
        if call.request_key is not None:
            earlier = batches.batch_by_key(tx, call.request_key)
            if earlier is not None:
                return _describe(tx, earlier)
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
        return _describe(tx, batch)

    return await call.write_once(create, BatchReply)


async def add_jobs(call: Call[MoreJobs, Nothing]) -> BatchReply:
    """Add jobs to an open batch."""
    body, batch_id = call.body, call.path_id("batch_id")
    await _check_room(call.ctx)

    def add(tx: Transaction) -> BatchReply:
        batch = batches.batch_by_id(tx, batch_id)
        if body.first + len(body.jobs) <= batch.njobs:
            return _describe(tx, batch)  # a repetition
        if body.first != batch.njobs:
            raise Conflict(
                f"Batch {batch_id} has {batch.njobs} jobs, so the next ones must come with first = {batch.njobs},"
                f" not {body.first}. Is somebody else adding to it?"
            )
        app = apps.app_by_id(tx, batch.app_id)
        return _describe(tx, _add_jobs(tx, call.ctx, batch, app, body, now=call.now))

    return await call.ctx.store.awrite(add)


async def close_batch(call: Call[Nothing, Nothing]) -> BatchReply:
    """Say that no more jobs follow."""
    batch_id = call.path_id("batch_id")
    return await call.ctx.store.awrite(
        lambda tx: _describe(tx, batches.close_batch(tx, batch_id, now=call.now))
    )


async def list_batches(call: Call[Nothing, PageQuery]) -> BatchList:
    """List batches."""
    query = call.query
    return await call.ctx.store.aread(
        lambda db: BatchList(
            batches=[
                _describe(db, batch)
                for batch in batches.list_batches(db, limit=query.limit, before=query.before)
            ]
        )
    )


async def get_batch(call: Call[Nothing, Nothing]) -> BatchReply:
    """Tell how far a batch is."""
    batch_id = call.path_id("batch_id")
    return await call.ctx.store.aread(lambda db: _describe(db, batches.batch_by_id(db, batch_id)))


async def list_jobs(call: Call[Nothing, JobsQuery]) -> JobList:
    """List jobs of a batch."""
    batch_id, query = call.path_id("batch_id"), call.query

    def load(db: Database) -> JobList:
        batches.batch_by_id(db, batch_id)
        found = batches.list_jobs(db, batch_id, after=query.after, limit=query.limit)
        return JobList(jobs=describe_jobs(db, batch_id, found, _base_url(call.ctx)))

    return await call.ctx.store.aread(load)


async def get_job(call: Call[Nothing, Nothing]) -> JobReply:
    """Describe a job."""
    batch_id, job_id = call.path_id("batch_id"), call.path_id("job_id")

    def load(db: Database) -> JobReply:
        job = batches.job_of_batch(db, batch_id, job_id)
        return describe_jobs(db, batch_id, [job], _base_url(call.ctx))[0]

    return await call.ctx.store.aread(load)


async def get_results(call: Call[Nothing, ResultsQuery]) -> ResultsReply:
    """Give the jobs that finished since the last request, waiting for one if there is none yet."""
    ctx, query, batch_id = call.ctx, call.query, call.path_id("batch_id")

    def load(db: Database) -> ResultsReply:
        batch = batches.batch_by_id(db, batch_id)
        found = batches.finished_jobs(db, batch_id, after=query.after, limit=query.limit)
        last = (found[-1].completed_seq or 0) if found else query.after
        return ResultsReply(
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


async def cancel_batch(call: Call[Nothing, Nothing]) -> BatchReply:
    """Cancel what is not done yet."""
    batch = await operations.cancel_batch(call.ctx, call.path_id("batch_id"), call.actor)
    return await call.ctx.store.aread(lambda db: _describe(db, batch))


async def retry_batch(call: Call[Nothing, Nothing]) -> BatchReply:
    """Submit the failed jobs of a batch anew."""
    await _check_room(call.ctx)
    batch = await operations.retry_batch(call.ctx, call.path_id("batch_id"), call.actor)
    return await call.ctx.store.aread(lambda db: _describe(db, batch))


async def retire_batch(call: Call[Nothing, Nothing]) -> BatchReply:
    """Let go of a finished batch."""
    batch_id = call.path_id("batch_id")
    return await call.ctx.store.awrite(lambda tx: _describe(tx, batches.retire_batch(tx, batch_id)))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/batches",
        summary="Submit a batch",
        description=(
            "At most 1000 jobs in one request. For more, or for jobs that come one by one, create it with `open`,"
            " add jobs in several requests, and close it. The whole request is stored, or nothing of it."
        ),
        handler=create_batch,
        body=NewBatch,
        query=Nothing,
        reply=BatchReply,
        scope=Scope.SUBMIT,
        tag="batches",
        status=201,
        max_body=LARGE_BODY,
        idempotent=True,
        problems=(404, 409, 429, 507),
    ),
    Endpoint(
        method="GET",
        path="/batches",
        summary="List batches",
        handler=list_batches,
        body=Nothing,
        query=PageQuery,
        reply=BatchList,
        scope=Scope.READ,
        tag="batches",
    ),
    Endpoint(
        method="GET",
        path="/batches/{batch_id:int}",
        summary="Tell how far a batch is",
        handler=get_batch,
        body=Nothing,
        query=Nothing,
        reply=BatchReply,
        scope=Scope.READ,
        tag="batches",
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/batches/{batch_id:int}/jobs",
        summary="Add jobs to an open batch",
        description="`first` is the number of jobs that the batch has already, so a repeated request adds nothing.",
        handler=add_jobs,
        body=MoreJobs,
        query=Nothing,
        reply=BatchReply,
        scope=Scope.SUBMIT,
        tag="batches",
        max_body=LARGE_BODY,
        problems=(404, 409, 429, 507),
    ),
    Endpoint(
        method="GET",
        path="/batches/{batch_id:int}/jobs",
        summary="List jobs",
        handler=list_jobs,
        body=Nothing,
        query=JobsQuery,
        reply=JobList,
        scope=Scope.READ,
        tag="batches",
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/batches/{batch_id:int}/jobs/{job_id:int}",
        summary="Describe a job",
        handler=get_job,
        body=Nothing,
        query=Nothing,
        reply=JobReply,
        scope=Scope.READ,
        tag="batches",
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/batches/{batch_id:int}/close",
        summary="Say that no more jobs follow",
        handler=close_batch,
        body=Nothing,
        query=Nothing,
        reply=BatchReply,
        scope=Scope.SUBMIT,
        tag="batches",
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/batches/{batch_id:int}/results",
        summary="Jobs as they finish",
        description=(
            "Jobs that finished after `after`, in the order in which they did. With `wait` the request is held until"
            " there is one, at most so many seconds. Repeat with `next` until `finished`."
        ),
        handler=get_results,
        body=Nothing,
        query=ResultsQuery,
        reply=ResultsReply,
        scope=Scope.READ,
        tag="batches",
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/batches/{batch_id:int}/cancel",
        summary="Cancel a batch",
        description="Jobs that are done stay; hosts that compute one are told to stop at their next contact.",
        handler=cancel_batch,
        body=Nothing,
        query=Nothing,
        reply=BatchReply,
        scope=Scope.SUBMIT,
        tag="batches",
        problems=(404, 409),
    ),
    Endpoint(
        method="POST",
        path="/batches/{batch_id:int}/retry",
        summary="Submit failed jobs of a batch anew",
        description="They become a batch of their own, which is the reply. Their input files must still be there.",
        handler=retry_batch,
        body=Nothing,
        query=Nothing,
        reply=BatchReply,
        scope=Scope.SUBMIT,
        tag="batches",
        status=201,
        problems=(404, 409, 429, 507),
    ),
    Endpoint(
        method="POST",
        path="/batches/{batch_id:int}/retire",
        summary="Retire a batch",
        description="Its outputs are deleted and its jobs move to the archive. Fetch what you need before.",
        handler=retire_batch,
        body=Nothing,
        query=Nothing,
        reply=BatchReply,
        scope=Scope.SUBMIT,
        tag="batches",
        problems=(404, 409),
    ),
)
