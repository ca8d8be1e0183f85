"""The paper's scenarios (Tables 1 to 4), and the runs behind each figure as plain values that can be sent to another process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cobblestone.domain.values import DAY, HOUR
from cobblestone.ops.policies import read_choice
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.published.round_robin import PURE
from cobblestone.simulator.code_version import code_version
from cobblestone.simulator.host.books import FiguresOfMerit
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.report.statistics import estimate
from cobblestone.simulator.world.scenario import (
    AppModel,
    Compatibility,
    HostModel,
    JobSizes,
    OnOff,
    Preferences,
    ProjectModel,
    Scenario,
)
from cobblestone.sweep.backends import open_backend
from cobblestone.sweep.grid import run_grid

JOB_FLOPS = 1.3e13
HOST_FLOPS = 1e9
PRINTED_BOUND = 9 * DAY
TIGHT_BOUND = 65000.0

#: Mean on-period of 1000 s and 80 % availability: the only reading of the tables under which the stated results come out.
AVAILABILITY = OnOff(fraction=0.8, mean_on=1000.0)


def base(compatibility: Compatibility | None = None) -> Scenario:
    """Tables 1 to 4: one project, two CPUs, 100 days."""
    compat = compatibility or Compatibility()
    belief = "efficiency" if compat.faults.request_ignores_availability else "statistics"
    return Scenario(
        name="base",
        duration=100 * DAY,
        host=HostModel(ncpus=2, flops=HOST_FLOPS, availability=AVAILABILITY, believed_availability=belief),
        preferences=Preferences(),
        projects=(project("P01"),),
        compatibility=compat,
    )


def project(
    name: str,
    *,
    bound: float = PRINTED_BOUND,
    flops: float = JOB_FLOPS,
    share: float = 100.0,
    error: float = 1.0,
    stdev: float = 0.0,
) -> ProjectModel:
    """One project with one app; ``error`` is true size over estimate, ``stdev`` in units of the mean."""
    app = AppModel(
        latency_bound=bound, flops_estimate=flops / error, sizes=JobSizes(mean=flops, stdev=stdev * flops)
    )
    return ProjectModel(name=name, share=share, apps=(app,))


def mix(count: int, *, bound: float = PRINTED_BOUND, compatibility: Compatibility | None = None) -> Scenario:
    """Projects 1 ... count; size, latency bound and share of project i are i times those of the first
    (Figures 1 and 4).
    """
    projects = tuple(
        project(f"P{i:02d}", bound=bound * i, flops=JOB_FLOPS * i, share=100.0 * i)
        for i in range(1, count + 1)
    )
    return replace(base(compatibility), name=f"mix {count}, base bound {bound:g} s", projects=projects)


def slack(value: float, *, error: float = 1.0, compatibility: Compatibility | None = None) -> Scenario:
    """One project whose latency bound is ``value`` times the mean run time (Figures 2 and 6)."""
    bound = value * JOB_FLOPS / HOST_FLOPS
    return replace(
        base(compatibility),
        name=f"slack {value:g}, error {error:g}",
        projects=(project("P01", bound=bound, error=error),),
    )


def buffer(
    value: float,
    hours: float,
    *,
    minimum_share: float = 0.1 / 0.35,
    compatibility: Compatibility | None = None,
) -> Scenario:
    """Slack and total buffer; the buffer is split between minimum and additional part as printed (Figure
    3).
    """
    seconds = hours * HOUR
    prefs = Preferences(buffer_min=seconds * minimum_share, buffer_additional=seconds * (1.0 - minimum_share))
    return replace(
        slack(value, compatibility=compatibility),
        name=f"slack {value:g}, buffer {hours:g} h",
        preferences=prefs,
    )


def variance(stdev: float, *, compatibility: Compatibility | None = None) -> Scenario:
    """Two projects with sizes 1 and 10, standard deviation ``stdev`` times the mean, connected every two
    days (Figure 5).
    """
    scenario = base(compatibility)
    return replace(
        scenario,
        name=f"stdev {stdev:g}",
        host=replace(scenario.host, connection_interval=2 * DAY),
        preferences=Preferences(buffer_min=2 * DAY, buffer_additional=0.0),
        projects=(project("P01", stdev=stdev), project("P02", flops=10 * JOB_FLOPS, stdev=stdev)),
    )


#: ``corrected``: exact events, no fault; ``compatible``: polling and faults of 2007, our random numbers;
#: ``literal``: draw by draw, seed 1 is the run that the golden figures were taken from; ``relative``: the same, but
#: the server's check compares deadlines with times from now on.
Mode = Literal["corrected", "compatible", "literal", "relative"]

#: The paper's figures of merit.
METRICS = ("waste", "idleness", "share_violation", "monotony")
#: Runs of a cell, at least, before its intervals may be found narrow enough.
FEWEST = 3
#: Modes that follow the C library's random numbers.
ONE_SEED = ("literal", "relative")

MIXES = tuple(range(1, 21))
#: With the printed bound the curves are flat.
PRINTED_MIXES = (1, 2, 4, 8, 14, 20)
SLACKS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 60.0)
BUFFER_SLACKS = (1.0, 2.0, 3.0, 4.0, 5.0)
#: Hours of the buffer of Table 4.
FULL_BUFFER = 8.4
BUFFERS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, FULL_BUFFER)
STDEVS = (1.0, 3.0, 10.0, 100.0, 1000.0)
ERRORS = (1.0, 2.0, 3.0, 4.0, 5.0)

_PRESETS: dict[str, Callable[..., Scenario]] = {
    "mix": mix,
    "slack": slack,
    "buffer": buffer,
    "variance": variance,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of one curve."""

    preset: str
    values: tuple[tuple[str, float], ...]  #: arguments of the preset
    policy: str
    mode: Mode

    @property
    def key(self) -> str:
        """Return a text that identifies the cell in the file of results."""
        return json.dumps([self.preset, dict(self.values), self.policy, self.mode], sort_keys=True)

    def scenario(self) -> Scenario:
        """Make the scenario."""
        arguments: dict[str, Any] = dict(self.values)
        if "count" in arguments:
            arguments["count"] = int(arguments["count"])
        compatibility = None
        if self.mode != "corrected":
            compatibility = Compatibility.year_2007(literal=self.mode in ONE_SEED)
        if compatibility is not None and self.mode == "relative":
            faults = replace(compatibility.faults, absolute_admission_deadlines=False)
            compatibility = replace(compatibility, faults=faults)
        return _PRESETS[self.preset](**arguments, compatibility=compatibility)


