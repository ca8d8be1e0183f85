"""Explain what a host would get, the state of a workunit, and what happened to a result."""

from __future__ import annotations

from cobblestone.api_schema import operation as schema
from cobblestone.domain.people import Scope
from cobblestone.domain.reasons import Reason
from cobblestone.policy.dispatch.status import VersionStatus
from cobblestone.server.api.endpoints.routing import Call, endpoint
from cobblestone.server.operation import explain


def _reason(each: Reason) -> schema.Explanation:
    return schema.Explanation(code=each.code, text=each.text(), values=dict(each.values))


def _version(each: VersionStatus) -> schema.VersionStatus:
    return schema.VersionStatus(
        **{name: getattr(each, name) for name in schema.VersionStatus.__struct_fields__}
    )


@endpoint("GET", "/explain/hosts/{host_id:int}", scope=Scope.READ, tag="explain", problems=(404,))
async def explain_host(call: Call, host_id: int) -> schema.HostExplanation:
    """Explain what a host gets.

    Asks the dispatch rule on its behalf, with what is stored now; nothing is sent.
    """
    return await host_explanation(call, host_id)


async def host_explanation(call: Call, host_id: int) -> schema.HostExplanation:
    """Return what the dispatch rule would say about a host now."""
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    found = await call.ctx.store.aread(
        lambda db: explain.explain_host(call.ctx, db, offer, host_id, now=call.now)
    )
    return schema.HostExplanation(
        id=found.host.id,
        name=found.host.description.domain_name,
        user=found.host.user_id,
        last_contact=found.host.rpc_time,
        in_progress=found.in_progress,
        would_get=found.would_get,
        reasons=[_reason(each) for each in found.reasons],
        problems=[_reason(each) for each in found.status.problems],
        versions=[_version(each) for each in found.status.versions],
    )


@endpoint("GET", "/explain/workunits/{workunit}", scope=Scope.READ, tag="explain", problems=(404,))
async def explain_workunit(call: Call, workunit: str) -> schema.WorkunitExplanation:
    """Explain the state of a workunit.

    By id or name. For results that wait it says how many of the computers that called last could take one.
    """
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    found = await call.ctx.store.aread(
        lambda db: explain.explain_workunit(call.ctx, db, offer, workunit, now=call.now)
    )
    return schema.WorkunitExplanation(
        id=found.view.workunit.id,
        name=found.view.workunit.name,
        takers=found.takers,
        tried=found.tried,
        reasons=[_reason(each) for each in found.reasons],
    )


@endpoint("GET", "/explain/results/{result}", scope=Scope.READ, tag="explain", problems=(404,))
async def explain_result(call: Call, result: str) -> schema.ResultExplanation:
    """Explain what happened to a result.

    By id or name.
    """
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    found = await call.ctx.store.aread(
        lambda db: explain.explain_result(call.ctx, db, offer, result, now=call.now)
    )
    return schema.ResultExplanation(
        id=found.result.id,
        name=found.result.name,
        workunit=found.result.workunit_id,
        reasons=[_reason(each) for each in found.reasons],
        told=list(found.told),
    )
