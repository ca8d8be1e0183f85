"""What other computers of a kind say: remembered for a minute, since thousands of a kind call in a row."""

from __future__ import annotations

from typing import TypeVar

from cobblestone.account_manager.model import HostFacts
from cobblestone.account_manager.store import hosts
from cobblestone.policy.account_manager.accounting import YOUNG_SECONDS
from cobblestone.store.engine.database import Database

K = TypeVar("K")
V = TypeVar("V")

REMEMBERED_SECONDS = 60.0
MAX_REMEMBERED = 10_000


class Peers:
    """Answers from the writer's thread.

    An answer that is a minute old gives nobody more than that minute: what a computer may be counted is limited again at each
    contact, over all of its time.
    """

    def __init__(self) -> None:
        self._speeds: dict[tuple[str, bool], tuple[float, dict[int, float]]] = {}
        self._young: dict[tuple[str, str], tuple[float, int]] = {}

    def speeds(self, db: Database, model: str, account_id: int, *, gpu: bool, now: float) -> list[float]:
        """Return the speeds that other accounts state for a model of processor or GPU, one figure for each."""
        if not model:
            return []
        until, found = self._speeds.get((model, gpu), (0.0, {}))
        if not now < until <= now + REMEMBERED_SECONDS:
            found = hosts.model_speeds(db, model, gpu=gpu)
            _remember(self._speeds, (model, gpu), (now + REMEMBERED_SECONDS, found))
        return [speed for of, speed in found.items() if of != account_id]

    def n_young(self, db: Database, facts: HostFacts, *, now: float) -> int:
        """Return how many computers of a model came from an address block lately."""
        place = facts.address_block, facts.p_model
        until, found = self._young.get(place, (0.0, 0))
        if not now < until <= now + REMEMBERED_SECONDS:
            found = hosts.n_young(db, *place, since=now - YOUNG_SECONDS)
            _remember(self._young, place, (now + REMEMBERED_SECONDS, found))
        return found


def _remember(known: dict[K, V], key: K, answer: V) -> None:
    if len(known) >= MAX_REMEMBERED:
        known.clear()
    known[key] = answer
