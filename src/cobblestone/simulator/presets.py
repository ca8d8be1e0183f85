"""The paper's scenarios (Tables 1 to 4) and the loads of its figures."""

from __future__ import annotations

from dataclasses import replace

from cobblestone.simulator.scenario import (
    DAY,
    HOUR,
    AppModel,
    Compatibility,
    HostModel,
    JobSizes,
    OnOff,
    Preferences,
    ProjectModel,
    Scenario,
)

JOB_FLOPS = 1.3e13
HOST_FLOPS = 1e9
PRINTED_BOUND = 9 * DAY
TIGHT_BOUND = 65000.0

#: Mean on-period of 1000 s and 80 % availability: the only reading of the tables under which the stated results come out.
AVAILABILITY = OnOff(fraction=0.8, mean_on=1000.0)


def base(compatibility: Compatibility | None = None) -> Scenario:
    """Tables 1 to 4: one project, two CPUs, 100 days."""
    compat = compatibility or Compatibility()
    belief = "efficiency" if compat.faults.request_ignores_availability else "statistics"
    return Scenario(
        name="base",
        duration=100 * DAY,
        host=HostModel(ncpus=2, flops=HOST_FLOPS, availability=AVAILABILITY, believed_availability=belief),
        preferences=Preferences(),
        projects=(project("P01"),),
        compatibility=compat,
    )


def project(
    name: str,
    *,
    bound: float = PRINTED_BOUND,
    flops: float = JOB_FLOPS,
    share: float = 100.0,
    error: float = 1.0,
    stdev: float = 0.0,
) -> ProjectModel:
    """One project with one app; ``error`` is true size over estimate, ``stdev`` in units of the mean."""
    app = AppModel(
        latency_bound=bound, flops_estimate=flops / error, sizes=JobSizes(mean=flops, stdev=stdev * flops)
    )
    return ProjectModel(name=name, share=share, apps=(app,))


def mix(count: int, *, bound: float = PRINTED_BOUND, compatibility: Compatibility | None = None) -> Scenario:
    """Projects 1 ... count; size, latency bound and share of project i are i times those of the first
    (Figures 1 and 4).
    """
    projects = tuple(
        project(f"P{i:02d}", bound=bound * i, flops=JOB_FLOPS * i, share=100.0 * i)
        for i in range(1, count + 1)
    )
    return replace(base(compatibility), name=f"mix {count}, base bound {bound:g} s", projects=projects)


def slack(value: float, *, error: float = 1.0, compatibility: Compatibility | None = None) -> Scenario:
    """One project whose latency bound is ``value`` times the mean run time (Figures 2 and 6)."""
    bound = value * JOB_FLOPS / HOST_FLOPS
    return replace(
        base(compatibility),
        name=f"slack {value:g}, error {error:g}",
        projects=(project("P01", bound=bound, error=error),),
    )


def buffer(
    value: float,
    hours: float,
    *,
    minimum_share: float = 0.1 / 0.35,
    compatibility: Compatibility | None = None,
) -> Scenario:
    """Slack and total buffer; the buffer is split between minimum and additional part as printed (Figure
    3).
    """
    seconds = hours * HOUR
    prefs = Preferences(buffer_min=seconds * minimum_share, buffer_additional=seconds * (1.0 - minimum_share))
    return replace(
        slack(value, compatibility=compatibility),
        name=f"slack {value:g}, buffer {hours:g} h",
        preferences=prefs,
    )


def variance(stdev: float, *, compatibility: Compatibility | None = None) -> Scenario:
    """Two projects with sizes 1 and 10, standard deviation ``stdev`` times the mean, connected every two
    days (Figure 5).
    """
    scenario = base(compatibility)
    return replace(
        scenario,
        name=f"stdev {stdev:g}",
        host=replace(scenario.host, connection_interval=2 * DAY),
        preferences=Preferences(buffer_min=2 * DAY, buffer_additional=0.0),
        projects=(
            project("P01", stdev=stdev),
            project("P02", flops=10 * JOB_FLOPS, stdev=stdev),
        ),
    )
