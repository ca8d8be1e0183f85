"""How the project is doing; its plan classes."""

from __future__ import annotations

from dataclasses import asdict

from cobblestone import __version__
from cobblestone.domain.hosts import HostDescription
from cobblestone.policy.dispatch.plan_class import count_matching_hosts
from cobblestone.server.api.routing import Call, Endpoint, Nothing, Reply
from cobblestone.server.plan_classes import load_plan_classes
from cobblestone.store import hosts
from cobblestone.store.database import Database
from cobblestone.store.overview import project_counts
from cobblestone.store.tokens import Scope

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


class StatusReply(Reply):
    """The project and what is going on."""

    name: str
    url: str
    version: str
    counts: CountsReply


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
    counts = await call.ctx.store.aread(lambda db: project_counts(db, now=call.now))
    project = call.ctx.settings.project
    return StatusReply(
        name=project.name, url=project.url, version=__version__, counts=CountsReply(**asdict(counts))
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
