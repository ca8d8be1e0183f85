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
    sweep_seconds: Callable[[], Awaitable[float]] | float = SWEEP_SECONDS,
) -> None:
    """Call ``step`` until it says that nothing was left to do (0), then wait for the bell or the next sweep.

    An error is logged and the loop goes on: one bad workunit must not stop a project.
    """
    while True:
        try:
            while await step():
                pass
            pause = sweep_seconds if isinstance(sweep_seconds, float) else await sweep_seconds()
        except StoreError as error:
            log.error("daemon_step_failed", daemon=name, error=str(error))
            pause = ERROR_PAUSE_SECONDS
        except Exception:
            log.exception("daemon_step_failed", daemon=name)
            pause = ERROR_PAUSE_SECONDS
            await asyncio.sleep(pause)
        await ctx.bell.wait(name, at_most=pause)
