"""``cobblestone demo``: run everything on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from cobblestone.cli.parameters import Argument, Option

DEFAULT_FOLDER = Path(".demo")


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Which demonstration, and how much of it."""

    folder: Annotated[Path, Option()] = DEFAULT_FOLDER
    """Folder for the demonstration; emptied first."""
    jobs: Annotated[int | None, Option(min=1, max=100)] = None
    """Number of jobs. Default: 12, with a browser 4, with the whole family 40."""
    keep: Annotated[bool, Option("--keep")] = False
    """Leave the project running at the end."""
    quick: Annotated[bool, Option("--quick")] = False
    """Fewer bootstrap samples, for a quick look."""
    whole_family: Annotated[bool, Option("--whole-family")] = False
    """Two projects, an account manager, a statistics site, and three clients (two of them BOINC's)."""
    browser: Annotated[bool, Option("--browser")] = False
    """Another computation: a headless Chromium tab and BOINC's client confirm each other's results, bit by bit."""
    own_client: Annotated[bool, Option("--own-client")] = False
    """One volunteer uses cobblestone's own client; both do where BOINC's is missing."""


def demo(wanted: DemoOptions) -> None:
    """Run a complete demonstration on this machine: a project, two volunteers' clients and a real example."""
    folder, jobs, keep = wanted.folder, wanted.jobs, wanted.keep
    if sum((wanted.whole_family, wanted.browser, wanted.own_client)) > 1:
        raise click.BadParameter(
            "--whole-family, --browser and --own-client are separate demonstrations: give only one."
        )
    if wanted.browser:
        from cobblestone.demo.in_browser import run_browser_demo

        run_browser_demo(folder, jobs=jobs or 4, keep=keep)
        return
    if wanted.whole_family:
        from cobblestone.demo.family import run_family

        run_family(folder, jobs=jobs or 40, keep=keep)
        return
    from cobblestone.demo.run import run_demo  # an HTTP client, and more

    run_demo(folder, jobs=jobs or 12, keep=keep, quick=wanted.quick, own_client=wanted.own_client)


def examples(
    name: Annotated[str, Argument(help="The example to copy; without a name, the examples are listed.")] = "",
    to: Annotated[Path, Option(help="The folder to copy it to.")] = Path(),
) -> None:
    """List the included examples, or copy one to read, change and run."""
    from cobblestone.demo.services import copy_example, example_names, examples_folder

    if not name:
        for each in example_names():
            title = (examples_folder() / each / "README.md").read_text(encoding="utf-8").partition("\n")[0]
            click.echo(f"{each:15}{title.removeprefix('# ')}")
        return
    click.echo(f"{copy_example(name, to)}: start with its README.md")
