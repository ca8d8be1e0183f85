"""The core by hand-written event logs, whatever the policy."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cobblestone.domain.errors import ConfigError, IllegalTransition
from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.events import (
    ContactAsked,
    ContactFailed,
    ContactProject,
    ContactSlow,
    DevicesChanged,
    DownloadStalled,
    Event,
    HostOn,
    Instruction,
    JobDeferred,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobReady,
    JobsDescribed,
    JobsFound,
    JobSuspended,
    JobUploaded,
    PermissionChanged,
    PreferencesChanged,
    ProjectAttached,
    ProjectDetached,
    QuitTask,
    ReplyReceived,
    SetAlarm,
    StartTask,
    SuspendTask,
    TaskStopped,
    TimePassed,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.protocol import POLICIES
from cobblestone.policy.client.core.reasons import SENTENCES, sentence
from cobblestone.policy.client.core.state import ClientJob, CoreState
from cobblestone.policy.client.core.values import (
    HostDevices,
    JobDescription,
    Permission,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)
from cobblestone.policy.client.published.work_fetch import FETCH_PERIOD
from cobblestone.simulator.host import run
from cobblestone.simulator.host.driver import SimulatedClient
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper import cells

NAMES = sorted(POLICIES)


def job(
    name: str, project: str = "p", *, estimate: float = 3600.0, deadline: float = 1e6, ready: bool = True
) -> JobDescription:
    return JobDescription(
        id=name, project=project, estimate=estimate, received=0.0, deadline=deadline, ready=ready
    )


def begin(name: str = "recent", *more: Event, ncpus: int = 2) -> tuple[ClientCore, list[Instruction]]:
    core = ClientCore.start(name, rng=random.Random(1))
    out = core.handle(
        HostOn(0.0),
        PreferencesChanged(0.0, SchedulingPreferences()),
        DevicesChanged(0.0, HostDevices(ncpus=ncpus)),
        ProjectAttached(0.0, ProjectDescription(id="p")),
        *more,
    )
    return core, out


def of(kind: type[Instruction], out: list[Instruction]) -> list[Instruction]:
    return [each for each in out if isinstance(each, kind)]


def running(core: ClientCore) -> set[str]:
    return {each.id for each in core.state.running}


def with_jobs(name: str, *jobs: JobDescription, ncpus: int = 2) -> tuple[ClientCore, list[Instruction]]:
    core, out = begin(name, ncpus=ncpus)
    assert of(ContactProject, out)
    return core, core.handle(ReplyReceived(1.0, "p", jobs))


IMPOSSIBLE = (math.nan, math.inf, -math.inf, -1.0, 1e308, -1e308)


@pytest.mark.parametrize("name", NAMES)
def test_figures_that_cannot_be_are_passed_over_or_brought_within_bounds(name: str) -> None:
    core, _ = with_jobs(name, job("a"), job("b"), job("c"))
    now = 1.0
    for figure in IMPOSSIBLE:
        for field in (
            "elapsed",
            "fraction_done",
            "checkpointed_at",
            "checkpoint_elapsed",
            "working_set",
            "swap",
        ):
            now += 60.0
            reading = Reading("a", elapsed=60.0, fraction_done=0.01)._replace(**{field: figure})
            core.handle(JobProgressed(now, (reading,)), TimePassed(now))
        for field in ("estimate", "received", "deadline", "cpus", "memory_bound"):
            odd = replace(job(f"{field} {figure}", deadline=now + 1e6), **{field: figure})
            core.handle(JobsFound(now, (odd,)))
            core.handle(JobsDescribed(now, (odd,)))
            json.dumps(core.snapshot(), allow_nan=False)
            core.handle(JobFailed(now, odd.id, figure))
    assert running(core) >= {"a"}
    assert 0.0 <= core.state.by_id["a"].done <= now
    assert now < core.state.alarm < now + 10 * 86400.0
    out = core.handle(JobFinished(now + 3600.0, "a", 3600.0), TimePassed(now + 3600.0))
    assert running(core) == {"b", "c"}
    contacts = [each for each in out if isinstance(each, ContactProject)]
    assert all(math.isfinite(r.seconds) for each in contacts for r in each.requests.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_new_client_asks_its_project_for_work_and_runs_what_comes(name: str) -> None:
    core, out = begin(name)
    (contact,) = of(ContactProject, out)
    assert isinstance(contact, ContactProject)
    assert contact.requests[""].seconds > 0.0
    assert contact.why
    out = core.handle(ReplyReceived(1.0, "p", (job("a"), job("b"), job("c"))))
    started = [each.job for each in out if isinstance(each, StartTask)]
    assert started == ["a", "b"]
    assert sentence(core.why_job("c")[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_job_goes_its_way_from_files_to_report(name: str) -> None:
    core, out = with_jobs(name, job("a", ready=False))
    assert not of(StartTask, out)
    assert core.why_job("a")[0].code == "wait.files"
    core.handle(DownloadStalled(2.0, "a"))
    assert core.why_job("a")[0].code == "wait.stalled"
    assert of(StartTask, core.handle(JobReady(3.0, "a")))
    core.handle(JobProgressed(100.0, (Reading("a", 97.0, 0.1),)))
    core.handle(JobFinished(4000.0, "a", 3900.0, uploading=True))
    assert core.why_job("a")[0].code == "wait.uploading"
    core.handle(JobUploaded(4001.0, "a"))
    for _ in range(2000):
        contact = core.state.contact
        if contact is not None:
            core.handle(ReplyReceived(core.state.now, "p"))
            if contact.report:
                assert contact.report == ("a",)
                break
        core.handle(TimePassed(core.state.alarm))
    with pytest.raises(IllegalTransition, match="'a' is not known"):
        core.why_job("a")


def test_no_more_jobs_are_reported_at_once_than_the_volunteer_wants() -> None:
    core, _ = with_jobs("recent", job("a"), job("b"))
    core.handle(PreferencesChanged(2.0, SchedulingPreferences(report_at_once=True, max_reported=1)))
    out = core.handle(JobFinished(10.0, "a", 8.0), JobFinished(10.0, "b", 8.0))
    while not (contacts := [each for each in out if isinstance(each, ContactProject) and each.report]):
        out = core.handle(
            ReplyReceived(core.state.now + 1.0, "p") if core.state.contact else TimePassed(core.state.alarm)
        )
    assert [each.report for each in contacts] == [("a",)]
    assert isinstance(contacts[0], ContactProject)
    out = core.handle(ReplyReceived(core.state.now + 1.0, "p"))
    while not (contacts := [each for each in out if isinstance(each, ContactProject) and each.report]):
        out = core.handle(TimePassed(core.state.alarm))
    assert [each.report for each in contacts] == [("b",)]


def test_jobs_take_the_volunteers_use_of_devices_over() -> None:
    core, _ = with_jobs("recent", job("a"), job("b"))
    assert running(core) == {"a", "b"}
    wide = [replace(job(each), cpus=2.0) for each in ("a", "b")]
    core.handle(JobsDescribed(10.0, (*wide, job("gone"))))
    core.handle(TimePassed(4000.0))
    assert len(running(core)) == 1
    core.handle(JobsDescribed(4010.0, (job("a"), job("b"))))
    core.handle(TimePassed(8000.0))
    assert running(core) == {"a", "b"}


@pytest.mark.parametrize("name", NAMES)
def test_what_the_volunteer_forbids_stops_and_comes_back(name: str) -> None:
    core, _ = with_jobs(name, job("a"), job("b"))
    out = core.handle(PermissionChanged(10.0, Permission(cpu="user_active")))
    assert {each.job for each in out if isinstance(each, SuspendTask)} == {"a", "b"}
    assert core.why_job("a")[0].values == {"cause": "user_active"}
    out = core.handle(PermissionChanged(20.0, Permission(ncpus=1)))
    assert len(of(StartTask, out)) == 1
    core.handle(PermissionChanged(30.0, Permission()))
    assert running(core) == {"a", "b"}
    core.handle(JobSuspended(40.0, "a"))
    assert running(core) == {"b"}
    assert core.why_job("a")[0].code == "wait.suspended"
    core.handle(JobSuspended(50.0, "a", suspended=False))
    assert running(core) == {"a", "b"}
    core.handle(ProjectAttached(60.0, ProjectDescription(id="p", suspended=True)))
    assert running(core) == set()
    core.handle(ProjectAttached(70.0, ProjectDescription(id="p")))
    assert running(core) == {"a", "b"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "fewer",
    [DevicesChanged(600.0, HostDevices(ncpus=1)), PermissionChanged(600.0, Permission(ncpus=1))],
    ids=["devices", "permission"],
)
def test_processors_that_are_taken_away_are_free_at_once(name: str, fewer: Event) -> None:
    core, _ = with_jobs(name, *(job(str(i)) for i in range(6)), ncpus=4)
    assert len(running(core)) == 4
    out = core.handle(fewer)
    assert len(of(SuspendTask, out)) == 3
    assert len(running(core)) == 1
    assert not of(StartTask, out)


@pytest.mark.parametrize("name", NAMES)
def test_without_network_nobody_is_contacted_and_with_it_at_once(name: str) -> None:
    core, out = begin(name, PermissionChanged(0.0, Permission(network="metered")))
    assert not of(ContactProject, out)
    assert core.state.alarm > 1e6
    assert of(ContactProject, core.handle(PermissionChanged(5.0, Permission())))


@pytest.mark.parametrize("name", NAMES)
def test_only_one_contact_is_under_way_and_a_failed_one_is_tried_again_later(name: str) -> None:
    core, _ = begin(name)
    out = core.handle(ProjectAttached(1.0, ProjectDescription(id="q")))
    assert not of(ContactProject, out)
    out = core.handle(ContactFailed(2.0, "p"))
    (contact,) = of(ContactProject, out)
    assert isinstance(contact, ContactProject)
    assert contact.project == "q"
    core.handle(ContactFailed(3.0, "q"))
    assert all(p.not_before > 3.0 for p in core.state.projects)
    out = core.handle(ContactAsked(4.0, "p"))
    assert of(ContactProject, out), "the volunteer's wish ends the wait"
    with pytest.raises(IllegalTransition, match="no contact with 'q'"):
        core.handle(ContactFailed(5.0, "q"))


@pytest.mark.parametrize("name", NAMES)
def test_a_contact_that_takes_long_keeps_no_other_waiting_and_its_answer_still_counts(name: str) -> None:
    core, _ = begin(name)
    core.handle(ProjectAttached(1.0, ProjectDescription(id="q")))
    (contact,) = of(ContactProject, core.handle(ContactSlow(11.0, "p")))
    assert isinstance(contact, ContactProject)
    assert contact.project == "q"
    core.handle(ContactFailed(12.0, "q"))
    out = core.handle(ContactAsked(13.0, "p"), ContactAsked(13.0, "q"))
    assert [each.project for each in out if isinstance(each, ContactProject)] == ["q"], (
        "p is still being asked"
    )
    again = ClientCore.restore(core.snapshot(), rng=random.Random(1))
    forced = [each.project for each in again.instructions_in_force() if isinstance(each, ContactProject)]
    assert sorted(forced) == ["p", "q"]
    core.handle(ReplyReceived(20.0, "p", (job("late"),), request_delay=60.0))
    assert "late" in core.state.by_id
    assert core.state.projects[0].not_before == 80.0
    assert core.state.slow == []
    with pytest.raises(IllegalTransition, match="no contact with 'p'"):
        core.handle(ContactFailed(21.0, "p"))
    with pytest.raises(IllegalTransition, match="is waited for"):
        core.handle(ContactSlow(21.0, "p"))


@pytest.mark.parametrize("name", ["published CS2_WF2_WS2_JC2", "recent"])
def test_work_fetch_is_not_looked_at_while_nobody_can_be_asked(name: str) -> None:
    core, _ = begin(name)
    (project,) = core.state.projects
    core.handle(ContactFailed(1.0, "p"))
    while project.not_before <= core.state.now + FETCH_PERIOD:
        if of(ContactProject, core.handle(TimePassed(core.state.alarm))):
            core.handle(ContactFailed(core.state.now, "p"))
    assert core.state.alarm == pytest.approx(project.not_before)
    assert of(ContactProject, core.handle(TimePassed(core.state.alarm)))


@pytest.mark.parametrize("name", NAMES)
def test_a_project_that_leaves_takes_its_jobs_along(name: str) -> None:
    core, _ = begin(name, ProjectAttached(0.0, ProjectDescription(id="q")))
    first = core.state.contact
    assert first is not None
    core.handle(ReplyReceived(1.0, first.project, (job("a", first.project), job("b", first.project))))
    other = core.state.contact
    if other is not None:
        core.handle(ReplyReceived(2.0, other.project, (job("c", other.project),)))
    out = core.handle(ProjectDetached(3.0, first.project))
    assert {each.id for each in core.state.by_id.values()} <= {"c"}
    assert running(core) <= {"c"}
    if other is not None:
        assert any(isinstance(each, StartTask) for each in out) or running(core) == {"c"}
    ClientCore.restore(json.loads(json.dumps(core.snapshot())), rng=random.Random(1))


@pytest.mark.parametrize("name", NAMES)
def test_a_temporary_exit_waits_until_its_time(name: str) -> None:
    core, _ = with_jobs(name, job("a"), ncpus=1)
    core.handle(JobDeferred(10.0, "a", until=500.0))
    assert running(core) == set()
    assert core.why_job("a")[0].code == "wait.deferred"
    assert core.state.alarm <= 500.0
    core.handle(TimePassed(500.0))
    assert running(core) == {"a"}


@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_dies_is_started_again_from_its_checkpoint(name: str) -> None:
    core, _ = with_jobs(name, job("a"), ncpus=1)
    core.handle(JobProgressed(100.0, (Reading("a", 99.0, 0.5, 90.0, 66.0),)))
    out = core.handle(TaskStopped(101.0, "a"))
    assert of(StartTask, out)
    assert core.state.by_id["a"].done == 66.0
    assert core.state.by_id["a"].fraction_done == pytest.approx(0.5 * 66.0 / 99.0)


@pytest.mark.parametrize("name", NAMES)
def test_the_end_of_an_unknown_job_is_a_mistake_of_the_driver_and_late_readings_are_none(name: str) -> None:
    core, _ = with_jobs(name, job("a"))
    with pytest.raises(IllegalTransition):
        core.handle(JobFinished(2.0, "x", 1.0))
    assert core.handle(JobProgressed(3.0, (Reading("x", 1.0),))) == []
    core.handle(JobFailed(4.0, "a", 3.0))
    with pytest.raises(IllegalTransition, match="'a' is reportable: it cannot end"):
        core.handle(JobFinished(5.0, "a", 1.0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_a_clock_that_jumps_neither_stops_the_client_nor_makes_it_ask_without_end(
    name: str, jump: float
) -> None:
    core, _ = with_jobs(name, *(job(f"j{i}", estimate=50_000.0) for i in range(4)))
    core.handle(ContactAsked(10.0, "p"))
    core.handle(ContactFailed(11.0, "p"))
    now = 1000.0 + jump
    contacts = 0
    for _ in range(200):
        out = core.handle(TimePassed(now))
        if of(ContactProject, out):
            contacts += 1
            core.handle(ContactFailed(now, "p"))
        assert core.state.alarm > now
        assert core.state.alarm <= now + DAY
        now = core.state.alarm
    assert contacts < 200
    assert running(core) != set()


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_driver_is_told_again_what_is_under_way(name: str) -> None:
    core, _ = with_jobs(name, job("a"), job("b"))
    core.handle(ContactAsked(10.0, "p"))
    stored = json.loads(json.dumps(core.snapshot(), allow_nan=False))
    again = ClientCore.restore(stored, rng=random.Random(1))
    force = again.instructions_in_force()
    assert {each.job for each in force if isinstance(each, StartTask)} == {"a", "b"}
    assert [each.project for each in force if isinstance(each, ContactProject)] == ["p"]
    assert isinstance(force[-1], SetAlarm)
    assert again.snapshot() == core.snapshot()


def test_a_restored_core_draws_the_next_random_number_not_the_first() -> None:
    core, _ = begin("recent")
    core.handle(ContactFailed(1.0, "p"))
    while core.state.contact is None:
        core.handle(TimePassed(core.state.alarm))
    stored = json.loads(json.dumps(core.snapshot()))
    again = ClientCore.restore(stored, rng=random.Random(1))
    for each in (core, again):
        each.handle(ContactFailed(200.0, "p"))
    assert core.state.projects[0].not_before == again.state.projects[0].not_before > 200.0


@pytest.mark.parametrize("name", POLICIES)
def test_a_core_that_is_restored_by_its_policy_s_first_name_remembers(name: str) -> None:
    core, _ = with_jobs(name, job("a"), ncpus=1)
    core.handle(JobProgressed(7200.0, (Reading("a", 7200.0, 1.0),)), JobFinished(7200.0, "a", 7200.0))
    again = ClientCore.restore(json.loads(json.dumps(core.snapshot())), rng=random.Random(1), policy=name)
    assert again.snapshot() == core.snapshot()
    fresh = ClientCore.start(name, rng=random.Random(1))
    assert again.snapshot()["memory"] != fresh.snapshot()["memory"]


@pytest.mark.parametrize(
    "broken",
    [{}, {"version": 99}, {"version": 1, "policy": "recent", "state": {}, "memory": None}, {"version": 1}],
)
def test_a_broken_store_is_refused_with_words(broken: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ClientCore.restore(broken, rng=random.Random(1))


def test_a_policy_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match="own, published, recent"):
        ClientCore.start("best", rng=random.Random(1))


@pytest.mark.parametrize("name", NAMES)
def test_another_policy_takes_over_a_running_client(name: str) -> None:
    core, _ = with_jobs("recent", job("a"), job("b"), job("c"))
    stored = json.loads(json.dumps(core.snapshot()))
    other = ClientCore.restore(stored, rng=random.Random(1), policy=name)
    other.handle(JobFinished(4000.0, "a", 3900.0))
    assert running(other) == {"b", "c"}


class _Forgetful(SimulatedClient):
    """Stores its core as JSON and reads it again, every few steps."""

    steps = 0

    def step(self) -> None:
        type(self).steps += 1
        if type(self).steps % 7 == 0:
            stored = json.dumps(self.core.snapshot(), allow_nan=False)
            policy = self.core.policy
            state = type(self.core.state).restore(json.loads(stored)["state"])
            fresh = run.make_policy(self.host.scenario, self.choice, policy.rng)
            self.core = ClientCore(fresh, state=state, memory=json.loads(stored)["memory"])
        super().step()


@pytest.mark.parametrize(
    "policy", ["CS2_WF2_WS2_JC2", "CS1_WF1_WS1_JC1", "CS3_WF3_WS2_JC2", "CS4_WF4_WS2_JC2"]
)
def test_a_client_that_is_stored_and_restored_decides_as_one_that_never_stops(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = replace(cells.mix(3, bound=cells.TIGHT_BOUND), duration=6 * DAY)
    choice = PolicyChoice.parse(policy)
    plain = simulate(scenario, choice, seed=4)
    monkeypatch.setattr(run, "SimulatedClient", _Forgetful)
    monkeypatch.setattr(_Forgetful, "steps", 0)
    assert simulate(scenario, choice, seed=4).metrics == plain.metrics
    assert _Forgetful.steps > 100


def test_every_sentence_can_be_said() -> None:
    for code, text in SENTENCES.items():
        assert code.count(".") == 1
        assert text[-1] not in ".!"
    used = QuitTask(job="a").why
    assert used == ()


def test_a_silence_is_a_sleep_only_for_drivers_that_are_never_silent() -> None:
    for notices, expected in ((True, 100.0), (False, 100_000.0)):
        core = ClientCore.start("recent", rng=random.Random(1), notices_sleep=notices)
        core.handle(TimePassed(0.0))
        core.handle(TimePassed(100.0))
        core.handle(TimePassed(100_000.0))
        assert core.state.clock == expected


def test_a_checkpoint_counts_for_the_task_that_made_it() -> None:
    core, _ = with_jobs("published CS1_WF2_WS1_JC1", job("a"), job("b"), job("c"))
    state = core.state
    first, second, waiting = (state.by_id[name] for name in "abc")
    state.running[:] = [second, first]  # in the order of their last starts
    state.now = 4000.0
    first.checkpointed_at, second.checkpointed_at = 100.0, 3999.0
    first.report_deadline = second.report_deadline + 1.0  # the first is the one to give way
    assert core.policy.enforce([second, waiting]).preempt == [], "it has not checkpointed"
    first.checkpointed_at, second.checkpointed_at = 3999.0, 100.0
    assert core.policy.enforce([second, waiting]).preempt == [first]


class Counted(list[ClientJob]):
    """A list that counts how many of its jobs someone has looked at."""

    seen = 0

    def __iter__(self) -> Iterator[ClientJob]:
        for each in super().__iter__():
            self.seen += 1
            yield each

    def __reversed__(self) -> Iterator[ClientJob]:
        for each in super().__reversed__():
            self.seen += 1
            yield each


def with_finished(name: str, count: int, *, uploading: bool) -> tuple[ClientCore, Counted]:
    enough = [job(f"long {n}", estimate=1e6, deadline=1e8) for n in range(2)]
    core, _ = with_jobs(name, *[job(f"{n}") for n in range(count)], *enough)
    core.handle(*[JobFinished(1.0, f"{n}", 1.0, uploading) for n in range(count)])
    core.state.finished = counted = Counted(core.state.finished)
    return core, counted


@pytest.mark.parametrize("name", NAMES)
def test_each_of_many_uploads_is_taken_note_of_without_a_look_at_all_others(name: str) -> None:
    core, finished = with_finished(name, 300, uploading=True)
    core.handle(*[JobUploaded(2.0, f"{n}") for n in range(300)])
    assert finished.seen < 20 * 300
    assert core.state.projects[0].upload_since == -math.inf


@pytest.mark.parametrize("name", NAMES)
def test_a_round_goes_over_finished_jobs_a_few_times_however_many_can_be_reported(name: str) -> None:
    core, finished = with_finished(name, 60, uploading=False)
    core.handle(TimePassed(60.0))
    assert core.state.contact is None
    assert finished.seen < 20 * 60


@pytest.mark.parametrize("name", NAMES)
def test_of_the_jobs_of_a_project_that_may_wait_for_their_report_one_is_asked_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, _ = with_finished(name, 60, uploading=False)
    asked: list[str] = []
    due = type(core.policy).report_due
    monkeypatch.setattr(
        type(core.policy), "report_due", lambda policy, job: (asked.append(job.id), due(policy, job))[1]
    )
    core.handle(TimePassed(60.0))
    assert len(asked) == 1
    core.state.finished[40].report_at = 60.0
    core.handle(TimePassed(61.0))
    assert asked[-1] == "40"
    assert core.state.contact is not None


def test_many_finished_jobs_are_reported_at_once() -> None:
    core, _ = with_finished("recent", 63, uploading=False)
    assert not of(ContactProject, core.handle(TimePassed(60.0)))
    core.handle(JobsFound(61.0, (job("last", deadline=1e8),)))
    assert of(ContactProject, core.handle(JobFinished(62.0, "last", 1.0)))
    assert core.state.contact is not None
    assert len(core.state.contact.report) == 64


@pytest.mark.parametrize("name", NAMES)
def test_news_of_one_job_or_none_of_a_project_touch_no_other_job(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, _ = begin(name, JobsFound(0.0, tuple(job(f"{n}", ready=n % 2 == 0) for n in range(200))))
    asked: list[ClientJob] = []
    can_run = CoreState.can_run
    monkeypatch.setattr(CoreState, "can_run", lambda state, job: (asked.append(job), can_run(state, job))[1])
    for stopped in (True, False):
        core.handle(
            ProjectAttached(1.0, ProjectDescription(id="p")),
            *[DownloadStalled(1.0, f"{n}", stopped) for n in range(1, 200, 2)],
            *[JobSuspended(1.0, f"{n}", stopped) for n in range(0, 200, 2)],
        )
        assert len(core.state.projects[0].queue) == (0 if stopped else 200)
    assert [each.id for each in core.state.projects[0].queue] == [f"{n}" for n in range(200)]
    assert len(asked) == 400


def test_a_state_is_stored_without_finding_out_for_each_job_of_what_it_consists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core, _ = begin("recent", JobsFound(0.0, tuple(job(f"{n}") for n in range(200))))
    asked: list[Any] = []
    found = dataclasses.fields
    monkeypatch.setattr(dataclasses, "fields", lambda kind: (asked.append(kind), found(kind))[1])
    core.snapshot()
    assert len(asked) < 50
