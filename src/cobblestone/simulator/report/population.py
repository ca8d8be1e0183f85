"""A project's view of many hosts: figures of merit as text, data and picture, and several policies side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from cobblestone.domain.texts import several
from cobblestone.domain.values import DAY, HOUR, float_sum
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.events import from_plain, to_plain
from cobblestone.simulator.code_version import code_version
from cobblestone.simulator.host.books import FiguresOfMerit, compute_metrics
from cobblestone.simulator.population.run import PopulationRun, Shard, run_shard, worth_compiling
from cobblestone.simulator.population.shared_project import ProjectTally
from cobblestone.simulator.report.picture import colour, literal, load_matplotlib, save_picture
from cobblestone.simulator.report.statistics import Estimate, estimate, paired
from cobblestone.simulator.world.scenario import HostModel, Scenario
from cobblestone.sweep.backends import Backend
from cobblestone.sweep.grid import run_grid


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectView:
    """Figures of merit of one project in one run."""

    workunits_per_day: float  #: with a canonical result
    gflops: float  #: FLOP/s in the results that made a quorum, in units of 1e9
    turnaround: float  #: mean seconds of a workunit from its first result's sending to its canonical result
    turnaround_95: float  #: 95 of 100 workunits are faster
    result_turnaround: float  #: mean seconds of a result from sending to report
    late: float  #: part of the reported results that came after their deadline
    timed_out: float  #: part of the sent results whose deadline passed without a report
    errors: float  #: part of the reported results that failed or were given up
    wasted: float  #: part of the reported FLOPs that made no quorum: errors, wrong, late and spare results
    replicas: float  #: results sent per workunit with a canonical result
    failed_workunits: float  #: part of the finished workunits that were given up
    rpcs_per_result: float
    rpcs_peak: float  #: contacts in the busiest hour after the first day
    empty: float  #: part of the requests for work that got nothing
    wrong: float  #: part of the canonical results that are wrong
    wait: float  #: mean seconds of a contact in the scheduler's queue


#: Columns of the table: heading, unit, format.  Parts are in percent.
HEADINGS = {
    "workunits_per_day": ("WUs/day", 1.0, ".1f"),
    "gflops": ("GFLOPS", 1.0, ".1f"),
    "turnaround": ("WU h", HOUR, ".1f"),
    "turnaround_95": ("95 % h", HOUR, ".1f"),
    "late": ("late", 0.01, ".2f"),
    "timed_out": ("timed out", 0.01, ".2f"),
    "wasted": ("wasted", 0.01, ".2f"),
    "replicas": ("results/WU", 1.0, ".2f"),
    "failed_workunits": ("failed WUs", 0.01, ".2f"),
    "rpcs_per_result": ("RPCs/result", 1.0, ".2f"),
    "rpcs_peak": ("RPCs/h max", 1.0, ".0f"),
    "empty": ("empty", 0.01, ".2f"),
    "wrong": ("wrong", 0.01, ".2f"),
    "wait": ("queue s", 1.0, ".2f"),
}
#: What the hosts together are called beside the projects.
ALL_HOSTS = "all hosts"


def view_of(tally: ProjectTally, duration: float) -> ProjectView:
    """Compute the figures of merit from a project's tally."""
    turnarounds = sorted(tally.turnarounds)
    count = len(turnarounds)
    flops = tally.reported_flops
    settled = [n for hour, n in tally.rpcs_by_hour.items() if hour >= 24] or list(tally.rpcs_by_hour.values())
    return ProjectView(
        workunits_per_day=tally.done / (duration / DAY),
        gflops=tally.needed_flops / duration / 1e9,
        turnaround=float_sum(turnarounds) / max(1, count),
        turnaround_95=turnarounds[min(count - 1, int(0.95 * count))] if count else 0.0,
        result_turnaround=tally.result_seconds / max(1, tally.reported),
        late=tally.late / max(1, tally.reported),
        timed_out=tally.timed_out / max(1, tally.sent),
        errors=tally.errors / max(1, tally.reported),
        wasted=1.0 - tally.needed_flops / flops if flops > 0.0 else 0.0,
        replicas=tally.sent / max(1, tally.done),
        failed_workunits=tally.failed / max(1, tally.done + tally.failed),
        rpcs_per_result=tally.rpcs / max(1, tally.reported),
        rpcs_peak=float(max(settled, default=0)),
        empty=tally.empty / max(1, tally.asking),
        wrong=tally.wrong / max(1, tally.done),
        wait=tally.waited / max(1, tally.rpcs),
    )


