"""The core's descriptions of projects, jobs, devices and preferences; the host's availability, and waiting after failures.

What the core is told of projects, jobs, devices, preferences and permissions.

Times are seconds since any fixed moment, durations seconds, sizes bytes.  Device types are names such as ``NVIDIA``; the
CPU is the empty name.  Identities are texts that the driver chooses: a project's master URL, a job's name made unique.

How much of the time the host computes: exponentially fading fractions of time.

Source: BOINC's ``time_stats``.  The fractions forget with a time constant of ten days.  ``on_frac`` is a part of all time, the
others are parts of the time that the client runs.

Waiting after failures, so that a project in trouble is left in peace.

Source: BOINC's client, ``scheduler_op``, ``work_fetch`` and ``sim_util``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cobblestone.domain.values import value

CPU = ""


@value(kw_only=True)
class GpuExclusion:
    """GPU instances that a project, or one app of it, may not use."""

    gpu: str
    instance: int | None = None  #: None = all of the type
    app: str = ""  #: empty = all apps


@value(kw_only=True)
class ProjectDescription:
    """A project as the volunteer has attached and limited it."""

    id: str
    share: float = 100.0  #: 0 = a backup project, asked only for idle devices
    supplies: tuple[str, ...] = (CPU,)  #: device types for which it may have apps
    #: device types for which preferences or the account manager take no work from it
    forbidden: tuple[str, ...] = ()
    priority_group: int = 0  #: projects of a higher group come first, whatever their shares
    no_new_work: bool = False
    suspended: bool = False
    non_cpu_intensive: bool = False  #: it has such jobs only: one of them is kept
    dont_use_dcf: bool = False  #: the project corrects its estimates itself
    max_concurrent: int = 0  #: 0 = no limit
    app_max_concurrent: Mapping[str, int] = field(default_factory=dict[str, int])
    gpu_exclusions: tuple[GpuExclusion, ...] = ()


@value(kw_only=True)
class JobDescription:
    """A job as the project sent it."""

    id: str
    project: str
    app: str = "app"
    #: app version: number, platform and plan class, in any form; estimates are learned per version
    version: str = ""
    cpus: float = 1.0  #: CPUs used, may be a fraction
    gpu: str = CPU  #: GPU type used
    gpus: float = 0.0  #: instances of it, may be a fraction
    #: elapsed seconds by the project's estimate: size / speed of the app version, uncorrected
    estimate: float
    received: float
    deadline: float  #: report deadline
    memory_bound: float = 0.0
    strict_memory_bound: bool = False  #: never take it to need less than its bound
    exact_fraction: bool = False  #: the app vouches for the fractions done that it reports
    non_cpu_intensive: bool = False
    sporadic: bool = False  #: computes when it likes; holds a place in memory only
    needs_network: bool = False
    ready: bool = True  #: its files are here
    report_immediately: bool = False


class Reading(NamedTuple):
    """The last report of a running app, and the system's measurements of it."""

    job: str
    elapsed: float  #: seconds it has run since its beginning, without those lost by a restart
    fraction_done: float | None = None  #: as reported by the app; None = it says nothing
    checkpointed_at: float | None = None  #: when it last saved its state; None = it has not
    checkpoint_elapsed: float | None = None  #: how much of ``elapsed`` that saved
    working_set: float = 0.0  #: bytes, smoothed
    swap: float = 0.0
    cpu_time: float | None = None  #: CPU seconds; None = as ``elapsed``


@value(kw_only=True)
class Gpu:
    """GPUs of one type."""

    name: str
    count: int = 1
    peak_flops: float = 1e12  #: of one instance
    suspended: tuple[int, ...] = ()  #: instances that the volunteer has switched off


@value(kw_only=True)
class HostDevices:
    """The devices of the host."""

    ncpus: int = 1
    cpu_flops: float = 1e9  #: of one CPU
    gpus: tuple[Gpu, ...] = ()


@value(kw_only=True)
class SchedulingPreferences:
    """The volunteer's preferences that policies look at."""

    buffer_min: float = 8640.0  #: seconds of work below which work is fetched
    buffer_additional: float = 21600.0
    slice_seconds: float = 3600.0
    connection_interval: float = 0.0  #: contacts lie at least so far apart
    rec_half_life: float = 10 * 86400.0
    leave_in_memory: bool = True  #: preempted tasks stay in memory
    may_give_up: bool = False  #: jobs that cannot be in time may be given up, by the policy's rule
    fetch_on_update: bool = False  #: ask for work in every contact that the volunteer asks for
    fetch_minimal_work: bool = False  #: one job per device at a time
    report_at_once: bool = False
    max_reported: int = 0  #: jobs that are reported in one contact; 0 = all


