"""Gzip and zip from bytes to bytes, with every size bounded: outputs of volunteers are not to be trusted.

Only what outputs need: gzip members in a row; zip archives with stored or deflated members that do not overlap, without
encryption and below 4 GB.  Sizes are limited while decompressing, so a decompression bomb costs no more than
the limit, and no byte is copied once for each member: time grows with the size alone.

Source: RFC 1952 (gzip), PKWARE's APPNOTE 6.3 (zip).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

from cobblestone.domain.errors import JobError
from cobblestone.domain.reasons import Value, phrase

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"

_END = struct.Struct("<4s4H2LH")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED, _UTF8 = 0x1, 0x800
_STORED, _DEFLATED = 0, 8
_GZIP_WRAPPER, _NO_WRAPPER = 31, -15  # zlib's names for them
_PIECE_NBYTES = 16_384


class MalformedOutput(JobError):
    """An output file cannot be read."""

    def __init__(self, sentence: str, **values: Value) -> None:
        """``sentence`` may name any of ``values`` in braces."""
        self.why = phrase(sentence, **values)
        super().__init__(self.why.text())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Limits on reading one output file; larger ones are refused."""

    max_nbytes: int = 200_000_000  #: of the file, and of all that is packed into it
    max_memory: int = 400_000_000  #: bytes of what it becomes when it is read, by a cautious estimate
    max_members: int = 10_000  #: files in an archive, parts of a gzip file
    max_depth: int = 200  #: of lists and objects in JSON

    def room_for(self, nbytes: int) -> ReadLimits:
        """Return the limits that are left once ``nbytes`` of memory are taken.

        Raises:
            MalformedOutput: they are more than there is.
        """
        if nbytes > self.max_memory:
            raise MalformedOutput(
                "is too large to be compared: it would take {needed} MB of memory; {left} MB are left",
                needed=format(min(nbytes, 10**18) // 10**6, ","),
                left=format(self.max_memory // 10**6, ","),
            )
        return replace(self, max_memory=self.max_memory - nbytes)


def gunzip(content: bytes, limits: ReadLimits) -> bytes:
    """Decompress gzip.

    Raises:
        MalformedOutput: damaged, of too many members, or larger than ``limits.max_nbytes`` when decompressed.

    """
    parts: list[bytes] = []
    packed = memoryview(content)
    room = limits.max_nbytes
    while packed:
        if len(parts) == limits.max_members:
            raise MalformedOutput("gzip has more than {most} members", most=limits.max_members)
        part, used = _inflate(packed, _GZIP_WRAPPER, room, "gzip")
        packed = packed[used:]
        room -= len(part)
        parts.append(part)
    return b"".join(parts)


def unzip(content: bytes, limits: ReadLimits) -> dict[str, bytes]:
    """Read all files of a zip archive, by their names.

    Raises:
        MalformedOutput: damaged, encrypted, too many or too large members, two members of one name.

    """
    members: dict[str, bytes] = {}
    room = limits.max_nbytes
    entries = _directory(content, limits)
    if sum(entry.packed_nbytes for entry in entries) > len(content):
        raise MalformedOutput("the files in the archive overlap")
    for entry in entries:
        if entry.name in members:
            raise MalformedOutput("the archive holds two files named {name}", name=repr(entry.name))
        if entry.nbytes > room:
            raise MalformedOutput("the archive holds more than {most} bytes", most=limits.max_nbytes)
        members[entry.name] = _member(content, entry)
        room -= entry.nbytes
    return members


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    method: int
    crc: int
    packed_nbytes: int
    nbytes: int
    offset: int


def _directory(content: bytes, limits: ReadLimits) -> list[_Entry]:
    """Read the central directory: what is listed there is the archive."""
    end = content.rfind(b"PK\x05\x06", max(0, len(content) - _END.size - 0xFFFF))
    if end < 0 or end + _END.size > len(content):
        raise MalformedOutput("the archive has no directory: it is cut off or damaged")
    _, disk, start_disk, _, n_members, _, position, _ = _END.unpack_from(content, end)
    if disk or start_disk or n_members == 0xFFFF or position == 0xFFFFFFFF:
        raise MalformedOutput("archives of several parts or above 4 GB are not read")
    if n_members > limits.max_members:
        raise MalformedOutput(
            "the archive holds {n} files; at most {most} are read", n=n_members, most=limits.max_members
        )
    entries: list[_Entry] = []
    for _ in range(n_members):
        if position + _ENTRY.size > end or content[position : position + 4] != b"PK\x01\x02":
            raise MalformedOutput("the directory of the archive is damaged")
        fields: tuple[int, ...] = _ENTRY.unpack_from(content, position)[1:]
        flags, method, crc, packed, nbytes = fields[2], fields[3], *fields[6:9]
        name_length, extra_length, comment_length = fields[9:12]
        raw_name = content[position + _ENTRY.size : position + _ENTRY.size + name_length]
        name = raw_name.decode("utf-8" if flags & _UTF8 else "cp437", errors="replace")
        if flags & _ENCRYPTED:
            raise MalformedOutput("{name} in the archive is encrypted", name=repr(name))
        if method not in (_STORED, _DEFLATED):
            raise MalformedOutput(
                "{name} in the archive is packed by method {method}, which is not read",
                name=repr(name),
                method=method,
            )
        entries.append(
            _Entry(name=name, method=method, crc=crc, packed_nbytes=packed, nbytes=nbytes, offset=fields[-1])
        )
        position += _ENTRY.size + name_length + extra_length + comment_length
    return entries


def _member(content: bytes, entry: _Entry) -> bytes:
    damaged = MalformedOutput("{name} in the archive is damaged", name=repr(entry.name))
    if entry.offset + _LOCAL.size > len(content) or content[entry.offset : entry.offset + 4] != ZIP_MAGIC:
        raise damaged
    name_length, extra_length = _LOCAL.unpack_from(content, entry.offset)[-2:]
    start = entry.offset + _LOCAL.size + name_length + extra_length
    packed = content[start : start + entry.packed_nbytes]
    data = packed
    if entry.method == _DEFLATED:
        data, _ = _inflate(memoryview(packed), _NO_WRAPPER, entry.nbytes, repr(entry.name))
    if len(data) != entry.nbytes or zlib.crc32(data) != entry.crc:
        raise damaged
    return data


def _inflate(packed: memoryview, wbits: int, max_nbytes: int, what: str) -> tuple[bytes, int]:
    """Decompress one stream, which must end within ``max_nbytes``; returns it and how many bytes it took.

    Piece by piece: zlib copies what follows the end of a stream.
    """
    inflater = zlib.decompressobj(wbits=wbits)
    parts: list[bytes] = []
    room = max_nbytes + 1
    used = 0
    while not inflater.eof and room > 0 and used < len(packed):
        piece = packed[used : used + _PIECE_NBYTES]
        try:
            parts.append(inflater.decompress(piece, room))
        except zlib.error as error:
            raise MalformedOutput(
                "{what} cannot be decompressed: {error}", what=what, error=str(error)
            ) from None
        room -= len(parts[-1])
        used += len(piece) - len(inflater.unused_data)
    if room <= 0:
        raise MalformedOutput(
            "{what} holds more than {most} bytes when decompressed", what=what, most=max_nbytes
        )
    if not inflater.eof:
        raise MalformedOutput("{what} is cut off", what=what)
    return b"".join(parts), used
