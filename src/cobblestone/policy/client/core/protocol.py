"""The interface of scheduling policies, and the list of them.

A policy answers the questions of :class:`Policy`; when they are asked, and what follows from the answers, is the machine's
business.  It may look at the whole state, change its own memory, and set the flags ``must_schedule`` and ``must_fetch``.
To add one, write a module with a class like that and register it in :data:`POLICIES`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import value
from cobblestone.policy.client.core.reasons import Why
from cobblestone.policy.client.core.state import ClientJob, CoreState, PlannedFetch
from cobblestone.policy.client.core.values import FetchRequest


@value()
class Changes:
    """Tasks to start and to preempt, and when to look again because a job waits for another's time slice to end."""

    start: Sequence[ClientJob] = ()
    preempt: Sequence[ClientJob] = ()
    look_again: float = float("inf")


class Policy(Protocol):
    """One way to decide.  What it answers itself is right for a policy that derives from it and has no rule of its own."""

    @property
    def name(self) -> str:
        """The text that :func:`make_policy` makes it of."""
        ...

    reports_all: bool = False
    """Whether a contact with any project reports the finished jobs of all (a fault of 2007's simulator)."""

    memory: Any  # a dataclass of the policy's own
    """Its memory beyond the state; stored with it."""

    def bind(self, state: CoreState, memory: Any = None, *, explain: bool = False) -> None:
        """Work for this client from now on; ``memory`` is what was stored (plain), None for a new client."""

    # -- what it is told ----------------------------------------------------------------------------------------------

    def refit(self) -> None:
        """Projects, preferences, devices or permissions have changed."""

    def detached(self, project: int) -> None:
        """Note that the project at this position is gone, those after it have moved up."""

    def passed(self, seconds: float) -> None:
        """Note that the running tasks have computed so long."""

    def off(self, seconds: float) -> None:
        """Note that the host was off so long, until now."""

    def before(self, *, deciding: bool) -> None:
        """All figures are up to date; what has happened comes next, and, if ``deciding``, decisions."""

    def outdated(self, project: int | None = None) -> None:
        """Jobs of a project (None: anything) have changed."""

    def arrived(self, job: ClientJob) -> None:
        """Note that a job has come: set its ``cutoff`` and ``remaining``."""

    def ended(self, job: ClientJob, elapsed: float) -> None:
        """Note that a job has ended (see its ``failed``) after so many seconds; it is still in its queue."""

    def preempted(self, job: ClientJob) -> None:
        """Note that a task was taken off the processor."""

    def replied(self, project: int, requests: Mapping[str, FetchRequest], jobs: Sequence[ClientJob]) -> None:
        """Set the waits before the next contact: one succeeded and brought these jobs."""

    def unreachable(self, project: int) -> None:
        """Set the wait before the next contact: one failed."""

    def pressing(self) -> bool:
        """Tell whether the new figures leave no time until the next decision: memory has run out."""
        return False

    # -- what it is asked ---------------------------------------------------------------------------------------------

    def unmeetable(self) -> Sequence[tuple[ClientJob, Why]]:
        """Return the jobs to give up now; asked before each run list."""
        return ()

    def schedule(self) -> list[ClientJob]:
        """Return the jobs that ought to run, most important first."""
        ...

    def list_stands(self) -> float:
        """Return for how many seconds the run list just made would stay the same, whatever progress its jobs report.

        A look is taken in each time slice unless it is longer; 0 is always right.
        """
        ...

    def enforce_due(self) -> bool:
        """Return whether the run list should be enforced again although nothing has changed."""
        return False

    def enforce(self, wanted: Sequence[ClientJob]) -> Changes:
        """Return which tasks start and stop, so that those run that ought to."""
        ...

    def fetch(self) -> PlannedFetch:
        """Return whom to ask for work; sets ``state.next_fetch``."""
        ...

    def requests(self, project: int, planned: Mapping[str, FetchRequest]) -> Mapping[str, FetchRequest]:
        """Return the requests as they go out."""
        return planned

    def report_at(self, job: ClientJob) -> float:
        """Return when a finished job is reason enough for a contact."""
        ...

    def report_due(self, job: ClientJob) -> Why | None:
        """Return why a finished job is to be reported now, None if it is not."""

    def contact_wait(self) -> float:
        """Return for how many seconds a contact that may be made now should wait."""
        return 0.0

    def next_wake(self) -> float:
        """Return when it wants to be called for reasons of its own."""
        ...

    def least_wait(self) -> float:
        """Return the seconds between two looks at least."""
        return 1.0

    def workload(self) -> Sequence[ClientJob] | None:
        """Return the jobs to tell a server that checks deadlines, their remaining times up to date; None tells nothing."""

    def correction(self, project: int) -> float:
        """Return the duration correction factor to tell the project."""
        ...

    def available(self) -> float:
        """Return the part of the time for which the host is expected to compute."""
        ...

    def reason(self, job: ClientJob) -> Why:
        """Return why a job is on the run list."""
        ...


#: Policies by the first word of their names: module and function that makes one of the whole name and a random source.
POLICIES: dict[str, str] = {
    "published": "cobblestone.policy.client.published.policy:from_name",
    "own": "cobblestone.policy.client.own.policy:from_name",
    "recent": "cobblestone.policy.client.recent.policy:from_name",
}


def make_policy(name: str, rng: random.Random) -> Policy:
    """Return the policy of that name, such as ``recent`` or ``published CS2_WF2_WS2_JC2``.

    Raises :class:`ConfigError` if there is none.
    """
    first = name.split(maxsplit=1)[0] if name.strip() else ""
    where = POLICIES.get(first)
    if where is None:
        raise ConfigError(f"{name!r} is not a policy; there are {', '.join(sorted(POLICIES))}")
    module, function = where.split(":")
    return cast("Policy", getattr(import_module(module), function)(name, rng))
