"""What every part of a running account manager shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from cobblestone.account_manager.folder import ManagerFolder
from cobblestone.account_manager.peers import Peers
from cobblestone.account_manager.project_list import ProjectList
from cobblestone.account_manager.settings import ManagerSettings
from cobblestone.service.context import ServiceContext
from cobblestone.service.http.rate_limits import RateLimits
from cobblestone.store.engine.process_group import ALL, ProcessGroup

CHECKER, MAKER, DAYS, COLLECTOR, MAILER = "projects", "project_accounts", "days", "granted", "mailer"
FEED = "rss_main.php"  # the news, as clients are told
DIVIDED_ROLES = (CHECKER, MAKER, DAYS, COLLECTOR, MAILER)
"""Daemons of which only one acts at a time, of several processes.  New names go to the end."""


@dataclass(slots=True, kw_only=True)
class ManagerContext(ServiceContext):
    """The open account manager."""

    folder: ManagerFolder
    settings: ManagerSettings
    signing_key: str  #: public, as clients have it
    projects: ProjectList = field(default_factory=ProjectList)
    peers: Peers = field(default_factory=Peers)
    limits: RateLimits = field(init=False)
    processes: ProcessGroup = field(init=False)  #: those of this account manager

    def __post_init__(self) -> None:
        self.processes = self.store.process_group(DIVIDED_ROLES)
        self.limits = RateLimits(self.settings.limits, share=self.processes.notify)
        self.store.set_waker(self._on_commit)

    def join_processes(self) -> None:
        """Work beside other processes: hear their signals, and share the daemons with them."""
        self.processes.join((), DIVIDED_ROLES, self._on_notify)

    def _on_commit(self, names: set[str]) -> None:
        self.signals.notify_threadsafe(names)
        self.processes.notify(names)

    def _on_notify(self, names: set[str]) -> None:
        # In a thread of the process group.
        self.limits.hear(names, now=self.clock())
        if ALL in names:
            self.signals.notify_all_threadsafe()
        else:
            self.signals.notify_threadsafe(names)
