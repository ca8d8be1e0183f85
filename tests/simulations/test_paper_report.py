"""The report of the reproduction: the comparison, the verdicts, the pictures, and going on after a stop."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cobblestone.simulator.paper import report as reproduction
from cobblestone.simulator.paper.cells import (
    BASE,
    MIXES,
    Cell,
    Mode,
    PaperFigure,
    as_task,
    figures,
    other_mode,
    run_cell,
    slack_cell,
    variance_cell,
)
from cobblestone.simulator.paper.claims import CLAIMS
from cobblestone.simulator.paper.conclusions import draw_conclusions, needed_cells, unmentioned
from cobblestone.simulator.paper.golden import golden
from cobblestone.simulator.paper.report import comparison, write_report

Runs = dict[str, list[dict[str, float]]]
METRICS = ("waste", "idleness", "share_violation", "monotony", "missed")


def _all_cells() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for figure, _, _ in reproduction.shown_figures():
        for curve in figure.curves:
            cells.update((cell.key, cell) for _, cell in curve.points)
    for item in golden():
        for mode in (item.cell.mode, "compatible", "corrected"):
            cell = other_mode(item.cell, mode)
            cells[cell.key] = cell
    return cells | needed_cells()


def _runs(value: float = 0.0) -> Runs:
    """Made-up results: every metric of every cell is ``value``, with a little spread over two seeds."""
    return {
        key: [dict.fromkeys(METRICS, value), dict.fromkeys(METRICS, value + 0.002)] for key in _all_cells()
    }


def test_the_comparison_has_all_four_columns_and_a_row_per_figure_with_intervals() -> None:
    html = comparison(_runs(0.5), golden())
    for column in ("Paper's text", "2007 code", "ours in compatibility mode", "ours corrected"):
        assert f"<th>{column}</th>" in html
    assert html.count("<tr><td>") == len(golden())
    assert "0.501 ±0.0" in html


def test_figures_that_agree_are_counted_and_others_marked() -> None:
    runs = _runs()
    items = [item for item in golden() if item.metric == "waste" and item.figure == 1][:5]
    for item, off_by in zip(items, (0.0, 0.0, 0.0, 0.005, 0.015), strict=True):
        runs[item.cell.key] = [dict.fromkeys(METRICS, item.value + off_by)]
    html = comparison(runs, items)
    assert "3 within 0.001, 4 within 0.01, 5 within 0.02" in html
    assert html.count("class='n off'") == 1


def _set(runs: Runs, waste: dict[tuple[str, str, Mode, float], float]) -> None:
    for (preset, policy, mode, number), value in waste.items():
        for cell in _all_cells().values():
            if (cell.preset, cell.policy, cell.mode) == (preset, policy, mode) and number in dict(
                cell.values
            ).values():
                runs[cell.key] = [dict.fromkeys(METRICS, value)] * 2


def _verdicts(runs: Runs) -> dict[str, str]:
    return {c.statement: c.verdict for c in draw_conclusions(runs)}


EDF = CLAIMS[0].sentence
CS1 = "CS1_WF2_WS2_JC2"


def test_verdicts_follow_from_differences_in_the_same_worlds() -> None:
    runs = _runs()
    assert _verdicts(runs)[EDF] == "does not hold"
    _set(runs, {("mix", CS1, "compatible", 65000.0): 0.12, ("mix", CS1, "corrected", 65000.0): 0.12})
    assert _verdicts(runs)[EDF] == "holds with the tight base bound, not with the printed one"
    judged = draw_conclusions(runs)[0]
    assert "With the faults 0.119 ±0.0" in judged.evidence
    assert "code of 2007" in judged.evidence
    _set(runs, {("mix", CS1, "corrected", 65000.0): 0.0})
    assert _verdicts(runs)[EDF] == "came from a fault"


def test_a_difference_that_may_be_chance_is_undecided() -> None:
    runs = _runs()
    for cell in _all_cells().values():
        if (cell.preset, cell.policy) == ("mix", CS1) and dict(cell.values)["bound"] == 65000.0:
            runs[cell.key] = [dict.fromkeys(METRICS, 0.05), dict.fromkeys(METRICS, 0.25)]
    assert _verdicts(runs)[EDF] == "undecided"
    assert {v for k, v in _verdicts(_one_run_each()).items() if k == EDF} == {"undecided"}


def _one_run_each() -> Runs:
    return {key: runs[:1] for key, runs in _runs(0.3).items()}


def test_two_sentences_are_false_by_the_code_of_2007_itself() -> None:
    runs = _runs()
    for cell in _all_cells().values():
        if cell.preset == "mix" and cell.policy != BASE:
            runs[cell.key] = [dict.fromkeys(METRICS, 0.3), dict.fromkeys(METRICS, 0.302)]
    found = [s for s, v in _verdicts(runs).items() if v == "false, by the code of 2007 too"]
    assert "Monotony of CS1 and CS2 is about equal" in found
    assert "Monotony of WF1 and WF2 is nearly identical" in found


def test_every_sentence_has_a_verdict_and_no_sentence_is_there_twice() -> None:
    sentences = [claim.sentence for claim in CLAIMS]
    assert len(sentences) == len(set(sentences)) >= 30
    assert {claim.figure for claim in CLAIMS} == {0, 1, 2, 3, 4, 5, 6}
    judged = draw_conclusions(_runs())
    assert all(c.verdict and c.evidence for c in judged)
    assert "not run" not in {c.verdict for c in judged}


def test_what_was_not_run_is_said_to_be_so() -> None:
    assert {c.verdict for c in draw_conclusions({})} == {"not run", "holds", "no matter for a simulation"}


def test_an_effect_of_which_no_sentence_speaks_is_shown() -> None:
    runs = _runs()
    assert unmentioned(runs) == []
    cell = variance_cell(10.0, BASE, "corrected")
    runs[cell.key] = [dict.fromkeys(METRICS, 0.480), dict.fromkeys(METRICS, 0.482)]
    shown = {(e.figure, e.x, e.metric) for e in unmentioned(runs)}
    assert shown == {(5, 10.0, "idleness"), (5, 10.0, "share_violation"), (5, 10.0, "monotony")}
    runs[cell.key] = [dict.fromkeys(METRICS, 0.1), dict.fromkeys(METRICS, 0.9)]
    assert unmentioned(runs) == []


def test_the_mixes_of_the_paper_are_all_there() -> None:
    assert tuple(range(1, 21)) == MIXES
    (first,) = (f for f in figures("compatible") if f.number == 1)
    assert [len(curve.points) for curve in first.curves] == [20, 20]


def test_the_report_shows_tables_pictures_and_comparison(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    shown = [(figure, f"f{figure.number}.png") for figure in figures("compatible")]
    write_report(report, _runs(), golden(), shown, seeds=2)
    html = report.read_text(encoding="utf-8")
    assert html.count("<img ") == 6
    assert all(text in html for text in ("Tables 1 to 4", "The paper's sentences", "2007 code, ours"))
    alternatives = re.findall(r"alt='([^']*)'", html)
    assert len(alternatives) == 6
    assert all("from 0.00 at 1 to 0.00 at" in text for text in alternatives)


def test_without_the_code_of_2007_there_is_no_comparison_with_it(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    write_report(report, _runs(), (), [], seeds=10, precision=0.02)
    html = report.read_text(encoding="utf-8")
    assert "2007 code, ours" not in html
    assert "3 to 10 runs, until all intervals are within ±0.02" in html


def test_a_cell_is_left_when_it_is_known_precisely_enough() -> None:
    cell = slack_cell(10.0, BASE, "corrected")
    task = as_task(cell, 10, precision=0.02)
    assert len(run_cell(task)) == 3
    assert len(run_cell({**task, "precision": -1.0, "seeds": [1, 2, 3, 4]})) == 4


def _two_points() -> list[tuple[PaperFigure, Mode, str]]:
    """Figure 2, cut down to two quick cells."""
    (figure,) = (f for f in figures("corrected") if f.number == 2)
    curve = next(c for c in figure.curves if c.label == BASE)
    points = tuple((x, cell) for x, cell in curve.points if x in (10.0, 60.0))
    return [(replace(figure, curves=(replace(curve, points=points),)), "corrected", "figure2-corrected")]


def test_a_run_writes_picture_table_and_report_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduction, "shown_figures", _two_points)
    monkeypatch.setattr(reproduction, "needed_cells", dict)
    seen: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        seen.append((done, total))

    report = reproduction.reproduce(tmp_path, seeds=2, workers=1, literal=False, progress=note)
    assert "draw by draw" not in report.read_text(encoding="utf-8")
    assert (tmp_path / "figure2-corrected.png").stat().st_size > 5000
    table = (tmp_path / "figure2-corrected.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 3
    assert table[1].endswith(",2")
    kept = (tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(kept) == 2
    (tmp_path / "runs.jsonl").write_text(kept[0] + '\n{"key": "cut o', encoding="utf-8")
    seen.clear()
    reproduction.reproduce(tmp_path, seeds=2, workers=1, literal=False, progress=note)
    assert seen[0] == (1, 2)
    assert seen[-1] == (2, 2)
