"""Preferences: numbers for the server, the text for everybody else."""

from __future__ import annotations

import pytest
from tests.helpers.wire_elements import read_elements

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.wire.lenience import Lenience, LenienceKind
from cobblestone.wire.preferences import (
    parse_global_preferences,
    read_global_preferences,
    write_global_preferences,
    write_project_preferences,
)


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


def test_project_preferences_are_written_as_clients_read_them():
    text = write_project_preferences(
        resource_share=50, project_specific={"max_cpus": 2, "color": "a & b", "on": True}
    )
    root = read_elements(text)
    assert (root.tag, root.get("resource_share")) == ("project_preferences", "50")
    specific = root.path("project_specific")
    assert [(e.tag, e.text) for e in specific.children] == [
        ("max_cpus", "2"),
        ("color", "a & b"),
        ("on", "1"),
    ]
    assert "project_specific" not in write_project_preferences()


@pytest.mark.parametrize("name", ["", "a b", "</x>", "A", "1a", "x" * 65])
def test_a_name_that_is_no_element_is_refused(name: str):
    with pytest.raises(LocalProtocolError, match="no name of a preference"):
        write_project_preferences(project_specific={name: 1})
    with pytest.raises(LocalProtocolError, match="no name of a preference"):
        write_global_preferences({name: 1.0})
