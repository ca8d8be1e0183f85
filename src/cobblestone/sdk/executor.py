"""A ``concurrent.futures.Executor`` whose workers are the volunteers' computers."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any

from cobblestone.api_schema import batches as schema
from cobblestone.api_schema import endpoints
from cobblestone.domain.errors import CobblestoneError
from cobblestone.sdk.api.batch import Batch, JobResult
from cobblestone.sdk.api.connection import Connection, JobFailed, NotRunning, Unreachable
from cobblestone.sdk.api.jobs import FileSender, Job, as_job

COLLECT_SECONDS = 0.05  # submissions that come within this time share a request
POLL_SECONDS = 5.0
STUCK_SECONDS = 5.0  # between looks for jobs that failed and cannot go on
TELL_SECONDS = 10.0  # how long leaving may take before it says what is open; then six times as long each time
NAMES_TOLD = 5

log = logging.getLogger(__name__)


class JobFuture(Future[JobResult]):
    """The answer of one job of an executor.

    It counts as pending until the job has ended, so :meth:`cancel` works until then: a job that was sent is cancelled in
    the project, and computers that run it are told to stop.
    """

    def __init__(self, executor: JobExecutor, job: Job) -> None:
        super().__init__()
        self.job = job
        self.workunit = ""  #: its name in the project; empty: not sent yet
        self._executor = executor
        self._lock = threading.Lock()
        self._settled = False

    def cancel(self) -> bool:
        """Cancel the job, if it has not ended; return whether it is cancelled."""
        if not super().cancel():
            return False
        self.settle()  # those that wait for it are told
        self._executor.forget(self)
        return True

    def settle(self) -> bool:
        """End being pending; whether the future takes an answer: not if it has one, or was cancelled."""
        with self._lock:
            if self._settled:
                return False
            self._settled = True
            return self.set_running_or_notify_cancel()


class JobExecutor(Executor):
    """Each ``submit`` is one job of an open batch; its future gives a :class:`JobResult`.

    Use as a context manager: leaving it waits for all jobs, and says what is open when that takes long.  Leaving it by an
    exception does not wait: the jobs go on, and how to end them is said.  So does the end of a program that never left it;
    then the batch stays open for another one.
    """

    def __init__(
        self,
        connection: Connection,
        app: str,
        *,
        name: str = "",
        priority: int = 0,
        batch: Batch | None = None,
    ) -> None:
        """Open a batch, or go on with one that a process which ended has left open.

        :attr:`earlier` has the futures of such a batch's jobs by their names, except of those that failed.

        Raises:
            NotRunning: the project's server is not running, so no job would ever finish.
        """
        if connection.in_process:
            raise NotRunning("An executor needs a running project. Start it with: cobblestone run")
        self._connection = connection.patient()
        earlier = () if batch is None else batch.jobs()
        if batch is None:
            body = schema.NewBatch(app=app, name=name or f"{app} (executor)", priority=priority, open=True)
            batch = Batch(connection, connection.call(endpoints.CREATE_BATCH, body=body))
        self.batch = batch
        self.earlier: dict[str, JobFuture] = {}
        self._files = FileSender(self._connection)
        self._queue: queue.SimpleQueue[JobFuture | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._futures: dict[str, JobFuture] = {}  # by workunit name
        self._closed = self._stays_open = False
        self._process = os.getpid()
        self._sent = 0
        self._failure: Exception | None = None
        for job in earlier:
            self._sent += 1
            if job.status not in ("failed", "cancelled"):
                future = self.earlier[job.name] = self._futures[job.workunit] = JobFuture(
                    self, Job(name=job.name)
                )
                future.workunit = job.workunit
        self._sender = threading.Thread(target=self._send_all, name="cobblestone-submit", daemon=True)
        self._receiver = threading.Thread(target=self._receive_all, name="cobblestone-results", daemon=True)
        self._sender.start()
        self._receiver.start()
        atexit.register(self._end_of_program)

    def submit(self, item: Any, /, *args: object, **kwargs: object) -> Future[JobResult]:  # pyright: ignore[reportIncompatibleMethodOverride]  # an input instead of a function: the function is the app
        """Submit a job: a path, bytes, an object for JSON, or a :class:`Job`; ``kwargs`` fill ``{arg:NAME}``.

        The future raises JobFailed if the job has no answer, also when it failed and no computer is left to try it: such
        a job is cancelled.
        """
        if args:
            raise TypeError("submit() takes one input; give further values by name: submit(input, k=3)")
        future = JobFuture(self, as_job(item, kwargs))
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._failure is not None:
                raise self._failure
            self._queue.put(future)
        return future

    def map(  # pyright: ignore[reportIncompatibleMethodOverride]  # inputs instead of a function: the function is the app
        self, items: Iterable[object], *, timeout: float | None = None, **kwargs: object
    ) -> Iterator[JobResult]:
        """Submit a job for each item; results in the order of the items.  ``timeout`` in seconds for each."""
        futures = [self.submit(item, **kwargs) for item in items]
        return (future.result(timeout) for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; wait for the open ones (listing them when it takes long), or cancel them."""
        with self._lock:
            unsent = self._taken_back() if cancel_futures else []
            self._closed = True
            self._queue.put(None)
        for future in unsent:
            future.cancel()
        self._sender.join(TELL_SECONDS)
        if self._sender.is_alive():
            log.warning("Jobs of batch %s are still being sent. Ctrl-C gives them up.", self.batch.id)
            self._sender.join()
        atexit.unregister(self._end_of_program)
        if cancel_futures:
            self._cancel_all()
        if wait:
            self._wait()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if os.getpid() != self._process:
            return  # a child that was forked: the jobs and the connection are its parent's
        self.shutdown(wait=kind is None)
        if kind is not None:
            self._tell_open()

    def _end_of_program(self) -> None:
        """Send what was submitted to an executor that nobody shut down."""
        if os.getpid() != self._process:
            return
        self._stays_open = True
        self.shutdown(wait=False)
        if self._failure is not None:
            log.warning("Not all jobs of batch %s were sent: %s", self.batch.id, self._failure)
        else:
            self._tell_open()

    def forget(self, future: JobFuture) -> None:
        """Cancel the job of a future that is no longer waited for, if it was sent."""
        with self._lock:
            known = self._futures.pop(future.workunit, None) is not None
        if known:
            try:
                self._cancel([future.workunit])
            except CobblestoneError as error:
                log.warning(
                    "Job %s still runs, although it is not needed, because it could not be cancelled: %s",
                    future.workunit,
                    error,
                )

    def _cancel_all(self) -> None:
        with self._lock:
            waiting = list(self._futures.values())
            self._futures.clear()
        for future in waiting:  # also when the project does not answer
            future.cancel()
        self.batch.cancel()

    def _cancel(self, names: list[str]) -> None:
        for first in range(0, len(names), schema.MAX_JOBS_PER_REQUEST):
            body = schema.JobNames(workunits=names[first : first + schema.MAX_JOBS_PER_REQUEST])
            self._connection.call(endpoints.CANCEL_JOBS, self.batch.id, body=body)

    def _wait(self) -> None:
        """Wait for the last answer; from time to time, and when interrupted, print what is open."""
        pause = TELL_SECONDS
        try:
            while self._receiver.is_alive():
                self._receiver.join(pause)
                if self._receiver.is_alive():
                    self._tell_open()
                    pause *= 6
        except BaseException:
            self._tell_open()
            raise

    def _tell_open(self) -> None:
        with self._lock:
            names = [each.job.name or each.workunit for each in self._futures.values()]
        if not names:
            return
        listed = ", ".join(names[:NAMES_TOLD]) + (", …" if len(names) > NAMES_TOLD else "")
        with suppress(CobblestoneError):
            status = self.batch.status()
            text = (
                f"Open jobs of batch {status.id}: {len(names)} of {status.njobs} ({listed}); {status.running} were"
                f" sent to computers. To end them: cobblestone batch cancel {status.id}"
            )
            log.warning("\n  ".join([text, *status.notes]))

    # -- sending: one thread, so that the jobs' positions are known ----------------------------------

    def _send_all(self) -> None:
        ready: list[JobFuture] = []
        try:
            open_ = True
            while open_:
                chunk, open_ = self._collect()
                ready = [future for future in chunk if not future.cancelled()]
                if ready:
                    self._send(ready)
            if not self._stays_open:
                self._connection.call(endpoints.CLOSE_BATCH, self.batch.id)
        except Exception as error:  # noqa: BLE001  # after any mistake, nobody shall wait for ever
            self._fail(error, ready)

    def _collect(self) -> tuple[list[JobFuture], bool]:
        """Return what is waiting, and whether more may come."""
        item = self._queue.get()
        chunk: list[JobFuture] = []
        while item is not None:
            chunk.append(item)
            if len(chunk) == schema.MAX_JOBS_PER_REQUEST:
                return chunk, True
            try:
                item = self._queue.get(timeout=COLLECT_SECONDS)
            except queue.Empty:
                return chunk, True
        return chunk, False

    def _taken_back(self) -> list[JobFuture]:
        """Return what waits to be sent, which then is not."""
        taken: list[JobFuture | None] = []
        with suppress(queue.Empty):
            while True:
                taken.append(self._queue.get_nowait())
        return [each for each in taken if each is not None]

    def _send(self, chunk: list[JobFuture]) -> None:
        names = [f"{self.batch.app}_{self.batch.id}_{self._sent + place}" for place in range(len(chunk))]
        try:
            bodies = self._files.bodies([future.job for future in chunk])
            with self._lock:  # before the request: a result may come before its answer
                for name, future in zip(names, chunk, strict=True):
                    future.workunit = name
                    self._futures[name] = future
            body = schema.MoreJobs(first=self._sent, jobs=bodies)
            self._connection.call(endpoints.ADD_JOBS, self.batch.id, body=body)
        except Exception as error:  # it may be a job's own: a file is gone, a value of a wrong type
            if isinstance(error, Unreachable):
                raise
            with self._lock:
                for name in names:
                    self._futures.pop(name, None)
            if len(chunk) == 1:
                if chunk[0].settle():
                    chunk[0].set_exception(error)
            else:  # one of the jobs is wrong: the others shall run
                for future in chunk:
                    if not future.cancelled():
                        self._send([future])
        else:
            self._sent += len(chunk)
            self._cancel([each.workunit for each in chunk if each.cancelled()])  # while they were on the way

    # -- receiving --------------------------------------------------------------------------------------

    def _receive_all(self) -> None:
        after, looked = 0, time.monotonic()
        try:
            while True:
                page = self._connection.call(
                    endpoints.GET_RESULTS,
                    self.batch.id,
                    timeout=POLL_SECONDS + 60,
                    after=after,
                    wait=POLL_SECONDS,
                    limit=schema.MAX_JOBS_PER_REQUEST,
                )
                for job in page.results:
                    self._settle(job)
                if page.finished or self._failure is not None:  # what was not sent would keep the batch open
                    return
                after = page.next
                if time.monotonic() - looked >= STUCK_SECONDS:
                    self._end_stuck()
                    looked = time.monotonic()
        except Exception as error:  # noqa: BLE001  # after any mistake, nobody shall wait for ever
            self._fail(error)

    def _end_stuck(self) -> None:
        """End the futures of jobs that failed and that no available volunteer can still try."""
        for job in self.batch.end_stuck():
            self._settle(job)

    def _settle(self, job: schema.JobStatus) -> None:
        with self._lock:
            future = self._futures.pop(job.workunit, None)
        if future is None or not future.settle():
            return
        result = JobResult(self._connection, self.batch.id, job)
        try:
            result.raise_for_error()
        except JobFailed as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _fail(self, error: Exception, sending: Sequence[JobFuture] = ()) -> None:
        """Fail all futures, also those that are being sent, because nothing more can be sent or received."""
        with self._lock:
            self._failure = error
            waiting = [*self._futures.values(), *sending, *self._taken_back()]
            self._futures.clear()
            if self._closed:
                self._queue.put(None)  # the sender waits for it
        for future in waiting:
            if future.settle():
                future.set_exception(error)
