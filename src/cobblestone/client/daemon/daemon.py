"""The daemon: passes events to the decision core and carries out its instructions.

Nothing is decided here.  Everything runs in one event loop; what takes long (hashing, unpacking, measuring the disk) runs in
threads.  The order of each round is fixed: events to the core, everything to disk, then the instructions.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobblestone.client.conditions.conditions import Conditions
from cobblestone.client.daemon.news import changed_descriptions, events_at_start, stalled_downloads
from cobblestone.client.projects.contacts import Contacts
from cobblestone.client.projects.http import Connections
from cobblestone.client.projects.jobs import Jobs
from cobblestone.client.projects.scheduler_request import ReportedHost
from cobblestone.client.projects.transfers import Transfers
from cobblestone.client.projects.web import FeedReader
from cobblestone.client.records.app_versions import resources_in_words, version_in_force
from cobblestone.client.records.decisions import CoreDriver
from cobblestone.client.records.folders import DataFolder
from cobblestone.client.records.identity import VERSION_NUMBER, VERSION_TEXT, platforms
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.measurements import Measurements, RunAccounting, RunTimeline, Speeds
from cobblestone.client.records.state import ClientDatabase
from cobblestone.client.remote.account_manager import Starvation, look_after_manager
from cobblestone.client.remote.control import ClientCommands, Errand
from cobblestone.client.tasks.runner import Runner
from cobblestone.domain.errors import CobblestoneError, ConfigError, StoreError
from cobblestone.ops.environment import notify
from cobblestone.policy.client.core.events import (
    ContactProject,
    DevicesChanged,
    Event,
    Explain,
    GiveUp,
    HostOff,
    HostOn,
    Instruction,
    JobProgressed,
    JobsDescribed,
    PermissionChanged,
    PreferencesChanged,
    ProjectAttached,
    QuitTask,
    SetAlarm,
    StartTask,
    SuspendTask,
    TimePassed,
)
from cobblestone.policy.client.core.machine import Refusal
from cobblestone.policy.client.core.reasons import sentence
from cobblestone.policy.client.forecast import expected_left
from cobblestone.wire.client.config import read_proxy

if TYPE_CHECKING:
    import httpx

SECOND = 1.0
TICK = 10.0
READINGS_EVERY = 60.0
LONGEST_ALARM = 60.0
SLEPT = 60.0
"""A tick that comes so much too late (seconds) means that the computer slept, or its clock was set."""
ABORTED_BY_PROJECT = 202
UNSTARTED_LATE = 200
CLIENT_EXITING = 199
DISK_EVERY = 60
"""Ticks between two measurements of the disk."""


class Client:
    """One client in one data directory."""

    def __init__(
        self,
        root: Path,
        *,
        policy: str = "",
        echo: bool = True,
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        self.folders = DataFolder(root)
        self.clock = clock
        self.rng = random.Random(seed)
        self.state = ClientDatabase(self.folders.root)
        if policy:
            self.state.notes.policy = policy
        self.journal = Journal(self.state, clock, echo=echo)
        self.connections = Connections()
        self.transfers = Transfers(
            self.state,
            self.connections,
            version=VERSION_NUMBER,
            clock=clock,
            rng=self.rng,
            finished=self._transferred,
            say=lambda project, text: self.journal.say(text, project, flag="file_xfer"),
            folder_of=self.folders.project,
            measured=self._measured,
        )
        self.conditions = Conditions(self.folders, self.state, self.journal, clock)
        self.jobs = Jobs(
            self.state,
            self.folders,
            self.journal,
            self.transfers,
            clock=clock,
            post=self.post,
            facts=self.facts,
        )
        self.contacts = Contacts(self)
        self.control = ClientCommands(self)
        self.starvation = Starvation()
        self.manager_errand = Errand(0)
        self.feeds = FeedReader(self.state, self.journal, clock=clock, rng=self.rng)
        self.accounting = RunAccounting(self.state)
        self.timeline = RunTimeline(self.state)
        self.decisions = CoreDriver(
            self.state,
            policy=self.state.notes.policy,
            seed=self.rng.randrange(2**32) if seed is None else seed,
        )
        self.started = clock()
        self.measurements = Measurements(self.state, self.started)
        self.stopping = asyncio.Event()
        self._pending: deque[Event] = deque()
        self._draining = False
        self._may_act = (
            False  # not before everything is prepared, nor when jobs are told to end: instructions wait
        )
        self._alarm: asyncio.TimerHandle | None = None
        self._held_back: list[Instruction] = []
        self._background: set[asyncio.Task[Any]] = set()
        self._last_tick = clock()
        self._ticks = 0
        self._had_jobs = False

    # -- life -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until told to stop; then let all jobs save their work."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError):  # not in the main thread
                loop.add_signal_handler(number, self.stopping.set)
        self.journal.say(
            f"Starting cobblestone's client, compatible with BOINC {VERSION_TEXT}, for {platforms()[0]}"
        )
        self.journal.say(f"Data directory: {self.folders.root}")
        if self.decisions.forgotten:
            self.journal.say(
                "The statistics of another version of this program cannot be read and are collected again; "
                f"all projects and tasks continue ({self.decisions.forgotten})"
            )
        await self._prepare()
        notify("READY=1")
        watcher = asyncio.create_task(self._runner().run())
        ticker = asyncio.create_task(self._tick_for_ever())
        try:
            await self.stopping.wait()
        finally:
            ticker.cancel()
            await self._stop(watcher)

    async def _prepare(self) -> None:
        for content in self.state.contents.values():
            content.project.scheduler_rpc_in_progress = False  # that was another process
        await self.conditions.start()
        for sentence_ in self.conditions.sandbox_report():
            self.journal.say(sentence_)
        self.jobs.runner = Runner(
            self.folders.root,
            self.conditions.sandbox,
            self._task_event,
            environment=self.conditions.job_environment(),
            clock=self.clock,
        )
        in_slots = {
            job.task.slot: job.name
            for content in self.state.contents.values()
            for job in content.jobs.values()
            if job.task.slot >= 0
        }
        await self.jobs.runner.clean_up(in_slots)
        self.jobs.no_processes()
        self._tell_core_of_everything()
        for content in self.state.contents.values():
            self.jobs.fetch_missing(content)
        self._may_act = True
        self.apply_conditions()
        self.drain()
        for instruction in self.decisions.core.instructions_in_force():
            if isinstance(instruction, ContactProject | SetAlarm | GiveUp):
                self._carry_out(instruction)
        self.transfers.poll()

    def _tell_core_of_everything(self) -> None:
        """Continue after a restart, before what people have requested meanwhile."""
        self._pending.extendleft(reversed(events_at_start(self)))

    async def _stop(self, watcher: asyncio.Task[None]) -> None:
        notify("STOPPING=1")
        self.journal.say("Stopping: jobs save their work")
        self._may_act = False
        if self._alarm is not None:
            self._alarm.cancel()
        await self.transfers.close()
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        runner = self._runner()
        if self.conditions.config.abort_jobs_on_exit:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._abort_all(), STOP_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(runner.stop_all(), STOP_SECONDS)
        await runner.close()
        watcher.cancel()
        self.accounting.save()
        self.timeline.save()
        self.measurements.save(self.decisions.core.state, self.clock(), at_once=True)
        self._pending.append(HostOff(self.clock()))
        self.drain()
        self.decisions.store()
        self.save()
        await self.connections.close()
        self.state.close()

    async def _abort_all(self) -> None:
        for content in self.state.contents.values():
            await self.jobs.end_all(
                content, CLIENT_EXITING, "the client ends, and cc_config.xml says <abort_jobs_on_exit>"
            )

    def _runner(self) -> Runner:
        assert self.jobs.runner is not None  # noqa: S101  # set before anything runs
        return self.jobs.runner

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background; a failure is written to the event log."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.journal.say(f"Internal error: {type(error).__name__}: {error}", priority=3)

    # -- events and instructions --------------------------------------------------------------------------

    def post(self, *events: Event) -> None:
        """Send an event to the core, in this turn of the loop; before everything is prepared it waits."""
        self._pending.extend(events)
        if self._may_act and not self._draining:
            self._draining = True
            asyncio.get_running_loop().call_soon(self.drain)

    def drain(self) -> None:
        """Pass on all events, save everything, and carry out the core's instructions."""
        self._draining = False
        while self._pending:
            events = list(self._pending)
            self._pending.clear()
            readings = self.jobs.readings()
            if readings and any(event.decisive for event in events):
                events.insert(0, JobProgressed(self.clock(), readings))
            refused: list[Refusal] = []
            self._held_back += self.decisions.tell(*events, refused=refused)
            for event, error in refused:
                self.journal.say(
                    f"Internal error: the core refused {type(event).__name__}: {error}", priority=3
                )
        if self.save() and self._may_act:
            instructions, self._held_back = self._held_back, []
            for instruction in instructions:
                self._carry_out(instruction)

    def save(self) -> bool:
        """Write what has changed; a full disk does not end the client, but nothing new is started."""
        try:
            self.state.flush()
        except StoreError as error:
            if self.journal.last == 0 or str(error) not in self.journal.since(self.journal.last - 1)[-1].body:
                self.journal.say(str(error), priority=2)
            return False
        if self.jobs.unneeded:
            paths, self.jobs.unneeded = self.jobs.unneeded, []
            self.background(asyncio.to_thread(_remove, paths))
        return True

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case StartTask():
                self.jobs.start(instruction.job, instruction.instances)
            case SuspendTask():
                self.jobs.suspend(instruction.job)
            case QuitTask():
                self.jobs.quit(instruction.job, self.conditions.patience())
            case GiveUp():
                words = "; ".join(sentence(each) for each in instruction.why) or instruction.code
                by_project = instruction.code == "project"
                status = ABORTED_BY_PROJECT if by_project else UNSTARTED_LATE
                self.jobs.abort(instruction.job, status, "aborted by project" if by_project else words)
            case ContactProject():
                self.background(self.contacts.contact(instruction))
            case SetAlarm():
                self._set_alarm(instruction.at)
            case Explain():
                for each in instruction.why:
                    self.journal.say(f"[{instruction.about}] {sentence(each)}")
            case _:
                raise TypeError(
                    f"{type(instruction).__name__} is an instruction that the daemon does not know"
                )

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        wait = min(LONGEST_ALARM, max(0.0, at - self.clock()))
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(wait, lambda: self.post(TimePassed(self.clock())))

    # -- what the daemon looks after ----------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        last_look = self.clock()
        while True:
            await asyncio.sleep(SECOND)
            now = self.clock()
            gap = now - self._last_tick
            if gap > SECOND + SLEPT or gap < -SECOND:
                self.journal.say(
                    f"The clock moved by {gap - SECOND:.0f} s: the computer slept, or its time was set"
                )
                self.post(HostOn(now))
                if gap < 0:
                    self.conditions.clock_set_back(SECOND - gap)
                    self.transfers.clock_set_back(SECOND - gap)
                    self.measurements.clock_set_back(SECOND - gap)
                    self.feeds.clock_set_back(SECOND - gap)
                last_look = min(last_look, now - TICK)
            self._last_tick = now
            self.measurements.passed(self.decisions.core.state, now)
            computing = self.jobs.computing()
            self.accounting.passed(computing, self._speeds(), now)
            self.timeline.passed([(job.project, job.name) for _, job in computing], now)
            if now - last_look >= TICK:
                last_look = now
                self._ticks += 1
                try:
                    await self._tick(now)
                except CobblestoneError as error:
                    self.journal.say(str(error), priority=3)

    def _speeds(self) -> Speeds:
        devices = self.conditions.devices()
        return Speeds(cpu=devices.cpu_flops, gpus={gpu.name: gpu.peak_flops for gpu in devices.gpus})

    async def _tick(self, now: float) -> None:
        self.jobs.readings()
        self.accounting.save()
        self.timeline.save()
        self.measurements.save(self.decisions.core.state, now)
        await self.conditions.look(self._runner())
        self.apply_conditions()
        self.contacts.look(now)
        look_after_manager(self, now)
        await self.connections.close_old()
        if not self.conditions.permission().network:
            self.background(self.feeds.poll(self.connections))
        self._end_when_idle()
        if self._ticks % DISK_EVERY == 1 and self.conditions.benchmarks_due():
            self.control.run_benchmarks()
        if self._ticks % DISK_EVERY == 1:
            await self.contacts.measure_disk()
        if self._ticks % int(READINGS_EVERY // TICK) == 0:
            self.post(TimePassed(now))
        self.transfers.poll()
        self.post(*stalled_downloads(self.state, self.decisions.core.state, now))
        self.drain()

    def _end_when_idle(self) -> None:
        """End when everything is done and reported, if so configured."""
        has_jobs = any(content.jobs for content in self.state.contents.values())
        if self.conditions.config.exit_when_idle and self._had_jobs and not has_jobs:
            self.journal.say("All tasks are reported: ending, as cc_config.xml says with <exit_when_idle>")
            self.stopping.set()
        self._had_jobs |= has_jobs

    def apply_conditions(self) -> None:
        """Apply preferences and the state of the computer."""
        now = self.clock()
        changed = self.conditions.changes()
        if changed.preferences:
            self.post(PreferencesChanged(now, changed.preferences))
        if changed.devices:
            self.post(DevicesChanged(now, changed.devices))
        if changed.permission:
            self.post(PermissionChanged(now, changed.permission))
            self.transfers.allowed = not changed.permission.network
            if not self.transfers.allowed:
                self.transfers.suspend()
        self.conditions.limit(self.jobs, self.transfers)
        self._connect()
        if changed.projects:
            self.describe_projects()

    @property
    def http(self) -> httpx.AsyncClient:
        """Return the connections to use now."""
        return self.connections.http

    def _connect(self) -> None:
        """Use the proxy set by a manager, else that of the configuration, else the environment's."""
        config = self.conditions.config
        proxy = read_proxy(self.state.notes.proxy)[0] or config.proxy
        try:
            if self.connections.use(proxy, max(1.0, config.http_transfer_timeout)):
                way = f"the proxy {proxy.host}:{proxy.port}" if proxy else "no proxy but the environment's"
                self.journal.say(f"The network is now reached through {way}")
                self.transfers.reconnect()
        except ConfigError as error:
            self.journal.alert(str(error))

    def describe_projects(self) -> None:
        """Send the core the current descriptions of projects and their jobs."""
        now = self.clock()
        contents = self.state.contents.values()
        self.post(*(ProjectAttached(now, self.conditions.describe_project(each)) for each in contents))
        if jobs := changed_descriptions(self.state, self.decisions.core.state):
            self.post(JobsDescribed(now, jobs))

    def show(self) -> None:
        """Update what managers see of the core's state."""
        for known in self.decisions.core.state.jobs:
            if found := self.jobs.find(known.id):
                content, job = found
                job.estimated_remaining, job.edf_scheduled = expected_left(known), known.edf
                version = version_in_force(content, job) if job.task.started else None
                job.resources = resources_in_words(version, job.devices) if version else ""
        self.contacts.look(self.clock())

    def facts(self) -> ReportedHost:
        """Return the facts about this computer for projects and jobs."""
        times = self.measurements.time_stats(self.decisions.core.state, self.clock())
        return replace(self.conditions.facts(), time_stats=times)

    def _task_event(self, event: Any) -> None:
        self.jobs.told(event)
        self.drain()

    def _measured(self, nbytes: float, upload: bool, started: float) -> None:
        self.measurements.moved(nbytes, upload=upload, started=started, now=self.clock())

    def _transferred(self, file: Any) -> None:
        self.jobs.transferred(file)
        self.post(TimePassed(self.clock()))


STOP_SECONDS = 60.0


def _remove(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
