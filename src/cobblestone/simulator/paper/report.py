"""Run everything behind the paper's figures, and report tables, figures, comparison and conclusions about the paper's claims.

The report of the reproduction: tables, figures, comparison, and what follows for the paper's
conclusions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from cobblestone.ops.files import write_durably
from cobblestone.simulator.paper.cells import (
    FEWEST,
    ONE_SEED,
    Cell,
    Mode,
    PaperFigure,
    as_task,
    figures,
    other_mode,
    run_cells,
)
from cobblestone.simulator.paper.conclusions import conclusions, needed_cells
from cobblestone.simulator.paper.figures import LABELS, Results, draw_figure, point, write_csv
from cobblestone.simulator.paper.golden import Golden, golden
from cobblestone.simulator.report.picture import load_matplotlib

TABLES = """
<h2>Tables 1 to 4: parameters</h2><div class='wide'><table><tr><th>Table</th><th>Parameter</th><th>Value</th></tr>
<tr><td>1 simulator</td><td>duration</td><td>100 days</td></tr>
<tr><td></td><td>time step (compatibility mode only)</td><td>60 s</td></tr>
<tr><td>2 project</td><td>resource share</td><td>100</td></tr>
<tr><td></td><td>latency bound</td><td>9 days; 65000 s (base slack 5) in the tight mix</td></tr>
<tr><td></td><td>job: estimate, mean, standard deviation</td><td>1.3e13, 1.3e13, 0 FLOPs (3.61 h on this host)</td></tr>
<tr><td>3 host</td><td>CPUs, speed</td><td>2, 1e9 FLOP/s</td></tr>
<tr><td></td><td>available fraction, mean available period</td><td>0.8, 1000 s</td></tr>
<tr><td></td><td>connection interval</td><td>0</td></tr>
<tr><td>4 client</td><td>CPU scheduling period</td><td>60 min</td></tr>
<tr><td></td><td>work buffer, minimum and additional</td><td>0.1 and 0.25 days</td></tr></table></div>
"""

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:1rem 0;font-size:14px}td,th{border:1px solid #ccc;padding:.25rem .5rem;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}td.off{background:#fde2d8}img{max-width:100%;height:auto}
.wide{overflow-x:auto}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}td,th{border-color:#444}td.off{background:#5a2a1c}}
"""


def write_report(
    path: Path,
    results: Results,
    golden: Sequence[Golden],
    shown: Sequence[tuple[PaperFigure, str]],
    *,
    seeds: int,
    precision: float = 0.0,
) -> None:
    """Write the HTML page; ``shown`` are the figures with the names of their pictures.  Without figures of the code of 2007
    there is no comparison with it.
    """
    runs = f"{min(seeds, FEWEST)} to {seeds} runs, until all intervals are within ±{precision:g},"
    if precision <= 0.0 or seeds <= FEWEST:
        runs = f"{seeds} run{'s' * (seeds > 1)}"
    followed = ", in the comparison also with those of the 2007 simulator, draw by draw" if golden else ""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>The 2007 scheduling paper, reproduced</title>",
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style>",
        "<h1>Scheduling policies for volunteer computing (2007), reproduced</h1>",
        f"<p>{runs} per point; intervals are 95 %. <em>Compatibility mode</em>: the polling and the faults of",
        f"2007, in the figures with our random numbers{followed}.",
        "<em>Corrected</em>: exact events and no known fault.</p>",
        conclusions(results),
        TABLES,
        "<h2>Figures</h2>",
        *(
            f"<p><img src='{escape(name)}' alt='{escape(described(figure, results))}'></p>"
            for figure, name in shown
        ),
        comparison(results, golden) if golden else "",
        "</html>",
    ]
    write_durably(path, "\n".join(parts).encode())


def described(figure: PaperFigure, results: Results) -> str:
    """Return a description of a figure in words: start and end of each curve, for each panel."""
    panels: list[str] = []
    for metric in figure.metrics:
        curves: list[str] = []
        for curve in figure.curves:
            (first, a), (last, b) = curve.points[0], curve.points[-1]
            start, end = (point(results, cell.key, metric).mean for cell in (a, b))
            top, at = max((point(results, cell.key, metric).mean, x) for x, cell in curve.points)
            most = f", {top:.2f} at most, at {at:g}" if top > max(start, end) + 0.01 else ""
            curves.append(f"{curve.label} from {start:.2f} at {first:g} to {end:.2f} at {last:g}{most}")
        panels.append(f"{LABELS[metric]}: {'; '.join(curves)}")
    return f"Figure {figure.number}, {figure.title}, by {figure.x_label}. {'. '.join(panels)}."


