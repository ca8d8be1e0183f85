"""The compiled twins of the round-robin simulations give the same numbers, to the last bit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.estimates import remaining_2007
from cobblestone.policy.client.round_robin import ProjectQueue
from cobblestone.policy.client.round_robin_backends import PURE, RunningJob
from cobblestone.simulator import presets
from cobblestone.simulator.compiled import load_compiled
from cobblestone.simulator.paper.admission_2007 import sorted_2007
from cobblestone.simulator.run import simulate
from cobblestone.simulator.scenario import DAY, Compatibility

#: Few different sizes, so that jobs end at the same moment.
SIZES = st.one_of(st.sampled_from([0.0, 100.0, 3600.0, 13_000.0, 26_000.0]), st.floats(0.0, 1e6))
SHARES = st.one_of(st.sampled_from([0.0, 100.0, 200.0]), st.floats(0.0, 1e3))


@st.composite
def queues(draw: st.DrawFn) -> list[ProjectQueue]:
    """Jobs of some projects."""
    found: list[ProjectQueue] = []
    for _ in range(draw(st.integers(1, 7))):
        remaining = draw(st.lists(SIZES, max_size=7))
        cutoffs = draw(st.lists(st.floats(-1e5, 1e6), min_size=len(remaining), max_size=len(remaining)))
        found.append(ProjectQueue(draw(SHARES), remaining, cutoffs))
    return found


@settings(deadline=None)
@given(
    queues(),
    st.floats(0.0, 1e6),
    st.integers(1, 5),
    st.floats(0.0, 1.5),
    st.sampled_from([1.0, 30_240.0, 172_800.0]),
    st.randoms(use_true_random=False),
)
def test_compiled_and_pure_round_robin_are_equal(
    projects: list[ProjectQueue], now: float, ncpus: int, fraction: float, buffer: float, rng: object
) -> None:
    compiled = load_compiled()
    assert compiled is not PURE
    total = sum(p.share for p in projects)
    world = {"now": now, "cpu_fraction": fraction, "buffer_seconds": buffer}
    assert compiled.queues(projects, ncpus=ncpus, total_share=total, **world) == PURE.queues(
        projects, ncpus=ncpus, total_share=total, **world
    )
    jobs = [
        (i, left, cutoff)
        for i, p in enumerate(projects)
        for left, cutoff in zip(p.remaining, p.cutoffs, strict=True)
    ]
    rng.shuffle(jobs)  # type: ignore[attr-defined]  # Hypothesis hands over a random.Random
    shares = [p.share for p in projects]
    assert compiled.steps(jobs, ncpus=ncpus, shares=shares, **world) == PURE.steps(
        jobs, ncpus=ncpus, shares=shares, **world
    )


@pytest.mark.parametrize("literal", [True, False])
def test_a_run_with_compiled_twins_is_the_same_run(literal: bool) -> None:
    compatibility = Compatibility.year_2007(literal=True) if literal else None
    scenario = presets.mix(6, bound=presets.TIGHT_BOUND, compatibility=compatibility)
    runs = [
        simulate(scenario, PolicyChoice(), backends=backends).metrics for backends in (PURE, load_compiled())
    ]
    assert runs[0] == runs[1]
    assert scenario.duration == 100 * DAY


def test_equal_deadlines_come_in_the_order_of_the_c_library() -> None:
    # found with GCC's std::sort on (k mod 3) for k = 0 ... 19
    jobs = [(float(k % 3), float(k), -1.0) for k in range(20)]
    assert [int(job[1]) for job in sorted_2007(jobs)] == [
        18, 3, 15, 6, 12, 9, 0, 10, 19, 16, 13, 7, 4, 1, 11, 8, 14, 5, 17, 2
    ]  # fmt: skip


@settings(deadline=None)
@given(
    queues(),
    st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e6), st.floats(1.0, 1e6)), max_size=4),
    st.integers(1, 40),
    st.lists(st.floats(0.0, 1.5), min_size=1, max_size=6),
)
def test_polls_to_come_are_simulated_together_as_one_by_one(
    projects: list[ProjectQueue], tasks: list[tuple[float, float, float]], first: int, fractions: list[float]
) -> None:
    compiled = load_compiled()
    assert compiled.coming is not None
    jobs = [
        (i, left, cutoff)
        for i, p in enumerate(projects)
        for left, cutoff in zip(p.remaining, p.cutoffs, strict=True)
    ]
    running = [RunningJob(k, *task) for k, task in enumerate(tasks[: len(jobs)])]
    shares = [p.share for p in projects]
    found = compiled.coming(
        jobs,
        running,
        now=1000.0,
        poll_seconds=60.0,
        first=first,
        ncpus=2,
        cpu_fractions=fractions,
        buffer_seconds=30_240.0,
        shares=shares,
    )
    assert len(found) == len(fractions)
    for poll, (fraction, outcome) in enumerate(zip(fractions, found, strict=True), first):
        later = list(jobs)
        for k, done, estimate, size in running:
            used = done + 60.0 * poll
            left = remaining_2007(estimate=estimate, used=used, fraction_done=used / size)
            later[k] = (jobs[k][0], left, jobs[k][2])
        assert outcome == PURE.steps(
            later,
            now=1000.0 + 60.0 * poll,
            ncpus=2,
            cpu_fraction=fraction,
            buffer_seconds=30_240.0,
            shares=shares,
        )
