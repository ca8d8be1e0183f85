"""The comparison of credit systems: one population, the truth about it, and figures that follow from both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cobblestone.cli import run_command
from cobblestone.credit_lab.comparison import CHEATS, COMPARED, SystemFigures, compare, settled_after, spread
from cobblestone.credit_lab.joblog import ERROR
from cobblestone.credit_lab.population import (
    GPU,
    OWN_BUILD,
    Cheat,
    PopulationOptions,
    synthetic_hosts,
    synthetic_log,
)
from cobblestone.domain.errors import ConfigError
from cobblestone.policy.credit.registry import credit_system

SMALL = PopulationOptions(hosts=20, jobs=300)


def test_the_same_jobs_meet_the_same_hosts_whoever_cheats() -> None:
    honest = synthetic_log(SMALL)
    for cheat in (Cheat.RUN_TIME, Cheat.BENCHMARK, Cheat.COUNTS, Cheat.NOW_AND_THEN):
        other = synthetic_log(SMALL, cheat)
        assert other.work == honest.work
        names = ["workunit_id", "rsc_fpops_est", "sent_time"]
        if cheat is not Cheat.IDENTITIES:
            names.append("host_id")
        for name in names:
            assert other.log.column(name) == honest.log.column(name)


@pytest.mark.parametrize(
    ("cheat", "figure"),
    [(Cheat.RUN_TIME, "elapsed_time"), (Cheat.BENCHMARK, "peak_flops"), (Cheat.COUNTS, "fpops_counted")],
)
def test_only_cheaters_report_ten_times_too_much(cheat: Cheat, figure: str) -> None:
    honest, other = synthetic_log(SMALL), synthetic_log(SMALL, cheat)
    for place, cheated in enumerate(honest.cheated):
        expected = honest.log.column(figure)[place] * (10.0 if cheated else 1.0)
        assert other.log.column(figure)[place] == pytest.approx(expected)


def test_who_takes_a_new_identity_for_each_result_is_never_seen_twice() -> None:
    sample = synthetic_log(SMALL, Cheat.IDENTITIES)
    pairs = list(zip(sample.log.column("host_id"), sample.log.column("user_id"), sample.cheated, strict=True))
    of_cheaters = [pair for *pair, cheated in pairs if cheated]
    assert of_cheaters
    assert (
        len({host for host, _ in of_cheaters}) == len({user for _, user in of_cheaters}) == len(of_cheaters)
    )


def test_one_who_cheats_now_and_then_does_it_in_a_tenth_of_the_results() -> None:
    honest, other = synthetic_log(PopulationOptions()), synthetic_log(PopulationOptions(), Cheat.NOW_AND_THEN)
    pairs = zip(honest.log.column("elapsed_time"), other.log.column("elapsed_time"), strict=True)
    raised = sum(one != two for one, two in pairs)
    assert 0 < raised < 0.1 * sum(honest.cheated)


def test_cherry_pickers_drop_jobs_that_are_longer_than_estimated_and_others_do_them() -> None:
    sample = synthetic_log(SMALL, Cheat.CHERRY_PICKING)
    dropped = [place for place, outcome in enumerate(sample.log.column("outcome")) if outcome == ERROR]
    assert dropped
    assert all(sample.cheated[place] for place in dropped)
    estimates = sample.log.column("rsc_fpops_est")
    assert all(estimates[place] < 0.4 * sample.work[place] for place in dropped)
    assert sum(sample.valid) == 2 * SMALL.jobs


def test_the_population_has_all_kinds_of_hosts() -> None:
    hosts = synthetic_hosts(PopulationOptions())
    assert {host.version for host in hosts} == {1, 2, GPU, OWN_BUILD}
    assert sum(host.cheats for host in hosts) == 2


@pytest.mark.parametrize(
    "wrong", [{"hosts": 3}, {"jobs": 5}, {"cheaters": 0}, {"cheaters": 37}, {"estimate_error": -1.0}]
)
def test_a_population_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong)).replace("_", " ")):
        PopulationOptions(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_spread_and_settling() -> None:
    assert spread([1.0, 3.0]) == pytest.approx(0.5)
    assert spread([]) == 0.0
    assert settled_after([1.0, 1.1, 0.9], 1.0) == 0
    assert settled_after([2.0, 1.0, 1.0], 1.0) == 200
    assert settled_after([1.0, 1.0, 2.0], 1.0) is None


@pytest.fixture(scope="module")
def figures() -> dict[str, SystemFigures]:
    found = compare([credit_system(name) for name in COMPARED[2:]], PopulationOptions(hosts=20, jobs=1000))
    return {each.system: each for each in found}


def test_nobody_gains_by_what_is_reported_under_the_steady_system(figures: dict[str, SystemFigures]) -> None:
    gains = figures["steady"].gains
    for cheat in set(CHEATS) - {Cheat.CHERRY_PICKING}:
        # a tenth of the hosts lies: the common factor may move by 8 %, for all alike
        assert gains[cheat] == pytest.approx(1.0, abs=0.12)
        assert figures["steady"].harm[cheat] == pytest.approx(gains[cheat], abs=0.03)
    for third in ("creditnew-designed", "creditnew-deployed"):
        assert figures[third].gains[Cheat.RUN_TIME] > 1.3


def test_equal_work_is_paid_equally_if_estimates_are_right(figures: dict[str, SystemFigures]) -> None:
    # half of it on more results: here the level of the first half of them still rises
    assert figures["steady"].spread_exact < figures["creditnew-deployed"].spread_exact


def test_what_is_worse_under_the_steady_system_shows_too(figures: dict[str, SystemFigures]) -> None:
    assert figures["steady"].spread > 2 * figures["creditnew-deployed"].spread
    assert (
        figures["steady"].gains[Cheat.CHERRY_PICKING]
        > figures["creditnew-designed"].gains[Cheat.CHERRY_PICKING]
    )
    assert figures["steady-measured"].spread < 0.8 * figures["steady"].spread


def test_the_command_prints_tables_json_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "compared.svg"
    arguments = [
        "credit",
        "compare",
        "--jobs",
        "100",
        "--hosts",
        "10",
        "--system",
        "steady",
        "--system",
        "runtime",
    ]
    assert run_command([*arguments, "--picture", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "settled" in shown
    assert "cherry" in shown
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    assert run_command([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["system"] for each in found["systems"]] == ["steady", "runtime"]
    assert found["population"]["jobs"] == 100


@pytest.mark.parametrize("name", ["compared.txt", "nowhere/compared.svg"])
def test_a_picture_that_cannot_be_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run_command(["credit", "compare", "--picture", str(tmp_path / name)]) == 1
    assert capsys.readouterr().out == ""
