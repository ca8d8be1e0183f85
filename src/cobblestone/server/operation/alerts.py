"""Monitoring of the project: figures, the warnings that follow from them, and the daemon that checks them.

What to warn of: the state of the project against the limits of the settings' section ``[watch]``.

The codes are stable; ``docs/operations.md`` says for each what it means and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cobblestone.domain.reasons import HealthWarning
from cobblestone.domain.texts import several
from cobblestone.ops.settings import Settings
from cobblestone.policy.credit.history import is_overdue
from cobblestone.server.core.context import ServerContext, free_bytes
from cobblestone.server.core.roles import WATCHER, Role
from cobblestone.server.files.exports import last_export
from cobblestone.server.operation.rollout import advance_rollouts
from cobblestone.service.health import DaemonHealth
from cobblestone.service.supervision import role_warnings
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation.figures import (
    Endings,
    ProjectCounters,
    ProjectFigures,
    add_sample,
    last_sample_time,
)
from cobblestone.store.people import mails

MIN_RESULTS_FOR_RATE = 50
_WAITING = {"validation": "validator", "assimilation": "assimilator", "deletion": "file deleter"}


def current_warnings(ctx: ServerContext, figures: ProjectFigures, endings: Endings) -> list[HealthWarning]:
    """Return all current warnings."""
    return [
        *disk_warnings(free_bytes(ctx), ctx.settings),
        *queue_warnings(figures, ctx.settings),
        *rate_warnings(endings, ctx.settings),
        *export_warnings(ctx),
        *write_warnings(ctx.store.backlog(), ctx.settings),
        *row_warnings(ctx.store.left_out()),
        *daemon_warnings(ctx.health.states(), {n: b.last_error for n, b in ctx.health.daemons.items()}),
        *role_warnings(
            ctx.health.processes,
            Role,
            started=ctx.started,
            max_silent_seconds=ctx.settings.watch.max_silent_seconds,
            now=ctx.clock(),
        ),
    ]


def disk_warnings(free: int, settings: Settings) -> Iterator[HealthWarning]:
    """Warn of low disk space."""
    least = settings.server.min_free_disk_bytes
    if free < least:
        text = f"{free // 10**6} MB are free on the disk: below {least // 10**6} MB uploads and submissions are deferred."
        yield HealthWarning(code="disk_full", text=text, severe=True)
    elif free < settings.watch.free_disk_bytes:
        text = (
            f"{free // 10**6} MB are free on the disk; at {least // 10**6} MB uploads and submissions stop."
        )
        yield HealthWarning(code="disk_low", text=text)


def queue_warnings(figures: ProjectFigures, settings: Settings) -> Iterator[HealthWarning]:
    """Warn of queues that are too long, or run dry."""
    watch = settings.watch
    for name, daemon in _WAITING.items():
        waiting = getattr(figures, name)
        if waiting > watch.max_waiting:
            text = f"Workunits that wait for {name}: {waiting}; is the {daemon} failing, or too slow?"
            yield HealthWarning(code=f"waiting_for_{name}", text=text)
    if figures.parked:
        text = (
            f"Parked, because a comparison or the project's own function failed, jobs: {figures.parked}. `cobblestone"
            " explain workunit ID` shows the error; `cobblestone workunit retry ID` retries them."
        )
        yield HealthWarning(code="jobs_parked", text=text)
    if figures.called_again:
        text = (
            f"A comparison or the project's own function failed on {several(figures.called_again, 'job')}, and is tried again."
            " `cobblestone explain workunit ID` shows the error."
        )
        yield HealthWarning(code="function_fails", text=text)
    if figures.backlog_seconds > watch.max_backlog_seconds:
        text = f"The transitioner is {figures.backlog_seconds:.0f} s behind."
        yield HealthWarning(code="transitioner_behind", text=text)
    if figures.unsent < watch.min_unsent:
        text = f"Results ready to be sent: only {figures.unsent}; there should be {watch.min_unsent}. Submit jobs."
        yield HealthWarning(code="work_runs_out", text=text)
    if watch.max_unsent and figures.unsent >= watch.max_unsent:
        text = f"{figures.unsent} results are unsent: no more jobs are accepted from {watch.max_unsent} on."
        yield HealthWarning(code="too_much_unsent", text=text, severe=True)


def rate_warnings(endings: Endings, settings: Settings) -> Iterator[HealthWarning]:
    """Warn when too many results of a day failed."""
    if endings.total >= MIN_RESULTS_FOR_RATE and endings.error_rate > settings.watch.max_error_rate:
        text = (
            f"{endings.error_rate:.0%} of the last day's results ({endings.total}) failed ({endings.error} on hosts,"
            f" {endings.no_reply} not returned, {endings.invalid} invalid)."
        )
        yield HealthWarning(code="many_errors", text=text)


def write_warnings(backlog: int, settings: Settings) -> Iterator[HealthWarning]:
    """Warn when the database is too slow for the writes."""
    if backlog > settings.watch.max_write_backlog:
        yield HealthWarning(
            code="writes_wait", text=f"Writes that wait for the database: {backlog}; is the disk slow?"
        )


def row_warnings(left_out: Sequence[str]) -> Iterator[HealthWarning]:
    """Warn of rows of the database that could not be read; their texts say which."""
    if left_out:
        rows = several(len(left_out), "row")
        text = f"Left out since the start, because they cannot be read: {rows}. The first: {left_out[0]}"
        yield HealthWarning(code="rows_left_out", text=text)


def export_warnings(ctx: ServerContext) -> Iterator[HealthWarning]:
    """Warn when statistics sites get old figures."""
    every, last = ctx.settings.export.every_seconds, last_export(ctx.folder)
    made = None if last is None else last.time
    running = ctx.started > 0.0  # a command beside no server waits for no export
    if every and running and is_overdue(made, started=ctx.started, every=every, now=ctx.clock()):
        age = (
            "There is no export" if made is None else f"The export is {(ctx.clock() - made) / 3600:.0f} h old"
        )
        yield HealthWarning(
            code="export_old", text=f"{age}: statistics sites wait for a new one. Try: cobblestone export"
        )


def daemon_warnings(states: Mapping[str, DaemonHealth], errors: Mapping[str, str]) -> Iterator[HealthWarning]:
    """Warn of daemons that do not run."""
    for name, state in states.items():
        if state is not DaemonHealth.RUNNING:
            why = f": {errors[name]}" if errors.get(name) else ""
            yield HealthWarning(
                code=f"daemon_{name}",
                text=f"The daemon {name} is {state.value}{why}",
                severe=state is not DaemonHealth.FAILING,
            )


MAIL_SECONDS = 3600.0


class Watcher:
    """The monitoring daemon."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._next_sample: float | None = None
        self._mailed: dict[str, float] = {}  # code of a warning -> when it was mailed

    async def step(self) -> int:
        """Check once; return 0, as nothing is left to do at once."""
        ctx = self._ctx
        state = await ctx.state.get()
        found = current_warnings(ctx, state.figures, state.endings)
        await self._mail(ctx.health.set_warnings(found, now=ctx.clock()))
        with ctx.processes.lease_shards(WATCHER) as turn:
            if turn.shards != ():
                await advance_rollouts(ctx)
                await self._sample(state)
        return 0

    async def _mail(self, begun: Sequence[HealthWarning]) -> None:
        """Mail new warnings; each at most once an hour, even if it comes and goes."""
        now, settings = self._ctx.clock(), self._ctx.settings
        # A clock that is set back makes nobody wait for it.
        wanted = [each for each in begun if abs(now - self._mailed.get(each.code, 0.0)) >= MAIL_SECONDS]
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

    async def _sample(self, state: ProjectCounters) -> None:
        ctx, now, watch = self._ctx, self._ctx.clock(), self._ctx.settings.watch
        if self._next_sample is None:
            self._next_sample = await ctx.store.aread(last_sample_time) + watch.sample_seconds
        # If it is later still, the clock was wrong at the last one.
        if now < self._next_sample <= now + watch.sample_seconds:
            return
        self._next_sample = now + watch.sample_seconds
        figures = sample_figures(ctx, state)
        await ctx.store.awrite(
            lambda tx: add_sample(tx, figures, now=now, keep_since=now - watch.keep_samples)
        )


def sample_figures(ctx: ServerContext, state: ProjectCounters) -> dict[str, float]:
    """Return the figures of a sample.  Names that start with ``n_`` only grow while the server runs; rates are differences."""
    figures, ended = state.figures, state.endings
    counts = ("unsent", "in_progress", "validation", "assimilation", "deletion", "hosts_active")
    return {
        **{name: getattr(figures, name) for name in counts},
        **{name: getattr(ctx.metrics, name) for name in ("n_sent", "n_reported", "n_requests")},
        "backlog_seconds": round(figures.backlog_seconds, 1),
        "error_rate": round(ended.error_rate, 4),
        "disk_free": free_bytes(ctx),
        "write_backlog": ctx.store.backlog(),
        "n_created": figures.results_created,
        "n_credited": figures.credit_entries,
        "n_failed_requests": ctx.metrics.n_errors,
    }
