"""What the ledger system of credit promises, whatever is reported and in whatever order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.ledger_book import UNIT, Book

from cobblestone.policy.credit.ledger_system.engine import settled, step, third_opinion
from cobblestone.policy.credit.ledger_system.readings import worth
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    AuditFinished,
    CheckFailed,
    Event,
    HostRecord,
    Job,
    JobDecided,
    JobRefused,
    LedgerRules,
    LedgerState,
    Report,
    VersionRecord,
)

ANY = st.floats(allow_nan=True, allow_infinity=True)
TIMES = st.one_of(st.floats(1.0, 1e6), ANY)
ESTIMATES = st.floats(1e9, 1e15)
HOSTS = st.sampled_from([(host, version, "") for host in range(4) for version in (1, 2)])
STRATA = st.sampled_from(["", "large"])


@st.composite
def reports(draw: st.DrawFn, least: int = 1, most: int = 3) -> tuple[Report, ...]:
    """Reports of different hosts, with whatever they say."""
    hosts = draw(st.lists(HOSTS, min_size=least, max_size=most, unique_by=lambda key: key[0]))
    return tuple(
        Report(
            result_id=number,
            host=host,
            owner=draw(st.integers(0, 2)),
            run_time=draw(TIMES),
            speed=draw(TIMES),
        )
        for number, host in enumerate(hosts)
    )


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Any event."""
    job = Job(
        estimate=draw(st.one_of(ESTIMATES, st.sampled_from([0.0, -1.0, math.nan, math.inf]))),
        stratum=draw(STRATA),
    )
    kind = draw(st.sampled_from(["decided", "decided", "decided", "refused", "failed", "audited"]))
    if kind == "decided":
        checked = tuple(draw(st.lists(st.integers(0, 2), max_size=2)))
        return JobDecided(job=job, reports=draw(reports()), quorum=draw(st.integers(1, 3)), checked=checked)
    if kind == "refused":
        return JobRefused(job=job, host=draw(HOSTS), reports=draw(reports()), replicated=draw(st.booleans()))
    if kind == "failed":
        return CheckFailed(host=draw(HOSTS), agreed=draw(st.booleans()))
    return AuditFinished(host=draw(HOSTS), bad=draw(st.integers(0, 2)))


def figures(state: LedgerState) -> Iterable[float]:
    """All numbers of all records."""
    app = state.app
    records = [*state.hosts.values(), *state.versions.values(), *state.cells.values()]
    for record in (*records, app.own, app.partner, app.length, app.detector):
        yield from (getattr(record, each.name) for each in fields(record))
    yield from (app.difference, app.mean_size, app.constant, *app.constants.values())


@given(st.lists(events(), max_size=30))
def test_state_and_prices_stay_finite_and_add_up_whatever_is_reported(told: list[Event]) -> None:
    book = Book()
    for event in told:
        outcome = book.tell(event)
        assert all(math.isfinite(each) for each in figures(book.state))
        assert all(0.0 <= price.amount < math.inf for price in outcome.prices)
        assert all(each.text() for price in outcome.prices for each in price.reasons)
    for key, host in book.state.hosts.items():
        scale = 1e-6 * (1.0 + host.earned)
        assert settled(host) == pytest.approx(book.paid.get(key, 0.0), abs=scale)
        assert -scale <= host.escrow <= host.earned + scale
        assert host.trusted >= 0.0


@given(
    st.lists(st.tuples(ESTIMATES, TIMES, TIMES, st.booleans()), min_size=1, max_size=60),
    st.lists(st.floats(0.3, 3.0), min_size=60, max_size=60),
)
def test_at_quorum_one_no_reports_of_an_identity_bring_more_than_its_slack(
    told: list[tuple[float, float, float, bool]], others: list[float]
) -> None:
    """sum of prices <= (1 + beta) x sum of values - refused work, at any time."""
    book = Book()
    key = (1, 1, "")
    value = refused = 0.0
    for number, ((estimate, time, speed, refuses), other) in enumerate(zip(told, others, strict=False)):
        job = Job(estimate=estimate)
        if refuses:
            there = Report(result_id=number, host=(9, 1, ""), run_time=other * estimate / 1e9, speed=1e9)
            before = book.state.hosts.get(key, HostRecord()).bank
            book.tell(JobRefused(job=job, host=key, reports=(there,), replicated=False))
            refused += before - book.state.hosts.get(key, HostRecord()).bank
        else:
            value += worth(book.state.app, job)
            mine = Report(result_id=number, host=key, run_time=time, speed=speed)
            book.tell(JobDecided(job=job, reports=(mine,)))
        has = settled(book.state.hosts.get(key, HostRecord()))
        bound = (1.0 + book.rules.slack) * value - refused
        assert has <= max(0.0, bound) + 1e-9 * (value + abs(refused))


def learned() -> Book:
    """Records of hosts that are known well."""
    known = HostRecord(scale=1e9, samples=50, variance=0.002, trusted=50.0, jobs=50)
    state = LedgerState(
        app=AppRecord(unit=UNIT),
        versions={(1, ""): VersionRecord(votes=100.0), (2, ""): VersionRecord(votes=100.0)},
        hosts={(host, version, ""): known for host in range(4) for version in (1, 2)},
    )
    book = Book()
    book.state = state
    return book


@given(ESTIMATES, reports(least=2), TIMES)
def test_with_partners_the_own_report_never_raises_the_own_price_above_what_they_say(
    estimate: float, told: tuple[Report, ...], other: float
) -> None:
    book, job = learned(), Job(estimate=estimate)

    def price(run_time: float) -> float:
        mine = replace(told[0], run_time=run_time)
        return step(book.state, JobDecided(job=job, reports=(mine, *told[1:])), book.rules).prices[0].amount

    consent = price(1e300)  # the largest report refuses no partner's upper tail
    assert price(other) <= consent * (1.0 + 1e-12)
    ordinary = [estimate / 1e9 * math.exp(0.1 * number) for number in range(len(told) - 1)]
    calm = tuple(replace(each, run_time=time) for each, time in zip(told[1:], ordinary, strict=True))
    told = (told[0], *calm)
    assert price(other) == price(1e300) == price(1e-300)


@given(ESTIMATES, st.floats(1.0, 1e6), st.floats(1.0, 1e6))
def test_a_third_opinion_is_asked_for_only_when_two_people_say_that_a_job_was_very_long(
    estimate: float, one: float, other: float
) -> None:
    book, job = learned(), Job(estimate=estimate)
    pair = tuple(
        Report(result_id=number, host=(number, 1, ""), run_time=time)
        for number, time in enumerate((one, other))
    )
    tail = LedgerRules().tail * math.sqrt(
        (1.4826 * 0.15) ** 2 / 2.0 + (1.4826 * 0.2) ** 2 - (1.4826 * 0.15) ** 2 / 4.0
    )
    expected = min(one, other) * 1e9 / estimate > math.exp(tail)
    assert third_opinion(book.state, job, pair, book.rules) == expected
    same = tuple(replace(each, owner=5) for each in pair)
    assert not third_opinion(book.state, job, same, book.rules)
