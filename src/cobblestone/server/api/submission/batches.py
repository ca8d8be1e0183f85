"""Batches: submit, watch, cancel, retire, and the reasons why answers may not come."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial

import msgspec
from starlette.responses import Response, StreamingResponse

from cobblestone.api_schema import batches as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.apps import LimitsBody
from cobblestone.api_schema.values import PREFIX, PageQuery
from cobblestone.domain.apps import App
from cobblestone.domain.errors import Conflict
from cobblestone.domain.reasons import exit_advice, meaning_of, phrase
from cobblestone.domain.values import ResultId
from cobblestone.domain.work import BatchState
from cobblestone.policy.dispatch.status import Shortage
from cobblestone.server.api.endpoints.routing import LARGE_BODY, Call, answers
from cobblestone.server.api.submission import jobs as job_forms
from cobblestone.server.api.submission.app_rules import limits_with
from cobblestone.server.api.submission.apps import app_named
from cobblestone.server.api.submission.files import check_free_disk
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import Offer
from cobblestone.server.operation import interventions as operations
from cobblestone.server.operation.reach import batch_shortage, stuck_jobs
from cobblestone.service.http.api import ApiProblem
from cobblestone.store.catalog import apps, files
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import interventions
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import batches, job_results, submitters, webhooks
from cobblestone.store.work.batches import BatchRow, NewJob
from cobblestone.store.work.rows import result_text

KEEP_ALIVE_SECONDS = 15.0


def batch_notes(
    db: Database, batch: BatchRow, app: App, offer: Offer | None, *, address: str, now: float
) -> list[str]:
    """Return why a batch may not be completed; volunteers are not checked without an offer, or for ended jobs."""
    if offer is not None and batch.finished:
        return _given_up(db, batch)
    if batch.finished:
        return []
    if unsendable := _unsendable(db, app):
        return [unsendable, *_failures(db, batch)]
    if offer is None:
        return _failures(db, batch)
    return [
        *_out_of_reach(db, batch, app, offer, address=address, now=now),
        *_failures(db, batch),
        *_given_up(db, batch),
        *_stuck(db, batch, offer, address=address, now=now),
    ]


def _unsendable(db: Database, app: App) -> str:
    versions = apps.list_versions(db, app.id)
    if app.deprecated:
        return f"The app {app.name} is deprecated: its jobs are not sent."
    if not versions:
        return f"The app {app.name} has no version yet, so its jobs cannot be sent."
    if not any(version.signed for version in versions):
        return (
            f"No version of {app.name} is signed yet, so its jobs are not sent. On the computer with the private"
            " key: cobblestone key sign; then here: cobblestone key import"
        )
    return ""


def _out_of_reach(
    db: Database, batch: BatchRow, app: App, offer: Offer, *, address: str, now: float
) -> list[str]:
    missing, survey = batch_shortage(db, offer, batch.id, now=now)
    if missing is None or survey is None:
        return []
    why = (
        f" Why computers do not take them: cobblestone explain workunit {survey.candidate.workunit_name}"
        if survey.refusals
        else ""
    )
    if missing.needed == 1:
        if not survey.tried:
            return [
                f"No volunteer's computer was in contact in the last 7 days: the jobs wait. Volunteers join at {address}"
            ]
        return [f"No computer of those in contact in the last 7 days ({survey.tried}) takes these jobs.{why}"]
    text = (
        f"Each job needs agreeing answers of {missing.needed} {_who(missing, missing.needed)}, and"
        f" {missing.found or 'none'} could give one (of those in contact in the last 7 days): the jobs cannot be"
        f" done before more join at {address}. Or ask for fewer: cobblestone app update {app.name} --quorum"
        f" {max(missing.found, 1)}, and submit again.{why}"
    )
    return [text]


def _failures(db: Database, batch: BatchRow) -> list[str]:
    """Return what failed on some computers while other computers may still try."""
    n_jobs, newest = job_results.failed_so_far(db, batch.id)
    if newest is None:
        return []
    return [
        f"Unfinished jobs that wait for another person's computer after a failure: {n_jobs}. Last failure: {_failure(db, newest)}"
    ]


def _given_up(db: Database, batch: BatchRow) -> list[str]:
    """Return why jobs failed permanently."""
    newest = job_results.last_of_failed_jobs(db, batch.id) if batch.n_error else None
    return [] if newest is None else [f"Last failure of a job that was given up: {_failure(db, newest)}"]


def _webhook_notes(db: Database, batch: BatchRow) -> list[str]:
    webhook = webhooks.webhook_of(db, batch.id)
    if webhook is None or not webhook.error:
        return []
    more = "is sent again" if webhook.next_time else "is not sent again: give the webhook once more"
    return [f"A message to the webhook {webhook.url} did not arrive and {more}: {webhook.error}"]


def _failure(db: Database, result_id: ResultId) -> str:
    # The launcher's own last line only tells the exit status: the program's word stands before it.
    said = [line for line in result_text(db, result_id).stderr.splitlines() if line.strip()]
    last = " / ".join(said[-2:])[:300]
    status = job_results.exit_status(db, result_id)
    advice = f". {exit_advice(status).text()}" if meaning_of(status) else ""
    return f"{last or 'no error output'}{advice}"


def _stuck(db: Database, batch: BatchRow, offer: Offer, *, address: str, now: float) -> list[str]:
    stuck = stuck_jobs(db, offer, batch.id, now=now)
    if not stuck:
        return []
    text = (
        f"{len(stuck)} of them cannot continue: {stuck_text(next(iter(stuck.values())))}. Others may join at {address}; or end"
        f" them: cobblestone batch cancel {batch.id}"
    )
    return [text]


def stuck_text(missing: Shortage) -> str:
    """Return why a failed job does not continue, as part of a sentence."""
    if missing.found:
        return f"{missing.needed} more {_who(missing, missing.needed)} are needed, and {missing.found} could take it"
    return f"no one available could take it except {'people' if missing.by_person else 'computers'} who had it already"


def _who(missing: Shortage, count: int) -> str:
    one, many = ("person", "people") if missing.by_person else ("computer", "computers")
    return one if count == 1 else many


def _describe_batch(
    call: Call, db: Database, batch: BatchRow, offer: Offer | None = None, *, briefly: bool = False
) -> schema.BatchStatus:
    """Return the state of a batch; ``briefly``: without what takes longer the more jobs it has."""
    app = apps.app_by_id(db, batch.app_id)
    # what is cancelled is not waited for, though the transitioner closes it later
    if batch.state is BatchState.ABORTED:
        batch = replace(batch, n_error=batch.n_error + interventions.count_cancelled_open(db, batch.id))
    notes = [] if briefly else _webhook_notes(db, batch)
    if not briefly:
        find = partial(batch_notes, db, batch, app, offer, address=call.ctx.master_url, now=call.now)
        notes = call.ctx.costly.get(("notes", batch.id, batch.finished, offer is None), find) + notes
    running = job_forms.running_jobs(call.ctx, db, batch)
    return job_forms.batch_reply(batch, app.name, running=running, notes=notes)


def planned_jobs(
    db: Database,
    app: App,
    submitter: ApiToken | None,
    body: schema.NewBatch | schema.MoreJobs,
    *,
    priority: int,
    first: int = 0,
) -> list[NewJob]:
    """Return the jobs that a request asks for; ``priority``: of the batch; ``first``: number of the first one.

    Raises:
        JobError: a job cannot be made; the text says which, and why.
        NotAllowed: it asks for what the submitter may not have.
        NotFound: there is no such target.
    """
    bodies, limits = body.jobs, body.limits
    if submitter is not None and submitter.user_id is not None:
        job_forms.check_privileges(priority, bodies)
    job_forms.check_targets(db, [body.target, *(job.target for job in bodies)])
    names = {file.file for body in bodies for file in body.inputs}
    maker = job_forms.JobMaker(
        app,
        apps.job_form(db, app.id),
        limits_with(limits, app.limits) if limits != LimitsBody() else app.limits,
        frozenset(file.open_name for version in apps.list_versions(db, app.id) for file in version.files),
        job_forms.target_from(body.target),
    )
    return maker.make(bodies, files.files_by_name(db, sorted(names)), first=first)


def add_planned(
    tx: Transaction,
    call: Call,
    batch: BatchRow,
    app: App,
    body: schema.NewBatch | schema.MoreJobs,
    names: Sequence[str] = (),
) -> BatchRow:
    """Add the jobs of a request to an open batch; ``names``: of their workunits, where the usual ones will not do.

    Raises:
        JobError, NotAllowed, NotFound: see `planned_jobs`.
        NotAllowed, Conflict: its submitter may not submit them, or not so many; or the batch is closed.
    """
    submitters.check_rights(tx, call.token, app.name, len(body.jobs), now=call.now)
    jobs = planned_jobs(tx, app, call.token, body, priority=batch.priority, first=batch.njobs)
    if names:
        jobs = [replace(job, workunit_name=name) for job, name in zip(jobs, names, strict=True)]
    served = call.ctx.candidates.served(batch.priority)
    return batches.add_jobs(tx, batch, app.name, jobs, served=served, now=call.now)


def open_batch(
    tx: Transaction, call: Call, body: schema.NewBatch, request_key: str | None
) -> tuple[BatchRow, App]:
    """Create an empty batch.

    Raises:
        NotFound: there is no such app.
        Conflict: the app takes no jobs, or a request with this key made a batch already.
    """
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
        request_key=request_key,
        now=call.now,
    )
    return batch, app


async def check_room(ctx: ServerContext) -> None:
    """Refuse jobs when the disk is full or too many results are waiting.  Raises ApiProblem."""
    check_free_disk(ctx)
    most = ctx.settings.watch.max_unsent
    if most and await ctx.store.aread(lambda db: batches.many_unsent(db, most)):
        raise ApiProblem(
            429,
            "too_much_waits",
            phrase("{n} or more results are unsent; no more jobs are accepted for now.", n=most),
            "Submit again when volunteers have computed some of them.",
        )


@answers(endpoints.CREATE_BATCH, max_body=LARGE_BODY)
async def create_batch(call: Call, body: schema.NewBatch) -> schema.BatchStatus:
    """Submit a batch.

    At most 1000 jobs in one request. For more, or for jobs that come one by one, create it with `open`, add jobs in
    several requests, and close it. The whole request is stored, or nothing of it.
    """
    await check_room(call.ctx)
    if not body.jobs and not body.open:
        raise ApiProblem(
            422, "no_jobs", "The batch has no jobs.", "Give jobs, or open = true if they follow later."
        )

    def create(tx: Transaction) -> schema.BatchStatus:
        if call.request_key is not None:
            earlier = batches.batch_by_key(tx, call.request_key)
            if earlier is not None:
                return _describe_batch(call, tx, earlier)
        batch, app = open_batch(tx, call, body, call.request_key)
        batch = add_planned(tx, call, batch, app, body)
        if not body.open:
            batch = batches.close_batch(tx, batch.id, now=call.now)
        return _describe_batch(call, tx, batch, call.ctx.offers.get(tx))

    return await call.write_once(create, schema.BatchStatus)


@answers(endpoints.ADD_JOBS, max_body=LARGE_BODY)
async def add_jobs(call: Call, batch_id: int, body: schema.MoreJobs) -> schema.BatchStatus:
    """Add jobs to an open batch.

    `first` is the number of jobs that the batch has already, so a repeated request adds nothing.
    """
    await check_room(call.ctx)

    def add(tx: Transaction) -> schema.BatchStatus:
        batch = batches.batch_by_id(tx, batch_id)
        if body.first + len(body.jobs) <= batch.njobs:
            return _describe_batch(call, tx, batch, briefly=True)  # a repetition
        if body.first != batch.njobs:
            raise Conflict(
                f"Batch {batch_id} has {batch.njobs} jobs, so the next ones must come with first = {batch.njobs},"
                f" not {body.first}. Is another program adding to it?"
            )
        app = apps.app_by_id(tx, batch.app_id)
        batch = add_planned(tx, call, batch, app, body)
        return _describe_batch(call, tx, batch, briefly=True)

    return await call.ctx.store.awrite(add)


@answers(endpoints.CLOSE_BATCH)
async def close_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Close a batch: no more jobs follow."""
    batch = await call.ctx.store.awrite(lambda tx: batches.close_batch(tx, batch_id, now=call.now))
    return await call.read(lambda db: _describe_batch(call, db, batch))


