"""What apps, projects and clocks may tell a client without harm."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.helpers.client_play import DAY, HOUR, Play, endless, job

from cobblestone.policy.client.core.events import (
    DevicesChanged,
    GiveUp,
    HostOn,
    JobFailed,
    JobProgressed,
    JobsFound,
    PreferencesChanged,
    ProjectAttached,
    TimePassed,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.protocol import POLICIES
from cobblestone.policy.client.core.values import (
    HostDevices,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)
from cobblestone.policy.client.own.cs3_wf3 import OwnPolicy

CONSENT = SchedulingPreferences(may_give_up=True)
PROJECTS = (ProjectDescription(id="p"), ProjectDescription(id="q"))
Said = Callable[["Reporting", str, float], float | None]


@dataclass
class Reporting(Play):
    """A world whose apps say of their progress what they like."""

    said: Said = lambda play, name, part: part

    def reading(self, name: str) -> Reading:
        """Return what the task says."""
        reading = super().reading(name)
        return reading._replace(fraction_done=self.said(self, name, self.done[name] / self.size(name)))

    def begin_of(self, name: str, seconds: float) -> float:
        """Return the part that was done when the last period of so many seconds began."""
        return max(0.0, self.done[name] - self.now % seconds) / self.size(name)

    def at_best(self, name: str) -> float:
        """Return when a job that was given up would have ended, had it run alone from then on."""
        at = next(now for now, each in self.log if isinstance(each, GiveUp) and each.job == name)
        return at + self.size(name) - self.done.get(name, 0.0)

    def of_another(self, name: str) -> float:
        """Return the progress of another task that runs."""
        others = [each for each in self.running if each != name] or [name]
        return self.done[others[0]] / self.size(others[0])


REPORTS: dict[str, Said] = {
    "true": lambda play, name, part: part,
    "jumps back": lambda play, name, part: (7.0 * part) % 1.0,
    "begins anew": lambda play, name, part: part if part < 0.6 else part - 0.5,
    "freezes": lambda play, name, part: 0.999 if part > 0.05 else part,
    "not a number": lambda play, name, part: math.nan,
    "negative": lambda play, name, part: -part,
    "more than all": lambda play, name, part: 1.0 + part,
    "all sorts": lambda play, name, part: random.Random(f"{name}{part}").choice([math.nan, -1, 2, part, None, math.inf]),
    "in bursts": lambda play, name, part: play.begin_of(name, 6 * HOUR),
    "swapped": lambda play, name, part: play.of_another(name),
    "backwards": lambda play, name, part: 1.0 - part,
    "next to nothing": lambda play, name, part: 1e-300,
    "each third lies": lambda play, name, part: part if int(name[1:]) % 3 else 0.1 * part,
    "each second is hasty": lambda play, name, part: part if int(name[1:]) % 2 else min(0.99, 5 * part),
    "lies from the ninth job on": lambda play, name, part: part if int(name[1:]) < 9 else min(part, 0.01),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["own", "recent"])
@pytest.mark.parametrize("report", REPORTS)
def test_whatever_apps_report_jobs_are_done_and_hardly_any_is_given_up(policy: str, report: str) -> None:
    play = Reporting(
        PROJECTS,
        {"p": endless("p", estimate=5 * HOUR, bound=40 * HOUR), "q": endless("q", estimate=3 * HOUR, bound=30 * HOUR)},
        policy=policy,
        preferences=CONSENT,
        said=REPORTS[report],
    )  # fmt: skip
    play.run(3 * DAY)
    assert play.idle < 0.01 * 4 * 3 * DAY
    assert len(play.finished) > 65, "of 76 without a break"
    assert play.late == []
    assert max(sum(name[0] == each for name in play.given_up) for each in "pq") <= 10


@pytest.mark.parametrize("report", ["not a number", "each second is hasty"])
def test_hardly_any_job_is_given_up_that_alone_would_be_in_time(report: str) -> None:
    """Two projects with bounds so tight that some jobs have to be given up."""
    play = Reporting(
        PROJECTS,
        {"p": endless("p", estimate=HOUR, bound=1.2 * HOUR), "q": endless("q", estimate=HOUR, bound=3 * HOUR)},
        policy="own",
        preferences=CONSENT,
        said=REPORTS[report],
    )  # fmt: skip
    wrong = given_up = 0
    while play.now < 6 * DAY:
        play.run(play.now + 1.7 * HOUR)
        wrong += sum(play.at_best(name) <= play.known[name].deadline for name in play.given_up[given_up:])
        given_up = len(play.given_up)
        play.now += 0.3 * HOUR  # the computer was off
        play.tell(HostOn(play.now), TimePassed(play.now))
    assert given_up > 20
    assert wrong <= 0.1 * given_up, "it was every third"


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(
    "figures", [{"fraction_done": math.nan}, {"checkpoint_elapsed": math.inf}, {"swap": math.nan}]
)
def test_what_is_no_number_hides_nothing_else(policy: str, figures: dict[str, float]) -> None:
    play = Play(PROJECTS[:1], {"p": endless("p")}, policy=policy)
    (name, *_) = play.running
    play.tell(JobProgressed(play.now, (play.reading(name)._replace(elapsed=1800.0, **figures),)))
    assert play.core.state.by_id[name].done == 1800.0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_project_whose_jobs_all_fail_at_once_is_left_alone_for_a_while(policy: str) -> None:
    play = Play(PROJECTS[:1], {"p": endless("p", estimate=5 * HOUR)}, policy=policy)
    while play.now < 2 * DAY:
        for name in list(play.running):
            del play.running[name]
            play.tell(JobFailed(play.now, name, 1.0))
        play.now = min(play.core.state.alarm, play.now + 600.0)
        play.tell(TimePassed(play.now))
    assert 24 <= len(play.contacts) < 200
    assert len(play.known) < 800
    play.run(2.5 * DAY)
    assert play.finished
    assert play.core.state.projects[0].failed == 0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_thousands_of_jobs_that_nobody_can_save_are_given_up_little_by_little(policy: str) -> None:
    core = ClientCore.start(policy, rng=random.Random(1))
    now = 1e9
    attached = [ProjectAttached(now, project) for project in PROJECTS]
    devices = DevicesChanged(now, HostDevices(ncpus=16))
    core.handle(HostOn(now), PreferencesChanged(now, CONSENT), devices, *attached)
    estimates = (0.0, HOUR, 1e6, math.inf)
    jobs = [
        job(f"j{i}", "pq"[i % 2], estimate=estimates[i % 4], received=now, deadline=now + (i % 5 - 4) * DAY)
        for i in range(1000)
    ]
    for event in (JobsFound(now, tuple(jobs)), TimePassed(now + HOUR)):
        given_up = [each for each in core.handle(event) if isinstance(each, GiveUp)]
        assert len(given_up) <= 100
        assert len(core.state.running) == 16
        assert now < core.state.alarm < math.inf
    if isinstance(core.policy, OwnPolicy):
        assert min(core.policy.memory.cautions) >= 0.0, "a deadline in the past brings no other one forward"
