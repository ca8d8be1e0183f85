"""All file transfers of the client: starts them when `policy.client.transfers` says so, and reports their outcome."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cobblestone.client.projects.connections import Connections
from cobblestone.client.projects.http import (
    TransferContext,
    TransferOutcome,
    TransferProgress,
    download,
    upload,
)
from cobblestone.client.records.state import ClientDatabase
from cobblestone.policy.client.host.transfers import (
    GIVE_UP_AFTER,
    PROJECT_FAILURES,
    SERVER_FAILURES,
    Backoffs,
    TransferLimits,
    choose_transfers,
    direction,
    transfer_backoff,
)
from cobblestone.wire.client.records import FileRecord, FileStatus


class RateLimiter:
    """Limits the bytes per second of one direction; transfers share it first come, first served."""

    def __init__(self) -> None:
        self.limit = 0.0  #: bytes per second; 0 = none
        self._free_at = 0.0

    async def take(self, nbytes: int) -> None:
        """Wait until this many bytes may pass."""
        if self.limit <= 0:
            return
        now = asyncio.get_running_loop().time()  # which no one can set
        self._free_at = max(self._free_at, now) + nbytes / self.limit
        if self._free_at > now:
            await asyncio.sleep(min(self._free_at - now, 60.0))


@dataclass(eq=False)
class Transfers:
    """Starts, follows and repeats transfers.  ``finished`` is called after each that ended, successful or not."""

    state: ClientDatabase
    connections: Connections
    _: KW_ONLY
    version: int
    clock: Callable[[], float]
    rng: random.Random
    finished: Callable[[FileRecord], None]
    say: Callable[[str, str], None]
    folder_of: Callable[[str], Path]
    measured: Callable[[float, bool, float], None]  #: bytes, whether up, and since when

    def __post_init__(self) -> None:
        self._wanted: dict[tuple[str, str], FileRecord] = {}
        self._running: dict[tuple[str, str], tuple[asyncio.Task[None], FileRecord]] = {}
        self.projects = Backoffs(PROJECT_FAILURES)
        self.servers = Backoffs(SERVER_FAILURES)
        self.down = RateLimiter()
        self.up = RateLimiter()
        self.limits = TransferLimits()
        self.allowed = True  #: whether the network may be used
        self._exchange = TransferContext(self.connections, self.version, self.down.take, self.up.take)

    # -- what is wanted ---------------------------------------------------------------------------------

    def want(self, file: FileRecord) -> None:
        """Request the transfer of this file."""
        if not file.first_request_time:
            file.first_request_time = self.clock()
            self.state.put_file(file)
        self._wanted[file.project, file.name] = file

    def forget(self, project: str, name: str | None = None) -> None:
        """Stop transfers of a project, or of one file."""
        for key in [(project, name)] if name else [k for k in self._wanted if k[0] == project]:
            self._wanted.pop(key, None)
            running = self._running.pop(key, None)
            if running:
                running[0].cancel()

    def retry(self, project: str, name: str) -> bool:
        """End all waits: the volunteer wants it now."""
        file = self._wanted.get((project, name))
        if file is None:
            return False
        file.next_request_time = 0.0
        self.projects.succeeded(direction(project, upload=file.upload is not None))
        self.servers.succeeded(_server(file.url))
        self.poll()
        return True

    def abort(self, project: str, name: str) -> bool:
        """Abort a file's transfer, as the volunteer asks."""
        file = self._wanted.get((project, name))
        if file is None:
            return False
        self.forget(project, name)
        file.status, file.error = FileStatus.FAILED, "the transfer was aborted by the user"
        self.state.put_file(file)
        self.finished(file)
        return True

    def be_patient(self, seconds: float, slowest: float) -> None:
        """Abort transfers slower than ``slowest`` bytes per second for this long, unless the volunteer limits them."""
        limited = self.down.limit > 0 or self.up.limit > 0
        self._exchange.patience, self._exchange.slowest = max(1.0, seconds), 0.0 if limited else slowest

    def reconnect(self) -> None:
        """Continue over new connections, each transfer from its position."""
        self.suspend()
        self.poll()

    def clock_set_back(self, seconds: float) -> None:
        """Move waiting times back with a clock that was set back."""
        self.projects.clock_set_back(seconds)
        self.servers.clock_set_back(seconds)
        for file in self._wanted.values():
            file.next_request_time -= min(seconds, file.next_request_time)
            self.state.put_file(file)

    def listed(self) -> Iterator[tuple[FileRecord, TransferProgress | None, float]]:
        """Return every transfer: the file, its progress if it runs, and the end of its project's wait."""
        for key, file in self._wanted.items():
            progress = self._exchange.progress.get("|".join(key))
            yield file, progress, self.projects.until(direction(file.project, upload=file.upload is not None))

    # -- doing it -----------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Start transfers that may be started."""
        if not self.allowed:
            return
        for file in choose_transfers(
            [file for key, file in self._wanted.items() if key not in self._running],
            [file for _, file in self._running.values()],
            server_of=_server,
            projects=self.projects,
            servers=self.servers,
            limits=self.limits,
            now=self.clock(),
        ):
            self._running[file.project, file.name] = (asyncio.create_task(self._run(file)), file)

    def suspend(self) -> None:
        """Stop all running transfers and keep the received parts."""
        for task, _ in self._running.values():
            task.cancel()
        self._running.clear()

    async def close(self) -> None:
        """Stop, and wait for the end."""
        tasks = [task for task, _ in self._running.values()]
        self.suspend()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, file: FileRecord) -> None:
        key = (file.project, file.name)
        path = self.folder_of(file.project) / file.name
        begin = self.clock()
        progress = TransferProgress(file.url, started=begin)
        self._exchange.progress["|".join(key)] = progress
        content = self.state.contents.get(file.project)
        self.say(file.project, f"Started {'upload' if file.upload else 'download'} of {file.name}")
        try:
            if file.upload is not None:
                outcome = await upload(self._exchange, file, path, progress)
            else:
                key_text = content.project.code_sign_key if content else ""
                outcome = await download(self._exchange, file, path, key_text, progress)
        finally:
            self._exchange.progress.pop("|".join(key), None)
            if key in self._running and self._running[key][0] is asyncio.current_task():
                del self._running[key]
        if key in self._wanted:
            self._ended(file, outcome, progress, self.clock() - begin)
            self.poll()

    def _ended(
        self, file: FileRecord, outcome: TransferOutcome, progress: TransferProgress, seconds: float
    ) -> None:
        now = self.clock()
        up = file.upload is not None
        server = _server(progress.url)
        file.time_so_far += seconds
        file.last_bytes_xferred = progress.bytes
        self.state.add_transferred(
            int(now // 86400), progress.moved if up else 0.0, 0.0 if up else float(progress.moved)
        )
        if outcome.ok:
            self.measured(progress.moved, up, progress.started)
        if not outcome.server_down:
            self.servers.succeeded(server)
        if outcome.ok:
            self.projects.succeeded(direction(file.project, upload=up))
            file.status = FileStatus.UPLOADED if up else FileStatus.PRESENT
            file.nbytes = float(outcome.nbytes)
            file.num_retries, file.next_request_time = 0, 0.0
            self.say(
                file.project,
                f"Finished {'upload' if up else 'download'} of {file.name} ({outcome.nbytes} bytes)",
            )
        else:
            self._failed(file, outcome, server, now)
        self.state.put_file(file)
        if file.status is not FileStatus.ABSENT and not (up and file.status is FileStatus.PRESENT):
            self._wanted.pop((file.project, file.name), None)
            self.finished(file)

    def _failed(self, file: FileRecord, outcome: TransferOutcome, server: str, now: float) -> None:
        up = file.upload is not None
        file.num_retries += 1
        file.url_index += 1
        cycle = file.url_index % max(1, len(file.urls)) == 0
        what = "Upload" if up else "Download"
        if (outcome.permanent and cycle) or now - file.first_request_time > GIVE_UP_AFTER:
            file.status = FileStatus.FAILED
            number = f"{outcome.code} " if outcome.code else ""
            file.error = f"{number}({outcome.error})"
            self.say(file.project, f"Giving up on {what.lower()} of {file.name}: {outcome.error}")
            return
        if outcome.server_down:
            self.servers.failed(server, now, rng=self.rng)
        if not cycle:  # the next mirror at once
            file.next_request_time = now
            self.say(file.project, f"{what} of {file.name} failed: {outcome.error}. Trying another server")
            return
        self.projects.failed(direction(file.project, upload=up), now, rng=self.rng)
        wait = transfer_backoff(file.num_retries, rng=self.rng)
        file.next_request_time = now + wait
        self.say(file.project, f"{what} of {file.name} failed: {outcome.error}. Trying again in {wait:.0f} s")


def _server(url: str) -> str:
    """Return host and port of an address; one that is not valid stands for itself."""
    with contextlib.suppress(ValueError):  # it is a project's; what is wrong with it is said when it is asked
        return urlsplit(url).netloc.lower() or url
    return url
