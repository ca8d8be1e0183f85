"""Going back to another client of the family: what it reads, written from what this client knows."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path

from cobblestone.client.folders import PASSWORD_FILE, DataFolder
from cobblestone.client.identity import VERSION, platforms
from cobblestone.client.state import DATABASE, State
from cobblestone.domain.errors import ConfigError, Conflict
from cobblestone.ops.durable_files import write_private
from cobblestone.wire.client_objects import write_account_file, write_statistics
from cobblestone.wire.client_state_file import StateFile
from cobblestone.wire.client_state_writer import (
    write_job_log,
    write_manager_files,
    write_trickle_file,
    write_whole_state,
)
from cobblestone.wire.gui_rpc_answers import daily_transfers
from cobblestone.wire.host_report import HostInfo
from cobblestone.wire.web_rpc_client import folder_of

STATE_FILE = "client_state.xml"
SETTINGS = ("global_prefs.xml", "global_prefs_override.xml", "cc_config.xml", PASSWORD_FILE)
FOLDERS = ("projects", "slots")
DAYS = 60


def export(source: Path, target: Path) -> dict[str, int]:
    """Write what a client of the family needs to go on with everything; what was written, in numbers.

    ``target`` is a new or empty folder, which gets copies of the files of projects and jobs, or ``source`` itself.  The state
    file is written last: a folder without it is not complete.

    Raises:
        ConfigError: this client has no state in ``source``, or ``target`` cannot be written.
        Conflict: ``target`` holds something else.
        Busy: the client runs.
    """
    folders, target = DataFolder(source), target.expanduser().absolute()
    if not (folders.root / DATABASE).exists():
        raise ConfigError(f"{folders.root} holds no state of this client. Give --dir if it lies elsewhere.")
    in_place = target.exists() and target.samefile(folders.root)
    if not in_place and target.exists() and any(target.iterdir()):
        raise Conflict(f"{target} is not empty. Give a new folder, or {folders.root} itself.")
    state = State(folders.root)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if not in_place:
            _copy(folders.root, target)
        _write(state, target)
    except OSError as error:
        raise ConfigError(f"{error.filename or target} cannot be written: {error.strerror}.") from error
    finally:
        state.close()
    contents = state.contents.values()
    return {
        "projects": len(contents),
        "jobs": sum(len(content.jobs) for content in contents),
        "files": sum(len(content.files) for content in contents),
    }


def _copy(root: Path, target: Path) -> None:
    for name in SETTINGS:
        if (root / name).exists():
            write_private(target / name, (root / name).read_bytes())
    for name in FOLDERS:
        if (root / name).exists():
            shutil.copytree(root / name, target / name, symlinks=True)


def _write(state: State, target: Path) -> None:
    notes, copies = state.notes, DataFolder(target)
    for url, content in state.contents.items():
        content.project.anonymous_platform |= (copies.project(url) / "app_info.xml").exists()
        content.project.trickle_up_pending |= _write_messages(state, url, copies.project(url))
        _put(copies.account_file(url), write_account_file(content.project))
        _put(
            target / f"statistics_{folder_of(url)}.xml", write_statistics(url, state.credit_days(url)[-DAYS:])
        )
    jobs = state.history(limit=100_000)[::-1]
    for url in state.contents:
        rows = [row for row in jobs if row["project"] == url]
        _put(target / f"job_log_{folder_of(url)}.txt", write_job_log(rows))
    if notes.manager is not None:
        for name, text in write_manager_files(asdict(notes.manager)).items():
            _put(target / name, text)
    _put(target / "daily_xfer_history.xml", daily_transfers(state.transferred()[:DAYS]))
    host = HostInfo(
        host_cpid=notes.host_cpid,
        p_ncpus=os.cpu_count() or 1,
        p_fpops=notes.p_fpops,
        p_iops=notes.p_iops,
        p_calculated=notes.p_calculated,
    )
    whole = StateFile(
        host=host,
        time_stats=notes.time_stats,
        net_stats=notes.net_stats,
        modes=(notes.run_mode.permanent, notes.gpu_mode.permanent, notes.network_mode.permanent),
        contents=state.contents,
    )
    _put(target / STATE_FILE, write_whole_state(whole, client=VERSION, platform=platforms()[0]))


def _write_messages(state: State, url: str, folder: Path) -> bool:
    """Messages of jobs that the project does not have; whether there are some."""
    waiting = state.trickles(url)
    for _, job, time, variety, text in waiting:
        _put(folder / f"trickle_up_{job}_{time:.0f}.xml", write_trickle_file(variety, text))
    return bool(waiting)


def _put(path: Path, text: str) -> None:
    write_private(path, text.encode())
