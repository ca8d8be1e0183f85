"""Many runs: every (system, scenario, seed) is a file, and what is there is not run again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cobblestone.credit_lab.attacks.acts import Attack
from cobblestone.credit_lab.attacks.catalogue import ATTACKS, find_attack
from cobblestone.credit_lab.bench.measures import Figures, Scene, attack_figures, baseline, honest_figures
from cobblestone.credit_lab.bench.run import NONE, Run
from cobblestone.credit_lab.bench.streams import LARGEST_SEED, generator, stream_key
from cobblestone.credit_lab.bench.worlds import WORLDS, World, find_world, known_size, sized
from cobblestone.credit_lab.systems.find import OWN, VISIBLE, Contender, find_contender
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.files import write_durably
from cobblestone.sweep.backends import open_backend

FIRST_SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run."""

    systems: tuple[str, ...]
    scenarios: tuple[str, ...]  #: WORLD-qN or WORLD-qN/ATTACK
    size: str = "S"
    seeds: tuple[int, ...] = (FIRST_SEED,)
    strict: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is."""
        for seed in self.seeds:
            if not 0 <= seed <= LARGEST_SEED:
                raise ConfigError(f"seed {seed}: allowed are 0 … {LARGEST_SEED}")
        for scenario in self.scenarios:
            parts_of(scenario, self.size)
        for system in self.systems:
            find_contender(system)


@dataclass(frozen=True, slots=True)
class Task:
    """One scenario and seed, for systems whose results are checked in the same way."""

    scenario: str
    size: str
    seed: int
    systems: tuple[str, ...]
    bases: tuple[Figures, ...] = ()  #: of the same systems without attackers
    strict: bool = False


def all_scenarios() -> list[str]:
    """Return every scenario: the worlds, and each attack in its world."""
    found = list(WORLDS)
    for name, attack in ATTACKS.items():
        world = "lasting" if attack.lasting else attack.world
        found += [f"{world}-q{quorum}/{name}" for quorum in attack.quorums]
    return found


_CORE = ("normal-q2", "normal-q1", "normal-q1/time-x10", "normal-q1/ring-x3")


def default_scenarios(size: str) -> tuple[str, ...]:
    """Return the scenarios that a size has by default: all, of the largest one a core."""
    return _CORE if size == "L" else tuple(all_scenarios())


def scene_of(scenario: str, size: str, seed: int, system: str) -> Scene:
    """Run one scenario under a system."""
    Plan(systems=(system,), scenarios=(scenario,), size=size, seeds=(seed,))
    world, attack = parts_of(scenario, size)
    return play(world, find_attack(attack) if attack else None, seed, [find_contender(system)])[0]


def chosen_scenarios(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the scenarios that patterns (``*`` and ``?``) name, or that are written out; all without patterns."""
    known = all_scenarios()
    chosen: dict[str, None] = {}
    for pattern in patterns:
        matched = [each for each in known if fnmatchcase(each, pattern)]
        if not matched:
            parts_of(pattern, "S")  # an attack with another strength, or a mixture
        chosen |= dict.fromkeys(matched or [pattern])
    return tuple(chosen) or tuple(known)


def parts_of(scenario: str, size: str) -> tuple[World, str]:
    """Return the world of a scenario at a size, and the name of its attack.

    Raises:
        ConfigError: there is no such scenario.
    """
    world, _, attack = scenario.partition("/")
    if attack:
        find_attack(attack)
    return sized(find_world(world), size), attack


def seeds_from(first: int, number: int | None, size: str) -> tuple[int, ...]:
    """Return consecutive seeds; as many as the size has by default."""
    return tuple((first + more) & LARGEST_SEED for more in range(number or known_size(size)[2]))


def path_of(folder: Path, system: str, scenario: str, size: str, seed: int) -> Path:
    """Return the file of a result."""
    clean = str.maketrans({":": "_", "/": "_", "\\": "_"})
    return folder / "results" / system.translate(clean) / f"{scenario.translate(clean)}-{size}-{seed}.json"


