"""The archive of a project that several machines share: parts, each a packed file of lines in the storage that all of them reach.

A part holds what one purge took out of the database, a table after the other, with the names of its columns in front.  It never
changes: when words must go, a part without them is added and the old one is removed.  The name says which part it is: the first
workunit, how often it was written anew, and the MD5 of the file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from cobblestone.domain.errors import StoreError
from cobblestone.ops.durable_files import sync_file, sync_folder

Rows = tuple[list[str], list[tuple[Any, ...]]]
"""Names of columns, and rows."""
Tables = Mapping[str, Rows]

_NAME = re.compile(r"(\d{12})-(\d{4})-([0-9a-f]{32})\.jsonl\.gz")


class PartStorage(Protocol):
    """What is asked of the storage; see `cobblestone.server.core.storage.FileStorage`."""

    in_bucket: bool

    def keep_now(self, place: Path, source: Path) -> None:
        """Keep ``source`` as the file of a place."""
        ...

    def bring_now(self, place: Path, *, nbytes: int, md5: str) -> None:
        """See that a kept file lies at its place."""
        ...

    def remove(self, places: Iterable[Path]) -> None:
        """Keep these files no longer."""
        ...

    def listed(self, folder: Path) -> Mapping[str, int]:
        """Return names and sizes of the files that are kept in a folder."""
        ...


@dataclass(frozen=True, slots=True)
class ArchiveParts:
    """The parts in a folder.  Not for the event loop.

    Raises everywhere:
        StoreError: the storage cannot be reached, or a part is damaged.
    """

    folder: Path
    storage: PartStorage

    def names(self) -> dict[str, int]:
        """Return all parts with their sizes; of one that was written anew, the latest comes last."""
        return {
            name: n for name, n in sorted(self.storage.listed(self.folder).items()) if _NAME.fullmatch(name)
        }

    def add(self, tables: Tables, *, instead_of: str = "") -> str:
        """Add a part; return its name when it is durable.  ``instead_of``: the one that it replaces, which stays for now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        working = self.folder / f".{secrets.token_hex(8)}"
        try:
            working.touch(0o600)  # it has the words of people's computers
            working.write_bytes(packed(tables))
            sync_file(working)
            name = _name(
                tables, hashlib.md5(working.read_bytes(), usedforsecurity=False).hexdigest(), instead_of
            )
            self.storage.keep_now(self.folder / name, working)
            if not self.storage.in_bucket:
                working.replace(self.folder / name)
                sync_folder(self.folder)
            return name
        except OSError as error:
            raise StoreError(f"The archive in {self.folder} cannot be written: {error}.") from error
        finally:
            working.unlink(missing_ok=True)

    def read(self, name: str, nbytes: int) -> Tables | None:
        """Return what a part holds; None: it has gone."""
        found = _NAME.fullmatch(name)
        place = self.folder / name
        self.storage.bring_now(place, nbytes=nbytes, md5=found[3] if found else "")
        try:
            return unpacked(place.read_bytes(), name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{place} cannot be read: {error}.") from error
        finally:
            if self.storage.in_bucket:
                place.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Remove a part."""
        self.storage.remove([self.folder / name])
        (self.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Archive:
    """Where purged jobs are: a SQLite database on this machine; with parts it is made from them."""

    path: Path
    parts: ArchiveParts | None = None


def packed(tables: Tables) -> bytes:
    """Return a part's content; the same rows always give the same."""
    lines: list[str] = []
    for table, (columns, rows) in tables.items():
        lines.append(json.dumps({"table": table, "columns": columns}))
        lines += (json.dumps(row, default=_plain, ensure_ascii=False) for row in rows)
    return gzip.compress("\n".join(lines).encode(), 6, mtime=0)


def unpacked(content: bytes, name: str) -> Tables:
    """Return the tables of a part.

    Raises:
        StoreError: it is damaged.
    """
    tables: dict[str, Rows] = {}
    rows: list[tuple[Any, ...]] = []
    try:
        for line in gzip.decompress(content).split(b"\n"):
            value: Any = json.loads(line)  # what stands in a file
            if isinstance(value, dict):
                header = cast("dict[str, Any]", value)
                rows = []
                tables[header["table"]] = (header["columns"], rows)
            else:
                rows.append(tuple(_value(each) for each in value))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"The part {name} of the archive is damaged: {error}.") from error
    return tables


def _value(plain: Any) -> Any:
    """Return a value of a row; those that are bytes stand as hexadecimal numbers."""
    return bytes.fromhex(cast("dict[str, str]", plain)["hex"]) if isinstance(plain, dict) else plain


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    raise TypeError(f"{type(value).__name__} in a row")


def _name(tables: Tables, md5: str, instead_of: str) -> str:
    old = _NAME.fullmatch(instead_of)
    if old:
        return f"{old[1]}-{min(int(old[2]) + 1, 9999):04d}-{md5}.jsonl.gz"
    columns, rows = tables["workunit"]
    first = min((row[columns.index("id")] for row in rows), default=0)
    return f"{first:012d}-0000-{md5}.jsonl.gz"
