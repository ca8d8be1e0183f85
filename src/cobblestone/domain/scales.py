"""Version scales as projects tell each other: what one project exports, what the central service publishes."""

from __future__ import annotations

from dataclasses import dataclass

SMALLEST_SCALE = 1e-6
LARGEST_SCALE = 1e6
"""No scale outside of these is believed: scales say how far peak speeds are from useful ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionScale:
    """Scale and weight of one app version."""

    app_name: str
    platform: str
    plan_class: str = ""
    version_num: int = 0  #: 100 * major + minor
    expavg_credit: float = 0.0  #: recent average credit, in the project's credit per day
    pfc_scale: float = 0.0  #: 0: not known
    measured: bool = True  #: found by comparison with CPU versions of the same app, not taken from elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectScales:
    """What one project exports."""

    name: str = ""
    master_url: str = ""
    credit_per_gflops_day: float = 200.0  #: the unit of its credit
    time: float = 0.0  #: Unix seconds
    versions: tuple[VersionScale, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScale:
    """What the projects of a list found together for one plan class."""

    plan_class: str
    scale: float
    n_projects: int
    lowest: float  #: of the projects' own scales
    highest: float
    expavg_credit: float  #: of all projects together, at 200 credit per GFLOPS-day
