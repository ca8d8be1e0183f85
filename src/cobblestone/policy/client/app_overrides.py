"""The volunteer's ``app_config.xml``, applied to what a project says of an app version.

It is applied anew to the project's own figures each time, so that a line taken out of the file is undone at once.
Source: BOINC's ``client/app_config.cpp`` (facts): a command line takes the place of the project's, 0 is as good as absent.
"""

from __future__ import annotations

from collections.abc import Collection

from cobblestone.domain.computing import AppConfig, AppLimits, VersionUsage
from cobblestone.domain.values import changed

_NO_LIMITS = AppLimits()


def override_usage(usage: VersionUsage, config: AppConfig) -> VersionUsage:
    """Return what the version uses by the volunteer's will; ``usage`` is what the project says."""
    limits = config.apps.get(usage.app_name)
    if limits and usage.gpu_usage > 0 and limits.gpu_usage > 0 and limits.cpu_usage > 0:
        usage = changed(usage, gpu_usage=limits.gpu_usage, avg_ncpus=limits.cpu_usage)
    for each in config.versions:
        if (each.app_name, each.plan_class) == (usage.app_name, usage.plan_class):
            usage = changed(
                usage,
                cmdline=each.cmdline or usage.cmdline,
                avg_ncpus=each.avg_ncpus or usage.avg_ncpus,
                gpu_usage=(each.ngpus or usage.gpu_usage) if usage.gpu_usage else 0.0,
            )
    return usage


def limits_of(config: AppConfig, app: str) -> AppLimits:
    """Return what the file says of an app."""
    return config.apps.get(app, _NO_LIMITS)


def unmatched_entries(
    config: AppConfig, apps: Collection[str], versions: Collection[tuple[str, str]]
) -> tuple[str, ...]:
    """Sentences about entries for what the project does not have; ``versions`` are names of apps with their plan classes.

    Of a project that has named no app yet, and of an app that has no version here yet, nothing can be said.
    """
    if not apps:
        return ()
    named = {*config.apps, *(each.app_name for each in config.versions)}
    known = ", ".join(sorted(apps))
    problems = [f"the project has no app {name!r}; it has: {known}" for name in sorted(named - set(apps))]
    here = {app for app, _ in versions}
    problems += [
        f"the app {each.app_name!r} has no version of the plan class {each.plan_class!r} here"
        for each in config.versions
        if each.app_name in here and (each.app_name, each.plan_class) not in versions
    ]
    return tuple(problems)
