"""Random scenarios: hosts, mixes and apps as they may occur, drawn from a seed.

Nobody has tuned a policy on a seed that is drawn after the policy is finished, so these scenarios say what it is worth.
The ranges are wide on purpose: some jobs cannot be in time on their host, some apps say nothing true of their progress,
some hosts are on in the evening only.  All jobs take one processor, since the published policies know no other.
"""

from __future__ import annotations

import math
import random
from typing import TypeVar

from cobblestone.simulator.distributions import (
    DAY,
    HOUR,
    JobSizes,
    OnOff,
    PeriodKind,
    Progress,
    ProgressKind,
)
from cobblestone.simulator.scenario import (
    AppModel,
    HostModel,
    Preferences,
    ProjectModel,
    Scenario,
    pick_weighted,
)
from cobblestone.simulator.streams import Streams

Value = TypeVar("Value")

DURATION = 30 * DAY
CPU_FLOPS = 1e9
NCPUS = ((1, 0.25), (2, 0.35), (4, 0.4))
PROJECTS = ((1, 0.1), (2, 0.25), (3, 0.2), (4, 0.15), (6, 0.15), (8, 0.1), (12, 0.05))
#: Seconds of one processor for a job, mean; the jobs of 30 days stay a number that can be simulated.
SHORTEST, LONGEST = HOUR, 30 * HOUR
SLACKS = (1.5, 100.0)
ESTIMATE_ERRORS = (0.25, 4.0)
PROGRESS: tuple[tuple[ProgressKind, tuple[float, float], float], ...] = (
    ("exact", (0.0, 0.0), 0.4),
    ("missing", (0.0, 0.0), 0.12),
    ("late", (0.01, 0.3), 0.1),
    ("stepped", (0.02, 0.5), 0.1),
    ("offset", (0.05, 0.8), 0.08),
    ("power", (0.4, 2.5), 0.12),
    ("lying", (0.05, 0.8), 0.08),
)


def random_scenario(seed: int, number: int) -> Scenario:
    """Return the ``number``-th scenario of a seed; the same arguments, the same scenario."""
    rng = Streams(seed).stream("scenario", str(number))
    count = _pick(rng, PROJECTS)
    return Scenario(
        name=f"{seed}/{number}",
        duration=DURATION,
        host=_host(rng),
        preferences=Preferences(
            buffer_min=_log_uniform(rng, 0.02, 1.0) * DAY,
            buffer_additional=_log_uniform(rng, 0.05, 3.0) * DAY,
        ),
        projects=tuple(_project(rng, i) for i in range(count)),
    ).check()


def _host(rng: random.Random) -> HostModel:
    kinds: tuple[tuple[PeriodKind, float], ...] = (("exponential", 0.7), ("lognormal", 0.3))
    fraction = 1.0 if rng.random() < 0.2 else rng.uniform(0.3, 0.98)
    mean_on = min(5 * DAY, max(1800.0, rng.lognormvariate(math.log(4 * HOUR), 1.5)))
    start = end = 0.0
    if rng.random() < 0.25:
        start = rng.uniform(5.0, 19.0)
        end = min(24.0, start + rng.uniform(4.0, 16.0))
    return HostModel(
        ncpus=_pick(rng, NCPUS),
        flops=CPU_FLOPS,
        availability=OnOff(
            fraction=fraction,
            mean_on=mean_on,
            kind=_pick(rng, kinds),
            day_start=start * HOUR,
            day_end=end * HOUR,
        ),
        connection_interval=_log_uniform(rng, 1.0, 36.0) * HOUR if rng.random() < 0.15 else 0.0,
    )


def _project(rng: random.Random, number: int) -> ProjectModel:
    downtime = OnOff()
    if rng.random() < 0.15:
        downtime = OnOff(fraction=rng.uniform(0.7, 0.99), mean_on=_log_uniform(rng, 1.0, 10.0) * DAY)
    apps = 2 if rng.random() < 0.2 else 1
    return ProjectModel(
        name=f"P{number + 1}",
        share=_log_uniform(rng, 10.0, 1000.0),
        apps=tuple(_app(rng, i) for i in range(apps)),
        downtime=downtime,
    )


def _app(rng: random.Random, number: int) -> AppModel:
    seconds = _log_uniform(rng, SHORTEST, LONGEST)
    sizes = _sizes(rng, seconds * CPU_FLOPS)
    error = _log_uniform(rng, *ESTIMATE_ERRORS) if rng.random() < 0.5 else 1.0
    kinds = tuple((place, part) for place, (_, _, part) in enumerate(PROGRESS))
    kind, (low, high), _ = PROGRESS[_pick(rng, kinds)]
    return AppModel(
        name=f"app{number + 1}",
        latency_bound=max(HOUR, _log_uniform(rng, *SLACKS) * seconds),
        flops_estimate=sizes.average * error,
        sizes=sizes,
        checkpoint_period=_log_uniform(rng, 300.0, HOUR) if rng.random() < 0.3 else 0.0,
        progress=Progress(kind=kind, amount=rng.uniform(low, high)),
    )


def _sizes(rng: random.Random, mean: float) -> JobSizes:
    u = rng.random()
    if u < 0.25:
        return JobSizes(mean=mean)
    if u < 0.5:
        return JobSizes(mean=mean, stdev=mean * _log_uniform(rng, 0.1, 1.0))
    if u < 0.75:
        return JobSizes(mean=mean, stdev=mean * _log_uniform(rng, 0.2, 3.0), kind="lognormal")
    if u < 0.9:
        return JobSizes(mean=mean, kind="pareto", shape=rng.uniform(1.3, 3.0))
    second = mean * _log_uniform(rng, 3.0, 30.0)
    return JobSizes(
        mean=mean, stdev=0.2 * mean, kind="two_humped", second_mean=second, second_part=rng.uniform(0.02, 0.5)
    )


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return low * (high / low) ** rng.random()


def _pick(rng: random.Random, table: tuple[tuple[Value, float], ...]) -> Value:
    return table[pick_weighted(tuple(weight for _, weight in table), rng.random())][0]
