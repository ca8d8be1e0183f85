"""``cobblestone paper`` and ``frontier``: sets of simulations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from cobblestone.cli.lab.sweeping import Scheduler, Workers, sweeping
from cobblestone.cli.parameters import Argument, Option
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.policies import read_choice
from cobblestone.simulator.frontier import fresh as fresh_report
from cobblestone.simulator.frontier.compare import compare, draw_frontier, frontier_text, write_csv
from cobblestone.simulator.frontier.fresh import compare_fresh
from cobblestone.simulator.paper.report import PRECISION, reproduce
from cobblestone.simulator.report.picture import load_matplotlib


def paper(
    folder: Annotated[
        Path,
        Argument(
            metavar="OUT",
            help="Folder for pictures, tables and report; an interrupted run continues from it.",
        ),
    ],
    seeds: Annotated[int, Option(min=1, max=1000, help="Most replicates per point.")] = 10,
    precision: Annotated[
        float,
        Option(
            min=0.0, max=1.0, help="A point is complete when its 95 % intervals are no wider than ± this."
        ),
    ] = PRECISION,
    scheduler: Scheduler = "",
    workers: Workers = None,
    literal: Annotated[bool, Option(help="Also follow the simulator of 2007 draw by draw (slow).")] = True,
) -> None:
    """Reproduce Tables 1-4 and Figures 1-6 of Kondo, Anderson, McLeod (2007)."""
    with sweeping("cells", folder) as progress:
        report = reproduce(
            folder,
            seeds=seeds,
            precision=precision,
            scheduler=scheduler,
            workers=workers,
            literal=literal,
            progress=progress,
        )
    click.echo(f"report: {report}")


AGAINST = "CS2_WF2_WS2_JC2"


def frontier(
    folder: Annotated[
        Path,
        Argument(
            metavar="OUT", help="Folder for table, CSV and picture; an interrupted run continues from it."
        ),
    ],
    policy: Annotated[str, Option(help="The policy to study.")] = "CS3_WF3_WS2_JC2",
    against: Annotated[
        list[str] | None,
        Option(help=f"The policy to compare with ({AGAINST}); with --fresh, may be repeated."),
    ] = None,
    seeds: Annotated[int, Option(min=2, max=1000, help="Replicates per scenario.")] = 5,
    fresh: Annotated[
        int | None,
        Option(
            metavar="SEED", min=0, help="Use random scenarios drawn from this seed instead of the fixed set."
        ),
    ] = None,
    scenarios: Annotated[int, Option(min=2, max=10_000, help="Number of random scenarios.")] = 200,
    only: Annotated[
        str, Option(help='Only scenarios whose name starts like this, e.g. "tight mix" or "stdev".')
    ] = "",
    scheduler: Scheduler = "",
    workers: Workers = None,
) -> None:
    """Show where one policy is better or worse than another: all mixes, slacks, buffers, errors, spreads of size."""
    with sweeping("runs", folder) as progress:
        if fresh is not None and only:
            raise ConfigError("--only selects from the fixed set; remove it, or remove --fresh")
        ours, *bases = read_choice(policy), *map(read_choice, against or [AGAINST])
        load_matplotlib()  # if it is missing, that is said before the work
        if fresh is not None:
            runs = compare_fresh(
                folder,
                fresh,
                [ours, *bases],
                scenarios=scenarios,
                seeds=seeds,
                scheduler=scheduler,
                workers=workers,
                progress=progress,
            )
            text = fresh_report.as_text(runs, str(ours), fresh)
            (folder / "fresh.md").write_text(text + "\n", encoding="utf-8")
            fresh_report.write_csv(runs, folder / "fresh.csv")
            fresh_report.draw_fresh(runs, str(ours), folder / "fresh.png")
            click.echo(text)
            return
        if len(bases) > 1:
            raise ConfigError("the fixed set is compared with one policy; give one --against, or use --fresh")
        choices = ours, bases[0]
        found = compare(
            folder, *choices, seeds=seeds, only=only, scheduler=scheduler, workers=workers, progress=progress
        )
        text = frontier_text(found, *map(str, choices))
        (folder / "frontier.md").write_text(text + "\n", encoding="utf-8")
        write_csv(found, folder / "frontier.csv")
        draw_frontier(found, folder / "frontier.png", policy=str(choices[0]), base=str(choices[1]))
    click.echo(text)
