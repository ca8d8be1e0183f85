"""The worlds of the benchmark: who computes what, without attackers.

Numbers of the population and of the work are those of the study ``credit-own`` (docs/creditbench.md names its sources).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cobblestone.domain.errors import ConfigError

#: Days that a run lasts, whatever its size.
DAYS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A population and its work."""

    name: str
    about: str = ""
    hosts: int = 2000
    jobs: int = 300_000
    quorum: int = 2
    projects: int = 1
    error: float = 0.3  #: standard deviation of the logarithm of work / estimate
    bias: float = 3.0  #: median of estimate / work
    sizes: float = 0.6  #: standard deviation of the logarithm of the work
    constant: bool = False  #: all jobs have the same estimate
    early: float = 0.0  #: share of the jobs that end before their work is done
    fixed: float = 0.0  #: seconds that a job runs on any computer; 0: until its work is done
    route: str = ""  #: "tag": GPUs get jobs of three times the size, marked as such; "speed": fast ones the long ones, unmarked
    estimate_step: float = 1.0  #: factor of all estimates in the second half
    size_step: float = 1.0  #: factor of the work in the second half
    creep: float = 1.0  #: factor by which estimates have grown at the end
    release: float = 1.0  #: speed of the CPU versions that come at half time / that of those before
    gpus: float = 0.3  #: share of the computers that compute with a GPU
    noisy: float = 0.0  #: share of the computers whose run times scatter by 0.5 rather than 0.15
    #: of results wrong on the worst computers; the best have a hundredth of this, at least 0.001
    trouble: float = 0.01
    fails: float = 0.005  #: share of the jobs that crash
    leaving: float = 0.3  #: share of the computers that come or go in the time
    mixed: bool = False  #: projects differ in bias, error, early exits, constancy and devices


def _both(name: str, about: str, **more: object) -> list[World]:
    return [
        World(name=f"{name}-q{quorum}", about=about, quorum=quorum, **more)  # type: ignore[arg-type]  # by name
        for quorum in (2, 1)
    ]


#: The honest scenarios; each also exists with each attack in it.
WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        *_both("normal", "estimates with an error of 0.3"),
        *_both("exact", "exact estimates", error=0.0),
        *_both("wide", "estimates with an error of 0.8", error=0.8),
        *_both("constant", "one estimate for all jobs, sizes 0.6", constant=True),
        *_both("early", "30 % of the jobs end early", early=0.3),
        *_both("noisy", "20 % of the computers scatter by 0.5", noisy=0.2),
        *_both("failing", "5 % of the jobs crash", fails=0.05),
        *_both("trouble", "up to 5 % wrong results, with bursts", trouble=0.05),
        *_both("faster", "CPU versions twice as fast at half time", release=2.0),
        *_both("slower", "CPU versions half as fast at half time", release=0.5),
        *_both("tag", "jobs of three times the size go to GPUs, marked", route="tag"),
        *_both("speed", "long jobs go to fast computers, unmarked", route="speed"),
        *_both("estimate-step", "all estimates double at half time", estimate_step=2.0),
        *_both("size-step", "all jobs double at half time, estimates do not", size_step=2.0),
        *_both("creep", "estimates double little by little", creep=2.0),
        *_both("fixed-time", "each job runs an hour on any computer", fixed=3600.0, error=0.0),
        *_both("gpu-only", "GPUs only", gpus=1.0),
        *_both("projects", "8 projects of all these kinds", projects=8, mixed=True),
        *_both("lasting", "1,000 jobs a computer"),
        *_both("long-lasting", "5,000 jobs a computer"),
    )
}

#: Jobs of a computer in these worlds; elsewhere as many as the size says.
LIFETIMES = {"lasting": 1000, "long-lasting": 5000}

#: Computers, jobs, seeds and projects.
SIZES = {"S": (400, 60_000, 1, 1), "M": (2000, 300_000, 3, 1), "L": (20_000, 3_000_000, 1, 8)}


def known_size(size: str) -> tuple[int, int, int, int]:
    """Return one of the `SIZES`; raises `ConfigError` if there is none of that name."""
    if size not in SIZES:
        raise ConfigError(f"size {size!r}: allowed are {', '.join(SIZES)}")
    return SIZES[size]


def sized(world: World, size: str) -> World:
    """Return a world at one of the `SIZES`; raises `ConfigError` if there is none of that name."""
    hosts, jobs, _, projects = known_size(size)
    lifetime = LIFETIMES.get(world.name.rpartition("-q")[0])
    if lifetime:
        hosts = max(50, min(hosts, jobs * world.quorum // lifetime))
    return replace(world, hosts=hosts, jobs=jobs, projects=max(world.projects, projects))


def find_world(name: str) -> World:
    """Return a world by name; raises `ConfigError` if there is none."""
    try:
        return WORLDS[name]
    except KeyError:
        raise ConfigError(f"scenario {name!r}: no such world; known are {', '.join(WORLDS)}") from None
