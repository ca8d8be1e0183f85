"""Explain what a host would get, the state of a workunit, and what happened to a result."""

from __future__ import annotations

from cobblestone.api_schema import endpoints
from cobblestone.api_schema import operation as schema
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.operation import explain


@answers(endpoints.EXPLAIN_HOST)
async def explain_host(call: Call, host_id: int) -> schema.HostExplanation:
    """Explain what a host gets.

    Asks the dispatch rule on its behalf, with what is stored now; nothing is sent.
    """
    return await host_explanation(call, host_id)


async def host_explanation(call: Call, host_id: int) -> schema.HostExplanation:
    """Return what the dispatch rule would say about a host now."""
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    found = await call.read(lambda db: explain.explain_host(db, offer, host_id, now=call.now))
    return schema.HostExplanation(
        id=found.host.id,
        name=found.host.description.domain_name,
        user=found.host.user_id,
        last_contact=found.host.rpc_time,
        in_progress=found.in_progress,
        would_get=found.would_get,
        reasons=[explain.told(each) for each in found.reasons],
        problems=[explain.told(each) for each in found.status.problems],
        versions=list(found.status.versions),
    )


@answers(endpoints.EXPLAIN_WORKUNIT)
async def explain_workunit(call: Call, workunit: str) -> schema.WorkunitExplanation:
    """Explain the state of a workunit.

    By id or name. For results that wait it says how many of the computers that called last could take one.
    """
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    return await call.read(lambda db: explain.explain_workunit(call.ctx, db, offer, workunit, now=call.now))


@answers(endpoints.EXPLAIN_RESULT)
async def explain_result(call: Call, result: str) -> schema.ResultExplanation:
    """Explain what happened to a result.

    By id or name.
    """
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    return await call.read(lambda db: explain.explain_result(call.ctx, db, offer, result, now=call.now))
