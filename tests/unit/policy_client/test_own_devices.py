"""Our own policy on real computers: what GPUs, wide jobs and limits change, and that nothing else changes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.client_play import DAY, HOUR, Play, Requests, Server, endless, job, once
from tests.helpers.effort import times

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.core.events import (
    ContactProject,
    DevicesChanged,
    PermissionChanged,
    PreferencesChanged,
    ProjectAttached,
    TimePassed,
)
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import (
    FetchRequest,
    Gpu,
    HostDevices,
    JobDescription,
    Permission,
    ProjectDescription,
    SchedulingPreferences,
)
from cobblestone.policy.client.own.gpu_fetch import gpu_request_in_time
from cobblestone.policy.client.own.policy import from_name

P = ProjectDescription(id="p")
Q = ProjectDescription(id="q")
SMALL = SchedulingPreferences(buffer_min=600.0, buffer_additional=600.0)
ONE_GPU = HostDevices(ncpus=4, gpus=(Gpu(name="NVIDIA"),))


@pytest.mark.parametrize("name", ["own CS2_WF3_WS2_JC2", "own CS2_WF2", "own CS4_WF4"])
def test_the_policy_is_own_as_a_whole_or_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"CS3 and WF3 belong together|the policy own is CS3_WF3"):
        from_name(name, random.Random(1))


def mixed(project: str, seed: int, bound: float) -> dict[str, Server]:
    """A server whose jobs are of two apps and of all sizes; a third of its requests bring nothing."""
    luck, made = random.Random(seed), 0

    def answer(requests: Requests, now: float) -> list[JobDescription]:
        nonlocal made
        seconds = requests[""].seconds if "" in requests and luck.random() < 0.7 else 0.0
        sent: list[JobDescription] = []
        while seconds > 0.0 and len(sent) < 20:
            made += 1
            size = luck.choice([600.0, HOUR, 5 * HOUR])
            sent.append(
                job(f"{project}{made}", project, app=luck.choice("ab"), estimate=size, received=now,
                    deadline=now + bound * luck.choice([1.0, 3.0]), memory_bound=1e8)
            )  # fmt: skip
            seconds -= size
        return sent

    return {project: answer}


@settings(max_examples=times(3), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    ncpus=st.sampled_from([1, 2, 4]),
    bound=st.sampled_from([4 * HOUR, DAY, 10 * DAY]),
    consent=st.booleans(),
)
def test_with_jobs_of_one_cpu_each_a_limit_that_is_not_reached_and_a_gpu_without_jobs_change_no_decision(
    seed: int, ncpus: int, bound: float, *, consent: bool
) -> None:
    logs = []
    for ram, gpus in ((None, ()), (4e9, ()), (None, (Gpu(name="NVIDIA"),)), (4e9, (Gpu(name="NVIDIA"),))):
        luck = random.Random(seed)
        play = Play(
            [P, replace(Q, share=300.0)],
            mixed("p", seed, bound) | mixed("q", seed + 1, 2 * bound),
            devices=HostDevices(ncpus=ncpus, gpus=gpus),
            preferences=SchedulingPreferences(buffer_min=0.1 * DAY, may_give_up=consent),
            permission=Permission(ram_bytes=ram),
            policy="own",
        )
        while play.now < DAY:
            play.run(play.now + luck.uniform(0.0, 3 * HOUR))
            for name, known in play.known.items():
                play.sizes.setdefault(name, luck.uniform(0.3, 3.0) * known.estimate)
            play.tell(TimePassed(play.now))
        logs.append(play.log)
    assert all(log == logs[0] for log in logs[1:])
    assert any(isinstance(each, ContactProject) and each.requests for _, each in logs[0])


def gpu_too(described: ProjectDescription) -> ProjectDescription:
    return replace(described, supplies=("", "NVIDIA"))


def test_a_gpu_whose_jobs_take_no_whole_cpu_changes_nothing_for_the_cpus() -> None:
    plays = [
        Play(
            [P, replace(Q, supplies=supplies)],
            {
                "p": endless("p", estimate=2 * HOUR),
                "q": endless("q", estimate=1.3 * HOUR, gpu="NVIDIA", gpus=1.0, cpus=0.1),
            },
            devices=devices,
            policy="own",
        )
        for devices, supplies in ((ONE_GPU, ("NVIDIA",)), (HostDevices(ncpus=4), ()))
    ]
    for play in plays:
        play.run(DAY)
    with_gpu, without = ({name: at for name, at in play.finished.items() if name[0] == "p"} for play in plays)
    assert with_gpu == without
    assert sum(name[0] == "q" for name in plays[0].finished) == 18, "and the GPU computes all the time"


def test_gpu_jobs_take_whole_cpus_off_and_give_them_back() -> None:
    described = gpu_too(P)
    gpu = [job(f"g{i}", gpu="NVIDIA", gpus=1.0, cpus=2.0, estimate=HOUR) for i in range(2)]
    cpu = [job(f"c{i}", estimate=9 * HOUR) for i in range(4)]
    play = Play([described], {"p": once(*cpu, *gpu)}, devices=ONE_GPU, preferences=SMALL, policy="own")
    assert sorted(play.running) == ["c0", "c1", "g0"]
    play.run(2 * HOUR + 1.0)
    assert sorted(play.running) == ["c0", "c1", "c2", "c3"]
    assert play.idle == 0.0


def test_where_gpu_jobs_take_all_cpus_no_cpu_job_runs_and_none_is_asked_for() -> None:
    described = gpu_too(P)
    gpu = [job(f"g{i}", gpu="NVIDIA", gpus=1.0, cpus=4.0, estimate=6 * HOUR) for i in range(4)]
    play = Play([described], {"p": once(job("c0"), *gpu)}, devices=ONE_GPU, preferences=SMALL, policy="own")
    play.run(5 * HOUR)
    assert list(play.running) == ["g0"]
    assert play.asked("p") == 1
    play.tell(PermissionChanged(play.now, Permission(gpu="user_active")))
    assert list(play.running) == ["c0"], "and as soon as they may not run it does"


def test_a_project_that_has_gpu_jobs_only_is_not_asked_for_cpu_jobs_and_other_projects_have_theirs() -> None:
    play = Play(
        [replace(P, supplies=("NVIDIA",)), Q],
        {"p": endless("p", gpu="NVIDIA", gpus=0.5, cpus=0.5), "q": endless("q")},
        devices=ONE_GPU,
        policy="own",
    )
    play.run(DAY)
    assert all(set(c.requests) <= {"NVIDIA"} for _, c in play.contacts if c.project == "p")
    assert all(set(c.requests) <= {""} for _, c in play.contacts if c.project == "q")
    assert len([n for n in play.finished if n[0] == "p"]) >= 46, "two at a time"
    assert play.idle == 0.0, "halves of a CPU make a whole one, and three jobs run beside"


def test_a_project_that_has_nothing_for_cpus_is_still_asked_for_gpu_work() -> None:
    """It was left alone altogether, longer and longer, where it had nothing for CPUs."""
    play = Play(
        [gpu_too(P)], {"p": endless("p", gpu="NVIDIA", gpus=1.0, cpus=0.1)}, devices=ONE_GPU, policy="own"
    )
    play.run(3 * DAY)
    assert len(play.finished) >= 71
    assert sum("" in c.requests for _, c in play.contacts) < 40


@pytest.mark.parametrize("policy", ["recent", "own"])
def test_wide_jobs_of_one_project_and_narrow_ones_of_another_share_by_cpus(policy: str) -> None:
    play = Play(
        [P, Q], {"p": endless("p", cpus=4.0, estimate=HOUR), "q": endless("q", estimate=HOUR)}, policy=policy
    )
    play.run(4 * DAY)
    had = {each: sum(play.done[n] * play.known[n].cpus for n in play.done if n[0] == each) for each in "pq"}
    assert had["p"] == pytest.approx(2 * 4 * DAY, rel=0.1)
    assert play.idle < 0.01 * 4 * 4 * DAY
    waiting = [n for n in play.known if n not in play.finished]
    assert sum(play.known[n].cpus for n in waiting) * HOUR < 4 * 1.0 * DAY, "no flood"


def test_jobs_too_large_for_the_memory_together_leave_no_cpu_idle_that_small_ones_can_use() -> None:
    large = [job(f"l{i}", app="l", memory_bound=3e9, estimate=6 * HOUR) for i in range(4)]
    small = [job(f"s{i}", app="s", memory_bound=1e8, estimate=6 * HOUR) for i in range(4)]
    play = Play(
        [P],
        {"p": once(*large, *small)},
        permission=Permission(ram_bytes=4e9),
        preferences=SMALL,
        policy="own",
    )
    assert sorted(play.running) == ["l0", "s0", "s1", "s2"]
    assert play.core.why_job("l1")[0].code == "wait.memory"
    play.tell(PermissionChanged(1.0, Permission(ram_bytes=64e9)))
    assert play.core.why_job("l1")[0].code != "wait.memory"


def test_gpus_that_come_and_go_leave_the_cpu_jobs_as_they_are() -> None:
    serve = {"p": endless("p", estimate=9 * HOUR), "q": endless("q", gpu="NVIDIA", gpus=1.0, cpus=0.2)}
    play = Play([P, replace(Q, supplies=("NVIDIA",))], serve, devices=ONE_GPU, policy="own")
    for _ in range(3):
        play.run(play.now + HOUR)
        play.tell(DevicesChanged(play.now, HostDevices(ncpus=4)))
        play.run(play.now + HOUR)
        assert all(name[0] == "p" for name in play.running)
        play.tell(DevicesChanged(play.now, ONE_GPU))
    play.run(play.now + HOUR)
    assert [play.starts(f"p{i}") for i in range(4)] == [1, 1, 1, 1]
    assert sum(name[0] == "q" for name in play.running) == 1


def test_no_more_gpu_jobs_are_asked_for_than_can_be_in_time_whatever_the_buffer() -> None:
    """The buffer is longer than the deadline, and the project's CPU jobs are half as long as it says, its GPU jobs are not."""
    gpu = endless("g", gpu="NVIDIA", gpus=0.5, cpus=0.5, estimate=4 * HOUR, bound=10 * HOUR)
    cpu = endless("c", estimate=HOUR, bound=30 * HOUR)
    told: list[float] = []

    def server(requests: Requests, now: float) -> list[JobDescription]:
        # as a project does, with the correction factor that it is told
        factor = play.core.policy.correction(0)
        told.append(factor)
        scaled = {kind: each._replace(seconds=each.seconds / factor) for kind, each in requests.items()}
        jobs = [*(gpu(scaled, now) or ()), *(cpu(scaled, now) or ())]
        play.sizes |= {each.id: HOUR / 2 for each in jobs if not each.gpu}
        return [replace(each, project="p") for each in jobs]

    play = Play([replace(P, no_new_work=True)], {"p": server}, devices=ONE_GPU, policy="own")
    preferences = SchedulingPreferences(buffer_min=0.5 * DAY, buffer_additional=0.5 * DAY)
    play.tell(PreferencesChanged(0.0, preferences), ProjectAttached(0.0, gpu_too(P)))
    play.run(4 * DAY)
    gpus = [name for name in play.finished if name[0] == "g"]
    assert min(told) < 0.6
    assert len(gpus) >= 46, "two at a time"
    assert play.late == []
    assert not [
        name for name in play.known if name not in play.finished and play.known[name].deadline < play.now
    ]


def test_a_gpu_request_is_for_what_is_known_to_fit() -> None:
    jobs = [
        ClientJob.of(job(f"g{i}", gpu="NVIDIA", gpus=1.0, estimate=HOUR, deadline=20 * HOUR), 0)
        for i in range(2)
    ]
    for each in jobs:
        each.remaining = 2 * HOUR  # they are twice as long as the project says

    def asked(seconds: float, held: list[ClientJob], *, idle: float = 0.0) -> float | None:
        found = gpu_request_in_time(
            FetchRequest(seconds, 1.0), held, instances=1.0, idle=idle, available=0.8, told=0.5
        )
        return None if found is None else found.seconds

    assert asked(DAY, []) == 1.0, "nothing is known"
    assert asked(2 * HOUR, jobs) == 2 * HOUR * 0.5 / 2.0
    assert asked(DAY, jobs) == pytest.approx((0.5 * 20 * 0.8 - 4.0) * HOUR * 0.5 / 2.0)
    assert asked(DAY, jobs * 4) is None
    assert asked(DAY, jobs * 4, idle=1.0) == 1.0, "better late than idle"
    assert asked(0.0, jobs) == 0.0
