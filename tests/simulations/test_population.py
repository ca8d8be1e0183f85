"""Many hosts with shared projects: conservation, quorum, retries, determinism, bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times

from cobblestone.cli import build
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.paper import cells
from cobblestone.simulator.population.run import PopulationRun, run_population
from cobblestone.simulator.population.shared_project import ProjectTally
from cobblestone.simulator.report.population import (
    PopulationRecord,
    as_data,
    as_text,
    record_of,
    run_side_by_side,
    view_of,
)
from cobblestone.simulator.world.host_tables import draw_hosts, read_hosts
from cobblestone.simulator.world.scenario import (
    AppModel,
    HostModel,
    JobSizes,
    ProjectModel,
    Scenario,
    ServerModel,
)
from cobblestone.sweep.backends import open_backend

BASE = PolicyChoice()
POLICIES = [
    PolicyChoice.parse(t)
    for t in ("CS1_WF1_WS1_JC1", "CS2_WF2_WS2_JC2", "CS3_WF3_WS2_JC2", "CS4_WF4_WS1_JC2", "CS4_WF4_WS2_JC2")
]


def world(server: ServerModel, *, days: float = 2.0, bound: float = 2 * DAY, errors: float = 0.0) -> Scenario:
    app = AppModel(
        latency_bound=bound, flops_estimate=6e13, sizes=JobSizes(mean=6e13, stdev=2e13), error_rate=errors
    )
    project = ProjectModel(name="P", apps=(app,), server=server)
    return replace(cells.base(), duration=days * DAY, projects=(project,))


def run(scenario: Scenario, policy: PolicyChoice = BASE, *, hosts: int = 3, seed: int = 1) -> PopulationRun:
    return run_population(scenario, draw_hosts(hosts, seed=seed), policy, seed=seed)


def tally(result: PopulationRun) -> ProjectTally:
    return result.tallies[0]


@settings(max_examples=times(3), deadline=None)
@given(
    quorum=st.integers(1, 3),
    extra=st.integers(0, 2),
    wrong=st.sampled_from([0.0, 0.3]),
    errors=st.sampled_from([0.0, 0.3]),
    workunits=st.sampled_from([0, 10]),
    rate=st.sampled_from([0.0, 5.0]),
    bound=st.sampled_from([0.3 * DAY, 2 * DAY]),
    policy=st.sampled_from(POLICIES),
    seed=st.integers(0, 1000),
)
def test_nothing_is_lost_between_hosts_and_servers(
    quorum: int,
    extra: int,
    wrong: float,
    errors: float,
    workunits: int,
    rate: float,
    bound: float,
    policy: PolicyChoice,
    seed: int,
) -> None:
    server = ServerModel(
        min_quorum=quorum,
        target_results=quorum + extra,
        wrong_rate=wrong,
        workunits=workunits,
        workunits_per_day=rate,
    )
    # the run asserts the balance of every host's books and that servers booked what hosts reported
    result = run(world(server, days=0.5, bound=bound, errors=errors), policy, hosts=2, seed=seed)
    found = tally(result)
    assert found.done + found.failed <= found.workunits
    assert found.workunits <= (workunits or found.workunits)
    assert found.reported <= found.sent
    assert found.valid >= 0
    view = view_of(found, result.scenario.duration)
    for part in (view.late, view.timed_out, view.errors, view.wasted, view.empty, view.failed_workunits):
        assert -1e-9 <= part <= 1.0


def test_a_finite_batch_is_finished_whatever_goes_wrong() -> None:
    server = ServerModel(workunits=12, min_quorum=2, target_results=2, wrong_rate=0.1)
    found = tally(run(world(server, days=12.0, errors=0.1), hosts=8))
    assert found.workunits == 12
    assert found.done + found.failed == 12
    assert found.sent > 24  # errors and disagreement were made good by further results


def test_a_host_that_fails_now_and_then_keeps_its_quota_since_its_valid_results_count() -> None:
    found = tally(run(world(ServerModel(first_jobs=0), days=20.0, errors=0.1), hosts=2))
    assert found.errors > 20  # eight more than valid ones leave one job a day
    assert found.valid > 100
    assert found.empty == 0


def test_new_hosts_hold_few_jobs_until_one_was_right() -> None:
    """Two hosts of four processors, and jobs of some hours: the first contacts ask for more than they get."""
    limited, free = (tally(run(world(ServerModel(first_jobs=n), days=10.0), hosts=2)) for n in (1, 0))
    assert 0 < limited.empty < 0.1 * limited.asking
    assert free.empty == 0
    assert limited.valid > 0.9 * free.valid


def test_spare_results_are_wasted() -> None:
    plain = tally(run(world(ServerModel(min_quorum=1, target_results=1))))
    spare = tally(run(world(ServerModel(min_quorum=1, target_results=2))))
    assert plain.spare_flops == 0.0
    assert spare.spare_flops > 0.0


def test_deadlines_that_pass_make_new_results() -> None:
    found = tally(run(world(ServerModel(), bound=0.3 * DAY, days=6.0)))
    assert found.timed_out > 0
    assert found.late > 0


@pytest.mark.parametrize("policy", POLICIES[2:4], ids=str)
def test_the_same_seed_gives_the_same_population(policy: PolicyChoice) -> None:
    scenario = world(ServerModel(min_quorum=2, target_results=2, wrong_rate=0.1), errors=0.1)
    first = tally(run(scenario, policy))
    assert first == tally(run(scenario, policy))
    assert first != tally(run(scenario, policy, seed=2))


def test_two_policies_meet_the_same_hosts_and_jobs() -> None:
    scenario = world(ServerModel())
    one, two = run(scenario, BASE), run(scenario, POLICIES[2])
    assert [b.available for b in one.books] == [b.available for b in two.books]


def test_the_first_hosts_are_the_same_whatever_their_number() -> None:
    assert draw_hosts(3, seed=5) == draw_hosts(10, seed=5)[:3]


def test_table_and_data_give_mean_and_interval_over_replicates() -> None:
    scenario = world(ServerModel())
    results = {str(BASE): [record_of(run(scenario, seed=s)) for s in (1, 2, 3)]}
    assert "±" in as_text(scenario, results)
    assert "change" not in as_text(scenario, results)
    policies = as_data(scenario, results)["policies"]
    assert isinstance(policies, dict)
    cell = policies[str(BASE)]["metrics"]["P"]["gflops"]
    assert cell["half_width"] > 0.0


def test_changes_between_policies_are_taken_seed_by_seed_and_luck_is_marked() -> None:
    scenario = world(ServerModel())
    base = [record_of(run(scenario, seed=s)) for s in (1, 2, 3)]
    worse = [replace(r, computers=replace(r.computers, idleness=r.computers.idleness + 0.1)) for r in base]
    noisy = [
        replace(r, computers=replace(r.computers, waste=r.computers.waste + by))
        for r, by in zip(base, (-0.2, 0.1, 0.2), strict=True)
    ]
    text = as_text(scenario, {"base": base, "worse": worse, "noisy": noisy})
    _, changes = text.split("change from base, seed by seed")
    *_, sure, luck = changes.splitlines()
    assert "+10.00 ±0.00 " in sure
    assert "?" not in sure
    assert luck.count("?") == 1
    policies = as_data(scenario, {"base": base, "worse": worse})["policies"]
    assert isinstance(policies, dict)
    assert policies["worse"]["change"]["hosts"]["idleness"]["mean"] == pytest.approx(0.1)
    assert "change" not in policies["base"]


def test_kept_runs_are_not_made_again_and_those_of_another_scenario_not_taken(tmp_path: Path) -> None:
    scenario, keep, told = world(ServerModel()), tmp_path / "runs.jsonl", list[tuple[int, int]]()
    tables = {seed: draw_hosts(2, seed=seed) for seed in (1, 2)}
    backend = open_backend(workers=1)

    def runs(of: Scenario, keep: Path | None) -> dict[str, list[PopulationRecord]]:
        told.clear()
        return run_side_by_side(
            of, tables, [BASE], backend=backend, keep=keep, progress=lambda *so_far: told.append(so_far)
        )

    try:
        fresh = runs(scenario, keep)
        kept = runs(scenario, keep)
        assert told == [(2, 2)]
        runs(replace(scenario, duration=scenario.duration / 2), keep)
        assert told[0] == (0, 2)
    finally:
        backend.close()
    assert kept == fresh
    assert fresh[str(BASE)][1] == record_of(run_population(scenario, tables[2], BASE, seed=2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ncpus,flops,fraction,mean_on\n2,1e9,0.5,x\n", "line 2: mean_on = 'x'"),
        ("ncpus,flops,fraction,mean_on\n2,1e9,1.5,100\n", "line 2: host, availability: fraction = 1.5"),
        ("ncpus,flops,fraction,mean_on\n0,1e9,0.5,100\n", "ncpus = 0 is not possible; allowed: 1 to 1024"),
        ("ncpus,flops,fraction,mean_on\n1.5,1e9,0.5,100\n", "ncpus = 1.5 is not possible"),
        (
            "ncpus,flops,fraction,mean_on\n2,-1,0.5,100\n",
            "line 2: host: flops = -1.0 is not possible; allowed: 1 to",
        ),
        ("ncpus,flops,fraction,mean_on\n2,nan,0.5,100\n", "line 2: host: flops = nan is not possible"),
        ("ncpus,flops,fraction,mean_on\n\n2,1e9,0.5,0\n", "line 3: host, availability: mean_on = 0.0"),
        ("ncpus,flops,fraction,mean_on\n2,1e9,0.5\n", "line 2: 3 values under 4 columns"),
        ("ncpus,flops,fraction,mean_on\n2,1e9,0.5,100,7\n", "line 2: 5 values under 4 columns"),
        ("ncpus,flops\n2,1e9\n", "line 1: the column fraction is missing"),
        ("ncpus;flops;fraction;mean_on\n", "line 1: the column ncpus is missing; the first line names"),
        ("ncpus,flops,fraction,mean_on,flops\n", "line 1: the column flops occurs more than once"),
        ("ncpus,flops,fraction,mean_on\n", "no host after the header"),
        ("", "line 1: the column ncpus is missing"),
    ],
)
def test_a_bad_table_of_hosts_gets_one_error(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_hosts(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_table_of_hosts_may_have_further_columns_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(
        "\ufeffname, ncpus,flops,fraction,mean_on\na,2,1e9,0.5,100\n\nb,4,2e9,1,100\n", encoding="utf-8"
    )
    assert [(h.ncpus, h.flops, h.availability.fraction) for h in read_hosts(path)] == [
        (2, 1e9, 0.5),
        (4, 2e9, 1.0),
    ]


SCENARIO = """{top}
duration = "1 d"
[[project]]
name = "P"
[[project.app]]
latency_bound = "2 d"
flops_estimate = 6e13
{app}
[project.server]
{server}
"""


@pytest.mark.parametrize(
    ("values", "options", "said"),
    [
        ({"top": "hosts = -1"}, (), "hosts = -1 is not possible; allowed: a number of hosts"),
        ({"top": "hosts = 1.5"}, (), "hosts = 1.5: must be a whole number"),
        ({"top": "hosts = 200000"}, (), "hosts = 200000 is not possible; allowed: 1 to 100000"),
        ({"top": 'hosts = "absent.csv"'}, (), "absent.csv: cannot be read"),
        ({}, ("--hosts", "0"), "hosts = 0 is not possible; allowed: 1 to 100000"),
        ({}, ("--hosts", "2.5"), "hosts = 2.5 is not possible"),
        ({}, ("--hosts", "nan"), "hosts = nan is not possible"),
        ({}, ("--hosts", "2", "--explain", "0.5"), "--explain is for one host"),
        ({}, ("--hosts", "2", "--log", "x.txt"), "--log is for one host"),
        ({"server": "min_quorum = 0"}, (), "min_quorum = 0 is not possible; allowed: 1 to 100"),
        (
            {"server": "min_quorum = 9"},
            (),
            "min_quorum = 9 is not possible; allowed: up to max_total_results",
        ),
        ({"server": "target_results = 2.5"}, (), "target_results = 2.5: must be a whole number"),
        (
            {"server": "max_error_results = -1"},
            (),
            "max_error_results = -1 is not possible; allowed: 0 to 100",
        ),
        ({"server": "wrong_rate = 1.5"}, (), "wrong_rate = 1.5 is not possible; allowed: 0 to 1"),
        ({"server": "feeder_slots = 0"}, (), "feeder_slots = 0 is not possible; allowed: 1 to 100000"),
        ({"server": "workunits = -3"}, (), "workunits = -3 is not possible; allowed: 0 to 1e9"),
        ({"server": "workunits_per_day = nan"}, (), "workunits_per_day = nan"),
        ({"server": "daily_quota = 0"}, (), "daily_quota = 0 is not possible; allowed: 1 to 1000000"),
        (
            {"server": "max_jobs_per_rpc = -1"},
            (),
            "max_jobs_per_rpc = -1 is not possible; allowed: 0 to 10000",
        ),
        ({"server": 'check_deadline = "yes"'}, (), "check_deadline = 'yes'"),
        ({"server": "colour = 1"}, (), "unknown key 'colour' = 1; allowed: check_deadline"),
        (
            {"app": "flops_mean = 1e3", "server": "daily_quota = 1000000"},
            ("--hosts", "3"),
            "allowed: up to 5000000; take larger jobs",
        ),
    ],
)
def test_bad_input_of_a_population_gets_one_error(
    tmp_path: Path, values: dict[str, str], options: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(SCENARIO.format(**({"top": "", "app": "", "server": ""} | values)), encoding="utf-8")
    many = () if options or "hosts" in values.get("top", "") else ("--hosts", "2")
    found = CliRunner().invoke(build(), ["simulate", str(path), *options, *many])
    assert found.exit_code == 2
    assert said in found.stderr
    assert found.stderr.startswith("Error: ")
    assert len(found.stderr.splitlines()) == 1
    assert found.stdout == ""


def test_jobs_that_many_hosts_cannot_share_are_refused() -> None:
    app = AppModel(cpus=2.0)
    scenario = replace(cells.base(), projects=(ProjectModel(name="P", apps=(app,)),))
    with pytest.raises(ConfigError, match="cpus = 1"):
        run(scenario)


def test_a_slow_host_does_not_hide_how_many_jobs_a_fast_one_has() -> None:
    app = AppModel(flops_estimate=1e9, sizes=JobSizes(mean=1e9))
    project = ProjectModel(name="P", apps=(app,), server=ServerModel(daily_quota=1_000_000))
    scenario = replace(cells.base(), duration=10 * DAY, projects=(project,))
    hosts = [HostModel(ncpus=1, flops=1e10), HostModel(ncpus=1, flops=1e5)]
    with pytest.raises(ConfigError, match=r"8\.64e\+06 in 864000 s; allowed: up to 5000000"):
        run_population(scenario, hosts, BASE, seed=1)
