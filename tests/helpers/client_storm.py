"""A world around a client core in which everything happens that may, in any order: what a driver keeps to, and no more.

``python -m tests.helpers.client_storm recent,own FIRST COUNT STEPS`` looks for what goes wrong with as many seeds as you like.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.events import (
    ContactProject,
    GiveUp,
    Instruction,
    QuitTask,
    SetAlarm,
    StartTask,
    SuspendTask,
    to_plain,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.reasons import sentence
from cobblestone.policy.client.core.state import Phase
from cobblestone.policy.client.core.values import (
    Gpu,
    GpuExclusion,
    HostDevices,
    HostTimes,
    JobDescription,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)

DAY = 86400.0
GPUS = ("NVIDIA", "AMD")
NAMES = "pqrs"
UNFINISHED = (Phase.DOWNLOADING, Phase.WAITING, Phase.RUNNING, Phase.IN_MEMORY, Phase.STOPPED)
NUMBERS = (math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-300, 0.5, 0.999, 1.0, 2.0, 1e9, 1e300)


class Storm:
    """One world; ``twin`` is told the same as the core, which is stored and restored now and then."""

    def __init__(self, policy: str, seed: int) -> None:
        self.r = r = random.Random(seed)
        self.seed = seed
        self.explain, self.notices_sleep = r.random() < 0.3, r.random() < 0.5
        self.core, self.twin = (
            ClientCore.start(
                policy, rng=random.Random(seed), explain=self.explain, notices_sleep=self.notices_sleep
            )
            for _ in range(2)
        )
        self.core.validate = self.twin.validate = True
        self.counts_jobs = policy.startswith("published")  #: its policy takes one processor a job
        self.now = r.choice([0.0, 1e9])
        self.made = 0
        self.attached: list[str] = []
        self.known: dict[str, JobDescription] = {}
        self.done: dict[str, float] = {}
        self.processes: dict[str, str] = {}  #: of each job that has one: ``runs``, ``waits`` or ``quits``
        self.contact: ContactProject | None = None
        self.slow: list[ContactProject] = []
        self.owed: list[ev.TaskStopped | ev.JobFailed] = []
        self.steps = 0
        self.tell(
            ev.HostOn(self.now),
            ev.PreferencesChanged(self.now, self.preferences()),
            ev.DevicesChanged(self.now, self.devices()),
            *(self._attach(name) for name in "pq"),
        )

    # -- what there is ------------------------------------------------------------------------------------------------

    def chance(self, part: float) -> bool:
        return self.r.random() < part

    def project(self, name: str) -> ProjectDescription:
        pick = self.r.choice
        return ProjectDescription(
            id=name,
            share=pick([0.0, 0.0, 1.0, 100.0, 100.0, 1e-9, 1e9]),
            supplies=pick([("",), ("", "NVIDIA"), ("NVIDIA",), ("", *GPUS), ()]),
            forbidden=pick([(), (), ("",), ("NVIDIA",)]),
            priority_group=pick([0, 0, 1, -1]),
            no_new_work=self.chance(0.1),
            suspended=self.chance(0.1),
            non_cpu_intensive=self.chance(0.1),
            dont_use_dcf=self.chance(0.3),
            max_concurrent=pick([0, 0, 1, 2]),
            app_max_concurrent=pick([{}, {}, {"a": 1}, {"a": 0, "b": 2}]),
            gpu_exclusions=pick(
                [(), (GpuExclusion(gpu="NVIDIA", instance=0),), (GpuExclusion(gpu="NVIDIA", app="a"),)]
            ),
        )

    def job(self, project: str) -> JobDescription:
        pick = self.r.choice
        self.made += 1
        gpu = pick(["", "", "", "NVIDIA", "AMD", "unknown"])
        found = JobDescription(
            id=f"{project}|{self.made}",
            project=project,
            app=pick("abc"),
            version=pick(["", "1"]),
            cpus=pick([0.0, 0.1, 0.5, 1.0, 1.0, 1.0, 2.0, 4.0, 64.0, 1e4]),
            gpu=gpu,
            gpus=pick([0.0, 0.3, 0.5, 0.6, 1.0, 2.0, 5.0]) if gpu else 0.0,
            estimate=pick([0.0, 1.0, 600.0, 3600.0, 3600.0, 36000.0, 1e6, math.inf, 1e-12]),
            received=self.now + pick([0.0, 0.0, -DAY, DAY]),
            deadline=self.now + pick([-1e6, 0.0, 3600.0, DAY, 10 * DAY, 1e12, math.inf]),
            memory_bound=pick([0.0, 1e8, 1e9, 1e12]),
            strict_memory_bound=self.chance(0.2),
            exact_fraction=self.chance(0.2),
            non_cpu_intensive=self.chance(0.07),
            sporadic=self.chance(0.05),
            needs_network=self.chance(0.1),
            ready=self.chance(0.7),
            report_immediately=self.chance(0.1),
        )
        self.known[found.id], self.done[found.id] = found, 0.0
        return found

    def devices(self) -> HostDevices:
        pick = self.r.choice
        gpus = tuple(
            Gpu(name=name, count=pick([0, 1, 2, 4]), peak_flops=pick([1e12, 0.0]), suspended=pick([(), (0,), (0, 1)]))
            for name in GPUS
            if self.chance(0.5)
        )  # fmt: skip
        return HostDevices(ncpus=pick([0, 1, 2, 4, 16]), cpu_flops=pick([1e9, 1e9, 3e9]), gpus=gpus)

    def preferences(self) -> SchedulingPreferences:
        pick = self.r.choice
        return SchedulingPreferences(
            buffer_min=pick([0.0, 8640.0, DAY, 1e6]),
            buffer_additional=pick([0.0, 21600.0, 1e6]),
            slice_seconds=pick([60.0, 3600.0, 3600.0, DAY]),
            connection_interval=pick([0.0, 0.0, 0.0, DAY]),
            leave_in_memory=self.chance(0.5),
            may_give_up=self.chance(0.5),
            fetch_on_update=self.chance(0.5),
            fetch_minimal_work=self.chance(0.1),
            report_at_once=self.chance(0.2),
            max_reported=pick([0, 0, 1, 3]),
        )

    def permission(self) -> Permission:
        pick = self.r.choice
        return Permission(
            cpu=pick(["", "", "", "user_active"]),
            gpu=pick(["", "", "user_active"]),
            network=pick(["", "", "", "time"]),
            connected=pick([None, True, False]),
            ncpus=pick([None, None, 0, 1, 2, 100]),
            throttle=pick([1.0, 1.0, 0.5, 0.01]),
            ram_bytes=pick([None, None, 2e9, 0.0]),
            swap_bytes=pick([None, None, 1e9, 0.0]),
            leave_in_memory=pick([None, True, False]),
            cpu_ends=pick([None, self.now + 600.0]),
            network_ends=pick([None, self.now + 6000.0]),
        )

    def reading(self, name: str) -> Reading:
        pick, done = self.r.choice, self.done[name]
        size = max(1.0, min(self.known[name].estimate, 1e6))
        return Reading(
            name,
            pick([done, done, done, done, *NUMBERS]),
            pick([done / size, done / size, None, *NUMBERS]),
            pick([None, self.now, self.now - 500.0]),
            pick([None, done, done / 2, *NUMBERS]),
            pick([0.0, 1e8, 3e9, *NUMBERS]),
            pick([0.0, 0.0, 8e8, *NUMBERS]),
        )

    # -- what happens -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let something happen, and check what comes of it."""
        self.steps += 1
        self._pass()
        event = self._owed() if self.owed and self.chance(0.7) else self._something()
        events = [event]
        if self.chance(0.3) and not isinstance(event, ev.ProjectDetached):
            events.append(ev.TimePassed(self.now))
        if self.chance(0.2):
            stored = json.loads(json.dumps(self.core.snapshot(), allow_nan=False))
            self.core = ClientCore.restore(
                stored, rng=random.Random(self.seed), explain=self.explain, notices_sleep=self.notices_sleep
            )
            self.core.validate = True
            assert json.loads(json.dumps(self.core.snapshot(), allow_nan=False)) == stored
        self.tell(*events)

    def _pass(self) -> None:
        pick, luck = self.r.choice, self.r.random()
        seconds = pick([0.0, 0.0, 1.0, 1.0, 60.0, 60.0, 600.0, 3600.0])
        if luck < 0.01:
            seconds = -pick([60.0, 3600.0, DAY, 30 * DAY])
        elif luck < 0.02:
            seconds = pick([DAY, 90 * DAY, 3650 * DAY])
        elif luck < 0.15 and self.core.state.alarm < math.inf:
            seconds = max(0.0, self.core.state.alarm - self.now)
        self.now += seconds
        for name, process in self.processes.items():
            self.done[name] += max(0.0, seconds) * (process == "runs")

    def _owed(self) -> ev.Event:
        event = self.owed.pop(self.r.randrange(len(self.owed)))
        self.processes.pop(event.job, None)
        return replace(event, now=self.now)

    def _something(self) -> ev.Event:
        weights = [weight for weight, _ in HAPPENINGS]
        (_, happening), *_ = self.r.choices(HAPPENINGS, weights)
        return happening(self) or ev.TimePassed(self.now)

    def tell(self, *events: ev.Event) -> None:
        """Tell the cores, which have to agree, and carry out what they want."""
        out = self.core.handle(*events)
        assert self.twin.handle(*events) == out, "a core that was restored parts from the one that was not"
        self._carry_out(out)
        here = self.core.state.by_id
        self.owed = [event for event in self.owed if event.job in here]
        if any(event.decisive for event in events):
            self._check_idle()
        for name in here:
            assert all(sentence(each) for each in self.core.why_job(name))
            assert self.core.why_job(name)
        for name in self.attached:
            assert all(sentence(each) for each in self.core.why_project(name))
        json.dumps(to_plain(self.core.instructions_in_force()), allow_nan=False)

    def _attach(self, name: str) -> ev.Event:
        if name not in self.attached:
            self.attached.append(name)
        return ev.ProjectAttached(self.now, self.project(name))

    def _detach(self) -> ev.Event | None:
        if len(self.attached) < 2:
            return None
        name = self.attached.pop(self.r.randrange(len(self.attached)))
        self.processes = {
            job: each for job, each in self.processes.items() if self.known[job].project != name
        }
        if self.contact is not None and self.contact.project == name:
            self.contact = None
        self.slow = [each for each in self.slow if each.project != name]
        return ev.ProjectDetached(self.now, name)

    def _answer(self) -> ev.Event | None:
        if self.contact is not None and self.chance(0.1):
            self.slow.append(self.contact)
            self.contact = None
            return ev.ContactSlow(self.now, self.slow[-1].project)
        if self.slow and self.chance(0.5):
            contact = self.slow.pop(self.r.randrange(len(self.slow)))
        else:
            contact, self.contact = self.contact, None
        if contact is None:
            return None
        if self.chance(0.25):
            return ev.ContactFailed(self.now, contact.project)
        pick, here = self.r.choice, [*self.core.state.by_id, "nobody"]
        count = pick([0, 0, 1, 2, 5]) if contact.requests or self.chance(0.1) else 0
        return ev.ReplyReceived(
            self.now,
            contact.project,
            tuple(self.job(contact.project) for _ in range(count)),
            pick([None, tuple(name for name in contact.report if self.chance(0.7))]),
            abort=tuple(self.r.sample(here, pick([0, 0, 0, 1]))),
            abort_unstarted=tuple(self.r.sample(here, pick([0, 0, 0, 1]))),
            request_delay=pick([0.0, 7.0, 600.0, 1e5]),
            next_contact=pick([0.0, 0.0, 3600.0]),
            refused=self.chance(0.1),
        )

    def one(self, *processes: str) -> str | None:
        """Return a job whose process is so, if there is one."""
        found = [name for name, each in self.processes.items() if each in processes]
        return self.r.choice(found) if found else None

    def one_in(self, *phases: Phase) -> str | None:
        """Return a job in one of these phases, if there is one."""
        found = [name for name, job in self.core.state.by_id.items() if job.phase in phases]
        return self.r.choice(found) if found else None

    def ends(self, name: str | None, kind: type[ev.JobFinished | ev.JobFailed]) -> ev.Event | None:
        """Let a job end."""
        if name is None:
            return None
        self.processes.pop(name, None)
        self.owed = [event for event in self.owed if event.job != name]
        elapsed = self.r.choice([self.done[name], self.done[name], *NUMBERS])
        return kind(self.now, name, elapsed, uploading=self.chance(0.3))

    # -- what it wants ------------------------------------------------------------------------------------------------

    def _carry_out(self, instructions: list[Instruction]) -> None:
        """Carry out what is wanted; it must be possible, and one instruction must not undo another."""
        touched: set[str] = set()
        for each in instructions:
            assert all(sentence(reason) for reason in each.why)
            if isinstance(each, StartTask):
                assert self.processes.get(each.job) in (None, "waits")
                assert each.job not in touched
                self.processes[each.job] = "runs"
            elif isinstance(each, SuspendTask | QuitTask):
                assert self.processes[each.job] != "quits"
                assert isinstance(each, QuitTask) or self.processes[each.job] == "runs"
                self.processes[each.job] = "waits" if isinstance(each, SuspendTask) else "quits"
                if isinstance(each, QuitTask):
                    self.owed.append(ev.TaskStopped(self.now, each.job))
            elif isinstance(each, GiveUp):
                self.processes.pop(each.job, None)
                self.owed = [event for event in self.owed if event.job != each.job]
                self.owed.append(ev.JobFailed(self.now, each.job, self.done[each.job]))
            elif isinstance(each, ContactProject):
                self._begin_contact(each)
            elif isinstance(each, SetAlarm):
                assert each.at > self.now
            if isinstance(each, SuspendTask | QuitTask | StartTask | GiveUp):
                assert each.job in self.core.state.by_id, "it is gone"
                touched.add(each.job)
        assert sum(isinstance(each, SetAlarm) for each in instructions) <= 1

    def _begin_contact(self, contact: ContactProject) -> None:
        assert self.contact is None
        assert contact.project not in [each.project for each in self.slow]
        assert contact.project in self.attached
        assert contact.requests or contact.why[0].code != "contact.work"
        assert 0.0 < contact.correction <= 100.0
        assert 0.0 <= contact.available <= 1.0
        for request in contact.requests.values():
            assert all(0.0 <= figure < math.inf for figure in request), request
        self.contact = contact

    def _check_idle(self) -> None:
        """No processor is idle that a job waits for."""
        state = self.core.state
        waiting = [job for job in state.jobs if job.runnable and not job.running]
        if self.counts_jobs:
            assert len(state.running) >= min(state.ncpus, len(state.running) + len(waiting))
            return
        moving = [job for job in state.wanted if job.phase is Phase.QUITTING]  # to another GPU
        usual = [job for job in (*state.running, *moving) if not job.always_runs]
        used = sum(job.cpus or (0.0 if job.gpu else 1.0) for job in usual)
        for job in waiting:
            if not job.gpu and self.core.why_job(job.id)[0].code in ("wait.cpus", "wait.turn"):
                assert used > state.ncpus - 1.0 + 1e-9, f"{used} of {state.ncpus} in use, {job.id} waits"


