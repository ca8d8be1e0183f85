"""Apps and their versions."""

from __future__ import annotations

import msgspec

from cobblestone.domain.apps import App, AppVersion
from cobblestone.domain.errors import NotFound
from cobblestone.domain.ids import AppVersionId
from cobblestone.domain.job_form import JobForm
from cobblestone.policy.rollout import RolloutPlan
from cobblestone.server.api import app_rules
from cobblestone.server.api.app_models import (
    AppChanges,
    AppList,
    AppReply,
    DispatchBody,
    NewApp,
    NewVersion,
    VersionList,
    VersionReply,
    app_reply,
    version_reply,
)
from cobblestone.server.api.routing import Call, Endpoint, Model, Nothing
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.files.code_signing import private_key_of, sign_version
from cobblestone.server.operation import rollout
from cobblestone.store.catalog import apps, keys
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import hosts
from cobblestone.store.people.tokens import Scope
from cobblestone.store.work import files


class VersionChanges(Model):
    """What shall be different."""

    deprecated: bool


class VersionQuery(Model):
    """Which versions to list."""

    deprecated: bool = False  # those too


def app_named(db: Database, name: str) -> App:
    """An app; raises NotFound with the names that exist."""
    app = apps.app_by_name(db, name)
    if app is None:
        known = ", ".join(each.name for each in apps.list_apps(db)[:20]) or "none yet"
        raise NotFound(f"There is no app called {name[:60]!r}. Known: {known}.")
    return app


def _describe(db: Database, app: App) -> AppReply:
    return app_reply(app, apps.job_form(db, app.id), apps.list_versions(db, app.id))


class _VersionAdder:
    """Adds a version inside a transaction; what needs the disk is read before."""

    def __init__(self, ctx: ServerContext, now: float) -> None:
        self._now = now
        self._private_key = private_key_of(ctx.folder)
        self._plan_classes = load_plan_classes(ctx.folder.root)

    def add(self, tx: Transaction, body: NewVersion, app: App, form: JobForm) -> AppVersion:
        version = app_rules.version_from(
            body,
            app,
            form,
            stored=files.files_by_name(tx, [file.file for file in body.files]),
            plan_classes=self._plan_classes,
        )
        known = {
            file.name: file.signature
            for each in apps.list_versions(tx, deprecated=True)
            for file in each.files
        }
        signed = sign_version(
            version, current=keys.current_key(tx), private_key=self._private_key, known=known
        )
        return apps.add_version(tx, signed, now=self._now)


async def create_app(call: Call[NewApp, Nothing]) -> AppReply:
    """Create an app and, if given, its first version."""
    body = call.body
    form = app_rules.form_from(body)
    app = app_rules.app_from(body)
    adder = _VersionAdder(call.ctx, call.now)

    def create(tx: Transaction) -> AppReply:
        created = apps.create_app(tx, app, form=form, now=call.now)
        if body.version is not None:
            adder.add(tx, body.version, created, form)
        return _describe(tx, created)

    return await call.write_once(create, AppReply)


async def list_apps(call: Call[Nothing, Nothing]) -> AppList:
    """List apps."""
    return await call.ctx.store.aread(
        lambda db: AppList(apps=[_describe(db, app) for app in apps.list_apps(db)])
    )


async def get_app(call: Call[Nothing, Nothing]) -> AppReply:
    """Describe an app."""
    name = call.path_name("name")
    return await call.ctx.store.aread(lambda db: _describe(db, app_named(db, name)))


async def change_app(call: Call[AppChanges, Nothing]) -> AppReply:
    """Change an app."""
    name = call.path_name("name")

    dispatch = await _with_size_classes(call.ctx, call.body.dispatch)
    body = msgspec.structs.replace(call.body, dispatch=dispatch)

    def change(tx: Transaction) -> AppReply:
        app = app_named(tx, name)
        call.before.append(app)
        changed, form = app_rules.changed_app(app, apps.job_form(tx, app.id), body)
        apps.update_app(tx, changed, form=form)
        return _describe(tx, changed)

    return await call.write(change)


