"""A joblib backend whose workers are the volunteers' computers.

Functions and arguments go out by cloudpickle, large arrays as files of their own, which are stored once.  What comes back is
never unpickled: see `cobblestone_call`.
"""
# joblib and cloudpickle say nothing of their types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import cloudpickle
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

from cobblestone.api_schema.apps import App
from cobblestone.domain.errors import CobblestoneError, JobError
from cobblestone.sdk.api.batch import JobResult
from cobblestone.sdk.api.connection import JobFailed
from cobblestone.sdk.api.jobs import Content, Job
from cobblestone.sdk.app_definition import AppSpec
from cobblestone.sdk.executor import JobExecutor
from cobblestone.sdk.frameworks import cobblestone_call
from cobblestone.sdk.project import Project, connect

APP = "functions"
RUNNER = Path(cobblestone_call.__file__)
PYTHON = "{}.{}".format(*sys.version_info)
COMMAND = ["python3", RUNNER.name, PYTHON, "{output}", "{inputs}"]
JOBS_AT_A_TIME = 100
OWN_FILE_BYTES = 100_000  #: arrays of this size are files of their own
MAX_FILES = 50
NOT_THERE = "Name its package in the bundle of create_app(), or send your own module: cloudpickle.register_pickle_by_value."


def create_app(
    name: str = APP,
    *,
    bundle: str | Path | None = None,
    project: str | Path | None = None,
    token: str | None = None,
    **more: Any,  # what AppSpec takes
) -> App:
    """Create an app that calls functions; ``more`` are further members of :class:`AppSpec`, such as limits.

    ``bundle`` names the packages that the functions use, in a file as pip takes it; they are sent along with a Python of
    this version.  Without it all volunteers' computers must have this Python, with cloudpickle.

    Raises:
        JobError, ConfigError: a package or interpreter cannot be had; the text says which.
        ConflictError: the name is taken.
    """
    with TemporaryDirectory(prefix="cobblestone-") as folder, connect(project, token) as connected:
        if bundle is not None:
            listed = Path(folder, "requirements.txt")
            listed.write_text(
                f"-r {Path(bundle).absolute()}\ncloudpickle=={cloudpickle.__version__}\n", encoding="utf-8"
            )
            more |= {"bundle": listed, "bundle_python": PYTHON}
        return connected.create_app(AppSpec(name=name, command=COMMAND, files=[RUNNER], **more))