def _if_any(name: str | None, event: Callable[[str], ev.Event]) -> ev.Event | None:
    return None if name is None else event(name)


def _described(s: Storm) -> ev.Event | None:
    def changed(name: str) -> ev.Event:
        job = s.known[name]
        wider = replace(job, cpus=s.r.choice([job.cpus, 0.5, 3.0]), gpus=s.r.choice([job.gpus, 1.0, 0.4]))
        return ev.JobsDescribed(s.now, (wider if job.gpu else replace(wider, gpus=0.0),))

    return _if_any(s.one_in(*Phase), changed)


def _checkpointed(s: Storm) -> ev.Event | None:
    elapsed = s.r.choice(NUMBERS)
    return _if_any(s.one("runs"), lambda name: ev.JobCheckpointed(s.now, name, elapsed))


def _deferred(s: Storm) -> ev.Event | None:
    def put_off(name: str) -> ev.Event:
        del s.processes[name]
        until = s.r.choice([s.now + 1.0, s.now + 600.0, s.now + DAY, s.now - 5.0, math.inf, 1e17])
        return ev.JobDeferred(s.now, name, until)

    return _if_any(s.one("runs"), put_off)


def _died(s: Storm) -> ev.Event | None:
    def die(name: str) -> ev.Event:
        del s.processes[name]
        return ev.TaskStopped(s.now, name)

    return _if_any(s.one("runs", "waits"), die)


