"""Today's family, and where it says so our own policy, on whole scenarios: what volunteers asked for and the outcome of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.client_play import DAY, HOUR, Play, Requests, Server, endless, job, once
from tests.helpers.effort import times

from cobblestone.policy.client.core.events import (
    ContactAsked,
    DevicesChanged,
    GiveUp,
    JobFinished,
    JobProgressed,
    JobUploaded,
    PermissionChanged,
    PreferencesChanged,
    ProjectAttached,
    QuitTask,
    StartTask,
    SuspendTask,
    TimePassed,
)
from cobblestone.policy.client.core.values import (
    FetchRequest,
    Gpu,
    GpuExclusion,
    HostDevices,
    JobDescription,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)
from cobblestone.policy.client.estimates import VersionHistory
from cobblestone.policy.client.recent.policy import Recent
from cobblestone.policy.client.recent.rec import Devices
from cobblestone.policy.client.recent.round_robin import DeviceOutlook, RoundRobinOutlook
from cobblestone.policy.client.recent.work_fetch import DeviceFetchProject, FetchSettings, plan_device_fetch

P = ProjectDescription(id="p")
Q = ProjectDescription(id="q")
SMALL = SchedulingPreferences(buffer_min=600.0, buffer_additional=600.0)
TWO_GPUS = HostDevices(ncpus=4, gpus=(Gpu(name="NVIDIA", count=2),))
GPU_P = replace(P, supplies=("", "NVIDIA"))
#: What our own policy does as well.
both = pytest.mark.parametrize("policy", ["recent", "own"])


def gpu_job(
    name: str, project: str = "p", *, gpus: float = 1.0, estimate: float = HOUR, app: str = "app"
) -> JobDescription:
    return job(name, project, gpu="NVIDIA", gpus=gpus, cpus=0.1, estimate=estimate, app=app)


# -- limits on concurrent jobs ----------------------------------------------------------------------------------------


@both
def test_an_app_at_its_limit_is_no_reason_to_fetch_while_other_apps_have_work(policy: str) -> None:
    """Issue 4322: one app limited to one job, the others in plenty; the client fetched up to its limit of jobs."""
    wide = [job(f"slow{i}", app="slow", estimate=8 * HOUR) for i in range(6)]
    usual = [job(f"fast{i}", app="fast") for i in range(40)]
    play = Play(
        [replace(P, app_max_concurrent={"slow": 1})],
        {"p": once(*wide, *usual)},
        preferences=SchedulingPreferences(buffer_min=0.0, buffer_additional=0.2 * DAY),
        policy=policy,
    )
    play.run(4 * HOUR)
    assert play.asked("p") <= 2
    assert sum(play.known[name].app == "slow" for name in play.running) == 1
    assert len(play.running) == 4
    assert play.idle == 0.0


@both
def test_work_is_fetched_up_to_the_limit_although_the_buffer_is_short(policy: str) -> None:
    """Issue 5749: 16 CPUs, an app of two CPUs limited to four jobs; the client stopped at two."""
    jobs = iter(job(f"a{i}", app="atlas", cpus=2.0, estimate=6 * HOUR) for i in range(100))
    play = Play(
        [replace(P, app_max_concurrent={"atlas": 4})],
        {"p": lambda requests, now: [next(jobs)] if requests else []},
        devices=HostDevices(ncpus=16),
        preferences=SchedulingPreferences(buffer_min=0.1 * DAY, buffer_additional=0.0),
        policy=policy,
    )
    play.run(HOUR)
    assert len(play.running) == 4
    assert len(play.known) <= 4 + 16


@both
def test_a_project_at_its_limit_leaves_the_devices_to_others(policy: str) -> None:
    """Issue 1344: the limit was not in the simulation, and devices stood idle."""
    play = Play([replace(P, max_concurrent=1), Q], {"p": endless("p"), "q": endless("q")}, policy=policy)
    play.run(2 * DAY)
    assert play.idle < 0.01 * 4 * 2 * DAY
    assert sum(n.startswith("p") for n in play.running) == 1
    assert len([n for n in play.known if n.startswith("p") and n not in play.finished]) < 20


@both
def test_jobs_that_a_limit_keeps_waiting_are_no_work_for_the_other_devices(policy: str) -> None:
    """Issue 1344 again: a limited project has sent far too much; what may not run must not look like a full buffer."""
    flood = once(*(job(f"p{i}") for i in range(40)))
    play = Play(
        [replace(P, max_concurrent=1), Q], {"p": flood, "q": endless("q")}, preferences=SMALL, policy=policy
    )
    play.run(6 * HOUR)
    assert play.asked("p") == 1
    assert sum(n.startswith("p") for n in play.running) == 1
    assert play.idle < 0.01 * 4 * 6 * HOUR


@both
def test_gpu_jobs_that_use_up_a_limit_leave_the_cpus_to_other_projects(policy: str) -> None:
    """Issue 1677: an app limited to six ran on GPUs and CPUs; the rest of the CPUs were not used."""
    mine = [gpu_job(f"g{i}", app="seti") for i in range(4)] + [job(f"c{i}", app="seti") for i in range(20)]
    play = Play(
        [replace(GPU_P, app_max_concurrent={"seti": 3}), Q],
        {"p": once(*mine), "q": once(*(job(f"q{i}", "q") for i in range(10)))},
        devices=TWO_GPUS,
        policy=policy,
    )
    play.run(1.0)
    assert sum(name[0] == "g" for name in play.running) == 2
    assert sum(name[0] == "c" for name in play.running) == 1
    assert sum(name[0] == "q" for name in play.running) == 3


@both
def test_a_limit_that_gpu_jobs_use_up_is_no_reason_to_fetch_more_for_the_cpus(policy: str) -> None:
    """Two kinds of GPU, one of them excluded, and a limit on all jobs of the project: its CPU jobs piled up."""
    kinds = {"": 1.0, "NVIDIA": 0.2, "AMD": 0.2}

    def mixed(project: str) -> Server:
        servers = [
            endless(f"{project}{gpu}", gpu=gpu, gpus=float(bool(gpu)), cpus=cpus)
            for gpu, cpus in kinds.items()
        ]
        return lambda requests, now: [
            replace(each, project=project) for server in servers for each in server(requests, now) or ()
        ]

    limited = replace(P, supplies=tuple(kinds), max_concurrent=2, gpu_exclusions=(GpuExclusion(gpu="AMD"),))
    play = Play(
        [limited, replace(Q, supplies=tuple(kinds))],
        {"p": mixed("p"), "q": mixed("q")},
        devices=HostDevices(ncpus=2, gpus=(Gpu(name="NVIDIA", count=2), Gpu(name="AMD"))),
        preferences=SMALL,
        policy=policy,
    )
    play.run(6 * HOUR)
    assert play.idle < 0.02 * 2 * 6 * HOUR
    assert len([name for name in play.known if name[0] == "p" and name not in play.finished]) < 8
    assert all(play.known[name].project == "q" for name in play.running if play.known[name].gpu == "AMD")


@both
def test_a_backup_project_with_a_limit_is_asked_just_in_time(policy: str) -> None:
    """Issue 7010: share 0 and a limit of one job; the client fetched a job every minute."""
    main = replace(Q, id="main")
    backup = replace(P, id="backup", share=0.0, max_concurrent=1)
    play = Play(
        [main, backup],
        {"backup": endless("backup", estimate=2 * HOUR), "main": endless("main", most=3, cpus=1.0)},
        policy=policy,
    )
    play.servers = {**play.servers, "main": lambda requests, now: []}
    play.run(DAY)
    waiting = [n for n in play.known if n.startswith("backup") and n not in play.finished]
    assert len(waiting) <= 2
    assert len(play.finished) >= 9


@both
@pytest.mark.parametrize(("limit", "app_limit"), [(0, 1), (1, 0), (2, 3), (5, 3)])
@pytest.mark.parametrize(("estimate", "low", "more"), [(20 * HOUR, 0.0, 0.3 * DAY), (HOUR, 0.2 * DAY, 0.0)])
def test_a_limit_neither_floods_nor_starves(
    policy: str, limit: int, app_limit: int, estimate: float, low: float, more: float
) -> None:
    described = replace(P, max_concurrent=limit, app_max_concurrent={"a": app_limit} if app_limit else {})
    play = Play(
        [described],
        {"p": endless("p", estimate=estimate, app="a")},
        preferences=SchedulingPreferences(buffer_min=low, buffer_additional=more),
        policy=policy,
    )
    play.run(0.25 * DAY)
    most = min(each for each in (limit, app_limit, 4) if each)
    assert len(play.running) == most
    assert len(play.known) - len(play.finished) <= 2 * (4 + 4 * (max(180.0, low) + more) / estimate)


# -- GPUs -------------------------------------------------------------------------------------------------------------


@both
def test_three_jobs_of_six_tenths_do_not_run_on_two_gpus(policy: str) -> None:
    play = Play(
        [GPU_P], {"p": once(*(gpu_job(f"g{i}", gpus=0.6) for i in range(3)))}, devices=TWO_GPUS, policy=policy
    )
    assert sorted(start.instances for start in play.running.values()) == [(0,), (1,)]
    assert play.core.why_job("g2")[0].code == "wait.gpu"


@both
def test_halves_share_an_instance_so_that_a_whole_one_stays_free(policy: str) -> None:
    jobs = [gpu_job("a", gpus=0.5), gpu_job("b", gpus=0.5), gpu_job("c", gpus=1.0)]
    play = Play([GPU_P], {"p": once(*jobs)}, devices=TWO_GPUS, policy=policy)
    assert play.running["a"].instances == play.running["b"].instances != play.running["c"].instances


@both
def test_each_gpu_can_be_suspended_and_excluded(policy: str) -> None:
    """Aim 20, on two GPUs."""
    play = Play(
        [GPU_P, replace(Q, supplies=("NVIDIA",))],
        {"p": endless("p", gpu="NVIDIA", gpus=1.0, cpus=0.1)},
        devices=TWO_GPUS,
        policy=policy,
    )
    assert len(play.running) == 2
    off = replace(TWO_GPUS, gpus=(Gpu(name="NVIDIA", count=2, suspended=(0,)),))
    play.tell(DevicesChanged(1.0, off))
    assert [start.instances for start in play.running.values()] == [(1,)]
    play.tell(DevicesChanged(2.0, TWO_GPUS))
    assert sorted(start.instances for start in play.running.values()) == [(0,), (1,)]
    only = replace(GPU_P, gpu_exclusions=(GpuExclusion(gpu="NVIDIA", instance=1),))
    play.tell(ProjectAttached(3.0, only))
    assert [start.instances for start in play.running.values()] == [(0,)]
    play.tell(PermissionChanged(4.0, Permission(gpu="exclusive_app")))
    assert not play.running
    assert play.core.why_job("p0")[-1].values == {"cause": "exclusive_app"}
    play.tell(PermissionChanged(5.0, Permission()))
    assert len(play.running) == 1


@both
def test_an_app_may_be_kept_off_a_gpu_that_other_apps_of_its_project_use(policy: str) -> None:
    described = replace(GPU_P, gpu_exclusions=(GpuExclusion(gpu="NVIDIA", instance=0, app="a"),))
    jobs = [gpu_job("a0", app="a"), gpu_job("a1", app="a"), gpu_job("b0", app="b")]
    play = Play([described], {"p": once(*jobs)}, devices=TWO_GPUS, policy=policy)
    assert {name: start.instances for name, start in play.running.items()} == {"a0": (1,), "b0": (0,)}


@both
def test_suspended_gpus_leave_no_cpu_idle(policy: str) -> None:
    """Issue 3679: the CPUs of GPU jobs that may not run were counted as used."""
    jobs = [job(f"g{i}", gpu="NVIDIA", gpus=1.0, cpus=1.0) for i in range(2)] + [
        job(f"c{i}") for i in range(8)
    ]
    play = Play(
        [GPU_P],
        {"p": once(*jobs)},
        devices=TWO_GPUS,
        permission=Permission(gpu="user_active"),
        preferences=SMALL,
        policy=policy,
    )
    play.run(10.0)
    assert sorted(play.running) == ["c0", "c1", "c2", "c3"]


@both
def test_gpu_jobs_that_may_not_run_are_no_work_for_the_cpus(policy: str) -> None:
    """Issue 2257 and its like: with GPUs suspended none of their jobs is fetched, and the CPUs are kept busy."""
    waiting = [job(f"g{i}", gpu="NVIDIA", gpus=1.0, cpus=1.0) for i in range(2)]
    serve = endless("c")
    asked: list[Requests] = []

    def both(requests: Requests, now: float) -> list[JobDescription]:
        asked.append(requests)
        sent = [replace(each, project="p") for each in serve(requests, now) or ()]
        return [*sent, *(waiting if len(asked) == 1 else ())]

    play = Play(
        [GPU_P],
        {"p": both},
        devices=TWO_GPUS,
        permission=Permission(gpu="user_active"),
        preferences=SMALL,
        policy=policy,
    )
    play.run(2 * HOUR)
    assert play.idle == 0.0
    assert {kind for each in asked for kind in each} == {""}


@both
def test_no_gpu_job_starts_while_another_still_leaves_its_instance(policy: str) -> None:
    one = HostDevices(ncpus=2, gpus=(Gpu(name="NVIDIA"),))
    play = Play([GPU_P], {"p": once(gpu_job("a"), gpu_job("b"))}, devices=one, policy=policy)
    assert list(play.running) == ["a"]
    core = play.core
    out = core.handle(ProjectAttached(5.0, replace(GPU_P, suspended=True)))
    assert [each.job for each in out if isinstance(each, QuitTask)] == ["a"]
    out = core.handle(ProjectAttached(6.0, GPU_P))
    assert not [each for each in out if isinstance(each, StartTask)]
    assert core.why_job("b")[0].code == "wait.gpu"
    from cobblestone.policy.client.core.events import TaskStopped

    out = core.handle(TaskStopped(7.0, "a"))
    assert len([each for each in out if isinstance(each, StartTask)]) == 1


# -- many CPUs --------------------------------------------------------------------------------------------------------


@both
def test_a_wide_job_is_not_starved_by_narrow_ones_and_no_cpu_is_idle(policy: str) -> None:
    """Aim 8; issues 5254, 4780."""
    # they are shorter than a slice and end one by one, so that there is always one within its slice
    narrow = [job(f"q{i}", "q", estimate=(0.41 + 0.073 * (i % 7)) * HOUR) for i in range(60)]
    play = Play([replace(P, no_new_work=True), Q], {"q": once(*narrow)}, preferences=SMALL, policy=policy)
    play.run(1800.0)
    play.servers = {"p": once(job("wide", cpus=4.0, estimate=2 * HOUR), unasked=True)}
    play.tell(ContactAsked(play.now, "p"))
    assert "wide" not in play.running, "nothing is halted within its slice"
    play.run(6 * HOUR)
    assert "wide" in play.finished
    assert play.idle < 0.05 * 4 * 6 * HOUR


@both
def test_jobs_are_packed_so_that_processors_need_not_be_shared(policy: str) -> None:
    """Taken as they came, three narrow ones would leave too little for the wide one."""
    jobs = [job("a"), job("b"), job("wide", cpus=3.0), job("c")]
    play = Play([P], {"p": once(*jobs)}, preferences=SMALL, policy=policy)
    assert sorted(play.running) == ["a", "wide"]


@both
def test_a_wide_job_that_nothing_fits_beside_shares_the_last_processor(policy: str) -> None:
    jobs = [job("narrow"), job("wide0", cpus=3.0), job("wide1", cpus=3.0)]
    play = Play([P], {"p": once(*jobs)}, devices=HostDevices(ncpus=5), preferences=SMALL, policy=policy)
    assert sorted(play.running) == ["narrow", "wide0", "wide1"], "rather seven on five than one idle"


@both
@settings(max_examples=times(4), deadline=None)
@given(st.lists(st.integers(1, 4), min_size=4, max_size=14), st.integers(0, 1000))
def test_no_cpu_is_idle_while_a_job_that_could_use_it_waits(
    policy: str, widths: list[int], seed: int
) -> None:
    jobs = [
        job(f"j{i}", cpus=float(w), estimate=1000.0 + 137.0 * ((i * 7 + seed) % 11))
        for i, w in enumerate(widths)
    ]
    play = Play([P], {"p": once(*jobs)}, preferences=SMALL, policy=policy)
    for _ in range(30):
        used = sum(play.known[name].cpus for name in play.running)
        waiting = [j for j in play.core.state.jobs if j.runnable and not j.running]
        assert used >= 4.0 or not waiting or min(j.cpus for j in waiting) > 4.0 - used + 1e-9
        assert used > 3.0 + 1e-9 or not waiting
        play.run(play.now + 200.0)


@both
def test_jobs_that_say_they_need_no_cpu_do_not_all_start_at_once(policy: str) -> None:
    """Issue 6797."""
    play = Play([P], {"p": once(*(job(f"j{i}", cpus=0.0) for i in range(30)))}, policy=policy)
    assert len(play.running) == 4


@both
def test_jobs_that_use_next_to_no_processor_always_run_beside_the_others(policy: str) -> None:
    lasting = ProjectDescription(id="n", non_cpu_intensive=True)
    play = Play(
        [lasting, P],
        {
            "n": lambda requests, now: (
                [job(f"n{now:.0f}", "n", non_cpu_intensive=True, estimate=3 * HOUR, received=now)]
                if requests
                else []
            ),
            "p": endless("p"),
        },
        policy=policy,
    )
    play.run(6.5 * HOUR)
    assert sum(name[0] == "n" for name in play.running) == 1
    assert sum(name[0] == "p" for name in play.running) == 4
    assert sum(name[0] == "n" for name in play.known) == 3, "one at a time"


# -- calm -------------------------------------------------------------------------------------------------------------


def test_a_short_deadline_waits_for_the_end_of_a_time_slice_if_it_can() -> None:
    play = Play([P], {"p": once(*(job(f"p{i}", estimate=40 * HOUR) for i in range(4)))}, preferences=SMALL)
    play.run(10 * 60.0)
    tight = job("tight", estimate=HOUR, received=play.now, deadline=play.now + 6 * HOUR)
    play.servers = {"p": once(tight, unasked=True)}
    play.tell(ContactAsked(play.now, "p"))
    assert {each.id for each in play.core.state.jobs if each.edf} == {"tight"}, "it would be late in turn"
    assert "tight" not in play.running
    play.run(2 * HOUR)
    assert "tight" in play.running or "tight" in play.finished
    play.run(8 * HOUR)
    assert play.finished["tight"] < play.known["tight"].deadline
    assert sum(isinstance(each, SuspendTask) for _, each in play.log) == 1


@both
def test_a_job_that_cannot_wait_takes_a_place_at_once(policy: str) -> None:
    play = Play(
        [P, Q],
        {"p": once(*(job(f"p{i}", estimate=40 * HOUR) for i in range(4)))},
        preferences=SMALL,
        policy=policy,
    )
    play.run(10 * 60.0)
    deadline = play.now + 1.5 * HOUR + 600.0
    play.servers = {
        **play.servers,
        "q": once(job("tight", "q", estimate=HOUR, received=play.now, deadline=deadline), unasked=True),
    }
    play.tell(ContactAsked(play.now, "q"))
    assert "tight" in play.running


@both
def test_of_two_late_jobs_the_one_with_seconds_left_runs_first(policy: str) -> None:
    """Issue 5306: a job that was late already ran on, and the one with 40 s left became late too."""
    play = Play(
        [P],
        {
            "p": once(
                job("long", estimate=3 * HOUR, deadline=2 * HOUR),
                job("short", estimate=40.0, deadline=2 * HOUR),
            )
        },
        devices=HostDevices(ncpus=1),
        preferences=SMALL,
        policy=policy,
    )
    play.run(200.0)
    assert "short" in play.finished


def test_a_job_that_is_late_already_gives_way_to_one_with_seconds_left() -> None:
    """Issue 5306 again: now the late one runs when the other comes."""
    late = job("late", estimate=3 * HOUR, deadline=2 * HOUR)
    play = Play([P], {"p": once(late)}, devices=HostDevices(ncpus=1), preferences=SMALL)
    play.run(1.75 * HOUR)
    short = job("short", estimate=40.0, received=play.now, deadline=2 * HOUR)
    play.servers = {"p": once(short, unasked=True)}
    play.tell(ContactAsked(play.now, "p"))
    play.run(1.8 * HOUR)
    assert play.finished["short"] < short.deadline
    play.run(4 * HOUR)
    assert play.starts("late") == 2


def test_of_equal_deadlines_the_shorter_job_is_saved_first() -> None:
    """One long job and three short ones are due at once, and the long one came first: three of four are in time."""
    jobs = [job("long", estimate=1.5 * HOUR, deadline=2 * HOUR)]
    jobs += [job(f"short{i}", estimate=0.5 * HOUR, deadline=2 * HOUR) for i in range(3)]
    play = Play([P], {"p": once(*jobs)}, devices=HostDevices(ncpus=1), preferences=SMALL)
    play.run(4 * HOUR)
    assert [n for n, at in play.finished.items() if at <= 2 * HOUR] == ["short0", "short1", "short2"]


def taking_turns(p0: JobDescription, q0: JobDescription, **more: object) -> Play:
    """Two projects with a job each and one processor: a slice's turn for each, unless a rule says otherwise."""
    fields: dict[str, object] = {"devices": HostDevices(ncpus=1), "preferences": SMALL, **more}
    play = Play([P, Q], {"p": once(p0), "q": once(q0, unasked=True)}, **fields)  # type: ignore[arg-type]  # its fields
    play.tell(ContactAsked(0.0, "q"))
    assert list(play.running) == ["p0"]
    return play


