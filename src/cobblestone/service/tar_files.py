"""Tar files of folders, optionally compressed: writing, and unpacking of untrusted ones.

They hold regular files and folders, and nothing else is unpacked: of a member its name, its content and its time count.  So no
filter of the standard library is needed, which the first versions of Python 3.11 do not have.
"""

from __future__ import annotations

import gzip
import os
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Literal, cast

from cobblestone.domain.errors import StoreError

#: By the suffix of a file's name; other names are of folders.
MODES: dict[str, Literal["w", "w:gz"]] = {".tar": "w", ".gz": "w:gz", ".tgz": "w:gz"}
MAX_DEPTH = 200
CHUNK = 1 << 20
_BLOCK = 4096  # what a file or folder takes of a disk however little is in it
_GZIP_MAGIC = b"\x1f\x8b"


def pack_folder(folder: Path, target: Path) -> None:
    """Write a folder as a tar file that only its owner can read, atomically."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            # Files that are hard links of each other are written as often as they are named: links are not unpacked.
            with tarfile.open(fileobj=handle, mode=MODES[target.suffix], dereference=True) as archive:
                archive.add(folder, arcname=".")
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def unpack_folder(source: Path, folder: Path) -> None:
    """Unpack an untrusted tar file into an empty folder, or a new one.

    Raises:
        FileNotFoundError: there is none.
        StoreError: it is no tar file, is damaged, holds something that must not be unpacked, or more than there is room for.
    """
    try:
        with _opened(source) as archive:
            folder.mkdir(mode=0o700, exist_ok=True)
            free = left = shutil.disk_usage(folder).free
            while (member := archive.next()) is not None:
                # Or a tar file of very many members would fill the memory.  Undeclared, but so in every version of Python.
                archive.members = []  # pyright: ignore[reportAttributeAccessIssue]
                path = folder / _checked_name(member, source)
                left -= member.size + _BLOCK
                if left < 0:
                    raise StoreError(
                        f"{source} contains more than fits into the {free // 10**6} MB that are free in {folder.parent}."
                    )
                _unpack_member(archive, member, path, source)
    except (tarfile.TarError, zlib.error, EOFError, RecursionError, ValueError, OverflowError) as error:
        raise StoreError(f"{source} is not a readable tar file: {error}.") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"{source} could not be unpacked: {error}.") from error


class _Content:
    """The content of a tar file, read in small pieces: long names are read whole, and could be as long as a disk is large."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content
        self.tell = content.tell
        self.seek = content.seek

    def read(self, size: int) -> bytes:
        if not 0 <= size <= CHUNK:
            raise tarfile.ReadError("a name is too long")
        return self._content.read(size)


@contextmanager
def _opened(source: Path) -> Generator[tarfile.TarFile]:
    with source.open("rb") as file:
        packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        content = _Content(cast("BinaryIO", gzip.GzipFile(fileobj=file) if packed else file))
        with tarfile.open(fileobj=cast("BinaryIO", content), mode="r:") as archive:
            yield archive


def _checked_name(member: tarfile.TarInfo, source: Path) -> PurePosixPath:
    name = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()) or member.issparse():
        kind = "a link" if member.issym() or member.islnk() else "neither a file nor a folder"
        raise StoreError(
            f"{source}: {member.name!r} is {kind}: this copy was not made by cobblestone. If you trust it, unpack it with tar,"
            " replace links with files, and give the folder."
        )
    if name.is_absolute() or ".." in name.parts or len(name.parts) > MAX_DEPTH or member.size < 0:
        raise StoreError(f"{source}: {member.name!r} is not allowed in a copy.")
    return name


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path, source: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with cast("IO[bytes]", archive.extractfile(member)) as content, path.open("xb") as file:
            shutil.copyfileobj(content, file, CHUNK)
    except FileExistsError:
        raise StoreError(f"{source}: {member.name!r} occurs more than once.") from None
    os.utime(path, (member.mtime, member.mtime))
