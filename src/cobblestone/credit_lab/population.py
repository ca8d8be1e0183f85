"""A synthetic population whose true work is known: hosts, app versions, jobs with wrong estimates, and cheaters.

CPU hosts run one of two builds, of which the second gets more out of the processor; some hosts have a GPU with a version
of its own; some CPU hosts use their own builds (anonymous platform).  Each job is computed by two hosts.  All random
numbers of a job come from the seed and its number, so the same jobs meet the same hosts whoever cheats.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from cobblestone.credit_lab.joblog import ERROR, VALID, JobLog, job_log
from cobblestone.domain.apps import GENERALISED
from cobblestone.domain.errors import ConfigError

START = 1_700_000_000.0
JOB_INTERVAL = 600.0  #: seconds of log time from one job to the next
FACTOR = 10.0  #: by which cheaters multiply what they report
HONEST_START = 40  #: results after which a host begins to cheat now and then

PLAIN_CPU, FAST_CPU, GPU, OWN_BUILD = 1, 2, 3, GENERALISED + 2
EFFICIENCY = {PLAIN_CPU: 0.35, FAST_CPU: 0.5, GPU: 0.06, OWN_BUILD: 0.4}
"""Share of the peak speed that a version's program reaches on the median host."""

FIRST_IDENTITY = 1_000_000  #: number of the first computer that someone pretends to have
LARGEST_POPULATION = 10_000
LARGEST_LOG = 1_000_000


