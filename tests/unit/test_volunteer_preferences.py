"""Preferences with venues: what is written is read again, and rubbish does no harm."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.computing import PREFERENCES
from cobblestone.wire.project.preferences import (
    DEFAULT_COMPUTING,
    VENUES,
    ComputingSet,
    ProjectSet,
    parse_global_preferences,
    read_computing,
    read_project,
    write_computing,
    write_project,
)

values = st.fixed_dictionaries(
    {
        item.name: st.booleans() if item.is_switch else st.integers(int(item.low), int(item.high)).map(float)
        for item in PREFERENCES
    }
)
project_sets = st.builds(
    ProjectSet,
    resource_share=st.integers(0, 1000).map(float),
    app_ids=st.frozensets(st.integers(1, 10**6), max_size=10),
    allow_non_preferred_apps=st.booleans(),
    allow_beta_work=st.booleans(),
    no_cpu=st.booleans(),
    no_cuda=st.booleans(),
    no_ati=st.booleans(),
    no_intel_gpu=st.booleans(),
    max_jobs=st.integers(0, 1000),
    max_cpus=st.integers(0, 1000),
)
venue_names = st.lists(st.sampled_from(VENUES), unique=True)


@given(st.data(), venue_names, values)
def test_computing_preferences_come_back_as_they_were_written(data, venues, default) -> None:
    sets = {"": ComputingSet(default), **{name: ComputingSet(data.draw(values)) for name in venues}}
    text = write_computing(sets, source_project="http://a.example/", mod_time=1.8e9)
    assert read_computing(text) == sets
    assert parse_global_preferences(text).mod_time == 1.8e9
    assert parse_global_preferences(text).max_ncpus_pct == default["max_ncpus_pct"]


@given(st.data(), venue_names, project_sets)
def test_project_preferences_come_back_as_they_were_written(data, venues, default) -> None:
    sets = {"": default, **{name: data.draw(project_sets) for name in venues}}
    assert read_project(write_project(sets)) == sets


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert "" in read_computing(f"<global_preferences>{text}</global_preferences>")
    assert "" in read_project(text)


def test_elements_within_others_do_not_count() -> None:
    day = "<day_prefs><day_of_week>1</day_of_week><start_hour>7</start_hour></day_prefs>"
    text = f"<global_preferences><start_hour>3</start_hour>{day}</global_preferences>"
    (found,) = read_computing(text).values()
    assert (found.values["start_hour"], dict(found.kept)) == (3, {})


def test_the_last_of_several_sections_of_a_venue_counts() -> None:
    sections = "".join(f"<venue name='home'><max_ncpus_pct>{n}</max_ncpus_pct></venue>" for n in (10, 20))
    assert (
        read_computing(f"<global_preferences>{sections}</global_preferences>")["home"].values["max_ncpus_pct"]
        == 20
    )


def test_what_others_wrote_is_kept() -> None:
    text = "<project_preferences><color>a&amp;b</color><resource_share>nan</resource_share></project_preferences>"
    (default,) = read_project(text).values()
    assert default.kept == {"color": "a&b"}
    assert default.resource_share == 100
    again = read_project(write_project({"": replace(default, resource_share=50.0)}))[""]
    assert again.kept == {"color": "a&b"}


def test_numbers_are_kept_within_their_bounds() -> None:
    text = "<max_ncpus_pct>1e300</max_ncpus_pct><work_buf_min_days>-5</work_buf_min_days>"
    (found,) = read_computing(text).values()
    assert found.values["max_ncpus_pct"] == 100
    assert found.values["work_buf_min_days"] == 0
    assert found.values["disk_max_used_pct"] == DEFAULT_COMPUTING.values["disk_max_used_pct"]


def test_a_client_is_told_of_refused_types_in_the_elements_that_it_knows() -> None:
    text = write_project({"": ProjectSet(no_cuda=True, no_intel_gpu=True)})
    assert "<no_cuda>1</no_cuda>" in text
    assert "<no_rsc>intel_gpu</no_rsc>" in text
    assert "no_cpu" not in text
