"""Recorded streams: anybody's system, in any language, reads events from a file and writes prices to another.

Both are Parquet files, or CSV.  Columns of a stream, in the order of time; what does not belong to an event is 0:

================  ==============================================================================================
time              Unix seconds
event             release, issue, report, refuse, verdict
job, host         numbers; a host is an identity of a computer
app, version      numbers, with issue and release
stratum           tag by which the scheduler routes, -1: none; with issue
account           owner of the host as the project knows it; with issue
quorum            results that must agree; with issue
estimate          operations; with issue
run_time, cpu_time, peak, benchmark, ncpus, counted, progress, sent, gpu, own_build
                  with report: seconds, seconds, operations per second of the devices used, and of one processor, processors
                  used, operations counted by the program, attested share of the work, when it was sent, flags
kind              with refuse: 1 abort, 2 error, 3 time-out
valid             with verdict: 1 or 0
================  ==============================================================================================

Prices: ``job``, ``host``, ``price`` and, if it was not final at once, ``final_time`` (Unix seconds; infinite: never).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from cobblestone.credit_lab.systems.events import (
    REPORTED,
    Issue,
    Problems,
    Refuse,
    Release,
    Report,
    events_of,
    is_amount,
)
from cobblestone.credit_lab.systems.pay import Pay, Watcher, at_once
from cobblestone.credit_lab.systems.tape import (
    ERROR,
    GPU,
    INVALID,
    JOB,
    OWN_BUILD,
    PLAIN,
    RESULT,
    VALID,
    Job,
    Result,
    Tape,
    table_of,
)
from cobblestone.domain.errors import ConfigError

COLUMNS = tuple(dict.fromkeys(("time", "event", *Issue._fields, *Report._fields, *Refuse._fields, "valid")))
_WHOLE = {"job", "host", "app", "version", "stratum", "account", "quorum", "ncpus", "kind"}
_FLAGS = {"gpu", "own_build", "valid"}
_AT_A_TIME = 100_000


def write_stream(tape: Tape, path: Path) -> int:
    """Write what a system may see of a tape; return the number of events.

    Raises:
        ConfigError: the file cannot be written.
    """
    arrow: Any = import_module("pyarrow")  # Any: PyArrow has no types
    kinds = {"event": arrow.string(), **dict.fromkeys(_FLAGS, arrow.bool_())}
    kinds |= dict.fromkeys(_WHOLE, arrow.int64())
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in COLUMNS])
    none: list[Any] = [0 if name in _WHOLE else name not in _FLAGS and 0.0 for name in COLUMNS]
    count = 0
    with _writer(path, schema) as writer:
        lines = list[list[Any]]()  # Any: plain values

        def flush() -> None:
            columns = list(map(list, zip(*lines, strict=True))) or [[] for _ in COLUMNS]
            writer.write_table(arrow.table(columns, schema=schema))
            lines.clear()

        for name, values in _events(tape):
            line = none.copy()
            for column, value in values.items():
                line[_PLACES[column]] = value
            line[_PLACES["event"]] = name
            lines.append(line)
            count += 1
            if len(lines) >= _AT_A_TIME:
                flush()
        flush()
    return count


_PLACES = {name: place for place, name in enumerate(COLUMNS)}


def _writer(path: Path, schema: Any) -> Any:  # Any: PyArrow has no types
    if path.suffix == ".csv":
        return import_module("pyarrow.csv").CSVWriter(path, schema)
    return import_module("pyarrow.parquet").ParquetWriter(path, schema)


def _events(tape: Tape) -> Iterator[tuple[str, dict[str, Any]]]:  # Any: plain values
    """Yield name and columns of events: each result is issued and reported, then the verdicts of its job follow."""
    versions = set[int]()
    accounts: list[int] = tape.accounts.tolist()
    for results, job in tape.decided():
        for result in results:
            issue, ended = events_of(result, job, accounts, tape.quorum)
            if issue.version not in versions:
                versions.add(issue.version)
                yield "release", Release(issue.time, issue.app, issue.version)._asdict()
            yield "issue", issue._asdict()
            yield ("refuse" if isinstance(ended, Refuse) else "report"), ended._asdict()
        for one in results:
            if one.outcome != ERROR:
                valid = one.outcome == VALID
                yield "verdict", {"time": one.time, "job": job.number, "host": one.identity, "valid": valid}


class _Reader:
    """State of reading: what was issued and reported, and what was wrong."""

    def __init__(self, *, strict: bool) -> None:
        self.problems = Problems(strict=strict)
        self.issued: dict[tuple[int, int], dict[str, Any]] = {}
        self.results: list[tuple[dict[str, Any], Result]] = []
        # line and result that waits for its verdict
        self.open: dict[tuple[int, int], tuple[int, Result]] = {}
        self.now = -math.inf

    def take(self, number: int, line: dict[str, Any]) -> str:
        """Take an event; return what is wrong with it."""
        kind, time, key = line["event"], line["time"], (line["job"], line["host"])
        if kind not in ("issue", "report", "refuse", "verdict", "release"):
            return "no such event"
        if not math.isfinite(time):
            return f"time {time} is not a time"
        if time < self.now:
            return f"time goes back by {self.now - time:g} s"
        self.now = time
        if kind == "issue":
            if not 0.0 < line["estimate"] < math.inf:
                return f"estimate {line['estimate']} is not usable"
            self.issued[key] = line
        elif kind in ("report", "refuse"):
            issue = self.issued.pop(key, None)
            if issue is None:
                return "this host was not given the job"
            result = _result(issue, line)
            self.results.append((issue, result))
            if kind == "report":
                self.open[key] = number, result
        elif kind == "verdict":
            if key not in self.open:
                return "a verdict without a report"
            self.open.pop(key)[1].outcome = VALID if line["valid"] else INVALID
        return ""

    def tape(self) -> Tape:
        """Return what was read; results of a job stand together, as a validator would see them."""
        jobs: dict[int, Job] = {}
        places: dict[int, int] = {}
        accounts: dict[int, int] = {0: 0}
        judged = [(issue, result) for issue, result in self.results if result.outcome != _OPEN]
        for issue, result in judged:
            number = issue["job"]
            if number not in jobs:
                places[number] = len(jobs)
                jobs[number] = Job(
                    issue["time"],
                    issue["estimate"],
                    app=issue["app"],
                    stratum=issue["stratum"],
                    number=number,
                )
            result.job = places[number]
            accounts[result.identity] = issue["account"]
        rows = sorted((result for _, result in judged), key=lambda each: (each.job, each.outcome != ERROR))
        of_host = np.zeros(max(accounts) + 1, dtype=np.int64)
        of_host[list(accounts)] = list(accounts.values())
        return Tape(
            jobs=table_of(jobs.values(), JOB),
            results=table_of(rows, RESULT),
            accounts=of_host,
            quorum=judged[0][0]["quorum"] if judged else 1,
        )


_OPEN = -1


def _result(issue: dict[str, Any], ended: dict[str, Any]) -> Result:
    lost = ended["event"] == "refuse"
    result = Result(
        identity=issue["host"], version=issue["version"], time=ended["time"], outcome=ERROR if lost else _OPEN
    )
    if lost:
        result.refusal = ended["kind"]
        return result
    for name in REPORTED:
        setattr(result, name, ended[name])
    result.kind = GPU if ended["gpu"] else OWN_BUILD if ended["own_build"] else PLAIN
    return result


def read_stream(path: Path, *, strict: bool = False) -> tuple[Tape, tuple[str, ...]]:
    """Return a recorded stream as a tape without truth, and what was wrong in it; lines that are wrong are left out.

    Raises:
        ConfigError: the file cannot be read, or, if ``strict``, at the first wrong line.
    """
    reader = _Reader(strict=strict)
    for number, line in enumerate(_lines(path, COLUMNS), 1):
        if wrong := reader.take(number, line):
            told = f"job {line['job']}, host {line['host']}: {wrong}"
            reader.problems.add(number, str(line["event"]), told)
    for (job, host), (number, _) in reader.open.items():
        reader.problems.add(number, "report", f"job {job}, host {host}: there is no verdict")
    return reader.tape(), reader.problems.told()


# Any: plain values
def _lines(path: Path, names: Sequence[str], more: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file; ``more``: columns that may be missing."""
    arrow: Any = import_module("pyarrow")  # Any: PyArrow has no types
    try:
        if path.suffix == ".csv":
            table = import_module("pyarrow.csv").read_csv(path)
        else:
            table = import_module("pyarrow.parquet").read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise ConfigError(f"{path}: not a readable file, Parquet or .csv ({error})") from error
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise ConfigError(f"{path}: these columns are missing: {', '.join(missing)}")
    table = table.select([*names, *(name for name in more if name in table.column_names)])
    for batch in table.to_batches(_AT_A_TIME):
        yield from batch.to_pylist()


