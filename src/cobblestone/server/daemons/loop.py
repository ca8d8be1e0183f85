"""The loop that every daemon runs in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.server.core.context import ServerContext

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 5.0
ERROR_PAUSE_SECONDS = 2.0
PACE_SECONDS = 0.1
"""From the begin of one small step to the next: under load, rows gather meanwhile, and a step for many costs as much as
one for a few."""
SMALL_STEP = 100


async def run_daemon(
    ctx: ServerContext,
    name: str,
    step: Callable[[], Awaitable[int]],
    *,
    pause: Callable[[], Awaitable[float]] | None = None,
    sweep_seconds: float = SWEEP_SECONDS,
) -> None:
    """Call ``step`` until it says that nothing was left to do (0), then wait for the bell or the next sweep.

    ``pause`` says how long to wait at most; else it is ``sweep_seconds``.  An error is logged and the loop goes on: one bad
    workunit must not stop a project.
    """
    beat = ctx.health.daemon(name)
    try:
        while True:
            wait = sweep_seconds
            began = time.monotonic()
            beat.begin(ctx.clock())
            try:
                while done := await step():
                    beat.done(ctx.clock())
                    if done < SMALL_STEP:
                        await _until(began + PACE_SECONDS)
                    began = time.monotonic()
                if pause is not None:
                    wait = await pause()
                beat.done(ctx.clock())
            except StoreError as error:
                log.error("daemon_step_failed", daemon=name, error=str(error))
                beat.failed(ctx.clock(), str(error))
                wait = ERROR_PAUSE_SECONDS
            except Exception as error:
                log.exception("daemon_step_failed", daemon=name)
                beat.failed(ctx.clock(), f"{type(error).__name__}: {error}")
                wait = ERROR_PAUSE_SECONDS
                await asyncio.sleep(wait)
            beat.sleeps(ctx.clock(), wait)
            await ctx.bell.wait(name, at_most=wait)
            await _until(began + PACE_SECONDS)
    finally:
        beat.stopped = True


async def _until(time_: float) -> None:
    """Sleep until a time of the monotonic clock, if it is not over."""
    seconds = time_ - time.monotonic()
    if seconds > 0:
        await asyncio.sleep(seconds)
