"""What a scenario may say of its random processes: hours of the day, sizes of jobs, progress that apps report."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY, HOUR
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host.engine import make_availability
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.reading import parse_scenario, read_scenario
from cobblestone.simulator.report.picture import RunRecording
from cobblestone.simulator.world.distributions import JobSizes, OnOff, ProgressCurve

X = (0.0, 0.01, 0.25, 0.5, 1.0)


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (ProgressCurve(), X),
        (ProgressCurve(kind="missing"), (None,) * 5),
        (ProgressCurve(kind="late", amount=0.02), (None, None, 0.25, 0.5, 1.0)),
        (ProgressCurve(kind="stepped", amount=0.2), (0.0, 0.0, 0.2, 0.4, 1.0)),
        (ProgressCurve(kind="offset", amount=0.5), (0.5, 0.505, 0.625, 0.75, 1.0)),
        (ProgressCurve(kind="power", amount=2.0), (0.0, 0.0001, 0.0625, 0.25, 1.0)),
        (ProgressCurve(kind="lying", amount=0.5), (0.0, 0.0198, 0.495, 0.99, 0.99)),
    ],
    ids=lambda value: value.kind if isinstance(value, ProgressCurve) else "",
)
def test_an_app_reports_its_progress_in_its_own_way(
    progress: ProgressCurve, said: tuple[float | None, ...]
) -> None:
    progress.check("app")
    assert [progress.reported(x) for x in X] == [s if s is None else pytest.approx(s) for s in said]


@pytest.mark.parametrize(
    ("sizes", "mean", "above"),
    [
        (JobSizes(mean=10.0, kind="pareto", shape=2.5), 10.0, (40.0, (6.0 / 40.0) ** 2.5)),
        (
            JobSizes(mean=1.0, stdev=0.1, kind="two_humped", second_mean=9.0, second_part=0.25),
            3.0,
            (4.5, 0.25),
        ),
    ],
    ids=["pareto", "two humps"],
)
def test_sizes_have_the_mean_and_the_tail_that_are_asked_for(
    sizes: JobSizes, mean: float, above: tuple[float, float]
) -> None:
    sizes.check("app")
    rng = random.Random(5)
    drawn = [sizes.draw(rng) for _ in range(100_000)]
    assert sizes.average == pytest.approx(mean)
    assert sum(drawn) / len(drawn) == pytest.approx(mean, rel=0.03)
    assert sum(size > above[0] for size in drawn) / len(drawn) == pytest.approx(above[1], rel=0.1)


def periods(model: OnOff, until: float) -> list[tuple[float, float]]:
    """On-periods of a process up to a time."""
    process, found, now = make_availability(model, random.Random(3), start_on=False), [], 0.0
    while now < until:
        if process.on:
            found.append((now, min(process.until, until)))
        now = process.until
        process.toggle()
    return found


def test_days_and_nights_follow_the_hours_and_the_week() -> None:
    model = OnOff(day_start=8 * HOUR, day_end=22 * HOUR, weekdays_only=True)
    assert periods(model, 14 * DAY) == [
        (day * DAY + 8 * HOUR, day * DAY + 22 * HOUR) for day in (0, 1, 2, 3, 4, 7, 8, 9, 10, 11)
    ]
    assert model.part_on == pytest.approx(14 / 24 * 5 / 7)


def test_within_its_hours_the_host_comes_and_goes_as_the_other_keys_say() -> None:
    model = OnOff(fraction=0.5, mean_on=600.0, day_start=8 * HOUR, day_end=20 * HOUR)
    found = periods(model, 200 * DAY)
    assert sum(end - start for start, end in found) / (200 * DAY) == pytest.approx(model.part_on, rel=0.05)
    assert model.part_on == pytest.approx(0.25)
    assert all(start % DAY >= 8 * HOUR and (end - 1e-6) % DAY <= 20 * HOUR for start, end in found)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(found))


def test_hours_around_midnight_of_every_day_are_one_period_without_a_break() -> None:
    week = OnOff(day_start=0.0, day_end=DAY, weekdays_only=True)
    assert periods(week, 7 * DAY) == [(0.0, 5 * DAY)]


def test_hours_may_go_over_midnight() -> None:
    night = OnOff(day_start=20 * HOUR, day_end=6 * HOUR)
    assert periods(night, 3 * DAY) == [
        (0.0, 6 * HOUR), (20 * HOUR, 30 * HOUR), (44 * HOUR, 54 * HOUR), (68 * HOUR, 72 * HOUR),
    ]  # fmt: skip
    assert night.part_on == pytest.approx(10 / 24)
    week = replace(night, weekdays_only=True)
    assert periods(week, 8 * DAY) == [
        *((day * DAY + 20 * HOUR, day * DAY + 30 * HOUR) for day in range(5)),
        (7 * DAY + 20 * HOUR, 8 * DAY),
    ]


TEXT = """
duration = "20 d"
[host]
[host.availability]
fraction = 0.9
day_start = "8 h"
day_end = "22 h"
[[project]]
name = "a"
[[project.app]]
slack = 3
flops_kind = "pareto"
flops_shape = 1.8
[project.app.progress]
kind = "power"
amount = 1.5
[[project]]
name = "b"
[[project.app]]
slack = 40
"""


def test_a_file_may_say_it_all_and_the_run_balances(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(TEXT, encoding="utf-8")
    scenario = read_scenario(path)
    bounds = [p.apps[0].latency_bound for p in scenario.projects]
    assert bounds == pytest.approx([3 * 13_000.0, 40 * 13_000.0])
    timeline = RunRecording(start=0.0, end=10 * DAY)
    for policy in ("CS2_WF2_WS2_JC2", "CS3_WF3_WS2_JC2", "CS4_WF4_WS1_JC2"):
        result = simulate(scenario, PolicyChoice.parse(policy), recorder=timeline)
        assert result.metrics.jobs > 0
    for spell in timeline.spells:
        assert 8 * HOUR - 1 <= spell.start % DAY <= 22 * HOUR
    assert timeline.spells


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"power"', '"magic"', "kind = 'magic' is not possible; allowed: exact, missing, late"),
        ("amount = 1.5", "amount = 0", "amount (of kind 'power') = 0.0 is not possible; allowed: 0.05 to 20"),
        ("amount = 1.5", "amount = inf", "must be a finite number"),
        ("amount = 1.5", 'mount = "1"', "unknown key 'mount' = '1'; allowed: amount, kind"),
        ("[project.app.progress]", "progress = 3\n[project.app.x]", "progress = 3: must be a table"),
        ("flops_shape = 1.8", "flops_shape = 1", "flops_shape = 1.0 is not possible; allowed: 1.01 to 100"),
        ('"pareto"', '"two_humped"', "flops_second_mean = 0.0 is not possible; allowed: 1 to"),
        ("slack = 40", "slack = -1", "slack = -1.0 is not possible; allowed: 0.01 to"),
        ("slack = 40", 'slack = 40\nlatency_bound = "1 d"', "set the same value; remove one"),
        ("slack = 40", 'slack = 40\ngpu = "X"\ngpus = 1\ncpus = 0', "gpu = 'X' is not possible"),
        ("slack = 40", "slack = 40\nefficiency = 0", "efficiency = 0.0 is not possible"),
        ("[host]", "[host]\nflops = 0", "flops = 0.0 is not possible"),
        (
            'name = "b"',
            'name = "b"\ndowntime = { fraction = 0 }',
            "fraction = 0.0 is not possible; allowed: above 0",
        ),
        ("fraction = 0.9", "fraction = -1", "fraction = -1.0 is not possible; allowed: above 0, up to 1"),
        ('day_end = "22 h"', 'day_end = "8 h"', "at least a minute from day_start (28800), or 0"),
        ('day_end = "22 h"', "", "day_start = 28800.0 is not possible; allowed: only with day_end"),
        ('day_end = "22 h"', 'day_end = "25 h"', "day_end = 90000.0 is not possible; allowed: 0 to 86400"),
        (
            "[host]",
            "[compatibility]\nquantum = 60\n[host]",
            "quantum = 60.0 is not possible; allowed: 0 where",
        ),
    ],
)
def test_impossible_options_get_one_error_that_says_what_is_allowed(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = tmp_path / "bad.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_scenario(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_polling_to_the_last_draw_needs_exact_progress() -> None:
    app = {"progress": {"kind": "missing"}}
    data = {"compatibility": {"quantum": 60, "every_poll": True}, "project": [{"name": "P", "app": [app]}]}
    with pytest.raises(ConfigError, match="only with exact progress"):
        parse_scenario(data)
