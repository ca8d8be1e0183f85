"""A policy as a value, written ``CS2_WF2_WS2_JC2``, or by the name under which it is registered.

A choice has four parts: CPU scheduling (CS), work fetch (WF), work send by the server (WS) and estimation
of job completion (JC), with the numbers that Kondo, Anderson and McLeod, "Performance Evaluation of
Scheduling Policies for Volunteer Computing" (e-Science 2007) gave them.  ``CS3``/``WF3`` are ours;
``CS4``/``WF4`` are the names that we give to the family of today's clients (recent estimated credit,
hysteresis fetch), which take their estimates with ``JC2`` or without (``JC1``) a duration correction
factor.  A policy that is registered by another name speaks to servers as today's clients do.
"""

from __future__ import annotations

import re
from dataclasses import fields

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import value
from cobblestone.policy.client.core.protocol import POLICIES

#: What the names of our own families stand for.
FAMILIES = {"published": "CS2_WF2_WS2_JC2", "own": "CS3_WF3_WS2_JC2", "recent": "CS4_WF4_WS1_JC2"}
_FORM = re.compile(r"CS([1-4])_WF([1-4])(?:_WS([12])_JC([12]))?")


@value()
class PolicyChoice:
    """One combination of policies.

    Raises :class:`ConfigError` for combinations of two families: ours, that of debts and that of credit do
    not mix.
    """

    #: 1 round robin, 2 earliest deadline first for endangered jobs, 3 ours, 4 today's (REC)
    cpu_scheduling: int = 2
    work_fetch: int = 2  #: 1 queue per project, 2 debt and shortfall, 3 ours, 4 today's (hysteresis)
    work_send: int = 2  #: 1 as much as asked for, 2 only what the deadline check admits
    job_completion: int = 2  #: 1 the project's estimate, 2 with the duration correction factor
    registered: str = ""  #: name of another policy than these

    def __post_init__(self) -> None:
        if (self.cpu_scheduling == 4) != (self.work_fetch == 4):
            raise ConfigError(f"{self}: CS4 and WF4 belong together; use both or neither")
        if (self.cpu_scheduling == 3) != (self.work_fetch == 3):
            raise ConfigError(f"{self}: CS3 and WF3 belong together; use both or neither")

    def __str__(self) -> str:
        if self.registered:
            return self.registered
        return f"CS{self.cpu_scheduling}_WF{self.work_fetch}_WS{self.work_send}_JC{self.job_completion}"

    def within(self, family: str) -> str:
        """Return the name of a policy of that family, or of one that derives from it and has a name of its own."""
        return self.registered or f"{family} {self}"

    @property
    def knows_devices(self) -> bool:
        """Return whether it gives work to GPUs and knows jobs of many CPUs; those of 2007 do not."""
        return self.cpu_scheduling > 2

    @classmethod
    def parse(cls, text: str) -> PolicyChoice:
        """Read ``CS2_WF2_WS2_JC2`` or the name of a registered policy, such as ``recent``.

        ``CS2_WF2`` alone takes WS and JC as usual: WS1_JC2 for today's family (CS4), else WS2_JC2.

        Raises :class:`ConfigError` for anything else.
        """
        first, _, rest = text.strip().partition(" ")
        family = FAMILIES.get(first)
        if family is not None:
            return cls.parse(rest or family)
        if first in POLICIES:
            return cls(4, 4, 2, 2, registered=text.strip())
        match = _FORM.fullmatch(text.strip().upper())
        if match is None:
            raise ConfigError(
                f"{text!r} is not a policy: write CSa_WFb_WSc_JCd with a and b from 1 to 4, c and d 1 or 2,"
                f" for example CS2_WF2_WS2_JC2, or CS2_WF2 alone, or one of the names {', '.join(sorted(POLICIES))}"
            )
        scheduling, fetch, send, completion = match.groups()
        usual = "1" if scheduling == "4" else "2"
        return cls(int(scheduling), int(fetch), int(send or usual), int(completion or "2"))


@value(kw_only=True)
class Faults2007:
    """Behaviours of the 2007 code that are faults; all off by default.

    With all of them on, and polling every 60 s, the published figures come out.
    """

    absolute_admission_deadlines: bool = False
    """The server's deadline check compares absolute deadlines with times that count from zero."""

    true_size_in_admission: bool = False
    """The server's deadline check knows the true size of the job that it is about to send."""

    request_ignores_availability: bool = False
    """The fluid simulation and the requests use processor efficiency only; off-time is learned through it
    alone.
    """

    inverted_preemption: bool = False
    """The heap of running tasks has its order upside down: tasks in deadline trouble are preempted first; equal ones lie as
    the C++ library leaves them.
    """

    ties_ignore_progress: bool = False
    """Of equal deadlines the job with least left goes first, even if another has been started:
    underestimated jobs take turns, all late.
    """

    order_dependent_fetch: bool = False
    """When projects are compared for work fetch, being out of deadline trouble is not enough to pass one
    that is in it.
    """

    wall_time_to_latest: bool = False
    """All wall time since the last accounting is charged to the tasks that are scheduled at its end, also to
    those that have just started.
    """

    @classmethod
    def all(cls) -> Faults2007:
        """Every fault on."""
        return cls(**{f.name: True for f in fields(cls)})
