"""The API of the page /compute: jobs that a browser computes.

A browser is a computer of its own kind with a token of its own.  It gets jobs by the same rules as all others, and those of
`cobblestone.policy.dispatch` about browsers: what it computes is always checked by a computer that is none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Set

from cobblestone.api_schema import batches as schema
from cobblestone.api_schema import endpoints
from cobblestone.domain.apps import BROWSER_DELAY_BOUND, BROWSER_PLATFORM, BROWSER_SILENCE
from cobblestone.domain.errors import NotFound
from cobblestone.domain.hosts import Host, HostDescription
from cobblestone.domain.people import Scope, User
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.accounts.service import VISITORS_ADDRESS, user_of_ticket, visitors
from cobblestone.server.api.endpoints.routing import Call, answers, unauthorised
from cobblestone.server.scheduler.browser_jobs import SYSTEM, browser_jobs, browser_limits, browser_request
from cobblestone.server.scheduler.exchange import SchedulerExchange
from cobblestone.server.scheduler.reply import Links
from cobblestone.service.http.api import ApiProblem
from cobblestone.service.languages import best_of, chosen, use_language
from cobblestone.service.rate_limits import AttemptBucket, client_address, limit_key
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import credentials, hosts, users
from cobblestone.store.work import dispatch, job_results
from cobblestone.store.work.rows import LOCKED_HOSTS, LOCKED_WORKUNITS

TOKEN_SECONDS = 400 * 86400.0
_RNG = random.Random()


@answers(endpoints.REGISTER_BROWSER)
async def register(call: Call, body: schema.NewBrowser) -> schema.BrowserToken:
    """Register a browser for computing.

    The token is good for this browser alone and opens nothing else.
    """
    ctx, now = call.ctx, call.now
    _take_turn(ctx.limits.new_browsers, limit_key(client_address(call.request.scope)), now)
    secret = credentials.new_secret()

    def make(tx: Transaction) -> schema.BrowserToken:
        user = _owner(tx, call, body.account)
        host = hosts.create_host(tx, user.id, host_cpid="", venue="", now=now)
        name = body.name.strip() or SYSTEM
        about = HostDescription(domain_name=name, os_name=SYSTEM, platforms=(BROWSER_PLATFORM,))
        hosts.update_host(tx, host.id, about, rpc_seqno=0, external_ip_addr="", now=now)
        credentials.create_token(
            tx,
            secret,
            name=name,
            scopes=[Scope.COMPUTE],
            now=now,
            expire_time=now + TOKEN_SECONDS,
            user_id=user.id,
            host_id=host.id,
        )
        return schema.BrowserToken(token=secret, computer=host.id)

    return await ctx.store.awrite(make)


@answers(endpoints.FETCH_BROWSER_JOBS)
async def work(call: Call, body: schema.BrowserWork) -> schema.BrowserJobs:
    """Get jobs, and learn which of the held ones are no longer needed."""
    return await _exchange(call, work=body)


@answers(endpoints.REPORT_BROWSER_JOB)
async def report(call: Call, body: schema.BrowserReport) -> schema.BrowserJobs:
    """Report a job that has ended or was given up.

    Outputs are uploaded before: ``upload_header`` with their size, and behind it their bytes, to ``upload_url``.  To repeat a
    report changes nothing.
    """
    return await _exchange(call, report=body)


@answers(endpoints.GET_BROWSER)
async def standing(call: Call) -> schema.BrowserStanding:
    """Return this browser's contribution to the project."""
    _take_turn(call.ctx.limits.browsers, _token_key(call), call.now)
    user, host = await call.read(lambda db: _who(db, call))
    return schema.BrowserStanding(
        computer=host.id,
        total_credit=host.credit.total,
        recent_average_credit=decayed(host.credit.recent, call.now),
        account="" if user.email_addr == VISITORS_ADDRESS else user.name,
    )


