"""Rules of today's family one by one: each with a scenario that comes out otherwise without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers.client_play import DAY, HOUR, Play, endless, job, once

from cobblestone.policy.client.core.events import (
    ContactAsked,
    DownloadStalled,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobsDescribed,
    JobsFound,
    JobSuspended,
    JobUploaded,
    PermissionChanged,
    ProjectAttached,
)
from cobblestone.policy.client.core.instructions import QuitTask, SuspendTask
from cobblestone.policy.client.core.protocol import POLICIES
from cobblestone.policy.client.core.values import (
    HostDevices,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)
from cobblestone.policy.client.recent import Recent

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


# -- reports ----------------------------------------------------------------------------------------------------------


def test_a_job_whose_app_wants_it_is_reported_at_once() -> None:
    jobs = [job("a", estimate=DAY, report_immediately=True)]
    jobs += [job(f"b{i}", estimate=DAY, version="b") for i in range(4)]
    play = Play(
        [P],
        {"p": once(*jobs)},
        devices=HostDevices(ncpus=2),
        preferences=SMALL,
    )
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
