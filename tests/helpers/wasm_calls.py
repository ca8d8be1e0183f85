"""A program that makes every call of its host, and writes down what each has answered."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import wasmtime

#: Names of arguments by letter: i for 32 bits, I for 64.
CALLS = {
    "args_sizes_get": "ii",
    "clock_res_get": "ii",
    "clock_time_get": "iIi",
    "environ_sizes_get": "ii",
    "fd_advise": "iIIi",
    "fd_allocate": "iII",
    "fd_close": "i",
    "fd_datasync": "i",
    "fd_fdstat_get": "ii",
    "fd_fdstat_set_flags": "ii",
    "fd_fdstat_set_rights": "iII",
    "fd_filestat_get": "ii",
    "fd_filestat_set_size": "iI",
    "fd_filestat_set_times": "iIIi",
    "fd_pread": "iiiIi",
    "fd_prestat_dir_name": "iii",
    "fd_prestat_get": "ii",
    "fd_pwrite": "iiiIi",
    "fd_read": "iiii",
    "fd_readdir": "iiiIi",
    "fd_renumber": "ii",
    "fd_seek": "iIii",
    "fd_sync": "i",
    "fd_tell": "ii",
    "fd_write": "iiii",
    "path_create_directory": "iii",
    "path_filestat_get": "iiiii",
    "path_filestat_set_times": "iiiiIIi",
    "path_link": "iiiiiii",
    "path_open": "iiiiiIIii",
    "path_readlink": "iiiiii",
    "path_remove_directory": "iii",
    "path_rename": "iiiiii",
    "path_symlink": "iiiii",
    "path_unlink_file": "iii",
    "poll_oneoff": "iiii",
    "random_get": "ii",
    "sched_yield": "",
    "sock_accept": "iii",
    "sock_recv": "iiiiii",
    "sock_send": "iiiii",
    "sock_shutdown": "ii",
}
#: Where an answer goes, and how much of it is written down; where bytes are read to.
ANSWER, ANSWER_BYTES, BUFFER = 4096, 700, 200_000
BUFFERS, PATHS, WRITTEN = 600, 1024, 65536
CREATE, DIRECTORY, NEW, TRUNCATE = 1, 2, 4, 8
READ, WRITE, ALL, READ_DIRECTORY = 2, 64, 0x1FFFFFFF, 0x4000
TOP = 3
Value = int | str
Call = tuple[str, Sequence[Value]]


class _Program:
    """Collects calls; texts among their arguments stand for address and size of a path."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.lines: list[str] = []

    def call(self, name: str, *values: Value) -> None:
        """Make a call, and write down its status and what it answered."""
        self.lines.append(f"(i32.store (local.get $at) (call ${name} {self._arguments(name, values)}))")
        self.lines.append(
            f"(memory.copy (i32.add (local.get $at) (i32.const 4)) (i32.const {ANSWER}) (i32.const {ANSWER_BYTES}))"
            f" (memory.fill (i32.const {ANSWER}) (i32.const 0) (i32.const {ANSWER_BYTES}))"
            f" (local.set $at (i32.add (local.get $at) (i32.const {ANSWER_BYTES + 4})))"
        )

    def move(self, name: str, file: int, *sizes: int, at: int | None = None, origin: int = BUFFER) -> None:
        """Read or write with buffers of these sizes."""
        for number, size in enumerate(sizes):
            for place, value in ((0, origin + number * 5000), (4, size)):
                self.lines.append(
                    f"(i32.store (i32.const {BUFFERS + 8 * number + place}) (i32.const {value}))"
                )
        offset = () if at is None else (at,)
        self.call(name, file, BUFFERS, len(sizes), *offset, ANSWER)

    def _arguments(self, name: str, values: Sequence[Value]) -> str:
        plain = [each for value in values for each in self._plain(value)]
        types = CALLS[name]
        assert len(plain) == len(types), name
        return " ".join(
            f"(i{64 if kind == 'I' else 32}.const {value})" for kind, value in zip(types, plain, strict=True)
        )

    def _plain(self, value: Value) -> tuple[int, ...]:
        if isinstance(value, int):
            return (value,)
        address = self.texts.setdefault(value, PATHS + sum(len(text.encode()) for text in self.texts))
        return (address, len(value.encode()))

    def open(self, path: str, how: int = 0, may: int = ALL) -> None:
        self.call("path_open", TOP, 0, path, how, may, may, 0, ANSWER)

    def module(self) -> bytes:
        imports = "".join(
            f'(import "wasi_snapshot_preview1" "{name}" (func ${name} {_signature(types)}))'
            for name, types in CALLS.items()
        )
        self._save()
        data = "".join(
            f'(data (i32.const {address}) "{re.sub("[^a-z./]", _escaped, text)}")'
            for text, address in self.texts.items()
        )
        start = f"(local $at i32) (local.set $at (i32.const {WRITTEN})) {' '.join(self.lines)}"
        text = f'(module {imports} (memory (export "memory") 24) {data} (func (export "_start") {start}))'
        return bytes(wasmtime.wat2wasm(text))

    def _save(self) -> None:
        """Write all answers to the output, which is opened under the number that comes next."""
        opened = self._arguments("path_open", (TOP, 0, "output", CREATE, ALL, ALL, 0, ANSWER))
        self.lines += [
            f"(drop (call $path_open {opened}))",
            f"(i32.store (i32.const {BUFFERS}) (i32.const {WRITTEN}))",
            f"(i32.store (i32.const {BUFFERS + 4}) (i32.sub (local.get $at) (i32.const {WRITTEN})))",
            f"(drop (call $fd_write (i32.load (i32.const {ANSWER})) (i32.const {BUFFERS}) (i32.const 1) (i32.const {ANSWER})))",
        ]


