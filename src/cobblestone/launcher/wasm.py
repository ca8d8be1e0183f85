"""The native launcher, which runs WebAssembly modules and unpacks bundles: its sources, and the description for it.

The sources are in ``native``; the head of ``native/launcher.c`` describes the entries that the functions below write.
"""

from __future__ import annotations

import hashlib
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cobblestone.domain.errors import JobError
from cobblestone.launcher import cobblestone_runtime

NATIVE_FOLDER = Path(__file__).parent / "native"
#: What programs in WebAssembly may include or import.
GUEST_FOLDER = Path(__file__).parent / "guest"
#: C files of the launcher, in the order in which they are compiled: the same order gives the same bytes.
SOURCES = ("launcher.c", "engine.c", "bundle.c", "posix.c", "windows.c")
HEADER = "launcher.h"
#: Version of the WebAssembly runtime whose C API the launcher knows.
WASMTIME_VERSION = "50.0.1"

#: Of bundles, too: the launcher knows one name, since under another one a job's input could come first.
DESCRIPTION_FILE = "cobblestone_wasm.txt"
#: The same, of a program that Pyodide runs in browsers.
PYODIDE_DESCRIPTION_FILE = "cobblestone_pyodide.txt"
LIBRARY_NAME = "wasmtime_library"
COMPILED_NAME = "compiled_module"
COMPILED_FOLDER = "cobblestone_compiled"
#: Modules see this folder of the slot, and nothing else.
ROOM = "job_files"
#: Names in the slot that the launcher uses itself.
WASM_RESERVED_NAMES = frozenset(
    {
        ROOM,
        f"{ROOM}.state",
        "stdout.txt",
        "trickle_up.xml",
        "cobblestone_checkpoints",
        "cobblestone_time_to_checkpoint",
    }
)
#: The same everywhere: what a program could learn of its surroundings, it does not.
ENVIRONMENT = {
    cobblestone_runtime.FOLDER_VARIABLE: ".",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
#: The words of a bundle's description where the launcher in Python runs the command: on Linux and macOS.
STARTS_LAUNCHER = ("python3", "-I", "-m", cobblestone_runtime.RUNTIME_FILE.removesuffix(".py"))
#: Of Python in a bundle: packages of the volunteer's stay outside, replicas agree, and libraries use the processors of the job.
BUNDLE_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    **{f"{library}_NUM_THREADS": "{ncpus}" for library in ("OMP", "OPENBLAS", "MKL")},
}


def wasm_description(
    words: Sequence[str],
    *,
    module: str,
    module_sha256: str,
    native_sha256: Iterable[str],
    files: Mapping[str, bytes] | None = None,
    stdout: str = "",
    optional_outputs: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Return the content of the description, to be signed and sent with the app version.

    ``module`` is the open name of the module; ``native_sha256`` are the SHA-256 of all files of native code that the launcher may
    load, of all platforms; ``files`` maps the open name of each of the app's own files to its content.
    Raises JobError for a placeholder that no job could fill.
    """
    lines = [f"library {LIBRARY_NAME}", f"module {_quoted(module)} {module_sha256}"]
    lines += [f"native {digest}" for digest in native_sha256]
    variables = {**ENVIRONMENT, **(environment or {})}
    return _description(lines, words, files, stdout, optional_outputs, variables)


def bundle_description(
    words: Sequence[str],
    *,
    name: str,
    sha256: str,
    files: Mapping[str, bytes],
    stdout: str = "",
    optional_outputs: Sequence[str] = (),
) -> bytes:
    """Return the description of a command that runs in the Python of an archive, whose open name and SHA-256 are given.

    The first of the words is Python.  Raises JobError for a placeholder that no job could fill.
    """
    lines = [f"bundle {_quoted(name)} {sha256}"]
    return _description(lines, words, files, stdout, optional_outputs, BUNDLE_ENVIRONMENT)


def _description(
    lines: list[str],
    words: Sequence[str],
    files: Mapping[str, bytes] | None,
    stdout: str,
    optional_outputs: Sequence[str],
    variables: Mapping[str, str],
) -> bytes:
    try:
        for word in [*words, stdout]:
            cobblestone_runtime.check_placeholders(word)
    except cobblestone_runtime.LauncherError as problem:
        raise JobError(f"The app's command cannot be used: {problem}.") from None
    lines += [f"word {_quoted(word)}" for word in words]
    lines += [
        f"file {_quoted(name)} {hashlib.sha256(data).hexdigest()}" for name, data in (files or {}).items()
    ]
    lines += [f"stdout {_quoted(stdout)}"] if stdout else []
    lines += [f"optional {_quoted(name)}" for name in optional_outputs]
    lines += [f"set {_quoted(name)}={_quoted(value)}" for name, value in variables.items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="/{}:.,-_")