class Cheat(StrEnum):
    """The behaviour of cheaters."""

    NONE = "honest"
    RUN_TIME = "run time"  #: reported times are ten times too long
    BENCHMARK = "benchmark"  #: processor and GPU are ten times as fast, they say
    COUNTS = "counts"  #: ten times the operations that the program counted
    NOW_AND_THEN = "one in ten"  #: times ten times too long, in every tenth result, after forty honest ones
    IDENTITIES = "new identities"  #: times ten times too long, each result as a new computer of a new account
    CHERRY_PICKING = (
        "cherry picking"  #: jobs that are longer than their estimate says are dropped after a tenth
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationOptions:
    """Size and errors of a population.  Raises `ConfigError` for invalid values."""

    hosts: int = 40
    jobs: int = 1500
    cheaters: int = 2
    estimate_bias: float = 0.4  #: median of estimate / true work
    estimate_error: float = 0.3  #: standard deviation of its logarithm
    seed: int = 1

    def __post_init__(self) -> None:
        if not 8 <= self.hosts <= LARGEST_POPULATION:
            raise ConfigError(f"hosts is {self.hosts}; allowed: 8 … {LARGEST_POPULATION}")
        if not 100 <= self.jobs <= LARGEST_LOG:
            raise ConfigError(f"jobs is {self.jobs}; allowed: 100 … {LARGEST_LOG}")
        if not 1 <= self.cheaters <= self.hosts - 4:
            raise ConfigError(
                f"cheaters is {self.cheaters}; allowed: 1 … hosts - 4, since jobs need honest hosts too"
            )
        if not 0.0 <= self.estimate_error <= 3.0:
            raise ConfigError(f"estimate error is {self.estimate_error}; allowed: 0 … 3 (of the logarithm)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticHost:
    """A computer.  Operations per second."""

    number: int
    version: int
    peak: float  #: of the device that computes
    benchmark: float  #: of one of its processors
    efficiency: float  #: share of the peak that the program reaches
    picks: float  #: how often it asks for work, relatively
    cheats: bool

    @property
    def speed(self) -> float:
        """Return the true operations per second."""
        return self.peak * self.efficiency


@dataclass(frozen=True, slots=True)
class LabelledLog:
    """A log, and the truth about its lines."""

    log: JobLog
    work: list[float]  #: true operations of each line's job
    cheated: list[bool]  #: whether the line is of a cheater
    valid: list[bool]


def synthetic_hosts(options: PopulationOptions) -> list[SyntheticHost]:
    """Return the computers: a fifth with GPU, a tenth with own builds; cheaters are CPU hosts of both builds."""
    rng = random.Random(f"hosts {options.seed}")
    found: list[SyntheticHost] = []
    for number in range(1, options.hosts + 1):
        kind = number % 10
        version = GPU if kind in (3, 8) else OWN_BUILD if kind == 5 else (PLAIN_CPU, FAST_CPU)[number % 2]
        cpu = 4e9 * rng.lognormvariate(0.0, 0.4)
        peak = 4e12 * rng.lognormvariate(0.0, 0.4) if version == GPU else cpu
        efficiency = min(1.0, EFFICIENCY[version] * rng.lognormvariate(0.0, 0.25))
        picks = rng.lognormvariate(0.0, 0.7)
        found.append(
            SyntheticHost(
                number=number,
                version=version,
                peak=peak,
                benchmark=cpu,
                efficiency=efficiency,
                picks=picks,
                cheats=False,
            )
        )
    return _with_cheaters(found, options.cheaters)


def _with_cheaters(hosts: list[SyntheticHost], n: int) -> list[SyntheticHost]:
    chosen = [host.number for host in hosts if host.version in (PLAIN_CPU, FAST_CPU)]
    chosen = (chosen + [host.number for host in hosts if host.number not in chosen])[:n]
    return [
        replace(host, picks=max(1.0, host.picks), cheats=True) if host.number in chosen else host
        for host in hosts
    ]


class _Book:
    """Lines of a log in progress."""

    def __init__(self, cheat: Cheat) -> None:
        self.cheat = cheat
        self.columns: dict[str, list[Any]] = {}  # Any: int or float, by column
        self.work: list[float] = []
        self.cheated: list[bool] = []
        self.results: dict[int, int] = {}  # valid ones by host

    def add(self, host: SyntheticHost, work: float, outcome: int, figures: dict[str, float]) -> None:
        self.work.append(work)
        self.cheated.append(host.cheats)
        number = host.number
        if host.cheats and self.cheat is Cheat.IDENTITIES:
            number = FIRST_IDENTITY + len(self.work)
        ids = {
            "host_id": number,
            "user_id": number,
            "app_version_id": host.version,
            "outcome": outcome,
            "anonymous": int(host.version == OWN_BUILD),
            "is_gpu": int(host.version == GPU),
        }
        for name, value in (ids | figures).items():
            self.columns.setdefault(name, []).append(value)
        if outcome == VALID:
            self.results[host.number] = self.results.get(host.number, 0) + 1


def synthetic_log(options: PopulationOptions, cheat: Cheat = Cheat.NONE) -> LabelledLog:
    """Return the log of a population with these cheaters."""
    hosts = synthetic_hosts(options)
    book = _Book(cheat)
    for number in range(1, options.jobs + 1):
        rng = random.Random(f"job {options.seed} {number}")
        time = START + number * JOB_INTERVAL
        work = 3e13 * rng.lognormvariate(0.0, 0.5)
        ratio = rng.gauss(0.0, options.estimate_error)
        estimate = work * options.estimate_bias * math.exp(ratio)
        job = {
            "workunit_id": number,
            "time": time,
            "received_time": time,
            "rsc_fpops_est": estimate,
            "rsc_fpops_bound": 100.0 * estimate,
        }
        replicas: list[tuple[SyntheticHost, dict[str, float]]] = []
        for host in _asking(hosts, rng):
            noise = rng.lognormvariate(0.0, 0.1)
            if cheat is Cheat.CHERRY_PICKING and host.cheats and ratio < 0.0:  # longer than the estimate says
                seconds = 0.1 * work / host.speed
                book.add(host, work, ERROR, job | _report(host, work, seconds, time))
                continue
            report = _report(host, work, noise * work / host.speed, time)
            if host.cheats:
                report = _embellished(report, cheat, book.results.get(host.number, 0))
            replicas.append((host, report))
            if len(replicas) == 2:
                break
        for host, report in replicas:
            book.add(host, work, VALID, job | report)
    valid = [outcome == VALID for outcome in book.columns["outcome"]]
    return LabelledLog(job_log(book.columns, "synthetic population"), book.work, book.cheated, valid)


def _asking(hosts: list[SyntheticHost], rng: random.Random) -> Iterator[SyntheticHost]:
    """Return all hosts in the order in which they ask: frequent ones first."""
    yield from sorted(hosts, key=lambda host: rng.expovariate(host.picks))


def _report(host: SyntheticHost, work: float, seconds: float, time: float) -> dict[str, float]:
    """Return an honest report: it was away twenty times as long as it ran, and its program counts 0.9 of the operations."""
    return {
        "elapsed_time": seconds,
        "cpu_time": seconds * (0.15 if host.version == GPU else 0.97),
        "sent_time": time - 20.0 * seconds - 3600.0,
        "peak_flops": host.peak,
        "ncpus": 16.0,
        "p_fpops": host.benchmark,
        "p_iops": 2.0 * host.benchmark,
        "fpops_counted": 0.9 * work,
    }


_FIGURES = {
    Cheat.RUN_TIME: ("elapsed_time", "cpu_time"),
    Cheat.NOW_AND_THEN: ("elapsed_time", "cpu_time"),
    Cheat.IDENTITIES: ("elapsed_time", "cpu_time"),
    Cheat.BENCHMARK: ("peak_flops", "p_fpops", "p_iops"),
    Cheat.COUNTS: ("fpops_counted",),
}


def _embellished(report: dict[str, float], cheat: Cheat, before: int) -> dict[str, float]:
    """Return the report of a cheater instead, after this many valid results."""
    if cheat is Cheat.NOW_AND_THEN and (before < HONEST_START or before % 10):
        return report
    names = _FIGURES.get(cheat, ())
    return {name: value * FACTOR if name in names else value for name, value in report.items()}
