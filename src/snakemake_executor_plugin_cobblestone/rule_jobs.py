"""A job of a workflow as one of an app: whether it can be that, the script that is sent, and the files that come back.

The first input is a script, which lays the others where the rule expects them, runs the rule's command, and packs its outputs.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from cobblestone.api_schema.apps import App
from cobblestone.domain.errors import JobError
from cobblestone.sdk.api.batch import JobResult
from cobblestone.sdk.api.connection import JobFailed
from cobblestone.sdk.api.jobs import Content, Job
from cobblestone.service.tar_files import unpack_folder

OUTPUT = "outputs.tar"
PROGRAMS = ("sh", "python3")  #: of a container or computer, and of a bundle
MAX_INPUTS = 199
_GZIP = b"\x1f\x8b"


def checked_command(app: App) -> Sequence[str]:
    """Return the command of an app that runs rules.  Raises JobError for other apps."""
    if app.command not in [[program, "{inputs}"] for program in PROGRAMS] or OUTPUT not in [
        each.name for each in app.outputs
    ]:
        raise JobError(
            f"The app {app.name} does not run rules of workflows. Make one that does, with its programs in a container or bundle:"
            f' cobblestone app create NAME --command "sh {{inputs}}" --output {OUTPUT} --container IMAGE.tar, or'
            f' --command "python3 {{inputs}}" --output {OUTPUT} --bundle packages.txt'
        )
    return app.command


def why_not(job: Any) -> str:  # Any: Snakemake's
    """Return why a job cannot run on another computer; empty if it can."""
    if job.is_group():
        return "Groups of jobs are not sent: leave out `group:` and --groups."
    if not job.is_shell:
        return "It has no `shell:`; run, script, notebook, wrapper and cwl need Snakemake and its folder."
    if job.is_pipe or job.is_service:
        return "Pipes and services connect programs on one computer."
    if job.benchmark:
        return "`benchmark:` measures this computer only."
    if job.threads > 1:
        return f"It wants {job.threads} threads, and a job has one processor: give --max-threads 1."
    if len(job.input) > MAX_INPUTS:
        return f"It has {len(job.input)} input files; {MAX_INPUTS} are possible."
    for file in (*job.input, *job.output, *job.log):
        if getattr(file, "is_storage", False):
            return f"{file} lies in a storage; only files in the workflow's folder are sent."
        if PurePath(file).is_absolute() or ".." in PurePath(file).parts:
            return f"{file} lies outside of the workflow's folder, which is not shared."
        if "directory" in getattr(file, "flags", ()) or Path(file).is_dir():
            return f"{file} is a folder; only files are sent."
    return ""


def sent_job(job: Any, words: Sequence[str]) -> Job:
    """Return what is sent; its name is the same as long as the command and the input files are."""
    inputs = _inputs(job)
    script = _script(job, inputs)
    if words[0] == "python3":
        script = (
            "import os, sys\n"
            "path = os.path.dirname(sys.executable) + os.pathsep + os.environ.get('PATH', '/usr/bin:/bin')\n"
            f"os.execvpe('sh', ['sh', '-c', {script!r}, *sys.argv], {{**os.environ, 'PATH': path}})\n"
        )
    known = hashlib.sha256(script.encode())
    for name in inputs:
        status = Path(name).stat()
        known.update(f"{status.st_size} {status.st_mtime_ns} ".encode())
    return Job(inputs=[Content(script.encode()), *inputs], name=f"{job.name[:100]}-{known.hexdigest()[:24]}")


def _inputs(job: Any) -> list[str]:
    return list(dict.fromkeys(map(str, job.input)))


def _outputs(job: Any) -> list[str]:
    """Return the outputs that the command writes; Snakemake touches the others here."""
    return [str(each) for each in job.output if "touch" not in getattr(each, "flags", ())]


def _script(job: Any, inputs: Sequence[str]) -> str:
    outputs, logs = _outputs(job), list(map(str, job.log))
    folders = {f"work/{PurePath(each).parent}" for each in (*inputs, *outputs, *logs)}
    laid = [
        f'ln -f -- "$1" {target} 2>/dev/null || cp -- "$1" {target}; shift'
        for target in (shlex.quote(f"work/{each}") for each in inputs)
    ]
    strict, plain = (shlex.quote(f"set -{each}; {job.shellcmd}") for each in ("euo pipefail", "eu"))
    lines = [
        "set -eu",
        shlex.join(["mkdir", "-p", "work", *sorted(folders)]),
        *laid,
        "cd work",
        "status=0",
        f"if command -v bash >/dev/null 2>&1; then bash -c {strict} >&2 || status=$?; else sh -c {plain} >&2 || status=$?; fi",
        shlex.join(["set", "--", *logs]),
        'if [ $status != 0 ]; then cat -- /dev/null "$@" >&2 2>/dev/null || :; exit $status; fi',
        ": >.complete",
        'for log; do shift; if [ -e "$log" ]; then set -- "$@" "$log"; fi; done',
        f'tar -chf ../{OUTPUT} -- {shlex.join([".complete", *outputs])} "$@"',
    ]
    return "\n".join(lines) + "\n"


def fetch(job: Any, result: JobResult) -> None:
    """Put outputs and logs of a finished job into the workflow's folder; what else a stranger packed is left out.

    Raises:
        JobFailed: an output is missing.
        StoreError: they are not packed as the script packs them.
    """
    outputs = _outputs(job)
    with TemporaryDirectory(dir=".snakemake", prefix="cobblestone.") as temporary:
        packed, folder = Path(temporary, OUTPUT), Path(temporary, "files")
        result.outputs.save(OUTPUT, packed)
        with packed.open("rb") as file:
            if file.read(len(_GZIP)) == _GZIP:  # may be small here and fill the disk
                raise JobFailed("The answer is compressed, which no rule's is.", job_name=result.name)
        unpack_folder(packed, folder)
        for name in outputs:
            if not (folder / name).is_file():
                raise JobFailed(f"The answer has no {name}.", job_name=result.name)
        for name in (*outputs, *map(str, job.log)):
            if (folder / name).is_file():
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).touch()  # Snakemake compares times, and a volunteer's clock is any
                (folder / name).replace(name)
