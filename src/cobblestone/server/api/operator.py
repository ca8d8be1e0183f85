"""Manual actions of operators: cancel, retry, block, roles, roll-out, audit log, search, checks and repairs.

They note what they do themselves, with the state before and after (server/operation/interventions.py): hence ``quiet``.
"""

from __future__ import annotations

import msgspec

from cobblestone.api_schema import endpoints
from cobblestone.api_schema import operation as schema
from cobblestone.domain.values import AppVersionId, form_of
from cobblestone.policy.dispatch.rollout import RolloutPlan
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.operation import doctor, rollout
from cobblestone.server.operation import interventions as operations
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import audit, interventions
from cobblestone.store.operation.figures import RolloutFigures
from cobblestone.store.operation.interventions import Blockable


@answers(endpoints.CANCEL_WORKUNIT, quiet=True)
async def cancel_workunit(call: Call, workunit_id: int) -> schema.Done:
    """Cancel a workunit."""
    await call.ctx.store.awrite(lambda tx: operations.cancel_workunit(tx, call.ctx, workunit_id, call.actor))
    return schema.Done(target=f"workunit {workunit_id}", text="cancelled")


@answers(endpoints.RETRY_WORKUNIT, quiet=True)
async def retry_workunit(call: Call, workunit_id: int) -> schema.RetriedWorkunit:
    """Retry a workunit.

    An unfinished one may fail as often again as it has; a failed one becomes a job of a new batch.
    """
    batch = await call.ctx.store.awrite(
        lambda tx: operations.retry_workunit(tx, call.ctx, workunit_id, call.actor)
    )
    return schema.RetriedWorkunit(
        target=f"workunit {workunit_id}", new_batch=None if batch is None else batch.id
    )


@answers(endpoints.BLOCK_HOST, quiet=True)
async def block_host(call: Call, host_id: int, body: schema.Reason) -> schema.Done:
    """Block a host.

    It gets no more work; its volunteer reads the reason. What it has it may finish.
    """
    return await _block(call, "host", host_id, body.reason)


@answers(endpoints.UNBLOCK_HOST, quiet=True)
async def unblock_host(call: Call, host_id: int) -> schema.Done:
    """Lift the block of a host."""
    return await _block(call, "host", host_id, "")


async def _block(call: Call, noun: Blockable, number: int, reason: str) -> schema.Done:
    await call.ctx.store.awrite(lambda tx: operations.block(tx, call.ctx, noun, number, reason, call.actor))
    return schema.Done(target=f"{noun} {number}", text="gets no more work" if reason else "gets work again")


@answers(endpoints.BLOCK_USER, quiet=True)
async def block_user(call: Call, user_id: int, body: schema.Reason) -> schema.Done:
    """Block a user."""
    return await _block(call, "user", user_id, body.reason)


@answers(endpoints.UNBLOCK_USER, quiet=True)
async def unblock_user(call: Call, user_id: int) -> schema.Done:
    """Lift the block of a user."""
    return await _block(call, "user", user_id, "")


@answers(endpoints.SET_ROLE, quiet=True)
async def set_role(call: Call, user_id: int, body: schema.RoleBody) -> schema.Done:
    """Set the role of a user.

    An operator may use the operator's pages.
    """
    role = body.role
    await call.ctx.store.awrite(lambda tx: operations.set_role(tx, call.ctx, user_id, role, call.actor))
    return schema.Done(target=f"user {user_id}", text=role or "volunteer")


@answers(endpoints.RESET_PASSWORD, quiet=True)
async def reset_password(call: Call, user_id: int) -> schema.NewPassword:
    """Reset the password of a user.

    Sessions end, and clients must attach again. The reply is the only place where the password is shown.
    """
    password = await operations.reset_password(call.ctx, user_id, call.actor)
    return schema.NewPassword(target=f"user {user_id}", password=password)


