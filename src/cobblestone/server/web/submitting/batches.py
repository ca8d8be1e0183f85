"""A submitter's batches: how far they are, what they cost, why jobs failed, their answers, and what can be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from cobblestone.domain.apps import App
from cobblestone.domain.errors import NotFound
from cobblestone.domain.people import SubmitRights
from cobblestone.domain.work import BatchState, JobState
from cobblestone.policy.lifecycle.outlook import expected_end
from cobblestone.server.api.endpoints.routing import AnsweredEndpoint
from cobblestone.server.api.submission import batches as api
from cobblestone.server.api.submission import files as api_files
from cobblestone.server.api.submission.jobs import describe_jobs
from cobblestone.server.web.operator import version_labels
from cobblestone.server.web.presentation.site import ProjectVisit
from cobblestone.server.web.submitting.access import ForSubmitters, batch_of, call_of
from cobblestone.server.web.submitting.answers import table_response
from cobblestone.service.languages import N_
from cobblestone.service.pages.pages import POST, shows
from cobblestone.service.pages.site import not_found
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import figures, interventions
from cobblestone.store.people import hosts
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import batches, job_results, submitters
from cobblestone.store.work.batches import BatchRow
from cobblestone.store.work.rows import result_text

PAGE = 20  #: batches
JOBS_PAGE = 100
GROUPS_SHOWN = 20
STDERR_TAIL = 4000
DAY = 86400.0

JOB_STATES: Mapping[JobState | None, str] = {
    None: N_("All"),
    JobState.WAITING: N_("waiting"),
    JobState.RUNNING: N_("running"),
    JobState.DONE: N_("done"),
    JobState.FAILED: N_("failed"),
    JobState.CANCELLED: N_("cancelled"),
}
ACTIONS: Mapping[str, AnsweredEndpoint] = {
    "cancel": api.cancel_batch,
    "retry": api.retry_batch,
    "retire": api.retire_batch,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the project has for jobs now."""

    cores: float
    speed: float  #: of one, operations per second
    n_unsent: int
    now: float  #: Unix seconds

    def job_seconds(self, db: Database, app: App, operations: float | None = None) -> float:
        """Return the CPU seconds of a job with its repetitions; ``operations``: of all of them; None: of a usual one."""
        usual = app.limits.rsc_fpops_est * app.rules_of_jobs.target_nresults
        cost = job_results.cost_lately(db, app.id)
        return cost.seconds_for(usual if operations is None else operations, speed=self.speed)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """A batch as its submitter sees it."""

    batch: BatchRow
    app: App
    n_failed: int  #: failed or cancelled
    end: float | None  #: Unix seconds; None: not known, or over
    spent_hours: float  #: of cores
    total_hours: float

    @property
    def n_left(self) -> int:
        """Return how many jobs are not finished."""
        return max(self.batch.njobs - self.batch.n_success - self.n_failed, 0)


def outlook(db: Database, *, now: float) -> Outlook:
    """Return what the project has for jobs."""
    cores, speed = hosts.cores_at_hand(db, since=now - DAY)
    return Outlook(cores=cores, speed=speed, n_unsent=batches.count_unsent(db), now=now)


