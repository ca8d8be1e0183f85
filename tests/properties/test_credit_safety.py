"""Rules against liars hold for every history: trust after failures, speeds that are believed, credit that is open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.hosts import HostAppVersion, HostVersionStatistics
from cobblestone.domain.values import AppVersionId, HostId, ResultId, UserId
from cobblestone.policy.credit.book import (
    FIRST_WINDOW,
    CreditBook,
    MessageReceived,
    TrickleFacts,
    TrickleRules,
    owner_allowance,
)
from cobblestone.policy.credit.claims import DEPLOYED
from cobblestone.policy.credit.host_records import after_failure, after_invalid, after_valid
from cobblestone.policy.dispatch.catalogue import MANY_PEOPLE, SpeedPopulation
from cobblestone.policy.dispatch.limits import failed_lately

HONEST = st.lists(st.floats(1e8, 1e10), min_size=MANY_PEOPLE, max_size=200)


def after(history: str) -> HostAppVersion:
    """The record of a host after valid (v), invalid (i) and failed (f) results."""
    record = HostVersionStatistics()
    for each in history:
        if each == "v":
            record = after_valid(record, now=0.0)
        elif each == "i":
            record = after_invalid(record)
        else:
            record = after_failure(record, delay_bound=1.0, now=0.0)
    return HostAppVersion(host_id=HostId(1), app_version_id=AppVersionId(1), statistics=record)


@given(st.text("vif", max_size=60))
def test_three_failures_end_the_trust_and_ten_valid_results_bring_it_back(history: str):
    assert failed_lately(after(history + "fif"))
    assert not failed_lately(after(history + "v" * 10))


@given(st.integers(0, 200))
def test_a_newcomer_is_believed_until_it_fails(valid: int):
    assert not failed_lately(after("v" * valid))
    assert failed_lately(after("v" * min(valid, 5) + "f"))


@given(HONEST, st.data())
def test_one_liar_in_twenty_people_lifts_what_is_believed_to_no_more_than_an_honest_speed(
    honest: list[float], data: st.DataObject
):
    liars = data.draw(st.integers(0, len(honest) // 19))
    found = SpeedPopulation.of([*honest, *[1e15] * liars])
    assert found.percentile_95 <= max(3.3e9, *honest)


@given(HONEST, st.data())
def test_fewer_than_half_of_the_people_lift_it_to_three_times_an_honest_speed_at_most(
    honest: list[float], data: st.DataObject
):
    liars = data.draw(st.integers(0, len(honest) - 1))
    assert SpeedPopulation.of([*honest, *[1e15] * liars]).percentile_95 <= max(3.3e9, 3 * max(honest))


MESSAGES = st.lists(
    st.tuples(st.integers(1, 5), st.floats(0, 1e7), st.floats(0, 1e15), st.floats(0, 1e6)), max_size=40
)


@given(MESSAGES, st.floats(0, 1e6))
def test_messages_of_a_persons_open_jobs_bring_no_more_than_the_allowance(
    messages: list[tuple[int, float, float, float]], returned: float
):
    book, now, granted = CreditBook(), 0.0, 0.0
    rules = TrickleRules()
    for number, seconds, speed, later in messages:
        now += later
        most = owner_allowance(
            returned=returned, speed=speed, known_since=0.0, rules=rules, unit=DEPLOYED, now=now
        )
        facts = TrickleFacts(
            run_time=seconds, p_fpops=speed, in_progress=True, sent_time=0.0, owner_most_credit=most
        )
        event = MessageReceived(
            result_id=ResultId(number), user_id=UserId(1), facts=facts, rules=rules, now=now
        )
        granted += sum(entry.credit.granted for entry in book.apply(event))
    week = DEPLOYED.of_flops(min(now, FIRST_WINDOW) * rules.percentile_95_speed)
    assert granted <= (week + returned) * (1 + 1e-9)
    assert book.owner_messages.get(UserId(1), 0.0) == pytest.approx(granted)
