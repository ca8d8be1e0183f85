"""What was measured of the peer, what must be reached, the table, and the history."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HISTORY = Path(__file__).parents[2] / ".bench" / "history.jsonl"


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What a figure is compared with."""

    title: str
    unit: str
    peer: str = "–"  #: BOINC's server on 2 cores; D: with a flush per commit, else its database in memory
    floor: float = 0.0  #: on SQLite; 0: none
    floor_postgresql: float = 0.0
    p99_ms: float = 0.0  #: which 99 % of the requests must take less than, on SQLite; 0: whatever they take
    p99_ms_postgresql: float = 0.0


YARDSTICKS: dict[str, Yardstick] = {
    "submission": Yardstick(
        title="submission, 1,000 jobs a request", unit="jobs/s", peer="27,100 (no HTTP)", floor=20_000
    ),
    "transition": Yardstick(
        title="transitioner, making results", unit="workunits/s", peer="5,500; 3,600 D", floor=20_000
    ),
    "transition_reports": Yardstick(
        title="transitioner, after reports", unit="workunits/s", peer="11,000-24,000", floor=20_000
    ),
    "validation": Yardstick(
        title="validator, quorum 2, files compared, credit", unit="workunits/s", peer="970-1,150", floor=5_000
    ),
    "empty": Yardstick(title="request that asks for nothing", unit="requests/s", peer="1,700-2,070"),
    "one": Yardstick(
        title="asks for one job",
        unit="requests/s",
        peer="120-130, 570-890; 470 D",
        floor=1_500,
        floor_postgresql=800,
        p99_ms=15,
        p99_ms_postgresql=15,
    ),
    "ten": Yardstick(
        title="asks for ten jobs",
        unit="jobs/s",
        peer="1,900-2,000; 1,236 D",
        floor=8_000,
        floor_postgresql=5_000,
    ),
    "crowd": Yardstick(title="a crowd of ten times the capacity", unit="served/s", peer="-"),
    "report": Yardstick(title="reports one result", unit="requests/s", peer="1,060-1,290"),
    "report_ten": Yardstick(title="reports ten results", unit="results/s", peer="2,960-3,070; 1,635 D"),
    "upload": Yardstick(title="upload of 1 kB", unit="files/s", peer="1,900, no flush", floor=2_000),
    "pipeline": Yardstick(
        title="whole pipeline, one job a request",
        unit="jobs/s",
        peer="110, 470",
        floor=1_000,
        floor_postgresql=500,
        p99_ms=10,
    ),
    "pipeline_ten": Yardstick(title="whole pipeline, ten jobs a request", unit="jobs/s", peer="220-380"),
    "export": Yardstick(title="export for statistics sites", unit="records/s", floor=17_000),
    "one_exporting": Yardstick(title="asks for one job during an export", unit="requests/s", floor=1_350),
}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured row."""

    name: str
    rate: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    cpu_us: float = 0.0  #: of the server's process (and its workers), per unit
    database_cpu_us: float = 0.0  #: of PostgreSQL's processes, per unit
    load_cpu_us: float = 0.0  #: of the load generator, per unit
    rss_mb: float = 0.0  #: the largest that was seen
    note: str = ""
    problems: tuple[str, ...] = ()  #: promises beside the rate that were not kept
    loop_ms: float = 0.0  #: time of `fixed_loop_ms` around the measurement


LOOP_MS = 5.0
"""What `fixed_loop_ms` gives on the machine of the floors at its best."""


def fixed_loop_ms() -> float:
    """Time a fixed loop, best of several, in ms: how fast the machine is at this moment, which its neighbours decide too."""
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        total = 0
        for number in range(100_000):
            total += number * number
        times.append((time.perf_counter() - start) * 1000)
    return min(times)


@dataclass
class Report:
    """All figures of one run of the bench."""

    database: str
    figures: list[Figure] = field(default_factory=list[Figure])
    _loop_ms: float = field(default_factory=fixed_loop_ms)

    def add(self, figures: Iterable[Figure]) -> None:
        """Take figures, note how fast the machine was before and after each, and print them as they come."""
        for found in figures:
            before, self._loop_ms = self._loop_ms, fixed_loop_ms()
            figure = replace(found, loop_ms=(before + self._loop_ms) / 2)
            self.figures.append(figure)
            print(self._line(figure), flush=True)

    def heading(self) -> str:
        """The names of the columns."""
        return (
            f"{'':44} {'measured':>10} {'unit':12} {'floor':>8}  {'p50':>7} {'p99 ms':>7} {'CPU µs':>7}"
            f" {'DB µs':>7} {'load µs':>7} {'MB':>5} {'loop ms':>7}  BOINC's server"
        )

    def _line(self, figure: Figure) -> str:
        stick = YARDSTICKS[figure.name]
        floor = self.floor(figure.name)
        verdict = " " if not floor else "✓" if figure.rate >= floor else "✗"

        def shown(value: float, digits: int = 0) -> str:
            return f"{value:,.{digits}f}" if value else "–"

        return (
            f"{stick.title:44} {figure.rate:10,.0f} {stick.unit:12} {shown(floor):>8}{verdict}"
            f" {shown(figure.p50_ms, 1):>7} {shown(figure.p99_ms, 1):>7} {shown(figure.cpu_us):>7}"
            f" {shown(figure.database_cpu_us):>7} {shown(figure.load_cpu_us):>7} {shown(figure.rss_mb):>5}"
            f" {shown(figure.loop_ms, 1):>7}  {stick.peer}" + (f"  [{figure.note}]" if figure.note else "")
        )

    def floor(self, name: str) -> float:
        """What must be reached on this database; 0: nothing."""
        stick = YARDSTICKS[name]
        return stick.floor if self.database == "sqlite" else stick.floor_postgresql

    def longest(self, name: str) -> float:
        """What 99 % of the requests must take less than on this database, in ms; 0: whatever they take."""
        stick = YARDSTICKS[name]
        return stick.p99_ms if self.database == "sqlite" else stick.p99_ms_postgresql

    def missed(self) -> list[str]:
        """Floors that were not reached, in words."""
        found: list[str] = []
        for figure in self.figures:
            floor, stick = self.floor(figure.name), YARDSTICKS[figure.name]
            if floor and figure.rate < floor:
                found.append(
                    f"{stick.title}: {figure.rate:,.0f} {stick.unit}, the floor is {floor:,.0f}"
                    f" ({figure.rate / floor - 1:+.0%}); the fixed loop took {figure.loop_ms:.1f} ms, {LOOP_MS:g} when the"
                    " floors were set"
                )
            most = self.longest(figure.name)
            if most and figure.p99_ms >= most:
                found.append(f"{stick.title}: p99 {figure.p99_ms:.1f} ms, must be below {most:g}")
            found += figure.problems
            if figure.rss_mb >= RSS_MB:
                found.append(f"{stick.title}: {figure.rss_mb:.0f} MB, must be below {RSS_MB:g}")
        return found


RSS_MB = 200.0


def keep(report: Report, conditions: dict[str, Any]) -> Path:
    """Add a run to the history; where it is."""
    HISTORY.parent.mkdir(exist_ok=True)
    with HISTORY.open("a") as file:
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": _commit(),
            "machine": machine(),
            "database": report.database,
            **conditions,
            "figures": [asdict(figure) for figure in report.figures],
        }
        file.write(json.dumps(line) + "\n")
    return HISTORY


def machine() -> str:
    """What a figure depends on most."""
    model = platform.machine()
    for text in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if text.startswith("model name"):
            model = text.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}"


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