@pytest.mark.parametrize(("left", "starts"), [(200.0, 1), (500.0, 2)])
def test_a_job_is_not_halted_minutes_before_its_end(left: float, starts: int) -> None:
    """Issue 3286: what is left after its slice decides."""
    play = taking_turns(job("p0", estimate=HOUR + left), job("q0", "q", estimate=5 * HOUR))
    play.run(3 * HOUR)
    assert play.starts("p0") == starts
    assert (play.finished["p0"] == HOUR + left) is (starts == 1)


def test_a_task_past_its_slice_runs_on_until_it_has_checkpointed() -> None:
    play = taking_turns(
        job("p0", estimate=9 * HOUR),
        job("q0", "q", estimate=9 * HOUR),
        preferences=replace(SMALL, leave_in_memory=False),
        checkpoint_period=1.75 * HOUR,
    )
    play.run(9 * HOUR)
    stops = [(at, each) for at, each in play.log if isinstance(each, QuitTask | SuspendTask)]
    assert [(at / HOUR, type(each)) for at, each in stops] == [(at, QuitTask) for at in (2.0, 4.0, 6.0, 8.0)]
    kept = play.done["p0"] + play.done["q0"]
    assert kept == pytest.approx(9 * HOUR - len(stops) * 0.25 * HOUR)


