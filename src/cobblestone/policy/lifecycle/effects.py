"""What a rule of the life cycle wants done, as values.

A shell reads a `WorkunitView`, asks a rule and applies the effects, all in one write; where several processes
write, the workunit is locked from the reading on.  `cobblestone.policy.lifecycle.application` is the reference of
what each effect changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.ids import ResultId
from cobblestone.domain.reasons import Reason
from cobblestone.domain.states import WorkunitError
from cobblestone.domain.values import value
from cobblestone.domain.work import Result, Workunit


@value(kw_only=True)
class WorkunitView:
    """A workunit with all its results, in the order of their ids: everything that the rules may look at."""

    workunit: Workunit
    results: tuple[Result, ...] = ()
    keeps_answer: bool = False  #: its batch wants the canonical outputs until it is retired


# ------------------------------------------------------------------------------ effects of the transitioner


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOutResult:
    """The deadline passed: the result becomes OVER with NO_REPLY.

    The record of the host and app version gets the penalty of a time-out.
    """

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkTooLate:
    """The result cannot be compared with the canonical one, which may be deleted: its validate state becomes TOO_LATE."""

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipValidation:
    """The workunit failed: the result's validate state becomes NO_CHECK."""

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """The result is not needed any more: an inactive or unsent one becomes OVER with DIDNT_NEED."""

    result_id: ResultId


@value(kw_only=True)
class CreateResult:
    """Insert an UNSENT result."""

    number: int  #: suffix of its name, see `cobblestone.domain.work.result_name`
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestValidation:
    """Set ``need_validate``: the validator has something to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailWorkunit:
    """Add ``error_mask`` to the workunit's error bits and clear ``need_validate``."""

    error_mask: WorkunitError


@value(kw_only=True)
class ReadyToAssimilate:
    """The assimilate state becomes READY: the project's handler gets the answer, or the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteInputs:
    """The workunit's file delete state becomes READY: its input files may go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOutputs:
    """The result's file delete state becomes READY: its output files may go."""

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCommitment:
    """Set ``hr_class`` to 0 and ``app_version_id`` to none: hosts of every kind may try the job."""


# --------------------------------------------------------------------------------- effects of the validator


@value(kw_only=True)
class SetCanonical:
    """This result represents the answer."""

    result_id: ResultId


@value(kw_only=True)
class MarkValid:
    """The result agrees with the canonical one: VALID, and its credit is due."""

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkInvalid:
    """The result disagrees with the canonical one: INVALID."""

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkInconclusive:
    """The result was looked at, and there is no quorum yet: INCONCLUSIVE."""

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkUnusable:
    """Outputs are missing or malformed: the outcome becomes VALIDATE_ERROR, the validate state INVALID."""

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponeValidation:
    """The result could not be looked at now: its validate state becomes INIT (not looked at) again."""

    result_id: ResultId


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseTarget:
    """Set ``target_nresults`` of the workunit: the transitioner makes more results."""

    target_nresults: int


@value(kw_only=True)
class ClearNeedValidate:
    """Clear ``need_validate``: the validator has looked."""


LifecycleEffect = (
    TimeOutResult
    | MarkTooLate
    | SkipValidation
    | DropResult
    | CreateResult
    | RequestValidation
    | FailWorkunit
    | ReadyToAssimilate
    | DeleteInputs
    | DeleteOutputs
    | ReleaseCommitment
)
"""What `next_transition` may ask for."""

ValidationEffect = (
    SetCanonical
    | MarkValid
    | MarkInvalid
    | MarkInconclusive
    | MarkUnusable
    | MarkTooLate
    | PostponeValidation
    | RaiseTarget
    | ClearNeedValidate
    | DropResult
    | FailWorkunit
    | ReadyToAssimilate
)
"""What `cobblestone.policy.validation.canonical.judge` may ask for."""

Effect = LifecycleEffect | ValidationEffect


@value(kw_only=True)
class Transition:
    """What to do with a workunit now, and when to look at it again."""

    effects: tuple[LifecycleEffect, ...] = ()
    next_check: float | None = (
        None  #: Unix seconds, the new ``transition_time``; None = only when something happens
    )
    reasons: tuple[Reason, ...] = ()  #: why, in the order of the effects
