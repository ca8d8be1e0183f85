"""Rules of today's family one by one: each with a scenario that comes out otherwise without it."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.helpers.client_play import DAY, HOUR, Play, endless, job, once

from cobblestone.policy.client.core.events import (
    ContactAsked,
    ContactProject,
    DownloadStalled,
    GiveUp,
    HostOn,
    JobDeferred,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobsDescribed,
    JobsFound,
    JobSuspended,
    JobUploaded,
    PermissionChanged,
    ProjectAttached,
    QuitTask,
    ReplyReceived,
    SuspendTask,
    TaskStopped,
    TimePassed,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.protocol import POLICIES
from cobblestone.policy.client.core.reasons import sentence
from cobblestone.policy.client.core.values import (
    FetchRequest,
    Gpu,
    HostDevices,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)
from cobblestone.policy.client.recent.policy import Recent
from cobblestone.policy.client.recent.rec import Devices
from cobblestone.policy.client.recent.round_robin import DeviceOutlook, RoundRobinOutlook
from cobblestone.policy.client.recent.work_fetch import DeviceFetchProject, FetchSettings, plan_device_fetch

P = ProjectDescription(id="p")
SMALL = SchedulingPreferences(buffer_min=600.0, buffer_additional=600.0)
ONE = HostDevices(ncpus=1)


def ends(play: Play, name: str, *, uploading: bool = False) -> None:
    """Let a job end now."""
    del play.running[name]
    play.tell(JobFinished(play.now, name, play.done[name], uploading))


# -- quit or suspend --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(
    ("wish", "allowed", "saved", "kind"),
    [
        (True, None, True, SuspendTask),
        (False, None, True, QuitTask),
        (False, None, False, SuspendTask),
        (True, False, True, QuitTask),
        (False, True, True, SuspendTask),
    ],
    ids=["stays", "quits", "has nothing saved", "may not for the time being", "may for the time being"],
)
def test_a_preempted_task_stays_in_memory_if_it_may_or_would_lose_everything(
    policy: str, *, wish: bool, allowed: bool | None, saved: bool, kind: type
) -> None:
    play = Play(
        [P],
        {"p": once(job("a"))},
        policy=policy,
        preferences=replace(SMALL, leave_in_memory=wish),
        checkpoint_period=60.0 if saved else DAY,
    )
    play.run(600.0)
    play.log.clear()
    play.tell(PermissionChanged(play.now, Permission(cpu="user_active", leave_in_memory=allowed)))
    assert [type(each) for _, each in play.log if isinstance(each, QuitTask | SuspendTask)] == [kind]


def test_a_task_that_lies_in_memory_quits_when_swap_space_is_short() -> None:
    play = Play(
        [P],
        {"p": once(*(job(f"j{i}", estimate=9 * HOUR) for i in range(2)))},
        devices=HostDevices(ncpus=2),
        swaps={"j0": 1e9, "j1": 1e9},
        permission=Permission(swap_bytes=4e9),
    )
    play.run(100.0)
    play.tell(PermissionChanged(play.now, Permission(swap_bytes=4e9, ncpus=1)))
    (kept,) = play.running
    play.log.clear()
    play.tell(PermissionChanged(play.now, Permission(swap_bytes=1.5e9, ncpus=1)))
    quits = [each.job for _, each in play.log if isinstance(each, QuitTask)]
    assert quits == [name for name in ("j0", "j1") if name != kept]
    assert list(play.running) == [kept]


# -- marks of deadlines -----------------------------------------------------------------------------------------------


def test_a_job_found_late_is_held_to_be_so_for_a_slice_though_the_estimate_changes() -> None:
    """Thrash prevention: at the edge of being late it would go on and off the processor with every estimate."""
    play = Play([P], {"p": once(job("long", estimate=10 * HOUR))}, devices=ONE, preferences=SMALL)
    play.run(600.0)
    tight = job("tight", estimate=HOUR, received=600.0, deadline=8 * HOUR)
    play.servers = {"p": once(tight, unasked=True)}
    play.tell(ContactAsked(600.0, "p"))
    mark = play.core.state.by_id["tight"]
    assert mark.edf
    assert "long" in play.running, "it can wait for the end of the slice"
    play.sizes = {"long": 1200.0}
    for at, marked in ((601.0, True), (600.0 + HOUR - 1.0, True), (600.0 + HOUR, False)):
        readings = [Reading(name, play.done[name], 0.9) for name in play.running]
        play.now = at
        play.tell(JobProgressed(at, tuple(readings)), PermissionChanged(at, Permission()))
        assert mark.edf is marked, at


def test_a_job_that_runs_by_its_deadline_goes_on_while_others_of_its_project_would_be_late() -> None:
    """Domino prevention: once it runs it is not late any more, and the next would take its place."""
    jobs = [
        job("calm", estimate=3 * HOUR),
        job("first", estimate=3 * HOUR, deadline=4.5 * HOUR),
        job("second", estimate=3 * HOUR, deadline=7.5 * HOUR),
        job("third", estimate=3 * HOUR, deadline=9.2 * HOUR, cpus=1.0),
    ]
    play = Play([P], {"p": once(*jobs)}, devices=ONE, preferences=SMALL)
    assert list(play.running) == ["first"]
    play.run(0.5 * HOUR)
    play.tell(JobFailed(play.now, "calm", 0.0))
    play.sizes["first"] = 3.3 * HOUR  # a little too much for the third
    play.run(10 * HOUR)
    assert [play.starts(each.id) for each in jobs] == [0, 1, 1, 1]
    assert play.finished["first"] < jobs[1].deadline


# -- who runs beside --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sporadic", [True, False])
def test_what_computes_when_it_likes_runs_beside_a_full_computer_and_is_no_work(*, sporadic: bool) -> None:
    always = [job(f"s{i}", version="s", sporadic=sporadic, non_cpu_intensive=not sporadic) for i in range(3)]
    play = Play([P], {"p": once(job("a"), *always)}, devices=ONE, preferences=SMALL)
    assert sorted(play.running) == ["a", "s0", "s1", "s2"]
    assert play.core.why_job("s0")[0].code == "run.always"
    play.run(60.0)
    ends(play, "a")
    assert asked(play)[-1] == 60.0, "what they still need fills no buffer"
    assert len(play.running) == 3


# -- work fetch -------------------------------------------------------------------------------------------------------


def asked(play: Play) -> list[float]:
    """Return when the project was asked for work."""
    return [at for at, contact in play.contacts if contact.requests]


def test_an_idle_device_does_not_wait_for_an_upload() -> None:
    play = Play([P], {"p": once(job("a"))}, devices=ONE, preferences=SMALL)
    play.run(1800.0)
    play.servers = {"p": endless("p")}
    ends(play, "a", uploading=True)
    assert asked(play)[-1] == 1800.0
    assert len(play.running) == 1


def test_a_project_to_which_results_do_not_go_through_is_asked_for_no_more() -> None:
    jobs = [job(name) for name in "abc"]
    play = Play([P], {"p": once(*jobs)}, devices=ONE, preferences=SMALL)
    play.tell(PermissionChanged(1.0, Permission(network="time")))
    play.now = 1800.0
    for each in jobs:
        ends(play, each.id, uploading=True)
    before = asked(play)
    play.tell(PermissionChanged(play.now + 1.0, Permission()))
    assert asked(play) == before
    assert play.core.why_project("p")[0].code == "fetch.uploads"
    play.tell(JobUploaded(play.now + 2.0, "a"))
    assert len(asked(play)) == len(before) + 1


def test_a_project_that_has_sent_a_thousand_jobs_is_asked_for_no_more() -> None:
    play = Play([replace(P, no_new_work=True)], devices=ONE, preferences=SMALL)
    many = [job(f"j{i}", estimate=0.1) for i in range(1002)]
    play.known |= {each.id: each for each in many}
    play.tell(JobsFound(1.0, tuple(many)))
    play.tell(ProjectAttached(2.0, P))
    assert asked(play) == []
    assert play.core.why_project("p")[0].code == "fetch.runnable"
    for each in list(play.running) + [f"j{i}" for i in range(1, 2)]:
        play.running.pop(each, None)
        play.tell(JobFinished(3.0, each, 0.1))
    assert len(asked(play)) == 1


def test_a_project_of_which_a_job_is_suspended_or_stalled_is_asked_for_no_more() -> None:
    play = Play([P], {"p": once(job("a", estimate=60.0), job("files", ready=False))}, preferences=SMALL)
    for event, undone in (
        (JobSuspended(10.0, "a"), JobSuspended(20.0, "a", suspended=False)),
        (DownloadStalled(30.0, "files"), DownloadStalled(40.0, "files", stalled=False)),
    ):
        play.now = event.now
        play.core.state.projects[0].backoffs.clear()
        play.tell(event)
        before = len(asked(play))
        play.tell(ContactAsked(event.now + 1.0, "p"))
        assert len(asked(play)) == before
        assert play.core.why_project("p")[0].code == "fetch.blocked" or not play.contacts[-1][1].requests
        play.tell(undone, ContactAsked(undone.now, "p"))
        assert len(asked(play)) > before


def test_where_one_app_is_limited_others_of_its_project_are_still_asked_for() -> None:
    """Two jobs of an app of which one may run; of the others the project may have as many as there are processors."""
    limited = [job(f"a{i}", app="a", estimate=9 * HOUR) for i in range(2)]
    left = iter([limited, [job(f"b{i}", app="b", estimate=9 * HOUR) for i in range(4)]])
    play = Play(
        [replace(P, app_max_concurrent={"a": 1})],
        {"p": lambda requests, now: next(left, []) if requests else []},
        preferences=SMALL,
    )
    play.run(HOUR)
    assert sorted(play.running) == ["a0", "b0", "b1", "b2"]


@pytest.mark.parametrize(
    ("minimal", "dcf", "seconds", "instances"), [(False, 1.0, 9 * HOUR, 2.0), (True, 1.0, 1.0, 2.0), (False, 90.0, 1.0, 2.0)]
)  # fmt: skip
def test_little_is_asked_for_where_little_is_wanted_or_estimates_are_far_off(
    *, minimal: bool, dcf: float, seconds: float, instances: float
) -> None:
    device = DeviceOutlook(2, shortfall=9 * HOUR, saturated=0.0, idle_now=2.0)
    plan = plan_device_fetch(
        [DeviceFetchProject(share=1.0, rec=0.0, supplies=frozenset({""}), dcf=dcf)],
        RoundRobinOutlook({"": device}, set(), {}),
        devices=Devices(ncpus=2, cpu_flops=1e9),
        settings=FetchSettings(buffer_min=HOUR, buffer_total=DAY, minimal=minimal),
    )
    assert plan.requests == {"": FetchRequest(seconds=seconds, instances=instances)}


# -- reports ----------------------------------------------------------------------------------------------------------


def test_a_job_whose_app_wants_it_is_reported_at_once() -> None:
    jobs = [job("a", estimate=DAY, report_immediately=True)]
    jobs += [job(f"b{i}", estimate=DAY, version="b") for i in range(4)]
    play = Play([P], {"p": once(*jobs)}, devices=HostDevices(ncpus=2), preferences=SMALL)
    play.run(1800.0)
    ends(play, "a")
    assert (play.contacts[-1][0], play.contacts[-1][1].report) == (1800.0, ("a",))
    assert play.contacts[-1][1].why[0].code == "report.at_once"
    ends(play, "b0")
    assert play.contacts[-1][1].report == ("a",)
    play.tell(JobsDescribed(1801.0, (job("b0", report_immediately=True),)))
    assert play.contacts[-1][1].report == ("b0",)


def test_a_job_is_reported_a_buffer_s_length_before_its_deadline() -> None:
    """Contacts lie about as far apart as the buffer is deep."""
    jobs = [job("a", estimate=DAY, deadline=3 * DAY)]
    jobs += [job(f"b{i}", estimate=6 * DAY, deadline=90 * DAY, version="b") for i in range(3)]
    for days, at_once in ((2.0, False), (4.0, True)):
        play = Play(
            [P],
            {"p": once(*jobs)},
            devices=HostDevices(ncpus=2),
            preferences=SchedulingPreferences(buffer_min=days * DAY, buffer_additional=0.0),
        )
        play.run(1800.0)
        ends(play, "a")
        assert (play.contacts[-1][1].report == ("a",)) is at_once


def test_failed_jobs_say_nothing_of_how_long_jobs_take() -> None:
    play = Play([P], {"p": once(*(job(f"j{i}", version="1") for i in range(3)))}, devices=ONE)
    name = next(iter(play.running))
    del play.running[name]
    play.tell(JobFailed(5.0, name, 5.0))
    left = {each.remaining for each in play.core.state.jobs}
    assert left == {HOUR}
    assert isinstance(play.core.policy, Recent)
    assert play.core.policy.memory.dcf == [1.0]


# -- when a project may be contacted ----------------------------------------------------------------------------------


def test_a_server_that_wants_no_contact_for_an_hour_has_none_but_the_volunteer_s() -> None:
    core = ClientCore.start("recent", rng=random.Random(1))
    core.handle(HostOn(0.0), ProjectAttached(0.0, P))
    core.handle(ReplyReceived(1.0, "p", request_delay=HOUR))
    core.state.projects[0].backoffs.clear()
    for at in (2.0, 1800.0, HOUR):
        core.handle(TimePassed(at), ContactAsked(at, "p", "trickle"))
        assert core.state.contact is None
    assert core.state.alarm == HOUR + 1.0
    core.handle(TimePassed(HOUR + 1.0))
    assert core.state.contact is not None
    core.handle(ReplyReceived(HOUR + 2.0, "p", request_delay=HOUR))
    core.handle(ContactAsked(HOUR + 3.0, "p", "user"))
    assert core.state.contact is not None


def test_a_server_that_wants_to_hear_of_the_client_does() -> None:
    play = Play([P], {"p": once(job("a", estimate=9 * DAY))}, devices=ONE, preferences=SMALL)
    core = play.core
    core.handle(ContactAsked(1.0, "p"))
    core.handle(ReplyReceived(2.0, "p", next_contact=2 * HOUR))
    core.handle(TimePassed(2 * HOUR))
    assert core.state.contact is None
    assert core.state.alarm == 2 * HOUR + 2.0
    (contact,) = [
        each for each in core.handle(TimePassed(2 * HOUR + 2.0)) if isinstance(each, ContactProject)
    ]
    assert sentence(contact.why[0]) == "project wants it"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_contacts_lie_as_far_apart_as_the_volunteer_connects(policy: str) -> None:
    play = Play(
        [P, replace(P, id="q")],
        {"p": endless("p"), "q": endless("q")},
        policy=policy,
        preferences=replace(SMALL, connection_interval=6 * HOUR),
    )
    play.run(3 * DAY)
    times = sorted({at for at, _ in play.contacts})
    assert len(times) > 3
    assert all(later - at >= 6 * HOUR for at, later in pairwise(times))


def test_what_a_project_has_again_is_asked_for_at_once() -> None:
    """The wait of a device type for which there was nothing ends with a job of it, and with the volunteer's update."""
    play = Play([P], {"p": lambda requests, now: []}, devices=ONE, preferences=SMALL)
    backoffs = play.core.state.projects[0].backoffs
    assert backoffs[""][1] > 200.0
    count = len(asked(play))
    play.now = 1.0
    play.tell(ContactAsked(1.0, "p"))
    assert len(asked(play)) > count
    assert backoffs[""][1] > 200.0
    play.known["found"] = job("found")
    play.tell(JobsFound(2.0, (play.known["found"],)))
    assert "" not in backoffs


