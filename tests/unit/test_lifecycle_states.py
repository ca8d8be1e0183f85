"""State tables, invariants, diagrams."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers.lifecycle_builders import (
    NOW,
    a_result,
    a_view,
    client_error,
    in_progress,
    no_reply,
    success,
    unsent,
    valid,
    with_files,
)

from cobblestone.domain.errors import IllegalTransition, PolicyViolation
from cobblestone.domain.values import ResultId, WorkunitId
from cobblestone.domain.work import (
    AssimilateState,
    FileDeleteState,
    Outcome,
    Result,
    ServerState,
    ValidateState,
    WorkunitError,
)
from cobblestone.policy.lifecycle import application, states
from cobblestone.policy.lifecycle.states import (
    Cause,
    CreateResult,
    DropResult,
    FailWorkunit,
    MarkUnusable,
    ReadyToAssimilate,
    TimeOutResult,
    Transition,
    check_invariants,
)

DONE = AssimilateState.DONE


@pytest.mark.parametrize(("step", "after"), states.RESULT_TRANSITIONS.items(), ids=str)
def test_every_step_of_the_result_table_is_taken(step: tuple[states.ResultState, Cause], after: object):
    state, cause = step
    result = a_result(0, state.server_state, outcome=state.outcome)
    assert states.result_state(application.advance(result, cause)) == after


def test_every_result_state_can_be_reached_from_unsent_or_inactive():
    reached = {states.UNSENT, states.INACTIVE}
    for _ in states.RESULT_TRANSITIONS:
        reached |= {after for (before, _), after in states.RESULT_TRANSITIONS.items() if before in reached}
    outcomes = {states.ResultState(ServerState.OVER, o) for o in Outcome if o is not Outcome.INIT}
    assert reached == outcomes | {states.UNSENT, states.INACTIVE, states.IN_PROGRESS}


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (unsent(0), Cause.REPORTED_SUCCESS),
        (unsent(0), Cause.DEADLINE_PASSED),
        (in_progress(0), Cause.SENT),
        (in_progress(0), Cause.NOT_NEEDED),
        (success(0), Cause.REPORTED_SUCCESS),
        (success(0), Cause.SENT),
        (client_error(0), Cause.FOUND_UNUSABLE),
    ],
    ids=lambda value: value.name,
)
def test_a_step_that_does_not_exist_is_refused(result: Result, cause: Cause):
    with pytest.raises(IllegalTransition):
        application.advance(result, cause)


def test_a_refused_step_tells_the_history_of_the_row():
    with pytest.raises(IllegalTransition) as refused:
        application.advance(success(3), Cause.SENT)
    text = str(refused.value)
    for word in ("result 103", "wu_3", "OVER_SUCCESS", "INIT", "host 3", "sent 999950", "sent to a host"):
        assert word in text


@pytest.mark.parametrize("final", [ValidateState.VALID, ValidateState.INVALID, ValidateState.TOO_LATE])
def test_a_validated_result_is_not_validated_again(final: ValidateState):
    with pytest.raises(IllegalTransition, match="wu_0"):
        application.advance_validation(success(0, final), Cause.AGREED)


def test_an_assimilated_workunit_is_not_assimilated_again():
    with pytest.raises(IllegalTransition, match="workunit 1"):
        application.apply_effect(a_view(assimilate_state=DONE), ReadyToAssimilate())


def test_late_reports_of_given_up_results_are_accepted_with_new_files():
    late = application.advance(no_reply(0), Cause.REPORTED_SUCCESS)
    assert late.outcome is Outcome.SUCCESS
    gone = with_files(late, FileDeleteState.DONE)
    assert application.advance_files(gone, Cause.REPORTED_LATE).file_delete_state is FileDeleteState.INIT


def test_deletion_that_failed_is_tried_again():
    failed = application.advance_inputs(
        application.advance_inputs(a_view().workunit, Cause.FILES_RELEASED), Cause.DELETION_FAILED
    )
    assert failed.file_delete_state is FileDeleteState.ERROR
    assert application.advance_inputs(failed, Cause.FILES_DELETED).file_delete_state is FileDeleteState.DONE


# ------------------------------------------------------------------------------------ reference application


def test_a_created_result_is_unsent_and_numbered():
    transition = Transition(effects=(CreateResult(number=4, priority=7),), next_check=NOW + 1)
    view = application.apply_transition(a_view(), transition, NOW, iter([ResultId(9)]))
    (result,) = view.results
    assert (result.id, result.name, result.workunit_id) == (9, "wu_4", 1)
    assert (result.server_state, result.priority, result.create_time) == (ServerState.UNSENT, 7, NOW)
    assert view.workunit.transition_time == NOW + 1


def test_a_result_without_an_id_left_is_refused():
    transition = Transition(effects=(CreateResult(number=0, priority=0),))
    with pytest.raises(PolicyViolation, match="no id left"):
        application.apply_transition(a_view(), transition, NOW, iter(()))
    with pytest.raises(PolicyViolation, match="apply_effects"):
        application.apply_effect(a_view(), CreateResult(number=0, priority=0))


def test_an_effect_on_an_unknown_result_is_refused():
    with pytest.raises(PolicyViolation, match="no result 77"):
        application.apply_effect(a_view(unsent(0)), TimeOutResult(result_id=ResultId(77)))


def test_a_result_that_was_sent_meanwhile_is_not_dropped():
    with pytest.raises(IllegalTransition):
        application.apply_effect(a_view(in_progress(0)), DropResult(result_id=ResultId(100)))


def test_an_unusable_result_is_a_validate_error_and_invalid():
    view = application.apply_effect(a_view(success(0)), MarkUnusable(result_id=ResultId(100)))
    result = view.results[0]
    assert (result.outcome, result.validate_state) == (Outcome.VALIDATE_ERROR, ValidateState.INVALID)


def test_a_failed_workunit_keeps_earlier_error_bits_and_needs_no_validation():
    view = a_view(error_mask=WorkunitError.CANCELLED, need_validate=True)
    failed = application.apply_effect(
        view, FailWorkunit(error_mask=WorkunitError.COULDNT_SEND_RESULT)
    ).workunit
    assert failed.error_mask == WorkunitError.CANCELLED | WorkunitError.COULDNT_SEND_RESULT
    assert not failed.need_validate


# ----------------------------------------------------------------------------------------------- invariants


def test_a_healthy_workunit_has_no_complaints():
    healthy = [
        a_view(),
        a_view(unsent(0), in_progress(1)),
        a_view(success(0), success(1), need_validate=True, transition_time=None),
        a_view(valid(0), valid(1), canonical_result_id=100, assimilate_state=AssimilateState.READY),
        a_view(
            with_files(valid(0), FileDeleteState.READY),
            canonical_result_id=100,
            assimilate_state=DONE,
            file_delete_state=FileDeleteState.READY,
            transition_time=None,
        ),
        a_view(
            client_error(0),
            error_mask=WorkunitError.TOO_MANY_ERROR_RESULTS,
            assimilate_state=AssimilateState.READY,
            transition_time=None,
        ),
    ]
    assert [check_invariants(view) for view in healthy] == [[]] * len(healthy)


@pytest.mark.parametrize(
    ("view", "complaint"),
    [
        (a_view(unsent(0, workunit_id=WorkunitId(2))), "belongs to workunit 2"),
        (a_view(unsent(0, outcome=Outcome.SUCCESS)), "UNSENT with outcome SUCCESS"),
        (a_view(a_result(0, ServerState.OVER)), "OVER with outcome INIT"),
        (
            a_view(unsent(0, validate_state=ValidateState.VALID), canonical_result_id=100),
            "UNSENT with validate",
        ),
        (a_view(no_reply(0, validate_state=ValidateState.NO_CHECK)), "OVER_NO_REPLY with validate state"),
        (a_view(unsent(0, sent_time=1.0)), "not sent, but"),
        (a_view(in_progress(0, report_deadline=None)), "without a deadline"),
        (a_view(with_files(client_error(0), FileDeleteState.READY)), "output files may go"),
        (a_view(success(0, granted_credit=float("nan"))), "granted_credit is nan"),
        (a_view(success(0, cpu_time=-1.0)), "cpu_time is -1.0"),
        (a_view(success(0, elapsed_time=float("inf"))), "elapsed_time is inf"),
        (a_view(unsent(0), unsent(0, name="other")), "same id"),
        (a_view(unsent(0), unsent(1, name="wu_0")), "same name"),
        (a_view(*map(unsent, range(7))), "more than max_total_results"),
        (a_view(valid(0)), "no canonical result"),
        (a_view(success(0), canonical_result_id=100), "not among its valid results"),
        (a_view(success(0), canonical_result_id=999), "not among its valid results"),
        (a_view(assimilate_state=DONE), "without a canonical result or an error"),
        (
            a_view(valid(0), unsent(1), canonical_result_id=100, assimilate_state=AssimilateState.READY),
            "may still be sent",
        ),
        (a_view(file_delete_state=FileDeleteState.DONE), "not assimilated"),
        (
            a_view(
                valid(0),
                in_progress(1),
                canonical_result_id=100,
                assimilate_state=DONE,
                file_delete_state=FileDeleteState.READY,
            ),
            "may still need them",
        ),
        (
            a_view(
                with_files(valid(0), FileDeleteState.READY),
                in_progress(1),
                canonical_result_id=100,
                assimilate_state=DONE,
            ),
            "its canonical output may go",
        ),
        (a_view(unsent(0), transition_time=None), "will not be checked again"),
        (
            a_view(
                valid(0), in_progress(1), canonical_result_id=100, assimilate_state=DONE, transition_time=None
            ),
            "will not be checked again",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named(view: states.WorkunitView, complaint: str):
    assert any(complaint in wrong.text for wrong in check_invariants(view)), check_invariants(view)


def test_complaints_about_a_result_name_it():
    (complaint,) = check_invariants(a_view(success(0, cpu_time=-1.0)))
    assert complaint.code == "bad_number"
    assert complaint.text.startswith("result 100 (wu_0): ")


def test_a_settled_workunit_is_one_with_nothing_left_but_deletion():
    settled = a_view(
        valid(0), canonical_result_id=100, assimilate_state=DONE, file_delete_state=FileDeleteState.READY
    )
    assert states.is_settled(settled)
    assert not states.is_settled(replace(settled, results=(*settled.results, success(1))))
    assert not states.is_settled(replace(settled, results=(*settled.results, in_progress(1))))
