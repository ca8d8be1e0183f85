"""The state of the project, its plan classes, and messages of running jobs."""

from __future__ import annotations

from dataclasses import replace

from cobblestone import __version__
from cobblestone.api_schema import endpoints
from cobblestone.api_schema import project as schema
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.values import form_of
from cobblestone.domain.work import ServerState
from cobblestone.policy.dispatch.versions import count_matching_hosts
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.core.context import free_bytes
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.operation.alerts import current_warnings
from cobblestone.service.supervision import daemon_notes, daemons_of_all, is_alive
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.sqlite import database_bytes
from cobblestone.store.operation.processes import DaemonNote, server_processes
from cobblestone.store.people import hosts
from cobblestone.store.work import messages
from cobblestone.store.work import rows as work

MAX_HOSTS_LOOKED_AT = 10_000


@answers(endpoints.GET_STATUS)
async def get_status(call: Call) -> schema.ProjectStatus:
    """Return the state of the project."""
    ctx = call.ctx
    state, processes = await ctx.state.get(), await ctx.store.aread(server_processes)
    figures, ended = state.figures, state.endings
    found = daemons_of_all(daemon_notes(ctx), processes, call.now)
    warnings, known = current_warnings(ctx, figures, ended), ctx.health.warnings
    return schema.ProjectStatus(
        name=ctx.settings.project.name,
        url=ctx.settings.project.url,
        version=__version__,
        counts=form_of(
            schema.Counts,
            figures,
            active_hosts=figures.hosts_active,
            open_batches=figures.batches_open,
            results_unsent=figures.unsent,
            results_in_progress=figures.in_progress,
            workunits_to_validate=figures.validation,
            workunits_to_assimilate=figures.assimilation,
            workunits_to_delete=figures.deletion,
        ),
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
            form_of(
                schema.ServerProcess,
                process,
                roles=list(process.roles),
                last_beat=process.beat_time,
                alive=is_alive(process, call.now),
                daemons=[_daemon(note) for note in process.daemons],
            )
            for process in processes
        ],
        warnings=[
            replace(warning, since=known[warning.code].since if warning.code in known else call.now)
            for warning in warnings
        ],
    )


def _daemon(note: DaemonNote) -> schema.DaemonState:
    return form_of(schema.DaemonState, note, last_beat=note.last_beat or None)


@answers(endpoints.LIST_PLAN_CLASSES)
async def list_plan_classes(call: Call) -> schema.PlanClassList:
    """List plan classes.

    Those of the file and those in use: which of the known hosts each of them would match, and why not the others.
    """
    known = load_plan_classes(call.ctx.folder.root)

    def read(db: Database) -> tuple[set[str], list[HostDescription]]:
        used = {version.plan_class for version in apps.list_versions(db)}
        return used, [host.description for host in hosts.list_hosts(db, limit=MAX_HOSTS_LOOKED_AT)]

    used, descriptions = await call.read(read)
    classes = {name: known[name] for name in (*known, *sorted(used - set(known))) if name in known}
    counted = {name: count_matching_hosts(plan_class, descriptions) for name, plan_class in classes.items()}
    return schema.PlanClassList(
        plan_classes=[
            form_of(
                schema.PlanClass,
                classes[name],
                hosts_matched=count.matching,
                hosts_known=count.total,
                refusals=dict(count.refusals),
            )
            for name, count in counted.items()
        ]
    )


@answers(endpoints.LIST_TRICKLES)
async def list_trickles(call: Call, query: schema.TricklesQuery) -> schema.TrickleList:
    """List messages of running jobs."""
    found = await call.read(lambda db: messages.trickles(db, after=query.after, limit=query.limit))
    return schema.TrickleList(
        trickles=[
            form_of(schema.Trickle, each, result=each.result_name, received=each.receive_time)
            for each in found
        ]
    )


@answers(endpoints.SEND_TRICKLE)
async def send_trickle(call: Call, body: schema.NewTrickle) -> schema.SentTrickle:
    """Send a message to a running job."""

    def send(tx: Transaction) -> schema.SentTrickle:
        result = work.results_by_name(tx, [body.result]).get(body.result)
        if result is None:
            raise NotFound(f"There is no result called {body.result}.")
        if result.server_state is not ServerState.IN_PROGRESS or result.host_id is None:
            text = f"{result.name} is not in progress on any computer, so the message would not arrive."
            raise Conflict(text)
        return schema.SentTrickle(
            id=messages.send_trickle_down(
                tx, result.host_id, result_name=result.name, text=body.text, now=call.now
            )
        )

    return await call.write_once(send, schema.SentTrickle)
