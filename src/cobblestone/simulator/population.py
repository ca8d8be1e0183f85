"""Many hosts with the same projects: what a policy means for the project (throughput, turnaround, late
results).

Every host has a supply of jobs without end and decides for itself, so hosts are independent and run in
batches on all cores.  The default distributions are round numbers, not measurements; a CSV file with the
columns ``ncpus, flops, fraction, mean_on`` replaces them.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.run import simulate
from cobblestone.simulator.scenario import DAY, HostModel, OnOff, Scenario, pick_weighted
from cobblestone.simulator.streams import Streams
from cobblestone.sweep.backends import open_backend
from cobblestone.sweep.grid import run_grid

MEDIAN_FLOPS = 2e9
FLOPS_SIGMA = 0.5  #: of the logarithm
CPUS = ((1, 0.1), (2, 0.25), (4, 0.4), (8, 0.2), (16, 0.05))
MEDIAN_ON = 4 * 3600.0
ON_SIGMA = 1.0
BATCH = 25
MAX_HOSTS = 1_000_000


@dataclass(slots=True)
class ProjectView:
    """What one project sees of all hosts together."""

    name: str
    met: int = 0
    missed: int = 0
    errors: int = 0
    useful: float = 0.0  #: FLOPs in results reported in time
    wasted: float = 0.0
    turnaround: float = 0.0  #: sum of seconds from sending to report
    rpcs: int = 0

    @property
    def late_share(self) -> float:
        """Part of the reported results that came late."""
        return self.missed / max(1, self.met + self.missed)

    @property
    def mean_turnaround(self) -> float:
        """Seconds from sending to report, mean."""
        return self.turnaround / max(1, self.met + self.missed + self.errors)


def draw_hosts(count: int, *, seed: int) -> list[HostModel]:
    """Draw hosts from the default distributions (log-normal speed and length of on-periods)."""
    rng = Streams(seed).stream("population")
    hosts: list[HostModel] = []
    for _ in range(count):
        ncpus = CPUS[pick_weighted(tuple(w for _, w in CPUS), rng.random())][0]
        fraction = min(1.0, max(0.05, rng.betavariate(2.5, 1.0)))
        on = min(30 * DAY, max(60.0, rng.lognormvariate(math.log(MEDIAN_ON), ON_SIGMA)))
        flops = rng.lognormvariate(math.log(MEDIAN_FLOPS), FLOPS_SIGMA)
        hosts.append(HostModel(ncpus=ncpus, flops=flops, availability=OnOff(fraction=fraction, mean_on=on)))
    return hosts


def read_hosts(path: Path) -> list[HostModel]:
    """Read hosts from a CSV file.  Raises :class:`ConfigError` naming file, line, key and value."""
    hosts: list[HostModel] = []
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            for number, row in enumerate(csv.DictReader(stream), 2):
                if number > MAX_HOSTS:
                    raise ConfigError(f"{path}: more than {MAX_HOSTS} hosts")
                hosts.append(_host(path, number, row))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error
    if not hosts:
        raise ConfigError(f"{path}: no host; the columns are ncpus, flops, fraction, mean_on")
    return hosts


def _host(path: Path, number: int, row: dict[str, str]) -> HostModel:
    try:
        values = {key: float(row[key]) for key in ("ncpus", "flops", "fraction", "mean_on")}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path}, line {number}: {error}; the columns ncpus, flops, fraction, mean_on hold numbers"
        ) from error
    host = HostModel(
        ncpus=int(values["ncpus"]) if math.isfinite(values["ncpus"]) else 0,
        flops=values["flops"],
        availability=OnOff(fraction=values["fraction"], mean_on=values["mean_on"]),
    )
    try:
        host.check()
    except ConfigError as error:
        raise ConfigError(f"{path}, line {number}: {error}") from error
    return host


def run_batch(task: tuple[Scenario, list[HostModel], str, int]) -> list[dict[str, float | str]]:
    """Run a batch of hosts; ``task``: scenario, hosts, policy, seed of the first host."""
    scenario, hosts, policy, first = task
    choice = PolicyChoice.parse(policy)
    views: dict[str, ProjectView] = {}
    for offset, host in enumerate(hosts):
        result = simulate(replace(scenario, host=host), choice, seed=first + offset)
        for model, book in zip(result.scenario.projects, result.books.projects, strict=True):
            view = views.setdefault(model.name, ProjectView(model.name))
            view.met += book.met
            view.missed += book.missed
            view.errors += book.errors
            view.useful += book.used
            view.wasted += book.late + book.failed + book.lost
            view.turnaround += book.turnaround
            view.rpcs += book.rpcs
    return [{f.name: getattr(v, f.name) for f in fields(v)} for v in views.values()]


def run_population(
    scenario: Scenario,
    hosts: Sequence[HostModel],
    policy: PolicyChoice,
    *,
    seed: int = 1,
    scheduler: str = "",
) -> list[ProjectView]:
    """Return what each project sees, sorted by name."""
    scenario.check()
    batches = range(0, len(hosts), BATCH)
    tasks = {
        str(b): (scenario, list(hosts[b : b + BATCH]), str(policy), seed * MAX_HOSTS + b) for b in batches
    }
    backend = open_backend(scheduler)
    try:
        found = run_grid(run_batch, tasks, backend=backend)
    finally:
        backend.close()
    total: dict[str, ProjectView] = {}
    for key in tasks:
        for item in found[key]:
            view = total.setdefault(str(item["name"]), ProjectView(str(item["name"])))
            for f in fields(view):
                if f.name != "name":
                    setattr(view, f.name, getattr(view, f.name) + item[f.name])
    return sorted(total.values(), key=lambda v: v.name)