@both
def test_jobs_with_one_tight_deadline_do_not_take_turns(policy: str) -> None:
    jobs = [job(f"j{i}", estimate=3 * HOUR, deadline=6.6 * HOUR) for i in range(4)]
    play = Play([P], {"p": once(*jobs)}, devices=HostDevices(ncpus=2), preferences=SMALL, policy=policy)
    play.run(7 * HOUR)
    assert [play.starts(f"j{i}") for i in range(4)] == [1, 1, 1, 1]
    assert all(at <= 6.6 * HOUR for at in play.finished.values())


# -- memory -----------------------------------------------------------------------------------------------------------


@both
def test_tasks_that_outgrow_the_memory_are_stopped_at_the_next_reading_and_another_runs_instead(
    policy: str,
) -> None:
    """Issue 1615: one task too many for the memory, and nothing computed at all."""
    play = Play(
        [P],
        {
            "p": once(
                *(job(f"j{i}", memory_bound=1e9, estimate=9 * HOUR) for i in range(2)),
                job("small", app="small", memory_bound=5e7, estimate=9 * HOUR),
            )
        },
        devices=HostDevices(ncpus=2),
        permission=Permission(ram_bytes=3e9),
        policy=policy,
    )
    assert sorted(play.running) == ["j0", "j1"]
    play.working_sets = {"j0": 2.5e9, "j1": 0.4e9}
    play.tell(JobProgressed(60.0, tuple(map(play.reading, play.running))))  # what the system measures
    assert sorted(play.running) == ["j0", "j1"]
    play.working_sets = {"j0": 2.9e9, "j1": 1.4e9}
    play.tell(JobProgressed(70.0, tuple(map(play.reading, play.running))))
    assert sorted(play.running) == ["j0", "small"]
    assert play.core.why_job("j1")[0].code == "wait.memory"


