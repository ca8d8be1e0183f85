"""Database operations of the scheduler: what a host holds, claims of unsent results, and reports."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import msgspec

from cobblestone.domain.apps import BROWSER_PLATFORM
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import (
    AppId,
    AppVersionId,
    HostId,
    ResultId,
    UserId,
    WorkunitId,
    changed,
    value,
)
from cobblestone.domain.work import AssimilateState, ExitStatus, Outcome, OutputSpec, Result, ValidateState
from cobblestone.policy.dispatch.catalogue import Assignment
from cobblestone.policy.dispatch.held_jobs import HeldJob
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.lifecycle import states
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.work.reserve import Reserve
from cobblestone.store.work.rows import LOCKED_WORKUNITS, RESULTS, decode_outputs
from cobblestone.store.work.steps import FOUND, IS_IN_PROGRESS, IS_NOT_LOST, matching, step, take

SHORT_NBYTES = 4096

_encode = msgspec.json.Encoder().encode
_RESULT_COLUMNS = RESULTS.of("r")
_N_RESULT_COLUMNS, _NAME = len(RESULTS.names), RESULTS.names.index("name")


def count_bad(db: Database, host_id: HostId, version_id: AppVersionId) -> int:
    """Return how many results of an app version failed on a host, were wrong or came too late; aborts are none of these."""
    bad = f"{Outcome.CLIENT_ERROR:d}, {Outcome.NO_REPLY:d}, {Outcome.VALIDATE_ERROR:d}"
    aborts = f"{ExitStatus.ABORTED_BY_PROJECT:d}, {ExitStatus.ABORTED_BY_USER:d}"
    sql = (
        "SELECT COUNT(*) FROM result WHERE host_id = ? AND app_version_id = ?"
        f" AND (outcome IN ({bad}) OR outcome = {Outcome.SUCCESS:d} AND validate_state = {ValidateState.INVALID:d})"
        f" AND exit_status NOT IN ({aborts})"
    )
    return int(db.value(sql, (host_id, version_id)))


def with_bad_counted(db: Database, host_id: HostId, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Return reasons that name bad results with their number: the host's record counts no further than it halves quotas."""
    return tuple(
        changed(each, values={**each.values, "bad": max(count_bad(db, host_id, version), bad)})
        if isinstance(bad := each.values.get("bad"), int)
        and (version := AppVersionId(int(str(each.values.get("version", 0)))))
        else each
        for each in reasons
    )


_ANSWERS = matching(states.IN_PROGRESS, states.SUCCESS, row="r.")
_AND_BROWSER = f"app_version v ON v.id = r.app_version_id AND v.platform = '{BROWSER_PLATFORM}'"
_CLOSED_TO_BROWSER = (
    f"SELECT r.workunit_id FROM result r LEFT JOIN {_AND_BROWSER} WHERE (r.{IS_NOT_LOST}"
    " AND (v.id IS NULL AND r.user_id = ? OR r.host_id = ?)"
    f" OR v.id IS NOT NULL AND ({_ANSWERS} OR r.exit_status <> {ExitStatus.ABORTED_BY_USER:d}"
    f" AND {matching(states.CLIENT_ERROR, states.VALIDATE_ERROR, row='r.')})) AND r.workunit_id"
)


def workunits_closed_to_browser(
    db: Database, user_id: UserId, host_id: HostId, workunit_ids: Sequence[WorkunitId]
) -> set[WorkunitId]:
    """Return the workunits of which a browser gets no result.

    One browser does not confirm another, also with a version no longer in use.  A workunit that one was silent about or gave
    back is open to the next one.
    """
    rows = db.query_in(f"{_CLOSED_TO_BROWSER} IN (??)", workunit_ids, (user_id, host_id))
    return {WorkunitId(row[0]) for row in rows}


