"""``cobblestone demo``: see everything work on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_FOLDER = Path(".demo")


def register_demo(root: typer.Typer) -> None:
    """Add the command."""
    root.command("demo")(demo)
    root.command("examples")(examples)


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where it happens; made anew each time.", show_default=True)
    ] = DEFAULT_FOLDER,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Jobs. Else 12, with a browser 4, or 40 for the whole family.",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the project running at the end.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Less bootstrap, for a quick look.")] = False,
    whole_family: Annotated[
        bool,
        typer.Option(
            "--whole-family",
            help="Two projects, an account manager, a statistics site, and three clients (two of them BOINC's).",
        ),
    ] = False,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser",
            help="Another computation: a tab of headless Chromium and BOINC's client confirm each other, bit by bit.",
        ),
    ] = False,
    own_client: Annotated[
        bool,
        typer.Option(
            "--own-client", help="One volunteer has cobblestone's own client; both where BOINC's is missing."
        ),
    ] = False,
) -> None:
    """Run a project, two volunteers' clients and a real example on this machine, to the end."""
    if sum((whole_family, browser, own_client)) > 1:
        raise typer.BadParameter(
            "--whole-family, --browser and --own-client are demonstrations of their own."
        )
    if browser:
        from cobblestone.demo.in_browser import run_browser_demo

        run_browser_demo(folder, jobs=jobs or 4, keep=keep)
        return
    if whole_family:
        from cobblestone.demo.family import run_family

        run_family(folder, jobs=jobs or 40, keep=keep)
        return
    from cobblestone.demo.run import run_demo  # an HTTP client, and more

    run_demo(folder, jobs=jobs or 12, keep=keep, quick=quick, own_client=own_client)


def examples(
    name: Annotated[str, typer.Argument(help="The example to copy; without it they are listed.")] = "",
    to: Annotated[Path, typer.Option("--to", help="The folder to copy it into.", show_default=True)] = Path(),
) -> None:
    """List the examples that came with cobblestone, or copy one to look at, change and run."""
    from cobblestone.demo.services import copy_example, example_names

    if not name:
        for each in example_names():
            typer.echo(each)
        return
    typer.echo(f"{copy_example(name, to)}: begin with its README.md")