@answers(endpoints.DELETE_USER, quiet=True)
async def delete_user(call: Call, user_id: int) -> schema.Done:
    """Delete a user.

    What is personal is erased; credit stays in the sums.
    """
    await call.ctx.store.awrite(lambda tx: operations.delete_user(tx, call.ctx, user_id, call.actor))
    return schema.Done(target=f"user {user_id}", text="is being erased")


def _rollout(found: RolloutFigures) -> schema.Rollout:
    plan = found.plan
    stages, hours = list(plan.stages), plan.min_seconds / 3600
    return form_of(schema.Rollout, found, plan, version=found.version_id, stages=stages, min_hours=hours)


@answers(endpoints.START_ROLLOUT, quiet=True)
async def start_rollout(call: Call, version_id: AppVersionId, body: schema.RolloutBody) -> schema.Rollout:
    """Start a staged roll-out.

    The version reaches the first part of the hosts, then the next ones by itself, as long as no more results fail than
    the gate allows; else it is held and no host gets it.
    """
    plan = RolloutPlan(
        stages=tuple(body.stages),
        max_error_rate=body.max_error_rate,
        min_results=body.min_results,
        min_seconds=body.min_hours * 3600,
    )
    return await call.ctx.store.awrite(
        lambda tx: _rollout(rollout.start_rollout(tx, version_id, plan, call.actor, now=call.now))
    )


@answers(endpoints.HOLD_ROLLOUT, quiet=True)
async def hold_rollout(call: Call, version_id: AppVersionId) -> schema.Rollout:
    """Hold a roll-out."""
    return await call.ctx.store.awrite(
        lambda tx: _rollout(rollout.hold_rollout(tx, version_id, call.actor, now=call.now))
    )


@answers(endpoints.ROLL_BACK, quiet=True)
async def roll_back(call: Call, version_id: AppVersionId, body: schema.RollBackBody) -> schema.RolledBack:
    """Withdraw an app version.

    It is deprecated, and the one before it is sent again.
    """

    def withdraw(tx: Transaction) -> schema.RolledBack:
        successor, given_up = rollout.roll_back(
            tx, version_id, call.actor, abort_jobs=body.abort_jobs, now=call.now
        )
        return schema.RolledBack(
            target=f"version {version_id}",
            version_in_its_place=None if successor is None else successor.id,
            results_given_up=given_up,
        )

    return await call.ctx.store.awrite(withdraw)


@answers(endpoints.LIST_AUDIT, quiet=True)
async def list_audit(call: Call, query: schema.AuditQuery) -> schema.AuditList:
    """Read the audit log."""
    found = await call.read(
        lambda db: audit.entries(
            db, limit=query.limit, before=query.before, target=query.target, actor=query.actor
        )
    )
    return schema.AuditList(
        entries=[
            form_of(
                schema.AuditEntry,
                entry,
                before=msgspec.json.decode(entry.before),
                after=msgspec.json.decode(entry.after),
            )
            for entry in found
        ]
    )


@answers(endpoints.SEARCH, quiet=True)
async def search(call: Call, query: schema.SearchQuery) -> schema.FoundList:
    """Find objects by id or name."""
    found = await call.read(lambda db: interventions.search(db, query.q))
    return schema.FoundList(found=found)


@answers(endpoints.LIST_CHECKS)
async def list_checks(call: Call) -> schema.CheckList:
    """List the integrity checks of a project."""
    checks = doctor.CHECKS.values()
    return schema.CheckList(checks=[each.described(call.ctx.looks.get(each.name)) for each in checks])


@answers(endpoints.DIAGNOSE)
async def diagnose(call: Call, name: str) -> schema.Diagnosis:
    """Run a check.

    On a snapshot of the database; large projects take minutes for some.
    """
    return await doctor.diagnose(call.ctx, doctor.check_named(name))


@answers(endpoints.REPAIR, quiet=True)
async def repair(call: Call, name: str) -> schema.Repair:
    """Repair what a check found, as far as it is safe."""
    check = doctor.check_named(name)
    return schema.Repair(name=check.name, repaired=await doctor.repair(call.ctx, check, call.actor))
