"""The answers of a batch as one table: a row for each job, with what its program wrote where that is short."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from starlette.responses import Response, StreamingResponse

from cobblestone.api_schema.batches import JobStatus
from cobblestone.domain.errors import CobblestoneError
from cobblestone.server.api.submission.files import Content, streamed
from cobblestone.server.api.submission.jobs import describe_jobs
from cobblestone.server.core.context import ServerContext
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.work import batches
from cobblestone.store.work.batches import BatchRow
from cobblestone.store.work.uploads import StoredOutput, outputs_of_results

COLUMNS = (
    "job",
    "name",
    "status",
    "inputs",
    "arguments",
    "result",
    "computer",
    "run_time",
    "credit",
    "error",
)
MOST_SHOWN = 10_000  #: bytes of an answer that stands in the table itself
PAGE = 50


def table_response(ctx: ServerContext, batch: BatchRow) -> Response:
    """Return a table of all jobs of a batch, in constant memory."""
    headers = {"Content-Disposition": f'attachment; filename="batch_{batch.id}.csv"'}
    return StreamingResponse(
        streamed(_pieces(ctx, batch)), media_type="text/csv; charset=utf-8", headers=headers
    )


def _pieces(ctx: ServerContext, batch: BatchRow) -> Iterator[bytes]:
    outputs = ctx.store.read(
        lambda db: [spec.open_name for spec in apps.app_by_id(db, batch.app_id).output_specs]
    )
    yield _line([*COLUMNS, *(f"output:{name}" for name in outputs)])
    after = 0
    while True:
        jobs, stored = ctx.store.read(lambda db, after=after: _page(db, batch.id, after))
        for job in jobs:
            written = {output.index: _shown(ctx, output) for output in stored.get(job.id, ())}
            yield _line([*_cells(job), *(written.get(place, "") for place in range(len(outputs)))])
        if len(jobs) < PAGE:
            return
        after = jobs[-1].id


def _page(db: Database, batch_id: int, after: int) -> tuple[list[JobStatus], dict[int, list[StoredOutput]]]:
    found = batches.list_jobs(db, batch_id, after=after, limit=PAGE)
    answers = {
        job.workunit_id: job.canonical_result_id
        for job in found
        if job.status == "done" and job.canonical_result_id is not None
    }
    outputs = outputs_of_results(db, list(answers.values()))
    return describe_jobs(db, batch_id, found, ""), {job: outputs[result] for job, result in answers.items()}


def _cells(job: JobStatus) -> list[object]:
    return [
        job.id,
        job.name or job.workunit,
        job.status,
        "; ".join(given.file_name or given.name for given in job.inputs),
        "; ".join(f"{name}={value}" for name, value in job.args.items()) or job.command_line,
        job.result,
        job.host,
        job.run_time,
        job.credit,
        job.error,
    ]


def _shown(ctx: ServerContext, output: StoredOutput) -> str:
    """Return the text of a short output, else its size."""
    text = b""
    try:
        for piece in Content(ctx, output).pieces() if output.nbytes <= MOST_SHOWN else ():
            text += piece
            if len(text) > MOST_SHOWN:
                break
        else:
            if text and b"\0" not in text:
                return text.decode().removesuffix("\n")
    except (CobblestoneError, UnicodeDecodeError):
        pass  # it is not there any more, or no text
    return f"({output.nbytes} bytes)"


def _line(cells: Sequence[object]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_harmless(cell) for cell in cells])
    return buffer.getvalue().encode("utf-8", "backslashreplace")


def _harmless(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell
