"""Pages of operators: overview, search, batches, workunits, hosts, users, versions, error rates, audit log.

Visitors who are not logged in are sent to the log-in form; other users get 403.  Every change is a posted form with a
token, carried out by the functions behind the API (``server/operation/interventions.py``), and noted in the audit log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.people import SubmitRights, User
from cobblestone.domain.values import AppVersionId, BatchId, HostId, UserId, WorkunitId
from cobblestone.domain.work import TaskState
from cobblestone.policy.dispatch.rollout import RolloutPlan
from cobblestone.policy.lifecycle.failures import FailureGroup
from cobblestone.server.accounts.security import AccountSecurity
from cobblestone.server.core.context import free_bytes
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.operation import cards, rollout
from cobblestone.server.operation import interventions as operations
from cobblestone.server.operation.alerts import current_warnings
from cobblestone.server.web.presentation.plots import drawings
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import POST, Handler, Pages, shows
from cobblestone.service.pages.site import PageError
from cobblestone.service.supervision import is_alive
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.sqlite import database_bytes
from cobblestone.store.operation import audit, figures, interventions, page_queries
from cobblestone.store.operation.figures import EndingRow, Endings, systems_of_hosts
from cobblestone.store.operation.interventions import Blockable
from cobblestone.store.operation.page_queries import TaskOwner
from cobblestone.store.people import consents, hosts
from cobblestone.store.work import batches, submitters

K = TypeVar("K")

RATE_ROWS_SHOWN = 12
#: Hosts with fewer results of a day are left out: one failure says little.
MIN_RESULTS_OF_RATE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """The outcomes of results of one version, host or system."""

    label: str
    address: str  #: page about it; empty: none
    endings: Endings


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTables:
    """The three tables."""

    versions: list[RateRow]
    hosts: list[RateRow]
    systems: list[RateRow]


def error_tables(db: Database, rows: Sequence[EndingRow]) -> RateTables:
    """Return the worst versions, hosts and systems."""
    versions = _grouped(rows, lambda row: row.version_id)
    worst = _grouped(rows, lambda row: row.host_id)
    systems = systems_of_hosts(db, sorted({row.host_id for row in rows if row.host_id}))
    by_system = _grouped(rows, lambda row: systems.get(row.host_id, "unknown"))
    return RateTables(
        versions=[
            RateRow(
                label=version_label(db, id_),
                address=f"ops_errors.php?version={id_}" if id_ else "",
                endings=ended,
            )
            for id_, ended in _worst(versions, 1)
        ],
        hosts=[
            RateRow(label=str(id_), address=f"ops_host.php?id={id_}", endings=ended)
            for id_, ended in _worst(worst, MIN_RESULTS_OF_RATE)
        ],
        systems=[RateRow(label=name, address="", endings=ended) for name, ended in _worst(by_system, 1)],
    )


def _grouped(rows: Sequence[EndingRow], key: Callable[[EndingRow], K]) -> dict[K, Endings]:
    groups: dict[K, Endings] = {}
    for row in rows:
        groups[key(row)] = groups.get(key(row), Endings()) + row.endings
    return groups


def _worst(groups: dict[K, Endings], least: int) -> list[tuple[K, Endings]]:
    found = [(key, ended) for key, ended in groups.items() if ended.total >= least]
    return sorted(found, key=lambda item: (-item[1].error_rate, -item[1].total))[:RATE_ROWS_SHOWN]


def version_label(db: Database, version_id: int) -> str:
    """Return an app version as operators name it."""
    version = apps.version_by_id(db, AppVersionId(version_id))
    if version is None:
        return f"version {version_id}"
    app = apps.app_by_id(db, version.app_id)
    return f"{app.name} {version.version_num / 100:.2f} {version.platform} {version.plan_class}".strip()


def version_labels(db: Database, groups: Sequence[FailureGroup]) -> dict[int, str]:
    """Return the app versions of failures by id."""
    return {0: "", **{id_: version_label(db, id_) for id_ in {group.version_id for group in groups} if id_}}


SAMPLES_SECONDS = 86400.0
AUDIT_PAGE = 50
HISTORY = 10
QUEUES = ("unsent", "in_progress", "validation", "assimilation", "deletion", "backlog_seconds")
RATES = ("n_created", "n_sent", "n_reported", "n_credited", "n_requests", "n_failed_requests")
MAX_REASON = 200

Action = Callable[[ProjectVisit, int, Mapping[str, str]], Awaitable[str]]


class ForOperators(Pages[ProjectSite]):
    """Pages that only operators of the project see."""

    def endpoint(self, handler: Handler, *, own: bool) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers an operator with a page, sends visitors to the log-in form, and refuses others."""

        async def guarded(visit: ProjectVisit, viewer: User) -> Response:
            if not viewer.is_operator:
                raise PageError(403, _("For operators"), _("This page is only for operators of the project."))
            try:
                return await handler(visit)
            except NotFound as error:
                raise PageError(404, _("Not found"), str(error)) from error
            except Conflict as error:
                raise PageError(409, _("Not possible now"), str(error)) from error

        return self._site.own_page(guarded)