def watch(tape: Tape, watcher: Watcher) -> Pay:
    """Show a tape to a system; what it decides about checks changes nothing, the checks are recorded."""
    for results, job in tape.decided():
        reports = [result for result in results if result.outcome != ERROR]
        for n in range(min(tape.quorum, len(reports)), len(reports) + 1):
            if n:
                watcher.wants(reports[:n], job)
        watcher.decided(results, job)
    return watcher.pay()


def write_prices(tape: Tape, pay: Pay, path: Path) -> None:
    """Write the prices of the valid results of a tape.

    Raises:
        ConfigError: the file cannot be written.
    """
    valid = tape.valid
    columns = {
        "job": tape.of("number")[valid],
        "host": tape.results["identity"][valid],
        "price": pay.kept[valid],
        "final_time": pay.final[valid],
    }
    table = import_module("pyarrow").table(columns)
    with _writer(path, table.schema) as writer:
        writer.write_table(table)


def read_prices(path: Path, tape: Tape, *, strict: bool = False) -> Pay:
    """Return the prices in a file for the results of a tape; what cannot be used is told as `Pay.problems`.

    Raises:
        ConfigError: the file cannot be read, or, if ``strict``, at the first price that cannot be used.
    """
    problems, rows = Problems(strict=strict), tape.results
    price, final = np.zeros(rows.size), rows["time"].copy()
    numbers = tape.of("number")
    owed = {(int(numbers[row]), int(rows["identity"][row])): int(row) for row in np.flatnonzero(tape.valid)}
    open_, last = dict(owed), 0
    for last, line in enumerate(_lines(path, ("job", "host", "price"), ("final_time",)), 1):
        key = line["job"], line["host"]
        row = open_.get(key)
        if row is None:
            wrong = "it has one already" if key in owed else "there is no such valid result"
        elif not is_amount(line["price"]):
            wrong = f"{line['price']!r} is not an amount"
        else:
            del open_[key]
            price[row], final[row] = line["price"], max(line.get("final_time", 0.0), final[row])
            continue
        problems.add(last, "price", f"price of host {key[1]} for job {key[0]}: {wrong}")
    for job, host in open_:
        problems.add(last, "the end", f"host {host} got no price for job {job}")
    return at_once(tape, price, problems=problems.told(), final=final)
