"""The daemon: passes events to the decision core and carries out its instructions.

Nothing is decided here.  Everything runs in one event loop; what takes long (hashing, unpacking, measuring the disk) runs in
threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobblestone.client.conditions.conditions import Conditions
from cobblestone.client.conditions.host import ReportedHost
from cobblestone.client.daemon.news import changed_descriptions, events_at_start, stalled_downloads
from cobblestone.client.loop import Loop
from cobblestone.client.projects.connections import Connections
from cobblestone.client.projects.contacts import ContactPorts, Contacts
from cobblestone.client.projects.jobs import Jobs
from cobblestone.client.projects.transfers import Transfers
from cobblestone.client.projects.web import FeedReader
from cobblestone.client.records.decisions import CoreDriver, in_words
from cobblestone.client.records.folders import DataFolder
from cobblestone.client.records.identity import VERSION_NUMBER, VERSION_TEXT, platforms
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.measurements import Measurements, RunAccounting, RunTimeline
from cobblestone.client.records.state import ClientDatabase
from cobblestone.client.remote.account_manager import ManagerContacts
from cobblestone.client.remote.commands import Controls
from cobblestone.client.remote.control import ClientCommands
from cobblestone.client.remote.view import ClientView
from cobblestone.client.tasks.runner import Runner
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.domain.values import form_of
from cobblestone.ops.environment import notify
from cobblestone.ops.policies import full_name, try_policy
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.values import Reading
from cobblestone.policy.client.host.transfers import TransferLimits
from cobblestone.wire.client.config import read_proxy

SECOND = 1.0
TICK = 10.0
READINGS_EVERY = 60.0
#: A tick that comes so much too late (seconds) means that the computer slept, or its clock was set.
SLEPT = 60.0
ABORTED_BY_PROJECT = 202
UNSTARTED_LATE = 200
CLIENT_EXITING = 199
#: Ticks between two measurements of the disk.
DISK_EVERY = 60


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
        if policy:
            policy = full_name(policy)
            try_policy(policy)
        self.folders = DataFolder(root)
        self.clock = clock
        self.rng = random.Random(seed)
        self.state = ClientDatabase(self.folders.root)
        if policy:
            self.state.notes.policy = policy
            self.state.keep_notes()
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
        self.decisions = CoreDriver(
            self.state,
            policy=self.state.notes.policy,
            seed=self.rng.randrange(2**32) if seed is None else seed,
        )
        self.loop = form_of(
            Loop, self, readings=self._readings, carry_out=self._carry_out, saved=self._remove_unneeded
        )
        self.jobs = form_of(Jobs, self, post=self.loop.post)
        self.feeds = FeedReader(self.state, self.journal, clock=clock, rng=self.rng)
        self.accounting = RunAccounting(self.state)
        self.timeline = RunTimeline(self.state)
        self.started = clock()
        self.measurements = Measurements(self.state, self.started)
        self.stopping = asyncio.Event()
        self.restarting = False  #: it ends, to be started again
        self.contacts = Contacts(form_of(ContactPorts, self))
        self.view = form_of(ClientView, self, stop=self.stopping.set)
        self.control = ClientCommands(self.view)
        self.manager = ManagerContacts(self.view, self.control)
        self._last_tick = clock()
        self._ticks = 0
        self._had_jobs = False

    @property
    def controls(self) -> Controls:
        """What interfaces need, to show and control this client."""
        return form_of(Controls, self)

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

    def restart(self) -> None:
        """End, and be started again."""
        self.restarting = True
        self.stopping.set()

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
        self.loop.may_act = True
        self.apply_conditions()
        self.loop.drain()
        for instruction in self.decisions.in_force():
            if isinstance(instruction, ev.ContactProject | ev.SetAlarm | ev.GiveUp):
                self._carry_out(instruction)
        self.transfers.poll()

    def _tell_core_of_everything(self) -> None:
        """Go on after a restart, before what people have asked for meanwhile."""
        self.loop.post_first(*events_at_start(self.state, self.conditions, self.decisions, self.clock()))

    async def _stop(self, watcher: asyncio.Task[None]) -> None:
        if not self.restarting:
            notify("STOPPING=1")
        self.journal.say("Stopping: jobs save their work")
        self.loop.may_act = False
        self.loop.cancel_alarm()
        await self.transfers.close()
        await self.loop.end_background()
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
        self.loop.post(ev.HostOff(self.clock()))
        self.loop.drain()
        self.decisions.store()
        self.loop.save()
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

    # -- events and instructions --------------------------------------------------------------------------

    def _readings(self) -> Sequence[Reading]:
        return self.jobs.readings()

    def _remove_unneeded(self) -> None:
        """Remove files that the state on disk knows no more."""
        if self.jobs.unneeded:
            paths, self.jobs.unneeded = self.jobs.unneeded, []
            self.loop.background(asyncio.to_thread(_remove, paths))

    def _carry_out(self, instruction: ev.Instruction) -> None:
        match instruction:
            case ev.StartTask():
                self.jobs.start(instruction.job, instruction.instances)
            case ev.SuspendTask():
                self.jobs.suspend(instruction.job)
            case ev.QuitTask():
                self.jobs.quit(instruction.job, self.conditions.patience())
            case ev.GiveUp():
                words = "; ".join(in_words(each) for each in instruction.why) or instruction.code
                by_project = instruction.code == "project"
                status = ABORTED_BY_PROJECT if by_project else UNSTARTED_LATE
                self.jobs.abort(instruction.job, status, "aborted by project" if by_project else words)
            case ev.ContactProject():
                self.loop.background(self.contacts.contact(instruction))
            case ev.SetAlarm():
                self.loop.set_alarm(instruction.at)
            case ev.Explain():
                for each in instruction.why:
                    self.journal.say(f"[{instruction.about}] {in_words(each)}")
            case _:
                raise TypeError(
                    f"{type(instruction).__name__} is an instruction that the daemon does not know"
                )

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
                self.loop.post(ev.HostOn(now))
                if gap < 0:
                    for each in (self.conditions, self.transfers, self.measurements, self.feeds):
                        each.clock_set_back(SECOND - gap)
                last_look = min(last_look, now - TICK)
            self._last_tick = now
            self.measurements.passed(self.decisions.core.state, now)
            computing = self.jobs.computing()
            self.accounting.passed(computing, self.conditions.devices(), now)
            self.timeline.passed([(job.project, job.name) for _, job in computing], now)
            if now - last_look >= TICK:
                last_look = now
                self._ticks += 1
                try:
                    await self._tick(now)
                except CobblestoneError as error:
                    self.journal.say(str(error), priority=3)

    async def _tick(self, now: float) -> None:
        self.jobs.readings()
        self.accounting.save()
        self.timeline.save()
        self.measurements.save(self.decisions.core.state, now)
        await self.conditions.look(self._runner())
        self.apply_conditions()
        self.contacts.look(now)
        self.manager.look(now)
        await self.connections.close_old()
        if not self.conditions.permission().network:
            self.loop.background(self.feeds.poll(self.connections))
        self._end_when_idle()
        if self._ticks % DISK_EVERY == 1 and self.conditions.benchmarks_due():
            self.control.run_benchmarks()
        if self._ticks % DISK_EVERY == 1:
            await self.contacts.measure_disk()
        if self._ticks % int(READINGS_EVERY // TICK) == 0:
            self.loop.post(ev.TimePassed(now))
        self.transfers.poll()
        self.loop.post(*stalled_downloads(self.state, self.decisions.core.state, now))
        self.loop.drain()

    def _end_when_idle(self) -> None:
        """End when everything is done and reported, if so configured."""
        has_jobs = any(content.jobs for content in self.state.contents.values())
        if self.conditions.config.exit_when_idle and self._had_jobs and not has_jobs:
            self.journal.say("All tasks are reported: ending, as cc_config.xml says with <exit_when_idle>")
            self.stopping.set()
        self._had_jobs |= has_jobs

    def apply_conditions(self) -> None:
        """Apply preferences and the state of the computer."""
        self.loop.post(*self.conditions.news())
        self.transfers.allowed = not self.conditions.permission().network
        if not self.transfers.allowed:
            self.transfers.suspend()
        self._limit()
        self._connect()
        if self.conditions.projects_changed:
            self.conditions.projects_changed = False
            self.describe_projects()

    def _limit(self) -> None:
        """Have the limits of speed, memory and network take effect."""
        wishes, config = self.conditions.preferences, self.conditions.config
        allowed = self.conditions.allowance
        transfers, jobs = self.transfers, self.jobs
        transfers.down.limit, transfers.up.limit = wishes.max_bytes_sec_down, wishes.max_bytes_sec_up
        transfers.limits = TransferLimits(
            total=config.max_file_xfers, per_project=config.max_file_xfers_per_project
        )
        transfers.be_patient(config.http_transfer_timeout, config.http_transfer_timeout_bps)
        jobs.checkpoint_seconds, jobs.config = wishes.disk_interval, config
        if jobs.runner is not None:
            jobs.runner.set_throttle(allowed.throttle_percent)
            jobs.runner.set_allowed_memory(allowed.ram_bytes)
            jobs.runner.set_network(suspended=bool(allowed.network.code))

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
        self.loop.post(
            *(ev.ProjectAttached(now, self.conditions.describe_project(each)) for each in contents)
        )
        if jobs := changed_descriptions(self.state, self.decisions.core.state):
            self.loop.post(ev.JobsDescribed(now, jobs))

    def facts(self) -> ReportedHost:
        """Return the facts about this computer for projects and jobs."""
        times = self.measurements.time_stats(self.decisions.core.state, self.clock())
        return replace(self.conditions.facts(), time_stats=times)

    def _task_event(self, event: Any) -> None:
        self.loop.drain_soon()  # before what comes of the event, such as the end of its slot
        self.jobs.told(event)

    def _measured(self, nbytes: float, upload: bool, started: float) -> None:
        self.measurements.moved(nbytes, upload=upload, started=started, now=self.clock())

    def _transferred(self, file: Any) -> None:
        self.jobs.transferred(file)
        self.loop.post(ev.TimePassed(self.clock()))


STOP_SECONDS = 60.0


def _remove(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
