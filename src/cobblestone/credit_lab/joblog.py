"""Job logs: one line per event of a result, in the order of time: found valid, found invalid, failed, sent …

A log is a CSV file with a header, or a Parquet file.  Columns, of which only the first two are required:

==================  ============================================================================================
workunit_id         results of a workunit stand together; one that comes later is a straggler
host_id
outcome             of the line, as a word or its number; without the column, all are valid.
                    valid (0), invalid (1): by the validator; error (2): it crashed or did not come back;
                    sent (3): it was handed out; trickle (4): a message of the running job, which brings provisional
                    credit for ``elapsed_time`` since the message before
result_id           default: the number of the line
user_id, team_id    0: none
app_id              default 1
app_version_id      default 1; anonymous platform: the generalised id
anonymous, is_gpu   0 or 1
canonical           0 or 1; without any, the first valid result of a workunit is canonical
straggler           0 or 1: granted after its workunit, wherever it stands
outlier             0 or 1: keep it out of statistics
time                Unix seconds of the event; default: received_time
delay_bound         seconds from sending to deadline, of lines that are sent or error
elapsed_time, cpu_time, sent_time, received_time, peak_flops, ncpus, p_fpops, p_iops, fpops_counted,
intops_counted, trickle_credit, claimed_credit, rsc_fpops_est, rsc_fpops_bound, fixed_credit
==================  ============================================================================================

Text where a number belongs is read as "not a number", which the credit systems refuse with a reason.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.installation import how_to_install
from cobblestone.policy.credit.claims import MAX_OPERATIONS

OUTCOMES = ("valid", "invalid", "error", "sent", "trickle")
"""What a line tells; the column ``outcome`` holds places in this list."""

VALID, INVALID, ERROR, SENT, TRICKLE = range(len(OUTCOMES))

REQUIRED = ("workunit_id", "host_id")

#: Identifiers and flags, with their defaults.
WHOLE_NUMBERS: dict[str, int] = {
    "workunit_id": 0,
    "host_id": 0,
    "outcome": VALID,
    "result_id": 0,
    "user_id": 0,
    "team_id": 0,
    "app_id": 1,
    "app_version_id": 1,
    "anonymous": 0,
    "is_gpu": 0,
    "canonical": 0,
    "straggler": 0,
    "outlier": 0,
}

#: Figures, with their defaults.
FIGURES: dict[str, float] = {
    "time": 0.0,
    "elapsed_time": 0.0,
    "cpu_time": 0.0,
    "sent_time": 0.0,
    "received_time": 0.0,
    "peak_flops": 0.0,
    "ncpus": 1.0,
    "p_fpops": 0.0,
    "p_iops": 0.0,
    "fpops_counted": 0.0,
    "intops_counted": 0.0,
    "trickle_credit": 0.0,
    "claimed_credit": 0.0,
    "rsc_fpops_est": 1e12,
    "rsc_fpops_bound": MAX_OPERATIONS,
    "fixed_credit": 0.0,
    "delay_bound": 604_800.0,
}


_FIRST_SYSTEM = frozenset(
    {"time", "elapsed_time", "cpu_time", "sent_time", "received_time", "ncpus", "p_fpops"}
    | {"trickle_credit", "delay_bound", "rsc_fpops_est", "rsc_fpops_bound"}
)
_NEEDED = {"benchmark": _FIRST_SYSTEM, "benchmark-both": _FIRST_SYSTEM | {"p_iops"}}


def needed_figures(system: str) -> frozenset[str]:
    """Figures that grants of a credit system depend on; the first one needs few, and reading is most of the work."""
    return _NEEDED.get(system.partition(":")[0], frozenset(FIGURES))


@dataclass(frozen=True, slots=True)
class JobLog:
    """Columns of equal length; lists, or NumPy arrays where the ``lab`` extra read them."""

    columns: Mapping[str, Sequence[Any]]  # Any: int or float, by column
    length: int

    def column(self, name: str) -> list[Any]:  # Any: int or float, by column
        """Return a column as a list of plain numbers; its default where the log has none."""
        values = self.columns.get(name)
        if values is None:
            if name == "result_id":
                return list(range(1, self.length + 1))
            if name == "time":
                return self.column("received_time")
            default = WHOLE_NUMBERS[name] if name in WHOLE_NUMBERS else FIGURES[name]
            return [default] * self.length
        as_list: Callable[[], list[Any]] | None = getattr(values, "tolist", None)  # NumPy's
        return as_list() if as_list is not None else list(values)


def job_log(columns: Mapping[str, Sequence[Any]], origin: str = "job log") -> JobLog:  # Any: int or float
    """Return a log of columns that are at hand; raises `ConfigError` when they do not make one."""
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise ConfigError(
            f"{origin}: column {', '.join(missing)} is missing; required are {', '.join(REQUIRED)}"
        )
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ConfigError(f"{origin}: columns have different lengths {sorted(lengths)}")
    length = lengths.pop()
    outcome: Any = columns.get("outcome")  # Any: a list, or a NumPy array
    if outcome is not None and length:
        smallest, largest = (
            (outcome.min(), outcome.max()) if hasattr(outcome, "min") else (min(outcome), max(outcome))
        )
        if smallest < 0 or largest >= len(OUTCOMES):
            raise ConfigError(
                f"{origin}: outcome must be one of {', '.join(OUTCOMES)}, or 0 … {len(OUTCOMES) - 1}"
            )
    return JobLog(columns, length)


def read_job_log(path: Path, *, system: str = "") -> JobLog:
    """Read a CSV or Parquet file, by its suffix; with ``system`` only the figures that its grants need.

    Raises `ConfigError` when it cannot be read, lacks a column, or has an identifier that is no whole number.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; give a job log in CSV or Parquet")
    figures = needed_figures(system)
    if path.suffix == ".parquet":
        return job_log(_read_parquet(path, figures), str(path))
    if path.suffix != ".csv":
        raise ConfigError(f"{path}: a job log is a .csv or a .parquet file")
    return job_log(_read_csv_fast(path, figures) or _read_csv(path, figures), str(path))