HOSTS_HEADINGS = {
    "idleness": ("idle", 0.01, ".2f"),
    "waste": ("wasted", 0.01, ".2f"),
    "share_violation": ("share viol.", 0.01, ".2f"),
    "monotony": ("monotony", 0.01, ".2f"),
    "missed": ("late", 0.01, ".2f"),
    "given_up": ("given up", 0.01, ".2f"),
    "rpcs_per_job": ("RPCs/job", 1.0, ".2f"),
    "unfinished": ("unfinished", 0.01, ".2f"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationRecord:
    """The stored part of a run: its projects' tallies, and the figures of all its hosts."""

    seed: int
    hosts: int
    tallies: tuple[ProjectTally, ...]
    computers: FiguresOfMerit


def record_of(run: PopulationRun) -> PopulationRecord:
    """Return the stored part of a run."""
    return PopulationRecord(
        seed=run.seed, hosts=run.hosts, tallies=run.tallies, computers=compute_metrics(*run.books)
    )


#: Replicates by policy; those of all policies have the same seeds.
Results = Mapping[str, Sequence[PopulationRecord]]


def _values(runs: Sequence[PopulationRecord], scenario: Scenario) -> dict[str, dict[str, list[float]]]:
    """Return every figure seed by seed, by project, and of all hosts under the empty name."""
    found: dict[str, dict[str, list[float]]] = {}
    for i, model in enumerate(sorted(scenario.projects, key=lambda p: p.name)):
        views = [view_of(run.tallies[i], scenario.duration) for run in runs]
        found[model.name] = {f.name: [getattr(v, f.name) for v in views] for f in fields(ProjectView)}
    found[ALL_HOSTS] = {name: [getattr(r.computers, name) for r in runs] for name in HOSTS_HEADINGS}
    return found


def _estimates(
    runs: Sequence[PopulationRecord], scenario: Scenario, base: Sequence[PopulationRecord] | None = None
) -> dict[str, dict[str, Estimate]]:
    """Return mean and interval of every figure, or of its change from ``base``, seed by seed."""
    mine = _values(runs, scenario)
    theirs = None if base is None else _values(base, scenario)
    return {
        name: {
            key: estimate(values) if theirs is None else paired(values, theirs[name][key])
            for key, values in figures.items()
        }
        for name, figures in mine.items()
    }


def as_text(scenario: Scenario, results: Results) -> str:
    """Return a table; with several policies and seeds also of the changes from the first policy, seed by seed."""
    base, first = next(iter(results.items()))
    lines = [
        (
            f"{scenario.name}: {several(first[0].hosts, 'host')}, {scenario.duration / DAY:g} days,"
            f" {several(len(first), 'replicate')}; parts in percent"
        ),
        *_tables({name: _estimates(runs, scenario) for name, runs in results.items()}),
    ]
    if len(results) > 1 and len(first) > 1:
        others = {name: _estimates(runs, scenario, first) for name, runs in results.items() if name != base}
        lines += [
            "",
            f"change from {base}, seed by seed (? = it may be chance)",
            *_tables(others, signed=True),
        ]
    return "\n".join(lines)


def _tables(found: Mapping[str, Mapping[str, Mapping[str, Estimate]]], *, signed: bool = False) -> list[str]:
    """Return the lines of the projects, followed by those of all hosts together."""
    tables: dict[bool, list[str]] = {False: [], True: []}
    for policy, rows in found.items():
        for name, figures in rows.items():
            headings = HOSTS_HEADINGS if name == ALL_HOSTS else HEADINGS
            lines = tables[name == ALL_HOSTS]
            cells = [
                _cell(figures[key], unit, form, signed=signed) for key, (_, unit, form) in headings.items()
            ]
            width = 12 if figures[next(iter(headings))].count < 2 else 18 if signed else 16
            if not lines:
                heads = "".join(f"{head:>{width}s}" for head, _, _ in headings.values())
                lines.append(f"{'policy':18s}{'' if name == ALL_HOSTS else 'project':14s}{heads}")
            lines.append(f"{policy:18s}{name[:13]:14s}" + "".join(f"{cell:>{width}s}" for cell in cells))
    return [*tables[False], "", *tables[True]]


def _cell(found: Estimate, unit: float, form: str, *, signed: bool) -> str:
    mean = format(found.mean / unit, f"+{form}" if signed else form)
    if found.count < 2:
        return mean
    luck = " ?" if signed and found.may_be_nothing else ""
    return f"{mean} ±{format(found.half_width / unit, form)}{luck}"


def as_data(scenario: Scenario, results: Results) -> dict[str, object]:
    """Return everything, JSON-ready: means with half widths of the 95 % intervals, changes from the first policy, and the tallies
    of each run.
    """
    base, first = next(iter(results.items()))
    names = sorted(model.name for model in scenario.projects)
    policies: dict[str, object] = {}
    for name, runs in results.items():
        found = {key: _plain(each) for key, each in _estimates(runs, scenario).items()}
        entry: dict[str, object] = {
            "hosts": found.pop(ALL_HOSTS),
            "metrics": found,
            "runs": [
                {
                    "seed": run.seed,
                    "projects": {m: _tally(t) for m, t in zip(names, run.tallies, strict=True)},
                }
                for run in runs
            ],
        }
        if name != base:
            change = {key: _plain(each) for key, each in _estimates(runs, scenario, first).items()}
            entry |= {"change": {"hosts": change.pop(ALL_HOSTS), "metrics": change}}
        policies[name] = entry
    return {
        "scenario": scenario.name,
        "hosts": first[0].hosts,
        "days": scenario.duration / DAY,
        "policies": policies,
    }


def _plain(found: Mapping[str, Estimate]) -> dict[str, dict[str, float]]:
    return {k: {"mean": e.mean, "half_width": e.half_width} for k, e in found.items()}


def _tally(tally: ProjectTally) -> dict[str, object]:
    """Return the counters, without the lists from which pictures are drawn."""
    return {k: v for k, v in asdict(tally).items() if isinstance(v, int | float)}


PARTS = ("needed", "spare", "late", "error", "invalid")
#: Colours of what becomes of FLOPs, and of the figures in them.
INK = {"#2a6f97": "white", "#a9d6e5": "black", "#e9c46a": "black", "#c1121f": "white", "#6d597a": "white"}
#: Per cent below which a figure does not fit into its part of a bar.
LEAST_LABELLED = 4.0
#: Bars for which there is room at least, so that one does not fill the picture.
FEWEST_BARS = 3


def draw_population(scenario: Scenario, results: Results, path: Path) -> None:
    """Draw the first replicate of each policy: workunits done per day, turnaround, contacts per hour, outcome of FLOPs."""
    plt = load_matplotlib()
    from matplotlib.ticker import LogLocator, NullFormatter

    fig, axes = plt.subplots(2, 2, figsize=(12, 7.4), layout="constrained")
    throughput, turnaround, contacts, fate = axes.flat
    for number, (name, runs) in enumerate(results.items()):
        run = runs[0]
        days = int(scenario.duration // DAY)
        done = [sum(t.done_by_day.get(d, 0) for t in run.tallies) for d in range(days)]
        throughput.plot([d + 0.5 for d in range(days)], done, color=colour(number), label=name)
        times = sorted(x / HOUR for t in run.tallies for x in t.turnarounds)
        if times:
            turnaround.plot(
                times, [(i + 1) / len(times) for i in range(len(times))], color=colour(number), label=name
            )
        hours = range(int(scenario.duration // HOUR))
        rate = [sum(t.rpcs_by_hour.get(h, 0) for t in run.tallies) for h in hours]
        contacts.plot([h / 24.0 for h in hours], rate, color=colour(number), linewidth=0.8, label=name)
    throughput.set(title="Workunits with a canonical result", xlabel="day", ylabel="a day")
    throughput.set_ylim(bottom=0)
    throughput.legend(fontsize=8)
    turnaround.set(
        title="Turnaround of workunits",
        xlabel="hours from first sending",
        ylabel="part that is done",
        xscale="log",
    )
    turnaround.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    turnaround.xaxis.set_major_formatter("{x:g}")
    turnaround.xaxis.set_minor_formatter(NullFormatter())  # labels between them would overlap
    contacts.set(title="Load of the scheduler", xlabel="day", ylabel="contacts an hour")
    contacts.set_ylim(bottom=0)
    first = next(iter(results.values()))[0]
    bars = {name: runs[0].tallies for name, runs in results.items()}
    if len(bars) == 1 < len(first.tallies):  # a bar alone says little
        names = sorted(project.name for project in scenario.projects)
        bars |= {literal(name): (tally,) for name, tally in zip(names, first.tallies, strict=True)}
    _draw_fate(fate, bars)
    fig.suptitle(f"{literal(scenario.name)}: {several(first.hosts, 'host')}, seed {first.seed}", fontsize=11)
    save_picture(plt, fig, path, 120)


def _draw_fate(axes: Any, bars: Mapping[str, Sequence[ProjectTally]]) -> None:
    """Draw what became of FLOPs, by policy or project, in per cent."""
    for number, tallies in enumerate(bars.values()):
        left = 0.0
        total = float_sum(t.reported_flops for t in tallies) or 1.0
        for part, shade in zip(PARTS, INK, strict=True):
            size = 100.0 * float_sum(float(getattr(t, f"{part}_flops")) for t in tallies) / total
            bar = axes.barh(number, size, 0.6, left=left, color=shade, label=part if number == 0 else None)
            if size >= LEAST_LABELLED:
                axes.bar_label(bar, [f"{size:.0f}"], label_type="center", fontsize=9, color=INK[shade])
            left += size
    axes.set(title="What became of the reported FLOPs, per cent", xlim=(0, 100))
    axes.set_yticks(range(len(bars)), list(bars))
    axes.set_ylim(max(FEWEST_BARS, len(bars)) - 0.5, -0.5)
    axes.legend(fontsize=9, ncols=len(PARTS), loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False)


def run_side_by_side(
    scenario: Scenario,
    tables: Mapping[int, Sequence[HostModel]],
    policies: Sequence[PolicyChoice],
    *,
    backend: Backend,
    keep: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[PopulationRecord]]:
    """Run every policy with every seed of ``tables`` (hosts by seed); return the runs by policy, in the order of the seeds.

    Runs are appended to ``keep`` as they end; those of this scenario, these hosts and this code that are there already are
    not made again.
    """
    compiled = worth_compiling(scenario, sum(map(len, tables.values())) * len(policies))
    shards = {
        (str(policy), seed): Shard(
            scenario=scenario, hosts=tuple(hosts), policy=policy, seed=seed, compiled=compiled
        )
        for seed, hosts in tables.items()
        for policy in policies
    }
    keys = {place: f"{place[0]}, seed {place[1]}, {_digest(shard)}" for place, shard in shards.items()}
    found = run_grid(
        _run_plainly,
        {keys[place]: shard for place, shard in shards.items()},
        backend=backend,
        keep=keep,
        code=code_version(map(str, policies)),
        progress=progress,
    )
    return {
        str(policy): [from_plain(PopulationRecord, found[keys[str(policy), seed]]) for seed in tables]
        for policy in policies
    }


def _run_plainly(shard: Shard) -> Any:
    return to_plain(record_of(run_shard(shard)))


def _digest(shard: Shard) -> str:
    """Return a text that identifies scenario and hosts."""
    return hashlib.sha256(repr((shard.scenario, shard.hosts)).encode()).hexdigest()[:16]
