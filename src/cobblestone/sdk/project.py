"""A project, as a program uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path, PurePath
from types import TracebackType

from cobblestone.api_schema import batches as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.project import ProjectStatus
from cobblestone.domain.errors import CobblestoneError, JobError
from cobblestone.sdk.api.administration import Administration, Operation
from cobblestone.sdk.api.batch import Batch, JobResult
from cobblestone.sdk.api.connection import Connection, locate, open_connection
from cobblestone.sdk.api.jobs import Content, FileSender, Job, Sending, as_job, in_chunks
from cobblestone.sdk.apps import AppMethods
from cobblestone.sdk.executor import JobExecutor

#: Is told how many jobs have been handed over so far.
Progress = Callable[[int], None]


class Project(AppMethods):
    """A project, as a program uses it.  Created by :func:`connect`; use as a context manager, or call :meth:`close`.

    >>> project.running
    True
    >>> [app.name for app in project.apps()]
    ['echo']
    >>> [result.json() for result in project.map("echo", [3, 1, 2])]
    [{'got': 3}, {'got': 1}, {'got': 2}]
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._files = FileSender(connection)

    def __enter__(self) -> Project:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    @property
    def running(self) -> bool:
        """Return whether the project's server is running; if not, this process replaces it."""
        return not self.connection.in_process

    @property
    def admin(self) -> Administration:
        """Return the calls for operators: tokens, accounts, teams, news."""
        return Administration(self.connection)

    @property
    def operation(self) -> Operation:
        """Return the calls to operate a running project: cancel, retry, block, roll out, check."""
        return Operation(self.connection)

    def status(self) -> ProjectStatus:
        """Return the state of the project."""
        return self.connection.call(endpoints.GET_STATUS)

    # -- batches ---------------------------------------------------------------------------------------

    def submit(
        self,
        app: str,
        inputs: Iterable[object],
        *,
        args: Mapping[str, object] | None = None,
        name: str = "",
        priority: int = 0,
        target: Mapping[str, int] | None = None,
        progress: Progress | None = None,
        sending: Sending = lambda sent, total: None,
    ) -> Batch:
        """Submit one job for each input.

        An input is a path (text or Path), bytes, an object to be written as JSON, or a :class:`Job` for several
        files.  ``args`` fill ``{arg:NAME}`` in all jobs.  ``target``: only one computer, the computers of one user, or
        those of a team's members get them: ``{"host": 17}``, ``{"user": 5}``, ``{"team": 2}``.  ``progress`` hears the
        number of jobs submitted so far, ``sending`` the bytes of input files that were sent and how many there are to send.

        Up to 1000 jobs are stored together or not at all; more go in several requests, and if one of them fails, the
        batch is cancelled.

        Raises:
            JobError: a file cannot be read, or ``inputs`` is a single one.
            RequestRefused: the project does not take the jobs; the text says which one and why.
        """
        kind = type(inputs).__name__
        if isinstance(inputs, str | bytes | PurePath | Mapping | Job | Content):
            raise JobError(
                f"submit() takes a list of inputs, one job for each; this is a single {kind}."
                " For one job write it in brackets: submit(app, [input])"
            )
        jobs = (as_job(item, args or {}) for item in inputs)
        first = list(islice(jobs, schema.MAX_JOBS_PER_REQUEST))
        following = next(jobs, None)
        chosen = schema.TargetBody(**target) if target else None
        body = schema.NewBatch(
            app=app,
            name=name,
            priority=priority,
            target=chosen,
            open=following is not None,
            jobs=self._files.bodies(first, sending=sending),
        )
        status = self.connection.call(endpoints.CREATE_BATCH, body=body)
        batch = Batch(self.connection, status)
        if progress is not None:
            progress(len(first))
        if following is None:
            return batch
        try:
            for chunk in in_chunks(chain([following], jobs), schema.MAX_JOBS_PER_REQUEST):
                bodies = self._files.bodies(chunk, sending=sending)
                more = schema.MoreJobs(first=status.njobs, jobs=bodies, target=chosen)
                status = self.connection.call(endpoints.ADD_JOBS, batch.id, body=more)
                if progress is not None:
                    progress(status.njobs)
            self.connection.call(endpoints.CLOSE_BATCH, batch.id)
        except BaseException as error:
            self._abandon(batch, error)
            raise
        return batch

    def _abandon(self, batch: Batch, error: BaseException) -> None:
        try:
            batch.cancel()
        except CobblestoneError:
            error.add_note(f"Batch {batch.id} is incomplete. Cancel it: cobblestone batch cancel {batch.id}")
        else:
            error.add_note(f"Batch {batch.id} was incomplete and has been cancelled.")

    def batch(self, batch_id: int) -> Batch:
        """Return a batch that was submitted earlier.  Raises NotFoundError."""
        return Batch(self.connection, self.connection.call(endpoints.GET_BATCH, batch_id))

    def batches(self, *, limit: int = 100) -> list[schema.BatchStatus]:
        """Return batches, newest first."""
        return self.connection.call(endpoints.LIST_BATCHES, limit=limit).batches

    def executor(
        self, app: str, *, name: str = "", priority: int = 0, batch: Batch | None = None
    ) -> JobExecutor:
        """Return an executor whose workers are the volunteers' computers; with ``batch`` it goes on with an open one."""
        return JobExecutor(self.connection, app, name=name, priority=priority, batch=batch)

    def map(
        self, app: str, inputs: Iterable[object], *, args: Mapping[str, object] | None = None
    ) -> Iterator[JobResult]:
        """Submit one job for each input and yield the results in the order of the inputs."""
        batch = self.submit(app, inputs, args=args)
        waiting: dict[int, JobResult] = {}
        order = [job.id for job in batch.jobs()]
        results = batch.results()
        for job_id in order:
            while job_id not in waiting:
                result = next(results)
                waiting[result.id] = result
            yield waiting.pop(job_id)


def connect(project: str | Path | None = None, token: str | None = None) -> Project:
    """Connect to a project.

    ``project`` is its address (then a token is needed) or its folder on this machine; without it the variable
    COBBLESTONE_PROJECT counts, else the current folder or one above it.  If the server of a folder is not running, this
    process opens the folder itself: apps can be made and jobs submitted, and they wait until the project runs.

    Raises:
        ConfigError: there is no project there, or the token is missing.
        BusyError: the folder is open in another process that does not answer.
        Unreachable: the project does not answer.

    >>> with connect("sky") as project:
    ...     project.running, [app.name for app in project.apps()]
    (False, ['period'])
    """
    return Project(open_connection(locate(project, token)))
