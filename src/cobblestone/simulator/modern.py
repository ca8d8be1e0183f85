"""Today's client on a simulated host: REC, device round robin, hysteresis fetch."""

from __future__ import annotations

import math
import random

from cobblestone.policy.client.backoff import next_type_backoff, rpc_backoff, type_backoff_delay
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.concurrency import ProjectLimits
from cobblestone.policy.client.device_round_robin import Outlook, QueueProject, simulate_devices
from cobblestone.policy.client.device_run_list import make_device_run_list
from cobblestone.policy.client.device_work_fetch import (
    MIN_BUFFER,
    DeviceFetchPlan,
    DeviceFetchProject,
    plan_device_fetch,
)
from cobblestone.policy.client.estimates import remaining_elapsed, update_dcf
from cobblestone.policy.client.rec import CREDIT_PER_FLOP, Devices, GpuType, gpu_relative_speed, update_rec
from cobblestone.policy.client.work_fetch import FETCH_PERIOD
from cobblestone.simulator.belief import OnStatistics, fixed_belief
from cobblestone.simulator.engine import NEVER, TINY, HostRun
from cobblestone.simulator.network import Network
from cobblestone.simulator.task import Task

REPORT_AFTER = 3600.0
REPORT_BEFORE_DEADLINE = 86400.0


