"""Each process of a service tells the others that it is there, and knows what they tell."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence

from cobblestone.service.context import ServiceContext
from cobblestone.service.health import DaemonHealth, ProjectWarning
from cobblestone.store.operation.processes import DaemonNote, ServerProcess, note_process, server_processes

BEAT_SECONDS = 15.0
SILENT_SECONDS = 60.0
"""A process that was not heard of for so long is taken for dead."""
FORGET_SECONDS = 86400.0


class Heartbeat:
    """Notes this process."""

    def __init__(self, ctx: ServiceContext, roles: Iterable[str], *, version: str) -> None:
        self._ctx = ctx
        self._roles = tuple(sorted(roles))
        self._version = version
        self._host = socket.gethostname()
        self._started = ctx.clock()
        self._key = secrets.token_hex(8)

    async def step(self) -> int:
        """One beat; there is never anything left to do at once."""
        await self._note(ended=False)
        self._ctx.health.processes = tuple(await self._ctx.store.aread(server_processes))
        return 0

    async def end(self) -> None:
        """Beat for the last time."""
        await self._note(ended=True)

    async def _note(self, *, ended: bool) -> None:
        ctx, now = self._ctx, self._ctx.clock()
        process = ServerProcess(
            key=self._key,
            host=self._host,
            pid=os.getpid(),
            roles=self._roles,
            version=self._version,
            started=self._started,
            beat_time=now,
            ended=ended,
            daemons=daemon_notes(ctx, now),
        )
        await ctx.store.awrite(lambda tx: note_process(tx, process, forget_before=now - FORGET_SECONDS))


def daemon_notes(ctx: ServiceContext, now: float) -> tuple[DaemonNote, ...]:
    """How the daemons of this process are."""
    return tuple(
        DaemonNote(name, beat.health(now).value, beat.last_beat, beat.last_error)
        for name, beat in ctx.health.daemons.items()
    )


def is_alive(process: ServerProcess, now: float) -> bool:
    """Whether a process may be taken to be there."""
    return not process.ended and now - process.beat_time <= SILENT_SECONDS


def daemons_of_all(
    own: Sequence[DaemonNote], processes: Sequence[ServerProcess], now: float
) -> dict[str, DaemonNote]:
    """Return the daemons of all processes by name; where several have one, that which does best."""
    best: dict[str, DaemonNote] = {}
    order = [health.value for health in (DaemonHealth.RUNNING, DaemonHealth.FAILING, DaemonHealth.STUCK)]
    for notes in (own, *(process.daemons for process in processes if is_alive(process, now))):
        for note in notes:
            known = best.get(note.name)
            if known is None or _rank(note, order) < _rank(known, order):
                best[note.name] = note
    return best


def _rank(note: DaemonNote, order: Sequence[str]) -> int:
    return order.index(note.state) if note.state in order else len(order)


def role_warnings(
    processes: Sequence[ServerProcess],
    roles: Iterable[str],
    *,
    started: float,
    max_silent_seconds: float,
    now: float,
) -> Iterator[ProjectWarning]:
    """Roles that no process has had for too long; ``started``: since when somebody looks."""
    if not processes or not started:
        return
    for role in roles:
        with_role = [process for process in processes if role in process.roles]
        if any(is_alive(process, now) for process in with_role):
            continue
        seen = max([process.beat_time for process in with_role] + [started])
        if now - seen > max_silent_seconds:
            yield ProjectWarning(
                code=f"no_{role}",
                text=f"No process with the role {role} has been heard of for {(now - seen) / 60:.0f} minutes.",
                severe=True,
            )
