"""Outputs of finished jobs: one file, or all of a batch as a zip."""

from __future__ import annotations

import asyncio
import gzip
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import IO, BinaryIO, cast

import structlog
from starlette.responses import Response, StreamingResponse

from cobblestone.domain.errors import CobblestoneError, NotFound, StoreError
from cobblestone.domain.ids import ResultId
from cobblestone.domain.people import Scope
from cobblestone.server.api.job_replies import output_name
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.server.core.context import ServerContext
from cobblestone.store.engine.database import Database
from cobblestone.store.work import batches
from cobblestone.store.work.batches import Job
from cobblestone.store.work.files import place_of
from cobblestone.store.work.uploads import StoredOutput, outputs_of_results, unpack

CHUNK = 1 << 18
ZIP_PAGE = 50

log = structlog.get_logger(__name__)


class _Content:
    """The bytes of an output, unpacked, in pieces."""

    def __init__(self, ctx: ServerContext, output: StoredOutput) -> None:
        self._max_bytes = ctx.settings.server.max_upload_bytes
        self._output = output
        self._storage = ctx.storage
        self._path = place_of(ctx.folder.upload, output.name)

    @property
    def nbytes(self) -> int | None:
        """The size, where it is known without reading."""
        return None if self._output.gzipped else self._output.nbytes

    def pieces(self) -> Iterator[bytes]:
        """Yield the content.

        Raises:
            StoreError: the file is missing or broken, or unpacks to more than outputs may have.
        """
        output = self._output
        if output.data is not None:
            yield (
                unpack(output.data, max_nbytes=self._max_bytes, name=output.name)
                if output.gzipped
                else output.data
            )
            return
        total = 0
        self._storage.bring_now(self._path, nbytes=output.nbytes, md5=output.md5)
        try:
            with self._open() as handle:
                while piece := handle.read(CHUNK):
                    total += len(piece)
                    if total > self._max_bytes:
                        raise StoreError(
                            f"The output file {output.name} unpacks to more than {self._max_bytes} bytes."
                        )
                    yield piece
        except (OSError, EOFError, zlib.error) as error:
            raise StoreError(f"The output file {output.name} cannot be read: {error}.") from error

    def _open(self) -> BinaryIO:
        if self._output.gzipped:
            return cast("BinaryIO", gzip.GzipFile(self._path, "rb"))  # it has all that is used here
        return self._path.open("rb")


def _outputs(db: Database, job: Job) -> list[StoredOutput]:
    if job.status != "done" or job.canonical_result_id is None:
        return []
    return outputs_of_results(db, [job.canonical_result_id])[job.canonical_result_id]


@endpoint(
    "GET",
    "/batches/{batch_id:int}/jobs/{job_id:int}/outputs/{name}",
    scope=Scope.READ,
    tag="batches",
    media_type="application/octet-stream",
    problems=(404, 503),
)
async def get_output(call: Call, batch_id: int, job_id: int, name: str) -> Response:
    """Fetch an output.

    The bytes that the program wrote; unpacked, if the client compressed them.
    """

    def find(db: Database) -> StoredOutput:
        job = batches.job_of_batch(db, batch_id, job_id)
        found = {output_name(job, output): output for output in _outputs(db, job)}
        if name in found:
            return found[name]
        if job.status != "done":
            raise NotFound(f"Job {job_id} is {job.status}; it has no outputs.")
        if not found:
            raise NotFound(
                f"Job {job_id} has no outputs (any more): its batch was retired, or they were all optional."
            )
        raise NotFound(f"Job {job_id} has no output {name[:60]!r}; it has: {', '.join(found)}.")

    content = _Content(call.ctx, await call.ctx.store.aread(find))
    pieces = content.pieces()
    # The first piece is read before the status is sent, so that a missing file becomes an error and not a cut answer.
    first = await asyncio.to_thread(next, pieces, b"")
    headers = {} if content.nbytes is None else {"Content-Length": str(content.nbytes)}
    return StreamingResponse(
        _stream(first, pieces), media_type="application/octet-stream", headers={**headers, **_NO_SNIFF}
    )


_NO_SNIFF = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}


async def _stream(first: bytes, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


class _Pipe:
    """A file for the zip writer whose bytes are taken away as they come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def take(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data


@endpoint(
    "GET",
    "/batches/{batch_id:int}/outputs.zip",
    scope=Scope.READ,
    tag="batches",
    media_type="application/zip",
    problems=(404,),
)
async def get_zip(call: Call, batch_id: int) -> Response:
    """Fetch all outputs of a batch.

    Of the jobs that are done now: a folder for each job, called as its submitter called it.
    """
    await call.ctx.store.aread(lambda db: batches.batch_by_id(db, batch_id))
    return StreamingResponse(
        _zip_stream(call.ctx, batch_id),
        media_type="application/zip",
        headers={"Content-Disposition": f'attachment; filename="batch_{batch_id}.zip"'},
    )


async def _zip_stream(ctx: ServerContext, batch_id: int) -> AsyncIterator[bytes]:
    pieces = _zip_pieces(ctx, batch_id)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        if piece:
            yield piece


def _zip_pieces(ctx: ServerContext, batch_id: int) -> Iterator[bytes]:
    pipe = _Pipe()
    after = 0
    labels: set[str] = set()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        while True:
            jobs, outputs = ctx.store.read(lambda db, after=after: _page(db, batch_id, after))
            for job in jobs:
                folder = (
                    job.label if job.label not in ("", ".", "..") and job.label not in labels else job.name
                )
                labels.add(folder)
                for output in outputs.get(job.canonical_result_id or ResultId(0), []):
                    with archive.open(
                        f"{folder}/{output_name(job, output)}", "w", force_zip64=True
                    ) as target:
                        yield from _copy(_Content(ctx, output), target, pipe)
                    yield pipe.take()
            if len(jobs) < ZIP_PAGE:
                break
            after = jobs[-1].completed_seq or 0
    yield pipe.take()


def _copy(content: _Content, target: IO[bytes], pipe: _Pipe) -> Iterator[bytes]:
    try:
        for piece in content.pieces():
            target.write(piece)
            yield pipe.take()
    except CobblestoneError as error:
        log.error("output_unreadable", error=str(error))
        raise  # the answer is cut, which the reader of a zip notices


def _page(db: Database, batch_id: int, after: int) -> tuple[list[Job], dict[ResultId, list[StoredOutput]]]:
    jobs = batches.finished_jobs(db, batch_id, after=after, limit=ZIP_PAGE)
    done = [
        job.canonical_result_id
        for job in jobs
        if job.status == "done" and job.canonical_result_id is not None
    ]
    return jobs, outputs_of_results(db, done)