_SENT = step(states.Cause.SENT, states.RESULT_TRANSITIONS)
_CLAIM = _SENT.update(
    "result",
    also="host_id = ?, user_id = ?, app_version_id = ?, sent_time = ?, report_deadline = ?, peak_flops = ?, avg_ncpus = ?",
)
_DETACHED = step(states.Cause.DETACHED, states.RESULT_TRANSITIONS)
_REPORTS = {
    Outcome.SUCCESS: step(states.Cause.REPORTED_SUCCESS, states.RESULT_TRANSITIONS),
    Outcome.CLIENT_ERROR: step(
        states.Cause.REPORTED_FAILURE, states.RESULT_TRANSITIONS, states.VALIDATE_TRANSITIONS
    ),
}
_NEW_FILES = step(states.Cause.REPORTED_LATE, states.FILE_DELETE_TRANSITIONS)
_REPORT_STATEMENTS = {
    outcome: taken.update(
        "result",
        also=f"{_NEW_FILES.sets}, client_state = ?, exit_status = ?, cpu_time = ?, elapsed_time = ?, received_time = ?,"
        " fpops_counted = ?, intops_counted = ?, host_id = ?",
    )
    for outcome, taken in _REPORTS.items()
}
_LOOK_AT = "UPDATE workunit SET transition_time = ? WHERE id = ? AND (transition_time IS NULL OR transition_time > ?)"


def claim(
    tx: Transaction,
    assignments: Sequence[Assignment],
    *,
    host_id: HostId,
    user_id: UserId,
    grace_period: float,
    one_result_per_user: bool,
    in_browser: bool = False,
    now: float,
) -> list[Assignment]:
    """Assign results to a host, each only if still free; return those that succeeded.

    A workunit that another process works on at this moment counts as taken: it is not waited for.  Workunits that commit to
    a class of hosts or to a version do so now, unless another process committed them otherwise meanwhile; those of adaptive
    replication get their quorum.  What a browser is sent comes on top of the results that a workunit may have: tabs are closed.
    """
    ids = [assignment.candidate.workunit_id for assignment in assignments]
    reserve = Reserve.of(tx)
    reserve.look(ids)
    # Another scheduler may have sent this user another result of one since it was looked at, which is locked now.
    if in_browser:
        closed = workunits_closed_to_browser(tx, user_id, host_id, ids)
    else:
        closed = reserve.at(ids, user_id if one_result_per_user else host_id, host=not one_result_per_user)
    claimed = [
        assignment
        for assignment in assignments
        if reserve.is_free(assignment.candidate.result_id)
        and assignment.candidate.workunit_id not in closed
        and (not (assignment.hr_class or assignment.commit_version) or _commit(tx, assignment))
    ]
    take(
        tx,
        _SENT,
        _CLAIM,
        [
            (
                host_id,
                user_id,
                assignment.version.id,
                now,
                assignment.report_deadline + grace_period,
                assignment.usage.peak_flops,
                assignment.usage.avg_ncpus,
                assignment.candidate.result_id,
            )
            for assignment in claimed
        ],
    )
    tx.execute_many(
        _LOOK_AT,
        [
            (deadline, assignment.candidate.workunit_id, deadline)
            for assignment in claimed
            for deadline in (assignment.report_deadline + grace_period,)
        ],
    )
    if in_browser:
        more = "UPDATE workunit SET max_total_results = max_total_results + 1 WHERE id = ?"
        tx.execute_many(more, [(assignment.candidate.workunit_id,) for assignment in claimed])
    for assignment in claimed:
        reserve.sent(assignment.candidate.result_id, assignment.candidate.workunit_id, user_id, host_id)
        if assignment.quorum > 1:
            _replicate(tx, assignment, now=now)
    return claimed


def _commit(tx: Transaction, assignment: Assignment) -> bool:
    """Commit a workunit to a class of hosts, a version, or both; return whether it was free to do so."""
    hr_class = assignment.hr_class
    version_id = assignment.version.id if assignment.commit_version else None
    return (
        tx.execute(
            "UPDATE workunit SET hr_class = ?, app_version_id = ? WHERE id = ? AND hr_class IN (0, ?)"
            " AND (app_version_id IS NULL OR app_version_id = ?) AND error_mask = 0",
            (hr_class, version_id, assignment.candidate.workunit_id, hr_class, version_id),
        )
        == 1
    )


def _replicate(tx: Transaction, assignment: Assignment, *, now: float) -> None:
    """Set a quorum on a workunit of adaptive replication, unless it has one already."""
    quorum = assignment.quorum
    changed = tx.execute(
        "UPDATE workunit SET min_quorum = ?, target_nresults = ?, transition_time = ?,"
        " max_success_results = CASE WHEN max_success_results < ? THEN ? ELSE max_success_results END,"
        " max_total_results = CASE WHEN max_total_results < ? THEN ? ELSE max_total_results END"
        " WHERE id = ? AND target_nresults = 1 AND canonical_result_id IS NULL",
        (quorum, quorum, now, quorum, quorum, quorum, quorum, assignment.candidate.workunit_id),
    )
    if changed:
        tx.wake("transitioner")


