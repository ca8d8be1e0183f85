"""Queries and commands of the JSON interface, with plain data as answers; the command line uses nothing else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cobblestone.client.records.app_versions import version_in_force
from cobblestone.client.records.decisions import job_id, reasons_as_data
from cobblestone.client.records.identity import VERSION_TEXT
from cobblestone.client.remote.account_manager import ManagerContacts
from cobblestone.client.remote.control import ALWAYS, AUTO, NEVER, ClientCommands, Errand
from cobblestone.client.remote.view import ClientView
from cobblestone.domain.errors import CobblestoneError, ConfigError, NotFound, PolicyViolation
from cobblestone.policy.client.core.state import Phase
from cobblestone.wire.client.records import ClientJobState, JobRecord, ProjectContent, ProjectRecord
from cobblestone.wire.project.account import passwd_hash

ERRAND_SECONDS, FIRST_ANSWER_SECONDS, LOOK_EVERY = 60.0, 20.0, 0.1
MAX_HISTORY = 10_000
_MODES = {"always": ALWAYS, "auto": AUTO, "never": NEVER}
_MODE_NAMES = {number: name for name, number in _MODES.items()}
_PHASES = {Phase.RUNNING: "running", Phase.IN_MEMORY: "waiting in memory", Phase.QUITTING: "leaving memory"}


class Arguments:
    """The arguments of a command."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text.  Raises ConfigError if it is missing or of another type."""
        value = self._values.get(name, default)
        if not isinstance(value, str) or len(value) > 4096:
            raise ConfigError(f"{name} is missing, or is not a text.")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        """Return a number from 0.  Raises ConfigError for anything else."""
        value = self._values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise ConfigError(f"{name} is not a number from 0.")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return whether it was given as true."""
        return self._values.get(name) is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """All by which the interfaces show and control the client."""

    view: ClientView
    control: ClientCommands
    manager: ManagerContacts


Question = Callable[[ClientView, Arguments], Awaitable[object]]
Command = Callable[[Controls, Arguments], Awaitable[object]]


# -- looking --------------------------------------------------------------------------------------------


async def status(view: ClientView, given: Arguments) -> object:
    """Everything in short."""
    view.jobs.readings()
    permission = view.conditions.permission()
    jobs = [job for content in view.state.contents.values() for job in content.jobs.values()]
    modes = view.conditions.modes()
    used, allowed = view.conditions.disk()
    host = view.facts().host
    return {
        "version": VERSION_TEXT,
        "data_directory": str(view.folders.root),
        "host_name": host.domain_name,
        "policy": view.decisions.policy,
        "up_since": view.started,
        "modes": {name: _MODE_NAMES.get(mode.mode, "auto") for name, mode in modes.items()},
        "suspended": {"cpu": permission.cpu, "gpu": permission.gpu, "network": permission.network},
        "cpus": {"of_computer": host.p_ncpus, "allowed": permission.ncpus or host.p_ncpus},
        "tasks": {
            "running": sum(bool(job.task.pid and job.task.scheduled) for job in jobs),
            "waiting": sum(
                not job.completed_time and not (job.task.pid and job.task.scheduled) for job in jobs
            ),
            "ready_to_report": sum(job.ready_to_report for job in jobs),
        },
        "projects": len(view.state.contents),
        "transfers": sum(1 for _ in view.transfers.listed()),
        "disk": {"used": used, "allowed": allowed},
        "sandbox": view.conditions.sandbox_report(),
        "bounds": [each.as_json() for each in view.conditions.sandbox.bounds],
        "because": view.conditions.sentences(),
        "notices": [each for each in view.journal.notices if each.category in ("client", "scheduler")],
    }


async def tasks(view: ClientView, given: Arguments) -> object:
    """All jobs."""
    contents = view.contents()
    phases = {job.id: job.phase for job in view.decisions.core.state.jobs}
    return [
        task_as_data(content, job, phases.get(job_id(job.project, job.name)))
        for content in contents
        for job in content.jobs.values()
    ]


def task_as_data(content: ProjectContent, job: JobRecord, phase: Phase | None) -> dict[str, Any]:
    """Return a job as plain data."""
    workunit, version = content.workunits.get(job.result.wu_name), version_in_force(content, job)
    task = job.task
    app = content.apps.get(workunit.app_name) if workunit else None
    fraction = 1.0 if job.completed_time else task.fraction_done
    return {
        "name": job.name,
        "project": job.project,
        "project_name": content.project.project_name,
        "app": (app.user_friendly_name or app.name) if app else "",
        "plan_class": job.result.plan_class,
        "state": _state_words(job, phase),
        "fraction_done": round(fraction, 6),
        "elapsed": round(task.elapsed_time or job.final_elapsed_time, 3),
        "cpu_time": round(max(task.current_cpu_time, task.checkpoint_cpu_time) or job.final_cpu_time, 3),
        "remaining": 0.0 if job.completed_time else round(job.estimated_remaining, 1),
        "deadline": job.result.report_deadline,
        "received": job.received_time,
        "cpus": version.avg_ncpus if version else 1.0,
        "gpu": version.coproc_type if version else "",
        "gpus": version.coproc_count if version else 0.0,
        "memory": task.working_set_size_smoothed,
        "slot": task.slot if task.slot >= 0 else None,
        "pid": task.pid or None,
        "exit_status": job.exit_status if job.completed_time else None,
        "message": job.error_message,
        "suspended": job.suspended_via_gui,
    }


def _state_words(job: JobRecord, phase: Phase | None) -> str:
    if job.ready_to_report:
        failed = job.state in (ClientJobState.COMPUTE_ERROR, ClientJobState.ABORTED) or job.exit_status
        return "failed, to be reported" if failed else "finished, to be reported"
    if job.state is ClientJobState.UPLOADING:
        return "uploading"
    if job.state in (ClientJobState.NEW, ClientJobState.DOWNLOADING):
        return "downloading"
    if job.suspended_via_gui:
        return "suspended by you"
    if phase is None:
        return "waiting"
    return _PHASES.get(phase, "waiting")


async def projects(view: ClientView, given: Arguments) -> object:
    """All projects."""
    view.contacts.look(view.loop.clock())
    return [
        {
            "url": p.master_url,
            "name": p.project_name,
            "user": p.user.name,
            "team": p.user.team_name,
            "share": p.resource_share,
            "user_credit": p.user.total_credit,
            "user_average": p.user.expavg_credit,
            "host_credit": p.host.total_credit,
            "host_average": p.host.expavg_credit,
            "estimated_credit": p.credit.cpu_ec + p.credit.gpu_ec,
            "jobs_done": p.njobs_success,
            "jobs_failed": p.njobs_error,
            "suspended": p.suspended_via_gui,
            "no_new_work": p.dont_request_more_work,
            "detach_when_done": p.detach_when_done,
            "by_manager": p.attached_via_acct_mgr,
            "ended": p.ended,
            "host_id": p.host.id,
            "refused": bool(_refusals(view, p)),
            "disk": p.disk_usage,
            "last_contact": p.last_rpc_time or None,
            "next_contact_after": p.min_rpc_time or None,
            "failures": p.nrpc_failures,
            "tasks": len(content.jobs),
        }
        for content in view.state.contents.values()
        for p in [content.project]
    ]


async def log(view: ClientView, given: Arguments) -> object:
    """Return the event log behind a number."""
    found = view.journal.since(int(given.number("after")))
    return found[-int(given.number("last", 2000)) :]


async def notices(view: ClientView, given: Arguments) -> object:
    """Return what the user should know."""
    return list(view.journal.notices)


async def transfers(view: ClientView, given: Arguments) -> object:
    """All file transfers."""
    return [
        {
            "file": file.name,
            "project": file.project,
            "direction": "up" if file.upload else "down",
            "bytes": progress.bytes if progress else file.last_bytes_xferred,
            "size": file.nbytes or (file.download.nbytes if file.download else 0),
            "running": progress is not None,
            "tries": file.num_retries,
            "next_try": max(file.next_request_time, backoff) or None,
        }
        for file, progress, backoff in view.transfers.listed()
    ]


async def history(view: ClientView, given: Arguments) -> object:
    """Jobs that were reported."""
    limit = min(int(given.number("last", 100)), MAX_HISTORY)
    return view.state.history(given.number("since"), limit)


async def credit(view: ClientView, given: Arguments) -> object:
    """Credit by day: what projects granted, and what we estimate."""
    since = view.loop.clock() - given.number("days", 30) * 86400
    return {
        "granted": {url: view.state.credit_days(url, since) for url in view.state.contents},
        "estimated": [
            {
                "project": project,
                "day": day * 86400,
                "device": device or "CPU",
                "credit": amount,
                "seconds": seconds,
            }
            for project, day, device, amount, seconds in view.state.estimated(int(since // 86400))
        ],
    }


async def timeline(view: ClientView, given: Arguments) -> object:
    """Return what ran within so many hours, and what will run by the policy's own forecast."""
    return await view.runs(given.number("hours", 6.0))