@both
def test_a_new_job_is_expected_to_need_what_its_app_version_needed(policy: str) -> None:
    jobs = [
        job("a0", version="1", memory_bound=1e9),
        job("a1", version="1", memory_bound=1e9, estimate=2 * HOUR),
    ]
    play = Play(
        [P],
        {"p": once(*jobs)},
        devices=HostDevices(ncpus=2),
        permission=Permission(ram_bytes=3e9, ncpus=1),
        policy=policy,
    )
    play.working_sets = {"a0": 2e9}
    play.run(100.0)
    play.tell(PermissionChanged(play.now, Permission(ram_bytes=3e9)))
    assert len(play.running) == 1
    assert play.core.why_job("a1")[0].values["needs"] == 2e9
    play.tell(PermissionChanged(play.now, Permission(ram_bytes=5e9)))
    assert len(play.running) == 2


@both
def test_while_swap_space_is_short_the_task_that_loses_least_quits_and_comes_back(policy: str) -> None:
    """Issue 7132."""
    play = Play(
        [P],
        {"p": once(*(job(f"j{i}", estimate=9 * HOUR) for i in range(2)))},
        devices=HostDevices(ncpus=2),
        permission=Permission(swap_bytes=4e9),
        policy=policy,
    )
    play.swaps = {"j0": 1e9, "j1": 1e9}
    play.run(100.0)
    readings = (
        Reading("j0", 100.0, 0.1, 99.0, 99.0, 0.0, 3e9),
        Reading("j1", 100.0, 0.1, 60.0, 60.0, 0.0, 2e9),
    )
    play.saved["j0"] = 99.0
    play.tell(JobProgressed(101.0, readings))
    assert list(play.running) == ["j1"]
    assert [each.job for _, each in play.log if isinstance(each, QuitTask)] == ["j0"]
    assert not any(isinstance(each, SuspendTask) for _, each in play.log)
    play.tell(PermissionChanged(102.0, Permission(swap_bytes=8e9)))
    assert len(play.running) == 2


