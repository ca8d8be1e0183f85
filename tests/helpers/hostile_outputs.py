"""Outputs that volunteers may send to break the reader of them: named ones, and mutants of good ones without end."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

import numpy as np

RULES = ("bitwise", "trivial", "numeric:rtol=1e-6", "numeric:nan_equal=true,atol=1")
NAMES = ("out", "r.json", "r.csv", "r.tsv", "r.txt", "r.npy", "r.npz", "r.zip", "r.json.gz", "r.dat.gz")


def npy_with_header(header: str, data: bytes = b"", *, version: int = 1) -> bytes:
    """Return an array file with any header."""
    text = header.encode("utf-8", "surrogatepass")
    length = struct.pack("<H" if version == 1 else "<I", len(text) & 0xFFFF if version == 1 else len(text))
    return b"\x93NUMPY" + bytes((version, 0)) + length + text + data


def npy_of(dtype: object, shape: str = "(1,)", data: bytes = b"", *, order: bool = False) -> bytes:
    """Return an array file with any dtype and shape."""
    return npy_with_header(f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape}}}", data)


def zip_of_one_stream(n_members: int, padding: int) -> bytes:
    """Return a zip file whose members are all the same few bytes, each said to take all that follows them."""
    packer = zlib.compressobj(wbits=-15)
    stream = packer.compress(b"1") + packer.flush()
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0, zlib.crc32(b"1"), 0, 1, 0, 0)
    body = local + stream + bytes(padding)
    directory = b"".join(
        struct.pack(
            "<4s6H3L5H2L",
            b"PK\x01\x02",
            20,
            20,
            0,
            8,
            0,
            0,
            zlib.crc32(b"1"),
            len(stream) + padding,
            1,
            8,
            0,
            0,
            0,
            0,
            0,
            0,
        )
        + f"{n:08}".encode()
        for n in range(n_members)
    )
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, n_members, n_members, len(directory), len(body), 0)
    return body + directory + end


def _zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "digits and a letter": ("r.txt", lambda: b"1" * 200_000 + b"x"),
    "digits, a point and a letter": ("r.txt", lambda: b"1" * 100_000 + b"." + b"1" * 100_000 + b"x"),
    "digits in a table": ("r.csv", lambda: b"1" * 100_000 + b"x,2\n"),
    "signs and points": ("r.txt", lambda: b"+.-." * 50_000),
    "exponents in a row": ("r.txt", lambda: b"1e+1" * 50_000),
    "numbers that end too early": ("r.txt", lambda: b"-3e 1e+ 2.d 1.5D- .e3 +.5e " * 10_000),
    "signed digits and a letter": ("r.txt", lambda: (b"+" + b"1" * 1000 + b"e") * 200),
    "a long exponent": ("r.txt", lambda: b"1e" + b"9" * 200_000),
    "a number of many digits": ("r.json", lambda: b'{"x": ' + b"1" * 200_000 + b"}"),
    "lists, packed": ("r.json", lambda: gzip.compress(b"[" + b"[]," * 4_000_000 + b"1]")),
    "objects, packed": ("r.json.gz", lambda: gzip.compress(b"[" + b'{"a":1},' * 2_000_000 + b"1]")),
    "empty lines, packed": ("r.txt", lambda: gzip.compress(b"\n" * 40_000_000)),
    "empty cells, packed": ("r.csv", lambda: gzip.compress(b"," * 40_000_000)),
    "more than the limit, packed": ("r.dat", lambda: gzip.compress(bytes(210_000_000))),
    "many empty parts of gzip": ("r.dat.gz", lambda: gzip.compress(b"", mtime=0) * 300_000),
    "a zip whose members are one": ("r.zip", lambda: zip_of_one_stream(9_000, 2_000_000)),
    "a bomb in a zip": ("r.zip", lambda: _zipped("a.json", b"[" + b"[]," * 4_000_000 + b"1]")),
    "deep lists": ("r.json", lambda: b"[" * 500_000),
    "deep objects": ("r.json", lambda: b'{"a":' * 300_000),
    "long names above many values": (
        "r.json",
        lambda: json.dumps({"a" * 300_000: [[1.0]] * 100_000}).encode(),
    ),
    "names in names": (
        "r.json",
        lambda: (
            b"".join(b'{"' + b"k" * 1000 + b'":' for _ in range(150))
            + b"["
            + b"[1]," * 100_000
            + b"1]"
            + b"}" * 150
        ),
    ),
    "NaN everywhere": ("r.json", lambda: b"[" + b"NaN," * 100_000 + b"NaN]"),
    "a shape beyond all numbers": (
        "r.npy",
        lambda: npy_of("<f8", "(" + "9" * 4000 + "," * 1 + "9" * 4000 + ")"),
    ),
    "a shape in hexadecimal": ("r.npy", lambda: npy_of("<f8", "(0x" + "f" * 50_000 + ",)")),
    "an element beyond all numbers": ("r.npy", lambda: npy_of("<S" + "9" * 5000)),
    "a unit on text": ("r.npy", lambda: npy_of("<S5[ns]", data=b"12345")),
    "huge fields of nothing": (
        "r.npy",
        lambda: npy_of([("a", "<S9999999999999"), ("b", "<S9999999999999")], "(0,)"),
    ),
    "fields of foreign digits": ("r.npy", lambda: npy_of("<S\u0663", data=b"123")),
    "axes of one place": (
        "r.npy",
        lambda: npy_of("|i1", f"({'1,' * 62}1000,1000)", bytes(1_000_000), order=True),
    ),
    "many fields": (
        "r.npy",
        lambda: npy_of([(f"f{i}", "|i1") for i in range(3000)], "(300,)", bytes(900_000)),
    ),
    "small elements, packed": (
        "r.npy",
        lambda: gzip.compress(npy_of("|S1", "(40000000,)", bytes(40_000_000))),
    ),
    "a cut header": ("r.npy", lambda: b"\x93NUMPY\x02\x00\x00\x00"),
    "a header without end": ("r.npy", lambda: npy_with_header("(" * 60_000)),
    "a zip without members": ("r.zip", lambda: zip_of_one_stream(0, 0)),
}
"""Named outputs that took minutes, gigabytes, or the validator, or are of their kind; with the name that they are sent under."""


def good_outputs() -> list[tuple[str, bytes]]:
    """Return outputs as honest programs write them."""
    array, records = np.arange(12.0).reshape(3, 4), np.zeros(3, dtype=[("a", "<f8"), ("b", "S4")])
    found: list[tuple[str, bytes]] = []
    for each in (
        array,
        np.asfortranarray(array),
        records,
        array.astype("f2"),
        array.astype("c8"),
        np.array(["a", "bc"]),
    ):
        buffer = io.BytesIO()
        np.save(buffer, each)
        found.append(("r.npy", buffer.getvalue()))
    packed = io.BytesIO()
    np.savez_compressed(packed, a=array, b=records)
    found += [
        ("r.npz", packed.getvalue()),
        ("r.json", json.dumps({"a": [1, 2.5, None, True, {"b": "c"}], "n": float("nan")}).encode()),
        ("r.csv", b"x,y,z\n1,2.5,nan\n-3e-5,inf,\n"),
        ("r.txt", "energy = -1.5D+03 after 12 steps, chr12 v1.2.3 é\n".encode()),
        ("r.zip", _zipped("a/b.json", b'{"x": 1}')),
        ("r.json.gz", gzip.compress(b"[1, 2, 3]")),
        ("out", bytes(range(256))),
    ]
    return found


def mutants(rng: random.Random) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield names with two outputs each, of which one or both were changed, cut, doubled, packed or mixed."""
    seeds = good_outputs()
    while True:
        name, good = rng.choice(seeds)
        if rng.random() < 0.1:
            name = rng.choice(NAMES)
        yield name, _mutant(good, seeds, rng), good if rng.random() < 0.5 else _mutant(good, seeds, rng)


def _mutant(good: bytes, seeds: list[tuple[str, bytes]], rng: random.Random) -> bytes:
    content = bytearray(good)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(content) + 1)
        match rng.randrange(7):
            case 0 if content:
                content[at % len(content)] = rng.randrange(256)
            case 1:
                del content[at : at + rng.randrange(1, 20)]
            case 2:
                content[at:at] = content[at : at + rng.randrange(1, 50)] * rng.randrange(1, 20)
            case 3:
                content[at:at] = rng.choice(seeds)[1]
            case 4:
                content[at:at] = rng.choice(
                    (b"9" * 50, b"[" * 300, b"1e", b"-", b"NaN", b",", b"'", b"\n", b"\x00", b"(", b"0x")
                )
            case 5 if rng.random() < 0.2:
                content = bytearray(gzip.compress(bytes(content)))
            case _:
                content = content[:at] if rng.random() < 0.2 else content
    return bytes(content)