def run_cell(task: dict[str, Any]) -> list[dict[str, float]]:
    """Run a cell for one seed after the other, until all its figures are known precisely enough or the seeds are
    used up; returns the metrics of each run.
    """
    cell = Cell(task["preset"], tuple(map(tuple, task["values"])), task["policy"], task["mode"])
    scenario = cell.scenario()
    policy = read_choice(cell.policy)
    metrics = _way(compiled=task["compiled"])
    runs: list[dict[str, float]] = []
    for seed in task["seeds"]:
        runs.append(asdict(metrics(scenario, policy, seed)))
        if len(runs) >= FEWEST and _widest(runs) <= task["precision"]:
            break
    return runs


def _way(*, compiled: bool) -> Callable[[Scenario, PolicyChoice, int], FiguresOfMerit]:
    """Return what finds the figures of merit of a run: as a whole in ``compiled`` form, where Numba is installed."""
    from cobblestone.simulator.compiled import load_compiled  # Numba: only where it computes

    backends = load_compiled()
    if not compiled or backends is PURE:
        return lambda scenario, policy, seed: simulate(scenario, policy, seed=seed, backends=backends).metrics
    from cobblestone.simulator.population.compiled_runs import metrics_of

    return metrics_of


def _widest(runs: list[dict[str, float]]) -> float:
    return max(estimate([run[metric] for run in runs]).half_width for metric in METRICS)


