"""The pages of a project: shared parts, and who may see what.

Who may see what.

Everybody sees names, credit, workunits, and how tasks ended.  Computers, the list of a user's tasks, and what a program
wrote to stderr are shown to others only if the owner shows computers, and this one.  Address, keys, names of machines and network
addresses are for the owner alone.
"""

from __future__ import annotations

import re
from functools import partial

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User
from cobblestone.domain.statistics import CreditStatement
from cobblestone.domain.values import UserId
from cobblestone.domain.work import Result
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.core.context import ServerContext
from cobblestone.server.web.presentation import wording
from cobblestone.server.web.presentation.plots import DAYS_NEEDED, credit_plot
from cobblestone.server.web.presentation.standing import (
    CreditStanding,
    badge_title,
    days_until_today,
    milestone_title,
    read_standing,
)
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages import site as pages
from cobblestone.service.pages.site import PageError
from cobblestone.store.credit.history import CreditOwner
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import audit
from cobblestone.store.operation.audit import Actor
from cobblestone.store.operation.ranking import MAX_PAGE
from cobblestone.store.people import users
from cobblestone.wire.project.pages import scheduler_link_tags

_NOT_FOR_ROBOTS = (
    "account_finish.php",
    "api/",
    "cgi-bin/",
    "download/",
    "home.php",
    "language.php",
    "login.php",
    "login_link.php",
    "login_mail.php",
    "ops",
    "results.php",
    "result.php",
    "show_host_detail.php",
    "workunit.php",
)


def private() -> PageError:
    """Return the error page for data that its owner hides."""
    return PageError(
        403,
        _("Private"),
        _("This volunteer does not show computers and tasks to others. If it is you, log in first."),
    )


class ProjectSite(pages.Site[User, "ProjectVisit"]):
    """Renders pages of one project."""

    own_addresses = re.compile(r"[a-z_]{1,40}\.php(\?[A-Za-z0-9_=&%+-]{0,200})?|compute")

    max_page = MAX_PAGE

    def __init__(self, ctx: ServerContext) -> None:
        self.ctx = ctx
        super().__init__(
            ctx,
            package="cobblestone.server.web",
            find_account=lambda id_, session_key: ctx.store.aread(
                lambda db: users.user_of_session(db, UserId(id_), session_key)
            ),
            filters={
                "exit_status": wording.exit_status,
                "exit_help": wording.exit_help,
                "word": wording.word,
                "badge_title": badge_title,
                "milestone": milestone_title,
                "workunit_errors": wording.workunit_errors,
                "rac": self._rac,
            },
            values={
                "site_name": ctx.settings.project.name,
                "project": ctx.settings.project,
                "scheduler_tags": Markup(scheduler_link_tags(ctx.url("cgi-bin/cgi"))),  # noqa: S704  # escaped by its writer
                "accounts": ctx.settings.accounts,
                "institute": ctx.settings.oidc.name if ctx.settings.oidc.issuer else "",
                "own_texts": ctx.texts.present,
                "task_status": self._task_status,
                "workunit_status": wording.workunit_status,
                "changes": wording.changes,
            },
        )

    async def favicon(self, request: Request) -> Response:
        """Redirect browsers that ask for the icon at the usual place."""
        return RedirectResponse(self.static_address("stones.svg"), 308)

    async def robots(self, request: Request) -> Response:
        """Tell search engines what not to index: endless pages and private data."""
        lines = "".join(f"Disallow: {self.base}{path}\n" for path in _NOT_FOR_ROBOTS)
        return PlainTextResponse(f"User-agent: *\n{lines}")

    def visit(self, request: Request) -> ProjectVisit:
        """Start a visit."""
        return ProjectVisit(self, request)

    def let_in(self, visit: ProjectVisit, user: User, page: str) -> Response:
        """Continue to a page with a session, or to the second factor; if deletion was requested, ask about that first."""
        if user.second_factor:
            response = visit.go_on("login_code.php", next=page)
            self.sessions.start_pending(response, user)
            return response
        return super().let_in(visit, user, page if user.erase_time is None else "delete_account.php")

    async def standing(self, owner: CreditOwner, *, created: float) -> CreditStanding:
        """Return the credit of an owner that exists since ``created`` (Unix seconds): chart, ranks, badges."""
        now = self.ctx.clock()
        days = await days_until_today(self.ctx, owner, created=created, n_days=DAYS_NEEDED)
        plot = credit_plot(days, now=now)
        return await self.ctx.store.aread(partial(read_standing, ctx=self.ctx, owner=owner, plot=plot))

    def _task_status(self, result: Result) -> wording.Status:
        return wording.task_status(result, now=self.ctx.clock())

    def _rac(self, statement: CreditStatement) -> float:
        return decayed(statement.recent, self.ctx.clock())


class ProjectVisit(pages.VisitOfRows[User, ProjectSite]):
    """One request for a page of a project."""

    @property
    def ctx(self) -> ServerContext:
        """The project."""
        return self.site.ctx

    @property
    def actor(self) -> Actor:
        """Return who does something, for the audit log."""
        name = f"user:{self.viewer.id} {self.viewer.name}" if self.viewer else "nobody"
        return Actor(name=name, origin=f"web {self.address}".strip())

    def note(self, tx: Transaction, action: str, target: str, *, before: object) -> None:
        """Write into the audit log what the visitor removes."""
        audit.record(tx, self.actor, action, target, now=self.ctx.clock(), before=before)

    @property
    def done(self) -> str:
        """Return the sentence about what was just done; empty: nothing."""
        text = wording.DONE.get(self.fields.get("done", ""), "")
        return _(text) if text else ""

    def need_confirmed_address(self, user: User) -> None:
        """Require a confirmed e-mail address if the project does.  Raises PageError."""
        if self.ctx.settings.accounts.confirmed_email == "required" and not user.email_verified:
            raise PageError(
                403,
                _("Confirm your address first"),
                _(
                    "This project requires a confirmed e-mail address: open the link that it sent to "
                    "you. You can have another one sent on the Security page of your account."
                ),
            )


def is_owner(viewer: User | None, owner: User | None) -> bool:
    """Return whether the visitor is the owner."""
    return viewer is not None and owner is not None and viewer.id == owner.id


def sees_computers(viewer: User | None, owner: User | None) -> bool:
    """Return whether the visitor may see the owner's computers and lists of tasks."""
    return owner is not None and (owner.show_hosts or is_owner(viewer, owner))


def sees_computer(viewer: User | None, owner: User | None, host: Host) -> bool:
    """Return whether the visitor may see this computer, which its owner may also hide individually."""
    return sees_computers(viewer, owner) and (not host.hidden or is_owner(viewer, owner))
