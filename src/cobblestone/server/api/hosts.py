"""Volunteers' computers, for operators: list, show, change, forget their errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cobblestone.api_schema import endpoints
from cobblestone.api_schema import operation as schema
from cobblestone.api_schema.operation import HostExplanation
from cobblestone.domain.errors import NotFound
from cobblestone.domain.hosts import Host
from cobblestone.domain.values import HostId, form_of
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.api.explain import host_explanation
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.contributions import contributions
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import listings, page_queries
from cobblestone.store.operation.page_queries import TaskOwner
from cobblestone.store.people import hosts


def _host_or_missing(db: Database, host_id: int) -> Host:
    host = hosts.host_by_id(db, HostId(host_id))
    if host is None:
        raise NotFound(f"There is no host {host_id}. See: cobblestone host list")
    return host


def _fields(host: Host, now: float) -> dict[str, Any]:
    return {
        "name": host.description.domain_name,
        "user": host.user_id,
        "created": host.create_time,
        "last_contact": host.rpc_time,
        "total_credit": host.credit.total,
        "recent_average_credit": decayed(host.credit.recent, now),
        "blocked": host.blocked_reason,
    }


def _details(db: Database, host: Host, now: float) -> schema.HostDetails:
    about = host.description
    tasks = page_queries.count_tasks(db, TaskOwner(host_id=host.id))
    return form_of(
        schema.HostDetails,
        host,
        about,
        **_fields(host, now),
        platforms=list(about.platforms),
        processor=about.p_model,
        cpus=about.p_ncpus,
        fpops=about.p_fpops,
        memory=about.m_nbytes,
        disk_free=about.d_free,
        system=f"{about.os_name} {about.os_version}".strip(),
        gpus=[f"{each.count} × {each.name or each.type}" for each in about.coprocessors],
        contributions={
            kind.value: given.total for kind, given in contributions(db, Owner.HOST, host.id).items()
        },
        lacks=host.missing_runtime,
        tasks={state.value: number for state, number in tasks.items()},
    )


@answers(endpoints.LIST_HOSTS)
async def list_hosts(call: Call, query: schema.HostsQuery) -> schema.HostList:
    """List hosts, newest first."""
    page = listings.Page(limit=query.limit, before=query.before)
    found = await call.read(
        lambda db: listings.newest_hosts(db, page, user_id=query.user, blocked=query.blocked)
    )
    return schema.HostList(hosts=[form_of(schema.Host, host, **_fields(host, call.now)) for host in found])


@answers(endpoints.GET_HOST)
async def get_host(call: Call, host_id: HostId) -> schema.HostDetails:
    """Describe a host.

    One that was merged away leads to its survivor.
    """
    return await call.read(lambda db: _details(db, _host_or_missing(db, host_id), call.now))


@answers(endpoints.CHANGE_HOST)
async def change_host(call: Call, host_id: HostId, body: schema.HostChanges) -> schema.HostDetails:
    """Change the settings of a host."""

    def change(tx: Transaction) -> schema.HostDetails:
        host = _host_or_missing(tx, host_id)
        label = host.label if body.label is None else body.label.strip()
        venue = host.venue if body.venue is None else body.venue
        hidden = host.hidden if body.hidden is None else body.hidden
        call.before.append({"label": host.label, "venue": host.venue, "hidden": host.hidden})
        hosts.set_computer(tx, host.id, label=label, venue=venue, hidden=hidden)
        return _details(tx, replace(host, label=label, venue=venue, hidden=hidden), call.now)

    return await call.write(change)


@answers(endpoints.RESET_HOST_ERRORS)
async def reset_host_errors(call: Call, host_id: HostId) -> HostExplanation:
    """Forget the errors of a host.

    Its bad results and what it lacked hold back no tasks any more: for a computer that was repaired.
    """

    def reset(tx: Transaction) -> schema.HostDetails:
        host = _host_or_missing(tx, host_id)
        hosts.reset_errors(tx, host.id, now=call.now)
        return _details(tx, host, call.now)

    await call.write(reset)
    return await host_explanation(call, host_id)
