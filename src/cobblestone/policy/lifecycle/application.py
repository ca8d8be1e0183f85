"""What each effect changes: the reference that the store must agree with.

The rules themselves use it, to see what comes of their effects, as do the simulator and the suite that holds the
store against it (``tests/conformance/test_steps.py``); all steps go through the tables of
`cobblestone.policy.lifecycle.states`, so an impossible step raises `IllegalTransition`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.ids import ResultId
from cobblestone.domain.states import ServerState
from cobblestone.domain.values import changed
from cobblestone.domain.work import Result, Workunit, result_name
from cobblestone.policy.lifecycle.effects import (
    ClearNeedValidate,
    CreateResult,
    DeleteInputs,
    DeleteOutputs,
    DropResult,
    Effect,
    FailWorkunit,
    MarkInconclusive,
    MarkInvalid,
    MarkTooLate,
    MarkUnusable,
    MarkValid,
    PostponeValidation,
    RaiseTarget,
    ReadyToAssimilate,
    ReleaseCommitment,
    RequestValidation,
    SetCanonical,
    SkipValidation,
    TimeOutResult,
    Transition,
    WorkunitView,
)
from cobblestone.policy.lifecycle.states import (
    ASSIMILATE_TRANSITIONS,
    FILE_DELETE_TRANSITIONS,
    RESULT_TRANSITIONS,
    VALIDATE_TRANSITIONS,
    Cause,
    next_state,
    result_history,
    result_state,
    workunit_history,
)


def advance(result: Result, cause: Cause) -> Result:
    """Move server state and outcome of ``result``, by the table.

    Raises:
        IllegalTransition: the result cannot take this step.

    """
    after = next_state(RESULT_TRANSITIONS, result_state(result), cause, result, result_history)
    return changed(result, server_state=after.server_state, outcome=after.outcome)


def advance_validation(result: Result, cause: Cause) -> Result:
    """Move the validate state of ``result``, by the table; raises `IllegalTransition`."""
    after = next_state(VALIDATE_TRANSITIONS, result.validate_state, cause, result, result_history)
    return changed(result, validate_state=after)


def advance_files(result: Result, cause: Cause) -> Result:
    """Move the file delete state of ``result``, by the table; raises `IllegalTransition`."""
    after = next_state(FILE_DELETE_TRANSITIONS, result.file_delete_state, cause, result, result_history)
    return changed(result, file_delete_state=after)


def advance_inputs(workunit: Workunit, cause: Cause) -> Workunit:
    """Move the file delete state of ``workunit``, by the table; raises `IllegalTransition`."""
    after = next_state(FILE_DELETE_TRANSITIONS, workunit.file_delete_state, cause, workunit, workunit_history)
    return changed(workunit, file_delete_state=after)


def advance_assimilation(workunit: Workunit, cause: Cause) -> Workunit:
    """Move the assimilate state of ``workunit``, by the table; raises `IllegalTransition`."""
    after = next_state(ASSIMILATE_TRANSITIONS, workunit.assimilate_state, cause, workunit, workunit_history)
    return changed(workunit, assimilate_state=after)


def apply_transition(
    view: WorkunitView, transition: Transition, now: float, new_ids: Iterator[ResultId]
) -> WorkunitView:
    """Apply a transition and its next check; new results get their ids from ``new_ids``.

    Raises:
        IllegalTransition: an effect does not fit the view (it was decided for another one).

    """
    return apply_effects(view, transition.effects, transition.next_check, now, new_ids)


def apply_effects(
    view: WorkunitView,
    effects: Iterable[Effect],
    next_check: float | None,
    now: float,
    new_ids: Iterator[ResultId],
) -> WorkunitView:
    """Apply the effects of a transition or of a validation decision, and set the next check.

    Raises:
        IllegalTransition: an effect does not fit the view.
        PolicyViolation: a result is to be made, but ``new_ids`` is used up.

    """
    for effect in effects:
        match effect:
            case CreateResult():
                view = _with_new_result(view, effect, now, new_ids)
            case _:
                view = apply_effect(view, effect)
    return changed(view, workunit=changed(view.workunit, transition_time=next_check))


_RESULT_CAUSES = {
    TimeOutResult: Cause.DEADLINE_PASSED,
    DropResult: Cause.NOT_NEEDED,
}

_VALIDATE_CAUSES = {
    MarkTooLate: Cause.CANONICAL_OUTPUT_GONE,
    SkipValidation: Cause.WORKUNIT_FAILED,
    MarkValid: Cause.AGREED,
    MarkInvalid: Cause.DISAGREED,
    MarkInconclusive: Cause.NO_QUORUM,
    PostponeValidation: Cause.POSTPONED,
}


def apply_effect(view: WorkunitView, effect: Effect) -> WorkunitView:
    """Apply one effect other than `CreateResult` (which needs an id; see `apply_effects`)."""
    match effect:
        case TimeOutResult() | DropResult():
            return _with_result(view, advance(_result(view, effect.result_id), _RESULT_CAUSES[type(effect)]))
        case (
            MarkTooLate()
            | SkipValidation()
            | MarkValid()
            | MarkInvalid()
            | MarkInconclusive()
            | PostponeValidation()
        ):
            result = _result(view, effect.result_id)
            return _with_result(view, advance_validation(result, _VALIDATE_CAUSES[type(effect)]))
        case MarkUnusable():
            result = advance(_result(view, effect.result_id), Cause.FOUND_UNUSABLE)
            return _with_result(view, advance_validation(result, Cause.FOUND_UNUSABLE))
        case DeleteOutputs():
            return _with_result(view, advance_files(_result(view, effect.result_id), Cause.FILES_RELEASED))
        case CreateResult():
            raise PolicyViolation("CreateResult needs a new id: use apply_effects")
        case _:
            return changed(view, workunit=_changed_workunit(view.workunit, effect))


def _changed_workunit(
    workunit: Workunit,
    effect: RequestValidation
    | FailWorkunit
    | ReadyToAssimilate
    | DeleteInputs
    | ReleaseCommitment
    | SetCanonical
    | RaiseTarget
    | ClearNeedValidate,
) -> Workunit:
    match effect:
        case RequestValidation():
            return changed(workunit, need_validate=True)
        case ClearNeedValidate():
            return changed(workunit, need_validate=False)
        case FailWorkunit():
            mask = workunit.error_mask | effect.error_mask
            return changed(workunit, error_mask=mask, need_validate=False)
        case ReadyToAssimilate():
            return advance_assimilation(workunit, Cause.ANSWER_KNOWN)
        case DeleteInputs():
            return advance_inputs(workunit, Cause.FILES_RELEASED)
        case ReleaseCommitment():
            return changed(workunit, hr_class=0, app_version_id=None)
        case SetCanonical():
            return changed(workunit, canonical_result_id=effect.result_id)
        case RaiseTarget():
            return changed(workunit, rules=changed(workunit.rules, target_nresults=effect.target_nresults))
        case _:
            assert_never(effect)


def _with_new_result(
    view: WorkunitView, effect: CreateResult, now: float, new_ids: Iterator[ResultId]
) -> WorkunitView:
    new_id = next(new_ids, None)
    if new_id is None:
        raise PolicyViolation(f"no id left for result {effect.number} of workunit {view.workunit.id}")
    result = Result(
        id=new_id,
        name=result_name(view.workunit.name, effect.number),
        workunit_id=view.workunit.id,
        app_id=view.workunit.app_id,
        server_state=ServerState.UNSENT,
        priority=effect.priority,
        create_time=now,
    )
    return changed(view, results=(*view.results, result))


def _result(view: WorkunitView, result_id: ResultId) -> Result:
    for result in view.results:
        if result.id == result_id:
            return result
    raise PolicyViolation(f"workunit {view.workunit.id} has no result {result_id}")


def _with_result(view: WorkunitView, new: Result) -> WorkunitView:
    results = [new if result.id == new.id else result for result in view.results]
    return changed(view, results=tuple(results))
