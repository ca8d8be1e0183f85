"""The end of a server without a failed request: it finishes what it has begun, and hands its socket on.

When it stops or restarts, nothing new is accepted (connections wait in the listening socket, if somebody holds it), every
answer closes its connection, and requests that run have some seconds to finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Generator, Sequence

import structlog
import uvicorn

from cobblestone.service.context import ProcessContext

log = structlog.get_logger(__name__)

IDLE_SECONDS = 1.0
"""Connections that are idle when the end begins are closed after so long: a request may be on its way."""
CHECK_SECONDS = 60.0


class DrainingServer(uvicorn.Server):
    """uvicorn that ends in our way: its own way with signals would end the process before daemons and database are closed."""

    def __init__(
        self, config: uvicorn.Config, ctx: ProcessContext, *, drain_seconds: float, check: Sequence[str]
    ) -> None:
        """``check``: arguments of the command ``cobblestone`` that tell whether a new process could take over."""
        super().__init__(config)
        self._ctx = ctx
        self._drain_seconds = drain_seconds
        self._check = check
        self._ending: asyncio.Task[None] | None = None
        self.restart = False  #: begin again after the end

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to us."""
        yield

    def listen_to_signals(self) -> None:
        """SIGTERM and SIGINT: end; a second one at once.  SIGHUP: restart."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.end)
        loop.add_signal_handler(signal.SIGHUP, self.begin_again)

    def end(self) -> None:
        """End, once running requests are through; called twice: now."""
        if self._ctx.health.draining:
            self.should_exit = self.force_exit = True
        else:
            self._ctx.health.draining = True  # before the task runs, so that a second call sees it
            self._ending = asyncio.create_task(self._drain())

    def begin_again(self) -> None:
        """Restart with the same socket, if the program and the settings are fit for it."""
        if not self._ctx.health.draining and self._ending is None:
            self._ending = asyncio.create_task(self._try_restart())

    async def _try_restart(self) -> None:
        problem = await _check_start(self._check)
        if problem:
            log.error("restart_refused", problem=problem)
            self._ending = None
        elif not self._ctx.health.draining:
            log.info("restart_begins")
            self.restart = self._ctx.health.draining = True
            await self._drain()

    async def _drain(self) -> None:
        self._ctx.signals.close()  # requests that wait for news answer with what there is
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.server_state.connections and not self.force_exit:
            seconds = loop.time() - began
            busy = self._ctx.metrics.requests_in_progress
            if seconds >= self._drain_seconds or (not busy and seconds >= IDLE_SECONDS):
                break
            await asyncio.sleep(0.02)
        self.should_exit = True


async def _check_start(check: Sequence[str]) -> str:
    """Return why a new process could not run this service; empty: it could."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cobblestone", *check),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            _, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        return f"the check took longer than {CHECK_SECONDS:g} s"
    return "" if process.returncode == 0 else errors.decode(errors="replace").strip()[-500:]
