"""What a job finds in its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cobblestone.client.host.containers import CONTAINERS_FOLDER
from cobblestone.client.sandbox.sandbox import SYSTEM_PATH
from cobblestone.client.tasks.description import TaskSpec

_WITH_LIBRARIES = 'LD_LIBRARY_PATH=$1 && export LD_LIBRARY_PATH && shift && exec "$@"'


def job_environment(spec: TaskSpec, environment: Mapping[str, str], data_dir: Path) -> dict[str, str]:
    """Return what a job finds in its environment: nothing of the volunteer's but time zone and language."""
    kept = {name: environment[name] for name in ("LANG", "TZ") if name in environment}
    kept["PATH"] = environment.get("PATH", SYSTEM_PATH)
    return {**kept, "HOME": str(data_dir / CONTAINERS_FOLDER)} if spec.in_container else kept


def with_libraries(spec: TaskSpec, environment: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Return a job's command line, to be started last, with the folders in which its program looks for libraries.

    Whatever starts the sandbox must not look there: what a job leaves in its slot would run outside.
    """
    if spec.in_container:  # the engine is a program of the system, not of the project
        return list(words)
    folders = [
        f"../../projects/{spec.project_dir.name}",
        ".",
        "../..",
        environment.get("LD_LIBRARY_PATH", ""),
    ]
    return ["/bin/sh", "-c", _WITH_LIBRARIES, "job", ":".join(filter(None, folders)), *words]
