"""Apps and their versions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cobblestone.api_schema import apps as schema
from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion
from cobblestone.domain.errors import JobError, NotFound
from cobblestone.domain.ids import AppVersionId
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.people import Scope
from cobblestone.policy.lifecycle.deadlines import propose_delay_bound
from cobblestone.policy.rollout import RolloutPlan
from cobblestone.server.api import app_rules
from cobblestone.server.api.app_programs import Programs, check_programs, read_programs
from cobblestone.server.api.app_replies import app_reply, version_reply
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.files.code_signing import private_key_of, sign_version
from cobblestone.server.operation import rollout
from cobblestone.store.catalog import apps, keys
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import hosts
from cobblestone.store.work import files
from cobblestone.store.work.late_jobs import turnarounds


def app_named(db: Database, name: str) -> App:
    """Return an app; raises NotFound with the names that exist."""
    app = apps.app_by_name(db, name)
    if app is None:
        known = ", ".join(each.name for each in apps.list_apps(db)[:20]) or "none yet"
        raise NotFound(f"There is no app called {name[:60]!r}. Known: {known}.")
    return app


def _describe(db: Database, app: App) -> schema.App:
    return app_reply(app, apps.job_form(db, app.id), apps.list_versions(db, app.id))


class _VersionAdder:
    """Adds a version inside a transaction; what needs the disk is read before."""

    @classmethod
    async def prepare(cls, call: Call, body: schema.NewVersion) -> _VersionAdder:
        """Read what is needed to add this version."""
        return cls(call.ctx, await read_programs(call.ctx, body), call.now)

    def __init__(self, ctx: ServerContext, programs: Programs, now: float) -> None:
        self._programs = programs
        self._now = now
        self._private_key = private_key_of(ctx.folder)
        self._plan_classes = load_plan_classes(ctx.folder.root)

    def add(self, tx: Transaction, body: schema.NewVersion, app: App, form: JobForm) -> list[AppVersion]:
        """Add a version for each of its platforms, under one number; the first one first."""
        platforms = list(dict.fromkeys([body.platform, *body.also_for]))
        if len(platforms) > 1 and ANY_PLATFORM in platforms:
            raise JobError(f"also_for: a version for every platform ({ANY_PLATFORM}) has no further ones.")
        if strange := sorted(set(body.platform_files) - set(platforms)):
            raise JobError(f"platform_files: {strange[0]} is neither the platform nor in also_for.")
        number = body.version_num or max(
            apps.next_version_num(tx, app.id, platform=each, plan_class=body.plan_class) for each in platforms
        )
        if form.command and not body.rollout:
            self._replace_others(tx, app, platforms)
        bodies = [
            msgspec.structs.replace(
                body,
                platform=each,
                version_num=number,
                files=[*body.platform_files.get(each, ()), *body.files],
            )
            for each in platforms
        ]
        return [self._add(tx, each, app, form) for each in bodies]

    def _replace_others(self, tx: Transaction, app: App, platforms: Sequence[str]) -> None:
        """End versions of a command for every platform when there are some for certain ones, and the other way round."""
        for version in apps.list_versions(tx, app.id):
            if (version.platform == ANY_PLATFORM) is not (ANY_PLATFORM in platforms):
                apps.set_version_deprecated(tx, version.id, True)

    def _add(self, tx: Transaction, body: schema.NewVersion, app: App, form: JobForm) -> AppVersion:
        version = app_rules.version_from(
            body,
            app,
            form,
            stored=files.files_by_name(tx, [file.file for file in body.files]),
            plan_classes=self._plan_classes,
        )
        check_programs(body, form.command, self._programs)
        known = {
            file.name: file.signature
            for each in apps.list_versions(tx, deprecated=True)
            for file in each.files
        }
        signed = sign_version(
            version, current=keys.current_key(tx), private_key=self._private_key, known=known
        )
        return apps.add_version(tx, signed, now=self._now)


@endpoint("POST", "/apps", scope=Scope.MANAGE, tag="apps", status=201, idempotent=True, problems=(404, 409))
async def create_app(call: Call, body: schema.NewApp) -> schema.App:
    """Create an app.

    With `command` (words with placeholders such as `{input}` and `{output}`) the app's versions need the launcher as
    main program; the Python package and the command line tool put that together.
    """
    form = app_rules.form_from(body)
    app = app_rules.app_from(body)
    adder = None if body.version is None else await _VersionAdder.prepare(call, body.version)

    def create(tx: Transaction) -> schema.App:
        created = apps.create_app(tx, app, form=form, now=call.now)
        if body.version is not None and adder is not None:
            adder.add(tx, body.version, created, form)
        return _describe(tx, created)

    return await call.write_once(create, schema.App)


@endpoint("GET", "/apps", scope=Scope.READ, tag="apps")
async def list_apps(call: Call) -> schema.AppList:
    """List apps."""
    return await call.ctx.store.aread(
        lambda db: schema.AppList(apps=[_describe(db, app) for app in apps.list_apps(db)])
    )


@endpoint("GET", "/apps/{name}", scope=Scope.READ, tag="apps", problems=(404,))
async def get_app(call: Call, name: str) -> schema.App:
    """Describe an app."""
    return await call.ctx.store.aread(lambda db: _describe(db, app_named(db, name)))


@endpoint("GET", "/apps/{name}/deadline", scope=Scope.READ, tag="apps", problems=(404,))
async def propose_deadline(call: Call, name: str) -> schema.DeadlineProposal:
    """Propose a deadline.

    How much time jobs should get, by what the app's newest good results took (up to 1000, at least 20).
    """

    def load(db: Database) -> schema.DeadlineProposal:
        app = app_named(db, name)
        took = turnarounds(db, app.id)
        found = propose_delay_bound(took)
        return schema.DeadlineProposal(
            app=app.name,
            n=len(took),
            delay_bound=app.limits.delay_bound,
            run_time=None if found is None else found.run_time,
            turnaround=None if found is None else found.turnaround,
            proposed=None if found is None else found.delay_bound,
        )

    return await call.ctx.store.aread(load)


@endpoint("PATCH", "/apps/{name}", scope=Scope.MANAGE, tag="apps", problems=(404,))
async def change_app(call: Call, name: str, body: schema.AppChanges) -> schema.App:
    """Change or deprecate an app."""
    dispatch = await _with_size_classes(call.ctx, body.dispatch)
    changes = msgspec.structs.replace(body, dispatch=dispatch)

    def change(tx: Transaction) -> schema.App:
        app = app_named(tx, name)
        call.before.append(app)
        changed, form = app_rules.changed_app(app, apps.job_form(tx, app.id), changes)
        apps.update_app(tx, changed, form=form)
        return _describe(tx, changed)

    return await call.write(change)


async def _with_size_classes(
    ctx: ServerContext, body: schema.DispatchBody | None
) -> schema.DispatchBody | None:
    """Return the rules with speeds instead of a number of size classes; computers are looked at outside of the write."""
    if body is None or body.size_class_count is None:
        return body
    return app_rules.with_size_classes(body, await ctx.store.aread(hosts.speeds))


@endpoint(
    "POST",
    "/apps/{name}/versions",
    scope=Scope.MANAGE,
    tag="apps",
    status=201,
    idempotent=True,
    problems=(404, 409),
)
async def add_version(call: Call, name: str, body: schema.NewVersion) -> schema.Version:
    """Add an app version.

    Its files must be stored already. If the project's private key lies on the server, files are signed; else the
    version is not sent until signatures are imported (`POST /signatures`).
    """
    adder = await _VersionAdder.prepare(call, body)

    def add(tx: Transaction) -> schema.Version:
        app = app_named(tx, name)
        form = apps.job_form(tx, app.id)
        if body.app_changes is not None:
            app, form = app_rules.changed_app(app, form, body.app_changes)
            apps.update_app(tx, app, form=form)
        versions = adder.add(tx, body, app, form)
        for version in versions:
            if body.rollout:
                plan = RolloutPlan(stages=tuple(body.rollout))
                rollout.start_rollout(tx, version.id, plan, call.actor, now=call.now)
        return version_reply(versions[0], app.name)

    return await call.write_once(add, schema.Version)


@endpoint("GET", "/apps/{name}/versions", scope=Scope.READ, tag="apps", problems=(404,))
async def list_versions(call: Call, name: str, query: schema.VersionQuery) -> schema.VersionList:
    """List app versions."""

    def load(db: Database) -> schema.VersionList:
        app = app_named(db, name)
        found = apps.list_versions(db, app.id, deprecated=query.deprecated)
        return schema.VersionList(versions=[version_reply(version, app.name) for version in found])

    return await call.ctx.store.aread(load)


@endpoint("PATCH", "/versions/{version_id:int}", scope=Scope.MANAGE, tag="apps", problems=(404,))
async def change_version(call: Call, version_id: AppVersionId, body: schema.VersionChanges) -> schema.Version:
    """Deprecate an app version."""

    def change(tx: Transaction) -> schema.Version:
        call.before.append({"deprecated": not body.deprecated})
        version = apps.set_version_deprecated(tx, version_id, body.deprecated)
        return version_reply(version, apps.app_by_id(tx, version.app_id).name)

    return await call.write(change)
