"""A request for work, as far as the dispatch rule may look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from cobblestone.domain.apps import BROWSER_PLATFORM, starts_scripts
from cobblestone.domain.hosts import Host, HostAppVersion
from cobblestone.domain.people import ProjectPreferences
from cobblestone.domain.values import AppId, AppVersionId, TeamId, value
from cobblestone.policy.dispatch.deadline_check import BookedJob
from cobblestone.policy.dispatch.versions import OwnVersion

#: Platform name of a client that brings its own app versions.
ANONYMOUS_PLATFORM = "anonymous"


@value(kw_only=True)
class ResourceRequest:
    """The client's request for one type of processor.

    A type is wanted when seconds or instances are above zero.
    """

    seconds: float = 0.0  #: instance-seconds of work to fill
    instances: float = 0.0  #: instances that are idle now
    estimated_delay: float = 0.0  #: seconds until an instance would be idle


@value(kw_only=True)
class WorkRequest:
    """All that the rule may know of one request for work."""

    host: Host  #: the stored record with the description that came with this request
    platforms: tuple[str, ...]  #: primary platform first
    client_version: int  #: 10000 * major + 100 * minor + release
    resources: Mapping[str, ResourceRequest]  #: by ``CPU``, ``NVIDIA`` …
    usable_ncpus: float = 1.0  #: after the volunteer's percentage (see ``capacity``)
    ram_bytes: float = 0.0  #: usable memory
    disk_bytes: float = 0.0  #: usable disk that is still free
    knows_plan_classes: bool = True
    own_versions: tuple[OwnVersion, ...] = ()  #: anonymous platform: what the client brings
    in_progress: Mapping[AppId, int] = field(default_factory=dict[AppId, int])
    """Jobs the host holds: those it lists and those it was sent and did not report (ghosts count too)."""
    in_progress_gpu: Mapping[AppId, int] = field(default_factory=dict[AppId, int])
    """The part of ``in_progress`` that uses a GPU."""
    preferences: ProjectPreferences = ProjectPreferences()
    records: Mapping[AppVersionId, HostAppVersion] = field(default_factory=dict[AppVersionId, HostAppVersion])
    team_id: TeamId | None = None
    workload: tuple[BookedJob, ...] = ()  #: jobs of all projects that the client holds, for the EDF test
    sticky_files: frozenset[str] = frozenset()  #: files of the project that the host keeps
    previous_request_time: float = 0.0  #: Unix seconds of the host's previous request for work; 0 = none

    @property
    def anonymous(self) -> bool:
        """Return whether the client brings its own app versions."""
        return not self.platforms or self.platforms[0] == ANONYMOUS_PLATFORM

    @property
    def in_browser(self) -> bool:
        """Return whether the jobs would be computed on a page of the project, in a visitor's browser."""
        return BROWSER_PLATFORM in self.platforms

    @property
    def runs_scripts(self) -> bool:
        """Return whether the launcher of commands, a script, can be started there."""
        return not self.in_browser and starts_scripts(self.platforms[0])
