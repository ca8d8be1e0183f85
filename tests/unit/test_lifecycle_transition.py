"""The transitioner's rules, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers.lifecycle_builders import (
    DELAY_BOUND,
    NOW,
    a_result,
    a_view,
    client_error,
    in_progress,
    no_reply,
    over,
    success,
    unsent,
    valid,
    with_files,
)

from cobblestone.domain.values import DAY, AppVersionId, ResultId
from cobblestone.domain.work import (
    AssimilateState,
    FileDeleteState,
    JobLimits,
    Outcome,
    Result,
    ServerState,
    ValidateState,
    WorkunitError,
)
from cobblestone.policy.lifecycle.states import (
    CreateResult,
    DeleteInputs,
    DeleteOutputs,
    DropResult,
    FailWorkunit,
    LifecycleEffect,
    MarkTooLate,
    ReadyToAssimilate,
    ReleaseCommitment,
    RequestValidation,
    SkipValidation,
    TimeOutResult,
    Transition,
    WorkunitView,
)
from cobblestone.policy.lifecycle.transition import apply_transition, delay_when_late, next_transition

DONE, READY = AssimilateState.DONE, AssimilateState.READY
ERRORS, TOTAL = WorkunitError.TOO_MANY_ERROR_RESULTS, WorkunitError.TOO_MANY_TOTAL_RESULTS
SAFETY_NET = NOW + DELAY_BOUND


def ask(view: WorkunitView, *, now: float = NOW, delete_delay: float = 0.0) -> Transition:
    return next_transition(view, delete_delay=delete_delay, now=now)


def effects(
    view: WorkunitView, *, now: float = NOW, delete_delay: float = 0.0
) -> tuple[LifecycleEffect, ...]:
    return ask(view, now=now, delete_delay=delete_delay).effects


def id_of(number: int) -> ResultId:
    return ResultId(100 + number)


def create(number: int, priority: int = 0) -> CreateResult:
    return CreateResult(number=number, priority=priority)


# ---------------------------------------------------------------------------------------- A: count, time out


def test_a_new_workunit_gets_its_target_number_of_results():
    transition = ask(a_view())
    assert transition.effects == (create(0), create(1))
    assert transition.next_check == SAFETY_NET
    assert [reason.code for reason in transition.reasons] == ["result_needed"] * 2


def test_nothing_happens_while_results_are_unsent_or_in_progress():
    transition = ask(a_view(unsent(0), in_progress(1)))
    assert transition.effects == ()
    assert transition.next_check == NOW + 500


@pytest.mark.parametrize(("deadline", "timed_out"), [(NOW - 1, True), (NOW, True), (NOW + 1, False)])
def test_a_result_is_timed_out_when_its_deadline_is_reached(deadline: float, timed_out: bool):
    view = a_view(in_progress(0, report_deadline=deadline), in_progress(1))
    expected = (TimeOutResult(result_id=id_of(0)), create(2, priority=1)) if timed_out else ()
    assert effects(view) == expected


def test_a_result_without_a_deadline_is_timed_out_after_the_delay_bound():
    view = a_view(in_progress(0, report_deadline=None), in_progress(1))
    sent = NOW - 50
    assert effects(view, now=sent + DELAY_BOUND - 1)[:1] == (TimeOutResult(result_id=id_of(1)),)
    assert TimeOutResult(result_id=id_of(0)) in effects(view, now=sent + DELAY_BOUND)


@pytest.mark.parametrize("state", [FileDeleteState.READY, FileDeleteState.DONE, FileDeleteState.ERROR])
def test_a_report_after_the_canonical_output_was_released_is_too_late(state: FileDeleteState):
    view = a_view(
        with_files(valid(0), state),
        valid(1),
        success(2),
        canonical_result_id=100,
        assimilate_state=DONE,
        file_delete_state=FileDeleteState.DONE,
    )
    assert effects(view) == (
        MarkTooLate(result_id=id_of(2)),
        DeleteOutputs(result_id=id_of(1)),
        DeleteOutputs(result_id=id_of(2)),
    )


# ---------------------------------------------------------------------------------------------- B: validation


@pytest.mark.parametrize(
    ("results", "requested"),
    [
        ((success(0),), False),
        ((success(0), success(1)), True),
        ((success(0, ValidateState.INCONCLUSIVE), success(1)), True),
        ((success(0, ValidateState.INCONCLUSIVE), success(1, ValidateState.INCONCLUSIVE)), False),
        ((success(0, ValidateState.INVALID), success(1)), False),
        ((success(0), over(1, Outcome.VALIDATE_ERROR, validate_state=ValidateState.INVALID)), False),
    ],
)
def test_validation_is_requested_when_a_new_success_completes_the_quorum(
    results: tuple[Result, ...], requested: bool
):
    assert (RequestValidation() in effects(a_view(*results))) is requested


def test_validation_is_requested_once():
    assert effects(a_view(success(0), success(1), need_validate=True)) == ()


def test_a_straggler_is_validated_even_when_few_valid_results_are_left():
    view = a_view(
        valid(0),
        valid(1),
        valid(2),
        success(3, ValidateState.INVALID),
        success(4, ValidateState.INVALID),
        success(5),
        min_quorum=5,
        target_nresults=5,
        canonical_result_id=100,
        assimilate_state=DONE,
    )
    assert RequestValidation() in effects(view)


# -------------------------------------------------------------------------------------------------- C: errors


def test_a_result_that_could_not_be_sent_fails_the_workunit():
    view = a_view(over(0, Outcome.COULDNT_SEND), unsent(1))
    assert effects(view) == (
        FailWorkunit(error_mask=WorkunitError.COULDNT_SEND_RESULT),
        DropResult(result_id=id_of(1)),
        ReadyToAssimilate(),
    )


@pytest.mark.parametrize(("n_errors", "failed"), [(2, False), (3, True)])
def test_more_errors_than_allowed_fail_the_workunit(n_errors: int, failed: bool):
    view = a_view(*map(client_error, range(n_errors)), in_progress(8), in_progress(9), max_error_results=2)
    assert (FailWorkunit(error_mask=ERRORS) in effects(view)) is failed


def test_unusable_outputs_count_as_errors():
    unusable = (over(n, Outcome.VALIDATE_ERROR, validate_state=ValidateState.INVALID) for n in range(3))
    assert effects(a_view(*unusable))[0] == FailWorkunit(error_mask=ERRORS)


@pytest.mark.parametrize(
    "result",
    [
        client_error(0, exit_status=203),
        no_reply(0),
        over(0, Outcome.CLIENT_DETACHED),
        over(0, Outcome.DIDNT_NEED),
    ],
)
def test_an_abort_by_the_user_and_a_silent_host_are_no_errors(result: Result):
    assert effects(a_view(result, max_error_results=0)) == (create(1, 1), create(2, 1))


def test_a_workunit_at_its_limit_fails_when_one_more_result_is_needed():
    view = a_view(*map(no_reply, range(3)), max_total_results=3)
    assert effects(view) == (FailWorkunit(error_mask=TOTAL), ReadyToAssimilate())


def test_a_workunit_at_its_limit_does_not_fail_when_none_is_needed():
    inconclusive = (success(0, ValidateState.INCONCLUSIVE), success(1, ValidateState.INCONCLUSIVE))
    assert effects(a_view(*inconclusive, no_reply(2), max_total_results=3)) == ()


@pytest.mark.parametrize("outstanding", [unsent(2), in_progress(2)])
def test_a_workunit_at_its_limit_waits_for_what_is_outstanding(outstanding: Result):
    assert effects(a_view(success(0), no_reply(1), outstanding, target_nresults=3, max_total_results=3)) == ()


def test_a_workunit_at_its_limit_is_validated_before_it_fails():
    view = a_view(success(0), no_reply(1), success(2), target_nresults=3, max_total_results=3)
    assert effects(view) == (RequestValidation(),)
    assert effects(replace(view, workunit=replace(view.workunit, need_validate=True))) == ()


def test_more_results_than_allowed_fail_the_workunit_at_once():
    view = a_view(in_progress(0), in_progress(1), max_total_results=1)
    assert effects(view) == (FailWorkunit(error_mask=TOTAL), ReadyToAssimilate())


def test_a_workunit_with_an_answer_does_not_fail_any_more():
    view = a_view(
        valid(0),
        valid(1),
        *map(client_error, range(2, 5)),
        canonical_result_id=100,
        assimilate_state=READY,
        target_nresults=3,
        max_total_results=5,
    )
    assert effects(view) == ()


COMMITTED = {"hr_class": 3, "app_version_id": AppVersionId(5)}


def test_a_job_whose_results_all_failed_is_freed_for_other_hosts():
    assert ReleaseCommitment() in effects(a_view(client_error(0), **COMMITTED))
    assert ReleaseCommitment() in effects(a_view(client_error(0), unsent(1), app_version_id=AppVersionId(5)))


@pytest.mark.parametrize("other", [success(1), in_progress(1), no_reply(1)])
def test_a_job_is_not_freed_while_another_result_may_succeed(other: Result):
    assert ReleaseCommitment() not in effects(a_view(client_error(0), other, **COMMITTED))


def test_a_job_is_not_freed_without_reason():
    assert ReleaseCommitment() not in effects(a_view(client_error(0)))
    assert ReleaseCommitment() not in effects(a_view(**COMMITTED))
    assert ReleaseCommitment() not in effects(a_view(client_error(0), max_error_results=0, **COMMITTED))


# ------------------------------------------------------------------------------------------------ D: give up


def test_a_cancelled_workunit_sends_and_checks_nothing_more():
    view = a_view(
        unsent(0),
        a_result(1, ServerState.INACTIVE),
        in_progress(2),
        success(3),
        success(4, ValidateState.INCONCLUSIVE),
        error_mask=WorkunitError.CANCELLED,
    )
    transition = ask(view)
    assert transition.effects == (
        DropResult(result_id=id_of(0)),
        DropResult(result_id=id_of(1)),
        SkipValidation(result_id=id_of(3)),
        SkipValidation(result_id=id_of(4)),
        ReadyToAssimilate(),
    )
    assert transition.next_check == NOW + 500
    assert "CANCELLED" in transition.reasons[-1].text()


def test_the_first_cause_of_failure_is_kept():
    view = a_view(*map(client_error, range(6)), error_mask=WorkunitError.CANCELLED, assimilate_state=READY)
    assert effects(view) == ()


def test_a_late_success_of_a_failed_workunit_is_not_checked():
    view = a_view(success(0), success(1), error_mask=ERRORS, assimilate_state=READY)
    assert effects(view) == (SkipValidation(result_id=id_of(0)), SkipValidation(result_id=id_of(1)))


# ------------------------------------------------------------------------------------------- E: make results


def test_numbers_go_on_from_the_highest_suffix():
    odd_name = replace(no_reply(1), name="wu_extra")
    assert effects(a_view(no_reply(7), odd_name)) == (create(8, 1), create(9, 1))


def test_no_more_results_are_made_than_allowed():
    view = a_view(no_reply(0), no_reply(1), max_total_results=3)
    assert effects(view) == (create(2, 1),)


@pytest.mark.parametrize(("result", "increase"), [(no_reply(0), 1), (client_error(0), 1), (unsent(0), 0)])
def test_retries_get_a_higher_priority(result: Result, increase: int):
    made = effects(a_view(result, priority=100))
    assert {effect.priority for effect in made if isinstance(effect, CreateResult)} == {100 + increase}


def test_no_results_are_made_once_the_answer_is_known():
    view = a_view(
        valid(0), client_error(1), canonical_result_id=100, target_nresults=4, assimilate_state=READY
    )
    assert effects(view) == ()


def test_unsent_results_are_dropped_once_the_answer_is_known():
    view = a_view(valid(0), unsent(1), canonical_result_id=100, assimilate_state=READY)
    assert effects(view) == (DropResult(result_id=id_of(1)),)


# -------------------------------------------------------------------------------------------- F: assimilation


@pytest.mark.parametrize(
    ("last", "ready"),
    [
        (in_progress(2), False),
        (success(2), False),
        (valid(2), True),
        (client_error(2), True),
        (no_reply(2, report_deadline=NOW + 100), True),
    ],
)
def test_a_deferred_assimilation_ends_when_every_result_is_over_and_validated(last: Result, ready: bool):
    view = a_view(valid(0), valid(1), last, canonical_result_id=100, need_validate=True)
    assert effects(view) == ((ReadyToAssimilate(),) if ready else ())


# ---------------------------------------------------------------------------------------- G: release of files


def assimilated(*results: Result, **workunit: object) -> WorkunitView:
    values = {"canonical_result_id": 100, "assimilate_state": DONE, "transition_time": None} | workunit
    return a_view(*results, **values)


def released(*numbers: int, inputs: bool = False) -> tuple[LifecycleEffect, ...]:
    outputs = tuple(DeleteOutputs(result_id=id_of(number)) for number in numbers)
    return (DeleteInputs(), *outputs) if inputs else outputs


def test_files_are_released_after_assimilation():
    view = assimilated(valid(0), valid(1), success(2, ValidateState.INVALID), client_error(3))
    transition = ask(view)
    assert transition.effects == released(0, 1, 2, 3, inputs=True)
    assert transition.next_check is None


def test_no_file_is_released_before_assimilation():
    assert effects(assimilated(valid(0), valid(1), assimilate_state=READY)) == ()


@pytest.mark.parametrize("waiting", [in_progress(2), no_reply(2, report_deadline=NOW + 500)])
def test_inputs_and_the_canonical_output_stay_while_a_report_may_come(waiting: Result):
    transition = ask(assimilated(valid(0), valid(1), waiting))
    assert transition.effects == released(1)
    assert transition.next_check == NOW + 500


def test_inputs_and_the_canonical_output_stay_while_a_straggler_is_validated():
    assert effects(assimilated(valid(0), valid(1), success(2), need_validate=True)) == released(1)


def test_outputs_of_unusable_and_silent_results_are_released_too():
    unusable = over(1, Outcome.VALIDATE_ERROR, validate_state=ValidateState.INVALID)
    detached = over(3, Outcome.CLIENT_DETACHED)
    view = assimilated(valid(0), unusable, no_reply(2), detached, over(4, Outcome.DIDNT_NEED))
    assert effects(view) == released(0, 1, 2, 3, inputs=True)


def test_files_of_a_failed_workunit_are_released():
    view = assimilated(
        client_error(0), success(1, ValidateState.NO_CHECK), canonical_result_id=None, error_mask=ERRORS
    )
    assert effects(view) == released(0, 1, inputs=True)


def test_files_are_released_once():
    view = assimilated(
        *(with_files(valid(n), FileDeleteState.DONE) for n in range(2)),
        file_delete_state=FileDeleteState.DONE,
    )
    assert ask(view) == Transition()


def test_files_stay_for_the_deletion_delay_after_the_last_result():
    view = assimilated(valid(0, received_time=NOW - 30), valid(1, received_time=NOW - 10))
    waiting = ask(view, delete_delay=100.0)
    assert (waiting.effects, waiting.next_check) == ((), NOW + 90)
    assert effects(view, now=NOW + 90, delete_delay=100.0) == released(0, 1, inputs=True)


# --------------------------------------------------------------------------------------------- H: next check


def test_an_unfinished_workunit_is_looked_at_again_after_its_delay_bound_at_least_a_day():
    short = a_view(unsent(0), unsent(1), limits=JobLimits(delay_bound=60.0))
    assert ask(short).next_check == NOW + DAY
    long = a_view(unsent(0), unsent(1), limits=JobLimits(delay_bound=20 * DAY))
    assert ask(long).next_check == NOW + 20 * DAY  # a result sent now has no earlier deadline


def test_the_earliest_deadline_is_the_next_check():
    view = a_view(in_progress(0, report_deadline=NOW + 70), in_progress(1, report_deadline=NOW + 60))
    assert ask(view).next_check == NOW + 60


def test_an_answered_workunit_without_outstanding_results_is_not_looked_at_again():
    assert ask(a_view(valid(0), canonical_result_id=100, assimilate_state=READY)).next_check is None
    assert ask(a_view(client_error(0), error_mask=ERRORS, assimilate_state=READY)).next_check is None


@pytest.mark.parametrize(
    ("lateness", "delay"), [(-5, 5), (0, 0), (1, 60), (30, 60), (31, 62), (DAY, DAY), (9 * DAY, DAY)]
)
def test_a_late_check_is_moved_by_twice_the_lateness_within_limits(lateness: float, delay: float):
    assert delay_when_late(NOW - lateness, NOW) == NOW + delay


# ------------------------------------------------------------------------------------------------- and always


def test_every_effect_has_a_reason_that_can_be_read():
    view = a_view(
        in_progress(0, report_deadline=NOW),
        success(1),
        success(2),
        client_error(3),
        unsent(4),
        target_nresults=5,
    )
    transition = ask(view)
    assert len(transition.reasons) == len(transition.effects) == 3
    assert transition.reasons[0].text() == "wu_0 was not reported by its deadline"
    assert transition.reasons[0].values["deadline"] == NOW


def test_applying_a_transition_twice_makes_no_second_results():
    view = a_view()
    view = apply_transition(view, ask(view), NOW, iter([id_of(0), id_of(1)]))
    assert effects(view) == ()
    assert [result.name for result in view.results] == ["wu_0", "wu_1"]
