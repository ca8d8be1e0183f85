"""Which projects an account manager sends a computer to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.manager_population import LINUX, make_world

from cobblestone.domain.reasons import reason
from cobblestone.domain.values import DAY
from cobblestone.policy.account_manager.selection import (
    MEMORY_DAYS,
    Balance,
    CandidateProject,
    OfferedVersion,
    SelectedFor,
    Wishes,
    expected_work,
    joining_work,
    next_dryness,
    reasons_of,
    retry_seconds,
    select_projects,
)

CPU = frozenset({OfferedVersion(LINUX)})
BOTH = frozenset({OfferedVersion(LINUX), OfferedVersion(LINUX, "NVIDIA")})
NO_WISH = Wishes()
HERE = SelectedFor(platforms=frozenset({LINUX}))
WITH_GPU = replace(HERE, devices=("CPU", "NVIDIA"))


def project(id_: int, **changes: Any) -> CandidateProject:
    return replace(CandidateProject(id=id_, name=f"p{id_}", versions=CPU), **changes)


def chosen(*projects: CandidateProject, wishes: Wishes = NO_WISH, computer: SelectedFor = HERE) -> list[int]:
    return [choice.project_id for choice in select_projects(projects, wishes, computer).chosen]


def test_the_project_that_lags_most_behind_its_share_comes_first_and_the_next_is_a_reserve():
    selection = select_projects(
        [project(1, work=10.0), project(2, work=12.0, share=2.0), project(3, work=11.0)], Wishes(), HERE
    )
    assert [(choice.project_id, choice.reserve) for choice in selection.chosen] == [(2, False), (1, True)]
    assert selection.refused[3].code == "not_needed"


def test_a_wanted_keyword_goes_before_any_lag():
    assert chosen(project(1), project(2, work=1e9, keywords={7: 0.5}), wishes=Wishes(yes=frozenset({7}))) == [
        2,
        1,
    ]


def test_a_refused_keyword_keeps_a_project_out_if_all_of_its_jobs_have_it():
    wishes = Wishes(no=frozenset({7}))
    selection = select_projects([project(1, keywords={7: 1.0}), project(2, keywords={7: 0.9})], wishes, HERE)
    assert [choice.project_id for choice in selection.chosen] == [2]
    assert selection.refused[1].code == "unwanted"


def test_what_an_owner_keeps_out_stays_out_whole_or_by_device():
    wishes = Wishes(kept_out=frozenset({1}), kept_out_devices=frozenset({(2, "NVIDIA"), (3, "CPU")}))
    selection = select_projects(
        [project(1, versions=BOTH), project(2, versions=BOTH), project(3)], wishes, WITH_GPU
    )
    assert {choice.project_id: choice.devices for choice in selection.chosen} == {2: frozenset({"CPU"})}
    assert (selection.refused[1].code, selection.refused[3].code) == ("kept_out", "kept_out_devices")


def test_a_project_without_a_version_or_that_is_closed_is_not_chosen_and_says_why():
    down = reason("down", "It does not answer.")
    selection = select_projects(
        [
            project(1, versions=frozenset({OfferedVersion("arm-android")})),
            project(2, closed=down),
            project(3, versions=frozenset({OfferedVersion(LINUX, virtualbox=True)})),
        ],
        Wishes(),
        HERE,
    )
    assert not selection.chosen
    assert {id_: each.code for id_, each in selection.refused.items()} == {
        1: "no_version",
        2: "down",
        3: "no_version",
    }
    with_box = replace(HERE, virtualbox=True)
    assert chosen(
        project(3, versions=frozenset({OfferedVersion(LINUX, virtualbox=True)})), computer=with_box
    ) == [3]


def test_every_device_is_covered_by_some_project():
    selection = select_projects(
        [project(1), project(2, versions=BOTH, work=5.0), project(3, work=9.0)], Wishes(), WITH_GPU
    )
    assert [(choice.project_id, set(choice.covers)) for choice in selection.chosen] == [
        (1, {"CPU"}),
        (2, {"NVIDIA"}),
        (3, set()),
    ]


def test_a_dry_project_is_kept_and_another_one_is_added():
    dry = project(1, dryness={"CPU": 0.9})
    selection = select_projects(
        [dry, project(2, work=5.0), project(3, work=6.0), project(4, work=7.0)], Wishes(), HERE
    )
    assert [(choice.project_id, choice.reserve) for choice in selection.chosen] == [
        (1, False),
        (2, False),
        (3, True),
    ]
    said = [each.code for each in reasons_of(selection.chosen[0], dry, of_shares=4.0)]
    assert said == ["share", "dry"]


def test_a_computer_gets_ten_projects_at_most_however_dry_they_are():
    dry = [project(number, work=float(number), dryness={"CPU": 1.0}) for number in range(1, 31)]
    assert chosen(*dry) == list(range(1, 11))


@pytest.mark.parametrize(("dryness", "covered"), [(-5.0, 1.0), (7.0, 0.0)])
def test_a_project_covers_a_device_once_or_not_at_all_whatever_its_record_says(
    dryness: float, covered: float
):
    selection = select_projects([project(1, dryness={"CPU": dryness})], NO_WISH, HERE)
    assert selection.chosen[0].covers == {"CPU": covered}


def test_a_share_of_nothing_comes_last():
    assert chosen(project(1, work=1.0, share=0.0), project(2, work=1000.0)) == [2, 1]


def test_what_this_computer_just_asked_in_vain_covers_nothing():
    asked = replace(HERE, in_vain=frozenset({(1, "CPU")}))
    assert chosen(project(1), project(2, work=5.0), project(3, work=6.0), computer=asked) == [1, 2, 3]


def test_expected_work_is_divided_by_how_far_projects_cover_a_device():
    selection = select_projects(
        [project(1, dryness={"CPU": 0.75}), project(2, work=5.0), project(3, work=6.0)], Wishes(), HERE
    )
    assert expected_work(selection, {"CPU": 2.0}, 10.0) == pytest.approx({1: 4.0, 2: 16.0, 3: 0.0})


def test_a_balance_forgets_half_in_a_season_and_what_was_expected_is_replaced_by_what_was_done():
    balance = Balance().changed(done=0.0, expected=100.0, now=0.0)
    assert balance.at(0.0) == 100.0
    balance = balance.changed(done=80.0, expected=-100.0, now=DAY)
    assert balance.at(DAY) == 80.0
    assert balance.at((1 + MEMORY_DAYS) * DAY) == pytest.approx(40.0)


def test_a_new_project_begins_in_step_with_the_others():
    assert joining_work([(30.0, 3.0), (10.0, 1.0)], 2.0) == pytest.approx(20.0)
    assert joining_work([], 2.0) == 0.0


def test_dryness_follows_reports_and_pauses_double_up_to_a_day():
    level = 0.0
    for _ in range(30):
        level = next_dryness(level, in_vain=True)
    assert 0.95 < level < 1.0
    assert next_dryness(level, in_vain=False) < level
    assert [retry_seconds(n) for n in (1, 2, 3, 99)] == [600.0, 1200.0, 2400.0, DAY]


def test_shares_hold_within_two_percent_although_projects_run_dry_and_return():
    world = make_world(400, seed=11)
    credit = world.run(90)
    shares = {each.id: each.share for each in world.projects}
    of_all = sum(credit.values())
    for id_, share in shares.items():
        assert credit[id_] / of_all == pytest.approx(share / sum(shares.values()), rel=0.02), id_
