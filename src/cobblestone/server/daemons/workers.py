"""A pool of processes for project functions, with limits on time and memory."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from pebble import ProcessExpired, ProcessPool

from cobblestone.domain.errors import JobError
from cobblestone.ops.settings import ChecksSection
from cobblestone.server.daemons.project_work import limit_memory

A = TypeVar("A")
R = TypeVar("R")

# A worker's memory limit counts address space; the interpreter and its libraries take this much of it.
INTERPRETER_BYTES = 500_000_000


class Workers:
    """Runs functions in worker processes.  A worker that hangs or dies is replaced, and so is a broken pool."""

    def __init__(self, settings: ChecksSection) -> None:
        self._settings = settings
        self._pool: ProcessPool | None = None

    async def call(self, function: Callable[[A], R], argument: A) -> R:
        """Run ``function(argument)`` in a worker.

        Raises:
            JobError: it failed, took too long, or its worker died.
        """
        timeout = self._settings.timeout
        future = self._started().schedule(function, args=[argument], timeout=timeout)
        try:
            return await asyncio.wrap_future(future)
        except (FutureTimeoutError, TimeoutError) as error:
            raise JobError(f"It took longer than {timeout:g} seconds and was stopped.") from error
        except ProcessExpired as error:
            raise JobError(
                f"Its process died (exit code {error.exitcode}); perhaps it used too much memory."
            ) from error
        except MemoryError as error:
            raise JobError("It ran out of the memory that a worker may use.") from error
        except BrokenProcessPool as error:
            await asyncio.to_thread(self.close)
            raise JobError(f"The worker processes do not start: {error}.") from error

    def _started(self) -> ProcessPool:
        if self._pool is None:
            self._pool = ProcessPool(
                max_workers=self._settings.workers,
                max_tasks=1000,
                context=multiprocessing.get_context("spawn"),
                initializer=limit_memory,
                initargs=[self._settings.memory_bytes + INTERPRETER_BYTES],
            )
        return self._pool

    def close(self) -> None:
        """Stop all workers at once."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()
            pool.join()
