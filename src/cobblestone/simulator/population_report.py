"""What a project sees of many hosts: figures of merit from its tally, as text, data and picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from cobblestone.simulator.metrics import compute_metrics
from cobblestone.simulator.picture import colour, load_matplotlib
from cobblestone.simulator.population import PopulationRun
from cobblestone.simulator.scenario import DAY, HOUR
from cobblestone.simulator.shared_project import Tally
from cobblestone.simulator.statistics import Estimate, estimate


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
"""Columns of the table: heading, unit, format.  Parts are in percent."""


def view_of(tally: Tally, duration: float) -> ProjectView:
    """Work the figures of merit out of a project's tally."""
    turnarounds = sorted(tally.turnarounds)
    count = len(turnarounds)
    flops = tally.reported_flops
    settled = [n for hour, n in tally.rpcs_by_hour.items() if hour >= 24] or list(tally.rpcs_by_hour.values())
    return ProjectView(
        workunits_per_day=tally.done / (duration / DAY),
        gflops=tally.needed_flops / duration / 1e9,
        turnaround=sum(turnarounds) / max(1, count),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsView:
    """Figures of merit of all hosts together in one run; weighed by what the hosts can compute."""

    idleness: float
    waste: float  #: FLOPs of late, failed and lost work
    share_violation: float  #: mean over hosts
    monotony: float  #: mean over hosts
    missed: float  #: part of the reported results without errors that came late
    given_up: float  #: part of the reported results that clients gave up because they would have been late
    rpcs_per_job: float
    unfinished: float  #: part of the delivered FLOPs in results not reported at the end


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


def hosts_view(run: PopulationRun) -> HostsView:
    """Work the hosts' figures of merit out of their books."""
    each = [compute_metrics(books) for books in run.books]
    projects = [p for books in run.books for p in books.projects]
    used = sum(p.used for p in projects)
    wasted = sum(p.late + p.failed + p.lost for p in projects)
    idle = sum(books.idle for books in run.books)
    total = max(used + wasted + idle, 1.0)
    met, missed = sum(p.met for p in projects), sum(p.missed for p in projects)
    reported = met + missed + sum(p.errors for p in projects)
    return HostsView(
        idleness=idle / total,
        waste=wasted / total,
        share_violation=sum(m.share_violation for m in each) / len(each),
        monotony=sum(m.monotony for m in each) / len(each),
        missed=missed / max(1, met + missed),
        given_up=sum(p.given_up for p in projects) / max(1, reported),
        rpcs_per_job=sum(p.rpcs for p in projects) / max(1, reported),
        unfinished=sum(p.unfinished for p in projects) / max(1.0, sum(b.delivered for b in run.books)),
    )


def hosts_estimates(runs: Sequence[PopulationRun]) -> dict[str, Estimate]:
    """Return mean and interval of the hosts' figures over replicates."""
    views = [hosts_view(run) for run in runs]
    return {f.name: estimate([getattr(v, f.name) for v in views]) for f in fields(HostsView)}


def estimates(runs: Sequence[PopulationRun]) -> list[dict[str, Estimate]]:
    """Return mean and interval over replicates, per project."""
    found: list[dict[str, Estimate]] = []
    for i in range(len(runs[0].tallies)):
        views = [view_of(run.tallies[i], run.scenario.duration) for run in runs]
        found.append({f.name: estimate([getattr(v, f.name) for v in views]) for f in fields(ProjectView)})
    return found


def as_text(results: Mapping[str, Sequence[PopulationRun]]) -> str:
    """Return a table."""
    first = next(iter(results.values()))
    scenario = first[0].scenario
    lines = [
        f"{scenario.name}: {first[0].hosts} hosts, {scenario.duration / DAY:g} days, {len(first)} replicate(s); parts in percent",
        f"{'policy':18s}{'project':14s}" + _heads(HEADINGS, len(first)),
    ]
    for name, runs in results.items():
        for model, found in zip(scenario.projects, estimates(runs), strict=True):
            lines.append(f"{name:18s}{model.name[:13]:14s}" + _cells(found, HEADINGS))
    lines += ["", f"{'policy':18s}{'':14s}" + _heads(HOSTS_HEADINGS, len(first))]
    lines += [
        f"{name:18s}{'all hosts':14s}" + _cells(hosts_estimates(runs), HOSTS_HEADINGS)
        for name, runs in results.items()
    ]
    return "\n".join(lines)


def _heads(headings: Mapping[str, tuple[str, float, str]], replicates: int) -> str:
    return "".join(f"{head:>{16 if replicates > 1 else 12}s}" for head, _, _ in headings.values())


def _cells(found: Mapping[str, Estimate], headings: Mapping[str, tuple[str, float, str]]) -> str:
    cells: list[str] = []
    for key, (_, unit, form) in headings.items():
        mean, half = (format(x / unit, form) for x in (found[key].mean, found[key].half_width))
        cells.append(f"{f'{mean} ±{half}':>16s}" if found[key].count > 1 else f"{mean:>12s}")
    return "".join(cells)


def as_data(results: Mapping[str, Sequence[PopulationRun]]) -> dict[str, object]:
    """Return everything, JSON-ready: means with half widths of the 95 % intervals, and the tallies of each run."""
    first = next(iter(results.values()))
    scenario = first[0].scenario
    return {
        "scenario": scenario.name,
        "hosts": first[0].hosts,
        "days": scenario.duration / DAY,
        "policies": {
            name: {
                "metrics": {
                    model.name: {k: {"mean": e.mean, "half_width": e.half_width} for k, e in found.items()}
                    for model, found in zip(scenario.projects, estimates(runs), strict=True)
                },
                "hosts": {
                    k: {"mean": e.mean, "half_width": e.half_width} for k, e in hosts_estimates(runs).items()
                },
                "runs": [
                    {
                        "seed": run.seed,
                        "projects": {
                            m.name: _tally(t) for m, t in zip(scenario.projects, run.tallies, strict=True)
                        },
                    }
                    for run in runs
                ],
            }
            for name, runs in results.items()
        },
    }


def _tally(tally: Tally) -> dict[str, object]:
    """Return the counters, without the lists from which pictures are drawn."""
    return {k: v for k, v in asdict(tally).items() if isinstance(v, int | float)}


def draw_population(results: Mapping[str, Sequence[PopulationRun]], path: Path) -> None:
    """Draw the first replicate of each policy: workunits done a day, turnaround, contacts an hour, fate of FLOPs."""
    plt = load_matplotlib()
    fig, axes = plt.subplots(2, 2, figsize=(12, 7.4), layout="constrained")
    throughput, turnaround, contacts, fate = axes.flat
    parts = ("needed", "spare", "late", "error", "invalid")
    shades = ("#2a6f97", "#a9d6e5", "#e9c46a", "#c1121f", "#6d597a")
    for number, (name, runs) in enumerate(results.items()):
        run = runs[0]
        days = int(run.scenario.duration // DAY)
        done = [sum(t.done_by_day.get(d, 0) for t in run.tallies) for d in range(days)]
        throughput.plot([d + 0.5 for d in range(days)], done, color=colour(number), label=name)
        times = sorted(x / HOUR for t in run.tallies for x in t.turnarounds)
        if times:
            turnaround.plot(
                times, [(i + 1) / len(times) for i in range(len(times))], color=colour(number), label=name
            )
        hours = range(int(run.scenario.duration // HOUR))
        rate = [sum(t.rpcs_by_hour.get(h, 0) for t in run.tallies) for h in hours]
        contacts.plot([h / 24.0 for h in hours], rate, color=colour(number), linewidth=0.8, label=name)
        left = 0.0
        total = sum(t.reported_flops for t in run.tallies) or 1.0
        for part, shade in zip(parts, shades, strict=True):
            size = sum(float(getattr(t, f"{part}_flops")) for t in run.tallies) / total
            fate.barh(name, size, left=left, color=shade, label=part if number == 0 else None)
            left += size
    throughput.set(title="Workunits with a canonical result", xlabel="day", ylabel="a day")
    throughput.set_ylim(bottom=0)
    throughput.legend(fontsize=8)
    turnaround.set(
        title="Turnaround of workunits",
        xlabel="hours from first sending",
        ylabel="part that is done",
        xscale="log",
    )
    contacts.set(title="Load of the scheduler", xlabel="day", ylabel="contacts an hour")
    contacts.set_ylim(bottom=0)
    fate.set(title="What became of the reported FLOPs", xlim=(0, 1))
    fate.legend(fontsize=8, ncols=len(parts), loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False)
    fate.invert_yaxis()
    first = next(iter(results.values()))[0]
    fig.suptitle(f"{first.scenario.name}: {first.hosts} hosts, seed {first.seed}", fontsize=11)
    fig.savefig(path, dpi=120)
    plt.close(fig)
