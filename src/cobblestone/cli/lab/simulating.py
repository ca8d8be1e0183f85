"""``cobblestone simulate``: run scenarios against policies.

What a run does not need (populations, pictures, state files) is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from cobblestone.cli.lab.sweeping import refusals
from cobblestone.cli.options import JsonOption
from cobblestone.cli.output import progress_bar
from cobblestone.cli.parameters import Argument, Option
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY
from cobblestone.ops.policies import read_choice
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host.books import FiguresOfMerit
from cobblestone.simulator.host.run import RunResult
from cobblestone.simulator.host.run import simulate as simulate_host
from cobblestone.simulator.report.statistics import estimate
from cobblestone.simulator.world.scenario import Scenario

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from cobblestone.simulator.report.population import PopulationRecord
    from cobblestone.simulator.world.scenario import HostModel

COLUMNS = ("idleness", "waste", "share_violation", "monotony", "rpcs_per_job", "missed", "turnaround", "jobs")
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class SimulateOptions:
    """What to simulate, and what to write."""

    state: Annotated[
        Path | None,
        Option("--from", metavar="FILE", help="Take host and projects from a client's client_state.xml."),
    ] = None
    anonymise: Annotated[
        Path | None,
        Option(metavar="FILE", help="Only write this state file without keys, names, addresses and paths."),
    ] = None
    report: Annotated[
        Path | None,
        Option(
            metavar="FILE.html",
            help="Write a page that shows what would happen on this computer, with one sentence per decision.",
        ),
    ] = None
    policy: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Policy such as CS2_WF2_WS2_JC2, recent, an installed one, or FILE.py:Name; may be repeated.",
        ),
    ] = None
    seeds: Annotated[int, Option(min=1, max=10_000, help="Number of replicates.")] = 1
    first_seed: Annotated[int, Option(help="Seed of the first replicate.")] = 1
    json: JsonOption = False
    picture: Annotated[
        Path | None, Option(metavar="FILE", help="Write a picture of what ran when (.svg, .png or .pdf).")
    ] = None
    window: Annotated[str, Option(metavar="FROM:TO", help="Days shown in the picture.")] = "0:7"
    log: Annotated[Path | None, Option(metavar="FILE", help="Write a trace of every event.")] = None
    explain: Annotated[float | None, Option(metavar="DAY", help="Show what runs at this time, and why.")] = (
        None
    )
    hosts: Annotated[
        str,
        Option(
            metavar="N|FILE.csv",
            help="Simulate many hosts: a number, or a CSV file with ncpus, flops, fraction, mean_on.",
        ),
    ] = ""
    shards: Annotated[
        int,
        Option(
            min=1,
            max=100_000,
            help="Number of parallel parts for many hosts, each with its share of the workunits.",
        ),
    ] = 1
    scheduler: Annotated[
        str,
        Option(
            metavar="ADDRESS",
            help="Where parts or runs with many hosts are computed: dask://host:port or dask://local; "
            "default: this machine's cores.",
        ),
    ] = ""
    workers: Annotated[
        int | None, Option(min=1, max=1024, help="Number of processes for them, else one per core.")
    ] = None
    keep: Annotated[
        Path | None,
        Option(
            metavar="FILE.jsonl",
            help="Keep each finished run with many hosts; the same command continues from there.",
        ),
    ] = None


def simulate(
    scenario: Annotated[Path | None, Argument(metavar="SCENARIO.toml", help="The scenario.")] = None,
    options: SimulateOptions = SimulateOptions(),
) -> None:
    """Simulate a host with its projects, and print figures of merit for each policy."""
    with refusals(options.anonymise, options.report, options.picture, options.log, options.keep):
        try:
            _require_other_files(scenario, options)
            text = _answer(scenario, options)
        except KeyboardInterrupt:
            text = "interrupted; with many hosts, --keep lets the same command continue from its runs"
            click.echo(text, err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    click.echo(text)


def _require_other_files(scenario_file: Path | None, options: SimulateOptions) -> None:
    """Refuse to overwrite an input file: it may be a running client's state."""
    inputs = [each for each in (scenario_file, options.state) if each is not None and each.exists()]
    for name in ("anonymise", "report", "log", "picture", "keep"):
        out: Path | None = getattr(options, name)
        if out is not None and out.exists() and any(out.samefile(each) for each in inputs):
            raise ConfigError(f"--{name} {out} is the input file; choose another one")


