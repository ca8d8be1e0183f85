"""Endpoints for monitoring systems: ``/healthz``, ``/readyz`` and ``/metrics``.

Whether folders can be written, by writing: room that the system counts as free may be forbidden by a quota, reserved for
others, or on a disk that has become read-only.
"""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.errors import CobblestoneError
from cobblestone.ops.metrics import COMMON_METRICS, CONTENT_TYPE, Figures, MetricInfo
from cobblestone.service.context import ProcessContext
from cobblestone.service.health import DaemonHealth
from cobblestone.store.engine.database import Store, Transaction

TRIAL_NBYTES = 262_144
#: So long a trial that went well is believed; after one that failed every question is a new trial.
KEPT_SECONDS = 5.0
#: A disk that takes longer, of a machine that does not answer for example, is not ready.
ANSWER_SECONDS = 5.0


class DiskTrial:
    """Tests folders on request, but not each time; for one event loop."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """``folders``: those that must take files."""
        self._folders = folders
        self._good_until = float("-inf")
        self._trial: asyncio.Task[str] | None = None

    async def fault(self) -> str:
        """Return the fault; empty if all can be written."""
        if time.monotonic() < self._good_until:
            return ""
        # else the last one still waits for its disk: one thread hangs, not one more each time
        if self._trial is None:
            self._trial = asyncio.create_task(asyncio.to_thread(self._try))
        done, _ = await asyncio.wait({self._trial}, timeout=ANSWER_SECONDS)
        if not done:
            return f"no answer within {ANSWER_SECONDS:g} s"
        found, self._trial = self._trial.result(), None
        if not found:
            self._good_until = time.monotonic() + KEPT_SECONDS
        return found

    def _try(self) -> str:
        disks: set[int] = set()
        for folder in self._folders:
            try:
                disk = folder.stat().st_dev
                if disk not in disks:
                    disks.add(disk)
                    with tempfile.TemporaryFile(dir=folder, prefix=".trial-") as file:
                        file.write(bytes(TRIAL_NBYTES))
            except FileNotFoundError:  # it is made when there is something for it
                continue
            except OSError as error:
                return f"{folder} cannot be written: {error.strerror}"
        return ""


#: Paths of what is below, from the address of a service on.
WATCHED = frozenset({"healthz", "readyz", "metrics"})
#: A database that does not answer within this time is not ready.
DATABASE_SECONDS = 5.0


async def _no_figures() -> Figures:
    return {}


async def _no_token(token: str) -> bool:
    return False


class Monitoring:
    """Answers programs that watch a service: whether it lives, whether it should be asked, and its figures."""

    def __init__(
        self,
        ctx: ProcessContext,
        folder: Path,
        *,
        ask_database: Callable[[], Awaitable[object]],
        described: Mapping[str, MetricInfo] = COMMON_METRICS,
        own_figures: Callable[[], Awaitable[Figures]] = _no_figures,
        written_folders: Sequence[Path] = (),
        accepts: Callable[[str], Awaitable[bool]] = _no_token,
    ) -> None:
        """Watch a service in ``folder``.

        ``ask_database`` raises CobblestoneError while the database cannot be relied on.  ``described``: the metrics that it has;
        ``own_figures`` returns those beside the common ones.  ``written_folders``: further folders that must take files.
        ``accepts`` tells whether a token may read the figures from other machines.
        """
        self._service = ctx
        self._folder = folder
        self._ask_database = ask_database
        self._described = described
        self._own_figures = own_figures
        self._accepts = accepts
        self._disk = DiskTrial((folder, *written_folders))
        self._probe_lock = asyncio.Lock()
        self._probe: tuple[float, str, str] = (float("-inf"), "", "")

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/healthz", self.health), Route("/readyz", self.ready), Route("/metrics", self.metrics)]

    async def health(self, request: Request) -> Response:
        """Answer that the process is alive.  Without a good answer, it should be restarted."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Answer whether requests should be sent here: 200, or 503 with what is missing."""
        states = self._service.health.states()
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
        """Return the fault of the database or the disk; empty if there is none.  Checked at most once a second."""
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

    async def metrics(self, request: Request) -> Response:
        """Figures for Prometheus: to this machine, or with a token that may read."""
        if not await self._may_look(request):
            text = "Metrics are for this machine, or for a token: Authorization: Bearer cob_…\n"
            return PlainTextResponse(text, 403)
        figures = {**common_figures(self._service, self._folder), **await self._own_figures()}
        body = await asyncio.to_thread(self._service.metrics.exposition, figures, self._described)
        return Response(body, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    async def _may_look(self, request: Request) -> bool:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self._accepts(secret.strip())
        # A request that a proxy passed on is not from this machine, whatever its address says.
        return _is_loopback(request) and "x-forwarded-for" not in request.headers


async def read_and_write(store: Store) -> None:
    """Check that a database can be read and written.  Raises CobblestoneError."""
    await store.aread(lambda db: db.value("SELECT 1"))
    await store.awrite(_nothing)
    await store.atry_again()


def _nothing(tx: Transaction) -> None:
    """Make a write without changes."""


def _is_loopback(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def common_figures(ctx: ProcessContext, folder: Path) -> Figures:
    """Return values of :data:`~cobblestone.ops.metrics.COMMON_METRICS`, but for those of a database."""
    now = ctx.clock()
    beats = ctx.health.daemons
    return {
        "up_seconds": max(0.0, now - ctx.started) if ctx.started else 0.0,
        "draining": float(ctx.health.draining),
        "http_requests_in_progress": ctx.metrics.requests_in_progress,
        "disk_free_bytes": shutil.disk_usage(folder).free,
        "daemon_up": {name: float(beat.health() is DaemonHealth.RUNNING) for name, beat in beats.items()},
        "daemon_last_beat_seconds": {name: beat.last_beat for name, beat in beats.items()},
        "daemon_steps": {name: beat.steps for name, beat in beats.items()},
        "daemon_errors": {name: beat.errors for name, beat in beats.items()},
        "warning": dict.fromkeys(ctx.health.warnings, 1.0),
    }
