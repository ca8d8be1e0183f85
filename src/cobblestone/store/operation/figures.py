"""Figures for operators: counts and samples of the whole project, outcomes of results, and failures.

What the operator's side asks: figures of the whole project, samples of them, and how results end.

Counts come from the partial indexes of the daemons; how results end is counted over the newest :data:`RATE_WINDOW` results,
so the cost does not grow with the project.

Why results failed: the newest failures of an app version or of a batch, grouped by what their hosts said.

Each question looks at a bounded number of rows, so its cost does not grow with the project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import msgspec

from cobblestone.domain.values import DAY, AppVersionId, BatchId, ResultId
from cobblestone.domain.work import Outcome, ValidateState, WorkunitError
from cobblestone.policy.dispatch.rollout import RolloutPlan, StageRecord
from cobblestone.policy.lifecycle import states
from cobblestone.policy.lifecycle.deadlines import PARKED_UNTIL
from cobblestone.policy.lifecycle.failures import FailureGroup, group_failures
from cobblestone.store.catalog.apps import CATALOGUE_CHANGED
from cobblestone.store.engine.database import Database, Parameters, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper, to_json
from cobblestone.store.work import steps
from cobblestone.store.work.rows import RESULTS, last_words, stderr_of_results

#: Rates look at the newest so many results.
RATE_WINDOW = 50_000

_PARKED = f"retry_time >= {PARKED_UNTIL:.0f}"
_CALLED_AGAIN = f"handler_failures > 0 AND retry_time < {PARKED_UNTIL:.0f}"


def _with_function(condition: str) -> str:
    """Count those of the workunits that wait for a function of the project.

    Two counts, each with an index of few rows: with an OR between them the whole table would be read.
    """
    return (
        f"SELECT (SELECT COUNT(*) FROM workunit WHERE need_validate = 1 AND {condition})"
        f" + (SELECT COUNT(*) FROM workunit WHERE {steps.TO_ASSIMILATE} AND need_validate = 0 AND {condition})"
    )


_COUNTS = {
    "unsent": f"SELECT COUNT(*) FROM result WHERE {steps.IS_UNSENT}",
    "in_progress": f"SELECT COUNT(*) FROM result WHERE {steps.IS_IN_PROGRESS}",
    "transition": "SELECT COUNT(*) FROM workunit WHERE transition_time IS NOT NULL AND transition_time <= ?",
    "validation": "SELECT COUNT(*) FROM workunit WHERE need_validate = 1",
    "assimilation": f"SELECT COUNT(*) FROM workunit WHERE {steps.TO_ASSIMILATE}",
    "parked": _with_function(_PARKED),
    "called_again": _with_function(_CALLED_AGAIN),
    "deletion": f"SELECT COUNT(*) FROM workunit WHERE {steps.DELETABLE}",
    "users": "SELECT COUNT(*) FROM user_account",
    # Both by their indexes; those that are not merged stand in none, and all rows would be read.
    "hosts": "SELECT (SELECT COUNT(*) FROM host) - (SELECT COUNT(*) FROM host WHERE merged_into IS NOT NULL)",
    "hosts_active": "SELECT COUNT(*) FROM host WHERE merged_into IS NULL AND rpc_time > ?",
    "batches_open": f"SELECT COUNT(*) FROM batch WHERE {steps.OPEN_BATCH}",
    "results_created": "SELECT COALESCE(MAX(id), 0) FROM result",
    "credit_entries": "SELECT COALESCE(MAX(id), 0) FROM credit_entry",
    "apps": "SELECT COUNT(*) FROM app WHERE deprecated = 0",
    "unsigned_versions": (
        'SELECT COUNT(*) FROM app_version WHERE deprecated = 0 AND files LIKE \'%"signature":""%\''
    ),
    "workunits_unfinished": "SELECT COUNT(*) FROM workunit WHERE transition_time IS NOT NULL",
}
_GOOD = f"r.outcome = {Outcome.SUCCESS} AND r.validate_state <> {ValidateState.INVALID}"
_INVALID = (
    f"(r.outcome = {Outcome.VALIDATE_ERROR}"
    f" OR (r.outcome = {Outcome.SUCCESS} AND r.validate_state = {ValidateState.INVALID}))"
)
_ENDED = steps.matching(states.SUCCESS, states.CLIENT_ERROR, states.NO_REPLY, states.VALIDATE_ERROR, row="r.")
_DETACHED = steps.step(states.Cause.DETACHED, states.RESULT_TRANSITIONS)
#: Results ``r`` that ended badly: failed, were not returned, or were not valid.
FAILED = f"{_ENDED} AND NOT ({_GOOD})"
_ENDED_AT = "COALESCE(r.received_time, r.report_deadline, 0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFigures:
    """The state of a project at one moment.  Ages in seconds."""

    unsent: int
    in_progress: int
    transition: int  #: workunits that are due
    validation: int
    assimilation: int
    parked: int  #: of those two: the project's own function failed too often on them
    called_again: int  #: of the others: it failed, and is called again
    deletion: int
    users: int
    hosts: int
    hosts_active: int  #: called within a day
    batches_open: int
    results_created: int  #: since the project began
    credit_entries: int  #: since the project began
    apps: int
    unsigned_versions: int
    workunits_unfinished: int  #: the transitioner will look at them again
    oldest_unsent_seconds: float  #: age of the result that is sent next
    backlog_seconds: float  #: for how long the workunit that is due first has waited


def project_figures(db: Database, *, now: float) -> ProjectFigures:
    """Count what waits and runs at ``now`` (Unix seconds)."""
    times = {"transition": now, "hosts_active": now - DAY}
    counts = {
        name: int(db.value(sql, (times[name],) if name in times else ())) for name, sql in _COUNTS.items()
    }
    # The order of the partial index, which is that of sending.
    oldest = db.value(
        f"SELECT create_time FROM result WHERE {steps.IS_UNSENT} ORDER BY priority DESC, id LIMIT 1"
    )
    due = db.value("SELECT MIN(transition_time) FROM workunit WHERE transition_time IS NOT NULL")
    return ProjectFigures(
        **counts,
        oldest_unsent_seconds=0.0 if oldest is None else max(0.0, now - oldest),
        backlog_seconds=0.0 if due is None else max(0.0, now - due),
    )


# -- how results end -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """The outcomes of results."""

    good: int = 0
    error: int = 0  #: failed on the host
    no_reply: int = 0  #: never returned
    invalid: int = 0

    @property
    def total(self) -> int:
        """Return the number of all results."""
        return sum(asdict(self).values())

    @property
    def error_rate(self) -> float:
        """Return the share that did not succeed; 0 without results."""
        return 1 - self.good / self.total if self.total else 0.0

    def __add__(self, other: Endings) -> Endings:
        return Endings(**{name: n + getattr(other, name) for name, n in asdict(self).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingRow:
    """Outcomes of one version's results on one host in a period."""

    host_id: int
    version_id: int
    endings: Endings


