"""An optimiser as attacker: it looks for the best reply to the published rules of a system.

Differential evolution over the numbers of `searched`.  What it finds is confirmed on seeds that it has not seen, since the best
of many tries is partly luck.  Source: Storn and Price, *Differential evolution* (1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from cobblestone.credit_lab.attacks.searched import PARAMETERS, searched
from cobblestone.credit_lab.bench.measures import attack_figures, baseline
from cobblestone.credit_lab.bench.streams import LARGEST_SEED, generator, stream_key
from cobblestone.credit_lab.bench.tasks import play
from cobblestone.credit_lab.bench.worlds import World, find_world
from cobblestone.credit_lab.systems.find import find_contender

#: Fresh seeds.
CONFIRMED_WITH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Where an optimiser looks, and how long."""

    system: str
    world: str = "normal-q1"
    seed: int = 1
    hosts: int = 200
    jobs: int = 20_000
    rounds: int = 20
    crowd: int = 4  #: tries of a round / numbers of an attack


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The best attack found."""

    attack: str  #: its name, which makes it again
    gain: float  #: on the seed of the search
    confirmed: float  #: mean on fresh seeds
    largest: float  #: of these
    tries: int
    search: Search

    def as_data(self) -> dict[str, Any]:  # Any: JSON
        """Return it for JSON."""
        return asdict(self) | {"scenario": f"{self.search.world}/{self.attack}"}


def look_for_attack(
    search: Search, progress: Callable[[int, int], None] = lambda done, total: None
) -> Finding:
    """Search; ``progress`` is told the tries done and their number at most."""
    optimise: Any = import_module("scipy.optimize")  # Any: SciPy has no types
    world = replace(find_world(search.world), hosts=search.hosts, jobs=search.jobs)
    base = _base(search, world, search.seed)
    total = (search.rounds + 1) * search.crowd * len(PARAMETERS)
    tries = 0

    def lost(numbers: Any) -> float:
        nonlocal tries
        tries += 1
        progress(min(tries, total), total)
        return -_gain(search, world, search.seed, numbers, base)

    found = optimise.differential_evolution(
        lost,
        [(low, high) for _, low, high in PARAMETERS],
        maxiter=search.rounds,
        popsize=search.crowd,
        polish=False,
        tol=0.0,
        rng=np.random.default_rng(stream_key(search.seed, "optimiser")),
    )
    numbers = [float(f"{number:.3g}") for number in found.x]
    fresh = [stream_key(search.seed, "fresh", n) & LARGEST_SEED for n in range(CONFIRMED_WITH)]
    gains = [_gain(search, world, seed, numbers, _base(search, world, seed)) for seed in fresh]
    return Finding(
        attack=searched(numbers).name,
        gain=-float(found.fun),
        confirmed=math.fsum(gains) / len(gains),
        largest=max(gains),
        tries=tries,
        search=search,
    )


def _base(search: Search, world: World, seed: int) -> Any:
    return baseline(play(world, None, seed, [find_contender(search.system)])[0])


def _gain(search: Search, world: World, seed: int, numbers: Any, base: Any) -> float:
    """Return the gain; one who computes nothing right gains nothing."""
    scene = play(world, searched(numbers), seed, [find_contender(search.system)])[0]
    gain = attack_figures(scene, base, generator(seed, "bootstrap"))["gain"]
    return gain if math.isfinite(gain) else 0.0
