"""What WebAssembly apps need besides the module: the native launcher and the runtime's library, for each platform.

Neither is part of this package.  The library comes out of the wheels of the package ``wasmtime``, fetched by pip for the platform
it is for; the launcher is compiled from the sources in this package by the cross compiler of the package ``ziglang``, the first
time that it is needed.  Both are kept in the user's cache, and the hashes of all of them are part of this package: compiled
anywhere, the launcher has the same bytes, and keeps them over releases, so that antivirus programs come to know it.
A distribution that compiles its own launchers says where they are with COBBLESTONE_LAUNCHERS.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher.packing import HEADER, NATIVE_FOLDER, SOURCES
from cobblestone.ops.environment import cache_folder, environment_with, launchers_folder, run_and_read
from cobblestone.ops.files import write_durably

SUMS_FILE = NATIVE_FOLDER / "SHA256SUMS"
WHEELS_FILE = NATIVE_FOLDER / "wheels.txt"
ZIG_VERSION = "0.17.1"
COMPILE_SECONDS = 1800
_TELL_SECONDS = 10.0
_FLAGS = ("-std=c11", "-Os", "-g0", "-s")
Say = Callable[[str], None]


@contextlib.contextmanager
def told(what: str, say: Say) -> Generator[None, None, None]:
    """Say what is being done, and every ten seconds for how long already."""
    began, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(_TELL_SECONDS):
            say(f"{what}: {time.monotonic() - began:.0f} s …")

    say(f"{what} …")
    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        ended.set()
        telling.join()


@dataclass(frozen=True, slots=True)
class WasmTarget:
    """A BOINC platform, with its names for the compiler and for wheels."""

    zig: str
    wheel: str  #: tag
    library: str  #: path inside of the wheel

    @property
    def windows(self) -> bool:
        """Return whether programs are called .exe there."""
        return "windows" in self.zig

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the compiler flags: no console window, randomised addresses."""
        if self.windows:
            return (*_FLAGS, "-Wl,--subsystem,windows")
        return (*_FLAGS, "-fPIE", "-pie") if "linux" in self.zig else _FLAGS


#: Where WebAssembly apps run.
TARGETS = {
    "windows_x86_64": WasmTarget("x86_64-windows-gnu", "win_amd64", "wasmtime/win32-x86_64/_wasmtime.dll"),
    "windows_arm64": WasmTarget("aarch64-windows-gnu", "win_arm64", "wasmtime/win32-aarch64/_wasmtime.dll"),
    # From macOS 11 on; without a number the compiler's own, which is newer than what volunteers have.
    "x86_64-apple-darwin": WasmTarget(
        "x86_64-macos.11.0", "macosx_10_13_x86_64", "wasmtime/darwin-x86_64/_libwasmtime.dylib"
    ),
    "arm64-apple-darwin": WasmTarget(
        "aarch64-macos.11.0", "macosx_11_0_arm64", "wasmtime/darwin-aarch64/_libwasmtime.dylib"
    ),
    # The wheel says glibc 2.5, the library in it needs 2.28; the launcher is content with 2.17.
    "x86_64-pc-linux-gnu": WasmTarget(
        "x86_64-linux-gnu.2.17", "manylinux1_x86_64", "wasmtime/linux-x86_64/_libwasmtime.so"
    ),
    "aarch64-unknown-linux-gnu": WasmTarget(
        "aarch64-linux-gnu.2.17", "manylinux2014_aarch64", "wasmtime/linux-aarch64/_libwasmtime.so"
    ),
}


def wasm_platforms(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the platforms of a WebAssembly app: the wanted ones, or all.  Raises JobError for an unsupported one."""
    for platform in wanted:
        if platform not in TARGETS:
            raise JobError(
                f"--platform {platform}: WebAssembly apps run on {', '.join(TARGETS)}. Leave it out for all of them."
            )
    return tuple(dict.fromkeys(wanted)) or tuple(TARGETS)


def launcher_name(platform: str) -> str:
    """Return the name of the launcher's file for a platform."""
    return f"cobblestone_launcher_{platform}{'.exe' if TARGETS[platform].windows else ''}"


def library_name(platform: str) -> str:
    """Return the name of the runtime's library for a platform, with the extension that the system expects."""
    return f"wasmtime_{platform}{Path(TARGETS[platform].library).suffix}"


def launcher(platform: str, *, say: Say = lambda text: None) -> bytes:
    """Return the launcher for a platform; compiled if it is not in the cache.

    Raises:
        ConfigError: it cannot be compiled, or its bytes are not those that this package names.
    """
    name, given = launcher_name(platform), launchers_folder()
    if given is not None:
        try:
            return (given / name).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"COBBLESTONE_LAUNCHERS is {given}, but {given / name} cannot be read: {error.strerror}."
            ) from error
    return _kept(name, lambda: compile_launcher(platform, say=say))


def library(platform: str, *, say: Say = lambda text: None) -> bytes:
    """Return the runtime's library for a platform; downloaded if it is not in the cache.

    Raises:
        ConfigError: it cannot be fetched, or its bytes are not those that this package names.
    """
    return _kept(library_name(platform), lambda: _fetch_library(platform, say))