async def why(view: ClientView, given: Arguments) -> object:
    """Why a task runs or waits, why a project is asked or not, how many CPUs are used and which preference says so."""
    about = given.text("about", "")
    core, contents = view.decisions.core, view.state.contents
    if not about:
        n_named = Counter(name for each in contents.values() for name in each.jobs)
        return {
            "allowed": view.conditions.sentences(),
            "tasks": {
                job.name if n_named[job.name] == 1 else job.project + job.name: _why_task(view, job)
                for each in contents.values()
                for job in each.jobs.values()
            },
            "projects": {url: reasons_as_data(core.why_project(url)) for url in contents},
        }
    content = view.contacts.find(about)
    if content is not None:
        url = content.project.master_url
        return {"project": url, "reasons": reasons_as_data(core.why_project(url))}
    _, job = view.find_job(about)
    return {"task": job.name, "reasons": _why_task(view, job)}


def _why_task(view: ClientView, job: JobRecord) -> list[dict[str, Any]]:
    if job.completed_time:
        sentence = "It has been computed; " + _state_words(job, None)
        return [{"code": "computed", "values": {}, "sentence": sentence}]
    return reasons_as_data(view.decisions.core.why_job(job_id(job.project, job.name)))


async def prefs(view: ClientView, given: Arguments) -> object:
    """Return the preferences in force, and where they come from."""
    return view.conditions.preferences_as_data()


