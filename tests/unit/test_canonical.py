"""The validator's rules: quorum, stragglers, what follows for the workunit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.lifecycle_builders import (
    NOW,
    a_view,
    client_error,
    in_progress,
    no_reply,
    success,
    unsent,
    valid,
)

from cobblestone.domain.reasons import phrase
from cobblestone.domain.values import AppVersionId, ResultId
from cobblestone.domain.work import AssimilateState, Outcome, Result, ValidateState, WorkunitError
from cobblestone.policy.lifecycle.states import (
    ClearNeedValidate,
    DropResult,
    FailWorkunit,
    MarkInconclusive,
    MarkInvalid,
    MarkTooLate,
    MarkUnusable,
    MarkValid,
    PostponeValidation,
    RaiseTarget,
    ReadyToAssimilate,
    SetCanonical,
    WorkunitView,
    check_invariants,
)
from cobblestone.policy.validation.canonical import (
    RETRY_SECONDS,
    OutputCheck,
    Pair,
    ValidationDecision,
    ValidationReport,
    apply_decision,
    check_straggler,
    choose_canonical,
    judge,
    pairs_to_compare,
    results_to_check,
    with_counts_compared,
)

VALID, INVALID, INCONCLUSIVE = ValidateState.VALID, ValidateState.INVALID, ValidateState.INCONCLUSIVE
PLANNED = NOW + 1000


def ids(*numbers: int) -> tuple[ResultId, ...]:
    return tuple(ResultId(100 + number) for number in numbers)


def pairs(*numbers: tuple[int, int]) -> frozenset[Pair]:
    return frozenset((ResultId(100 + one), ResultId(100 + other)) for one, other in numbers)


def fine(*numbers: int) -> tuple[OutputCheck, ...]:
    return tuple(OutputCheck(result_id=each, usable=True) for each in ids(*numbers))


def bad(number: int, problem: str = "no output", *, transient: bool = False) -> OutputCheck:
    return OutputCheck(result_id=ids(number)[0], usable=False, problem=phrase(problem), transient=transient)


def report(*checked: OutputCheck, matches: Iterable[tuple[int, int]] = ()) -> ValidationReport:
    return ValidationReport(checked=checked, matches=pairs(*matches))


def a_validation(*results: Result, **workunit: object) -> WorkunitView:
    return a_view(*results, **({"need_validate": True, "transition_time": PLANNED} | workunit))


def decide(view: WorkunitView, facts: ValidationReport) -> ValidationDecision:
    """Judge, check that the decision can be applied and leaves nothing wrong."""
    decision = judge(view, facts, now=NOW)
    after = apply_decision(view, decision, NOW)
    assert check_invariants(after) == []
    assert not after.workunit.need_validate
    return decision


# ------------------------------------------------------------------------------------------- choose_canonical


@pytest.mark.parametrize(
    ("n", "min_quorum", "matching", "canonical", "valid_ones"),
    [
        (1, 1, [], 0, [0]),
        (1, 2, [], None, []),
        (2, 1, [], 0, [0]),
        (2, 2, [(0, 1)], 0, [0, 1]),
        (2, 2, [], None, []),
        (3, 2, [(1, 2)], 1, [1, 2]),
        (2, 3, [(0, 1)], None, []),
        (3, 3, [(0, 2)], 0, [0, 2]),
        (4, 4, [(0, 1), (2, 3)], None, []),
        (4, 4, [(1, 2), (1, 3)], 1, [1, 2, 3]),
        (4, 2, [(0, 1), (2, 3)], 0, [0, 1]),
        (5, 5, [(0, 4), (0, 3)], 0, [0, 3, 4]),
    ],
)
def test_half_of_the_quorum_and_one_must_match(
    n: int, min_quorum: int, matching: list[tuple[int, int]], canonical: int | None, valid_ones: list[int]
):
    known = pairs(*matching) | pairs(*((b, a) for a, b in matching))
    verdict = choose_canonical(ids(*range(n)), matches=lambda a, b: (a, b) in known, min_quorum=min_quorum)
    assert verdict.canonical_id == (None if canonical is None else ids(canonical)[0])
    if canonical is None:
        assert set(verdict.states.values()) == {INCONCLUSIVE}
    else:
        assert verdict.states == {r: VALID if r in ids(*valid_ones) else INVALID for r in ids(*range(n))}


def test_matching_need_not_be_transitive():
    """0 matches 1, 1 matches 2, but 0 does not match 2: with quorum 3, 0 is canonical and 2 invalid."""
    known = pairs((0, 1), (1, 0), (1, 2), (2, 1))
    verdict = choose_canonical(ids(0, 1, 2), matches=lambda a, b: (a, b) in known, min_quorum=3)
    assert verdict.canonical_id == 100
    assert verdict.states[ResultId(102)] is INVALID


def test_a_straggler_is_compared_with_the_canonical_result_only():
    known = pairs((0, 2))
    assert check_straggler(ResultId(102), ResultId(100), matches=lambda a, b: (a, b) in known) is VALID
    assert check_straggler(ResultId(103), ResultId(100), matches=lambda a, b: (a, b) in known) is INVALID


# ------------------------------------------------------------------------------------------- counts of instructions

MODULE, BROWSER, OLDER, NATIVE, OWN = map(AppVersionId, (1, 2, 3, 4, 1_000_002))
PROGRAMS = {MODULE: "new", BROWSER: "new", OLDER: "old", NATIVE: ""}


def counted(number: int, count: float, version: AppVersionId = MODULE) -> Result:
    return replace(success(number), app_version_id=version, intops_counted=count)


def agreeing(
    *results: Result,
    quorum: int = 2,
    doubtful: tuple[int, ...] = (),
    usual: float = 0.0,
    draws: Sequence[float] = (0.0, 1.0, 1.0),
) -> set[tuple[int, int]]:
    """Which results with equal outputs agree after their counts were compared."""
    view = a_validation(*results, rules=replace(a_view().workunit.rules, min_quorum=quorum))
    every = pairs(*combinations(range(len(results)), 2))
    facts = ValidationReport(checked=fine(*range(len(results))), matches=every)
    left = with_counts_compared(view, facts, PROGRAMS, set(ids(*doubtful)), usual=usual, draws=draws)
    assert left.matches | set(left.differences) == every
    return {(one - 100, other - 100) for one, other in left.matches}


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (counted(0, 1e12), counted(1, 1e12), True),
        (counted(0, 1e12), counted(1, 1e12, BROWSER), True),
        (counted(0, 1e12), counted(1, 1e12 + 1, BROWSER), False),  # to the instruction
        (counted(0, 1e12), counted(1, 1e13), False),
        (counted(0, 1e12), replace(counted(1, 1e12), fpops_counted=1e13), False),  # the larger one is paid
        (counted(0, 1e12), counted(1, 0.0), True),  # absent is not zero
        (counted(0, 1e12), counted(1, 1e13, OLDER), True),
        (counted(0, 1e12), counted(1, 1e13, NATIVE), True),
        (counted(0, 1e12), counted(1, 1e13, OWN), False),
        (counted(0, 1e12, OWN), counted(1, 1e13, OWN), False),
        (counted(0, 1e12, NATIVE), counted(1, 1e13, OWN), True),
    ],
)
def test_counts_of_one_program_are_compared_like_outputs(one: Result, other: Result, agree: bool):
    assert agreeing(one, other) == ({(0, 1)} if agree else set())


def test_a_third_result_says_who_lied_and_where_no_counts_agree_the_outputs_decide():
    liar = counted(1, 1e13)
    assert agreeing(counted(0, 1e12), liar, counted(2, 1e12)) == {(0, 2)}
    assert agreeing(counted(0, 1e12), liar, counted(2, 2e12)) == {(0, 1), (0, 2), (1, 2)}
    assert agreeing(counted(0, 1e12), liar, counted(2, 2e12), quorum=3) == set()
    decision = decide(
        a_validation(counted(0, 1e12), liar),
        with_counts_compared(
            a_validation(counted(0, 1e12), liar), report(*fine(0, 1), matches=[(0, 1)]), PROGRAMS
        ),
    )
    assert decision.canonical_id is None
    assert RaiseTarget(target_nresults=3) in decision.effects


@pytest.mark.parametrize(
    ("counts", "doubtful", "agree"),
    [
        ((1, 1), (0,), {(0, 1)}),  # one of them is reliable
        ((1, 1), (0, 1), set()),
        ((9, 9, 1), (0, 1), set()),
        ((9, 9, 1, 1), (0, 1), {(2, 3)}),
        ((9, 9, 1, 1), (0, 1, 2), {(2, 3)}),
        ((1, 1, 1), (0, 1, 2), set()),
        ((1, 1, 1, 1), (0, 1, 2, 3), {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}),  # there are no others
        ((1, 9, 1, 9), (0, 1, 2, 3), {(0, 2), (1, 3)}),
    ],
)
def test_two_unknown_computers_do_not_confirm_each_others_count_while_others_may(
    counts: tuple[int, ...], doubtful: tuple[int, ...], agree: set[tuple[int, int]]
):
    results = [counted(number, 1e12 * count) for number, count in enumerate(counts)]
    assert agreeing(*results, doubtful=doubtful) == agree


@pytest.mark.parametrize(
    ("counts", "agree"),
    [
        ((1, 1), {(0, 1)}),
        ((9, 9), set()),
        ((9, 9, 1), set()),
        ((9, 9, 1, 1), {(2, 3)}),  # what is usual needs no third
        ((9, 9, 8, 8, 8), {(2, 3), (2, 4), (3, 4)}),
        ((9, 9, 9), {(0, 1), (0, 2), (1, 2)}),  # the job was that long
        ((9, 9, 5, 6), set()),
        ((9, 9, 5, 6, 7, 8), {(0, 1)}),  # there must be an end
    ],
)
def test_an_unusually_high_count_needs_a_third_computer(counts: tuple[int, ...], agree: set[tuple[int, int]]):
    results = [counted(number, 1e12 * count) for number, count in enumerate(counts)]
    assert agreeing(*results, usual=1e12) == agree
    if counts == (9, 9, 9):
        assert agreeing(*results, usual=1e12, draws=(0.0, 0.0)) == set(), "each further one is drawn"
    if counts[:2] == (9, 9):
        assert (0, 1) in agreeing(*results[:2], usual=1e12, draws=[0.99]), "not always"
    assert (0, 1) in agreeing(*results[:2]), "what is usual is not known yet"


@given(st.floats(1.0, 1e6), st.floats(0.3, 3.0), st.floats(1e-9, 1e9))
def test_whatever_count_accomplices_agree_on_brings_half_more_than_is_usual_at_most(
    factor: float, size: float, usual: float
):
    """Against two that count the truth: on average over the draws, which they cannot know."""
    truth, draws = usual * size, [(number + 0.5) / 200 for number in range(200)]
    results = [
        counted(number, count) for number, count in enumerate((factor * truth, factor * truth, truth, truth))
    ]
    paid = 0.0
    for draw in draws:
        honest = agreeing(*results[:2], usual=usual, draws=[draw]) != {(0, 1)}
        paid += 0.0 if honest else factor * truth / len(draws)
    assert paid <= max(1.5 * usual, truth) + factor * truth / len(draws)


def test_counts_are_compared_of_modules_only_and_not_of_stragglers():
    view = a_validation(counted(0, 1e12), counted(1, 1e13))
    facts = report(*fine(0, 1), matches=[(0, 1)])
    for programs in ({}, dict.fromkeys(PROGRAMS, "")):
        assert with_counts_compared(view, facts, programs) is facts
    late = a_validation(valid(0), counted(1, 1e13), canonical_result_id=ids(0)[0])
    assert with_counts_compared(late, facts, PROGRAMS) is facts


# ------------------------------------------------------------------------------------------- what to look at


@pytest.mark.parametrize(
    ("view", "checked", "compared"),
    [
        (a_view(success(0), in_progress(1)), (), ()),
        (a_view(success(0), success(1, INCONCLUSIVE), client_error(2)), ids(0, 1), (ids(0, 1),)),
        (a_view(success(0), success(1, INVALID)), (), ()),
        (a_view(success(0), min_quorum=1), ids(0), ()),
        (a_view(valid(0), valid(1), canonical_result_id=101), (), ()),
        (
            a_view(valid(0), valid(1), success(2), success(3), canonical_result_id=101),
            ids(1, 2, 3),
            (ids(1, 2), ids(1, 3)),
        ),
        (a_view(success(0), success(1), error_mask=WorkunitError.CANCELLED), (), ()),
    ],
)
def test_the_validator_looks_at_what_may_become_valid(
    view: WorkunitView, checked: tuple[ResultId, ...], compared: tuple[Pair, ...]
):
    assert results_to_check(view) == checked
    assert pairs_to_compare(view, checked) == compared


# ------------------------------------------------------------------------------ judge: no canonical result


def test_two_that_agree_make_a_canonical_result():
    decision = decide(a_validation(success(0), success(1)), report(*fine(0, 1), matches=[(0, 1)]))
    assert decision.effects == (
        ClearNeedValidate(),
        MarkValid(result_id=ResultId(100)),
        MarkValid(result_id=ResultId(101)),
        SetCanonical(result_id=ResultId(100)),
        ReadyToAssimilate(),
    )
    assert decision.next_check is None
    assert (decision.canonical_id, decision.newly_canonical) == (100, True)
    assert decision.newly_valid == ids(0, 1)


def test_pairs_may_be_reported_in_either_order():
    decision = decide(a_validation(success(0), success(1)), report(*fine(0, 1), matches=[(1, 0)]))
    assert decision.canonical_id == 100


def test_the_odd_one_of_three_is_invalid_and_unsent_results_are_dropped():
    view = a_validation(
        success(0, INCONCLUSIVE), success(1, INCONCLUSIVE), success(2), unsent(3), in_progress(4)
    )
    facts = replace(
        report(*fine(0, 1, 2), matches=[(1, 2)]),
        differences={(ResultId(100), ResultId(101)): phrase("$.x: 1 and 2")},
    )
    decision = decide(view, facts)
    assert decision.newly_valid == ids(1, 2)
    assert decision.newly_invalid == ids(0)
    assert DropResult(result_id=ResultId(103)) in decision.effects
    assert "wu_0 disagrees with the canonical result wu_1: $.x: 1 and 2" in [
        r.text() for r in decision.reasons
    ]


class CountedId(int):
    """A number of a result that counts how often any is looked up."""

    looks = 0

    def __hash__(self) -> int:
        CountedId.looks += 1
        return super().__hash__()


def test_who_was_wrong_together_is_found_in_as_many_steps_as_there_are_pairs():
    def looks(n: int) -> int:
        results = [replace(success(i), id=ResultId(CountedId(100 + i))) for i in range(n)]
        right, wrong = results[: n // 2 + 1], results[n // 2 + 1 :]
        facts = ValidationReport(
            checked=tuple(OutputCheck(result_id=each.id, usable=True) for each in results),
            matches=frozenset((a.id, b.id) for same in (right, wrong) for a, b in combinations(same, 2)),
        )
        CountedId.looks = 0
        assert judge(a_validation(*results), facts, now=NOW).wrong_together == {each.id for each in wrong}
        return CountedId.looks

    assert looks(80) < 6 * looks(40)


def test_a_disagreement_asks_for_one_more_result():
    decision = decide(a_validation(success(0), success(1)), report(*fine(0, 1)))
    assert decision.effects == (
        ClearNeedValidate(),
        MarkInconclusive(result_id=ResultId(100)),
        MarkInconclusive(result_id=ResultId(101)),
        RaiseTarget(target_nresults=3),
    )
    assert decision.next_check == NOW


def test_inconclusive_results_stay_so():
    view = a_validation(success(0, INCONCLUSIVE), success(1, INCONCLUSIVE), success(2), target_nresults=3)
    decision = decide(view, report(*fine(0, 1, 2)))
    assert decision.effects == (
        ClearNeedValidate(),
        MarkInconclusive(result_id=ResultId(102)),
        RaiseTarget(target_nresults=4),
    )


def test_the_target_is_not_raised_while_a_result_is_expected():
    view = a_validation(success(0), success(1), in_progress(2), target_nresults=3)
    decision = decide(view, report(*fine(0, 1)))
    assert not any(isinstance(effect, RaiseTarget) for effect in decision.effects)
    assert decision.next_check == PLANNED


@pytest.mark.parametrize(("max_success", "failed"), [(2, True), (3, False)])
def test_more_successes_than_allowed_without_a_quorum_fail_the_workunit(max_success: int, failed: bool):
    view = a_validation(*map(success, range(3)), target_nresults=3, max_success_results=max_success)
    decision = decide(view, report(*fine(0, 1, 2)))
    assert (FailWorkunit(error_mask=WorkunitError.TOO_MANY_SUCCESS_RESULTS) in decision.effects) is failed
    assert (RaiseTarget(target_nresults=4) in decision.effects) is not failed
    assert decision.next_check == NOW


def test_an_unusable_result_is_replaced_and_does_not_raise_the_target():
    decision = decide(a_validation(success(0), success(1)), report(*fine(0), bad(1, "out.json: not JSON")))
    assert decision.effects == (
        ClearNeedValidate(),
        MarkUnusable(result_id=ResultId(101)),
        MarkInconclusive(result_id=ResultId(100)),
    )
    assert decision.next_check == NOW
    assert decision.unusable == ids(1)
    assert decision.reasons[0].text() == "wu_1 is not usable: out.json: not JSON"


def test_a_quorum_is_found_beside_an_unusable_result():
    view = a_validation(success(0), success(1), success(2))
    decision = decide(view, report(bad(0), *fine(1, 2), matches=[(1, 2)]))
    assert decision.canonical_id == 101
    assert decision.unusable == ids(0)


def test_a_result_that_cannot_be_read_now_is_looked_at_later():
    view = a_validation(success(0), success(1, INCONCLUSIVE), transition_time=None)
    decision = decide(view, report(*fine(0), bad(1, "disk away", transient=True)))
    assert PostponeValidation(result_id=ResultId(101)) in decision.effects
    assert not any(isinstance(effect, RaiseTarget) for effect in decision.effects)
    assert decision.next_check == NOW + RETRY_SECONDS
    assert decision.unusable == ()


def test_a_retry_does_not_put_off_an_earlier_check():
    view = a_validation(success(0), success(1), in_progress(2))
    assert decide(view, report(*fine(0), bad(1, transient=True))).next_check == PLANNED


def test_an_unusable_result_is_replaced_while_another_is_postponed():
    view = a_validation(success(0), success(1), transition_time=None)
    assert decide(view, report(bad(0), bad(1, transient=True))).next_check == NOW


def test_a_result_that_came_after_the_report_is_looked_at_next():
    view = a_validation(success(0), success(1), success(2))
    undecided = decide(view, report(*fine(0, 1)))
    assert undecided.next_check == NOW
    assert not any(isinstance(effect, RaiseTarget) for effect in undecided.effects)
    decided = decide(view, report(*fine(0, 1), matches=[(0, 1)]))
    assert decided.canonical_id == 100
    assert decided.next_check == NOW
    assert 102 not in decided.newly_invalid


def test_facts_about_results_that_are_closed_are_ignored():
    view = a_validation(success(0), no_reply(1), success(2, INVALID))
    decision = decide(view, report(*fine(0, 1, 2, 9), matches=[(0, 1), (0, 2)]))
    assert decision.canonical_id is None


def test_a_workunit_that_failed_meanwhile_only_loses_its_mark():
    view = a_validation(
        success(0, ValidateState.NO_CHECK),
        success(1, ValidateState.NO_CHECK),
        error_mask=WorkunitError.CANCELLED,
        assimilate_state=AssimilateState.READY,
    )
    decision = decide(view, report(*fine(0, 1), matches=[(0, 1)]))
    assert decision.effects == (ClearNeedValidate(),)
    assert decision.next_check == PLANNED


# ----------------------------------------------------------------------------------------- judge: stragglers


def answered(*results: Result, **workunit: object) -> WorkunitView:
    values = {"canonical_result_id": 100, "assimilate_state": AssimilateState.DONE} | workunit
    return a_validation(valid(0), valid(1), *results, **values)


def test_a_straggler_is_valid_or_invalid_by_the_canonical_result():
    decision = decide(answered(success(2), success(3)), report(*fine(0, 2, 3), matches=[(0, 2)]))
    assert decision.effects == (
        ClearNeedValidate(),
        MarkValid(result_id=ResultId(102)),
        MarkInvalid(result_id=ResultId(103)),
    )
    assert decision.next_check == NOW
    assert (decision.newly_valid, decision.newly_invalid) == (ids(2), ids(3))
    assert (decision.canonical_id, decision.newly_canonical) == (100, False)


def test_a_straggler_with_bad_outputs_is_unusable():
    decision = decide(answered(success(2)), report(*fine(0), bad(2)))
    assert decision.unusable == ids(2)
    assert decision.next_check == NOW


def test_a_straggler_that_cannot_be_read_now_is_looked_at_later():
    decision = decide(answered(success(2)), report(*fine(0), bad(2, transient=True)))
    assert decision.next_check == min(PLANNED, NOW + RETRY_SECONDS)
    alone = decide(answered(success(2), transition_time=None), report(*fine(0), bad(2, transient=True)))
    assert alone.next_check == NOW + RETRY_SECONDS


def test_a_straggler_waits_when_the_canonical_outputs_cannot_be_read_now():
    facts = report(bad(0, "disk away", transient=True), *fine(2))
    decision = decide(answered(success(2), transition_time=None), facts)
    assert decision.effects == (ClearNeedValidate(), PostponeValidation(result_id=ResultId(102)))
    assert decision.next_check == NOW + RETRY_SECONDS


def test_a_straggler_is_too_late_when_the_canonical_outputs_are_lost():
    decision = decide(answered(success(2)), report(bad(0, "file is gone"), *fine(2)))
    assert decision.effects == (ClearNeedValidate(), MarkTooLate(result_id=ResultId(102)))
    assert "file is gone" in decision.reasons[0].text()


@pytest.mark.parametrize("pair", [(1, 3), (3, 1)])
def test_a_result_of_which_a_comparison_cannot_say_anything_is_not_called_invalid(pair: tuple[int, int]):
    why = {(ResultId(100 + pair[0]), ResultId(100 + pair[1])): phrase("it raised")}
    together = replace(report(*fine(1, 2, 3), matches=[(1, 2)]), undecided=why)
    decision = judge(a_validation(success(1), success(2), success(3)), together, now=NOW)
    assert (decision.newly_valid, decision.newly_invalid) == (ids(1, 2), ())
    assert (decision.undecided, decision.canonical_id) == (ids(3), ids(1)[0])
    later = replace(report(*fine(1, 3)), undecided=why)
    view = a_validation(valid(1), valid(2), success(3), canonical_result_id=ids(1)[0])
    decision = judge(view, later, now=NOW)
    assert MarkTooLate(result_id=ids(3)[0]) in decision.effects
    assert (decision.newly_valid, decision.newly_invalid, decision.undecided) == ((), (), ids(3))


def test_a_pair_that_cannot_be_compared_asks_for_one_more_result():
    why = {(ResultId(101), ResultId(102)): phrase("it raised")}
    found = replace(report(*fine(1, 2)), undecided=why)
    decision = judge(a_validation(success(1), success(2)), found, now=NOW)
    assert RaiseTarget(target_nresults=3) in decision.effects
    assert decision.newly_invalid == ()


def test_a_report_from_before_the_canonical_result_settles_nothing():
    decision = decide(answered(success(2), success(3)), report(*fine(2, 3), matches=[(2, 3)]))
    assert decision.effects == (ClearNeedValidate(),)
    assert decision.next_check == NOW


def test_outcome_of_an_unusable_result_is_an_error():
    view = a_validation(success(0), success(1))
    after = apply_decision(view, decide(view, report(*fine(0), bad(1))), NOW)
    assert after.results[1].outcome is Outcome.VALIDATE_ERROR
    assert after.results[1].validate_state is INVALID
