"""Run lists that stand: looks that are left out would have changed nothing."""

from __future__ import annotations

from dataclasses import asdict, replace
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times

from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.decisions import DecisionRound
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import JobDescription
from cobblestone.policy.client.estimates import remaining_2007, remaining_elapsed
from cobblestone.policy.client.published.run_list import EstimatedNeed, calm_seconds, need_2007, need_recent
from cobblestone.simulator.paper import cells
from cobblestone.simulator.population.run import PopulationRun, run_population
from cobblestone.simulator.world.host_tables import draw_hosts
from cobblestone.simulator.world.scenario import AppModel, JobSizes, ProjectModel, Scenario, ServerModel

POLICIES = [
    PolicyChoice.parse(text)
    for text in ("CS1_WF1_WS1_JC1", "CS2_WF2_WS2_JC2", "CS2_WF2_WS1_JC1", "CS4_WF4_WS1_JC2")
]
FRACTIONS = st.floats(0.0, 1.0)


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    mean = 2.2e9 * draw(st.sampled_from([3 * 3600.0, 8 * 3600.0, DAY]))
    app = AppModel(
        latency_bound=draw(st.sampled_from([DAY, 2 * DAY, 7 * DAY])),
        flops_estimate=mean * draw(st.sampled_from([0.3, 1.0, 3.0])),
        sizes=JobSizes(mean=mean, stdev=mean * draw(st.sampled_from([0.0, 0.3, 1.5])), kind="lognormal"),
        error_rate=draw(st.sampled_from([0.0, 0.1])),
        checkpoint_period=draw(st.sampled_from([0.0, 900.0])),
    )
    # jobs with less time overtake those that came before them
    apps = (
        app,
        replace(app, name="hurried", latency_bound=app.latency_bound * draw(st.sampled_from([0.4, 0.7]))),
    )
    server = ServerModel(min_quorum=draw(st.integers(1, 2)), target_results=2)
    scenario = replace(
        cells.base(), duration=3 * DAY, projects=(ProjectModel(name="P", apps=apps, server=server),)
    )
    buffers = draw(st.sampled_from([0.0, 0.1, 1.0]))
    return replace(scenario, preferences=replace(scenario.preferences, buffer_additional=buffers * DAY))


def figures(run: PopulationRun) -> list[float]:
    """Everything that was counted, of the project and of every host."""
    (tally,) = run.tallies
    found: list[float] = []
    for each in asdict(tally).values():
        if isinstance(each, dict):
            found += [*each.keys(), *each.values()]
        else:
            found += each if isinstance(each, list) else [each]
    for books in run.books:
        (book,) = books.projects
        found += [
            book.sent,
            book.rpcs,
            book.met,
            book.missed,
            book.errors,
            book.refused,
            book.used,
            book.late,
        ]
    return found


@settings(max_examples=times(5), deadline=None)
@given(world=worlds(), policy=st.sampled_from(POLICIES), seed=st.integers(0, 1000))
def test_looks_that_are_left_out_would_have_changed_nothing(
    world: Scenario, policy: PolicyChoice, seed: int
) -> None:
    hosts = draw_hosts(2, seed=seed)
    found = run_population(world, hosts, policy, seed=seed)
    with mock.patch.object(DecisionRound, "_list_stands", lambda self: self.state.slice):
        every_slice = run_population(world, hosts, policy, seed=seed)
    # sums of seconds are rounded in another order
    assert figures(found) == pytest.approx(figures(every_slice), rel=1e-6, abs=1e-3)


@given(
    seconds=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=12),
    growth=st.floats(0.0, 1.0),
    ncpus=st.integers(1, 4),
    speed=st.floats(0.01, 1.0),
    until=st.lists(st.floats(0.0, 1e7), min_size=12, max_size=12),
    part=FRACTIONS,
)
def test_no_job_ends_after_its_cutoff_while_all_is_calm(
    seconds: list[float], growth: float, ncpus: int, speed: float, until: list[float], part: float
) -> None:
    needs = [EstimatedNeed(each, growth) for each in seconds]
    until = until[: len(seconds)]
    calm = calm_seconds(needs, ncpus=ncpus, speed=speed, until_cutoffs=until)
    if calm <= 0.0:
        return
    later = calm * part
    processors = [0.0] * ncpus
    for each, cutoff in zip(seconds, until, strict=True):
        processors.sort()
        processors[0] += (each + growth * later) / speed
        assert processors[0] <= (cutoff - later) * (1.0 + 1e-9) + 1e-6


@given(
    estimate=st.floats(1.0, 1e6),
    done=st.floats(0.0, 2e6),
    fraction=st.one_of(st.none(), FRACTIONS),
    later=st.floats(0.0, 1e6),
    progress=FRACTIONS,
)
@example(estimate=1.0, done=1333334.0, fraction=1e-9, later=0.0, progress=0.25)
def test_no_progress_makes_a_job_need_more_than_its_bound(
    estimate: float, done: float, fraction: float | None, later: float, progress: float
) -> None:
    after = done + later
    reached = (fraction or 0.0) + (1.0 - (fraction or 0.0)) * progress
    job = running(done, fraction)
    job.remaining = remaining_2007(estimate=estimate, used=done, fraction_done=fraction or 0.0)
    need = need_2007(job, estimate)
    found = remaining_2007(estimate=estimate, used=after, fraction_done=reached)
    assert found <= (need.seconds + need.growth * later) * (1.0 + 1e-9) + 1e-6


@given(
    estimate=st.floats(1.0, 1e6),
    done=st.floats(0.0, 2e6),
    fraction=st.one_of(st.none(), FRACTIONS),
    reported=FRACTIONS,
    exact=st.booleans(),
    later=FRACTIONS,
    progress=st.one_of(st.none(), FRACTIONS),
)
@example(estimate=3.0, done=5e-324, fraction=None, reported=0.0, exact=False, later=5e-324, progress=None)
def test_nor_does_it_in_todays_family(
    estimate: float,
    done: float,
    fraction: float | None,
    reported: float,
    exact: bool,
    later: float,
    progress: float | None,
) -> None:
    job = running(done, fraction)
    at = done * reported  # the time when the fraction was last reported
    job.exact_fraction, job.fraction_at = exact, at
    job.remaining = remaining_elapsed(
        estimate=estimate, elapsed=done, fraction_done=fraction, elapsed_at_fraction=at, exact_fraction=exact
    )
    need = need_recent(job, estimate, 7200.0)
    if need.lasts <= 0.0:
        return
    seconds = later * min(need.lasts, 1e6)
    after, reached = done + seconds, fraction
    if progress is not None:
        reached, at = (fraction or 0.0) + (1.0 - (fraction or 0.0)) * progress, after
    found = remaining_elapsed(
        estimate=estimate, elapsed=after, fraction_done=reached, elapsed_at_fraction=at, exact_fraction=exact
    )
    assert found <= (need.seconds + need.growth * seconds) * (1.0 + 1e-6) + 1e-3


def test_jobs_that_began_together_are_not_called_overdue_by_the_last_digit() -> None:
    elapsed = 58130.06091343955
    found = [
        remaining_elapsed(estimate=estimate, elapsed=elapsed, fraction_done=0.5)
        for estimate in (elapsed * (1.0 - 2e-16), elapsed * (1.0 + 2e-16))
    ]
    assert found[0] == pytest.approx(found[1])


def running(done: float, fraction: float | None) -> ClientJob:
    job = ClientJob.of(
        JobDescription(id="j", project="P", app="a", estimate=1.0, received=0.0, deadline=1e9), 0
    )
    job.move("start")
    job.done, job.fraction_done = done, fraction
    return job
