"""App versions in use: the project's, modified by ``app_config.xml``, and the volunteer's own (``app_info.xml``).

App versions as they run here: what the project says, and what the volunteer's ``app_config.xml`` makes of it.

The project's own figures stay as they came, and the file is applied each time that they are used: so a file that changes or goes
away is undone at once.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cobblestone.client.records.folders import APP_INFO
from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.computing import AppConfig, VersionUsage
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.values import changed, form_of
from cobblestone.policy.client.host.tasks import override_usage
from cobblestone.wire.client.records import FileRecord, FileStatus, JobRecord, ProjectContent
from cobblestone.wire.scheduler.job import (
    MAX_APP_INFO_BYTES,
    AppVersionBlock,
    FileInfo,
    OwnApps,
    read_app_info,
)

_NOTHING = AppConfig()


def version_in_force(content: ProjectContent, job: JobRecord) -> AppVersionBlock | None:
    """Return the app version that a job runs with, with the volunteer's settings."""
    version = content.version_of(job)
    return None if version is None else _overridden(version, content.app_config)


def with_versions_in_force(content: ProjectContent) -> ProjectContent:
    """Return the project with all its app versions with the volunteer's settings, for display."""
    if content.app_config == _NOTHING:
        return content
    return replace(content, versions=[_overridden(each, content.app_config) for each in content.versions])


def _overridden(version: AppVersionBlock, config: AppConfig) -> AppVersionBlock:
    if not (config.apps or config.versions):
        return version
    usage = override_usage(form_of(VersionUsage, version, gpu_usage=version.coproc_count), config)
    return changed(version, avg_ncpus=usage.avg_ncpus, coproc_count=usage.gpu_usage, cmdline=usage.cmdline)


def resources_in_words(version: AppVersionBlock, devices: tuple[int, ...]) -> str:
    """Return a job's resources, as managers show them; empty for the usual one CPU."""
    cpus = f"{version.avg_ncpus:.3g} CPU{'' if version.avg_ncpus == 1 else 's'}"
    if not version.coproc_type:
        return "" if version.avg_ncpus == 1 else cpus
    name = {"ATI": "AMD/ATI", "intel_gpu": "Intel", "apple_gpu": "Apple"}.get(
        version.coproc_type, version.coproc_type
    )
    gpus = f"{version.coproc_count:.3g} {name} GPU{'' if version.coproc_count == 1 else 's'}"
    where = f" (device{'' if len(devices) == 1 else 's'} {', '.join(map(str, devices))})" if devices else ""
    return f"{cpus} + {gpus}{where}"


def take_own_apps(
    state: ClientDatabase, content: ProjectContent, folder: Path, *, platform: str, cpu_flops: float
) -> list[str]:
    """Apply the file with the volunteer's own apps, if there is one; return sentences about its errors.

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
    state: ClientDatabase,
    content: ProjectContent,
    folder: Path,
    own: OwnApps,
    versions: list[AppVersionBlock],
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


def _replace(state: ClientDatabase, content: ProjectContent, versions: tuple[AppVersionBlock, ...]) -> None:
    """Replace the app versions, except those of existing jobs."""
    url = content.project.master_url
    used = [version for job in content.jobs.values() if (version := content.version_of(job)) is not None]
    kept = {version.key: version for version in (*used, *versions)}
    for version in content.versions:
        if version.key not in kept:
            state.drop_version(url, version)
    content.versions = list(kept.values())
    for version in versions:
        state.put_version(url, version)
