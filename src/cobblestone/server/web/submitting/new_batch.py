"""A new batch from the browser: files and a table are given, the first job and the price are shown, then it is submitted.

With its script the page hashes the files and sends only those that the project lacks; without it the form carries them.
Nothing is made before the last step, which is one call of the API with a key that makes a repetition harmless.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from starlette.datastructures import UploadFile
from starlette.responses import Response

from cobblestone.api_schema.apps import FileQuery, PutQuery
from cobblestone.api_schema.batches import NewBatch
from cobblestone.api_schema.values import Reply
from cobblestone.domain.apps import App
from cobblestone.domain.job_form import JobForm
from cobblestone.launcher import filled_command
from cobblestone.server.api.endpoints.routing import LARGE_BODY
from cobblestone.server.api.submission import batches as api
from cobblestone.server.api.submission import files as api_files
from cobblestone.server.api.submission.apps import app_named
from cobblestone.server.core.context import ServerContext
from cobblestone.server.operation.reach import job_seconds, supply
from cobblestone.server.web.presentation.site import ProjectVisit
from cobblestone.server.web.submitting import drafts
from cobblestone.server.web.submitting.batches import REFUSALS, ForSubmitters, call_of, may_use
from cobblestone.server.web.submitting.drafts import BadDraft, Draft, Fault, GivenFile, arguments_of
from cobblestone.service.http import api as http
from cobblestone.service.languages import gettext as _
from cobblestone.service.languages import translate_error
from cobblestone.service.pages.pages import POST, shows
from cobblestone.service.pages.site import PageError
from cobblestone.store.catalog import apps, files
from cobblestone.store.engine.database import Database
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import submitters

#: What a form without the script may carry; it lies in the system's temporary folder meanwhile.
MAX_PLAIN_BYTES = 200_000_000
MAX_PLAIN_FILES = 1000
FORM_HEADER = "x-form-token"


class NewBatchPages(ForSubmitters):
    """The way from files to a batch."""

    @shows("/my_batch_new.php", methods=("GET", "HEAD", "POST"))
    async def new(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Show the form; or, with what was given in it, the first job and the price."""
        app, form = await visit.read(lambda db: _app(db, visit.fields.get("app", ""), token))
        if visit.request.method != "POST":
            return self._form(visit, app, form, {}, [])
        api_files.check_free_disk(visit.ctx)
        async with visit.form_with_files(
            max_bytes=MAX_PLAIN_BYTES, max_files=MAX_PLAIN_FILES, max_field_bytes=LARGE_BODY
        ) as (typed, sent):
            try:
                draft = await self._draft(visit, app, form, typed, sent)
                return await self._preview(visit, token, app, form, draft)
            except BadDraft as error:
                return self._form(visit, app, form, typed, error.faults)
            except REFUSALS as error:
                return self._form(visit, app, form, typed, [Fault(translate_error(error))])

    def _form(
        self, visit: ProjectVisit, app: App, form: JobForm, typed: Mapping[str, str], faults: Sequence[Fault]
    ) -> Response:
        return visit.show(
            "my_batch_new.html",
            http_status=422 if faults else 200,
            app=app,
            inputs=[slot.name for slot in form.inputs],
            arguments=arguments_of(form),
            native=not form.command,
            typed=typed,
            faults=faults,
            most=drafts.MAX_JOBS,
            plain_bytes=MAX_PLAIN_BYTES,
            file_bytes=visit.ctx.settings.server.max_upload_bytes,
        )

    async def _draft(
        self,
        visit: ProjectVisit,
        app: App,
        form: JobForm,
        typed: Mapping[str, str],
        sent: Mapping[str, Sequence[UploadFile]],
    ) -> Draft:
        """Return the batch that was given; files in the form itself are stored.  Raises BadDraft, ApiProblem."""
        given = http.read_json(typed.get("files", "").encode(), drafts.GivenFiles).files
        for file in sent.get("inputs", ()):
            staged = await api_files.receive(visit.ctx, api_files.pieces(file))
            await api_files.keep(visit.ctx, staged, files.input_name(staged.sha256), now=visit.ctx.clock())
            given.append(GivenFile(name=(file.filename or "")[:1000], sha256=staged.sha256))
        table: bytes | None = None
        if "table" in sent:
            table = await sent["table"][0].read(drafts.MAX_TABLE_BYTES + 1)
            if len(table) > drafts.MAX_TABLE_BYTES:
                most = drafts.MAX_TABLE_BYTES // 1_000_000
                raise BadDraft([Fault(_("The table is larger than %(most)d MB.") % {"most": most}, 1)])
        args = {name: typed[f"arg_{name}"] for name in arguments_of(form) if typed.get(f"arg_{name}")}
        name = drafts.printable(typed.get("name", "")).strip()[:200]
        jobs = await asyncio.to_thread(drafts.jobs_of, form, given, table, args)
        return Draft(app=app.name, name=name, jobs=jobs)

    async def _preview(
        self, visit: ProjectVisit, token: ApiToken, app: App, form: JobForm, draft: Draft
    ) -> Response:
        await api.check_room(visit.ctx)
        await visit.write(
            lambda tx: submitters.check_rights(tx, token, app.name, len(draft.jobs), now=visit.ctx.clock())
        )
        found = await visit.read(lambda db: _plan(visit.ctx, db, token, app, form, draft))
        return visit.show(
            "my_batch_preview.html",
            app=app,
            draft=draft,
            sent=msgspec.json.encode(draft).decode(),
            key=secrets.token_urlsafe(16),
            **found,
        )

    @shows("/my_batch_submit.php", methods=POST)
    async def submit(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Submit the batch that was shown; a repetition leads to the same batch."""
        form = visit.form_with_files(max_bytes=LARGE_BODY, max_files=0, max_field_bytes=LARGE_BODY)
        async with form as (typed, _files):
            raw = typed.get("draft", "").encode()
            draft = http.read_json(raw, Draft)
            key = sha256(f"page {token.id} {typed.get('key', '')}".encode()).hexdigest()
        call = call_of(visit, token, request_key=key, digest=sha256(raw).hexdigest())
        body = NewBatch(app=draft.app, name=draft.name, jobs=draft.jobs)
        status = await api.create_batch.handler(call, body)
        return visit.go(f"my_batch.php?id={getattr(status, 'id', 0)}")

    # -- for the script -----------------------------------------------------------------------------

    @shows("/my_files.php", methods=POST)
    async def ask(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Say which files the project has already; they are kept for a while."""

        async def ask() -> Reply | Response:
            body = http.read_json(await http.read_bounded(visit.request, 4_000_000), FileQuery)
            return await api_files.query_files.handler(call_of(visit, token), body)

        return await self._answer(visit, ask)

    @shows("/my_file.php", methods=("PUT",))
    async def put(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Store a file under the hash of its content."""
        name = visit.fields.get("sha256", "")
        return await self._answer(
            visit, lambda: api_files.put_file.handler(call_of(visit, token), name, PutQuery())
        )

    async def _answer(self, visit: ProjectVisit, ask: Callable[[], Awaitable[Reply | Response]]) -> Response:
        """Return an answer of the API to the script of a page that we showed."""
        visit.check_token({"form_token": visit.request.headers.get(FORM_HEADER, "")})

        async def answer() -> Response:
            reply = await ask()
            return reply if isinstance(reply, Response) else http.json_response(reply)

        return await http.answered(visit.request, answer)


def _app(db: Database, name: str, token: ApiToken) -> tuple[App, JobForm]:
    """Return an app that the account may use.  Raises NotFound, PageError."""
    app = app_named(db, name)
    if not may_use(app, token.rights):
        raise PageError(403, _("Not allowed"), _("Your account may not submit jobs of this app."))
    return app, apps.job_form(db, app.id)


def _plan(
    ctx: ServerContext, db: Database, token: ApiToken, app: App, form: JobForm, draft: Draft
) -> dict[str, Any]:
    """Return the first job as it would run, and what all jobs will cost."""
    body = NewBatch(app=draft.app, name=draft.name, jobs=draft.jobs)
    jobs = api.planned_jobs(db, app, token, body, priority=0)
    given, first = supply(ctx, db, now=ctx.clock()), jobs[0]
    operations = sum(job.limits.rsc_fpops_est * job.rules.target_nresults for job in jobs)
    seconds = job_seconds(db, app, given, operations)
    return {
        "first": first,
        "command": shlex.join(filled_command(form.command, first.command_line))
        if form.command
        else f"{app.name} {first.command_line}",
        "sizes": files.files_by_name(db, [file.name for file in first.input_files]),
        "hours": seconds / 3600,
        "end": given.end_of(len(jobs), seconds / len(jobs)),
    }
