"""Single workunits, for operators: list, show, change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from cobblestone.api_schema import batches as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.apps import RulesBody
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.values import form_of
from cobblestone.domain.work import Workunit
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.api.people import task_fields
from cobblestone.server.api.submission.app_rules import limits_with, rules_from
from cobblestone.server.api.submission.apps import app_named
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import interventions, listings, page_queries
from cobblestone.store.operation.listings import ListedWorkunit
from cobblestone.store.work import rows as work


def _listed(db: Database, workunit: str) -> ListedWorkunit:
    """Return a workunit by id or name.  Raises NotFound."""
    named = work.workunit_by_name(db, workunit)
    number = int(workunit) if workunit.isascii() and workunit.isdecimal() and len(workunit) < 16 else 0
    listed = listings.listed_workunit(db, number if named is None else named.id)
    if listed is None:
        raise NotFound(
            f"There is no workunit {workunit}. See: cobblestone workunit list; purged ones: cobblestone archive query"
        )
    return listed


def _fields(listed: ListedWorkunit, app: str) -> dict[str, Any]:
    return {"id": listed.workunit_id, "app": app, "batch": listed.batch_id, "created": listed.create_time}


def _details(db: Database, listed: ListedWorkunit) -> schema.WorkunitDetails:
    workunit = work.workunits(db, [listed.workunit_id])[listed.workunit_id]
    return form_of(
        schema.WorkunitDetails,
        listed,
        workunit.limits,
        workunit.rules,
        **_fields(listed, apps.app_by_id(db, listed.app_id).name),
        command_line=workunit.command_line,
        inputs=[file.name for file in workunit.input_files],
        canonical_result=workunit.canonical_result_id,
        tasks=[
            schema.Task(**task_fields(row), user=row.result.user_id)
            for row in page_queries.tasks_of_workunit(db, listed.workunit_id)
        ],
    )


@answers(endpoints.LIST_WORKUNITS)
async def list_workunits(call: Call, query: schema.WorkunitsQuery) -> schema.WorkunitList:
    """List workunits, newest first."""

    def read(db: Database) -> schema.WorkunitList:
        names = {app.id: app.name for app in apps.list_apps(db)}
        found = listings.newest_workunits(
            db,
            listings.Page(limit=query.limit, before=query.before),
            app_id=None if query.app is None else app_named(db, query.app).id,
            batch_id=query.batch,
            status=query.status,
        )
        return schema.WorkunitList(
            workunits=[form_of(schema.Workunit, each, **_fields(each, names[each.app_id])) for each in found]
        )

    return await call.read(read)


@answers(endpoints.GET_WORKUNIT)
async def get_workunit(call: Call, workunit: str) -> schema.WorkunitDetails:
    """Describe a workunit.

    By id or name, with its limits, rules and results.
    """
    return await call.read(lambda db: _details(db, _listed(db, workunit)))


@answers(endpoints.CHANGE_WORKUNIT)
async def change_workunit(call: Call, workunit: str, body: schema.WorkunitChanges) -> schema.WorkunitDetails:
    """Change an unfinished workunit.

    By id or name. Results that are sent from now on get the new limits; those on hosts keep what they were sent with.
    """

    def change(tx: Transaction) -> schema.WorkunitDetails:
        state = interventions.workunit_state(tx, _listed(tx, workunit).workunit_id)
        if state.finished:
            raise Conflict(f"Workunit {workunit} is finished: none of its results will be sent.")
        before = state.workunit
        after = _changed(before, body)
        call.before.append({"priority": before.priority, "limits": before.limits, "rules": before.rules})
        interventions.change_workunit(tx, before, after, now=call.now)
        return _details(tx, _listed(tx, before.name))

    return await call.write(change)


def _changed(workunit: Workunit, body: schema.WorkunitChanges) -> Workunit:
    """Return a workunit with changes.  Raises JobError for contradictory rules."""
    kept = msgspec.to_builtins(workunit.rules)
    given = {name: value for name in kept if (value := getattr(body, name, None)) is not None}
    return replace(
        workunit,
        priority=workunit.priority if body.priority is None else body.priority,
        limits=limits_with(body.limits, workunit.limits),
        rules=rules_from(RulesBody(**{**kept, **given})) if given else workunit.rules,
    )