@cache
def expected_hashes() -> dict[str, str]:
    """Return the SHA-256 of each file by name."""
    lines = SUMS_FILE.read_text(encoding="ascii").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _kept(name: str, make: Callable[[], bytes]) -> bytes:
    """Return a file from the cache if it is the right one, else make it."""
    expected = expected_hashes()[name]
    path = cache_folder() / "wasm" / expected[:16] / name
    if path.is_file():
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() == expected:
            return data
    data = make()
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise ConfigError(
            f"{name} has the SHA-256 {found} instead of {expected}: it was changed on the way, or the launcher's sources"
            f" in {NATIVE_FOLDER} were. Nothing was uploaded."
        )
    with contextlib.suppress(OSError):  # without a folder of one's own there is no cache
        write_durably(path, data)
    return data


@contextlib.contextmanager
def kept_in(folder: Path) -> Generator[None, None, None]:
    """Write into a folder of the cache, which is required.  Raises ConfigError if that is not possible."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"Nothing can be stored in {folder}: {error.strerror or error}. XDG_CACHE_HOME may name another folder."
        ) from error


# ---------------------------------------------------------------------------------------------- wheels


def _fetch_library(platform: str, say: Say) -> bytes:
    target = TARGETS[platform]
    installed = importlib.util.find_spec("wasmtime")
    if installed is not None and installed.origin:
        path = Path(installed.origin).parents[1] / target.library
        if path.is_file() and _sha256(path) == expected_hashes()[library_name(platform)]:
            return path.read_bytes()
    with (
        told(f"Downloading the WebAssembly runtime for {platform} (8 MB)", say),
        tempfile.TemporaryDirectory(prefix="cobblestone-") as folder,
        zipfile.ZipFile(fetch_wheel("wasmtime", Path(folder), tag=target.wheel)) as wheel,
    ):
        return wheel.read(target.library)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pip(*words: str) -> list[str]:
    """Return a command of pip that asks nothing and takes only wheels."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--only-binary=:all:")
    return [sys.executable, "-m", "pip", *words, *quiet]


def fetch_wheel(package: str, folder: Path, *, tag: str = "") -> Path:
    """Download a wheel with pip, for this computer or for another platform; its hash must be a known one.

    Raises:
        ConfigError: pip cannot fetch it; the text has its last words.
    """
    text = WHEELS_FILE.read_text(encoding="ascii")
    found = re.search(rf"^{package}==(?:.*\\\n)*.*", text, re.MULTILINE)
    if found is None:
        raise ConfigError(f"{WHEELS_FILE} does not name {package}.")
    pins = folder / "pins.txt"
    pins.write_text(found[0] + "\n", encoding="ascii")
    words = pip("download", "--no-deps", "--require-hashes", "--dest", str(folder))
    words += ["--platform", tag] if tag else []
    done = run_and_read([*words, "--requirement", str(pins)], timeout=900)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = done.stderr.strip().splitlines() or ["pip gave no message"]
        raise ConfigError(f"pip could not download {package}{f' for {tag}' if tag else ''}: {lines[-1]}")
    return wheels[0]


# -------------------------------------------------------------------------------------------- compiler


def zig(*, say: Say = lambda text: None) -> list[str]:
    """Return the command of the cross compiler; downloaded if it is not in the cache.

    Raises:
        ConfigError: it cannot be fetched, or there is no place for it.
    """
    folder = cache_folder() / "wasm" / f"ziglang-{ZIG_VERSION}"
    program = folder / "ziglang" / ("zig.exe" if os.name == "nt" else "zig")
    if not program.is_file():
        with (
            told("Downloading the cross compiler (the package ziglang, 101 MB, once)", say),
            kept_in(folder.parent),
        ):
            _unpack_compiler(folder, program.name)
    return [str(program)]


def _unpack_compiler(folder: Path, program: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ziglang-", dir=folder.parent) as temporary:
        fetched, unpacked = Path(temporary), Path(temporary, "unpacked")
        with zipfile.ZipFile(fetch_wheel("ziglang", fetched)) as wheel:
            wheel.extractall(unpacked)
        (unpacked / "ziglang" / program).chmod(0o755)
        if not folder.exists():  # another command may have been faster
            unpacked.rename(folder)


def compile_launcher(platform: str, *, say: Say = lambda text: None) -> bytes:
    """Compile the launcher for a platform.

    In a folder of its own with nothing but the sources: no name of a folder gets into the program.
    """
    command = zig(say=say)
    with (
        told(f"Compiling the launcher for {platform}", say),
        tempfile.TemporaryDirectory(prefix="cobblestone-") as temporary,
    ):
        folder = Path(temporary)
        for name in (*SOURCES, HEADER):
            shutil.copyfile(NATIVE_FOLDER / name, folder / name)
        target = TARGETS[platform]
        output = launcher_name(platform)
        run_compiler(
            [*command, "cc", "-target", target.zig, *target.flags, "-o", output, *SOURCES],
            folder,
            "The launcher",
        )
        return (folder / output).read_bytes()


def run_compiler(words: Sequence[str], folder: Path, what: str) -> None:
    """Run the compiler in a folder.  Raises JobError with its messages."""
    cached = str(cache_folder() / "wasm" / "zig")
    environment = environment_with(ZIG_GLOBAL_CACHE_DIR=cached, ZIG_LOCAL_CACHE_DIR=cached)
    try:
        done = run_and_read(words, cwd=folder, env=environment, timeout=COMPILE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"The compiler {words[0]} cannot be run: {error}.") from error
    if done.returncode:
        raise JobError(f"{what} cannot be compiled:\n{done.stderr.strip()[-3000:]}")
