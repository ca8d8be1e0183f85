"""Files: written so that they survive a power loss, and read in pieces of bounded size when untrusted."""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from cobblestone.domain.errors import RemoteProtocolError

CHUNK = 1 << 18
#: No text of an export packs better: a file that does was made to fill memory or disk.
LARGEST_RATIO = 400
GZIP = b"\x1f\x8b"


def pieces(path: Path, codec: ModuleType = zlib) -> Iterator[bytes]:
    """Yield the content of a file, decompressed if it is compressed, by a module with the functions of `zlib`.

    Raises:
        RemoteProtocolError: as by `unpacked_pieces`.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    return unpacked_pieces(path, codec) if packed else plain_pieces(path)


def plain_pieces(path: Path) -> Iterator[bytes]:
    """Yield the content of a file unchanged."""
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            yield data


def unpacked_pieces(path: Path, codec: ModuleType = zlib) -> Iterator[bytes]:
    """Yield the decompressed content of a file.

    Raises:
        RemoteProtocolError: it is cut, damaged, or unpacks to more than any honest file does.
    """
    packed = codec.decompressobj(wbits=31)
    most = LARGEST_RATIO * path.stat().st_size + CHUNK
    try:
        for piece in plain_pieces(path):
            rest = piece
            while rest and not packed.eof:
                data = packed.decompress(rest, CHUNK)
                rest = packed.unconsumed_tail
                most -= len(data)
                if most < 0:
                    raise RemoteProtocolError(
                        f"it decompresses to more than {LARGEST_RATIO} times its size: refused"
                    )
                yield data
        while not packed.eof and (data := packed.decompress(packed.unconsumed_tail, CHUNK)):
            yield data
    except codec.error as error:
        raise RemoteProtocolError(f"the compressed file is damaged: {error}") from error
    if not packed.eof:
        raise RemoteProtocolError("the compressed file is cut off")


def write_private(path: Path, data: bytes) -> None:
    """Write a secret that only the owner may read, durably and atomically."""
    write_durably(path, data, mode=0o600)


def write_durably(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file under a temporary name, flush it to disk, and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # writing and flushing do not name it
        raise
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Flush a file's content to disk."""
    _sync(path, os.O_RDWR)


def sync_folder(path: Path) -> None:
    """Make a rename inside ``path`` survive a power loss."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
