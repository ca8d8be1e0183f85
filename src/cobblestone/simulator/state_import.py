"""Make a scenario of a real client's state file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cobblestone.domain.errors import ConfigError, RemoteProtocolError
from cobblestone.domain.values import DAY, float_sum
from cobblestone.simulator.host.server import job_speed
from cobblestone.simulator.world.scenario import (
    AppModel,
    Gpus,
    HostModel,
    JobSizes,
    OnOff,
    ProjectModel,
    Scenario,
)
from cobblestone.wire.client.records import ProjectContent
from cobblestone.wire.client.state_excerpt import anonymise_state
from cobblestone.wire.client.state_file import AppHints, ProjectHints, StateFile, read_whole_state
from cobblestone.wire.scheduler.job import AppVersionBlock
from cobblestone.wire.text.reader import LenienceKind
from cobblestone.wire.text.tree import MAX_BYTES

#: Used where the file says nothing, as BOINC's emulator does.
DEFAULT_LATENCY_BOUND = 864000.0
DEFAULT_FPOPS_EST = 3.6e14
DEFAULT_GPU_FLOPS = 1e11
#: Numbers that the scenario is made of: where one cannot be, the file is refused.
_USED = {
    "p_ncpus", "p_fpops", "on_frac", "active_frac", "on_lambda", "count", "peak_flops", "resource_share", "frac", "lambda",
    "latency_bound", "fpops_est", "mean", "std_dev", "weight", "flops", "avg_ncpus", "rsc_fpops_est", "received_time",
    "report_deadline",
}  # fmt: skip
#: What is simulated, if jobs are not short.
USUAL_DURATION = 100 * DAY
#: Jobs of a processor that are simulated at most: those of a day at least.
MOST_JOBS = 5_000


def scenario_from_state(path: Path) -> Scenario:
    """Read ``client_state.xml``.  Raises :class:`ConfigError` naming file and value."""
    try:
        return scenario_of(_state(path), name=path.stem).check()
    except (RemoteProtocolError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from error


def anonymise(path: Path, out: Path) -> None:
    """Write a state file without what says whose it is.  Raises :class:`ConfigError` naming the file."""
    try:
        out.write_bytes(anonymise_state(_read(path)))
    except RemoteProtocolError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read(path: Path) -> bytes:
    """Return a file's content; of one that is too large, one byte more than is allowed."""
    with path.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _state(path: Path) -> StateFile:
    """Read a state file.  Raises :class:`RemoteProtocolError` naming the element and value that cannot be used."""
    state = read_whole_state(_read(path))
    for each in state.notes:
        name = each.where.rpartition("/")[2]
        if each.kind is LenienceKind.BAD_NUMBER and name in _USED:
            raise RemoteProtocolError(f"<{name}> = {each.detail[:40]!r} cannot be used")
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class _App:
    """An app that computes, as far as the file tells."""

    name: str
    hints: AppHints
    version: AppVersionBlock | None
    latency_bound: float | None  #: seconds
    fpops_est: float | None


def _apps(content: ProjectContent, hints: ProjectHints) -> Iterator[_App]:
    """Yield the apps of a project that are simulated."""
    for name, app in content.apps.items():
        hint = hints.apps[name]
        if hint.ignore or app.non_cpu_intensive:
            continue
        workunits = {key: each for key, each in content.workunits.items() if each.app_name == name}
        bounds = (bound for each, bound in hints.bounds.items() if each in workunits)
        estimates = (each.rsc_fpops_est for each in workunits.values() if each.rsc_fpops_est)
        versions = (each for each in reversed(content.versions) if each.app_name == name)
        yield _App(
            name=name,
            hints=hint,
            version=next(versions, None),
            latency_bound=hint.latency_bound or next(bounds, None),
            fpops_est=hint.fpops_est or next(estimates, None),
        )


def _named(state: StateFile) -> Iterator[tuple[str, ProjectContent, list[_App]]]:
    """Yield the projects with their names and apps."""
    for url, content in state.contents.items():
        yield content.project.project_name or url, content, list(_apps(content, state.hints[url]))


