"""Read queries of the pages for people.

Each is bounded: a page of rows, or the newest so many of a long list.  Counts of work come from the partial indexes of
the daemons; counts "of the last day" from ids, which grow with time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cobblestone.domain.people import User
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import DAY, AppId, HostId, UserId, WorkunitId
from cobblestone.domain.work import Outcome, Result, ServerState, TaskState, ValidateState
from cobblestone.policy.credit.rac import decayed
from cobblestone.policy.lifecycle import states
from cobblestone.store.averages import CREDIT
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.engine import Parameters
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.operation.ranking import MAX_PAGE, PAGE_SIZE, SHOWN
from cobblestone.store.people import hosts
from cobblestone.store.people import users as people
from cobblestone.store.work import lifecycle, steps
from cobblestone.store.work.rows import RESULTS
from cobblestone.store.work.steps import matching

MAX_ID = 2**62
#: Lists and counts of one user's or host's tasks look at the newest so many.
NEWEST_TASKS = 20_000
#: Who has at least this recent average credit counts as active (the family's threshold).
RECENT_CREDIT = 0.1
_RUN_TIME_SAMPLES = 2000


def _success(*validated: ValidateState) -> str:
    return f"{matching(states.SUCCESS, row='r.')} AND {matching(*validated, row='r.')}"


_UNDONE = (states.COULDNT_SEND, states.NO_REPLY, states.DIDNT_NEED, states.CLIENT_DETACHED)
_UNSAID = states.ResultState(ServerState.OVER)  # no state, but a task is never left out
_FAILED = matching(states.CLIENT_ERROR, *_UNDONE, _UNSAID, row="r.")
TASK_CONDITIONS: Mapping[TaskState, str] = {
    TaskState.IN_PROGRESS: matching(states.IN_PROGRESS, row="r."),
    TaskState.WAITING: _success(ValidateState.INIT, ValidateState.INCONCLUSIVE),
    TaskState.VALID: _success(ValidateState.VALID),
    TaskState.INVALID: f"({matching(states.VALIDATE_ERROR, row='r.')} OR {_success(ValidateState.INVALID)})",
    TaskState.ERROR: f"({_FAILED} OR {_success(ValidateState.NO_CHECK, ValidateState.TOO_LATE)})",
}


#: The state of a task ``r``; null: not sent yet.
TASK_STATE = " ".join(
    ["CASE", *(f"WHEN {TASK_CONDITIONS[state]} THEN '{state}'" for state in TaskState), "END"]
)
#: How many tasks ``r`` are in each state, in the order of `TaskState`.
TASK_COUNTS = ", ".join(f"count(*) FILTER (WHERE {TASK_CONDITIONS[state]})" for state in TaskState)


def task_state(result: Result) -> TaskState | None:
    """Return the state under which a list shows a task; None: not sent yet."""
    if result.server_state == ServerState.IN_PROGRESS:
        return TaskState.IN_PROGRESS
    if result.server_state != ServerState.OVER:
        return None
    if result.outcome == Outcome.VALIDATE_ERROR:
        return TaskState.INVALID
    if result.outcome != Outcome.SUCCESS:
        return TaskState.ERROR
    return _OF_SUCCESSFUL.get(result.validate_state, TaskState.ERROR)


_OF_SUCCESSFUL = {
    ValidateState.INIT: TaskState.WAITING,
    ValidateState.INCONCLUSIVE: TaskState.WAITING,
    ValidateState.VALID: TaskState.VALID,
    ValidateState.INVALID: TaskState.INVALID,
}


# -- tasks ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A result as a list shows it."""

    result: Result
    workunit_name: str
    app_title: str
    host_name: str
    user_name: str
    host_label: str  #: the owner's own name for it
    shows_hosts: bool  #: whether its user lets others see this computer
    is_canonical: bool  #: its answer became that of the job


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOwner:
    """The owner of listed tasks; exactly one is given."""

    user_id: UserId | None = None
    host_id: HostId | None = None
    app_id: AppId | None = None  #: only tasks of this app

    def where(self) -> tuple[str, int]:
        """Return the condition and its value."""
        if self.host_id is not None:
            return "r.host_id = ?", self.host_id
        return "r.user_id = ?", self.user_id or 0


