"""Progress and options of commands that run many simulations."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import click

from cobblestone.cli.arguments import error_text
from cobblestone.cli.output import progress_bar
from cobblestone.cli.parameters import Option
from cobblestone.domain.errors import CobblestoneError

Scheduler = Annotated[str, Option(help="dask://host:port or dask://local; default: this machine's cores.")]
Workers = Annotated[int | None, Option(min=1, max=1024, help="Number of processes; default: one per core.")]


@contextmanager
def naming(*written: Path | None) -> Generator[None]:
    """Give errors that name no file the files or folder that are written: so does a write to a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or ", ".join(str(each) for each in written if each) or None
        raise


@contextmanager
def refusals(*written: Path | None) -> Generator[None]:
    """Report errors as short messages; the exit status is 2."""
    try:
        with naming(*written):
            yield
    except (CobblestoneError, OSError) as error:
        click.echo(f"Error: {error_text(error)}", err=True)
        raise click.exceptions.Exit(2) from error


@contextmanager
def sweeping(what: str, folder: Path | None) -> Generator[Callable[[int, int], None]]:
    """Show how many runs are done; report errors and interruptions as short messages.  ``folder``: where runs are kept."""
    try:
        with refusals(folder), progress_bar() as bar:
            line = bar.add_task(what, total=None, visible=False)

            def progress(done: int, total: int) -> None:
                bar.update(line, completed=done, total=total, visible=True)

            yield progress
    except KeyboardInterrupt:
        if folder is None:
            raise
        click.echo(f"interrupted; the same command continues from the results in {folder}", err=True)
        raise click.exceptions.Exit(130) from None
