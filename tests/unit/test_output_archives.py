"""Gzip, zip and NumPy files from hosts that may be hostile."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from cobblestone.policy.validation.archives import MalformedOutput, ReadLimits, gunzip, unzip
from cobblestone.policy.validation.documents import (
    MAX_HEADER_NBYTES,
    ArchiveDocument,
    BinaryDocument,
    read_document,
    read_npy,
)

LIMITS = ReadLimits(max_nbytes=10_000, max_members=5)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def an_npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


def a_header(descr: object = "<f8", shape: object = (1,), order: object = False) -> str:
    return repr({"descr": descr, "fortran_order": order, "shape": shape})


# ------------------------------------------------------------------------------------------------------ gzip


def test_gzip_is_read_also_in_several_members():
    assert gunzip(gzip.compress(b"one ") + gzip.compress(b"two"), LIMITS) == b"one two"


def test_a_gzip_bomb_costs_no_more_than_the_limit():
    bomb = gzip.compress(b"\0" * 50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedOutput, match="more than 10000 bytes"):
            gunzip(bomb, LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    with pytest.raises(MalformedOutput, match="more than"):
        gunzip(gzip.compress(b"x" * 6000) * 2, LIMITS)


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d + b"junk", lambda d: d[:12] + b"\0\0" + d[14:]]
)
def test_damaged_gzip_is_refused(damage: object):
    with pytest.raises(MalformedOutput):
        gunzip(damage(gzip.compress(b"content " * 50)), LIMITS)  # type: ignore[operator]  # a function of the table


# ------------------------------------------------------------------------------------------------------- zip


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_members_are_read(method: int):
    members = {"a.txt": b"one", "ordner/ü.txt": b"two" * 100, "empty": b""}
    assert unzip(zipped(members, method), LIMITS) == members


def test_a_zip_that_was_streamed_and_has_a_comment_is_read():
    class Stream(io.RawIOBase):
        """Cannot seek: sizes come after the data."""

        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]  # narrower, for the test
            self.data += bytes(data)
            return len(data)

    stream = Stream()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"streamed " * 9)
        archive.comment = b"comment"
    assert unzip(stream.data, LIMITS) == {"a": b"streamed " * 9}


def test_a_zip_bomb_costs_no_more_than_the_limit():
    with pytest.raises(MalformedOutput, match="more than 10000 bytes"):
        unzip(zipped({"bomb": b"\0" * 5_000_000}), LIMITS)
    with pytest.raises(MalformedOutput, match="more than 10000 bytes"):
        unzip(zipped({"a": b"\0" * 6000, "b": b"\0" * 6000}), LIMITS)


def test_a_zip_that_lies_about_its_sizes_is_refused():
    content = bytearray(zipped({"bomb": b"\0" * 5_000_000}))
    directory = content.rfind(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 100)
    with pytest.raises(MalformedOutput, match="more than 100 bytes"):
        unzip(bytes(content), LIMITS)


def test_many_members_that_share_their_data_are_counted_each():
    content = zipped({"a": b"\0" * 4000})
    start = content.rfind(b"PK\x01\x02")
    end = content.rfind(b"PK\x05\x06")
    entry = content[start:end]
    entries = b"".join(entry[:46] + bytes([98 + i]) + entry[47:] for i in range(3))
    tail = bytearray(content[end:])
    tail[8:12] = struct.pack("<HH", 3, 3)
    with pytest.raises(MalformedOutput, match="more than 10000 bytes"):
        unzip(content[:start] + entries + bytes(tail), LIMITS)


def test_too_many_members_are_refused():
    with pytest.raises(MalformedOutput, match="holds 6 files; at most 5"):
        unzip(zipped({str(i): b"" for i in range(6)}), LIMITS)


def test_two_members_of_one_name_are_refused():
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a", b"1")
            archive.writestr("a", b"2")
    with pytest.raises(MalformedOutput, match="two files named 'a'"):
        unzip(buffer.getvalue(), LIMITS)


def test_encrypted_and_exotic_members_are_refused():
    content = bytearray(zipped({"a": b"1"}))
    directory = content.rfind(b"PK\x01\x02")
    content[directory + 8] |= 1
    with pytest.raises(MalformedOutput, match="encrypted"):
        unzip(bytes(content), LIMITS)
    with pytest.raises(MalformedOutput, match="packed by method 12"):
        unzip(zipped({"a": b"1"}, zipfile.ZIP_BZIP2), LIMITS)


def test_a_wrong_checksum_is_refused():
    content = zipped({"a": b"original"}, zipfile.ZIP_STORED).replace(b"original", b"0riginal")
    with pytest.raises(MalformedOutput, match="'a' in the archive is damaged"):
        unzip(content, LIMITS)


def test_archives_in_archives_are_not_unfolded():
    inner = zipped({"x": b"1"})
    document = read_document("o.zip", zipped({"inner.zip": inner, "b.gz": gzip.compress(b"1")}), LIMITS)
    assert isinstance(document, ArchiveDocument)
    assert document.members["inner.zip"] == BinaryDocument(content=inner)
    assert isinstance(document.members["b.gz"], BinaryDocument)


def test_an_archive_that_was_not_promised_and_cannot_be_read_is_just_bytes():
    content = zipped({"a": b"1"}, zipfile.ZIP_BZIP2)
    assert read_document("out", content, LIMITS) == BinaryDocument(content=content)
    with pytest.raises(MalformedOutput):
        read_document("out.zip", content, LIMITS)


def test_a_malformed_member_is_named():
    with pytest.raises(MalformedOutput, match=r"r\.json in the archive: is not JSON"):
        read_document("o.zip", zipped({"r.json": b"{"}), LIMITS)


# ------------------------------------------------------------------------------------------------------- npy


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_the_array_format_is_read(version: int):
    array = read_npy(an_npy(a_header("<i2", (2,)), struct.pack("<2h", 7, -7), version), LIMITS)[0]
    assert (array.shape, list(array.values)) == ((2,), [7, -7])  # type: ignore[union-attr]  # an array


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a NumPy array"),
        (b"\x93NUMPY\x09\x00\x00\x00\x00\x00", "version 9"),
        (an_npy(a_header())[:20], "cut off"),
        (an_npy(a_header(), b"1234567"), r"shape \(1,\) needs 8 bytes; the file has 7"),
        (an_npy(a_header(shape=(10**12,)), b"12345678"), "needs 8000000000000 bytes"),
        (an_npy(a_header("|O"), b"12345678"), "Python objects"),
        (an_npy(a_header("|S0")), "no size"),
        (an_npy(a_header("<U0", (10**18,))), "no size"),
        (an_npy(a_header([("", "|V0")])), "no size"),
        (an_npy(a_header([("x", "|O")])), "Python objects"),
        (an_npy(a_header("nonsense")), "dtype 'nonsense'"),
        (an_npy(a_header(None)), "unknown dtype"),
        (an_npy(a_header(shape=[1])), "unknown header"),
        (an_npy(a_header(shape=(-1,))), "unknown header"),
        (an_npy(a_header(shape=(True,))), "unknown header"),
        (an_npy(a_header(shape=(1,) * 65)), "unknown header"),
        (an_npy(a_header(order="yes")), "unknown header"),
        (an_npy("{'descr': '<f8'}"), "lacks descr"),
        (an_npy("[1]"), "lacks descr"),
        (an_npy("__import__('os').abort()"), "cannot be read"),
        (an_npy("(" * 5000), "cannot be read"),
        (an_npy("-" * 60_000 + "1"), "cannot be read"),
        (an_npy(" " * (MAX_HEADER_NBYTES + 1), version=2), "too long"),
    ],
)
def test_damaged_and_dangerous_arrays_are_refused(content: bytes, complaint: str):
    with pytest.raises(MalformedOutput, match=complaint):
        read_npy(content, LIMITS)


def test_an_empty_array_of_huge_dimensions_costs_nothing():
    array = read_npy(an_npy(a_header(shape=(10**12, 0, 10**12), order=True)), LIMITS)[0]
    assert len(array.values) == 0  # type: ignore[union-attr]  # an array


def test_pickles_are_never_loaded():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object))
    with pytest.raises(MalformedOutput, match="could run code"):
        read_npy(buffer.getvalue(), LIMITS)


def test_nested_records_stay_bytes_and_are_compared_as_such():
    array = np.zeros(2, dtype=[("x", "f8"), ("y", "i2", (3,))])
    buffer = io.BytesIO()
    np.save(buffer, array)
    document = read_npy(buffer.getvalue(), LIMITS)[0]
    assert document.values == array.tobytes()  # type: ignore[union-attr]  # an array
