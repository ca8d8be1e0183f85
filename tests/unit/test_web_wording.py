"""Numbers, times and states in words."""

from __future__ import annotations

import math

import pytest

from cobblestone.domain.values import AppId, ResultId, WorkunitId
from cobblestone.domain.work import Outcome, Result, ServerState, ValidateState, Workunit, WorkunitError
from cobblestone.server.web.presentation import wording
from cobblestone.service.pages import wording as shared

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.9, "60 s"),
        (60, "1 min 00 s"),
        (3599.9, "1 h 00 min"),
        (86399, "23 h 59 min"),
        (90_000, "1 d 1 h"),
        (4e7, "462 d 23 h"),
        (-1, "unknown"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
    ],
)
def test_a_duration_shows_its_two_largest_units(seconds: float, text: str) -> None:
    assert shared.duration(seconds) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (NOW, "just now"),
        (NOW - 9, "just now"),
        (NOW - 30, "30 seconds ago"),
        (NOW - 60, "1 minute ago"),
        (NOW - 7300, "2 hours ago"),
        (NOW - 86400 * 3, "3 days ago"),
        (NOW + 86400 * 3, "in 3 days"),
    ],
)
def test_a_moment_is_told_from_now(time: float, text: str) -> None:
    assert shared.ago(time, NOW) == text


@pytest.mark.parametrize("time", [-1e300, 1e300, math.nan, math.inf])
def test_no_time_is_too_strange_to_be_shown(time: float) -> None:
    assert shared.moment(time).endswith("UTC")
    assert shared.iso(time).endswith("Z")


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        ("Claim 47.2612345: 4980.0 s x 4100000000.0", "Claim 47.26: 4,980 s x 4.1 × 10⁹"),
        ("Whetstone 4.1e+09 per second", "Whetstone 4.1 × 10⁹ per second"),
        ("share 0.00001234", "share 1.234 × 10⁻⁵"),
        ("version 7.20.5 ended with status 1", "version 7.20.5 ended with status 1"),
        ("file a_1.25x stays, 0.5 too", "file a_1.25x stays, 0.5 too"),
        ("too large: 1e999", "too large: inf"),
    ],
)
def test_long_decimals_in_reasons_are_cut(text: str, tidy: str) -> None:
    assert shared.tidy_numbers(text) == tidy


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "0"),
        (1, "Exit status 1 (0x1)."),
        (197, "Exit status 197 (0xc5): The task ran longer than allowed."),
        (
            -1073741819,
            "Exit status -1073741819 (0xc0000005): The program crashed: it accessed memory that is not its own.",
        ),
    ],
)
def test_an_exit_status_is_explained_where_it_is_known(status: int, text: str) -> None:
    assert wording.exit_status(status) == text


@pytest.mark.parametrize("server_state", ServerState)
@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("validate_state", ValidateState)
def test_every_state_of_a_task_has_words(
    server_state: ServerState, outcome: Outcome, validate_state: ValidateState
) -> None:
    status = wording.task_status(
        Result(
            id=ResultId(1),
            name="r",
            workunit_id=WorkunitId(1),
            app_id=AppId(1),
            server_state=server_state,
            outcome=outcome,
            validate_state=validate_state,
            exit_status=203,
        ),
        now=NOW,
    )
    assert status.label
    assert status.sentence.endswith(".")
    assert status.tone in {"good", "bad", "busy", "wait", "idle"}


@pytest.mark.parametrize("flag", [flag for flag in WorkunitError if flag])
def test_every_error_of_a_workunit_has_words(flag: WorkunitError) -> None:
    workunit = Workunit(id=WorkunitId(1), name="w", app_id=AppId(1), error_mask=flag)
    assert wording.workunit_status(workunit).sentence


def test_versions_are_written_as_volunteers_know_them() -> None:
    assert shared.version_number(705) == "7.05"
    assert shared.client_version(72005) == "7.20.5"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 bytes"), (999, "999 bytes"), (16e9, "16.0 GB"), (2e15, "2,000.0 TB")]
)
def test_sizes_have_units(value: float, text: str) -> None:
    assert shared.nbytes(value) == text
