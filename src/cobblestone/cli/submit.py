"""``cobblestone submit``: jobs for an app."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli import app_options as o
from cobblestone.cli.batch import finish, status_lines
from cobblestone.cli.options import Common

if TYPE_CHECKING:
    from cobblestone.api_schema.apps import App
    from cobblestone.sdk import BatchStatus


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("submit")(submit)


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Who alone may get the jobs."""

    for_host: Annotated[
        int | None,
        typer.Option("--for-host", metavar="ID", min=1, help="Only for this computer.", show_default=False),
    ] = None
    for_user: Annotated[
        int | None,
        typer.Option(
            "--for-user", metavar="ID", min=1, help="Only for this user's computers.", show_default=False
        ),
    ] = None
    for_team: Annotated[
        int | None,
        typer.Option(
            "--for-team",
            metavar="ID",
            min=1,
            help="Only for computers of this team's members.",
            show_default=False,
        ),
    ] = None

    def body(self) -> dict[str, int]:
        """Return what the options say, as the API takes it."""
        given = {"host": self.for_host, "user": self.for_user, "team": self.for_team}
        return {kind: number for kind, number in given.items() if number is not None}


def submit(
    name: o.NameArgument,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="INPUT", help="Input files: one job for each.", show_default=False),
    ] = None,
    jobs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Jobs as .csv (columns: inputs and arguments) or .jsonl, instead of input files.",
            show_default=False,
        ),
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg", metavar="NAME=VALUE", help="Value for {arg:NAME} in all jobs.", show_default=False
        ),
    ] = None,
    together: Annotated[bool, typer.Option("--together", help="One job with all input files.")] = False,
    batch_name: Annotated[str, typer.Option("--name", help="Name of the batch. Else the app's.")] = "",
    priority: Annotated[int, typer.Option(help="Jobs with a higher priority are sent first.")] = 0,
    *,
    target: TargetOptions,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answers, with a progress bar.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Wait, and write the answers there.", show_default=False),
    ] = None,
    common: Common,
) -> None:
    """Submit jobs: one for each input file, or those of a list.

    Values of --arg hold for all jobs; a list of jobs can have its own.
    """
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TransferSpeedColumn,
    )

    from cobblestone.cli.output import error_console

    args = read_arguments(arg or [])
    out = common.out
    with common.connect() as connected:
        items = _items(connected.app(name), inputs or [], jobs, together=together)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
        )
        with Progress(*columns, console=error_console(), transient=True) as bar:
            task = bar.add_task("Reading the input files …", total=None)

            def sending(sent: int, total: int) -> None:
                doing = "Uploading …" if sent < total else "The server checks and stores …"
                bar.update(task, completed=sent, total=total, description=doing)

            batch = connected.submit(
                name,
                items,
                args=args,
                name=batch_name,
                priority=priority,
                target=target.body(),
                progress=lambda n: bar.update(task, description=f"{n} jobs submitted …"),
                sending=sending,
            )
        status = batch.status()
        if wait or to is not None:
            out.say(f"Batch {batch.id}: {status.njobs} jobs.")
            finish(out, batch, to, timeout=None)
            return
        out.show(status, lines=_submitted(status, name, running=connected.running), essential=[batch.id])


def _submitted(status: BatchStatus, app: str, *, running: bool) -> list[str]:
    """Return what was submitted, and what comes next."""
    if running:
        following = f"Answers: cobblestone batch results {status.id} --wait --to DIR"
    else:
        following = "The project is not running; its jobs wait. Start it with: cobblestone run"
    first = f"Submitted batch {status.id}: {status.njobs} jobs of {app}."
    return [first, *status_lines(status)[1:], "", following]


def read_arguments(given: list[str]) -> dict[str, str]:
    """Return the values of ``--arg``."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"--arg {text!r}: write NAME=VALUE")
        if key in found:
            raise typer.BadParameter(f"--arg {key} is given twice")
        found[key] = value
    return found


def _items(app: App, inputs: list[Path], jobs: Path | None, *, together: bool) -> Iterable[object]:
    """Return what to submit; mistakes are found before anything is sent."""
    from cobblestone.domain.errors import JobError
    from cobblestone.sdk.job_files import read_jobs
    from cobblestone.sdk.jobs import Job

    names = [slot.name for slot in app.inputs]
    if jobs is not None:
        if inputs:
            raise typer.BadParameter("give input files, or --jobs, not both")
        found = list(read_jobs(jobs, input_names=names))
        if not found:
            raise JobError(f"{jobs} has no jobs.")
        return found
    missing = [path for path in inputs if not path.is_file()]
    if missing:
        what = "is a folder: write its files, e.g. DIR/*" if missing[0].is_dir() else "does not exist"
        raise JobError(f"The input file {missing[0]} {what}.")
    if not inputs:
        if names:
            raise JobError(
                f"Jobs of {app.name} need {len(names)} input file{'s' if len(names) > 1 else ''} ({', '.join(names)})."
                f" Example: cobblestone submit {app.name} inputs/*"
            )
        return [Job()]
    if together:
        return [Job(inputs=list(inputs))]
    if len(names) > 1:
        raise JobError(
            f"A job of {app.name} has {len(names)} input files ({', '.join(names)}), so a plain list is ambiguous. Write"
            f" the jobs into a table with these columns and give it with --jobs; or --together for one job."
        )
    return inputs
