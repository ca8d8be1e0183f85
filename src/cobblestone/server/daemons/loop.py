"""The loop that every daemon runs in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.server.context import ServerContext

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 5.0
ERROR_PAUSE_SECONDS = 2.0


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
    while True:
        wait = sweep_seconds
        try:
            while await step():
                pass
            if pause is not None:
                wait = await pause()
        except StoreError as error:
            log.error("daemon_step_failed", daemon=name, error=str(error))
            wait = ERROR_PAUSE_SECONDS
        except Exception:
            log.exception("daemon_step_failed", daemon=name)
            wait = ERROR_PAUSE_SECONDS
            await asyncio.sleep(wait)
        await ctx.bell.wait(name, at_most=wait)
