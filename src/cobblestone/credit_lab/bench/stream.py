"""Recorded streams: anybody's system, in any language, reads events from a Parquet file and writes prices to another.

Columns of a stream, in the order of time; what does not belong to an event is 0 (figures: not a number):

================  ==============================================================================================
time              Unix seconds
event             issue, report, refuse, verdict, release
job, host         numbers; a host is an identity of a computer
app, version      numbers, with issue and release
stratum           tag by which the scheduler routes, -1: none; with issue
account           owner of the host as the project knows it; with issue
quorum            results that must agree; with issue
estimate          operations; with issue
run_time, cpu_time, peak, benchmark, ncpus, counted, progress, sent, gpu, own_build
                  with report: seconds, seconds, operations per second of the devices used, and of one processor, processors
                  used, operations counted by the program, attested share of the work, when it was sent, flags
refusal           with refuse: 1 abort, 2 error, 3 time-out
valid             with verdict: 1 or 0
================  ==============================================================================================

Prices: ``job``, ``host``, ``price`` and, if it was not final at once, ``final_time`` (Unix seconds; infinite: never).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from cobblestone.credit_lab.joblog import ERROR, INVALID, VALID
from cobblestone.credit_lab.systems.events import Desk
from cobblestone.credit_lab.systems.pay import Pay, Watcher
from cobblestone.credit_lab.systems.tape import GPU, JOB, OWN_BUILD, PLAIN, RESULT, Tape
from cobblestone.domain.errors import ConfigError

np: Any = import_module("numpy")  # Any: its types do not follow through arithmetic

KINDS = ("issue", "report", "refuse", "verdict", "release")
ISSUE, REPORT, REFUSE, VERDICT, RELEASE = range(len(KINDS))
_WHOLE = (
    "job",
    "host",
    "app",
    "version",
    "stratum",
    "account",
    "quorum",
    "ncpus",
    "gpu",
    "own_build",
    "refusal",
    "valid",
)
_FIGURES = ("time", "estimate", "run_time", "cpu_time", "peak", "benchmark", "counted", "progress", "sent")
_REPORTED = {
    "run_time": "elapsed",
    "cpu_time": "cpu",
    "peak": "peak",
    "benchmark": "benchmark",
    "counted": "counted",
    "ncpus": "threads",
    "sent": "sent",
}
JOBS_AT_A_TIME = 100_000


def write_stream(tape: Tape, path: Path) -> int:
    """Write what a system may see of a tape; return the number of events.

    Raises:
        ConfigError: the file cannot be written.
    """
    arrow: Any = import_module("pyarrow")  # Any: PyArrow has no types
    parquet: Any = import_module("pyarrow.parquet")  # Any: PyArrow has no types
    rows, count = tape.results, 0
    starts = np.concatenate([[0], np.flatnonzero(np.diff(rows["job"])) + 1, [rows.size]])
    seen: set[int] = set()
    try:
        writer = None
        for first in range(0, starts.size - 1, JOBS_AT_A_TIME):
            last = min(first + JOBS_AT_A_TIME, starts.size - 1)
            columns = _events(tape, starts[first : last + 1], seen)
            columns["event"] = arrow.DictionaryArray.from_arrays(
                columns["event"].astype(np.int8), list(KINDS)
            )
            table = arrow.table(columns)
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            count += table.num_rows
        if writer is not None:
            writer.close()
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error
    return count


def _events(tape: Tape, starts: Any, seen: set[int]) -> dict[str, Any]:  # Any: arrays of NumPy
    """Return the columns of the events of some jobs: each result is issued and reported, then the verdicts follow."""
    rows = tape.results[starts[0] : starts[-1]]
    jobs = tape.jobs[rows["job"]]
    length: Any = np.diff(starts)
    lost = rows["outcome"] == ERROR
    job_of: Any = np.repeat(np.arange(length.size), length)
    judged = np.bincount(job_of, weights=~lost, minlength=length.size).astype(np.int64)
    begin = np.concatenate([[0], np.cumsum(2 * length + judged)])
    rank: Any = np.arange(rows.size) - np.repeat(starts[:-1] - starts[0], length)
    issue = begin[job_of] + 2 * rank
    before = np.cumsum(~lost) - ~lost
    verdict = (
        begin[job_of] + 2 * length[job_of] + before - np.repeat(before[starts[:-1] - starts[0]], length)
    )[~lost]
    n = int(begin[-1])
    columns: dict[str, Any] = {name: np.zeros(n, dtype=np.int64) for name in (*_WHOLE, "event")}
    columns |= {name: np.full(n, math.nan) for name in _FIGURES}
    for place in (issue, issue + 1):
        columns["time"][place], columns["job"][place], columns["host"][place] = (
            rows["time"],
            rows["job"],
            rows["identity"],
        )
    for name in ("app", "stratum", "estimate"):
        columns[name][issue] = jobs[name]
    columns["version"][issue], columns["quorum"][issue] = rows["version"], tape.quorum
    columns["account"][issue] = tape.accounts[rows["identity"]]
    columns["event"][issue + 1] = np.where(lost, REFUSE, REPORT)
    columns["refusal"][issue + 1] = np.where(lost, rows["refusal"], 0)
    told, good = (issue + 1)[~lost], rows[~lost]
    for name, field in _REPORTED.items():
        columns[name][told] = good[field]
    columns["progress"][told] = 1.0
    columns["gpu"][told], columns["own_build"][told] = good["kind"] == GPU, good["kind"] == OWN_BUILD
    columns["event"][verdict], columns["valid"][verdict] = VERDICT, good["outcome"] == VALID
    for name, values in (("time", good["time"]), ("job", good["job"]), ("host", good["identity"])):
        columns[name][verdict] = values
    return _with_releases(columns, seen)


def _with_releases(columns: dict[str, Any], seen: set[int]) -> dict[str, Any]:
    """Put a release before the first issue of each version."""
    versions, first = np.unique(columns["version"], return_index=True)
    new = [
        (int(at), int(each))
        for each, at in zip(versions, first, strict=True)
        if each and int(each) not in seen
    ]
    seen.update(each for _, each in new)
    places = [at for at, _ in new]
    found: dict[str, Any] = {}
    for name, values in columns.items():
        given = values[places] if name in ("time", "app", "version") else math.nan if name in _FIGURES else 0
        found[name] = np.insert(values, places, RELEASE if name == "event" else given)
    return found


class _Reader:
    """State of reading: what was issued and reported, and what was wrong."""

    def __init__(self, columns: dict[str, list[Any]], *, strict: bool) -> None:
        self.columns, self.desk = columns, Desk(strict=strict)
        self.issued: dict[tuple[int, int], int] = {}
        self.results: list[tuple[int, int, int]] = []  # line of issue, of report or refusal, outcome
        self.open: dict[tuple[int, int], int] = {}  # place in results of what waits for its verdict
        self.now = -math.inf

    def take(self, line: int, kind: str) -> None:
        key = self.columns["job"][line], self.columns["host"][line]
        time = self.columns["time"][line]
        name = f"job {key[0]}, host {key[1]}"

        def wrong(what: str) -> None:
            self.desk.problem(line + 1, kind, f"{name}: {what}")

        if kind not in KINDS:
            return wrong("no such event")
        if not math.isfinite(time):
            return wrong(f"time {time} is not a time")
        if time < self.now:
            return wrong(f"time goes back by {self.now - time:g} s")
        self.now = time
        if kind == "issue":
            if not 0.0 < self.columns["estimate"][line] < math.inf:
                return wrong(f"estimate {self.columns['estimate'][line]} is not usable")
            self.issued[key] = line
        elif kind in ("report", "refuse"):
            issue = self.issued.pop(key, None)
            if issue is None:
                return wrong("this host was not given the job")
            if kind == "report":
                self.open[key] = len(self.results)
            self.results.append((issue, line, ERROR if kind == "refuse" else -1))
        elif kind == "verdict":
            place = self.open.pop(key, None)
            if place is None:
                return wrong("a verdict without a report")
            issue, report, _ = self.results[place]
            self.results[place] = issue, report, VALID if self.columns["valid"][line] else INVALID
        return None

    def close(self) -> None:
        for (job, host), place in self.open.items():
            line = self.results[place][1]
            self.desk.problem(line + 1, "report", f"job {job}, host {host}: there is no verdict")


def read_stream(path: Path, *, strict: bool = False) -> tuple[Tape, tuple[str, ...]]:
    """Return a recorded stream as a tape without truth, and what was wrong in it; lines that are wrong are left out.

    Raises:
        ConfigError: the file cannot be read, or, if ``strict``, at the first wrong line.
    """
    columns = _columns(path, (*_WHOLE, *_FIGURES, "event"))
    reader = _Reader(columns, strict=strict)
    for line, kind in enumerate(columns["event"]):
        reader.take(line, str(kind))
    reader.close()
    return _tape(reader), reader.desk.told()


def _columns(path: Path, names: Sequence[str]) -> dict[str, list[Any]]:  # Any: plain values
    parquet: Any = import_module("pyarrow.parquet")  # Any: PyArrow has no types
    arrow: Any = import_module("pyarrow")  # Any: PyArrow has no types
    try:
        table = parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise ConfigError(f"{path}: not a readable Parquet file ({error})") from error
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise ConfigError(f"{path}: these columns are missing: {', '.join(missing)}")
    return {name: table.column(name).to_pylist() for name in names}


def _tape(reader: _Reader) -> Tape:
    columns = reader.columns
    judged = [each for each in reader.results if each[2] >= 0]
    jobs: dict[int, int] = {}
    for issue, _, _ in judged:
        jobs.setdefault(columns["job"][issue], issue)
    # results of a job stand together, as a validator would see them
    places = {job: place for place, job in enumerate(jobs)}
    judged.sort(key=lambda each: (places[columns["job"][each[0]]], each[2] != ERROR))
    table: Any = np.zeros(len(jobs), dtype=JOB)
    for name in ("time", "estimate", "app", "stratum"):
        table[name] = [columns[name][issue] for issue in jobs.values()]
    rows: Any = np.zeros(len(judged), dtype=RESULT)
    rows["job"] = [places[columns["job"][issue]] for issue, _, _ in judged]
    rows["identity"] = [columns["host"][issue] for issue, _, _ in judged]
    rows["version"] = [columns["version"][issue] for issue, _, _ in judged]
    rows["time"] = [columns["time"][report] for _, report, _ in judged]
    rows["refusal"] = [columns["refusal"][report] for _, report, _ in judged]
    for name, field in _REPORTED.items():
        rows[field] = [columns[name][report] for _, report, _ in judged]
    gpu = np.array([columns["gpu"][report] for _, report, _ in judged], dtype=bool)
    own = np.array([columns["own_build"][report] for _, report, _ in judged], dtype=bool)
    rows["kind"] = np.where(gpu, GPU, np.where(own, OWN_BUILD, PLAIN))
    rows["outcome"] = [outcome for _, _, outcome in judged]
    accounts = np.zeros(int(rows["identity"].max(initial=0)) + 1, dtype=np.int64)
    accounts[rows["identity"]] = [columns["account"][issue] for issue, _, _ in judged]
    quorum = int(columns["quorum"][judged[0][0]]) if judged else 1
    return Tape(jobs=table, results=rows, accounts=accounts, quorum=quorum, numbers=np.array(list(jobs)))


def watch(tape: Tape, watcher: Watcher) -> Pay:
    """Show a tape to a system that decides about checks; what it decides changes nothing, the checks are recorded."""
    rows = tape.results
    starts = (
        np.concatenate([[0], np.flatnonzero(np.diff(rows["job"])) + 1, [rows.size]]) if rows.size else [0]
    )
    for first, last in pairwise(starts):
        results = rows[first:last]
        job = tape.jobs[results["job"][0]]
        reports = results[results["outcome"] != ERROR]
        for n in range(min(tape.quorum, reports.size), reports.size + 1):
            if n:
                watcher.wants(reports[:n], job)
        watcher.decided(results, job)
    return watcher.pay(tape)


def write_prices(tape: Tape, pay: Pay, path: Path) -> None:
    """Write the prices of the valid results of a tape.

    Raises:
        ConfigError: the file cannot be written.
    """
    arrow: Any = import_module("pyarrow")  # Any: PyArrow has no types
    parquet: Any = import_module("pyarrow.parquet")  # Any: PyArrow has no types
    valid, rows = tape.valid, tape.results
    columns = {
        "job": rows["job"][valid] if tape.numbers is None else tape.numbers[rows["job"][valid]],
        "host": rows["identity"][valid],
        "price": pay.kept[valid],
        "final_time": pay.final[valid],
    }
    try:
        parquet.write_table(arrow.table(columns), path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error


def read_prices(path: Path, tape: Tape, *, strict: bool = False) -> Pay:
    """Return the prices in a file for the results of a tape; what cannot be used is told as `Pay.problems`.

    Raises:
        ConfigError: the file cannot be read, or, if ``strict``, at the first price that cannot be used.
    """
    columns = _columns(path, ("job", "host", "price"))
    try:
        final = _columns(path, ("final_time",))["final_time"]
    except ConfigError:
        final = []
    desk, rows = Desk(strict=strict), tape.results
    desk.open(rows.size, 0.0)
    desk.final = rows["time"].tolist()
    owed = {
        (int(rows["job"][row]), int(rows["identity"][row])): int(row) for row in np.flatnonzero(tape.valid)
    }
    priced: set[int] = set()
    for line, (job, host, amount) in enumerate(zip(*columns.values(), strict=True)):
        row = owed.get((job, host))
        name = f"price of host {host} for job {job}"
        if row is None:
            desk.problem(line + 1, "price", f"{name}: there is no such valid result")
        elif amount is None or not 0.0 <= amount < math.inf:
            desk.problem(line + 1, "price", f"{name}: {amount!r} is not an amount")
        elif row in priced:
            desk.problem(line + 1, "price", f"{name}: it has one already")
        else:
            priced.add(row)
            desk.price[row] = amount
            if final:
                desk.final[row] = max(final[line], desk.final[row])
    for (job, host), row in owed.items():
        if row not in priced:
            desk.problem(len(columns["job"]), "the end", f"host {host} got no price for job {job}")
    return Pay(
        price=np.array(desk.price),
        final=np.array(desk.final),
        revoked=np.array(desk.revoked),
        problems=desk.told(),
    )