_TITLE = "COALESCE(NULLIF(a.user_friendly_name, ''), a.name, '')"
_TASKS = RowMapper(
    TaskRow,
    {
        "result": RESULTS.embedded("r"),
        "workunit_name": "w.name",
        "app_title": _TITLE,
        "host_name": "COALESCE(h.domain_name, '')",
        "user_name": "COALESCE(u.name, '')",
        "host_label": "COALESCE(h.label, '')",
        "shows_hosts": "u.show_hosts = 1 AND COALESCE(h.hidden, 0) = 0",
        "is_canonical": "w.canonical_result_id = r.id",
    },
)
_TASK_JOINS = (
    " JOIN workunit w ON w.id = r.workunit_id LEFT JOIN app a ON a.id = r.app_id"
    " LEFT JOIN host h ON h.id = r.host_id LEFT JOIN user_account u ON u.id = r.user_id"
)


def _task_rows(db: Database, source: str, parameters: Parameters, order: str) -> list[TaskRow]:
    return db.load(_TASKS, f"{source} r {_TASK_JOINS} ORDER BY r.id {order}", parameters)


def list_tasks(
    db: Database,
    owner: TaskOwner,
    *,
    state: TaskState | None = None,
    canonical: bool = False,
    before: int | None = None,
    limit: int = PAGE_SIZE,
) -> list[TaskRow]:
    """Return an owner's tasks with ids below ``before``, newest first, with one more if there are older ones.

    ``canonical``: only those whose answer became that of their job.
    """
    condition, value = owner.where()
    # The inner limit bounds the work when a filter finds little among very many tasks.
    newest = (
        "(SELECT r.id, r.workunit_id, r.app_id, r.server_state, r.outcome, r.validate_state FROM result r"
        f" WHERE {condition} AND r.id < ? ORDER BY r.id DESC LIMIT {NEWEST_TASKS})"
    )
    conditions = ["1 = 1"]
    parameters: list[object] = [value, MAX_ID if before is None else before]
    if state:
        conditions.append(TASK_CONDITIONS[state])
    if canonical:
        conditions.append(
            "EXISTS (SELECT 1 FROM workunit w WHERE w.id = r.workunit_id AND w.canonical_result_id = r.id)"
        )
    if owner.app_id is not None:
        conditions.append("r.app_id = ?")
        parameters.append(owner.app_id)
    ids = f"SELECT r.id FROM {newest} r WHERE {' AND '.join(conditions)} ORDER BY r.id DESC LIMIT ?"
    source = f"(SELECT * FROM result WHERE id IN ({ids}))"
    return _task_rows(db, source, (*parameters, limit + 1), "DESC")


def count_tasks(db: Database, owner: TaskOwner) -> dict[TaskState, int]:
    """Return how many of an owner's newest tasks are in each state."""
    condition, value = owner.where()
    row = db.one(
        f"SELECT {TASK_COUNTS} FROM (SELECT r.app_id, r.server_state, r.outcome, r.validate_state FROM result r"
        f" WHERE {condition} ORDER BY r.id DESC LIMIT {NEWEST_TASKS}) r WHERE r.app_id = ? OR ? = 0",
        (value, owner.app_id or 0, owner.app_id or 0),
    )
    return dict(zip(TaskState, row or (0,) * len(TaskState), strict=True))


def records_of_computer(db: Database, host_id: int) -> list[int]:
    """Return a computer's number, and those of records merged into it."""
    rows = db.query("SELECT id FROM host WHERE merged_into = ? ORDER BY id LIMIT 100", (host_id,))
    return [host_id, *(row[0] for row in rows)]


def task(db: Database, result_id: int) -> TaskRow | None:
    """Return one task, or None."""
    found = _task_rows(db, "(SELECT * FROM result WHERE id = ?)", (result_id,), "ASC")
    return found[0] if found else None


def tasks_of_workunit(db: Database, workunit_id: WorkunitId) -> list[TaskRow]:
    """Return the tasks of one workunit, oldest first."""
    return _task_rows(
        db, "(SELECT * FROM result WHERE workunit_id = ? ORDER BY id LIMIT 200)", (workunit_id,), "ASC"
    )


# -- people and computers ------------------------------------------------------


def users_by_id(db: Database, user_ids: Iterable[int]) -> dict[UserId, User]:
    """Return several users; missing ones are left out."""
    found = db.load_in(people.USERS, "user_account WHERE id IN (??)", list(dict.fromkeys(user_ids)))
    return {user.id: user for user in found}


def team_members(db: Database, team_id: int, *, page: int) -> list[User]:
    """Return a page of a team's members by recent average credit, with one more if there is a next page."""
    return db.load(
        people.USERS,
        "user_account WHERE id IN (SELECT id FROM user_account WHERE team_id = ?"
        " ORDER BY expavg_credit DESC, id LIMIT ? OFFSET ?) ORDER BY expavg_credit DESC, id",
        (team_id, PAGE_SIZE + 1, min(page, MAX_PAGE) * PAGE_SIZE),
    )


