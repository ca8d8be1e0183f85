"""The bench in pairs: this tree and an earlier commit in turns, in the same minutes, and one table of both.

`make bench` ends with it.  The table is kept as `.bench/compare.md`, `compare.json` and `compare.png`.  A row that is more
than a tenth slower than in the earlier commit, by the median of the pairs, is named, and the exit status is 1.  Latencies are
shown only: the slowest hundredth of the requests differs by more from run to run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
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
MICROSECONDS = "µs of CPU"
LATENCY = "ms"
_CPU, _P99 = ", CPU of one", ", p99"  #: what follows the name of a row of the server
COMMANDS = {"cobblestone --help": ["--help"], "cobblestone client status": ["client", "status"]}
COMMAND_SECONDS = 0.2
NAMED = 0.9  #: a smaller ratio of speeds is a regression
_SIMULATOR = (
    "import json; from tests.bench import bench_simulator as bench; print(json.dumps(bench.figures()))"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table: medians, and the ratios of speeds of the pairs."""

    title: str
    unit: str
    floor: float  #: of a rate the least, of times the most; 0: none
    here: float = 0.0
    earlier: float | None = None  #: None: that commit has no such row
    ratios: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the earlier commit; the median."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def less_is_better(self) -> bool:
        """Whether it is a time."""
        return self.unit in (SECONDS, MICROSECONDS, LATENCY)

    @property
    def slower(self) -> bool:
        """Whether it is to be named."""
        return self.unit != LATENCY and self.ratio is not None and self.ratio < NAMED


def commit_in(folder: Path, commit: str) -> Path:
    """Write out a commit; where it is."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def rates(tree: Path, options: list[str]) -> dict[str, float]:
    """Measure the server of a tree; rates, CPU times and latencies."""
    _run(tree, ["-m", "tests.bench.bench_server", *options])
    line = (tree / ".bench" / figures.HISTORY.name).read_text().splitlines()[-1]
    found: dict[str, float] = {}
    for each in json.loads(line)["figures"]:
        name = each["name"]
        found[name] = each["rate"]
        if each["cpu_us"]:
            found[name + _CPU] = each["cpu_us"]
        if figures.YARDSTICKS[name].p99_ms:
            found[name + _P99] = each["p99_ms"]
    return found


def seconds(tree: Path) -> dict[str, float]:
    """Measure the simulator of a tree; seconds of CPU, by row."""
    found: dict[str, float] = json.loads(_run(tree, ["-c", _SIMULATOR]).splitlines()[-1])
    return found


def starts(tree: Path) -> dict[str, float]:
    """Measure how long commands of a tree take to answer, of which the second finds no client; the least of several."""
    return {title: min(_start(tree, arguments) for _ in range(5)) for title, arguments in COMMANDS.items()}


def _start(tree: Path, arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as home:
        subprocess.run(
            [sys.executable, "-m", "cobblestone", *arguments], check=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(tree / "src"), "HOME": home},
        )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
    here: list[dict[str, float]], earlier: list[dict[str, float]], row: Callable[[str], Row]
) -> list[Row]:
    """Return a row for each figure; ``row`` knows its title, unit and floor."""
    found: list[Row] = []
    for name in here[0]:
        ratios = [one[name] / other[name] for one, other in zip(here, earlier, strict=True) if name in other]
        empty = row(name)
        found.append(
            replace(
                empty,
                here=statistics.median(each[name] for each in here),
                earlier=statistics.median(each[name] for each in earlier) if name in earlier[0] else None,
                ratios=tuple(1 / each for each in ratios) if empty.less_is_better else tuple(ratios),
            )
        )
    return found


def server_row(name: str, database: str) -> Row:
    """Return a row of the server, not yet measured."""
    report = figures.Report(database=database)
    for what, unit in ((_CPU, MICROSECONDS), (_P99, LATENCY)):
        if name.endswith(what):
            of = name.removesuffix(what)
            floor = report.longest(of) if unit == LATENCY else 0.0
            return Row(title=figures.YARDSTICKS[of].title + what, unit=unit, floor=floor)
    stick = figures.YARDSTICKS[name]
    return Row(title=stick.title, unit=stick.unit, floor=report.floor(name))


def simulator_row(name: str) -> Row:
    """Return a row of the simulator, not yet measured."""
    return Row(title=name, unit=SECONDS, floor=bench_simulator.CEILINGS.get(name, 0.0))


def start_row(name: str) -> Row:
    """Return a row of a command, not yet measured."""
    return Row(title=name, unit=SECONDS, floor=COMMAND_SECONDS)


def table(rows: list[Row], commit: str) -> str:
    """Return all rows as a table in Markdown."""
    lines = [
        f"| {figures.machine()} | floor | here | {commit} | times as fast | of the pairs |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        digits = {SECONDS: 2, LATENCY: 1}.get(row.unit, 0)
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
        color = "#b3403a" if row.slower else "#5a7d8c"
        axes.barh(place, (row.ratio or 0) - 1, left=1, color=color, height=0.6)
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


OTHERS: dict[str, tuple[Callable[[Path], dict[str, float]], Callable[[str], Row]]] = {
    "simulator": (seconds, simulator_row),
    "start": (starts, start_row),
}


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
        "--rows",
        default=",".join([*bench_server.GROUPS, *OTHERS]),
        help=f"as of the bench, and {', '.join(OTHERS)}",
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
        if groups := [name for name in names if name not in OTHERS]:
            options = ["--rows", ",".join(groups), "--seconds", chosen.seconds, "--database", chosen.database]
            measured = in_turns(trees, chosen.pairs, partial(rates, options=options))
            rows += rows_of(*measured, partial(server_row, database=chosen.database))
        for name, (measure, row) in OTHERS.items():
            if name in names:
                rows += rows_of(*in_turns(trees, chosen.pairs, measure), row)
    keep(rows, commit)
    slower = [f"{row.title} ({row.ratio:.2f})" for row in rows if row.slower]
    if slower:
        raise SystemExit(f"slower than {commit}: {', '.join(slower)}")


if __name__ == "__main__":
    main()
