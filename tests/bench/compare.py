"""The bench in pairs: this tree and an earlier commit in turns, in the same minutes, and one table of both.

`make bench` ends with it.  The table is kept as `.bench/compare.md`, `compare.json` and `compare.png`.  A row that is more
than a tenth slower than in the earlier commit, by the median of the pairs, is named, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from tests.bench import bench_server, bench_simulator, figures

from cobblestone.simulator.report.picture import load_matplotlib

ROOT = Path(__file__).parents[2]
SECONDS = "s of CPU"
NAMED = 0.9  #: a smaller ratio of speeds is a regression
_SIMULATOR = (
    "import json; from tests.bench import bench_simulator as bench; print(json.dumps(bench.figures()))"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table: medians, and the ratios of speeds of the pairs."""

    title: str
    unit: str
    floor: float  #: of a rate the least, of CPU seconds the most; 0: none
    here: float = 0.0
    earlier: float | None = None  #: None: that commit has no such row
    ratios: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the earlier commit; the median."""
        return statistics.median(self.ratios) if self.ratios else None


def commit_in(folder: Path, commit: str) -> Path:
    """Write out a commit; where it is."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def rates(tree: Path, options: list[str]) -> dict[str, float]:
    """Measure the server of a tree; its rates by row."""
    _run(tree, ["-m", "tests.bench.bench_server", *options])
    line = (tree / ".bench" / figures.HISTORY.name).read_text().splitlines()[-1]
    return {each["name"]: each["rate"] for each in json.loads(line)["figures"]}


def seconds(tree: Path) -> dict[str, float]:
    """Measure the simulator of a tree; seconds of CPU, by row."""
    found: dict[str, float] = json.loads(_run(tree, ["-c", _SIMULATOR]).splitlines()[-1])
    return found


def _run(tree: Path, arguments: list[str]) -> str:
    path = os.pathsep.join([str(tree / "src"), str(tree)])
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=os.environ | {"PYTHONPATH": path}, check=False, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nthe bench of {tree} ended with {done.returncode}")
    return done.stdout


def in_turns(
    trees: tuple[Path, Path], pairs: int, measure: Callable[[Path], dict[str, float]]
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Measure both trees so many times, which one first in turns; figures here, and of the earlier commit."""
    found: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    for number in range(pairs):
        for place in (0, 1) if number % 2 else (1, 0):
            print(f"pair {number + 1} of {pairs}: {('here', 'earlier')[place]}", flush=True)
            found[place].append(measure(trees[place]))
    return found


def rows_of(
    here: list[dict[str, float]],
    earlier: list[dict[str, float]],
    row: Callable[[str], Row],
    *,
    less_is_better: bool,
) -> list[Row]:
    """Return a row for each figure; ``row`` knows its title, unit and floor."""
    found: list[Row] = []
    for name in here[0]:
        ratios = [one[name] / other[name] for one, other in zip(here, earlier, strict=True) if name in other]
        found.append(
            replace(
                row(name),
                here=statistics.median(each[name] for each in here),
                earlier=statistics.median(each[name] for each in earlier) if name in earlier[0] else None,
                ratios=tuple(1 / each for each in ratios) if less_is_better else tuple(ratios),
            )
        )
    return found


def server_row(name: str, database: str) -> Row:
    """Return a row of the server, not yet measured."""
    stick = figures.YARDSTICKS[name]
    return Row(title=stick.title, unit=stick.unit, floor=figures.Report(database=database).floor(name))


def simulator_row(name: str) -> Row:
    """Return a row of the simulator, not yet measured."""
    return Row(title=name, unit=SECONDS, floor=bench_simulator.CEILINGS.get(name, 0.0))


def table(rows: list[Row], commit: str) -> str:
    """Return all rows as a table in Markdown."""
    lines = [
        f"| {figures.machine()} | floor | here | {commit} | times as fast | of the pairs |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        digits = 2 if row.unit == SECONDS else 0
        earlier = "–" if row.earlier is None else f"{row.earlier:,.{digits}f}"
        ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
        floor = f"{row.floor:,.{digits}f}" if row.floor else "–"
        lines.append(
            f"| {row.title} | {floor} | {row.here:,.{digits}f} {row.unit} | {earlier} | {ratio} |"
            f" {' '.join(f'{each:.2f}' for each in sorted(row.ratios))} |"
        )
    return "\n".join(lines) + "\n"


def draw(rows: list[Row], commit: str, path: Path) -> None:
    """Draw how many times as fast each row is; each pair is a point."""
    pyplot = load_matplotlib()
    shown = [row for row in rows if row.ratio is not None][::-1]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.32 * len(shown)), layout="constrained")
    for place, row in enumerate(shown):
        slow = (row.ratio or 0) < NAMED
        axes.barh(place, (row.ratio or 0) - 1, left=1, color="#b3403a" if slow else "#5a7d8c", height=0.6)
        axes.plot(row.ratios, [place] * len(row.ratios), ".", color="#222222", markersize=4)
    axes.axvline(1, color="#222222", linewidth=0.8)
    axes.axvline(NAMED, color="#b3403a", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(shown)), [row.title for row in shown], fontsize=8)
    axes.set_xlabel(f"times as fast as {commit}")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def keep(rows: list[Row], commit: str) -> None:
    """Print the table, and keep it as Markdown, JSON and picture."""
    folder = figures.HISTORY.parent
    folder.mkdir(exist_ok=True)
    (folder / "compare.md").write_text(table(rows, commit))
    about = {
        "machine": figures.machine(),
        "earlier": commit,
        "rows": [asdict(r) | {"ratio": r.ratio} for r in rows],
    }
    (folder / "compare.json").write_text(json.dumps(about, indent=1) + "\n")
    draw(rows, commit, folder / "compare.png")
    print(table(rows, commit), f"kept: {folder}/compare.md, compare.json, compare.png", sep="")


def main() -> None:
    """Measure both trees in turns."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--against", default="HEAD~1", metavar="COMMIT", help="the earlier commit (default: the last but one)"
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument(
        "--rows", default=",".join([*bench_server.GROUPS, "simulator"]), help="as of the bench, and simulator"
    )
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seconds", default="8", help="length of each measured run")
    chosen = parser.parse_args()
    names = chosen.rows.split(",")
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", chosen.against],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="cobblestone-bench-") as folder:
        trees = ROOT, commit_in(Path(folder), commit)
        if groups := [name for name in names if name != "simulator"]:
            options = ["--rows", ",".join(groups), "--seconds", chosen.seconds, "--database", chosen.database]
            measured = in_turns(trees, chosen.pairs, partial(rates, options=options))
            rows += rows_of(*measured, partial(server_row, database=chosen.database), less_is_better=False)
        if "simulator" in names:
            rows += rows_of(*in_turns(trees, chosen.pairs, seconds), simulator_row, less_is_better=True)
    keep(rows, commit)
    slower = [f"{row.title} ({row.ratio:.2f})" for row in rows if row.ratio is not None and row.ratio < NAMED]
    if slower:
        raise SystemExit(f"slower than {commit}: {', '.join(slower)}")


if __name__ == "__main__":
    main()
