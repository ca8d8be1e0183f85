"""The same calls for programs with an event loop: ``async for result in batch``.

Results arrive as server-sent events, over one connection for each batch.  All other calls are the usual ones, made in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import httpx
import msgspec

from cobblestone.api_schema import endpoints
from cobblestone.api_schema.batches import BatchStatus, ResultsPage
from cobblestone.api_schema.values import PREFIX
from cobblestone.sdk.api.batch import AnswerFolder, Batch, JobResult
from cobblestone.sdk.api.connection import LONGEST_PAUSE_SECONDS, NotRunning, RequestRefused, problem_of
from cobblestone.sdk.project import Project, connect

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

#: A stream that brings nothing for so long, not even a comment, is opened again.
SILENT_SECONDS = 60.0


def _aside(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[_Asynchronous[S], P], Awaitable[R]]:
    """Make a method that calls the other SDK's in a thread."""

    @wraps(method)
    async def call(self: _Asynchronous[S], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.of, *args, **kwargs)

    return call


class _Asynchronous(Generic[S]):
    def __init__(self, of: S) -> None:
        self.of = of  #: the object of the other SDK

    def __repr__(self) -> str:
        return f"<Async{repr(self.of).removeprefix('<')}"


class AsyncJobResult(_Asynchronous[JobResult]):
    """A finished job: the attributes of :class:`~cobblestone.sdk.api.batch.JobResult`; what fetches outputs is awaited."""

    bytes = _aside(JobResult.bytes)
    text = _aside(JobResult.text)
    json = _aside(JobResult.json)
    save = _aside(JobResult.save)

    def __getattr__(self, name: str) -> Any:  # id, name, error … of a job, each of its own type
        return getattr(self.of, name)


class AsyncBatch(_Asynchronous[Batch]):
    """Jobs that were submitted together.

    >>> async for result in await project.submit("echo", [1, 2, 3]):
    ...     print(await result.json())
    """

    status = _aside(Batch.status)
    cancel = _aside(Batch.cancel)
    retire = _aside(Batch.retire)
    end_stuck = _aside(Batch.end_stuck)
    add_webhook = _aside(Batch.add_webhook)
    webhook = _aside(Batch.webhook)
    remove_webhook = _aside(Batch.remove_webhook)

    def __getattr__(self, name: str) -> Any:  # id, name, app, notes
        return getattr(self.of, name)

    async def retry(self) -> AsyncBatch:
        """Submit the failed or cancelled jobs again, as a new batch.  Raises ConflictError if there are none."""
        return AsyncBatch(await asyncio.to_thread(self.of.retry))

    def __aiter__(self) -> AsyncGenerator[AsyncJobResult]:
        return self.results()

    async def wait(self, timeout: float | None = None) -> BatchStatus:
        """Wait until all jobs are finished.  Raises as :meth:`results` does."""
        async for _ in self.results(timeout):
            pass
        return await self.status()

    async def save(self, folder: str | Path, timeout: float | None = None) -> list[Path]:
        """Write the outputs of all jobs into a folder as they finish, as :meth:`Batch.save` does; return the paths."""
        answers = await asyncio.to_thread(AnswerFolder, folder)
        return [
            path
            async for result in self.results(timeout)  # no thread waits: it would outlive what is cancelled
            for path in await asyncio.to_thread(answers.save, result.of)
        ]

    async def results(self, timeout: float | None = None) -> AsyncGenerator[AsyncJobResult]:
        """Yield jobs as they finish, as :meth:`Batch.results` does; ``timeout`` is in seconds, for all together.

        Raises:
            TimeoutError: it took longer.
            NotRunning: the project's server is not running.
            Unreachable: it does not answer.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pages = self._pages()
        try:
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                try:
                    page = await asyncio.wait_for(anext(pages), left)
                except TimeoutError:
                    raise TimeoutError(f"Batch {self.of.id} did not finish in {timeout:g} s.") from None
                for job in page.results:
                    yield AsyncJobResult(JobResult(self.of.connection, self.of.id, job))
                if page.finished:
                    return
        finally:
            await pages.aclose()

    async def _pages(self) -> AsyncGenerator[ResultsPage]:
        """Yield pages of results, and connect again where the last stream ended."""
        if self.of.connection.in_process:
            raise NotRunning("The project's server is not running. Start it with: cobblestone run")
        after = failures = 0
        async with self.of.connection.async_client(SILENT_SECONDS) as client:
            while True:
                try:
                    async for page in self._stream(client, after):
                        yield page
                        after, failures = page.next, 0
                        if page.finished:
                            return
                except (httpx.TransportError, RequestRefused) as error:
                    failures += 1
                    self.of.connection.patient().require_passing(error, failures)
                await asyncio.sleep(min(0.2 * 2**failures, LONGEST_PAUSE_SECONDS))

    async def _stream(self, client: httpx.AsyncClient, after: int) -> AsyncGenerator[ResultsPage]:
        path = PREFIX + endpoints.GET_EVENTS.path_of(self.of.id)
        async with client.stream("GET", path, params={"after": str(after)}) as answer:
            if answer.is_error:
                await answer.aread()
                raise problem_of(answer)
            rest = bytearray()
            async for piece in answer.aiter_bytes():
                rest += piece
                if b"\n" not in piece:
                    continue
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    if line.startswith(b"data: "):
                        yield msgspec.json.decode(line[6:], type=ResultsPage)
                    elif line.startswith(b":"):  # nothing new for a while
                        await self.end_stuck()


class AsyncProject(_Asynchronous[Project]):
    """A project, as a program with an event loop uses it.  Created by :func:`connect_async`."""

    close = _aside(Project.close)
    status = _aside(Project.status)
    apps = _aside(Project.apps)
    batches = _aside(Project.batches)

    async def __aenter__(self) -> AsyncProject:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def submit(self, app: str, inputs: Iterable[object], **options: Any) -> AsyncBatch:
        """Submit one job for each input; inputs, options and errors are those of :meth:`Project.submit`."""
        return AsyncBatch(await asyncio.to_thread(self.of.submit, app, inputs, **options))

    async def batch(self, batch_id: int) -> AsyncBatch:
        """Return a batch that was submitted earlier.  Raises NotFoundError."""
        return AsyncBatch(await asyncio.to_thread(self.of.batch, batch_id))


async def connect_async(project: str | Path | None = None, token: str | None = None) -> AsyncProject:
    """Connect to a project from a program with an event loop; see :func:`connect`.

    >>> async with await connect_async("https://sky.example.org/", token="cob_…") as project:
    ...     batch = await project.submit("period", ["inputs/a.json"])
    """
    return AsyncProject(await asyncio.to_thread(connect, project, token))
