"""Puts a WebAssembly app together: one module for all platforms, and for each its launcher and its runtime."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cobblestone.api_schema.apps import NewVersion, Version, VersionFileBody
from cobblestone.domain.apps import BROWSER_PLATFORM
from cobblestone.domain.errors import JobError
from cobblestone.domain.job_form import InputSlot, JobForm, check_open_names
from cobblestone.launcher import BUNDLE_FILE, RESERVED_OPEN_NAMES
from cobblestone.launcher.wasm import COMPILED_NAME, DESCRIPTION_FILE, LIBRARY_NAME, wasm_description
from cobblestone.sdk import wasm_toolchain as toolchain
from cobblestone.sdk.app_package import Command, check_words, read_files, upload_bytes
from cobblestone.sdk.connection import Connection
from cobblestone.sdk.wasm_binary import UnknownConstructError
from cobblestone.sdk.wasm_compiled import compiled_modules
from cobblestone.sdk.wasm_instrument import instrument
from cobblestone.sdk.wasm_module import check_module
from cobblestone.sdk.wasm_one_nan import with_one_nan
from cobblestone.sdk.wasm_sources import PYTHON_MODULE, python_files, python_module

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
        """Name of the module in the slot."""
        return (
            self.module.name if self.module.suffix == MODULE_SUFFIX else f"{self.module.name}{MODULE_SUFFIX}"
        )

    def check(self) -> None:
        """Find mistakes before anything is sent.

        Raises:
            JobError: the module cannot be run, a placeholder is unknown, a file is missing or named twice …
        """
        check_module(read_module(self.module), self.module.name)
        toolchain.wasm_platforms(self.platforms)
        if not self.runs_python and self.words[0].removesuffix(MODULE_SUFFIX) != self.open_name.removesuffix(
            MODULE_SUFFIX
        ):
            raise JobError(
                f"The command begins with {self.words[0]}, but the module is called {self.module.name}. Write:"
                f' --command "{self.module.stem} {" ".join(self.words[1:])}"'
            )
        contents = read_files(self.files)
        if self.runs_python:
            check_words(self.words, contents)
        form = JobForm(
            command=tuple(self.words), inputs=tuple(InputSlot(name=name) for name in self.placeholders.inputs)
        )
        names = [self.open_name, *contents]
        check_open_names(
            names,
            form,
            self.output_names(),
            [*RESERVED_OPEN_NAMES, DESCRIPTION_FILE, LIBRARY_NAME, COMPILED_NAME],
        )
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
    words: Sequence[str],
    files: Sequence[Path],
    requirements: Path | None,
    *,
    say: toolchain.Say = lambda text: None,
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
    return python_module(say=say), ["python", *words[1:]], python_files(files, requirements)


def read_module(path: Path) -> bytes:
    """Return a module's bytes.  Raises JobError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise JobError(f"--wasm: {path} cannot be read: {error.strerror}.") from error


def one_form(module: bytes) -> bytes:
    """Return a module whose NaNs have one form; as it is if that is left to the runtime, which knows more instructions."""
    try:
        return with_one_nan(module)
    except (UnknownConstructError, IndexError, ValueError):
        return module


def prepare(module: Path | None, platforms: Sequence[str], *, say: toolchain.Say) -> None:
    """Fetch and compile what an app of a module (None: of Python) needs on each platform, saying what takes time.

    Raises:
        JobError: the module or a platform cannot be used.
        ConfigError: something cannot be fetched or compiled.
    """
    if module is None:
        python_module(say=say)
    else:
        check_module(read_module(module), module.name)
    for platform in toolchain.wasm_platforms(platforms):
        toolchain.library(platform, say=say)
        toolchain.launcher(platform, say=say)


def wasm_version(connection: Connection, command: WasmCommand) -> NewVersion:
    """Upload what a version of a module consists of, for all its platforms; the version for a request.

    What all platforms share is stored, signed and downloaded once: module, description and the scientist's files.
    """
    command.check()
    contents, module = read_files(command.files), one_form(read_module(command.module))
    first, *further = platforms = toolchain.wasm_platforms(command.platforms)
    compiled = compiled_modules(command.module.name, module, platforms)
    libraries = {platform: toolchain.library(platform) for platform in platforms}
    native = [hashlib.sha256(data).hexdigest() for data in (*libraries.values(), *compiled.values())]
    copied = {DESCRIPTION_FILE: command.description(module, contents, native), **contents}
    shared = [
        VersionFileBody(
            file=upload_bytes(connection, command.open_name, module), open_name=command.open_name
        ),
        *(
            VersionFileBody(file=upload_bytes(connection, name, data), open_name=name, copy_file=True)
            for name, data in copied.items()
        ),
    ]
    own_files = {
        platform: _platform_files(connection, command, platform, libraries[platform], compiled.get(platform))
        for platform in platforms
    }
    if command.in_browsers:
        further = [*further, BROWSER_PLATFORM]
        own_files[BROWSER_PLATFORM] = [_browser_module(connection, command, module)]
    return NewVersion(
        platform=first,
        also_for=further,
        plan_class=command.plan_class,
        files=shared,
        platform_files=own_files,
    )


def _browser_module(connection: Connection, command: WasmCommand, module: bytes) -> VersionFileBody:
    """Upload the module that counts its instructions itself."""
    counting = instrument(module, command.module.name)
    file = upload_bytes(connection, BROWSER_MODULE, counting)
    return VersionFileBody(file=file, open_name=BROWSER_MODULE, main_program=True)


def _platform_files(
    connection: Connection, command: WasmCommand, platform: str, library: bytes, compiled: bytes | None
) -> list[VersionFileBody]:
    """Upload what one platform gets: native code, all of it signed."""
    name = toolchain.launcher_name(platform)
    files = {
        name: (name, toolchain.launcher(platform)),
        LIBRARY_NAME: (toolchain.library_name(platform), library),
    }
    if compiled is not None:
        files[COMPILED_NAME] = (f"{command.open_name}_{platform}", compiled)
    return [
        VersionFileBody(
            file=upload_bytes(connection, file_name, data),
            open_name=open_name,
            executable=True,
            main_program=open_name == name,
        )
        for open_name, (file_name, data) in files.items()
    ]


def runs_python(version: Version) -> bool:
    """Whether a version runs a Python program in WebAssembly."""
    return any(file.open_name == PYTHON_MODULE for file in version.files)


def in_browsers(versions: Sequence[Version]) -> bool:
    """Whether one of the versions is for browsers."""
    return any(each.platform == BROWSER_PLATFORM for each in versions)


def runs_modules(version: Version) -> bool:
    """Whether a version runs a WebAssembly module, and so computes the same bits on every system."""
    names = {file.open_name for file in version.files}
    return DESCRIPTION_FILE in names and BUNDLE_FILE not in names
