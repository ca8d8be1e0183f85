"""The states of results and workunits as tables, what must always hold, and the effects that rules ask for, as values.

What a rule of the life cycle wants done, as values.

A shell reads a `WorkunitView`, asks a rule and applies the effects, all in one write; where several processes
write, the workunit is locked from the reading on.  `cobblestone.policy.lifecycle.application` is the reference of
what each effect changes.

The states of results and workunits as tables, and what must always hold.

Everything that says which step may follow which is in this file.  A pair that is absent from a table is a
step that does not exist; asking for it raises `IllegalTransition` with the history of the row.  The store makes
its statements from these tables, and ``docs/states.md`` is drawn from them.

Source: BOINC's ``boinc_db_types.h``, ``transitioner.cpp``, ``validator.cpp``, ``sched_result.cpp``,
``file_deleter.cpp`` (facts only).  Known difference: a result that could not be looked at becomes INIT
again, so that the transitioner asks for validation once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeVar

from cobblestone.domain.errors import IllegalTransition
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import ResultId, value
from cobblestone.domain.work import (
    AssimilateState,
    BatchState,
    FileDeleteState,
    Outcome,
    Result,
    ServerState,
    ValidateState,
    Workunit,
    WorkunitError,
)


@value(kw_only=True)
class WorkunitView:
    """A workunit with all its results, in the order of their ids: everything that the rules may look at."""

    workunit: Workunit
    results: tuple[Result, ...] = ()
    keeps_answer: bool = False  #: its batch wants the canonical outputs until it is retired
    in_escrow: bool = False  #: credit of a result is provisional: files stay, for it may be computed again
    audited: bool = False  #: one more host computes it again, though the answer is known
    checks: int = 0  #: further results that were drawn to be wanted now that the quorum is complete


class LifecycleEffect:
    """What `cobblestone.policy.lifecycle.transition.next_transition` may ask for."""

    __slots__ = ()


class ValidationEffect:
    """What `cobblestone.policy.validation.canonical.judge` may ask for."""

    __slots__ = ()


# ------------------------------------------------------------------------------ effects of the transitioner


@value(kw_only=True)
class ResultEffect:
    """An effect on one result; which one, says the class."""

    result_id: ResultId


class TimeOutResult(ResultEffect, LifecycleEffect):
    """The deadline passed: the result becomes OVER with NO_REPLY.

    The record of the host and app version gets the penalty of a time-out.
    """


class MarkTooLate(ResultEffect, LifecycleEffect, ValidationEffect):
    """The result cannot be compared with the canonical one, which may be deleted: its validate state becomes TOO_LATE."""


class SkipValidation(ResultEffect, LifecycleEffect):
    """The workunit failed: the result's validate state becomes NO_CHECK."""


class DropResult(ResultEffect, LifecycleEffect, ValidationEffect):
    """The result is no longer needed: an inactive or unsent one becomes OVER with DIDNT_NEED."""


@value(kw_only=True)
class NoteCheck(ResultEffect, LifecycleEffect, ValidationEffect):
    """So many further results check this one: that was drawn after its upload."""

    checks: int


@value(kw_only=True)
class RaiseQuorum(LifecycleEffect, ValidationEffect):
    """So many results must agree on the workunit: sets ``min_quorum`` and ``target_nresults``, and limits below them."""

    min_quorum: int


@value(kw_only=True)
class CreateResult(LifecycleEffect):
    """Insert an UNSENT result."""

    number: int  #: suffix of its name, see `cobblestone.domain.work.result_name`
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestValidation(LifecycleEffect):
    """Set ``need_validate``: the validator has something to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailWorkunit(LifecycleEffect, ValidationEffect):
    """Add ``error_mask`` to the workunit's error bits and clear ``need_validate``."""

    error_mask: WorkunitError


@value(kw_only=True)
class ReadyToAssimilate(LifecycleEffect, ValidationEffect):
    """The assimilate state becomes READY: the project's handler gets the answer, or the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteInputs(LifecycleEffect):
    """The workunit's file delete state becomes READY: its input files may go."""


