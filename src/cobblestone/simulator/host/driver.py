"""The client on a simulated host: feeds events to the core, carries out its instructions, and simulates contacts and transfers.

Contacts and transfers of a simulated host.

Files go one after another in each direction at the host's rate and only while the host is available;
contacts fail while the project's server is down.

The client on a simulated host: feeds the core what happens and carries out what it wants, at the virtual time.

Nothing is decided here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from cobblestone.domain.values import form_of
from cobblestone.policy.client.choice import Faults2007, PolicyChoice
from cobblestone.policy.client.core.events import (
    ContactFailed,
    ContactProject,
    Event,
    Explain,
    GiveUp,
    HostOff,
    HostOn,
    Instruction,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobReady,
    JobUploaded,
    QuitTask,
    ReplyReceived,
    StartTask,
    SuspendTask,
    TaskStopped,
    TimePassed,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.protocol import Policy
from cobblestone.policy.client.core.reasons import sentence
from cobblestone.policy.client.core.state import ClientProject, CoreState
from cobblestone.policy.client.core.values import (
    Gpu,
    GpuExclusion,
    HostDevices,
    JobDescription,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)
from cobblestone.simulator.host.books import SimTask
from cobblestone.simulator.host.engine import NEVER, HostRun, Recorder, make_availability
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import ProjectModel, Scenario


class Server(Protocol):
    """A project's side of a contact, as one host sees it."""

    @property
    def model(self) -> ProjectModel: ...
    def contacted(self, now: float) -> None: ...
    def answer(
        self, contact: ContactProject, now: float, buffer_min: float, faults: Faults2007
    ) -> tuple[list[SimTask], bool]: ...
    def answer_devices(self, contact: ContactProject, now: float) -> list[SimTask]: ...
    def reported(self, task: SimTask, now: float) -> None: ...


class Network:
    """The network between a host and its projects."""

    def __init__(self, host: HostRun, servers: Sequence[Server], streams: Streams) -> None:
        self.host = host
        self.servers = servers
        self.names = [s.model.name for s in servers]
        self._down_rate = host.host.download_rate
        self._up_rate = host.host.upload_rate
        self._down_free = 0.0
        self._up_free = 0.0
        self._downloads: deque[tuple[float, SimTask]] = deque()  #: the clock at which they end
        self._uploads: deque[tuple[float, SimTask]] = deque()
        self._up = [
            make_availability(s.model.downtime, streams.stream("downtime", s.model.name), start_on=False)
            for s in servers
        ]

    # -- contacts -----------------------------------------------------------------------------------------------------

    def contact(self, project: int, now: float) -> bool:
        """Count a contact and return whether the project's server answers."""
        process = self._up[project]
        while process.until <= now:
            process.toggle()
        if process.on:
            self.servers[project].contacted(now)
        return process.on

    def report(self, task: SimTask, now: float) -> None:
        """Report a finished job to its project, and count it."""
        self.host.books.report(task, now)
        self.servers[task.project].reported(task, now)

    # -- transfers ----------------------------------------------------------------------------------------------------

    def download(self, task: SimTask) -> bool:
        """Queue the input files of a task; return whether there is something to wait for."""
        if self._down_rate <= 0.0 or task.app.input_bytes <= 0.0:
            return False
        self._down_free = max(self._down_free, self.host.clock) + task.app.input_bytes / self._down_rate
        self._downloads.append((self._down_free, task))
        return True

    def upload(self, task: SimTask) -> bool:
        """Queue its output files; the job cannot be reported before they are uploaded."""
        if self._up_rate <= 0.0 or task.app.output_bytes <= 0.0:
            return False
        self._up_free = max(self._up_free, self.host.clock) + task.app.output_bytes / self._up_rate
        self._uploads.append((self._up_free, task))
        return True

    @property
    def busy(self) -> bool:
        """Return whether a transfer is in progress."""
        return bool(self._downloads or self._uploads)

    def progress(self, arrived: Callable[[SimTask], None], uploaded: Callable[[SimTask], None]) -> None:
        """Return the tasks whose downloads are finished, and those whose uploads are."""
        clock = self.host.clock
        for queue, tell in ((self._downloads, arrived), (self._uploads, uploaded)):
            while queue and queue[0][0] <= clock + 1e-9:
                tell(queue.popleft()[1])

    def next_transfer(self) -> float:
        """Return the wall time at which the next transfer ends if the host stays on."""
        if not self.busy:
            return NEVER
        ends = [queue[0][0] for queue in (self._downloads, self._uploads) if queue]
        return self.host.now + min(ends) - self.host.clock


