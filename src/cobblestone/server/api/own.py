"""What volunteers' own programs may read: their computers, tasks and credit.

These endpoints take a token that a volunteer made on the page of tokens, and show that volunteer's data alone.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from cobblestone.api_schema import people as schema
from cobblestone.domain.errors import NotFound
from cobblestone.domain.exit_statuses import exit_advice
from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import AppId, HostId, UserId
from cobblestone.domain.people import Scope
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.api.errors import unauthorised
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import page_queries
from cobblestone.store.operation.page_queries import TaskOwner, TaskRow
from cobblestone.store.people import hosts, users

MAX_TASKS = 500
MAX_COMPUTERS = 1000

Id = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


def _owner(call: Call) -> UserId:
    if call.token is None or call.token.user_id is None:
        raise unauthorised("This needs a token of a volunteer: make one on the project's pages (tokens.php).")
    return call.token.user_id


@endpoint("GET", "/me", scope=Scope.ACCOUNT, tag="own data")
async def account(call: Call) -> schema.OwnAccount:
    """Your account."""
    user_id = _owner(call)
    user, counts = await call.ctx.store.aread(
        lambda db: (users.user_by_id(db, user_id), page_queries.count_tasks(db, TaskOwner(user_id=user_id)))
    )
    if user is None:
        raise NotFound("The account is gone.")
    return schema.OwnAccount(
        id=user.id,
        name=user.name,
        created=user.create_time,
        team_id=user.team_id,
        total_credit=user.credit.total,
        recent_average_credit=decayed(user.credit.recent, call.now),
        tasks={state.value: number for state, number in counts.items()},
    )


@endpoint("GET", "/me/computers", scope=Scope.ACCOUNT, tag="own data")
async def computers(call: Call) -> schema.OwnComputers:
    """Your computers."""
    user_id = _owner(call)
    found = await call.ctx.store.aread(lambda db: hosts.hosts_of_user(db, user_id, limit=MAX_COMPUTERS))
    return schema.OwnComputers(computers=[_computer(host, call.now) for host in found])


@endpoint("GET", "/me/tasks", scope=Scope.ACCOUNT, tag="own data", problems=(404,))
async def tasks(call: Call, query: schema.TasksQuery) -> schema.OwnTasks:
    """Your tasks."""
    user_id = _owner(call)
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
    return schema.OwnTasks(
        tasks=[schema.OwnTask(**task_fields(row)) for row in shown],
        before=shown[-1].result.id if more else None,
    )


def _computer(host: Host, now: float) -> schema.OwnComputer:
    about = host.description
    return schema.OwnComputer(
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


def task_fields(row: TaskRow) -> dict[str, Any]:
    """Return what a reply says of a task."""
    result = row.result
    return {
        "id": result.id,
        "name": result.name,
        "workunit": result.workunit_id,
        "app": row.app_title,
        "computer": result.host_id,
        "state": page_queries.task_state(result),
        "sent": result.sent_time,
        "deadline": result.report_deadline,
        "reported": result.received_time,
        "run_time": result.elapsed_time,
        "cpu_time": result.cpu_time,
        "exit_status": result.exit_status,
        "exit_meaning": exit_advice(result.exit_status).text() if result.exit_status else "",
        "credit": result.granted_credit,
    }
