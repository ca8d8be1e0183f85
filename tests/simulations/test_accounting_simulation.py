"""The simulation of accounting, small: what is promised of the ways holds, on people that nothing was tuned on."""

from __future__ import annotations

import pytest
from tests.helpers.accounting.__main__ import show
from tests.helpers.accounting.identities import WAYS
from tests.helpers.accounting.people import ATTACKS
from tests.helpers.accounting.report import AccountingReport, report_on
from tests.helpers.accounting.simulation import SimulationPlan, simulate

GAINFUL = ("128 GPUs", "new hosts", "strangers", "shared key", "freeze", "friendly", "noise")


@pytest.fixture(scope="module")
def report() -> AccountingReport:
    attacks = tuple(each for each in ATTACKS if each.name in GAINFUL)
    return report_on(simulate(SimulationPlan(hosts=80, cheats=2, seed=77), attacks=attacks))


@pytest.mark.parametrize("way", WAYS)
def test_no_attack_brings_more_than_a_tenth(report: AccountingReport, way: str) -> None:
    assert {each.attack for each in report.gains} == set(GAINFUL)
    assert report.largest_gain(way) <= 1.10


def test_the_plain_estimate_brings_cheats_much_more(report: AccountingReport) -> None:
    assert report.largest_gain("estimate") > 100


@pytest.mark.parametrize("way", ["totals", "sums"])
def test_figures_of_honest_people_come_to_what_was_granted(report: AccountingReport, way: str) -> None:
    figures = next(each for each in report.ways if each.way == way)
    assert figures.within == pytest.approx((1.0, 1.0, 1.0), abs=0.06)
    assert figures.small_falls >= 0.95


def test_job_lists_miss_what_is_done_between_two_contacts(report: AccountingReport) -> None:
    jobs, sums = (next(each for each in report.ways if each.way == way) for way in ("jobs", "sums"))
    assert jobs.within[0] < sums.within[0]
    assert jobs.bytes > 20 * sums.bytes


def test_the_same_plan_gives_the_same_figures(report: AccountingReport) -> None:
    plan = SimulationPlan(hosts=6, cheats=0, seed=5)
    assert report_on(simulate(plan, attacks=())).ways == report_on(simulate(plan, attacks=())).ways


def test_the_tables_name_ways_and_attacks(
    report: AccountingReport, capsys: pytest.CaptureFixture[str]
) -> None:
    show(report)
    shown = capsys.readouterr().out
    assert f"{report.hosts} honest people" in shown
    assert all(name in shown for name in (*WAYS, *GAINFUL))
