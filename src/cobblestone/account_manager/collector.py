"""Asks projects for granted credit: one question at a time per project, with back-off; and books the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from functools import partial
from typing import TypeVar

import httpx
import structlog

from cobblestone.account_manager.core.context import ManagerContext
from cobblestone.account_manager.core.projects_web import (
    AT_ONCE,
    ProjectCredit,
    ProjectUnreachable,
    check_address,
)
from cobblestone.account_manager.model import ManagedProject
from cobblestone.account_manager.store import granted, projects
from cobblestone.account_manager.store.granted import ProjectAccounting
from cobblestone.domain.errors import CobblestoneError
from cobblestone.domain.exports import MAX_BATCH, CountedJobState
from cobblestone.policy.account_manager import accounting_policies as policies
from cobblestone.policy.account_manager.selection import retry_seconds
from cobblestone.policy.credit.history import day_of
from cobblestone.service.supervision import Errand, SideBySide
from cobblestone.store.engine.database import Transaction

log = structlog.get_logger(__name__)

#: For one project, each time.
MAX_SECONDS = 900.0
#: For one day: a million accounts.
MAX_PAGES = 2000
#: Accounts whose answers are booked in one write: some 15 ms with 50 projects, in which no computer is answered.
BOOKED_AT_ONCE = 20
#: How far back a project is asked at first, and after a long silence.
FIRST_DAYS = 7

T = TypeVar("T")


class CreditCollector:
    """Asks the projects that have given a token."""

    def __init__(self, ctx: ManagerContext, client: httpx.AsyncClient) -> None:
        self._ctx = ctx
        self._client = client
        self._contacts = SideBySide(self._due, most=AT_ONCE)

    async def step(self) -> int:
        """Ask the projects that are due; return how many."""
        if self._ctx.settings.accounting.policy == "estimate":
            return 0
        return await self._contacts.step()

    async def _due(self, busy: Set[int]) -> dict[int, Errand]:
        now = self._ctx.clock()
        asked, known = await self._ctx.store.aread(
            lambda db: (granted.all_project_accounting(db), projects.all_projects(db))
        )
        due = {id_: state for id_, state in asked.items() if state.next_ask <= now and id_ not in busy}
        return {
            each.id: partial(self._ask, each, due[each.id])
            for each in known
            if each.id in due and not each.stopped
        }

    async def _ask(self, project: ManagedProject, state: ProjectAccounting) -> None:
        ctx = self._ctx
        there = ProjectCredit(client=self._client, url=project.url, token=state.token, clock=ctx.clock)
        try:
            check_address(project.url)
            next_day = await self._all_of(there, state)
        except CobblestoneError as error:
            failures = state.failures + 1
            log.warning("credit_not_told", project=project.url, error=str(error))
            state = replace(
                state,
                failures=failures,
                problem=str(error)[:500],
                next_ask=ctx.clock() + retry_seconds(failures),
            )
        else:
            now = ctx.clock()
            state = replace(
                state,
                next_day=next_day,
                failures=0,
                problem="",
                asked_time=now,
                next_ask=now + ctx.settings.accounting.ask_seconds,
            )
        await ctx.store.awrite(lambda tx: _keep(tx, state))

    async def _all_of(self, there: ProjectCredit, state: ProjectAccounting) -> int:
        """Ask a project everything needed.  Raises ProjectUnreachable, also if that takes too long."""
        try:
            async with asyncio.timeout(MAX_SECONDS):
                await self._enrol(there, state.project_id)
                return await self._collect(there, state)
        except TimeoutError:
            raise ProjectUnreachable(
                f"The questions about credit took longer than {MAX_SECONDS:g} s; the answers so far were booked."
            ) from None

    async def _enrol(self, there: ProjectCredit, project_id: int) -> None:
        store, now = self._ctx.store, self._ctx.clock()
        while True:
            new = await store.aread(lambda db: granted.to_enrol(db, project_id, limit=MAX_BATCH))
            if not new:
                return
            names = await there.enrol([key for _, key in new])
            named = [(account, key, name) for (account, key), name in zip(new, names, strict=True)]
            refused = await store.awrite(
                lambda tx, named=named: granted.enrol(tx, project_id, named, now=now)
            )
            if refused:
                log.warning("project_account_is_anothers", project=there.url, accounts=refused)

    async def _collect(self, there: ProjectCredit, state: ProjectAccounting) -> int:
        """Ask in the configured way; return the first day that is not complete."""
        accounts = await self._ctx.store.aread(lambda db: granted.told_names(db, state.project_id))
        match self._ctx.settings.accounting.policy:
            case "totals":
                await self._totals(there, state.project_id, accounts)
            case "jobs":
                await self._jobs(there, state.project_id, accounts)
            case _:
                return await self._sums(there, state, accounts)
        return state.next_day

    async def _totals(self, there: ProjectCredit, project_id: int, accounts: Mapping[str, int]) -> None:
        for names in batched(accounts):
            totals = await there.totals(names)
            answers = {
                accounts[name]: policies.TotalAnswer(total)
                for name, total in zip(names, totals, strict=True)
                if total is not None
            }
            await self._book(project_id, policies.ByTotals(), answers)

    async def _sums(self, there: ProjectCredit, state: ProjectAccounting, accounts: Mapping[str, int]) -> int:
        """Ask for all days that are not complete, oldest first; each page is booked at once."""
        today = day_of(self._ctx.clock())
        first = state.next_day if today - FIRST_DAYS <= state.next_day <= today else today - FIRST_DAYS
        known_until = first
        for day in range(first, today + 1):
            complete, silent = False, set(accounts.values())
            after: str | None = ""
            for _ in range(MAX_PAGES):
                if after is None:
                    break
                page = await there.sums(day, after)
                answers = {
                    accounts[each.account]: [
                        policies.ReportedDay(
                            day=day,
                            final=each.final,
                            revoked=each.revoked,
                            provisional=each.provisional if day == today else None,
                        )
                    ]
                    for each in page.accounts
                    if each.account in accounts
                }
                silent -= answers.keys()
                await self._book(state.project_id, policies.BySums(), answers)
                after, complete = page.next or None, page.complete
            if after is not None:
                raise ProjectUnreachable(f"It has more than {MAX_PAGES} pages of credit for one day.")
            if day == today:
                nothing = [policies.ReportedDay(day=day, final=0.0, revoked=0.0, provisional=0.0)]
                await self._book(state.project_id, policies.BySums(), dict.fromkeys(silent, nothing))
            if complete and known_until == day:
                known_until = day + 1
        return known_until

    async def _book(
        self, project_id: int, policy: policies.AccountingPolicy[T], answers: Mapping[int, T]
    ) -> None:
        for some in batched(answers.items(), BOOKED_AT_ONCE):
            await self._ctx.store.awrite(
                lambda tx, some=dict(some): granted.book(tx, project_id, policy, some, now=self._ctx.clock())
            )

    async def _jobs(self, there: ProjectCredit, project_id: int, accounts: Mapping[str, int]) -> None:
        """Ask about jobs of all accounts together; an account's pending credit follows from all of its jobs."""
        listed = await self._ctx.store.aread(lambda db: granted.open_jobs(db, project_id))
        asked = [(name, job) for name, number in accounts.items() for job in listed.get(number, {})]
        found: dict[int, list[policies.JobAnswer]] = {}
        for some in batched(asked):
            for (name, job), grant in zip(some, await there.jobs(some), strict=True):
                answer = policies.JobAnswer(name=job, state=grant.state, credit=grant.credit)
                found.setdefault(accounts[name], []).append(answer)
        for number, answers in found.items():
            known = policies.JobAnswers(answers=tuple(answers), granted_before=listed[number])
            await self._ctx.store.awrite(
                lambda tx, number=number, known=known: self._settle(tx, project_id, number, known)
            )

    def _settle(
        self, tx: Transaction, project_id: int, account_id: int, answers: policies.JobAnswers
    ) -> None:
        now = self._ctx.clock()
        granted.book(tx, project_id, policies.ByJobs(), {account_id: answers}, now=now)
        got = {
            each.name: policies.bounded(each.credit)
            for each in answers.answers
            if each.state is CountedJobState.GRANTED
        }
        over = [
            each.name
            for each in answers.answers
            if each.state in (CountedJobState.REFUSED, CountedJobState.UNKNOWN)
        ]
        granted.settle_jobs(tx, project_id, got, over, now=now)


def _keep(tx: Transaction, state: ProjectAccounting) -> None:
    """Store the outcome, unless the operator has changed the token meanwhile, and with the trust that is given now."""
    known = granted.project_accounting(tx, state.project_id)
    if known.token == state.token:
        granted.put_project_accounting(tx, replace(state, vouched=known.vouched))


def batched(items: Iterable[T], most: int = MAX_BATCH) -> list[list[T]]:
    """Split into parts; as a rule, such that fit into a question."""
    found = list(items)
    return [found[place : place + most] for place in range(0, len(found), most)]
