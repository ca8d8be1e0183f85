"""The file store: what clients download.

A physical name never changes its content: clients and proxies keep files by name.  Names therefore hold a
hash of the content: ``jf_<sha256>`` for inputs, ``<name>_<part of the sha256>.<suffix>`` for others.

A file reaches its final place before its row is committed, and its row is condemned (``refs = -1``) before
the file is removed; a write that adds the same file meanwhile sees that and tries again.  So a row that may be
referred to always has its file, whatever crashes when; at worst a file without a row is left over.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import IO

from cobblestone.domain.errors import Busy, Conflict, NotFound, StoreError
from cobblestone.ops.files import sync_file, sync_folder
from cobblestone.store.engine.database import Database, Store, Transaction
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.wire.project.account import fanout_directory

FAN_OUT = 1024  #: sub-folders of the download and upload hierarchies, as the family has them
CHUNK = 1 << 20
GZIP_FROM_NBYTES = 2048  #: smaller files are not worth a compressed variant
GZIP_GAIN = 0.9  #: keep the variant if it is smaller than this part of the file
#: The sender of a larger file should not wait long for its variant: it is packed quickly, and only if parts of it shrink.
LARGE_NBYTES = 8_000_000
GZIP_SAMPLES, GZIP_SAMPLE_NBYTES = 16, 65_536

_DELETING = -1
_ATTEMPTS = 100
_ATTEMPT_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """A file that clients can download."""

    name: str
    nbytes: int
    md5: str
    gzipped_nbytes: int | None = None  #: size of the ``.gz`` variant, when there is one
    refs: int = 0  #: workunits and app versions that need it
    touched_time: float = 0.0  #: Unix seconds; unused files are kept for a while after it


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A complete file in the staging folder, flushed to disk."""

    path: Path
    nbytes: int
    md5: str
    sha256: str


# -- names and places ----------------------------------------------------------


@lru_cache(maxsize=1024)  # the files of an app's versions stand in every reply
def fan_out(name: str) -> str:
    """Return sub-folder of a file in the download and upload hierarchies."""
    return fanout_directory(name, FAN_OUT)


def place_of(root: Path, name: str) -> Path:
    """Return the path of a file of a hierarchy."""
    return root / fan_out(name) / name


def gzip_variant(path: Path) -> Path:
    """Return the path of the compressed variant of a file."""
    return path.with_name(path.name + ".gz")


def input_name(sha256: str) -> str:
    """Return physical name of an input file."""
    return f"jf_{sha256}"


def app_file_name(original: str, sha256: str) -> str:
    """Return the physical name of an app version's file: readable, unique to its content, and short enough for Windows."""
    path = PurePosixPath(original.replace("\\", "/"))
    stem = re.sub(r"[^A-Za-z0-9_\-]+", "_", path.stem)[:40].strip("_") or "file"
    suffix = re.sub(r"[^A-Za-z0-9.]+", "", path.suffix)[:16]
    return f"{stem}_{sha256[:32]}{suffix if len(suffix) > 1 else ''}"


# -- staging -------------------------------------------------------------------


class StagingWriter:
    """Receives a file piece by piece and hashes it.  A context manager; unfinished files are removed."""

    def __init__(self, staging: Path) -> None:
        staging.mkdir(parents=True, exist_ok=True)
        self.path = staging / secrets.token_hex(16)
        self.nbytes = 0
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._sha256 = hashlib.sha256()
        self._handle: IO[bytes] = self.path.open("xb")
        self._finished = False

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._handle.write(data)
        self._md5.update(data)
        self._sha256.update(data)
        self.nbytes += len(data)

    def finish(self) -> StagedFile:
        """Flush to disk."""
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self._handle.close()
        self._finished = True
        return StagedFile(
            path=self.path, nbytes=self.nbytes, md5=self._md5.hexdigest(), sha256=self._sha256.hexdigest()
        )

    def __enter__(self) -> StagingWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            self.path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # closing writes what is left, and the disk may be full
                self._handle.close()


def empty_staging(staging: Path, *, older_than: float = 0.0) -> None:
    """Remove unfinished files of an earlier process; files younger than ``older_than`` seconds may belong to another one."""
    limit = time.time() - older_than
    for path in staging.iterdir() if staging.is_dir() else ():
        with contextlib.suppress(OSError):
            if not older_than or path.stat().st_mtime < limit:
                path.unlink()


# -- adding --------------------------------------------------------------------