def assumptions(path: Path) -> list[str]:
    """Return what a state file does not tell, and what is taken instead, as sentences."""
    said: list[str] = []
    state = _state(path)
    days = scenario_of(state, name="").duration / DAY
    if days < USUAL_DURATION / DAY:
        said.append(f"jobs are short: days simulated: {days:.3g}")
    for name, _, apps in _named(state):
        for app in apps:
            missing = [
                text
                for value, text in (
                    (app.fpops_est, f"jobs of {DEFAULT_FPOPS_EST:.3g} FLOPs"),
                    (app.latency_bound, f"a latency bound of {DEFAULT_LATENCY_BOUND / DAY:g} days"),
                )
                if not value
            ]
            if missing:
                said.append(
                    f"{name}, app {app.name}: not known from any job in the file; used: {', '.join(missing)}"
                )
    return said


def scenario_of(state: StateFile, *, name: str) -> Scenario:
    """Make a scenario: the host as it is, each project with the apps that compute."""
    host = _host(state)
    projects: list[ProjectModel] = []
    for project, content, found in _named(state):
        if found:
            apps = tuple(_app(each, host) for each in found)
            projects.append(_project(state, project, content, apps, {p.name for p in projects}))
    if not projects:
        raise ConfigError(
            "no project of the state file has an app to simulate; attach a project and let it send its apps"
        )
    apps_of_all = (app for project in projects for app in project.apps)
    shortest = min(app.sizes.average / max(job_speed(app, host), 1.0) for app in apps_of_all)
    return Scenario(
        name=name,
        duration=min(USUAL_DURATION, max(DAY, MOST_JOBS * shortest)),
        host=host,
        projects=tuple(projects),
    )


def _host(state: StateFile) -> HostModel:
    times = state.time_stats
    on, active = (1.0 if part < 0 else part for part in (times.on_frac, times.active_frac))  # -1: unknown
    return HostModel(
        ncpus=state.host.p_ncpus,
        flops=state.host.p_fpops,
        gpus=tuple(
            Gpus(type=gpu.type, count=gpu.count, flops=gpu.peak_flops or DEFAULT_GPU_FLOPS)
            for gpu in state.gpus
        ),
        availability=OnOff(fraction=max(0.001, on * active), mean_on=state.on_lambda),
    )


def _project(
    state: StateFile, name: str, content: ProjectContent, apps: tuple[AppModel, ...], taken: set[str]
) -> ProjectModel:
    name = name[:150]
    project = content.project
    if name in taken:
        name = f"{name} ({project.master_url[:40]})"
    hints = state.hints[project.master_url]
    downtime = OnOff(fraction=hints.available_frac, mean_on=hints.available_lambda)
    return ProjectModel(name=name, share=project.resource_share, apps=apps, downtime=downtime)


def _app(app: _App, host: HostModel) -> AppModel:
    """Make an app; what it uses is cut to what the host has, since preferences may have changed since."""
    estimate = app.fpops_est or DEFAULT_FPOPS_EST
    version, counts = app.version, {gpu.type: gpu.count for gpu in host.gpus}
    gpu, usage, cpus, flops = "", 0.0, 1.0, 0.0
    if version is not None:
        if version.coproc_type in counts and version.coproc_count > 0:
            gpu, usage = version.coproc_type, min(version.coproc_count, counts[version.coproc_type])
        cpus = min(version.avg_ncpus, host.ncpus) if version.avg_ncpus > 0 or gpu else 1.0
        flops = version.flops if app.hints.has_flops else 0.0
    peak = cpus * host.flops + float_sum(each.flops for each in host.gpus if each.type == gpu) * usage
    efficiency = min(1.0, max(0.001, flops / peak)) if flops else 1.0
    return AppModel(
        name=app.name,
        latency_bound=app.latency_bound or DEFAULT_LATENCY_BOUND,
        flops_estimate=estimate,
        sizes=JobSizes(mean=app.hints.fpops_mean or estimate, stdev=app.hints.fpops_stdev or 0.0),
        weight=app.hints.weight,
        cpus=cpus,
        gpu=gpu,
        gpus=usage,
        efficiency=efficiency,
    )
