"""``cobblestone submit`` and ``batch``: jobs for an app, and their state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from cobblestone.cli.completion import batch_ids
from cobblestone.cli.options import Common
from cobblestone.cli.output import Output, error_console, when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.cli.work import app_options as o
from cobblestone.domain.texts import several

if TYPE_CHECKING:
    from cobblestone.api_schema.apps import App
    from cobblestone.api_schema.batches import BatchStatus
    from cobblestone.sdk.api.batch import Batch


EXIT_JOBS_FAILED = 3

batch_commands = Commands(help="Batches: submitted jobs and their answers.")
BatchArgument = Annotated[int, Argument(metavar="ID", help="Number of the batch.", complete=batch_ids)]


def status_lines(status: BatchStatus) -> list[str]:
    """Return a batch's state as lines for people; the first line names it."""
    open_ = status.njobs - status.n_success - status.n_error
    return [
        f"Batch {status.id} ({status.name}, app {status.app}): {status.state}, {status.fraction_done:.0%}",
        (
            f"  jobs {status.njobs}: {status.n_success} done, {status.n_error} failed or cancelled,"
            f" {status.running} sent to computers, {open_ - status.running} waiting"
        ),
        *(f"  {note}" for note in status.notes),
    ]


@batch_commands.verb("status")
def show_status(batch_id: BatchArgument, common: Common) -> None:
    """Show the progress of a batch."""
    status = common.ask(lambda connected: connected.batch(batch_id).status())
    common.out.show(
        status,
        lines=[
            *status_lines(status),
            f"  submitted {when(status.created)}, completed {when(status.completed)}",
        ],
        essential=[status.state],
    )


@batch_commands.verb("list")
def list_batches(
    limit: Annotated[int, Option(min=1, max=1000, help="How many to show, newest first.")] = 50,
    common: Common = Common(),
) -> None:
    """List batches, newest first."""
    found = common.ask(lambda connected: connected.batches(limit=limit))
    common.out.listing(
        found,
        {
            "id": lambda each: each.id,
            "name": lambda each: each.name,
            "app": lambda each: each.app,
            "state": lambda each: each.state,
            "jobs": lambda each: each.njobs,
            "done": lambda each: each.n_success,
            "failed": lambda each: each.n_error,
            "submitted": lambda each: when(each.created),
        },
        empty="No batches yet. Submit one with: cobblestone submit APP inputs/*",
        right=("id", "jobs", "done", "failed"),
    )


@batch_commands.verb("jobs")
def list_jobs(batch_id: BatchArgument, common: Common) -> None:
    """List the jobs of a batch, and why some failed."""
    found = common.ask(lambda connected: list(connected.batch(batch_id).jobs()))
    common.out.listing(
        found,
        {
            "id": lambda each: each.id,
            "name": lambda each: each.name or "-",
            "workunit": lambda each: each.workunit,
            "status": lambda each: each.status,
            "inputs": lambda each: "; ".join(given.file_name or given.name for given in each.inputs) or "-",
            "arguments": lambda each: " ".join(f"{name}={value}" for name, value in each.args.items()) or "-",
            "host": lambda each: each.host or "-",
            "outputs or error": lambda each: each.error or ", ".join(o.name for o in each.outputs),
        },
        empty="The batch has no jobs.",
    )


@batch_commands.verb("results")
def results(
    batch_id: BatchArgument,
    to: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Write the outputs to this folder, with one folder per job, and jobs.csv, which lists them.",
        ),
    ] = None,
    wait: Annotated[bool, Option("--wait", help="Wait for all jobs, with a progress bar.")] = False,
    timeout: Annotated[float | None, Option(min=0, help="Wait for this many seconds at most.")] = None,
    common: Common = Common(),
) -> None:
    """Fetch the answers of a batch: those available now, or with --wait all.

    The exit status is 3 if some jobs have no answer.
    """
    from cobblestone.sdk.api.batch import AnswerFolder

    out = common.out
    with common.connect() as connected:
        batch = connected.batch(batch_id)
        if wait or timeout is not None:
            finish(out, batch, to, timeout=timeout)
            return
        saved: list[Path] = []
        found = list(batch.finished())
        answers = None if to is None else AnswerFolder(to)
        for result in found:
            if answers is not None:
                saved += answers.save(result)
        errors = [f"{result.name}: {result.error}" for result in found if result.error]
        _report(out, batch, batch.status(), errors, saved, to)


