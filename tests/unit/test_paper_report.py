"""The report of the reproduction: the comparison, the verdicts, the pictures, and going on after a stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cobblestone.simulator.paper import reproduce as reproduction
from cobblestone.simulator.paper.cells import BASE, MIXES, Cell, Figure, Mode, figures, other_mode
from cobblestone.simulator.paper.conclusions import draw_conclusions
from cobblestone.simulator.paper.golden import golden
from cobblestone.simulator.paper.report import comparison, write_report

Runs = dict[str, list[dict[str, float]]]
METRICS = ("waste", "idleness", "share_violation", "monotony")


def _all_cells() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for figure, _, _ in reproduction.shown_figures():
        for curve in figure.curves:
            cells.update((cell.key, cell) for _, cell in curve.points)
    for item in golden():
        for mode in (item.cell.mode, "compatible", "corrected"):
            cell = other_mode(item.cell, mode)
            cells[cell.key] = cell
    return cells


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
                runs[cell.key] = [dict.fromkeys(METRICS, value)]


def test_verdicts_follow_from_the_figures() -> None:
    flat = {c.statement: c.verdict for c in draw_conclusions(_runs())}
    assert set(flat.values()) <= {"does not hold", "came from a fault", "holds"}
    runs = _runs()
    cs1 = "CS1_WF2_WS2_JC2"
    _set(runs, {("mix", cs1, "compatible", 65000.0): 0.12, ("mix", cs1, "corrected", 65000.0): 0.12})
    judged = draw_conclusions(runs)[0]
    assert judged.verdict == "holds with the tight base bound, not with the printed one"
    assert "0.120 : 0.001" in judged.evidence
    _set(runs, {("mix", cs1, "corrected", 65000.0): 0.0})
    assert draw_conclusions(runs)[0].verdict == "came from a fault"


def test_what_was_not_run_is_said_to_be_so() -> None:
    assert {c.verdict for c in draw_conclusions({})} == {"not run"}


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
    assert all(text in html for text in ("Tables 1 to 4", "Which conclusions hold", "Paper, 2007 code, ours"))


def _two_points() -> list[tuple[Figure, Mode, str]]:
    """Figure 2, cut down to two quick cells."""
    (figure,) = (f for f in figures("corrected") if f.number == 2)
    curve = next(c for c in figure.curves if c.label == BASE)
    points = tuple((x, cell) for x, cell in curve.points if x in (10.0, 60.0))
    return [(replace(figure, curves=(replace(curve, points=points),)), "corrected", "figure2-corrected")]


def test_a_run_writes_picture_table_and_report_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduction, "shown_figures", _two_points)
    seen: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        seen.append((done, total))

    report = reproduction.reproduce(tmp_path, seeds=2, workers=1, literal=False, progress=note)
    assert report.is_file()
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