def _signature(types: str) -> str:
    parameters = "".join(f" i{64 if kind == 'I' else 32}" for kind in types)
    return f"(param{parameters}) (result i32)"


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\{byte:02x}" for byte in found[0].encode())


@functools.cache
def every_call() -> bytes:
    """Return the program; it reads a file ``input`` of some bytes."""
    program = _Program()
    for lines in (_folders, _files, _changes, _rest):
        lines(program)
    return program.module()


def _folders(program: _Program) -> None:
    for name in ("zeta", "alpha", "\N{FULLWIDTH TILDE}", "\N{GRINNING FACE}", "e"):
        program.open(name, CREATE)  # 4 to 8
    program.call("path_create_directory", TOP, "d")
    program.call("path_create_directory", TOP, "d")
    program.open("d/y", CREATE)
    program.open("d/x", CREATE)
    for path in ("input", "./d/../input", "d", "d/", ".", "nothing", "../x", "/etc/passwd"):
        program.call("path_filestat_get", TOP, 1, path, ANSWER)
    program.call("path_filestat_get", TOP, 0, PATHS, 0, ANSWER)
    program.call("path_filestat_get", 99, 0, "input", ANSWER)
    for file in (0, 1, 2, 3, 4, 50):
        program.call("fd_filestat_get", file, ANSWER)
        program.call("fd_fdstat_get", file, ANSWER)
    for file, size, first in (
        (3, 600, 0),
        (3, 600, 3),
        (3, 60, 0),
        (3, 25, 2),
        (3, 60, 99),
        (0, 60, 0),
        (4, 60, 0),
    ):
        program.call("fd_readdir", file, ANSWER + 8, size, first, ANSWER)
    program.open("d", DIRECTORY)
    program.open("d", DIRECTORY, READ_DIRECTORY)  # 11
    program.call("fd_readdir", 11, ANSWER + 8, 600, 0, ANSWER)
    program.call("fd_filestat_get", 11, ANSWER)
    program.call("fd_fdstat_get", 11, ANSWER)
    program.call("path_filestat_get", 11, 0, "x", ANSWER)
    program.call("fd_seek", 11, 0, 0, ANSWER)
    program.call("fd_sync", 11)
    program.move("fd_read", 11, 5)
    program.move("fd_write", 11, 5)


