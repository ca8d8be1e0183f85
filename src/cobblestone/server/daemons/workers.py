"""A pool of processes for project functions, with limits on time and memory."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
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
    """Runs functions in worker processes.  A worker that hangs or dies is replaced."""

    def __init__(self, settings: ChecksSection) -> None:
        self._timeout = settings.timeout
        self._pool = ProcessPool(
            max_workers=settings.workers,
            max_tasks=1000,
            context=multiprocessing.get_context("spawn"),
            initializer=limit_memory,
            initargs=[settings.memory_bytes + INTERPRETER_BYTES],
        )

    async def call(self, function: Callable[[A], R], argument: A) -> R:
        """Run ``function(argument)`` in a worker.

        Raises:
            JobError: it failed, took too long, or its worker died.
        """
        future = self._pool.schedule(function, args=[argument], timeout=self._timeout)
        try:
            return await asyncio.wrap_future(future)
        except (FutureTimeoutError, TimeoutError) as error:
            raise JobError(f"It took longer than {self._timeout:g} seconds and was stopped.") from error
        except ProcessExpired as error:
            raise JobError(
                f"Its process died (exit code {error.exitcode}); perhaps it used too much memory."
            ) from error
        except MemoryError as error:
            raise JobError("It ran out of the memory that a worker may use.") from error

    def close(self) -> None:
        """Stop all workers at once."""
        self._pool.stop()
        self._pool.join()