def _count(condition: str) -> Column:
    return Column(sql=f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)", decode=int)


_ENDINGS = RowMapper(
    EndingRow,
    {
        "host_id": "COALESCE(r.host_id, 0)",
        "version_id": "COALESCE(r.app_version_id, 0)",
        "endings": RowMapper(
            Endings,
            {
                "good": _count(_GOOD),
                "error": _count(f"r.outcome = {Outcome.CLIENT_ERROR}"),
                "no_reply": _count(f"r.outcome = {Outcome.NO_REPLY}"),
                "invalid": _count(_INVALID),
            },
        ),
    },
)


def endings(db: Database, *, since: float, version_id: int | None = None) -> list[EndingRow]:
    """Return the outcomes of results since a time (Unix seconds), by host and app version; optionally of one version."""
    newest = int(db.value("SELECT COALESCE(MAX(id), 0) FROM result"))
    wanted = "" if version_id is None else " AND r.app_version_id = ?"
    return db.load(
        _ENDINGS,
        f"result r WHERE r.id > ? AND {_ENDED} AND {_ENDED_AT} >= ?{wanted} GROUP BY r.host_id, r.app_version_id",
        [newest - RATE_WINDOW, since, *([] if version_id is None else [version_id])],
    )


@dataclass(frozen=True, slots=True)
class ProjectCounters:
    """Counts, and the outcomes of a day's results."""

    figures: ProjectFigures
    rows: list[EndingRow]  #: by host and app version
    endings: Endings  #: all together


