"""What the launcher makes of the names that a system lists: the same on every system.

Windows and macOS list names in another order, whatever their case; Windows knows no numbers of files, and says so with zeros.
"""

from __future__ import annotations

import ctypes
import random
import struct
import subprocess
from collections.abc import Sequence

import pytest

from cobblestone.launcher.packing import NATIVE_FOLDER

NAMES = ["B", "Zoë", "a", "a b", "a.txt", "aa", "b", "z", "ä", "日"]  # in the order of their bytes
TOP, REGULAR, DIRECTORY = 3, 4, 3
#: What the rest of the launcher gives to files.c.
REST = """
#include "launcher.h"
#include <stdlib.h>
void *reserve(size_t size) { return calloc(size ? size : 1, 1); }
void refuse(const char *problem) { (void)problem; abort(); }
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The part of the launcher that knows the module's files."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "rest.c").write_text(REST)
    words = ["gcc", "-shared", "-fPIC", "-std=c11", f"-I{NATIVE_FOLDER}", "-o", str(folder / "files.so")]
    subprocess.run([*words, str(NATIVE_FOLDER / "files.c"), str(folder / "rest.c")], check=True, timeout=60)
    found = ctypes.CDLL(str(folder / "files.so"))
    found.path_below.restype = ctypes.c_char_p
    found.number_of_path.restype = found.add_to_listing.restype = ctypes.c_uint64
    found.write_listing.restype = ctypes.c_size_t
    found.number_of_path.argtypes = [ctypes.c_char_p]
    found.add_to_listing.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    found.write_listing.argtypes = [ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
    found.path_below.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
    return found


def entries(names: Sequence[str], inode: int) -> bytes:
    """Names as the runtime lists them."""
    found = b""
    for place, name in enumerate(names):
        kind = DIRECTORY if name in (".", "..") else REGULAR
        found += (
            struct.pack("<QQIB3x", place + 1, inode * (place + 1), len(name.encode()), kind) + name.encode()
        )
    return found


def listed(files: ctypes.CDLL, names: Sequence[str], inode: int) -> bytes:
    answer, target = entries(names, inode), ctypes.create_string_buffer(4096)
    files.begin_listing(TOP)
    assert files.add_to_listing(TOP, answer, len(answer), 0) == len(names)
    files.end_listing(TOP)
    size = files.write_listing(TOP, 0, target, len(target))
    return target.raw[:size]


def test_a_listing_is_the_same_whatever_the_order_and_the_numbers_of_the_system(files: ctypes.CDLL):
    of_linux = [".", "..", *NAMES]
    random.Random(1).shuffle(of_linux)
    of_windows = [".", "..", *sorted(NAMES, key=str.casefold)]
    expected = listed(files, of_linux, 12345)
    assert listed(files, of_windows, 0) == expected
    names = list[str]()
    while expected:
        (size,) = struct.unpack_from("<I", expected, 16)
        names.append(expected[24 : 24 + size].decode())
        expected = expected[24 + size :]
    assert names == [".", "..", *NAMES]


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("a/b", "a/b"),
        ("./a//b/.", "a/b"),
        ("a/../b", "b"),
        ("../../b", "b"),
        ("A", "A"),  # a path is what the module calls it, also where the system takes A for a
        ("a\\b", "a\\b"),
    ],
)
def test_a_path_is_that_of_the_module_and_its_number_follows_from_it(
    files: ctypes.CDLL, path: str, whole: str
):
    assert files.path_below(TOP, path.encode(), len(path)) == whole.encode()
    number = 0xCBF29CE484222325
    for byte in whole.encode():
        number = (number ^ byte) * 0x100000001B3 % 2**64
    assert files.number_of_path(whole.encode()) == number