def finish(out: Output, batch: Batch, to: Path | None, *, timeout: float | None) -> None:
    """Wait for a batch with a progress bar, writing outputs as they arrive; exits with the command's status."""
    from cobblestone.sdk.api.batch import AnswerFolder, batch_progress

    answers = None if to is None else AnswerFolder(to)
    saved: list[Path] = []
    errors: list[str] = []
    with batch_progress() as bar:
        total = batch.status().njobs
        task = bar.add_task(batch.name, total=total, failed=0)
        told: set[str] = set()

        def tell() -> None:
            """Explain why nothing arrives: a failed job may wait for a volunteer who does not exist."""
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
        raise click.exceptions.Exit(EXIT_JOBS_FAILED)


@batch_commands.verb("cancel")
def cancel(batch_id: BatchArgument, common: Common) -> None:
    """Cancel the unfinished jobs of a batch; existing answers stay."""
    status = common.ask(lambda connected: connected.batch(batch_id).cancel())
    common.out.show(status, lines=status_lines(status), essential=[status.state])


@batch_commands.verb("retry")
def retry(batch_id: BatchArgument, common: Common) -> None:
    """Submit the failed or cancelled jobs again, as a new batch."""
    status = common.ask(lambda connected: connected.batch(batch_id).retry().status())
    common.out.show(status, lines=status_lines(status), essential=[status.id])


@batch_commands.verb("retire")
def retire(batch_id: BatchArgument, common: Common) -> None:
    """Retire a finished batch: the project deletes its outputs."""
    status = common.ask(lambda connected: connected.batch(batch_id).retire())
    common.out.show(status, lines=status_lines(status), essential=[status.state])


@batch_commands.verb("webhook")
def webhook(
    batch_id: BatchArgument,
    url: Annotated[str | None, Argument(metavar="URL", help="Where to tell finished jobs.")] = None,
    remove: Annotated[bool, Option("--remove", help="Tell nothing more.")] = False,
    common: Common = Common(),
) -> None:
    """Tell finished jobs of a batch to an address; without one, show how that fares.

    Messages are JSON, signed with the secret that this command prints, in the form of Standard Webhooks.
    """
    if url is not None:
        secret = common.ask(lambda connected: connected.batch(batch_id).add_webhook(url))
        lines = ["The secret with which messages are signed; it is shown only once:", secret]
        common.out.show({"url": url, "secret": secret}, lines=lines, essential=[secret])
        return
    with common.connect() as connected:
        batch = connected.batch(batch_id)
        found = batch.remove_webhook() if remove else batch.webhook()
    error = f" Last error: {found.error}." if found.error else ""
    lines = [f"{found.url}: {found.state}, {several(found.told, 'job')} told.{error}"]
    common.out.show(found, lines=lines, essential=[found.state])


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Options that restrict who gets the jobs."""

    for_host: Annotated[int | None, Option(metavar="ID", min=1)] = None
    """Only for this computer."""
    for_user: Annotated[int | None, Option(metavar="ID", min=1)] = None
    """Only for this user's computers."""
    for_team: Annotated[int | None, Option(metavar="ID", min=1)] = None
    """Only for computers of this team's members."""

    def body(self) -> dict[str, int]:
        """Return the options as an API body."""
        given = {"host": self.for_host, "user": self.for_user, "team": self.for_team}
        return {kind: number for kind, number in given.items() if number is not None}


