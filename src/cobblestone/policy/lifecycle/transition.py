"""The transitioner's rules: what happens next to a workunit.

Source: BOINC's ``transitioner.cpp`` (facts only).  The rules, in this order: count the results (time-outs,
reports that came too late), look for errors, fail or go on, ask for validation, make results, hand over the
answer, release files, say when to look again.  The comparison operators are BOINC's: *more than*
``max_error_results`` errors fail a workunit, but *reaching* ``max_total_results`` does when one more is
needed.

Known differences, each because the original loses work or leaves a workunit unfinished:

* Once there is a canonical result or an error bit, no further error bit is set: counts no longer matter.
* A workunit that may make no more results, but would like to, fails only when no result is outstanding and
  none awaits validation.  The original fails it at the next look, even while the missing result is on its
  way.
* With a canonical result, a new success is validated even when fewer than ``min_quorum`` successes are left
  (some were INVALID); the original never looks at it, and keeps the files for ever.
* When a deadline in the future keeps a NO_REPLY result from being settled, the workunit is looked at again
  then.
* Output files of VALIDATE_ERROR results, and in the end of NO_REPLY and CLIENT_DETACHED ones, are released
  too.
* Inactive results are dropped like unsent ones; results that are still unsent when the answer is known are
  dropped.
* The outputs of the canonical result are released only when the batch is retired, if there is one.
* A report is too late as soon as the canonical output is *released* for deletion, not when it is gone.
* An unfinished workunit is looked at again after its delay bound, at least a day (there ten days, or one and a half bounds).  So
  sending a result, whose deadline is later, need not move that look forward: it changes one row less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cobblestone.domain.reasons import Reason, Value, reason
from cobblestone.domain.values import DAY, ResultId
from cobblestone.domain.work import (
    AssimilateState,
    ExitStatus,
    FileDeleteState,
    Outcome,
    Result,
    ServerState,
    ValidateState,
    Workunit,
    WorkunitError,
)
from cobblestone.policy.lifecycle import states
from cobblestone.policy.lifecycle.application import apply_effect, apply_transition
from cobblestone.policy.lifecycle.states import Transition, WorkunitView

__all__ = ["Transition", "WorkunitView", "apply_transition", "next_transition"]

#: Least and greatest delay, in seconds, of a check that is already late.
OVERLOAD_DELAYS = (60.0, DAY)


#: Added to the priority of results that are made after another one is over.
PRIORITY_OF_RETRIES = 1
#: Look again after this, or the delay bound if longer.
SAFETY_NET_SECONDS = DAY


def next_transition(view: WorkunitView, *, delete_delay: float = 0.0, now: float) -> Transition:
    """Say what happens to a workunit at ``now`` (Unix seconds), why, and when to look again.

    Files stay for ``delete_delay`` seconds after the last result was received.

    The answer is a fixed point: apply it, ask again at the same time, and there are no further effects.
    """
    draft = _Draft(view=view)
    _settle_late(draft, now)
    counts = _count(draft.view)
    _find_errors(draft, counts)
    created = 0
    if draft.workunit.error_mask:
        _give_up(draft)
    elif draft.workunit.canonical_result_id is not None:
        if view.audited:
            created = _create_audit(draft, counts)
        else:
            _drop_unsent(draft, "canonical_known")
        _request_validation(draft, counts)
    else:
        _ask_for_check(draft, counts)
        _request_validation(draft, counts)
        created = _create_results(draft, counts)
    validated = not created and all(
        states.is_over(r) and not states.awaits_validation(r) for r in draft.view.results
    )
    if (
        validated
        and draft.workunit.assimilate_state is AssimilateState.INIT
        and _has_canonical(draft.workunit)
    ):
        draft.add(states.ReadyToAssimilate(), "all_validated", "every result is over and validated")
    still_expected = [deadline for deadline in _no_reply_deadlines(draft.view) if deadline > now]
    deletion_time = _release_files(draft, delete_delay, now, settled=validated and not still_expected)
    return Transition(
        effects=tuple(draft.effects),
        next_check=_next_check(draft, now, deletion_time, still_expected),
        reasons=tuple(draft.reasons),
    )


def delay_when_late(next_check: float, now: float) -> float:
    """Move a check in the past to ``now`` + twice the lateness, at least 60 s, at most a day.

    Keeps an overloaded server from looking at the same workunits again and again.
    """
    if next_check >= now:
        return next_check
    least, greatest = OVERLOAD_DELAYS
    return now + min(greatest, max(least, 2 * (now - next_check)))


def deadline_of(result: Result, workunit: Workunit) -> float:
    """Deadline of a sent result in Unix seconds; reconstructed from the delay bound when the row has none."""
    if result.report_deadline is not None:
        return result.report_deadline
    sent = result.create_time if result.sent_time is None else result.sent_time
    return sent + workunit.limits.delay_bound


#: Effects that later rules of the same pass depend on; the others need not be applied to the draft.
_LOOKED_AT_LATER = (
    states.TimeOutResult,
    states.MarkTooLate,
    states.SkipValidation,
    states.DropResult,
    states.FailWorkunit,
    states.NoteCheck,
    states.RaiseQuorum,
)


def lost_for_credit(view: WorkunitView, transition: Transition) -> Iterator[ResultId]:
    """Yield results that got credit while they ran and will not become valid, unless the project cancelled the job."""
    if WorkunitError.CANCELLED in view.workunit.error_mask:
        return
    effects = transition.effects
    late = {effect.result_id for effect in effects if isinstance(effect, states.TimeOutResult)}
    given_up = bool(view.workunit.error_mask) or any(
        isinstance(effect, states.FailWorkunit) for effect in effects
    )
    for result in view.results:
        if result.granted_credit > 0.0 and result.validate_state is not ValidateState.VALID:
            failed = result.server_state is ServerState.OVER and (
                given_up or result.outcome is not Outcome.SUCCESS
            )
            if failed or result.id in late:
                yield result.id


@dataclass(slots=True)
class _Draft:
    """The view as it will be after the effects so far."""

    view: WorkunitView
    effects: list[states.LifecycleEffect] = field(default_factory=list[states.LifecycleEffect])
    reasons: list[Reason] = field(default_factory=list[Reason])

    @property
    def workunit(self) -> Workunit:
        return self.view.workunit

    def add(self, effect: states.LifecycleEffect, code: str, sentence: str, **values: Value) -> None:
        self.effects.append(effect)
        self.reasons.append(reason(code, sentence, **values))
        if isinstance(effect, _LOOKED_AT_LATER):
            self.view = apply_effect(self.view, effect)


@dataclass(slots=True)
class _Counts:
    """Numbers of results of each kind of a workunit."""

    unsent: int = 0
    in_progress: int = 0
    over: int = 0
    couldnt_send: int = 0
    success: int = 0
    errors: int = 0
    no_reply: int = 0
    to_validate: int = 0

    @property
    def total(self) -> int:
        return self.unsent + self.in_progress + self.over

    @property
    def outstanding(self) -> int:
        return self.unsent + self.in_progress


def _has_canonical(workunit: Workunit) -> bool:
    return workunit.canonical_result_id is not None


def _settle_late(draft: _Draft, now: float) -> None:
    """Time out what is past its deadline; close what came after the canonical output was released."""
    workunit = draft.workunit
    canonical_gone = any(
        result.id == workunit.canonical_result_id and result.file_delete_state is not FileDeleteState.INIT
        for result in draft.view.results
    )
    for result in draft.view.results:
        if result.server_state is ServerState.IN_PROGRESS and deadline_of(result, workunit) <= now:
            draft.add(
                states.TimeOutResult(result_id=result.id),
                "timed_out",
                "{result} was not reported by its deadline",
                result=result.name,
                deadline=deadline_of(result, workunit),
            )
        elif canonical_gone and states.awaits_validation(result):
            draft.add(
                states.MarkTooLate(result_id=result.id),
                "too_late",
                "{result} came after the files of the canonical result were released",
                result=result.name,
            )


def _count(view: WorkunitView) -> _Counts:
    counts = _Counts()
    for result in view.results:
        if states.is_unsent(result):
            counts.unsent += 1
        elif result.server_state is ServerState.IN_PROGRESS:
            counts.in_progress += 1
        else:
            counts.over += 1
            _count_over(counts, result)
    return counts


def _count_over(counts: _Counts, result: Result) -> None:
    match result.outcome:
        case Outcome.COULDNT_SEND:
            counts.couldnt_send += 1
        case Outcome.SUCCESS:
            counts.success += result.validate_state is not ValidateState.INVALID
            counts.to_validate += states.awaits_validation(result)
        case Outcome.CLIENT_ERROR if result.exit_status == ExitStatus.ABORTED_BY_USER:
            counts.no_reply += 1
        case Outcome.CLIENT_ERROR | Outcome.VALIDATE_ERROR:
            counts.errors += 1
        case Outcome.NO_REPLY | Outcome.CLIENT_DETACHED:
            counts.no_reply += 1
        case Outcome.DIDNT_NEED | Outcome.INIT:
            pass


def _can_validate(workunit: Workunit, counts: _Counts) -> bool:
    """Return whether there is a new success, and enough of them, or a canonical result to compare it with."""
    enough = _has_canonical(workunit) or counts.success >= workunit.rules.min_quorum
    return counts.to_validate > 0 and enough


def wants_check(view: WorkunitView) -> tuple[ResultId, ...]:
    """Return the uploads that complete a quorum now: whether others check them is drawn at this moment, not before."""
    workunit = view.workunit
    settled = workunit.error_mask or _has_canonical(workunit) or workunit.need_validate
    if settled or workunit.target.one_person or any(result.checks for result in view.results):
        return ()
    counts = _count(view)
    if counts.success != counts.to_validate or not _can_validate(workunit, counts):
        return ()
    return tuple(result.id for result in view.results if states.awaits_validation(result))


def _ask_for_check(draft: _Draft, counts: _Counts) -> None:
    more = draft.view.checks
    uploads = wants_check(draft.view) if more else ()
    for result_id in uploads:
        note = states.NoteCheck(result_id=result_id, checks=more)
        draft.add(note, "check_drawn", "others check what was uploaded")
    if uploads:
        quorum = states.RaiseQuorum(min_quorum=counts.success + more)
        draft.add(quorum, "quorum_raised", "wanted before it is decided: {more} more", more=more)


def _create_audit(draft: _Draft, counts: _Counts) -> int:
    """Have one more host compute a job again whose answer is known."""
    if counts.outstanding or counts.to_validate or draft.workunit.need_validate or audit_failed(draft.view):
        return 0
    again = states.CreateResult(number=_first_free_number(draft.view), priority=draft.workunit.priority + 1)
    draft.add(again, "audit", "it is computed again: its computer failed a check")
    return 1


def audit_failed(view: WorkunitView) -> bool:
    """Return whether more computers failed to compute a job again than the job allows: nothing more is learned of it."""
    counts = _count(view)
    return view.audited and counts.errors + counts.no_reply > view.workunit.rules.max_error_results


def _request_validation(draft: _Draft, counts: _Counts) -> None:
    if _can_validate(draft.workunit, counts) and not draft.workunit.need_validate:
        draft.add(
            states.RequestValidation(),
            "validation_requested",
            "{successes} {successes:result was|results were} reported as success; the quorum is {min_quorum}",
            successes=counts.success,
            min_quorum=draft.workunit.rules.min_quorum,
        )


def _missing(workunit: Workunit, counts: _Counts) -> tuple[int, int]:
    """Return how many results are missing, and how many may be created (negative: too many exist)."""
    rules = workunit.rules
    needed = max(0, rules.target_nresults - counts.outstanding - counts.success)
    return needed, rules.max_total_results - counts.total


def _find_errors(draft: _Draft, counts: _Counts) -> None:
    workunit, rules = draft.workunit, draft.workunit.rules
    if workunit.error_mask or _has_canonical(workunit):
        return
    if counts.couldnt_send > 0:
        draft.add(
            states.FailWorkunit(error_mask=WorkunitError.COULDNT_SEND_RESULT),
            "couldnt_send",
            "{count} {count:result|results} could not be sent",
            count=counts.couldnt_send,
        )
    if counts.errors > rules.max_error_results:
        draft.add(
            states.FailWorkunit(error_mask=WorkunitError.TOO_MANY_ERROR_RESULTS),
            "too_many_errors",
            "{errors} {errors:result|results} failed; {max_error_results} {max_error_results:is|are} allowed",
            errors=counts.errors,
            max_error_results=rules.max_error_results,
        )
    needed, allowed = _missing(workunit, counts)
    waiting = counts.outstanding > 0 or workunit.need_validate or _can_validate(workunit, counts)
    if allowed < 0 or (allowed == 0 and needed > 0 and not waiting):
        draft.add(
            states.FailWorkunit(error_mask=WorkunitError.TOO_MANY_TOTAL_RESULTS),
            "too_many_results",
            "results: {total}, and {needed} more needed; at most {max_total_results} are allowed",
            total=counts.total,
            needed=needed,
            max_total_results=rules.max_total_results,
        )
    committed = workunit.hr_class != 0 or workunit.app_version_id is not None
    only_errors = counts.errors > 0 and not (counts.success or counts.in_progress or counts.no_reply)
    if committed and only_errors and not draft.workunit.error_mask:
        draft.add(
            states.ReleaseCommitment(),
            "commitment_released",
            "all {errors} results failed: the job may run on hosts and versions of every kind",
            errors=counts.errors,
        )


def _drop_unsent(draft: _Draft, code: str) -> None:
    for result in draft.view.results:
        if states.is_unsent(result):
            draft.add(
                states.DropResult(result_id=result.id),
                code,
                "{result} is no longer needed",
                result=result.name,
            )


def _give_up(draft: _Draft) -> None:
    """Close a failed workunit: nothing more is sent or validated, and the project is told."""
    _drop_unsent(draft, "workunit_failed")
    for result in draft.view.results:
        open_states = (ValidateState.INIT, ValidateState.INCONCLUSIVE)
        if states.is_success(result) and result.validate_state in open_states:
            draft.add(
                states.SkipValidation(result_id=result.id),
                "not_checked",
                "{result} is not validated: the workunit failed",
                result=result.name,
            )
    if draft.workunit.assimilate_state is AssimilateState.INIT:
        draft.add(
            states.ReadyToAssimilate(),
            "failed",
            "the workunit failed ({errors}); the project is told",
            errors=(draft.workunit.error_mask.name or str(int(draft.workunit.error_mask))),
        )


def _create_results(draft: _Draft, counts: _Counts) -> int:
    """Make the missing results, as far as ``max_total_results`` allows; say how many."""
    created = min(_missing(draft.workunit, counts))
    if created <= 0:
        return created
    number = _first_free_number(draft.view)
    increase = PRIORITY_OF_RETRIES if counts.over else 0
    for i in range(created):
        draft.add(
            states.CreateResult(number=number + i, priority=draft.workunit.priority + increase),
            "result_needed",
            "{have} of {target_nresults} results exist or are expected",
            have=counts.outstanding + counts.success + i,
            target_nresults=draft.workunit.rules.target_nresults,
        )
    return created


def _first_free_number(view: WorkunitView) -> int:
    suffixes = (result.name.rpartition("_")[2] for result in view.results)
    return 1 + max((int(suffix) for suffix in suffixes if suffix.isdecimal()), default=-1)


def _no_reply_deadlines(view: WorkunitView) -> Iterator[float]:
    """Deadlines of results that were given up; before them, a late report is likely enough to wait for."""
    for result in view.results:
        if result.server_state is ServerState.OVER and result.outcome is Outcome.NO_REPLY:
            yield deadline_of(result, view.workunit)


def _release_files(draft: _Draft, delete_delay: float, now: float, *, settled: bool) -> float | None:
    """Release files that are no longer needed; return when to check again, if it is too early."""
    workunit = draft.workunit
    if workunit.assimilate_state is not AssimilateState.DONE:
        return None
    if draft.view.in_escrow:
        return now + SAFETY_NET_SECONDS
    last_received = max((result.received_time or 0.0 for result in draft.view.results), default=0.0)
    if now < last_received + delete_delay:
        return last_received + delete_delay
    if settled and workunit.file_delete_state is FileDeleteState.INIT:
        draft.add(
            states.DeleteInputs(), "inputs_released", "the answer is assimilated and every result is over"
        )
    for result in draft.view.results:
        if result.file_delete_state is FileDeleteState.INIT and _outputs_needless(
            result, draft.view, settled=settled
        ):
            draft.add(
                states.DeleteOutputs(result_id=result.id),
                "outputs_released",
                "the outputs of {result} are not needed any more",
                result=result.name,
            )
    return None


def _outputs_needless(result: Result, view: WorkunitView, *, settled: bool) -> bool:
    if not states.is_over(result):
        return False
    match result.outcome:
        case Outcome.CLIENT_ERROR | Outcome.VALIDATE_ERROR:
            return True
        case Outcome.SUCCESS:
            if result.id == view.workunit.canonical_result_id:
                return settled and not view.keeps_answer
            return result.validate_state is not ValidateState.INIT
        case Outcome.NO_REPLY | Outcome.CLIENT_DETACHED:
            return settled
        case Outcome.COULDNT_SEND | Outcome.DIDNT_NEED | Outcome.INIT:
            return False  # was never on a host


def _next_check(
    draft: _Draft, now: float, deletion_time: float | None, still_expected: list[float]
) -> float | None:
    workunit = draft.workunit
    times: list[float] = []
    if not (workunit.error_mask or _has_canonical(workunit)):
        times.append(now + max(SAFETY_NET_SECONDS, workunit.limits.delay_bound))
    times += [
        deadline_of(result, workunit)
        for result in draft.view.results
        if result.server_state is ServerState.IN_PROGRESS
    ]
    if deletion_time is not None:
        times.append(deletion_time)
    if (
        workunit.assimilate_state is AssimilateState.DONE
        and workunit.file_delete_state is FileDeleteState.INIT
    ):
        times += still_expected  # they hold up the deletion
    return delay_when_late(min(times), now) if times else None
