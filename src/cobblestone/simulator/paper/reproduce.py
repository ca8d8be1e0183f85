"""Run everything behind the paper's figures and write the results into a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cobblestone.simulator.paper.cells import (
    ONE_SEED,
    Cell,
    Figure,
    Mode,
    as_task,
    figures,
    other_mode,
    run_cells,
)
from cobblestone.simulator.paper.conclusions import needed_cells
from cobblestone.simulator.paper.draw import draw_figure, write_csv
from cobblestone.simulator.paper.golden import golden
from cobblestone.simulator.paper.report import write_report
from cobblestone.simulator.picture import load_matplotlib

#: Half width of the intervals with which a cell has runs enough.
PRECISION = 0.02
#: With so many cells it pays to compile what runs them.
MANY_CELLS = 50
#: Replicates of cells that no figure shows; they stand in the comparison only.
SEEDS_BESIDE_FIGURES = 2
NAMES = {"corrected": "corrected", "compatible": "compatibility mode"}


def shown_figures() -> list[tuple[Figure, Mode, str]]:
    """Return the figures of the report with mode and file name, the tight mix and (Figures 1 and 4) the
    printed one.
    """
    modes: tuple[Mode, ...] = ("compatible", "corrected")
    found: list[tuple[Figure, Mode, str]] = [
        (f, mode, f"figure{f.number}-{mode}") for mode in modes for f in figures(mode)
    ]
    printed = [f for f in figures("compatible", tight=False) if f.number in (1, 4)]
    found.extend((f, modes[0], f"figure{f.number}-printed-bound") for f in printed)
    return sorted(found, key=lambda item: (item[0].number, item[2]))


def reproduce(
    folder: Path,
    *,
    seeds: int = 10,
    precision: float = PRECISION,
    scheduler: str = "",
    workers: int | None = None,
    literal: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write ``report.html``, a PNG and a CSV per figure; what an interrupted run of the same code has left in
    ``folder`` is used.

    A cell has up to ``seeds`` runs, fewer if the intervals of all figures of merit are no wider than ``precision`` before.
    ``literal`` also follows the 2007 simulator draw by draw for the comparison (slow).
    """
    load_matplotlib()  # if it is missing, that is said before the work
    shown = shown_figures()
    cells: dict[str, Cell] = {}
    for figure, _, _ in shown:
        for curve in figure.curves:
            cells.update((cell.key, cell) for _, cell in curve.points)
    cells.update(needed_cells())
    known = golden() if literal else ()
    replicates = dict.fromkeys(cells, seeds)
    for item in known:
        cells[item.cell.key] = item.cell
        replicates[item.cell.key] = seeds
        right = other_mode(item.cell, "corrected")
        cells[right.key] = right
        replicates.setdefault(right.key, min(seeds, SEEDS_BESIDE_FIGURES))
    compiled = len(cells) >= MANY_CELLS
    # long runs first, so that no core waits at the end
    order = sorted(cells, key=lambda k: -_cost(cells[k], replicates[k]))
    tasks = {
        f"{key} x{replicates[key]} ±{precision:g}": as_task(
            cells[key], replicates[key], precision, compiled=compiled
        )
        for key in order
    }
    kept = run_cells(tasks, folder, scheduler=scheduler, workers=workers, progress=progress)
    results = {key.rpartition(" x")[0]: runs for key, runs in kept.items()}
    pictures: list[tuple[Figure, str]] = []
    for figure, mode, name in shown:
        write_csv(figure, results, folder / f"{name}.csv")
        draw_figure(figure, results, folder / f"{name}.png", subtitle=NAMES[mode])
        pictures.append((figure, f"{name}.png"))
    report = folder / "report.html"
    write_report(report, results, known, pictures, seeds=seeds, precision=precision)
    return report


def _cost(cell: Cell, seeds: int) -> float:
    """Return about how long a cell takes, in units of one run of one project."""
    projects = dict(cell.values).get("count", 1.0)
    if cell.mode in ONE_SEED:
        return 5.0 + 0.6 * projects
    return seeds * (1.0 + 0.05 * projects)
