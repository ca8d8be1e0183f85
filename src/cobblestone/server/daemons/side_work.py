"""Workunits that a daemon processes one by one beside its rounds, so that a slow one delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Set

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.domain.values import WorkunitId
from cobblestone.store.engine.process_group import ProcessGroup

log = structlog.get_logger(__name__)

#: Workunits that are worked on at once, most of them waiting for a worker; a bound for the memory that they take.
MAX_UNFINISHED = 1000
#: How long a round waits for the work that it began.
PATIENCE_SECONDS = 1.0

Work = Callable[[], Coroutine[None, None, None]]


class SideWork:
    """The unfinished work of one daemon, which keeps its shards while there is some."""

    def __init__(self, processes: ProcessGroup, role: str) -> None:
        self._processes = processes
        self._role = role
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

    async def _do(self, workunit_id: WorkunitId, work: Work) -> None:
        with self._processes.lease_shards(self._role):
            try:
                await work()
            except StoreError as error:  # the database or the file storage is away
                log.warning("side_work_put_off", daemon=self._role, workunit=workunit_id, error=str(error))
                self._failure = error
            except Exception as error:
                log.exception("side_work_failed", daemon=self._role, workunit=workunit_id)
                self._failure = error
