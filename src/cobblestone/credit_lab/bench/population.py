"""The computers of a world and its jobs, drawn at once by streams of the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cobblestone.credit_lab.attacks.acts import Attack
from cobblestone.credit_lab.bench.streams import generator
from cobblestone.credit_lab.bench.worlds import DAYS, World
from cobblestone.credit_lab.systems.tape import FAST, GPU, JOB, OWN_BUILD, PLAIN, START, Table, columns_of

np: Any = import_module("numpy")  # Any: its types do not follow through arithmetic

BENCHMARK, BENCHMARK_SPREAD = 4.3e9, 0.5
GPU_PEAK, GPU_SPREAD = 3e12, 0.6
EFFICIENCY, EFFICIENCY_SPREAD = 0.5, 0.35
GPU_EFFICIENCY, GPU_EFFICIENCY_SPREAD = 0.08, 0.5
#: Speed of the faster build / that of the plain one.
FAST_BUILD = 1.4
NOISE, NOISY = 0.15, 0.5
FAILED_BENCHMARKS, IDLE, THREADED, OWN_BUILDS = 0.05, 0.02, 0.2, 0.1
MEDIAN_WORK = 8e12
#: The first so many computers are there all the time and in order: attackers are taken from them.
STEADY_SHARE = 0.25

Array = Any  # Any: NumPy's types do not follow through arithmetic


@dataclass(slots=True)
class Host:
    """A computer, and what the server's record of its identity would say."""

    speed: float  #: true operations per second
    peak: float  #: of the devices that the job uses
    benchmark: float  #: of one processor
    noise: float  #: standard deviation of the logarithm of run times
    wrong: float  #: share of its results that are wrong
    fails: float  #: share of its jobs that crash
    wait: float  #: seconds until a result is reported / its run time
    begins: float
    ends: float
    switches: float  #: Unix seconds: takes up the release
    busy: float  #: processors that the program really keeps busy
    person: int
    group: int  #: of accomplices; 0: honest
    threads: int
    kind: int
    fast: bool  #: among the faster half
    place: int
    identity: int
    results: int  #: of the identity: judged, refused, …
    refused: int
    trusted: int
    since_pass: int
    passes: int
    caught: int


HOST = columns_of(Host)


def computers(world: World, seed: int) -> Table:
    """Return the computers of a world, all honest."""
    n, rng = world.hosts, generator(seed, "computers")
    hosts: Array = np.zeros(n, dtype=HOST)
    first = np.arange(n) < STEADY_SHARE * n
    gpu = rng.random(n) < world.gpus
    own = ~gpu & (rng.random(n) < OWN_BUILDS)
    fast = ~gpu & ~own & (rng.random(n) < 0.5)
    hosts["kind"] = np.select([gpu, own, fast], [GPU, OWN_BUILD, FAST], PLAIN)
    benchmark = BENCHMARK * np.exp(BENCHMARK_SPREAD * rng.standard_normal(n))
    threads = np.where(~gpu & (rng.random(n) < THREADED), 4, 1)
    efficiency = EFFICIENCY * np.exp(EFFICIENCY_SPREAD * rng.standard_normal(n))
    efficiency = np.minimum(0.95, efficiency) * np.where(fast, FAST_BUILD, 1.0)
    peak = GPU_PEAK * np.exp(GPU_SPREAD * rng.standard_normal(n))
    reached = GPU_EFFICIENCY * np.exp(GPU_EFFICIENCY_SPREAD * rng.standard_normal(n))
    idle = (rng.random(n) < IDLE) & (threads > 1)
    busy = np.where(idle, 1.0, threads)
    hosts["speed"] = np.where(gpu, peak * np.minimum(0.9, reached), benchmark * efficiency * busy)
    hosts["busy"] = busy
    failed = (rng.random(n) < FAILED_BENCHMARKS) & ~first
    hosts["benchmark"] = np.where(failed, 1e9, benchmark)
    hosts["peak"] = np.where(gpu, peak, np.where(failed, 1e9, benchmark * threads))
    hosts["threads"] = threads
    hosts["noise"] = np.where(rng.random(n) < world.noisy, NOISY, NOISE)
    wrong = 0.001 * (max(world.trouble, 0.001) / 0.001) ** rng.random(n)
    hosts["wrong"] = np.where(first, 0.001, wrong) * (world.trouble > 0.0)
    hosts["fails"] = world.fails
    hosts["wait"] = 1.0 + 20.0 * rng.random(n)
    _presence(hosts, world, first, rng)
    hosts["switches"] = math.inf
    if world.release != 1.0:
        taken = START + 86400.0 * DAYS * (0.5 + 0.05 * rng.random(n))
        hosts["switches"] = np.where(np.isin(hosts["kind"], (PLAIN, FAST)), taken, math.inf)
    hosts["fast"] = hosts["speed"] > np.median(hosts["speed"])
    hosts["place"], hosts["identity"] = np.arange(n), np.arange(1, n + 1)
    hosts["person"] = np.where(first | (rng.random(n) < 0.8), np.arange(n), rng.integers(0, n, n))
    return hosts