def send_again(tx: Transaction, assignments: Sequence[Assignment], *, grace_period: float) -> None:
    """Renew deadline and version of lost results that their host gets again."""
    tx.lock("workunit", [assignment.candidate.workunit_id for assignment in assignments])
    tx.execute_many(
        f"UPDATE result SET app_version_id = ?, peak_flops = ?, avg_ncpus = ? WHERE id = ? AND {FOUND}{IS_IN_PROGRESS}",
        [
            (each.version.id, each.usage.peak_flops, each.usage.avg_ncpus, each.candidate.result_id)
            for each in assignments
        ],
    )
    set_deadlines(tx, {each.candidate.result_id: each.report_deadline + grace_period for each in assignments})


def set_deadlines(tx: Transaction, deadlines: Mapping[ResultId, float]) -> None:
    """Change the deadlines of results in progress, Unix seconds; those in the past time out at once."""
    rows = tx.query_in("SELECT id, workunit_id FROM result WHERE id IN (??)", list(deadlines))
    tx.execute_many(
        f"UPDATE result SET report_deadline = ? WHERE id = ? AND {FOUND}{IS_IN_PROGRESS}",
        [(deadline, result_id) for result_id, deadline in deadlines.items()],
    )
    tx.execute_many(_LOOK_AT, [(deadlines[row[0]], row[1], deadlines[row[0]]) for row in rows])


def detach_host(tx: Transaction, host_id: HostId, *, now: float) -> int:
    """End all results sent to a computer that lost its jobs permanently; return how many."""
    tx.execute(
        "UPDATE workunit SET transition_time = ? WHERE id IN"
        f" (SELECT workunit_id FROM result WHERE host_id = ? AND {IS_IN_PROGRESS})",
        (now, host_id),
    )
    n = tx.execute(
        _DETACHED.update("result", also="received_time = ?", key="host_id", few=False), (now, host_id)
    )
    if n:
        tx.wake("transitioner")
    return n


@value(kw_only=True)
class ReportedRow:
    """The row of a reported result with the values needed to judge the report."""

    result: Result
    output_specs: tuple[OutputSpec, ...]
    outputs_present: frozenset[int]
    host_owner: UserId | None
    delay_bound: float = 0.0  #: of its workunit, seconds
    replaced: bool = False
    """It was lost with a client's state, and its user got another one of the workunit; or a browser was silent, and another
    browser got one."""


def reported_rows(tx: Transaction, names: Sequence[str]) -> dict[str, ReportedRow | None]:
    """Return rows of reported results by name, for changing: None where one cannot be read; unknown names are left out."""
    if not names:
        return {}
    tx.lock_rows(LOCKED_WORKUNITS, names)
    rows = rows_to_report(tx, names)
    by_result: dict[int, list[Row]] = {}  # a row for each output that is there
    for row in rows:
        by_result.setdefault(row[0], []).append(row)

    def load(same: list[Row]) -> ReportedRow:
        result = RESULTS.load(same[0])
        specs, delay_bound, owner, _ = same[0][_N_RESULT_COLUMNS:]
        return ReportedRow(
            result=result,
            output_specs=decode_outputs(specs),
            outputs_present=frozenset(int(row[-1].rpartition("_")[2]) for row in same if row[-1] is not None),
            host_owner=owner,
            delay_bound=delay_bound,
            replaced=result.outcome in (Outcome.CLIENT_DETACHED, Outcome.NO_REPLY)
            and _has_replacement(tx, result),
        )

    found = {each.result.name: each for each in tx.readable(load, by_result.values())}
    return {row[_NAME]: found.get(row[_NAME]) for row in rows}


def rows_to_report(db: Database, names: Sequence[str]) -> list[Row]:
    """Return what `reported_rows` reads, for prefetching."""
    return db.query_in(
        f"SELECT {_RESULT_COLUMNS}, w.output_specs, w.delay_bound, h.user_id, u.name FROM result r"
        " JOIN workunit w ON w.id = r.workunit_id LEFT JOIN host h ON h.id = r.host_id"
        " LEFT JOIN upload u ON u.result_id = r.id WHERE r.name IN (??)",
        names,
    )


