"""The memory of our own policy (CS3, WF3); stored with the client's state."""

from __future__ import annotations

from dataclasses import dataclass, field

from cobblestone.policy.client.core.state import NEVER
from cobblestone.policy.client.own.history import (
    AppHistory,
    BandReadings,
    JobOutlook,
    ProgressClaim,
    ProjectHistory,
)
from cobblestone.policy.client.own.lateness import GivingUp, Interruptions, ProjectYield
from cobblestone.policy.client.published.debts import PublishedMemory
from cobblestone.policy.client.published.work_fetch import Urgency
from cobblestone.policy.client.recent.rec import RecMemory


@dataclass(slots=True)
class ProjectMemory:
    """The policy's memory of one project."""

    history: ProjectHistory = field(default_factory=ProjectHistory)
    apps: dict[str, AppHistory] = field(default_factory=dict[str, AppHistory])
    giving_up: GivingUp = field(default_factory=GivingUp)
    worth: ProjectYield = field(default_factory=ProjectYield)


@dataclass(slots=True)
class OwnMemory(PublishedMemory):
    """The policy's memory."""

    interruptions: Interruptions = field(default_factory=Interruptions)
    projects: list[ProjectMemory] = field(default_factory=list[ProjectMemory])
    progress: dict[int, dict[int, BandReadings]] = field(default_factory=dict[int, dict[int, BandReadings]])
    """By serial number of a job, and by band: what it reported."""
    #: by serial number of a job on trial
    claims: dict[int, ProgressClaim] = field(default_factory=dict[int, ProgressClaim])
    unmeetable: set[int] = field(default_factory=set[int])
    """Serial numbers of jobs that will be late, kept for want of better ones."""
    full_shares: list[float] = field(default_factory=list[float])  #: as the volunteer set them
    shares: list[float] = field(default_factory=list[float])  #: ... and as they are weighed
    #: what is expected of each project's jobs
    outlooks: list[JobOutlook] = field(default_factory=list[JobOutlook])
    outlook_of: list[tuple[ProjectHistory, Interruptions] | None] = field(
        default_factory=list[tuple[ProjectHistory, Interruptions] | None]
    )
    """What each outlook was worked out of."""
    #: seconds by which deadlines are brought forward
    cautions: list[float] = field(default_factory=list[float])
    interval: float = 0.0  #: between contacts, as the outlooks take it
    urgency: int = Urgency.DONT_NEED  #: as of the last look at work fetch
    gap_clock: float = 0.0
    probe_at: float = NEVER  #: when a running job will have shown its size
    waits: bool = False  #: a contact waits
    credit: RecMemory = field(default_factory=RecMemory)  #: of GPU jobs and of all CPU time
    #: by app version, largest working set of a job (bytes)
    memory_of: dict[str, float] = field(default_factory=dict[str, float])
    gpu_cpus: int = 0  #: CPUs that GPU jobs take, as of the last run list
    packed: bool = False  #: the last run list was packed, since jobs do not fit in one by one