def submit(
    name: o.NameArgument,
    inputs: Annotated[
        list[Path] | None, Argument(metavar="INPUT", help="Input files: one job for each.")
    ] = None,
    jobs: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Jobs as .csv (columns: inputs and arguments) or .jsonl, instead of input files.",
        ),
    ] = None,
    arg: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="Value for {arg:NAME} in all jobs.")
    ] = None,
    together: Annotated[bool, Option("--together", help="One job with all input files.")] = False,
    batch_name: Annotated[str, Option("--name", help="Name of the batch. Default: the app's.")] = "",
    priority: Annotated[int, Option(help="Jobs with a higher priority are sent first.")] = 0,
    *,
    target: TargetOptions,
    wait: Annotated[bool, Option("--wait", help="Wait for the answers, with a progress bar.")] = False,
    to: Annotated[
        Path | None, Option(metavar="DIR", help="Wait, and write the answers to this folder.")
    ] = None,
    common: Common,
) -> None:
    """Submit jobs: one for each input file, or those of a list.

    Values of --arg hold for all jobs; a list of jobs can have its own.
    """
    from rich import progress as bars

    from cobblestone.sdk.api.batch import AnswerFolder

    args = read_arguments(arg or [])
    out = common.out
    with common.connect() as connected:
        items = _items(connected.app(name), inputs or [], jobs, together=together)
        if to is not None:
            AnswerFolder(to)  # before anything is sent
        columns = (
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.DownloadColumn(),
            bars.TransferSpeedColumn(),
        )
        with bars.Progress(*columns, console=error_console(), transient=True) as bar:
            task = bar.add_task("Reading the input files …", total=None)

            def sending(sent: int, total: int) -> None:
                doing = "Uploading …" if sent < total else "The server is checking and storing …"
                bar.update(task, completed=sent, total=total, description=doing)

            batch = connected.submit(
                name,
                items,
                args=args,
                name=batch_name,
                priority=priority,
                target=target.body(),
                progress=lambda n: bar.update(task, description=f"{several(n, 'job')} submitted …"),
                sending=sending,
            )
        status = batch.status()
        if wait or to is not None:
            out.say(f"Batch {batch.id}: {several(status.njobs, 'job')}.")
            finish(out, batch, to, timeout=None)
            return
        out.show(status, lines=_submitted(status, name, running=connected.running), essential=[batch.id])


def _submitted(status: BatchStatus, app: str, *, running: bool) -> list[str]:
    """Return the lines about what was submitted, and the next steps."""
    if running:
        following = f"Answers: cobblestone batch results {status.id} --wait --to DIR"
    else:
        following = "The project is not running; its jobs wait. Start it with: cobblestone run"
    first = f"Submitted batch {status.id}: {several(status.njobs, 'job')} of {app}."
    return [first, *status_lines(status)[1:], "", following]


def read_arguments(given: list[str]) -> dict[str, str]:
    """Return the values of ``--arg``."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"--arg {text!r}: write NAME=VALUE")
        if key in found:
            raise click.BadParameter(f"--arg {key} is given twice")
        found[key] = value
    return found


def _items(app: App, inputs: list[Path], jobs: Path | None, *, together: bool) -> Iterable[object]:
    """Return what to submit; errors are found before anything is sent."""
    from cobblestone.domain.errors import JobError
    from cobblestone.sdk.api.jobs import Job, read_jobs

    names = [slot.name for slot in app.inputs]
    if jobs is not None:
        if inputs:
            raise click.BadParameter("give input files, or --jobs, not both")
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
                f"Jobs of {app.name} need {several(len(names), 'input file')} ({', '.join(names)})."
                f" Example: cobblestone submit {app.name} inputs/*"
            )
        return [Job()]
    if together:
        return [Job(inputs=list(inputs))]
    if len(names) > 1:
        raise JobError(
            f"A job of {app.name} has {len(names)} input files ({', '.join(names)}), so a plain list is ambiguous. Write"
            f" the jobs to a table with these columns and give it with --jobs; or use --together for one job."
        )
    return inputs
