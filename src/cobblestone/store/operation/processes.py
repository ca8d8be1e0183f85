"""The processes of a server, on one machine or several: each notes from time to time that it is there, and what it does."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cobblestone.domain.values import value
from cobblestone.store.engine.database import Database, Transaction


class DaemonNote(msgspec.Struct, frozen=True):
    """How a daemon of a process was when it was noted last."""

    name: str
    state: str
    last_beat: float = 0.0  #: Unix seconds
    last_error: str = ""


@value(kw_only=True)
class ServerProcess:
    """A process, as it noted itself.  Times are Unix seconds."""

    key: str  #: a number that no other has
    host: str
    pid: int
    roles: tuple[str, ...]
    version: str
    started: float
    beat_time: float
    ended: bool = False  #: it was told to stop, and did
    daemons: tuple[DaemonNote, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[DaemonNote, ...]).decode
_COLUMNS = "process_key, host, pid, roles, version, started, beat_time, ended, daemons"


def note_process(tx: Transaction, process: ServerProcess, *, forget_before: float) -> None:
    """Note a process; forgets those that were not heard of since ``forget_before``."""
    tx.execute_many(
        f"INSERT INTO server_process ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (process_key)"
        " DO UPDATE SET beat_time = excluded.beat_time, ended = excluded.ended, daemons = excluded.daemons",
        [
            (
                process.key,
                process.host,
                process.pid,
                " ".join(process.roles),
                process.version,
                process.started,
                process.beat_time,
                int(process.ended),
                _encode(process.daemons).decode(),
            )
        ],
    )
    tx.execute_many("DELETE FROM server_process WHERE beat_time < ?", [(forget_before,)])


def server_processes(db: Database) -> Sequence[ServerProcess]:
    """All processes that are remembered, by machine and start."""
    rows = db.query(f"SELECT {_COLUMNS} FROM server_process ORDER BY host, started, process_key")
    return [
        ServerProcess(
            key=row[0],
            host=row[1],
            pid=row[2],
            roles=tuple(row[3].split()),
            version=row[4],
            started=row[5],
            beat_time=row[6],
            ended=bool(row[7]),
            daemons=_decode(row[8]),
        )
        for row in rows
    ]
