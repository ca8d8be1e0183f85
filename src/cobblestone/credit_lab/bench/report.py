"""The report of a folder of results: tables and pictures, as Markdown, HTML and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobblestone.credit_lab.bench.measures import TARGETS, targets_of
from cobblestone.credit_lab.bench.pictures import draw_all
from cobblestone.credit_lab.bench.tasks import command_of
from cobblestone.credit_lab.bench.worlds import WORLDS
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.environment import typed_word
from cobblestone.ops.files import write_durably

Entry = dict[str, Any]  # Any: JSON

#: Columns of the table of honest scenarios, in this order.
HONEST_COLUMNS = (
    "spread",
    "spread_job",
    "device",
    "decile_low",
    "decile_high",
    "drift",
    "overhead",
    "days_final",
    "small_falls",
)

#: Tables of scenarios with attackers, and their figures.
GAINS = {
    "Gain of attackers": "gain",
    "Mean person": "gain_mean",
    "Worst decile of people": "gain_worst",
    "Credit per job, forged ones included": "per_slot",
    "What honest computers get beside attackers": "windfall",
    "95 % interval of the gain, bootstrap over people": "interval",
}

PICTURES = {
    "gains": "Gain by attack and system: what attackers get per true operation / what they get when honest",
    "cloud": "Credit / fair credit of honest computers, by speed",
    "drift": "Credit per true operation over time",
    "escrow": "Share of all credit that can still be taken back, over time",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the report."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_entries(folder: Path) -> list[Entry]:
    """Return the results in a folder, in the order of their names.

    Raises:
        ConfigError: there are none.
    """
    found = list[Entry]()
    for path in sorted((folder / "results").glob("*/*.json")):
        try:
            found.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            raise ConfigError(f"{path} is not a result; delete it, and run again") from None
    if not found:
        raise ConfigError(
            f"{folder}: there are no results; make some with: cobblestone creditbench run {typed_word(folder)}"
        )
    return found


def over_seeds(entries: Iterable[Entry]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the mean of each figure over the seeds, by (system, scenario); a figure that one seed lacks is absent."""
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        together.setdefault((entry["system"], entry["scenario"]), []).append(entry["figures"])
    found: dict[tuple[str, str], dict[str, float]] = {}
    for key, all_figures in together.items():
        names = [name for name, value in all_figures[0].items() if isinstance(value, int | float)]
        found[key] = {
            name: math.fsum(each[name] for each in all_figures) / len(all_figures)
            for name in names
            if all(each.get(name) is not None for each in all_figures)
        }
    return found


def marked(scenario: str, figure: str, figures: dict[str, float]) -> str:
    """Return a figure as text, with an exclamation mark if it misses its target; ``interval``: that of the gain."""
    if figure == "interval" and {"gain_low", "gain_high"} <= figures.keys():
        return f"{figures['gain_low']:.2f} … {figures['gain_high']:.2f}"
    value = figures.get(figure)
    if value is None:
        return "–"
    text = f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}"
    met = all(each.met(value) for each in targets_of(scenario) if each.figure == figure)
    return text if met else f"{text} !"


def tables(entries: Sequence[Entry]) -> list[Table]:
    """Return the tables of a report."""
    means = over_seeds(entries)
    systems = list(dict.fromkeys(entry["system"] for entry in entries))
    scenarios = list(dict.fromkeys(entry["scenario"] for entry in entries))
    attacks = [each for each in scenarios if "/" in each]
    honest = [each for each in WORLDS if each in scenarios]
    found = [_summary(means, systems)]
    for title, figure in GAINS.items() if attacks else ():
        rows = tuple(
            (each, *(marked(each, figure, means.get((system, each), {})) for system in systems))
            for each in attacks
        )
        found.append(Table(title, ("scenario", *systems), rows))
    for scenario in honest:
        rows = tuple(
            (system, *(marked(scenario, name, means[system, scenario]) for name in HONEST_COLUMNS))
            for system in systems
            if (system, scenario) in means
        )
        found.append(Table(f"{scenario}: {WORLDS[scenario].about}", ("system", *HONEST_COLUMNS), rows))
    return found


