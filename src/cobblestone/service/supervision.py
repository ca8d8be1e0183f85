"""Daemons and processes of a service: the loop of each daemon, and messages between processes."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.domain.reasons import HealthWarning
from cobblestone.service.context import ProcessContext, ServiceContext
from cobblestone.service.health import STEP_LIMIT_SECONDS, DaemonHealth
from cobblestone.store.engine.database import background_seconds, in_background
from cobblestone.store.engine.process_group import ProcessGroup
from cobblestone.store.operation.processes import DaemonNote, ProcessRow, note_process, server_processes

BEAT_SECONDS = 15.0
#: A process that was not heard of for so long is taken for dead.
SILENT_SECONDS = 60.0
FORGET_SECONDS = 86400.0


class Heartbeat:
    """Records this process as alive."""

    def __init__(self, ctx: ServiceContext, roles: Iterable[str], *, version: str) -> None:
        self._ctx = ctx
        self._process = ProcessRow(
            key=secrets.token_hex(8),
            host=socket.gethostname(),
            pid=os.getpid(),
            roles=tuple(sorted(roles)),
            version=version,
            started=ctx.clock(),
            beat_time=0.0,
        )

    async def step(self) -> int:
        """Beat once; return 0, as nothing is left to do at once."""
        await self._note(ended=False)
        self._ctx.health.processes = tuple(await self._ctx.store.aread(server_processes))
        return 0

    async def end(self) -> None:
        """Beat for the last time."""
        await self._note(ended=True)

    async def _note(self, *, ended: bool) -> None:
        ctx, now = self._ctx, self._ctx.clock()
        process = replace(self._process, beat_time=now, ended=ended, daemons=daemon_notes(ctx))
        await ctx.store.awrite(lambda tx: note_process(tx, process, forget_before=now - FORGET_SECONDS))


def daemon_notes(ctx: ServiceContext) -> tuple[DaemonNote, ...]:
    """Return the state of this process's daemons."""
    return tuple(
        DaemonNote(name, beat.health().value, beat.last_beat, beat.last_error)
        for name, beat in ctx.health.daemons.items()
    )


def is_alive(process: ProcessRow, now: float) -> bool:
    """Return whether a process can be assumed to be alive."""
    return not process.ended and now - process.beat_time <= SILENT_SECONDS


def daemons_of_all(
    own: Sequence[DaemonNote], processes: Sequence[ProcessRow], now: float
) -> dict[str, DaemonNote]:
    """Return the daemons of all processes by name; if several have one, the healthiest."""
    best: dict[str, DaemonNote] = {}
    order = [health.value for health in (DaemonHealth.RUNNING, DaemonHealth.FAILING, DaemonHealth.STUCK)]
    found = [*own, *(note for process in processes if is_alive(process, now) for note in process.daemons)]
    for note in sorted(found, key=lambda each: [*order, each.state].index(each.state)):
        best.setdefault(note.name, note)
    return best


def role_warnings(
    processes: Sequence[ProcessRow],
    roles: Iterable[str],
    *,
    started: float,
    max_silent_seconds: float,
    now: float,
) -> Iterator[HealthWarning]:
    """Return roles without a process for too long; ``started``: when watching began."""
    if not processes or not started:
        return
    for role in roles:
        with_role = [process for process in processes if role in process.roles]
        if any(is_alive(process, now) for process in with_role):
            continue
        seen = max([process.beat_time for process in with_role] + [started])
        if now - seen > max_silent_seconds:
            yield HealthWarning(
                code=f"no_{role}",
                text=f"No process with the role {role} has reported for {(now - seen) / 60:.0f} minutes.",
                severe=True,
            )


log = structlog.get_logger(__name__)

SWEEP_SECONDS = 5.0
ERROR_PAUSE_SECONDS = 2.0
#: From the start of one small step to the next: under load, rows gather meanwhile, and a step for many costs as much as
#: one for a few.
PACE_SECONDS = 0.1
SMALL_STEP = 50
#: Fewer rows in a write would cost twice as much each.
LEAST_PORTION = 10