# -- backup projects and groups ---------------------------------------------------------------------------------------


@both
def test_a_backup_project_keeps_all_devices_busy_while_the_main_one_is_away_and_stays_out_otherwise(
    policy: str,
) -> None:
    """Aim 9."""
    up = True
    serve = endless("m")

    def main(requests: Requests, now: float) -> list[JobDescription] | None:
        return list(serve(requests, now) or ()) if up else None

    play = Play(
        [replace(Q, id="m"), replace(P, id="b", share=0.0)],
        {"m": main, "b": endless("b", estimate=0.5 * HOUR)},
        preferences=SMALL,
        policy=policy,
    )
    play.run(DAY)
    assert not [n for n in play.known if n[0] == "b"]
    up = False
    before = play.idle
    play.run(3 * DAY)
    assert play.idle - before < 0.02 * 4 * 2 * DAY
    assert len([n for n in play.known if n[0] == "b"]) > 100
    assert len([n for n in play.known if n[0] == "b" and n not in play.finished]) <= 8, "asked just in time"
    up = True
    play.run(3.3 * DAY)
    assert all(n[0] == "m" for n in play.running)


def test_a_backup_project_is_asked_minutes_before_a_device_is_idle_and_for_that_alone() -> None:
    devices = Devices(ncpus=2, cpu_flops=1e9)
    settings = FetchSettings(buffer_min=HOUR, buffer_total=DAY)
    backup = [DeviceFetchProject(share=0.0, rec=0.0, supplies=frozenset({""}), first_contact=False)]

    def asked(saturated: float, idle: float) -> Mapping[str, FetchRequest]:
        device = DeviceOutlook(2, shortfall=9 * HOUR, saturated=saturated, idle_now=idle)
        found = RoundRobinOutlook({"": device}, set(), {})
        return plan_device_fetch(backup, found, devices=devices, settings=settings).requests

    assert asked(0.5 * HOUR, 0.0) == {}
    assert asked(100.0, 0.0) == {"": FetchRequest(seconds=1.0, instances=1.0)}
    assert asked(0.0, 2.0) == {"": FetchRequest(seconds=1.0, instances=2.0)}


