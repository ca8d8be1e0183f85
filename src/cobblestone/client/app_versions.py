"""App versions as they run here: what the project says, and what the volunteer's ``app_config.xml`` makes of it.

The project's own figures stay as they came, and the file is applied each time that they are used: so a file that changes or goes
away is undone at once.
"""

from __future__ import annotations

from dataclasses import replace

from cobblestone.domain.computing import AppConfig, VersionUsage
from cobblestone.domain.values import changed
from cobblestone.policy.client.app_overrides import override_usage
from cobblestone.wire.client_records import JobRecord, ProjectContent
from cobblestone.wire.job_description import AppVersionBlock

_NOTHING = AppConfig()


def version_in_force(content: ProjectContent, job: JobRecord) -> AppVersionBlock | None:
    """Return the app version that a job runs with, as the volunteer wants it to be used."""
    version = content.version_of(job)
    return None if version is None else _overridden(version, content.app_config)


def with_versions_in_force(content: ProjectContent) -> ProjectContent:
    """Return the project with all its app versions as the volunteer wants them to be used, to be shown."""
    if content.app_config == _NOTHING:
        return content
    return replace(content, versions=[_overridden(each, content.app_config) for each in content.versions])


def _overridden(version: AppVersionBlock, config: AppConfig) -> AppVersionBlock:
    if not (config.apps or config.versions):
        return version
    usage = override_usage(
        VersionUsage(
            app_name=version.app_name,
            plan_class=version.plan_class,
            avg_ncpus=version.avg_ncpus,
            gpu_usage=version.coproc_count,
            cmdline=version.cmdline,
        ),
        config,
    )
    return changed(version, avg_ncpus=usage.avg_ncpus, coproc_count=usage.gpu_usage, cmdline=usage.cmdline)


def resources_in_words(version: AppVersionBlock, devices: tuple[int, ...]) -> str:
    """Return what a job uses, as managers show it; the empty text for the usual one CPU."""
    cpus = f"{version.avg_ncpus:.3g} CPU{'' if version.avg_ncpus == 1 else 's'}"
    if not version.coproc_type:
        return "" if version.avg_ncpus == 1 else cpus
    name = {"ATI": "AMD/ATI", "intel_gpu": "Intel", "apple_gpu": "Apple"}.get(
        version.coproc_type, version.coproc_type
    )
    gpus = f"{version.coproc_count:.3g} {name} GPU{'' if version.coproc_count == 1 else 's'}"
    where = f" (device{'' if len(devices) == 1 else 's'} {', '.join(map(str, devices))})" if devices else ""
    return f"{cpus} + {gpus}{where}"
