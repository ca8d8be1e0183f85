"""A project, as a program sees it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import TracebackType

from cobblestone.domain.errors import CobblestoneError, ConfigError, Conflict, JobError
from cobblestone.sdk.app_definition import Limits, ProjectFunctions
from cobblestone.sdk.app_package import Command, command_version, split_command
from cobblestone.sdk.batch import Batch, JobResult
from cobblestone.sdk.connection import Connection, open_connection
from cobblestone.sdk.executor import JobExecutor
from cobblestone.sdk.jobs import MAX_JOBS_PER_REQUEST, FileSender, as_job, in_chunks
from cobblestone.sdk.locate import locate
from cobblestone.sdk.models import App, AppList, BatchList, BatchStatus, ProjectStatus, Version, VersionList

APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]{0,59}")

Progress = Callable[[int], None]
"""Is told how many jobs have been handed over so far."""


class Project:
    """A connection to a project.  Use as a context manager, or call :meth:`close`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
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
        """Whether the project's server is running; if not, this process stands in for it."""
        return not self.connection.in_process

    def status(self) -> ProjectStatus:
        """How the project is doing."""
        return self.connection.get("/status", ProjectStatus)

    # -- apps ------------------------------------------------------------------------------------------

    def apps(self) -> list[App]:
        """All apps."""
        return self.connection.get("/apps", AppList).apps

    def app(self, name: str) -> App:
        """An app and its versions in use.  Raises NotFound."""
        return self.connection.get(f"/apps/{name}", App)

    def versions(self, app: str) -> VersionList:
        """All versions of an app, deprecated ones too."""
        return self.connection.get(f"/apps/{app}/versions", VersionList, deprecated=True)

    def create_app(
        self,
        name: str,
        command: str | Sequence[str],
        files: Iterable[str | Path] = (),
        *,
        title: str = "",
        outputs: Sequence[str] = (),
        optional_outputs: Sequence[str] = (),
        stdout: str = "",
        quorum: int = 1,
        compare: str = "bitwise",
        assimilate: str = "",
        function_files: Iterable[str | Path] = (),
        limits: Limits | None = None,
        max_output_bytes: int = 50_000_000,
        gzip_outputs: bool = False,
    ) -> App:
        """Make an app of a command, with its first version.

        ``command`` has placeholders: ``"python3 period.py {input} {output}"``.  ``files`` are sent along.  ``compare``
        and ``assimilate`` are as on the command line: ``numeric:rtol=1e-6``, ``FILE.py:function``.

        Raises:
            JobError, ConfigError: the command, a file, a comparison … is wrong; the text says what to do.
            Conflict: the name is taken.
        """
        package = _command(command, files, outputs, optional_outputs, stdout)
        package.check()
        self._refuse_taken(name)
        functions = ProjectFunctions(
            self.connection.folder, name, beside=[Path(file) for file in function_files]
        )
        body: dict[str, object] = {
            "name": name,
            "title": title,
            "command": package.words,
            "stdout": stdout,
            "outputs": package.output_bodies(max_nbytes=max_output_bytes, gzip=gzip_outputs),
            "comparison": functions.comparison(compare),
            "assimilator": functions.assimilator(assimilate),
            "limits": (limits or Limits()).body(),
            "rules": {"min_quorum": quorum},
            "version": command_version(self.connection, package),
        }
        return self.connection.post("/apps", body, App)

    def update_app(
        self,
        name: str,
        files: Iterable[str | Path],
        *,
        command: str | Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        stdout: str | None = None,
    ) -> Version:
        """Add a version to an app that was made of a command; what is not given stays.

        ``files`` are all files of the new version.

        Raises:
            JobError: the command or a file is wrong, or the app is a native program.
            NotFound: there is no such app.
        """
        app = self.app(name)
        if not app.command:
            raise JobError(
                f"{name} is a native program. Add versions with: cobblestone app version add {name}"
            )
        names = [spec.name for spec in app.outputs if not spec.optional] if outputs is None else outputs
        optional = [spec.name for spec in app.outputs if spec.optional and spec.name not in names]
        package = _command(
            app.command if command is None else command,
            files,
            names,
            optional,
            app.stdout if stdout is None else stdout,
        )
        version = command_version(self.connection, package)
        largest = max(spec.max_nbytes for spec in app.outputs)
        changes = {
            "command": package.words,
            "stdout": package.stdout,
            "outputs": package.output_bodies(max_nbytes=largest, gzip=any(spec.gzip for spec in app.outputs)),
        }
        return self.connection.post(f"/apps/{name}/versions", {**version, "app_changes": changes}, Version)

    def _refuse_taken(self, name: str) -> None:
        if not APP_NAME.fullmatch(name):
            raise ConfigError(
                f"The app name {name!r} must be 1 to 60 letters, digits, _ and -, and begin with a letter or digit."
            )
        if any(app.name == name for app in self.apps()):
            raise Conflict(
                f"There is already an app called {name}. Change it with: cobblestone app update {name} --files …"
            )

    # -- batches ---------------------------------------------------------------------------------------

    def submit(
        self,
        app: str,
        inputs: Iterable[object],
        *,
        args: Mapping[str, object] | None = None,
        name: str = "",
        priority: int = 0,
        progress: Progress | None = None,
    ) -> Batch:
        """Submit one job for each input.

        An input is a path (text or Path), bytes, an object to be written as JSON, or a :class:`Job` for several
        files.  ``args`` fill ``{arg:NAME}`` in all jobs.  Up to 1000 jobs are stored together or not at all; more go
        in several requests, and if one of them fails, the batch is cancelled.

        Raises:
            JobError: a file cannot be read.
            RequestRefused: the project does not take the jobs; the text says which one and why.
        """
        jobs = (as_job(item, args or {}) for item in inputs)
        first = list(islice(jobs, MAX_JOBS_PER_REQUEST))
        following = next(jobs, None)
        body = {
            "app": app,
            "name": name,
            "priority": priority,
            "open": following is not None,
            "jobs": self._files.bodies(first),
        }
        status = self.connection.post("/batches", body, BatchStatus)
        batch = Batch(self.connection, status)
        if progress is not None:
            progress(len(first))
        if following is None:
            return batch
        try:
            for chunk in in_chunks(chain([following], jobs), MAX_JOBS_PER_REQUEST):
                more = {"first": status.njobs, "jobs": self._files.bodies(chunk)}
                status = self.connection.post(f"/batches/{batch.id}/jobs", more, BatchStatus)
                if progress is not None:
                    progress(status.njobs)
            self.connection.post(f"/batches/{batch.id}/close", {}, BatchStatus)
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
        """A batch that was submitted before.  Raises NotFound."""
        return Batch(self.connection, self.connection.get(f"/batches/{batch_id}", BatchStatus))

    def batches(self, *, limit: int = 100) -> list[BatchStatus]:
        """Batches, the newest first."""
        return self.connection.get("/batches", BatchList, limit=limit).batches

    def executor(self, app: str, *, name: str = "", priority: int = 0) -> JobExecutor:
        """An executor whose workers are the volunteers' computers."""
        return JobExecutor(self.connection, app, name=name, priority=priority)

    def map(
        self, app: str, inputs: Iterable[object], *, args: Mapping[str, object] | None = None
    ) -> Iterator[JobResult]:
        """Submit one job for each input and give the results in the order of the inputs."""
        batch = self.submit(app, inputs, args=args)
        waiting: dict[int, JobResult] = {}
        order = [job.id for job in batch.jobs()]
        results = batch.results()
        for job_id in order:
            while job_id not in waiting:
                result = next(results)
                waiting[result.id] = result
            yield waiting.pop(job_id)


def _command(
    command: str | Sequence[str],
    files: Iterable[str | Path],
    outputs: Sequence[str],
    optional_outputs: Sequence[str],
    stdout: str,
) -> Command:
    return Command(
        words=split_command(command) if isinstance(command, str) else list(command),
        files=[Path(file) for file in files],
        outputs=outputs,
        optional_outputs=optional_outputs,
        stdout=stdout,
    )


def connect(project: str | Path | None = None, token: str | None = None) -> Project:
    """Connect to a project.

    ``project`` is its address (then a token is needed) or its folder on this machine; without it the variable
    COBBLESTONE_PROJECT counts, else the current folder or one above it.  If the server of a folder is not running, this
    process opens the folder itself: apps can be made and jobs submitted, and they wait until the project runs.

    Raises:
        ConfigError: there is no project there, or the token is missing.
        Busy: the folder is open in another process that does not answer.
        Unreachable: the project does not answer.
    """
    return Project(open_connection(locate(project, token)))
