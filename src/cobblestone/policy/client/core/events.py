"""What happens to a client: the core's input.

Every event carries ``now``.  Several may be handed over at once; they are taken in order and followed by one round of
decisions.  Events that only bring figures up to date (``decisive`` is false) are followed by none.
"""

from __future__ import annotations

from typing import ClassVar

from cobblestone.domain.values import value
from cobblestone.policy.client.availability import HostTimes
from cobblestone.policy.client.core.values import (
    HostDevices,
    JobDescription,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)


@value()
class Event:
    """Something happened at the time ``now``."""

    decisive: ClassVar[bool] = True

    now: float


# -- time and the host ------------------------------------------------------------------------------------------------


@value()
class TimePassed(Event):
    """The alarm rang, or the driver wants a look at everything."""


@value()
class HostOn(Event):
    """The client starts, or the computer wakes up.  Time since the last event counts as off."""

    decisive: ClassVar[bool] = False


@value()
class HostOff(Event):
    """The computer stops or falls asleep now; may be left out (`HostOn` alone tells it)."""

    decisive: ClassVar[bool] = False


@value()
class AvailabilityKnown(Event):
    """Another client has measured on this computer how much of the time it computes."""

    decisive: ClassVar[bool] = False

    times: HostTimes


@value()
class PreferencesChanged(Event):
    """The volunteer's preferences are now these."""

    preferences: SchedulingPreferences


@value()
class PermissionChanged(Event):
    """What is allowed now has changed."""

    permission: Permission


@value()
class DevicesChanged(Event):
    """The host has these devices: found at the start, one switched off, or benchmarks run anew."""

    devices: HostDevices


# -- projects ---------------------------------------------------------------------------------------------------------


@value()
class ProjectAttached(Event):
    """A project is attached, or its description has changed."""

    project: ProjectDescription


@value()
class ProjectDetached(Event):
    """A project and all its jobs are gone."""

    project: str


@value()
class ContactAsked(Event):
    """Somebody wants a contact with a project: ``user``, ``trickle``, ``account_manager`` or ``project``."""

    project: str
    why: str = "user"


@value()
class ReplyReceived(Event):
    """A project's server has answered."""

    project: str
    jobs: tuple[JobDescription, ...] = ()
    acknowledged: tuple[str, ...] | None = None  #: reported jobs that it took; None = all that were told
    abort: tuple[str, ...] = ()  #: jobs that it wants to be ended
    abort_unstarted: tuple[str, ...] = ()  #: ... unless they have started
    request_delay: float = 0.0  #: seconds for which it wants no contact
    next_contact: float = 0.0  #: seconds after which it wants one; 0 = whenever
    refused: bool = False  #: a job was not sent since it would have been late


@value()
class ContactFailed(Event):
    """A contact could not be made, or its answer could not be read."""

    project: str
    code: str = "unreachable"


# -- jobs -------------------------------------------------------------------------------------------------------------


@value()
class JobsFound(Event):
    """Jobs that are on the host already (after a start without stored state, or adopted from another client)."""

    jobs: tuple[JobDescription, ...]


@value()
class JobsDescribed(Event):
    """The volunteer has changed what jobs use and how they are treated; those that are gone are passed over."""

    jobs: tuple[JobDescription, ...]


@value()
class JobReady(Event):
    """All files of a job are here."""

    job: str


@value()
class DownloadStalled(Event):
    """The files of a job do not come (``stalled``), or come again."""

    job: str
    stalled: bool = True


@value()
class JobProgressed(Event):
    """Readings of running tasks."""

    decisive: ClassVar[bool] = False

    readings: tuple[Reading, ...]


@value()
class JobCheckpointed(Event):
    """A running task has saved its state."""

    job: str
    elapsed: float


@value()
class JobFinished(Event):
    """A task has ended well."""

    job: str
    elapsed: float
    uploading: bool = False  #: `JobUploaded` will follow


@value()
class JobFailed(Event):
    """A task has failed, or was aborted after `GiveUp` or by the volunteer."""

    job: str
    elapsed: float
    uploading: bool = False


@value()
class JobDeferred(Event):
    """A task has ended for the time being and wants to be started again at ``until``."""

    job: str
    until: float


@value()
class TaskStopped(Event):
    """The process of a task that was told to quit is gone, or died of itself; what it did since its checkpoint is lost."""

    job: str


@value()
class JobUploaded(Event):
    """All output files of a job are with the project."""

    job: str


@value()
class JobSuspended(Event):
    """The volunteer suspends a job, or lets it go on."""

    job: str
    suspended: bool = True


#: Every event, by the name under which it is stored.
EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        TimePassed, HostOn, HostOff, AvailabilityKnown, PreferencesChanged, PermissionChanged, DevicesChanged,
        ProjectAttached, ProjectDetached, ContactAsked, ReplyReceived, ContactFailed,
        JobsFound, JobsDescribed, JobReady, DownloadStalled, JobProgressed, JobCheckpointed, JobFinished, JobFailed,
        JobDeferred, TaskStopped, JobUploaded, JobSuspended,
    )
}  # fmt: skip
