"""Python with compiled packages in browsers: Pyodide's own files, and a program's packages.

Pyodide's files come from the npm package ``pyodide`` and must have the hashes that this package names, since their scripts run on
pages of the project.  A program's packages are wheels, which pip picks for Pyodide's platform (PEP 783): from the package index,
or from a folder with those of Pyodide's own distribution (PIP_FIND_LINKS).  They run in a sandbox, as the program does.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cobblestone.domain import pyodide
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher import RUNTIME_MODULE
from cobblestone.launcher.packing import GUEST_FOLDER, wasm_description
from cobblestone.sdk.api.connection import Connection
from cobblestone.sdk.packing.app_package import Command
from cobblestone.sdk.packing.dependencies import NoWheelError, check_modules, fetch_npm, install_wheels
from cobblestone.sdk.packing.wasm_package import archive

MAX_PACKAGES_BYTES = 300_000_000  #: unpacked
_ABSENT = (
    "curses dbm ensurepip grp msvcrt nt pwd readline resource syslog tkinter turtle venv winreg winsound"
)
#: Modules of Python that Pyodide does not have; found by importing all of them there.
NOT_IN_PYODIDE = frozenset(_ABSENT.split())


def read_pyodide(folder: Path | None) -> dict[str, bytes]:
    """Return Pyodide's files by name, from a folder or (None) from npm; each must match the known checksum.

    Raises:
        ConfigError: a file is missing or another one, or cannot be fetched.
    """
    if folder is None:
        instead = "Or download it elsewhere, and give the folder with its files: --from FOLDER"
        files = fetch_npm(f"pyodide@{pyodide.VERSION}", pyodide.SHA256, instead)
    else:
        files = {name: _read(folder / name) for name in pyodide.SHA256}
    for name, data in files.items():
        if hashlib.sha256(data).hexdigest() != pyodide.SHA256[name]:
            raise ConfigError(
                f"{name} is not that of Pyodide {pyodide.VERSION}: it belongs to another version, or was changed. Give the"
                f" unchanged files of the npm package pyodide@{pyodide.VERSION}."
            )
    return files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. The folder must hold {', '.join(pyodide.SHA256)} of Pyodide"
            f" {pyodide.VERSION}."
        ) from error


def packages_archive(requirements: Path) -> bytes:
    """Return the archive of a program's packages; equal packages give equal bytes.

    Raises:
        JobError: a package has no wheel for Pyodide (the text names it), or they are too large.
    """
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as temporary:
        folder = Path(temporary)
        try:
            install_wheels(requirements, folder, (pyodide.WHEEL_TAG,), pyodide.PYTHON_VERSION)
        except NoWheelError as problem:
            raise JobError(
                f"{problem.package} has no wheel for browsers (Pyodide {pyodide.VERSION}, Python {pyodide.PYTHON_VERSION})"
                " that fits the requirements. Leave --browser out; or fetch the wheels of Pyodide's own distribution, and name"
                " their folder in PIP_FIND_LINKS."
            ) from None
        paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        size = sum(path.stat().st_size for path in paths)
        if size > MAX_PACKAGES_BYTES:
            raise JobError(
                f"The packages for browsers are {size / 1e6:.0f} MB, more than the {MAX_PACKAGES_BYTES / 1e6:.0f} MB that are"
                " allowed."
            )
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    runtime = GUEST_FOLDER / f"{RUNTIME_MODULE}.py"
    return archive({**files, runtime.name: runtime.read_bytes()})


def check_program(command: Command, contents: Mapping[str, bytes]) -> None:
    """Find what browsers could not run.  Raises JobError."""
    program = command.words[1] if len(command.words) > 1 else ""
    if program not in contents or not program.endswith(".py"):
        raise JobError(
            f'In browsers the second word of the command must be a program of --files, not {program!r}: "python3 program.py …"'
        )
    check_modules(contents, installed=command.installed, absent=NOT_IN_PYODIDE)


def pyodide_description(command: Command, packages: bytes, contents: Mapping[str, bytes]) -> bytes:
    """Return the content of the description of a program that Pyodide runs."""
    return wasm_description(
        command.words,
        module=pyodide.PACKAGES_NAME,
        module_sha256=hashlib.sha256(packages).hexdigest(),
        native_sha256=(),
        files=contents,
        stdout=command.stdout,
        optional_outputs=command.optional_outputs,
    )


def check_server(connection: Connection) -> None:
    """Check that the project has Pyodide.  Raises ConfigError with what to do."""
    if not all(connection.has_page(f"pyodide/{pyodide.VERSION}/{name}") for name in pyodide.SHA256):
        raise ConfigError(
            f"The project does not have Pyodide {pyodide.VERSION}, which runs Python with compiled packages in browsers. Its"
            " operator installs it with: cobblestone project pyodide DIR"
        )
