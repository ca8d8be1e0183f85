"""What must hold in every simulation."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.protocol import Policy
from cobblestone.simulator.host import run as clients_module
from cobblestone.simulator.host.driver import Network, SimulatedClient
from cobblestone.simulator.host.engine import MAX_ROUNDS, HostRun, SimulationFault
from cobblestone.simulator.host.run import RunResult, simulate
from cobblestone.simulator.paper import cells
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import (
    AppModel,
    Compatibility,
    Gpus,
    HostModel,
    JobSizes,
    OnOff,
    Preferences,
    ProjectModel,
    Scenario,
)

BASE = PolicyChoice()
ALWAYS_ON = OnOff()
POLICIES = [
    PolicyChoice.parse(t)
    for t in (
        "CS1_WF1_WS1_JC1",
        "CS2_WF2_WS2_JC2",
        "CS2_WF1_WS2_JC2",
        "CS3_WF3_WS2_JC2",
        "CS4_WF4_WS1_JC2",
        "CS4_WF4_WS2_JC2",
    )
]


def always_on(scenario: Scenario) -> Scenario:
    return replace(scenario, host=replace(scenario.host, availability=ALWAYS_ON))


def run(scenario: Scenario, policy: PolicyChoice = BASE, seed: int = 1) -> RunResult:
    return simulate(scenario, policy, seed=seed)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Small worlds with everything in them: off-time, errors, checkpoints, transfers, downtime, GPUs."""
    number = draw(st.integers(1, 4))
    gpu = draw(st.booleans())
    projects: list[ProjectModel] = []
    for i in range(number):
        size = draw(st.floats(2e12, 3e13))
        app = AppModel(
            latency_bound=draw(st.floats(3600.0, 5 * DAY)),
            flops_estimate=size / draw(st.sampled_from([0.5, 1.0, 3.0])),
            sizes=JobSizes(
                mean=size,
                stdev=size * draw(st.sampled_from([0.0, 0.3, 5.0])),
                kind=draw(st.sampled_from(["normal", "lognormal"])),
            ),
            checkpoint_period=draw(st.sampled_from([0.0, 600.0])),
            error_rate=draw(st.sampled_from([0.0, 0.2])),
            early_exit_rate=draw(st.sampled_from([0.0, 0.1])),
            input_bytes=draw(st.sampled_from([0.0, 1e6])),
            output_bytes=draw(st.sampled_from([0.0, 1e6])),
        )
        apps = [app]
        if gpu and i == 0:
            apps.append(
                replace(
                    app,
                    name="gpu",
                    gpu="NVIDIA",
                    gpus=draw(st.sampled_from([0.5, 1.0])),
                    cpus=draw(st.sampled_from([0.2, 1.0])),
                    flops_estimate=size * 100,
                    sizes=JobSizes(mean=size * 100),
                )
            )
        down = OnOff(fraction=draw(st.sampled_from([1.0, 0.7])), mean_on=20_000.0)
        projects.append(
            ProjectModel(
                name=f"p{i}",
                share=draw(st.sampled_from([0.0, 50.0, 100.0])) if i else 100.0,
                apps=tuple(apps),
                downtime=down,
            )
        )
    host = HostModel(
        ncpus=draw(st.integers(1, 4)),
        gpus=(Gpus(type="NVIDIA", count=1, flops=1e11),) if gpu else (),
        availability=OnOff(
            fraction=draw(st.sampled_from([1.0, 0.6])),
            mean_on=5000.0,
            kind=draw(st.sampled_from(["exponential", "weibull", "gamma", "lognormal"])),
        ),
        connection_interval=draw(st.sampled_from([0.0, 20_000.0])),
        download_rate=draw(st.sampled_from([0.0, 1e4])),
        upload_rate=draw(st.sampled_from([0.0, 1e4])),
        leave_in_memory=draw(st.booleans()),
    )
    return Scenario(duration=5 * DAY, host=host, projects=tuple(projects))


@settings(max_examples=times(8), deadline=None)
@given(scenarios(), st.sampled_from(POLICIES), st.integers(0, 1000))
def test_the_books_balance_and_metrics_stay_in_range(
    scenario: Scenario, policy: PolicyChoice, seed: int
) -> None:
    if any(a.gpu for p in scenario.projects for a in p.apps) and not policy.knows_devices:
        policy = PolicyChoice(4, 4, policy.work_send, policy.job_completion)
    result = run(scenario, policy, seed)
    metrics = result.metrics
    assert result.books.imbalance() < 1e-6
    for value in (
        metrics.idleness,
        metrics.waste,
        metrics.monotony,
        metrics.share_violation_normalised,
        metrics.missed,
    ):
        assert -1e-9 <= value <= 1.0 + 1e-9