#: What the log calls the core's explanations, where it has another word.
_KINDS = {"give_up": "give up"}


class SimulatedClient:
    """A client with any policy."""

    def __init__(self, host: HostRun, network: Network, choice: PolicyChoice, policy: Policy) -> None:
        self.host = host
        self.network = network
        self.choice = choice
        state = initial_state(host.scenario, choice)
        if host.quantum:
            state.last_contact = 0.0  # the simulator of 2007 begins with a contact
        self.core = ClientCore(policy, state=state, explain=host.recorder is not None)
        self.core.validate = bool(choice.registered)  # ours are known to be sound
        self.wake = 0.0
        self._tasks: dict[str, SimTask] = {}
        self._by_name = {name: i for i, name in enumerate(network.names)}
        self._begun = False
        self._off: HostOff | None = None  #: when the host went off, for its next start

    # -- what the engine calls ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Wake the core with all new events, until it wants nothing more."""
        now = self.host.now
        if not self._begun:
            self._begin(now)
        events: list[Event] = [self._progress()] if self.host.running else []
        told = len(events)
        if self.network.busy:
            self.network.progress(
                lambda task: events.append(JobReady(now, task.id)),
                lambda task: events.append(JobUploaded(now, task.id)),
            )
        events += self._ended()
        if len(events) == told:
            events.append(TimePassed(now))
        while events:
            self.host.count_round()
            events = self._carry_out(self.core.handle(*events))
        self._set_alarm()

    def account(self) -> None:
        """Update the core's figures, as a client that polls does."""
        self.core.handle(self._progress())

    def switch_off(self) -> None:
        """Record that the host goes off now; a client that polls has checked its tasks just before."""
        self._off = HostOff(self.host.now)
        if self.host.quantum:
            self.account()

    def gap(self, seconds: float) -> None:
        """Record that the host was off for some time and is on again."""
        now = self.host.now
        if not self._begun:
            self._begin(now - seconds)
        if self._off is None:
            self.core.handle(HostOn(now))
        else:
            self.core.handle(self._off, HostOn(now))
        self.wake = min(self.wake, self.core.state.alarm)

    def left_over(self) -> list[SimTask]:
        """Return the unreported jobs."""
        state = self.core.state
        return [self._tasks[job.id] for job in (*state.jobs, *state.finished)]

    # -- events -------------------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        self._begun = True
        self.core.state.now = now  # a host may attach late

    def _progress(self) -> JobProgressed:
        return JobProgressed(
            self.host.now, tuple([_reading(task, self.host.now) for task in self.host.running])
        )

    def _ended(self) -> list[Event]:
        ended = self.host.ended()
        if not ended:
            return []
        known = self.core.state.by_id
        ended.sort(key=lambda task: known[task.id].start_order)
        events: list[Event] = []
        for task in ended:
            self.host.stop(task)
            task.completed_at = self.host.now
            uploading = self.network.upload(task)
            kind = JobFailed if task.failed else JobFinished
            events.append(kind(self.host.now, task.id, task.size, uploading))
            if self.host.recorder is not None:
                self.host.recorder.finished(task, self.host.now)
        self.host.recompute()
        return events

    # -- instructions -------------------------------------------------------------------------------------------------

    def _carry_out(self, instructions: Sequence[Instruction]) -> list[Event]:
        host = self.host
        events: list[Event] = []
        changed = False
        for each in instructions:
            if isinstance(each, StartTask):
                task = self._tasks[each.job]
                task.edf = self.core.state.by_id[each.job].edf
                host.start(task)
                changed = True
            elif isinstance(each, SuspendTask):
                host.stop(self._tasks[each.job])
                changed = True
            elif isinstance(each, QuitTask):
                host.stop(self._tasks[each.job], keep=False)
                events.append(TaskStopped(host.now, each.job))
                changed = True
            elif isinstance(each, GiveUp):
                events.append(self._abort(self._tasks[each.job]))
                changed = True
            elif isinstance(each, ContactProject):
                events.append(self._contact(each))
            elif isinstance(each, Explain) and host.recorder is not None:
                note_reasons(host.recorder, host.now, each)
        if changed:
            host.recompute()
        return events + self._ended()

    def _abort(self, task: SimTask) -> JobFailed:
        if task.running:
            self.host.stop(task)
        task.failed = task.given_up = True
        task.limit = task.done
        task.completed_at = self.host.now
        if self.host.recorder is not None:
            self.host.recorder.finished(task, self.host.now)
        return JobFailed(self.host.now, task.id, task.done)

    def _contact(self, contact: ContactProject) -> Event:
        host, now, name = self.host, self.host.now, contact.project
        i = self._by_name[name]
        book = host.books.projects[i]
        book.rpcs += 1
        if not self.network.contact(i, now):
            return ContactFailed(now, name)
        for identity in contact.report:
            self.network.report(self._tasks.pop(identity), now)
        sent, refused = self._ask(i, contact) if contact.requests else ([], False)
        book.sent += len(sent)
        book.refused += refused
        jobs = tuple([self._receive(task, name) for task in sent])
        if host.recorder is not None:
            asked = ", ".join(f"{kind or 'CPU'} {r.seconds:.0f} s" for kind, r in contact.requests.items())
            text = f"{name}: asked for {asked or 'nothing'}, jobs sent: {len(sent)}"
            host.recorder.note(now, "rpc", text)
        return ReplyReceived(now, name, jobs, refused=refused)

    def _ask(self, i: int, contact: ContactProject) -> tuple[list[SimTask], bool]:
        server = self.network.servers[i]
        alike = all(not app.gpu and app.cpus == 1.0 for app in server.model.apps)
        if not self.choice.knows_devices or (self.choice.cpu_scheduling != 4 and alike):
            buffer_min = self.core.state.preferences.buffer_min
            return server.answer(contact, self.host.now, buffer_min, self.host.scenario.compatibility.faults)
        return server.answer_devices(contact, self.host.now), False

    def _receive(self, task: SimTask, project: str) -> JobDescription:
        task.id = f"{project} job {task.number}"
        self._tasks[task.id] = task
        app = task.app
        return form_of(
            JobDescription,
            task,
            project=project,
            app=app.name,
            version=app.name,
            estimate=task.raw,
            deadline=task.report_deadline,
            memory_bound=app.working_set,
            ready=not self.network.download(task),
        )

    def _set_alarm(self) -> None:
        self.wake = min(self.core.state.alarm, self.network.next_transfer())


