"""How states of tasks and workunits are put into words for volunteers, in the language of the page."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.exit_statuses import exit_advice, exit_cause
from cobblestone.domain.states import ExitStatus, Outcome, ServerState, ValidateState, WorkunitError
from cobblestone.domain.work import Result, Workunit
from cobblestone.service.languages import N_, ngettext, translate_reason
from cobblestone.service.languages import gettext as _


@dataclass(frozen=True, slots=True)
class Status:
    """A state in words: a short label, a colour, and a sentence that explains it."""

    label: str
    tone: str  #: good, bad, busy, wait or idle
    sentence: str


def _said(status: Status) -> Status:
    """Return a state in the current language."""
    return Status(_(status.label), status.tone, _(status.sentence))


def task_status(result: Result, *, now: float) -> Status:
    """Return what became of a task."""
    return _said(_task_status(result, now))


def _task_status(result: Result, now: float) -> Status:
    match result.server_state:
        case ServerState.INACTIVE:
            return Status(N_("Not released"), "idle", N_("The task is not released yet."))
        case ServerState.UNSENT:
            return Status(N_("Not sent"), "idle", N_("The task waits for a computer that asks for work."))
        case ServerState.IN_PROGRESS:
            if result.report_deadline is not None and result.report_deadline < now:
                return Status(
                    N_("Overdue"),
                    "wait",
                    N_(
                        "The deadline has passed. If the task comes back before another copy of it is done, it still counts."
                    ),
                )
            return Status(
                N_("In progress"), "busy", N_("The computer has the task and has not reported it yet.")
            )
        case ServerState.OVER:
            return (
                _SUCCESSES[result.validate_state] if result.outcome == Outcome.SUCCESS else _failure(result)
            )


_SUCCESSES = {
    ValidateState.INIT: Status(
        N_("Waiting for validation"),
        "wait",
        N_("The task came back. It is checked as soon as enough results of its workunit are here."),
    ),
    ValidateState.VALID: Status(N_("Valid"), "good", N_("The result passed the check.")),
    ValidateState.INVALID: Status(
        N_("Invalid"),
        "bad",
        N_(
            "The result differs from the one that the computers of this workunit agree on, so it earns no credit."
        ),
    ),
    ValidateState.NO_CHECK: Status(
        N_("Not checked"),
        "idle",
        N_("The workunit was given up or cancelled before this result could be checked."),
    ),
    ValidateState.INCONCLUSIVE: Status(
        N_("Inconclusive"),
        "wait",
        N_(
            "The results so far do not agree. Another computer gets the same work, and its result will decide."
        ),
    ),
    ValidateState.TOO_LATE: Status(
        N_("Too late"),
        "idle",
        N_(
            "The result could not be compared with its workunit's answer: it came too late, or the comparison failed. That is"
            " no fault of the computer."
        ),
    ),
}

_FAILURES = {
    Outcome.INIT: Status(N_("Ended"), "idle", N_("The task ended; the server does not know how.")),
    Outcome.SUCCESS: Status(N_("Ended"), "idle", N_("The task ended.")),
    Outcome.COULDNT_SEND: Status(N_("Not sent"), "idle", N_("The task could not be sent to any computer.")),
    Outcome.CLIENT_ERROR: Status(N_("Error"), "bad", N_("The task failed on the computer.")),
    Outcome.NO_REPLY: Status(
        N_("No reply"),
        "bad",
        N_("The task was not reported before its deadline, so another computer got the same work."),
    ),
    Outcome.DIDNT_NEED: Status(N_("Not needed"), "idle", N_("The workunit was finished without this task.")),
    Outcome.VALIDATE_ERROR: Status(
        N_("Invalid"),
        "bad",
        N_("The output could not be read by the project's check, so it earns no credit."),
    ),
    Outcome.CLIENT_DETACHED: Status(
        N_("Detached"),
        "idle",
        N_("The computer left the project or lost its data; the same work went to another computer."),
    ),
}


def _failure(result: Result) -> Status:
    if result.outcome == Outcome.CLIENT_ERROR and result.exit_status == ExitStatus.ABORTED_BY_USER:
        return Status(N_("Aborted"), "idle", N_("The task was aborted on the computer by its user."))
    if result.outcome == Outcome.CLIENT_ERROR and result.exit_status == ExitStatus.ABORTED_BY_PROJECT:
        return Status(
            N_("Cancelled"), "idle", N_("The project did not need the task any more and cancelled it.")
        )
    return _FAILURES[result.outcome]


def workunit_status(workunit: Workunit) -> Status:
    """Return what became of a workunit."""
    if workunit.error_mask:
        cancelled = WorkunitError.CANCELLED in workunit.error_mask
        return Status(
            _("Cancelled") if cancelled else _("Given up"),
            "idle" if cancelled else "bad",
            workunit_errors(workunit.error_mask),
        )
    if workunit.canonical_result_id is not None:
        return Status(_("Finished"), "good", _("The answer is known."))
    needed = workunit.rules.min_quorum
    sentence = ngettext("One valid result is needed.", "%(count)d results must agree.", needed)
    return Status(_("In progress"), "busy", sentence % {"count": needed})


def workunit_errors(mask: WorkunitError) -> str:
    """Why a workunit has no answer."""
    return " ".join(_(text) for flag, text in _WORKUNIT_ERRORS.items() if flag in mask)


_WORKUNIT_ERRORS = {
    WorkunitError.COULDNT_SEND_RESULT: N_("No computer could run it."),
    WorkunitError.TOO_MANY_ERROR_RESULTS: N_("It failed on too many computers."),
    WorkunitError.TOO_MANY_SUCCESS_RESULTS: N_("Too many results came back without any agreement."),
    WorkunitError.TOO_MANY_TOTAL_RESULTS: N_("Too many copies were made without an answer."),
    WorkunitError.CANCELLED: N_("The project cancelled it."),
    WorkunitError.NO_CANONICAL_RESULT: N_("Its answer was lost."),
}


def exit_status(status: int) -> str:
    """Return an exit status with what it means, in the current language."""
    return translate_reason(exit_cause(status)) if status else "0"


def exit_help(status: int) -> str:
    """Return an exit status with what it means and what to do, in the current language."""
    return translate_reason(exit_advice(status)) if status else "0"