def test_results_that_are_still_uploading_when_the_host_goes_off_do_not_stop_the_clock() -> None:
    app = AppModel(output_bytes=1e6, flops_estimate=5e12, sizes=JobSizes(mean=5e12))
    base = replace(cells.base(), duration=5 * DAY, projects=(ProjectModel(name="P", apps=(app,)),))
    base = replace(base, host=replace(base.host, upload_rate=3e2))
    for policy in POLICIES:
        result = run(base, policy)
        assert result.metrics.jobs > 0
        assert result.metrics.rpcs_per_job < 20


def test_a_project_without_a_share_is_asked_only_for_idle_processors() -> None:
    backup = replace(cells.project("backup", flops=5e12), share=0.0)
    main = cells.project("main", flops=5e12)
    down = replace(main, downtime=OnOff(fraction=0.5, mean_on=2 * DAY))
    always = run(replace(cells.base(), duration=20 * DAY, projects=(backup, main)))
    assert always.books.projects[0].used < 0.01 * always.books.projects[1].used
    away = run(replace(cells.base(), duration=20 * DAY, projects=(backup, down)))
    assert away.books.projects[0].used > 0.1 * away.books.projects[1].used
    assert away.metrics.idleness < 0.02


def test_a_client_that_decides_without_end_is_a_fault_and_not_a_hang() -> None:
    scenario = cells.base()
    host = HostRun(scenario, Streams(1), None, None)
    for _ in range(MAX_ROUNDS):
        host.count_round()
    with pytest.raises(SimulationFault, match="without end"):
        host.count_round()


def test_jobs_too_short_for_the_duration_are_refused_at_once() -> None:
    scenario = replace(cells.base(), projects=(cells.project("P", flops=1e3),))
    with pytest.raises(ConfigError, match="allowed: up to 5000000"):
        run(scenario)


@pytest.mark.parametrize("policy", ["CS3_WF3_WS2_JC2", "CS2_WF2_WS2_JC2", "CS4_WF4_WS1_JC2"][: times(1)])
def test_memory_does_not_grow_with_simulated_time(policy: str) -> None:
    app = AppModel(flops_estimate=6e13, sizes=JobSizes(mean=6e13), output_bytes=1e6)
    projects = tuple(ProjectModel(name=name, apps=(app,)) for name in "ab")
    base = replace(cells.base(), projects=projects)
    base = replace(
        base, host=replace(base.host, upload_rate=1e4, availability=OnOff(fraction=0.8, mean_on=2e4))
    )
    peaks: list[int] = []
    for days in (30, 90):  # by then every history that has a bound has reached it
        tracemalloc.start()
        run(replace(base, duration=days * DAY), PolicyChoice.parse(policy))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0] + 10_000


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_the_same_seed_gives_the_same_run(policy: PolicyChoice) -> None:
    scenario = replace(cells.mix(4, bound=cells.TIGHT_BOUND), duration=8 * DAY)
    assert run(scenario, policy).metrics == run(scenario, policy).metrics
    assert run(scenario, policy).metrics != run(scenario, policy, seed=2).metrics


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_the_order_of_projects_in_the_file_does_not_matter(policy: PolicyChoice) -> None:
    scenario = replace(cells.mix(5, bound=cells.TIGHT_BOUND), duration=20 * DAY)
    shuffled = list(scenario.projects)
    random.Random(3).shuffle(shuffled)
    assert run(replace(scenario, projects=tuple(shuffled)), policy).metrics == run(scenario, policy).metrics


def test_two_policies_meet_the_same_world() -> None:
    scenario = cells.variance(3.0)
    one = run(scenario, PolicyChoice(2, 2, 1, 2))
    two = run(scenario, PolicyChoice(1, 1, 1, 1))
    # summed over the steps between different events, so but for rounding
    assert one.books.available == pytest.approx(two.books.available, rel=1e-12)


# -- closed forms ---------------------------------------------------------------------------------------------------


def test_one_project_without_off_time_is_never_idle_and_wastes_nothing() -> None:
    result = run(always_on(cells.slack(6)))
    assert result.metrics.idleness == 0.0
    assert result.metrics.waste == 0.0
    jobs = 100 * DAY * 2 / 13000.0
    assert result.metrics.jobs + 2 == pytest.approx(jobs, abs=3)


