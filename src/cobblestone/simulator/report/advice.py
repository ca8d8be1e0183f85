"""Recommended settings for a project's hosts: deadline, quorum, buffers and batches; as text, data and picture.

What a project should set for the hosts that it has: deadline, quorum, buffers and size of its batches.

One setting is varied at a time, the others stay as the steps before have chosen; every point is simulated with
several seeds, the same for all, so that differences are taken seed by seed.  What must not be missed (late results, wrong
answers) counts with the end of the 95 % interval that speaks against it, and where nothing was missed, with the most that
may be behind that.  Where intervals leave open whether a value
meets the demands, the step is undecided, and says between which values.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY, HOUR, float_sum
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host.books import compute_metrics
from cobblestone.simulator.host.server import job_speed
from cobblestone.simulator.population.run import PopulationRun, Shard, require_population, run_shard
from cobblestone.simulator.report.picture import literal, load_matplotlib, save_picture
from cobblestone.simulator.report.population import view_of
from cobblestone.simulator.report.statistics import Estimate, estimate, paired
from cobblestone.simulator.world.scenario import HostModel, Preferences, ProjectModel, Scenario
from cobblestone.sweep.backends import Backend
from cobblestone.sweep.grid import run_grid

#: Deadlines to try, in units of the time that a job takes on the median host.
STRETCHES = (1.5, 2.0, 3.0, 5.0, 8.0, 13.0)
QUORUMS = (1, 2, 3)
#: Days of work that hosts keep, least and beyond it.
BUFFERS = ((0.02, 0.05), (0.1, 0.25), (0.25, 0.5), (0.5, 1.0), (1.0, 2.0))
#: Workunits of a batch per processor of the population.
BATCHES = (0.5, 1.0, 3.0, 10.0)
#: A setting is as good as the best if it has this part of its throughput.
AS_GOOD = 0.97
#: Idleness that a smaller buffer may cost.
IDLER = 0.01
#: A batch is large enough when the population works on it as fast as this part of its best.
SWIFT = 0.5
#: Hosts in a simulated population at most; with more a sample of them is taken, drawn at random.
SAMPLE = 200
#: A run lasts at least so many times the deadline: what is lost shows when its deadline has passed.
LASTS = 2.0
#: What was not seen once in n cases is rarer than this over n, with 95 % confidence (rule of three).
NEVER_SEEN = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCapacity:
    """The limits of the project."""

    late: float = 0.05  #: part of the results that come late or not at all
    wrong: float = 0.001  #: part of the answers that are wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value of a setting, and its effects."""

    label: str
    value: float
    runs: Mapping[str, tuple[float, ...]]  #: each metric, seed by seed

    @property
    def metrics(self) -> dict[str, Estimate]:
        """Return mean and interval of each metric."""
        return {name: estimate(values) for name, values in self.runs.items()}

    def against(self, other: Point, metric: str) -> Estimate:
        """Return the excess of a metric over another point's."""
        return paired(self.runs[metric], other.runs[metric])


class Demand(NamedTuple):
    """A requirement on a point: ``excess`` is not above 0, with the whole interval if ``surely``."""

    excess: Estimate
    surely: bool = False

    @property
    def holds(self) -> bool:
        """Return whether the point counts as meeting it."""
        return self.excess.mean + (self.excess.half_width if self.surely else 0.0) <= 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedSetting:
    """A setting that was varied."""

    name: str
    shown: tuple[str, ...]  #: metrics that matter for it
    points: tuple[Point, ...]
    chosen: int  #: position of the point that is recommended
    why: str
    possible: tuple[int, ...] = ()  #: positions of all points that the intervals allow to be the right ones
    #: replicates that would probably tell which; 0 if it is decided, infinite if none would
    seeds: float = 0.0

    @property
    def choice(self) -> Point:
        """Return the recommended point."""
        return self.points[self.chosen]

    @property
    def rivals(self) -> list[str]:
        """Return values that may be the right ones instead; none if the step is decided."""
        return [self.points[i].label for i in self.possible if i != self.chosen]