class ModernClient:
    """CS4_WF4 at work."""

    def __init__(self, host: HostRun, network: Network, choice: PolicyChoice, rng: random.Random) -> None:
        scenario = host.scenario
        model = scenario.host
        self.host = host
        self.network = network
        self.choice = choice
        self.rng = rng
        self.slice = scenario.preferences.slice_seconds
        self.low = max(MIN_BUFFER, scenario.preferences.buffer_min)
        self.total = max(1.0, scenario.preferences.buffer_min + scenario.preferences.buffer_additional)
        self.half_life = scenario.preferences.rec_half_life
        self.devices = Devices(
            ncpus=model.ncpus,
            cpu_flops=model.flops,
            gpus=tuple(
                GpuType(
                    name=g.type,
                    count=g.count,
                    relative_speed=gpu_relative_speed(peak_flops=g.flops, cpu_flops=model.flops),
                )
                for g in model.gpus
            ),
        )
        self.projects = scenario.projects
        count = len(scenario.projects)
        self.supplies = [frozenset(a.gpu for a in p.apps if a.weight > 0) for p in scenario.projects]
        self.limits = [
            ProjectLimits(
                max_concurrent=p.max_concurrent,
                app_max_concurrent={a.name: a.max_concurrent for a in p.apps if a.max_concurrent},
                excluded_gpus={p.excluded_gpu: p.excluded_gpus} if p.excluded_gpus else {},
            )
            for p in scenario.projects
        ]
        self.ram = model.ram_bytes or math.inf
        self.recs = [0.0] * count
        self.dcf = [1.0] * count
        self.failures = [0] * count
        self.not_before = [0.0] * count
        self.backoff: dict[
            tuple[int, str], tuple[float, float]
        ] = {}  #: interval and end, by project and device type
        self.jobs: list[Task] = []
        self.finished: list[Task] = []
        self.starts = 0
        self.must_schedule = False
        self.must_fetch = True
        self.last_schedule = 0.0
        self.next_fetch = 0.0
        self.plan = DeviceFetchPlan(None, {})
        self.outlook: Outlook | None = None
        self.wake = 0.0
        self._on_statistics = OnStatistics()
        self._clock = 0.0
        self._wall = 0.0
        self.fixed = fixed_belief(model)

    # -- what the client knows ----------------------------------------------------------------------------------------

    def fraction(self) -> float:
        """Return the believed fraction of time in which the host computes."""
        if self.fixed is not None:
            return self.fixed
        return max(0.01, self._on_statistics.at(self.host.now))

    def gap(self, seconds: float) -> None:
        """The host was off."""
        self._on_statistics.gap(seconds, self.host.now)

    def account(self) -> None:
        """Credit the projects for what ran since the last call; the set of running tasks has not changed
        since.
        """
        clock, now = self.host.clock, self.host.now
        computed = clock - self._clock
        elapsed = now - self._wall
        if elapsed < 1.0:
            return
        credit = [0.0] * len(self.recs)
        for task in self.host.running:
            peak = self.devices.job_peak(cpus=task.cpus, gpu=task.gpu, gpus=task.gpus)
            credit[task.project] += computed * peak * CREDIT_PER_FLOP
        self.recs = [
            update_rec(rec, credit=c, seconds=elapsed, half_life=self.half_life)
            for rec, c in zip(self.recs, credit, strict=True)
        ]
        self._clock, self._wall = clock, now
        self.host.books.busy = [0.0] * len(self.recs)

    def _look_ahead(self) -> Outlook:
        if self.outlook is None:
            for task in self.jobs:
                task.remaining = remaining_elapsed(
                    estimate=task.raw * self.dcf[task.project],
                    elapsed=task.done,
                    fraction_done=task.fraction_done,
                )
            fraction = self.fraction()
            self.outlook = simulate_devices(
                self.jobs,
                self._queue_projects(),
                self.devices,
                now=self.host.now,
                buffer_total=self.total,
                cpu_available=fraction,
                gpu_available=fraction,
                half_life=self.half_life,
                ram_bytes=self.ram,
            )
        return self.outlook

    def _queue_projects(self) -> list[QueueProject]:
        return [
            QueueProject(share=p.share, rec=rec, limits=limits)
            for p, rec, limits in zip(self.projects, self.recs, self.limits, strict=True)
        ]

    # -- events -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do everything that is due now."""
        now = self.host.now
        self.account()
        self.outlook = None
        self.network.progress(self._arrived)
        again = True
        while again:
            self.host.count_round()
            again = self._take_finished()
            if self.jobs and (self.must_schedule or now - self.last_schedule >= self.slice - TINY):
                self._schedule()
            if self.must_fetch or now >= self.next_fetch - TINY:
                self._plan_fetch()
            again = self._contact() or again
        self._set_alarm()

    def left_over(self) -> list[Task]:
        """Return the jobs that have not been reported."""
        return self.jobs + self.finished

    def _arrived(self, task: Task) -> None:
        self.must_schedule = True

    def _take_finished(self) -> bool:
        ended = self.host.ended()
        for task in ended:
            self.host.stop(task)
            task.completed_at = self.host.now
            if self.choice.job_completion == 2 and not task.failed:
                self.dcf[task.project] = update_dcf(
                    self.dcf[task.project], actual=task.size, raw_estimate=task.raw
                )
            self.jobs.remove(task)
            self.finished.append(task)
            due = min(
                task.report_deadline - max(REPORT_BEFORE_DEADLINE, self.low), self.host.now + REPORT_AFTER
            )
            task.report_at = due
            self.network.upload(task)
            self.backoff.pop((task.project, task.gpu), None)
            if self.host.recorder is not None:
                self.host.recorder.finished(task, self.host.now)
        if ended:
            self.host.recompute()
            self.must_schedule = self.must_fetch = True
            self.outlook = None
        return bool(ended)

    def _schedule(self) -> None:
        host = self.host
        self.must_schedule = False
        self.last_schedule = host.now
        outlook = self._look_ahead()
        late = {id(self.jobs[i]) for i in outlook.late}
        arrived = [t for t in self.jobs if t.arrived]
        if len(arrived) != len(self.jobs):
            positions = {id(t): i for i, t in enumerate(arrived)}
            here = {positions[i] for i in late if i in positions}
            outlook = Outlook(outlook.devices, here, outlook.misses, outlook.limit_shortfalls)
        wanted = make_device_run_list(
            arrived,
            self._queue_projects(),
            self.devices,
            outlook,
            now=host.now,
            slice_seconds=self.slice,
            ram_bytes=self.ram,
        )
        ids = {id(t) for t in wanted}
        for task in [t for t in host.running if id(t) not in ids]:
            host.stop(task, keep=host.host.leave_in_memory and not task.gpu)
        for task in wanted:
            if not task.running:
                if not task.start_order:
                    self.starts += 1
                    task.start_order = self.starts
                task.edf = id(task) in late
                host.start(task)
            if host.recorder is not None:
                how = (
                    "would be late in turn"
                    if id(task) in late
                    else f"its project's turn, REC {self.recs[task.project]:.1f}"
                )
                host.recorder.note(
                    host.now, "schedule", f"{self.network.names[task.project]} job {task.number}: {how}"
                )
        host.recompute()

    # -- work fetch ---------------------------------------------------------------------------------------------------

    def _plan_fetch(self) -> None:
        now = self.host.now
        self.must_fetch = False
        outlook = self._look_ahead()
        projects: list[DeviceFetchProject] = []
        for i, p in enumerate(self.projects):
            mine = [t for t in self.jobs if t.project == i]
            queued: dict[str, float] = {}
            seconds: dict[str, float] = {}
            flops = 0.0
            for t in mine:
                use = t.gpus if t.gpu else t.cpus
                queued[t.gpu] = queued.get(t.gpu, 0.0) + use
                seconds[t.gpu] = seconds.get(t.gpu, 0.0) + use * t.remaining
                flops += t.remaining * self.devices.job_peak(cpus=t.cpus, gpu=t.gpu, gpus=t.gpus)
            waiting = frozenset(k for k in self.supplies[i] if self.backoff.get((i, k), (0.0, 0.0))[1] > now)
            projects.append(
                DeviceFetchProject(
                    share=p.share,
                    rec=self.recs[i],
                    supplies=self.supplies[i],
                    contactable=self.not_before[i] <= now,
                    backed_off=waiting,
                    runnable=len(mine),
                    dcf=self.dcf[i],
                    queued_flops=flops,
                    queued_instances=queued,
                    queued_seconds=seconds,
                    limits=self.limits[i],
                )
            )
        self.plan = plan_device_fetch(
            projects,
            outlook,
            ncpus=self.devices.ncpus,
            total_peak=self.devices.peak,
            buffer_min=self.low,
            buffer_total=self.total,
        )
        spare = min((d.saturated - self.low for d in outlook.devices.values()), default=0.0)
        wait = max(FETCH_PERIOD, 0.5 * self.fraction() * spare)
        self.next_fetch = max(now + wait, self.network.next_contact(now))
        if self.host.recorder is not None and self.plan.reasons:
            names = self.network.names
            texts = [
                w.sentence.replace(
                    "project {project}", names[n] if isinstance(n := w.values.get("project"), int) else ""
                )
                for w in self.plan.reasons
            ]
            self.host.recorder.note(now, "fetch", "; ".join(texts))

    def _contact(self) -> bool:
        now = self.host.now
        if not self.network.may_contact(now):
            return False
        for task in self.finished:
            if (
                now > task.report_at - TINY
                and self.not_before[task.project] <= now
                and not self.network.uploading(task)
            ):
                return self._rpc(task.project)
        if self.plan.project is not None and self.not_before[self.plan.project] <= now:
            return self._rpc(self.plan.project)
        return False

    def _rpc(self, project: int) -> bool:
        host, now = self.host, self.host.now
        requests = dict(self.plan.requests) if self.plan.project == project else {}
        self.plan = DeviceFetchPlan(None, {})
        book = host.books.projects[project]
        book.rpcs += 1
        self.must_fetch = True
        if not self.network.contact(project, now):
            self.not_before[project] = now + rpc_backoff(self.failures[project], rng=self.rng)
            self.failures[project] += 1
            return True
        self.failures[project] = 0
        for task in [t for t in self.finished if t.project == project and not self.network.uploading(t)]:
            self.finished.remove(task)
            self.network.report(task, now)
        if not requests:
            return True
        outlook = self._look_ahead()
        sent = self.network.servers[project].answer_devices(
            requests,
            now=now,
            dcf=self.dcf[project],
            delays={k: d.busy for k, d in outlook.devices.items()},
            fraction=self.fraction(),
            workload=self.jobs if self.choice.work_send == 2 else None,
        )
        margin = self.low
        for task in sent:
            task.cutoff = task.report_deadline - margin
            task.remaining = task.raw * self.dcf[project]
            self.jobs.append(task)
            self.network.download(task)
        book.sent += len(sent)
        got = {t.gpu for t in sent}
        for kind in requests:
            if kind in got:
                self.backoff.pop((project, kind), None)
            else:
                interval = next_type_backoff(self.backoff.get((project, kind), (0.0, 0.0))[0])
                self.backoff[project, kind] = (interval, now + type_backoff_delay(interval, rng=self.rng))
        if host.recorder is not None:
            asked = ", ".join(f"{k or 'CPU'} {r.seconds:.0f} s" for k, r in requests.items())
            host.recorder.note(
                now, "rpc", f"{self.network.names[project]}: asked for {asked}, jobs sent: {len(sent)}"
            )
        self.outlook = None
        self.must_schedule = True
        return True

    def _set_alarm(self) -> None:
        now = self.host.now
        wake = min(self.next_fetch, self.network.next_arrival())
        if self.jobs:
            wake = min(wake, self.last_schedule + self.slice)
        if self.finished:
            due = min(
                max(t.report_at, self.not_before[t.project], now + self.network.uploading(t))
                for t in self.finished
            )
            wake = min(wake, max(due, self.network.next_contact(now)))
        self.wake = wake if wake > now + TINY else (now + 1.0 if wake < NEVER else NEVER)