class DeleteOutputs(ResultEffect, LifecycleEffect):
    """The result's file delete state becomes READY: its output files may go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCommitment(LifecycleEffect):
    """Set ``hr_class`` to 0 and ``app_version_id`` to none: hosts of every kind may try the job."""


# --------------------------------------------------------------------------------- effects of the validator


@value(kw_only=True)
class SetCanonical(ValidationEffect):
    """This result represents the answer."""

    result_id: ResultId


class MarkValid(ResultEffect, ValidationEffect):
    """The result agrees with the canonical one: VALID, and its credit is due."""


class MarkInvalid(ResultEffect, ValidationEffect):
    """The result disagrees with the canonical one: INVALID."""


class MarkInconclusive(ResultEffect, ValidationEffect):
    """The result was looked at, and there is no quorum yet: INCONCLUSIVE."""


class MarkUnusable(ResultEffect, ValidationEffect):
    """Outputs are missing or malformed: the outcome becomes VALIDATE_ERROR, the validate state INVALID."""


class PostponeValidation(ResultEffect, ValidationEffect):
    """The result could not be looked at now: its validate state becomes INIT (not looked at) again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseTarget(ValidationEffect):
    """Set ``target_nresults`` of the workunit: the transitioner makes more results."""

    target_nresults: int


@value(kw_only=True)
class ClearNeedValidate(ValidationEffect):
    """Clear ``need_validate``: the validator has looked."""


Effect = LifecycleEffect | ValidationEffect


@value(kw_only=True)
class Transition:
    """What to do with a workunit now, and when to check it again."""

    effects: tuple[LifecycleEffect, ...] = ()
    #: Unix seconds, the new ``transition_time``; None = only when something happens
    next_check: float | None = None
    reasons: tuple[Reason, ...] = ()  #: why, in the order of the effects


class Cause(StrEnum):
    """The cause of a state change, in the past tense; the value is the text in diagrams and errors."""

    RELEASED = "released"
    SENT = "sent to a host"
    COULD_NOT_SEND = "could not be sent"
    NOT_NEEDED = "not needed any more"
    REPORTED_SUCCESS = "reported as success"
    REPORTED_FAILURE = "reported as failure"
    DETACHED = "host detached"
    DEADLINE_PASSED = "deadline passed"
    FOUND_UNUSABLE = "output missing or malformed"

    AGREED = "agrees with the canonical result"
    DISAGREED = "disagrees with the canonical result"
    NO_QUORUM = "looked at without a quorum"
    POSTPONED = "could not be looked at now"
    WORKUNIT_FAILED = "workunit failed"
    NOT_COMPARABLE = "cannot be compared with the canonical output"

    ANSWER_KNOWN = "answer or failure known"
    ASSIMILATED = "handler finished"
    DEFERRED = "handler wants to wait"

    FILES_RELEASED = "files not needed any more"
    FILES_DELETED = "files deleted"
    DELETION_FAILED = "deletion failed"
    REPORTED_LATE = "reported late, with new files"

    JOBS_COMPLETE = "no more jobs follow"
    JOBS_FINISHED = "all jobs finished"
    STOPPED = "stopped"
    OUTPUTS_RELEASED = "outputs not needed any more"


class ResultState(NamedTuple):
    """The state and outcome of a result."""

    server_state: ServerState
    outcome: Outcome = Outcome.INIT

    @property
    def name(self) -> str:
        """Name in diagrams and errors: ``IN_PROGRESS``, ``OVER_SUCCESS``."""
        over = self.server_state is ServerState.OVER
        return f"{self.server_state.name}_{self.outcome.name}" if over else self.server_state.name


INACTIVE = ResultState(ServerState.INACTIVE)
UNSENT = ResultState(ServerState.UNSENT)
IN_PROGRESS = ResultState(ServerState.IN_PROGRESS)
SUCCESS = ResultState(ServerState.OVER, Outcome.SUCCESS)
COULDNT_SEND = ResultState(ServerState.OVER, Outcome.COULDNT_SEND)
CLIENT_ERROR = ResultState(ServerState.OVER, Outcome.CLIENT_ERROR)
NO_REPLY = ResultState(ServerState.OVER, Outcome.NO_REPLY)
DIDNT_NEED = ResultState(ServerState.OVER, Outcome.DIDNT_NEED)
VALIDATE_ERROR = ResultState(ServerState.OVER, Outcome.VALIDATE_ERROR)
CLIENT_DETACHED = ResultState(ServerState.OVER, Outcome.CLIENT_DETACHED)