def external_address(db: Database, host_id: HostId) -> str:
    """Return the address of a host's last request."""
    return str(db.value("SELECT external_ip_addr FROM host WHERE id = ?", (host_id,)) or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVersionRow:
    """The record of one app version on one host."""

    app_title: str
    version_num: int
    platform: str
    plan_class: str
    record: hosts.HostAppVersion


_HOST_VERSIONS = RowMapper(
    HostVersionRow,
    {
        "app_title": _TITLE,
        **{name: f"v.{name}" for name in ("version_num", "platform", "plan_class")},
        "record": hosts.RECORDS.embedded("r"),
    },
)


def version_records(db: Database, host_id: HostId) -> list[HostVersionRow]:
    """Return records of a host by app version, newest version first."""
    source = (
        "host_app_version r JOIN app_version v ON v.id = r.app_version_id JOIN app a ON a.id = v.app_id"
        " WHERE r.host_id = ? ORDER BY v.id DESC LIMIT 200"
    )
    return db.load(_HOST_VERSIONS, source, (host_id,))


# -- the project as a whole ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AppCounts:
    """Tasks of one app.  Run times in seconds, of results credited in the last day."""

    app_id: AppId
    name: str
    title: str
    unsent: int = 0
    in_progress: int = 0
    avg_runtime: float = 0.0
    min_runtime: float = 0.0
    max_runtime: float = 0.0
    n_users: int = 0  #: with a credited result in the last day


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStateCounts:
    """The state of the whole project at one moment."""

    results_ready_to_send: int
    results_in_progress: int
    results_valid_last_day: int
    workunits_waiting_for_validation: int
    workunits_waiting_for_assimilation: int
    workunits_waiting_for_deletion: int
    results_waiting_for_deletion: int
    oldest_transition: float | None  #: Unix seconds, of the workunit that is due first
    users: int
    users_with_recent_credit: int
    users_active: int  #: with a computer that called within the last day
    users_with_credit: int
    users_new: int  #: in the last day
    hosts: int
    hosts_with_recent_credit: int
    hosts_active: int  #: that called within the last day
    hosts_with_credit: int
    hosts_new: int
    credit_per_day: float  #: recent average credit of all app versions together
    apps: tuple[AppCounts, ...]


def project_counts(db: Database, *, now: float) -> ProjectStateCounts:
    """Count what waits, runs and was done."""
    day_ago = now - DAY
    first_entry = _first_id_since(db, "credit_entry", "time", day_ago)
    last_entry = db.number("SELECT max(id) FROM credit_entry")

    def count(table: str, condition: str = "1 = 1", *values: object) -> int:
        return int(db.value(f"SELECT count(*) FROM {table} WHERE {condition}", values))

    return ProjectStateCounts(
        results_ready_to_send=count("result", steps.IS_UNSENT),
        results_in_progress=count("result", steps.IS_IN_PROGRESS),
        # The ledger is never cut, so its ids have no gaps worth counting.
        results_valid_last_day=max(0, last_entry - first_entry + 1) if first_entry else 0,
        workunits_waiting_for_validation=count("workunit", "need_validate = 1"),
        workunits_waiting_for_assimilation=count("workunit", steps.TO_ASSIMILATE),
        workunits_waiting_for_deletion=count("workunit", steps.DELETABLE),
        results_waiting_for_deletion=count("result", steps.DELETABLE),
        oldest_transition=lifecycle.next_transition_time(db),
        users=count("user_account"),
        users_with_recent_credit=count(
            "user_account", f"{SHOWN[Owner.USER]} AND expavg_credit >= ?", RECENT_CREDIT
        ),
        users_active=db.number(
            "SELECT count(DISTINCT user_id) FROM host WHERE merged_into IS NULL AND rpc_time > ?", (day_ago,)
        ),
        # decay never reaches 0
        users_with_credit=count("user_account", f"{SHOWN[Owner.USER]} AND expavg_credit > 0"),
        users_new=_count_since(db, "user_account", day_ago),
        hosts=count("host"),
        hosts_with_recent_credit=count("host", f"{SHOWN[Owner.HOST]} AND expavg_credit >= ?", RECENT_CREDIT),
        hosts_active=count("host", "merged_into IS NULL AND rpc_time > ?", day_ago),
        hosts_with_credit=count("host", f"{SHOWN[Owner.HOST]} AND expavg_credit > 0"),
        hosts_new=_count_since(db, "host", day_ago),
        credit_per_day=sum(
            decayed(RecentAverage(value, time), now)
            for value, time in db.query("SELECT expavg_credit, expavg_time FROM app_version")
        ),
        apps=tuple(_app_counts(db, first_entry, last_entry)),
    )


def _app_counts(db: Database, first_entry: int | None, last_entry: int) -> list[AppCounts]:
    # The + keeps SQLite from walking the whole index by app for the sake of the grouping.
    waiting = dict(db.query(f"SELECT +app_id, count(*) FROM result WHERE {steps.IS_UNSENT} GROUP BY 1"))
    running = dict(db.query(f"SELECT +app_id, count(*) FROM result WHERE {steps.IS_IN_PROGRESS} GROUP BY 1"))
    times: dict[int, dict[str, Any]] = {}
    names = ("avg_runtime", "min_runtime", "max_runtime", "n_users")
    if first_entry is not None:
        newest = max(first_entry, last_entry - _RUN_TIME_SAMPLES + 1)
        rows = db.query(
            "SELECT +r.app_id, avg(r.elapsed_time), min(r.elapsed_time), max(r.elapsed_time), count(DISTINCT c.user_id)"
            # A limit that is not in the text counts as a tenth of all rows, and PostgreSQL then reads all results.
            f" FROM (SELECT result_id, user_id FROM credit_entry WHERE id >= ? ORDER BY id DESC LIMIT {_RUN_TIME_SAMPLES}) c"
            " JOIN result r ON r.id = c.result_id GROUP BY 1",
            (newest,),
        )
        times = {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}
    return [
        AppCounts(
            app_id=AppId(id_),
            name=name,
            title=title or name,
            unsent=waiting.get(id_, 0),
            in_progress=running.get(id_, 0),
            **times.get(id_, {}),
        )
        for id_, name, title in db.query(
            "SELECT id, name, user_friendly_name FROM app WHERE deprecated = 0 ORDER BY id"
        )
    ]


def _count_since(db: Database, table: str, since: float) -> int:
    first = _first_id_since(db, table, "create_time", since)
    if first is None:
        return 0
    return int(db.value(f"SELECT count(*) FROM {table} WHERE id >= ?", (first,)))


def _first_id_since(db: Database, table: str, column: str, since: float) -> int | None:
    """Return the first id whose time is ``since`` or later, by binary search, since ids grow with time."""
    last = db.one(f"SELECT id, {column} FROM {table} ORDER BY id DESC LIMIT 1")
    if last is None or last[1] < since:
        return None
    low, high = 0, int(last[0]) - 1  # the row after `high` is young enough; find the least such place
    while low < high:
        middle = (low + high) // 2
        row = db.one(f"SELECT {column} FROM {table} WHERE id > ? ORDER BY id LIMIT 1", (middle,))
        if row is not None and row[0] >= since:
            high = middle
        else:
            low = middle + 1
    return int(db.value(f"SELECT id FROM {table} WHERE id > ? ORDER BY id LIMIT 1", (low,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """An app version as the list of apps shows it."""

    id: int
    app_id: AppId
    version_num: int
    platform: str
    plan_class: str
    beta: bool
    create_time: float
    credit: CreditStatement


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of recent tasks, in the order of `TaskState`."""

    in_progress: int
    waiting: int
    valid: int
    invalid: int
    error: int

    @property
    def success_rate(self) -> float | None:
        """Return the share of valid ones among the decided ones (0 to 1); None if none is decided."""
        decided = self.valid + self.invalid + self.error
        return self.valid / decided if decided else None


def outcomes_by_version(db: Database, app_id: AppId) -> dict[int, Outcomes]:
    """Return the outcomes of the newest `NEWEST_TASKS` tasks of an app, by version."""
    rows = db.query(
        f"SELECT r.app_version_id, {TASK_COUNTS} FROM (SELECT app_version_id, server_state, outcome, validate_state FROM result"
        f" WHERE app_id = ? ORDER BY id DESC LIMIT {NEWEST_TASKS}) r WHERE r.app_version_id IS NOT NULL"
        " GROUP BY r.app_version_id",
        (app_id,),
    )
    return {int(row[0]): Outcomes(*(int(value) for value in row[1:])) for row in rows}


_VERSIONS = RowMapper(VersionRow, {"credit": CREDIT})


def versions_in_use(db: Database) -> list[VersionRow]:
    """Return versions in use, by app and platform."""
    return db.load(
        _VERSIONS, "app_version WHERE deprecated = 0 ORDER BY app_id, platform, version_num DESC LIMIT 1000"
    )
