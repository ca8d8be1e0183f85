"""A small world around a client core: tasks that compute in virtual time, and servers that are functions."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cobblestone.policy.client.core.events import (
    ContactFailed,
    ContactProject,
    DevicesChanged,
    Event,
    GiveUp,
    HostOn,
    Instruction,
    JobFailed,
    JobFinished,
    JobProgressed,
    PermissionChanged,
    PreferencesChanged,
    ProjectAttached,
    QuitTask,
    ReplyReceived,
    StartTask,
    SuspendTask,
    TaskStopped,
    TimePassed,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.state import NEVER
from cobblestone.policy.client.core.values import (
    FetchRequest,
    HostDevices,
    JobDescription,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)

HOUR = 3600.0
DAY = 86400.0
Requests = Mapping[str, FetchRequest]
Server = Callable[[Requests, float], Sequence[JobDescription] | None]


@dataclass
class Play:
    """The world; ``size`` of a job (seconds on its devices) is its estimate unless ``sizes`` says otherwise."""

    projects: Sequence[ProjectDescription]
    servers: Mapping[str, Server] = field(default_factory=dict[str, Server])
    devices: HostDevices = HostDevices(ncpus=4)
    preferences: SchedulingPreferences = SchedulingPreferences()
    permission: Permission = Permission()
    policy: str = "recent"
    sizes: dict[str, float] = field(default_factory=dict[str, float])
    working_sets: dict[str, float] = field(default_factory=dict[str, float])
    swaps: dict[str, float] = field(default_factory=dict[str, float])
    checkpoint_period: float = 60.0

    def __post_init__(self) -> None:
        self.core = ClientCore.start(self.policy, rng=random.Random(1))
        self.core.validate = True
        self.now = 0.0
        self.done: dict[str, float] = {}
        self.saved: dict[str, float] = {}
        self.running: dict[str, StartTask] = {}
        self.known: dict[str, JobDescription] = {}
        self.late: list[str] = []
        self.finished: dict[str, float] = {}  #: when each job ended
        self.given_up: list[str] = []
        self.contacts: list[tuple[float, ContactProject]] = []
        self.log: list[tuple[float, Instruction]] = []
        self.idle = 0.0  #: CPU seconds
        self.tell(
            HostOn(0.0),
            PreferencesChanged(0.0, self.preferences),
            DevicesChanged(0.0, self.devices),
            PermissionChanged(0.0, self.permission),
            *(ProjectAttached(0.0, p) for p in self.projects),
        )

    # -- what happens -------------------------------------------------------------------------------------------------

    def tell(self, *events: Event) -> None:
        """Tell the core, and carry out what it wants until it wants no more."""
        pending = list(events)
        for _ in range(1000):
            if not pending:
                return
            pending = self._carry_out(self.core.handle(*pending))
        raise AssertionError("the client decides without end")

    def run(self, until: float) -> None:
        """Let time pass."""
        while self.now < until:
            ends = {name: self.size(name) - self.done[name] for name in self.running}
            at = min(until, self.core.state.alarm, self.now + min(ends.values(), default=NEVER))
            self._pass(max(at, self.now))
            events: list[Event] = [JobProgressed(self.now, tuple(map(self.reading, self.running)))]
            for name in [n for n in self.running if self.size(n) - self.done[n] <= 1e-6]:
                del self.running[name]
                self.finished[name] = self.now
                events.append(JobFinished(self.now, name, self.done[name]))
            self.tell(*events, TimePassed(self.now))

    def _pass(self, to: float) -> None:
        seconds = to - self.now
        self.now = to
        used = 0.0
        for name in self.running:
            self.done[name] += seconds
            job = self.known[name]
            used += 0.0 if job.non_cpu_intensive else job.cpus
        self.idle += seconds * max(0.0, self.devices.ncpus - used)

    def size(self, name: str) -> float:
        return self.sizes.get(name, self.known[name].estimate)

    def reading(self, name: str) -> Reading:
        done, period = self.done[name], self.checkpoint_period
        self.saved[name] = max(self.saved.get(name, 0.0), done - done % period)
        return Reading(
            name,
            done,
            done / self.size(name),
            self.now - done % period if done >= period else None,
            self.saved[name],
            self.working_sets.get(name, 0.0),
            self.swaps.get(name, 0.0),
        )

    # -- what it wants ------------------------------------------------------------------------------------------------

    def _carry_out(self, instructions: Sequence[Instruction]) -> list[Event]:
        events: list[Event] = []
        for each in instructions:
            self.log.append((self.now, each))
            if isinstance(each, StartTask):
                assert each.job not in self.running
                self.running[each.job] = each
                self.done.setdefault(each.job, 0.0)
            elif isinstance(each, SuspendTask):
                del self.running[each.job]
            elif isinstance(each, QuitTask):
                self.running.pop(each.job, None)
                self.done[each.job] = self.saved.get(each.job, 0.0)
                events.append(TaskStopped(self.now, each.job))
            elif isinstance(each, GiveUp):
                self.running.pop(each.job, None)
                self.given_up.append(each.job)
                events.append(JobFailed(self.now, each.job, self.done.get(each.job, 0.0)))
            elif isinstance(each, ContactProject):
                events.append(self._answer(each))
        self.check()
        return events

    def _answer(self, contact: ContactProject) -> Event:
        self.contacts.append((self.now, contact))
        for name in contact.report:
            if self.now > self.known[name].deadline:
                self.late.append(name)
        server = self.servers.get(contact.project)
        jobs = server(contact.requests, self.now) if server is not None else ()
        if jobs is None:
            return ContactFailed(self.now, contact.project)
        self.known |= {job.id: job for job in jobs}
        return ReplyReceived(self.now, contact.project, tuple(jobs))

    # -- what must always hold ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert that what runs fits the devices, the memory and the GPUs."""
        jobs = [self.known[name] for name in self.running]
        usual = [job for job in jobs if not (job.non_cpu_intensive or job.sporadic)]
        cpus = [job.cpus for job in usual if not job.gpu]
        allowed = self.core.state.ncpus
        assert sum(cpus) <= allowed + 1e-9 or (max(cpus) > 1.0 and sum(cpus) - max(cpus) < allowed)
        parts: dict[tuple[str, int], float] = {}
        for name, start in self.running.items():
            job = self.known[name]
            for instance in start.instances:
                key = (job.gpu, instance)
                parts[key] = parts.get(key, 0.0) + min(1.0, job.gpus)
            assert bool(job.gpu) == bool(start.instances)
        assert all(part <= 1.0 + 1e-9 for part in parts.values())
        assert {each.id for each in self.core.state.running} == set(self.running)

    def starts(self, name: str) -> int:
        """Return how often a job was started or resumed."""
        return sum(isinstance(each, StartTask) and each.job == name for _, each in self.log)

    def asked(self, project: str) -> int:
        """Return how often a project was asked for work."""
        return sum(bool(c.requests) for _, c in self.contacts if c.project == project)