#: Server state and outcome of a result.
RESULT_TRANSITIONS: Mapping[tuple[ResultState, Cause], ResultState] = {
    (INACTIVE, Cause.RELEASED): UNSENT,
    (INACTIVE, Cause.NOT_NEEDED): DIDNT_NEED,
    (UNSENT, Cause.SENT): IN_PROGRESS,
    (UNSENT, Cause.COULD_NOT_SEND): COULDNT_SEND,
    (UNSENT, Cause.NOT_NEEDED): DIDNT_NEED,
    (IN_PROGRESS, Cause.REPORTED_SUCCESS): SUCCESS,
    (IN_PROGRESS, Cause.REPORTED_FAILURE): CLIENT_ERROR,
    (IN_PROGRESS, Cause.DETACHED): CLIENT_DETACHED,
    (IN_PROGRESS, Cause.DEADLINE_PASSED): NO_REPLY,
    # A host that was given up may still report: the work is accepted (BOINC, sched_result.cpp).
    (NO_REPLY, Cause.REPORTED_SUCCESS): SUCCESS,
    (NO_REPLY, Cause.REPORTED_FAILURE): CLIENT_ERROR,
    (CLIENT_DETACHED, Cause.REPORTED_SUCCESS): SUCCESS,
    (CLIENT_DETACHED, Cause.REPORTED_FAILURE): CLIENT_ERROR,
    (SUCCESS, Cause.FOUND_UNUSABLE): VALIDATE_ERROR,
}

#: Validate state of a result.
VALIDATE_TRANSITIONS: Mapping[tuple[ValidateState, Cause], ValidateState] = {
    (ValidateState.INIT, Cause.REPORTED_FAILURE): ValidateState.INVALID,
    (ValidateState.INIT, Cause.AGREED): ValidateState.VALID,
    (ValidateState.INIT, Cause.DISAGREED): ValidateState.INVALID,
    (ValidateState.INIT, Cause.FOUND_UNUSABLE): ValidateState.INVALID,
    (ValidateState.INIT, Cause.NO_QUORUM): ValidateState.INCONCLUSIVE,
    (ValidateState.INIT, Cause.POSTPONED): ValidateState.INIT,
    (ValidateState.INIT, Cause.WORKUNIT_FAILED): ValidateState.NO_CHECK,
    (ValidateState.INIT, Cause.NOT_COMPARABLE): ValidateState.TOO_LATE,
    (ValidateState.INCONCLUSIVE, Cause.AGREED): ValidateState.VALID,
    (ValidateState.INCONCLUSIVE, Cause.DISAGREED): ValidateState.INVALID,
    (ValidateState.INCONCLUSIVE, Cause.FOUND_UNUSABLE): ValidateState.INVALID,
    (ValidateState.INCONCLUSIVE, Cause.NO_QUORUM): ValidateState.INCONCLUSIVE,
    (ValidateState.INCONCLUSIVE, Cause.POSTPONED): ValidateState.INIT,
    (ValidateState.INCONCLUSIVE, Cause.WORKUNIT_FAILED): ValidateState.NO_CHECK,
    (ValidateState.INCONCLUSIVE, Cause.NOT_COMPARABLE): ValidateState.TOO_LATE,
}

#: Assimilate state of a workunit.
ASSIMILATE_TRANSITIONS: Mapping[tuple[AssimilateState, Cause], AssimilateState] = {
    (AssimilateState.INIT, Cause.ANSWER_KNOWN): AssimilateState.READY,
    (AssimilateState.READY, Cause.ASSIMILATED): AssimilateState.DONE,
    (AssimilateState.READY, Cause.DEFERRED): AssimilateState.INIT,
}

#: File delete state of a workunit (inputs) or of a result (outputs; only these can be reported late).
FILE_DELETE_TRANSITIONS: Mapping[tuple[FileDeleteState, Cause], FileDeleteState] = {
    (FileDeleteState.INIT, Cause.FILES_RELEASED): FileDeleteState.READY,
    (FileDeleteState.READY, Cause.FILES_DELETED): FileDeleteState.DONE,
    (FileDeleteState.READY, Cause.DELETION_FAILED): FileDeleteState.ERROR,
    (FileDeleteState.ERROR, Cause.FILES_DELETED): FileDeleteState.DONE,
    (FileDeleteState.ERROR, Cause.DELETION_FAILED): FileDeleteState.ERROR,
    (FileDeleteState.INIT, Cause.REPORTED_LATE): FileDeleteState.INIT,
    (FileDeleteState.READY, Cause.REPORTED_LATE): FileDeleteState.INIT,
    (FileDeleteState.ERROR, Cause.REPORTED_LATE): FileDeleteState.INIT,
    (FileDeleteState.DONE, Cause.REPORTED_LATE): FileDeleteState.INIT,
}

