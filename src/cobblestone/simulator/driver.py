"""The client on a simulated host: feeds the core what happens and carries out what it wants, at the virtual time.

Nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.events import (
    ContactFailed,
    Event,
    HostOff,
    HostOn,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobReady,
    JobUploaded,
    ReplyReceived,
    TaskStopped,
    TimePassed,
)
from cobblestone.policy.client.core.instructions import (
    ContactProject,
    Explain,
    GiveUp,
    Instruction,
    QuitTask,
    StartTask,
    SuspendTask,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.protocol import Policy
from cobblestone.policy.client.core.reasons import sentence
from cobblestone.policy.client.core.state import ClientState, Project
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
from cobblestone.simulator.engine import HostRun, Recorder
from cobblestone.simulator.network import Network
from cobblestone.simulator.scenario import ProjectModel, Scenario
from cobblestone.simulator.task import Task

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
        self.wake = 0.0
        self._tasks: dict[str, Task] = {}
        self._by_name = {name: i for i, name in enumerate(network.names)}
        self._begun = False
        self._off: HostOff | None = None  #: when the host went off, for its next start

    # -- what the engine calls ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Tell the core that it is time, with everything that has happened, until it wants nothing more."""
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
        """Bring the core's figures up to date, as a client that polls does."""
        self.core.handle(self._progress())

    def switch_off(self) -> None:
        """Note that the host goes off now; a client that polls has looked at its tasks just before."""
        self._off = HostOff(self.host.now)
        if self.host.quantum:
            self.account()

    def gap(self, seconds: float) -> None:
        """Note that the host was off for some time and is on again."""
        now = self.host.now
        if not self._begun:
            self._begin(now - seconds)
        if self._off is None:
            self.core.handle(HostOn(now))
        else:
            self.core.handle(self._off, HostOn(now))
        self.wake = min(self.wake, self.core.state.alarm)

    def left_over(self) -> list[Task]:
        """Return the jobs that have not been reported."""
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

    def _abort(self, task: Task) -> JobFailed:
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

    def _ask(self, i: int, contact: ContactProject) -> tuple[list[Task], bool]:
        server = self.network.servers[i]
        alike = all(not app.gpu and app.cpus == 1.0 for app in server.model.apps)
        if not self.choice.knows_devices or (self.choice.cpu_scheduling != 4 and alike):
            return server.answer(
                contact.requests[""].seconds,
                now=self.host.now,
                dcf=contact.correction,
                workload=contact.workload,
                buffer_min=self.core.state.preferences.buffer_min,
                faults=self.host.scenario.compatibility.faults,
            )
        return server.answer_devices(
            contact.requests,
            now=self.host.now,
            dcf=contact.correction,
            fraction=contact.available,
            workload=contact.workload,
        ), False

    def _receive(self, task: Task, project: str) -> JobDescription:
        task.id = f"{project} job {task.number}"
        self._tasks[task.id] = task
        app = task.app
        return JobDescription(
            id=task.id,
            project=project,
            app=app.name,
            version=app.name,
            cpus=task.cpus,
            gpu=task.gpu,
            gpus=task.gpus,
            estimate=task.raw,
            received=task.received,
            deadline=task.report_deadline,
            memory_bound=app.working_set,
            ready=not self.network.download(task),
        )

    def _set_alarm(self) -> None:
        self.wake = min(self.core.state.alarm, self.network.next_transfer())


def note_reasons(recorder: Recorder, now: float, explained: Explain) -> None:
    """Write the core's explanation into the log: a line per job, one for work fetch."""
    texts = [sentence(reason) for reason in explained.why]
    if explained.about in ("fetch", "give_up"):
        texts = ["; ".join(texts)]
    for text in texts:
        recorder.note(now, _KINDS.get(explained.about, explained.about), text)


def _reading(task: Task, now: float) -> Reading:
    """Return what a running app and the system say."""
    period = task.app.checkpoint_period
    if not period:
        return Reading(task.id, task.done, task.fraction_done, now, task.done)
    saved = max(task.saved, math.floor(task.done / period) * period)
    at = None if saved <= 0.0 else now - task.done % period
    return Reading(task.id, task.done, task.fraction_done, at, saved)


def initial_state(scenario: Scenario, choice: PolicyChoice) -> ClientState:
    """Return the memory of a client that begins on the scenario's host."""
    host, prefs = scenario.host, scenario.preferences
    return ClientState(
        preferences=SchedulingPreferences(
            buffer_min=prefs.buffer_min,
            buffer_additional=prefs.buffer_additional,
            slice_seconds=prefs.slice_seconds,
            connection_interval=host.connection_interval,
            rec_half_life=prefs.rec_half_life,
            leave_in_memory=host.leave_in_memory,
            may_give_up=choice.cpu_scheduling == 3 or bool(choice.registered),
        ),
        permission=Permission(ram_bytes=host.ram_bytes or None),
        devices=HostDevices(
            ncpus=host.ncpus,
            cpu_flops=host.flops,
            gpus=tuple(Gpu(name=g.type, count=g.count, peak_flops=g.flops) for g in host.gpus),
        ),
        projects=[Project(_description(project)) for project in scenario.projects],
    )


def _description(model: ProjectModel) -> ProjectDescription:
    return ProjectDescription(
        id=model.name,
        share=model.share,
        supplies=tuple(sorted({app.gpu for app in model.apps if app.weight > 0})),
        max_concurrent=model.max_concurrent,
        app_max_concurrent={a.name: a.max_concurrent for a in model.apps if a.max_concurrent},
        gpu_exclusions=tuple(
            GpuExclusion(gpu=model.excluded_gpu, instance=n) for n in range(model.excluded_gpus)
        ),
    )
