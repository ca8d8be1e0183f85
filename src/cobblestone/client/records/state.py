"""The client's state, in memory and in one SQLite file in its data directory.

Records are changed in memory and marked with `State.put`; `State.flush` writes everything that is marked in one transaction.
The daemon flushes after each event and *before* it acts on it (starts a program, sends a report), so that a kill between any
two lines loses nothing and repeats only what may be repeated.  A lock keeps a second client out of the directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cobblestone.domain.errors import Busy, ConfigError, StoreError
from cobblestone.wire.client.gui_rpc import LoggedMessage
from cobblestone.wire.client.records import DailyCredit, FileRecord, JobRecord, ProjectContent, ProjectRecord
from cobblestone.wire.project.preferences import UserKeywords
from cobblestone.wire.scheduler.host import NetStats, TimeStats
from cobblestone.wire.scheduler.job import AppBlock, AppVersionBlock, WorkunitBlock

DATABASE = "cobblestone_client.sqlite"
LOCK = "lockfile"
FORMAT = 1
MOVES = "moves"
MAX_MESSAGES = 2000
MAX_EVENTS, MAX_EVENT_BYTES = 200_000, 100_000_000
MAX_RUNS = 2000
_TYPES: dict[str, Any] = {
    "project": ProjectRecord,
    "app": AppBlock,
    "version": AppVersionBlock,
    "workunit": WorkunitBlock,
    "file": FileRecord,
    "job": JobRecord,
}
_SCHEMA = (
    *(
        f"CREATE TABLE IF NOT EXISTS {kind} (project TEXT, name TEXT, body BLOB NOT NULL,"
        " PRIMARY KEY (project, name)) WITHOUT ROWID"
        for kind in _TYPES
    ),
    "CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS trickle (id INTEGER PRIMARY KEY, project TEXT, job TEXT, time REAL, variety TEXT, text TEXT)",
    "CREATE TABLE IF NOT EXISTS message (seqno INTEGER PRIMARY KEY, time REAL, project TEXT, priority INTEGER, body TEXT)",
    "CREATE TABLE IF NOT EXISTS credit_day (project TEXT, day INTEGER, body BLOB, PRIMARY KEY (project, day)) WITHOUT ROWID",
    (
        "CREATE TABLE IF NOT EXISTS estimated (project TEXT, day INTEGER, device TEXT, credit REAL, seconds REAL,"
        " PRIMARY KEY (project, day, device)) WITHOUT ROWID"
    ),
    "CREATE TABLE IF NOT EXISTS transfer_day (day INTEGER PRIMARY KEY, up REAL, down REAL)",
    (
        "CREATE TABLE IF NOT EXISTS history (id INTEGER PRIMARY KEY, project TEXT, job TEXT, app TEXT, exit_status INTEGER,"
        " elapsed REAL, cpu_time REAL, received REAL, completed REAL, reported REAL, outcome TEXT, estimate REAL, fpops REAL)"
    ),
    "CREATE INDEX IF NOT EXISTS history_by_time ON history (reported)",
    (
        "CREATE TABLE IF NOT EXISTS run (begin REAL, project TEXT, job TEXT, end REAL,"
        " PRIMARY KEY (begin, project, job)) WITHOUT ROWID"
    ),
    "CREATE TABLE IF NOT EXISTS event (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
)

_HISTORY = "project, job, app, exit_status, elapsed, cpu_time, received, completed, reported, outcome, estimate, fpops"
T = TypeVar("T")
Record = ProjectRecord | AppBlock | AppVersionBlock | WorkunitBlock | FileRecord | JobRecord


@dataclass(slots=True)
class ChosenMode:
    """A mode that the volunteer chose: 1 always, 2 by preferences, 3 never; and a temporary one."""

    permanent: int = 2
    temporary: int = 0
    until: float = 0.0
    previous: int = 2

    def now(self, now: float) -> int:
        """Return the mode in force."""
        return self.temporary if self.temporary and now < self.until else self.permanent


@dataclass(slots=True, kw_only=True)
class ManagerAttachment:
    """The account manager that the client follows."""

    url: str
    name: str = ""
    login: str = ""
    password_hash: str = ""
    authenticator: str = ""
    signing_key: str = ""
    previous_host_cpid: str = ""
    opaque: str = ""
    dynamic: bool = False
    user_name: str = ""
    team_name: str = ""
    next_rpc_time: float = 0.0
    failures: int = 0
    bad_password: bool = False
    no_project_notices: bool = False
    keywords: UserKeywords = UserKeywords()
    feeds: tuple[str, ...] = ()  #: addresses of its own feeds
    send_tasks: str = ""  #: ``active``, ``all`` or empty
    left: tuple[str, ...] = ()  #: projects that the volunteer had attached by hand, and has left


@dataclass(slots=True, kw_only=True)
class ClientNotes:
    """All state that belongs to no project."""

    host_cpid: str = ""
    run_mode: ChosenMode = field(default_factory=ChosenMode)
    gpu_mode: ChosenMode = field(default_factory=ChosenMode)
    network_mode: ChosenMode = field(default_factory=ChosenMode)
    time_stats: TimeStats = field(default_factory=TimeStats)
    net_stats: NetStats = field(default_factory=NetStats)
    p_fpops: float = 1e9
    p_iops: float = 1e9
    p_calculated: float = 0.0
    hardware: str = ""  #: what the benchmarks were run on
    product_name: str = ""  #: of the computer, as a manager says; empty: as the system says
    manager: ManagerAttachment | None = None
    proxy: dict[str, str | int] = field(default_factory=dict[str, str | int])
    suspended_gpus: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    policy: str = "recent"


class ClientDatabase:
    """The client's memory.  Raises StoreError, with a sentence, if the file cannot be used."""

    def __init__(self, folder: Path, *, lock: bool = True) -> None:
        self.folder = folder
        self._lock = _take_lock(folder) if lock else None
        self._database = _open(folder / DATABASE)
        self._dirty: dict[tuple[str, str, str], Any] = {}
        self._statements: list[tuple[str, tuple[Any, ...]]] = []
        for old, new in (self.note(MOVES, dict[str, str]) or {}).items():
            self._move(old, new)
        self.contents: dict[str, ProjectContent] = {}
        self.notes = self.note("client", ClientNotes) or ClientNotes()
        self._load()

    def close(self) -> None:
        """Release the directory; marked changes that were not flushed are lost."""
        self._database.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def move_at_start(self, old: str, new: str) -> None:
        """Give a project another address when the state is opened next: everywhere at once, while nothing is in progress."""
        self.keep(MOVES, {**(self.note(MOVES, dict[str, str]) or {}), old: new})

    def _move(self, old: str, new: str) -> None:
        texts = (f'"{old}"', f'"{new}"', f'"{old}|', f'"{new}|')  # alone, and in front of a job's name
        change = "CAST(replace(replace(CAST(body AS TEXT), ?, ?), ?, ?) AS BLOB)"
        with self._database:
            for table in (*_TYPES, "trickle", "credit_day", "estimated", "history", "run"):
                sql = f"UPDATE OR REPLACE {table} SET project = ? WHERE project = ?"
                self._database.execute(sql, (new, old))
            for table in (*_TYPES, "note", "event"):
                self._database.execute(f"UPDATE {table} SET body = {change}", texts)
            self._database.execute("DELETE FROM note WHERE name = ?", (MOVES,))

    # -- records ----------------------------------------------------------------------------------------

    def put(self, kind: str, project: str, name: str, record: Record) -> None:
        """Mark a record as changed."""
        self._dirty[kind, project, name] = record

    def put_project(self, project: ProjectRecord) -> None:
        """Mark a project as changed."""
        self._dirty["project", project.master_url, ""] = project

    def put_job(self, job: JobRecord) -> None:
        """Mark a job as changed."""
        self._dirty["job", job.project, job.name] = job

    def put_file(self, file: FileRecord) -> None:
        """Mark a file as changed."""
        self._dirty["file", file.project, file.name] = file

    def put_version(self, project: str, version: AppVersionBlock) -> None:
        """Mark an app version as changed."""
        self._dirty["version", project, _version_name(version)] = version

    def drop_version(self, project: str, version: AppVersionBlock) -> None:
        """Mark an app version for removal."""
        self.drop("version", project, _version_name(version))

    def drop(self, kind: str, project: str, name: str) -> None:
        """Mark a record for removal."""
        self._dirty[kind, project, name] = None

    def drop_project(self, project: str) -> None:
        """Remove a project with all that belongs to it."""
        self.contents.pop(project, None)
        self._dirty = {key: record for key, record in self._dirty.items() if key[1] != project}
        for table in (*_TYPES, "trickle", "credit_day"):
            self._mark(f"DELETE FROM {table} WHERE project = ?", project)

    def keep_notes(self) -> None:
        """Mark the state that belongs to no project as changed."""
        self.keep("client", self.notes)

    def keep(self, name: str, value: object) -> None:
        """Mark a named value as changed."""
        self._mark("INSERT OR REPLACE INTO note VALUES (?, ?)", name, msgspec.json.encode(value))

    def note(self, name: str, kind: type[T]) -> T | None:
        """Return a named value as stored."""
        rows = self._all("SELECT body FROM note WHERE name = ?", name)
        return msgspec.json.decode(rows[0][0], type=kind) if rows else None

    def flush(self) -> None:
        """Write all marked changes, atomically.  Raises StoreError; the marks stay."""
        if not (self._dirty or self._statements):
            return
        try:
            with self._database:
                for sql, values in self._statements:
                    self._database.execute(sql, values)
                for (kind, project, name), record in self._dirty.items():
                    if record is None:
                        self._database.execute(
                            f"DELETE FROM {kind} WHERE project = ? AND name = ?", (project, name)
                        )
                    else:
                        body = msgspec.json.encode(record)
                        self._database.execute(
                            f"INSERT OR REPLACE INTO {kind} VALUES (?, ?, ?)", (project, name, body)
                        )
        except sqlite3.Error as error:
            raise StoreError(
                f"The state cannot be saved in {self.folder / DATABASE}: {error}. Is the disk full, or read-only?"
            ) from error
        self._dirty.clear()
        self._statements.clear()

    def _load(self) -> None:
        for _, _, project in self._records("project"):
            self.contents[project.master_url] = ProjectContent(project=project)
        for url, name, app in self._records("app"):
            self.contents[url].apps[name] = app
        for url, _, version in self._records("version"):
            self.contents[url].versions.append(version)
        for url, name, workunit in self._records("workunit"):
            self.contents[url].workunits[name] = workunit
        for url, name, file in self._records("file"):
            self.contents[url].files[name] = file
        jobs = sorted(self._records("job"), key=lambda each: (each[2].received_time, each[1]))
        for url, name, job in jobs:
            self.contents[url].jobs[name] = job

    def _records(self, kind: str) -> Iterator[tuple[str, str, Any]]:
        decoder = msgspec.json.Decoder(_TYPES[kind])
        for url, name, body in self._all(f"SELECT project, name, body FROM {kind}"):
            if kind == "project" or url in self.contents:
                yield url, name, decoder.decode(body)

    # -- trickles, messages, history ----------------------------------------------------------------------

    def add_trickle(self, project: str, job: str, time: float, variety: str, text: str) -> None:
        """Store a message of a running job until the project has it."""
        sql = "INSERT INTO trickle (project, job, time, variety, text) VALUES (?, ?, ?, ?, ?)"
        self._mark(sql, project, job, time, variety, text)

    def trickles(self, project: str) -> list[tuple[int, str, float, str, str]]:
        """Return messages that the project does not have: number, job, time, variety, text."""
        return self._all(
            "SELECT id, job, time, variety, text FROM trickle WHERE project = ? ORDER BY id", project
        )

    def drop_trickles(self, numbers: Iterable[int]) -> None:
        """Forget messages that the project has."""
        for number in numbers:
            self._mark("DELETE FROM trickle WHERE id = ?", number)

    def add_message(self, line: LoggedMessage, *, keep: int = MAX_MESSAGES) -> None:
        """Store a line of the event log, and remove the oldest."""
        self._mark("INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", *astuple(line))
        self._mark("DELETE FROM message WHERE seqno <= ?", line.seqno - keep)

    def messages(self) -> Iterator[LoggedMessage]:
        """Yield the event log, oldest first."""
        for seqno, time, project, priority, body in self._all("SELECT * FROM message ORDER BY seqno"):
            yield LoggedMessage(seqno=seqno, time=time, project=project, priority=priority, body=body)

    def add_credit_day(self, project: str, day: DailyCredit) -> None:
        """Store a project's credit of a day, replacing earlier figures."""
        sql = "INSERT OR REPLACE INTO credit_day VALUES (?, ?, ?)"
        self._mark(sql, project, int(day.day // 86400), msgspec.json.encode(day))

    def credit_days(self, project: str, since: float = 0.0) -> list[DailyCredit]:
        """Return a project's credit by day."""
        sql = "SELECT body FROM credit_day WHERE project = ? AND day >= ? ORDER BY day"
        rows = self._all(sql, project, int(since // 86400))
        return [msgspec.json.decode(row[0], type=DailyCredit) for row in rows]

    def add_estimated(self, project: str, day: int, device: str, credit: float, seconds: float) -> None:
        """Add to the estimated credit of a project, day and device type."""
        sql = (
            "INSERT INTO estimated VALUES (?, ?, ?, ?, ?) ON CONFLICT (project, day, device)"
            " DO UPDATE SET credit = credit + excluded.credit, seconds = seconds + excluded.seconds"
        )
        self._mark(sql, project, day, device, credit, seconds)

    def estimated(self, since_day: int = 0) -> list[tuple[str, int, str, float, float]]:
        """Return estimated credit: project, day number, device type, credit, seconds."""
        return self._all(
            "SELECT project, day, device, credit, seconds FROM estimated WHERE day >= ? ORDER BY day, project",
            since_day,
        )

    def add_transferred(self, day: int, up: float, down: float) -> None:
        """Add to the bytes of a day."""
        add = "ON CONFLICT (day) DO UPDATE SET up = up + excluded.up, down = down + excluded.down"
        self._mark(f"INSERT INTO transfer_day VALUES (?, ?, ?) {add}", day, up, down)

    def transferred(self, since_day: int = 0) -> list[tuple[int, float, float]]:
        """Return transferred bytes by day: number of the day, up, down."""
        return self._all("SELECT day, up, down FROM transfer_day WHERE day >= ? ORDER BY day DESC", since_day)

    def add_history(
        self, job: JobRecord, *, app: str, reported: float, outcome: str, estimate: float, fpops: float
    ) -> None:
        """Store a job that the project has accepted."""
        of_job = (job.project, job.name, app, job.exit_status, job.final_elapsed_time, job.final_cpu_time)
        times = (job.received_time, job.completed_time, reported)
        sql = f"INSERT INTO history ({_HISTORY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._mark(sql, *of_job, *times, outcome, estimate, fpops)

    def history(self, since: float = 0.0, limit: int = 1000) -> list[dict[str, Any]]:
        """Return reported jobs, latest first."""
        sql = f"SELECT {_HISTORY} FROM history WHERE reported >= ? ORDER BY reported DESC LIMIT ?"
        return [dict(zip(_HISTORY.split(", "), row, strict=True)) for row in self._all(sql, since, limit)]

    def add_run(self, project: str, job: str, begin: float, end: float) -> None:
        """Record that a job ran without interruption; with the same start, that it continued until ``end``."""
        self._mark("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?)", begin, project, job, end)

    def forget_runs(self, before: float) -> None:
        """Delete old runs."""
        self._mark("DELETE FROM run WHERE begin < ?", before)

    def runs(self, since: float) -> list[tuple[str, str, float, float]]:
        """Return the latest runs: project, job, start, end; oldest first."""
        sql = "SELECT project, job, begin, end FROM run WHERE end >= ? ORDER BY begin DESC LIMIT ?"
        return self._all(sql, since, MAX_RUNS)[::-1]

    # -- the log of inputs ----------------------------------------------------------------------------------

    def add_event(self, body: bytes) -> None:
        """Append to the log of the core's inputs."""
        self._mark("INSERT INTO event (body) VALUES (?)", body)

    def trim_events(self) -> None:
        """Keep the newest part of the log of inputs; with hundreds of running tasks an entry is long."""
        newest = "SELECT id, LENGTH(body) AS size FROM event ORDER BY id DESC LIMIT 1000"
        kept = "SELECT MAX(id) - MIN(?, CAST(? / AVG(size) AS INTEGER)) FROM"
        self._mark(f"DELETE FROM event WHERE id <= ({kept} ({newest}))", MAX_EVENTS, MAX_EVENT_BYTES)

    def keep_core(self, stored: dict[str, Any]) -> None:
        """Store the core's state, and the number of its last event."""
        sql = (
            "INSERT OR REPLACE INTO note VALUES ('core',"
            " json_set(CAST(? AS TEXT), '$.event', (SELECT COALESCE(MAX(id), 0) FROM event)))"
        )
        self._mark(sql, msgspec.json.encode(stored))

    def events_since(self, number: int) -> list[tuple[int, bytes]]:
        """Return the log of inputs after an event."""
        return self._all("SELECT id, body FROM event WHERE id > ? ORDER BY id", number)

    def clear_events(self) -> None:
        """Clear the log of inputs."""
        self._mark("DELETE FROM event")

    def events(self) -> Iterator[bytes]:
        """Yield the log of inputs, oldest first."""
        for row in self._all("SELECT body FROM event ORDER BY id"):
            yield row[0]

    # -- SQL --------------------------------------------------------------------------------------------

    def _mark(self, sql: str, *values: Any) -> None:
        """Have a change written with the next flush."""
        self._statements.append((sql, values))

    def _all(self, sql: str, *values: Any) -> list[Any]:
        try:
            return self._database.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.folder / DATABASE} cannot be read: {error}.") from error


def _version_name(version: AppVersionBlock) -> str:
    return "|".join(map(str, version.key))


def _take_lock(folder: Path) -> int:
    """Lock the directory as BOINC's client does, so that no two clients can share it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o660)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used as a data directory: {error.strerror}.") from error
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise Busy(
            f"Another client is using {folder}. Stop it first, or give this one another directory."
        ) from None
    return descriptor


def _open(path: Path) -> sqlite3.Connection:
    with contextlib.ExitStack() as on_failure:
        database = _prepare(path, on_failure)
        on_failure.pop_all()
    return database


def _prepare(path: Path, on_failure: contextlib.ExitStack) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, isolation_level="IMMEDIATE", check_same_thread=False)
        on_failure.callback(database.close)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise StoreError(
                f"{path} was written by a newer version of cobblestone (format {version}). Upgrade, then start again."
            )
        with database:
            for statement in _SCHEMA:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {FORMAT}")
        path.chmod(0o600)  # it holds account keys
    except (sqlite3.Error, OSError) as error:
        advice = "Is the disk full, or read-only?"
        if type(error) is sqlite3.DatabaseError:  # none of its special kinds, as when the disk is full
            advice = "It is damaged: move it away and start again; projects can be attached again."
        raise StoreError(f"{path} cannot be opened: {error}. {advice}") from error
    return database
