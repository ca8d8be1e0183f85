"""The launcher that is sent with an app version, and the files that the server must send with it.

``cobblestone_runtime.py`` beside this module runs on volunteers' computers; its head describes the app
description and the job's options that the functions below write.
"""

from __future__ import annotations

import functools
import hashlib
import json
import urllib.parse
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from cobblestone.domain.errors import JobError
from cobblestone.launcher import cobblestone_runtime
from cobblestone.launcher.packing import WASM_RESERVED_NAMES

#: Open name under which the app description must lie in the slot (with ``copy_file``).
APP_FILE = cobblestone_runtime.APP_FILE
#: Open name of the archive with the app's own Python.
BUNDLE_FILE = "cobblestone_bundle"
#: The module that the launcher puts beside the app's files.
RUNTIME_MODULE = cobblestone_runtime.RUNTIME_FILE.removesuffix(".py")
#: Open names that the launcher and the client use in a slot; no file of an app or job may have them.
RESERVED_OPEN_NAMES = frozenset(
    {
        cobblestone_runtime.RUNTIME_FILE,
        cobblestone_runtime.PROGRESS_FILE,
        cobblestone_runtime.CHECKPOINT_FILE,
        cobblestone_runtime.JOB_FILE,
        cobblestone_runtime.STATE_FILE,
        cobblestone_runtime.STDERR_FILE,
        "boinc_finish_called",
        "boinc_lockfile",
        "boinc_mmap_file",
        "boinc_task_state.xml",
        "boinc_temporary_exit",
        "init_data.xml",
        "stderr.txt",
        "trickle_up.xml",
        *WASM_RESERVED_NAMES,
    }
)


@functools.cache
def launcher_bytes() -> bytes:
    """Return the launcher file as it is sent."""
    return (Path(__file__).parent / cobblestone_runtime.RUNTIME_FILE).read_bytes()


def app_description(  # every argument is one key of the description
    command: Sequence[str],
    *,
    files: Mapping[str, bytes] | None = None,
    stdout: str = "",
    optional_outputs: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    enforce_memory: bool = False,
    enforce_disk: bool = False,
    quit_grace_seconds: int = 8,
    container: Mapping[str, str] | None = None,
) -> bytes:
    """Return the content of ``cobblestone_app.json``, to be signed and sent with the app version.

    ``files`` maps the open name of each of the app's own files to its content; the launcher refuses others.
    Raises JobError for a command that the launcher would not understand.
    """
    text = json.dumps(
        {
            "command": list(command),
            "files": {name: hashlib.sha256(data).hexdigest() for name, data in (files or {}).items()},
            "stdout": stdout,
            "optional_outputs": list(optional_outputs),
            "environment": dict(environment or {}),
            "enforce_memory": enforce_memory,
            "enforce_disk": enforce_disk,
            "quit_grace_seconds": quit_grace_seconds,
            "container": dict(container or {}),
        },
        indent=1,
    )
    try:
        app = cobblestone_runtime.read_app(text)
        for word in [*app.command, app.stdout]:
            cobblestone_runtime.check_placeholders(word)
    except cobblestone_runtime.LauncherError as problem:
        raise JobError(f"The app's command cannot be used: {problem}.") from None
    return text.encode()


def job_command_line(
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> str:
    """Return the command line of one job; inputs and outputs map names to open names.

    Values are percent-encoded, since the client splits the line at white space.  Raises JobError for a bad
    name.
    """
    words: list[str] = []
    for option, values in (("--input", inputs), ("--output", outputs), ("--arg", arguments)):
        for name, value in (values or {}).items():
            if not name or not all(letter.isalnum() or letter in "_-." for letter in name):
                raise JobError(f"{option}: the name {name!r} must consist of letters, digits and _ - . only.")
            words.append(f"{option} {name}={urllib.parse.quote(value, safe='/')}")
    return " ".join(words)


def job_arguments(command_line: str) -> dict[str, str]:
    """Return the arguments written by :func:`job_command_line`; those of native programs do not have this form."""
    words = command_line.split()
    pairs = [word.partition("=") for option, word in pairwise(words) if option == "--arg"]
    return {name: urllib.parse.unquote(value) for name, _, value in pairs}


def filled_command(command: Sequence[str], command_line: str) -> list[str]:
    """Return the words that a command becomes for a job, as far as the server knows; for people.  Raises JobError."""
    try:
        job = cobblestone_runtime.parse_job(command_line.split(), True)
        about = {"gpu": 0, "ncpus": 1, "checkpoint_period": cobblestone_runtime.DEFAULT_CHECKPOINT_PERIOD}
        return cobblestone_runtime.expand_words(command, job, about)
    except cobblestone_runtime.LauncherError as problem:
        raise JobError(f"The app's command cannot be used: {problem}.") from None