async def _exchange(
    call: Call, *, work: schema.BrowserWork | None = None, report: schema.BrowserReport | None = None
) -> schema.BrowserJobs:
    """Let the scheduler answer the request that a BOINC client would have sent, in one write of the store."""
    ctx, now, address = call.ctx, call.now, client_address(call.request.scope)
    _take_turn(ctx.limits.browsers, _token_key(call), now)
    token, languages = call.token, call.request.headers.get("accept-language", "")
    listed = [report.name] if report is not None else work.held if work is not None else []
    locks = {
        LOCKED_WORKUNITS: listed,
        LOCKED_HOSTS: () if token is None or token.host_id is None else (token.host_id,),
    }

    def transact(tx: Transaction) -> schema.BrowserJobs:
        user, host = _who(tx, call)
        found = dispatch.reported_rows(tx, listed)
        own = {name: row for name, row in found.items() if row and row.result.host_id == host.id}
        if report is not None and not own:  # another computer's, as all visitors share one account
            raise NotFound("This browser has no such job.")
        offer = ctx.offers.get(tx)
        limits = browser_limits(
            offer.limits,
            hosts.records_of_host(tx, host.id).values(),
            threads=work.threads if work is not None else host.description.p_ncpus,
            held_in_network=ctx.limits.held.held(address, now=now),
            jobs_per_day=ctx.settings.browsers.jobs_per_day,
        )
        message = browser_request(user, host, offer, work=work, report=report)
        reply = SchedulerExchange(ctx, offer, limits, Links(ctx), _RNG, tx, message).run("", languages)
        jobs = _keep(tx, host, {*listed, *(result.name for result in reply.results)}, now=now)
        ctx.limits.held.note(address, host.id, jobs, now=now)
        with use_language(chosen(best_of(languages), user.language)):
            return browser_jobs(reply, replaced=[name for name, row in own.items() if row.replaced])

    return await ctx.store.awrite(transact, locks=locks)


def _keep(tx: Transaction, host: Host, names: Set[str], *, now: float) -> int:
    """Give a browser more time for those of its jobs that it spoke of; return how many it holds."""
    held = dispatch.jobs_in_progress(tx, host.id)
    spoken_of = job_results.late_jobs(tx, [job.result_id for job in held if job.name in names])
    deadlines = {
        job.result_id: min(now + BROWSER_SILENCE, job.sent_time + min(job.delay_bound, BROWSER_DELAY_BOUND))
        for job in spoken_of
    }
    dispatch.set_deadlines(tx, deadlines)
    return len(held)


def _take_turn(bucket: AttemptBucket, key: str, now: float) -> None:
    """Count a request.  Raises ApiProblem after too many."""
    wait = bucket.attempt(key, now=now)
    if wait > 0:
        problem = ApiProblem(429, "too_many", "There were too many requests.", "Try again later.")
        problem.headers["Retry-After"] = str(math.ceil(wait))
        raise problem


def _token_key(call: Call) -> str:
    return "" if call.token is None else str(call.token.id)


def _owner(tx: Transaction, call: Call, ticket: str) -> User:
    """Return the user who gets a new browser's credit."""
    ctx = call.ctx
    if BROWSER_PLATFORM not in ctx.offers.get(tx).catalogue.platforms:
        raise ApiProblem(403, "no_browser_apps", "This project has no app for browsers.")
    if ticket:
        user = user_of_ticket(tx, ctx, ticket)
        if user is None:
            raise unauthorised("The page is outdated: reload it.", code="ticket_expired")
        return user
    if not ctx.settings.browsers.visitors:
        raise ApiProblem(403, "account_needed", "On this project, only logged-in users can compute.")
    return visitors(tx, now=call.now)


def _who(db: Database, call: Call) -> tuple[User, Host]:
    """Return the account and the computer of a token.  Raises ApiProblem if they were deleted."""
    token = call.token
    if token is None or token.user_id is None or token.host_id is None:
        raise unauthorised("This needs a browser's token: POST /browsers.")
    user, host = users.user_by_id(db, token.user_id), hosts.host_by_id(db, token.host_id)
    if user is None or host is None or user.erased or host.user_id != user.id:
        raise unauthorised(
            "The account or the computer of this token no longer exists.", code="token_revoked"
        )
    return user, host