class ProjectOperatorPages(ForOperators):
    """Pages for operators of the project."""

    def __init__(self, site: ProjectSite, security: AccountSecurity) -> None:
        super().__init__(site)
        self._actions: Mapping[str, Action] = {**_ACTIONS, "send_reset": _send_reset(security)}

    # ------------------------------------------------------------------ looking

    @shows("/ops.php")
    async def overview(self, visit: ProjectVisit) -> Response:
        """Show queues, rates, ages, error rates, daemons, warnings."""
        ctx, now = visit.ctx, visit.ctx.clock()
        state = await ctx.state.get()
        values: dict[str, Any] = {
            "figures": state.figures,
            "endings": state.endings,
            "warnings": current_warnings(ctx, state.figures, state.endings),
            "disk_free": free_bytes(ctx),
            "database": database_bytes(ctx.folder.database),
            "write_backlog": ctx.store.backlog(),
        }
        if visit.fields.get("part") == "live":
            return visit.show("ops_live.html", **values)

        def read(db: Database) -> dict[str, Any]:
            seen = ctx.costly.get("cards", lambda: cards.recent_cards(db, now=now))
            return {
                "drawn": drawings(figures.samples(db, since=now - SAMPLES_SECONDS), (*QUEUES, *RATES)),
                "tables": error_tables(db, state.rows),
                "batches": batches.list_batches(db, limit=8),
                "cards": cards.kinds_of(seen),
                "gains": list(cards.gains(db, seen, load_plan_classes(ctx.folder.root))),
            }

        found = await ctx.store.aread(read)
        beats = [
            (beat, beat.health()) for beat in sorted(ctx.health.daemons.values(), key=lambda item: item.name)
        ]
        values["processes"] = [
            (process, is_alive(process, now)) for process in ctx.health.processes if not process.ended
        ]
        return visit.show("ops.html", queues=QUEUES, rates=RATES, beats=beats, **values, **found)

    @shows("/ops_search.php")
    async def search(self, visit: ProjectVisit) -> Response:
        """Find users, hosts, batches, workunits and results by id or name."""
        text = visit.fields.get("q", "").strip()[:200]
        found = await visit.read(lambda db: interventions.search(db, text))
        if len(found) == 1:
            return visit.go(_address(found[0].kind, found[0].id))
        return visit.show(
            "ops_search.html", text=text, found=[(item, _address(item.kind, item.id)) for item in found]
        )

    @shows("/ops_batch.php", "/ops_workunit.php", "/ops_host.php", "/ops_user.php")
    async def thing(self, visit: ProjectVisit) -> Response:
        """Show a batch, workunit, host or user, what can be done with it, and its part of the audit log."""
        noun = visit.request.url.path.rpartition("/ops_")[2].removesuffix(".php")
        number, since = visit.needed_number("id"), visit.ctx.clock() - SAMPLES_SECONDS

        def read(db: Database) -> dict[str, Any]:
            history = audit.entries(db, limit=HISTORY, target=f"{noun} {number}")
            return {**_THINGS[noun](db, number, since), "history": history}

        done = visit.fields.get("done") == "reset"
        return visit.show(f"ops_{noun}.html", number=number, mailed=done, **await visit.read(read))

    @shows("/ops_versions.php")
    async def versions(self, visit: ProjectVisit) -> Response:
        """Show app versions: success, roll-out, roll-back."""
        since = visit.ctx.clock() - 7 * SAMPLES_SECONDS

        def read(db: Database) -> dict[str, Any]:
            by_version = _grouped(figures.endings(db, since=since), lambda row: row.version_id)
            listed = [
                (app, each, figures.rollout_of(db, each.id), by_version.get(each.id, Endings()))
                for app in apps.list_apps(db)
                for each in reversed(apps.list_versions(db, app.id, deprecated=True))
            ]
            return {"versions": listed}

        return visit.show("ops_versions.html", **await visit.read(read))

    @shows("/ops_errors.php")
    async def errors(self, visit: ProjectVisit) -> Response:
        """Show why results of an app version failed."""
        number = visit.needed_number("version")

        def read(db: Database) -> dict[str, Any]:
            if apps.version_by_id(db, AppVersionId(number)) is None:
                raise PageError(404, _("Not found"), _("There is no such version."))
            failures = figures.version_failures(db, AppVersionId(number))
            return {
                "label": version_label(db, number),
                "failures": failures,
                "versions": version_labels(db, failures.groups),
                "n_looked_at": figures.RATE_WINDOW,
            }

        return visit.show("ops_errors.html", **await visit.read(read))

    @shows("/ops_audit.php")
    async def audit(self, visit: ProjectVisit) -> Response:
        """Show the audit log."""
        before = visit.number("before")
        target = visit.fields.get("target", "")[:200]
        found = await visit.read(
            lambda db: audit.entries(db, limit=AUDIT_PAGE + 1, before=before, target=target)
        )
        return visit.show(
            "ops_audit.html", entries=found[:AUDIT_PAGE], more=len(found) > AUDIT_PAGE, target=target
        )

    # ------------------------------------------------------------------ doing

    @shows("/ops_do.php", methods=POST)
    async def act(self, visit: ProjectVisit) -> Response:
        """Carry out the action of a form, and return to the page of the object."""
        form = await visit.form()
        action = self._actions.get(form.get("action", ""))
        number = form.get("id", "")
        if action is None or not (number.isascii() and number.isdecimal() and len(number) <= 16):
            raise PageError(400, _("Invalid request"), _("There is no such action."))
        return visit.go(await action(visit, int(number), form))