def _figure(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _read_csv_fast(
    path: Path, figures: frozenset[str]
) -> dict[str, Sequence[Any]] | None:  # Any: NumPy arrays
    """Return a CSV file by PyArrow; None without it, or when something is wrong that `_read_csv` can place."""
    try:
        from cobblestone.credit_lab.arrow import read_csv

        return read_csv(
            path, whole_numbers=tuple(WHOLE_NUMBERS), figures=tuple(figures), words={"outcome": OUTCOMES}
        )
    except (ImportError, ConfigError):
        return None


def _read_csv(
    path: Path, figures: frozenset[str]
) -> dict[str, Sequence[Any]]:  # Any: int or float, by column
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file)
        header = [name.strip() for name in next(rows, list[str]())]
        columns: dict[str, list[Any]] = {
            name: [] for name in header if name in WHOLE_NUMBERS or name in figures
        }
        places = [(name, header.index(name)) for name in columns]
        for number, row in enumerate(rows, start=2):
            if len(row) != len(header):
                raise ConfigError(f"{path}:{number}: {len(row)} values, but the header names {len(header)}")
            for name, place in places:
                if name in FIGURES:
                    columns[name].append(_figure(row[place]))
                else:
                    columns[name].append(_whole_number(row[place], name, f"{path}:{number}"))
    return dict(columns)


def _whole_number(text: str, name: str, where: str) -> int:
    if name == "outcome" and text in OUTCOMES:
        return OUTCOMES.index(text)
    try:
        value = int(text) if text else WHOLE_NUMBERS[name]
    except ValueError:
        raise ConfigError(f"{where}: {name} is {text!r}; give a whole number") from None
    if not -(2**62) < value < 2**62:
        raise ConfigError(f"{where}: {name} is {text!r}; that is out of range")
    return value


def _read_parquet(path: Path, figures: frozenset[str]) -> dict[str, Sequence[Any]]:  # Any: NumPy arrays
    try:
        from cobblestone.credit_lab.arrow import read_parquet
    except ImportError as error:
        raise ConfigError(
            f"{path}: Parquet needs PyArrow ({error}); install the extra with: {how_to_install('lab')},"
            " or give the log as CSV"
        ) from error
    return read_parquet(
        path, whole_numbers=tuple(WHOLE_NUMBERS), figures=tuple(figures), words={"outcome": OUTCOMES}
    )