def project_counters(db: Database, *, now: float) -> ProjectCounters:
    """Return the project's figures, and how results of the last day ended."""
    rows = endings(db, since=now - DAY)
    return ProjectCounters(project_figures(db, now=now), rows, sum((row.endings for row in rows), Endings()))


class _System(msgspec.Struct):
    os_name: str = ""


def systems_of_hosts(db: Database, host_ids: Sequence[int]) -> dict[int, str]:
    """Return operating systems of hosts by host id."""
    rows = db.query_in("SELECT id, description FROM host WHERE id IN (??)", host_ids)
    return {row[0]: msgspec.json.decode(row[1], type=_System).os_name or "unknown" for row in rows}


# -- samples -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FigureSample:
    """Figures at one moment."""

    time: float  #: Unix seconds
    figures: Mapping[str, float]


_SAMPLES = RowMapper(FigureSample)


def add_sample(tx: Transaction, figures: Mapping[str, float], *, now: float, keep_since: float) -> None:
    """Store figures; delete those from before ``keep_since``."""
    tx.execute("DELETE FROM project_sample WHERE time < ?", (keep_since,))
    tx.execute(
        "INSERT INTO project_sample (time, figures) VALUES (?, ?) ON CONFLICT (time) DO NOTHING",
        (now, to_json(figures)),
    )


def samples(db: Database, *, since: float) -> list[FigureSample]:
    """Return samples since a time, oldest first."""
    return db.load(_SAMPLES, "project_sample WHERE time >= ? ORDER BY time", (since,))


def last_sample_time(db: Database) -> float:
    """Return when the newest sample was taken; 0: never."""
    return float(db.value("SELECT MAX(time) FROM project_sample") or 0.0)


# -- roll-out ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFigures:
    """How a version reaches hosts."""

    version_id: AppVersionId
    fraction: float
    plan: RolloutPlan


_ROLLOUTS = RowMapper(
    RolloutFigures, {"version_id": "id", "fraction": "rollout_fraction", "plan": "rollout_plan"}
)


def rollout_of(db: Database, version_id: AppVersionId) -> RolloutFigures:
    """Return the roll-out of a version.

    Raises:
        NotFound: there is no such version.
    """
    missing = f"There is no app version {version_id}."
    return db.needed(_ROLLOUTS, "app_version WHERE id = ?", (version_id,), missing)


def rollouts_running(db: Database) -> list[RolloutFigures]:
    """Return roll-outs of versions in use that wait for their next step."""
    return db.load(
        _ROLLOUTS, 'app_version WHERE deprecated = 0 AND rollout_plan LIKE \'%"state":"running"%\''
    )


def set_rollout(tx: Transaction, version_id: AppVersionId, fraction: float, plan: RolloutPlan) -> None:
    """Store how a version reaches hosts."""
    tx.change("app_version", version_id, rollout_fraction=fraction, rollout_plan=to_json(plan))
    tx.wake(CATALOGUE_CHANGED)


def stage_record(db: Database, rollout: RolloutFigures) -> StageRecord:
    """Return the outcomes of a version's results since its current stage started."""
    rows = endings(db, since=rollout.plan.stage_time, version_id=rollout.version_id)
    total = sum((row.endings for row in rows), Endings())
    return StageRecord(n_good=total.good, n_bad=total.total - total.good)


