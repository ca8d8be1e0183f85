"""Watches the project: warnings, samples for the operator's drawings, and the steps of roll-outs."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import WATCHER
from cobblestone.server.files.disk_space import free_bytes
from cobblestone.server.operation.alerts import current_warnings
from cobblestone.server.operation.figures import ProjectState, StateReader
from cobblestone.server.operation.rollout import advance_rollouts
from cobblestone.service.health import ProjectWarning
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation.figures import add_sample, last_sample_time
from cobblestone.store.people import mails

MAIL_SECONDS = 3600.0


class Watcher:
    """The daemon."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._state = StateReader(ctx)
        self._next_sample: float | None = None
        self._mailed: dict[str, float] = {}  # code of a warning -> when it was mailed

    async def step(self) -> int:
        """One look; there is never anything left to do at once."""
        ctx = self._ctx
        state = await self._state.get()
        found = current_warnings(ctx, state.figures, state.endings)
        await self._mail(ctx.health.set_warnings(found, now=ctx.clock()))
        with ctx.processes.lease_shards(WATCHER) as turn:
            if turn.shards != ():
                await advance_rollouts(ctx)
                await self._sample(state)
        return 0

    async def _mail(self, begun: Sequence[ProjectWarning]) -> None:
        """Mail warnings that begin; each at most once an hour, though it come and go."""
        now, settings = self._ctx.clock(), self._ctx.settings
        wanted = [each for each in begun if now - self._mailed.get(each.code, float("-inf")) >= MAIL_SECONDS]
        recipients = [address.strip() for address in settings.watch.mail_to.split(",") if address.strip()]
        if not wanted or not recipients:
            return
        self._mailed.update((each.code, now) for each in wanted)
        others = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        subject = f"{settings.project.name}: {wanted[0].code.replace('_', ' ')}{others}"
        lines = [f"{'SEVERE: ' if each.severe else ''}{each.text}" for each in wanted]
        body = "\n".join([*lines, "", f"The operator's page: {self._ctx.url('ops.php')}", ""])

        def post(tx: Transaction) -> None:
            for recipient in recipients:
                mails.post(tx, recipient=recipient, subject=subject, body=body, now=now)
            tx.wake("mailer")

        await self._ctx.store.awrite(post)

    async def _sample(self, state: ProjectState) -> None:
        ctx, now, watch = self._ctx, self._ctx.clock(), self._ctx.settings.watch
        if self._next_sample is None:
            self._next_sample = await ctx.store.aread(last_sample_time) + watch.sample_seconds
        if now < self._next_sample:
            return
        self._next_sample = now + watch.sample_seconds
        figures = sample_figures(ctx, state)
        await ctx.store.awrite(
            lambda tx: add_sample(tx, figures, now=now, keep_since=now - watch.keep_samples)
        )


def sample_figures(ctx: ServerContext, state: ProjectState) -> dict[str, float]:
    """Return what a sample keeps.  The names that begin with ``n_`` only grow while the server runs; rates are differences."""
    figures, ended = state.figures, state.endings
    return {
        "unsent": figures.unsent,
        "in_progress": figures.in_progress,
        "validation": figures.validation,
        "assimilation": figures.assimilation,
        "deletion": figures.deletion,
        "backlog_seconds": round(figures.backlog_seconds, 1),
        "hosts_active": figures.hosts_active,
        "error_rate": round(ended.error_rate, 4),
        "disk_free": free_bytes(ctx),
        "write_backlog": ctx.store.backlog(),
        "n_created": figures.results_created,
        "n_credited": figures.credit_entries,
        "n_sent": ctx.metrics.n_sent,
        "n_reported": ctx.metrics.n_reported,
        "n_requests": ctx.metrics.n_requests,
        "n_failed_requests": ctx.metrics.n_errors,
    }
