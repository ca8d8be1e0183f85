"""Shared state of a running account manager, with the list of projects and computers of a kind.

The projects as all parts of a process see them, and how much was done and is expected for each.

Balances change with every contact, in memory.  From time to time what this process booked is added to the stored ones, which
then count here too: so processes that share a database share the balances, some seconds late.  What a crash loses of them are
these seconds of who is next, no account of anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cobblestone.account_manager.core.folder import ManagerFolder, ManagerSettings
from cobblestone.account_manager.model import ComputerFacts, ManagedProject
from cobblestone.account_manager.store import hosts
from cobblestone.account_manager.store import projects as project_rows
from cobblestone.policy.account_manager.accounting import YOUNG_SECONDS
from cobblestone.policy.account_manager.selection import Balance, next_dryness
from cobblestone.service.context import ServiceContext
from cobblestone.store.engine.database import Database, Transaction

V = TypeVar("V")

REMEMBERED_SECONDS = 60.0
MAX_REMEMBERED = 10_000


class Peers:
    """Reads about other computers, in the writer's thread.

    An answer that is a minute old costs at most that minute: what a computer may be counted is limited again at each
    contact, over all of its time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[float, Any]] = {}

    def speeds(self, db: Database, model: str, account_id: int, *, gpu: bool, now: float) -> list[float]:
        """Return the speeds reported by other accounts for a model of processor or GPU, one figure each."""
        if not model:
            return []
        found = self._remembered((model, gpu), now, lambda: hosts.model_speeds(db, model, gpu=gpu))
        return [speed for of, speed in found.items() if of != account_id]

    def n_young(self, db: Database, facts: ComputerFacts, *, now: float) -> int:
        """Return how many computers of a model came recently from an address block."""
        place, since = (facts.address_block, facts.p_model), now - YOUNG_SECONDS
        return self._remembered(place, now, lambda: hosts.n_young(db, *place, since=since))

    def _remembered(self, key: tuple[object, ...], now: float, ask: Callable[[], V]) -> V:
        until, found = self._known.get(key, (0.0, None))
        if not now < until <= now + REMEMBERED_SECONDS:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            until, found = self._known[key] = now + REMEMBERED_SECONDS, ask()
        return found


@dataclass(slots=True)
class _Booked:
    """Changes by contacts of this process since the balances were stored."""

    done: dict[int, Balance] = field(default_factory=dict[int, Balance])
    expected: dict[int, float] = field(default_factory=dict[int, float])

    def add(self, done: Mapping[int, float], expected: Mapping[int, float], now: float) -> None:
        for id_, credit in done.items():
            before = self.done.get(id_, Balance(time=now))
            self.done[id_] = before.changed(done=credit, expected=0.0, now=now)
        for id_, credit in expected.items():
            self.expected[id_] = self.expected.get(id_, 0.0) + credit

    def on(self, id_: int, stored: Balance, now: float) -> Balance:
        """Return a stored balance with the booked changes."""
        done = self.done.get(id_)
        return stored.changed(
            done=done.at(now) if done else 0.0, expected=self.expected.get(id_, 0.0), now=now
        )


class ProjectBooks:
    """Balances and shares of projects: booked by the writer's thread, read by all."""

    def __init__(self) -> None:
        self.projects: tuple[ManagedProject, ...] = ()
        self.by_key: Mapping[str, ManagedProject] = {}
        self.balances: dict[int, Balance] = {}
        self._booked = _Booked()
        self._sharing: list[_Booked] = []  # what is on its way to the database
        self._dryness: dict[int, dict[str, float]] = {}
        self._shared_dryness: dict[int, dict[str, float]] = {}  # as it was stored last

    def load(self, db: Database) -> None:
        """Read the projects again; balances of known ones are kept."""
        found = tuple(project_rows.all_projects(db))
        for project in found:
            if project.id not in self.balances:
                self._take(project, project.done_time)
        self.by_key = {project.address_key: project for project in found}
        self.projects = found

    def dryness(self, project_id: int) -> Mapping[str, float]:
        """Return the part of recent requests without work, by device."""
        return self._dryness.get(project_id, {})

    def book(
        self,
        done: Mapping[int, float],
        expected: Mapping[int, float],
        served: Mapping[tuple[int, str], bool],
        *,
        now: float,
    ) -> None:
        """Book one contact: credit done, change of the expected credit, and whether projects had work by device."""
        self._booked.add(done, expected, now)
        for project_id in done.keys() | expected.keys():
            self.balances[project_id] = self.balances.get(project_id, Balance(time=now)).changed(
                done=done.get(project_id, 0.0), expected=expected.get(project_id, 0.0), now=now
            )
        for (project_id, device), good in served.items():
            levels = self._dryness.setdefault(project_id, {})
            levels[device] = next_dryness(levels.get(device, 0.0), in_vain=not good)

    def share(self, tx: Transaction, *, now: float, expected: Mapping[int, float] | None = None) -> None:
        """Add the booked changes to the stored balances, and continue from these once they are durable.

        ``expected``: what is expected of all computers, where that was counted again.
        """
        self._sharing.append(self._booked)
        self._booked = _Booked()
        changed: list[ManagedProject] = []
        for project in project_rows.locked_projects(tx):
            balance = _stored(project)
            for booked in self._sharing:  # several, where a write was undone
                balance = booked.on(project.id, balance, now)
            changed.append(
                replace(
                    project,
                    done=balance.done,
                    done_time=balance.time,
                    expected=balance.expected if expected is None else expected.get(project.id, 0.0),
                    dryness=self._merged_dryness(project),
                )
            )
        project_rows.put_balances(tx, changed)

        def go_on() -> None:
            self._sharing.clear()
            for project in changed:
                self._take(project, now)

        tx.after_commit.append(go_on)

    def _merged_dryness(self, project: ManagedProject) -> dict[str, float]:
        """Return the stored values with what this process saw since."""
        own, before = self._dryness.get(project.id, {}), self._shared_dryness.get(project.id, {})
        return {
            device: min(
                1.0,
                max(0.0, project.dryness.get(device, 0.0) + own.get(device, 0.0) - before.get(device, 0.0)),
            )
            for device in own.keys() | project.dryness.keys()
        }

    def _take(self, project: ManagedProject, now: float) -> None:
        """Continue from the stored state, keeping changes booked after it."""
        self.balances[project.id] = self._booked.on(project.id, _stored(project), now)
        self._dryness[project.id] = dict(project.dryness)
        self._shared_dryness[project.id] = dict(project.dryness)


def _stored(project: ManagedProject) -> Balance:
    return Balance(done=project.done, time=project.done_time, expected=project.expected)


CHECKER, MAKER, DAYS, COLLECTOR, MAILER = "projects", "project_accounts", "days", "granted", "mailer"
FEED = "rss_main.php"  # the news, as clients are told
#: Daemons of which only one acts at a time, of several processes.  New names go to the end.
DIVIDED_ROLES = (CHECKER, MAKER, DAYS, COLLECTOR, MAILER)


@dataclass(slots=True, kw_only=True)
class ManagerContext(ServiceContext):
    """The open account manager."""

    folder: ManagerFolder
    settings: ManagerSettings
    signing_key: str  #: public, as clients have it
    projects: ProjectBooks = field(default_factory=ProjectBooks)
    peers: Peers = field(default_factory=Peers)

    def __post_init__(self) -> None:
        self.share(self.settings.limits, DIVIDED_ROLES)

    def join_processes(self) -> None:
        """Work together with other processes: receive their signals, and share the daemons with them."""
        self.processes.join((), DIVIDED_ROLES, self.on_notify)