def run_cells(
    tasks: Mapping[str, dict[str, Any]],
    folder: Path,
    run: Callable[[dict[str, Any]], Any] = run_cell,
    *,
    file: str = "runs.jsonl",
    scheduler: str = "",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Run many cells, or other tasks of a policy, by key; each result is stored in ``folder`` when done, and reused by the same
    code.
    """
    folder.mkdir(parents=True, exist_ok=True)
    code = code_version(task["policy"] for task in tasks.values())
    with closing(open_backend(scheduler, workers=workers)) as backend:
        return run_grid(run, tasks, backend=backend, keep=folder / file, code=code, progress=progress)


def as_task(cell: Cell, seeds: int, precision: float = 0.0, *, compiled: bool = False) -> dict[str, Any]:
    """Return the argument of :func:`run_cell`; the literal modes have one seed, that of the C library.

    ``precision``: half width of the widest 95 % interval with which a cell is left before it has had all its seeds.
    ``compiled``: the same figures in a tenth of the time, after a minute for compiling.
    """
    numbers = [1] if cell.mode in ONE_SEED else list(range(1, seeds + 1))
    return {
        "preset": cell.preset,
        "values": [list(v) for v in cell.values],
        "policy": cell.policy,
        "mode": cell.mode,
        "seeds": numbers,
        "precision": precision,
        "compiled": compiled,
    }


def other_mode(cell: Cell, mode: Mode) -> Cell:
    """Return the same cell in another mode."""
    return Cell(cell.preset, cell.values, cell.policy, mode)


def mix_cell(count: int, policy: str, mode: Mode, *, tight: bool) -> Cell:
    """Mix of ``count`` projects with the tight or the printed base bound."""
    bound = TIGHT_BOUND if tight else PRINTED_BOUND
    return Cell("mix", (("bound", bound), ("count", float(count))), policy, mode)


def slack_cell(value: float, policy: str, mode: Mode, *, error: float = 1.0) -> Cell:
    """One project with a slack and an estimation error."""
    return Cell("slack", (("value", value), ("error", error)), policy, mode)


def buffer_cell(value: float, hours: float, policy: str, mode: Mode) -> Cell:
    """One project with a slack and a buffer size; the whole buffer is Figure 2's scenario."""
    if hours == FULL_BUFFER:
        return slack_cell(value, policy, mode)
    return Cell("buffer", (("value", value), ("hours", hours)), policy, mode)


def variance_cell(stdev: float, policy: str, mode: Mode) -> Cell:
    """Two projects with varying job sizes and rare contacts."""
    return Cell("variance", (("stdev", stdev),), policy, mode)


@dataclass(frozen=True, slots=True)
class PaperCurve:
    """A curve of a figure: label, points (x, cell)."""

    label: str
    points: tuple[tuple[float, Cell], ...]


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """One figure of the paper."""

    number: int
    title: str
    x_label: str
    metrics: tuple[str, ...]
    curves: tuple[PaperCurve, ...]
    log_x: bool = False


BASE = "CS2_WF2_WS2_JC2"


def figures(mode: Mode, *, tight: bool = True) -> tuple[PaperFigure, ...]:
    """Return the six figures in one mode; ``tight`` chooses the base bound of Figures 1 and 4."""

    mixes = MIXES if tight else PRINTED_MIXES

    def over_mix(policy: str) -> PaperCurve:
        return PaperCurve(policy, tuple((float(m), mix_cell(m, policy, mode, tight=tight)) for m in mixes))

    preset = "base slack 5" if tight else "printed base bound, 9 days"
    return (
        PaperFigure(
            1,
            f"CPU scheduling, {preset}",
            "number of projects",
            METRICS,
            (over_mix("CS1_WF2_WS2_JC2"), over_mix(BASE)),
        ),
        PaperFigure(
            2,
            "Deadline slack",
            "slack",
            ("waste",),
            (PaperCurve(BASE, tuple((s, slack_cell(s, BASE, mode)) for s in SLACKS)),),
            log_x=True,
        ),
        PaperFigure(
            3,
            "Size of the work buffer",
            "buffer, hours",
            ("waste",),
            tuple(
                PaperCurve(f"slack {s:g}", tuple((h, buffer_cell(s, h, BASE, mode)) for h in BUFFERS))
                for s in BUFFER_SLACKS
            ),
        ),
        PaperFigure(
            4,
            f"Work fetch, {preset}",
            "number of projects",
            METRICS,
            (over_mix("CS2_WF1_WS2_JC2"), over_mix(BASE)),
        ),
        PaperFigure(
            5,
            "Work send",
            "standard deviation of job size / mean",
            METRICS,
            tuple(
                PaperCurve(policy, tuple((s, variance_cell(s, policy, mode)) for s in STDEVS))
                for policy in ("CS2_WF2_WS1_JC2", BASE)
            ),
            log_x=True,
        ),
        PaperFigure(
            6,
            "Completion estimates, slack 4",
            "true size / estimate",
            ("waste",),
            tuple(
                PaperCurve(policy, tuple((f, slack_cell(4.0, policy, mode, error=f)) for f in ERRORS))
                for policy in ("CS2_WF2_WS2_JC1", BASE)
            ),
        ),
    )
