"""Going over to this client from another one of the family.

The data directory of a stopped client is taken over where it lies: projects, account keys, files, jobs, credit, accounting.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from cobblestone.client.folders import DataFolder
from cobblestone.client.state import DATABASE, State
from cobblestone.domain.errors import ConfigError, Conflict, RemoteProtocolError
from cobblestone.wire.client_state_file import StateFile, read_account, read_statistics, read_whole_state
from cobblestone.wire.web_rpc_client import folder_of

STATE_FILES = ("client_state.xml", "client_state_next.xml", "client_state_prev.xml")


def adopt(root: Path) -> dict[str, int]:
    """Take over the data directory of a stopped client of the family; what was found, in numbers.

    Raises:
        ConfigError: there is none, or its state cannot be read.
        Conflict: this client has a state of its own there.
        Busy: the other client runs.
    """
    folders = DataFolder(root)
    if (folders.root / DATABASE).exists():
        raise Conflict(f"{root} has been used by this client already: there is nothing to take over.")
    adopted = _read_state(folders.root)
    state = State(folders.root)
    try:
        _keep(state, folders, adopted)
        state.flush()
    except BaseException:
        state.close()
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"):
            (folders.root / name).unlink(missing_ok=True)
        raise
    state.close()
    contents = adopted.contents.values()
    return {
        "projects": len(adopted.contents),
        "jobs": sum(len(content.jobs) for content in contents),
        "in_progress": sum(job.task.slot >= 0 for content in contents for job in content.jobs.values()),
        "files": sum(len(content.files) for content in contents),
    }


def _read_state(root: Path) -> StateFile:
    problems: list[str] = []
    for name in STATE_FILES:
        with contextlib.suppress(FileNotFoundError):
            try:
                return read_whole_state((root / name).read_bytes())
            except (RemoteProtocolError, OSError) as error:
                problems.append(f"{name}: {error}")
    reason = "; ".join(problems) or f"it holds no {STATE_FILES[0]}"
    raise ConfigError(f"{root} cannot be taken over: {reason}.")


def _keep(state: State, folders: DataFolder, adopted: StateFile) -> None:
    notes = state.notes
    host = adopted.host
    notes.host_cpid, notes.time_stats, notes.net_stats = host.host_cpid, adopted.time_stats, adopted.net_stats
    notes.p_fpops, notes.p_iops, notes.p_calculated = host.p_fpops, host.p_iops, host.p_calculated
    for mode, number in zip((notes.run_mode, notes.gpu_mode, notes.network_mode), adopted.modes, strict=True):
        mode.permanent = number
    state.keep_notes()
    for url, content in adopted.contents.items():
        project = content.project
        with contextlib.suppress(OSError, RemoteProtocolError):
            read_account(folders.account_file(url).read_bytes(), project)
        if not project.authenticator:
            raise ConfigError(
                f"The account key of {url} is missing: {folders.account_file(url).name} cannot be read."
            )
        project.project_dir = str(folders.project(url))
        state.contents[url] = content
        state.put_project(project)
        for app in content.apps.values():
            state.put("app", url, app.name, app)
        for version in content.versions:
            state.put_version(url, version)
        for workunit in content.workunits.values():
            state.put("workunit", url, workunit.name, workunit)
        for file in content.files.values():
            state.put_file(file)
        for job in content.jobs.values():
            state.put_job(job)
        statistics = folders.root / f"statistics_{folder_of(url)}.xml"
        with contextlib.suppress(OSError, RemoteProtocolError):
            for day in read_statistics(statistics.read_bytes()):
                state.add_credit_day(url, day)