def comparison(results: Results, golden: Sequence[Golden]) -> str:
    """Return the table: paper's text, 2007 code, ours in compatibility mode, ours corrected."""
    rows: list[str] = []
    within = {0.001: 0, 0.01: 0, 0.02: 0}
    for item in golden:
        literal = point(results, item.cell.key, item.metric).mean
        off = abs(literal - item.value)
        for limit in within:
            within[limit] += off <= limit
        close = off <= (0.02 if item.chaotic else 0.01)
        rows.append(
            f"<tr><td>{item.figure}</td><td>{escape(item.where)}</td>"
            f"<td>{escape(item.metric.replace('_', ' '))}</td><td>{escape(item.paper)}</td>"
            f"<td class='n'>{item.value:.4f}</td><td class='n{'' if close else ' off'}'>{literal:.4f}</td>"
            f"<td class='n'>{_other_numbers(results, item)}</td>"
            f"<td class='n'>{_known(results, other_mode(item.cell, 'corrected'), item.metric)}</td></tr>"
        )
    head = (
        "<tr><th>Fig.</th><th>Cell</th><th>Metric</th><th>Paper's text</th><th>2007 code</th>"
        "<th>ours in compatibility mode</th><th>the same, other random numbers</th><th>ours corrected</th></tr>"
    )
    counts = ", ".join(f"{number} within {limit:g}" for limit, number in within.items())
    note = (
        f"<p>Of {len(golden)} figures of the 2007 code, ours in compatibility mode agree: {counts}. Those further off than"
        " 0.01 (0.02 where job sizes are random) are marked. That column is one run with the random numbers of the"
        " 2007 simulator; the next one gives mean and interval over other random numbers: where many projects or random"
        " sizes make a run chaotic, the single run of 2007 may lie far from the mean.</p>"
    )
    return (
        f"<h2>Paper, 2007 code, ours</h2>{note}<div class='wide'><table>{head}{''.join(rows)}</table></div>"
    )


def _other_numbers(results: Results, item: Golden) -> str:
    """Return the same cell with other random numbers; those with the corrected check are only run draw by draw."""
    if item.cell.mode != "literal":
        return ""
    return _known(results, other_mode(item.cell, "compatible"), item.metric)


def _known(results: Results, cell: Cell, metric: str) -> str:
    return str(point(results, cell.key, metric)) if cell.key in results else ""


#: Half width of the intervals with which a cell has runs enough.
PRECISION = 0.02
#: With so many cells it pays to compile what runs them.
MANY_CELLS = 50
#: Replicates of cells that no figure shows; they stand in the comparison only.
SEEDS_BESIDE_FIGURES = 2
NAMES = {"corrected": "corrected", "compatible": "compatibility mode"}


def shown_figures() -> list[tuple[PaperFigure, Mode, str]]:
    """Return the figures of the report with mode and file name, the tight mix and (Figures 1 and 4) the
    printed one.
    """
    modes: tuple[Mode, ...] = ("compatible", "corrected")
    found: list[tuple[PaperFigure, Mode, str]] = [
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
    pictures: list[tuple[PaperFigure, str]] = []
    for figure, mode, name in shown:
        write_csv(figure, results, folder / f"{name}.csv")
        draw_figure(figure, results, folder / f"{name}.png", subtitle=NAMES[mode])
        pictures.append((figure, f"{name}.png"))
    report = folder / "report.html"
    write_report(report, results, known, pictures, seeds=seeds, precision=precision)
    return report


def _cost(cell: Cell, seeds: int) -> float:
    """Return roughly how long a cell takes, in units of one run of one project."""
    projects = dict(cell.values).get("count", 1.0)
    if cell.mode in ONE_SEED:
        return 5.0 + 0.6 * projects
    return seeds * (1.0 + 0.05 * projects)
