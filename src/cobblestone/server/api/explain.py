"""Why: what a host would get, what becomes of a workunit, what became of a result; and forgiveness for mended hosts."""

from __future__ import annotations

from typing import Any

from cobblestone.domain.errors import NotFound
from cobblestone.domain.ids import HostId
from cobblestone.domain.reasons import Reason
from cobblestone.policy.dispatch.host_status import VersionStatus
from cobblestone.server.api.routing import Call, Endpoint, Nothing, Reply
from cobblestone.server.operation import explain
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts
from cobblestone.store.people.tokens import Scope


class ReasonReply(Reply):
    """Why something happens or does not."""

    code: str  # stable
    text: str
    values: dict[str, Any]


class StandingReply(Reply):
    """How a host stands with one app version."""

    app: str
    version_num: int
    plan_class: str
    jobs_per_day: int  # per processor; 1 after many bad results
    full_quota: int
    sent_today: int
    bad_results: int  # more than valid ones since
    next_quota_seconds: float
    throttled: bool
    reliable: bool
    valid_in_a_row: int
    check_probability: float  # of its jobs that are computed by others too; 1 without adaptive replication


class HostExplanationReply(Reply):
    """What a host would get if it asked now, and why not more."""

    id: int
    name: str
    user: int
    last_contact: float  # Unix seconds
    in_progress: int
    would_get: str  # name of a result; empty: nothing
    reasons: list[ReasonReply]
    problems: list[ReasonReply]  # what its owner should know
    versions: list[StandingReply]


class WorkunitExplanationReply(Reply):
    """What becomes of a workunit."""

    id: int
    name: str
    takers: int  # of the computers that were tried for its unsent results
    tried: int
    reasons: list[ReasonReply]


class ResultExplanationReply(Reply):
    """What became of a result."""

    id: int
    name: str
    workunit: int
    reasons: list[ReasonReply]
    told: list[str]  # noted when it was reported and validated


def _reason(each: Reason) -> ReasonReply:
    return ReasonReply(code=each.code, text=each.text(), values=dict(each.values))


def _standing(each: VersionStatus) -> StandingReply:
    return StandingReply(**{name: getattr(each, name) for name in StandingReply.__struct_fields__})


async def explain_host(call: Call[Nothing, Nothing]) -> HostExplanationReply:
    """Explain what a host gets."""
    host_id = call.path_id("host_id")
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    found = await call.ctx.store.aread(
        lambda db: explain.explain_host(call.ctx, db, offer, host_id, now=call.now)
    )
    return HostExplanationReply(
        id=found.host.id,
        name=found.host.description.domain_name,
        user=found.host.user_id,
        last_contact=found.host.rpc_time,
        in_progress=found.in_progress,
        would_get=found.would_get,
        reasons=[_reason(each) for each in found.reasons],
        problems=[_reason(each) for each in found.standing.problems],
        versions=[_standing(each) for each in found.standing.versions],
    )


async def explain_workunit(call: Call[Nothing, Nothing]) -> WorkunitExplanationReply:
    """Explain what becomes of a workunit."""
    wanted = call.path_name("workunit")
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    found = await call.ctx.store.aread(
        lambda db: explain.explain_workunit(call.ctx, db, offer, wanted, now=call.now)
    )
    workunit = found.view.workunit
    return WorkunitExplanationReply(
        id=workunit.id,
        name=workunit.name,
        takers=found.takers,
        tried=found.tried,
        reasons=[_reason(each) for each in found.reasons],
    )


async def explain_result(call: Call[Nothing, Nothing]) -> ResultExplanationReply:
    """Explain what became of a result."""
    wanted = call.path_name("result")
    offer = await call.ctx.store.awrite(call.ctx.offers.get)
    found = await call.ctx.store.aread(
        lambda db: explain.explain_result(call.ctx, db, offer, wanted, now=call.now)
    )
    return ResultExplanationReply(
        id=found.result.id,
        name=found.result.name,
        workunit=found.result.workunit_id,
        reasons=[_reason(each) for each in found.reasons],
        told=list(found.told),
    )


async def forgive_host(call: Call[Nothing, Nothing]) -> HostExplanationReply:
    """Say that a host is mended."""
    host_id = HostId(call.path_id("host_id"))

    def forgive(tx: Transaction) -> None:
        if hosts.host_by_id(tx, host_id) is None:
            raise NotFound(f"There is no host {host_id}.")
        hosts.forgive(tx, host_id, now=call.now)

    await call.ctx.store.awrite(forgive)
    return await explain_host(call)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/explain/hosts/{host_id:int}",
        summary="Explain what a host gets",
        description="Asks the dispatch rule on its behalf, with what is stored now; nothing is sent.",
        handler=explain_host,
        body=Nothing,
        query=Nothing,
        reply=HostExplanationReply,
        scope=Scope.READ,
        tag="explain",
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/explain/workunits/{workunit}",
        summary="Explain what becomes of a workunit",
        description="By id or name. For results that wait it says how many of the computers that called last could take one.",
        handler=explain_workunit,
        body=Nothing,
        query=Nothing,
        reply=WorkunitExplanationReply,
        scope=Scope.READ,
        tag="explain",
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/explain/results/{result}",
        summary="Explain what became of a result",
        description="By id or name.",
        handler=explain_result,
        body=Nothing,
        query=Nothing,
        reply=ResultExplanationReply,
        scope=Scope.READ,
        tag="explain",
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/hosts/{host_id:int}/forgive",
        summary="Say that a host is mended",
        description="Forgets its bad results and what it lacked, so that it gets tasks at once.",
        handler=forgive_host,
        body=Nothing,
        query=Nothing,
        reply=HostExplanationReply,
        scope=Scope.MANAGE,
        tag="explain",
        problems=(404,),
    ),
)
