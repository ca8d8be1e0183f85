"""The state of the project: counted at most every few seconds, shown on several pages and to status sites."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from cobblestone.server.context import ServerContext
from cobblestone.server.web.languages import N_
from cobblestone.store.database import Database
from cobblestone.store.pages import ProjectCounts, project_counts
from cobblestone.wire.project_pages import (
    AppTasks,
    DaemonState,
    DaemonStatus,
    ServerStatus,
    write_server_status,
)

T = TypeVar("T")

MIN_AGE_SECONDS = 5.0
MAX_SHARE = 0.01
"""Counting again and again takes at most this share of the time, however large the project is."""

DAEMON_STATES = (N_("running"), N_("not running"), N_("disabled"))
"""What `DaemonState` holds, for translators."""

DAEMONS = {
    "transitioner": N_("Creates tasks, notices missed deadlines"),
    "validator": N_("Compares results and grants credit"),
    "assimilator": N_("Hands answers to the project"),
    "file_deleter": N_("Removes files that nobody needs any more"),
    "purger": N_("Moves old jobs into the archive"),
    "statistics": N_("Keeps averages up to date"),
    "mailer": N_("Sends mails"),
    "accounts": N_("Deletes accounts whose owners asked for it"),
    "top_lists": N_("Adds up credit by app"),
}


class Remembered(Generic[T]):
    """The answer of a costly read, used again for a while."""

    def __init__(self, ctx: ServerContext, read: Callable[[Database], T]) -> None:
        self._ctx = ctx
        self._read = read
        self._lock = asyncio.Lock()
        self._answer: T | None = None
        self._good_until = 0.0

    async def get(self) -> T:
        """The answer, at most ``MIN_AGE_SECONDS`` old unless reading it takes long."""
        async with self._lock:
            started = self._ctx.clock()
            if self._answer is None or started >= self._good_until:
                self._answer = await self._ctx.store.aread(self._read)
                cost = self._ctx.clock() - started
                self._good_until = started + max(MIN_AGE_SECONDS, cost / MAX_SHARE)
            return self._answer


class ProjectStatus:
    """Counts of the whole project."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._counts = Remembered(ctx, lambda db: project_counts(db, now=ctx.clock()))

    async def counts(self) -> ProjectCounts:
        """What waits, runs and was done."""
        return await self._counts.get()

    def daemons(self) -> list[DaemonStatus]:
        """The parts of the server; they run inside its process, so they run when it does."""
        running = DaemonState.RUNNING if self._ctx.started else DaemonState.NOT_RUNNING
        host = urlsplit(self._ctx.master_url).hostname or ""
        return [DaemonStatus(host=host, command=name, status=running) for name in DAEMONS]

    def backlog_seconds(self, counts: ProjectCounts) -> float:
        """For how long the transitioner has not looked at the workunit that is due first."""
        return max(0.0, self._ctx.clock() - (counts.oldest_transition or self._ctx.clock()))

    def gflops(self, counts: ProjectCounts) -> float:
        """Computing speed that the recent credit stands for."""
        return counts.credit_per_day / self._ctx.settings.credit.per_gflops_day

    async def xml(self) -> bytes:
        """The state in the family's form."""
        counts = await self.counts()
        return write_server_status(
            ServerStatus(
                results_ready_to_send=counts.results_unsent,
                results_in_progress=counts.results_in_progress,
                workunits_waiting_for_validation=counts.workunits_to_validate,
                workunits_waiting_for_assimilation=counts.workunits_to_assimilate,
                workunits_waiting_for_deletion=counts.workunits_to_delete,
                results_waiting_for_deletion=counts.results_to_delete,
                transitioner_backlog_hours=self.backlog_seconds(counts) / 3600,
                users_with_recent_credit=counts.users_recent,
                users_with_credit=counts.users_credited,
                users_registered_in_past_24_hours=counts.users_new,
                hosts_with_recent_credit=counts.hosts_recent,
                hosts_with_credit=counts.hosts_credited,
                hosts_registered_in_past_24_hours=counts.hosts_new,
                current_floating_point_speed=self.gflops(counts),
            ),
            self.daemons(),
            [
                AppTasks(
                    id=app.app_id,
                    name=app.name,
                    unsent=app.unsent,
                    in_progress=app.in_progress,
                    avg_runtime=app.avg_runtime / 3600,
                    min_runtime=app.min_runtime / 3600,
                    max_runtime=app.max_runtime / 3600,
                    users=app.n_users,
                )
                for app in counts.apps
            ],
        )