def _answer(scenario_file: Path | None, options: SimulateOptions) -> str:
    """Return the text that the options ask for."""
    if options.anonymise is not None:
        return _anonymise(options.state, options.anonymise)
    scenario = _load(scenario_file, options.state)
    choices = [read_choice(text) for text in options.policy or ["CS2_WF2_WS2_JC2"]]
    explain, picture, first = options.explain, options.picture, options.first_seed
    hosts = options.hosts or scenario.hosts
    asked = [name for name in ("explain", "report", "log", "picture") if getattr(options, name) is not None]
    if hosts and asked and asked != ["picture"]:
        raise ConfigError(f"--{asked[0]} is for one host; remove it, or remove hosts")
    if len(asked) > 1 and asked[0] in ("explain", "report"):
        raise ConfigError(f"--{asked[0]} gives no other output; remove it, or remove --{asked[1]}")
    if picture is not None:
        from cobblestone.simulator.report.picture import require_picture

        require_picture(picture)
    if explain is not None:
        return explain_at(scenario, choices[0], first, explain * DAY)
    if hosts:
        return _population(scenario, choices, hosts, options)
    if scenario.lifetime:
        raise ConfigError("lifetime: one host does not leave; give the number of hosts, or remove lifetime")
    if options.keep is not None:
        raise ConfigError("--keep is for runs with many hosts; a run with one host takes seconds")
    if options.report is not None:
        return _report(scenario, choices[0], options, options.report)
    recorded: RunResult | None = None
    if asked:
        recorded = _record(scenario, choices[0], options)
    results = {
        str(c): [
            recorded
            if recorded is not None and (c, k) == (choices[0], 0)
            else simulate_host(scenario, c, seed=first + k)
            for k in range(options.seeds)
        ]
        for c in choices
    }
    return _json(scenario, results) if options.json else _text(scenario, results)


def _anonymise(state: Path | None, out: Path) -> str:
    from cobblestone.simulator.state_import import anonymise

    if state is None:
        raise ConfigError("--anonymise needs --from client_state.xml")
    anonymise(state, out)
    return f"{out}: the state file without keys, names, addresses and paths; check it before you share it"


def _report(scenario: Scenario, choice: PolicyChoice, options: SimulateOptions, out: Path) -> str:
    from cobblestone.simulator.report.page import Diary, report_page

    window = _window(options.window, scenario)
    diary = Diary(start=window[0], end=window[1], names=_names(scenario))
    result = simulate_host(scenario, choice, seed=options.first_seed, recorder=diary)
    out.write_text(report_page(result, diary), encoding="utf-8")
    return f"{out}: what would happen on this computer, decisions: {len(diary.decisions)}"


def _load(scenario_file: Path | None, state: Path | None) -> Scenario:
    if scenario_file is not None and state is None:
        from cobblestone.simulator.reading import read_scenario

        return read_scenario(scenario_file)
    if state is not None and scenario_file is None:
        from cobblestone.simulator.state_import import assumptions, scenario_from_state

        scenario = scenario_from_state(state)
        for sentence in assumptions(state):
            click.echo(f"note: {sentence}", err=True)
        return scenario
    raise ConfigError("give either a scenario file or --from client_state.xml")


def _population(
    scenario: Scenario, choices: list[PolicyChoice], hosts: str | int, options: SimulateOptions
) -> str:
    """Run many hosts with shared projects, and show what each project sees of them."""
    from cobblestone.simulator.population.run import require_population
    from cobblestone.simulator.report.population import as_data, as_text, draw_population
    from cobblestone.simulator.world.host_tables import hosts_for

    seeds = range(options.first_seed, options.first_seed + options.seeds)
    tables = {seed: hosts_for(hosts, seed=seed) for seed in seeds}
    for table in tables.values():
        require_population(scenario, table)
    if options.shards > 1:
        if options.keep is not None:
            raise ConfigError("--keep keeps whole runs; remove it, or remove --shards")
        results = _in_parts(scenario, tables, choices, options)
    elif len(choices) * len(seeds) > 1 or options.keep is not None or options.scheduler:
        results = _side_by_side(scenario, tables, choices, options)
    else:
        results = _alone(scenario, tables, choices[0])
    if options.picture is not None:
        draw_population(scenario, results, options.picture)
    return _dumped(as_data(scenario, results)) if options.json else as_text(scenario, results)


