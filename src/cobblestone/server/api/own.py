"""What volunteers' own programs may read: their computers, tasks and credit.

These endpoints take a token that a volunteer made on the page of tokens, and show that volunteer's data alone.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.domain.errors import NotFound
from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import AppId, HostId, UserId
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.api.errors import unauthorised
from cobblestone.server.api.routing import Call, Endpoint, Model, Nothing, Reply
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import page_queries
from cobblestone.store.operation.page_queries import TaskOwner, TaskRow, TaskState
from cobblestone.store.people import hosts, users
from cobblestone.store.people.tokens import Scope

MAX_TASKS = 500
MAX_COMPUTERS = 1000

Id = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class OwnAccount(Reply):
    """The account of whoever made the token."""

    id: int
    name: str
    created: float
    team_id: int | None
    total_credit: float
    recent_average_credit: float
    tasks: dict[str, int]  # by state, of the newest 20,000


class OwnComputer(Reply):
    """A computer."""

    id: int
    name: str
    created: float
    last_contact: float
    venue: str
    processor: str
    cpus: int
    system: str
    total_credit: float
    recent_average_credit: float
    blocked: str


class OwnComputers(Reply):
    """Computers, the one that called last first."""

    computers: list[OwnComputer]


class OwnTask(Reply):
    """A task."""

    id: int
    name: str
    workunit: int
    app: str
    computer: int | None
    state: str | None
    sent: float | None
    deadline: float | None
    reported: float | None
    run_time: float
    cpu_time: float
    exit_status: int
    credit: float


class OwnTasks(Reply):
    """Tasks, the newest first; ``before`` for the next part of the list, if there is one."""

    tasks: list[OwnTask]
    before: int | None


class TasksQuery(Model):
    """A part of the list."""

    state: TaskState | None = None
    computer: Id | None = None
    app: Id | None = None
    before: Id | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_TASKS)] = 100


def _owner(call: Call[Nothing, Nothing] | Call[Nothing, TasksQuery]) -> UserId:
    if call.token is None or call.token.user_id is None:
        raise unauthorised("This needs a token of a volunteer: make one on the project's pages (tokens.php).")
    return call.token.user_id


async def account(call: Call[Nothing, Nothing]) -> OwnAccount:
    """The account itself."""
    user_id = _owner(call)
    user, counts = await call.ctx.store.aread(
        lambda db: (users.user_by_id(db, user_id), page_queries.count_tasks(db, TaskOwner(user_id=user_id)))
    )
    if user is None:
        raise NotFound("The account is gone.")
    return OwnAccount(
        id=user.id,
        name=user.name,
        created=user.create_time,
        team_id=user.team_id,
        total_credit=user.credit.total,
        recent_average_credit=decayed(user.credit.recent, call.now),
        tasks={state.value: number for state, number in counts.items()},
    )


async def computers(call: Call[Nothing, Nothing]) -> OwnComputers:
    """The account's computers."""
    user_id = _owner(call)
    found = await call.ctx.store.aread(lambda db: hosts.hosts_of_user(db, user_id, limit=MAX_COMPUTERS))
    return OwnComputers(computers=[_computer(host, call.now) for host in found])


async def tasks(call: Call[Nothing, TasksQuery]) -> OwnTasks:
    """The account's tasks, in every state."""
    user_id, query = _owner(call), call.query
    app_id = None if query.app is None else AppId(query.app)

    def read(db: Database) -> list[TaskRow]:
        owner = TaskOwner(user_id=user_id, app_id=app_id)
        if query.computer is not None:
            host = hosts.host_by_id(db, HostId(query.computer))
            if host is None or host.user_id != user_id:
                raise NotFound(f"You have no computer {query.computer}.")
            owner = TaskOwner(host_id=host.id, app_id=app_id)
        return page_queries.list_tasks(db, owner, state=query.state, before=query.before, limit=query.limit)

    rows = await call.ctx.store.aread(read)
    more = len(rows) > query.limit
    shown = rows[: query.limit]
    return OwnTasks(tasks=[_task(row) for row in shown], before=shown[-1].result.id if more else None)


def _computer(host: Host, now: float) -> OwnComputer:
    about = host.description
    return OwnComputer(
        id=host.id,
        name=host.label or about.domain_name,
        created=host.create_time,
        last_contact=host.rpc_time,
        venue=host.venue,
        processor=about.p_model,
        cpus=about.p_ncpus,
        system=about.os_name,
        total_credit=host.credit.total,
        recent_average_credit=decayed(host.credit.recent, now),
        blocked=host.blocked_reason,
    )


def _task(row: TaskRow) -> OwnTask:
    result = row.result
    return OwnTask(
        id=result.id,
        name=result.name,
        workunit=result.workunit_id,
        app=row.app_title,
        computer=result.host_id,
        state=page_queries.task_state(result),
        sent=result.sent_time,
        deadline=result.report_deadline,
        reported=result.received_time,
        run_time=result.elapsed_time,
        cpu_time=result.cpu_time,
        exit_status=result.exit_status,
        credit=result.granted_credit,
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/me",
        summary="Your account",
        handler=account,
        body=Nothing,
        query=Nothing,
        reply=OwnAccount,
        scope=Scope.ACCOUNT,
        tag="own data",
    ),
    Endpoint(
        method="GET",
        path="/me/computers",
        summary="Your computers",
        handler=computers,
        body=Nothing,
        query=Nothing,
        reply=OwnComputers,
        scope=Scope.ACCOUNT,
        tag="own data",
    ),
    Endpoint(
        method="GET",
        path="/me/tasks",
        summary="Your tasks",
        handler=tasks,
        body=Nothing,
        query=TasksQuery,
        reply=OwnTasks,
        scope=Scope.ACCOUNT,
        tag="own data",
        problems=(404,),
    ),
)
