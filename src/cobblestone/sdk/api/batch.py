"""A submitted batch: its progress, its finished jobs with their answers, and a folder for outputs."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from io import StringIO
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobblestone.api_schema import endpoints
from cobblestone.api_schema.batches import (
    BatchStatus,
    JobNames,
    JobStatus,
    NewWebhook,
    ResultsPage,
    WebhookStatus,
)
from cobblestone.domain.errors import JobError
from cobblestone.domain.job_table import decode_table
from cobblestone.domain.texts import folder_name
from cobblestone.sdk.api.connection import (
    Connection,
    JobFailed,
    NotFoundError,
    NotRunning,
    RequestRefused,
    Unreachable,
)

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LIST_NAME = "jobs.csv"
COLUMNS: tuple[str, ...] = (
    "job", "name", "folder", "status", "inputs", "arguments", "result", "host", "run_time", "credit", "error",
)  # fmt: skip
_KEY = ("job", "name", "inputs", "arguments")


class Outputs(Mapping[str, bytes]):
    """The outputs of a job by name.  The bytes are downloaded on first access.

    >>> result = next(project.submit("echo", [b"1"]).results())
    >>> dict(result.outputs)
    {'output': b'{"got":1}'}
    """

    def __init__(self, connection: Connection, batch_id: int, job: JobStatus) -> None:
        self._connection = connection
        self._job = batch_id, job.id
        self._names = tuple(output.name for output in job.outputs)

    def __getitem__(self, name: str) -> bytes:
        return self._connection.patient().call(endpoints.GET_OUTPUT, *self._job, self._known(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<Outputs {', '.join(self._names)}>"

    def save(self, name: str, path: Path) -> None:
        """Write an output to a file."""
        self._connection.patient().save(endpoints.GET_OUTPUT, *self._job, self._known(name), target=path)

    def _known(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(f"no output {name!r}; there are: {', '.join(self._names) or 'none'}")
        return name


class JobResult:
    """A finished job, with its answer or the reason why there is none.

    Attributes:
        id: Number of the job.
        name: As it was submitted.
        succeeded: Whether there is an answer.
        error: Why there is none, in words; empty if there is one.
        exit_status: Of the last result that failed; None if none did.
        stderr: The end of what the last failed program wrote to its error output.
        outputs: The output files by name; their bytes are fetched when you look at them.
        inputs: What you called the input files (their paths), in order; empty texts where you gave the content.
        args: The arguments that the job was submitted with.
        result: Name of the result that is the answer, or of the last that failed; as on the project's pages.
        host: Number of the computer that it comes from; None if there is no such result.
        run_time: Seconds that it took there.
        credit: What was granted for it.

    >>> result = next(project.submit("echo", [{"k": 3}]).results())
    >>> result.succeeded, result.json()
    (True, {'got': {'k': 3}})
    >>> [path.name for path in result.save("answers")]
    ['output']
    """

    def __init__(self, connection: Connection, batch_id: int, job: JobStatus) -> None:
        self.id = job.id
        self.name = job.name or job.workunit
        self.succeeded = job.status == "done"
        self.error = job.error
        self.exit_status = job.exit_status
        self.stderr = job.stderr
        self.outputs = Outputs(connection, batch_id, job)
        self.inputs = tuple(each.file_name for each in job.inputs)
        self.args: Mapping[str, str] = job.args
        self.result = job.result
        self.host = job.host
        self.run_time = job.run_time
        self.credit = job.credit

    def __repr__(self) -> str:
        state = "succeeded" if self.succeeded else f"failed: {self.error}" if self.error else "running"
        return f"<JobResult {self.name!r} {state}>"

    def bytes(self, name: str | None = None) -> bytes:
        """Return an output; without a name, the only one or the first.

        Raises:
            JobFailed: the job has no answer.
        """
        return self.outputs[self._name(name)]

    def text(self, name: str | None = None) -> str:
        """Return an output as UTF-8 text; see :meth:`bytes`."""
        return self.bytes(name).decode()

    def json(self, name: str | None = None) -> Any:  # whatever the program wrote
        """Return an output read as JSON, in which Python and others write NaN, too; see :meth:`bytes`."""
        return json.loads(self.bytes(name))

    def save(self, folder: str | Path) -> list[Path]:
        """Write all outputs into a folder named like the job (created if needed); return the paths.

        A second job of the same name gets a folder of its own; see :class:`~cobblestone.sdk.api.batch.AnswerFolder`.
        """
        return AnswerFolder(folder).save(self)

    def raise_for_error(self) -> None:
        """Raise JobFailed unless the job succeeded."""
        if not self.succeeded:
            raise JobFailed(f"Job {self.name}: {self.error}", job_name=self.name, stderr=self.stderr)

    def _name(self, name: str | None) -> str:
        if not self.outputs:
            self.raise_for_error()
        if name is None:
            if not self.outputs:
                raise NotFoundError(f"Job {self.name} has no outputs (or no longer has them).")
            return next(iter(self.outputs))
        return name


def _row(result: JobResult) -> dict[str, object]:
    """Return what the list says of a job, but for its folder."""
    return {
        "job": result.id,
        "name": result.name,
        "status": "done" if result.succeeded else "failed",
        "inputs": "; ".join(result.inputs),
        "arguments": "; ".join(f"{name}={value}" for name, value in result.args.items()),
        "result": result.result,
        "host": result.host,
        "run_time": result.run_time,
        "credit": result.credit,
        "error": result.error,
    }


def _key(row: Mapping[str, object]) -> tuple[str | None, ...]:
    return tuple(str(row[each]) for each in _KEY)


class AnswerFolder:
    """Writes outputs into a folder, with a subfolder for each job.

    The folders are called as the jobs.  Where that name is taken (by inputs of one file name from different folders), a number
    is added.  ``jobs.csv`` lists each job with its folder (none without an answer), inputs and arguments
    (with a semicolon between them), and where the answer comes from; so writing again finds the same places.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open or create the folder.

        Raises:
            JobError: it cannot be made, or is no folder.
        """
        self.path = Path(folder)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(
                f"{self.path} cannot be used as a folder for answers: {error.strerror}."
            ) from error
        self._list = self.path / LIST_NAME
        # another program may write to it, too
        with self._list.open("a", newline="", encoding="utf-8") as file:
            if file.tell() == 0:
                csv.DictWriter(file, COLUMNS).writeheader()
        try:
            rows = csv.DictReader(StringIO(decode_table(self._list.read_bytes()), newline=""))
        except JobError as error:
            raise JobError(f"{self._list}, {error}") from error
        #: By what tells jobs apart, also those of two projects; empty: it has no answer.
        self._folders = {tuple(map(row.get, _KEY)): row.get("folder") or "" for row in rows}

    def save(self, result: JobResult) -> list[Path]:
        """Write all outputs of a job that has an answer, and list the job; return the paths."""
        if not result.succeeded:
            self._enlist(result, "")
            return []
        target = self.path / self._folder_of(result)
        for name in result.outputs:
            result.outputs.save(name, target / name)
        return [target / name for name in result.outputs]

    def _folder_of(self, result: JobResult) -> str:
        known = self._folders.get(_key(_row(result)))
        if known and known == Path(known).name:  # the list may have been edited
            (self.path / known).mkdir(exist_ok=True)
            return known
        first = folder_name(result.name, f"job_{result.id}")
        for name in chain([first], (f"{first}~{number}" for number in count(result.id))):
            with suppress(FileExistsError):  # another job's, perhaps of a program that writes at this moment
                (self.path / name).mkdir()
                self._enlist(result, name)
                return name
        raise AssertionError("numbers do not end")

    def _enlist(self, result: JobResult, folder: str) -> None:
        row = _row(result) | {"folder": folder}
        if self._folders.get(_key(row)) == folder:
            return
        self._folders[_key(row)] = folder
        with self._list.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS).writerow(row)


POLL_SECONDS = 25.0  # how long one request waits on the server for news
PAGE = 200


class Batch:
    """Jobs that were submitted together.

    Attributes:
        id: Number of the batch.
        name: As it was submitted; else that of the app.
        app: The app that its jobs run.
        notes: Why nothing may come, in words, as known when it was submitted.
        connection: To the project.

    >>> batch = project.submit("echo", [1, 2, 3], name="first try")
    >>> sorted(result.json()["got"] for result in batch.results(timeout=60))
    [1, 2, 3]
    >>> status = batch.status()
    >>> status.state, status.n_success, status.n_error
    ('complete', 3, 0)
    """

    def __init__(self, connection: Connection, status: BatchStatus) -> None:
        self.connection = connection
        self.id = status.id
        self.name = status.name
        self.app = status.app
        self.notes = status.notes

    def __repr__(self) -> str:
        return f"<Batch {self.id} {self.name!r} of {self.app}>"

    def status(self) -> BatchStatus:
        """Return the current progress."""
        return self.connection.call(endpoints.GET_BATCH, self.id)

    def jobs(self) -> Iterator[JobStatus]:
        """Yield all jobs, finished or not."""
        after = 0
        while found := self.connection.call(endpoints.LIST_JOBS, self.id, after=after, limit=PAGE).jobs:
            yield from found
            after = found[-1].id

    def results(
        self, timeout: float | None = None, *, waiting: Callable[[], None] | None = None
    ) -> Iterator[JobResult]:
        """Yield jobs as they finish, beginning with those already finished.

        Ends when no job is left.  A job ends failed when the app's limits say so, and also when it failed and nobody at hand is
        left to try it: such a job is cancelled.  ``timeout`` is in seconds, for all of them together; ``waiting`` is called
        whenever nothing has finished for a while.

        Raises:
            TimeoutError: it took longer.
            NotRunning: jobs are open, and the project's server is not running.
        """
        for page in self._pages(timeout):
            for job in page.results:
                yield JobResult(self.connection, self.id, job)
            if waiting is not None and not (page.results or page.finished):
                waiting()

    def finished(self) -> Iterator[JobResult]:
        """Return the jobs finished so far, in the order in which they finished."""
        after, more = 0, True
        while more:
            page = self.connection.call(endpoints.GET_RESULTS, self.id, after=after, limit=PAGE)
            yield from (JobResult(self.connection, self.id, job) for job in page.results)
            after, more = page.next, len(page.results) == PAGE

    def so_far(self) -> Iterator[JobResult]:
        """Return the jobs that still run and have uploaded outputs before their end.  No one has checked these outputs."""
        for job in self.jobs():
            if job.status == "running" and job.outputs:
                yield JobResult(self.connection, self.id, job)

    def _pages(self, timeout: float | None) -> Iterator[ResultsPage]:
        deadline = None if timeout is None else time.monotonic() + timeout
        after = 0
        while True:
            left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
            wait = 0.0 if self.connection.in_process else max(0.0, min(POLL_SECONDS, left))
            page = self.connection.patient().call(
                endpoints.GET_RESULTS,
                self.id,
                timeout=wait + 60,
                after=after,
                wait=round(wait, 3),
                limit=PAGE,
            )
            yield page
            if page.finished:
                return
            after = page.next
            if not page.results:
                if self.connection.in_process:
                    raise NotRunning(
                        "Jobs of this batch are open, and the project's server is not running."
                        " Start it with: cobblestone run"
                    )
                self.end_stuck()
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"Batch {self.id} did not finish in {timeout:g} s.")

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> BatchStatus:
        """Wait until all jobs are finished, optionally with a progress bar.  Raises as :meth:`results` does."""
        if not progress:
            for _ in self._pages(timeout):
                pass
            return self.status()
        with batch_progress() as bar:
            task = bar.add_task(self.name, total=None, failed=0)
            self._show(bar, task, self.status())
            for page in self._pages(timeout):
                if page.results or page.finished:
                    self._show(bar, task, self.status())
        return self.status()

    def _show(self, bar: Progress, task: TaskID, status: BatchStatus) -> None:
        bar.update(
            task, total=status.njobs, completed=status.n_success + status.n_error, failed=status.n_error
        )

    def save(self, folder: str | Path, timeout: float | None = None) -> list[Path]:
        """Write the outputs of all jobs into a folder as they finish, a subfolder for each job; return the paths.

        ``jobs.csv`` in it lists all jobs: inputs, arguments, folder, computer, credit, and why some have no answer.
        """
        answers = AnswerFolder(folder)
        return [path for result in self.results(timeout) for path in answers.save(result)]

    def end_stuck(self) -> list[JobStatus]:
        """Cancel jobs that failed and that nobody at hand is left to try; return them, with what went wrong."""
        # a token that may only read; an answer that can be had later
        with suppress(RequestRefused, Unreachable):
            stuck = self.connection.call(endpoints.LIST_STUCK_JOBS, self.id).jobs
            if stuck:
                body = JobNames(workunits=[job.workunit for job in stuck])
                self.connection.call(endpoints.CANCEL_JOBS, self.id, body=body)
            return stuck
        return []

    def cancel(self) -> BatchStatus:
        """Cancel the unfinished jobs."""
        return self.connection.call(endpoints.CANCEL_BATCH, self.id)

    def retry(self) -> Batch:
        """Submit the failed or cancelled jobs again, as a new batch.  Raises ConflictError if there are none."""
        return Batch(self.connection, self.connection.call(endpoints.RETRY_BATCH, self.id))

    def retire(self) -> BatchStatus:
        """Retire the batch: its outputs are deleted."""
        return self.connection.call(endpoints.RETIRE_BATCH, self.id)

    # -- webhooks ---------------------------------------------------------------------------------------

    def add_webhook(self, url: str) -> str:
        """Let finished jobs be sent to an address, in place of any given before; return the secret that signs the messages.

        Messages have the form of Standard Webhooks, with a page of results as JSON.

        Raises:
            RequestRefused: nothing may be sent there.
        """
        return self.connection.call(endpoints.PUT_WEBHOOK, self.id, body=NewWebhook(url=url)).secret

    def webhook(self) -> WebhookStatus:
        """Return how the batch's webhook fares.  Raises NotFoundError if there is none."""
        return self.connection.call(endpoints.GET_WEBHOOK, self.id)

    def remove_webhook(self) -> WebhookStatus:
        """Remove the webhook.  Raises NotFoundError if there is none."""
        return self.connection.call(endpoints.DELETE_WEBHOOK, self.id)


def batch_progress() -> Progress:
    """Return a progress bar for batches, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