def note_reasons(recorder: Recorder, now: float, explained: Explain) -> None:
    """Write the core's explanation to the log: a line per job, one for work fetch."""
    texts = [sentence(reason) for reason in explained.why]
    if explained.about in ("fetch", "give_up"):
        texts = ["; ".join(texts)]
    for text in texts:
        recorder.note(now, _KINDS.get(explained.about, explained.about), text)


def _reading(task: SimTask, now: float) -> Reading:
    """Return the readings of a running app from the app and the system."""
    period = task.app.checkpoint_period
    if not period:
        return Reading(task.id, task.done, task.fraction_done, now, task.done)
    saved = max(task.saved, math.floor(task.done / period) * period)
    at = None if saved <= 0.0 else now - task.done % period
    return Reading(task.id, task.done, task.fraction_done, at, saved)


def initial_state(scenario: Scenario, choice: PolicyChoice) -> CoreState:
    """Return the state of a new client on the scenario's host."""
    host, prefs = scenario.host, scenario.preferences
    return CoreState(
        preferences=form_of(
            SchedulingPreferences,
            prefs,
            host,
            may_give_up=choice.cpu_scheduling == 3 or bool(choice.registered),
        ),
        permission=Permission(ram_bytes=host.ram_bytes or None),
        devices=HostDevices(
            ncpus=host.ncpus,
            cpu_flops=host.flops,
            gpus=tuple(Gpu(name=g.type, count=g.count, peak_flops=g.flops) for g in host.gpus),
        ),
        projects=[ClientProject(_description(project)) for project in scenario.projects],
    )


def _description(model: ProjectModel) -> ProjectDescription:
    return form_of(
        ProjectDescription,
        model,
        id=model.name,
        supplies=tuple(sorted({app.gpu for app in model.apps if app.weight > 0})),
        app_max_concurrent={a.name: a.max_concurrent for a in model.apps if a.max_concurrent},
        gpu_exclusions=tuple(
            GpuExclusion(gpu=model.excluded_gpu, instance=n) for n in range(model.excluded_gpus)
        ),
    )