def _address(kind: str, number: int) -> str:
    return f"result.php?resultid={number}" if kind == "result" else f"ops_{kind}.php?id={number}"


# -- what pages show -----------------------------------------------------------


def _batch(db: Database, number: int, since: float) -> dict[str, Any]:
    found = batches.batch_by_id(db, number)
    failures = figures.batch_failures(db, found.id)
    return {
        "batch": found,
        "app": apps.app_by_id(db, found.app_id),
        "closing": interventions.count_cancelled_open(db, number),
        "errors": figures.job_errors(db, found.id),
        "failures": failures,
        "versions": version_labels(db, failures.groups),
        "jobs": batches.list_jobs(db, BatchId(number), limit=100),
        "running": batches.count_running(db, found),
    }


def _workunit(db: Database, number: int, since: float) -> dict[str, Any]:
    state = interventions.workunit_state(db, number)
    return {
        "workunit": state.workunit,
        "finished": state.finished,
        "app": apps.app_by_id(db, state.workunit.app_id),
        "tasks": page_queries.tasks_of_workunit(db, WorkunitId(number)),
    }


def _host(db: Database, number: int, since: float) -> dict[str, Any]:
    found = hosts.host_by_id(db, HostId(number))
    if found is None:
        raise NotFound(f"There is no host {number}.")
    ended = sum(
        (row.endings for row in figures.endings(db, since=since) if row.host_id == number), figures.Endings()
    )
    return {
        "host": found,
        "owner": interventions.user_or_missing(db, found.user_id),
        "endings": ended,
        "in_progress": page_queries.count_tasks(db, TaskOwner(host_id=found.id))[TaskState.IN_PROGRESS],
        "address": page_queries.external_address(db, found.id),
    }


def _user(db: Database, number: int, since: float) -> dict[str, Any]:
    held = submitters.token_of(db, UserId(number))
    return {
        "user": interventions.user_or_missing(db, number),
        "hosts": hosts.hosts_of_user(db, UserId(number), limit=50),
        "consents": consents.said_by(db, UserId(number)),
        "apps": apps.list_apps(db),
        "submitter": held,
        "unfinished": submitters.jobs_in_progress(db, held.id) if held else 0,
    }


_THINGS: Mapping[str, Callable[[Database, int, float], dict[str, Any]]] = {
    "batch": _batch,
    "workunit": _workunit,
    "host": _host,
    "user": _user,
}


# -- what forms ask for --------------------------------------------------------


