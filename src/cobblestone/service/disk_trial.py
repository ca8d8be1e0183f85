"""Whether folders can be written, by writing: room that the system counts as free may be forbidden by a quota, reserved for
others, or on a disk that has become read-only."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TRIAL_NBYTES = 262_144
KEPT_SECONDS = 5.0
"""So long a trial that went well is believed; after one that failed every question is a new trial."""
ANSWER_SECONDS = 5.0
"""A disk that takes longer, of a machine that does not answer for example, is not ready."""


class DiskTrial:
    """Tries folders when it is asked, but not each time; for one event loop."""

    def __init__(self, folders: Callable[[], Sequence[Path]]) -> None:
        """``folders``: those that must take files."""
        self._folders = folders
        self._good_until = float("-inf")
        self._trial: asyncio.Task[str] | None = None

    async def fault(self) -> str:
        """Return what is wrong; empty: all can be written."""
        if time.monotonic() < self._good_until:
            return ""
        if (
            self._trial is None
        ):  # else the last one still waits for its disk: one thread hangs, not one more each time
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
        for folder in self._folders():
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
