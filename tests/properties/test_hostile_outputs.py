"""Whatever volunteers upload is compared or refused, in time that grows with its size alone and in bounded memory.

A long run, which prints the seed of every find::

    python -m tests.properties.test_hostile_outputs --seconds 600 [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import resource
import time
from collections.abc import Iterator, Sequence

import pytest
from tests.helpers.effort import times
from tests.helpers.hostile_outputs import HOSTILE, RULES, mutants

from cobblestone.domain.work import OutputSpec
from cobblestone.ops.settings import ChecksSection
from cobblestone.policy.validation.agreement import compare, parse_comparison, usable
from cobblestone.server.daemons.workers import Workers

MANY = 3_000
SLOWEST_SECONDS = 10.0
"""Reading and comparing an output of up to 200 MB, on a busy machine; the worst took minutes to hours before."""


def look_at(name: str, one: bytes, other: bytes, rules: Sequence[str] = RULES) -> None:
    """Do what a validator does with two outputs of a job, by built-in rules."""
    specs = (OutputSpec(open_name=name, max_nbytes=10**9),)
    for text in rules:
        rule = parse_comparison(text)
        refusals = [usable(rule, {name: content}, specs) for content in (one, other)]
        for refusal in refusals:
            assert refusal is None or len(refusal.text()) < 10_000
        if not any(refusals):
            agreement = compare(rule, {name: one}, {name: other})
            again = compare(rule, {name: other}, {name: one})
            assert agreement.match is again.match
            assert all(len(reason.text()) < 10_000 for reason in agreement.reasons)
            assert agreement.match or one != other


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Worker processes as a validator has them."""
    found = Workers(ChecksSection(workers=1, timeout=120, memory_bytes=1_000_000_000, max_attempts=5))
    yield found
    found.close()


def seconds_for(case: str) -> float:
    """Return the processor time that the look at a hostile output takes, in a worker process."""
    name, make = HOSTILE[case]
    content = make()
    began = time.process_time()
    look_at(name, content, content[:-1] + b"2", ("bitwise", "numeric"))
    return time.process_time() - began


@pytest.mark.parametrize("case", list(HOSTILE))
def test_a_hostile_output_costs_little_time_and_memory(workers: Workers, case: str):
    assert asyncio.run(workers.call(seconds_for, case)) < SLOWEST_SECONDS


@pytest.mark.parametrize("part", range(3))
def test_no_mutant_of_a_good_output_breaks_a_reader(part: int, rng: random.Random):
    for name, one, other in itertools.islice(mutants(rng), times(MANY // 3)):
        look_at(name, one, other)


def main() -> None:
    """Fuzz for a given time."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    slowest, n_tried = 0.0, 0
    for seed in itertools.count(options.seed):
        for number, (name, one, other) in enumerate(itertools.islice(mutants(random.Random(seed)), 1000)):
            began = time.process_time()
            try:
                look_at(name, one, other)
            except BaseException:
                print(f"seed {seed}, mutant {number}: {name}: {one[:200]!r} | {other[:200]!r}")
                raise
            slowest, n_tried = max(slowest, time.process_time() - began), n_tried + 1
        if time.monotonic() >= ends:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{n_tried:,} pairs compared by {len(RULES)} rules, slowest {slowest:.3f} s, peak {peak} MB: nothing found"
    )


if __name__ == "__main__":
    main()
