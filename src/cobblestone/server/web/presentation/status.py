"""The state of the project: counted at most every few seconds, for several pages and status sites."""

from __future__ import annotations

from urllib.parse import urlsplit

from cobblestone.domain.values import form_of
from cobblestone.server.core.context import ServerContext
from cobblestone.service.context import CachedRead
from cobblestone.service.health import DaemonHealth
from cobblestone.service.languages import N_
from cobblestone.service.supervision import daemon_notes, daemons_of_all
from cobblestone.store.operation.page_queries import ProjectStateCounts, project_counts
from cobblestone.wire.project import pages as wire

#: What `DaemonState` holds, for translators.
DAEMON_STATES = (N_("running"), N_("not running"), N_("disabled"))

DAEMONS = {
    "transitioner": N_("Creates tasks and handles missed deadlines"),
    "validator": N_("Compares results and grants credit"),
    "assimilator": N_("Passes answers on to the project"),
    "file_deleter": N_("Deletes files that are no longer needed"),
    "purger": N_("Moves old jobs into the archive"),
    "statistics": N_("Keeps averages up to date"),
    "mailer": N_("Sends mails"),
    "webhooks": N_("Tells other programs of finished jobs"),
    "accounts": N_("Deletes accounts on request of their owners"),
    "top_lists": N_("Adds up credit by app"),
    "history": N_("Keeps credit and work by day"),
    "badges": N_("Awards badges"),
}


#: Of a daemon that makes its rounds, even if a step failed and is retried.
_GOES_ON = (DaemonHealth.RUNNING, DaemonHealth.FAILING)


class StatusPage:
    """Counts of the whole project."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._counts = CachedRead(ctx, lambda db: project_counts(db, now=ctx.clock()))

    async def counts(self) -> ProjectStateCounts:
        """Return the waiting, running and finished work."""
        return await self._counts.get()

    def daemons(self) -> list[wire.DaemonStatus]:
        """Return the daemons: running, or not."""
        ctx, states = self._ctx, (wire.FamilyDaemonState.NOT_RUNNING, wire.FamilyDaemonState.RUNNING)
        found = daemons_of_all(daemon_notes(ctx), ctx.health.processes, ctx.clock())
        going_on = {name for name, note in found.items() if note.state in _GOES_ON}
        host = urlsplit(ctx.master_url).hostname or ""
        return [
            wire.DaemonStatus(host=host, command=name, status=states[name in going_on]) for name in DAEMONS
        ]

    def backlog_seconds(self, counts: ProjectStateCounts) -> float:
        """Return how long the transitioner is late with the workunit that was due first."""
        return max(0.0, self._ctx.clock() - (counts.oldest_transition or self._ctx.clock()))

    def gflops(self, counts: ProjectStateCounts) -> float:
        """Return the computing speed that corresponds to the recent credit."""
        return counts.credit_per_day / self._ctx.settings.credit.per_gflops_day

    async def xml(self, *, counts_only: bool = False) -> bytes:
        """Return the state, or the numbers of jobs, in BOINC's format."""
        counts = await self.counts()
        status = form_of(
            wire.ServerStatus,
            counts,
            transitioner_backlog_hours=self.backlog_seconds(counts) / 3600,
            users_registered_in_past_24_hours=counts.users_new,
            hosts_registered_in_past_24_hours=counts.hosts_new,
            current_floating_point_speed=self.gflops(counts),
        )
        if counts_only:
            return wire.write_job_counts(status)
        return wire.write_server_status(
            status,
            self.daemons(),
            [
                form_of(
                    wire.AppTasks,
                    app,
                    id=app.app_id,
                    avg_runtime=app.avg_runtime / 3600,
                    min_runtime=app.min_runtime / 3600,
                    max_runtime=app.max_runtime / 3600,
                    users=app.n_users,
                )
                for app in counts.apps
            ],
        )
