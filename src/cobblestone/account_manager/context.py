"""What every part of a running account manager shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cobblestone.account_manager.folder import ManagerFolder
from cobblestone.account_manager.model import ManagedProject
from cobblestone.account_manager.peers import Peers
from cobblestone.account_manager.settings import ManagerSettings
from cobblestone.account_manager.store import projects as project_rows
from cobblestone.policy.account_manager.selection import Balance, next_dryness
from cobblestone.service.context import ServiceContext
from cobblestone.service.http.rate_limits import RateLimits
from cobblestone.store.engine.database import Database


class ProjectList:
    """The projects, and what was done and is expected for each, in memory.

    Balances change with every contact, in the writer's thread and after its commit; they are stored from time to time.  What a
    crash loses of them are some seconds of who is next, no account of anybody.
    """

    def __init__(self) -> None:
        self.projects: tuple[ManagedProject, ...] = ()
        self.by_key: Mapping[str, ManagedProject] = {}
        self.balances: dict[int, Balance] = {}
        self._dryness: dict[int, dict[str, float]] = {}

    def load(self, db: Database, *, expected_since: float | None = None) -> None:
        """Read the projects again; with a time also what is expected, by computers that called since then."""
        found = tuple(project_rows.all_projects(db))
        expected = None if expected_since is None else project_rows.expected_work(db, since=expected_since)
        for project in found:
            known = self.balances.get(project.id)
            if known is None:
                known = Balance(done=project.done, time=project.done_time)
                self._dryness[project.id] = dict(project.dryness)
            if expected is not None:
                known = Balance(done=known.done, time=known.time, expected=expected.get(project.id, 0.0))
            self.balances[project.id] = known
        self.by_key = {project.address_key: project for project in found}
        self.projects = found

    def dryness(self, project_id: int) -> Mapping[str, float]:
        """Return the part of recent requests in vain, by device."""
        return self._dryness.get(project_id, {})

    def book(
        self,
        done: Mapping[int, float],
        expected: Mapping[int, float],
        served: Mapping[tuple[int, str], bool],
        *,
        now: float,
    ) -> None:
        """Book one contact: credit that was done, what is expected more or less, and whether projects had work by device."""
        for project_id in done.keys() | expected.keys():
            self.balances[project_id] = self.balances.get(project_id, Balance(time=now)).changed(
                done=done.get(project_id, 0.0), expected=expected.get(project_id, 0.0), now=now
            )
        for (project_id, device), good in served.items():
            levels = self._dryness.setdefault(project_id, {})
            levels[device] = next_dryness(levels.get(device, 0.0), in_vain=not good)

    def with_balances(self) -> list[ManagedProject]:
        """Return the projects as they are to be stored now."""
        return [
            replace(
                project,
                done=self.balances[project.id].done,
                done_time=self.balances[project.id].time,
                dryness=dict(self._dryness.get(project.id, {})),
            )
            for project in self.projects
        ]


@dataclass(slots=True, kw_only=True)
class ManagerContext(ServiceContext):
    """The open account manager."""

    folder: ManagerFolder
    settings: ManagerSettings
    signing_key: str  #: public, as clients have it
    projects: ProjectList = field(default_factory=ProjectList)
    peers: Peers = field(default_factory=Peers)
    limits: RateLimits = field(init=False)

    def __post_init__(self) -> None:
        self.limits = RateLimits(self.settings.limits)
        self.store.set_waker(self._on_commit)

    def _on_commit(self, names: set[str]) -> None:
        self.signals.notify_threadsafe(names)