def _files(program: _Program) -> None:
    program.open("input")  # 12
    program.move("fd_read", 12, 10, 10, origin=ANSWER + 8)
    program.move("fd_read", 12, 0, 3)
    program.move("fd_read", 12)
    program.move("fd_pread", 12, 10, 10, at=3, origin=ANSWER + 8)
    program.call("fd_seek", 12, -5, 2, ANSWER)
    program.move("fd_read", 12, 10, 10, origin=ANSWER + 8)
    program.move("fd_read", 12, 10)
    program.call("fd_seek", 12, -5, 0, ANSWER)
    program.call("fd_seek", 1, 0, 0, ANSWER)
    program.call("fd_tell", 12, ANSWER)
    program.open("new", CREATE)  # 13
    program.move("fd_write", 13, 5, 6)
    program.move("fd_pwrite", 13, 5, 6, at=20)
    program.move("fd_write", 1, 5, 6)
    program.move("fd_write", 0, 5)
    program.move("fd_read", 0, 5)
    program.move("fd_read", 1, 5)
    program.move("fd_pwrite", 13, 800_000, at=0)
    for size in (65_536, 65_537, 700_000):
        program.move("fd_pread", 13, size, at=0)
        program.move("fd_read", 13, size)
    program.call("fd_filestat_set_size", 13, 7)
    program.call("fd_filestat_get", 13, ANSWER)
    program.call("fd_advise", 13, 0, 0, 1)
    program.call("fd_allocate", 13, 0, 50)
    for name in ("fd_sync", "fd_datasync"):
        program.call(name, 13)
        program.call(name, 1)
    program.call("fd_fdstat_set_flags", 13, 1)
    program.move("fd_write", 13, 5)
    program.call("fd_fdstat_set_rights", 13, 1, 1)
    for path, how, may in (
        ("new", 0, READ),
        ("new", 0, WRITE),
        ("new", TRUNCATE, READ),
        ("other", CREATE, READ),
    ):
        program.open(path, how, may)  # 14 to 17
    for file in range(14, 18):
        program.call("fd_fdstat_get", file, ANSWER)
    program.move("fd_read", 15, 5)
    program.move("fd_write", 14, 5)
    for path, how in (
        ("new", CREATE | NEW),
        ("new", DIRECTORY),
        ("d", CREATE),
        ("d", CREATE | DIRECTORY),
        ("no/new", CREATE),
    ):
        program.open(path, how)


def _changes(program: _Program) -> None:
    program.call("fd_filestat_set_times", 13, 5, 9, 5)
    program.call("path_filestat_set_times", TOP, 0, "input", 5, 9, 5)
    program.call("path_filestat_set_times", TOP, 0, "nothing", 5, 9, 5)
    program.call("path_filestat_get", TOP, 0, "input", ANSWER)
    program.call("path_readlink", TOP, "input", ANSWER + 8, 50, ANSWER)
    program.call("path_create_directory", TOP, "room")
    for old, new in (("alpha", "room"), ("d", "alpha"), ("alpha", "room/a"), ("nothing", "x")):
        program.call("path_rename", TOP, old, TOP, new)
    program.call("fd_filestat_get", 5, ANSWER)
    program.call("path_filestat_get", TOP, 0, "room/a", ANSWER)
    for path in ("room/a", "room", "nothing"):
        program.call("path_remove_directory", TOP, path)
    for path in ("d", "room/a", "room/a"):
        program.call("path_unlink_file", TOP, path)
    program.call("path_remove_directory", TOP, "room")
    program.call("fd_filestat_get", 5, ANSWER)
    program.call("path_link", TOP, 0, "zeta", TOP, "link")
    program.call("path_symlink", "zeta", TOP, "link")
    program.call("fd_readdir", TOP, ANSWER + 8, 600, 3, ANSWER)
    program.call("fd_readdir", TOP, ANSWER + 8, 600, 0, ANSWER)


def _rest(program: _Program) -> None:
    program.call("fd_renumber", 12, 11)
    program.call("fd_filestat_get", 11, ANSWER)
    program.call("fd_filestat_get", 12, ANSWER)
    for file in (11, 11, 0, 5):
        program.call("fd_close", file)
    for _ in range(5):
        program.open("zeta")
    program.call("fd_prestat_get", 3, ANSWER)
    program.call("fd_prestat_get", 4, ANSWER)
    program.call("fd_prestat_dir_name", 3, ANSWER, 1)
    program.call("args_sizes_get", ANSWER, ANSWER + 4)
    program.call("environ_sizes_get", ANSWER, ANSWER + 4)
    program.call("clock_res_get", 0, ANSWER)
    program.call("random_get", ANSWER, 70)
    program.call("random_get", ANSWER, 3)
    program.call("clock_time_get", 0, 0, ANSWER)
    program.call("poll_oneoff", BUFFER, ANSWER + 8, 0, ANSWER)
    program.call("sched_yield")
    program.call("sock_accept", 13, 0, ANSWER)
    program.call("sock_recv", 13, BUFFERS, 1, 0, ANSWER, ANSWER + 4)
    program.call("sock_send", 13, BUFFERS, 1, 0, ANSWER)
    program.call("sock_shutdown", 13, 1)


def answers(output: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the status and the answer of each call, for reading by people."""
    for at in range(0, len(output), ANSWER_BYTES + 4):
        yield (
            int.from_bytes(output[at : at + 4], "little"),
            output[at + 4 : at + 4 + ANSWER_BYTES].rstrip(b"\0"),
        )
