"""The family's remote job submission, as its Python client, its C++ library and HTCondor call it.

A thin layer over the endpoints for submitters: rights, limits, shares and ownership are those of their functions.  Callers
name their jobs, batches and files themselves; such a name is looked up as the caller's own, so that nobody finds or takes
those of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.api_schema.batches import JobBody, JobNames, NewBatch
from cobblestone.api_schema.values import ErrorReply, Reply, find_fault
from cobblestone.domain.apps import App
from cobblestone.domain.errors import Conflict, JobError, NotFound, RemoteProtocolError
from cobblestone.domain.people import Scope
from cobblestone.domain.values import ResultId, WorkunitId
from cobblestone.domain.work import BatchState, JobState, Outcome
from cobblestone.ops.aside import read_aside
from cobblestone.server.api.endpoints.routing import TOKENS, Call, submitter_of
from cobblestone.server.api.submission import batches as api
from cobblestone.server.api.submission import files as api_files
from cobblestone.server.api.submission.apps import app_named
from cobblestone.server.core.context import ServerContext
from cobblestone.server.operation.reach import job_seconds, supply
from cobblestone.service.http.api import answered, read_bounded
from cobblestone.service.http.requests import SMALL_BODY_BYTES, BodyTooLarge
from cobblestone.store.catalog import apps, files
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation.page_queries import task_state
from cobblestone.store.people import credentials, users
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import batches, job_results, submitters
from cobblestone.store.work.batches import BatchRow, JobRow
from cobblestone.store.work.rows import result_text, results_by_name, results_of_workunits
from cobblestone.store.work.uploads import StoredOutput, outputs_of_results
from cobblestone.wire.project import remote_submission as wire
from cobblestone.wire.project.account import md5_hex, parse_web_query
from cobblestone.wire.text.writer import scalar, scalars

#: Jobs, and batches, in one answer.
MAX_LISTED, MAX_BATCHES = 20_000, 1000
#: Of one form.
MAX_FILES, MAX_FIELDS = 1000, 10
#: Changes that are being stored while an answer is made are told in the next one, too.
OVERLAP_SECONDS = 10.0
SUCCESS = "<success>1</success>\n"

#: Of jobs that have not failed.
_STATUS = {JobState.WAITING: "UNSENT", JobState.RUNNING: "IN_PROGRESS", JobState.DONE: "DONE"}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_ENDED_ON_HOST = (Outcome.SUCCESS, Outcome.CLIENT_ERROR, Outcome.VALIDATE_ERROR)


class _Jobs(NewBatch, frozen=True, kw_only=True):
    """As many jobs as a call may have."""

    jobs: list[JobBody] = msgspec.field(default_factory=list[JobBody])  # bounded where they were read


class _Made(Reply, frozen=True):
    """The batch that a call made."""

    id: int


# -- who calls, and what is called by a name ----------------------------------------------------------


def _caller(db: Database, secret: str, *, now: float) -> ApiToken:
    """Return the token of an authenticator: that of an account, or the text of a token that may submit.

    Raises:
        ApiProblem, NotAllowed: nobody has it, or it may not submit.
    """
    found = users.user_by_authenticator(db, secret)
    if found is not None and not found[1]:
        return submitter_of(db, found[0].id)
    token = TOKENS.check(credentials.token_by_secret(db, secret), Scope.SUBMIT, now=now)
    return token if token.user_id is None else submitter_of(db, token.user_id)


def _check_link(db: Database, batch_id: int, subject: str, secret: str, *, now: float) -> None:
    """Check what a link to outputs proves: an authenticator, or the MD5 of the owner's with what is asked for behind it.

    Raises:
        ApiProblem, NotAllowed, NotFound: it proves nothing, or the batch is somebody else's, or not there.
    """
    owner = submitters.owner_of(db, batches.batch_by_id(db, batch_id))
    if owner is not None and compare_digest(md5_hex(owner.authenticator + subject).encode(), secret.encode()):
        submitter_of(db, owner.id)
    else:
        submitters.own_batch(db, _caller(db, secret, now=now), batch_id)


def _linked(db: Database, job: str, result: str, secret: str, *, now: float) -> list[StoredOutput]:
    """Return the outputs that a link is about: those of a job's answer, or of a result.

    Raises:
        ApiProblem, NotAllowed, NotFound: there is no such thing, or the link does not prove that its sender may see it.
    """
    if job:
        batch_id, job_id = _jobs_named(db, _caller(db, secret, now=now), [job])[0]
        result_id = batches.job_of_batch(db, batch_id, job_id).canonical_result_id
    else:
        found = results_by_name(db, [result]).get(result)
        if found is None:
            raise NotFound(f"There is no result {result!r}. The answer to query_batch has their names.")
        _check_link(db, batches.batch_of_job(db, found.workunit_id), result, secret, now=now)
        result_id = found.id
    return [] if result_id is None else outputs_of_results(db, [result_id])[result_id]


def _jobs_named(db: Database, token: ApiToken, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return batch and workunit id of each of these jobs, which have names of the caller or those of their workunits.

    Raises:
        NotFound: one is not there, or somebody else's.
    """
    own = {name: _own("remote", token, name) for name in names}
    found = batches.jobs_named(db, [*own, *own.values()])
    places = [found.get(own[name]) or found.get(name, (0, 0)) for name in names]
    if (0, 0) in places:
        raise NotFound(f"There is no job {names[places.index((0, 0))]!r} of yours.")
    for batch_id in {place[0] for place in places}:
        submitters.own_batch(db, token, batch_id)
    return places


