"""Output files that clients upload: small ones in the database, large ones in files."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

from cobblestone.domain.errors import StoreError
from cobblestone.domain.values import ResultId, WorkunitId, value
from cobblestone.domain.work import OutputSpec, output_file_name
from cobblestone.store.catalog.files import place_of
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper
from cobblestone.store.work import steps
from cobblestone.store.work.rows import decode_outputs

GZIP_MAGIC = b"\x1f\x8b"


@value(kw_only=True)
class ExpectedUpload:
    """The result and output of an upload's name."""

    result_id: ResultId
    spec: OutputSpec
    stored_nbytes: int | None  #: size when it is completely there already
    stored_md5: str


@value(kw_only=True)
class StoredOutput:
    """A complete output file."""

    name: str
    result_id: ResultId
    nbytes: int  #: as uploaded (compressed, if the client compressed it)
    md5: str
    gzipped: bool
    data: bytes | None  #: None: it is on disk
    index: int


_INDEX = Column(sql="name", decode=lambda name: int(name.rpartition("_")[2]))
_OUTPUTS = RowMapper(StoredOutput, {"index": _INDEX})
_OUTPUTS_WITHOUT_DATA = RowMapper(StoredOutput, {"index": _INDEX, "data": "NULL"})


def partial_folder(folder: Path) -> Path:
    """Return the folder of large output files that are not complete."""
    return folder / "partial"


def expected_upload(db: Database, name: str) -> ExpectedUpload | None:
    """Return the result and output of an upload name, or None if there is none."""
    result_name, _, index_text = name.rpartition("_")
    if not result_name or not index_text.isdecimal() or len(index_text) > 6:
        return None
    row = db.one(
        "SELECT r.id, w.output_specs, u.nbytes, u.md5 FROM result r"
        " JOIN workunit w ON w.id = r.workunit_id LEFT JOIN upload u ON u.name = ? WHERE r.name = ?",
        (name, result_name),
    )
    if row is None:
        return None
    result_id, outputs, nbytes, md5 = row
    specs = decode_outputs(outputs)
    index = int(index_text)
    if index >= len(specs) or output_file_name(result_name, index) != name:
        return None
    return ExpectedUpload(
        result_id=ResultId(result_id), spec=specs[index], stored_nbytes=nbytes, stored_md5=md5 or ""
    )


def record_upload(
    tx: Transaction,
    *,
    name: str,
    result_id: ResultId,
    nbytes: int,
    md5: str,
    data: bytes | None,
    gzipped: bool,
    now: float,
) -> None:
    """Record a complete output file; repeating it changes nothing."""
    tx.execute_many(
        "INSERT INTO upload (name, result_id, nbytes, md5, gzipped, data, time) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET nbytes = excluded.nbytes, md5 = excluded.md5, gzipped = excluded.gzipped,"
        " data = excluded.data, time = excluded.time",
        [(name, result_id, nbytes, md5, int(gzipped), data, now)],
    )


def outputs_of_results(
    db: Database, result_ids: Sequence[ResultId], *, with_data: bool = True
) -> dict[ResultId, list[StoredOutput]]:
    """Return complete outputs of several results, in the order of their indices."""
    mapper = _OUTPUTS if with_data else _OUTPUTS_WITHOUT_DATA
    found: dict[ResultId, list[StoredOutput]] = {id_: [] for id_ in result_ids}
    for output in db.load_in(mapper, "upload WHERE result_id IN (??)", result_ids):
        found[output.result_id].append(output)
    for outputs in found.values():
        outputs.sort(key=lambda output: output.index)
    return found


def first_uploads(db: Database, workunit_ids: Sequence[WorkunitId]) -> dict[WorkunitId, ResultId]:
    """Return the first result in progress of each workunit that has uploaded an output before its end."""
    rows = db.query_in(
        "SELECT r.workunit_id, MIN(r.id) FROM upload u JOIN result r ON r.id = u.result_id"
        f" WHERE r.workunit_id IN (??) AND {steps.FOUND}r.{steps.IS_IN_PROGRESS} GROUP BY r.workunit_id",
        workunit_ids,
    )
    return {WorkunitId(row[0]): ResultId(row[1]) for row in rows}


def output_content(output: StoredOutput, folder: Path, *, max_nbytes: int) -> bytes:
    """Return the content of an output, decompressed if the client compressed it.

    Raises:
        StoreError: the file is missing, broken, or larger than ``max_nbytes``.
        OSError: it cannot be read now.
    """
    if output.data is not None:
        raw = output.data
    else:
        path = place_of(folder, output.name)
        try:
            if path.stat().st_size > max_nbytes:
                raise StoreError(f"{output.name} is larger than the {max_nbytes} bytes that can be read.")
            raw = path.read_bytes()
        except FileNotFoundError as error:
            raise StoreError(f"The output file {output.name} is missing.") from error
    return unpack(raw, max_nbytes=max_nbytes, name=output.name) if output.gzipped else raw


def unpack(raw: bytes, *, max_nbytes: int, name: str) -> bytes:
    """Decompress what a client compressed.

    Raises:
        StoreError: it is broken, or becomes larger than ``max_nbytes``.
    """
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(raw, max_nbytes + 1)
    except zlib.error as error:
        raise StoreError(f"The output file {name} is not valid gzip data: {error}.") from error
    if len(data) > max_nbytes:
        raise StoreError(f"The output file {name} decompresses to more than {max_nbytes} bytes.")
    if not unpacker.eof:
        raise StoreError(f"The output file {name} is a truncated gzip file.")
    return data


def on_disk(db: Database, result_ids: Sequence[ResultId]) -> set[ResultId]:
    """Return those of the results that have outputs in files."""
    rows = db.query_in("SELECT result_id FROM upload WHERE result_id IN (??) AND data IS NULL", result_ids)
    return {ResultId(row[0]) for row in rows}


def delete_outputs(tx: Transaction, result_ids: Sequence[ResultId]) -> list[str]:
    """Delete the outputs of results; return the names of those on disk."""
    rows = tx.query_in("SELECT name FROM upload WHERE result_id IN (??) AND data IS NULL", result_ids)
    forget_outputs(tx, result_ids)
    return [row[0] for row in rows]


def forget_outputs(tx: Transaction, result_ids: Sequence[ResultId]) -> None:
    """Delete the outputs of results; files on disk stay."""
    tx.execute_many("DELETE FROM upload WHERE result_id = ?", [(result_id,) for result_id in result_ids])
