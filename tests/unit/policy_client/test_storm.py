"""Everything that may happen, in any order, to every policy; and what went wrong there once, each in a few events."""

from __future__ import annotations

import ast
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.client_storm import Storm

import cobblestone.policy.client as family
from cobblestone.policy.client.core.checks import BrokenRule
from cobblestone.policy.client.core.events import (
    ContactFailed,
    ContactProject,
    DevicesChanged,
    GiveUp,
    HostOn,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobsFound,
    PreferencesChanged,
    ProjectAttached,
    ProjectDetached,
    ReplyReceived,
    SetAlarm,
    StartTask,
    TimePassed,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.protocol import POLICIES
from cobblestone.policy.client.core.reasons import SENTENCES
from cobblestone.policy.client.core.values import (
    Gpu,
    HostDevices,
    JobDescription,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)

DAY = 86400.0
NAMES = sorted(POLICIES)
SUITES = [*NAMES, "published CS1_WF1_WS1_JC1", "own CS3_WF3_WS1_JC1", "recent CS4_WF4_WS2_JC1"]


def begin(name: str, *projects: str, now: float = 0.0, ncpus: int = 2, gpus: tuple[Gpu, ...] = ()) -> ClientCore:  # fmt: skip
    core = ClientCore.start(name, rng=random.Random(1))
    core.validate = True
    core.handle(
        HostOn(now),
        PreferencesChanged(now, SchedulingPreferences()),
        DevicesChanged(now, HostDevices(ncpus=ncpus, gpus=gpus)),
        *(ProjectAttached(now, ProjectDescription(id=project)) for project in projects or ("p",)),
    )
    return core


def job(name: str, project: str = "p", *, now: float = 0.0, gpu: str = "") -> JobDescription:
    return JobDescription(
        id=name, project=project, estimate=3600.0, received=now, deadline=now + 9 * DAY, gpu=gpu, gpus=1.0 if gpu else 0.0
    )  # fmt: skip


def running(core: ClientCore) -> set[str]:
    return {each.id for each in core.state.running}


@pytest.mark.parametrize("policy", SUITES)
@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_the_state_is_sound_and_a_restored_core_goes_on_alike(
    policy: str, seed: int
) -> None:
    storm = Storm(policy, seed)
    for _ in range(100):
        storm.step()


def test_a_state_that_is_not_sound_is_named() -> None:
    core = begin("recent")
    core.handle(JobsFound(1.0, (job("a"),)))
    core.state.running.clear()
    with pytest.raises(BrokenRule, match=r"after TimePassed: .*'running' has others than those whose phase"):
        core.handle(TimePassed(2.0))


@pytest.mark.parametrize("policy", NAMES)
def test_a_project_can_leave_after_tasks_have_started(policy: str) -> None:
    core = begin(policy, "p", "q", "r")
    core.handle(JobsFound(1.0, (job("a"), job("b", "q"), job("c", "r"))), TimePassed(1.0))
    for name in "pqr":
        core.handle(ProjectDetached(2.0, name), TimePassed(2.0))
    assert core.state.projects == []


@pytest.mark.parametrize("policy", NAMES)
def test_a_computer_that_wakes_up_years_ago_waits_for_nothing_that_was_to_come(policy: str) -> None:
    core = begin(policy, now=2e9)
    core.handle(JobsFound(2e9, (job("a", now=2e9), job("b", now=2e9), job("c", now=2e9))))
    core.handle(ContactFailed(2e9 + 1.0, "p"))
    core.handle(JobFinished(2e9 + 3600.0, "a", 3600.0))
    core.handle(HostOn(1e9), TimePassed(1e9))
    state, waits = core.state, DAY
    assert all(project.not_before <= 1e9 + waits for project in state.projects)
    assert max(state.next_fetch, state.next_schedule, state.alarm) <= 1e9 + waits
    assert all(each.report_at <= 1e9 + waits for each in state.finished)
    assert running(core) == {"b", "c"}


@pytest.mark.parametrize("policy", NAMES)
def test_a_clock_that_leaps_by_ten_years_and_back_costs_no_job(policy: str) -> None:
    """A wrong clock is put right within minutes of a start, once a time server can be asked."""
    now = 1e9
    core = begin(policy, now=now)
    core.handle(PreferencesChanged(now, SchedulingPreferences(may_give_up=True)))
    core.handle(JobsFound(now, tuple(job(f"j{i}", now=now) for i in range(20))))
    leap = now + 3650 * DAY
    out = core.handle(HostOn(leap), TimePassed(leap)) + core.handle(TimePassed(leap + 600.0))
    out += core.handle(TimePassed(now + 700.0)) + core.handle(TimePassed(now + 5000.0))
    out += core.handle(JobFinished(now + 8000.0, "j0", 3600.0), JobFinished(now + 8000.0, "j1", 3600.0))
    assert not any(isinstance(each, GiveUp) for each in out)
    assert running(core) == {"j2", "j3"}
    assert core.state.alarm < now + 2 * DAY


@pytest.mark.parametrize("policy", NAMES)
def test_before_the_beginning_of_time_jobs_run_too(policy: str) -> None:
    core = begin(policy)
    core.handle(JobsFound(1.0, (job("a"), job("b"), job("c"))))
    core.handle(TimePassed(-DAY))
    core.handle(JobFinished(-DAY + 10.0, "a", 10.0), PreferencesChanged(-DAY + 10.0, SchedulingPreferences()))
    assert running(core) == {"b", "c"}


def test_recent_credit_is_given_after_the_clock_was_set_back() -> None:
    core = begin("recent", now=1e9)
    core.handle(JobsFound(1e9, (job("a", now=1e9), job("b", now=1e9))))
    core.handle(TimePassed(1e9 + 60.0))
    core.handle(TimePassed(1e9 - 30 * DAY))
    core.handle(TimePassed(1e9 - 30 * DAY + 600.0))
    before = core.policy.memory.recs[0]
    core.handle(TimePassed(1e9 - 30 * DAY + 1200.0))
    assert core.policy.memory.recs[0] > before > 0.0


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize(
    "reading",
    [
        Reading("a", 0.0, 0.5, None, -3.0),
        Reading("a", 1e308, 1e-300, None, 1e308, 1e308, 1e308),
        Reading("a", 600.0, 1e-300),
        Reading("a", 600.0, 0.5, None, 1e300, -1e300, -1e300),
    ],
)
def test_a_reading_beyond_all_bounds_spoils_nothing(policy: str, reading: Reading) -> None:
    core = begin(policy)
    core.handle(JobsFound(1.0, (job("a"), job("b"), job("c"), job("d"))))
    core.handle(JobProgressed(600.0, (reading,)), TimePassed(600.0))
    (told,) = (each for each in core.state.jobs if each.id == "a")
    assert 0.0 <= told.checkpoint_elapsed <= told.done <= 1e15
    assert 0.0 <= told.remaining <= 1e15
    core.handle(JobFinished(700.0, "a", 0.0), TimePassed(700.0))
    assert running(core) == {"b", "c"}
    for elapsed in (1e300, math.inf):
        first = min(running(core))
        core.handle(JobFinished(800.0, first, elapsed), TimePassed(800.0))
    assert running(core) == {"d"}


@pytest.mark.parametrize("policy", NAMES)
def test_what_a_server_aborts_makes_room_at_once(policy: str) -> None:
    core = begin(policy)
    core.handle(JobsFound(1.0, (job("a"), job("b"), job("c"))))
    assert running(core) == {"a", "b"}
    core.handle(ReplyReceived(60.0, "p", abort=("a",)))
    assert running(core) == {"b", "c"}


def test_a_gpu_is_free_only_once_the_task_that_was_given_up_has_left_it() -> None:
    core = begin("recent", gpus=(Gpu(name="NVIDIA"),))
    core.handle(JobsFound(1.0, (job("a", gpu="NVIDIA"), job("b", gpu="NVIDIA"))))
    assert running(core) == {"a"}
    out = core.handle(ReplyReceived(60.0, "p", abort=("a",)))
    assert not any(isinstance(each, StartTask) for each in out)
    out = core.handle(JobFailed(65.0, "a", 64.0))
    assert any(isinstance(each, StartTask) and each.instances == (0,) for each in out)


def test_a_job_for_a_device_that_is_not_there_says_so() -> None:
    core = begin("recent")
    core.handle(JobsFound(1.0, (job("a", gpu="AMD"),)))
    assert core.why_job("a") == (("wait.gpu", {"gpu": "AMD"}),)


@pytest.mark.parametrize("policy", NAMES)
def test_a_wake_up_alone_sets_one_alarm_that_is_to_come(policy: str) -> None:
    core = begin(policy)
    core.handle(JobsFound(1.0, (job("a"), job("b"))))
    for events in ((HostOn(DAY),), (HostOn(2 * DAY), TimePassed(2 * DAY))):
        alarms = [each for each in core.handle(*events) if isinstance(each, SetAlarm)]
        assert len(alarms) <= 1
        assert all(core.state.now < each.at <= core.state.now + DAY for each in alarms)


def test_a_project_that_has_many_results_to_upload_can_be_told_so() -> None:
    core = begin("recent", ncpus=1)
    core.handle(JobsFound(1.0, tuple(job(f"j{i}") for i in range(6))))
    for i in range(6):
        core.handle(JobFinished(100.0 + i, f"j{i}", 90.0, uploading=True))
    core.handle(ReplyReceived(200.0, "p"), TimePassed(1000.0))
    assert core.why_project("p")[0].values["uploading"] == 6


def test_every_reason_is_made_with_what_its_sentence_names() -> None:
    """Reasons whose codes are written out where they are made."""
    made = 0
    for path in Path(family.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name("why"), args=[ast.Constant(str(code))], keywords=values):
                    wanted = set(re.findall(r"\{(\w+)", SENTENCES[code]))
                    given = {each.arg for each in values}
                    assert None in given or wanted <= given, f"{path.name}: {code}"
                    made += 1
                case _:
                    pass
    assert made > 40


@pytest.mark.parametrize("policy", NAMES)
def test_without_a_buffer_a_job_that_ends_in_a_minute_is_no_reason_for_contacts_without_end(
    policy: str,
) -> None:
    core = begin(policy)
    core.handle(PreferencesChanged(1.0, SchedulingPreferences(buffer_min=0.0, buffer_additional=0.0)))
    core.handle(JobsFound(1.0, (replace(job("a"), estimate=3660.0), job("b"))))
    core.handle(ReplyReceived(2.0, "p"), TimePassed(2.0))
    progress = (Reading("a", 3600.0, 3600 / 3660), Reading("b", 3500.0, 3500 / 3600))
    out = core.handle(JobProgressed(3601.0, progress), TimePassed(3601.0))
    for _ in range(5):
        assert all(each.requests for each in out if isinstance(each, ContactProject))
        out = core.handle(ReplyReceived(3601.0, "p") if core.state.contact else TimePassed(3601.0))
    assert core.state.contact is None


def test_contacts_that_bring_nothing_become_rare() -> None:
    """One answer after another without work, from a project that is owed everything."""
    for policy in NAMES:
        core, contacts = begin(policy), 1
        while core.state.now < DAY:
            now = core.state.now
            event = ReplyReceived(now + 1.0, "p") if core.state.contact else TimePassed(core.state.alarm)
            contacts += sum(isinstance(each, ContactProject) for each in core.handle(event))
        assert contacts < 30, policy