def _batch_called(db: Database, token: ApiToken, number: int, name: str) -> BatchRow:
    """Return the caller's batch of this number, or else of this name.  Raises NotFound."""
    if number:
        return submitters.own_batch(db, token, number)
    found = batches.batch_by_key(db, _own("batch", token, name))
    if found is None:
        raise NotFound(f"There is no batch {name!r} of yours.")
    return found


def _job_called(db: Database, token: ApiToken, asked: wire.RemoteCall) -> tuple[BatchRow, JobRow]:
    batch_id, job_id = _jobs_named(db, token, asked.names[:1] or [""])[0]
    return batches.batch_by_id(db, batch_id), batches.job_of_batch(db, batch_id, job_id)


def _own(kind: str, token: ApiToken, name: str) -> str:
    """Return what a thing is called here that the caller calls by a name."""
    return f"{kind}_{sha256(f'{token.id} {kind} {name}'.encode()).hexdigest()[:40]}"


# -- calls that make something ------------------------------------------------------------------------


async def _make_batch(call: Call, token: ApiToken, asked: wire.RemoteCall) -> str:
    """Answer ``create_batch`` and ``submit_batch``: all of it is stored, or nothing.

    The same call again gives the same batch; jobs of names that the caller has already are refused.
    """
    await api.check_room(call.ctx)
    body = await asyncio.to_thread(_body_of, token, asked)
    for text in {file.content for job in asked.jobs for file in job.files if file.mode == "inline"}:
        staged = await api_files.receive(call.ctx, _one_piece(text.encode()))
        await api_files.keep(call.ctx, staged, f"jf_{staged.sha256}", now=call.now)
    if not body.jobs and asked.action != "create_batch":
        raise JobError("The batch has no jobs.")
    names = [_own("remote", token, job.name) if job.name else "" for job in asked.jobs]
    named = list(filter(None, names))

    def make(tx: Transaction) -> _Made:
        batch, app = _batch_for(tx, call, token, asked, body)
        taken = {*batches.jobs_named(tx, named)}
        for place, name in enumerate(names):
            if name in taken:
                raise Conflict(f"Job {place}: another job of yours is called {asked.jobs[place].name!r}.")
            if name:
                taken.add(name)
        batch = api.add_planned(tx, call, batch, app, body, names)
        if names:
            batches.close_batch(tx, batch.id, now=call.now)
        return _Made(id=batch.id)

    repeatable = names and (named or asked.batch_id or asked.batch_name)
    key = _own("call", token, call.digest) if repeatable else None
    return scalar("batch_id", (await replace(call, request_key=key).write_once(make, _Made)).id)


