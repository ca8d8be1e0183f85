"""``cobblestone simulate``: run scenarios against policies."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cobblestone.cli.output import error_console
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host_tables import MAX_HOSTS, draw_hosts, read_hosts
from cobblestone.simulator.metrics import Metrics
from cobblestone.simulator.picture import draw_timeline
from cobblestone.simulator.population import PopulationRun, require_population, run_population
from cobblestone.simulator.population_report import as_data, as_text, draw_population
from cobblestone.simulator.reading import read_scenario
from cobblestone.simulator.recording import Timeline
from cobblestone.simulator.run import RunResult, simulate
from cobblestone.simulator.scenario import DAY, HostModel, Scenario
from cobblestone.simulator.state_import import scenario_from_state
from cobblestone.simulator.statistics import estimate

COLUMNS = ("idleness", "waste", "share_violation", "monotony", "rpcs_per_job", "missed", "turnaround", "jobs")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("simulate")(simulate_command)


def simulate_command(
    scenario_file: Annotated[
        Path | None, typer.Argument(metavar="SCENARIO.toml", help="The scenario.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--from", help="Take host and projects from a client's client_state.xml.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Policy such as CS2_WF2_WS2_JC2; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Number of replicates.")] = 1,
    first_seed: Annotated[int, typer.Option(help="Seed of the first replicate.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Write a picture of what ran when (.svg or .png).")
    ] = None,
    window: Annotated[str, typer.Option(help="Days shown in the picture, FROM:TO.")] = "0:7",
    log: Annotated[Path | None, typer.Option(help="Write a trace of every event.")] = None,
    explain: Annotated[
        float | None, typer.Option(metavar="DAY", help="Say what runs at that time, and why.")
    ] = None,
    hosts: Annotated[
        str,
        typer.Option(
            help="Simulate many hosts: a number, or a CSV file with ncpus, flops, fraction, mean_on."
        ),
    ] = "",
) -> None:
    """Simulate a host with its projects, and print figures of merit for each policy."""
    try:
        scenario = _load(scenario_file, state)
        choices = [PolicyChoice.parse(text) for text in policy or ["CS2_WF2_WS2_JC2"]]
        if (hosts or scenario.hosts) and (explain is not None or log is not None):
            what = "explain" if explain is not None else "log"
            raise ConfigError(f"--{what} looks at one host; leave it out, or leave hosts out")
        if explain is not None:
            typer.echo(explain_at(scenario, choices[0], first_seed, explain * DAY))
            return
        if hosts or scenario.hosts:
            replicates = range(first_seed, first_seed + seeds)
            typer.echo(
                _population(scenario, choices, hosts or scenario.hosts, replicates, picture, as_json=as_json)
            )
            return
        recorded: RunResult | None = None
        if picture is not None or log is not None:
            recorded = _record(scenario, choices[0], first_seed, picture, _window(window), log)
        results = {
            str(c): [
                recorded
                if recorded is not None and (c, k) == (choices[0], 0)
                else simulate(scenario, c, seed=first_seed + k)
                for k in range(seeds)
            ]
            for c in choices
        }
    except CobblestoneError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(_json(scenario, results) if as_json else _text(scenario, results))


def _load(scenario_file: Path | None, state: Path | None) -> Scenario:
    if scenario_file is not None and state is None:
        return read_scenario(scenario_file)
    if state is not None and scenario_file is None:
        return scenario_from_state(state)
    raise ConfigError("name either a scenario file or --from client_state.xml")


def _population(
    scenario: Scenario,
    choices: list[PolicyChoice],
    hosts: str | int,
    seeds: range,
    picture: Path | None,
    *,
    as_json: bool,
) -> str:
    """Run many hosts with shared projects, and show what each project sees of them."""
    if picture is not None:
        _check_suffix(picture)
    tables = {seed: _hosts(hosts, seed) for seed in seeds}
    for table in tables.values():
        require_population(scenario, table)
    results: dict[str, list[PopulationRun]] = {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("days"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=error_console()) as bar:
        for choice in choices:
            runs = results.setdefault(str(choice), [])
            for seed in seeds:
                line = bar.add_task(f"{choice}, seed {seed}", total=scenario.duration / DAY)
                runs.append(
                    run_population(
                        scenario,
                        tables[seed],
                        choice,
                        seed=seed,
                        progress=partial(_show_days, bar, line),
                    )
                )
                bar.update(line, completed=scenario.duration / DAY)
    if picture is not None:
        draw_population(results, picture)
    return json.dumps(as_data(results), indent=2) if as_json else as_text(results)


def _show_days(bar: Progress, line: TaskID, done: float, total: float) -> None:
    bar.update(line, completed=done, total=total)


def _hosts(hosts: str | int, seed: int) -> list[HostModel]:
    text = str(hosts)
    try:
        count = float(text)
    except ValueError:
        return read_hosts(Path(text))
    if not 1 <= count <= MAX_HOSTS or count != int(count):
        raise ConfigError(
            f"hosts = {text} is not possible; allowed: 1 to {MAX_HOSTS}, or the name of a CSV file"
        )
    return draw_hosts(int(count), seed=seed)


def _window(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) * DAY for part in text.split(":"))
    except ValueError:
        raise ConfigError(f"window = {text!r}: write FROM:TO in days, for example 0:7") from None
    if not 0 <= low < high:
        raise ConfigError(f"window = {text!r}: FROM must be at least 0 and less than TO")
    return low, high


def _names(scenario: Scenario) -> tuple[str, ...]:
    return tuple(sorted(p.name for p in scenario.projects))


def _record(
    scenario: Scenario,
    choice: PolicyChoice,
    seed: int,
    picture: Path | None,
    window: tuple[float, float],
    log: Path | None,
) -> RunResult:
    if picture is not None:
        _check_suffix(picture)
    timeline = Timeline(start=window[0], end=window[1], names=_names(scenario))
    if log is None:
        result = simulate(scenario, choice, seed=seed, recorder=timeline)
    else:
        with log.open("w", encoding="utf-8") as stream:
            timeline.log = stream
            result = simulate(scenario, choice, seed=seed, recorder=timeline)
    if picture is not None:
        draw_timeline(timeline, result.scenario, picture, title=f"{scenario.name}, {choice}, seed {seed}")
    return result


def _check_suffix(picture: Path) -> None:
    if picture.suffix not in (".svg", ".png", ".pdf"):
        raise ConfigError(f"picture = {str(picture)!r}: the name must end in .svg, .png or .pdf")


def explain_at(scenario: Scenario, choice: PolicyChoice, seed: int, at: float) -> str:
    """Return a text that says what runs at a time, and the client's reasons for it and for its last look at
    work fetch.
    """
    if not 0 <= at <= scenario.duration:
        raise ConfigError(
            f"explain = {at / DAY:g}: the scenario lasts from day 0 to day {scenario.duration / DAY:g}"
        )
    timeline = Timeline(start=0.0, end=at, names=_names(scenario))
    result = simulate(scenario, choice, seed=seed, recorder=timeline)
    lines = [f"day {at / DAY:.3f} of {scenario.name}, {choice}, seed {seed}"]
    off = any(start <= at < end for start, end in timeline.off)
    running = [s for s in timeline.spells if s.start <= at < s.end or (s.end == at == s.start)]
    lines.append("the host is off; these jobs go on when it is back" if off else f"{len(running)} jobs run")
    for spell in running:
        name = result.scenario.projects[spell.project].name
        how = "in order of deadlines" if spell.edf else "by its project's turn"
        lines.append(f"  {name} job {spell.number}, since day {spell.start / DAY:.3f}, {how}")
    for kind, title in (
        ("schedule", "last scheduling decision"),
        ("enforce", "who waited for a processor at the last change of the running jobs"),
        ("give up", "jobs given up last"),
        ("fetch", "last look at work fetch"),
        ("wait", "why a contact waited last"),
        ("rpc", "last contact"),
    ):
        if kind in timeline.notes:
            when, texts = timeline.notes[kind]
            lines.append(f"{title}, day {when / DAY:.3f}:")
            lines += [f"  {text}" for text in texts]
    return "\n".join(lines)


def _summary(runs: list[RunResult]) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for field in fields(Metrics):
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
    return json.dumps(body, indent=2)


def _text(scenario: Scenario, results: dict[str, list[RunResult]]) -> str:
    lines = [f"{scenario.name}: {scenario.duration / DAY:g} days, {len(scenario.projects)} projects"]
    head = f"{'policy':18s}" + "".join(f"{name:>18s}" for name in COLUMNS)
    lines.append(head)
    for name, runs in results.items():
        cells = [estimate([getattr(run.metrics, column) for run in runs]) for column in COLUMNS]
        lines.append(f"{name:18s}" + "".join(f"{_cell(c.mean, c.half_width, len(runs)):>18s}" for c in cells))
    runs = next(iter(results.values()))
    lines += [
        "",
        (
            f"{'project':20s}{'share':>10s}{'got':>9s}{'in time':>9s}{'late':>7s}{'failed':>8s}{'RPCs':>7s}"
            f"   ({next(iter(results))}, seed {runs[0].seed})"
        ),
    ]
    books = runs[0].books
    total = sum(b.used + b.late for b in books.projects) or 1.0
    shares = sum(p.share for p in runs[0].scenario.projects)
    for p, b in zip(runs[0].scenario.projects, books.projects, strict=True):
        got = (b.used + b.late) / total
        lines.append(
            f"{p.name[:19]:20s}{p.share / shares:>10.1%}{got:>9.1%}{b.met:>9d}{b.missed:>7d}{b.errors:>8d}{b.rpcs:>7d}"
        )
    return "\n".join(lines)


def _cell(mean: float, half: float, count: int) -> str:
    digits = 3 if mean < 100 else 0
    return f"{mean:.{digits}f} ±{half:.{digits}f}" if count > 1 else f"{mean:.{digits}f}"