def give_up_results_of_version(tx: Transaction, version_id: AppVersionId, *, now: float) -> int:
    """Give up a version's results on hosts, as if the hosts had left; return how many.

    Hosts are told to stop at their next contact, the transitioner makes new results, and what is reported all the same still
    counts.
    """
    rows = tx.query(
        f"SELECT id, workunit_id FROM result WHERE {steps.IS_IN_PROGRESS} AND app_version_id = ?",
        (version_id,),
    )
    tx.execute_many(_DETACHED.update("result"), [(row[0],) for row in rows])
    tx.execute_many(
        "UPDATE workunit SET transition_time = ? WHERE id = ?",
        [(now, workunit_id) for workunit_id in {row[1] for row in rows}],
    )
    if rows:
        tx.wake("transitioner")
    return len(rows)


#: Groups are made of the newest so many failures.
FAILURES_READ = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failed results grouped by kind of failure, most frequent first."""

    groups: tuple[FailureGroup, ...]
    cut: bool  #: there are more than were read


def version_failures(db: Database, version_id: AppVersionId) -> Failures:
    """Return why results of an app version failed, among the newest :data:`RATE_WINDOW` of the project."""
    newest = int(db.value("SELECT COALESCE(MAX(id), 0) FROM result"))
    return _failures(db, "result r", "r.id > ? AND r.app_version_id = ?", (newest - RATE_WINDOW, version_id))


def batch_failures(db: Database, batch_id: BatchId) -> Failures:
    """Return why results of a batch's jobs without an answer failed; of finished jobs, the newest :data:`RATE_WINDOW`."""
    jobs, parameters = _jobs_without_answer(db, batch_id)
    return _failures(db, f"({jobs}) w JOIN result r ON r.workunit_id = w.id", "1 = 1", parameters)


def job_errors(db: Database, batch_id: BatchId) -> dict[WorkunitError, int]:
    """Return how many of a batch's jobs ended without an answer, by reason."""
    jobs, parameters = _jobs_without_answer(db, batch_id)
    rows = db.query(
        f"SELECT w.error_mask, COUNT(*) FROM ({jobs}) w WHERE w.error_mask <> 0 GROUP BY w.error_mask ORDER BY 2 DESC",
        parameters,
    )
    return {WorkunitError(mask): int(count) for mask, count in rows}


def _jobs_without_answer(db: Database, batch_id: BatchId) -> tuple[str, Parameters]:
    last = db.number("SELECT MAX(completed_seq) FROM workunit WHERE batch_id = ?", (batch_id,))
    sql = (
        "SELECT id, error_mask FROM workunit WHERE batch_id = ? AND completed_seq > ? AND error_mask <> 0 UNION ALL"
        " SELECT id, error_mask FROM (SELECT id, error_mask FROM workunit"
        f" WHERE batch_id = ? AND completed_seq IS NULL LIMIT {RATE_WINDOW}) unfinished"
    )
    return sql, (batch_id, last - RATE_WINDOW, batch_id)


def _failures(db: Database, source: str, condition: str, parameters: Parameters) -> Failures:
    rows = db.query(
        f"SELECT {RESULTS.of('r')} FROM {source} WHERE {condition} AND {FAILED} ORDER BY r.id DESC LIMIT {FAILURES_READ + 1}",
        parameters,
    )
    found = [RESULTS.load(row) for row in rows[:FAILURES_READ]]
    texts = stderr_of_results(db, [result.id for result in found])
    said = {ResultId(id_): last_words(text) for id_, text in texts.items()}
    systems = systems_of_hosts(db, sorted({result.host_id for result in found if result.host_id is not None}))
    return Failures(groups=tuple(group_failures(found, said, systems)), cut=len(rows) > FAILURES_READ)