def _batch_for(
    tx: Transaction, call: Call, token: ApiToken, asked: wire.RemoteCall, body: NewBatch
) -> tuple[BatchRow, App]:
    """Return the empty batch that jobs go into: the one that the call names, or a new one."""
    key = _own("batch", token, asked.batch_name) if asked.batch_name else None
    found = batches.batch_by_key(tx, key) if key else None
    if asked.batch_id:
        found = submitters.own_batch(tx, token, asked.batch_id)
    if found is None:
        return api.open_batch(tx, call, body, key)
    app = apps.app_by_id(tx, found.app_id)
    if found.state is not BatchState.INIT or found.njobs or app.name != asked.app_name:
        raise Conflict(f"Batch {found.id} ({found.name}) has its jobs already, or is of another app.")
    return found, app


def _body_of(token: ApiToken, asked: wire.RemoteCall) -> NewBatch:
    """Return the batch as the API knows it.  Raises JobError."""
    if asked.app_version_num:
        raise JobError("Jobs get the version that fits the computer: leave out app_version_num.")
    plain = {
        "app": asked.app_name,
        "name": asked.batch_name,
        "priority": asked.priority,
        "jobs": [_plain_job(token, job) for job in asked.jobs],
    }
    try:
        return msgspec.convert(plain, _Jobs)
    except msgspec.ValidationError as error:
        raise JobError(find_fault(error, plain, _Jobs).message) from error


def _plain_job(token: ApiToken, job: wire.CalledJob) -> dict[str, Any]:
    inputs = [
        {"file": _stored_as(token, file), "file_name": "" if file.mode == "inline" else file.source}
        for file in job.files
    ]
    limits = {"rsc_fpops_est": job.rsc_fpops_est} if job.rsc_fpops_est else None
    given = {"command_line": job.command_line, "priority": job.priority, "limits": limits}
    return {"name": job.name, "inputs": inputs, **given}


def _stored_as(token: ApiToken, file: wire.CalledFile) -> str:
    if file.mode == "inline":
        return f"jf_{sha256(file.content.encode()).hexdigest()}"
    if file.mode not in ("local_staged", "sandbox"):
        raise JobError(
            f"Files of the mode {file.mode!r} are not read or fetched here: send them by job_file.php, as local_staged."
        )
    return _own("jf", token, file.source)


async def _one_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _query_files(call: Call, token: ApiToken, asked: wire.RemoteCall) -> str:
    """Answer ``query_files``: places of those that are not here; the others are kept for a while."""
    names = [_own("jf", token, name) for name in asked.names]
    found = await call.ctx.store.awrite(lambda tx: files.touch(tx, list(dict.fromkeys(names)), now=call.now))
    absent = [("file", place) for place, name in enumerate(names) if name not in found]
    return wire.write_element("absent_files", *absent)


async def _upload(call: Call, token: ApiToken, asked: wire.RemoteCall, parts: Sequence[UploadFile]) -> str:
    """Answer ``upload_files``: store files, each under the caller's name for it.  Sending one again changes nothing."""
    api_files.check_free_disk(call.ctx)
    names = asked.names
    # The family's newer client names all files, and sends those that are not here.
    if len(parts) != len(names):
        names = tuple(part.filename or "" for part in parts)
    if set(names) - set(asked.names):
        raise JobError(f"Files that the call names: {len(asked.names)}; with it came {len(parts)}.")
    for name, part in zip(names, parts, strict=True):
        staged = await api_files.receive(call.ctx, api_files.pieces(part))
        claimed = name.removeprefix("jf_")
        if len(claimed) == 32 and not set(claimed) - set("0123456789abcdef") and claimed != staged.md5:
            await asyncio.to_thread(staged.path.unlink)
            raise JobError(f"{name} has the MD5 {staged.md5}: it was changed on the way. Send it again.")
        await api_files.keep(call.ctx, staged, _own("jf", token, name), now=call.now)
    return "<success/>\n"


async def _on_batch(call: Call, token: ApiToken, asked: wire.RemoteCall) -> str:
    """Answer ``abort_batch``, ``retire_batch`` and ``set_expire_time``, which is refused."""
    batch = await call.read(lambda db: _batch_called(db, token, asked.batch_id, asked.batch_name))
    if asked.action == "abort_batch":
        await api.cancel_batch.handler(call, batch_id=batch.id)
    elif asked.action == "retire_batch":
        await api.retire_batch.handler(call, batch_id=batch.id)
    else:
        raise Conflict("Batches do not expire here. Retire the batch when its outputs are fetched.")
    return SUCCESS


