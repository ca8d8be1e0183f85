"""The changes by each effect: the reference implementation for the store.

The rules themselves use it, to see what comes of their effects, as do the simulator and the suite that holds the
store against it (``tests/conformance/test_steps.py``); all steps go through the tables of
`cobblestone.policy.lifecycle.states`, so an impossible step raises `IllegalTransition`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.values import ResultId, changed
from cobblestone.domain.work import (
    AssimilateState,
    FileDeleteState,
    Result,
    ServerState,
    Workunit,
    result_name,
)
from cobblestone.policy.lifecycle import states


def advance(result: Result, cause: states.Cause) -> Result:
    """Move server state and outcome of ``result``, by the table.

    Raises:
        IllegalTransition: the result cannot take this step.

    """
    after = states.next_state(states.RESULT_TRANSITIONS, states.result_state(result), cause, result)
    return changed(result, server_state=after.server_state, outcome=after.outcome)


def advance_validation(result: Result, cause: states.Cause) -> Result:
    """Move the validate state of ``result``, by the table; raises `IllegalTransition`."""
    after = states.next_state(states.VALIDATE_TRANSITIONS, result.validate_state, cause, result)
    return changed(result, validate_state=after)


def advance_files(result: Result, cause: states.Cause) -> Result:
    """Move the file delete state of ``result``, by the table; raises `IllegalTransition`."""
    return changed(result, file_delete_state=_files_after(result, cause))


def advance_inputs(workunit: Workunit, cause: states.Cause) -> Workunit:
    """Move the file delete state of ``workunit``, by the table; raises `IllegalTransition`."""
    return changed(workunit, file_delete_state=_files_after(workunit, cause))


def advance_assimilation(workunit: Workunit, cause: states.Cause) -> Workunit:
    """Move the assimilate state of ``workunit``, by the table; raises `IllegalTransition`."""
    return changed(workunit, assimilate_state=_assimilation_after(workunit, cause))


def _files_after(of: Result | Workunit, cause: states.Cause) -> FileDeleteState:
    return states.next_state(states.FILE_DELETE_TRANSITIONS, of.file_delete_state, cause, of)


def _assimilation_after(workunit: Workunit, cause: states.Cause) -> AssimilateState:
    return states.next_state(states.ASSIMILATE_TRANSITIONS, workunit.assimilate_state, cause, workunit)


def apply_transition(
    view: states.WorkunitView, transition: states.Transition, now: float, new_ids: Iterator[ResultId]
) -> states.WorkunitView:
    """Apply a transition and its next check; new results get their ids from ``new_ids``.

    Raises:
        IllegalTransition: an effect does not fit the view (it was decided for another one).

    """
    return apply_effects(view, transition.effects, transition.next_check, now, new_ids)


def apply_effects(
    view: states.WorkunitView,
    effects: Iterable[states.Effect],
    next_check: float | None,
    now: float,
    new_ids: Iterator[ResultId],
) -> states.WorkunitView:
    """Apply the effects of a transition or of a validation decision, and set the next check.

    Raises:
        IllegalTransition: an effect does not fit the view.
        PolicyViolation: a result is to be made, but ``new_ids`` is used up.

    """
    draft = _Draft(view)
    for effect in effects:
        if isinstance(effect, states.CreateResult):
            result = _new_result(view.workunit, effect, now, new_ids)
            draft.results[result.id] = result
        else:
            draft.apply(effect)
    draft.fields["transition_time"] = next_check
    return draft.view()


_RESULT_CAUSES: dict[type[states.ResultEffect], states.Cause] = {
    states.TimeOutResult: states.Cause.DEADLINE_PASSED,
    states.DropResult: states.Cause.NOT_NEEDED,
}

_VALIDATE_CAUSES: dict[type[states.ResultEffect], states.Cause] = {
    states.MarkTooLate: states.Cause.NOT_COMPARABLE,
    states.SkipValidation: states.Cause.WORKUNIT_FAILED,
    states.MarkValid: states.Cause.AGREED,
    states.MarkInvalid: states.Cause.DISAGREED,
    states.MarkInconclusive: states.Cause.NO_QUORUM,
    states.PostponeValidation: states.Cause.POSTPONED,
}


def apply_effect(view: states.WorkunitView, effect: states.Effect) -> states.WorkunitView:
    """Apply one effect other than `CreateResult` (which needs an id; see `apply_effects`)."""
    draft = _Draft(view)
    draft.apply(effect)
    return draft.view()


class _Draft:
    """A view in the making: effects change it one after the other, and its workunit is copied once."""

    __slots__ = ("_view", "_workunit", "fields", "results")

    def __init__(self, view: states.WorkunitView) -> None:
        self._view = view
        self._workunit = view.workunit
        self.fields: dict[str, object] = {}  #: of the workunit, still to be changed
        self.results = {result.id: result for result in view.results}

    def view(self) -> states.WorkunitView:
        workunit = changed(self._workunit, **self.fields)
        return changed(self._view, workunit=workunit, results=tuple(self.results.values()))

    def apply(self, effect: states.Effect) -> None:
        if isinstance(effect, states.ResultEffect):
            self.results[effect.result_id] = _changed_result(self._result(effect.result_id), effect)
            return
        fields = _changed_fields(self._workunit, effect)
        # An effect looks at the fields that it changes and at no others.
        if not self.fields.keys().isdisjoint(fields):
            self._workunit = changed(self._workunit, **self.fields)
            self.fields.clear()
            fields = _changed_fields(self._workunit, effect)
        self.fields |= fields

    def _result(self, result_id: ResultId) -> Result:
        try:
            return self.results[result_id]
        except KeyError:
            raise PolicyViolation(f"workunit {self._workunit.id} has no result {result_id}") from None


def _changed_result(result: Result, effect: states.ResultEffect) -> Result:
    match effect:
        case states.NoteCheck():
            return changed(result, checks=effect.checks)
        case states.TimeOutResult() | states.DropResult():
            return advance(result, _RESULT_CAUSES[type(effect)])
        case states.MarkUnusable():
            return advance_validation(
                advance(result, states.Cause.FOUND_UNUSABLE), states.Cause.FOUND_UNUSABLE
            )
        case states.DeleteOutputs():
            return advance_files(result, states.Cause.FILES_RELEASED)
        case _:
            return advance_validation(result, _VALIDATE_CAUSES[type(effect)])


def _changed_fields(workunit: Workunit, effect: states.Effect) -> dict[str, object]:
    match effect:
        case states.RequestValidation():
            return {"need_validate": True}
        case states.ClearNeedValidate():
            return {"need_validate": False}
        case states.FailWorkunit():
            return {"error_mask": workunit.error_mask | effect.error_mask, "need_validate": False}
        case states.ReadyToAssimilate():
            return {"assimilate_state": _assimilation_after(workunit, states.Cause.ANSWER_KNOWN)}
        case states.DeleteInputs():
            return {"file_delete_state": _files_after(workunit, states.Cause.FILES_RELEASED)}
        case states.ReleaseCommitment():
            return {"hr_class": 0, "app_version_id": None}
        case states.SetCanonical():
            return {"canonical_result_id": effect.result_id}
        case states.RaiseTarget():
            return {"rules": changed(workunit.rules, target_nresults=effect.target_nresults)}
        case states.RaiseQuorum():
            return {"rules": workunit.rules.with_quorum(effect.min_quorum)}
        case _:
            raise PolicyViolation("CreateResult needs a new id: use apply_effects")


def _new_result(
    workunit: Workunit, effect: states.CreateResult, now: float, new_ids: Iterator[ResultId]
) -> Result:
    new_id = next(new_ids, None)
    if new_id is None:
        raise PolicyViolation(f"no id left for result {effect.number} of workunit {workunit.id}")
    return Result(
        id=new_id,
        name=result_name(workunit.name, effect.number),
        workunit_id=workunit.id,
        app_id=workunit.app_id,
        server_state=ServerState.UNSENT,
        priority=effect.priority,
        create_time=now,
    )