def add_file(
    store: Store, root: Path, staged: StagedFile, name: str, *, now: float, compress: bool = False
) -> FileRow:
    """Move a staged file to the place of its physical name under ``root`` and record it.

    ``compress`` also makes a ``.gz`` variant where that pays.  Not for the event loop.

    Raises:
        Conflict: there is a file of that name with other content.
        Busy: an old file of that name is being deleted for longer than a few seconds.
    """
    try:
        for attempt in range(_ATTEMPTS):
            file = _place(root, name, staged, compress=compress)
            recorded = store.write(lambda tx, file=file: _record(tx, root, file, now=now))
            if recorded is not None:
                return recorded
            time.sleep(_ATTEMPT_SECONDS * min(attempt + 1, 4))
        raise Busy("A file of the same name is being deleted at this moment. Try again.")
    finally:
        staged.path.unlink(missing_ok=True)


def _place(root: Path, name: str, file: StagedFile, *, compress: bool) -> FileRow:
    target = place_of(root, name)
    placed = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        placed = _link(file.path, target, file)
        gzipped = _make_gzip_variant(target) if compress and file.nbytes >= GZIP_FROM_NBYTES else None
        sync_folder(root)
        sync_folder(target.parent)
    except OSError:  # the disk is full; a write that placed the same file meanwhile sees that it has gone, and places it again
        if placed:
            target.unlink(missing_ok=True)
            gzip_variant(target).unlink(missing_ok=True)
        raise
    return FileRow(name=name, nbytes=file.nbytes, md5=file.md5, gzipped_nbytes=gzipped)


