"""Workunits and results: rows, look-ups, and locks on rows.

Rows that are locked before others, see `cobblestone.store.engine.database.Transaction`.

The order of a project's tables: workunits, hosts, app versions, apps, users, teams, batches, files.  Who locks a workunit may
change its results.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from math import isfinite
from typing import Any

import msgspec

from cobblestone.domain.errors import UnreadableRow
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import WorkunitId
from cobblestone.domain.work import (
    AssimilateState,
    JobLimits,
    OutputSpec,
    Recipients,
    ReplicationRules,
    Result,
    Workunit,
)
from cobblestone.store.engine.database import Database, RowsOf, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper

LOCKED_WORKUNITS = RowsOf("workunit", "id IN (SELECT workunit_id FROM result WHERE name IN (??))", rank=1)
LOCKED_HOSTS = RowsOf("host", rank=2)


#: Condition on unfinished workunits that are for one host, user or team; an index has it.
TARGETED = (
    f"assimilate_state = {AssimilateState.INIT} AND"
    " (target_host_id IS NOT NULL OR target_user_id IS NOT NULL OR target_team_id IS NOT NULL)"
)

# Jobs of a batch share outputs, limits and rules, which are values: the same ones are given out again.
_SHARED = 2048
_outputs = msgspec.json.Decoder(tuple[OutputSpec, ...])


@lru_cache(_SHARED)
def decode_outputs(text: str) -> tuple[OutputSpec, ...]:
    """Return the outputs of a job.  Raises UnreadableRow."""
    try:
        return _outputs.decode(text)
    except msgspec.MsgspecError as error:
        raise UnreadableRow(f"Outputs of a workunit cannot be read: {text[:100]!r} ({error}).") from error


def _finite(number: float) -> float:
    if not isfinite(number):  # no client could be told
        raise ValueError(f"{number} is no limit of a job")
    return number


LIMITS = RowMapper(
    JobLimits, {each.name: Column(decode=_finite) for each in fields(JobLimits)}, shared=_SHARED
)
RESULTS = RowMapper(Result)
#: How the parts that all jobs of a batch may share are read from workunits.
JOB_PARTS: Mapping[str, Column | RowMapper[Any]] = {
    "output_specs": Column(decode=decode_outputs),
    "limits": LIMITS,
    "rules": RowMapper(ReplicationRules, shared=_SHARED),
    "target": RowMapper(
        Recipients, {f"{who}_id": f"target_{who}_id" for who in ("host", "user", "team")}, shared=_SHARED
    ),
}
WORKUNITS = RowMapper(Workunit, JOB_PARTS)


def workunits(db: Database, ids: Sequence[int]) -> dict[WorkunitId, Workunit]:
    """Return workunits by id; missing ones are left out."""
    return {found.id: found for found in db.load_in(WORKUNITS, "workunit WHERE id IN (??)", ids)}


def readable_workunits(db: Database, ids: Sequence[int]) -> dict[WorkunitId, Workunit]:
    """Return workunits by id; those that are missing or cannot be read are left out."""
    rows = db.query_in(f"SELECT {WORKUNITS.columns} FROM workunit WHERE id IN (??)", ids)
    return {found.id: found for found in db.readable(WORKUNITS.load, rows)}


def workunit_by_name(db: Database, name: str) -> Workunit | None:
    """Return a workunit by name, or None."""
    return db.first(WORKUNITS, "workunit WHERE name = ?", (name,))


def results_of_workunits(db: Database, ids: Sequence[int]) -> dict[WorkunitId, list[Result]]:
    """Return all results of several workunits, each list in the order of ids."""
    found: dict[WorkunitId, list[Result]] = {WorkunitId(id_): [] for id_ in ids}
    for result in db.load_in(RESULTS, "result WHERE workunit_id IN (??) ORDER BY id", list(found)):
        found[result.workunit_id].append(result)
    return found


def results_by_name(db: Database, names: Sequence[str]) -> dict[str, Result]:
    """Return results by name; those that are missing or cannot be read are left out."""
    rows = db.query_in(f"SELECT {RESULTS.columns} FROM result WHERE name IN (??)", names)
    return {found.name: found for found in db.readable(RESULTS.load, rows)}


def result_by_id(db: Database, result_id: int) -> Result | None:
    """Return a result, or None."""
    return db.first(RESULTS, "result WHERE id = ?", (result_id,))


# What the launcher and the family's library write when a program has ended: it only repeats the exit status.
_FAREWELL = re.compile(r"cobblestone: |.*called boinc_finish\(")
_LAST_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultText:
    """A host's report about a result, besides the numbers."""

    stderr: str = ""
    report: dict[str, Any] = field(default_factory=dict[str, Any])


def result_text(db: Database, result_id: int) -> ResultText:
    """Return the stderr and the details of a report; empty if there is none."""
    row = db.one("SELECT stderr, report FROM result_text WHERE result_id = ?", (result_id,))
    if row is None:
        return ResultText()
    return ResultText(stderr=_unpacked(row[0]), report=msgspec.json.decode(row[1]))


def stderr_of_results(db: Database, result_ids: Sequence[int]) -> dict[int, str]:
    """Return the stderr of results, by result id; empty ones are left out."""
    rows = db.query_in(
        "SELECT result_id, stderr FROM result_text WHERE stderr IS NOT NULL AND result_id IN (??)", result_ids
    )
    return {row[0]: _unpacked(row[1]) for row in rows}


def _unpacked(packed: bytes | None) -> str:
    return "" if packed is None else zlib.decompress(packed).decode("utf-8", "replace")


def last_words(stderr: str) -> str:
    """Return the last line that a program wrote to stderr; a final message with the exit status only if there is no other.

    >>> last_words("ValueError: no light\\ncobblestone: python3 exited with status 1\\n")
    'ValueError: no light'
    """
    lines = [line for line in map(str.strip, stderr.splitlines()) if line]
    own = (line for line in reversed(lines) if not _FAREWELL.match(line))
    return next(own, lines[-1] if lines else "")[:_LAST_WORDS]


def add_reasons(tx: Transaction, result_id: int, reasons: Sequence[Reason]) -> None:
    """Add the reasons of a decision about a result to what its host reported."""
    report = result_text(tx, result_id).report
    report["reasons"] = [*report.get("reasons", []), *(entry.as_json() for entry in reasons)]
    text = msgspec.json.encode(report).decode()
    tx.execute(
        "INSERT INTO result_text (result_id, report) VALUES (?, ?) ON CONFLICT (result_id)"
        " DO UPDATE SET report = excluded.report",
        (result_id, text),
    )