def view(db: Database, batch: BatchRow, given: Outlook) -> BatchView:
    """Return a batch with its estimates."""
    app = apps.app_by_id(db, batch.app_id)
    aborted = batch.state is BatchState.ABORTED  # the transitioner closes its jobs later
    n_failed = batch.n_error + (interventions.count_cancelled_open(db, batch.id) if aborted else 0)
    n_finished = batch.n_success + batch.n_error
    n_left = max(batch.njobs - batch.n_success - n_failed, 0)
    seconds = job_results.cost_of_batch(db, batch.id)
    if seconds is None:
        seconds = given.job_seconds(db, app)
    end = expected_end(
        now=given.now,
        n_left=n_left,
        job_seconds=seconds,
        cores=given.cores,
        n_ahead=max(given.n_unsent - n_left, 0),
        n_finished=n_finished,
        since=batch.create_time,
    )
    return BatchView(
        batch=batch,
        app=app,
        n_failed=n_failed,
        end=end if n_left else None,
        spent_hours=n_finished * seconds / 3600,
        total_hours=(n_finished + n_left) * seconds / 3600,
    )


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
            given = outlook(db, now=now)
            found = batches.list_batches(db, limit=PAGE + 1, before=before, token_id=token.id)
            usable = [app for app in apps.apps_in_use(db) if may_use(app, token.rights)]
            return {
                "apps": [(app, given.job_seconds(db, app) / 3600) for app in usable],
                "views": [view(db, batch, given) for batch in found[:PAGE]],
                "older_id": found[PAGE - 1].id if len(found) > PAGE else None,
                "n_unfinished": submitters.jobs_in_progress(db, token.id),
            }

        return visit.show(
            "my_work.html", rights=token.rights, before=before, submits=True, **await visit.read(read)
        )

    @shows("/my_batch.php")
    async def batch(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Show a batch: progress, failures, jobs."""
        number, now = visit.needed_number("id"), visit.ctx.clock()
        state, text = _state(visit.fields.get("state", "")), visit.fields.get("q", "").strip()[:200]
        after = visit.number("after") or 0

        def read(db: Database) -> dict[str, Any]:
            batch = submitters.own_batch(db, token, number)
            found = batches.list_jobs(db, number, after=after, limit=JOBS_PAGE + 1, status=state, text=text)
            failures = figures.batch_failures(db, batch.id)
            groups = failures.groups[:GROUPS_SHOWN]
            given = outlook(db, now=now)
            return {
                "view": view(db, batch, given),
                "cores": given.cores,
                "running": batches.count_running(db, number),
                "errors": figures.job_errors(db, batch.id),
                "failures": failures,
                "versions": version_labels(db, groups),
                "texts": {
                    each.newest[0].id: result_text(db, each.newest[0].id).stderr[-STDERR_TAIL:]
                    for each in groups
                },
                "jobs": describe_jobs(db, number, found[:JOBS_PAGE], ""),
                "more": found[JOBS_PAGE - 1].workunit_id if len(found) > JOBS_PAGE else None,
            }

        found = await visit.read(read)
        return visit.show(
            "my_batch.html",
            number=number,
            state=state,
            states=JOB_STATES,
            text=text,
            after=after,
            most=GROUPS_SHOWN,
            submits=True,
            **found,
        )

    @shows("/my_batch_do.php", methods=POST)
    async def act(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Cancel, retry or retire a batch."""
        form = await visit.form()
        number = form.get("id", "")
        action = ACTIONS.get(form.get("action", ""))
        if action is None or not (number.isascii() and number.isdecimal() and len(number) <= 16):
            raise NotFound("There is no such action.")
        await batch_of(visit, token, int(number))
        status = await action.handler(call_of(visit, token), batch_id=int(number))
        return visit.go(f"my_batch.php?id={getattr(status, 'id', number)}")

    # -- answers ------------------------------------------------------------------------------------

    @shows("/my_answers_zip.php")
    async def answers_zip(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Send all outputs of a batch."""
        batch = await batch_of(visit, token, visit.needed_number("id"))
        return api_files.zip_response(visit.ctx, batch.id)

    @shows("/my_answers_csv.php")
    async def answers_csv(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Send a table of all jobs of a batch, with short answers."""
        return table_response(visit.ctx, await batch_of(visit, token, visit.needed_number("id")))

    @shows("/my_answer.php")
    async def answer(self, visit: ProjectVisit, token: ApiToken) -> Response:
        """Send one output."""
        batch = await batch_of(visit, token, visit.needed_number("id"))
        job_id, name = visit.needed_number("job"), visit.fields.get("name", "")
        return await api_files.output_response(visit.ctx, batch.id, job_id, name)


def _state(text: str) -> JobState | None:
    try:
        return JobState(text) if text else None
    except ValueError:
        raise not_found("such list") from None
