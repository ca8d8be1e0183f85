"""The client's memory: one value, which can be stored at any moment and brought back.

It is changed in place, by the machine and by the policy alone: copying some hundred jobs at each event would cost a
simulation more than all decisions.  :meth:`ClientState.snapshot` gives a copy where one is wanted.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from cobblestone.domain.errors import ConfigError, IllegalTransition
from cobblestone.domain.values import value
from cobblestone.policy.client.core.events import from_plain, to_plain
from cobblestone.policy.client.core.reasons import Why
from cobblestone.policy.client.core.values import (
    AvailabilityEstimate,
    FetchRequest,
    HostDevices,
    HostTimes,
    JobDescription,
    Permission,
    ProjectDescription,
    SchedulingPreferences,
)

NEVER = math.inf
#: Bounds of what is told of jobs: seconds or bytes, and CPUs or instances.
LONGEST, MOST_INSTANCES = 1e15, 1e4


class Phase(enum.StrEnum):
    """The stage of a job."""

    DOWNLOADING = "downloading"  #: its files are not all here
    WAITING = "waiting"  #: it has not been started yet
    RUNNING = "running"
    IN_MEMORY = "in_memory"  #: preempted; its process is there
    QUITTING = "quitting"  #: told to end its process
    STOPPED = "stopped"  #: preempted; it will go on from its checkpoint
    GIVEN_UP = "given_up"  #: told to be aborted
    UPLOADING = "uploading"  #: computed; output files are on their way
    REPORTABLE = "reportable"  #: its project can be told of it


#: A job that needs no device any more.
ENDED_PHASES = (Phase.GIVEN_UP, Phase.UPLOADING, Phase.REPORTABLE)

_NOT_ENDED = tuple(phase for phase in Phase if phase not in (Phase.UPLOADING, Phase.REPORTABLE))

#: What becomes of a job, by its phase and by what is done or happens.  Whatever is not here is a mistake of the driver's.
TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.DOWNLOADING, "ready"): Phase.WAITING,
    (Phase.WAITING, "start"): Phase.RUNNING,
    (Phase.IN_MEMORY, "start"): Phase.RUNNING,
    (Phase.STOPPED, "start"): Phase.RUNNING,
    (Phase.RUNNING, "suspend"): Phase.IN_MEMORY,
    (Phase.RUNNING, "quit"): Phase.QUITTING,
    (Phase.IN_MEMORY, "quit"): Phase.QUITTING,
    (Phase.QUITTING, "stopped"): Phase.STOPPED,
    (Phase.RUNNING, "stopped"): Phase.STOPPED,
    (Phase.IN_MEMORY, "stopped"): Phase.STOPPED,
    (Phase.STOPPED, "stopped"): Phase.STOPPED,
    **{(phase, "give_up"): Phase.GIVEN_UP for phase in _NOT_ENDED},
    **{
        (phase, end): after
        for phase in _NOT_ENDED
        for end, after in (("end", Phase.REPORTABLE), ("end_uploading", Phase.UPLOADING))
    },
    (Phase.UPLOADING, "uploaded"): Phase.REPORTABLE,
    (Phase.REPORTABLE, "uploaded"): Phase.REPORTABLE,
}  # fmt: skip


@dataclass(slots=True, eq=False)
class ClientJob:
    """A job on the host.  Times are absolute seconds, sizes elapsed seconds on its own devices."""

    id: str
    project: int  #: position in the list of projects
    app_name: str
    version: str
    cpus: float
    gpu: str
    gpus: float
    raw: float  #: the project's estimate, uncorrected
    received: float
    report_deadline: float
    memory_bound: float = 0.0
    strict_memory_bound: bool = False
    exact_fraction: bool = False
    non_cpu_intensive: bool = False
    sporadic: bool = False
    needs_network: bool = False
    report_immediately: bool = False
    phase: Phase = Phase.WAITING
    serial: int = 0  #: rank by arrival
    start_order: int = 0  #: 0 = never started, else its rank by first start
    running: bool = False  #: its phase is RUNNING
    runnable: bool = True  #: it may run: files are here, no one has suspended it
    suspended: bool = False  #: by the volunteer
    stalled: bool = False  #: its files do not come
    deferred_until: float = 0.0  #: it asked not to be started before; 0 = it did not
    run_start: float = 0.0  #: when it last started or resumed
    done: float = 0.0  #: elapsed seconds so far
    fraction_done: float | None = None
    fraction_at: float = 0.0  #: elapsed seconds when the fraction was reported
    counted: float = 0.0  #: of ``done``, what has been accounted for (policies of 2007)
    checkpointed_at: float | None = None
    checkpoint_elapsed: float = 0.0
    measured: float = 0.0  #: working set in bytes, as last measured
    largest: float = 0.0  #: ... and the largest so far
    swap: float = 0.0
    working_set: float = 0.0  #: bytes that it is expected to need
    cutoff: float = 0.0  #: when it should be computed
    remaining: float = 0.0  #: estimated seconds left
    edf: bool = False  #: on the processor because of its deadline
    late_since: float | None = None  #: when it was last found to be late in turn
    preferred_since: float | None = None  #: since when it has been preferred and kept out by running jobs
    must_quit: bool = False  #: it may not stay in memory
    instances: tuple[int, ...] = ()  #: GPU instances that it has or had last
    failed: bool = False
    given_up: bool = False
    completed_at: float = 0.0
    report_at: float = 0.0  #: from when on it is reason enough for a contact
    why: tuple[Why, ...] = ()  #: why it runs or waits

    @classmethod
    def of(cls, description: JobDescription, project: int) -> ClientJob:
        """Return the job as it arrives; figures that cannot be are brought within bounds."""
        d = description
        estimate, received, deadline, memory_bound = (
            within(figure, LONGEST) for figure in (d.estimate, d.received, d.deadline, d.memory_bound)
        )
        return cls(
            d.id, project, d.app, d.version, within(d.cpus), d.gpu, within(d.gpus), estimate,
            received, deadline, memory_bound, d.strict_memory_bound, d.exact_fraction, d.non_cpu_intensive, d.sporadic,
            d.needs_network, d.report_immediately,
            phase=Phase.WAITING if d.ready else Phase.DOWNLOADING,
            runnable=d.ready, remaining=estimate, cutoff=deadline, run_start=received, working_set=memory_bound,
        )  # fmt: skip

    def after(self, cause: str) -> Phase:
        """Return the next phase.  Raises :class:`IllegalTransition` if there is none."""
        after = TRANSITIONS.get((self.phase, cause))
        if after is None:
            raise IllegalTransition(f"job {self.id!r} is {self.phase}: it cannot {cause}")
        return after

    def move(self, cause: str) -> None:
        """Go to the next phase.  Raises :class:`IllegalTransition` if there is none."""
        self.phase = self.after(cause)
        self.running = self.phase is Phase.RUNNING

    @property
    def always_runs(self) -> bool:
        """Return whether it uses next to no processor, or computes when it likes."""
        return self.non_cpu_intensive or self.sporadic

    def deferred(self, now: float) -> bool:
        """Tell whether it has asked to be started later."""
        return self.deferred_until != 0.0 and self.deferred_until > now

    @property
    def queued(self) -> bool:
        """Return whether it counts as work: runnable now or as soon as its files are here."""
        return not (self.suspended or self.stalled or self.phase is Phase.GIVEN_UP)


def within(figure: float, most: float = MOST_INSTANCES) -> float:
    """Return a figure brought between 0 and ``most``; what is no number counts as 0."""
    return min(figure, most) if figure > 0.0 else 0.0


@dataclass(slots=True, eq=False)
class ClientProject:
    """A project that the client is attached to."""

    description: ProjectDescription
    failures: int = 0  #: contacts in a row without success
    failed: int = 0  #: jobs that failed in a row
    not_before: float = 0.0  #: earliest next contact
    contact_asked: str = ""  #: who wants a contact
    contact_by: float = NEVER  #: when the project itself wants the next one
    backoffs: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """By device type for which it had nothing: interval and end."""
    upload_since: float = -NEVER  #: since when there has been an upload at any time; -inf: there is none
    first_contact: bool = True  #: it has never been in contact
    open: bool = True  #: the volunteer wants work of it
    why: tuple[Why, ...] = ()  #: why it was asked for work, or was not
    #: its jobs that count as work, in arrival order (not stored)
    queue: list[ClientJob] = field(default_factory=list[ClientJob])

    @property
    def share(self) -> float:
        """Resource share."""
        return self.description.share

    def supplies_from(self) -> float:
        """Return from when on it may be asked for some device type."""
        if not self.backoffs:
            return self.not_before
        ends = [self.backoffs.get(kind, (0.0, 0.0))[1] for kind in self.description.supplies]
        return max(self.not_before, min(ends, default=0.0))

    def contactable(self, now: float) -> bool:
        """Tell whether it may be asked for work now."""
        return self.open and self.not_before <= now


@value()
class PlannedFetch:
    """The project to ask and for what (``project`` None: no project), and why."""

    project: int | None = None
    requests: Mapping[str, FetchRequest] = field(default_factory=dict[str, FetchRequest])
    others: Mapping[int, Mapping[str, FetchRequest]] = field(
        default_factory=dict[int, Mapping[str, FetchRequest]]
    )
    """What further projects would be asked for, should they be contacted for another reason."""
    why: tuple[Why, ...] = ()


NOTHING = PlannedFetch()


@value()
class PendingContact:
    """A contact under way."""

    project: str
    requests: Mapping[str, FetchRequest]
    report: tuple[str, ...]
    asked: str = ""  #: who wanted it


_LISTS = ("jobs", "finished", "running", "wanted")
_UNSTORED = (*_LISTS, "by_id", "ready")


@dataclass(slots=True, eq=False)
class CoreState:
    """Everything that the core knows."""

    now: float = 0.0
    clock: float = 0.0  #: seconds for which the host was on
    off_since: float | None = None  #: the host is off
    doubted_until: float = 0.0  #: of ``clock``: the time of day may have leapt, and may leap back
    preferences: SchedulingPreferences = field(default_factory=SchedulingPreferences)
    permission: Permission = field(default_factory=Permission)
    devices: HostDevices = field(default_factory=HostDevices)
    on: AvailabilityEstimate = field(default_factory=AvailabilityEstimate)
    #: while on, computing was allowed
    active: AvailabilityEstimate = field(default_factory=AvailabilityEstimate)
    gpu_active: AvailabilityEstimate = field(default_factory=AvailabilityEstimate)
    connected: AvailabilityEstimate = field(default_factory=AvailabilityEstimate)
    cpu_and_network: AvailabilityEstimate = field(default_factory=AvailabilityEstimate)
    projects: list[ClientProject] = field(default_factory=list[ClientProject])
    jobs: list[ClientJob] = field(default_factory=list[ClientJob])  #: unfinished, in arrival order
    finished: list[ClientJob] = field(default_factory=list[ClientJob])  #: not reported yet, in arrival order
    running: list[ClientJob] = field(default_factory=list[ClientJob])  #: in the order of their last start
    wanted: list[ClientJob] = field(default_factory=list[ClientJob])  #: the last run list
    plan: PlannedFetch = NOTHING
    contact: PendingContact | None = None  #: under way
    #: under way, and no longer waited for
    slow: list[PendingContact] = field(default_factory=list[PendingContact])
    last_contact: float = -NEVER
    must_schedule: bool = False
    must_enforce: bool = False
    must_fetch: bool = True
    last_schedule: float = 0.0
    next_schedule: float = 0.0  #: when the run list is made again even if nothing happens
    last_enforce: float = 0.0
    next_fetch: float = 0.0
    look_again: float = NEVER  #: when a waiting job may take the place of a running one
    alarm: float = 0.0
    by_id: dict[str, ClientJob] = field(default_factory=dict[str, ClientJob])  #: all jobs (not stored)
    ready: Counter[int] = field(default_factory=Counter[int])  #: jobs to report, when looked at (not stored)
    deferrals: bool = False  #: some job may have put itself off
    starts: int = 0
    arrivals: int = 0
    draws: int = 0  #: random numbers used

    @property
    def ncpus(self) -> int:
        """CPUs that may be used."""
        allowed = self.permission.ncpus
        return self.devices.ncpus if allowed is None else max(0, min(allowed, self.devices.ncpus))

    @property
    def may_give_up(self) -> bool:
        """Return whether jobs that will be late may be given up: the volunteer consents, and the time of day is not in doubt."""
        return self.preferences.may_give_up and self.clock >= self.doubted_until

    @property
    def slice(self) -> float:
        """Seconds for which a task runs before another may take its place."""
        return self.preferences.slice_seconds

    def slice_after(self, at: float) -> float:
        """Return the end of the time slice, counted from the last run list, in which that time is."""
        return self.last_schedule + ((at - self.last_schedule) // self.slice + 1.0) * self.slice

    @property
    def estimates_on(self) -> tuple[AvailabilityEstimate, ...]:
        """The estimates of what holds while the host is on."""
        return self.active, self.gpu_active, self.connected, self.cpu_and_network

    def parts_of_time_on(self) -> tuple[tuple[AvailabilityEstimate, bool], ...]:
        """Return the estimates of what holds while the host is on, and whether it does now."""
        allowed = self.permission
        connected = allowed.connected is not False and not allowed.network
        gpu_allowed = not (allowed.cpu or allowed.gpu)
        hold = (not allowed.cpu, gpu_allowed, connected, connected and not allowed.cpu)
        return tuple(zip(self.estimates_on, hold, strict=True))

    def host_times(self, now: float) -> HostTimes:
        """Return how much of the time the host computes, as reported to projects."""
        active, gpu_active, connected, both = (
            each.at(now, holds=holds) for each, holds in self.parts_of_time_on()
        )
        return HostTimes(
            on_frac=self.on.at(now),
            active_frac=active,
            gpu_active_frac=gpu_active,
            connected_frac=None if self.permission.connected is None else connected,
            cpu_and_network_frac=both,
        )

    def position(self, project: str) -> int:
        """Return a project's position.  Raises :class:`IllegalTransition` if it is not attached."""
        for i, each in enumerate(self.projects):
            if each.description.id == project:
                return i
        raise IllegalTransition(f"project {project!r} is not attached")

    def under_way(self, project: str) -> PendingContact | None:
        """Return the contact with a project that is under way."""
        found = (each for each in (self.contact, *self.slow) if each is not None and each.project == project)
        return next(found, None)

    def job(self, identity: str) -> ClientJob:
        """Return a job.  Raises :class:`IllegalTransition` if it is not known."""
        job = self.by_id.get(identity)
        if job is None:
            raise IllegalTransition(f"job {identity!r} is not known")
        return job

    def uploading(self) -> Counter[int]:
        """Return of how many jobs outputs are on their way, by project."""
        return Counter([job.project for job in self.finished if job.phase is Phase.UPLOADING])

    def requeue(self) -> None:
        """Recompute which jobs count as work, and which may run."""
        self._queue_up()
        for job in self.jobs:
            job.runnable = self.can_run(job)

    def _queue_up(self) -> None:
        for project in self.projects:
            project.open = not (project.description.suspended or project.description.no_new_work)
            project.queue = []
        for job in self.jobs:
            project = self.projects[job.project]
            if job.queued and not project.description.suspended:
                project.queue.append(job)

    def can_run(self, job: ClientJob) -> bool:
        """Tell whether nothing forbids a job to run now."""
        allowed = self.permission
        return (
            job.queued
            and job.phase not in (Phase.DOWNLOADING, Phase.QUITTING)
            and not job.deferred(self.now)
            and not (allowed.cpu or (job.gpu and allowed.gpu) or (job.needs_network and allowed.network))
            and not self.projects[job.project].description.suspended
        )

    def may_contact(self, now: float) -> bool:
        """Tell whether the connection interval allows a contact; several at the same instant are one connection."""
        interval = self.preferences.connection_interval
        return interval <= 0.0 or now == self.last_contact or now - self.last_contact >= interval

    def next_contact(self, now: float) -> float:
        """Return when the next contact is allowed."""
        return now if self.may_contact(now) else self.last_contact + self.preferences.connection_interval

    def first_supplier(self) -> float:
        """Return from when on some project may be asked for some device type; 0 where none is open."""
        return min([p.supplies_from() for p in self.projects if p.open], default=0.0)

    # -- storing ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the state as dictionaries, lists, texts and numbers."""
        plain = {f.name: to_plain(getattr(self, f.name)) for f in fields(self) if f.name not in _UNSTORED}
        for project in plain["projects"]:
            del project["queue"]
        plain["all_jobs"] = [to_plain(job) for job in (*self.jobs, *self.finished)]
        for name in _LISTS:
            plain[name] = [job.id for job in getattr(self, name)]
        return plain

    @classmethod
    def restore(cls, plain: Mapping[str, Any]) -> CoreState:
        """Return the state that :meth:`snapshot` gave.  Raises :class:`ConfigError` if it is none."""
        rest = dict(plain)
        try:
            jobs = {job.id: job for job in (from_plain(ClientJob, each) for each in rest.pop("all_jobs"))}
            lists = {name: [jobs[identity] for identity in rest.pop(name)] for name in _LISTS}
        except (KeyError, TypeError) as error:
            raise ConfigError(f"this is not a stored state of a client: {error!r}") from error
        state = from_plain(cls, rest)
        for name, each in lists.items():
            setattr(state, name, each)
        state.by_id = jobs
        state._queue_up()
        return state
