"""The transitioner's rules: what happens next to a workunit."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.work import DAY
from cobblestone.policy.lifecycle.effects import Transition, WorkunitView

__all__ = ["LifecycleTiming", "Transition", "WorkunitView", "next_transition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleTiming:
    """The project's settings that the transitioner obeys."""

    delete_delay_seconds: float = 0.0  #: files stay this long after the last result was received
    priority_of_retries: int = 1  #: added to the priority of results made after another one is over
    priority_of_retries_without_errors: int = 0  #: used when the former is 0 and no result failed
    hr_class_static: bool = (
        False  #: True: the operator chose the class of hosts; failures do not release the job from it
    )
    safety_net_seconds: float = (
        10 * DAY
    )  #: an unfinished workunit is looked at again after this, or 1.5 x delay_bound


def next_transition(view: WorkunitView, *, timing: LifecycleTiming, now: float) -> Transition:
    """Say what happens to a workunit at ``now`` (Unix seconds)."""
    raise NotImplementedError
