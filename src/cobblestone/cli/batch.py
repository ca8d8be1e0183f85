"""``cobblestone batch``: submitted jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.completion import batch_ids
from cobblestone.cli.options import Commands, Common
from cobblestone.cli.output import Output, error_console, when

if TYPE_CHECKING:
    from cobblestone.sdk import Batch, BatchStatus

EXIT_JOBS_FAILED = 3

commands = Commands(no_args_is_help=True, help="Batches: submitted jobs and their answers.")
BatchArgument = Annotated[
    int,
    typer.Argument(metavar="ID", help="Number of the batch.", show_default=False, autocompletion=batch_ids),
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="batch")


def status_lines(status: BatchStatus) -> list[str]:
    """Return a batch's state for people; the first line names it."""
    open_ = status.njobs - status.n_success - status.n_error
    return [
        f"Batch {status.id} ({status.name}, app {status.app}): {status.state}, {status.fraction_done:.0%}",
        (
            f"  jobs {status.njobs}: {status.n_success} done, {status.n_error} failed or cancelled,"
            f" {status.running} on computers now, {open_ - status.running} waiting"
        ),
        *(f"  {note}" for note in status.notes),
    ]


@commands.command("status")
def show_status(
    batch_id: BatchArgument,
    common: Common,
) -> None:
    """Tell how far a batch is."""
    with common.connect() as connected:
        status = connected.batch(batch_id).status()
    common.out.show(
        status,
        lines=[
            *status_lines(status),
            f"  submitted {when(status.created)}, completed {when(status.completed)}",
        ],
        essential=[status.state],
    )


@commands.command("list")
def list_batches(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 50,
    *,
    common: Common,
) -> None:
    """List batches, the newest first."""
    with common.connect() as connected:
        found = connected.batches(limit=limit)
    rows = [
        (
            each.id,
            each.name,
            each.app,
            each.state,
            each.njobs,
            each.n_success,
            each.n_error,
            when(each.created),
        )
        for each in found
    ]
    common.out.table(
        found,
        ["id", "name", "app", "state", "jobs", "done", "failed", "submitted"],
        rows,
        empty="No batches yet. Submit one with: cobblestone submit APP inputs/*",
        right=("id", "jobs", "done", "failed"),
    )


@commands.command("jobs")
def list_jobs(
    batch_id: BatchArgument,
    common: Common,
) -> None:
    """List the jobs of a batch, and why some failed."""
    with common.connect() as connected:
        found = list(connected.batch(batch_id).jobs())
    rows = [
        (
            each.id,
            each.name or "-",
            each.workunit,
            each.status,
            "; ".join(given.file_name or given.name for given in each.inputs) or "-",
            " ".join(f"{name}={value}" for name, value in each.args.items()) or "-",
            each.host or "-",
            each.error or ", ".join(o.name for o in each.outputs),
        )
        for each in found
    ]
    common.out.table(
        found,
        ["id", "name", "workunit", "status", "inputs", "arguments", "host", "outputs or error"],
        rows,
        empty="The batch has no jobs.",
    )


@commands.command("results")
def results(
    batch_id: BatchArgument,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write outputs there, a folder for each job, and jobs.csv, which lists them.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for all jobs, with a progress bar.")] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Seconds to wait at most.", show_default=False)
    ] = None,
    *,
    common: Common,
) -> None:
    """Fetch the answers of a batch: those that are there, or with --wait all.

    The exit status is 3 if some jobs have no answer.
    """
    from cobblestone.sdk.answers import AnswerFolder

    out = common.out
    with common.connect() as connected:
        batch = connected.batch(batch_id)
        if wait:
            finish(out, batch, to, timeout=timeout)
            return
        saved: list[Path] = []
        found = list(batch.finished())
        answers = None if to is None else AnswerFolder(to)
        for result in found:
            if answers is not None:
                saved += answers.save(result)
        _report(out, batch, batch.status(), [result.error for result in found if result.error], saved, to)


def finish(out: Output, batch: Batch, to: Path | None, *, timeout: float | None) -> None:
    """Wait for a batch with a progress bar, writing outputs as they come; ends the command with its exit status."""
    from cobblestone.sdk.answers import AnswerFolder
    from cobblestone.sdk.batch import batch_progress

    answers = None if to is None else AnswerFolder(to)
    saved: list[Path] = []
    errors: list[str] = []
    with batch_progress() as bar:
        total = batch.status().njobs
        task = bar.add_task(batch.name, total=total, failed=0)
        told: set[str] = set()

        def tell() -> None:
            """Say why nothing comes: a job that failed may wait for a volunteer who does not exist."""
            for note in batch.status().notes:
                if note not in told:
                    told.add(note)
                    bar.console.print(f"Note: {note}", markup=False, highlight=False)

        for result in batch.results(timeout, waiting=tell):
            if not result.succeeded:
                errors.append(f"{result.name}: {result.error}")
            if answers is not None:
                saved += answers.save(result)
            bar.update(task, advance=1, failed=len(errors))
    _report(out, batch, batch.status(), errors, saved, to)


def _report(
    out: Output, batch: Batch, status: BatchStatus, errors: list[str], saved: list[Path], to: Path | None
) -> None:
    lines = status_lines(status)
    lines += [f"  {error}" for error in errors[:20]]
    if len(errors) > 20:
        lines.append(f"  … and {len(errors) - 20} more: cobblestone batch jobs {batch.id}")
    if status.state == "retired":
        lines.append("The batch is retired: its outputs are deleted.")
    elif to is not None:
        lines.append(f"Wrote {len(saved)} {'file' if len(saved) == 1 else 'files'} to {to}.")
    elif status.n_success:
        lines.append(f"Write the outputs to a folder: cobblestone batch results {batch.id} --to DIR")
    out.show(
        {"batch": status, "errors": errors, "files": [str(path) for path in saved]},
        lines=lines,
        essential=saved,
    )
    if status.n_error:
        error_console().file.flush()
        raise typer.Exit(EXIT_JOBS_FAILED)


@commands.command("cancel")
def cancel(
    batch_id: BatchArgument,
    common: Common,
) -> None:
    """Cancel what is not done yet; answers that are there stay."""
    with common.connect() as connected:
        status = connected.batch(batch_id).cancel()
    common.out.show(status, lines=status_lines(status), essential=[status.state])


@commands.command("retry")
def retry(
    batch_id: BatchArgument,
    common: Common,
) -> None:
    """Submit the jobs that failed or were cancelled anew, as a batch of their own."""
    with common.connect() as connected:
        status = connected.batch(batch_id).retry().status()
    common.out.show(status, lines=status_lines(status), essential=[status.id])


@commands.command("retire")
def retire(
    batch_id: BatchArgument,
    common: Common,
) -> None:
    """Say that a finished batch's outputs are not needed any more: the project deletes them."""
    with common.connect() as connected:
        status = connected.batch(batch_id).retire()
    common.out.show(status, lines=status_lines(status), essential=[status.state])