@value(kw_only=True)
class Permission:
    """What the volunteer's preferences and the state of the computer currently allow.

    The codes name the reason of a suspension (``user_active``, ``battery``, ...); empty = allowed.
    """

    cpu: str = ""
    gpu: str = ""
    network: str = ""
    connected: bool | None = None  #: the computer has a network; None = the system does not tell
    ncpus: int | None = None  #: CPUs that may be used; None = all
    throttle: float = 1.0  #: part of the time for which tasks run
    ram_bytes: float | None = None  #: for all tasks together; None = no limit
    swap_bytes: float | None = None
    leave_in_memory: bool | None = None  #: overrules the preference for the time being
    cpu_ends: float | None = None  #: when computing will be suspended, if that is known
    network_ends: float | None = None


class FetchRequest(NamedTuple):
    """A request to a project for one device type."""

    seconds: float  #: instance-seconds of work
    instances: float = 0.0  #: instances that are idle or to be kept busy
    delay: float = 0.0  #: seconds until a job sent now could start


class QueuedWork(NamedTuple):
    """A job in progress, as reported to a server that checks deadlines."""

    job: str
    report_deadline: float
    remaining: float  #: seconds, as estimated
    gpu: str = CPU
    cpus: float = 1.0


TIME_CONSTANT = 10 * 86400.0
#: Time off that is longer than this is taken for a wrong clock and changes nothing.
ABSURD_GAP = 14 * 86400.0


@value(kw_only=True)
class HostTimes:
    """The fractions; ``connected_frac`` is None where the system cannot tell."""

    on_frac: float = 1.0
    active_frac: float = 1.0  #: computing was allowed
    gpu_active_frac: float = 1.0  #: ... on GPUs, too
    connected_frac: float | None = None
    cpu_and_network_frac: float = 1.0  #: computing and the network were allowed, and there was a network


def fade(fraction: float, seconds: float, *, present: bool) -> float:
    """Return a fraction after ``seconds`` during which its condition held (``present``) or not."""
    if seconds <= 0.0:
        return fraction
    keep = math.exp(-seconds / TIME_CONSTANT)
    return 1.0 - (1.0 - fraction) * keep if present else fraction * keep


@dataclass(slots=True)
class AvailabilityEstimate:
    """A fraction of time, up to date at ``since``; nothing has changed from then on."""

    fraction: float = 1.0
    since: float = 0.0

    def at(self, now: float, *, holds: bool = True) -> float:
        """Return the fraction; the condition holds, or does not, since ``since``."""
        if holds and self.fraction == 1.0:
            return 1.0
        return fade(self.fraction, now - self.since, present=holds)

    def gap(self, seconds: float, now: float) -> None:
        """Take note that it did not hold for some time until now, and held before."""
        on = self.at(now - seconds)
        self.fraction = on if seconds > ABSURD_GAP else fade(on, seconds, present=False)
        self.since = now

    def turn(self, now: float, *, held: bool) -> None:
        """Take note that the condition has changed now."""
        self.fraction, self.since = self.at(now, holds=held), now


RPC_BACKOFF_MIN = 60.0
RPC_BACKOFF_MAX = 4 * 3600.0
FAILING_JOBS = 10
FAILING_MIN = 30.0
FAILING_MAX = 3600.0
TYPE_BACKOFF_MIN = 600.0
TYPE_BACKOFF_MAX = 86400.0


def rpc_backoff_2007(failures: int, *, rng: random.Random) -> float:
    """Return seconds to wait after ``failures`` contacts in a row without success (published family)."""
    top = min(RPC_BACKOFF_MAX, math.exp(min(failures, 20)))
    if top <= RPC_BACKOFF_MIN:
        return RPC_BACKOFF_MIN
    return rng.random() * (top - RPC_BACKOFF_MIN) + RPC_BACKOFF_MIN


def rpc_backoff(failures: int, *, rng: random.Random) -> float:
    """Return seconds to wait after ``failures`` (from 0) failed contacts in a row (today's clients)."""
    top = min(RPC_BACKOFF_MIN * 2.0 ** min(failures, 10), RPC_BACKOFF_MAX)
    return top * (0.5 + 0.5 * rng.random())


def failing_jobs_wait(failed: int) -> float:
    """Return seconds to leave a project alone after ``failed`` of its jobs have failed in a row: a minute after the eleventh,
    doubling to an hour.
    """
    return (
        min(FAILING_MAX, FAILING_MIN * 2.0 ** min(failed - FAILING_JOBS, 10))
        if failed > FAILING_JOBS
        else 0.0
    )


def next_type_backoff(interval: float) -> float:
    """Return the next backoff interval of a resource type that was asked for and not supplied."""
    return TYPE_BACKOFF_MIN if interval <= 0 else min(TYPE_BACKOFF_MAX, 2.0 * interval)


def type_backoff_delay(interval: float, *, rng: random.Random) -> float:
    """Return the seconds to wait for one backoff interval: uniform between half of it and one and a half."""
    return interval * (0.5 + rng.random())