METRICS = {
    "workunits_per_day": "WUs/day",
    "bad": "late or lost",
    "turnaround_95": "95 % h",
    "wrong": "wrong",
    "replicas": "results/WU",
    "idleness": "idle",
    "rpcs_per_result": "RPCs/result",
    "makespan": "days to the last",
    "swiftness": "part of the best rate",
}

#: Metrics of which less is better.
LOW_IS_GOOD = frozenset({"bad", "wrong", "idleness"})


class Advisor:
    """Carries out the steps one after the other; ``progress`` gets runs done and runs in total of a step."""

    def __init__(
        self,
        scenario: Scenario,
        hosts: Sequence[HostModel],
        policy: PolicyChoice,
        *,
        seeds: int,
        limits: ProjectCapacity,
        backend: Backend,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        if len(scenario.projects) != 1:
            raise ConfigError(
                f"advice is for one project, and the scenario has {len(scenario.projects)}; remove the others"
            )
        self._scenario = scenario
        self._hosts = tuple(hosts if len(hosts) <= SAMPLE else random.Random(SAMPLE).sample(hosts, SAMPLE))
        self._policy, self._seeds, self._limits = policy, seeds, limits
        self._backend, self._progress = backend, progress
        require_population(scenario, self._hosts)

    @property
    def project(self) -> ProjectModel:
        """Return the project with the settings so far."""
        return self._scenario.projects[0]

    def run(self) -> list[VariedSetting]:
        """Return the steps, each with its recommendation."""
        return [self.deadline(), self.quorum(), self.buffers(), self.batch()]

    def deadline(self) -> VariedSetting:
        """Find the shortest deadline that loses little: results, and throughput."""
        typical = self.typical_seconds()
        bounds = [_round_time(typical * stretch) for stretch in STRETCHES]
        # as long for all, so that beginnings weigh the same
        scenario = _lasting(self._scenario, LASTS * max(bounds))
        points = self._points(
            "deadline", {_time(b): (b, _with_bound(scenario, b)) for b in sorted(set(bounds))}
        )
        most = points[_best(points, "workunits_per_day", lowest=False)].runs["workunits_per_day"]
        enough = [AS_GOOD * value for value in most]
        late = self._limits.late
        step = decide(
            "deadline",
            ("bad", "workunits_per_day", "turnaround_95"),
            points,
            [[at_most(p, "bad", late), Demand(paired(enough, p.runs["workunits_per_day"]))] for p in points],
            f"the shortest with which at most {late:.3g} of the results come late or not at all and throughput"
            f" is within {1 - AS_GOOD:.0%} of the best",
            f"none keeps late or lost results below {late:.3g}; this one loses least",
        )
        bound = step.choice.value
        self._scenario = _with_bound(_lasting(self._scenario, LASTS * bound), bound)
        return step

    def quorum(self) -> VariedSetting:
        """Find the smallest quorum whose answers are right often enough."""
        known = self.project.server.wrong_rate
        points = self._points("quorum", {str(q): (q, _with_quorum(self._scenario, q)) for q in QUORUMS})
        step = decide(
            "quorum",
            ("wrong", "workunits_per_day", "replicas"),
            points,
            # known, not estimated: alone a result is wrong by wrong_rate, and wrong ones never agree
            [
                [Demand(Estimate((known if p.value == 1 else 0.0) - self._limits.wrong, 0.0, self._seeds))]
                for p in points
            ],
            f"the smallest with at most {self._limits.wrong:.3g} of the answers wrong",
            "none is right as often as it should be; this one is wrong least often",
        )
        if not known:
            step = replace(
                step, why="no host is wrong in this scenario: set the share of wrong results with wrong_rate"
            )
        self._scenario = _with_quorum(self._scenario, int(step.choice.value))
        return step

    def buffers(self) -> VariedSetting:
        """Find the smallest buffer with which hosts are hardly ever idle."""
        points = self._points(
            "buffers", {f"{a:g} + {b:g} d": (a + b, _with_buffers(self._scenario, a, b)) for a, b in BUFFERS}
        )
        least = points[_best(points, "idleness", lowest=True)].runs["idleness"]
        allowed = [value + IDLER for value in least]
        step = decide(
            "buffers",
            ("idleness", "bad", "turnaround_95", "rpcs_per_result"),
            points,
            [
                [Demand(paired(p.runs["idleness"], allowed)), at_most(p, "bad", self._limits.late)]
                for p in points
            ],
            f"the smallest with which hosts are idle at most {IDLER:g} more than with the best: large buffers let jobs wait",
            "hosts are idle least with it; with none of them results come in time as they should",
        )
        low, high = BUFFERS[step.chosen]
        self._scenario = _with_buffers(self._scenario, low, high)
        return step

    def batch(self) -> VariedSetting:
        """Find the smallest batch on which the population works at a good part of its rate."""
        cpus = sum(host.ncpus for host in self._hosts)
        sizes = sorted({max(1, round(cpus * part)) for part in BATCHES})
        points = self._points("batch", {str(n): (n, _with_batch(self._scenario, n)) for n in sizes})
        best = points[_best(points, "rate", lowest=False)].metrics["rate"].mean
        points = [
            replace(
                p,
                runs={**p.runs, "swiftness": tuple(rate / best if best else 0.0 for rate in p.runs["rate"])},
            )
            for p in points
        ]
        why = (
            f"the smallest that is worked on at {SWIFT:.0%} of the best rate: the last few workunits take as long in"
            f" every batch ({cpus} processors)"
        )
        demands = [[Demand(estimate([SWIFT - swift for swift in p.runs["swiftness"]]))] for p in points]
        return decide("batch", ("swiftness", "makespan"), points, demands, why, why)

    def typical_seconds(self) -> float:
        """Return how long a job takes on the median host, including off-times."""
        (app, *_) = self.project.apps
        return statistics.median(
            app.sizes.average / job_speed(app, host) / host.availability.part_on for host in self._hosts
        )

    def _points(self, name: str, worlds: Mapping[str, tuple[float, Scenario]]) -> list[Point]:
        tasks = {
            f"{label} {seed}": Shard(scenario=world, hosts=self._hosts, policy=self._policy, seed=seed)
            for label, (_, world) in worlds.items()
            for seed in range(1, self._seeds + 1)
        }

        def tell(done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(name, done, total)

        found = run_grid(measure, tasks, backend=self._backend, progress=tell)
        points: list[Point] = []
        for label, (value, _) in worlds.items():
            runs = [found[f"{label} {seed}"] for seed in range(1, self._seeds + 1)]
            metrics = {key: tuple(run[key] for run in runs) for key in runs[0]}
            points.append(Point(label=label, value=float(value), runs=metrics))
        return points


def decide(
    name: str,
    shown: tuple[str, ...],
    points: Sequence[Point],
    demands: Sequence[Sequence[Demand]],
    good: str,
    bad: str,
) -> VariedSetting:
    """Choose the first point that meets its demands, else the best in the first metric shown; ``good`` and ``bad`` give reasons.

    The right one may be any that does not surely fail, up to the first that surely meets everything.
    """
    meeting = [i for i, asked in enumerate(demands) if all(demand.holds for demand in asked)]
    possible: list[int] = []
    for i, asked in enumerate(demands):
        verdicts = [demand.excess.not_above for demand in asked]
        if "no" not in verdicts:
            possible.append(i)
        if all(verdict == "yes" for verdict in verdicts):
            break
    chosen = meeting[0] if meeting else _best(points, shown[0], lowest=shown[0] in LOW_IS_GOOD)
    if not possible:  # all fail surely: it is left open which of them is best only
        possible = [
            i for i, point in enumerate(points) if point.against(points[chosen], shown[0]).may_be_nothing
        ]
    open_ = [
        demand.excess.count_to_decide
        for i in possible
        for demand in demands[i]
        if demand.excess.not_above == "undecided"
    ]
    undecided = any(i != chosen for i in possible)
    return VariedSetting(
        name=name,
        shown=shown,
        points=tuple(points),
        chosen=chosen,
        why=good if meeting else bad,
        possible=tuple(possible),
        seeds=max(open_, default=math.inf) if undecided else 0.0,
    )


def at_most(point: Point, metric: str, limit: float) -> Demand:
    """Require that a share of the results is surely not above ``limit``; the metric ``due`` counts them."""
    found = estimate([value - limit for value in point.runs[metric]])
    if not any(point.runs[metric]):
        found = replace(found, half_width=NEVER_SEEN / max(1.0, float_sum(point.runs["due"])))
    return Demand(found, surely=True)


def measure(shard: Shard) -> dict[str, float]:
    """Simulate one point with one seed, and return the metrics for the steps."""
    run = run_shard(shard)
    tally, view = run.tallies[0], view_of(run.tallies[0], run.scenario.duration)
    makespan = _makespan(run)
    return {
        "workunits_per_day": view.workunits_per_day,
        "bad": tally.timed_out / max(1, tally.due),
        "due": float(tally.due),
        "turnaround_95": view.turnaround_95 / HOUR,
        "wrong": view.wrong,
        "replicas": view.replicas,
        "idleness": compute_metrics(*run.books).idleness,
        "rpcs_per_result": view.rpcs_per_result,
        "makespan": makespan / DAY,
        "rate": (tally.done + tally.failed) / max(makespan / DAY, 1e-9),
    }


def _makespan(run: PopulationRun) -> float:
    """Return the seconds from the first sending to the last canonical result of a finished batch; else to the end of the run."""
    tally = run.tallies[0]
    finished = tally.workunits == run.scenario.projects[0].server.workunits == tally.done + tally.failed
    return tally.last_done - tally.first_sent if finished else run.scenario.duration


def _lasting(scenario: Scenario, least: float) -> Scenario:
    return replace(scenario, duration=max(scenario.duration, least))


def _with_bound(scenario: Scenario, bound: float) -> Scenario:
    (project,) = scenario.projects
    apps = tuple(replace(app, latency_bound=bound) for app in project.apps)
    return replace(scenario, projects=(replace(project, apps=apps),))


def _with_quorum(scenario: Scenario, quorum: int) -> Scenario:
    (project,) = scenario.projects
    server = replace(
        project.server,
        min_quorum=quorum,
        target_results=quorum,
        max_total_results=max(project.server.max_total_results, 5 * quorum),
        max_success_results=max(project.server.max_success_results, 3 * quorum),
    )
    return replace(scenario, projects=(replace(project, server=server),))


def _with_buffers(scenario: Scenario, least: float, beyond: float) -> Scenario:
    prefs: Preferences = replace(scenario.preferences, buffer_min=least * DAY, buffer_additional=beyond * DAY)
    return replace(scenario, preferences=prefs)


def _with_batch(scenario: Scenario, workunits: int) -> Scenario:
    (project,) = scenario.projects
    server = replace(project.server, workunits=workunits, workunits_per_day=0.0)
    bound = max(app.latency_bound for app in project.apps)
    # long enough for the last workunits, which may time out and be sent again
    return replace(_lasting(scenario, 6.0 * bound), projects=(replace(project, server=server),))


def _best(points: Sequence[Point], metric: str, *, lowest: bool) -> int:
    means = [p.metrics[metric].mean for p in points]
    return means.index(min(means) if lowest else max(means))


def _round_time(seconds: float) -> float:
    """Return a round number of hours, or of days from three days on."""
    unit = DAY if seconds >= 3 * DAY else HOUR
    return max(1.0, round(seconds / unit)) * unit


def _time(seconds: float) -> str:
    return f"{seconds / DAY:g} d" if seconds >= 3 * DAY else f"{seconds / HOUR:g} h"


#: As many seeds as the command takes.
MOST_SEEDS = 100
_COLOURS = ("#1f4e79", "#c8553d", "#588157", "#8d5a97")


def advice_text(steps: Sequence[VariedSetting]) -> str:
    """Return a table per setting, with the recommended line marked, and the recommendations.

    A ``?`` marks what may be no different from the recommended line: the interval of the difference, seed by seed, holds 0.
    """
    lines: list[str] = []
    for step in steps:
        lines.append(f"{step.name:14s}" + "".join(f"{METRICS[m]:>24s}" for m in step.shown))
        for i, point in enumerate(step.points):
            mark = "*" if i == step.chosen else " "
            cells = "".join(f"{_cell(step, i, m):>24s}" for m in step.shown)
            lines.append(f"{mark} {point.label:12s}{cells}")
        lines.append("")
    lines += ["? = the difference from the recommended line (*) may be chance", ""]
    lines.append("Recommended for these hosts:")
    for step in steps:
        lines.append(f"  {step.name}: {step.choice.label} ({step.why})")
        if step.rivals:
            lines.append(f"    {undecided(step)}")
    return "\n".join(lines)


def _cell(step: VariedSetting, i: int, metric: str) -> str:
    found = str(step.points[i].metrics[metric])
    if i == step.chosen:
        return found
    return found + (" ?" if step.points[i].against(step.choice, metric).may_be_nothing else "")


def undecided(step: VariedSetting) -> str:
    """Return a sentence about values that may be the right ones instead, and how to find out."""
    so_far = len(next(iter(step.choice.runs.values())))
    more = (
        f"about --seeds {step.seeds:.0f} (now {so_far})"
        if so_far < step.seeds <= MOST_SEEDS
        else "many more --seeds, or --hosts,"
    )
    return f"undecided: the intervals allow {' or '.join(step.rivals)} as well; {more} would decide it"


def as_data(steps: Sequence[VariedSetting]) -> dict[str, object]:
    """Return everything, JSON-ready."""
    return {
        step.name: {
            "recommended": step.choice.label,
            "why": step.why,
            "undecided": step.rivals,
            "points": [
                {
                    "value": point.label,
                    "metrics": {
                        k: {
                            "mean": e.mean,
                            "half_width": e.half_width,
                            "may_equal_recommended": point.against(step.choice, k).may_be_nothing,
                        }
                        for k, e in point.metrics.items()
                    },
                }
                for point in step.points
            ],
        }
        for step in steps
    }


def draw_advice(steps: Sequence[VariedSetting], path: Path, *, title: str) -> None:
    """Draw a panel per setting: two metrics over its values with 95 % intervals.

    The recommended value is marked, and paler those that the intervals allow as well.
    """
    plt = load_matplotlib()
    fig, grid = plt.subplots(2, 2, figsize=(11.5, 7.4), layout="constrained")
    for axes, step in zip(grid.flat, steps, strict=False):
        labels = [point.label for point in step.points]
        places = range(len(labels))
        other = axes.twinx()
        for k, (side, metric) in enumerate(zip((axes, other), step.shown[:2], strict=True)):
            found = [point.metrics[metric] for point in step.points]
            side.errorbar(
                places,
                [e.mean for e in found],
                yerr=[e.half_width for e in found],
                color=_COLOURS[k],
                marker="os"[k],
                capsize=3,
                linewidth=1.6,
            )
            side.set_ylabel(METRICS[metric], color=_COLOURS[k])
            side.tick_params(axis="y", labelcolor=_COLOURS[k])
            side.set_ylim(0.0, max(0.01, side.get_ylim()[1]))  # what is 0 but for rounding lies flat
        for i in {step.chosen, *step.possible}:
            alpha = 0.35 if i == step.chosen else 0.12
            axes.axvspan(i - 0.35, i + 0.35, color="#e9c46a", alpha=alpha, linewidth=0)
        axes.set_xticks(list(places), labels, fontsize=7)
        rivals = f"\n(undecided: or {', '.join(step.rivals)})" if step.rivals else ""
        axes.set_title(f"{step.name}: {step.choice.label}{rivals}", fontsize=9)
        axes.grid(alpha=0.25)
    fig.suptitle(literal(title), fontsize=11)
    save_picture(plt, fig, path, 120)
