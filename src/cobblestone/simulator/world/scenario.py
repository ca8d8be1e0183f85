"""What is simulated: a host, its preferences, and projects with their apps.  Plain values, checked when
they are made.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import field
from typing import Literal

from cobblestone.domain.values import DAY, HOUR, value
from cobblestone.policy.client.choice import Faults2007
from cobblestone.policy.client.own.lateness import WASTE_AVERSION
from cobblestone.simulator.world.distributions import Checked, JobSizes, OnOff, ProgressCurve, require, within

__all__ = [
    "DAY", "HOUR", "AppModel", "Compatibility", "Gpus", "HostModel", "JobSizes", "OnOff", "Preferences", "ProgressCurve",
    "ProjectModel", "Scenario", "ServerModel", "pick_weighted", "require",
]  # fmt: skip


@value(kw_only=True)
class AppModel(Checked):
    """One kind of job of a project."""

    name: str = "app"
    latency_bound: float = within(1.0, 1e10, 9 * DAY)
    flops_estimate: float = within(1.0, 1e24, 1.3e13)
    sizes: JobSizes = field(default_factory=JobSizes)
    weight: float = within(0.0, 1e9, 1.0)
    cpus: float = within(0.0, 1024, 1.0)  #: CPUs used by a job, may be a fraction
    gpu: str = ""  #: GPU type used, empty = none
    gpus: float = within(0.0, 64, 0.0)  #: instances used, may be a fraction
    efficiency: float = within(0.001, 1.0, 1.0)  #: part of the devices' peak speed that a job achieves
    checkpoint_period: float = within(0.0, 1e9, 0.0)  #: seconds between checkpoints; 0 = all the time
    progress: ProgressCurve = field(default_factory=ProgressCurve)  #: what it says of how far it is
    input_bytes: float = within(0.0, 1e15, 0.0)
    output_bytes: float = within(0.0, 1e15, 0.0)
    error_rate: float = within(0.0, 1.0, 0.0)  #: part of the jobs that fail, at a uniformly distributed point
    #: part of the jobs that succeed at a uniformly distributed point of their size
    early_exit_rate: float = within(0.0, 1.0, 0.0)
    max_concurrent: int = within(0, 10_000, 0)  #: 0 = no limit
    working_set: float = within(0.0, 1e15, 0.0)  #: bytes of memory of a running job

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        self.check_ranges(where)
        self.require(bool(self.gpu) == (self.gpus > 0), where, "gpus", "above 0 exactly if gpu names a type")
        self.require(self.cpus > 0 or self.gpus > 0, where, "cpus", "above 0 unless a GPU is used")
        self.sizes.check(where)
        self.progress.check(f"{where}, progress")


@value(kw_only=True)
class ServerModel(Checked):
    """How a project treats its workunits; only used in a run with many hosts.

    The limits on results are the project server's (see `cobblestone.domain.work.ReplicationRules`).
    """

    workunits: int = 0  #: how many there are in all; 0 = without end
    #: how many come a day; 0 = all are there from the beginning
    workunits_per_day: float = within(0.0, 1e9, 0.0)
    min_quorum: int = within(1, 100, 1)
    target_results: int = within(1, 100, 1)  #: results made at first
    max_error_results: int = within(0, 100, 3)
    max_total_results: int = within(1, 100, 10)
    max_success_results: int = within(1, 100, 6)
    #: part of the results that are reported as success and are wrong
    wrong_rate: float = within(0.0, 1.0, 0.0)
    daily_quota: int = within(1, 10**6, 500)  #: results per CPU and day
    #: per CPU, on a host that nothing right came from yet; 0 = as many as the quota allows
    first_jobs: int = within(0, 10**6, 1)
    max_jobs_per_rpc: int = within(0, 10**4, 50)  #: per CPU
    check_deadline: bool = True  #: send only what the host's queue leaves time for (today's clients)
    feeder_slots: int = within(1, 10**5, 100)  #: unsent results that a request may choose from
    #: what one contact keeps a process of the scheduler busy; 0 = none
    service_seconds: float = within(0.0, 3600.0, 0.0)
    processes: int = within(1, 1000, 1)  #: of the scheduler
    longest_wait: float = within(0.0, DAY, 60.0)  #: seconds in the queue after which a contact gets no work
    #: from a report to transitioner, validator and assimilator
    daemon_seconds: float = within(0.0, 30 * DAY, 0.0)

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        where = f"{where}, server"
        self.require(0 <= self.workunits <= 10**9, where, "workunits", "0 to 1e9")
        self.check_ranges(where)
        limits = self.max_total_results, self.max_success_results
        text = f"up to max_total_results and max_success_results {limits}"
        self.require(self.min_quorum <= min(limits), where, "min_quorum", text)


@value(kw_only=True)
class ProjectModel(Checked):
    """A project as the host sees it."""

    name: str
    share: float = within(0.0, 1e9, 100.0)
    apps: tuple[AppModel, ...] = (AppModel(),)
    downtime: OnOff = field(default_factory=OnOff)  #: on = the project's server answers
    max_infeasible: int = within(0, 1000, 0)  #: refused candidates after which the server stops looking
    max_concurrent: int = within(0, 10_000, 0)
    excluded_gpu: str = ""  #: GPU type of which it may not use ``excluded_gpus`` instances
    excluded_gpus: int = within(0, 64, 0)
    server: ServerModel = field(default_factory=ServerModel)

    def check(self) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        where = f"project {self.name!r}"
        self.require(0 < len(self.name) <= 200, where, "name", "1 to 200 characters")
        self.check_ranges(where)
        require(0 < len(self.apps) <= 100, where, "apps", len(self.apps), "1 to 100 apps")
        fits = bool(self.excluded_gpu) == bool(self.excluded_gpus)
        self.require(fits, where, "excluded_gpu", "a GPU type exactly if excluded_gpus is above 0")
        self.downtime.check(f"{where}, downtime")
        for app in self.apps:
            app.check(f"{where}, app {app.name!r}")
        self.server.check(where)
        weighted = any(app.weight > 0 for app in self.apps)
        require(weighted, where, "weight", 0, "at least one app with a weight above 0")


@value(kw_only=True)
class Gpus(Checked):
    """GPUs of one type."""

    type: str
    count: int = within(1, 64, 1)
    flops: float = within(1.0, 1e18, 1e12)  #: peak of one instance

    def check(self) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        self.require(bool(self.type), "host, gpu", "type", "a name such as NVIDIA")
        self.check_ranges(f"host, gpu {self.type}")


Belief = Literal["efficiency", "statistics", "true"]


@value(kw_only=True)
class HostModel(Checked):
    """A computer."""

    ncpus: int = within(1, 1024, 2)
    flops: float = within(1.0, 1e18, 1e9)  #: of one CPU
    gpus: tuple[Gpus, ...] = ()
    availability: OnOff = field(default_factory=lambda: OnOff(fraction=0.8, mean_on=1000.0))
    believed_availability: Belief | float = "statistics"
    """What the client takes its availability to be: the CPU efficiency of 2007, today's statistics, the
    truth, or a number.
    """
    connection_interval: float = within(0.0, 1e8, 0.0)
    download_rate: float = within(0.0, 1e12, 0.0)  #: bytes per second; 0 = at once
    #: memory that jobs may use (today's family looks at it); 0 = without limit
    upload_rate: float = within(0.0, 1e12, 0.0)
    ram_bytes: float = within(0.0, 1e18, 0.0)
    leave_in_memory: bool = True  #: preempted tasks keep what they did since their checkpoint

    def check(self) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        self.check_ranges("host")
        self.availability.check("host, availability")
        if isinstance(self.believed_availability, str):
            fits = self.believed_availability in ("efficiency", "statistics", "true")
            self.require(fits, "host", "believed_availability", "efficiency, statistics, true or a number")
        else:
            self.require_range("host", 0.01, 1.0, "believed_availability")
        for gpu in self.gpus:
            gpu.check()
        types = [gpu.type for gpu in self.gpus]
        require(len(set(types)) == len(types), "host", "gpu", types, "each type once")


@value(kw_only=True)
class Preferences(Checked):
    """The volunteer's preferences."""

    slice_seconds: float = within(60.0, 1e7, 3600.0)
    buffer_min: float = within(0.0, 1e8, 0.1 * DAY)
    buffer_additional: float = within(0.0, 1e8, 0.25 * DAY)
    rec_half_life: float = within(60.0, 1e9, 10 * DAY)
    #: CS3: 0 keeps shares whatever comes of them; the larger, the less is wasted
    waste_aversion: float = within(0.0, 20.0, WASTE_AVERSION)

    def check(self) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        self.check_ranges("preferences")