async def _abort_jobs(call: Call, token: ApiToken, asked: wire.RemoteCall) -> str:
    """Answer ``abort_jobs``; all are looked up before the first is cancelled."""
    found = await call.read(lambda db: _jobs_named(db, token, asked.names))
    names = JobNames(workunits=[*asked.names, *(_own("remote", token, name) for name in asked.names)])
    for batch_id in {place[0] for place in found}:
        await api.cancel_jobs.handler(call, batch_id=batch_id, body=names)
    return SUCCESS


# -- calls that ask -----------------------------------------------------------------------------------


def _estimate_batch(db: Database, token: ApiToken, asked: wire.RemoteCall, call: Call) -> str:
    """Return the time until the end of the batch that is described, as far as the computers of the last day tell."""
    app, given = app_named(db, asked.app_name), supply(call.ctx, db, now=call.now)
    each = [job.rsc_fpops_est or app.limits.rsc_fpops_est for job in asked.jobs]
    operations = sum(each) * app.rules_of_jobs.target_nresults
    seconds = job_seconds(db, app, given, operations)
    end = given.end_of(len(asked.jobs), seconds / max(len(asked.jobs), 1))
    return scalar("seconds", seconds if end is None else end - call.now)


def _query_batches(db: Database, token: ApiToken, asked: wire.RemoteCall, call: Call) -> str:
    """Return the caller's batches that are not retired, newest first."""
    own = None if token.user_id is None else token.id
    found = batches.list_batches(db, limit=MAX_BATCHES, token_id=own)
    shown = [_batch(db, each) for each in found if each.state is not BatchState.RETIRED]
    return "".join(wire.write_element("batch", inside=each) for each in shown)


def _batch(db: Database, batch: BatchRow) -> str:
    app = apps.app_by_id(db, batch.app_id)
    n_ended = batch.njobs if batch.state is BatchState.ABORTED else batch.n_success + batch.n_error
    return scalars(batch, "id create_time njobs state name") + "".join(
        (
            scalar("fraction_done", batch.n_success / max(batch.njobs, 1)),
            scalar("nerror_jobs", n_ended - batch.n_success),
            scalar("completion_time", batch.complete_time or 0.0),
            scalar("credit_estimate", app.limits.rsc_fpops_est * batch.njobs * 200 / 86400e9),
            scalar("total_cpu_time", n_ended * (job_results.cost_of_batch(db, batch.id) or 0.0)),
            scalar("app_name", app.name),
        )
    )


def _query_batch(db: Database, token: ApiToken, asked: wire.RemoteCall, call: Call) -> str:
    """Return a batch with its jobs."""
    batch = _batch_called(db, token, asked.batch_id, asked.batch_name)
    (listed,) = _listed(db, [batch])
    found = job_results.result_facts(db, [ResultId(job.canonical_result_id or 0) for job in listed])
    jobs = [
        wire.write_element(
            "job",
            ("id", job.workunit_id),
            ("name", job.label or job.name),
            ("canonical_instance_id", id_ := ResultId(job.canonical_result_id or 0)),
            ("canonical_instance_name", found[id_].name if id_ in found else ""),  # for links to its outputs
            ("n_outfiles", len(job.output_specs)),
            ("status", _STATUS.get(job.status, "ERROR").lower()),
        )
        for job in listed
    ]
    return _batch(db, batch) + "".join(jobs)


def _listed(db: Database, found: Sequence[BatchRow]) -> list[list[JobRow]]:
    """Return the jobs of each batch.  Raises Conflict if they are too many for an answer."""
    if sum(batch.njobs for batch in found) > MAX_LISTED:
        raise Conflict(f"These are more than {MAX_LISTED} jobs: ask for fewer, or by the API in parts.")
    return [batches.list_jobs(db, batch.id, limit=MAX_LISTED) for batch in found]


def _query_batch2(db: Database, token: ApiToken, asked: wire.RemoteCall, call: Call) -> str:
    """Return what became of the jobs of batches; after a time, of those that have not ended before it."""
    found = [_batch_called(db, token, 0, name) for name in asked.names]
    answer = [scalar("server_time", call.now - OVERLAP_SECONDS)]
    for jobs in _listed(db, found):
        changed = [job for job in jobs if (job.completed_time or call.now) >= asked.min_mod_time]
        answer.append(scalar("batch_size", len(changed)))
        for job in changed:
            told = ("job_name", job.label or job.name), ("status", _STATUS.get(job.status, "ERROR"))
            answer.append(wire.write_element("job", *told))
    return "".join(answer)