def test_nothing_is_given_up_in_the_hour_after_a_leap_of_the_clock() -> None:
    """Until a time server has been asked the time may be wrong by years, and every job late."""
    first, late = job("first", estimate=60.0), job("late", estimate=HOUR, deadline=10 * DAY)
    play = Play([P], {"p": once(first, late)}, devices=ONE, preferences=replace(SMALL, may_give_up=True))
    play.run(600.0)
    del play.running["late"]
    year = 365 * DAY
    out = play.core.handle(TaskStopped(601.0, "late"), HostOn(year), TimePassed(year))
    assert not [each for each in out if isinstance(each, GiveUp)]
    out = play.core.handle(HostOn(700.0), TimePassed(700.0))  # and it is put right again
    assert not play.given_up
    play.core.handle(HostOn(year), TimePassed(year))
    out = play.core.handle(
        TimePassed(year + HOUR + 60.0), PermissionChanged(year + HOUR + 60.0, Permission())
    )
    assert [each.job for each in out if isinstance(each, GiveUp)] == ["late"]


# -- devices ----------------------------------------------------------------------------------------------------------

GPU_P = replace(P, supplies=("", "NVIDIA"))


def test_a_task_comes_back_to_its_instance_where_it_can() -> None:
    """Apps keep files of a device; a part of another instance that is in use would do as well."""
    jobs = [job(f"g{i}", gpu="NVIDIA", gpus=0.6, cpus=0.1) for i in range(2)]
    small = job("small", gpu="NVIDIA", gpus=0.3, cpus=0.1)
    two = HostDevices(ncpus=4, gpus=(Gpu(name="NVIDIA", count=2),))
    play = Play([GPU_P], {"p": once(*jobs, small)}, devices=two, preferences=SMALL)
    before = {name: start.instances for name, start in play.running.items()}
    assert before == {"g0": (0,), "g1": (1,), "small": (0,)}
    play.tell(JobSuspended(10.0, "g0"), JobSuspended(10.0, "small"))
    play.tell(JobSuspended(20.0, "small", suspended=False))
    assert play.running["small"].instances == (0,), "not the one that is in use already"
    assert play.starts("g1") == 1, "nor does a running one move"


