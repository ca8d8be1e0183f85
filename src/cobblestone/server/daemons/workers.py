"""Worker processes for project functions and comparisons, with limits on time and memory; a slow call delays no other.

Each process has its own pipe, so that one that is killed, at whatever moment, takes nothing with it: the next call starts
another.  What a call leaves behind (threads, processes, files) ends with its process.  As many calls as there are workers run at
once.  One that takes longer than `QUICK_SECONDS` moves to a place for slow calls, of which there are as many; if they are all
taken and others wait, it is stopped and begins again once there is one.  Calls of an app whose last ones were all slow let
those of other apps go first: however many there are, no other call waits long behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

import psutil

from cobblestone.domain.errors import CobblestoneError, JobError
from cobblestone.domain.reasons import sayable
from cobblestone.ops.settings import ChecksSection
from cobblestone.server.daemons.project_work import limit_memory

A = TypeVar("A")
R = TypeVar("R")

#: A worker's memory limit counts address space; the interpreter and its libraries take this much of it.
INTERPRETER_BYTES = 500_000_000
#: What takes longer is slow.
QUICK_SECONDS = 2.0
#: After so many slow calls of an app its next ones let others go first, until one is quick.
SLOW_IN_A_ROW = 3
#: Calls that a process serves before another takes its place: project functions may leak memory.
MAX_CALLS = 1000
#: How often to look whether a process that is silent has died; what it forked may hold its pipe open.
DEATH_SECONDS = 0.5

#: A call that was not stopped so long after its time, because the server was killed, is ended by the system.
GRACE_SECONDS = 10.0
#: How long to wait for a killed process; one that waits for a disk that is away does not die before that answers.
DYING_SECONDS = 5.0
#: Characters of what a function says of its failure.
MAX_PROBLEM = 10_000

_context = multiprocessing.get_context("spawn")


#: The function that a call calls, and for which app.
_Kind = tuple[str, str]


class WorkerFailedError(JobError):
    """A call took too long or too much memory, or its process died: the function itself reported nothing."""


class WorkerKilledError(JobError):
    """A call's process was killed from outside, such as by a system out of memory: that says nothing about the call."""


