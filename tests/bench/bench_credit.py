"""How fast credit is computed: ``PYTHONPATH=src:. python tests/bench/bench_credit.py``.

The policy, as the validator calls it, grants workunits one by one; and systems pay a small world of the benchmark of credit.
One core; figures are workunits (or results) per second of CPU time, best of several rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tests.helpers.credit_builders import NOW, WORKUNIT, claiming, host, statistics

from cobblestone.credit_lab.bench.tasks import play
from cobblestone.credit_lab.bench.worlds import find_world
from cobblestone.credit_lab.systems.find import find_contender
from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.statistics import CreditStatement
from cobblestone.policy.credit.claims import VersionStatistics
from cobblestone.policy.credit.host_records import host_version_after, version_after
from cobblestone.policy.credit.rac import credited
from cobblestone.policy.credit.registry import credit_system
from cobblestone.policy.credit.system import grant_workunit

WORKUNITS = 3000
ROUNDS = 3

#: Floors that every machine of the last ten years should pass, by the name that `figures` uses.
FLOORS = {
    "policy: creditnew-deployed, quorum 2, workunits": 3_000.0,
    "laboratory: creditnew-deployed, results": 2_000.0,
    "laboratory: ledger, results": 2_000.0,
}


def per_second(work: Callable[[], object], amount: int) -> float:
    """Amount of work per second of CPU time, best of some rounds after one to warm up."""
    work()
    seconds: list[float] = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return amount / min(seconds)


def validate(system_name: str) -> None:
    """What the policy does of a validator's work: grant, learn, four recent averages per result."""
    system = credit_system(system_name)
    known = statistics(500, 1.0, scale=0.9)
    inputs = [claiming(20.0, 1, host_version=host(30, 1.1)), claiming(23.0, 2, host_version=host(9, 0.9))]
    version = VersionStatistics()
    for _ in range(WORKUNITS):
        outcome = grant_workunit(system, WORKUNIT, inputs, known, now=NOW)
        for increment in outcome.increments.host_versions:
            host_version_after(HostVersionStatistics(), increment)
        for increment in outcome.increments.versions:
            version = version_after(version, increment)
        for result in outcome.results:
            for _ in ("host", "user", "team", "version"):
                credited(CreditStatement(), credit=result.granted, work_start=NOW - 1e5, now=NOW)


def figures() -> dict[str, float]:
    """Everything that is measured, per second."""
    found = {
        f"policy: {name}, quorum 2, workunits": per_second(lambda name=name: validate(name), WORKUNITS)
        for name in ("benchmark", "creditnew-designed", "creditnew-deployed")
    }
    world = replace(find_world("normal-q2"), hosts=100, jobs=3000)
    for name in ("creditnew-deployed", "ledger"):
        contender = [find_contender(name)]
        found[f"laboratory: {name}, results"] = per_second(
            lambda contender=contender: play(world, None, 1, contender), 2 * world.jobs
        )
    return found


def main() -> None:
    """Print the figures, and the floors that they are held against."""
    for name, value in figures().items():
        floor = f"   floor {FLOORS[name]:>12,.0f}" if name in FLOORS else ""
        print(f"{name:<50} {value:>14,.0f} /s{floor}")


if __name__ == "__main__":
    main()
