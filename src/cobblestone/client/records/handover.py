"""Migration from BOINC's client to this one, and back: projects, account keys, files, jobs, credit, and accounting go along."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import psutil

from cobblestone.client.records.folders import PASSWORD_FILE, DataFolder
from cobblestone.client.records.identity import VERSION, platforms
from cobblestone.client.records.state import DATABASE, ClientDatabase
from cobblestone.domain.errors import Busy, ConfigError, Conflict, RemoteProtocolError
from cobblestone.domain.values import form_of
from cobblestone.ops.files import write_private
from cobblestone.wire.client.gui_rpc import daily_transfers
from cobblestone.wire.client.objects import write_account_file, write_statistics
from cobblestone.wire.client.state_file import (
    StateFile,
    read_account,
    read_statistics,
    read_whole_state,
    write_job_log,
    write_manager_files,
    write_trickle_file,
    write_whole_state,
)
from cobblestone.wire.project.pages import folder_of
from cobblestone.wire.scheduler.host import HostInfo

STATE_FILES = ("client_state.xml", "client_state_next.xml", "client_state_prev.xml")


def adopt(root: Path) -> dict[str, int]:
    """Take over the data directory of a stopped BOINC client; return counts of what was found.

    Raises:
        ConfigError: there is none, or its state cannot be read.
        Conflict: this client has a state of its own there.
        Busy: the other client runs.
    """
    folders = DataFolder(root)
    if (folders.root / DATABASE).exists():
        raise Conflict(f"{root} is already used by this client. To take it over again, move {DATABASE} away.")
    for process in psutil.process_iter(("name", "cwd")):  # a client that allows several of them takes no lock
        if process.info["name"] in ("boinc", "boinc.exe") and process.info["cwd"] == str(
            folders.root.resolve()
        ):
            raise Busy(f"A BOINC client is running in {root} (process {process.pid}). Stop it first.")
    adopted = _read_state(folders.root)
    state = ClientDatabase(folders.root)
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
        try:
            return read_whole_state((root / name).read_bytes())
        except FileNotFoundError:
            continue
        except (RemoteProtocolError, OSError) as error:
            problems.append(f"{name}: {getattr(error, 'strerror', None) or error}")
    reason = "; ".join(problems) or f"it holds no {STATE_FILES[0]}, as a BOINC client's data directory does"
    raise ConfigError(f"{root} cannot be taken over: {reason}.")


def _keep(state: ClientDatabase, folders: DataFolder, adopted: StateFile) -> None:
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


STATE_FILE = "client_state.xml"
SETTINGS = ("global_prefs.xml", "global_prefs_override.xml", "cc_config.xml", PASSWORD_FILE)
FOLDERS = ("projects", "slots")
DAYS = 60


def export(source: Path, target: Path) -> dict[str, int]:
    """Write the state for a BOINC client to continue with; return counts of what was written.

    ``target`` is a new or empty folder, which gets copies of the files of projects and jobs, or ``source`` itself.  The state
    file is written last: a folder without it is not complete.

    Raises:
        ConfigError: this client has no state in ``source``, or ``target`` cannot be written.
        Conflict: ``target`` holds something else.
        Busy: the client runs.
    """
    folders, target = DataFolder(source), target.expanduser().absolute()
    if not (folders.root / DATABASE).exists():
        raise ConfigError(f"{folders.root} contains no state of this client. Give --dir if it is elsewhere.")
    in_place = target.exists() and target.samefile(folders.root)
    if not in_place and target.exists() and any(target.iterdir()):
        raise Conflict(f"{target} is not empty. Give a new folder, or {folders.root} itself.")
    state = ClientDatabase(folders.root)
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


def _write(state: ClientDatabase, target: Path) -> None:
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
    modes = (notes.run_mode.permanent, notes.gpu_mode.permanent, notes.network_mode.permanent)
    host = form_of(HostInfo, notes, p_ncpus=os.cpu_count() or 1, product_name="")
    whole = form_of(StateFile, notes, host=host, modes=modes, contents=state.contents)
    _put(target / STATE_FILE, write_whole_state(whole, client=VERSION, platform=platforms()[0]))


def _write_messages(state: ClientDatabase, url: str, folder: Path) -> bool:
    """Write messages of jobs that the project does not have yet; return whether there are any."""
    waiting = state.trickles(url)
    for _, job, time, variety, text in waiting:
        _put(folder / f"trickle_up_{job}_{time:.0f}.xml", write_trickle_file(variety, text))
    return bool(waiting)


def _put(path: Path, text: str) -> None:
    write_private(path, text.encode())