@value(kw_only=True)
class Compatibility(Checked):
    """Behaviour of older simulators.  The default is none of it."""

    quantum: float = 0.0  #: events happen at multiples of this many seconds (60 = as in 2007); 0 = exactly when they happen
    c_library_random: bool = False  #: one stream from the C library's generator for everything
    one_contact_reports_all: bool = False  #: a contact with any project reports the finished jobs of all
    every_poll: bool = False
    """Look at work fetch at every poll, and simulate round robin in the original's order of operations: with
    the rest, the client of 2007 to the last draw.  Needs a quantum.
    """
    faults: Faults2007 = field(default_factory=Faults2007)

    @classmethod
    def year_2007(cls, *, literal: bool = False) -> Compatibility:
        """Return everything as the simulator of 2007 did it; ``literal`` follows it draw by draw."""
        return cls(
            quantum=60.0,
            one_contact_reports_all=True,
            faults=Faults2007.all(),
            c_library_random=literal,
            every_poll=literal,
        )


@value(kw_only=True)
class Scenario(Checked):
    """Everything that a run depends on, except policy and seed."""

    name: str = "scenario"
    duration: float = within(60.0, 1e10, 100 * DAY)
    host: HostModel = field(default_factory=HostModel)
    preferences: Preferences = field(default_factory=Preferences)
    projects: tuple[ProjectModel, ...] = (ProjectModel(name="P1"),)
    hosts: int | str = 0  #: for a run with many hosts: how many, or the name of a CSV file of hosts
    #: with many hosts: mean seconds until a host leaves for ever and another comes; 0 = all stay
    lifetime: float = 0.0
    compatibility: Compatibility = field(default_factory=Compatibility)

    def check(self) -> Scenario:
        """Return self.  Raises :class:`ConfigError` naming what is impossible."""
        self.check_ranges("scenario")
        require(
            0 < len(self.projects) <= 1000, "scenario", "projects", len(self.projects), "1 to 1000 projects"
        )
        fits = self.lifetime == 0.0 or HOUR <= self.lifetime <= 1e10
        self.require(fits, "scenario", "lifetime", "0, or an hour to 1e10")
        names = [p.name for p in self.projects]
        require(len(set(names)) == len(names), "scenario", "projects", names, "different names")
        self.host.check()
        self.host.availability.check_periods("host, availability", self.duration)
        self.preferences.check()
        self._check_compatibility()
        fits = isinstance(self.hosts, str) or self.hosts >= 0
        self.require(fits, "scenario", "hosts", "a number of hosts or the name of a CSV file")
        for project in self.projects:
            project.check()
            project.downtime.check_periods(f"project {project.name!r}, downtime", self.duration)
            for app in project.apps:
                self._check_devices(app, f"project {project.name!r}, app {app.name!r}")
        shared = any(project.share > 0 for project in self.projects)
        require(shared, "scenario", "share", 0, "at least one share above 0")
        return self

    def _check_compatibility(self) -> None:
        """Raise :class:`ConfigError` if the behaviour of 2007 does not fit the rest."""
        old, where = self.compatibility, "compatibility"
        old.require_range(where, 0.0, 3600.0, "quantum")
        old.require(
            old.quantum > 0.0 or not old.every_poll, where, "every_poll", "with a quantum above 0 only"
        )
        hours = [each.has_hours for each in (self.host.availability, *(p.downtime for p in self.projects))]
        text = "0 where something is on in some hours of the day only"
        old.require(not (old.quantum and any(hours)), where, "quantum", text)
        exact = all(app.progress.kind == "exact" for project in self.projects for app in project.apps)
        text = "only with exact progress of all apps"
        old.require(exact or not old.every_poll, where, "every_poll", text)

    def _check_devices(self, app: AppModel, where: str) -> None:
        """Raise :class:`ConfigError` if a job needs more than the host has."""
        counts = {g.type: g.count for g in self.host.gpus}
        fits = not app.gpu or app.gpu in counts
        app.require(fits, where, "gpu", f"one of the host's types {sorted(counts)}")
        if app.gpu:
            most = counts[app.gpu]
            app.require(app.gpus <= most, where, "gpus", f"up to the host's {most} of type {app.gpu}")
        if not self.hosts:
            most = self.host.ncpus
            app.require(app.cpus <= most, where, "cpus", f"up to the host's ncpus, {most}")


def pick_weighted(weights: tuple[float, ...], u: float) -> int:
    """Return the index that ``u`` (0 ... 1) falls on."""
    total = 0.0
    ends: list[float] = []
    for weight in weights:
        total += weight
        ends.append(total)
    return min(bisect_left(ends, u * total), len(weights) - 1)