@both
def test_jobs_of_a_higher_group_run_first_whatever_was_done_before(policy: str) -> None:
    high = replace(Q, id="h", priority_group=1, share=1.0)
    play = Play(
        [P, high],
        {
            "p": once(*(job(f"p{i}", estimate=9 * HOUR) for i in range(4)), unasked=True),
            "h": once(*(job(f"h{i}", "h", estimate=9 * HOUR) for i in range(4))),
        },
        preferences=SMALL,
        policy=policy,
    )
    play.tell(ContactAsked(0.0, "p"))
    assert len(play.core.state.jobs) == 8
    play.run(6 * HOUR)
    assert sorted(play.running) == ["h0", "h1", "h2", "h3"]
    assert not any(play.starts(f"p{i}") for i in range(4))


@both
def test_projects_of_a_lower_group_get_only_what_the_higher_cannot_use(policy: str) -> None:
    high = replace(Q, id="h", priority_group=1, share=1.0)
    play = Play([P, high], {"p": endless("p"), "h": endless("h")}, preferences=SMALL, policy=policy)
    play.run(DAY)
    done = [n for n in play.finished if n[0] == "p"]
    assert len(done) < 0.1 * len(play.finished)
    play.tell(ProjectAttached(play.now, replace(high, no_new_work=True)))
    before = len(play.finished)
    play.run(1.5 * DAY)
    assert len([n for n in play.finished if n[0] == "p"]) > 0.8 * (len(play.finished) - before)


# -- jobs that cannot be in time --------------------------------------------------------------------------------------


def test_a_job_that_cannot_be_in_time_makes_nobody_else_late() -> None:
    """Aim 10."""
    lost = [job(f"lost{i}", estimate=10 * HOUR, deadline=5 * HOUR) for i in range(2)]
    good = [job(f"good{i}", estimate=3 * HOUR, deadline=7 * HOUR) for i in range(4)]
    play = Play([P], {"p": once(*lost, *good)}, devices=HostDevices(ncpus=2), preferences=SMALL)
    play.run(DAY)
    in_time = [n for n, at in play.finished.items() if at <= play.known[n].deadline]
    assert sorted(in_time) == ["good0", "good1", "good2", "good3"]
    assert play.given_up == []


def test_jobs_are_given_up_only_with_consent_by_the_rule_and_a_few_a_day() -> None:
    lost = [job(f"lost{i}", estimate=10 * HOUR, deadline=5 * HOUR) for i in range(30)]
    first = job("first", estimate=HOUR)
    consent = replace(SMALL, may_give_up=True)
    play = Play([P], {"p": once(first, *lost)}, devices=HostDevices(ncpus=1), preferences=consent)
    assert play.given_up == [], "nothing is known of the app version yet"
    play.run(4 * HOUR)
    assert len(play.given_up) == 10
    told = [each.why[0].code for _, each in play.log if isinstance(each, GiveUp)]
    assert told == ["give_up.alone"] * 10
    never = Play([P], {"p": once(first, *lost)}, devices=HostDevices(ncpus=1), preferences=SMALL)
    never.run(4 * HOUR)
    assert never.given_up == []


def test_a_job_that_is_half_done_when_it_turns_out_to_be_late_is_not_given_up() -> None:
    first, slow = job("first"), job("slow", estimate=2 * HOUR, deadline=4 * HOUR)
    play = Play(
        [P],
        {"p": once(first, slow)},
        devices=HostDevices(ncpus=2),
        preferences=replace(SMALL, may_give_up=True),
    )
    play.run(HOUR + 60.0)
    for fraction, given_up in ((0.6, []), (0.2, ["slow"])):  # at 3 h: 2 h left, or 12
        reading = Reading("slow", 3 * HOUR, fraction)
        play.now = 3 * HOUR
        play.tell(JobProgressed(play.now, (reading,)), PermissionChanged(play.now, Permission()))
        assert play.given_up == given_up


# -- estimates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 5, 10])
@pytest.mark.parametrize("switched_off", [False, True])
def test_two_apps_with_different_errors_are_estimated_each_by_its_own_jobs(
    jobs: int, *, switched_off: bool
) -> None:
    """Aim 7: error factors 1 and 4; a correction factor of the project is wrong for one of them always."""
    mixed = [job(f"{app}{i}", app=app, version="1") for i in range(jobs + 1) for app in "ab"]
    size = {"a": HOUR, "b": 4 * HOUR}
    play = Play(
        [replace(P, dont_use_dcf=switched_off)],
        {"p": once(*mixed)},
        sizes={j.id: size[j.app] for j in mixed},
        devices=HostDevices(ncpus=2 * jobs),
    )
    play.run(4.001 * HOUR)
    policy = play.core.policy
    assert isinstance(policy, Recent)
    factor = policy.memory.dcf[0]
    assert max(factor, 4.0 / factor) > 1.9, "wrong for one of them by two at least"
    assert (policy.correction(0) == 1.0) is switched_off, "what the project is told"
    more = [job(f"more {app}", app=app, version="1") for app in "ab"]
    play.servers = {"p": once(*more, unasked=True)}
    play.tell(ContactAsked(play.now, "p"))
    left = {each.id: each.remaining for each in play.core.state.jobs if each.id.startswith("more")}
    assert left == {f"more {app}": pytest.approx(size[app], rel=0.01) for app in "ab"}


def test_a_version_s_estimate_is_not_moved_by_one_outlier_nor_by_jobs_that_end_early() -> None:
    history = VersionHistory()
    assert history.correction is None
    for actual in (100.0, 110.0, 90.0, 105.0, 0.1, 0.1, 5000.0):
        history = history.after_job(actual=actual, estimate=100.0)
        assert history.correction == pytest.approx(1.0, abs=0.11)
    for _ in range(40):
        history = history.after_job(actual=1.0, estimate=100.0)
    assert history.correction == pytest.approx(0.01)


