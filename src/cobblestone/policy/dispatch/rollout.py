"""Staged roll-out of app versions: a new version reaches a part of the hosts, and more when it works there.

Which hosts belong to the part depends on the ids of host and version alone: a host that got a version keeps getting it while
the part grows, and each version is tried on other hosts first.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, replace
from enum import StrEnum

from cobblestone.domain.values import AppVersionId, HostId

SCALE = 2**64


class RolloutState(StrEnum):
    """The state of a roll-out."""

    RUNNING = "running"
    HELD = "held"  #: stopped by the gate or by the operator; no host gets the version
    DONE = "done"  #: every host may get it


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    """The growth of a version's part of the hosts."""

    #: parts of the hosts, growing, each in (0, 1]; the last one is where it ends
    stages: tuple[float, ...] = ()
    max_error_rate: float = 0.1  #: gate: above it the roll-out is held
    min_results: int = 20  #: results of the current stage that a step needs
    min_seconds: float = 3600.0  #: least duration of a stage
    stage: int = 0
    stage_time: float = 0.0  #: Unix seconds, when the current stage began
    state: RolloutState = RolloutState.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """Results of a version since its current stage began."""

    n_good: int = 0  #: reported as success, and not found invalid
    n_bad: int = 0  #: failed on the host, invalid, or never returned

    @property
    def n_results(self) -> int:
        """Return how many results have ended."""
        return self.n_good + self.n_bad

    @property
    def error_rate(self) -> float:
        """Part that failed; 0 without results."""
        return self.n_bad / self.n_results if self.n_results else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStep:
    """The next step of a roll-out."""

    plan: RolloutPlan
    fraction: float  #: part of the hosts from now on
    reason: str


def host_position(host_id: HostId, version_id: AppVersionId) -> float:
    """Return the position of a host in the order in which a version reaches hosts, in [0, 1)."""
    digest = hashlib.sha256(f"rollout {version_id} {host_id}".encode()).digest()
    return int.from_bytes(digest[:8]) / SCALE


def in_rollout(host_id: HostId, version_id: AppVersionId, fraction: float) -> bool:
    """Return whether a host may get a version that ``fraction`` of the hosts may get."""
    if fraction >= 1:
        return True
    return fraction > 0 and host_position(host_id, version_id) < fraction


def begin_rollout(plan: RolloutPlan, *, now: float) -> RolloutStep:
    """Start at the first stage.

    Raises:
        ValueError: the stages are not growing parts in (0, 1].
    """
    stages = plan.stages or (1.0,)
    if any(not 0 < part <= 1 for part in stages) or any(b <= a for a, b in itertools.pairwise(stages)):
        raise ValueError(
            f"stages must be growing parts of the hosts, above 0 and at most 1, not {list(stages)}"
        )
    state = RolloutState.DONE if stages[0] >= 1 else RolloutState.RUNNING
    started = _at(replace(plan, stages=stages), 0, now, state)
    return RolloutStep(plan=started, fraction=stages[0], reason=f"begins with {stages[0]:.4g} of the hosts")


def next_step(plan: RolloutPlan, record: StageRecord, *, now: float) -> RolloutStep | None:
    """Return the step for the results of the current stage; None: wait.

    With fewer than ``min_results`` results a version is held only when it failed so often that it would exceed the gate even
    if all the others up to that number were good.
    """
    if plan.state is not RolloutState.RUNNING:
        return None
    if record.n_bad > plan.max_error_rate * max(record.n_results, plan.min_results):
        reason = f"{record.n_bad} of {record.n_results} results failed; the gate is {plan.max_error_rate:.4g}"
        return RolloutStep(plan=_at(plan, plan.stage, now, RolloutState.HELD), fraction=0.0, reason=reason)
    if record.n_results < plan.min_results or now - plan.stage_time < plan.min_seconds:
        return None
    reason = (
        f"{record.n_bad} of {record.n_results} results failed, within the gate of {plan.max_error_rate:.4g}"
    )
    last = len(plan.stages) - 1
    if plan.stage >= last:
        return RolloutStep(
            plan=_at(plan, last, now, RolloutState.DONE), fraction=plan.stages[last], reason=reason
        )
    stage = plan.stage + 1
    ended = stage == last and plan.stages[stage] >= 1
    state = RolloutState.DONE if ended else RolloutState.RUNNING
    return RolloutStep(plan=_at(plan, stage, now, state), fraction=plan.stages[stage], reason=reason)


def _at(plan: RolloutPlan, stage: int, now: float, state: RolloutState) -> RolloutPlan:
    return replace(plan, stage=stage, stage_time=now, state=state)
