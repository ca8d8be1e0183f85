"""What is simulated: a host, its preferences, and projects with their apps.  Plain values, checked when
they are made.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import field
from typing import Literal

from cobblestone.domain.values import float_sum, value
from cobblestone.policy.client.choice import Faults2007
from cobblestone.policy.client.own.lateness import WASTE_AVERSION
from cobblestone.simulator.world.distributions import (
    DAY,
    HOUR,
    JobSizes,
    OnOff,
    ProgressCurve,
    finite,
    require,
)

__all__ = [
    "DAY", "HOUR", "AppModel", "Compatibility", "Gpus", "HostModel", "JobSizes", "OnOff", "Preferences", "ProgressCurve",
    "ProjectModel", "Scenario", "ServerModel", "pick_weighted", "require",
]  # fmt: skip


@value(kw_only=True)
class AppModel:
    """One kind of job of a project."""

    name: str = "app"
    latency_bound: float = 9 * DAY
    flops_estimate: float = 1.3e13
    sizes: JobSizes = field(default_factory=JobSizes)
    weight: float = 1.0
    cpus: float = 1.0  #: CPUs used by a job, may be a fraction
    gpu: str = ""  #: GPU type used, empty = none
    gpus: float = 0.0  #: instances used, may be a fraction
    efficiency: float = 1.0  #: part of the devices' peak speed that a job achieves
    checkpoint_period: float = 0.0  #: seconds between checkpoints; 0 = all the time
    progress: ProgressCurve = field(default_factory=ProgressCurve)  #: what it says of how far it is
    input_bytes: float = 0.0
    output_bytes: float = 0.0
    error_rate: float = 0.0  #: part of the jobs that fail, at a uniformly distributed point
    early_exit_rate: float = (
        0.0  #: part of the jobs that succeed at a uniformly distributed point of their size
    )
    max_concurrent: int = 0  #: 0 = no limit
    working_set: float = 0.0  #: bytes of memory of a running job

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        finite(where, "latency_bound", self.latency_bound, 1.0, 1e10)
        finite(where, "flops_estimate", self.flops_estimate, 1.0, 1e24)
        finite(where, "weight", self.weight, 0.0, 1e9)
        finite(where, "cpus", self.cpus, 0.0, 1024)
        finite(where, "gpus", self.gpus, 0.0, 64)
        finite(where, "efficiency", self.efficiency, 0.001, 1.0)
        require(
            bool(self.gpu) == (self.gpus > 0), where, "gpus", self.gpus, "above 0 exactly if gpu names a type"
        )
        require(self.cpus > 0 or self.gpus > 0, where, "cpus", self.cpus, "above 0 unless a GPU is used")
        finite(where, "checkpoint_period", self.checkpoint_period, 0.0, 1e9)
        finite(where, "input_bytes", self.input_bytes, 0.0, 1e15)
        finite(where, "output_bytes", self.output_bytes, 0.0, 1e15)
        finite(where, "working_set", self.working_set, 0.0, 1e15)
        finite(where, "error_rate", self.error_rate, 0.0, 1.0)
        finite(where, "early_exit_rate", self.early_exit_rate, 0.0, 1.0)
        require(
            0 <= self.max_concurrent <= 10_000, where, "max_concurrent", self.max_concurrent, "0 to 10000"
        )
        self.sizes.check(where)
        self.progress.check(f"{where}, progress")


@value(kw_only=True)
class ServerModel:
    """How a project treats its workunits; only used in a run with many hosts.

    The limits on results are the project server's (see `cobblestone.domain.work.ReplicationRules`).
    """

    workunits: int = 0  #: how many there are in all; 0 = without end
    workunits_per_day: float = 0.0  #: how many come a day; 0 = all are there from the beginning
    min_quorum: int = 1
    target_results: int = 1  #: results made at first
    max_error_results: int = 3
    max_total_results: int = 10
    max_success_results: int = 6
    wrong_rate: float = 0.0  #: part of the results that are reported as success and are wrong
    daily_quota: int = 500  #: results per CPU and day
    first_jobs: int = (
        1  #: per CPU, on a host that nothing right came from yet; 0 = as many as the quota allows
    )
    max_jobs_per_rpc: int = 50  #: per CPU
    check_deadline: bool = True  #: send only what the host's queue leaves time for (today's clients)
    feeder_slots: int = 100  #: unsent results that a request may choose from
    service_seconds: float = 0.0  #: what one contact keeps a process of the scheduler busy; 0 = none
    processes: int = 1  #: of the scheduler
    longest_wait: float = 60.0  #: seconds in the queue after which a contact gets no work
    daemon_seconds: float = 0.0  #: from a report to transitioner, validator and assimilator

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        where = f"{where}, server"
        require(0 <= self.workunits <= 10**9, where, "workunits", self.workunits, "0 to 1e9")
        finite(where, "workunits_per_day", self.workunits_per_day, 0.0, 1e9)
        for key in ("min_quorum", "target_results", "max_total_results", "max_success_results"):
            value = int(getattr(self, key))
            require(1 <= value <= 100, where, key, value, "1 to 100")
        require(
            0 <= self.max_error_results <= 100, where, "max_error_results", self.max_error_results, "0 to 100"
        )
        require(
            self.min_quorum <= min(self.max_total_results, self.max_success_results),
            where,
            "min_quorum",
            self.min_quorum,
            f"up to max_total_results and max_success_results ({self.max_total_results}, {self.max_success_results})",
        )
        finite(where, "wrong_rate", self.wrong_rate, 0.0, 1.0)
        require(1 <= self.daily_quota <= 10**6, where, "daily_quota", self.daily_quota, "1 to 1000000")
        require(0 <= self.first_jobs <= 10**6, where, "first_jobs", self.first_jobs, "0 to 1000000")
        require(
            0 <= self.max_jobs_per_rpc <= 10**4,
            where,
            "max_jobs_per_rpc",
            self.max_jobs_per_rpc,
            "0 to 10000",
        )
        require(1 <= self.feeder_slots <= 10**5, where, "feeder_slots", self.feeder_slots, "1 to 100000")
        finite(where, "service_seconds", self.service_seconds, 0.0, 3600.0)
        require(1 <= self.processes <= 1000, where, "processes", self.processes, "1 to 1000")
        finite(where, "longest_wait", self.longest_wait, 0.0, 86400.0)
        finite(where, "daemon_seconds", self.daemon_seconds, 0.0, 30 * DAY)


@value(kw_only=True)
class ProjectModel:
    """A project as the host sees it."""

    name: str
    share: float = 100.0
    apps: tuple[AppModel, ...] = (AppModel(),)
    downtime: OnOff = field(default_factory=OnOff)  #: on = the project's server answers
    max_infeasible: int = 0  #: refused candidates after which the server stops looking
    max_concurrent: int = 0
    excluded_gpu: str = ""  #: GPU type of which it may not use ``excluded_gpus`` instances
    excluded_gpus: int = 0
    server: ServerModel = field(default_factory=ServerModel)

    def check(self) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        where = f"project {self.name!r}"
        require(0 < len(self.name) <= 200, where, "name", self.name, "1 to 200 characters")
        finite(where, "share", self.share, 0.0, 1e9)
        require(0 < len(self.apps) <= 100, where, "apps", len(self.apps), "1 to 100 apps")
        require(0 <= self.max_infeasible <= 1000, where, "max_infeasible", self.max_infeasible, "0 to 1000")
        require(
            0 <= self.max_concurrent <= 10_000, where, "max_concurrent", self.max_concurrent, "0 to 10000"
        )
        require(0 <= self.excluded_gpus <= 64, where, "excluded_gpus", self.excluded_gpus, "0 to 64")
        require(
            bool(self.excluded_gpu) == bool(self.excluded_gpus),
            where,
            "excluded_gpu",
            self.excluded_gpu,
            "a GPU type exactly if excluded_gpus is above 0",
        )
        self.downtime.check(f"{where}, downtime")
        for app in self.apps:
            app.check(f"{where}, app {app.name!r}")
        self.server.check(where)
        require(
            float_sum(a.weight for a in self.apps) > 0,
            where,
            "weight",
            0,
            "at least one app with a weight above 0",
        )


@value(kw_only=True)
class Gpus:
    """GPUs of one type."""

    type: str
    count: int = 1
    flops: float = 1e12  #: peak of one instance

    def check(self) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        require(bool(self.type), "host, gpu", "type", self.type, "a name such as NVIDIA")
        require(1 <= self.count <= 64, f"host, gpu {self.type}", "count", self.count, "1 to 64")
        finite(f"host, gpu {self.type}", "flops", self.flops, 1.0, 1e18)


Belief = Literal["efficiency", "statistics", "true"]


@value(kw_only=True)
class HostModel:
    """A computer."""

    ncpus: int = 2
    flops: float = 1e9  #: of one CPU
    gpus: tuple[Gpus, ...] = ()
    availability: OnOff = field(default_factory=lambda: OnOff(fraction=0.8, mean_on=1000.0))
    believed_availability: Belief | float = "statistics"
    """What the client takes its availability to be: the CPU efficiency of 2007, today's statistics, the
    truth, or a number.
    """
    connection_interval: float = 0.0
    download_rate: float = 0.0  #: bytes per second; 0 = at once
    upload_rate: float = 0.0
    ram_bytes: float = 0.0  #: memory that jobs may use (today's family looks at it); 0 = without limit
    leave_in_memory: bool = True  #: preempted tasks keep what they did since their checkpoint

    def check(self) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        require(1 <= self.ncpus <= 1024, "host", "ncpus", self.ncpus, "1 to 1024")
        finite("host", "flops", self.flops, 1.0, 1e18)
        finite("host", "connection_interval", self.connection_interval, 0.0, 1e8)
        finite("host", "ram_bytes", self.ram_bytes, 0.0, 1e18)
        finite("host", "download_rate", self.download_rate, 0.0, 1e12)
        finite("host", "upload_rate", self.upload_rate, 0.0, 1e12)
        self.availability.check("host, availability")
        belief = self.believed_availability
        if isinstance(belief, str):
            require(belief in ("efficiency", "statistics", "true"), "host", "believed_availability", belief,
                    "efficiency, statistics, true or a number")  # fmt: skip
        else:
            finite("host", "believed_availability", belief, 0.01, 1.0)
        for gpu in self.gpus:
            gpu.check()
        require(
            len({g.type for g in self.gpus}) == len(self.gpus),
            "host",
            "gpu",
            [g.type for g in self.gpus],
            "each type once",
        )


@value(kw_only=True)
class Preferences:
    """The volunteer's preferences."""

    slice_seconds: float = 3600.0
    buffer_min: float = 0.1 * DAY
    buffer_additional: float = 0.25 * DAY
    rec_half_life: float = 10 * DAY
    waste_aversion: float = (
        WASTE_AVERSION  #: CS3: 0 keeps shares whatever comes of them; the larger, the less is wasted
    )

    def check(self) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        finite("preferences", "slice_seconds", self.slice_seconds, 60.0, 1e7)
        finite("preferences", "buffer_min", self.buffer_min, 0.0, 1e8)
        finite("preferences", "buffer_additional", self.buffer_additional, 0.0, 1e8)
        finite("preferences", "rec_half_life", self.rec_half_life, 60.0, 1e9)
        finite("preferences", "waste_aversion", self.waste_aversion, 0.0, 20.0)


