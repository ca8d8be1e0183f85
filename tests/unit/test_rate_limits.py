"""Buckets of attempts."""

from __future__ import annotations

import pytest

from cobblestone.ops.settings import LimitsSection
from cobblestone.service.rate_limits import AttemptBucket, RateLimits, limit_key


def test_an_hours_worth_is_allowed_at_once_and_then_at_an_even_pace() -> None:
    bucket = AttemptBucket(60)
    for _ in range(60):
        assert bucket.wait("a", now=1000.0) == 0
        bucket.take("a", now=1000.0)
    assert bucket.wait("a", now=1000.0) == pytest.approx(60)
    assert bucket.wait("a", now=1030.0) == pytest.approx(30)
    assert bucket.wait("a", now=1060.0) == 0
    assert bucket.wait("b", now=1000.0) == 0


def test_a_clock_that_goes_back_locks_nobody_out_for_longer() -> None:
    bucket = AttemptBucket(1)
    bucket.take("a", now=1e9)
    assert bucket.wait("a", now=1.0) == pytest.approx(3600)
    assert bucket.wait("a", now=1801.0) == pytest.approx(1800)
    assert bucket.wait("a", now=3601.0) == 0


def test_the_number_of_buckets_is_bounded_and_the_latest_stay() -> None:
    bucket = AttemptBucket(1, max_keys=100)
    for number in range(1000):
        bucket.take(str(number), now=float(number))
    assert len(bucket) == 100
    assert bucket.wait("999", now=999.0) > 0
    assert bucket.wait("0", now=999.0) == 0


def test_zero_means_no_limit() -> None:
    bucket = AttemptBucket(0)
    for _ in range(1000):
        bucket.take("a", now=0.0)
    assert bucket.wait("a", now=0.0) == 0
    assert len(bucket) == 0


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_an_address_counts_with_its_network(address: str, key: str) -> None:
    assert limit_key(address) == key


def test_what_other_processes_tell_is_counted_and_rubbish_is_not() -> None:
    told: list[str] = []
    settings = LimitsSection.model_validate({"lookups_per_address": 2})
    first, second = (
        RateLimits(settings, share=told.extend),
        RateLimits(settings, share=lambda names: pytest.fail("it was told")),
    )
    first.lookups.take("alice@example.org", now=0.0)
    first.lookups.take("alice@example.org", now=0.0)
    assert len(set(told)) == 2
    assert not any("alice" in name for name in told), "who it was is nobody's business"
    second.hear([*told, "validator", "*", "attempt:", "attempt:nothing:1:1", "attempt:lookups"], now=0.0)
    assert second.lookups.wait("alice@example.org", now=0.0) > 0
    assert second.lookups.wait("bob@example.org", now=0.0) == 0