#: Hosts by seed.
Tables = Mapping[int, Sequence["HostModel"]]
#: Runs by policy, in the order of the seeds.
Records = dict[str, list["PopulationRecord"]]


def _alone(scenario: Scenario, tables: Tables, choice: PolicyChoice) -> Records:
    """Make the only run, and show how many days are done."""
    from cobblestone.simulator.compiled import load_compiled  # Numba, where it is installed
    from cobblestone.simulator.population.run import run_population, worth_compiling
    from cobblestone.simulator.report.population import record_of

    ((seed, hosts),) = tables.items()
    with progress_bar() as bar:
        line = bar.add_task(f"{choice}, seed {seed}, days", total=scenario.duration / DAY)
        show = partial(_show, bar, line)
        run = run_population(
            scenario,
            hosts,
            choice,
            seed=seed,
            progress=show,
            backends=load_compiled(),
            compiled=worth_compiling(scenario, len(hosts)),
        )
        show(scenario.duration / DAY, scenario.duration / DAY)
    return {str(choice): [record_of(run)]}


def _side_by_side(
    scenario: Scenario, tables: Tables, choices: list[PolicyChoice], options: SimulateOptions
) -> Records:
    """Make whole runs in parallel on a backend."""
    from cobblestone.simulator.report.population import run_side_by_side
    from cobblestone.sweep.backends import open_backend

    with closing(open_backend(options.scheduler, workers=options.workers)) as backend, progress_bar() as bar:
        line = bar.add_task("runs", total=None)
        show = partial(_show, bar, line)
        return run_side_by_side(scenario, tables, choices, backend=backend, keep=options.keep, progress=show)


def _in_parts(
    scenario: Scenario, tables: Tables, choices: list[PolicyChoice], options: SimulateOptions
) -> Records:
    """Make one run after the other, each split into parts on a backend."""
    from cobblestone.simulator.population.run import run_shards
    from cobblestone.simulator.report.population import record_of
    from cobblestone.sweep.backends import open_backend

    results: Records = {str(choice): [] for choice in choices}
    with closing(open_backend(options.scheduler, workers=options.workers)) as backend, progress_bar() as bar:
        for choice in choices:
            for seed, hosts in tables.items():
                line = bar.add_task(f"{choice}, seed {seed}, parts", total=options.shards)
                show = partial(_show, bar, line)
                run = run_shards(
                    scenario, hosts, choice, seed=seed, shards=options.shards, backend=backend, progress=show
                )
                results[str(choice)].append(record_of(run))
    return results


def _show(bar: Progress, line: TaskID, done: float, total: float) -> None:
    bar.update(line, completed=done, total=total)


def _window(text: str, scenario: Scenario) -> tuple[float, float]:
    try:
        low, high = (float(part) * DAY for part in text.split(":"))
    except ValueError:
        raise ConfigError(f"window = {text!r}: write FROM:TO in days, for example 0:7") from None
    if not 0 <= low < high:
        raise ConfigError(f"window = {text!r}: FROM must be at least 0 and less than TO")
    if low >= scenario.duration:
        raise ConfigError(f"window = {text!r}: the scenario ends on day {scenario.duration / DAY:g}")
    return low, high


def _names(scenario: Scenario) -> tuple[str, ...]:
    return tuple(sorted(p.name for p in scenario.projects))


def _record(scenario: Scenario, choice: PolicyChoice, options: SimulateOptions) -> RunResult:
    """Run the first replicate with a picture, a trace of events, or both."""
    from cobblestone.simulator.report.picture import RunRecording, draw_timeline

    seed: int = options.first_seed
    picture: Path | None = options.picture
    log: Path | None = options.log
    window = _window(options.window, scenario)
    timeline = RunRecording(start=window[0], end=window[1], names=_names(scenario))
    with nullcontext() if log is None else log.open("w", encoding="utf-8") as timeline.log:
        result = simulate_host(scenario, choice, seed=seed, recorder=timeline)
    if picture is not None:
        draw_timeline(timeline, result.scenario, picture, title=f"{scenario.name}, {choice}, seed {seed}")
    return result