def test_gpu_jobs_parts_of_processors_come_on_top_of_all_processors() -> None:
    """Up to one processor: a GPU worth twenty of them does not wait for one."""
    jobs = [job(f"g{i}", gpu="NVIDIA", gpus=1.0, cpus=0.9) for i in range(3)]
    three = HostDevices(ncpus=1, gpus=(Gpu(name="NVIDIA", count=3),))
    play = Play([GPU_P], {"p": once(job("c"), *jobs)}, devices=three, preferences=SMALL)
    assert sorted(play.running) == ["g0", "g1"]


def test_of_jobs_with_one_deadline_the_one_that_has_begun_goes_on() -> None:
    begun = job("begun", estimate=4 * HOUR, deadline=6 * HOUR)
    shorter = job("shorter", estimate=HOUR, received=60.0, deadline=6 * HOUR)
    calm = job("calm", estimate=9 * HOUR)
    play = Play([P], {"p": once(calm, begun)}, devices=ONE, preferences=SMALL)
    assert list(play.running) == ["begun"]
    play.run(60.0)
    play.servers = {"p": once(shorter, unasked=True)}
    play.tell(ContactAsked(60.0, "p"))
    for cause in ("user_active", ""):
        play.tell(PermissionChanged(play.now, Permission(cpu=cause)))
    assert list(play.running) == ["begun"]
    play.run(7 * HOUR)
    assert play.finished["shorter"] < 6 * HOUR


