"""How the project is doing; its plan classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from cobblestone import __version__
from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.policy.dispatch.plan_class import count_matching_hosts
from cobblestone.server.api.routing import Call, Endpoint, Nothing, Reply
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.files.disk_space import database_bytes, free_bytes
from cobblestone.server.operation.alerts import current_warnings
from cobblestone.service.processes import daemon_notes, daemons_of_all, is_alive
from cobblestone.store.engine.database import Database
from cobblestone.store.operation.figures import Endings, ProjectFigures, endings, project_figures
from cobblestone.store.operation.overview import ProjectCounts, project_counts
from cobblestone.store.operation.processes import DaemonNote, ServerProcess, server_processes
from cobblestone.store.people import hosts
from cobblestone.store.people.tokens import Scope

MAX_HOSTS_LOOKED_AT = 10_000


class CountsReply(Reply):
    """Numbers of what somebody waits for."""

    users: int
    hosts: int
    active_hosts: int
    apps: int
    unsigned_versions: int
    open_batches: int
    results_unsent: int
    results_in_progress: int
    workunits_unfinished: int
    workunits_to_validate: int
    workunits_to_assimilate: int
    workunits_to_delete: int


class DaemonReply(Reply):
    """A part of the server."""

    name: str
    state: str  # running, failing, stuck, not running
    last_beat: float | None  # Unix seconds
    last_error: str


class ProcessReply(Reply):
    """A process of the server."""

    host: str
    pid: int
    roles: list[str]
    version: str
    started: float  # Unix seconds
    last_beat: float  # Unix seconds
    alive: bool  # heard of lately, and not told to stop
    ended: bool  # told to stop
    daemons: list[DaemonReply]


class WarningReply(Reply):
    """Something to look at."""

    code: str
    text: str
    severe: bool
    since: float  # Unix seconds


class StatusReply(Reply):
    """The project and what is going on."""

    name: str
    url: str
    version: str
    counts: CountsReply
    started: float | None  # Unix seconds; None: nobody runs it
    disk_free: int
    database_bytes: int
    write_backlog: int
    backlog_seconds: float  # for how long the workunit that is due first has waited
    oldest_unsent_seconds: float
    error_rate: float  # of the results that ended within a day
    results_last_day: int
    daemons: list[DaemonReply]  # of all processes that are there
    processes: list[ProcessReply]  # heard of within a day
    warnings: list[WarningReply]


class PlanClassReply(Reply):
    """A plan class and which of the known hosts it fits."""

    name: str
    gpu_type: str
    max_threads: int
    hosts_matched: int
    hosts_known: int
    refusals: dict[str, int]  # code of the reason -> hosts


class PlanClassList(Reply):
    """The plan classes of plan_classes.toml."""

    plan_classes: list[PlanClassReply]


async def get_status(call: Call[Nothing, Nothing]) -> StatusReply:
    """Tell how the project is doing."""
    ctx = call.ctx

    def read(db: Database) -> tuple[ProjectCounts, ProjectFigures, Endings, Sequence[ServerProcess]]:
        ended = endings(db, since=call.now - SECONDS_PER_DAY)
        return (
            project_counts(db, now=call.now),
            project_figures(db, now=call.now),
            sum((row.endings for row in ended), Endings()),
            server_processes(db),
        )

    counts, figures, ended, processes = await ctx.store.aread(read)
    found = daemons_of_all(daemon_notes(ctx, call.now), processes, call.now)
    warnings = current_warnings(ctx, figures, ended)
    return StatusReply(
        name=ctx.settings.project.name,
        url=ctx.settings.project.url,
        version=__version__,
        counts=CountsReply(**asdict(counts)),
        started=ctx.started or None,
        disk_free=free_bytes(ctx),
        database_bytes=database_bytes(ctx.folder.database),
        write_backlog=ctx.store.backlog(),
        backlog_seconds=round(figures.backlog_seconds, 1),
        oldest_unsent_seconds=round(figures.oldest_unsent_seconds, 1),
        error_rate=round(ended.error_rate, 4),
        results_last_day=ended.total,
        daemons=[_daemon(note) for note in found.values()],
        processes=[
            ProcessReply(
                host=process.host,
                pid=process.pid,
                roles=list(process.roles),
                version=process.version,
                started=process.started,
                last_beat=process.beat_time,
                alive=is_alive(process, call.now),
                ended=process.ended,
                daemons=[_daemon(note) for note in process.daemons],
            )
            for process in processes
        ],
        warnings=[
            WarningReply(
                code=warning.code,
                text=warning.text,
                severe=warning.severe,
                since=ctx.health.warnings[warning.code].since
                if warning.code in ctx.health.warnings
                else call.now,
            )
            for warning in warnings
        ],
    )


def _daemon(note: DaemonNote) -> DaemonReply:
    return DaemonReply(
        name=note.name, state=note.state, last_beat=note.last_beat or None, last_error=note.last_error
    )


async def list_plan_classes(call: Call[Nothing, Nothing]) -> PlanClassList:
    """Tell which plan classes there are, and which of the known hosts would match."""
    classes = load_plan_classes(call.ctx.folder.root)

    def known(db: Database) -> list[HostDescription]:
        return [host.description for host in hosts.list_hosts(db, limit=MAX_HOSTS_LOOKED_AT)]

    descriptions = await call.ctx.store.aread(known)
    counted = {name: count_matching_hosts(plan_class, descriptions) for name, plan_class in classes.items()}
    return PlanClassList(
        plan_classes=[
            PlanClassReply(
                name=name,
                gpu_type=classes[name].gpu_type,
                max_threads=classes[name].max_threads,
                hosts_matched=count.matching,
                hosts_known=count.total,
                refusals=dict(count.refusals),
            )
            for name, count in counted.items()
        ]
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/status",
        summary="Tell how the project is doing",
        handler=get_status,
        body=Nothing,
        query=Nothing,
        reply=StatusReply,
        scope=Scope.READ,
        tag="project",
    ),
    Endpoint(
        method="GET",
        path="/plan_classes",
        summary="List plan classes",
        description="Which of the known hosts each of them would match, and why not the others.",
        handler=list_plan_classes,
        body=Nothing,
        query=Nothing,
        reply=PlanClassList,
        scope=Scope.READ,
        tag="project",
    ),
)
