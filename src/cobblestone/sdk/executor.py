"""A ``concurrent.futures.Executor`` whose workers are the volunteers' computers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

from cobblestone.api_schema.batches import (
    MAX_JOBS_PER_REQUEST,
    BatchStatus,
    JobStatus,
    MoreJobs,
    NewBatch,
    ResultsPage,
)
from cobblestone.domain.errors import CobblestoneError, JobError
from cobblestone.sdk.batch import Batch, JobResult
from cobblestone.sdk.connection import Connection
from cobblestone.sdk.errors import JobFailed, NotRunning, RequestRefused
from cobblestone.sdk.jobs import FileSender, Job, as_job

COLLECT_SECONDS = 0.05  # submissions that come within this time share a request
POLL_SECONDS = 25.0

_Waiting = tuple[Future[JobResult], Job]


class JobExecutor(Executor):
    """Each ``submit`` is one job of an open batch; its future gives a :class:`JobResult`.

    Use as a context manager: leaving it waits for all jobs.
    """

    def __init__(self, connection: Connection, app: str, *, name: str = "", priority: int = 0) -> None:
        """Open a batch.

        Raises:
            NotRunning: the project's server is not running, so no job would ever finish.
        """
        if connection.in_process:
            raise NotRunning("An executor needs a running project. Start it with: cobblestone run")
        self._connection = connection
        body = NewBatch(app=app, name=name or f"{app} (executor)", priority=priority, open=True)
        self.batch = Batch(connection, connection.post("/batches", body, BatchStatus))
        self._files = FileSender(connection)
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._futures: dict[str, Future[JobResult]] = {}  # by workunit name
        self._closed = False
        self._sent = 0
        self._failure: CobblestoneError | None = None
        self._sender = threading.Thread(target=self._send_all, name="cobblestone-submit", daemon=True)
        self._receiver = threading.Thread(target=self._receive_all, name="cobblestone-results", daemon=True)
        self._sender.start()
        self._receiver.start()

    def submit(self, item: Any, /, *args: object, **kwargs: object) -> Future[JobResult]:  # pyright: ignore[reportIncompatibleMethodOverride]  # an input instead of a function: the function is the app
        """Submit a job: a path, bytes, an object for JSON, or a :class:`Job`; ``kwargs`` fill ``{arg:NAME}``.

        The future raises JobFailed if the job has no answer.
        """
        if args:
            raise TypeError("submit() takes one input; give further values by name: submit(input, k=3)")
        future: Future[JobResult] = Future()
        job = as_job(item, kwargs)
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._failure is not None:
                raise self._failure
            self._queue.put((future, job))
        return future

    def map(  # pyright: ignore[reportIncompatibleMethodOverride]  # inputs instead of a function: the function is the app
        self, items: Iterable[object], *, timeout: float | None = None, **kwargs: object
    ) -> Iterator[JobResult]:
        """Submit a job for each item; results in the order of the items.  ``timeout`` in seconds for each."""
        futures = [self.submit(item, **kwargs) for item in items]
        return (future.result(timeout) for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; wait for those that are open, or cancel them."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._sender.join()
        if cancel_futures:
            self.batch.cancel()
        if wait:
            self._receiver.join()

    # -- sending: one thread, so that the jobs' positions are known ----------------------------------

    def _send_all(self) -> None:
        try:
            open_ = True
            while open_:
                chunk, open_ = self._collect()
                ready = [item for item in chunk if item[0].set_running_or_notify_cancel()]
                if ready:
                    self._send(ready)
            self._connection.post(f"/batches/{self.batch.id}/close", {}, BatchStatus)
        except CobblestoneError as error:
            self._fail(error)

    def _collect(self) -> tuple[list[_Waiting], bool]:
        """What is waiting, and whether more may come."""
        item = self._queue.get()
        chunk: list[_Waiting] = []
        while item is not None:
            chunk.append(item)
            if len(chunk) == MAX_JOBS_PER_REQUEST:
                return chunk, True
            try:
                item = self._queue.get(timeout=COLLECT_SECONDS)
            except queue.Empty:
                return chunk, True
        return chunk, False

    def _send(self, chunk: list[_Waiting]) -> None:
        names = [f"{self.batch.app}_{self.batch.id}_{self._sent + place}" for place in range(len(chunk))]
        try:
            bodies = self._files.bodies([job for _, job in chunk])
            with self._lock:  # before the request: a result may come before its answer
                self._futures.update(zip(names, (future for future, _ in chunk), strict=True))
            body = MoreJobs(first=self._sent, jobs=bodies)
            self._connection.post(f"/batches/{self.batch.id}/jobs", body, BatchStatus)
        except (JobError, RequestRefused) as error:
            with self._lock:
                for name in names:
                    self._futures.pop(name, None)
            if len(chunk) == 1:
                chunk[0][0].set_exception(error)
            else:  # one of the jobs is wrong: the others shall run
                for item in chunk:
                    self._send([item])
        else:
            self._sent += len(chunk)

    # -- receiving --------------------------------------------------------------------------------------

    def _receive_all(self) -> None:
        after = 0
        try:
            while True:
                page = self._connection.get(
                    f"/batches/{self.batch.id}/results",
                    ResultsPage,
                    timeout=POLL_SECONDS + 60,
                    after=after,
                    wait=POLL_SECONDS,
                    limit=MAX_JOBS_PER_REQUEST,
                )
                for job in page.results:
                    self._settle(job)
                if page.finished:
                    return
                after = page.next
        except CobblestoneError as error:
            self._fail(error)

    def _settle(self, job: JobStatus) -> None:
        with self._lock:
            future = self._futures.pop(job.workunit, None)
        if future is None:
            return
        result = JobResult(self._connection, self.batch.id, job)
        try:
            result.raise_for_error()
        except JobFailed as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _fail(self, error: CobblestoneError) -> None:
        """Nothing more can be sent or received: everybody who waits is told."""
        with self._lock:
            self._failure = error
            waiting = list(self._futures.values())
            self._futures.clear()
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if item is not None and item[0].set_running_or_notify_cancel():
                waiting.append(item[0])
        for future in waiting:
            if not future.done():
                future.set_exception(error)