class Workers:
    """Runs functions in worker processes."""

    def __init__(self, settings: ChecksSection) -> None:
        self._settings = settings
        self._places = asyncio.Semaphore(settings.workers)
        self._slow_places = asyncio.Semaphore(settings.workers)
        self._waiting: Counter[_Kind] = Counter()  # for a place that is not for slow calls
        self._slow_in_a_row: Counter[_Kind] = Counter()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._threads = ThreadPoolExecutor(2 * settings.workers, thread_name_prefix="worker")
        self._closed = False

    async def call(
        self,
        function: Callable[[A], R],
        argument: A,
        *,
        app: str = "",
        before: Callable[[], None] = lambda: None,
    ) -> R:
        """Run ``function(argument)`` in a worker, for an app.

        ``before`` is called when its turn has come; what it raises ends the call.

        Raises:
            WorkerFailedError: it took too long or too much memory, or its process died.
            WorkerKilledError: its process was killed from outside.
            JobError: it failed.
            asyncio.CancelledError: the workers are closed.
        """
        place = _Place(kind=(function.__name__, app))
        self._waiting[place.kind] += 1
        try:
            await place.take(self._places)
            while self._seems_slow(place.kind) and any(
                n and not self._seems_slow(kind) for kind, n in self._waiting.items()
            ):
                await place.take(self._places)  # after the others
        finally:
            self._waiting[place.kind] -= 1
        try:
            outcome = await self._run(function, argument, place, before)
            while outcome is None:  # it was stopped, for it is slow
                await place.take(self._slow_places)
                outcome = await self._run(function, argument, place, before)
        finally:
            place.leave()
        return outcome[0]

    def _seems_slow(self, kind: _Kind) -> bool:
        return self._slow_in_a_row[kind] >= SLOW_IN_A_ROW

    async def _run(
        self, function: Callable[[A], R], argument: A, place: _Place, before: Callable[[], None]
    ) -> tuple[R] | None:
        """Run a call once; return None if it was stopped: it is slow, others wait, and all places for slow calls are taken."""
        process = self._take_process()
        loop = asyncio.get_running_loop()
        running: asyncio.Future[Any] = loop.create_future()
        try:
            if self._closed:  # while this one waited
                raise asyncio.CancelledError
            running = loop.run_in_executor(self._threads, process.start)
            await asyncio.shield(running)  # importing is no part of the call's time
            before()
            running = loop.run_in_executor(self._threads, process.call, function, argument)
            return await self._wait(running, place)
        except (WorkerFailedError, RuntimeError):  # the threads of closed workers take nothing more
            if self._closed:
                raise asyncio.CancelledError from None
            raise
        finally:
            self._give_back(process, running)

    async def _wait(self, running: asyncio.Future[R], place: _Place) -> tuple[R] | None:
        ends = time.monotonic() + self._settings.timeout
        slow = False
        while not (await asyncio.wait([running], timeout=min(QUICK_SECONDS, ends - time.monotonic())))[0]:
            if not slow:
                slow = True
                self._slow_in_a_row[place.kind] += 1
            if time.monotonic() >= ends:
                text = f"It took longer than {self._settings.timeout:g} seconds and was stopped."
                raise WorkerFailedError(text)
            if place.taken is self._places:
                if not self._slow_places.locked():
                    await place.take(self._slow_places)
                elif self._waiting.total():
                    return None
        if not slow:
            del self._slow_in_a_row[place.kind]
        return (await running,)

    def _take_process(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            if process.usable:
                break
            _stop_aside(process)
        else:
            process = _Process(
                self._settings.memory_bytes + INTERPRETER_BYTES, self._settings.timeout + GRACE_SECONDS
            )
        self._busy.add(process)
        return process

    def _give_back(self, process: _Process, running: asyncio.Future[Any]) -> None:
        self._busy.discard(process)
        if running.done() and not running.cancelled() and process.usable and not self._closed:
            self._idle.append(process)
        else:
            _stop_aside(process)
            running.add_done_callback(_nobody_asks)

    def close(self) -> None:
        """Stop all workers at once."""
        self._closed = True
        for process in (*self._idle, *self._busy):
            process.stop()
        self._threads.shutdown()


class _Place:
    """The place of a call, while it has one."""

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind
        self.taken: asyncio.Semaphore | None = None

    async def take(self, semaphore: asyncio.Semaphore) -> None:
        """Take another place; the current one is released first."""
        self.leave()
        await semaphore.acquire()
        self.taken = semaphore

    def leave(self) -> None:
        taken, self.taken = self.taken, None
        if taken is not None:
            taken.release()


class _Process:
    """One worker process, which runs one call at a time.  It starts with the first."""

    def __init__(self, memory_bytes: int, call_seconds: float) -> None:
        self._memory_bytes = memory_bytes
        self._call_seconds = call_seconds
        self._folder = ""  # for temporary files
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._n_calls = 0
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def usable(self) -> bool:
        """Return whether it is alive and can take another call."""
        return (
            not self._stopped
            and self._n_calls < MAX_CALLS
            and self._process is not None
            and self._process.is_alive()
        )

    def call(self, function: Callable[[A], R], argument: A) -> R:
        """Run a call, in a thread of the caller's.

        Raises:
            WorkerFailedError: the process died, or ran out of memory.
            WorkerKilledError: it was killed from outside.
            JobError: the function failed.
        """
        self._n_calls += 1
        outcome, problem, left_something = self._ask((function, argument))
        if left_something:
            self._stopped = True
        if problem is not None:
            raise problem
        return outcome

    def start(self) -> None:
        """Start the process, unless it is running.

        Raises:
            WorkerFailedError: it died, or was stopped.
        """
        with self._lock:
            if self._stopped:
                raise WorkerFailedError
            if self._process is not None:
                return
            self._folder = tempfile.mkdtemp(prefix="cobblestone-")
            self._pipe, theirs = _context.Pipe()
            self._process = _context.Process(
                target=_serve,
                args=(theirs, self._memory_bytes, self._call_seconds, self._folder),
                name="worker",
                daemon=True,
            )
            self._process.start()
            theirs.close()
        self._ask(None)

    def _ask(self, question: object) -> _Answer:
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            raise WorkerFailedError
        try:
            pipe.send(question)
            while not pipe.poll(DEATH_SECONDS):
                if self._stopped or not process.is_alive():
                    raise EOFError
            return pipe.recv()
        except (EOFError, OSError) as error:
            stopped_by_us = self._stopped
            self.stop()
            if process.exitcode == -signal.SIGKILL and not stopped_by_us:
                text = "Its process was killed from outside, as when the system runs out of memory."
                raise WorkerKilledError(text) from error
            text = f"Its process died (exit code {process.exitcode}); perhaps it used too much memory."
            raise WorkerFailedError(text) from error

    def stop(self) -> None:
        """Kill the process at once, with all its children; a running call fails."""
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.pid is not None:
                pid = self._process.pid
                if self._process.is_alive() or not psutil.pid_exists(pid):  # no other process has the number
                    with contextlib.suppress(ProcessLookupError):  # it has no group yet, or left nothing
                        os.killpg(pid, signal.SIGKILL)
                self._process.kill()
                self._process.join(DYING_SECONDS)
                shutil.rmtree(self._folder, ignore_errors=True)


def _stop_aside(process: _Process) -> None:
    """Stop a process without waiting for its end."""
    threading.Thread(target=process.stop, name="stop worker", daemon=True).start()


def _nobody_asks(running: asyncio.Future[Any]) -> None:
    """Record how a stopped call ended."""
    if not running.cancelled():
        running.exception()


#: What a call returned, or why not, and whether it left something that runs.
_Answer = tuple[Any, JobError | None, bool]


def _serve(pipe: Connection, memory_bytes: int, call_seconds: float, folder: str) -> None:
    """Run calls one after the other until the server has gone."""
    os.setpgid(0, 0)  # what calls start is stopped with us
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the server, which stops us when it is time
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends us, whatever a call does
    tempfile.tempdir = folder
    limit_memory(memory_bytes)
    us = os.getpid()
    with contextlib.suppress(EOFError, OSError):
        while True:
            question = pipe.recv()
            signal.setitimer(signal.ITIMER_REAL, call_seconds)
            outcome = (None, None) if question is None else _outcome(*question)
            if os.getpid() != us:  # the function has forked, and this is the copy: only one may answer
                os._exit(0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            pipe.send((*outcome, threading.active_count() > 1 or _has_children()))
    shutil.rmtree(folder, ignore_errors=True)


def _has_children() -> bool:
    """Return whether a process started by a call is still running."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:  # one that has ended
            pass
        return not found[0]
    return False


def _outcome(function: Callable[[A], R], argument: A) -> tuple[R | None, JobError | None]:
    try:
        return function(argument), None
    except CobblestoneError as error:
        return None, JobError(sayable(str(error)[:MAX_PROBLEM]))
    except MemoryError:
        return None, WorkerFailedError("It exceeded the memory limit of a worker.")
    except BaseException as error:  # noqa: BLE001  # whatever a foreign function raises, sys.exit included
        return None, JobError(sayable(f"{type(error).__name__}: {error}"[:MAX_PROBLEM]))