def _presence(hosts: Table, world: World, first: Array, rng: Array) -> None:
    n = hosts.size
    moving = (rng.random(n) < world.leaving) & ~first
    one, other = np.sort(rng.random((2, n)), axis=0)
    hosts["begins"] = np.where(moving, START + 86400.0 * DAYS * one * 0.8, 0.0)
    hosts["ends"] = np.where(moving, START + 86400.0 * DAYS * (0.2 + 0.8 * other), math.inf)


def enlist(hosts: Table, attack: Attack | None, seed: int) -> Table:
    """Return the computers with the attackers among them, who are always the same ones."""
    found = hosts.copy()
    if attack is None:
        return found
    able: Array = np.flatnonzero(np.arange(hosts.size) < STEADY_SHARE * hosts.size)
    if attack.device:
        able = able[(hosts["kind"][able] == GPU) == (attack.device == "gpu")]
    wanted = max(2, round(attack.share * hosts.size))
    taken = able[:wanted]
    found["group"][taken] = 1 if attack.ring else np.arange(taken.size) + 1
    if attack.meets:
        found["group"][taken] = np.arange(taken.size) // 2 + 1
    if attack.arrives:
        found["begins"][taken] = START + 86400.0 * DAYS * attack.arrives
    return found


def membership(hosts: Table, world: World, seed: int) -> dict[int, tuple[list[int], list[float]]]:
    """Return the computers of each project (counted from 1), and how often they ask, summed up.

    Everybody works for one project, or each for one to four of several.
    """
    rng = generator(seed, "membership")
    weight = np.sqrt(hosts["speed"])
    joins = rng.random((world.projects, hosts.size)) < 2.5 / world.projects
    found: dict[int, tuple[list[int], list[float]]] = {}
    for project in range(world.projects):
        mine = np.flatnonzero(joins[project] | (world.projects == 1))
        devices = _devices(world, project)
        if devices:
            mine = mine[(hosts["kind"][mine] == GPU) == (devices == "gpu")]
        found[project + 1] = mine.tolist(), np.cumsum(weight[mine]).tolist()
    return found


def _devices(world: World, project: int) -> str:
    return ("", "", "", "cpu", "", "gpu", "", "")[project % 8] if world.mixed else ""


def work(world: World, seed: int) -> Table:
    """Return the jobs of a world."""
    n, rng = world.jobs, generator(seed, "jobs")
    jobs: Array = np.zeros(n, dtype=JOB)
    at = (np.arange(n) + 1.0) / n
    jobs["time"] = START + 86400.0 * DAYS * at
    jobs["app"] = 1 + rng.integers(0, world.projects, n)
    project = jobs["app"] - 1
    kinds = np.arange(world.projects)
    mixed = world.mixed
    bias = np.where(mixed, 10.0 ** np.linspace(-1.0, 1.0, world.projects), world.bias)[project]
    error = np.where(mixed, np.array([0.0, 0.3, 0.8])[kinds % 3], world.error)[project]
    constant = np.where(mixed, kinds % 8 == 4, world.constant)[project]
    early = np.where(mixed & (kinds % 8 == 6), 0.3, world.early)[project]
    size = np.exp(world.sizes * rng.standard_normal(n))
    off = error * rng.standard_normal(n)
    stops = np.where(rng.random(n) < early, 0.05 + 0.4 * rng.random(n), 1.0)
    known = np.where(constant, 1.0, size)
    length: Array = np.where(constant, size, np.exp(off)) * stops
    if world.route == "tag":
        jobs["stratum"] = rng.random(n) < 0.5
        length = length * np.where(jobs["stratum"] == 1, 3.0, 1.0)
        jobs["crossed"] = rng.random(n) < 0.02
    later = at > 0.5
    jobs["estimate"] = MEDIAN_WORK * bias * known
    jobs["estimate"] *= np.where(later, world.estimate_step, 1.0) * world.creep**at
    jobs["work"] = MEDIAN_WORK * known * length * np.where(later, world.size_step, 1.0)
    jobs["length"] = length
    jobs["fixed"] = world.fixed
    if world.route != "tag":
        jobs["stratum"] = -1
    jobs["number"] = np.arange(n)
    return jobs
