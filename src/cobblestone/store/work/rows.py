"""Workunits and results: rows and look-ups."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from cobblestone.domain.ids import AppId, AppVersionId, BatchId, HostId, ResultId, TeamId, UserId, WorkunitId
from cobblestone.domain.reasons import Reason
from cobblestone.domain.states import (
    AssimilateState,
    ClientState,
    FileDeleteState,
    Outcome,
    ServerState,
    ValidateState,
    WorkunitError,
)
from cobblestone.domain.work import (
    InputFile,
    JobLimits,
    OutputSpec,
    ReplicationRules,
    Result,
    Target,
    Workunit,
)
from cobblestone.store.engine.database import Database, Row, Transaction

WORKUNIT_COLUMNS = (
    "id, name, app_id, batch_id, create_time, priority, command_line, input_files, output_specs, rsc_fpops_est,"
    " rsc_fpops_bound, rsc_memory_bound, rsc_disk_bound, delay_bound, min_quorum, target_nresults, max_error_results,"
    " max_total_results, max_success_results, need_validate, canonical_result_id, canonical_credit, transition_time,"
    " error_mask, assimilate_state, file_delete_state, hr_class, app_version_id, fixed_credit, rsc_bandwidth_bound,"
    " target_host_id, target_user_id, target_team_id, size_class, turn"
)
RESULT_COLUMNS = (
    "id, name, workunit_id, app_id, server_state, outcome, client_state, validate_state, file_delete_state, host_id,"
    " user_id, app_version_id, priority, create_time, sent_time, report_deadline, received_time, cpu_time,"
    " elapsed_time, exit_status, claimed_credit, granted_credit, peak_flops, fpops_counted,"
    " intops_counted, outlier"
)

ANYBODY = Target()
TARGETED = (
    f"assimilate_state = {AssimilateState.INIT} AND"
    " (target_host_id IS NOT NULL OR target_user_id IS NOT NULL OR target_team_id IS NOT NULL)"
)
"""Condition on unfinished workunits that are for one host, user or team; an index has it."""

decode_inputs = msgspec.json.Decoder(tuple[InputFile, ...]).decode

# Jobs of a batch share outputs, limits and rules, which are values: the same ones are given out again.
_SHARED = 2048
_decode_outputs = msgspec.json.Decoder(tuple[OutputSpec, ...]).decode


@lru_cache(_SHARED)
def decode_outputs(text: str) -> tuple[OutputSpec, ...]:
    """What a workunit's column of outputs says."""
    return _decode_outputs(text)


# The constructors of enums are slow in a hot loop; a look-up is not.
_SERVER_STATES = {int(state): state for state in ServerState}
_OUTCOMES = {int(state): state for state in Outcome}
_CLIENT_STATES = {int(state): state for state in ClientState}
_VALIDATE_STATES = {int(state): state for state in ValidateState}
_DELETE_STATES = {int(state): state for state in FileDeleteState}
_ASSIMILATE_STATES = {int(state): state for state in AssimilateState}
_workunit_error = lru_cache(64)(WorkunitError)


@lru_cache(_SHARED)
def limits_from(row: tuple[Any, ...]) -> JobLimits:
    """Limits from five columns in the order of ``WORKUNIT_COLUMNS``, and the bandwidth if it follows."""
    return JobLimits(
        rsc_fpops_est=row[0],
        rsc_fpops_bound=row[1],
        rsc_memory_bound=row[2],
        rsc_disk_bound=row[3],
        delay_bound=row[4],
        rsc_bandwidth_bound=row[5] if len(row) > 5 else 0.0,
    )


@lru_cache(_SHARED)
def _rules_from(row: tuple[Any, ...]) -> ReplicationRules:
    return ReplicationRules(
        min_quorum=row[0],
        target_nresults=row[1],
        max_error_results=row[2],
        max_total_results=row[3],
        max_success_results=row[4],
    )


def target_from(host_id: int | None, user_id: int | None, team_id: int | None) -> Target:
    """Who alone may get a job, from three columns."""
    if host_id is None and user_id is None and team_id is None:
        return ANYBODY
    return Target(
        host_id=None if host_id is None else HostId(host_id),
        user_id=None if user_id is None else UserId(user_id),
        team_id=None if team_id is None else TeamId(team_id),
    )