# -- doing ----------------------------------------------------------------------------------------------


async def _finished(errand: Errand) -> Errand:
    try:
        async with asyncio.timeout(ERRAND_SECONDS):
            await errand.done.wait()
    except TimeoutError:
        raise ConfigError("There was no answer within a minute; the event log says more.") from None
    if errand.error:
        raise CobblestoneError(errand.text or f"Error {errand.error}")
    return errand


async def attach(controls: Controls, given: Arguments) -> object:
    """Belong to a project: by key, or by e-mail and password, with a new account if there is a name for it."""
    url, key = given.text("url"), given.text("key", "")
    config = (await _finished(controls.control.ask_config(url))).result
    master = config.master_url or url
    if config.account_manager:
        raise ConfigError(f"{config.name} is an account manager: use cobblestone client manager {url}")
    email = given.text("email", "").lower()
    if not key:
        if not email:
            raise ConfigError("Give the key of your account, or its e-mail address and password.")
        hashed = passwd_hash(given.text("password", ""), email)
        base = config.web_rpc_url_base or master
        name = given.text("name", "")
        if name:
            consent = given.flag("agreed") or not config.terms_of_use
            if not consent:
                raise ConfigError(
                    f"Please read the terms of use first, then say that you agree:\n{config.terms_of_use}"
                )
            errand = controls.control.create_account(
                base, email, hashed, name, "", consent=bool(config.terms_of_use)
            )
        else:
            errand = controls.control.look_up_account(base, email, hashed)
        key = (await _finished(errand)).result
    content = controls.control.attach(master, key, config.name, email)
    return {"url": master, "name": config.name, "accepted": await _accepted(controls.view, content)}


