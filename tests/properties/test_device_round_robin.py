"""The simulation that mends its choice of jobs from step to step finds what one finds that chooses anew in each step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from tests.helpers.effort import times

from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import CPU, GpuExclusion
from cobblestone.policy.client.recent.concurrency import ProjectLimits, Together
from cobblestone.policy.client.recent.picks import STEP, QueueProject
from cobblestone.policy.client.recent.rec import Devices, GpuType, picked_bump, priority
from cobblestone.policy.client.recent.round_robin import (
    LONG_STEP,
    MAX_STEPS,
    Cap,
    RoundRobinOutlook,
    limited_caps,
    simulate_devices,
)

ROOM = 5_000.0


@dataclass(eq=False, kw_only=True)
class Job(ClientJob):
    id: str = ""
    app_name: str = "a"
    version: str = ""
    cpus: float = 1.0
    gpu: str = ""
    gpus: float = 0.0
    raw: float = 0.0
    received: float = 0.0
    report_deadline: float = 0.0


@dataclass
class Case:
    jobs: list[Job]
    projects: list[QueueProject]
    devices: Devices
    now: float
    buffer_total: float
    cpu_available: float
    gpu_available: float
    half_life: float
    ram_bytes: float


@dataclass
class Found:
    """What the slow simulation found, as plain values."""

    late: set[int]
    misses: dict[tuple[int, str], int]
    shortfall: dict[str, float]
    saturated: dict[str, float]
    idle_now: dict[str, float]
    busy: dict[str, float]
    limit_shortfalls: dict[tuple[int, str], float]


def reference(case: Case, caps: dict[tuple[int, str], Cap]) -> Found:
    """Choose anew which jobs run in each step, one by one, and let each run down by itself."""
    jobs, projects, devices = case.jobs, case.projects, case.devices
    counts = {g.name: len(g.usable) for g in devices.gpus} | {CPU: devices.ncpus}
    queue = [i for i, job in enumerate(jobs) if job.gpu in counts]
    left = [job.remaining for job in jobs]
    speed = [case.gpu_available if job.gpu else case.cpu_available for job in jobs]
    recs = [p.rec for p in projects]
    zero = dict.fromkeys(counts, 0.0)
    found = Found(set(), {}, dict(zero), dict(zero), {}, dict(zero), dict.fromkeys(caps, 0.0))
    booked = {kind: [0.0] * count for kind, count in counts.items()}
    time = 0.0
    for _ in range(MAX_STEPS):
        picked, used, used_by = choose(case, queue, recs, counts)
        found.idle_now = found.idle_now or {k: max(0.0, n - used[k]) for k, n in counts.items()}
        if not picked:
            break
        step, ending = min((left[i] / speed[i], i) for i in picked)
        whole = step <= STEP
        step = step / 10.0 if step > LONG_STEP else min(step, STEP)
        within = max(0.0, min(time + step, case.buffer_total) - time)
        for kind, count in counts.items():
            found.shortfall[kind] += max(0.0, count - used[kind]) * within
            if used[kind] >= count:
                found.saturated[kind] = time + step
        for key, cap in caps.items():
            running = sum(jobs[i].project == key[0] for i in picked)
            missing = min(cap.most - used_by.get(key, 0.0), (cap.jobs - running) * cap.usage)
            found.limit_shortfalls[key] += max(0.0, missing) * within
        time += step
        fade = 0.5 ** (step / case.half_life)
        recs = [rec * fade for rec in recs]
        for i in picked:
            job = jobs[i]
            left[i] -= step * speed[i]
            peak = devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
            recs[job.project] += (1.0 - fade) * peak * 200.0 / 1e9
        if whole:
            queue.remove(ending)
            book_late(case, found, booked, ending, case.now + time, speed[ending])
    for kind, count in counts.items():
        found.shortfall[kind] += max(0.0, case.buffer_total - time) * count
        found.busy[kind] = min(booked[kind], default=0.0)
    for key, cap in caps.items():
        found.limit_shortfalls[key] += max(0.0, case.buffer_total - time) * min(
            cap.most, cap.jobs * cap.usage
        )
    return found


def choose(
    case: Case, queue: Sequence[int], recs: Sequence[float], counts: dict[str, int]
) -> tuple[list[int], dict[str, float], dict[tuple[int, str], float]]:
    jobs, projects, devices = case.jobs, case.projects, case.devices
    together = Together([p.limits for p in projects], devices)
    share_sum, rec_sum = sum(p.share for p in projects), sum(recs) or 1.0
    trial = list(recs)
    used = dict.fromkeys(counts, 0.0)
    used_by: dict[tuple[int, str], float] = {}
    picked: list[int] = []
    for kind, count in counts.items():
        pending = [
            [i for i in queue if jobs[i].gpu == kind and jobs[i].project == p] for p in range(len(projects))
        ]
        while used[kind] < count and any(pending):
            best = max(
                (p for p in range(len(projects)) if pending[p]),
                key=lambda p: (
                    projects[p].group,
                    priority(trial[p], projects[p].share, share_sum, rec_sum),
                    -p,
                ),
            )
            i = pending[best].pop(0)
            job = jobs[i]
            refusal = together.refusal(job)
            if refusal is not None:  # another app of the project may still have room
                others = (
                    []
                    if refusal == "project"
                    else [k for k in pending[best] if jobs[k].app_name != job.app_name]
                )
                pending[best] = others
                continue
            picked.append(i)
            together.add(job)
            used[CPU] += job.cpus
            if kind:
                used[kind] += job.gpus
            used_by[best, kind] = used_by.get((best, kind), 0.0) + (job.gpus if kind else job.cpus)
            peak = devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
            trial[best] += picked_bump(peak, total_peak=devices.peak, rec_sum=rec_sum)
    for gpu in devices.gpus:
        least = min((job.gpus for job in jobs if job.gpu == gpu.name), default=1.0)
        used[gpu.name] = together.instances_full(gpu.name, least)
    return picked, used, used_by


def book_late(
    case: Case, found: Found, booked: dict[str, list[float]], i: int, at: float, speed: float
) -> None:
    job = case.jobs[i]
    if at <= job.cutoff or job.working_set > case.ram_bytes:
        return
    found.late.add(i)
    key = (job.project, job.gpu)
    found.misses[key] = found.misses.get(key, 0) + 1
    mine = booked[job.gpu]
    for _ in range(min(len(mine), int(job.gpus if job.gpu else job.cpus))):
        least = mine.index(min(mine))
        mine[least] += job.remaining / speed


def draw(r: random.Random) -> Case:
    """Draw a host with projects and a queue; sizes, shares and credit are drawn finely, so that nothing is equal by chance."""
    count = r.choice((1, 1, 2, 3, 6))
    gpus = tuple(
        GpuType(
            name=name,
            count=n,
            relative_speed=r.uniform(2, 50),
            suspended=(0,) if n > 1 and r.random() < 0.2 else (),
        )
        for name, n in (("NVIDIA", r.randint(1, 3)), ("ATI", 1))
        if r.random() < 0.35
    )
    kinds = [g.name for g in gpus] + ([] if r.random() < 0.97 else ["intel_gpu"])
    devices = Devices(ncpus=r.choice((1, 2, 4, 8, 16)), cpu_flops=r.uniform(1e9, 5e9), gpus=gpus)
    wide = r.random() < 0.3
    jobs = [
        Job(
            project=r.randrange(count),
            remaining=r.choice(
                (r.uniform(1, 2_000), r.uniform(1e3, 3e4), r.uniform(3e4, 2e5) if r.random() < 0.2 else 0.0)
            ),
            cutoff=r.uniform(0, 4e5),
            app_name=r.choice("ab"),
            cpus=r.choice((1.0, 2.0, 4.0, 0.5, 0.0)) if wide else 1.0,
            working_set=r.choice((0.0, 1e9)),
        )
        for _ in range(r.choice((0, 3, 20, 60)))
    ]
    for job in jobs:
        if kinds and r.random() < 0.2:
            job.gpu, job.gpus, job.cpus = r.choice(kinds), r.choice((0.5, 1.0, 2.0)), r.choice((0.125, 1.0))
    return Case(
        jobs,
        [_project(r, kinds) for _ in range(count)],
        devices,
        now=r.uniform(0, 1e5),
        buffer_total=r.uniform(1, 3e5),
        cpu_available=r.uniform(0.05, 1),
        gpu_available=r.uniform(0.05, 1),
        half_life=r.uniform(1e5, 1e6),
        ram_bytes=5e8 if r.random() < 0.1 else 1e12,
    )


def _project(r: random.Random, kinds: Sequence[str]) -> QueueProject:
    limits = ProjectLimits()
    if r.random() < 0.3:
        limits = ProjectLimits(
            max_concurrent=r.choice((0, 1, 3)),
            app_max_concurrent={"a": r.randint(1, 3)} if r.random() < 0.5 else {},
            exclusions=(GpuExclusion(gpu=kinds[0], instance=r.choice((None, 0)), app=r.choice(("", "a"))),)
            if kinds and r.random() < 0.5
            else (),
        )
    return QueueProject(
        share=0.0 if r.random() < 0.1 else r.uniform(1, 300),
        rec=0.0 if r.random() < 0.3 else r.uniform(1, 1e4),
        limits=limits,
        group=1 if r.random() < 0.1 else 0,
    )


def look(case: Case) -> RoundRobinOutlook:
    jobs: list[ClientJob] = [*case.jobs]
    return simulate_devices(
        jobs,
        case.projects,
        case.devices,
        now=case.now,
        buffer_total=case.buffer_total,
        cpu_available=case.cpu_available,
        gpu_available=case.gpu_available,
        half_life=case.half_life,
        ram_bytes=case.ram_bytes,
    )


def agree(case: Case) -> None:
    found = look(case)
    counts = {kind: device.instances for kind, device in found.devices.items()}
    jobs: list[ClientJob] = [*case.jobs]
    slow = reference(case, limited_caps(jobs, case.projects, case.devices, counts))
    assert found.late == slow.late
    assert found.misses == slow.misses
    assert found.limit_shortfalls == pytest.approx(slow.limit_shortfalls, rel=1e-9, abs=1e-3)
    for kind, device in found.devices.items():
        for name in ("shortfall", "saturated", "idle_now", "busy"):
            expected = getattr(slow, name)[kind]
            assert getattr(device, name) == pytest.approx(expected, rel=1e-9, abs=1e-3), (kind, name)


@pytest.mark.parametrize("part", range(10))
def test_a_mended_choice_is_the_one_that_would_be_made_anew(part: int, rng: random.Random) -> None:
    for _ in range(times(80)):
        agree(draw(rng))


def long_queue(r: random.Random) -> Case:
    """Draw a host on which most jobs just follow each other, with projects that have had their shares, or more, or nothing."""
    count = r.choice((1, 2, 3, 7))
    gpus = (GpuType(name="NVIDIA", count=1, relative_speed=r.uniform(2, 50)),) if r.random() < 0.2 else ()
    devices = Devices(ncpus=r.choice((2, 8, 32)), cpu_flops=r.uniform(1e9, 5e9), gpus=gpus)
    shares = [r.choice((0.0, 100.0, r.uniform(1, 300))) for _ in range(count)]
    had = r.choice((0.0, 1.0, r.uniform(0, 3)))
    level = devices.peak * 200.0 / 1e9 / (sum(shares) or 1.0)
    most = r.choice((0, 0, 3))
    jobs = [
        Job(
            project=r.randrange(count),
            remaining=r.uniform(1, 20_000 if r.random() < 0.02 else 4_000),
            cutoff=r.uniform(0, 4e5),
        )
        for _ in range(300)
    ]
    for job in jobs if gpus else ():
        if r.random() < 0.1:
            job.gpu, job.gpus, job.cpus = "NVIDIA", r.choice((0.5, 1.0)), 0.5
    return Case(
        jobs,
        [
            QueueProject(
                share=share,
                rec=had * level * share * r.uniform(0.9, 1.1),
                limits=ProjectLimits(max_concurrent=most),
                group=int(r.random() < 0.1),
            )
            for share in shares
        ],
        devices,
        now=r.uniform(0, 1e5),
        buffer_total=r.uniform(1, 3e5),
        cpu_available=r.uniform(0.05, 1),
        gpu_available=r.uniform(0.05, 1),
        half_life=r.choice((1e5, 864_000.0)),
        ram_bytes=1e12,
    )


@pytest.mark.parametrize("part", range(4))
def test_jobs_that_follow_each_other_are_those_that_would_be_chosen_anew(
    part: int, rng: random.Random
) -> None:
    for _ in range(times(4)):
        agree(long_queue(rng))


@pytest.mark.parametrize("part", range(4))
def test_jobs_that_just_follow_each_other_give_the_same_figures_as_among_limits(
    part: int, rng: random.Random
) -> None:
    without = QueueProject(share=100.0, rec=1.0)
    limited = QueueProject(share=0.0, rec=0.0, limits=ProjectLimits(max_concurrent=1))  # it has no jobs
    for _ in range(times(100)):
        ncpus = rng.choice((1, 2, 3, 8))
        case = replace(
            draw(rng),
            jobs=[
                Job(
                    project=0,
                    remaining=rng.choice((0.0, 3600.0, rng.uniform(1, 3e4), rng.uniform(1e4, 1e6))),
                    cutoff=rng.uniform(0, 4e5),
                    working_set=rng.choice((0.0, 1e9)),
                )
                for _ in range(rng.randint(0, 4 * (ncpus + 2)))
            ],
            projects=[without, without],
            devices=Devices(ncpus=ncpus, cpu_flops=2e9),
        )
        alone, among = look(case), look(replace(case, projects=[without, limited]))
        assert alone == replace(among, limit_shortfalls={})
