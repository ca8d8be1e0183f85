"""``cobblestone advise``: recommended settings for a project's hosts."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from rich.progress import TaskID

from cobblestone.cli.lab.sweeping import Scheduler, Workers, refusals
from cobblestone.cli.output import progress_bar
from cobblestone.cli.parameters import Argument, Option
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.policies import read_choice
from cobblestone.simulator.reading import read_scenario
from cobblestone.simulator.report import advice
from cobblestone.simulator.report.picture import require_picture
from cobblestone.simulator.world.host_tables import hosts_for
from cobblestone.sweep.backends import open_backend


@dataclass(frozen=True, kw_only=True)
class AdviceOptions:
    """What the advice is for, and what counts as good enough."""

    hosts: str = ""
    """Number of hosts, or a CSV file with ncpus, flops, fraction, mean_on."""
    policy: str = "CS4_WF4_WS1_JC2"
    """The policy of the hosts' clients."""
    seeds: Annotated[int, Option(min=2, max=advice.MOST_SEEDS)] = 3
    """Number of replicates per point."""
    late: Annotated[float, Option(min=0.0, max=1.0)] = advice.ProjectCapacity().late
    """Largest acceptable share of late or missing results."""
    wrong: Annotated[float, Option(min=0.0, max=1.0)] = advice.ProjectCapacity().wrong
    """Largest acceptable share of wrong answers."""


def advise(
    scenario_file: Annotated[
        Path,
        Argument(metavar="SCENARIO.toml", help="The project, whose hosts are used unless --hosts is given."),
    ],
    wanted: AdviceOptions,
    picture: Annotated[Path | None, Option(help="Write a picture (.svg, .png or .pdf).")] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    scheduler: Scheduler = "",
    workers: Workers = None,
) -> None:
    """Recommend deadline, quorum, buffers and size of batches, from simulations with these hosts."""
    with refusals(picture):
        if picture is not None:
            require_picture(picture)
        scenario = read_scenario(scenario_file)
        if not (wanted.hosts or scenario.hosts):
            raise ConfigError(f"{scenario_file}: has no hosts; write hosts = 100 or use --hosts")
        table = hosts_for(wanted.hosts or scenario.hosts, seed=1)
        with closing(open_backend(scheduler, workers=workers)) as backend, progress_bar() as bar:
            lines: dict[str, TaskID] = {}

            def progress(name: str, done: int, total: int) -> None:
                if name not in lines:
                    lines[name] = bar.add_task(name, total=total)
                bar.update(lines[name], completed=done)

            advisor = advice.Advisor(
                scenario,
                table,
                read_choice(wanted.policy),
                seeds=wanted.seeds,
                limits=advice.ProjectCapacity(late=wanted.late, wrong=wanted.wrong),
                backend=backend,
                progress=progress,
            )
            steps = advisor.run()
    click.echo(json.dumps(advice.as_data(steps), indent=2) if as_json else advice.advice_text(steps))
    if picture is not None:
        title = f"{scenario.name}: {len(table)} hosts, {wanted.policy}, {wanted.seeds} seeds"
        advice.draw_advice(steps, picture, title=title)
