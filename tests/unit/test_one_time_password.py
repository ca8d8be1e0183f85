"""One-time passwords: the test values of RFC 6238, cut to six digits, and the window of time."""

from __future__ import annotations

import pytest

from cobblestone.service.passwords import matching_step, one_time_password, time_step

SECRET = b"12345678901234567890"


@pytest.mark.parametrize(
    ("time", "password"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_the_values_of_the_standard(time: int, password: str) -> None:
    assert one_time_password(SECRET, time_step(time)) == password
    assert matching_step(SECRET, password, now=time, last_step=0) == time_step(time)


def test_neighbouring_steps_count_and_others_do_not() -> None:
    now = 1_800_000_000.0
    step = time_step(now)
    accepted = {
        shift: matching_step(SECRET, one_time_password(SECRET, step + shift), now=now, last_step=0)
        for shift in (-2, -1, 0, 1, 2)
    }
    assert accepted == {-2: None, -1: step - 1, 0: step, 1: step + 1, 2: None}


def test_a_password_counts_once() -> None:
    now = 1_800_000_000.0
    step = time_step(now)
    assert matching_step(SECRET, one_time_password(SECRET, step), now=now, last_step=step) is None
    assert matching_step(SECRET, one_time_password(SECRET, step - 1), now=now, last_step=step) is None


@pytest.mark.parametrize("text", ["", "12345", "1234567", "12345a", "١٢٣٤٥٦", " 87082"])
def test_what_is_no_password_is_refused(text: str) -> None:
    assert matching_step(SECRET, text, now=59, last_step=0) is None
