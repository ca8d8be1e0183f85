"""The daemons of a service: the loop that each runs in, and all of them together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.service.context import ProcessContext
from cobblestone.service.health import STEP_LIMIT_SECONDS
from cobblestone.store.engine.process_group import ProcessGroup

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 5.0
ERROR_PAUSE_SECONDS = 2.0
PACE_SECONDS = 0.1
"""From the begin of one small step to the next: under load, rows gather meanwhile, and a step for many costs as much as
one for a few."""
SMALL_STEP = 100

Step = Callable[[], Awaitable[int]]
"""Does a piece of the work; returns how much was done, 0 when nothing is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon: its step, and when it looks for work although nobody signalled."""

    name: str  #: also the name of the signal that wakes it
    step: Step
    pause: Callable[[], Awaitable[float]] | None = None  #: seconds to wait at most; else `sweep_seconds`
    sweep_seconds: float = SWEEP_SECONDS
    step_limit: float = STEP_LIMIT_SECONDS  #: seconds after which its step is taken to hang


@asynccontextmanager
async def run_daemons(ctx: ProcessContext, daemons: Iterable[Daemon]) -> AsyncGenerator[None, None]:
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
    """Run something that is to go on for ever; whenever it ends by itself, that is logged and it begins anew."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("background_task_failed", task=name)
        await asyncio.sleep(ERROR_PAUSE_SECONDS)


async def run_daemon(ctx: ProcessContext, daemon: Daemon) -> None:
    """Take steps until nothing is left to do, then wait for the daemon's signal or the next sweep.

    An error is logged and the loop goes on: one bad row must not stop a service.
    """
    beat = ctx.health.daemon(daemon.name)
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


def in_turn(processes: ProcessGroup, role: str, step: Step) -> Step:
    """Return a step that only one process of a group takes at a time; the others have nothing to do."""

    async def turn() -> int:
        with processes.lease_shards(role) as lease:
            return 0 if lease.shards == () else await step()

    return turn


async def _until(time_: float) -> None:
    """Sleep until a time of the monotonic clock, if it is not over."""
    seconds = time_ - time.monotonic()
    if seconds > 0:
        await asyncio.sleep(seconds)
