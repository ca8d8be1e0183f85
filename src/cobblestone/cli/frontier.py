"""``cobblestone frontier``: two policies on a whole set of scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.sweeping import Scheduler, Workers, sweeping
from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.frontier import fresh_report
from cobblestone.simulator.frontier.compare import compare
from cobblestone.simulator.frontier.fresh import compare_fresh
from cobblestone.simulator.frontier.report import as_text, draw_frontier, write_csv
from cobblestone.simulator.picture import load_matplotlib

AGAINST = "CS2_WF2_WS2_JC2"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("frontier")(frontier_command)


def frontier_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Folder for table, CSV and picture; an interrupted run goes on there."
        ),
    ],
    policy: Annotated[str, typer.Option(help="The policy that is looked at.")] = "CS3_WF3_WS2_JC2",
    against: Annotated[
        list[str] | None,
        typer.Option(help=f"The policy that it is compared with ({AGAINST}); with --fresh, may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, max=1000, help="Replicates per scenario.")] = 5,
    fresh: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", min=0, help="Random scenarios drawn from this seed instead of the fixed set."
        ),
    ] = None,
    scenarios: Annotated[int, typer.Option(min=2, max=10_000, help="Number of random scenarios.")] = 200,
    only: Annotated[
        str, typer.Option(help='Only scenarios whose name begins so, e.g. "tight mix" or "stdev".')
    ] = "",
    scheduler: Scheduler = "",
    workers: Workers = None,
) -> None:
    """Say where one policy is better and where it is worse than another: all mixes, slacks, buffers, errors, spreads of size."""
    with sweeping("runs", folder) as progress:
        if fresh is not None and only:
            raise ConfigError("--only chooses of the fixed set; leave it out, or leave --fresh out")
        ours, *bases = PolicyChoice.parse(policy), *map(PolicyChoice.parse, against or [AGAINST])
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
            typer.echo(text)
            return
        if len(bases) > 1:
            raise ConfigError("the fixed set is compared with one policy; name one --against, or use --fresh")
        choices = ours, bases[0]
        found = compare(
            folder, *choices, seeds=seeds, only=only, scheduler=scheduler, workers=workers, progress=progress
        )
        text = as_text(found, *map(str, choices))
        (folder / "frontier.md").write_text(text + "\n", encoding="utf-8")
        write_csv(found, folder / "frontier.csv")
        draw_frontier(found, folder / "frontier.png", policy=str(choices[0]), base=str(choices[1]))
    typer.echo(text)