def run_task(task: Task) -> dict[str, Any]:  # Any: JSON
    """Run a scenario for systems; figures of each, and the baseline if there are no attackers."""
    world, name = parts_of(task.scenario, task.size)
    attack = find_attack(name) if name else None
    scenes = play(world, attack, task.seed, list(map(find_contender, task.systems)), strict=task.strict)
    found: dict[str, Any] = {}
    for place, (system, scene) in enumerate(zip(task.systems, scenes, strict=True)):
        if attack is None:
            entry = {"figures": honest_figures(scene), "base": baseline(scene)}
        else:
            rng = generator(task.seed, "bootstrap")
            entry = {"figures": attack_figures(scene, task.bases[place], rng)}
        found[system] = _plain(entry | {"problems": scene.pay.problems})
    return found


def play(
    world: World, attack: Attack | None, seed: int, contenders: Sequence[Contender], *, strict: bool = False
) -> list[Scene]:
    """Run a world once under systems whose results are checked in the same way; one that checks itself comes alone."""
    checks = contenders[0].checks
    run = Run(world, seed, attack=attack, checks=checks if world.quorum == 1 or checks == OWN else NONE)
    key, early = stream_key(seed, "system"), world.early > 0.0
    watchers = [
        each.watcher(world.quorum, run.accounts, key, early_exits=early, strict=strict) for each in contenders
    ]
    tape = run.finish(watchers)
    return [Scene(world=world, hosts=run.hosts, tape=tape, pay=watcher.pay()) for watcher in watchers]


def _plain(value: Any) -> Any:  # Any: JSON
    """Return a value as JSON can hold it: what is not finite is absent."""
    several: Any = value
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in several.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in several]
    return None if isinstance(value, float) and not math.isfinite(value) else several


def run_plan(
    plan: Plan,
    folder: Path,
    *,
    scheduler: str = "",
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """Run what is missing, and return the files of all; honest scenarios first, since gains are measured by them."""
    honest = tuple(dict.fromkeys(scenario.partition("/")[0] for scenario in plan.scenarios))
    attacks = tuple(each for each in plan.scenarios if "/" in each)
    paths = [
        path_of(folder, system, scenario, plan.size, seed)
        for system in plan.systems
        for scenario in (*honest, *attacks)
        for seed in plan.seeds
    ]
    done = sum(path.is_file() for path in paths)
    progress(done, len(paths))
    with closing(open_backend(scheduler, workers=workers)) as backend:
        for scenarios in (honest, attacks):
            tasks = list(_tasks(plan, folder, scenarios))
            futures = {backend.submit(run_task, task): task for task in tasks}
            for future, entries in backend.as_completed(futures):
                task = futures.pop(future)
                for system, entry in entries.items():
                    _write(folder, task, system, entry)
                    done += 1
                progress(done, len(paths))
    return paths


def _tasks(plan: Plan, folder: Path, scenarios: tuple[str, ...]) -> Iterator[Task]:
    """Yield what is missing, systems that see the same tape together."""
    for scenario in scenarios:
        together: dict[str, list[str]] = {}
        for system in plan.systems:
            checks = find_contender(system).checks
            if "-q2" in scenario and checks != OWN:  # nothing is checked: all see the same
                checks = VISIBLE
            alone = checks == OWN or plan.size == "L"  # of the largest size, one needs enough memory
            together.setdefault(system if alone else checks, []).append(system)
        for seed in plan.seeds:
            for group in together.values():
                missing = [
                    each for each in group if not path_of(folder, each, scenario, plan.size, seed).is_file()
                ]
                if missing:
                    bases = _bases(plan, folder, scenario, seed, missing)
                    yield Task(scenario, plan.size, seed, tuple(missing), bases, plan.strict)


def _bases(plan: Plan, folder: Path, scenario: str, seed: int, systems: list[str]) -> tuple[Figures, ...]:
    world, _, attack = scenario.partition("/")
    if not attack:
        return ()
    return tuple(
        json.loads(path_of(folder, system, world, plan.size, seed).read_text(encoding="utf-8"))["base"]
        for system in systems
    )


def _write(folder: Path, task: Task, system: str, entry: dict[str, Any]) -> None:  # Any: JSON
    path = path_of(folder, system, task.scenario, task.size, task.seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {"system": system, "scenario": task.scenario, "size": task.size, "seed": str(task.seed)}
    write_durably(path, json.dumps(head | entry).encode())


def command_of(entry: dict[str, Any]) -> str:  # Any: JSON
    """Return the command that makes a result again."""
    return (
        f"cobblestone creditbench run OUT --size {entry['size']} --seed {entry['seed']} --seeds 1"
        f" --system {entry['system']} --only {entry['scenario']}"
    )
