"""A submitter's batches: how far they are, what they cost, why jobs failed, their answers, and what can be done with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cobblestone.domain.apps import App
from cobblestone.domain.errors import Conflict, JobError, NotAllowed, NotFound
from cobblestone.domain.people import SubmitRights, User
from cobblestone.domain.work import BatchState, JobState
from cobblestone.policy.lifecycle.outlook import Supply
from cobblestone.server.api.endpoints.routing import Call
from cobblestone.server.api.submission import batches as api
from cobblestone.server.api.submission import files as api_files
from cobblestone.server.api.submission.jobs import describe_jobs, running_jobs
from cobblestone.server.operation.reach import job_seconds, supply
from cobblestone.server.web.operator import version_labels
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.http.api import ApiProblem
from cobblestone.service.languages import gettext as _
from cobblestone.service.languages import translate_error
from cobblestone.service.pages.pages import POST, Handler, Pages, shows
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import figures, interventions
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import batches, job_results, submitters
from cobblestone.store.work.batches import BatchRow
from cobblestone.store.work.rows import result_text

PAGE, JOBS_PAGE = 20, 100
GROUPS_SHOWN = 20
STDERR_TAIL = 4000
#: What the API refuses with an explanation.
REFUSALS = (NotFound, Conflict, NotAllowed, JobError, ApiProblem)
_ACTIONS = {"cancel": api.cancel_batch, "retry": api.retry_batch, "retire": api.retire_batch}


class ForSubmitters(Pages[ProjectSite]):
    """Pages that only accounts see that may submit jobs; their handlers get the token that the account submits with."""

    def endpoint(self, handler: Handler, *, own: bool) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers a submitter, sends visitors to the log-in form, and refuses others."""

        async def guarded(visit: ProjectVisit, viewer: User) -> Response:
            token = await visit.read(lambda db: submitters.submitter_of(db, viewer.id))
            if token is None:
                text = _("Your account may not submit jobs. The project's operators can allow it.")
                raise PageError(403, _("My work"), text)
            try:
                return await handler(visit, token)
            except NotFound as error:
                raise PageError(404, _("Not found"), translate_error(error)) from error
            except REFUSALS as error:
                status = error.status if isinstance(error, ApiProblem) else 409
                raise PageError(status, _("Not possible now"), translate_error(error)) from error

        return self._site.own_page(guarded)


def call_of(
    visit: ProjectVisit, token: ApiToken, *, request_key: str | None = None, digest: str = ""
) -> Call:
    """Return a request to the API in the name of the account."""
    now = visit.ctx.clock()
    return Call(
        ctx=visit.ctx,
        request=visit.request,
        body=None,
        token=token,
        now=now,
        request_key=request_key,
        digest=digest,
    )


def view(db: Database, batch: BatchRow, given: Supply) -> dict[str, Any]:
    """Return a batch for a template, with its estimates."""
    app = apps.app_by_id(db, batch.app_id)
    aborted = batch.state is BatchState.ABORTED  # the transitioner closes its jobs later
    n_failed = batch.n_error + (interventions.count_cancelled_open(db, batch.id) if aborted else 0)
    n_finished = batch.n_success + batch.n_error
    n_left = max(batch.njobs - batch.n_success - n_failed, 0)
    each = job_results.cost_of_batch(db, batch.id)
    seconds = job_seconds(db, app, given) if each is None else each
    return {
        "batch": batch,
        "app": app,
        "n_failed": n_failed,
        "n_left": n_left,
        "end": given.end_of(n_left, seconds, n_finished=n_finished, since=batch.create_time),
        "spent_hours": n_finished * seconds / 3600,
        "total_hours": (n_finished + n_left) * seconds / 3600,
    }


def may_use(app: App, rights: SubmitRights) -> bool:
    """Return whether jobs of an app may be submitted."""
    return not app.deprecated and (rights.apps is None or app.name in rights.apps)


class MyWorkPages(ForSubmitters):
    """Batches of an account."""

    @shows("/my_work.php")
    async def work(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """List apps and batches."""
        before, now = visit.number("before"), visit.ctx.clock()

        def read(db: Database) -> dict[str, Any]:
            given = supply(visit.ctx, db, now=now)
            found = batches.list_batches(db, limit=PAGE + 1, before=before, token_id=token.id)
            usable = [app for app in apps.apps_in_use(db) if may_use(app, token.rights)]
            return {
                "apps": [(app, job_seconds(db, app, given) / 3600) for app in usable],
                "views": [view(db, batch, given) for batch in found[:PAGE]],
                "older_id": found[PAGE - 1].id if len(found) > PAGE else None,
                "n_unfinished": submitters.jobs_in_progress(db, token.id),
            }

        found = await visit.read(read)
        return visit.show("my_work.html", rights=token.rights, before=before, submits=True, **found)

    @shows("/my_batch.php")
    async def batch(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Show a batch: progress, failures, jobs."""
        number, after, now = visit.needed_number("id"), visit.number("after") or 0, visit.ctx.clock()
        kind, text = visit.fields.get("state", ""), visit.fields.get("q", "").strip()[:200]
        if kind and kind not in set(JobState):
            raise not_found(_("such list"))
        state = JobState(kind) if kind else None

        def read(db: Database) -> dict[str, Any]:
            batch = submitters.own_batch(db, token, number)
            found = batches.list_jobs(db, number, after=after, limit=JOBS_PAGE + 1, status=state, text=text)
            failures = figures.batch_failures(db, batch.id)
            examples = [group.newest[0].id for group in failures.groups[:GROUPS_SHOWN]]
            return {
                "view": view(db, batch, supply(visit.ctx, db, now=now)),
                "running": running_jobs(visit.ctx, db, batch),
                "errors": figures.job_errors(db, batch.id),
                "failures": failures,
                "versions": version_labels(db, failures.groups[:GROUPS_SHOWN]),
                "texts": {id_: result_text(db, id_).stderr[-STDERR_TAIL:] for id_ in examples},
                "jobs": describe_jobs(db, number, found[:JOBS_PAGE], ""),
                "more": found[JOBS_PAGE - 1].workunit_id if len(found) > JOBS_PAGE else None,
            }

        shown = {"number": number, "state": state, "states": list(JobState), "text": text, "after": after}
        return visit.show("my_batch.html", most=GROUPS_SHOWN, **shown, **await visit.read(read))

    @shows("/my_batch_do.php", methods=POST)
    async def act(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Cancel, retry or retire a batch."""
        visit.fields = await visit.form()
        action = _ACTIONS.get(visit.fields.get("action", ""))
        if action is None:
            raise not_found(_("such action"))
        batch = await self._batch(visit, token)
        status = await action.handler(call_of(visit, token), batch_id=batch.id)
        return visit.go(f"my_batch.php?id={getattr(status, 'id', batch.id)}")

    @shows("/my_answers_zip.php")
    async def answers_zip(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Send all outputs of a batch."""
        return api_files.zip_response(visit.ctx, (await self._batch(visit, token)).id)

    @shows("/my_answers_csv.php")
    async def answers_csv(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Send a table of all jobs of a batch, with short answers."""
        return api_files.table_response(visit.ctx, await self._batch(visit, token))

    @shows("/my_answer.php")
    async def answer(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Send one output."""
        batch, job_id = await self._batch(visit, token), visit.needed_number("job")
        return await api_files.output_response(visit.ctx, batch.id, job_id, visit.fields.get("name", ""))

    async def _batch(self, visit: ProjectVisit, token: ApiToken) -> BatchRow:
        number = visit.needed_number("id")
        return await visit.read(lambda db: submitters.own_batch(db, token, number))
