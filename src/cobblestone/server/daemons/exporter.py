"""The exporter: makes the daily export for statistics sites, in a process of its own that gives way to everything else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.policy.exports import next_export_time
from cobblestone.server.core.context import ServerContext
from cobblestone.server.files.exports import last_export

log = structlog.get_logger(__name__)

NICENESS = 19
MAX_ERROR_TEXT = 500


class Exporter:
    """The daemon."""

    name = "exporter"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def step(self) -> int:
        """Make an export if one is due; there is never anything left to do."""
        ctx = self._ctx
        every = ctx.settings.export.every_seconds
        if not every:
            return 0
        last = await asyncio.to_thread(last_export, ctx.folder)
        due = next_export_time(None if last is None else last.time, started=ctx.started, every=every)
        if ctx.clock() >= due:
            await self._export()
        return 0

    async def _export(self) -> None:
        # Not in a thread: a million rows would hold this process's interpreter for most of a minute.
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "cobblestone",
                "export",
                "--project",
                str(self._ctx.folder.root),
                "--quiet",
            ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
            _, errors = await process.communicate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()  # the server stops: at once, for nothing has to be tidied up
        if process.returncode:
            text = errors.decode(errors="replace").strip()[-MAX_ERROR_TEXT:]
            raise StoreError(f"The export ended with status {process.returncode}: {text}")
        log.info("export_made", folder=str(self._ctx.folder.exports))
