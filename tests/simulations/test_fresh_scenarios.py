"""Random scenarios, and what is said of a policy on them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cobblestone.cli import build
from cobblestone.simulator.frontier import fresh
from cobblestone.simulator.frontier.fresh import (
    FIGURES,
    PROGRESS,
    as_text,
    changes,
    random_scenario,
    verdicts,
)
from cobblestone.simulator.host.run import require_sane_number_of_jobs

OURS, THEIRS = "CS3_WF3_WS2_JC2", "CS2_WF2_WS2_JC2"


def test_a_seed_and_a_number_give_one_scenario_and_others_give_others() -> None:
    assert random_scenario(7, 3) == random_scenario(7, 3)
    assert random_scenario(7, 3) != random_scenario(7, 4)
    assert random_scenario(7, 3) != random_scenario(8, 3)


def test_scenarios_differ_in_all_that_they_may_differ_in_and_all_can_be_run() -> None:
    drawn = [random_scenario(1, number) for number in range(300)]
    for scenario in drawn:
        require_sane_number_of_jobs(scenario.check())
    apps = [app for scenario in drawn for project in scenario.projects for app in project.apps]
    assert {app.progress.kind for app in apps} == {kind for kind, _, _ in PROGRESS}
    assert {app.sizes.kind for app in apps} == {"normal", "lognormal", "pareto", "two_humped"}
    assert {len(scenario.projects) for scenario in drawn} == {1, 2, 3, 4, 6, 8, 12}
    hosts = [scenario.host for scenario in drawn]
    assert any(host.availability.has_hours for host in hosts)
    assert any(host.connection_interval for host in hosts)
    assert any(app.checkpoint_period for app in apps)
    assert {host.ncpus for host in hosts} == {1, 2, 4}


def runs(
    useful: list[list[float]], *, waste: float = 0.1, share: float = 0.1
) -> list[list[dict[str, float]]]:
    """Figures of some scenarios and seeds."""
    rest = dict.fromkeys(FIGURES, 0.0) | {"waste": waste, "avoidable": waste, "share_violation": share}
    return [[rest | {"useful": value, "cpu_seconds": 1.0} for value in seeds] for seeds in useful]


def test_a_scenario_offends_in_its_mean_and_surely_in_its_interval() -> None:
    base = runs([[0.9, 0.9, 0.9], [0.9, 0.9, 0.9], [0.9, 0.9, 0.9]])
    ours = runs([[0.8, 0.8, 0.8], [0.7, 0.9, 0.95], [0.895, 0.895, 0.895]])
    verdict = verdicts(base, ours)[0]
    assert verdict.holds == "no"
    assert verdict.found == "fails in 2 of 3 (1 surely)"
    assert [c.scenario for c in verdict.offenders] == ["0", "1"]
    shaky = verdicts(base[1:2], ours[1:2])[0]
    assert shaky.holds == "undecided"
    assert verdicts(base, base)[0].holds == "yes"


def test_waste_is_judged_against_half_of_theirs() -> None:
    even = [[0.5, 0.5], [0.5, 0.5]]
    halved = verdicts(runs(even, waste=0.2), runs(even, waste=0.1))[1]
    assert (halved.holds, halved.offenders) == ("yes", ())
    not_halved = verdicts(runs(even, waste=0.2), runs(even, waste=0.11))[1]
    assert not_halved.holds == "no"
    assert len(not_halved.offenders) == 2


def test_the_mean_of_the_share_violation_has_an_interval_over_scenarios() -> None:
    even = [[0.5], [0.5]]
    base, worse = runs(even, share=0.1), runs(even, share=0.2)
    assert verdicts(base, worse)[3].holds == "no"
    assert verdicts(worse, base)[3].holds == "yes"
    mixed = [*runs(even[:1], share=0.0), *runs(even[:1], share=0.3)]
    assert verdicts(base, mixed)[3].holds == "undecided"
    assert [round(c.change.mean, 3) for c in changes(base, mixed, "share_violation")] == [-0.1, 0.2]


def test_the_text_names_demands_verdicts_and_offenders() -> None:
    base, ours = runs([[0.9] * 2] * 10), runs([[0.5] * 2] * 10)
    text = as_text({OURS: ours, THEIRS: base}, OURS, 42)
    assert "10 random scenarios of seed 42, 2 runs each" in text
    assert f"Against {THEIRS}:" in text
    assert "| useful part nowhere lower by more than 0.01 | no | fails in 10 of 10 (10 surely) |" in text
    assert "* 42/0: 0.900 → 0.500 (-0.4000 ±0.0000)" in text
    assert "* and 2 more" in text


def test_the_command_runs_fresh_scenarios_and_goes_on_from_what_it_has(tmp_path: Path) -> None:
    arguments = [
        "frontier",
        str(tmp_path),
        "--fresh",
        "11",
        "--scenarios",
        "2",
        "--seeds",
        "2",
        "--workers",
        "1",
    ]
    first = CliRunner().invoke(build(), arguments)
    assert first.exit_code == 0, first.output
    assert "2 random scenarios of seed 11, 2 runs each" in first.stdout
    kept = (tmp_path / "fresh.jsonl").read_text(encoding="utf-8")
    assert len(kept.splitlines()) == 8
    with (tmp_path / "fresh.csv").open(encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) == 8
    assert (tmp_path / "fresh.png").stat().st_size > 10_000
    again = CliRunner().invoke(build(), arguments)
    assert again.stdout == first.stdout
    assert (tmp_path / "fresh.jsonl").read_text(encoding="utf-8") == kept


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fresh", "1", "--only", "stdev"], "--only selects from the fixed set"),
        (["--against", "CS1_WF1_WS1_JC1", "--against", THEIRS], "give one --against, or use --fresh"),
        (["--fresh", "1", "--against", "CS9"], "is not a policy"),
    ],
)
def test_options_that_do_not_go_together_get_one_error(tmp_path: Path, options: list[str], said: str) -> None:
    found = CliRunner().invoke(build(), ["frontier", str(tmp_path / "out"), *options])
    assert found.exit_code == 2
    assert said in found.stderr


def test_a_point_of_the_picture_is_red_only_where_ours_is_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(useful: float, waste: float) -> dict[str, float]:
        return dict.fromkeys(FIGURES, 0.0) | {"useful": useful, "waste": waste}

    drawn: list[Any] = []
    monkeypatch.setattr(fresh, "save_picture", lambda plt, fig, path, dots: drawn.append(fig))
    equal, better, worse = [run(0.9, 0.0)] * 2, [run(1.0, 0.0)] * 2, [run(0.8, 0.1)] * 2
    fresh.draw_fresh({"ours": [equal, better, worse], "theirs": [equal] * 3}, "ours", tmp_path / "f.png")
    reds = [[bool(r > b) for r, _, b, _ in axes.collections[0].get_facecolors()] for axes in drawn[0].axes]
    assert reds == [[False, False, True], [False, False, True], [False] * 3, [False] * 3]
