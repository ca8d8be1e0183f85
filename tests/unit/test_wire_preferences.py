"""Preferences: numbers for the server, the text for everybody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.preference_texts import preferences_text

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.domain.people import ProjectPreferences
from cobblestone.domain.values import AppId
from cobblestone.wire.project.preferences import (
    VENUES,
    parse_global_preferences,
    read_global_preferences,
    read_project_preferences,
    write_global_preferences,
)
from cobblestone.wire.text.reader import Lenience, LenienceKind


def test_numbers_are_read_and_the_text_is_kept():
    values = {"mod_time": 5.0, "work_buf_min_days": 0.1, "max_ncpus_pct": 50.0, "unknown_one": True}
    preferences = parse_global_preferences(write_global_preferences(values))
    assert (preferences.mod_time, preferences.work_buf_min_days, preferences.max_ncpus_pct) == (
        5.0,
        0.1,
        50.0,
    )
    assert preferences.disk_max_used_pct == 0
    assert "<unknown_one>1</unknown_one>" in preferences.text
    assert parse_global_preferences(preferences.text) == preferences


def test_sections_of_venues_do_not_count():
    text = (
        "<global_preferences>\n<max_ncpus_pct>50</max_ncpus_pct>\n"
        "<venue name='home'>\n<max_ncpus_pct>10</max_ncpus_pct>\n</venue>\n"
        "<venue name='work'>\n<mod_time>7</mod_time>\n</venue>\n</global_preferences>"
    )
    preferences = parse_global_preferences(text)
    assert (preferences.max_ncpus_pct, preferences.mod_time) == (50, 0)
    assert preferences.text == text


def test_content_without_its_own_element_gets_one():
    assert parse_global_preferences("<mod_time>5</mod_time>").text == (
        "<global_preferences>\n<mod_time>5</mod_time>\n</global_preferences>"
    )


@pytest.mark.parametrize("number", ["nan", "-1", "101", "lots"])
def test_a_percentage_that_makes_no_sense_is_none_every_time_it_is_read(number: str):
    text = f"<global_preferences><max_ncpus_pct>{number}</max_ncpus_pct></global_preferences>"
    for _ in range(2):  # the second time from the cache
        notes: list[Lenience] = []
        assert read_global_preferences(text, notes).max_ncpus_pct == 0
        assert [note.kind for note in notes] == [LenienceKind.BAD_NUMBER]


def test_long_preferences_are_cut():
    notes: list[Lenience] = []
    text = "<global_preferences>" + "<a>1</a>" * 20_000
    assert len(read_global_preferences(text, notes).text) <= 64 * 1024
    assert [note.kind for note in notes] == [LenienceKind.CUT]


@pytest.mark.parametrize("name", ["", "a b", "</x>", "A", "1a", "x" * 65])
def test_a_name_that_is_no_element_is_refused(name: str):
    with pytest.raises(LocalProtocolError, match="not a valid preference name"):
        write_global_preferences({name: 1.0})


CHOSEN = ProjectPreferences(
    selected_apps=frozenset({AppId(3), AppId(11)}),
    allow_non_preferred=True,
    allow_beta=True,
    no_cpu=True,
    no_gpu_types=frozenset({"NVIDIA", "intel_gpu"}),
    max_jobs=7,
    max_cpus=2,
    resource_share=40.0,
)


def test_what_a_volunteer_chose_comes_back_for_each_venue():
    text = preferences_text(CHOSEN, work=ProjectPreferences(max_jobs=1))
    assert read_project_preferences(text) == CHOSEN
    assert read_project_preferences(text, "home") == CHOSEN
    assert read_project_preferences(text, "work") == ProjectPreferences(max_jobs=1)


def test_preferences_as_the_familys_pages_write_them_are_understood():
    text = (
        "<project_preferences>\n<resource_share>25</resource_share>\n<no_cuda>1</no_cuda>\n<no_ati>0</no_ati>\n"
        "<allow_beta_work/>\n<project_specific>\n<app_id> 4 </app_id>\n<max_jobs>12</max_jobs>\n</project_specific>\n"
        '<venue name="school">\n<no_gpus>1</no_gpus>\n</venue>\n</project_preferences>'
    )
    assert read_project_preferences(text) == ProjectPreferences(
        selected_apps=frozenset({AppId(4)}),
        allow_beta=True,
        no_gpu_types=frozenset({"NVIDIA"}),
        max_jobs=12,
        resource_share=25.0,
    )
    school = read_project_preferences(text, "school")
    assert school.no_gpu_types == {"NVIDIA", "ATI", "intel_gpu", "apple_gpu"}
    assert not school.allow_beta


@given(st.text(max_size=300), st.sampled_from(["", *VENUES]))
def test_no_text_is_a_reason_to_fail(text: str, venue: str):
    wrapped = f"<project_preferences><max_jobs>{text}</max_jobs><resource_share>{text}</resource_share>{text}"
    for each in (text, wrapped):
        found = read_project_preferences(each, venue)
        assert 0 <= found.max_jobs <= 1_000_000
        assert 0 <= found.resource_share <= 1e9


def test_a_venue_that_no_client_knows_is_refused():
    with pytest.raises(LocalProtocolError, match="not a venue"):
        write_global_preferences({}, venues={"beach": {}})