def workunit_from(row: Row) -> Workunit:
    """A workunit from a row of ``WORKUNIT_COLUMNS``."""
    return Workunit(
        id=WorkunitId(row[0]),
        name=row[1],
        app_id=AppId(row[2]),
        batch_id=None if row[3] is None else BatchId(row[3]),
        create_time=row[4],
        priority=row[5],
        command_line=row[6],
        input_files=decode_inputs(row[7]),
        output_specs=decode_outputs(row[8]),
        limits=limits_from((*row[9:14], row[29])),
        rules=_rules_from(row[14:19]),
        need_validate=bool(row[19]),
        canonical_result_id=None if row[20] is None else ResultId(row[20]),
        canonical_credit=row[21],
        transition_time=row[22],
        error_mask=_workunit_error(row[23]),
        assimilate_state=_ASSIMILATE_STATES[row[24]],
        file_delete_state=_DELETE_STATES[row[25]],
        hr_class=row[26],
        app_version_id=None if row[27] is None else AppVersionId(row[27]),
        fixed_credit=row[28],
        target=target_from(row[30], row[31], row[32]),
        size_class=row[33],
        turn=row[34],
    )


def result_from(row: Row) -> Result:
    """A result from a row of ``RESULT_COLUMNS``."""
    return Result(
        id=ResultId(row[0]),
        name=row[1],
        workunit_id=WorkunitId(row[2]),
        app_id=AppId(row[3]),
        server_state=_SERVER_STATES[row[4]],
        outcome=_OUTCOMES[row[5]],
        client_state=_CLIENT_STATES[row[6]],
        validate_state=_VALIDATE_STATES[row[7]],
        file_delete_state=_DELETE_STATES[row[8]],
        host_id=None if row[9] is None else HostId(row[9]),
        user_id=None if row[10] is None else UserId(row[10]),
        app_version_id=None if row[11] is None else AppVersionId(row[11]),
        priority=row[12],
        create_time=row[13],
        sent_time=row[14],
        report_deadline=row[15],
        received_time=row[16],
        cpu_time=row[17],
        elapsed_time=row[18],
        exit_status=row[19],
        claimed_credit=row[20],
        granted_credit=row[21],
        peak_flops=row[22],
        fpops_counted=row[23],
        intops_counted=row[24],
        outlier=bool(row[25]),
    )


def workunits(db: Database, ids: Sequence[int]) -> dict[WorkunitId, Workunit]:
    """Workunits by id; missing ones are left out."""
    rows = db.query_in(f"SELECT {WORKUNIT_COLUMNS} FROM workunit WHERE id IN (??)", ids)
    return {WorkunitId(row[0]): workunit_from(row) for row in rows}


def workunit_by_name(db: Database, name: str) -> Workunit | None:
    """A workunit by name, or None."""
    row = db.one(f"SELECT {WORKUNIT_COLUMNS} FROM workunit WHERE name = ?", (name,))
    return None if row is None else workunit_from(row)


def results_of_workunits(db: Database, ids: Sequence[int]) -> dict[WorkunitId, list[Result]]:
    """All results of several workunits, each list in the order of ids."""
    found: dict[WorkunitId, list[Result]] = {WorkunitId(id_): [] for id_ in ids}
    rows = db.query_in(
        f"SELECT {RESULT_COLUMNS} FROM result WHERE workunit_id IN (??) ORDER BY id", list(found)
    )
    for row in rows:
        found[WorkunitId(row[2])].append(result_from(row))
    return found


def results_by_name(db: Database, names: Sequence[str]) -> dict[str, Result]:
    """Results by name; missing ones are left out."""
    rows = db.query_in(f"SELECT {RESULT_COLUMNS} FROM result WHERE name IN (??)", names)
    return {row[1]: result_from(row) for row in rows}


def result_by_id(db: Database, result_id: int) -> Result | None:
    """A result, or None."""
    row = db.one(f"SELECT {RESULT_COLUMNS} FROM result WHERE id = ?", (result_id,))
    return None if row is None else result_from(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultText:
    """What a host said about a result, beside the numbers."""

    stderr: str = ""
    report: dict[str, Any] = field(default_factory=dict[str, Any])


def result_text(db: Database, result_id: int) -> ResultText:
    """The stderr and the details of a report; empty if there is none."""
    row = db.one("SELECT stderr, report FROM result_text WHERE result_id = ?", (result_id,))
    if row is None:
        return ResultText()
    stderr = "" if row[0] is None else zlib.decompress(row[0]).decode("utf-8", "replace")
    return ResultText(stderr=stderr, report=msgspec.json.decode(row[1]))


def add_reasons(tx: Transaction, result_id: int, reasons: Sequence[Reason]) -> None:
    """Keep why something was decided about a result, with what its host said."""
    report = result_text(tx, result_id).report
    report["reasons"] = [*report.get("reasons", []), *(entry.as_json() for entry in reasons)]
    text = msgspec.json.encode(report).decode()
    tx.execute(
        "INSERT INTO result_text (result_id, report) VALUES (?, ?) ON CONFLICT (result_id)"
        " DO UPDATE SET report = excluded.report",
        (result_id, text),
    )
