"""Hosts that leave, hours of the day, the scheduler's queue, late daemons, populations in parts, and advice."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cobblestone.cli import build, run_command
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY, HOUR
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host.books import compute_metrics
from cobblestone.simulator.population.run import PopulationRun, run_population, run_shards, split
from cobblestone.simulator.reading import parse_scenario
from cobblestone.simulator.report.advice import (
    Advisor,
    Point,
    ProjectCapacity,
    VariedSetting,
    advice_text,
    as_data,
    at_most,
    decide,
)
from cobblestone.simulator.report.population import view_of
from cobblestone.simulator.world.host_tables import draw_hosts, read_hosts
from cobblestone.simulator.world.scenario import (
    AppModel,
    HostModel,
    JobSizes,
    OnOff,
    ProjectModel,
    Scenario,
    ServerModel,
)
from cobblestone.sweep.backends import Backend, open_backend

POLICY = PolicyChoice.parse("CS2_WF2_WS1_JC2")


def _world(server: ServerModel | None = None, *, days: float = 4.0, lifetime: float = 0.0) -> Scenario:
    app = AppModel(latency_bound=DAY, flops_estimate=6e13, sizes=JobSizes(mean=6e13))
    project = ProjectModel(name="P", apps=(app,), server=server or ServerModel())
    return Scenario(duration=days * DAY, projects=(project,), lifetime=lifetime)


def _run(world: Scenario, hosts: int = 6) -> PopulationRun:
    return run_population(world, draw_hosts(hosts, seed=1), POLICY)


def test_hosts_that_leave_are_followed_by_others_and_their_jobs_time_out() -> None:
    stay, leave = _run(_world()), _run(_world(lifetime=DAY))
    assert len(stay.books) == 6
    assert 12 < len(leave.books) < 60  # six hosts, four days, a day each
    assert leave.hosts == 6
    lost = view_of(leave.tallies[0], 4 * DAY).timed_out
    assert lost > view_of(stay.tallies[0], 4 * DAY).timed_out + 0.05


def test_two_policies_meet_the_same_hosts_also_when_these_leave() -> None:
    other = PolicyChoice.parse("CS1_WF1_WS1_JC1")
    world, hosts = _world(lifetime=2 * DAY), draw_hosts(5, seed=1)
    one, two = (run_population(world, hosts, policy) for policy in (POLICY, other))
    assert [b.available for b in one.books] == pytest.approx([b.available for b in two.books])


def test_hosts_of_a_table_may_be_on_in_some_hours_of_the_day_only(tmp_path: Path) -> None:
    table = tmp_path / "hosts.csv"
    table.write_text("ncpus,flops,fraction,mean_on,day_start,day_end\n2,2e9,1,3600,8,20\n2,2e9,1,3600,0,0\n")
    by_day, always = run_population(_world(days=10.0), read_hosts(table), POLICY).books
    assert by_day.available == pytest.approx(0.5 * always.available, rel=0.1)
    table.write_text("ncpus,flops,fraction,mean_on,day_start,day_end\n2,2e9,1,3600,20,20\n")
    with pytest.raises(ConfigError, match=r"line 2: .*day_end"):
        read_hosts(table)


def test_a_busy_scheduler_lets_contacts_wait_and_sends_away_those_that_wait_too_long() -> None:
    idle = _run(_world(ServerModel(service_seconds=0.01)))
    busy = _run(_world(ServerModel(service_seconds=1800.0, longest_wait=600.0)))
    two = _run(_world(ServerModel(service_seconds=1800.0, longest_wait=600.0, processes=2)))
    assert idle.tallies[0].refused == 0
    assert view_of(idle.tallies[0], 4 * DAY).wait < 0.1
    assert busy.tallies[0].refused > two.tallies[0].refused > 0
    assert busy.tallies[0].longest_wait <= 600.0
    assert compute_metrics(*busy.books).idleness > compute_metrics(*idle.books).idleness


def test_daemons_that_come_late_lengthen_the_turnaround_by_that() -> None:
    soon, late = _run(_world()), _run(_world(ServerModel(daemon_seconds=7200.0)))
    gap = view_of(late.tallies[0], 4 * DAY).turnaround - view_of(soon.tallies[0], 4 * DAY).turnaround
    assert gap == pytest.approx(7200.0, rel=0.1)


def test_answers_that_are_wrong_are_counted_and_a_quorum_finds_them() -> None:
    alone = _run(_world(ServerModel(wrong_rate=0.3)))
    checked = _run(_world(ServerModel(wrong_rate=0.3, min_quorum=2, target_results=2)))
    assert view_of(alone.tallies[0], 4 * DAY).wrong == pytest.approx(0.3, abs=0.1)
    assert checked.tallies[0].wrong == 0


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    """One process beside this one."""
    found = open_backend(workers=1)
    yield found
    found.close()


@pytest.mark.timeout(240)
def test_a_population_in_parts_says_what_the_whole_says(backend: Backend) -> None:
    host = HostModel(ncpus=2, flops=2e9, availability=OnOff(fraction=0.9, mean_on=HOUR))
    world, hosts = _world(days=3.0), [host] * 40
    parts = run_shards(world, hosts, POLICY, seed=1, shards=2, backend=backend)
    whole = run_population(world, hosts, POLICY)
    (a,), (b,) = parts.tallies, whole.tallies
    assert len(parts.books) == len(whole.books) == 40
    assert a.done == pytest.approx(b.done, rel=0.08)
    assert view_of(a, 3 * DAY).turnaround == pytest.approx(view_of(b, 3 * DAY).turnaround, rel=0.08)
    assert sum(a.done_by_day.values()) == a.done


def test_workunits_are_dealt_out_and_parts_that_are_too_small_refused() -> None:
    world = _world(ServerModel(workunits=100, processes=2, service_seconds=1.0))
    hosts = draw_hosts(60, seed=2)
    servers = [part.scenario.projects[0].server for part in split(world, hosts, POLICY, seed=1, shards=3)]
    assert [s.workunits for s in servers] == [34, 33, 33]
    # three parts share two processes: each has two thirds of one
    assert [(s.processes, s.service_seconds) for s in servers] == [(1, 1.5)] * 3
    with pytest.raises(ConfigError, match=r"shards = 4 .* allowed: 1 to 3"):
        split(world, hosts, POLICY, seed=1, shards=4)
    few = _world(ServerModel(workunits=2))
    with pytest.raises(ConfigError, match="cannot be divided among 3 parts"):
        split(few, hosts, POLICY, seed=1, shards=3)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"lifetime": "10 min"}, "lifetime = 600"),
        ({"lifetime": -1.0}, "lifetime"),
        ({"project": [{"name": "P", "server": {"service_seconds": "2 d"}}]}, "service_seconds"),
        ({"project": [{"name": "P", "server": {"processes": 0}}]}, "processes"),
        ({"project": [{"name": "P", "server": {"daemon_seconds": float("inf")}}]}, "daemon_seconds"),
    ],
)
def test_impossible_values_are_named(table: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_scenario({"project": [{"name": "P"}], **table})


def _advised(world: Scenario, limits: ProjectCapacity, backend: Backend) -> list[VariedSetting]:
    hosts = [
        HostModel(ncpus=2, flops=2e9, availability=OnOff(fraction=0.8, mean_on=4 * HOUR)) for _ in range(2)
    ]
    return Advisor(world, hosts, POLICY, seeds=2, limits=limits, backend=backend).run()


@pytest.mark.timeout(240)
def test_advice_takes_the_shortest_deadline_that_loses_little_and_the_smallest_quorum_that_is_right(
    backend: Backend,
) -> None:
    world, limits = _world(ServerModel(wrong_rate=0.05), days=2.0), ProjectCapacity(late=0.05, wrong=0.01)
    steps = _advised(world, limits, backend)
    deadline, quorum, buffers, batch = steps
    assert [step.name for step in steps] == ["deadline", "quorum", "buffers", "batch"]
    bad = [point.metrics["bad"].mean for point in deadline.points]
    assert bad[0] > 0.05 >= bad[deadline.chosen]
    assert all(
        p.metrics["bad"].mean + p.metrics["bad"].half_width > 0.05
        or p.metrics["workunits_per_day"].mean < deadline.choice.metrics["workunits_per_day"].mean
        for p in deadline.points[: deadline.chosen]
    )
    assert quorum.choice.label == "2"
    assert buffers.choice.metrics["idleness"].mean <= 0.02
    assert batch.choice.metrics["swiftness"].mean >= 0.5
    text = advice_text(steps)
    assert "Recommended for these hosts:" in text
    assert text.count("\n* ") == 4 - text.startswith("*")


def _point(label: str, bad: tuple[float, ...], done: tuple[float, ...] = (10.0, 10.0, 10.0)) -> Point:
    return Point(label=label, value=float(label), runs={"bad": bad, "workunits_per_day": done})


def _decided(*points: Point, limit: float = 0.05) -> VariedSetting:
    demands = [[at_most(p, "bad", limit)] for p in points]
    return decide("deadline", ("bad", "workunits_per_day"), points, demands, "good", "none is")


def test_advice_says_between_which_values_the_intervals_leave_it_undecided() -> None:
    late, near, early = (0.2, 0.21, 0.22), (0.03, 0.045, 0.06), (0.0, 0.01, 0.005)
    step = _decided(_point("1", late), _point("2", near), _point("3", early), _point("4", early))
    assert (step.choice.label, step.rivals) == ("3", ["2"])  # "4" is never needed: "3" surely does
    assert 3 < step.seeds <= 100
    assert f"allow 2 as well; about --seeds {step.seeds:.0f} (now 3)" in advice_text([step])
    assert as_data([step])["deadline"]["undecided"] == ["2"]  # type: ignore[index]  # a table of tables
    enough = _decided(_point("2", near * 40), _point("3", early * 40))
    assert (enough.choice.label, enough.rivals, enough.seeds) == ("2", [], 0.0)


def test_nothing_lost_of_few_results_says_little() -> None:
    few, many = (
        Point(label=label, value=1.0, runs={"bad": (0.0, 0.0, 0.0), "due": due})
        for label, due in (("few", (10.0, 10.0, 10.0)), ("many", (100.0, 100.0, 100.0)))
    )
    assert not at_most(few, "bad", 0.05).holds  # of 30: up to a tenth may be lost
    assert at_most(few, "bad", 0.05).excess.not_above == "undecided"
    assert at_most(many, "bad", 0.05).holds


def test_advice_watches_deadlines_longer_than_the_run(backend: Backend) -> None:
    """On hosts that are seldom on, deadlines are long: that nothing is lost yet on the second day says nothing."""
    seldom = HostModel(ncpus=1, flops=6e9, availability=OnOff(fraction=0.125, mean_on=3 * HOUR))
    step = Advisor(
        _world(days=2.0), [seldom], POLICY, seeds=2, limits=ProjectCapacity(), backend=backend
    ).deadline()
    assert step.points[-1].value > 2 * DAY
    for point in step.points:
        assert min(point.runs["due"]) > 0.0


def test_advice_that_no_value_can_meet_is_undecided_between_the_equally_bad() -> None:
    step = _decided(
        _point("1", (0.30, 0.31, 0.32)), _point("2", (0.31, 0.30, 0.32)), _point("3", (0.9, 0.9, 0.8))
    )
    assert step.why == "none is"
    assert {step.choice.label, *step.rivals} == {"1", "2"}
    assert math.isinf(step.seeds)
    assert "many more --seeds, or --hosts" in advice_text([step])


def test_the_table_marks_differences_that_may_be_luck_and_no_others() -> None:
    points = _point("1", (0.01, 0.02, 0.03)), _point("2", (0.02, 0.01, 0.03)), _point("3", (0.51, 0.52, 0.53))
    first, second, third = advice_text([_decided(*points)]).splitlines()[1:4]
    assert "?" not in first  # the recommended line itself
    assert second.count("?") == 1  # its throughput is the same, run by run: no luck in that
    assert "?" not in third


def test_one_host_has_no_lifetime(tmp_path: Path) -> None:
    scenario = tmp_path / "world.toml"
    scenario.write_text('lifetime = "2 d"\n[[project]]\nname = "P"\n')
    result = CliRunner().invoke(build("simulate"), ["simulate", str(scenario)])
    assert result.exit_code != 0
    assert "lifetime: one host does not leave" in result.output


def test_advice_is_for_one_project(backend: Backend) -> None:
    world = replace(_world(), projects=(ProjectModel(name="A"), ProjectModel(name="B")))
    with pytest.raises(ConfigError, match="advice is for one project"):
        _advised(world, ProjectCapacity(), backend)


@pytest.mark.timeout(240)
def test_the_commands_say_what_is_wrong_and_run_in_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = tmp_path / "world.toml"
    scenario.write_text('duration = "1 d"\n[[project]]\nname = "P"\n[[project.app]]\nflops_estimate = 6e13\n')
    result = CliRunner().invoke(build("advise"), ["advise", str(scenario)])
    assert result.exit_code == 2
    assert "has no hosts" in result.output
    wrong = CliRunner().invoke(
        build("advise"), ["advise", str(scenario), "--hosts", "2", "--picture", "a.txt"]
    )
    assert "must end in .svg, .png or .pdf" in wrong.output
    assert run_command(["simulate", str(scenario), "--hosts", "40", "--shards", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] == 40
    assert run_command(["simulate", str(scenario), "--hosts", "30", "--shards", "2"]) == 2
    assert "shards = 2 is not possible with 30 hosts" in capsys.readouterr().err
    for more, words in (
        (("--hosts", "40", "--shards", "2", "--keep", "x"), "--keep keeps whole runs"),
        (("--hosts", "2", "--keep", str(tmp_path)), f"{tmp_path}: Is a directory"),
        (("--keep", "x"), "--keep is for runs with many hosts"),
        (("--hosts", "2", "--workers", "0"), "0 is not in the range 1<=x<=1024"),
    ):
        assert run_command(["simulate", str(scenario), *more]) == 2
        assert words in capsys.readouterr().err
