"""Workunits that a daemon processes one by one beside its rounds, so that a slow one delays no other.

One that fails is tried again later, a limited number of times.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Set
from contextlib import asynccontextmanager

import structlog

from cobblestone.domain.errors import CobblestoneError, StoreError, words_of
from cobblestone.domain.values import WorkunitId
from cobblestone.policy.lifecycle.deadlines import next_attempt
from cobblestone.server.core.context import ServerContext
from cobblestone.store.engine.database import Transaction
from cobblestone.store.engine.process_group import LeaseLost
from cobblestone.store.work import lifecycle

log = structlog.get_logger(__name__)

#: Workunits that are worked on at once, most of them waiting for a worker; a bound for the memory that they take.
MAX_UNFINISHED = 1000
#: How long a round waits for the work that it began.
PATIENCE_SECONDS = 1.0

Work = Callable[[], Coroutine[None, None, None]]


class SideWork:
    """The unfinished work of one daemon, which keeps its shards while there is some."""

    def __init__(
        self, ctx: ServerContext, role: str, *, failed: str, first_pause: float, longest_pause: float
    ) -> None:
        """``failed``: event in the log when work on a workunit fails; each pause after that is twice the one before (seconds)."""
        self._ctx = ctx
        self._role = role
        self._failed = failed
        self._pauses = (first_pause, longest_pause)
        self._tasks: dict[WorkunitId, asyncio.Task[None]] = {}
        self._failure: Exception | None = None  # of the last work that failed, until a round tells of it

    @property
    def unfinished(self) -> Set[WorkunitId]:
        """Return the workunits in progress."""
        return self._tasks.keys()

    @property
    def room(self) -> int:
        """Return how many more can be started."""
        return max(0, MAX_UNFINISHED - len(self._tasks))

    def begin(self, workunit_id: WorkunitId, work: Work) -> None:
        """Start work on a workunit; ``work`` writes its outcome itself."""
        task = asyncio.create_task(self._do(workunit_id, work), name=f"{self._role} {workunit_id}")
        self._tasks[workunit_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(workunit_id, None))

    async def wait(self, workunit_ids: Set[WorkunitId], *, at_most: float | None = PATIENCE_SECONDS) -> None:
        """Wait for the work on some workunits to end, at most ``at_most`` seconds.

        Raises:
            Exception: work has failed, of these or earlier ones; it is found again, and tried after a pause.
        """
        tasks = [task for id_, task in self._tasks.items() if id_ in workunit_ids]
        if tasks:
            await asyncio.wait(tasks, timeout=at_most)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def attempt(self, workunit_id: WorkunitId) -> AsyncGenerator[None]:
        """Carry out a block for a workunit; if it fails, note why, and when it is tried again.

        Raises:
            StoreError: database or file storage are away, which says nothing about the workunit.
        """
        try:
            yield
        except LeaseLost as error:
            log.warning("lease_lost", workunit=workunit_id, error=str(error))
        except StoreError:
            raise
        except (CobblestoneError, OSError) as error:
            await self._postpone(workunit_id, words_of(error))
        except Exception as error:
            log.exception(self._failed, workunit=workunit_id)
            await self._postpone(workunit_id, f"{type(error).__name__}: {error}")

    async def _postpone(self, workunit_id: WorkunitId, problem: str) -> None:
        ctx, (first, longest) = self._ctx, self._pauses

        def write(tx: Transaction) -> None:
            n_failures = lifecycle.handler_failures(tx, workunit_id) + 1
            log.error(self._failed, workunit=workunit_id, attempt=n_failures, error=problem)
            until = next_attempt(
                n_failures,
                max_attempts=ctx.settings.checks.max_attempts,
                first_pause=first,
                longest_pause=longest,
                now=ctx.clock(),
            )
            lifecycle.postpone(tx, workunit_id, until=until, problem=problem)

        await ctx.store.awrite(write)

    async def _do(self, workunit_id: WorkunitId, work: Work) -> None:
        with self._ctx.processes.lease_shards(self._role):
            try:
                async with self.attempt(workunit_id):
                    await work()
            except StoreError as error:
                log.warning("side_work_put_off", daemon=self._role, workunit=workunit_id, error=str(error))
                self._failure = error
            except Exception as error:
                log.exception("side_work_failed", daemon=self._role, workunit=workunit_id)
                self._failure = error
