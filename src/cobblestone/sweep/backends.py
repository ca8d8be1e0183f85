"""Execution of tasks.  A backend is three functions: ``submit``, ``as_completed`` and ``close``."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Any, Protocol

from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.ops.installation import how_to_install

_GO_ON = "Start the same command again: results that it kept are not computed twice."


class Backend(Protocol):
    """Runs functions in other processes."""

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]: ...
    def as_completed(self, futures: Iterable[Future[Any]]) -> Iterator[tuple[Future[Any], Any]]: ...
    def close(self) -> None: ...


class ProcessPool:
    """All cores of this machine."""

    def __init__(self, workers: int | None = None) -> None:
        self._pool = ProcessPoolExecutor(
            max_workers=workers or os.cpu_count() or 1, initializer=_begin_worker
        )
        self._others = set(active_children())

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        """Queue one call; the first one starts the workers."""
        with _without_interruption():
            return self._pool.submit(function, argument)

    def as_completed(self, futures: Iterable[Future[Any]]) -> Iterator[tuple[Future[Any], Any]]:
        """Yield futures with their results as they finish, and raise what a call has raised.

        The wait ends every second: an interruption that arrives just before the thread falls asleep is seen only when it wakes.
        """
        finished: SimpleQueue[Future[Any]] = SimpleQueue()
        waiting = 0
        for future in futures:
            waiting += 1
            future.add_done_callback(finished.put)
        while waiting:
            try:
                future = finished.get(timeout=1.0)
            except Empty:
                continue
            waiting -= 1
            try:
                result = future.result()
            except BrokenExecutor as error:
                raise CobblestoneError(
                    f"A process that computed was killed. If the memory is full, take fewer --workers. {_GO_ON}"
                ) from error
            yield future, result

    def close(self) -> None:
        """Drop queued and running calls and stop."""
        for worker in set(active_children()) - self._others:
            worker.terminate()
        self._pool.shutdown(cancel_futures=True)  # waits for its thread, which Python's end would disturb


@contextmanager
def _without_interruption() -> Generator[None]:
    """Let Ctrl-C wait until the end: one that comes during a fork is lost, or ends the new process with a traceback."""
    came: list[int] = []
    if current_thread() is not main_thread():  # only that one is interrupted
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _begin_worker() -> None:
    """Let a worker end with the process that started it, and only then: an interruption from the terminal reaches all, and
    whoever has lost its parent would wait for tasks for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # what it was born with belongs to libraries whose threads are not here: collecting it can crash

    def wait() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


class DaskCluster:
    """A Dask cluster (needs the extra ``sweep``); ``dask://local`` starts one on this machine."""

    def __init__(self, address: str, workers: int | None = None) -> None:
        try:
            from dask.distributed import Client, KilledWorker, as_completed
        except ImportError as error:
            raise ConfigError(f"a Dask scheduler needs the extra: {how_to_install('sweep')}") from error
        self._as_completed: Any = as_completed
        self._lost: Any = CancelledError, KilledWorker  # scheduler, workers
        where = address.removeprefix("dask://")
        if where in ("", "local"):
            self._client: Any = Client(
                n_workers=workers or os.cpu_count() or 1, threads_per_worker=1, dashboard_address=None
            )
        else:
            self._client = Client(f"tcp://{where}", timeout="20s")

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        """Queue one call; Dask would otherwise answer equal calls from memory."""
        return self._client.submit(function, argument, pure=False)

    def as_completed(self, futures: Iterable[Future[Any]]) -> Iterator[tuple[Future[Any], Any]]:
        """Yield futures with their results as they finish, and raise what a call has raised."""
        try:
            for future, result in self._as_completed(list(futures), with_results=True):
                if future.cancelled():
                    raise result
                yield future, result
        except self._lost as error:
            raise CobblestoneError(
                f"The Dask cluster has lost a task ({error!s:.400}). Do scheduler and workers run? {_GO_ON}"
            ) from error

    def close(self) -> None:
        """Disconnect from the cluster, and stop it if we started it."""
        self._client.close()


def open_backend(scheduler: str = "", *, workers: int | None = None) -> Backend:
    """Return the backend for ``""`` (process pool) or ``dask://host:port`` / ``dask://local``.

    Raises :class:`ConfigError` for anything else.
    """
    if not scheduler:
        return ProcessPool(workers)
    if re.fullmatch(r"dask://(|local|.+:\d{1,5})", scheduler):
        return DaskCluster(scheduler, workers)
    raise ConfigError(
        f"scheduler = {scheduler!r}: leave it out for all cores here, or write dask://host:port or dask://local"
    )
