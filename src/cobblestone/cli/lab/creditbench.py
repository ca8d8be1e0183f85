"""``cobblestone creditbench``: the public benchmark of credit systems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import click

from cobblestone.cli.lab.sweeping import Scheduler, Workers, naming, sweeping
from cobblestone.cli.options import OutputOptions
from cobblestone.cli.parameters import Argument, Commands, Option

creditbench_commands = Commands(
    help="Measure credit systems: what they pay honest computers, and what attackers gain."
)

SystemOption = Annotated[
    list[str] | None,
    Option("--system", help="Credit system, or FILE.py:Class; can be repeated. Default: all of the list."),
]
SeedOption = Annotated[
    int, Option(min=0, max=2**64 - 1, help="Seed; another one gives other people and jobs.")
]
SizeOption = Annotated[str, Option(help="S, M or L: 60,000, 300,000 or 3,000,000 jobs.")]
StrictOption = Annotated[
    bool, Option("--strict", help="Stop at the first line or answer that cannot be used.")
]
ScenarioOption = Annotated[str, Option(help="Scenario of the list, with or without an attack.")]


@creditbench_commands.verb("run")
def run(
    folder: Annotated[
        Path, Argument(metavar="OUT", help="Folder for results; an interrupted run continues from it.")
    ],
    system: SystemOption = None,
    only: Annotated[
        list[str] | None,
        Option(help="Scenario, or a pattern such as 'normal-*'; can be repeated. Default: see the list."),
    ] = None,
    size: SizeOption = "S",
    seed: SeedOption = 1,
    seeds: Annotated[int | None, Option(min=1, max=1000, help="Number of seeds from this one on.")] = None,
    strict: StrictOption = False,
    scheduler: Scheduler = "",
    workers: Workers = None,
) -> None:
    """Run systems through scenarios, and write the report."""
    with sweeping("results", folder) as progress:
        from cobblestone.credit_lab.bench.report import write_report
        from cobblestone.credit_lab.bench.tasks import (
            Plan,
            chosen_scenarios,
            default_scenarios,
            run_plan,
            seeds_from,
        )
        from cobblestone.credit_lab.systems.find import COMPARED

        plan = Plan(
            systems=tuple(dict.fromkeys(system or COMPARED)),
            scenarios=chosen_scenarios(only) if only else default_scenarios(size),
            size=size,
            seeds=seeds_from(seed, seeds, size),
            strict=strict,
        )
        run_plan(plan, folder, scheduler=scheduler, workers=workers, progress=progress)
        path = write_report(folder)
    click.echo(f"report: {path}")


@creditbench_commands.verb("report")
def report(
    folder: Annotated[Path, Argument(metavar="OUT", help="Folder of a run.")],
    out: OutputOptions = OutputOptions(),
) -> None:
    """Write report.md, report.html, figures.csv and pictures from the results in a folder."""
    from cobblestone.credit_lab.bench.report import over_seeds, read_entries, write_report

    with naming(folder):
        path = write_report(folder)
    if out.for_programs:
        means = over_seeds(read_entries(folder))
        data = [{"system": key[0], "scenario": key[1]} | figures for key, figures in means.items()]
        out.show(data, essential=[str(path)])
        return
    click.echo(path.read_text(encoding="utf-8"))


@creditbench_commands.verb("list")
def list_all(out: OutputOptions = OutputOptions()) -> None:
    """List systems, scenarios and attacks."""
    from cobblestone.credit_lab.attacks.catalogue import ATTACKS
    from cobblestone.credit_lab.bench.tasks import all_scenarios, default_scenarios
    from cobblestone.credit_lab.bench.worlds import WORLDS
    from cobblestone.credit_lab.systems.find import COMPARED

    core = set(default_scenarios("L"))
    rows = [
        (
            scenario,
            "S M L" if scenario in core else "S M",
            ATTACKS[scenario.partition("/")[2]].about if "/" in scenario else WORLDS[scenario].about,
        )
        for scenario in all_scenarios()
    ]
    out.say(f"Systems: {', '.join(COMPARED)}\n")
    out.table([], ["scenario", "sizes", "what it is"], rows)


@creditbench_commands.verb("record")
def record(
    events: Annotated[
        Path, Argument(metavar="EVENTS", help="File for the stream: Parquet, or CSV if it ends in .csv.")
    ],
    scenario: ScenarioOption = "normal-q2",
    size: SizeOption = "S",
    seed: SeedOption = 1,
    system: Annotated[str, Option(help="System that decides about checks.")] = "steady",
) -> None:
    """Record what a system sees of a scenario, for systems in any language."""
    from cobblestone.credit_lab.bench.stream import write_stream
    from cobblestone.credit_lab.bench.tasks import scene_of

    scene = scene_of(scenario, size, seed, system)
    with naming(events):
        count = write_stream(scene.tape, events)
    click.echo(f"{count} events: {events}")


@creditbench_commands.verb("price")
def price(
    events: Annotated[Path, Argument(metavar="EVENTS", help="A recorded stream.")],
    prices: Annotated[
        Path, Argument(metavar="PRICES", help="File for the prices: Parquet, or CSV if it ends in .csv.")
    ],
    system: Annotated[str, Option(help="Credit system, or FILE.py:Class.")] = "steady",
    strict: StrictOption = False,
) -> None:
    """Let a system price a recorded stream; the checks in it are those that were recorded."""
    from cobblestone.credit_lab.bench.stream import read_stream, watch, write_prices
    from cobblestone.credit_lab.systems.find import find_contender

    contender = find_contender(system)
    tape, problems = read_stream(events, strict=strict)
    pay = watch(tape, contender.watcher(tape.quorum, tape.accounts.tolist(), 1, strict=strict))
    with naming(prices):
        write_prices(tape, pay, prices)
    for problem in (*problems, *pay.problems):
        click.echo(problem, err=True)
    click.echo(f"{int(tape.valid.sum())} prices: {prices}")


@creditbench_commands.verb("score")
def score(
    prices: Annotated[Path, Argument(metavar="PRICES", help="Prices for a recorded stream.")],
    scenario: ScenarioOption = "normal-q2",
    size: SizeOption = "S",
    seed: SeedOption = 1,
    system: Annotated[str, Option(help="System that decided about checks when it was recorded.")] = "steady",
    strict: StrictOption = False,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Measure prices that some system wrote for a recorded stream; gains are relative to honest computers beside."""
    from cobblestone.credit_lab.bench.measures import attack_figures, honest_beside, honest_figures
    from cobblestone.credit_lab.bench.report import marked
    from cobblestone.credit_lab.bench.stream import read_prices
    from cobblestone.credit_lab.bench.streams import generator
    from cobblestone.credit_lab.bench.tasks import scene_of

    scene = scene_of(scenario, size, seed, system)
    scene = replace(scene, pay=read_prices(prices, scene.tape, strict=strict))
    for problem in scene.pay.problems:
        out.warn(problem)
    if "/" in scenario:
        figures = attack_figures(scene, honest_beside(scene), generator(seed, "bootstrap"))
    else:
        figures = honest_figures(scene)
    shown: dict[str, float] = {
        name: value for name, value in figures.items() if isinstance(value, int | float)
    }
    rows = [(name, marked(scenario, name, shown)) for name in shown]
    if out.for_programs:
        out.show(shown, essential=[str(value) for value in shown.values()])
        return
    out.table([], ["figure", "value (!: misses its target)"], rows, right=["value (!: misses its target)"])


@creditbench_commands.verb("attack")
def attack(
    system: Annotated[str, Argument(metavar="SYSTEM", help="Credit system, or FILE.py:Class.")],
    world: Annotated[str, Option(help="Scenario without attackers.")] = "normal-q1",
    seed: SeedOption = 1,
    rounds: Annotated[int, Option(min=1, max=10_000, help="Rounds of the search.")] = 20,
    crowd: Annotated[int, Option(min=1, max=100, help="Tries of a round, for each of 8 numbers.")] = 4,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Search for the attack that gains most from a system, and confirm it on fresh seeds."""
    with sweeping("tries", None) as progress:
        from cobblestone.credit_lab.bench.optimiser import Search, look_for_attack

        found = look_for_attack(
            Search(system=system, world=world, seed=seed, rounds=rounds, crowd=crowd), progress
        )
    data = found.as_data()
    lines = [
        f"Gain {found.gain:.3f}, on fresh seeds {found.confirmed:.3f} (largest {found.largest:.3f}), after {found.tries} tries.",
        f"Run it: cobblestone creditbench run OUT --system {system} --only '{data['scenario']}'",
    ]
    out.show(data, lines=lines, essential=[f"{found.confirmed:.4f}"])