async def _accepted(view: ClientView, content: ProjectContent) -> bool:
    """Wait for the first answer of a new project; return whether it accepts the account, as far as it has said so.

    Raises:
        PolicyViolation: it does not; the client has left it again.
    """
    project = content.project
    before = _refusals(view, project)  # of another project with the same name
    for _ in range(int(FIRST_ANSWER_SECONDS / LOOK_EVERY)):
        if project.last_rpc_time or project.nrpc_failures:
            break
        await asyncio.sleep(LOOK_EVERY)
    if not (said := [each for each in _refusals(view, project) if each not in before]):
        return bool(project.host.id)
    name = view.journal.project_name(project.master_url)
    await view.contacts.detach(content)
    raise PolicyViolation(
        " ".join([f"{name} does not accept this account, so it was not attached. It says:", *said])
    )


def _refusals(view: ClientView, project: ProjectRecord) -> list[str]:
    """Return why a project refuses the account.

    Who is busy or down has not taken the computer either, but only a refusal comes with a notice.
    """
    name = view.journal.project_name(project.master_url)
    said = [
        each for each in view.journal.notices if (each.project_name, each.category) == (name, "scheduler")
    ]
    return [] if project.host.id else [each.description for each in said]


async def suspend(controls: Controls, given: Arguments, *, suspended: bool = True) -> object:
    """Suspend a project, a GPU or a task, or have it go on."""
    about = given.text("what")
    if controls.view.contacts.find(about) is not None:
        controls.control.change_project(about, suspended_via_gui=suspended)
        return {}
    device, _, number = about.partition(":")
    if number.isdecimal() and len(number) < 4:
        controls.control.suspend_gpu(device, int(number), suspended=suspended)
        return {}
    content, job = controls.view.find_job(about)
    controls.control.suspend_job(content.project.master_url, job.name, suspended=suspended)
    return {}


async def abort(controls: Controls, given: Arguments) -> object:
    """End a task for good."""
    content, job = controls.view.find_job(given.text("task"))
    controls.control.abort_job(content.project.master_url, job.name)
    return {}


async def mode(controls: Controls, given: Arguments) -> object:
    """Set the mode of computing, GPU use or network."""
    which, wanted = given.text("which"), _MODES.get(given.text("mode"))
    if which not in ("run", "gpu", "network") or wanted is None:
        raise ConfigError("The mode is set for run, gpu or network, to always, auto or never.")
    controls.control.set_mode(which, wanted, given.number("seconds"))
    return {}


async def manager(controls: Controls, given: Arguments) -> object:
    """Obey an account manager, or leave it (without an address)."""
    url = given.text("url", "")
    if not url:
        if controls.view.state.notes.manager is None:
            raise NotFound("No account manager is in use.")
        controls.manager.leave()
        return {}
    controls.manager.use(url=url, login=given.text("login", ""), password=given.text("password", ""))
    await _finished(controls.manager.errand)
    known = controls.view.state.notes.manager
    return {"name": known.name if known else "", "projects": len(controls.view.state.contents)}


def _order(carry_out: Callable[[ClientCommands, Arguments], None]) -> Command:
    """Return the command that gives one order and answers with nothing."""

    async def command(controls: Controls, given: Arguments) -> object:
        carry_out(controls.control, given)
        return {}

    return command


def _project_flags(**flags: bool) -> Command:
    return _order(lambda control, given: control.change_project(given.text("project"), **flags))


#: What the reading token allows, too.
QUESTIONS: dict[str, Question] = {
    each.__name__: each
    for each in (
        status, tasks, projects, log, notices, transfers, history, credit, timeline, why, prefs,
    )
}  # fmt: skip
COMMANDS: dict[str, Command] = {
    "attach": attach,
    "detach": _order(lambda control, given: control.detach(given.text("project"))),
    "reset": _order(lambda control, given: control.reset(given.text("project"))),
    "update": _order(lambda control, given: control.update(given.text("project"))),
    "suspend": suspend,
    "resume": partial(suspend, suspended=False),
    "abort": abort,
    "no_new_work": _project_flags(dont_request_more_work=True),
    "new_work": _project_flags(dont_request_more_work=False),
    "detach_when_done": _project_flags(detach_when_done=True),
    "mode": mode,
    "read_preferences": _order(lambda control, _: control.read_preferences()),
    "benchmark": _order(lambda control, _: control.run_benchmarks()),
    "manager": manager,
    "quit": _order(lambda control, _: control.quit()),
}
