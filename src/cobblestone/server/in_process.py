"""The web application of a project whose server is not running, for commands on its own folder.

``app create`` and ``submit`` thus work before ``run``.  Daemons do not run here: jobs are stored and wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import structlog
from starlette.applications import Starlette

from cobblestone.ops.logging import configure_logging
from cobblestone.server.app import create_app
from cobblestone.server.core.context import ServerContext
from cobblestone.server.run import open_project


class InProcessServer:
    """Holds a project open."""

    def __init__(self, root: Path) -> None:
        """Take the project's lock.

        Raises:
            ConfigError: the folder is not a project, or its settings are wrong.
            Busy: another process has it open.
        """
        # a scientist's program: the server's own words are not for its output
        if not structlog.is_configured():
            configure_logging(level="warning")
        self._exit = contextlib.ExitStack()
        self._ctx: ServerContext = self._exit.enter_context(open_project(root))
        self.url = self._ctx.master_url
        self.app: Starlette = create_app(self._ctx)

    async def start(self) -> None:
        """Start in the event loop that serves the requests."""
        self._ctx.signals.bind(asyncio.get_running_loop())
        await asyncio.to_thread(self._ctx.join_processes, frozenset())

    def close(self) -> None:
        """Close the project."""
        self._exit.close()
