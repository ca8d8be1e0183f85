"""Accounting API for account managers: the credit of accounts whose weak keys they have, in three forms."""

from __future__ import annotations

from cobblestone.api_schema import account_manager as schema
from cobblestone.api_schema import endpoints
from cobblestone.domain.values import DAY
from cobblestone.server.api.endpoints.routing import Call, answers, unauthorised
from cobblestone.service.http.api import SMALL_BODY, count_question
from cobblestone.store.operation import told_credit

#: After midnight grants may still come in that were made before it.
SETTLED_SECONDS = 600.0


def _token_id(call: Call) -> int:
    """Count a question and return the number of the token that asks it.

    Raises:
        ApiProblem: it asked too often.
    """
    if call.token is None:
        raise unauthorised("This needs a token with the scope 'accounting'.")
    hint = f"Up to {schema.MAX_BATCH} jobs or accounts fit into one question."
    count_question(call.ctx.limits.accounting, call.token, now=call.now, hint=hint)
    return call.token.id


@answers(endpoints.ENROL_ACCOUNTS)
async def enrol(call: Call, body: schema.EnrolledKeys) -> schema.EnrolledAccounts:
    """Name accounts.

    Show the weak keys of accounts that you look after; you get the names under which you are told of their credit. No
    other token is told the same names. An account whose owner changes its password is not told of until its new weak
    key is shown.
    """
    token_id = _token_id(call)
    return await call.write(
        lambda tx: schema.EnrolledAccounts(accounts=told_credit.enrol(tx, token_id, body.keys, now=call.now))
    )


@answers(endpoints.GET_JOB_GRANTS, max_body=2 * SMALL_BODY)
async def job_grants(call: Call, body: schema.JobQuestions) -> schema.JobGrants:
    """Ask what jobs were granted.

    Jobs of other accounts than the one named with them are unknown.
    """
    token_id = _token_id(call)
    asked = [(each.account, each.name) for each in body.jobs]
    found = await call.read(lambda db: told_credit.job_grants(db, token_id, asked))
    return schema.JobGrants(jobs=[schema.JobGrant(state=state, credit=credit) for state, credit in found])


@answers(endpoints.GET_TOTALS)
async def totals(call: Call, body: schema.TotalQuestions) -> schema.Totals:
    """Ask for totals of accounts or computers."""
    token_id = _token_id(call)
    asked = [(each.account, each.host) for each in body.totals]
    return schema.Totals(totals=await call.read(lambda db: told_credit.totals(db, token_id, asked)))


@answers(endpoints.GET_DAY_SUMS)
async def day_sums(call: Call, query: schema.SumsQuery) -> schema.DaySums:
    """Ask for the three sums of a day.

    Of all accounts that were named: what became final on that day, what was taken back, and, for today, what is
    provisional: expected of work that is not decided.
    """
    token_id = _token_id(call)
    today = int(call.now // DAY)
    found, following = await call.read(
        lambda db: told_credit.day_sums(
            db, token_id, day=query.day, after=query.after, today=query.day == today
        )
    )
    return schema.DaySums(
        day=query.day,
        complete=call.now >= (query.day + 1) * DAY + SETTLED_SECONDS,
        accounts=found,
        next=following,
    )
