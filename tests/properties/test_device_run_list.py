"""The run list that looks at some jobs only is the one that is found by looking at all of them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import pytest
from tests.helpers.effort import times

from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.client.recent.concurrency import ProjectLimits, Together
from cobblestone.policy.client.recent.picks import QueueProject
from cobblestone.policy.client.recent.rec import Devices, GpuType, picked_bump, priority
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook
from cobblestone.policy.client.recent.run_list import CANNOT_WAIT, NEARLY_DONE, make_device_run_list

SLICE = 3600.0
NOW = 50_000.0


@dataclass(eq=False, kw_only=True)
class Job(ClientJob):
    number: int
    id: str = ""
    app_name: str = "a"
    version: str = ""
    cpus: float = 1.0
    gpu: str = ""
    gpus: float = 0.0
    raw: float = 0.0
    received: float = 0.0


@dataclass
class Case:
    jobs: list[Job]
    projects: list[QueueProject]
    devices: Devices
    late: set[int]
    ram_bytes: float
    blocked: dict[str, list[int]]


def reference(case: Case) -> dict[Job, tuple[int, ...]]:
    """Order all jobs, and try each of them."""
    late = {case.jobs[i].number for i in case.late}
    order = preference(case, late)
    preferred = {job.number for job in fit(case, order, {})}
    for job in order:
        if job.running or job.number not in preferred:
            job.preferred_since = None
        elif job.preferred_since is None:
            job.preferred_since = NOW

    def key(job: Job) -> tuple[bool, bool, bool, bool, bool, bool, float]:
        endangered = job.number in late
        spare = job.cutoff - NOW - job.remaining
        cannot_wait = job.number in preferred and -job.remaining < spare <= CANNOT_WAIT * SLICE
        urgent = endangered if job.running else cannot_wait
        patient = job.preferred_since is None or NOW - job.preferred_since < SLICE
        end = job.run_start + SLICE
        saved = job.checkpointed_at is not None and job.checkpointed_at >= end
        keeps = job.running and (end > NOW or job.remaining <= NEARLY_DONE or not saved)
        width = 0.0 if endangered else -job.cpus
        return not job.always_runs, not urgent, not job.gpu, patient, not keeps, not endangered, width

    # of jobs that are always on, the preferred come first, whatever else is to be said of them
    always = [job for job in order if job.always_runs]
    return fit(case, always + sorted([job for job in order if not job.always_runs], key=key), case.blocked)


def preference(case: Case, late: set[int]) -> list[Job]:
    recs = [p.rec for p in case.projects]
    rec_sum, share_sum = sum(recs) or 1.0, sum(p.share for p in case.projects)
    endangered = [job for job in case.jobs if job.number in late]
    order = sorted(endangered, key=lambda job: (job.report_deadline, job.start_order == 0, job.remaining))
    for kind in (*(g.name for g in case.devices.gpus), CPU):
        left = [job for job in case.jobs if job.gpu == kind and job.number not in late]
        left.sort(key=lambda job: (not job.running, job.start_order == 0, job.start_order))
        while left:
            best = min(
                {job.project for job in left},
                key=lambda p: (
                    -case.projects[p].group,
                    -priority(recs[p], case.projects[p].share, share_sum, rec_sum),
                    p,
                ),
            )
            job = next(job for job in left if job.project == best)
            left.remove(job)
            order.append(job)
            peak = case.devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
            recs[best] += picked_bump(peak, total_peak=case.devices.peak, rec_sum=rec_sum)
    return order


def fit(case: Case, order: Sequence[Job], blocked: dict[str, list[int]]) -> dict[Job, tuple[int, ...]]:
    together = Together(
        [p.limits for p in case.projects], case.devices, ram_bytes=case.ram_bytes, blocked=blocked
    )
    found: dict[Job, tuple[int, ...]] = {}
    cpus = gpu_cpus = 0.0
    for wide in (False, True):
        for job in order:
            use = 0.0 if job.always_runs else job.cpus or (0.0 if job.gpu else 1.0)
            total = cpus + use + (gpu_cpus if job.gpu else math.floor(gpu_cpus + 1e-9))
            fits = job.always_runs or total <= case.devices.ncpus + (1.0 if job.gpu else 1e-9)
            if wide:
                alone = cpus + gpu_cpus <= case.devices.ncpus - 1.0 + 1e-9
                fits = use > 1.0 and not job.gpu and not fits and alone
            if job not in found and fits and together.refusal(job) is None:
                found[job] = together.add(job)
                gpu_cpus += use if job.gpu else 0.0
                cpus += 0.0 if job.gpu else use
    return found


def draw(r: random.Random) -> Case:
    count = r.choice((1, 2, 3, 6))
    gpus = tuple(
        GpuType(name=name, count=n, relative_speed=r.uniform(2, 50))
        for name, n in (("NVIDIA", r.randint(1, 3)), ("ATI", 1))
        if r.random() < 0.3
    )
    devices = Devices(ncpus=r.choice((1, 2, 4, 16)), cpu_flops=2e9, gpus=gpus)
    wide, odd = r.random() < 0.3, r.random() < 0.2
    jobs: list[Job] = []
    for number in range(r.choice((0, 3, 30, 80))):
        begun = r.random() < 0.3
        job = Job(
            number=number,
            project=r.randrange(count),
            remaining=r.choice((r.uniform(1, 500), r.uniform(1, 20_000))),
            report_deadline=NOW + r.uniform(-1_000, 50_000),
            cpus=r.choice((0.0, 0.5, 1.0, 2.0, 4.0)) if wide else 1.0,
            app_name=r.choice("ab"),
            working_set=r.uniform(0, 1e9),
            start_order=number + 1 if begun else 0,
            running=begun and r.random() < 0.5,
            run_start=NOW - r.uniform(0, 8_000),
            checkpointed_at=NOW - r.uniform(0, 6_000) if r.random() < 0.7 else None,
            sporadic=odd and r.random() < 0.05,
            preferred_since=NOW - r.uniform(0, 7_000) if r.random() < 0.2 else None,
        )
        if gpus and r.random() < 0.3:
            job.gpu, job.gpus, job.cpus = (
                r.choice(gpus).name,
                r.choice((0.5, 1.0, 2.0)),
                r.choice((0.1, 0.6, 1.0)),
            )
            job.instances = (0,)
        job.cutoff = job.report_deadline - 1_000.0
        jobs.append(job)
    projects = [
        QueueProject(
            share=r.choice((0.0, r.uniform(1, 300))),
            rec=r.choice((0.0, r.uniform(1, 1e4))),
            limits=ProjectLimits(
                max_concurrent=r.choice((0, 0, 2)), app_max_concurrent={"a": 2} if r.random() < 0.2 else {}
            ),
            group=int(r.random() < 0.1),
        )
        for _ in range(count)
    ]
    return Case(
        jobs,
        projects,
        devices,
        late={i for i in range(len(jobs)) if r.random() < r.choice((0.0, 0.1, 0.6))},
        ram_bytes=r.choice((math.inf, 3e9)),
        blocked={"NVIDIA": [0]} if r.random() < 0.2 else {},
    )


@pytest.mark.parametrize("part", range(4))
def test_a_run_list_is_what_looking_at_all_jobs_finds(part: int, rng: random.Random) -> None:
    for _ in range(times(100)):
        case = draw(rng)
        expected = deepcopy(case)
        found = make_device_run_list(
            case.jobs,
            case.projects,
            case.devices,
            RoundRobinOutlook({}, case.late, {}),
            now=NOW,
            slice_seconds=SLICE,
            ram_bytes=case.ram_bytes,
            blocked=case.blocked,
        )
        slow = reference(expected)
        assert list(map(id, found.jobs)) == [id(case.jobs[job.number]) for job in slow]
        assert [found.instances[id(job)] for job in found.jobs] == list(slow.values())
        assert [job.preferred_since for job in case.jobs] == [job.preferred_since for job in expected.jobs]