def _summary(means: dict[tuple[str, str], dict[str, float]], systems: list[str]) -> Table:
    """Return of each system the targets met / that could be met, and its largest gain."""
    rows = list[tuple[str, ...]]()
    for system in systems:
        of = {scenario: figures for (name, scenario), figures in means.items() if name == system}
        cells = [system]
        for figure in dict.fromkeys(each.figure for each in TARGETS):
            judged = [
                each.met(figures[figure])
                for scenario, figures in of.items()
                for each in targets_of(scenario)
                if each.figure == figure and figure in figures
            ]
            cells.append(f"{sum(judged)}/{len(judged)}" if judged else "–")
        gains = [(figures["gain"], scenario) for scenario, figures in of.items() if "gain" in figures]
        worst = max(gains, default=None)
        cells.append(f"{worst[0]:.2f} ({worst[1]})" if worst else "–")
        speed = [figures["microseconds"] for figures in of.values() if "microseconds" in figures]
        cells.append(f"{sorted(speed)[len(speed) // 2]:.2f}" if speed else "–")
        rows.append(tuple(cells))
    columns = ("system", *dict.fromkeys(each.figure for each in TARGETS), "largest gain", "µs a result")
    return Table("Targets met / scenarios in which they count", columns, tuple(rows))


def write_report(folder: Path) -> Path:
    """Write report.md, report.html, figures.csv and the pictures; return the first.

    Raises:
        ConfigError: there are no results.
    """
    entries = read_entries(folder)
    made = draw_all(entries, folder)
    text = _markdown(tables(entries), made, _how(entries))
    write_durably(folder / "report.md", text.encode())
    write_durably(folder / "report.html", _html(text).encode())
    write_durably(folder / "figures.csv", as_csv(entries).encode())
    return folder / "report.md"


def _how(entries: Sequence[Entry]) -> list[str]:
    """Return how the figures are made again: one command for all seeds of a size, if seeds follow each other."""
    sizes = list(dict.fromkeys(entry["size"] for entry in entries))
    seeds = list(dict.fromkeys(entry["seed"] for entry in entries))
    lines = [f"Sizes: {', '.join(sizes)}. Seeds: {', '.join(seeds)}."]
    lines.append("One figure, here the first, is made again by:")
    lines.append(f"    {command_of(entries[0])}")
    lines.append("with the SYSTEM, SCENARIO, SIZE and SEED of its row in figures.csv.")
    if faulty := sorted({entry["system"] for entry in entries if entry.get("problems")}):
        lines.append(f"Not all answers of {', '.join(faulty)} could be used; each result file says which.")
    return lines


def _markdown(found: Sequence[Table], pictures: Sequence[Path], how: Sequence[str]) -> str:
    lines = [
        "# creditbench",
        "",
        *(f"{each}\n" for each in how),
        "An exclamation mark: misses its target.",
        "",
    ]
    for picture in pictures:
        lines += [f"## {PICTURES[picture.stem]}", "", f"![{picture.stem}]({picture.name})", ""]
    for table in found:
        lines += [f"## {table.title}", "", f"| {' | '.join(table.columns)} |"]
        lines.append(f"| --- |{' ---: |' * (len(table.columns) - 1)}")
        lines += [f"| {' | '.join(row)} |" for row in table.rows]
        lines.append("")
    return "\n".join(lines)


_STYLE = (
    "body{font:15px sans-serif;max-width:80em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}"
    "pre{overflow-x:auto}td,th{padding:.2em .6em;border-bottom:1px solid #ccc;text-align:right}"
    "td:first-child,th:first-child{text-align:left}.miss{color:#a00;font-weight:bold}img{max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}td,th{border-color:#444}.miss{color:#ff6b6b}}"
)


def _html(markdown: str) -> str:
    """Return the report as a page; figures that miss their targets are marked."""
    from markdown_it import MarkdownIt

    body = str(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown))
    body = re.sub(r"<td([^<>]*)>([^<]*) !</td>", r'<td class="miss"\1>\2 !</td>', body)
    head = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=width=device-width>"
    return f"{head}<title>creditbench</title><style>{_STYLE}</style>{body}"


def as_csv(entries: Sequence[Entry]) -> str:
    """Return one line per result; a figure that a result has not is empty."""
    names = sorted(
        {
            name
            for entry in entries
            for name, value in entry["figures"].items()
            if isinstance(value, int | float)
        }
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("system", "scenario", "size", "seed", *names))
    for entry in entries:
        values = (entry["figures"].get(name) for name in names)
        head = (entry["system"], entry["scenario"], entry["size"], entry["seed"])
        writer.writerow((*head, *("" if value is None else f"{value:.4g}" for value in values)))
    return text.getvalue()