#: State of a batch.
BATCH_TRANSITIONS: Mapping[tuple[BatchState, Cause], BatchState] = {
    (BatchState.INIT, Cause.JOBS_COMPLETE): BatchState.IN_PROGRESS,
    (BatchState.IN_PROGRESS, Cause.JOBS_FINISHED): BatchState.COMPLETE,
    (BatchState.INIT, Cause.STOPPED): BatchState.ABORTED,
    (BatchState.IN_PROGRESS, Cause.STOPPED): BatchState.ABORTED,
    (BatchState.COMPLETE, Cause.OUTPUTS_RELEASED): BatchState.RETIRED,
    (BatchState.ABORTED, Cause.OUTPUTS_RELEASED): BatchState.RETIRED,
}

_State = TypeVar("_State", bound=IntEnum | ResultState)


def next_state(
    table: Mapping[tuple[_State, Cause], _State], state: _State, cause: Cause, subject: Result | Workunit
) -> _State:
    """Look up the state of ``subject`` after ``cause``.

    Raises:
        IllegalTransition: the table has no such step; the text carries its history.

    """
    try:
        return table[state, cause]
    except KeyError:
        history = result_history(subject) if isinstance(subject, Result) else workunit_history(subject)
        message = f"{history}: {state.name} cannot become '{cause.value}'"
        raise IllegalTransition(message) from None


def result_state(result: Result) -> ResultState:
    """Server state and outcome of ``result``."""
    return ResultState(result.server_state, result.outcome)


def result_history(result: Result) -> str:
    """Tell what is known of a result's life, for errors: name, states and times."""
    times = (
        ("created", result.create_time),
        ("sent", result.sent_time),
        ("deadline", result.report_deadline),
        ("received", result.received_time),
    )
    told = ", ".join(f"{name} {time:.0f}" for name, time in times if time is not None)
    return (
        f"result {result.id} ({result.name}) is {result_state(result).name}, "
        f"validation {result.validate_state.name}, files {result.file_delete_state.name}, "
        f"host {result.host_id}, {told}"
    )


def workunit_history(workunit: Workunit) -> str:
    """Tell where a workunit stands, for errors."""
    return (
        f"workunit {workunit.id} ({workunit.name}) has canonical result {workunit.canonical_result_id}, "
        f"errors {workunit.error_mask!r}, assimilation {workunit.assimilate_state.name}, "
        f"files {workunit.file_delete_state.name}"
    )


def is_over(result: Result) -> bool:
    """Return whether nothing more is expected of the result."""
    return result.server_state is ServerState.OVER


def is_unsent(result: Result) -> bool:
    """Return whether the result was never given to a host and still may be."""
    return result.server_state in (ServerState.INACTIVE, ServerState.UNSENT)


def is_success(result: Result) -> bool:
    """Return whether the result was reported as success (validation may say otherwise later)."""
    return result.server_state is ServerState.OVER and result.outcome is Outcome.SUCCESS


def awaits_validation(result: Result) -> bool:
    """Return whether the result was reported as success and its outputs have not been checked yet."""
    return is_success(result) and result.validate_state is ValidateState.INIT


def is_settled(view: WorkunitView) -> bool:
    """Return whether nothing more will happen automatically, except deletion of released files and the purge."""
    return (
        view.workunit.assimilate_state is AssimilateState.DONE
        and view.workunit.file_delete_state is not FileDeleteState.INIT
        and all(is_over(result) and not awaits_validation(result) for result in view.results)
    )


# ---------------------------------------------------------------------------------------------- invariants

_STATES = frozenset(RESULT_TRANSITIONS.values()) | {state for state, _ in RESULT_TRANSITIONS}