@answers(endpoints.LIST_BATCHES)
async def list_batches(call: Call, query: PageQuery) -> schema.BatchList:
    """List batches."""
    whose = call.token.id if call.token is not None and call.token.user_id is not None else None

    def load(db: Database) -> schema.BatchList:
        found = batches.list_batches(db, limit=query.limit, before=query.before, token_id=whose)
        return schema.BatchList(batches=[_describe_batch(call, db, batch) for batch in found])

    return await call.read(load)


@answers(endpoints.GET_BATCH)
async def get_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Return the progress of a batch."""
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    return await call.read(lambda db: _describe_batch(call, db, batches.batch_by_id(db, batch_id), offer))


@answers(endpoints.LIST_JOBS)
async def list_jobs(call: Call, batch_id: int, query: schema.JobsQuery) -> schema.JobList:
    """List jobs."""

    def load(db: Database) -> schema.JobList:
        batches.batch_by_id(db, batch_id)
        found = batches.list_jobs(db, batch_id, after=query.after, limit=query.limit)
        return schema.JobList(jobs=job_forms.describe_jobs(db, batch_id, found, _base_url(call.ctx)))

    return await call.read(load)


@answers(endpoints.LIST_STUCK_JOBS)
async def list_stuck_jobs(call: Call, batch_id: int) -> schema.JobList:
    """List jobs that cannot continue.

    They failed on computers, and no computer is left that may try them: at most 200, with what went wrong.
    """
    offer = await call.ctx.store.awrite(call.ctx.offers.get)

    def load(db: Database) -> schema.JobList:
        batches.batch_by_id(db, batch_id)
        stuck = stuck_jobs(db, offer, batch_id, now=call.now)
        found = [batches.job_of_batch(db, batch_id, id_) for id_ in stuck]
        why = {id_: f"It failed, and {stuck_text(missing)}." for id_, missing in stuck.items()}
        return schema.JobList(
            jobs=job_forms.describe_jobs(db, batch_id, found, _base_url(call.ctx), stuck=why)
        )

    return await call.read(load)


@answers(endpoints.CANCEL_JOBS)
async def cancel_jobs(call: Call, batch_id: int, body: schema.JobNames) -> schema.BatchStatus:
    """Cancel jobs of a batch.

    Those that have an answer keep it, and names that the batch does not have are passed over; computers that compute a
    cancelled one are told to stop at their next contact.
    """

    def cancel(tx: Transaction) -> schema.BatchStatus:
        batch = batches.batch_by_id(tx, batch_id)
        batches.cancel_workunits(tx, batches.open_jobs_named(tx, batch_id, body.workunits), now=call.now)
        return _describe_batch(call, tx, batch)

    return await call.ctx.store.awrite(cancel)


@answers(endpoints.GET_JOB)
async def get_job(call: Call, batch_id: int, job_id: int) -> schema.JobStatus:
    """Describe a job."""

    def load(db: Database) -> schema.JobStatus:
        job = batches.job_of_batch(db, batch_id, job_id)
        return job_forms.describe_jobs(db, batch_id, [job], _base_url(call.ctx))[0]

    return await call.read(load)


@answers(endpoints.GET_RESULTS)
async def get_results(call: Call, batch_id: int, query: schema.ResultsQuery) -> schema.ResultsPage:
    """Return jobs as they finish.

    Jobs that finished after `after`, in the order in which they did. With `wait` the request is held until there is
    one, at most so many seconds. Repeat with `next` until `finished`.
    """
    return await _next_results(call.ctx, batch_id, query)


@answers(endpoints.GET_EVENTS)
async def get_events(call: Call, batch_id: int, query: schema.EventsQuery) -> Response:
    """Stream jobs as they finish.

    Server-sent events: each `results` event carries what the results page would, with its `next` as the id, so that a
    reader that connects again with `Last-Event-ID` misses nothing; the last event is `finished`.
    """
    await call.read(lambda db: batches.batch_by_id(db, batch_id))
    last = call.request.headers.get("last-event-id", "")
    after = int(last) if re.fullmatch(r"[0-9]{1,18}", last) else query.after
    return StreamingResponse(
        _events(call.ctx, batch_id, after),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(ctx: ServerContext, batch_id: int, after: int) -> AsyncIterator[bytes]:
    yield b"retry: 3000\n\n"
    while not ctx.signals.closed:
        query = schema.ResultsQuery(after=after, wait=KEEP_ALIVE_SECONDS)
        page = await _next_results(ctx, batch_id, query)
        if page.results or page.finished:
            after = page.next
            kind = "finished" if page.finished else "results"
            yield b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), after, msgspec.json.encode(page))
            if page.finished:
                return
        else:
            yield b": nothing new\n\n"  # tells the reader, and proxies, that the connection is alive


async def _next_results(ctx: ServerContext, batch_id: int, query: schema.ResultsQuery) -> schema.ResultsPage:
    load = partial(results_page, ctx, batch_id=batch_id, after=query.after, limit=query.limit)
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


def results_page(
    ctx: ServerContext, db: Database, batch_id: int, *, after: int, limit: int
) -> schema.ResultsPage:
    """Return jobs of a batch that finished after a position in its list.

    Raises:
        NotFound: there is no such batch.
    """
    batch = batches.batch_by_id(db, batch_id)
    found = batches.finished_jobs(db, batch_id, after=after, limit=limit)
    return schema.ResultsPage(
        results=job_forms.describe_jobs(db, batch_id, found, _base_url(ctx)),
        next=(found[-1].completed_seq or 0) if found else after,
        finished=batch.finished and len(found) < limit,
    )


def _base_url(ctx: ServerContext) -> str:
    return ctx.master_url.rstrip("/") + PREFIX


@answers(endpoints.CANCEL_BATCH)
async def cancel_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Cancel a batch.

    Jobs that are done stay; hosts that compute one are told to stop at their next contact.
    """
    batch = await operations.cancel_batch(call.ctx, batch_id, call.actor)
    return await call.read(lambda db: _describe_batch(call, db, batch))


@answers(endpoints.RETRY_BATCH)
async def retry_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Submit failed jobs of a batch again.

    They become a batch of their own, which is the reply. Their input files must still be there.
    """
    await check_room(call.ctx)
    batch = await operations.retry_batch(call.ctx, batch_id, call.actor, submitter=call.token)
    return await call.read(lambda db: _describe_batch(call, db, batch))


@answers(endpoints.RETIRE_BATCH)
async def retire_batch(call: Call, batch_id: int) -> schema.BatchStatus:
    """Retire a batch.

    Its outputs are deleted and its jobs move to the archive. Fetch what you need before.
    """
    return await call.ctx.store.awrite(
        lambda tx: _describe_batch(call, tx, batches.retire_batch(tx, batch_id))
    )
