"""How the client of 2007 went about its work: switches that the reproduction of its paper sets, and nobody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from cobblestone.domain.values import value
from cobblestone.policy.client.choice import Faults2007
from cobblestone.policy.client.core.state import Job
from cobblestone.policy.client.run_list import Victims


@value(kw_only=True)
class Ways2007:
    """How the client of 2007 went about it; the default is none of it."""

    poll_seconds: float = 0.0  #: it looked at everything every so many seconds; 0 = when something happens
    every_poll: bool = False  #: ... really, and in the original's order of operations
    one_contact_reports_all: bool = False
    faults: Faults2007 = field(default_factory=Faults2007)
    line_up: Callable[[Sequence[Job], float, Sequence[int]], Victims[Job]] | None = None
    """The order in which running tasks give way, if it is another than today's."""


TODAY = Ways2007()