def _link(source: Path, target: Path, file: StagedFile) -> bool:
    """Place a file; return whether it was missing before."""
    # A hard link, so that the staged file is still there for another attempt.
    try:
        os.link(source, target)
    except FileExistsError:
        if _same_content(target, file):
            return False
        text = f"There is already another file called {target.name}. A name keeps its content: use a new one."
        raise Conflict(text) from None
    except OSError:  # a file system without hard links
        temporary = target.with_name(f".{secrets.token_hex(8)}")
        try:
            shutil.copyfile(source, temporary)
            sync_file(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    return True


def _same_content(path: Path, file: StagedFile) -> bool:
    try:
        with path.open("rb") as handle:
            same_size = os.fstat(handle.fileno()).st_size == file.nbytes
            return same_size and hashlib.file_digest(handle, "sha256").hexdigest() == file.sha256
    except FileNotFoundError:  # deleted just now: the next attempt places it again
        return True


def content_md5(path: Path, *, packed: bool = False) -> str:
    """Return the MD5 of a file, or of its decompressed content; empty if it cannot be decompressed."""
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return ""


def _make_gzip_variant(path: Path) -> int | None:
    variant = gzip_variant(path)
    with contextlib.suppress(FileNotFoundError):
        return variant.stat().st_size
    is_large = path.stat().st_size > LARGE_NBYTES
    if is_large and not _parts_shrink(path):
        return None
    temporary = path.with_name(f".{secrets.token_hex(8)}")
    try:
        level = 1 if is_large else 6
        # No name and no time inside: the same file always gives the same variant.
        with (
            path.open("rb") as source,
            temporary.open("xb") as raw,
            gzip.GzipFile("", "wb", level, raw, mtime=0) as packed,
        ):
            shutil.copyfileobj(source, packed, CHUNK)
        nbytes = temporary.stat().st_size
        if nbytes > GZIP_GAIN * path.stat().st_size:
            return None
        sync_file(temporary)
        temporary.replace(variant)
        return nbytes
    finally:
        temporary.unlink(missing_ok=True)


def _parts_shrink(path: Path) -> bool:
    """Return whether samples from all over a large file compress well enough."""
    packed = total = 0
    with path.open("rb") as source:
        step = path.stat().st_size // GZIP_SAMPLES
        for place in range(GZIP_SAMPLES):
            source.seek(place * step)
            part = source.read(GZIP_SAMPLE_NBYTES)
            total += len(part)
            packed += len(zlib.compress(part, 1))
    return packed <= GZIP_GAIN * total


def _record(tx: Transaction, root: Path, file: FileRow, *, now: float) -> FileRow | None:
    """Write the row; return None if the file is being deleted and must be placed again."""
    old = _rows(tx, [file.name]).get(file.name)
    if old is not None and old.refs == _DELETING:
        return None
    if old is not None and (old.md5, old.nbytes) != (file.md5, file.nbytes):
        text = f"There is already another file called {file.name}. A name keeps its content: use a new one."
        raise Conflict(text)
    if not place_of(root, file.name).exists():
        return None
    tx.execute(
        "INSERT INTO file (name, nbytes, md5, gzipped_nbytes, refs, touched_time) VALUES (?, ?, ?, ?, 0, ?)"
        " ON CONFLICT (name) DO UPDATE SET touched_time = excluded.touched_time,"
        " gzipped_nbytes = COALESCE(excluded.gzipped_nbytes, file.gzipped_nbytes)",
        (file.name, file.nbytes, file.md5, file.gzipped_nbytes, now),
    )
    return _rows(tx, [file.name])[file.name]


# -- asking --------------------------------------------------------------------


_FILES = RowMapper(FileRow)


def _rows(db: Database, names: Sequence[str]) -> dict[str, FileRow]:
    return {file.name: file for file in db.load_in(_FILES, "file WHERE name IN (??)", names)}


def files_by_name(db: Database, names: Sequence[str]) -> dict[str, FileRow]:
    """Return files by physical name; missing ones are left out."""
    return {name: file for name, file in _rows(db, names).items() if file.refs != _DELETING}


# -- references ----------------------------------------------------------------


def touch(tx: Transaction, names: Sequence[str], *, now: float) -> dict[str, FileRow]:
    """Announce references to these files: they are kept for the grace period.  Returns those that exist."""
    tx.execute_many(
        "UPDATE file SET touched_time = ? WHERE name = ? AND refs >= 0",
        [(now, name) for name in sorted(names)],
    )
    return files_by_name(tx, names)


def add_references(tx: Transaction, counts: Mapping[str, int]) -> None:
    """Count new users of files.

    Raises:
        NotFound: a file is not in the store; the text names it.
    """
    if not counts:
        return
    changed = tx.execute_each(
        "UPDATE file SET refs = refs + ? WHERE name = ? AND refs >= 0",
        [(count, name) for name, count in sorted(counts.items())],
    )
    if sum(changed) != len(counts):
        missing = sorted(set(counts) - set(files_by_name(tx, list(counts))))
        raise NotFound(
            f"Not in the file store: {', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}."
            " Upload the files first (PUT /api/v1/files/SHA256)."
        )


def release_references(tx: Transaction, counts: Mapping[str, int], *, now: float) -> None:
    """Remove users of files.  A file without users is deleted after the grace period."""
    tx.execute_many(
        "UPDATE file SET refs = CASE WHEN refs > ? THEN refs - ? ELSE 0 END, touched_time = ? WHERE name = ? AND refs >= 0",
        [(count, count, now, name) for name, count in sorted(counts.items())],
    )


def delete_unused(
    store: Store,
    root: Path,
    *,
    before: float,
    limit: int = 200,
    also_remove: Callable[[Sequence[Path]], None] = lambda places: None,
) -> int:
    """Delete files without references that were not touched since ``before`` (Unix seconds); return how many.

    ``also_remove`` removes them from where else they are kept.

    Not for the event loop.  Also finishes deletions that a crash interrupted.  The conditions on ``refs`` are worded as that
    of the index, or it would not be used.
    """

    def condemn(tx: Transaction) -> list[str]:
        rows = tx.query(
            "SELECT name FROM file WHERE refs <= 0 AND touched_time < ? ORDER BY touched_time LIMIT ?",
            (before, limit),
        )
        tx.execute_many(
            f"UPDATE file SET refs = {_DELETING} WHERE name = ? AND refs = 0 AND touched_time < ?",
            [(row[0], before) for row in rows],
        )
        rows = tx.query(f"SELECT name FROM file WHERE refs <= 0 AND refs = {_DELETING} LIMIT ?", (limit,))
        return [row[0] for row in rows]

    if store.read(
        lambda db: db.value("SELECT 1 FROM file WHERE refs <= 0 AND touched_time < ? LIMIT 1", (before,))
    ):
        names = store.write(condemn)
        also_remove([place_of(root, name) for name in names])
        remove_from_disk(root, names)
        store.write(partial(_forget, names=names))
        return len(names)
    return 0


def _forget(tx: Transaction, names: Sequence[str]) -> None:
    """Forget deleted files and who had them; hosts that still list one are told that it is not needed."""
    rows = [(name,) for name in names]
    tx.execute_many(f"DELETE FROM file WHERE name = ? AND refs = {_DELETING}", rows)
    tx.execute_many("DELETE FROM kept_file WHERE file_name = ? AND listed = 0", rows)
    tx.execute_many("DELETE FROM received_file WHERE file_name = ?", rows)


def remove_from_disk(root: Path, names: Iterable[str]) -> None:
    """Remove files and their compressed variants from a hierarchy; missing ones are ignored."""
    for name in names:
        path = place_of(root, name)
        for each in (path, gzip_variant(path)):
            try:
                each.unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(f"{each} cannot be deleted: {error}.") from error


# -- durability ----------------------------------------------------------------
