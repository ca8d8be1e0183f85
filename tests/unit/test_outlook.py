"""What jobs will cost, and when a batch will be done."""

from __future__ import annotations

from dataclasses import replace

from cobblestone.policy.lifecycle.outlook import USUAL_SPEED, Supply

NOW = 1_800_000_000.0
SUPPLY = Supply(NOW, 10.0, 2e9, 40)


def test_a_price_is_what_others_took_or_follows_from_the_speed_of_the_cores():
    assert SUPPLY.seconds_for(6e12, cpu_seconds=100.0, of_operations=1e12) == 600.0
    assert SUPPLY.seconds_for(6e12, cpu_seconds=0.0, of_operations=0.0) == 3000.0
    assert (
        replace(SUPPLY, speed=0.0).seconds_for(6e12, cpu_seconds=0.0, of_operations=0.0) == 6e12 / USUAL_SPEED
    )


def test_a_new_batch_waits_for_what_is_ahead_and_ends_no_sooner_than_one_job_takes():
    assert SUPPLY.end_of(60, 3600.0) == NOW + 36_000  # 40 wait, 60 are new, 10 at a time
    assert SUPPLY.end_of(60, 3600.0, since=NOW - 5) == NOW + 21_600  # its own are among those that wait
    assert replace(SUPPLY, n_unsent=0).end_of(1, 3600.0) == NOW + 3600


def test_a_batch_goes_on_at_its_own_pace_once_it_has_one():
    assert SUPPLY.end_of(30, 1.0, n_finished=10, since=NOW - 3600) == NOW + 10_800
    assert SUPPLY.end_of(0, 1.0, n_finished=10, since=NOW - 3600) is None, "it is done"
    assert replace(SUPPLY, cores=0.0).end_of(30, 1.0, since=NOW - 1) is None, "nobody computes"
