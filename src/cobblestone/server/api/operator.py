"""What operators do by hand: cancel, retry, block, roles, roll-out; the audit log; search."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from cobblestone.domain.ids import AppVersionId
from cobblestone.policy.rollout import RolloutPlan
from cobblestone.server.api.routing import Call, Endpoint, Handler, Line, Model, Nothing, Reply
from cobblestone.server.operation import interventions as operations
from cobblestone.server.operation import rollout
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import audit, interventions
from cobblestone.store.operation.figures import Rollout
from cobblestone.store.people.tokens import Scope

Part = Annotated[float, msgspec.Meta(gt=0, le=1)]


class Done(Reply):
    """It is done."""

    target: str
    text: str = ""


class RetriedWorkunit(Reply):
    """What became of a workunit that is tried again."""

    target: str
    new_batch: int | None  # None: it goes on itself


class Reason(Model):
    """Why, in words that the volunteer reads."""

    reason: Annotated[Line, msgspec.Meta(min_length=3)]


class RoleBody(Model):
    """What a user may do."""

    role: Annotated[str, msgspec.Meta(max_length=20)]  # operator, or empty: volunteer


class NewPassword(Reply):
    """A new password; it is shown only now."""

    target: str
    password: str


class RolloutBody(Model):
    """How a version reaches hosts."""

    stages: Annotated[list[Part], msgspec.Meta(min_length=1, max_length=20)]  # growing parts of the hosts
    max_error_rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1  # above it the roll-out is held
    min_results: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 20  # of a stage, before the next one
    min_hours: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 1.0  # of a stage


class RolloutReply(Reply):
    """How a version reaches hosts."""

    version: int
    fraction: float  # part of the hosts that may get it now
    state: str  # running, held, done
    stages: list[float]
    stage: int  # position in stages, from 0
    max_error_rate: float
    min_results: int
    min_hours: float


class RollBackBody(Model):
    """How to withdraw a version."""

    abort_jobs: bool = False  # hosts are told to stop; else they finish what they have


class RolledBack(Reply):
    """What withdrawing a version did."""

    target: str
    version_in_its_place: int | None
    results_given_up: int


class AuditQuery(Model):
    """A part of the audit log."""

    before: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    target: Line = ""  # such as: host 12
    actor: Line = ""  # beginning of the name


class AuditReply(Reply):
    """One action."""

    id: int
    time: float
    actor: str
    origin: str
    action: str
    target: str
    before: msgspec.Raw
    after: msgspec.Raw


class AuditList(Reply):
    """Actions, the newest first."""

    entries: list[AuditReply]


class SearchQuery(Model):
    """What to look for."""

    q: Annotated[Line, msgspec.Meta(min_length=1)]


class FoundReply(Reply):
    """Something that fits."""

    kind: str
    id: int
    name: str


class FoundList(Reply):
    """All that fits."""

    found: list[FoundReply]


async def cancel_workunit(call: Call[Nothing, Nothing]) -> Done:
    """Cancel a workunit."""
    workunit_id = call.path_id("workunit_id")
    await call.ctx.store.awrite(lambda tx: operations.cancel_workunit(tx, call.ctx, workunit_id, call.actor))
    return Done(target=f"workunit {workunit_id}", text="cancelled")


async def retry_workunit(call: Call[Nothing, Nothing]) -> RetriedWorkunit:
    """Try a workunit again."""
    workunit_id = call.path_id("workunit_id")
    batch = await call.ctx.store.awrite(
        lambda tx: operations.retry_workunit(tx, call.ctx, workunit_id, call.actor)
    )
    return RetriedWorkunit(target=f"workunit {workunit_id}", new_batch=None if batch is None else batch.id)


async def block_host(call: Call[Reason, Nothing]) -> Done:
    """Block a host."""
    return await _block_host(call, call.body.reason)


async def unblock_host(call: Call[Nothing, Nothing]) -> Done:
    """Lift the block of a host."""
    return await _block_host(call, "")


async def _block_host(call: Call[Reason, Nothing] | Call[Nothing, Nothing], reason: str) -> Done:
    host_id = call.path_id("host_id")
    await call.ctx.store.awrite(lambda tx: operations.block_host(tx, call.ctx, host_id, reason, call.actor))
    return Done(target=f"host {host_id}", text="gets no more work" if reason else "gets work again")


async def block_user(call: Call[Reason, Nothing]) -> Done:
    """Block a user."""
    return await _block_user(call, call.body.reason)


async def unblock_user(call: Call[Nothing, Nothing]) -> Done:
    """Lift the block of a user."""
    return await _block_user(call, "")


async def _block_user(call: Call[Reason, Nothing] | Call[Nothing, Nothing], reason: str) -> Done:
    user_id = call.path_id("user_id")
    await call.ctx.store.awrite(lambda tx: operations.block_user(tx, call.ctx, user_id, reason, call.actor))
    return Done(target=f"user {user_id}", text="gets no more work" if reason else "gets work again")


async def set_role(call: Call[RoleBody, Nothing]) -> Done:
    """Set the role of a user."""
    user_id, role = call.path_id("user_id"), call.body.role
    await call.ctx.store.awrite(lambda tx: operations.set_role(tx, call.ctx, user_id, role, call.actor))
    return Done(target=f"user {user_id}", text=role or "volunteer")


async def reset_password(call: Call[Nothing, Nothing]) -> NewPassword:
    """Reset the password of a user."""
    user_id = call.path_id("user_id")
    password = await operations.reset_password(call.ctx, user_id, call.actor)
    return NewPassword(target=f"user {user_id}", password=password)


async def delete_user(call: Call[Nothing, Nothing]) -> Done:
    """Delete a user."""
    user_id = call.path_id("user_id")
    await call.ctx.store.awrite(lambda tx: operations.delete_user(tx, call.ctx, user_id, call.actor))
    return Done(target=f"user {user_id}", text="is being erased")


def _rollout(found: Rollout) -> RolloutReply:
    plan = found.plan
    return RolloutReply(
        version=found.version_id,
        fraction=found.fraction,
        state=plan.state.value,
        stages=list(plan.stages),
        stage=plan.stage,
        max_error_rate=plan.max_error_rate,
        min_results=plan.min_results,
        min_hours=plan.min_seconds / 3600,
    )


async def start_rollout(call: Call[RolloutBody, Nothing]) -> RolloutReply:
    """Begin a roll-out."""
    body, version_id = call.body, AppVersionId(call.path_id("version_id"))
    plan = RolloutPlan(
        stages=tuple(body.stages),
        max_error_rate=body.max_error_rate,
        min_results=body.min_results,
        min_seconds=body.min_hours * 3600,
    )
    return await call.ctx.store.awrite(
        lambda tx: _rollout(rollout.start_rollout(tx, version_id, plan, call.actor, now=call.now))
    )


async def hold_rollout(call: Call[Nothing, Nothing]) -> RolloutReply:
    """Give a version to no more hosts."""
    version_id = AppVersionId(call.path_id("version_id"))
    return await call.ctx.store.awrite(
        lambda tx: _rollout(rollout.hold_rollout(tx, version_id, call.actor, now=call.now))
    )


async def roll_back(call: Call[RollBackBody, Nothing]) -> RolledBack:
    """Withdraw a version."""
    version_id = AppVersionId(call.path_id("version_id"))

    def withdraw(tx: Transaction) -> RolledBack:
        successor, given_up = rollout.roll_back(
            tx, version_id, call.actor, abort_jobs=call.body.abort_jobs, now=call.now
        )
        return RolledBack(
            target=f"version {version_id}",
            version_in_its_place=None if successor is None else successor.id,
            results_given_up=given_up,
        )

    return await call.ctx.store.awrite(withdraw)


async def list_audit(call: Call[Nothing, AuditQuery]) -> AuditList:
    """Read the audit log."""
    query = call.query
    found = await call.ctx.store.aread(
        lambda db: audit.entries(
            db, limit=query.limit, before=query.before, target=query.target, actor=query.actor
        )
    )
    return AuditList(
        entries=[
            AuditReply(
                id=entry.id,
                time=entry.time,
                actor=entry.actor,
                origin=entry.origin,
                action=entry.action,
                target=entry.target,
                before=msgspec.Raw(entry.before.encode()),
                after=msgspec.Raw(entry.after.encode()),
            )
            for entry in found
        ]
    )


async def search(call: Call[Nothing, SearchQuery]) -> FoundList:
    """Find users, hosts, batches, workunits and results."""
    found = await call.ctx.store.aread(lambda db: interventions.search(db, call.query.q))
    return FoundList(found=[FoundReply(kind=item.kind, id=item.id, name=item.name) for item in found])


def _endpoint(method: str, path: str, summary: str, handler: Handler, **more: object) -> Endpoint[Any, Any]:
    options: dict[str, Any] = {"body": Nothing, "query": Nothing, "reply": Done, "problems": (404,), **more}
    return Endpoint(
        method=method,
        path=path,
        summary=summary,
        handler=handler,
        scope=Scope.MANAGE,
        tag="operation",
        quiet=True,
        **options,
    )


# They note what they do themselves, with the state before and after (server/operation/interventions.py): hence "quiet".
ENDPOINTS = (
    _endpoint(
        "POST",
        "/workunits/{workunit_id:int}/cancel",
        "Cancel a workunit",
        cancel_workunit,
        problems=(404, 409),
    ),
    _endpoint(
        "POST",
        "/workunits/{workunit_id:int}/retry",
        "Try a workunit again",
        retry_workunit,
        reply=RetriedWorkunit,
        problems=(404, 409),
        description=(
            "An unfinished one may fail as often again as it has; a failed one becomes a job of a new batch."
        ),
    ),
    _endpoint(
        "PUT",
        "/hosts/{host_id:int}/block",
        "Block a host",
        block_host,
        body=Reason,
        description="It gets no more work; its volunteer reads the reason. What it has it may finish.",
    ),
    _endpoint("DELETE", "/hosts/{host_id:int}/block", "Lift the block of a host", unblock_host),
    _endpoint("PUT", "/users/{user_id:int}/block", "Block a user", block_user, body=Reason),
    _endpoint("DELETE", "/users/{user_id:int}/block", "Lift the block of a user", unblock_user),
    _endpoint(
        "PUT",
        "/users/{user_id:int}/role",
        "Set the role of a user",
        set_role,
        body=RoleBody,
        problems=(404, 409),
        description="An operator may use the operator's pages.",
    ),
    _endpoint(
        "POST",
        "/users/{user_id:int}/password",
        "Reset the password of a user",
        reset_password,
        reply=NewPassword,
        description="Sessions end, and clients must attach anew. The reply is the only place where the password is shown.",
    ),
    _endpoint(
        "DELETE",
        "/users/{user_id:int}",
        "Delete a user",
        delete_user,
        description="What is personal is erased; credit stays in the sums.",
    ),
    _endpoint(
        "POST",
        "/versions/{version_id:int}/rollout",
        "Begin a staged roll-out",
        start_rollout,
        body=RolloutBody,
        reply=RolloutReply,
        problems=(404, 409),
        description=(
            "The version reaches the first part of the hosts, then the next ones by itself, as long as no more results fail"
            " than the gate allows; else it is held and no host gets it."
        ),
    ),
    _endpoint("POST", "/versions/{version_id:int}/hold", "Hold a roll-out", hold_rollout, reply=RolloutReply),
    _endpoint(
        "POST",
        "/versions/{version_id:int}/roll_back",
        "Withdraw an app version",
        roll_back,
        body=RollBackBody,
        reply=RolledBack,
        description="It is deprecated, and the one before it is sent again.",
    ),
    _endpoint(
        "GET",
        "/audit",
        "Read the audit log",
        list_audit,
        query=AuditQuery,
        reply=AuditList,
        problems=(),
    ),
    _endpoint(
        "GET",
        "/search",
        "Find something by id or name",
        search,
        query=SearchQuery,
        reply=FoundList,
        problems=(),
    ),
)
