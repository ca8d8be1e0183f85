"""Shared state of a running project server: the open project, and the space on its disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from cobblestone.ops.settings import Settings
from cobblestone.server.core.offer import OfferCache
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.core.project import ProjectFolder, ProjectTexts
from cobblestone.server.core.roles import DIVIDED_ROLES, SHARDED, Role, single_of
from cobblestone.server.core.storage import FileStorage, archive_of, open_storage
from cobblestone.service.context import CachedRead, Costly, ServiceContext
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.process_group import ALL
from cobblestone.store.operation.figures import ProjectCounters, project_counters
from cobblestone.store.work.archive import Archive
from cobblestone.store.work.candidates import CandidateQueue


@dataclass(slots=True, kw_only=True)
class ServerContext(ServiceContext):
    """The open project: its folder and settings, what it offers to hosts, and the other processes that serve it."""

    folder: ProjectFolder
    settings: Settings
    candidates: CandidateQueue = field(default_factory=CandidateQueue)
    offers: OfferCache = field(init=False)
    texts: ProjectTexts = field(init=False)
    storage: FileStorage = field(init=False)
    archive: Archive = field(init=False)  #: purged jobs
    state: CachedRead[ProjectCounters] = field(init=False)  #: for all who ask for it
    costly: Costly = field(default_factory=Costly)
    said: dict[str, float] = field(default_factory=dict[str, float])  #: when the log said what
    #: what the checks of the doctor look at that go on
    looks: WeakValueDictionary[str, Database] = field(default_factory=WeakValueDictionary[str, Database])

    def __post_init__(self) -> None:
        self.storage = open_storage(self.folder.root, self.settings.storage)
        self.archive = archive_of(self.folder, self.settings, self.storage)
        self.texts = ProjectTexts(self.folder.root)
        self.offers = OfferCache(lambda: load_plan_classes(self.folder.root), self.settings.scheduler)
        self.state = CachedRead(self, lambda db: project_counters(db, now=self.clock()))
        self.share(self.settings.limits, DIVIDED_ROLES)
        self.store.on_rollback(lambda: self.invalidate({ALL}))

    def join_processes(self, roles: frozenset[Role]) -> None:
        """Work together with other processes: receive their signals, and share the work of ``roles`` with them."""
        self.processes.join([each for each in SHARDED if each in roles], single_of(roles), self.on_notify)

    def gui_urls(self) -> Mapping[str, str]:
        """Return the pages that clients show as buttons: path by title."""
        return {"Your account": "home.php", "Your tasks": "results.php", "Server status": "server_status.php"}

    def invalidate(self, names: set[str]) -> None:
        """See `ServiceContext`: the offer, and the queue of candidates."""
        if names & {"catalogue", ALL}:
            self.offers.invalidate()
        if names & {"candidates", ALL}:
            self.candidates.invalidate()


def free_bytes(ctx: ServerContext) -> int:
    """Return the free bytes on the project's disk."""
    return shutil.disk_usage(ctx.folder.root).free


def disk_is_full(ctx: ServerContext) -> bool:
    """Return whether less space is free than uploads and submissions need."""
    return free_bytes(ctx) < ctx.settings.server.min_free_disk_bytes
