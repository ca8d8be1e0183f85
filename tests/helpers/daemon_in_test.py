"""Our client within the test's own process, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.helpers.client_tasks import open_to_other_accounts
from tests.helpers.own_client import CONFIG, PREFERENCES

from cobblestone.client.daemon.daemon import Client


class MovableClock:
    """The time of day, which somebody may set."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.time() + self.offset


def make_client(folder: Path, clock: Callable[[], float] = time.time, *, ncpus: int = 1) -> Client:
    folder.mkdir(parents=True, exist_ok=True)
    open_to_other_accounts(folder)
    (folder / "cc_config.xml").write_text(CONFIG.format(ncpus=ncpus))
    (folder / "global_prefs_override.xml").write_text(PREFERENCES)
    return Client(folder, echo=False, clock=clock, seed=1)


@contextlib.asynccontextmanager
async def running(client: Client) -> AsyncIterator[asyncio.Task[None]]:
    """Run a client until the block ends; an error of its own is raised there."""
    task = asyncio.create_task(client.run())
    try:
        yield task
    finally:
        client.stopping.set()
        await task


async def until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        await asyncio.sleep(0.05)


def said(client: Client) -> str:
    """The event log as one text."""
    return "\n".join(message.body for message in client.journal.since(0))
