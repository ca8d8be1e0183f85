"""Files: inputs and app files, stored under the hash of their content; outputs, one by one, as a zip or as a table."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import chain
from typing import IO, BinaryIO, cast

import structlog
from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse

from cobblestone.api_schema import apps as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.batches import JobStatus
from cobblestone.domain.errors import CobblestoneError, NotFound, StoreError
from cobblestone.domain.reasons import phrase
from cobblestone.domain.texts import folder_name, same_file
from cobblestone.domain.values import WorkunitId, form_of
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.api.submission.jobs import describe_jobs, output_name, outputs_of_jobs
from cobblestone.server.core.context import ServerContext, free_bytes
from cobblestone.service.http.api import ApiProblem
from cobblestone.store.catalog import apps, files
from cobblestone.store.catalog.files import FileRow, StagedFile, StagingWriter, place_of
from cobblestone.store.engine.database import Database
from cobblestone.store.work import batches
from cobblestone.store.work.batches import BatchRow, JobRow
from cobblestone.store.work.uploads import StoredOutput, unpack

WRITE_CHUNK = 1 << 20


def check_free_disk(ctx: ServerContext) -> None:
    """Refuse a request that needs disk space when there is little.

    Raises:
        ApiProblem: less than the configured bytes are free.
    """
    free = free_bytes(ctx)
    if free < ctx.settings.server.min_free_disk_bytes:
        raise ApiProblem(
            507,
            "disk_full",
            phrase("The project's disk is too full: it has {free} MB left.", free=free // 10**6),
            "Retire batches that are no longer needed, or free some space on the server.",
        )


@answers(endpoints.PUT_FILE)
async def put_file(call: Call, name: str, query: schema.PutQuery) -> schema.StoredFile:
    """Store a file.

    The body is the file itself; NAME is its SHA-256 in hexadecimal. Repeating it changes nothing. A file that no job
    and no app version refers to is deleted after the grace period (files.unused_file_grace).
    """
    ctx, sha256 = call.ctx, name.lower()
    if len(sha256) != 64 or any(character not in "0123456789abcdef" for character in sha256):
        text = "The path must end in the SHA-256 of the body: 64 hexadecimal digits."
        raise ApiProblem(422, "bad_hash", text)
    check_free_disk(ctx)
    max_bytes = ctx.settings.server.max_upload_bytes
    announced = call.request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise _too_large(max_bytes)
    staged = await receive(ctx, call.request.stream())
    if staged.sha256 != sha256:
        await asyncio.to_thread(staged.path.unlink)
        raise ApiProblem(
            422,
            "wrong_hash",
            f"The body has the SHA-256 {staged.sha256}, not {sha256}: it was changed on the way or is truncated.",
            "Send it again.",
        )
    name = files.app_file_name(query.name, sha256) if query.name else files.input_name(sha256)
    return form_of(schema.StoredFile, await keep(ctx, staged, name, now=call.now))


async def keep(ctx: ServerContext, staged: StagedFile, name: str, *, now: float) -> FileRow:
    """Store a received file under a physical name."""
    place = files.place_of(ctx.folder.download, name)
    await ctx.storage.keep(place, staged.path)
    stored = await asyncio.to_thread(
        files.add_file,
        ctx.store,
        ctx.folder.download,
        staged,
        name,
        now=now,
        compress=not ctx.storage.in_bucket,  # which has no packed twins
    )
    if ctx.storage.in_bucket and await asyncio.to_thread(ctx.storage.size, place) is None:
        await ctx.storage.keep(place, place)  # the deletion of an old file of this name had not been through
    return stored


async def receive(ctx: ServerContext, chunks: AsyncIterator[bytes]) -> StagedFile:
    """Write a file that arrives in pieces to the staging folder.  Raises ApiProblem if it is larger than the project accepts."""
    max_bytes = ctx.settings.server.max_upload_bytes
    with StagingWriter(ctx.folder.staging) as writer:
        waiting: list[bytes] = []
        size = 0
        async for chunk in chunks:
            waiting.append(chunk)
            size += len(chunk)
            if writer.nbytes + size > max_bytes:
                raise _too_large(max_bytes)
            if size >= WRITE_CHUNK:
                await asyncio.to_thread(writer.write, b"".join(waiting))
                waiting, size = [], 0
        writer.write(b"".join(waiting))
        return await asyncio.to_thread(writer.finish)


async def pieces(file: UploadFile) -> AsyncIterator[bytes]:
    """Yield a file of a posted form for `receive`."""
    while piece := await file.read(WRITE_CHUNK):
        yield piece


def _too_large(max_bytes: int) -> ApiProblem:
    return ApiProblem(
        413,
        "too_large",
        f"The file is larger than the {max_bytes} bytes that this project accepts.",
        "Split it, or ask the operator to raise server.max_upload_bytes.",
    )


@answers(endpoints.GET_FILE)
async def get_file(call: Call, name: str) -> schema.StoredFile:
    """Return whether a file exists.

    By physical name. The file then stays for the grace period.
    """
    found = await call.ctx.store.awrite(lambda tx: files.touch(tx, [name], now=call.now))
    if name not in found:
        raise NotFound(f"There is no file {name[:200]}.")
    return form_of(schema.StoredFile, found[name])


@answers(endpoints.QUERY_FILES, max_body=4_000_000)
async def query_files(call: Call, body: schema.FileQuery) -> schema.FileQueryReply:
    """Return which files exist."""
    names = list(dict.fromkeys(body.names))
    found = await call.ctx.store.awrite(lambda tx: files.touch(tx, names, now=call.now))
    return schema.FileQueryReply(
        present=[form_of(schema.StoredFile, found[name]) for name in names if name in found],
        missing=[name for name in names if name not in found],
    )


READ_CHUNK = 1 << 18
ZIP_PAGE = 50

log = structlog.get_logger(__name__)


class Content:
    """The bytes of an output, decompressed, in pieces."""

    def __init__(self, ctx: ServerContext, output: StoredOutput) -> None:
        self._max_bytes = ctx.settings.server.max_upload_bytes
        self._output = output
        self._storage = ctx.storage
        self._path = place_of(ctx.folder.upload, output.name)

    @property
    def nbytes(self) -> int | None:
        """Return the size, if it is known without reading."""
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
                while piece := handle.read(READ_CHUNK):
                    total += len(piece)
                    if total > self._max_bytes:
                        raise StoreError(
                            f"The output file {output.name} decompresses to more than {self._max_bytes} bytes."
                        )
                    yield piece
        except (OSError, EOFError, zlib.error) as error:
            raise StoreError(f"The output file {output.name} cannot be read: {error}.") from error

    def _open(self) -> BinaryIO:
        if self._output.gzipped:
            return cast("BinaryIO", gzip.GzipFile(self._path, "rb"))  # it has all that is used here
        return self._path.open("rb")


@answers(endpoints.GET_OUTPUT)
async def get_output(call: Call, batch_id: int, job_id: int, name: str) -> Response:
    """Download an output.

    The bytes that the program wrote; unpacked, if the client compressed them.  Of a running job: what it has uploaded before
    its end, which no one has checked.
    """

    return await output_response(call.ctx, batch_id, job_id, name)


async def output_response(ctx: ServerContext, batch_id: int, job_id: int, name: str) -> Response:
    """Return an output as a download.  Raises NotFound."""

    def find(db: Database) -> StoredOutput:
        job = batches.job_of_batch(db, batch_id, job_id)
        found = {
            output_name(job, output): output for output in outputs_of_jobs(db, [job]).get(job.workunit_id, [])
        }
        if name in found:
            return found[name]
        if job.status != "done":
            raise NotFound(f"Job {job_id} is {job.status}; it has no outputs.")
        if not found:
            raise NotFound(
                f"Job {job_id} has no outputs (or no longer has them): its batch was retired, or they were all optional."
            )
        raise NotFound(f"Job {job_id} has no output {name[:60]!r}; it has: {', '.join(found)}.")

    return await sent(ctx, await ctx.store.aread(find))


async def sent(ctx: ServerContext, output: StoredOutput) -> Response:
    """Return an output as a download.  Raises StoreError."""
    content = Content(ctx, output)
    parts = content.pieces()
    # The first piece is read before the status is sent, so that a missing file becomes an error and not a cut answer.
    first = await asyncio.to_thread(next, parts, b"")
    headers = {} if content.nbytes is None else {"Content-Length": str(content.nbytes)}
    return StreamingResponse(
        streamed(chain([first], parts)),
        media_type="application/octet-stream",
        headers={**headers, **_NO_SNIFF},
    )


_NO_SNIFF = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}


class _Pipe:
    """A file for the zip writer whose bytes are consumed as they are written."""

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


@answers(endpoints.GET_ZIP)
async def get_zip(call: Call, batch_id: int) -> Response:
    """Download all outputs of a batch.

    Of the jobs that are done now: a folder for each job, called as its submitter called it.
    """
    await call.read(lambda db: batches.batch_by_id(db, batch_id))
    return zip_response(call.ctx, batch_id)


def zip_response(ctx: ServerContext, batch_id: int) -> Response:
    """Return all outputs of a batch as one zip, in constant memory."""
    return StreamingResponse(
        streamed(_zip_pieces(ctx, batch_id)),
        media_type="application/zip",
        headers={"Content-Disposition": f'attachment; filename="batch_{batch_id}.zip"'},
    )


async def streamed(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield pieces that are made in a thread, one after the other; empty ones are left out."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        if piece:
            yield piece


def _zip_pieces(ctx: ServerContext, batch_id: int) -> Iterator[bytes]:
    pipe = _Pipe()
    after = 0
    taken: set[str] = set()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        while True:
            jobs, outputs = ctx.store.read(lambda db, after=after: _page(db, batch_id, after))
            for job in jobs:
                folder = folder_name(job.label, job.name)
                if same_file(folder) in taken:
                    folder = job.name
                taken.add(same_file(folder))
                for output in outputs.get(job.workunit_id, []):
                    with archive.open(
                        f"{folder}/{output_name(job, output)}", "w", force_zip64=True
                    ) as target:
                        yield from _copy(Content(ctx, output), target, pipe)
                    yield pipe.take()
            if len(jobs) < ZIP_PAGE:
                break
            after = jobs[-1].completed_seq or 0
    yield pipe.take()


def _copy(content: Content, target: IO[bytes], pipe: _Pipe) -> Iterator[bytes]:
    try:
        for piece in content.pieces():
            target.write(piece)
            yield pipe.take()
    except CobblestoneError as error:
        log.error("output_unreadable", error=str(error))
        raise  # the answer is cut, which the reader of a zip notices


def _page(
    db: Database, batch_id: int, after: int
) -> tuple[list[JobRow], dict[WorkunitId, list[StoredOutput]]]:
    jobs = batches.finished_jobs(db, batch_id, after=after, limit=ZIP_PAGE)
    return jobs, outputs_of_jobs(db, jobs)


TABLE_COLUMNS = (
    "job",
    "name",
    "status",
    "inputs",
    "arguments",
    "result",
    "host",
    "run_time",
    "credit",
    "error",
)
MOST_SHOWN = 10_000  #: bytes of an output that stands in the table itself
_NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")


def table_response(ctx: ServerContext, batch: BatchRow) -> Response:
    """Return a table of all jobs of a batch as CSV, with what their programs wrote where that is short; in constant memory."""
    headers = {**_NO_SNIFF, "Content-Disposition": f'attachment; filename="batch_{batch.id}.csv"'}
    return StreamingResponse(
        streamed(_table(ctx, batch)), media_type="text/csv; charset=utf-8", headers=headers
    )


def _table(ctx: ServerContext, batch: BatchRow) -> Iterator[bytes]:
    names = [
        spec.open_name for spec in ctx.store.read(lambda db: apps.app_by_id(db, batch.app_id)).output_specs
    ]
    yield _line([*TABLE_COLUMNS, *(f"output:{name}" for name in names)])

    def read(db: Database, after: int) -> tuple[list[JobStatus], list[list[StoredOutput]]]:
        jobs = batches.list_jobs(db, batch.id, after=after, limit=ZIP_PAGE)
        answers = outputs_of_jobs(db, jobs)
        outputs = [answers.get(job.workunit_id, []) for job in jobs]
        return describe_jobs(db, batch.id, jobs, ""), outputs

    after = 0
    while (page := ctx.store.read(lambda db, after=after: read(db, after)))[0]:
        for job, outputs in zip(*page, strict=True):
            written = {output.index: _shown(ctx, output) for output in outputs}
            given = [file.file_name or file.name for file in job.inputs]
            args = [f"{name}={value}" for name, value in job.args.items()] or [job.command_line]
            about = [
                job.id,
                job.name or job.workunit,
                job.status,
                "; ".join(given),
                "; ".join(args),
                job.result,
            ]
            about += [job.host, job.run_time, job.credit, job.error]
            yield _line([*about, *(written.get(place, "") for place in range(len(names)))])
            after = job.id


def _shown(ctx: ServerContext, output: StoredOutput) -> str:
    """Return the text of a short output, else its size."""
    text = b""
    try:
        for piece in Content(ctx, output).pieces() if output.nbytes <= MOST_SHOWN else ():
            text += piece
            if len(text) > MOST_SHOWN:
                break
        if 0 < len(text) <= MOST_SHOWN and b"\0" not in text:
            return text.decode().removesuffix("\n")
    except (CobblestoneError, UnicodeDecodeError):
        pass  # it is not there any more, or no text
    return f"({output.nbytes} bytes)"


def _line(cells: Sequence[object]) -> bytes:
    """Return a row; a text that a spreadsheet would take for a formula gets an apostrophe."""
    texts = ["" if cell is None else str(cell) for cell in cells]
    safe = [
        f"'{text}" if text.startswith(tuple("=+-@\t\r")) and not _NUMBER.fullmatch(text) else text
        for text in texts
    ]
    csv.writer(buffer := io.StringIO()).writerow(safe)
    return buffer.getvalue().encode("utf-8", "backslashreplace")