class CobblestoneBackend(AutoBatchingMixin, ParallelBackendBase):
    """``parallel_config("cobblestone", app=…, project=…, token=…)``.

    ``n_jobs`` is how many jobs are in the project at a time.  Short calls are put together to jobs of a minute or more, as
    soon as the first ones show how long they take.
    """

    default_n_jobs = -1
    supports_retrieve_callback = True
    MIN_IDEAL_BATCH_DURATION = 60.0
    MAX_IDEAL_BATCH_DURATION = 1800.0

    def __init__(
        self,
        *,
        app: str = APP,
        project: Project | str | Path | None = None,
        token: str | None = None,
        **more: Any,  # joblib's own
    ) -> None:
        super().__init__(**more)
        self._name = app
        self._given = project
        self._token = token
        self._project: Project | None = None
        self._pool: JobExecutor | None = None
        self._largest = 0.0
        self._arrays: dict[bytes, bytes] = {}  #: by hash: the jobs of one call share them
        self._seconds = 0.0

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many jobs are in the project at a time."""
        return n_jobs if n_jobs and n_jobs > 0 else JOBS_AT_A_TIME

    def configure(self, n_jobs: int = 1, parallel: Any = None, **more: Any) -> int:
        """Connect to the project, and look whether the app can run functions of this Python.

        Raises:
            JobError: it cannot.
        """
        self.parallel = parallel
        app = self._connected().app(self._name)
        if app.command != COMMAND:
            raise JobError(
                f"The app {app.name} runs {' '.join(app.command) or 'a native program'!r}, not functions of Python {PYTHON}."
                f' Make one that does: cobblestone.joblib.create_app("{APP}", bundle="requirements.txt")'
            )
        self._largest = min(app.limits.rsc_memory_bound, app.limits.rsc_disk_bound)
        return self.effective_n_jobs(n_jobs)

    def _connected(self) -> Project:
        if self._project is None:
            given = self._given
            self._project = given if isinstance(given, Project) else connect(given, self._token)
        return self._project

    def submit(
        self, func: Any, callback: Callable[[tuple[Future[JobResult], int]], None] | None = None
    ) -> Future[JobResult]:
        """Send a batch of calls as one job."""
        future: Future[JobResult]
        try:
            job = self._job(func.items)
            if self._pool is None:
                self._pool = self._connected().executor(self._name, name=f"{self._name} (joblib)")
            future = self._pool.submit(job)
        except (
            CobblestoneError,
            RuntimeError,
        ) as error:  # raised in another thread, joblib would not hear it
            future = Future()
            future.set_exception(error)
        if callback is not None:
            future.add_done_callback(lambda done: callback((done, len(func.items))))
        return future

    def _job(self, calls: list[Any]) -> Job:
        """Return calls as a job.  Raises JobError: they cannot be pickled, or are too large."""
        arrays: list[bytes] = []

        def stays(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if view.nbytes < OWN_FILE_BYTES or len(arrays) == MAX_FILES:
                return True
            key = hashlib.sha256(view).digest()
            if key not in self._arrays:
                self._arrays[key] = bytes(view)
            arrays.append(self._arrays[key])
            return False

        try:
            data = cloudpickle.dumps(calls, protocol=5, buffer_callback=stays)
        except Exception as error:  # an object's own code
            raise JobError(
                f"{calls[0][0]!r:.200} or its arguments cannot be sent: {type(error).__name__}: {error}"
            ) from error
        size = len(data) + sum(map(len, arrays))
        if size > self._largest:
            raise JobError(
                f"The arguments of a job have {size / 1e6:.0f} MB; a job of {self._name} may use {self._largest / 1e6:.0f} MB"
                " of memory and disk. Send less, or give the app larger limits."
            )
        return Job(inputs=[Content(each) for each in (data, *arrays)])

    def retrieve_result_callback(self, out: tuple[Future[JobResult], int]) -> list[Any]:
        """Return what the calls of a job returned.

        Raises:
            JobFailed: a function raised something, or the job has no usable answer.
        """
        future, count = out
        result = future.result()
        try:
            answer = cobblestone_call.decode(result.bytes())
        except cobblestone_call.AnswerError as error:
            raise JobFailed(
                f"The answer of {result.name} cannot be used. {error}", job_name=result.name
            ) from error
        if type(answer) is dict:
            raised, where = (str(cast("dict[str, Any]", answer).get(each)) for each in ("error", "traceback"))
            hint = f". {NOT_THERE}" if raised.startswith("ModuleNotFoundError") else ""
            text = f"{raised}{hint}\n\nOn a volunteer's computer:\n{where}"
            raise JobFailed(text, job_name=result.name, stderr=where)
        if type(answer) is not list or len(cast("list[Any]", answer)) != count:
            text = f"The answer of {result.name} does not have the {count} results of its calls."
            raise JobFailed(text, job_name=result.name)
        self._seconds = result.run_time or 0.0
        return answer

    def batch_completed(self, batch_size: int, duration: float) -> None:
        """Learn how long calls take: in the job, without the time that it waited."""
        super().batch_completed(batch_size, self._seconds)

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel all jobs; a later call opens a new batch."""
        self._end(cancel=True)

    def terminate(self) -> None:
        """Delete the outputs, which are all here, and disconnect."""
        self._end(cancel=False)
        self._arrays.clear()
        if self._project is not None and self._project is not self._given:
            self._project.close()
        self._project = None

    def _end(self, *, cancel: bool) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        with suppress(CobblestoneError):  # what the calls returned or raised counts more
            pool.shutdown(cancel_futures=cancel)
            pool.batch.retire()
