"""Apps and their versions: endpoints, replies, and the check of a version's programs.

Whether the platforms of a version can start its files, as the first bytes of those tell.

A version may come from another tool: a program for Linux that is offered to Windows would fail on every computer there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cobblestone.api_schema import apps as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.apps import NewVersion
from cobblestone.domain import apps as domain
from cobblestone.domain.errors import JobError, NotFound
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.values import AppVersionId, form_of
from cobblestone.policy.credit.claims import CreditUnit
from cobblestone.policy.dispatch.rollout import RolloutPlan
from cobblestone.policy.lifecycle.deadlines import propose_delay_bound
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.api.submission import app_rules
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.credit.systems import change_system
from cobblestone.server.files.code_signing import private_key_of, sign_version
from cobblestone.server.operation import rollout
from cobblestone.store.catalog import apps, files
from cobblestone.store.catalog.files import fan_out
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import hosts
from cobblestone.store.work.job_results import turnarounds

#: Files by physical name, and what `platforms_of_program` says of each.
Programs = Mapping[str, tuple[str, ...] | None]


async def read_programs(ctx: ServerContext, body: NewVersion) -> Programs:
    """Read the files of a version; missing ones are left out.

    Raises:
        StoreError: the storage is away.
    """
    named = {each.file for of_some in (body.files, *body.platform_files.values()) for each in of_some}
    stored = await ctx.store.aread(lambda db: files.files_by_name(db, sorted(named)))
    found: dict[str, tuple[str, ...] | None] = {}
    for name, file in stored.items():
        place = files.place_of(ctx.folder.download, name)
        await ctx.storage.bring(place, nbytes=file.nbytes, md5=file.md5)
        head = await asyncio.to_thread(_first_bytes, place)
        if head is not None:
            found[name] = domain.platforms_of_program(head)
    return found


def _first_bytes(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(domain.HEAD_NBYTES)
    except FileNotFoundError:
        return None


def check_programs(body: NewVersion, words: Sequence[str], programs: Programs) -> None:
    """Refuse a version that clients of its platform cannot start; ``words``: of the app's command, if it has one.

    Platforms of which nothing is known are taken as they are, and so are files that are no program of a known kind.

    Raises:
        JobError: it cannot be started there; the text says where it can.
    """
    main = next(each for each in body.files if each.main_program)
    _check_program(body.platform, main.open_name, programs.get(main.file), any_starts=domain.POSIX)
    if words:
        own = {each.open_name: programs.get(each.file) for each in body.files if not each.main_program}
        able, why = domain.platforms_of_command(words, own)
        _check_program(body.platform, why, able)


def _check_program(
    platform: str, name: str, able: tuple[str, ...] | None, *, any_starts: tuple[str, ...] = ()
) -> None:
    if able is None or platform in able or platform not in (domain.ANY_PLATFORM, *domain.PLATFORMS):
        return
    if platform == domain.ANY_PLATFORM and able == any_starts:  # the launcher of commands, which is a script
        return
    if not able:
        raise JobError(f"{name} is a program for a kind of computer that no BOINC client supports.")
    raise JobError(
        f"platform: {name} cannot be started on {platform!r}, but on {', '.join(able)}. Add a version for each platform, with"
        " a file that it can start."
    )


def version_reply(version: domain.AppVersion, app_name: str) -> schema.Version:
    """Describe a version."""
    return form_of(
        schema.Version,
        version,
        app=app_name,
        files=[
            form_of(
                schema.VersionFile,
                file,
                file=file.name,
                signed=bool(file.signature),
                path=f"/download/{fan_out(file.name)}/{file.name}",
            )
            for file in version.files
        ],
    )


def dispatch_reply(rules: domain.AppDispatch) -> schema.Dispatch:
    """Describe who gets the jobs of an app."""
    redundancy = rules.homogeneous_redundancy.name.lower()
    return form_of(
        schema.Dispatch,
        rules,
        homogeneous_redundancy=redundancy,
        size_classes=list(rules.size_classes),
        keywords=list(rules.keywords),
    )


def app_reply(app: domain.App, form: JobForm, versions: list[domain.AppVersion]) -> schema.App:
    """Describe an app."""
    return form_of(
        schema.App,
        app,
        form,
        title=app.user_friendly_name,
        command=list(form.command),
        inputs=[schema.Slot(name=slot.name, open_name=slot.open_name) for slot in form.inputs],
        outputs=[form_of(schema.OutputSpec, spec, name=spec.open_name) for spec in app.output_specs],
        comparison=schema.Comparison(kind=app.comparison.kind, options=dict(app.comparison.options)),
        credit=schema.AppCredit(
            system=app.credit_system,
            per_job=app.fixed_credit,
            host_scale_check=app.host_scale_check,
            partial=app.partial_credit,
            per_cpu_second=app.credit_per_cpu_second,
            function=app.credit_function,
        ),
        dispatch=dispatch_reply(app.dispatch),
        created=app.create_time,
        versions=[version_reply(version, app.name) for version in versions],
    )


def app_named(db: Database, name: str) -> domain.App:
    """Return an app; raises NotFound with the existing names."""
    app = apps.app_by_name(db, name)
    if app is None:
        known = ", ".join(each.name for each in apps.list_apps(db)[:20]) or "none yet"
        raise NotFound(f"There is no app called {name[:60]!r}. Known: {known}.")
    return app


def _describe_app(db: Database, app: domain.App) -> schema.App:
    return app_reply(app, apps.job_form(db, app.id), apps.list_versions(db, app.id))


class _VersionAdder:
    """Adds a version inside a transaction; data from the disk is read before."""

    @classmethod
    async def prepare(cls, call: Call, body: schema.NewVersion) -> _VersionAdder:
        """Read the data needed to add this version."""
        return cls(call.ctx, await read_programs(call.ctx, body), call.now)

    def __init__(self, ctx: ServerContext, programs: Programs, now: float) -> None:
        self._programs = programs
        self._now = now
        self._private_key = private_key_of(ctx.folder)
        self._plan_classes = load_plan_classes(ctx.folder.root)

    def add(
        self, tx: Transaction, body: schema.NewVersion, app: domain.App, form: JobForm
    ) -> list[domain.AppVersion]:
        """Add a version for each of its platforms, under one number; return the first one."""
        platforms = list(dict.fromkeys([body.platform, *body.also_for]))
        if len(platforms) > 1 and domain.ANY_PLATFORM in platforms:
            text = f"also_for: a version for every platform ({domain.ANY_PLATFORM}) cannot have further ones."
            raise JobError(text)
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

    def _replace_others(self, tx: Transaction, app: domain.App, platforms: Sequence[str]) -> None:
        """End versions for every platform when there are some for certain platforms, and vice versa."""
        for version in apps.list_versions(tx, app.id):
            if (version.platform == domain.ANY_PLATFORM) is not (domain.ANY_PLATFORM in platforms):
                apps.set_version_deprecated(tx, version.id, True)

    def _add(
        self, tx: Transaction, body: schema.NewVersion, app: domain.App, form: JobForm
    ) -> domain.AppVersion:
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
            version, current=apps.current_key(tx), private_key=self._private_key, known=known
        )
        return apps.add_version(tx, signed, now=self._now)


@answers(endpoints.CREATE_APP)
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
        return _describe_app(tx, created)

    return await call.write_once(create, schema.App)


@answers(endpoints.LIST_APPS)
async def list_apps(call: Call) -> schema.AppList:
    """List apps."""
    return await call.read(
        lambda db: schema.AppList(apps=[_describe_app(db, app) for app in apps.list_apps(db)])
    )


@answers(endpoints.GET_APP)
async def get_app(call: Call, name: str) -> schema.App:
    """Describe an app."""
    return await call.read(lambda db: _describe_app(db, app_named(db, name)))


@answers(endpoints.PROPOSE_DEADLINE)
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

    return await call.read(load)


@answers(endpoints.CHANGE_APP)
async def change_app(call: Call, name: str, body: schema.AppChanges) -> schema.App:
    """Change or deprecate an app."""
    dispatch = await _with_size_classes(call.ctx, body.dispatch)
    changes = msgspec.structs.replace(body, dispatch=dispatch)

    def change(tx: Transaction) -> schema.App:
        app = app_named(tx, name)
        call.before.append(_describe_app(tx, app))
        changed, _ = _apply_changes(tx, app, changes, call.ctx)
        return _describe_app(tx, changed)

    return await call.write(change)


def _apply_changes(
    tx: Transaction, app: domain.App, changes: schema.AppChanges, ctx: ServerContext
) -> tuple[domain.App, JobForm]:
    """Store the changes to an app.  Under another credit system its jobs go on being worth what they were."""
    form = apps.job_form(tx, app.id)
    if changes == schema.AppChanges():
        return app, form
    changed, form = app_rules.changed_app(app, form, changes)
    apps.update_app(tx, changed, form=form)
    if changed.credit_system != app.credit_system:
        unit = CreditUnit(ctx.settings.credit.per_gflops_day)
        change_system(tx, app, changed, unit=unit, now=ctx.clock())
    return changed, form


async def _with_size_classes(
    ctx: ServerContext, body: schema.DispatchBody | None
) -> schema.DispatchBody | None:
    """Return the rules with speeds instead of a number of size classes; computers are read outside of the write."""
    if body is None or body.size_class_count is None:
        return body
    return app_rules.with_size_classes(body, await ctx.store.aread(hosts.speeds))


@answers(endpoints.ADD_VERSION)
async def add_version(call: Call, name: str, body: schema.NewVersion) -> schema.Version:
    """Add an app version.

    Its files must be stored already. If the project's private key lies on the server, files are signed; else the
    version is not sent until signatures are imported (`POST /signatures`).
    """
    adder = await _VersionAdder.prepare(call, body)

    def add(tx: Transaction) -> schema.Version:
        app = app_named(tx, name)
        app, form = _apply_changes(tx, app, body.app_changes or schema.AppChanges(), call.ctx)
        versions = adder.add(tx, body, app, form)
        for version in versions:
            if body.rollout:
                plan = RolloutPlan(stages=tuple(body.rollout))
                rollout.start_rollout(tx, version.id, plan, call.actor, now=call.now)
        return version_reply(versions[0], app.name)

    return await call.write_once(add, schema.Version)


@answers(endpoints.LIST_VERSIONS)
async def list_versions(call: Call, name: str, query: schema.VersionQuery) -> schema.VersionList:
    """List app versions."""

    def load(db: Database) -> schema.VersionList:
        app = app_named(db, name)
        found = apps.list_versions(db, app.id, deprecated=query.deprecated)
        return schema.VersionList(versions=[version_reply(version, app.name) for version in found])

    return await call.read(load)


@answers(endpoints.CHANGE_VERSION)
async def change_version(call: Call, version_id: AppVersionId, body: schema.VersionChanges) -> schema.Version:
    """Deprecate an app version."""

    def change(tx: Transaction) -> schema.Version:
        call.before.append({"deprecated": not body.deprecated})
        version = apps.set_version_deprecated(tx, version_id, body.deprecated)
        return version_reply(version, apps.app_by_id(tx, version.app_id).name)

    return await call.write(change)
