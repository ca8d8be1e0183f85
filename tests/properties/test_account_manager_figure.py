"""What must hold for the figure that an account manager shows, whatever clients claim and projects answer."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.exports import CountedJobState
from cobblestone.domain.values import DAY
from cobblestone.policy.account_manager.accounting_policies import (
    CAUTION,
    CEILING,
    HOLD,
    KAPPA,
    LARGEST_CREDIT,
    STARTER_POOL,
    ByJobs,
    BySums,
    ByTotals,
    Confirmation,
    FigureGoal,
    JobAnswer,
    JobAnswers,
    ReportedDay,
    ShownFigure,
    Statement,
    TotalAnswer,
    bounded,
    claim,
    confirm,
    follow,
    shown_at,
    starter_of_new,
    sums_for_figure,
    target_of,
)

NOTHING_YET = FigureGoal(final=0.0, provisional=0.0, waiting=0.0)
credit = st.floats(0, 1e9)
anything = st.floats(allow_nan=True, allow_infinity=True)
steps = st.lists(st.tuples(st.floats(0, 5 * DAY), credit, credit), max_size=30)  #: seconds, final, pending


@given(steps, st.floats(0, STARTER_POOL))
def test_whatever_is_claimed_the_figure_stays_within_its_bound(
    given_steps: list[tuple[float, float, float]], starter: float
) -> None:
    figure, target, now = ShownFigure(starter=starter), NOTHING_YET, 0.0
    for seconds, final, pending in given_steps:
        now += seconds
        after = target_of(final, pending, starter=starter)
        figure, target = follow(figure, target, after, now), after
        for later in (now, now + DAY, now + 300 * DAY):
            bound = (1 + HOLD) * (final + max(starter, KAPPA * final))
            assert 0 <= shown_at(figure, target, later) <= bound * (1 + 1e-9)


@given(st.floats(1, 1e9), credit, credit, st.floats(0, 100 * DAY))
def test_a_figure_whose_claims_vanish_falls_by_less_than_three_in_a_hundred(
    final: float, pending: float, left: float, seconds: float
) -> None:
    before = target_of(final, pending, starter=0.0)
    figure = ShownFigure(shown=before.whole)
    after = target_of(final, min(left, pending), starter=0.0)
    figure = follow(figure, before, after, seconds)
    assert figure.shown >= before.whole * (1 + HOLD) / (1 + KAPPA) * (1 - 1e-9)


@given(st.lists(st.tuples(st.floats(0, 5 * DAY), credit), max_size=20))
def test_a_figure_never_falls_while_more_and_more_is_granted(given_steps: list[tuple[float, float]]) -> None:
    figure, target, now, final = ShownFigure(starter=10.0), NOTHING_YET, 0.0, 0.0
    for seconds, more in given_steps:
        before = figure.shown
        now, final = now + seconds, final + more
        after = target_of(final, 100.0, starter=10.0)
        figure, target = follow(figure, target, after, now), after
        assert figure.shown >= before * (1 - 1e-9)


@given(credit, credit, st.floats(0, 1e9), st.floats(0, 30 * DAY))
def test_a_figure_has_no_steps_between_answers(
    shown: float, final: float, pending: float, now: float
) -> None:
    target = target_of(final, pending, starter=10.0)
    figure = follow(ShownFigure(shown=shown), target, target, 0.0)
    one, other = shown_at(figure, target, now), shown_at(figure, target, now + 1.0)
    assert abs(other - one) <= 1e-4 * max(abs(target.whole - figure.shown), 1e-6) + 1e-9 * max(one, other)


@given(credit, credit, st.floats(1, 1e9))
def test_more_claims_are_never_worth_less(final: float, pending: float, more: float) -> None:
    one, other = target_of(final, pending, starter=10.0), target_of(final, pending + more, starter=10.0)
    assert other.whole >= one.whole
    assert math.isclose(other.waiting + other.provisional, pending + more, abs_tol=1e-6)


def test_a_figure_comes_to_what_was_granted_when_nothing_is_pending_any_more() -> None:
    figure = ShownFigure(shown=1020.0)
    target = target_of(1000.0, 0.0, starter=0.0)
    assert shown_at(figure, target, 0.0) == pytest.approx(1020.0)
    assert shown_at(figure, target, 300 * DAY) == pytest.approx(1000.0, abs=0.1)
    assert shown_at(ShownFigure(shown=10.0), target, 30 * DAY) == pytest.approx(1000.0)


@given(st.integers(1, 200))
def test_starters_of_one_address_block_add_up_to_the_pool_at_most(accounts: int) -> None:
    given_out = 0.0
    for _ in range(accounts):
        starter = starter_of_new(given_out)
        assert starter >= 0
        given_out += starter
    assert given_out <= STARTER_POOL


def test_a_clock_that_goes_back_moves_nothing() -> None:
    target = target_of(100.0, 0.0, starter=0.0)
    figure = ShownFigure(shown=50.0, time=1000.0)
    assert shown_at(figure, target, 0.0) == 50.0
    assert follow(figure, target, target, 0.0) == figure


# -- what projects answer ---------------------------------------------------------------------------------


@given(st.lists(anything, min_size=1, max_size=20))
def test_totals_of_a_hostile_project_count_up_to_a_multiple_of_what_was_claimed(answers: list[float]) -> None:
    known, way = Confirmation(), ByTotals()
    for number, total in enumerate(answers):
        known = claim(known, 100.0 * number, now=number * DAY)
        marked, statement = way.read(known, TotalAnswer(total))
        known = confirm(marked, statement)
        assert 0 <= known.final <= LARGEST_CREDIT
        assert 0 <= known.accepted <= CEILING * 100.0 * number
        assert 0 <= known.pending < math.inf
        assert 0 < known.ratio <= CEILING


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_final_credit_by_totals_is_what_the_total_rose_since_the_first_answer(totals: list[float]) -> None:
    known, way = Confirmation(estimate=1e12), ByTotals()
    for total in totals:
        known = confirm(*way.read(known, TotalAnswer(total)))
    rises = sum(max(0.0, b - a) for a, b in pairwise(totals))
    assert known.final <= rises + 1e-3
    if totals == sorted(totals):
        assert known.final == pytest.approx(totals[-1] - totals[0], abs=1e-3)


day_rows = st.lists(
    st.builds(
        ReportedDay,
        day=st.integers(100, 110),
        final=anything,
        provisional=st.none() | anything,
        revoked=anything,
    ),
    max_size=12,
)


@given(st.lists(day_rows, max_size=6))
def test_sums_of_a_hostile_project_stay_within_bounds(answers: list[list[ReportedDay]]) -> None:
    known, way = Confirmation(), BySums()
    for number, rows in enumerate(answers):
        known = claim(known, 100.0 * number, now=number * DAY)
        known = confirm(*way.read(known, rows))
        assert 0 <= known.final <= LARGEST_CREDIT
        assert 0 <= known.pending < math.inf
        assert 0 <= known.accepted <= CEILING * 100.0 * number


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e6)), min_size=1, max_size=30), st.data())
def test_sums_are_counted_once_however_often_days_are_asked_for(
    grants: list[tuple[int, float]], data: st.DataObject
) -> None:
    """Grants come in the order of their days; answers hold every day from the last incomplete one on."""
    known, way, by_day, day = Confirmation(estimate=1e12), BySums(), dict[int, float](), 1000
    for later, amount in grants:
        day += later
        by_day[day] = by_day.get(day, 0.0) + amount
        for _ in range(data.draw(st.integers(0, 2))):
            rows = [
                ReportedDay(day=each, final=by_day[each], provisional=0.0, revoked=0.0)
                for each in sorted(by_day)
                if each > known.day
            ]
            known = confirm(*way.read(known, rows))
    rows = [
        ReportedDay(day=each, final=by_day[each], provisional=0.0, revoked=0.0)
        for each in by_day
        if each > known.day
    ]
    known = confirm(*way.read(known, rows))
    assert known.final == pytest.approx(sum(amount for _, amount in grants), abs=1e-3)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(list(CountedJobState)), anything), max_size=12
    ),
    st.sets(st.sampled_from("abc")),
)
def test_a_job_counts_once_and_only_if_it_was_asked_for(
    answers: list[tuple[str, CountedJobState, float]], asked: set[str]
) -> None:
    given_answers = tuple(JobAnswer(name=name, state=state, credit=amount) for name, state, amount in answers)
    _, statement = ByJobs().read(
        Confirmation(), JobAnswers(answers=given_answers, granted_before=dict.fromkeys(asked, 0.0))
    )
    first = {name: (state, amount) for name, state, amount in reversed(answers) if name in asked}
    granted = [amount for state, amount in first.values() if state is CountedJobState.GRANTED and amount > 0]
    assert statement.final == pytest.approx(sum(min(each, LARGEST_CREDIT) for each in granted))


def test_a_grant_that_is_taken_back_is_revoked_once() -> None:
    way, known = ByJobs(), Confirmation(final=70.0, estimate=100.0)
    refused = (JobAnswer(name="a", state=CountedJobState.REFUSED),)
    known = confirm(*way.read(known, JobAnswers(answers=refused, granted_before={"a": 50.0})))
    assert (known.final, known.revoked) == (20.0, 50.0)
    known = confirm(*way.read(known, JobAnswers(answers=refused, granted_before={"a": 0.0})))
    assert (known.final, known.revoked) == (20.0, 50.0)


def test_what_a_project_confirms_that_nobody_vouches_for_is_as_good_as_a_claim() -> None:
    real = Confirmation(final=100.0, estimate=100.0)
    liar = Confirmation(final=1e6, estimate=1e6, pending=5.0)
    assert sums_for_figure([(real, True), (liar, False)]) == (100.0, 1e6 + 5.0)


def test_an_estimate_is_worth_what_such_estimates_were_granted() -> None:
    known = Confirmation()
    for day in range(1, 60):
        known = claim(known, 1000.0 * day, now=day * DAY)
        known = confirm(known, Statement(final=400.0))
    assert known.ratio == pytest.approx(0.9 * 0.4, rel=0.02)
    before = known.pending
    assert claim(known, known.estimate + 100.0, now=known.time).pending == pytest.approx(
        before + 36.0, rel=0.02
    )


def test_claims_that_nobody_confirms_are_forgotten() -> None:
    known = claim(Confirmation(), 1000.0, now=0.0)
    assert claim(known, 1000.0, now=10 * DAY).pending == pytest.approx(known.pending / 2)


def test_where_a_project_is_silent_for_long_claims_are_forgotten_as_if_they_had_been_counted_each_hour() -> (
    None
):
    begin = claim(Confirmation(), 0.0, now=DAY)
    hourly = begin
    for hour in range(1, 24 * 100 + 1):
        hourly = claim(hourly, 1e-5 * hour, now=DAY + 3600.0 * hour)
    at_once = claim(begin, hourly.estimate, now=hourly.time)
    assert at_once.pending == pytest.approx(hourly.pending, rel=0.01)
    assert at_once.estimated_lately == pytest.approx(hourly.estimated_lately, rel=0.01)


@pytest.mark.parametrize(
    ("stated", "read"), [(math.nan, 0.0), (-5.0, 0.0), (math.inf, LARGEST_CREDIT), (1e300, LARGEST_CREDIT)]
)
def test_a_figure_of_a_project_is_read_within_bounds(stated: float, read: float) -> None:
    assert bounded(stated) == read


def test_no_sum_of_statements_is_larger_than_any_real_one_or_below_nothing() -> None:
    known = Confirmation(final=LARGEST_CREDIT, revoked=LARGEST_CREDIT)
    known = confirm(known, Statement(final=LARGEST_CREDIT, revoked=5.0))
    assert (known.final, known.revoked) == (LARGEST_CREDIT, LARGEST_CREDIT)
    known = confirm(Confirmation(final=3.0), Statement(revoked=10.0))
    assert (known.final, known.revoked) == (0.0, 3.0)


def test_an_estimate_is_not_worth_more_than_a_multiple_however_much_was_granted() -> None:
    assert Confirmation(granted_lately=1e12).ratio == CAUTION * CEILING
