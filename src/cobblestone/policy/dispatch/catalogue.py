"""What the project has to offer: apps, versions, plan classes, and unsent results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from cobblestone.domain.apps import App, AppVersion, PlanClass
from cobblestone.domain.ids import AppId, AppVersionId, BatchId, HostId, ResultId, TeamId, UserId, WorkunitId
from cobblestone.domain.values import value
from cobblestone.domain.work import InputFile, JobLimits, OutputSpec
from cobblestone.policy.estimate.speed import PeakFlopCount, SpeedPopulation


@value(kw_only=True)
class Candidate:
    """One unsent result with what is needed of its workunit to judge it and to describe it in a reply."""

    result_id: ResultId
    result_name: str
    workunit_id: WorkunitId
    workunit_name: str
    app_id: AppId
    limits: JobLimits = JobLimits()
    priority: int = 0
    batch_id: BatchId | None = None
    hr_class: int = 0  #: class that the workunit is committed to; 0 = none
    app_version_id: AppVersionId | None = None  #: version that the workunit is committed to
    target_host_id: HostId | None = None  #: only for this host …
    target_user_id: UserId | None = None  #: … or this user
    target_team_id: TeamId | None = None  #: … or this team
    size_class: int = -1
    retry: bool = False  #: an earlier result of the workunit was lost
    create_time: float = 0.0  #: Unix seconds
    turn: float = 0.0  #: see `cobblestone.policy.dispatch.fairness`
    replicated: bool = True  #: more than one result is wanted: adaptive replication has nothing to decide
    command_line: str = ""
    input_files: tuple[InputFile, ...] = ()
    output_specs: tuple[OutputSpec, ...] = ()

    @property
    def targeted(self) -> bool:
        """Whether it is for one host, user or team alone."""
        return (
            self.target_host_id is not None
            or self.target_user_id is not None
            or self.target_team_id is not None
        )


@value(kw_only=True)
class Catalogue:
    """Apps, their versions and plan classes; built once and used until something of it changes."""

    apps: Mapping[AppId, App]
    versions: Mapping[AppId, tuple[AppVersion, ...]]
    plan_classes: Mapping[str, PlanClass] = field(default_factory=dict[str, PlanClass])
    population: SpeedPopulation = SpeedPopulation()
    peak_flop_counts: Mapping[AppVersionId, PeakFlopCount] = field(
        default_factory=dict[AppVersionId, PeakFlopCount]
    )
    always_apps: frozenset[AppId] = field(init=False)  #: apps of which every host should have one job
    scored: bool = field(init=False)  #: some app's jobs suit some hosts better than others

    def __post_init__(self) -> None:
        used = [app for app in self.apps.values() if not app.deprecated]
        always = frozenset(app.id for app in used if app.dispatch.non_cpu_intensive)
        object.__setattr__(self, "always_apps", always)
        object.__setattr__(self, "scored", any(app.dispatch.scored for app in used))