#: Does a piece of the work; returns how much was done, 0 when nothing is left.
Step = Callable[[], Awaitable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonTask:
    """A daemon: its step, and when it looks for work without a signal."""

    name: str  #: also the name of the signal that wakes it
    step: Step
    pause: Callable[[], Awaitable[float]] | None = None  #: seconds to wait at most; else `sweep_seconds`
    sweep_seconds: float = SWEEP_SECONDS
    step_limit: float = STEP_LIMIT_SECONDS  #: seconds after which its step is taken to hang
    rest: float = 0.0  #: it waits at least so many times as long as its last step took


@asynccontextmanager
async def run_daemons(ctx: ProcessContext, daemons: Iterable[DaemonTask]) -> AsyncGenerator[None, None]:
    """Run daemons while the block runs."""
    ctx.signals.bind(asyncio.get_running_loop())
    tasks = [
        asyncio.create_task(keep_running(daemon.name, partial(run_daemon, ctx, daemon)), name=daemon.name)
        for daemon in daemons
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Keep something running; whenever it ends, that is logged and it is restarted."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("background_task_failed", task=name)
        await asyncio.sleep(ERROR_PAUSE_SECONDS)


async def run_daemon(ctx: ProcessContext, daemon: DaemonTask) -> None:
    """Take steps until nothing is left to do, then wait for the daemon's signal or the next sweep.

    An error is logged and the loop goes on: one bad row must not stop a service.
    """
    in_background.set(True)
    beat = ctx.health.daemon(daemon.name)
    _goes_on.set(lambda: beat.begin(ctx.clock()))
    beat.step_limit, beat.stopped = daemon.step_limit, False
    try:
        while True:
            wait = daemon.sweep_seconds
            began = time.monotonic()
            beat.begin(ctx.clock())
            try:
                while done := await daemon.step():
                    beat.done(ctx.clock())
                    if done < SMALL_STEP:
                        await _until(began + PACE_SECONDS)
                    began = time.monotonic()
                wait = max(wait, daemon.rest * (time.monotonic() - began))
                if daemon.pause is not None:
                    wait = await daemon.pause()
                beat.done(ctx.clock())
            except StoreError as error:
                log.error("daemon_step_failed", daemon=daemon.name, error=str(error))
                beat.failed(ctx.clock(), str(error))
                wait = ERROR_PAUSE_SECONDS
            except Exception as error:
                log.exception("daemon_step_failed", daemon=daemon.name)
                beat.failed(ctx.clock(), f"{type(error).__name__}: {error}")
                wait = ERROR_PAUSE_SECONDS
                await asyncio.sleep(wait)
            beat.sleeps(ctx.clock(), wait)
            await ctx.signals.wait(daemon.name, at_most=wait)
            await _until(began + PACE_SECONDS)
    finally:
        beat.stopped = True


K = TypeVar("K")
#: Something that ends within a bounded time.
Errand = Callable[[], Coroutine[Any, Any, object]]
#: Notes that the step of this daemon goes on.
_goes_on: ContextVar[Callable[[], None]] = ContextVar("goes_on", default=lambda: None)
#: While errands go on, it is seen so often which others have become due.
LOOK_SECONDS = 5.0
#: What failed unforeseen is left alone for so long.
FAILED_SECONDS = 60.0


class SideBySide(Generic[K]):
    """Runs errands to others, such as projects, next to each other: one that is slow holds up only itself."""

    def __init__(self, find_due: Callable[[Set[K]], Awaitable[Mapping[K, Errand]]], *, most: int) -> None:
        """``find_due`` returns errands that are due, by whom they go to, but none to the given ones; ``most``: at a time."""
        self._find_due, self._most = find_due, most
        self._failed: dict[K, float] = {}  # until when it is left alone, on the monotonic clock

    async def step(self) -> int:
        """Run errands, also those that become due meanwhile, until none is left; return how many.

        Raises:
            Exception: an errand ended with it; the others were carried out.
        """
        running, errors, n = dict[asyncio.Task[object], K](), list[BaseException](), 0
        try:
            while True:
                _goes_on.get()()
                failed = {key for key, until in self._failed.items() if time.monotonic() < until}
                while (free := self._most - len(running)) and (
                    due := await self._find_due({*running.values(), *failed})
                ):
                    begun = list(due.items())[:free]
                    running |= {asyncio.create_task(errand()): key for key, errand in begun}
                    n += len(begun)
                if not running:
                    break
                over, _ = await asyncio.wait(
                    running, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in over:
                    key = running.pop(task)
                    if (error := task.exception()) is not None:
                        self._failed[key] = time.monotonic() + FAILED_SECONDS
                        errors.append(error)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        for error in errors:
            raise error
        return n


class Portion:
    """How many rows a daemon's write takes, so that it does not hold the writer for long: learnt from those before."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self.size = min(LEAST_PORTION, largest)  #: of the next write

    def took(self, n: int, began: float, *, waiting: int) -> None:
        """Learn from a write of ``n`` rows that began then (monotonic clock) and ends now, while so many others wait.

        While nobody waits it grows: many rows in a write cost less.
        """
        seconds = time.monotonic() - began
        if waiting and seconds > (allowed := background_seconds(waiting)):
            wanted = int(n * allowed / seconds)
        else:  # slowly where somebody waits, for the next rows may take longer each
            wanted = max(self.size, n + n // 8 + 1 if waiting else 2 * n)
        self.size = min(self._largest, max(LEAST_PORTION, wanted))


def in_turn(processes: ProcessGroup, role: str, step: Step) -> Step:
    """Return a step that only one process of a group runs at a time; for the others it does nothing."""

    async def turn() -> int:
        with processes.lease_shards(role) as lease:
            return 0 if lease.shards == () else await step()

    return turn


async def _until(time_: float) -> None:
    """Sleep until a time of the monotonic clock, if it is in the future."""
    seconds = time_ - time.monotonic()
    if seconds > 0:
        await asyncio.sleep(seconds)
