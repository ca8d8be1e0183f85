"""For machines that watch a service: ``/healthz`` and ``/readyz``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.errors import CobblestoneError
from cobblestone.service.context import ProcessContext
from cobblestone.service.disk_trial import DiskTrial
from cobblestone.service.health import DaemonHealth
from cobblestone.store.engine.database import Store, Transaction

DATABASE_SECONDS = 5.0
"""A database that does not answer within this time is not ready."""


class Readiness:
    """Says whether the process answers, and whether it should be asked."""

    def __init__(
        self,
        ctx: ProcessContext,
        ask_database: Callable[[], Awaitable[object]],
        folders: Callable[[], Sequence[Path]],
    ) -> None:
        """``ask_database`` raises CobblestoneError while that cannot be relied on; ``folders`` must take files."""
        self._service = ctx
        self._ask_database = ask_database
        self._disk = DiskTrial(folders)
        self._probe_lock = asyncio.Lock()
        self._probe: tuple[float, str, str] = (float("-inf"), "", "")

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/healthz", self.health), Route("/readyz", self.ready)]

    async def health(self, request: Request) -> Response:
        """Whether the process answers at all.  Who gets nothing or an error should start it again."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Whether requests should be sent here: 200, or 503 with what is missing."""
        now = self._service.clock()
        states = self._service.health.states(now)
        database, disk = await self._storage()
        draining = self._service.health.draining
        stopped = [
            name for name, state in states.items() if state in (DaemonHealth.STOPPED, DaemonHealth.STUCK)
        ]
        good = not (database or disk or stopped or draining)
        body = {
            "ready": good,
            "draining": draining,
            "database": database or "ok",
            "disk": disk or "ok",
            "daemons": {
                name: {"state": state.value, "last_beat": self._service.health.daemons[name].last_beat}
                for name, state in states.items()
            },
            "warnings": sorted(self._service.health.warnings),
        }
        return Response(
            msgspec.json.encode(body),
            200 if good else 503,
            media_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    async def _storage(self) -> tuple[str, str]:
        """Return what is wrong with the database and with the disk; empty: nothing.  Asked at most once a second."""
        async with self._probe_lock:
            now = self._service.clock()
            if abs(now - self._probe[0]) >= 1:  # also when the clock was set back
                self._probe = (now, *await asyncio.gather(self._try_database(), self._disk.fault()))
            return self._probe[1:]

    async def _try_database(self) -> str:
        try:
            async with asyncio.timeout(DATABASE_SECONDS):
                await self._ask_database()
        except TimeoutError:
            return f"no answer within {DATABASE_SECONDS:g} s"
        except CobblestoneError as error:
            return str(error)
        return ""


async def read_and_write(store: Store) -> None:
    """Ask a database whether it reads and writes.  Raises CobblestoneError."""
    await store.aread(lambda db: db.value("SELECT 1"))
    await store.awrite(_nothing)
    await store.atry_again()


def _nothing(tx: Transaction) -> None:
    """Write nothing, but go the way of all writes."""