def _query_job(db: Database, token: ApiToken, asked: wire.RemoteCall, call: Call) -> str:
    """Return the instances of a job."""
    submitters.own_batch(db, token, batches.batch_of_job(db, asked.job_id))
    results = results_of_workunits(db, [asked.job_id])[WorkunitId(asked.job_id)]
    outputs = outputs_of_results(db, [result.id for result in results], with_data=False)
    answer = ""
    for result in results:
        state = scalar("state", (task_state(result) or "unsent").replace("_", " "))
        sizes = [wire.write_element("outfile", ("size", output.nbytes)) for output in outputs[result.id]]
        answer += wire.write_element("instance", inside=scalars(result, "name id") + state + "".join(sizes))
    return answer


def _query_completed_job(db: Database, token: ApiToken, asked: wire.RemoteCall, call: Call) -> str:
    """Return the answer of a job, or else its last instance that ended on a computer."""
    _, job = _job_called(db, token, asked)
    answer = scalar("error_mask", int(job.error_mask))
    for result in reversed(results_of_workunits(db, [job.workunit_id])[job.workunit_id]):
        if result.outcome in _ENDED_ON_HOST and job.canonical_result_id in (None, result.id):
            kind = "canonical" if job.canonical_result_id else "error"
            answer += scalar(f"{kind}_resultid", result.id)
            answer += scalars(result, "exit_status elapsed_time cpu_time")
            answer += wire.write_stderr(result_text(db, result.id).stderr)
            break
    return wire.write_element("completed_job", inside=answer)


def _get_templates(db: Database, token: ApiToken, asked: wire.RemoteCall, call: Call) -> str:
    """Return the files of an app's jobs, by the app or by one of its jobs."""
    job = None if asked.app_name else _job_called(db, token, asked)
    app = apps.app_by_id(db, job[0].app_id) if job else app_named(db, asked.app_name)
    return wire.write_templates(app, apps.job_form(db, app.id))


_ASKING = {
    "estimate_batch": _estimate_batch,
    "query_batches": _query_batches,
    "query_batch": _query_batch,
    "query_batch2": _query_batch2,
    "query_job": _query_job,
    "query_completed_job": _query_completed_job,
    "get_templates": _get_templates,
}
_CHANGING = {
    "create_batch": _make_batch,
    "submit_batch": _make_batch,
    "abort_batch": _on_batch,
    "retire_batch": _on_batch,
    "set_expire_time": _on_batch,
    "abort_jobs": _abort_jobs,
    "query_files": _query_files,
}


# -- addresses ----------------------------------------------------------------------------------------


def remote_routes(ctx: ServerContext) -> list[BaseRoute]:
    """Return the routes; old callers put a second slash in front of some."""
    calls = ("submit_rpc_handler.php", "job_file.php")
    links = ("get_output.php", "get_output2.php", "get_output3.php")
    answers = {**dict.fromkeys(calls, _answer_call), **dict.fromkeys(links, _send_outputs)}
    return [
        Route(slashes + path, partial(answer, ctx), methods=["GET", "POST"])
        for path, answer in answers.items()
        for slashes in ("/", "//")
    ]


async def _answer_call(ctx: ServerContext, request: Request) -> Response:
    """Answer a call; one that is refused is answered with status 200, too, as the family does."""
    action = ""

    async def answer() -> Response:
        nonlocal action
        form, kind, now = FormData(), request.headers.get("content-type", ""), ctx.clock()
        if kind.startswith("multipart/"):
            form = await _form_from_caller(ctx, request)
            body = str(form.get("request", "")).encode()
        else:
            body = await read_bounded(request, wire.MAX_BYTES)
            if kind.startswith("application/x-www-form-urlencoded"):
                body = await read_aside(_request_of, body)
        try:
            action = wire.action_of(body)
            if len(body) > SMALL_BODY_BYTES:  # takes seconds to read, which strangers shall not cost us
                secret = wire.authenticator_of(body)
                await ctx.store.aread(partial(_caller, secret=secret, now=now))
            asked = await read_aside(wire.parse_call, body)
            content = SUCCESS  # of a ping, for which nobody needs to be known
            if action != "ping":
                token = await ctx.store.aread(lambda db: _caller(db, asked.authenticator, now=now))
                digest = sha256(body).hexdigest()
                call = Call(ctx=ctx, request=request, body=None, token=token, now=now, digest=digest)
                content = await _carry_out(call, token, asked, form)
        finally:
            await form.close()
        return Response(wire.write_reply(action, content), headers=_HEADERS, media_type="text/xml")

    return _in_family_form(await answered(request, answer), action, 200)


