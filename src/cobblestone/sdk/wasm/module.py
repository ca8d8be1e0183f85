"""Imports and exports of a WebAssembly module, read from its bytes, and whether volunteers' computers can run it.

Format: the WebAssembly core specification, section 5 ("binary format"); names of functions: WASI preview 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cobblestone.domain.errors import JobError

MAGIC = b"\0asm"
WASI = "wasi_snapshot_preview1"
START = "_start"
MAX_ENTRIES = 1_000_000
_IMPORTS, _EXPORTS = 2, 7
_KINDS = ("function", "table", "memory", "global", "tag")

_WASI_FUNCTIONS = {
    "args": "get sizes_get",
    "environ": "get sizes_get",
    "clock": "res_get time_get",
    "fd": "advise allocate close datasync fdstat_get fdstat_set_flags fdstat_set_rights filestat_get filestat_set_size"
    " filestat_set_times pread prestat_get prestat_dir_name pwrite read readdir renumber seek sync tell write",
    "path": "create_directory filestat_get filestat_set_times link open readlink remove_directory rename symlink unlink_file",
    "poll": "oneoff",
    "proc": "exit raise",
    "sched": "yield",
    "random": "get",
    "sock": "accept recv send shutdown",
}
_HOW = (
    "Compile it as a program for wasm32-wasi: --source program.c does it for C and C++; Rust: cargo build --release --target"
    " wasm32-wasip1; Zig: zig build-exe -target wasm32-wasi program.zig"
)


@dataclass(frozen=True, slots=True)
class ModuleFace:
    """The imports and exports of a module."""

    imports: tuple[tuple[str, str, str], ...]  #: module, name, kind
    exports: tuple[tuple[str, str], ...]  #: name, kind


class _Reader:
    """Reads a module's bytes; truncated or oversized data raises ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise ValueError("it is truncated")
        self.at += count
        return self._data[self.at - count : self.at]

    def number(self) -> int:
        """Read an unsigned LEB128 number of at most 64 bits."""
        value = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number is too long")

    def count(self) -> int:
        found = self.number()
        if found > MAX_ENTRIES:
            raise ValueError("it has too many entries")
        return found

    def name(self) -> str:
        return self.take(self.number()).decode("utf-8")

    def kind(self) -> str:
        (found,) = self.take(1)
        if found >= len(_KINDS):
            raise ValueError(f"an entry of unknown kind {found}")
        return _KINDS[found]

    def limits(self) -> None:
        flags = self.number()
        self.number()
        if flags & 1:
            self.number()
        if flags & 8:
            self.number()  # size of pages

    def value_type(self) -> None:
        (found,) = self.take(1)
        if found in (0x63, 0x64):  # a reference, with the type that it refers to
            self.number()


def read_face(data: bytes) -> ModuleFace:
    """Return the imports and exports of a module.  Raises ValueError with a reason if it is not a module."""
    imports: list[tuple[str, str, str]] = []
    exports: list[tuple[str, str]] = []
    for number, section in _sections(data):
        if number == _IMPORTS:
            for _ in range(section.count()):
                module, name, kind = section.name(), section.name(), section.kind()
                _skip_type(section, kind)
                imports.append((module, name, kind))
        elif number == _EXPORTS:
            for _ in range(section.count()):
                exports.append((section.name(), section.kind()))
                section.number()
    return ModuleFace(tuple(imports), tuple(exports))


def _sections(data: bytes) -> Iterator[tuple[int, _Reader]]:
    reader = _Reader(data)
    reader.take(8)
    while reader.left:
        (number,) = reader.take(1)
        yield number, _Reader(reader.take(reader.number()))


def _skip_type(section: _Reader, kind: str) -> None:
    if kind == "function":
        section.number()
    elif kind == "table":
        section.value_type()
        section.limits()
    elif kind == "memory":
        section.limits()
    elif kind == "global":
        section.value_type()
        section.take(1)
    else:
        section.take(1)
        section.number()


def _known(module: str, name: str, kind: str) -> bool:
    subject, _, verb = name.partition("_")
    return module == WASI and kind == "function" and verb in _WASI_FUNCTIONS.get(subject, "").split()


def check_module(data: bytes, name: str) -> None:
    """Make sure that the native launcher can run a module.

    Raises:
        JobError: it is none, asks for more than WASI, or has no start; the text says what to do.
    """
    if data[:4] != MAGIC:
        raise JobError(f"{name} is not a WebAssembly module: it begins with {data[:4]!r}. {_HOW}")
    if data[4:8] == b"\x0d\0\1\0":
        raise JobError(f"{name} is a WebAssembly component; volunteers' computers run modules. {_HOW}")
    if data[4:8] != b"\1\0\0\0":
        raise JobError(f"{name} is a WebAssembly file of an unknown version. {_HOW}")
    try:
        face = read_face(data)
    except ValueError as problem:
        raise JobError(f"{name} is not a whole WebAssembly module: {problem}.") from None
    strange = [
        f"{module}.{function}"
        for module, function, kind in face.imports
        if not _known(module, function, kind)
    ]
    if strange:
        more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
        raise JobError(
            f"{name} needs {', '.join(strange[:5])}{more}, which is not part of WASI preview 1, the only interface that"
            f" volunteers' computers have{_guess(strange)}. {_HOW}"
        )
    if (START, "function") not in face.exports:
        raise JobError(
            f"{name} has no function {START}: it is a library, not a program with a main(). {_HOW}"
        )
    if ("memory", "memory") not in face.exports:
        raise JobError(f"{name} does not export its memory, which WASI needs. {_HOW}")


def _guess(strange: list[str]) -> str:
    """Return where such imports usually come from."""
    first = strange[0]
    if first.startswith("wasi_unstable."):
        return " (it was made for an older WASI)"
    if first.startswith(("wbg.", "__wbindgen")):
        return " (it was made for a browser, by wasm-bindgen)"
    if first.startswith(("env.emscripten", "env.invoke_", "a.")):
        return " (it was made by Emscripten; there, link with -sSTANDALONE_WASM)"
    if first == "wasi.thread-spawn" or first == "env.memory":
        return " (it uses threads, whose results depend on the computer)"
    if first.startswith("env."):
        return " (a function that was declared and not linked)"
    return ""
