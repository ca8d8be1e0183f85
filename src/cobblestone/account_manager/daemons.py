"""Daemons of an account manager: check projects, create accounts there, store balances, add up days."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import structlog

from cobblestone.account_manager.core import projects_web
from cobblestone.account_manager.core.context import ManagerContext
from cobblestone.account_manager.model import ManagedProject, ManagerAccount
from cobblestone.account_manager.store import accounts, ledger, projects
from cobblestone.account_manager.store.accounts import WantedAccount
from cobblestone.domain.errors import CobblestoneError
from cobblestone.domain.values import DAY
from cobblestone.policy.account_manager.selection import retry_seconds
from cobblestone.policy.credit.history import day_of
from cobblestone.service.languages import N_
from cobblestone.service.languages import gettext as _
from cobblestone.service.mail import AccountMails
from cobblestone.service.supervision import Errand, SideBySide
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import credentials
from cobblestone.wire.project.account import ERROR_MESSAGES, WebRpcError
from cobblestone.wire.project.pages import ProjectConfig, WebRpcRefused

log = structlog.get_logger(__name__)

#: Accounts in one contact with a project, and seconds for each.
MADE_AT_ONCE, MAKING_SECONDS = 8, 60.0
#: Sums of days in one write: some 2 ms.
DAYS_AT_ONCE = 500
#: Failed looks at a project in a row, after which its operators get a mail: about an hour.
FAILURES_OF_MAIL = 4
#: What is expected of computers that have not called for so long is no longer expected.
FORGOTTEN_AFTER = 14 * DAY
#: Refusals that no second attempt changes.
FOR_THE_PERSON = frozenset(
    (
        WebRpcError.NOT_UNIQUE,
        WebRpcError.BAD_PASSWD,
        WebRpcError.CONSENT_REQUIRED,
        WebRpcError.ACCOUNT_CREATION_DISABLED,
    )
)
PASSWORD_CHANGED = N_(
    "You set the password of that account yourself, so choose there what statistics sites may show."
)
TAKES_NOTHING = N_(
    "What statistics sites may show cannot be set from here. Log in at the project with a link sent "
    "by mail and set it there."
)


class ProjectChecker:
    """Reads projects' descriptions of themselves; one that does not answer is retried less and less often."""

    def __init__(self, ctx: ManagerContext, client: httpx.AsyncClient) -> None:
        self._ctx = ctx
        self._client = client
        self._contacts = SideBySide(self._due, most=projects_web.AT_ONCE)
        self._mails = AccountMails(ctx, ctx.settings.manager.name)

    async def step(self) -> int:
        """Check the projects that are due; return how many."""
        return await self._contacts.step()

    async def _due(self, busy: Set[int]) -> dict[int, Errand]:
        known, now = await self._ctx.store.aread(projects.all_projects), self._ctx.clock()
        return {
            each.id: partial(self._check, each)
            for each in known
            if each.next_check <= now and not each.stopped and each.id not in busy
        }

    def _keep(self, tx: Transaction, *, project_id: int, found: Mapping[str, Any]) -> None:
        """Store the result, and nothing of what an operator may have changed meanwhile.

        Operators get a mail about a project that has failed several times in a row.
        """
        checked = replace(projects.project_by_id(tx, project_id), **found)
        projects.put_project(tx, checked)
        if checked.failures == FAILURES_OF_MAIL:
            for operator in accounts.operators(tx):
                self._mails.send_text(tx, operator, _failed(checked))

    async def _check(self, project: ManagedProject) -> None:
        """Ask a project about itself, and store what is known now."""
        now, found = self._ctx.clock(), dict[str, Any]()
        try:
            config = await projects_web.fetch_config(self._client, project.url)
            problem = _objection(config)
            versions = projects_web.versions_of(config)
            found = {"name": config.name or project.name, "versions": versions, "checked_time": now}
        except CobblestoneError as error:
            problem = str(error)
            log.warning("project_unusable", project=project.url, error=problem)
        failures = project.failures + 1 if problem else 0
        pause = retry_seconds(failures) if problem else self._ctx.settings.contacts.check_seconds
        found |= {"problem": problem, "failures": failures, "next_check": now + pause}
        await self._ctx.store.awrite(partial(self._keep, project_id=project.id, found=found))


def _failed(project: ManagedProject) -> Callable[[], tuple[str, str]]:
    """Return a function that writes subject and text of a mail about a project, in the recipient's language."""
    values = {"project": project.name or project.url, "problem": project.problem}
    return lambda: (
        _("%(project)s cannot be used") % values,
        _("Computers are not sent to %(project)s until it works again: %(problem)s") % values,
    )


def _objection(config: ProjectConfig) -> str:
    if config.account_manager:
        return "It is an account manager, not a project."
    if config.sched_stopped:
        return "It sends no work: its scheduler is stopped."
    if not config.platforms:
        return "It has no versions of any app."
    return ""