def test_at_slack_one_everything_is_late_because_the_host_is_off_now_and_then() -> None:
    assert run(cells.slack(1)).metrics.waste == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("policy", [PolicyChoice(), PolicyChoice(4, 4, 1, 2)], ids=str)
def test_projects_that_always_have_work_get_their_shares(policy: PolicyChoice) -> None:
    projects = tuple(cells.project(f"P{i}", flops=2e12, share=100.0 * i) for i in (1, 2, 3))
    result = run(replace(always_on(cells.base()), projects=projects, duration=25 * DAY), policy)
    total = sum(b.used for b in result.books.projects)
    assert [b.used / total for b in result.books.projects] == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=0.02)


@pytest.mark.parametrize("error", [1.0, 0.5, 3.0])
def test_the_correction_factor_settles_at_the_error_of_the_estimates(
    error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[SimulatedClient] = []

    class Watched(SimulatedClient):
        def __init__(self, host: HostRun, network: Network, choice: PolicyChoice, policy: Policy) -> None:
            super().__init__(host, network, choice, policy)
            clients.append(self)

    monkeypatch.setattr(clients_module, "SimulatedClient", Watched)
    late = run(replace(cells.slack(12, error=error), duration=60 * DAY)).metrics
    assert clients[0].core.policy.correction(0) == pytest.approx(error, rel=1e-3)
    assert late.waste == 0.0


def test_a_buffer_bridges_the_time_between_connections() -> None:
    # deterministic service, one connection a day: with more than a day of work no processor waits,
    # with half a day of it half the time is lost
    def idleness(days: float) -> float:
        scenario = always_on(cells.base())
        scenario = replace(
            scenario,
            host=replace(scenario.host, connection_interval=DAY),
            preferences=Preferences(buffer_min=days * DAY, buffer_additional=0.0),
            projects=(cells.project("P", bound=20 * DAY, flops=1e12),),
        )
        return run(scenario).metrics.idleness

    assert idleness(1.2) == pytest.approx(0.0, abs=0.005)
    assert idleness(0.5) == pytest.approx(0.5, abs=0.02)


def test_exact_events_and_fine_polling_agree() -> None:
    exact = cells.slack(3)
    polled = replace(exact, compatibility=Compatibility(quantum=10.0))
    assert run(exact).metrics.waste == pytest.approx(run(polled).metrics.waste, abs=0.02)


def test_lost_work_is_wasted_and_errors_count() -> None:
    app = AppModel(checkpoint_period=5000.0, error_rate=0.5)
    scenario = replace(cells.base(), projects=(ProjectModel(name="P", apps=(app,)),), duration=30 * DAY)
    scenario = replace(scenario, host=replace(scenario.host, leave_in_memory=False))
    book = run(scenario).books.projects[0]
    assert book.lost > 0.0
    assert book.errors / (book.errors + book.met) == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("slack", [2, 3])
def test_asking_only_for_jobs_that_will_be_in_time_wastes_next_to_nothing(slack: int) -> None:
    scenario = replace(cells.slack(slack), duration=40 * DAY)
    cautious = run(scenario, PolicyChoice.parse("own")).metrics
    assert cautious.waste < 0.02 < run(scenario).metrics.waste
    assert cautious.idleness < 0.01


def test_our_own_policy_keeps_gpus_and_all_cpus_of_wide_jobs_as_busy_as_today_s_family() -> None:
    base = cells.base()
    host = replace(base.host, ncpus=4, gpus=(Gpus(type="NVIDIA", count=2, flops=2e9),))
    apps = (
        AppModel(name="wide", cpus=2.0, flops_estimate=1.5e13, sizes=JobSizes(mean=1.5e13)),
        AppModel(
            name="gpu", cpus=0.5, gpu="NVIDIA", gpus=1.0, flops_estimate=4e13, sizes=JobSizes(mean=4e13)
        ),
    )
    projects = (ProjectModel(name="P", apps=apps), ProjectModel(name="Q", max_concurrent=1))
    scenario = replace(base, duration=10 * DAY, host=host, projects=projects)
    own, recent = (run(scenario, PolicyChoice.parse(name)) for name in ("own", "recent"))
    assert own.metrics.idleness < 0.01
    assert own.metrics.idleness < recent.metrics.idleness + 0.01
    assert own.metrics.missed <= recent.metrics.missed