@given(st.lists(st.floats(0.0, 1e9), min_size=1, max_size=60), st.floats(1e-3, 1e6))
def test_a_version_s_correction_is_a_ratio_that_was_seen_within_bounds(
    actuals: list[float], estimate: float
) -> None:
    history = VersionHistory()
    for actual in actuals:
        history = history.after_job(actual=actual, estimate=estimate)
    found = history.correction
    assert found is not None
    assert 0.01 <= found <= 100.0
    assert math.isfinite(found)


# -- contacts ---------------------------------------------------------------------------------------------------------


def finished(play: Play, at: float) -> None:
    play.now = at
    for name in list(play.running):
        del play.running[name]
        play.finished[name] = at
        play.tell(JobFinished(at, name, HOUR))


@pytest.mark.parametrize(
    ("policies", "code", "described", "preferences", "permission", "bound"),
    [
        (
            ("recent", "own"),
            "report.no_new_work",
            replace(P, no_new_work=True),
            SMALL,
            Permission(),
            10 * DAY,
        ),
        (("recent", "own"), "report.at_once", P, replace(SMALL, report_at_once=True), Permission(), 10 * DAY),
        (("recent",), "report.sporadic", P, replace(SMALL, connection_interval=60.0), Permission(), 10 * DAY),
        (("recent", "own"), "report.suspension", P, SMALL, Permission(network_ends=2 * HOUR), 10 * DAY),
        (("recent", "own"), "report.suspension", P, SMALL, Permission(cpu_ends=2 * HOUR), 10 * DAY),
        (("recent",), "report.deadline", P, SMALL, Permission(), DAY + HOUR),
    ],
)
def test_what_makes_a_finished_job_be_reported_at_once(
    policies: tuple[str, ...],
    code: str,
    described: ProjectDescription,
    preferences: SchedulingPreferences,
    permission: Permission,
    bound: float,
) -> None:
    for policy in policies:
        play = Play(
            [P],
            {"p": once(job("a", deadline=bound))},
            preferences=preferences,
            permission=permission,
            policy=policy,
        )
        play.tell(ProjectAttached(1.0, described))
        finished(play, 1.8 * HOUR)
        at, contact = play.contacts[-1]
        assert (at, contact.report, contact.why[0].code) == (1.8 * HOUR, ("a",), code)


@both
def test_otherwise_a_finished_job_is_reported_within_the_hour_or_with_the_next_contact(policy: str) -> None:
    play = Play([P], {"p": once(job("a"))}, preferences=SMALL, policy=policy)
    finished(play, 2 * HOUR)
    rest = [c for _, c in play.contacts if "a" in c.report]
    if not rest:
        play.run(4 * HOUR)
        (at, contact) = next((at, c) for at, c in play.contacts if "a" in c.report)
        assert at <= 3 * HOUR + 1.0
        assert contact.why


@both
def test_a_contact_for_another_reason_brings_work_along(policy: str) -> None:
    """Piggy-back: the volunteer's update asks for what is below the total buffer although it is above the minimum."""
    prefs = SchedulingPreferences(buffer_min=1000.0, buffer_additional=8 * HOUR)
    play = Play(
        [P],
        {"p": once(*(job(f"j{i}", estimate=2 * HOUR) for i in range(4)))},
        preferences=prefs,
        policy=policy,
    )
    play.run(60.0)
    count = len(play.contacts)
    play.tell(ContactAsked(play.now, "p"))
    assert len(play.contacts) == count + 1
    assert play.contacts[-1][1].requests[""].seconds > HOUR
    assert play.contacts[-1][1].why[0].code == "contact.asked"


def test_a_young_upload_holds_work_fetch_of_its_project_back_for_one_contact_less() -> None:
    play = Play([P], {"p": once(*(job(f"j{i}", estimate=HOUR) for i in range(5)))}, preferences=SMALL)
    play.run(HOUR - 300.0)
    count = len(play.contacts)
    play.now = HOUR - 200.0
    del play.running["j0"]
    play.tell(JobFinished(play.now, "j0", HOUR - 200.0, uploading=True))
    assert len(play.contacts) == count
    assert play.core.why_project("p")[0].code in ("fetch.uploading", "contact.work", "fetch.first")
    play.tell(JobUploaded(play.now + 5.0, "j0"))
    play.run(play.now + 400.0)
    assert any("j0" in c.report for _, c in play.contacts[count:])


def full(*ends: str, **more: object) -> Play:
    """A client that has work for days, and has done these jobs for half an hour."""
    jobs = [job(name, estimate=DAY) for name in ends]
    jobs += [job(f"more{i}", estimate=DAY) for i in range(len(ends) + 8)]
    fields: dict[str, object] = {"devices": HostDevices(ncpus=len(ends)), "preferences": SMALL, **more}
    play = Play([P], {"p": once(*jobs)}, **fields)  # type: ignore[arg-type]  # its fields
    play.run(1800.0)
    return play


def ends(play: Play, name: str, *, uploading: bool = False) -> None:
    """Let a job end now."""
    del play.running[name]
    play.tell(JobFinished(play.now, name, play.done[name], uploading))


def reports(play: Play) -> list[tuple[float, tuple[str, ...]]]:
    return [(at, contact.report) for at, contact in play.contacts if contact.report]


def test_a_report_that_is_due_waits_for_an_upload_that_has_just_begun() -> None:
    """One contact for both; nobody is awake in between."""
    play = full("a", "b")
    ends(play, "a")
    play.run(HOUR + 1790.0)
    ends(play, "b", uploading=True)
    play.run(HOUR + 1810.0)
    assert reports(play) == []
    assert play.core.state.alarm == HOUR + 1790.0 + 300.0
    play.tell(JobUploaded(play.now, "b"))
    assert reports(play) == [(HOUR + 1810.0, ("a", "b"))]
    assert play.contacts[-1][1].why[0].code == "report.hour"


