"""Imports and exports of a WebAssembly module, read from its bytes, and whether volunteers' computers can run it.

Format: the WebAssembly core specification, section 5 ("binary format"); names of functions: WASI preview 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.errors import JobError
from cobblestone.sdk.wasm import binary

MAGIC = b"\0asm"
WASI = "wasi_snapshot_preview1"
START = "_start"
MAX_ENTRIES = 1_000_000
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


def read_face(data: bytes) -> ModuleFace:
    """Return the imports and exports of a module.  Raises ValueError with a reason if it is not a module."""
    imports: list[tuple[str, str, str]] = []
    exports: list[tuple[str, str]] = []
    try:
        for number, content in binary.read_sections(data):
            section = binary.Bytes(content)
            if number == binary.IMPORTS:
                for _ in range(_count(section)):
                    imports.append((_name(section), _name(section), _kind(section)))
                    _skip_type(section, imports[-1][2])
            elif number == binary.EXPORTS:
                for _ in range(_count(section)):
                    exports.append((_name(section), _kind(section)))
                    section.number()
    except IndexError:
        raise ValueError("it is truncated") from None
    return ModuleFace(tuple(imports), tuple(exports))


def _count(section: binary.Bytes) -> int:
    found = section.number()
    if found > MAX_ENTRIES:
        raise ValueError("it has too many entries")
    return found


def _name(section: binary.Bytes) -> str:
    return section.take(section.number()).decode("utf-8")


def _kind(section: binary.Bytes) -> str:
    found = section.byte()
    if found >= len(_KINDS):
        raise ValueError(f"an entry of unknown kind {found}")
    return _KINDS[found]


def _skip_type(section: binary.Bytes, kind: str) -> None:
    """Skip the type of an import."""
    if kind == "tag":
        section.byte()
    if kind in ("table", "global") and section.byte() in (0x63, 0x64):
        section.number()  # a reference, with the type that it refers to
    if kind in ("table", "memory"):
        flags = section.number()
        for _ in range(1 + bool(flags & 1) + bool(flags & 8)):
            section.number()  # the least, the most, the size of pages
    elif kind == "global":
        section.byte()
    else:
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
