"""What a client has to do: the core's output, in the order in which it is to be carried out.

Each instruction carries its reasons as data; :mod:`~cobblestone.policy.client.core.reasons` makes sentences of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from cobblestone.domain.values import value
from cobblestone.policy.client.core.reasons import Why
from cobblestone.policy.client.core.values import QueuedWork, WorkRequest


@value(kw_only=True)
class Instruction:
    """Something to be done, and why."""

    why: tuple[Why, ...] = ()


@value(kw_only=True)
class StartTask(Instruction):
    """Start the task, or let it go on: from memory if it is there, else from its checkpoint."""

    job: str
    instances: tuple[int, ...] = ()  #: GPU instances that it gets


@value(kw_only=True)
class SuspendTask(Instruction):
    """Stop the task and leave it in memory."""

    job: str


@value(kw_only=True)
class QuitTask(Instruction):
    """Let the task end; it will start again from its checkpoint."""

    job: str


@value(kw_only=True)
class GiveUp(Instruction):
    """Abort the job; `JobFailed` has to follow."""

    job: str
    code: str = "unmeetable_deadline"  #: or ``project`` if the server wants it


@value(kw_only=True)
class ContactProject(Instruction):
    """Contact the project's scheduler; `ReplyReceived` or `ContactFailed` has to follow."""

    project: str
    requests: Mapping[str, WorkRequest] = field(
        default_factory=dict[str, WorkRequest]
    )  #: by device type; empty = no work
    report: tuple[str, ...] = ()  #: jobs to report
    workload: tuple[QueuedWork, ...] | None = None  #: for servers that check deadlines; None = not told
    correction: float = 1.0  #: duration correction factor of the project
    available: float = 1.0  #: part of the time for which the host is expected to compute


@value(kw_only=True)
class SetAlarm(Instruction):
    """Send `TimePassed` at ``at`` unless something else happens before; replaces the alarm before."""

    at: float


@value(kw_only=True)
class Explain(Instruction):
    """Nothing to do: why something was decided, or was not (only if the core was asked to explain)."""

    about: str  #: ``schedule``, ``enforce``, ``fetch``, ``contact``, ``give_up`` or ``wait``