async def _cancel_batch(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    await operations.cancel_batch(visit.ctx, number, visit.actor)
    return f"ops_batch.php?id={number}"


async def _retry_batch(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    new = await operations.retry_batch(visit.ctx, number, visit.actor)
    return f"ops_batch.php?id={new.id}"


async def _cancel_workunit(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    await visit.write(lambda tx: operations.cancel_workunit(tx, visit.ctx, number, visit.actor))
    return f"ops_workunit.php?id={number}"


async def _retry_workunit(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    new = await visit.write(lambda tx: operations.retry_workunit(tx, visit.ctx, number, visit.actor))
    return f"ops_workunit.php?id={number}" if new is None else f"ops_batch.php?id={new.id}"


def _block(noun: Blockable, *, undo: bool = False) -> Action:
    async def block(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
        reason = "" if undo else _reason(form)
        await visit.write(lambda tx: operations.block(tx, visit.ctx, noun, number, reason, visit.actor))
        return f"ops_{noun}.php?id={number}"

    return block


async def _set_role(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    if visit.viewer is not None and visit.viewer.id == number:
        raise Conflict(_("You cannot take the operator role from yourself: another operator must do it."))
    role = form.get("role", "")[:20]
    await visit.write(lambda tx: operations.set_role(tx, visit.ctx, number, role, visit.actor))
    return f"ops_user.php?id={number}"


def _send_reset(security: AccountSecurity) -> Action:
    async def send_reset(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
        def send(tx: Transaction) -> None:
            user = interventions.user_or_missing(tx, number)
            if user.erased:
                raise Conflict(_("The account is deleted."))
            security.send_reset_link(tx, user, by_operator=True)
            audit.record(tx, visit.actor, "send password reset", f"user {number}", now=visit.ctx.clock())

        await visit.write(send)
        return f"ops_user.php?id={number}&done=reset"

    return send_reset


async def _delete_user(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    if form.get("confirm", "").strip() != str(number):
        raise Conflict(_("Nothing was deleted: enter the number of the account to confirm."))
    await visit.write(lambda tx: operations.delete_user(tx, visit.ctx, number, visit.actor))
    return f"ops_user.php?id={number}"


async def _set_rights(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    chosen = tuple(name[4:] for name, value in form.items() if name.startswith("app ") and value)
    if not chosen and form.get("all_apps") != "1":
        raise Conflict(_("Choose the apps whose jobs the account may submit."))
    rights = SubmitRights(
        apps=None if form.get("all_apps") == "1" else chosen,
        max_jobs=max(1, int(_number(form.get("max_jobs", ""), most=1e9))),
        share=max(1e-3, _number(form.get("share", ""))),
    )
    await visit.write(lambda tx: operations.set_rights(tx, visit.ctx, number, rights, visit.actor))
    return f"ops_user.php?id={number}"


async def _withdraw_rights(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    await visit.write(lambda tx: operations.set_rights(tx, visit.ctx, number, None, visit.actor))
    return f"ops_user.php?id={number}"


async def _rollout(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    plan = RolloutPlan(
        stages=tuple(_number(part) / 100 for part in form.get("stages", "").split(",")[:20]),
        max_error_rate=_number(form.get("max_error_rate", "")) / 100,
        min_results=max(1, int(_number(form.get("min_results", "")))),
    )
    now = visit.ctx.clock()
    await visit.write(lambda tx: rollout.start_rollout(tx, AppVersionId(number), plan, visit.actor, now=now))
    return "ops_versions.php"


async def _hold(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    now = visit.ctx.clock()
    await visit.write(lambda tx: rollout.hold_rollout(tx, AppVersionId(number), visit.actor, now=now))
    return "ops_versions.php"


async def _roll_back(visit: ProjectVisit, number: int, form: Mapping[str, str]) -> str:
    now, abort = visit.ctx.clock(), form.get("abort_jobs") == "1"
    await visit.write(
        lambda tx: rollout.roll_back(tx, AppVersionId(number), visit.actor, abort_jobs=abort, now=now)
    )
    return "ops_versions.php"


_ACTIONS: Mapping[str, Action] = {
    "cancel_batch": _cancel_batch,
    "retry_batch": _retry_batch,
    "cancel_workunit": _cancel_workunit,
    "retry_workunit": _retry_workunit,
    "block_host": _block("host"),
    "unblock_host": _block("host", undo=True),
    "block_user": _block("user"),
    "unblock_user": _block("user", undo=True),
    "set_role": _set_role,
    "set_rights": _set_rights,
    "withdraw_rights": _withdraw_rights,
    "delete_user": _delete_user,
    "rollout": _rollout,
    "hold": _hold,
    "roll_back": _roll_back,
}


def _reason(form: Mapping[str, str]) -> str:
    text = " ".join(form.get("reason", "").split())[:MAX_REASON]
    if len(text) < 3:
        raise Conflict(_("Enter a reason: the volunteer can read it."))
    return text


def _number(text: str, *, most: float = 1e6) -> float:
    try:
        value = float(text.strip())
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise Conflict(_("%(text)s is not a valid number here.") % {"text": repr(text[:40])})
    return value