def _in_family_form(reply: Response, action: str, status: int | None = None) -> Response:
    """Return a reply; a refusal of the API as one of the family's, with its own status if none is given."""
    if reply.status_code < 400 or not reply.body:
        return reply
    problem = msgspec.json.decode(reply.body, type=ErrorReply).error
    refusal = wire.write_refusal(action, f"{problem.message} {problem.hint}".strip())
    return Response(refusal, status or reply.status_code, _HEADERS, "text/xml")


async def _carry_out(call: Call, token: ApiToken, asked: wire.RemoteCall, form: FormData) -> str:
    if asked.action == "upload_files":
        parts = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
        return await _upload(call, token, asked, parts)
    if asked.action in _ASKING:
        return await call.read(lambda db: _ASKING[asked.action](db, token, asked, call))
    if asked.action not in _CHANGING:
        raise NotFound(f"There is no action {asked.action!r} here.")
    return await _CHANGING[asked.action](call, token, asked)


def _request_of(form: bytes) -> bytes:
    # A tab, which would be dropped, separates words as a space does.
    text = form.decode("utf-8", "replace").replace("%09", "+")
    bounds = {"max_fields": MAX_FIELDS, "max_length": wire.MAX_BYTES}
    return parse_web_query(text, **bounds, long_fields=("request",)).get("request", "").encode()


async def _form_from_caller(ctx: ServerContext, request: Request) -> FormData:
    """Return a form in parts, whose large files lie on disk until it is closed.

    Little of it is read before its beginning shows a caller who may submit; a short one may come from anybody.
    """
    most = ctx.settings.server.max_upload_bytes + wire.MAX_BYTES

    async def body() -> AsyncGenerator[bytes, None]:
        held, size, known = b"", 0, False
        async for piece in request.stream():
            size, held = size + len(piece), held + piece
            if not known and (secret := wire.authenticator_of(held)):
                await ctx.store.aread(partial(_caller, secret=secret, now=ctx.clock()))
                known = True
            if size > (most if known else SMALL_BODY_BYTES):
                raise BodyTooLarge
            if known:
                yield held
                held = b""
        yield held

    bounds = {"max_files": MAX_FILES, "max_fields": MAX_FIELDS, "max_part_size": wire.MAX_BYTES}
    try:
        parser = MultiPartParser(request.headers, body(), **bounds)
        parser.spool_max_size = SMALL_BODY_BYTES  # bytes that each of the files may take in memory
        return await parser.parse()
    except (MultiPartException, KeyError, ValueError) as error:
        raise RemoteProtocolError(f"The form cannot be read: {error}") from error


async def _send_outputs(ctx: ServerContext, request: Request) -> Response:
    """Send one output, or all of a batch as a zip."""
    asked = request.query_params
    secret = asked.get("auth_str") or asked.get("auth", "")
    batch, number = asked.get("batch_id", ""), asked.get("file_num", "0")

    async def answer() -> Response:
        now = ctx.clock()
        if batch:
            batch_id = int(batch) if batch.isascii() and batch.isdecimal() and len(batch) < 16 else 0
            await ctx.store.aread(lambda db: _check_link(db, batch_id, batch, secret, now=now))
            return api_files.zip_response(ctx, batch_id)
        job, result = asked.get("wu_name", ""), asked.get("result_name", "")
        outputs = await ctx.store.aread(lambda db: _linked(db, job, result, secret, now=now))
        for output in outputs:
            if str(output.index) == number:
                return await api_files.sent(ctx, output)
        raise NotFound(f"There is no output {number[:20]!r} of it (any more, or yet).")

    return _in_family_form(await answered(request, answer), "")