def explain_at(scenario: Scenario, choice: PolicyChoice, seed: int, at: float) -> str:
    """Return a text that says what runs at a time, and the client's reasons for it and for its last look at
    work fetch.
    """
    from cobblestone.simulator.report.picture import RunRecording

    if not 0 <= at <= scenario.duration:
        raise ConfigError(
            f"explain = {at / DAY:g}: the scenario lasts from day 0 to day {scenario.duration / DAY:g}"
        )
    timeline = RunRecording(start=0.0, end=at, names=_names(scenario))
    result = simulate_host(scenario, choice, seed=seed, recorder=timeline)
    lines = [f"day {at / DAY:.3f} of {scenario.name}, {choice}, seed {seed}"]
    off = any(start <= at < end for start, end in timeline.off)
    running = [s for s in timeline.spells if s.start <= at < s.end or (s.end == at == s.start)]
    lines.append(
        "the host is off; these jobs continue when it is back" if off else f"running: {len(running)}"
    )
    for spell in running:
        name = result.scenario.projects[spell.project].name
        how = "by deadline" if spell.edf else "by its project's turn"
        lines.append(f"  {name} job {spell.number}, since day {spell.start / DAY:.3f}, {how}")
    for kind, title in (
        ("schedule", "last scheduling decision"),
        ("enforce", "jobs waiting for a processor at the last change of the running jobs"),
        ("give up", "last jobs given up"),
        ("fetch", "last work-fetch decision"),
        ("wait", "reason why a contact last waited"),
        ("rpc", "last contact"),
    ):
        if kind in timeline.notes:
            when, texts = timeline.notes[kind]
            lines.append(f"{title}, day {when / DAY:.3f}:")
            lines += [f"  {text}" for text in dict.fromkeys(texts)]
    return "\n".join(lines)


def _summary(runs: list[RunResult]) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for field in fields(FiguresOfMerit):
        found = estimate([getattr(run.metrics, field.name) for run in runs])
        table[field.name] = {"mean": found.mean, "half_width": found.half_width}
    return table


def _json(scenario: Scenario, results: dict[str, list[RunResult]]) -> str:
    body = {
        "scenario": scenario.name,
        "policies": {
            name: {
                "metrics": _summary(runs),
                "runs": [
                    {
                        "seed": run.seed,
                        "metrics": asdict(run.metrics),
                        "projects": {
                            p.name: asdict(b)
                            for p, b in zip(run.scenario.projects, run.books.projects, strict=True)
                        },
                    }
                    for run in runs
                ],
            }
            for name, runs in results.items()
        },
    }
    return _dumped(body)


def _dumped(body: object) -> str:
    import json

    return json.dumps(body, indent=2)


def _text(scenario: Scenario, results: dict[str, list[RunResult]]) -> str:
    lines = [f"{scenario.name}: {scenario.duration / DAY:g} days, projects: {len(scenario.projects)}"]
    width = max(18, *(len(name) + 2 for name in results))
    head = f"{'policy':{width}s}" + "".join(f"{name:>18s}" for name in COLUMNS)
    lines.append(head)
    for name, runs in results.items():
        cells = [estimate([getattr(run.metrics, column) for run in runs]) for column in COLUMNS]
        shown = (_cell(c.mean, c.half_width, len(runs)) for c in cells)
        lines.append(f"{name:{width}s}" + "".join(f"{cell:>18s}" for cell in shown))
    run = next(iter(results.values()))[0]
    columns = f"{'project':20s}{'share':>10s}{'got':>9s}{'in time':>9s}{'late':>7s}{'failed':>8s}{'RPCs':>7s}"
    lines += ["", f"{columns}   ({next(iter(results))}, seed {run.seed})"]
    total = sum(b.used + b.late for b in run.books.projects) or 1.0
    shares = sum(p.share for p in run.scenario.projects)
    for p, b in zip(run.scenario.projects, run.books.projects, strict=True):
        got = (b.used + b.late) / total
        lines.append(
            f"{p.name[:19]:20s}{p.share / shares:>10.1%}{got:>9.1%}{b.met:>9d}{b.missed:>7d}{b.errors:>8d}{b.rpcs:>7d}"
        )
    return "\n".join(lines)


def _cell(mean: float, half: float, count: int) -> str:
    digits = 3 if mean < 100 else 0
    return f"{mean:.{digits}f} ±{half:.{digits}f}" if count > 1 else f"{mean:.{digits}f}"
