"""Two policies on a set of scenarios: what is run, kept, called worse and shown."""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cobblestone.cli import build
from cobblestone.ops.installation import how_to_install
from cobblestone.simulator.code_version import code_version, digest
from cobblestone.simulator.frontier.compare import (
    METRICS,
    MetricDifference,
    draw_frontier,
    frontier_text,
    mean_over_scenarios,
    scenarios,
)
from cobblestone.simulator.report.picture import load_matplotlib
from cobblestone.simulator.report.statistics import estimate


def difference(
    base: list[float], ours: list[float], *, metric: str = "waste", name: str = "x"
) -> MetricDifference:
    change = estimate([b - a for a, b in zip(base, ours, strict=True)])
    return MetricDifference(
        scenario=name, metric=metric, base=estimate(base), ours=estimate(ours), change=change
    )


def test_the_set_has_all_mixes_slacks_buffers_errors_and_spreads() -> None:
    names = list(scenarios("CS3_WF3_WS2_JC2"))
    for kind, count in (("printed mix", 20), ("tight mix", 20), ("slack", 40), ("error", 8), ("stdev", 5)):
        assert sum(name.startswith(kind) for name in names) == count
    assert len(names) == 93


def test_worse_is_what_exceeds_a_hundredth_and_surely_worse_what_does_so_with_its_interval() -> None:
    assert not difference([0.10, 0.12], [0.105, 0.125]).worse
    steady = difference([0.10, 0.20, 0.30], [0.15, 0.25, 0.35])
    assert (steady.worse, steady.surely_worse) == (True, True)
    shaky = difference([0.10, 0.20, 0.30], [0.05, 0.50, 0.20])
    assert (shaky.worse, shaky.surely_worse) == (True, False)


def test_the_table_marks_what_is_worse_and_gives_the_means() -> None:
    found = [difference([0.1, 0.1], [0.1, 0.1], metric=m, name="calm") for m in METRICS]
    found += [difference([0.3, 0.3], [0.1, 0.1], metric=m, name="better") for m in METRICS[:3]]
    found.append(difference([0.1, 0.1], [0.2, 0.2], metric=METRICS[3], name="better"))
    assert mean_over_scenarios(found, "waste") == pytest.approx((0.2, 0.1))
    found.append(difference([2.0, 2.0], [1.0, 1.0], metric="rpcs_per_job", name="calm"))
    text = frontier_text(found, "ours", "base")
    assert "| RPCs per job | 2 → 1 (-50 %) |" in text
    assert "| calm | 0.100 | 0.100 | 0.100 | 0.100 |" in text
    assert "0.100 → 0.200 (+0.100 ±0.000) !! |" in text
    assert "Mean waste over 2 scenarios: 0.2000 → 0.1000 (-50 %)." in text
    assert (
        "Worse by more than 0.01 in 1 of 8 figures (1 surely):\n\n* better, monotony: 0.100 → 0.200" in text
    )


ARGUMENTS = ("--only", "slack 5, buffer 7", "--workers", "1", "--seeds")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which two policies were compared with two seeds."""
    folder = tmp_path_factory.mktemp("compared")
    first = CliRunner().invoke(build(), ["frontier", str(folder), *ARGUMENTS, "2"])
    assert first.exit_code == 0, first.output
    assert "| slack 5, buffer 7 h | 0.000 |" in first.stdout
    return folder


def test_the_command_writes_all_files_and_goes_on_from_what_it_has(compared: Path, tmp_path: Path) -> None:
    shutil.copytree(compared, tmp_path, dirs_exist_ok=True)
    kept = (tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(kept) == 4
    assert CliRunner().invoke(build(), ["frontier", str(tmp_path), *ARGUMENTS, "3"]).exit_code == 0
    more = (tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert more[:4] == kept
    assert len(more) == 6
    with (tmp_path / "frontier.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["metric"] for row in rows} >= set(METRICS)
    assert {row["seeds"] for row in rows} == {"3"}
    assert (tmp_path / "frontier.md").read_text(encoding="utf-8").startswith("CS2_WF2_WS2_JC2 → ")
    assert (tmp_path / "frontier.png").read_bytes().startswith(b"\x89PNG")


def test_results_of_other_code_are_run_anew(compared: Path, tmp_path: Path) -> None:
    own = (compared / "runs.jsonl").read_text(encoding="utf-8")
    assert own.count(code_version()) == 4
    runs = tmp_path / "runs.jsonl"
    runs.write_text(own.replace(code_version(), "0.0.9 other"), encoding="utf-8")
    assert CliRunner().invoke(build(), ["frontier", str(tmp_path), *ARGUMENTS, "2"]).exit_code == 0
    lines = runs.read_text(encoding="utf-8").splitlines()
    assert ["0.0.9 other" in line for line in lines] == [True] * 4 + [False] * 4


def test_every_change_of_the_source_changes_its_digest(tmp_path: Path) -> None:
    seen = {digest([tmp_path])}
    for name, text in (("a.py", ""), ("a.py", "x = 1"), ("b.py", "y = 2"), ("c/d.py", "z = 3")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        seen.add(digest([tmp_path]))
    assert len(seen) == 5
    (tmp_path / "notes.txt").write_text("no source", encoding="utf-8")
    assert digest([tmp_path]) in seen


def test_without_matplotlib_that_is_said_before_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    found = CliRunner().invoke(build(), ["frontier", str(tmp_path / "out")])
    assert found.exit_code == 2
    assert how_to_install("lab") in found.stderr
    assert not (tmp_path / "out").exists()


def test_the_scenario_that_moves_most_has_the_label_and_those_that_stay_have_none(tmp_path: Path) -> None:
    found: list[MetricDifference] = []
    for name, ours in (("stays", 0.98), ("moves a little", 0.9), ("moves", 0.2)):
        found += [difference([0.98, 0.98], [ours, ours], metric=m, name=name) for m in METRICS[:1]]
        found += [difference([0.0, 0.0], [0.0, 0.0], metric=m, name=name) for m in METRICS[1:]]
    path = tmp_path / "frontier.svg"
    with load_matplotlib().rc_context({"svg.fonttype": "none"}):
        draw_frontier(found, path, policy="ours", base="base")
    text = path.read_text(encoding="utf-8")
    # each stands once at its line on the right; the label on the left comes on top
    assert [text.count(f">{name}</text>") for name in ("stays", "moves a little", "moves")] == [1, 1, 2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "absent"], "only = 'absent': no scenario's name starts like this"),
        (["--policy", "CS9"], "'CS9' is not a policy"),
        (["--only", "slack 5, buffer 7", "--scheduler", "x://y"], "scheduler = 'x://y'"),
    ],
)
def test_what_cannot_be_compared_gets_one_error(tmp_path: Path, options: list[str], said: str) -> None:
    found = CliRunner().invoke(build(), ["frontier", str(tmp_path / "out"), *options])
    assert found.exit_code == 2
    assert said in found.stderr.splitlines()[-1]