# -- what is allowed, and counts as work ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_job_that_needs_the_network_waits_for_it(policy: str) -> None:
    online, offline = job("online", needs_network=True), job("offline")
    play = Play([P], {"p": once(online, offline)}, policy=policy, devices=HostDevices(ncpus=2))
    play.tell(PermissionChanged(10.0, Permission(network="time")))
    assert list(play.running) == ["offline"]
    assert play.core.why_job("online")[0].code == "wait.network_suspended"
    play.tell(PermissionChanged(20.0, Permission()))
    assert sorted(play.running) == ["offline", "online"]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_server_may_call_jobs_back_that_have_not_begun_or_all(policy: str) -> None:
    play = Play([P], {"p": once(*(job(f"j{i}") for i in range(3)))}, policy=policy, devices=ONE)
    (runs,) = play.running
    waits, other = (name for name in ("j0", "j1", "j2") if name != runs)
    core = play.core
    core.handle(ContactAsked(1.0, "p"))
    out = core.handle(ReplyReceived(2.0, "p", abort_unstarted=(runs, waits)))
    assert [(each.job, each.code) for each in out if isinstance(each, GiveUp)] == [(waits, "project")]
    core.handle(JobFailed(3.0, waits, 0.0), ContactAsked(3.0, "p"))
    out = core.handle(ReplyReceived(4.0, "p", abort=(runs,)))
    assert [each.job for each in out if isinstance(each, GiveUp)] == [runs]
    assert [each.id for each in core.state.running] == [other]


