"""What to warn of: the state of the project against the limits of the settings' section ``[watch]``.

The codes are stable; ``docs/operations.md`` says for each what it means and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cobblestone.ops.settings import Settings
from cobblestone.policy.exports import is_overdue
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import Role
from cobblestone.server.files.disk_space import free_bytes
from cobblestone.server.files.exports import last_export
from cobblestone.service.health import DaemonHealth, ProjectWarning
from cobblestone.service.processes import role_warnings
from cobblestone.store.operation.figures import Endings, ProjectFigures

MIN_RESULTS_FOR_RATE = 50
_WAITING = {
    "validation": "validator",
    "assimilation": "assimilator",
    "deletion": "file deleter",
}


def current_warnings(ctx: ServerContext, figures: ProjectFigures, endings: Endings) -> list[ProjectWarning]:
    """All that should be warned of now."""
    return [
        *disk_warnings(free_bytes(ctx), ctx.settings),
        *queue_warnings(figures, ctx.settings),
        *rate_warnings(endings, ctx.settings),
        *export_warnings(ctx),
        *write_warnings(ctx.store.backlog(), ctx.settings),
        *daemon_warnings(
            ctx.health.states(ctx.clock()), {n: b.last_error for n, b in ctx.health.daemons.items()}
        ),
        *role_warnings(
            ctx.health.processes,
            Role,
            started=ctx.started,
            max_silent_seconds=ctx.settings.watch.max_silent_seconds,
            now=ctx.clock(),
        ),
    ]


def disk_warnings(free: int, settings: Settings) -> Iterator[ProjectWarning]:
    """Little room, or too little."""
    least = settings.server.min_free_disk_bytes
    if free < least:
        text = f"{free // 10**6} MB are free on the disk: below {least // 10**6} MB uploads and submissions are put off."
        yield ProjectWarning(code="disk_full", text=text, severe=True)
    elif free < settings.watch.free_disk_bytes:
        text = (
            f"{free // 10**6} MB are free on the disk; at {least // 10**6} MB uploads and submissions stop."
        )
        yield ProjectWarning(code="disk_low", text=text)


def queue_warnings(figures: ProjectFigures, settings: Settings) -> Iterator[ProjectWarning]:
    """Queues that are too long, or run dry."""
    watch = settings.watch
    for name, daemon in _WAITING.items():
        waiting = getattr(figures, name)
        if waiting > watch.max_waiting:
            text = f"{waiting} workunits wait for {name}; is the {daemon} failing, or too slow?"
            yield ProjectWarning(code=f"waiting_for_{name}", text=text)
    if figures.parked:
        text = (
            f"{figures.parked} jobs are parked, because a comparison or the project's own function failed on them. `cobblestone"
            " explain workunit ID` says how; `cobblestone workunit retry ID` tries again."
        )
        yield ProjectWarning(code="jobs_parked", text=text)
    if figures.called_again:
        text = (
            f"A comparison or the project's own function failed on {figures.called_again} jobs and is tried again. `cobblestone"
            " explain workunit ID` says how."
        )
        yield ProjectWarning(code="function_fails", text=text)
    if figures.backlog_seconds > watch.max_backlog_seconds:
        text = f"The transitioner is {figures.backlog_seconds:.0f} s behind."
        yield ProjectWarning(code="transitioner_behind", text=text)
    if figures.unsent < watch.min_unsent:
        text = (
            f"Only {figures.unsent} results are ready to be sent; {watch.min_unsent} are wanted. Submit jobs."
        )
        yield ProjectWarning(code="work_runs_out", text=text)
    if watch.max_unsent and figures.unsent >= watch.max_unsent:
        text = f"{figures.unsent} results wait to be sent: no more jobs are taken from {watch.max_unsent} on."
        yield ProjectWarning(code="too_much_unsent", text=text, severe=True)


def rate_warnings(endings: Endings, settings: Settings) -> Iterator[ProjectWarning]:
    """Too many results of a day failed."""
    if endings.total >= MIN_RESULTS_FOR_RATE and endings.error_rate > settings.watch.max_error_rate:
        text = (
            f"{endings.error_rate:.0%} of the {endings.total} results of a day failed ({endings.error} on hosts,"
            f" {endings.no_reply} not returned, {endings.invalid} invalid)."
        )
        yield ProjectWarning(code="many_errors", text=text)


def write_warnings(backlog: int, settings: Settings) -> Iterator[ProjectWarning]:
    """Say that the database does not keep up."""
    if backlog > settings.watch.max_write_backlog:
        yield ProjectWarning(
            code="writes_wait", text=f"{backlog} writes wait for the database: is the disk slow?"
        )


def export_warnings(ctx: ServerContext) -> Iterator[ProjectWarning]:
    """Statistics sites get old figures."""
    every, last = ctx.settings.export.every_seconds, last_export(ctx.folder)
    made = None if last is None else last.time
    running = ctx.started > 0.0  # a command beside no server waits for no export
    if every and running and is_overdue(made, started=ctx.started, every=every, now=ctx.clock()):
        age = (
            "There is no export" if made is None else f"The export is {(ctx.clock() - made) / 3600:.0f} h old"
        )
        yield ProjectWarning(
            code="export_old", text=f"{age}: statistics sites wait for a new one. Try: cobblestone export"
        )


def daemon_warnings(
    states: Mapping[str, DaemonHealth], errors: Mapping[str, str]
) -> Iterator[ProjectWarning]:
    """Daemons that do not do their rounds."""
    for name, state in states.items():
        if state is not DaemonHealth.RUNNING:
            why = f": {errors[name]}" if errors.get(name) else ""
            yield ProjectWarning(
                code=f"daemon_{name}",
                text=f"The daemon {name} is {state.value}{why}",
                severe=state is not DaemonHealth.FAILING,
            )