def endless(
    project: str, *, estimate: float = HOUR, bound: float = 10 * DAY, most: int = 50, **more: object
) -> Server:
    """A server that always has jobs of one kind, and sends as many as are asked for."""
    made = 0

    def answer(requests: Requests, now: float) -> list[JobDescription]:
        nonlocal made
        sent: list[JobDescription] = []
        request = requests.get(str(more.get("gpu", "")))
        if request is None:
            return sent
        seconds, instances = request.seconds, request.instances
        use = float(str(more.get("gpus") or more.get("cpus", 1.0)))
        while (seconds > 0.0 or instances > 0.0) and len(sent) < most:
            sent.append(
                job(
                    f"{project}{made}", project, estimate=estimate, received=now, deadline=now + bound, **more
                )
            )
            made += 1
            seconds -= estimate * use
            instances -= use
        return sent

    return answer


def once(*jobs: JobDescription, unasked: bool = False) -> Server:
    """A server that sends these jobs at the first request (``unasked``: contact) and nothing more."""
    left = list(jobs)

    def answer(requests: Requests, now: float) -> list[JobDescription]:
        sent = list(left) if requests or unasked else []
        if sent:
            left.clear()
        return sent

    return answer


def job(
    name: str,
    project: str = "p",
    *,
    estimate: float = HOUR,
    received: float = 0.0,
    deadline: float = 10 * DAY,
    **more: object,
) -> JobDescription:
    """A job."""
    fields = {
        "id": name,
        "project": project,
        "estimate": estimate,
        "received": received,
        "deadline": deadline,
    }
    return JobDescription(**fields, **more)  # type: ignore[arg-type]  # the tests name fields that exist