@pytest.mark.parametrize("why", ["no new work", "many"])
def test_whatever_the_reason_is_a_report_waits_for_a_young_upload_but_not_long(why: str) -> None:
    names = [f"j{i}" for i in range(70)]
    play = full(*names)
    ends(play, names.pop(), uploading=True)
    if why == "many":
        for name in names[:64]:
            ends(play, name)
    else:
        ends(play, names[0])
        play.tell(ProjectAttached(play.now, replace(P, no_new_work=True)))
    play.run(1800.0 + 299.0)
    assert reports(play) == []
    play.run(1800.0 + 301.0)
    assert [at for at, _ in reports(play)] == [1800.0 + 300.0]


def test_a_deadline_does_not_wait_for_an_upload() -> None:
    play = full("a", "b")
    ends(play, "b", uploading=True)
    play.tell(PermissionChanged(play.now, Permission(network_ends=play.now + 600.0)))
    ends(play, "a")
    assert reports(play) == [(1800.0, ("a",))]


def test_uploads_that_never_cease_hold_contacts_back_once() -> None:
    """A file is under way always, each for two minutes: counted from the last one, nothing would be reported or fetched."""
    names = [f"j{i}" for i in range(60)]
    play = full(*names, preferences=replace(SMALL, report_at_once=True))
    for number, name in enumerate(names):
        play.run(1800.0 + 60.0 * number)
        ends(play, name, uploading=True)
        if number > 1:
            play.tell(JobUploaded(play.now, names[number - 2]))
    assert reports(play)[0][0] <= 1800.0 + 360.0
    assert len(reports(play)) > 50


def test_a_preference_holds_for_jobs_that_have_ended_before_it() -> None:
    play = full("a", "b")
    ends(play, "a")
    assert reports(play) == []
    play.tell(PreferencesChanged(play.now + 60.0, replace(SMALL, report_at_once=True)))
    assert reports(play) == [(1800.0, ("a",))]


@pytest.mark.parametrize("wanted", [False, True])
def test_an_update_brings_work_of_a_project_whose_turn_it_is_not_if_that_is_wanted(*, wanted: bool) -> None:
    low = replace(Q, priority_group=-1)
    prefs = SchedulingPreferences(buffer_min=1000.0, buffer_additional=8 * HOUR, fetch_on_update=wanted)
    play = Play(
        [P, low], {"p": once(*(job(f"p{i}", estimate=2 * HOUR) for i in range(4)))}, preferences=prefs
    )
    play.run(60.0)
    for why, asks in (("trickle", False), ("user", wanted)):
        play.tell(ContactAsked(play.now, "q", why))
        assert play.contacts[-1][1].project == "q"
        assert bool(play.contacts[-1][1].requests) is asks


def test_a_type_that_was_refused_is_asked_for_again_later_and_later() -> None:
    play = Play([P], {"p": lambda requests, now: []}, preferences=SMALL)
    play.run(2 * DAY)
    times = [at for at, c in play.contacts if c.requests]
    assert 5 <= len(times) <= 16
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps[-1] > 3 * gaps[0]


@both
def test_jobs_that_an_exclusion_keeps_waiting_bring_no_flood_of_others(policy: str) -> None:
    made = 0

    def both_apps(requests: Requests, now: float) -> list[JobDescription]:
        nonlocal made
        request = requests.get("NVIDIA", FetchRequest(0.0))
        sent: list[JobDescription] = []
        while len(sent) < max(request.seconds / HOUR, request.instances):
            made += 1
            app = "ab"[made % 2]
            sent.append(replace(gpu_job(f"{app}{made}", app=app), received=now, deadline=now + 60 * DAY))
        return sent

    kept_off = GpuExclusion(gpu="NVIDIA", app="a")
    play = Play(
        [ProjectDescription(id="p", supplies=("NVIDIA",), gpu_exclusions=(kept_off,))],
        {"p": both_apps},
        devices=HostDevices(ncpus=4, gpus=(Gpu(name="NVIDIA", count=2),)),
        policy=policy,
    )
    play.run(8 * HOUR)
    assert len(play.finished) >= 14, "both GPUs compute all the time"
    assert len(play.known) < 2 * len(play.finished) + 40


@both
def test_a_task_that_had_to_quit_for_want_of_swap_space_need_not_once_there_is_enough(policy: str) -> None:
    jobs = [job(name, estimate=10 * HOUR) for name in "ab"]
    play = Play(
        [ProjectDescription(id="p")],
        {"p": once(*jobs)},
        devices=HostDevices(ncpus=2),
        swaps={"a": 3e9, "b": 3e9},
        permission=Permission(swap_bytes=4e9),
        policy=policy,
    )
    play.run(2 * HOUR)
    assert len(play.running) == 1
    play.tell(PermissionChanged(play.now, Permission()))
    assert set(play.running) == {"a", "b"}
    play.log.clear()
    play.tell(PermissionChanged(play.now, Permission(cpu="user_active")))
    assert [type(each) for _, each in play.log if getattr(each, "job", "")] == [SuspendTask, SuspendTask]


def test_processors_that_nobody_has_work_for_wake_nobody() -> None:
    """A computer that computes on its GPU only was awake once a minute to look for work for its processors."""
    play = Play(
        [ProjectDescription(id="p", supplies=("NVIDIA",))],
        {"p": endless("p", gpu="NVIDIA", gpus=1.0)},
        devices=HostDevices(ncpus=4, gpus=(Gpu(name="NVIDIA"),)),
    )
    play.run(12 * HOUR)
    assert len(play.finished) == 12
    play.tell(TimePassed(play.now))
    assert play.core.state.alarm > play.now + 900.0
