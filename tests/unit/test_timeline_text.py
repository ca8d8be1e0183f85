"""The timeline in characters."""

from __future__ import annotations

from typing import Any

from cobblestone.client.records.measurements import in_lanes
from cobblestone.monitor.display import LATE, MAX_LANES, NOW, PLANNED, RAN, draw_timeline


def run(job: str, begin: float, end: float, **more: Any) -> dict[str, Any]:
    return {
        "project": "p",
        "job": job,
        "begin": begin,
        "end": end,
        "planned": begin >= 0,
        "late": False,
        **more,
    }


def drawn(*runs: dict[str, Any], width: int = 60) -> list[str]:
    return [line.plain for line in draw_timeline({"now": 0.0, "runs": in_lanes(runs)}, width)]


def test_what_ran_stands_before_the_mark_of_now_and_the_forecast_behind_it():
    (line,) = drawn(run("a", -3600.0, 0.0), run("a", 0.0, 3600.0))
    before, mark, after = line.partition(NOW)
    assert (set(before), mark, set(after)) == ({RAN}, NOW, {PLANNED})
    assert len(line) == 60


def test_what_will_be_late_is_marked_and_what_runs_at_once_has_lanes_of_its_own():
    lines = drawn(run("a", 0.0, 3600.0), run("b", 0.0, 7200.0, late=True), run("c", 3600.0, 7200.0))
    assert len(lines) == 2
    assert LATE in lines[1]
    assert LATE not in lines[0]


def test_a_job_keeps_its_lane_unless_it_is_taken():
    rows = in_lanes([run("a", 0, 1), run("b", 0, 3), run("c", 1, 2), run("a", 2, 4), run("c", 3, 4)])
    assert [row["lane"] for row in rows] == [0, 1, 0, 0, 1]


def test_lanes_that_do_not_fit_are_counted_and_an_idle_client_has_a_sentence():
    lines = drawn(*(run(f"j{n}", 0.0, 60.0) for n in range(MAX_LANES + 3)))
    assert lines[-1] == "… and 3 more at once"
    assert drawn() == ["No runs, past or planned."]