#: What may happen, and how often.
HAPPENINGS: list[tuple[int, Callable[[Storm], ev.Event | None]]] = [
    (8, lambda s: ev.TimePassed(s.now)),
    (6, lambda s: ev.JobProgressed(s.now, tuple(s.reading(n) for n, each in s.processes.items() if each == "runs"))),
    (4, lambda s: s.ends(s.one("runs"), ev.JobFinished)),
    (2, lambda s: s.ends(s.one_in(*UNFINISHED), ev.JobFailed)),
    (8, Storm._answer),
    (1, lambda s: ev.PreferencesChanged(s.now, s.preferences())),
    (3, lambda s: ev.PermissionChanged(s.now, s.permission() if s.chance(0.5) else Permission())),
    (1, lambda s: ev.DevicesChanged(s.now, s.devices())),
    (2, lambda s: s._attach(s.r.choice(NAMES))),
    (1, lambda s: s._detach() if s.chance(0.2) else None),
    (1, lambda s: ev.ContactAsked(s.now, s.r.choice(s.attached), s.r.choice(["user", "trickle", "project"]))),
    (2, lambda s: ev.JobsFound(s.now, tuple(s.job(s.r.choice(s.attached)) for _ in range(s.r.choice([1, 2, 6]))))),
    (1, _described),
    (2, lambda s: _if_any(s.one_in(Phase.DOWNLOADING), lambda name: ev.JobReady(s.now, name))),
    (1, lambda s: _if_any(s.one_in(Phase.DOWNLOADING), lambda name: ev.DownloadStalled(s.now, name, s.chance(0.6)))),
    (2, _checkpointed),
    (1, _deferred),
    (1, _died),
    (2, lambda s: _if_any(s.one_in(Phase.UPLOADING), lambda name: ev.JobUploaded(s.now, name))),
    (2, lambda s: _if_any(s.one_in(*UNFINISHED), lambda name: ev.JobSuspended(s.now, name, s.chance(0.5)))),
    (1, lambda s: ev.HostOn(s.now)),
    (1, lambda s: ev.HostOff(s.now)),
    (1, lambda s: ev.AvailabilityKnown(s.now, HostTimes(on_frac=s.r.random(), active_frac=s.r.choice([0.0, 1.0])))),
]  # fmt: skip


def _main(policies: str, *numbers: str) -> None:
    first, count, steps = map(int, numbers)
    for policy in policies.split(","):
        for seed in range(first, first + count):
            storm: Any = None
            try:
                storm = Storm(policy, seed)
                for _ in range(steps):
                    storm.step()
            except Exception as error:  # noqa: BLE001  # whatever goes wrong is what is looked for
                print(f"{policy}, seed {seed}, step {storm.steps if storm else 0}: {error!r:.300}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