_VALIDATE_STATES_OF: Mapping[ResultState, frozenset[ValidateState]] = {
    SUCCESS: frozenset(ValidateState),
    CLIENT_ERROR: frozenset({ValidateState.INIT, ValidateState.INVALID}),
    VALIDATE_ERROR: frozenset({ValidateState.INVALID}),
}


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be, of a workunit or of one of its results."""

    code: str  #: for programs: stays when the sentence changes
    text: str


def check_invariants(view: WorkunitView) -> list[Violation]:
    """Say what is wrong with a workunit and its results; an empty list when all is well.

    Runs after each step in tests, and on live databases.
    """
    found = [Violation(code, text) for code, text in _wrong_of_workunit(view)]
    for result in view.results:
        found += (
            Violation(code, f"result {result.id} ({result.name}): {text}")
            for code, text in _wrong_of_result(result, view)
        )
    return found


def _wrong_of_result(result: Result, view: WorkunitView) -> Iterator[tuple[str, str]]:
    state = result_state(result)
    if result.workunit_id != view.workunit.id:
        yield "wrong_workunit", f"belongs to workunit {result.workunit_id}, not {view.workunit.id}"
    if state not in _STATES:
        yield (
            "no_state",
            f"{result.server_state.name} with outcome {result.outcome.name} is not a valid state",
        )
    elif result.validate_state not in _VALIDATE_STATES_OF.get(state, {ValidateState.INIT}):
        yield "no_validate_state", f"{state.name} with validate state {result.validate_state.name}"
    if is_unsent(result) and result.sent_time is not None:
        yield "unsent_with_time", "not sent, but has a time of sending"
    if state == IN_PROGRESS and (result.sent_time is None or result.report_deadline is None):
        yield "in_progress_without_times", "in progress without a time of sending or without a deadline"
    if (
        result.file_delete_state is not FileDeleteState.INIT
        and view.workunit.assimilate_state is not AssimilateState.DONE
    ):
        yield "output_released_early", "its output files may go, but the answer is not assimilated"
    for name in ("cpu_time", "elapsed_time", "claimed_credit", "granted_credit", "peak_flops"):
        value: float = getattr(result, name)
        if not (math.isfinite(value) and value >= 0):
            yield "bad_number", f"{name} is {value}"


def _wrong_of_workunit(view: WorkunitView) -> Iterator[tuple[str, str]]:
    workunit, results = view.workunit, view.results
    decided = workunit.canonical_result_id is not None or bool(workunit.error_mask)
    if len({result.id for result in results}) < len(results):
        yield "same_id", "two results have the same id"
    if len({result.name for result in results}) < len(results):
        yield "same_name", "two results have the same name"
    if not decided and len(results) > workunit.rules.max_total_results:
        yield (
            "too_many_results",
            f"has {len(results)} results, more than max_total_results {workunit.rules.max_total_results}",
        )
    yield from _wrong_of_canonical(view)
    if workunit.assimilate_state is not AssimilateState.INIT:
        if not decided:
            yield (
                "assimilated_undecided",
                f"assimilation is {workunit.assimilate_state.name} without a canonical result or an error",
            )
        if any(map(is_unsent, results)):
            yield (
                "assimilated_with_unsent",
                f"assimilation is {workunit.assimilate_state.name}, but a result may still be sent",
            )
    if workunit.file_delete_state is not FileDeleteState.INIT:
        if workunit.assimilate_state is not AssimilateState.DONE:
            yield "input_released_early", "its input files may go, but the answer is not assimilated"
        if not all(map(is_over, results)):
            yield "input_released_early", "its input files may go, but a result may still need them"
    somebody_acts = workunit.need_validate or workunit.assimilate_state is AssimilateState.READY
    if workunit.transition_time is None and not somebody_acts and not is_settled(view):
        yield "no_next_check", "is not finished, but will not be checked again"


def _wrong_of_canonical(view: WorkunitView) -> Iterator[tuple[str, str]]:
    canonical_id = view.workunit.canonical_result_id
    valid = [result.id for result in view.results if result.validate_state is ValidateState.VALID]
    if canonical_id is None:
        if valid:
            yield "valid_without_canonical", f"result {valid[0]} is valid, but there is no canonical result"
        return
    canonical = [result for result in view.results if result.id == canonical_id]
    if canonical_id not in valid:
        yield "canonical_not_valid", f"canonical result {canonical_id} is not among its valid results {valid}"
    elif canonical[0].file_delete_state is not FileDeleteState.INIT and not all(map(is_over, view.results)):
        yield (
            "output_released_early",
            "its canonical output may go, but a result that must be compared with it is not over",
        )
