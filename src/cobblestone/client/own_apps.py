"""Programs of the volunteer's own: ``app_info.xml`` in a project's folder takes the place of what the project would send."""

from __future__ import annotations

from pathlib import Path

from cobblestone.client.preferences.files import APP_INFO
from cobblestone.client.state import State
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.app_info import MAX_APP_INFO_BYTES, OwnApps, read_app_info
from cobblestone.wire.client_records import FileRecord, FileStatus, ProjectContent
from cobblestone.wire.job_description import AppVersionBlock, FileInfo


def take_own_apps(
    state: State, content: ProjectContent, folder: Path, *, platform: str, cpu_flops: float
) -> list[str]:
    """Bring a project's apps in line with the file, if there is one; sentences about what is wrong with it.

    A file that cannot be read leaves everything as it was.  Jobs that have begun keep the version that they came for.
    """
    path = folder / APP_INFO
    try:
        body = path.read_bytes()[: MAX_APP_INFO_BYTES + 1]
    except FileNotFoundError:
        if content.project.anonymous_platform:
            content.project.anonymous_platform = False
            state.put_project(content.project)
            _replace(state, content, ())
        return []
    except OSError as error:
        return [f"{path} cannot be read ({error.strerror})."]
    try:
        own = read_app_info(body, platform=platform, cpu_flops=cpu_flops)
    except RemoteProtocolError as error:
        return [f"{path}: {error}; it is not used."]
    content.project.anonymous_platform = True
    state.put_project(content.project)
    there: list[AppVersionBlock] = []
    problems = [f"{path}: {problem}; it is not used." for problem in own.problems]
    for version in own.versions:
        missing = [ref.file_name for ref in version.file_refs if not (folder / ref.file_name).is_file()]
        if missing:
            problems.append(f"{path} names files that are not in its folder: {', '.join(missing)}.")
        else:
            there.append(version)
    for app in own.apps:
        content.apps[app.name] = app
        state.put("app", content.project.master_url, app.name, app)
    _take_files(state, content, folder, own, there)
    _replace(state, content, tuple(there))
    return problems


def _take_files(
    state: State, content: ProjectContent, folder: Path, own: OwnApps, versions: list[AppVersionBlock]
) -> None:
    names = {ref.file_name for version in versions for ref in version.file_refs}
    for name in names:
        file = FileRecord(
            project=content.project.master_url,
            name=name,
            download=FileInfo(name=name, urls=(), nbytes=0, md5_cksum="", executable=name in own.executables),
            status=FileStatus.PRESENT,
            nbytes=float((folder / name).stat().st_size),
            own=True,
        )
        content.files[name] = file
        state.put_file(file)


def _replace(state: State, content: ProjectContent, versions: tuple[AppVersionBlock, ...]) -> None:
    """Put versions in the place of those that are here, but for those of jobs that are here."""
    url = content.project.master_url
    used = [version for job in content.jobs.values() if (version := content.version_of(job)) is not None]
    kept = {version.key: version for version in (*used, *versions)}
    for version in content.versions:
        if version.key not in kept:
            state.drop_version(url, version)
    content.versions = list(kept.values())
    for version in versions:
        state.put_version(url, version)