def _has_replacement(tx: Transaction, lost: Result) -> bool:
    """Return whether the user of a lost result got another one of its workunit, or another browser one of a silent browser's."""
    if lost.outcome is Outcome.CLIENT_DETACHED:
        found = tx.value(
            f"SELECT 1 FROM result WHERE workunit_id = ? AND user_id = ? AND id <> ? AND {IS_NOT_LOST} LIMIT 1",
            (lost.workunit_id, lost.user_id, lost.id),
        )
        return found is not None
    browsers = tx.query(
        f"SELECT r.id FROM result r JOIN {_AND_BROWSER} WHERE r.workunit_id = ? AND (r.id = ? OR {_ANSWERS})",
        (lost.workunit_id, lost.id),
    )
    return (lost.id,) in [tuple(row) for row in browsers] and len(browsers) > 1


def record_report(
    tx: Transaction,
    result: Result,
    accepted: AcceptedReport,
    *,
    stderr: str,
    report: Mapping[str, object],
    fpops_counted: float = 0.0,
    intops_counted: float = 0.0,
    host_id: HostId,
    now: float,
) -> None:
    """Store an accepted report and schedule the transitioner for its workunit."""
    take(
        tx,
        _REPORTS[accepted.outcome],
        _REPORT_STATEMENTS[accepted.outcome],
        [
            (
                int(accepted.client_state),
                accepted.exit_status,
                accepted.cpu_time,
                accepted.elapsed_time,
                accepted.received_time,
                fpops_counted,
                intops_counted,
                host_id,
                result.id,
            )
        ],
    )
    tx.execute_many(
        "INSERT INTO result_text (result_id, stderr, report) VALUES (?, ?, ?) ON CONFLICT (result_id)"
        " DO UPDATE SET stderr = excluded.stderr, report = excluded.report",
        [(result.id, _packed(stderr.encode()) if stderr else None, _encode(report).decode())],
    )
    tx.execute_many("UPDATE workunit SET transition_time = ? WHERE id = ?", [(now, result.workunit_id)])
    tx.wake("transitioner")


def _packed(data: bytes) -> bytes:
    """Compress the output of a program, which is usually short.

    Making ready the usual window of 32 KiB takes eight times as long as to compress a kilobyte with a small one, as well.
    """
    if len(data) > SHORT_NBYTES:
        return zlib.compress(data, 1)
    packer = zlib.compressobj(1, zlib.DEFLATED, 12, 5)  # 12: a window of SHORT_NBYTES
    return packer.compress(data) + packer.flush()


@value()
class JobInProgress:
    """A result sent to its host and not reported, with the values needed for a request."""

    result_id: ResultId
    name: str
    workunit_id: WorkunitId
    app_id: AppId
    app_version_id: AppVersionId | None
    report_deadline: float | None  #: Unix seconds, grace period included
    undisputed: bool  #: its workunit was neither cancelled nor assimilated


def jobs_in_progress(db: Database, host_id: HostId) -> list[JobInProgress]:
    """Return a host's unreported results, in the order of their ids."""
    rows = db.query(
        "SELECT r.id, r.name, r.workunit_id, r.app_id, r.app_version_id, r.report_deadline,"
        f" w.error_mask = 0 AND w.assimilate_state <> {AssimilateState.DONE}"
        f" FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.host_id = ? AND r.{IS_IN_PROGRESS} ORDER BY r.id",
        (host_id,),
    )
    return [JobInProgress(*row) for row in rows]


_HELD = RowMapper(
    HeldJob,
    {
        "result": RESULTS.embedded("r"),
        "error_mask": "w.error_mask",
        # A job that is audited is still wanted.
        "assimilate_state": "CASE WHEN EXISTS (SELECT 1 FROM escrow e WHERE e.workunit_id = w.id AND e.audit = 1)"
        f" THEN {AssimilateState.INIT:d} ELSE w.assimilate_state END",
    },
)


def held_rows(db: Database, names: Sequence[str]) -> dict[str, HeldJob]:
    """Return rows of jobs listed by a client, by name; unknown names are left out."""
    if not names:
        return {}
    rows = db.query_in(
        f"SELECT {_HELD.columns} FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.name IN (??)",
        names,
    )
    return {held.result.name: held for held in db.readable(_HELD.load, rows)}
