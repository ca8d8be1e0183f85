"""The computer and the volunteer's preferences: what projects are told, and what the core is allowed to use.

What may be used is decided by `policy.client.preferences` from the files, the modes and what is seen of the computer; here it is
only put together.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from cobblestone.client.benchmarks import BenchmarkFailed, are_due, run_benchmarks
from cobblestone.client.conditions.gpus import find_gpus, gpus_in_use, usable_coprocs, with_declared
from cobblestone.client.conditions.host import HostWatch, ReportedHost, hardware_key, read_host_info
from cobblestone.client.records.app_versions import take_own_apps
from cobblestone.client.records.folders import (
    APP_CONFIG,
    CONFIG,
    PREFERENCES,
    DataFolder,
    InForce,
    PreferenceFiles,
)
from cobblestone.client.records.identity import platforms
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.state import ChosenMode, ClientDatabase
from cobblestone.client.sandbox.containers import find_engine
from cobblestone.client.sandbox.sandbox import Sandbox, SandboxChoice, detect_sandbox
from cobblestone.domain.computing import ClientConfig, ComputingPreferences
from cobblestone.domain.computing import Mode as ModeNumber
from cobblestone.domain.values import DAY, changed, form_of
from cobblestone.ops.aside import read_aside
from cobblestone.ops.environment import environment_without_proxies
from cobblestone.ops.files import write_durably
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.values import (
    CPU,
    GpuExclusion,
    HostDevices,
    Permission,
    ProjectDescription,
    SchedulingPreferences,
)
from cobblestone.policy.client.host.contradictions import contradictions
from cobblestone.policy.client.host.preferences import (
    Allowance,
    LoadGate,
    Situation,
    SuspendReason,
    allowed_disk,
    decide_allowance,
    load_limit,
    to_core,
    update_load,
)
from cobblestone.policy.client.host.tasks import unmatched_entries
from cobblestone.wire.client.config import write_preferences
from cobblestone.wire.client.gui_rpc import ModeStatus
from cobblestone.wire.client.records import ProjectContent, ProjectRecord
from cobblestone.wire.project.preferences import parse_global_preferences
from cobblestone.wire.scheduler.host import CoprocRequest, HostInfo

if TYPE_CHECKING:
    from cobblestone.client.tasks.runner import Runner

PATIENCE = 60.0


class Conditions:
    """Describes the computer, reads the preference files, and watches current activity."""

    def __init__(
        self, folders: DataFolder, state: ClientDatabase, journal: Journal, clock: Callable[[], float]
    ) -> None:
        self._folders = folders
        self._state = state
        self._journal = journal
        self._clock = clock
        self._started = clock()
        self._host = HostInfo()
        self._coprocs: tuple[CoprocRequest, ...] = ()
        self._used = 0.0
        self._searched = False
        self._network_open_until = 0.0
        self._no_benchmark_before = 0.0
        #: Preferences allow no computing, and the clock alone does not change that.
        self._stopped_since = self._started
        self._told: dict[type[ev.Event], ev.Event] = {}
        self.projects_changed = False  #: by a file, since it was set back
        self._files = PreferenceFiles(folders.root)
        self._in_force = InForce(ComputingPreferences(), ClientConfig())
        self._problems: tuple[str, ...] = ()
        self._stamp: object = None
        self._situation = Situation(now=clock())
        self._gate = LoadGate()
        self._watch = HostWatch(self.job_environment(), clock=clock)
        self._allowance: Allowance = decide_allowance(
            self._in_force.preferences, self._in_force.config, self._situation
        )
        self.sandbox = Sandbox()

    async def start(self) -> None:
        """Detect the hardware and read all files."""
        if not self._state.notes.host_cpid:
            self._state.notes.host_cpid = secrets.token_hex(16)
            self._state.keep_notes()
        self.sandbox = await asyncio.to_thread(
            detect_sandbox, SandboxChoice(), self._folders.root, environment=self.job_environment()
        )
        self.read_files()
        await self.read_host()
        self._decide()

    def sandbox_report(self) -> list[str]:
        """Return what confines jobs, in sentences."""
        return [each.text() for each in self.sandbox.report]

    def job_environment(self) -> dict[str, str]:
        """Return the environment variables of jobs."""
        return environment_without_proxies()

    # -- the computer -----------------------------------------------------------------------------------

    async def read_host(self) -> None:
        """Detect this computer's hardware; the search for GPUs may take a while."""
        notes, config = self._state.notes, self._in_force.config
        self._searched = not config.no_gpus  # a driver may crash by the search alone
        found = await asyncio.to_thread(find_gpus, self.job_environment()) if self._searched else ()
        self._coprocs = with_declared(found, config)
        host = await asyncio.to_thread(read_host_info, self._folders.root, host_cpid=notes.host_cpid)
        if not config.dont_use_docker and (config.use_containers or not self.sandbox.bubblewrap):
            found = await asyncio.to_thread(
                find_engine, self._folders.root, self.sandbox.account, self.job_environment()
            )
            host = changed(host, docker_version=found.version, docker_type=found.type)
            for each in found.report:
                self._journal.say(each)
        self._host = self._with_benchmarks(host)

    def _with_benchmarks(self, host: HostInfo) -> HostInfo:
        notes = self._state.notes
        return changed(host, p_fpops=notes.p_fpops, p_iops=notes.p_iops, p_calculated=notes.p_calculated)

    def benchmarks_due(self) -> bool:
        """Return whether the processors must be measured: never done, long ago, or on other hardware."""
        notes = self._state.notes
        if self._in_force.config.skip_cpu_benchmarks or self._clock() < self._no_benchmark_before:
            return False
        same = notes.hardware == self._hardware()
        return are_due(notes.p_calculated, same_hardware=same, now=self._clock())

    def _hardware(self) -> str:
        return hardware_key(self._host, tuple(f"{each.name} x {each.count}" for each in self._coprocs))

    async def benchmark(self, apply: Callable[[], None]) -> None:
        """Measure the processors while jobs pause; ``apply`` announces the pause and its end."""
        self._situation = replace(self._situation, benchmarks_running=True)
        apply()
        self._journal.say("Running CPU benchmarks")
        try:
            found = await run_benchmarks(self.devices().ncpus, self.job_environment(), clock=self._clock)
        except BenchmarkFailed as error:
            self._journal.say(f"{error} The last figures stay.")
            self._no_benchmark_before = self._clock() + DAY
            return
        finally:
            self._situation = replace(self._situation, benchmarks_running=False)
            apply()
        notes = self._state.notes
        notes.p_fpops, notes.p_iops, notes.p_calculated = found.whetstone, found.dhrystone, found.at
        notes.hardware = self._hardware()
        self._state.keep_notes()
        self._host = self._with_benchmarks(self._host)
        self._journal.say(
            f"Benchmark results: {found.whetstone / 1e6:.0f} floating point MIPS (Whetstone) per CPU,"
            f" {found.dhrystone / 1e6:.0f} integer MIPS (Dhrystone) per CPU, on {found.ncpus} CPUs at once"
        )
        apply()

    async def measure_disk(self) -> None:
        """Measure the disk usage of everything."""
        self._used = await asyncio.to_thread(self._folders.used_by, self._folders.root)
        total, free = self._folders.free_space()
        self._host = replace(self._host, d_total=total, d_free=free)
        shares = sum(content.project.resource_share for content in self._state.contents.values())
        for content in self._state.contents.values():
            part = content.project.resource_share / shares if shares else 1.0
            content.project.disk_share = self.disk()[1] * part

    def disk(self) -> tuple[float, float]:
        """Return the bytes in use and allowed."""
        total, free = self._folders.free_space()
        return self._used, allowed_disk(self._in_force.preferences, total=total, free=free, used=self._used)

    def facts(self) -> ReportedHost:
        """Return the facts for projects and jobs."""
        config, host = self.config, self._host
        coprocs = usable_coprocs(self._coprocs, config)
        name, address = ("", "") if config.suppress_net_info else (host.domain_name, host.ip_addr)
        names = platforms()[:1] if config.no_alt_platform else (*platforms(), *config.alt_platforms)
        return ReportedHost(
            host=changed(
                host,
                domain_name=config.device_name or name,
                ip_addr=address,
                n_usable_coprocs=len(coprocs),
                product_name=self._state.notes.product_name or host.product_name,
            ),
            coprocs=coprocs,
            platforms=names,
            preferences=write_preferences(self._in_force.preferences).strip(),
            stored_preferences=self._stored_preferences(),
            used_by_all=self._used,
            sandboxed=self.sandbox.account is not None,
            several_clients=config.allow_multiple_clients,
        )

    def venue(self) -> str:
        """Return the venue whose preferences apply."""
        return next((c.project.host.venue for c in self._state.contents.values() if c.project.host.venue), "")

    @property
    def config(self) -> ClientConfig:
        """Return the content of ``cc_config.xml``."""
        return self._in_force.config

    @property
    def preferences(self) -> ComputingPreferences:
        """The volunteer's preferences, from all their sources."""
        return self._in_force.preferences

    @property
    def allowance(self) -> Allowance:
        """How much may be used now."""
        return self._allowance

    async def look(self, runner: Runner) -> None:
        """Read the current activity of this computer."""
        if self._looks() != self._stamp:
            self.read_files()
            if not (self._searched or self.config.no_gpus):
                await self.read_host()
        config = self._in_force.config
        own = runner.cpu_seconds() + sum(os.times()[:2])
        seen = await asyncio.to_thread(
            self._watch.look, own, exclusive=config.exclusive_apps, exclusive_gpu=config.exclusive_gpu_apps
        )
        limit = load_limit(self._in_force.preferences, in_use=self._allowance.in_use)
        self._gate = update_load(self._gate, percent=seen.other_load, limit=limit, now=self._clock())
        period = self._in_force.preferences.daily_xfer_period_days
        since = int(self._clock() // DAY - period) + 1
        moved = sum(up + down for _, up, down in self._state.transferred(since)) if period else 0.0
        self._situation = replace(self._situation, **asdict(seen), transferred_bytes=moved)

    # -- wishes -------------------------------------------------------------------------------------------

    def read_files(self) -> None:
        """Read all preference and configuration files; an error in one is reported once."""
        self._in_force = self._files.read(self.venue())
        disk, gpus = self._folders.free_space()[0], bool(self._coprocs)
        never = contradictions(self._in_force.preferences, disk_bytes=disk, gpus=gpus)
        problems = [*self._in_force.problems, *(each.text() for each in never)]
        for url, content in self._state.contents.items():
            problems += self.read_own_apps(content)
            content.app_config, further = self._files.read_app_config(self._folders.project(url))
            versions = {(each.app_name, each.plan_class) for each in content.versions}
            unmatched = unmatched_entries(content.app_config, content.apps, versions)
            path = self._folders.project(url) / APP_CONFIG
            problems += (*further, *(f"{path}: {sentence}." for sentence in unmatched))
        for solved in set(self._problems).difference(problems):
            self._journal.notices.drop(solved)
        for problem in problems:
            if problem not in self._problems:
                self._journal.alert(problem)
        self._problems = tuple(problems)
        self._stamp = self._looks()
        self._journal.flags = self.config.log_flags
        self._journal.keep(self.config.max_event_log_lines)
        self.projects_changed = True
        self._told.pop(ev.PreferencesChanged, None)

    def read_own_apps(self, content: ProjectContent) -> list[str]:
        """Take over the volunteer's own programs for a project; return sentences about errors in the file."""
        folder = self._folders.project(content.project.master_url)
        flops = self._state.notes.p_fpops
        return take_own_apps(self._state, content, folder, platform=platforms()[0], cpu_flops=flops)

    def _looks(self) -> object:
        """Return a fingerprint of the files."""
        contents = self._state.contents
        files = self._files.stamp(*map(self._folders.project, contents))
        return files, [(url, len(each.apps), len(each.versions)) for url, each in contents.items()]

    def modes_changed(self) -> None:
        """Note that the volunteer has set a mode."""
        self._told.pop(ev.DevicesChanged, None)

    def clock_set_back(self, seconds: float) -> None:
        """Move waiting times, and the start, back with a clock that was set back."""
        self._started -= seconds
        self._network_open_until -= seconds
        self._no_benchmark_before -= seconds
        self._stopped_since -= seconds

    def open_network(self, seconds: float) -> None:
        """Allow the network for a while, regardless of preferences."""
        self._network_open_until = self._clock() + seconds

    async def take_preferences(
        self, text: str, project: ProjectRecord | None, *, manager: str = "", always: bool = False
    ) -> None:
        """Consider preferences from a project or account manager: the newest win, a dynamic manager's always."""
        if not text:
            return
        known = (await read_aside(parse_global_preferences, self._stored_preferences())).mod_time
        new = (await read_aside(parse_global_preferences, text)).mod_time
        dynamic = self._state.notes.manager is not None and self._state.notes.manager.dynamic
        if (always and manager) or (new > known and not dynamic):
            write_durably(self._folders.root / PREFERENCES, f"{text.strip()}\n".encode())
            self.read_files()

    def _stored_preferences(self) -> str:
        path = self._folders.root / PREFERENCES
        try:
            return path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def scheduling(self) -> SchedulingPreferences:
        """Return the preferences that policies use."""
        wishes, config = self._in_force.preferences, self._in_force.config
        return SchedulingPreferences(
            buffer_min=wishes.work_buf_min_days * DAY,
            buffer_additional=wishes.work_buf_additional_days * DAY,
            connection_interval=wishes.connection_interval_days * DAY,
            slice_seconds=wishes.cpu_scheduling_period_minutes * 60.0,
            rec_half_life=config.rec_half_life_days * DAY,
            leave_in_memory=wishes.leave_apps_in_memory,
            may_give_up=config.max_overdue_days >= 0,
            fetch_on_update=config.fetch_on_update,
            fetch_minimal_work=config.fetch_minimal_work,
            report_at_once=config.report_results_immediately,
            max_reported=config.max_tasks_reported,
        )

    def devices(self) -> HostDevices:
        """Return the devices for computing."""
        config = self.config
        return HostDevices(
            ncpus=config.ncpus if config.ncpus > 0 else self._host.p_ncpus,
            cpu_flops=max(1e6, self._host.p_fpops),
            gpus=gpus_in_use(self._coprocs, config, self._state.notes.suspended_gpus),
        )

    def _decide(self) -> None:
        now = self._clock()
        notes = self._state.notes
        local = datetime.datetime.fromtimestamp(now).astimezone()
        self._situation = replace(
            self._situation,
            now=now,
            weekday=(local.weekday() + 1) % 7,
            hour=local.hour + local.minute / 60.0 + local.second / 3600.0,
            ncpus=self.devices().ncpus,
            ram_bytes=self._host.m_nbytes,
            swap_bytes=self._host.m_swap,
            run_mode=ModeNumber(notes.run_mode.now(now)),
            gpu_mode=ModeNumber(notes.gpu_mode.now(now)),
            network_mode=ModeNumber(notes.network_mode.now(now)),
            run_mode_until=_until(notes.run_mode, now),
            gpu_mode_until=_until(notes.gpu_mode, now),
            network_mode_until=_until(notes.network_mode, now),
            network_open_until=self._network_open_until,
            seconds_since_start=now - self._started,
            was_hot=self._allowance.hot,
            others_busy=self._gate.busy,
        )
        self._allowance = decide_allowance(self._in_force.preferences, self._in_force.config, self._situation)
        stopped = self._allowance.cpu
        if stopped.allowed or stopped.until is not None or stopped.code is SuspendReason.USER_REQUEST:
            self._stopped_since = now
        elif now - self._stopped_since > DAY:
            self._stopped_since = now
            self._journal.alert(f"Nothing has been computed for a day: {stopped.reasons[0].text()}")

    def permission(self) -> Permission:
        """Return what is currently allowed."""
        return changed(to_core(self._allowance), connected=self._situation.connected)

    def sentences(self) -> list[str]:
        """Return why so much, or so little, is allowed now."""
        found = self._allowance
        reasons = (*found.cpu.reasons, *found.gpu.reasons, *found.network.reasons, *found.reasons)
        return list(dict.fromkeys(each.text() for each in reasons))

    def preferences_as_data(self) -> dict[str, object]:
        """Return the preferences in force, by BOINC's names, and the file each comes from."""
        wishes, origins, usual = self._in_force.preferences, self._in_force.origins, ClientConfig()
        found: dict[str, object] = {
            name: {"value": getattr(wishes, name), "from": origins.get(name, "default")}
            for name in wishes.__dataclass_fields__
        }
        for name in self.config.__dataclass_fields__:
            if getattr(self.config, name) != getattr(usual, name):
                found[name] = {"value": getattr(self.config, name), "from": CONFIG}
        return found

    def describe_project(self, content: ProjectContent) -> ProjectDescription:
        """Return a project with the volunteer's settings and limits."""
        project = content.project
        kinds = (CPU, *(coproc.type for coproc in usable_coprocs(self._coprocs, self.config)))
        limits = content.app_config
        excluded = self._in_force.config.exclude_gpus
        return form_of(
            ProjectDescription,
            limits,
            project,
            id=project.master_url,
            share=project.resource_share,
            supplies=tuple(kind for kind in kinds if kind not in project.no_rsc_apps) or (CPU,),
            forbidden=tuple(sorted({*project.no_rsc_pref, *project.no_rsc_ams, *limits.no_rsc})),
            no_new_work=project.dont_request_more_work or project.ended,
            suspended=project.suspended_via_gui,
            max_concurrent=limits.project_max_concurrent,
            app_max_concurrent={
                name: app.max_concurrent for name, app in limits.apps.items() if app.max_concurrent
            },
            gpu_exclusions=tuple(
                GpuExclusion(
                    gpu=each.type, instance=each.device_num if each.device_num >= 0 else None, app=each.app
                )
                for each in excluded
                if each.url.rstrip("/").partition("://")[2]
                == project.master_url.rstrip("/").partition("://")[2]
            ),
        )

    def news(self) -> list[ev.Event]:
        """Return what the core has not been told yet of preferences, devices and permission."""
        self._decide()
        now = self._clock()
        current: list[ev.Event] = [
            ev.PreferencesChanged(now, self.scheduling()),
            ev.DevicesChanged(now, self.devices()),
            ev.PermissionChanged(now, self.permission()),
        ]
        told = {kind: changed(event, now=now) for kind, event in self._told.items()}
        self._told |= {type(each): each for each in current}
        return [each for each in current if told.get(type(each)) != each]

    def patience(self) -> float:
        """Return how long, in seconds, a job that must leave memory may run on to its next checkpoint."""
        return PATIENCE if not self._allowance.cpu.code else 0.0

    def modes(self) -> dict[str, ModeStatus]:
        """Return modes and suspensions, for managers."""
        now = self._clock()
        notes, found = self._state.notes, self._allowance

        def status(mode: ChosenMode, reason: int) -> ModeStatus:
            left = max(0.0, mode.until - now) if mode.temporary else 0.0
            return ModeStatus(mode=mode.now(now), permanent=mode.permanent, delay=left, suspend_reason=reason)

        return {
            "task": status(notes.run_mode, int(found.cpu.code)),
            "gpu": status(notes.gpu_mode, int(found.gpu.code)),
            "network": status(notes.network_mode, int(found.network.code)),
        }


def _until(mode: ChosenMode, now: float) -> float | None:
    return mode.until if mode.temporary and now < mode.until else None