def test_jobs_whose_files_do_not_come_fill_no_buffer() -> None:
    stuck = [job(f"s{i}", ready=False) for i in range(3)]
    play = Play(
        [P, replace(P, id="q")], {"p": once(*stuck), "q": endless("q")}, devices=ONE, preferences=SMALL
    )
    play.run(5 * HOUR)
    before = play.asked("q")
    many = [job(f"q{i}", "q", ready=False, estimate=9 * HOUR) for i in range(200, 203)]
    play.known |= {each.id: each for each in many}
    play.tell(JobsFound(play.now, tuple(many)))
    play.run(8 * HOUR)
    assert play.asked("q") <= before + 1, "they are on their way"
    play.tell(*(DownloadStalled(play.now, each.id) for each in (*stuck, *many)))
    play.run(8.1 * HOUR)
    assert play.core.state.plan.project is None, "both have stalled files: neither is asked for more"
    third = ProjectAttached(play.now, replace(P, id="r"))
    play.servers = {**play.servers, "r": endless("r")}
    play.tell(third)
    assert len(play.running) == 1
    assert play.asked("r") >= 1


def test_a_project_whose_job_has_put_itself_off_is_asked_for_no_more_of_its_kind() -> None:
    """Its app waits for something that others of it would wait for, too."""
    play = Play([P], {"p": once(job("a"))}, devices=ONE, preferences=SMALL)
    del play.running["a"]
    play.servers = {"p": endless("p")}
    play.core.state.by_id["a"].raw = 1.0  # it fills no buffer
    play.tell(JobDeferred(0.0, "a", 2 * HOUR))
    count = len(asked(play))
    play.run(2 * HOUR - 60.0)
    assert len(asked(play)) == count
    play.run(3 * HOUR)
    assert len(asked(play)) > count


def test_a_throttled_computer_takes_longer_and_has_less_credit() -> None:
    jobs = [job("a", estimate=3 * HOUR), job("tight", estimate=2 * HOUR, deadline=8 * HOUR)]
    recs: dict[float, float] = {}
    for part in (1.0, 0.5):
        play = Play(
            [P], {"p": once(*jobs)}, devices=ONE, permission=Permission(throttle=part), preferences=SMALL
        )
        assert [each.id for each in play.core.state.jobs if each.edf] == (["tight"] if part < 1.0 else [])
        play.run(600.0)
        play.tell(TimePassed(600.0))
        assert isinstance(play.core.policy, Recent)
        (recs[part],) = play.core.policy.memory.recs
    assert recs[0.5] == pytest.approx(recs[1.0] / 2.0)