async def _with_size_classes(ctx: ServerContext, body: DispatchBody | None) -> DispatchBody | None:
    """The rules with speeds instead of a number of size classes; computers are looked at outside of the write."""
    if body is None or body.size_class_count is None:
        return body
    return app_rules.with_size_classes(body, await ctx.store.aread(hosts.speeds))


async def add_version(call: Call[NewVersion, Nothing]) -> VersionReply:
    """Add a version to an app."""
    name = call.path_name("name")
    adder = _VersionAdder(call.ctx, call.now)

    def add(tx: Transaction) -> VersionReply:
        app = app_named(tx, name)
        form = apps.job_form(tx, app.id)
        if call.body.app_changes is not None:
            app, form = app_rules.changed_app(app, form, call.body.app_changes)
            apps.update_app(tx, app, form=form)
        version = adder.add(tx, call.body, app, form)
        if call.body.rollout:
            plan = RolloutPlan(stages=tuple(call.body.rollout))
            rollout.start_rollout(tx, version.id, plan, call.actor, now=call.now)
        return version_reply(version, app.name)

    return await call.write_once(add, VersionReply)


async def list_versions(call: Call[Nothing, VersionQuery]) -> VersionList:
    """List versions of an app."""
    name, deprecated = call.path_name("name"), call.query.deprecated

    def load(db: Database) -> VersionList:
        app = app_named(db, name)
        found = apps.list_versions(db, app.id, deprecated=deprecated)
        return VersionList(versions=[version_reply(version, app.name) for version in found])

    return await call.ctx.store.aread(load)


async def change_version(call: Call[VersionChanges, Nothing]) -> VersionReply:
    """Deprecate a version, or give it out again."""
    version_id = AppVersionId(call.path_id("version_id"))

    def change(tx: Transaction) -> VersionReply:
        call.before.append({"deprecated": not call.body.deprecated})
        version = apps.set_version_deprecated(tx, version_id, call.body.deprecated)
        return version_reply(version, apps.app_by_id(tx, version.app_id).name)

    return await call.write(change)


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/apps",
        summary="Create an app",
        description=(
            "With `command` (words with placeholders such as `{input}` and `{output}`) the app's versions need the"
            " launcher as main program; the Python package and the command line tool put that together."
        ),
        handler=create_app,
        body=NewApp,
        query=Nothing,
        reply=AppReply,
        scope=Scope.MANAGE,
        tag="apps",
        status=201,
        idempotent=True,
        problems=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/apps",
        summary="List apps",
        handler=list_apps,
        body=Nothing,
        query=Nothing,
        reply=AppList,
        scope=Scope.READ,
        tag="apps",
    ),
    Endpoint(
        method="GET",
        path="/apps/{name}",
        summary="Describe an app",
        handler=get_app,
        body=Nothing,
        query=Nothing,
        reply=AppReply,
        scope=Scope.READ,
        tag="apps",
        problems=(404,),
    ),
    Endpoint(
        method="PATCH",
        path="/apps/{name}",
        summary="Change or deprecate an app",
        handler=change_app,
        body=AppChanges,
        query=Nothing,
        reply=AppReply,
        scope=Scope.MANAGE,
        tag="apps",
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/apps/{name}/versions",
        summary="Add an app version",
        description=(
            "Its files must be stored already. If the project's private key lies on the server, files are signed;"
            " else the version is not sent until signatures are imported (`POST /signatures`)."
        ),
        handler=add_version,
        body=NewVersion,
        query=Nothing,
        reply=VersionReply,
        scope=Scope.MANAGE,
        tag="apps",
        status=201,
        idempotent=True,
        problems=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/apps/{name}/versions",
        summary="List app versions",
        handler=list_versions,
        body=Nothing,
        query=VersionQuery,
        reply=VersionList,
        scope=Scope.READ,
        tag="apps",
        problems=(404,),
    ),
    Endpoint(
        method="PATCH",
        path="/versions/{version_id:int}",
        summary="Deprecate an app version",
        handler=change_version,
        body=VersionChanges,
        query=Nothing,
        reply=VersionReply,
        scope=Scope.MANAGE,
        tag="apps",
        problems=(404,),
    ),
)
