"""The volunteer's ``app_config.xml``, applied to what a project says of an app version.

It is applied anew to the project's own figures each time, so that a line taken out of the file is undone at once.
Source: BOINC's ``client/app_config.cpp`` (facts).
"""

from __future__ import annotations

from cobblestone.domain.computing import AppConfig, VersionUsage
from cobblestone.domain.values import changed


def override_usage(usage: VersionUsage, config: AppConfig) -> VersionUsage:
    """Return what the version uses by the volunteer's will; ``usage`` is what the project says."""
    limits = config.apps.get(usage.app_name)
    if limits and usage.gpu_usage > 0 and limits.gpu_usage > 0 and limits.cpu_usage > 0:
        usage = changed(usage, gpu_usage=limits.gpu_usage, avg_ncpus=limits.cpu_usage)
    for each in config.versions:
        if (each.app_name, each.plan_class) == (usage.app_name, usage.plan_class):
            usage = changed(
                usage,
                cmdline=f"{usage.cmdline} {each.cmdline}".strip(),
                avg_ncpus=usage.avg_ncpus if each.avg_ncpus is None else each.avg_ncpus,
                gpu_usage=usage.gpu_usage if each.ngpus is None or not usage.gpu_usage else each.ngpus,
            )
    return usage


def unknown_apps(config: AppConfig, known: frozenset[str]) -> tuple[str, ...]:
    """Apps that the file names and the project does not have."""
    named = {*config.apps, *(each.app_name for each in config.versions)}
    return tuple(sorted(named - known))
