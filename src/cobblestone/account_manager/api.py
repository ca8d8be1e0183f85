"""The JSON API for the operator's programs, and metrics at ``/metrics``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone import __version__
from cobblestone.account_manager.core import operation
from cobblestone.account_manager.core.context import ManagerContext
from cobblestone.account_manager.model import ManagedProject
from cobblestone.account_manager.store import accounts, granted, ledger, projects
from cobblestone.account_manager.store.accounts import USE_SECONDS, OperatorScope, OperatorToken
from cobblestone.account_manager.store.figures import ManagerFigures, figures
from cobblestone.api_schema import account_manager as schema
from cobblestone.api_schema import people
from cobblestone.api_schema.values import MAX_ID, Reply
from cobblestone.domain.errors import NotFound
from cobblestone.domain.values import form_of
from cobblestone.ops.metrics import COMMON_METRICS, DATABASE_METRICS, Figures, MetricInfo
from cobblestone.policy.credit.history import day_of
from cobblestone.service.context import CachedRead
from cobblestone.service.http import api as http
from cobblestone.service.http.monitoring import Monitoring, read_and_write
from cobblestone.service.supervision import daemon_notes
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.sqlite import database_bytes
from cobblestone.store.people import users

TOKENS = http.Tokens(
    command="cobblestone manager token create DIR NAME",
    advice="The operator makes one: cobblestone manager token create DIR NAME --scope read",
)
READ, OPERATE = OperatorScope.READ, OperatorScope.OPERATE

log = structlog.get_logger(__name__)

Handler = Callable[[Request], Awaitable[Reply]]


class ManagerApi:
    """Answers the operator's programs."""

    def __init__(self, ctx: ManagerContext) -> None:
        self._ctx = ctx

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            self._route("/status", GET=(READ, self.status)),
            self._route("/projects", GET=(READ, self.projects)),
            self._route("/projects/{id:int}/pause", POST=(OPERATE, partial(self.set_stopped, stopped=True))),
            self._route(
                "/projects/{id:int}/resume", POST=(OPERATE, partial(self.set_stopped, stopped=False))
            ),
            self._route("/days", GET=(READ, self.days)),
            self._route("/news", GET=(READ, self.news), POST=(OPERATE, self.publish)),
            self._route("/news/{id:int}", DELETE=(OPERATE, self.withdraw)),
            http.unknown_paths("docs/manager.md lists the endpoints."),
        ]

    def _route(self, path: str, **choices: tuple[OperatorScope, Handler]) -> Route:
        return http.route(
            path, {method: partial(self._answer, *choice) for method, choice in choices.items()}
        )

    async def _answer(self, scope: OperatorScope, handler: Handler, request: Request) -> Response:
        token = await self._authorise(request, scope)
        if handler != self.days:
            http.refuse_query(request)
        reply = await handler(request)
        if scope is OPERATE:
            by, path = f"token:{token.id} {token.name}", request.url.path
            log.info("operated", by=by, method=request.method, path=path)
        return http.json_response(reply)

    async def _authorise(self, request: Request, scope: OperatorScope) -> OperatorToken:
        ctx, now = self._ctx, self._ctx.clock()
        secret = TOKENS.secret_of(request)
        found = await ctx.store.aread(lambda db: accounts.token_by_secret(db, secret))
        token = TOKENS.check(found, scope, now=now)
        http.count_question(ctx.limits.accounting, token, now=now)
        if token.used_time is None or not 0 <= now - token.used_time < USE_SECONDS:
            await ctx.store.awrite(lambda tx: accounts.note_use(tx, token.id, now=now))
        return token

    async def status(self, request: Request) -> schema.ManagerStatus:
        """Return the state of everything."""
        ctx, now = self._ctx, self._ctx.clock()
        found = await ctx.store.aread(lambda db: figures(db, now=now))
        return form_of(
            schema.ManagerStatus,
            found,
            name=ctx.settings.manager.name,
            version=__version__,
            daemons=[form_of(schema.Daemon, each) for each in daemon_notes(ctx)],
            warnings={code: each.text for code, each in ctx.health.warnings.items()},
        )

    async def projects(self, request: Request) -> schema.ProjectList:
        """List all projects."""
        return await self._ctx.store.aread(
            lambda db: schema.ProjectList(projects=[_project(db, each) for each in projects.all_projects(db)])
        )

    async def set_stopped(self, request: Request, *, stopped: bool) -> schema.Project:
        """Send no more computers to a project, or send them again."""
        ctx, number = self._ctx, _number(request, "project")

        def write(tx: Transaction) -> schema.Project:
            return _project(tx, operation.change_project(tx, number, stopped=stopped, now=ctx.clock()))

        changed = await ctx.store.awrite(write)
        await ctx.store.aread(ctx.projects.load)
        return changed

    async def days(self, request: Request) -> schema.ProjectDays:
        """Return what was counted on the last days."""
        since = day_of(self._ctx.clock()) + 1 - http.read_query(request, schema.DaysQuery).days

        def read(db: Database) -> schema.ProjectDays:
            return schema.ProjectDays(
                days=[
                    schema.ProjectDay(
                        project=project.id,
                        day=each.day,
                        credit=each.amounts.credit,
                        cpu_seconds=each.amounts.cpu_time,
                        gpu_seconds=each.amounts.gpu_time,
                        jobs=each.amounts.njobs_success,
                        failed_jobs=each.amounts.njobs_error,
                    )
                    for project in projects.all_projects(db)
                    for each in ledger.days_of(db, "project", project.id, since_day=since)
                ]
            )

        return await self._ctx.store.aread(read)

    async def news(self, request: Request) -> people.NewsList:
        """List the newest news."""
        found = await self._ctx.store.aread(users.list_news)
        return people.NewsList(news=[form_of(people.News, each) for each in found])

    async def publish(self, request: Request) -> people.News:
        """Publish a news item."""
        new = http.read_json(await http.read_bounded(request, http.SMALL_BODY), people.NewNews)
        title, text, now = new.title.strip(), new.text.strip(), self._ctx.clock()
        if not title or not text or len(text) > operation.MAX_TEXT:
            message = f"A news item needs a title and a text of up to {operation.MAX_TEXT} characters."
            raise http.ApiProblem(422, "bad_body", message)
        number = await self._ctx.store.awrite(lambda tx: users.add_news(tx, title, text, now=now))
        return people.News(id=number, title=title, text=text, time=now)

    async def withdraw(self, request: Request) -> people.News:
        """Withdraw a news item; return what it was."""
        number = _number(request, "news")
        item = await self._ctx.store.awrite(lambda tx: users.withdraw_news(tx, number))
        return form_of(people.News, item)


