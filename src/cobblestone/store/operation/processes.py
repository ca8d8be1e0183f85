"""The processes of a server, on one or several machines: each records at intervals that it is alive, and its roles."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cobblestone.domain.values import value
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper


class DaemonNote(msgspec.Struct, frozen=True):
    """The recorded state of a daemon of a process."""

    name: str
    state: str
    last_beat: float = 0.0  #: Unix seconds
    last_error: str = ""


@value(kw_only=True)
class ProcessRow:
    """A recorded process.  Times are Unix seconds."""

    key: str  #: a number that no other has
    host: str
    pid: int
    roles: tuple[str, ...]
    version: str
    started: float
    beat_time: float
    ended: bool = False  #: it was told to stop, and did
    daemons: tuple[DaemonNote, ...] = ()


_PROCESSES = RowMapper(
    ProcessRow,
    {"key": "process_key", "roles": Column(decode=lambda text: tuple(text.split()), encode=" ".join)},
)
_STORED_PROCESS = _PROCESSES.writer()


def note_process(tx: Transaction, process: ProcessRow, *, forget_before: float) -> None:
    """Record a process; delete those without a record since ``forget_before``."""
    tx.execute_many(
        _STORED_PROCESS.upsert("server_process", "process_key"), [_STORED_PROCESS.values(process)]
    )
    tx.execute_many("DELETE FROM server_process WHERE beat_time < ?", [(forget_before,)])


def server_processes(db: Database) -> Sequence[ProcessRow]:
    """Return all recorded processes, by machine and start."""
    return db.load(_PROCESSES, "server_process ORDER BY host, started, process_key")
