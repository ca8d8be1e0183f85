"""Chooses how to distribute a program to volunteers' computers, from its bytes and imports, with a reason.

Nothing of the program is run.  Whether a package is compiled is seen where it is installed, on this computer.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cobblestone.domain.apps import HEAD_NBYTES, platforms_of_program
from cobblestone.domain.errors import JobError
from cobblestone.launcher import RUNTIME_MODULE
from cobblestone.sdk.packing.dependencies import FORMER, NOT_ON_WINDOWS, needed_imports
from cobblestone.sdk.packing.wasm_package import NOT_IN_WASM
from cobblestone.sdk.wasm.module import MAGIC

MAX_SOURCE_BYTES = 10_000_000
C_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".C")
COMPILED_SUFFIXES = (".so", ".pyd", ".dll", ".dylib")
_COMPILERS = {
    ".rs": ("Rust", "cargo build --release --target wasm32-wasip1"),
    ".zig": ("Zig", "zig build-exe -O ReleaseFast -target wasm32-wasi"),
    ".f90": ("Fortran", "by LLVM's flang and a main() in C, as docs/everywhere.md says"),
    ".f": ("Fortran", "by LLVM's flang and a main() in C, as docs/everywhere.md says"),
}
_INTERPRETED = {
    ".r": ("R", "Rscript"), ".jl": ("Julia", "julia"), ".m": ("Octave", "octave"), ".pl": ("Perl", "perl"),
    ".js": ("Node.js", "node"), ".java": ("Java", "java"),
}  # fmt: skip
_NATIVE_HEADERS = {
    "pthread.h": "threads", "thread": "threads", "omp.h": "OpenMP", "mpi.h": "MPI", "cuda.h": "a GPU",
    "cuda_runtime.h": "a GPU", "CL/cl.h": "a GPU", "sys/socket.h": "the network", "boinc_api.h": "the BOINC API",
    "windows.h": "Windows alone", "sys/wait.h": "other processes", "immintrin.h": "instructions of one processor",
}  # fmt: skip
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]{1,200})[>"]', re.MULTILINE)


class Way(StrEnum):
    """The way to distribute a program, named after the option that selects it."""

    SOURCE = "--source"
    MODULE = "--wasm"
    PORTABLE = "--portable"
    BUNDLE = "--bundle"
    COMMAND = "--command"
    CONTAINER = "--container"
    NATIVE = "app version add"


@dataclass(frozen=True, slots=True)
class Advice:
    """A way, the reason for it, and how to select it."""

    way: Way
    reason: str  #: a sentence
    options: str  #: of ``cobblestone app create NAME``
    packages: tuple[str, ...] = ()  #: that a Python program needs

    @property
    def text(self) -> str:
        """Return a text for people."""
        return f"{self.reason} Use: cobblestone app create NAME {self.options}"


def advise(program: Path) -> Advice:
    """Recommend the way for a program.

    Raises:
        JobError: it is nothing that is known here.
    """
    with program.open("rb") as file:
        data = file.read(MAX_SOURCE_BYTES)
    name, suffix = program.name, program.suffix.lower()
    if data.startswith(MAGIC):
        reason = f"{name} is a WebAssembly module, which runs on every Windows, macOS and Linux computer."
        return Advice(Way.MODULE, reason, f'--wasm {name} --command "{program.stem} {{input}} {{output}}"')
    if suffix == ".py":
        return _advise_python(name, data)
    if program.suffix in C_SUFFIXES:
        return _advise_c(program, data)
    if suffix in _COMPILERS:
        language, how = _COMPILERS[suffix]
        reason = f"{language} can be compiled to WebAssembly, which runs on every computer: {how}."
        return Advice(Way.MODULE, reason, f'--wasm FILE.wasm --command "{program.stem} {{input}} {{output}}"')
    if suffix in _INTERPRETED:
        language, starter = _INTERPRETED[suffix]
        reason = (
            f"{name} needs {language}, which volunteers do not have. A container includes it, but only Linux computers that"
            " have Podman or Docker can run one; a version in Python or C would reach more."
        )
        options = f'--container IMAGE.tar --command "{starter} {name} {{input}} {{output}}" --files {name}'
        return Advice(Way.CONTAINER, reason, options)
    return _advise_program(program, data)


def _advise_program(program: Path, data: bytes) -> Advice:
    name, platforms = program.name, platforms_of_program(data[:HEAD_NBYTES])
    if platforms is None:
        raise JobError(
            f"--program: {name} is not a known kind of program: not a source in C, C++, Python, Rust, Zig or Fortran, not a"
            " module, an executable or a script. Give its command line: --command …"
        )
    if not platforms:
        raise JobError(
            f"--program: {name} is a program for a kind of computer that no BOINC client supports."
        )
    if data.startswith(b"#!"):
        reason = f"{name} is a script, which Linux and macOS start and Windows does not."
    else:
        reason = (
            f"{name} is an executable for {', '.join(platforms)}: no others can start it. From its source, --source or a"
            " module would reach all."
        )
    return Advice(Way.COMMAND, reason, f'--command "./{name} {{input}} {{output}}" --files {name}')


def _advise_c(program: Path, data: bytes) -> Advice:
    included = [found.decode(errors="replace").removeprefix("boinc/") for found in _INCLUDE.findall(data)]
    needs = next((header for header in included if header in _NATIVE_HEADERS), None)
    if needs is None:
        reason = f"{program.name} needs nothing but the C library, so it can be compiled for every computer, as WebAssembly."
        return Advice(
            Way.SOURCE, reason, f'--source {program.name} --command "{program.stem} {{input}} {{output}}"'
        )
    reason = (
        f"{program.name} includes {needs} ({_NATIVE_HEADERS[needs]}), which WebAssembly does not have: compile it for each"
        " platform, and add the executables with `app version add`."
    )
    return Advice(Way.NATIVE, reason, "--output output")


def _advise_python(name: str, data: bytes) -> Advice:
    command = f'--command "python3 {name} {{input}} {{output}}" --files {name}'
    imports = dict(needed_imports(data))
    own = sys.stdlib_module_names | FORMER | {RUNTIME_MODULE}
    absent = sorted(set(imports) & NOT_IN_WASM)
    packages = sorted(set(imports) - own)
    compiled = {package: found for package in packages if (found := _compiled_part(package)) is not None}
    if compiled:
        posix = sorted(set(imports) & NOT_ON_WINDOWS)
        where = f", but not to Windows, which has no {', '.join(posix)}" if posix else " to every computer"
        package, part = next(iter(compiled.items()))
        why = (
            f"which holds compiled code ({part})"
            if part
            else "which is not installed here, so it may be compiled"
        )
        reason = (
            f"{name} imports {package}, {why}, and WebAssembly cannot carry that; a bundle brings Python and its packages"
            f" along{where}."
        )
        return Advice(Way.BUNDLE, reason, f"{command} --bundle requirements.txt")
    if absent:
        reason = (
            f"{name} imports {', '.join(absent)}, which Python in WebAssembly does not have; it runs on computers that have"
            " Python: mostly Linux."
        )
        return Advice(Way.COMMAND, reason, command)
    pure = (
        f"plain Python with packages of pure Python ({', '.join(packages)})" if packages else "plain Python"
    )
    reason = (
        f"{name} is {pure}: with --python {name} --portable, which includes Python as WebAssembly, it runs on every Windows,"
        " macOS and Linux computer, at a sixth to a twelfth of the speed; without, on computers that have Python, at full speed."
    )
    more = " --requirements requirements.txt" if packages else ""
    return Advice(Way.PORTABLE, reason, f"--python {name} --portable{more}", tuple(packages))


def _compiled_part(package: str) -> str | None:
    """Return a compiled file of a package installed here; empty if it is not installed; None if it is pure Python."""
    found = importlib.metadata.packages_distributions().get(package)
    if not found:
        return ""
    for distribution in found:
        for file in importlib.metadata.files(distribution) or []:
            if file.suffix in COMPILED_SUFFIXES and file.parts[0].partition(".")[0] == package:
                return str(file)
    return None