def _number(request: Request, what: str) -> int:
    number: int = request.path_params["id"]
    if number > MAX_ID:
        raise NotFound(f"There is no {what} {str(number)[:30]}.")
    return number


def _project(db: Database, project: ManagedProject) -> schema.Project:
    asked = granted.project_accounting(db, project.id)
    return form_of(
        schema.Project,
        project,
        paused=project.stopped,
        without_work=project.dryness,
        credit=ledger.sum_of(db, "project", project.id).credit,
        collecting=form_of(schema.Collecting, asked) if asked.token else None,
    )


METRICS: Mapping[str, MetricInfo] = {
    **COMMON_METRICS,
    **DATABASE_METRICS,
    "accounts": MetricInfo("gauge", "People."),
    "computers": MetricInfo("gauge", "Computers: known, and active (in contact within a day).", "state"),
    "projects": MetricInfo("gauge", "Projects: usable, unusable, stopped.", "state"),
    "projects_asked": MetricInfo("gauge", "Projects asked for granted credit: answering, failing.", "state"),
    "mails_waiting": MetricInfo("gauge", "Mails waiting to be sent."),
    "project_accounts_waiting": MetricInfo("gauge", "Accounts at projects waiting to be created."),
    "counted_credit": MetricInfo("gauge", "Estimated credit in the ledger."),
}


def manager_monitoring(ctx: ManagerContext) -> Monitoring:
    """Return what answers those who watch an account manager."""
    cached = CachedRead[ManagerFigures](ctx, lambda db: figures(db, now=ctx.clock()))

    async def own_figures() -> Figures:
        found = await cached.get()
        return {
            "write_backlog": ctx.store.backlog(),
            "database_bytes": database_bytes(ctx.folder.database),
            "accounts": found.accounts,
            "computers": {"known": found.hosts, "active": found.hosts_active},
            "projects": {
                "usable": found.projects - found.projects_unusable - found.projects_paused,
                "unusable": found.projects_unusable,
                "stopped": found.projects_paused,
            },
            "projects_asked": {"answering": found.telling, "failing": found.not_telling},
            "mails_waiting": found.mails_waiting,
            "project_accounts_waiting": found.accounts_waiting,
            "counted_credit": found.credit,
        }

    return Monitoring(
        ctx,
        ctx.folder.root,
        ask_database=partial(read_and_write, ctx.store),
        described=METRICS,
        own_figures=own_figures,
    )