@value(kw_only=True)
class Compatibility:
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
class Scenario:
    """Everything that a run depends on, except policy and seed."""

    name: str = "scenario"
    duration: float = 100 * DAY
    host: HostModel = field(default_factory=HostModel)
    preferences: Preferences = field(default_factory=Preferences)
    projects: tuple[ProjectModel, ...] = (ProjectModel(name="P1"),)
    hosts: int | str = 0  #: for a run with many hosts: how many, or the name of a CSV file of hosts
    lifetime: float = (
        0.0  #: with many hosts: mean seconds until a host leaves for ever and another comes; 0 = all stay
    )
    compatibility: Compatibility = field(default_factory=Compatibility)

    def check(self) -> Scenario:
        """Return self.  Raises :class:`ConfigError` naming what is impossible."""
        finite("scenario", "duration", self.duration, 60.0, 1e10)
        require(
            0 < len(self.projects) <= 1000, "scenario", "projects", len(self.projects), "1 to 1000 projects"
        )
        require(
            self.lifetime == 0.0 or HOUR <= self.lifetime <= 1e10,
            "scenario", "lifetime", self.lifetime, "0, or an hour to 1e10",
        )  # fmt: skip
        names = [p.name for p in self.projects]
        require(len(set(names)) == len(names), "scenario", "projects", names, "different names")
        self.host.check()
        self.host.availability.check_periods("host, availability", self.duration)
        for project in self.projects:
            project.downtime.check_periods(f"project {project.name!r}, downtime", self.duration)
        self.preferences.check()
        require(
            0.0 <= self.compatibility.quantum <= 3600.0,
            "compatibility",
            "quantum",
            self.compatibility.quantum,
            "0 to 3600",
        )
        require(
            self.compatibility.quantum > 0.0 or not self.compatibility.every_poll,
            "compatibility",
            "every_poll",
            True,
            "with a quantum above 0 only",
        )
        hours = [o.has_hours for o in (self.host.availability, *(p.downtime for p in self.projects))]
        require(
            not (self.compatibility.quantum and any(hours)),
            "compatibility",
            "quantum",
            self.compatibility.quantum,
            "0 where something is on in some hours of the day only",
        )
        exact = all(a.progress.kind == "exact" for p in self.projects for a in p.apps)
        require(
            exact or not self.compatibility.every_poll,
            "compatibility",
            "every_poll",
            True,
            "only with exact progress of all apps",
        )
        require(
            isinstance(self.hosts, str) or self.hosts >= 0,
            "scenario",
            "hosts",
            self.hosts,
            "a number of hosts or the name of a CSV file",
        )
        for project in self.projects:
            project.check()
            for app in project.apps:
                self._check_devices(app, f"project {project.name!r}, app {app.name!r}")
        require(
            float_sum(p.share for p in self.projects) > 0,
            "scenario",
            "share",
            0,
            "at least one share above 0",
        )
        return self

    def _check_devices(self, app: AppModel, where: str) -> None:
        """Raise :class:`ConfigError` if a job needs more than the host has."""
        counts = {g.type: g.count for g in self.host.gpus}
        require(
            not app.gpu or app.gpu in counts,
            where,
            "gpu",
            app.gpu,
            f"one of the host's types {sorted(counts)}",
        )
        if app.gpu:
            most = counts[app.gpu]
            require(app.gpus <= most, where, "gpus", app.gpus, f"up to the host's {most} of type {app.gpu}")
        if not self.hosts:
            most = self.host.ncpus
            require(app.cpus <= most, where, "cpus", app.cpus, f"up to the host's ncpus, {most}")


def pick_weighted(weights: tuple[float, ...], u: float) -> int:
    """Return the index that ``u`` (0 ... 1) falls on."""
    total = 0.0
    ends: list[float] = []
    for weight in weights:
        total += weight
        ends.append(total)
    return min(bisect_left(ends, u * total), len(weights) - 1)
