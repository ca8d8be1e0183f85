"""Make a scenario of a real client's state file."""

from __future__ import annotations

from pathlib import Path

from cobblestone.domain.errors import ConfigError, RemoteProtocolError
from cobblestone.domain.sums import float_sum
from cobblestone.simulator.scenario import (
    DAY,
    AppModel,
    Gpus,
    HostModel,
    JobSizes,
    OnOff,
    ProjectModel,
    Scenario,
)
from cobblestone.simulator.server import job_speed
from cobblestone.wire.client_state import (
    MAX_STATE_BYTES,
    ClientStateSummary,
    StateApp,
    StateProject,
    read_client_state,
)
from cobblestone.wire.client_state_anonymous import anonymise_state

#: Used where the file says nothing, as BOINC's emulator does.
DEFAULT_LATENCY_BOUND = 864000.0
DEFAULT_FPOPS_EST = 3.6e14
#: What is simulated, if jobs are not short.
USUAL_DURATION = 100 * DAY
#: Jobs of a processor that are simulated at most: those of a day at least.
MOST_JOBS = 5_000


def scenario_from_state(path: Path) -> Scenario:
    """Read ``client_state.xml``.  Raises :class:`ConfigError` naming file and value."""
    try:
        summary = read_client_state(_read(path))
        return scenario_of(summary, name=path.stem).check()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (RemoteProtocolError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from error


def anonymise(path: Path, out: Path) -> None:
    """Write a state file without what says whose it is.  Raises :class:`ConfigError` naming the file."""
    try:
        out.write_bytes(anonymise_state(_read(path)))
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from error
    except RemoteProtocolError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read(path: Path) -> bytes:
    """Return a file's content; of one that is too large, one byte more than is allowed."""
    with path.open("rb") as stream:
        return stream.read(MAX_STATE_BYTES + 1)


def assumptions(path: Path) -> list[str]:
    """Return what a state file does not tell, and what is taken instead, as sentences."""
    said: list[str] = []
    summary = read_client_state(_read(path))
    days = scenario_of(summary, name="").duration / DAY
    if days < USUAL_DURATION / DAY:
        said.append(f"jobs are short: days simulated: {days:.3g}")
    for project in summary.projects:
        for app in project.apps:
            if app.ignore or app.non_cpu_intensive:
                continue
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
                    f"{project.name}, app {app.name}: no job in the file tells; taken: {', '.join(missing)}"
                )
    return said


def scenario_of(summary: ClientStateSummary, *, name: str) -> Scenario:
    """Make a scenario: the host as it is, each project with the apps that compute."""
    counts = {g.type: g.count for g in summary.gpus}
    projects: list[ProjectModel] = []
    for project in summary.projects:
        apps = tuple(
            _app(a, summary, counts) for a in project.apps if not a.ignore and not a.non_cpu_intensive
        )
        if apps:
            projects.append(_project(project, apps, {p.name for p in projects}))
    if not projects:
        raise ConfigError(
            "no project of the state file has an app to simulate; attach a project and let it send its apps"
        )
    fraction = max(0.001, summary.on_frac * summary.active_frac)
    host = HostModel(
        ncpus=summary.p_ncpus,
        flops=summary.p_fpops,
        gpus=tuple(Gpus(type=g.type, count=g.count, flops=g.peak_flops) for g in summary.gpus),
        availability=OnOff(fraction=min(1.0, fraction), mean_on=summary.on_lambda),
    )
    apps_of_all = (app for project in projects for app in project.apps)
    shortest = min(app.sizes.average / max(job_speed(app, host), 1.0) for app in apps_of_all)
    return Scenario(
        name=name,
        duration=_duration(shortest),
        host=host,
        projects=tuple(projects),
    )


def _duration(job_seconds: float) -> float:
    """Return how long is simulated: as usual, of short jobs less, but a day."""
    return min(USUAL_DURATION, max(DAY, MOST_JOBS * job_seconds))


def _project(project: StateProject, apps: tuple[AppModel, ...], taken: set[str]) -> ProjectModel:
    name = project.name[:150] or "project"
    if name in taken:
        name = f"{name} ({project.url[:40]})"
    downtime = OnOff(fraction=project.available_frac, mean_on=project.available_lambda)
    return ProjectModel(name=name, share=project.resource_share, apps=apps, downtime=downtime)


def _app(app: StateApp, summary: ClientStateSummary, gpus: dict[str, int]) -> AppModel:
    """Make an app; what it uses is cut to what the host has, since preferences may have changed since."""
    estimate = app.fpops_est or DEFAULT_FPOPS_EST
    gpu = app.gpu_type if app.gpu_type in gpus and app.gpu_usage > 0 else ""
    usage = min(app.gpu_usage, gpus[gpu]) if gpu else 0.0
    cpus = min(app.avg_ncpus, summary.p_ncpus) if app.avg_ncpus > 0 or gpu else 1.0
    peak = cpus * summary.p_fpops + float_sum(g.peak_flops for g in summary.gpus if g.type == gpu) * usage
    efficiency = min(1.0, max(0.001, app.flops / peak)) if app.flops else 1.0
    return AppModel(
        name=app.name or "app",
        latency_bound=app.latency_bound or DEFAULT_LATENCY_BOUND,
        flops_estimate=estimate,
        sizes=JobSizes(mean=app.fpops_mean or estimate, stdev=app.fpops_stdev or 0.0),
        weight=app.weight,
        cpus=cpus,
        gpu=gpu,
        gpus=usage,
        efficiency=efficiency,
    )
