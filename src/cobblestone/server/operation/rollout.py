"""Staged roll-out of app versions: start, steps according to the results, holding, and rolling back."""

from __future__ import annotations

from dataclasses import replace

import structlog

from cobblestone.domain.apps import AppVersion
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.values import AppVersionId
from cobblestone.policy.dispatch.rollout import RolloutPlan, RolloutState, begin_rollout, next_step
from cobblestone.server.core.context import ServerContext
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import audit, figures
from cobblestone.store.operation.audit import SYSTEM, Actor

log = structlog.get_logger(__name__)


async def advance_rollouts(ctx: ServerContext) -> None:
    """Advance running roll-outs as their results allow."""
    running = await ctx.store.aread(figures.rollouts_running)
    for rollout in running:
        await ctx.store.awrite(lambda tx, rollout=rollout: _advance(tx, rollout.version_id, now=ctx.clock()))


def _advance(tx: Transaction, version_id: AppVersionId, *, now: float) -> None:
    rollout = figures.rollout_of(tx, version_id)  # the operator may have changed it meanwhile
    step = next_step(rollout.plan, figures.stage_record(tx, rollout), now=now)
    if step is None:
        return
    figures.set_rollout(tx, version_id, step.fraction, step.plan)
    audit.record(
        tx,
        SYSTEM,
        "hold roll-out" if step.plan.state is RolloutState.HELD else "advance roll-out",
        f"version {version_id}",
        now=now,
        before={"fraction": rollout.fraction, "stage": rollout.plan.stage},
        after={"fraction": step.fraction, "stage": step.plan.stage, "reason": step.reason},
    )
    held = step.plan.state is RolloutState.HELD
    (log.error if held else log.info)(
        "rollout_held" if held else "rollout_advances",
        version=version_id,
        fraction=step.fraction,
        reason=step.reason,
    )


def start_rollout(
    tx: Transaction, version_id: AppVersionId, plan: RolloutPlan, actor: Actor, *, now: float
) -> figures.RolloutFigures:
    """Start a roll-out (again) at its first stage.

    Raises:
        NotFound: there is no such version.
        Conflict: it is deprecated, or the stages are not growing parts.
    """
    before = figures.rollout_of(tx, version_id)
    version = _version(tx, version_id)
    if version.deprecated:
        raise Conflict(f"Version {version_id} is deprecated: no host gets it. Undo that first.")
    try:
        step = begin_rollout(plan, now=now)
    except ValueError as error:
        raise Conflict(f"This roll-out is not possible: {error}.") from error
    figures.set_rollout(tx, version_id, step.fraction, step.plan)
    _note(tx, actor, "start roll-out", before, now=now)
    return figures.rollout_of(tx, version_id)


def hold_rollout(
    tx: Transaction, version_id: AppVersionId, actor: Actor, *, now: float
) -> figures.RolloutFigures:
    """Send a version to no more hosts until its roll-out is started again.  Raises NotFound."""
    before = figures.rollout_of(tx, version_id)
    plan = replace(before.plan, stage_time=now, state=RolloutState.HELD)
    figures.set_rollout(tx, version_id, 0.0, plan)
    _note(tx, actor, "hold roll-out", before, now=now)
    return figures.rollout_of(tx, version_id)


def roll_back(
    tx: Transaction, version_id: AppVersionId, actor: Actor, *, abort_jobs: bool, now: float
) -> tuple[AppVersion | None, int]:
    """Withdraw a version: it is deprecated, and the previous one is sent again.

    With ``abort_jobs`` its results on hosts are given up: the hosts are told to stop at their next contact, and others compute
    them.  Returns the version that takes its place, if there is one, and the number of results given up.

    Raises:
        NotFound: there is no such version.
    """
    version = _version(tx, version_id)
    apps.set_version_deprecated(tx, version_id, True)
    earlier = sorted(apps.earlier_versions(tx, version), key=lambda item: item[1])
    successor = apps.set_version_deprecated(tx, earlier[-1][0], False) if earlier else None
    n_aborted = figures.give_up_results_of_version(tx, version_id, now=now) if abort_jobs else 0
    audit.record(
        tx,
        actor,
        "roll back version",
        f"version {version_id}",
        now=now,
        before={"deprecated": version.deprecated},
        after={
            "deprecated": True,
            "version_in_its_place": None if successor is None else successor.id,
            "results_given_up": n_aborted,
        },
    )
    return successor, n_aborted


def _note(tx: Transaction, actor: Actor, action: str, before: figures.RolloutFigures, *, now: float) -> None:
    after = figures.rollout_of(tx, before.version_id)
    audit.record(
        tx,
        actor,
        action,
        f"version {before.version_id}",
        now=now,
        before={"fraction": before.fraction, "plan": before.plan},
        after={"fraction": after.fraction, "plan": after.plan},
    )


def _version(db: Database, version_id: AppVersionId) -> AppVersion:
    version = apps.version_by_id(db, version_id)
    if version is None:
        raise NotFound(f"There is no app version {version_id}. See: cobblestone app version list APP")
    return version