class AccountMaker:
    """Creates accounts at projects, through the projects' own RPCs."""

    def __init__(self, ctx: ManagerContext, client: httpx.AsyncClient) -> None:
        self._ctx = ctx
        self._client = client
        self._contacts = SideBySide(self._due, most=projects_web.AT_ONCE)
        #: Projects that did not answer: how often in a row, and until when all accounts there wait.
        self._silent: dict[int, tuple[int, float]] = {}

    async def step(self) -> int:
        """Create those that are due; return with how many projects that was tried."""
        return await self._contacts.step()

    async def _due(self, busy: Set[int]) -> dict[int, Errand]:
        ctx, now = self._ctx, self._ctx.clock()
        confirmed = ctx.settings.accounts.confirmed_email == "required"
        silent = {id_ for id_, (_, until) in self._silent.items() if now < until <= now + DAY}
        wanted = await ctx.store.aread(
            lambda db: accounts.wanted_accounts(
                db, now=now, limit=MADE_AT_ONCE, confirmed=confirmed, not_at=busy | silent
            )
        )
        by_project: dict[int, list[WantedAccount]] = {}
        for each in wanted:
            by_project.setdefault(each.project_id, []).append(each)
        return {id_: partial(self._make_at, id_, those) for id_, those in by_project.items()}

    async def _make_at(self, project_id: int, wanted: Sequence[WantedAccount]) -> None:
        """Create accounts at a project, until one gets no answer: that cost time which all others there would cost again."""
        for each in wanted:
            if await self._make(each):
                self._silent.pop(project_id, None)
                continue
            failures = self._silent.get(project_id, (0, 0.0))[0] + 1
            self._silent[project_id] = failures, self._ctx.clock() + retry_seconds(failures)
            return

    async def _make(self, wanted: WantedAccount) -> bool:
        """Create an account, and store what came of it; return whether the project answered."""
        ctx, known = self._ctx, wanted
        project = await ctx.store.aread(lambda db: projects.project_by_id(db, wanted.project_id))
        try:
            async with projects_web.reaching(MAKING_SECONDS):
                keys = await projects_web.open_account(
                    self._client, project.url, wanted.account, make=not wanted.weak_key
                )
                await ctx.store.awrite(lambda tx: accounts.set_made(tx, wanted, keys.weak))
                known = replace(wanted, weak_key=keys.weak)
                problem, told = await self._tell(project, wanted.account, keys.strong)
        except CobblestoneError as error:
            text, next_try = _refusal(error, known), ctx.clock() + retry_seconds(wanted.failures + 1)
            final = isinstance(error, WebRpcRefused) and (known.weak_key or error.number in FOR_THE_PERSON)
            await ctx.store.awrite(
                lambda tx: accounts.set_not_made(tx, known, text, next_try=None if final else next_try)
            )
            return not isinstance(error, projects_web.ProjectUnreachable)
        await ctx.store.awrite(
            lambda tx: accounts.set_told(tx, wanted, problem, now=ctx.clock() if told else None)
        )
        return True

    async def _tell(self, project: ManagedProject, account: ManagerAccount, key: str) -> tuple[str, bool]:
        """Return what a project did not accept, and whether it accepted the rest."""
        try:
            return await projects_web.tell_of_account(self._client, project.url, key, account), True
        except (projects_web.NoSuchPage, WebRpcRefused):
            return TAKES_NOTHING, False


def _refusal(error: CobblestoneError, wanted: WantedAccount) -> str:
    if wanted.weak_key and isinstance(error, WebRpcRefused):
        return PASSWORD_CHANGED
    if isinstance(error, WebRpcRefused) and error.number in FOR_THE_PERSON:
        said = ERROR_MESSAGES[error.number]
        return f"{said}. Log in there, or create an account, and give here the weak account key that it shows you."
    return str(error)


async def follow_projects(ctx: ManagerContext) -> int:
    """Read the projects again after any change: each process for itself."""
    await ctx.store.aread(ctx.projects.load)
    return 0


class BalanceKeeper:
    """Shares the balances of projects, and forgets what is expected of computers that have gone."""

    def __init__(self, ctx: ManagerContext) -> None:
        self._ctx = ctx
        self._looked = float("-inf")

    async def step(self) -> int:
        """Share the booked changes."""
        ctx, now = self._ctx, self._ctx.clock()
        count = abs(now - self._looked) >= DAY

        def share(tx: Transaction) -> None:
            expected = projects.expected_work(tx, since=now - FORGOTTEN_AFTER) if count else None
            ctx.projects.share(tx, now=now, expected=expected)

        self._looked = now if count else self._looked
        await ctx.store.awrite(share)
        return 0


async def add_up_days(ctx: ManagerContext) -> int:
    """Add up the ledger of yesterday and today, which go on; earlier days were added up then."""
    now = ctx.clock()
    today = day_of(now)
    changed = await ctx.store.aread(partial(ledger.changed_days, since_day=today - 1, until_day=today))
    for start in range(0, len(changed), DAYS_AT_ONCE):
        await ctx.store.awrite(partial(ledger.put_days, rows=changed[start : start + DAYS_AT_ONCE]))
    await ctx.store.awrite(partial(credentials.forget_expired, now=now))
    return 0
