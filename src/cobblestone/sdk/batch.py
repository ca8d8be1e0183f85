"""A submitted batch: its progress and its results as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cobblestone.api_schema.batches import BatchStatus, JobList, JobStatus, ResultsPage
from cobblestone.sdk.answers import AnswerFolder, JobResult
from cobblestone.sdk.connection import Connection
from cobblestone.sdk.errors import NotRunning

POLL_SECONDS = 25.0  # how long one request waits on the server for news
PAGE = 200


class Batch:
    """Jobs that were submitted together.

    Attributes:
        id: Number of the batch.
        name: As it was submitted; else that of the app.
        app: The app that its jobs run.
        notes: Why nothing may come, in words, as known when it was submitted.

    >>> batch = project.submit("echo", [1, 2, 3], name="first try")
    >>> sorted(result.json()["got"] for result in batch.results(timeout=60))
    [1, 2, 3]
    >>> status = batch.status()
    >>> status.state, status.n_success, status.n_error
    ('complete', 3, 0)
    """

    def __init__(self, connection: Connection, status: BatchStatus) -> None:
        self._connection = connection
        self.id = status.id
        self.name = status.name
        self.app = status.app
        self.notes = status.notes

    def __repr__(self) -> str:
        return f"<Batch {self.id} {self.name!r} of {self.app}>"

    def status(self) -> BatchStatus:
        """How far it is now."""
        return self._connection.get(f"/batches/{self.id}", BatchStatus)

    def jobs(self) -> Iterator[JobStatus]:
        """All jobs, finished or not."""
        after = 0
        while found := self._connection.get(
            f"/batches/{self.id}/jobs", JobList, after=after, limit=PAGE
        ).jobs:
            yield from found
            after = found[-1].id

    def results(
        self, timeout: float | None = None, *, waiting: Callable[[], None] | None = None
    ) -> Iterator[JobResult]:
        """Jobs as they finish, those that are finished already first.

        Ends when no job is left.  ``timeout`` is in seconds, for all of them together; ``waiting`` is called whenever
        nothing has finished for a while.

        Raises:
            TimeoutError: it took longer.
            NotRunning: jobs are open, and the project's server is not running.
        """
        for page in self._pages(timeout):
            for job in page.results:
                yield JobResult(self._connection, self.id, job)
            if waiting is not None and not (page.results or page.finished):
                waiting()

    def finished(self) -> Iterator[JobResult]:
        """Jobs that are finished now, in the order in which they did."""
        after, more = 0, True
        while more:
            page = self._connection.get(f"/batches/{self.id}/results", ResultsPage, after=after, limit=PAGE)
            yield from (JobResult(self._connection, self.id, job) for job in page.results)
            after, more = page.next, len(page.results) == PAGE

    def _pages(self, timeout: float | None) -> Iterator[ResultsPage]:
        deadline = None if timeout is None else time.monotonic() + timeout
        after = 0
        while True:
            left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
            wait = 0.0 if self._connection.in_process else max(0.0, min(POLL_SECONDS, left))
            page = self._connection.get(
                f"/batches/{self.id}/results",
                ResultsPage,
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
                if self._connection.in_process:
                    raise NotRunning(
                        "Jobs of this batch are open, and the project's server is not running."
                        " Start it with: cobblestone run"
                    )
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"Batch {self.id} did not finish in {timeout:g} s.")

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> BatchStatus:
        """Wait until no job is left; with a progress bar if wanted.  Raises as :meth:`results` does."""
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
            task,
            total=status.njobs,
            completed=status.n_success + status.n_error,
            failed=status.n_error,
        )

    def save(self, folder: str | Path, timeout: float | None = None) -> list[Path]:
        """Write the outputs of all jobs into a folder as they finish, a folder for each job; return the paths.

        ``jobs.csv`` in it lists all jobs: inputs, arguments, folder, computer, credit, and why some have no answer.
        """
        answers = AnswerFolder(folder)
        return [path for result in self.results(timeout) for path in answers.save(result)]

    def cancel(self) -> BatchStatus:
        """Cancel what is not done yet."""
        return self._connection.post(f"/batches/{self.id}/cancel", {}, BatchStatus)

    def retry(self) -> Batch:
        """Submit the jobs that failed or were cancelled anew, as a batch of their own.  Raises ConflictError: there are none."""
        return Batch(self._connection, self._connection.post(f"/batches/{self.id}/retry", {}, BatchStatus))

    def retire(self) -> BatchStatus:
        """Say that the outputs are not needed any more: they are deleted."""
        return self._connection.post(f"/batches/{self.id}/retire", {}, BatchStatus)


def batch_progress() -> Progress:
    """Return a progress bar for batches, on standard error."""
    from rich.console import Console

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
