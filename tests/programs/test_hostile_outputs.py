"""Whatever volunteers upload is compared or refused, in time that grows with its size alone and in bounded memory.

A long run, which prints the seed of every find::

    python -m tests.programs.test_hostile_outputs --seconds 600 [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import resource
import time
from collections.abc import Iterator, Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import example, given
from tests.helpers.effort import times
from tests.helpers.hostile_outputs import HOSTILE, NAMES, RULES, mutants, npy_of

from cobblestone.domain.reasons import sayable_reason
from cobblestone.domain.work import OutputSpec
from cobblestone.ops.settings import ChecksSection
from cobblestone.policy.validation.comparison import (
    COMPARISON_KINDS,
    compare,
    kind_named,
    parse_comparison,
    usable,
)
from cobblestone.server.daemons.workers import Workers

MANY = 1_200
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
            assert all(sayable_reason(reason) == reason for reason in agreement.reasons)
            assert agreement.match or one != other


def test_every_kind_that_compares_by_itself_is_tried_here() -> None:
    rules = [parse_comparison(text) for text in RULES]
    own_functions = {"python"}  # which fail as they like, see tests/integration/test_failing_comparisons.py
    assert {rule.kind for rule in rules} == COMPARISON_KINDS.keys() - own_functions
    assert not any(kind_named(rule.kind).project_function(rule.options) for rule in rules)


BEGUN = (
    "-3e",
    "1e+",
    "2.d",
    "1.5D-",
    ".e3",
    "+.5e",
    "1e999999999",
    "-1e-999999999",
    "nan",
    "-inf",
    "Infinity",
    "iNf",
)
WORDS = st.sampled_from(
    (*BEGUN, "9" * 4299, "9" * 4301, "1" * 5000 + ".5", "\\ud800", "\ud83d", "\0", "\ufeff")
) | st.text("0123456789.+-eEdDnaifNIF_ ", max_size=12)
TEXTS = st.lists(
    WORDS | st.sampled_from(("\n", "\n\n", "\r", ",", ";", "\t", '"', "|", "=", "(")), max_size=20
).map("".join)


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


JSON = st.recursive(
    st.sampled_from(
        (
            "NaN",
            "-Infinity",
            "1e999999999",
            "-0",
            "9" * 4299,
            "9" * 4301,
            "1e5",
            "true",
            '"\\ud800"',
            '"\\u0000"',
        )
    )
    | st.integers().map(str)
    | WORDS,  # which are mostly no JSON
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(inner, max_size=3).map(
            lambda parts: "{" + ",".join(f'"{n}\\udfff": {part}' for n, part in enumerate(parts)) + "}"
        )
        | st.tuples(st.sampled_from((3, 190, 210, 5000)), inner).map(
            lambda deep: "[" * deep[0] + deep[1] + "]" * deep[0]
        )
    ),
    max_leaves=8,
)
LONG_LINES = st.tuples(WORDS, st.integers(1, 3000), TEXTS).map(lambda parts: parts[0] * parts[1] + parts[2])
ARRAYS = st.builds(
    npy_of,
    st.sampled_from(
        (
            "<f8",
            "<i8",
            ">u8",
            "<c16",
            "<f2",
            "|b1",
            "<U2",
            "|S8",
            "<M8[ns]",
            "|O",
            "<f16",
            "\ud800",
            [("a", "<f8")],
        )
    ),
    st.sampled_from(
        ("(1,)", "()", "(1,1)", "(0,)", "(2,)", "(-1,)", "(True,)", "1", "(1e999,)", "(" + "9" * 4301 + ",)")
    ),
    st.binary(max_size=20),
    order=st.booleans(),
)
OUTPUTS = (TEXTS | JSON | LONG_LINES).map(as_bytes) | st.binary(max_size=60) | ARRAYS


@given(name=st.sampled_from(NAMES), one=OUTPUTS, other=OUTPUTS | st.none())
@example(name="r.csv", one=b"n,2.d,-3e\n1,2,3\n", other=b"n,2.d,-3e\n1,2,3.0000001\n")
@example(name="r.txt", one=b"-3e\n", other=b"-3.0\n")
def test_no_kind_of_comparison_raises_whatever_volunteers_send(
    name: str, one: bytes, other: bytes | None
) -> None:
    look_at(name, one, one + b" " if other is None else other)


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
