"""Words for states of tasks and workunits, for volunteers and for operators, in the language of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import msgspec

from cobblestone.domain.apps import App
from cobblestone.domain.reasons import exit_advice, exit_cause
from cobblestone.domain.work import (
    ExitStatus,
    Outcome,
    Result,
    ServerState,
    ValidateState,
    Workunit,
    WorkunitError,
)
from cobblestone.service.languages import N_, ngettext, translate_reason
from cobblestone.service.languages import gettext as _

#: What a page says after something was done, by the word in its address.
DONE: Mapping[str, str] = {
    "saved": N_("Saved."),
    "password": N_("The password was changed. All other sessions were ended."),
    "email": N_("The address of your account was changed."),
    "email_sent": N_(
        "A mail with a link is on its way to the new address. The address changes when you open the link."
    ),
    "confirm_sent": N_("A mail with a link is on its way. Your address is confirmed when you open it."),
    "sessions": N_("All other sessions were ended."),
    "keys": N_("The account has new keys. Attach your computers again."),
    "factor_off": N_("The second factor is off."),
    "kept": N_("Your account stays."),
    "revoked": N_("The token is revoked."),
}


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
    """Return the state of a task."""
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
        N_("The task was reported. It is checked as soon as enough results of its workunit have come in."),
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
            "The result could not be compared with its workunit's answer: it came too late, or the "
            "comparison failed. The computer is not at fault."
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
        N_("Invalid"), "bad", N_("The project's check could not read the output, so it earns no credit.")
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


def checks_are_secret(workunit: Workunit, app: App) -> bool:
    """Return whether it is not told yet if other computers compute it too: a liar who knew would lie elsewhere."""
    is_open = workunit.canonical_result_id is None and not workunit.error_mask
    return is_open and app.rules_of_jobs.min_quorum == 1


def workunit_status(workunit: Workunit, *, secret: bool = False) -> Status:
    """Return the state of a workunit; ``secret``: not how many results must agree."""
    if workunit.error_mask:
        cancelled = WorkunitError.CANCELLED in workunit.error_mask
        return Status(
            _("Cancelled") if cancelled else _("Given up"),
            "idle" if cancelled else "bad",
            workunit_errors(workunit.error_mask),
        )
    if workunit.canonical_result_id is not None:
        return Status(_("Finished"), "good", _("The answer is known."))
    if secret:
        return Status(_("In progress"), "busy", _("Which computers check it is shown when it is finished."))
    needed = workunit.rules.min_quorum
    sentence = ngettext("One valid result is needed.", "%(count)d results must agree.", needed)
    return Status(_("In progress"), "busy", sentence % {"count": needed})


def workunit_errors(mask: WorkunitError) -> str:
    """Return why a workunit has no answer."""
    return " ".join(_(text) for flag, text in _WORKUNIT_ERRORS.items() if flag in mask)


_WORKUNIT_ERRORS = {
    WorkunitError.COULDNT_SEND_RESULT: N_("No computer could run it."),
    WorkunitError.TOO_MANY_ERROR_RESULTS: N_("It failed on too many computers."),
    WorkunitError.TOO_MANY_SUCCESS_RESULTS: N_("Too many results came back without agreement."),
    WorkunitError.TOO_MANY_TOTAL_RESULTS: N_("Too many copies were created without an answer."),
    WorkunitError.CANCELLED: N_("The project cancelled it."),
    WorkunitError.NO_CANONICAL_RESULT: N_("Its answer was lost."),
}


def exit_status(status: int) -> str:
    """Return an exit status with its meaning, in the current language."""
    return translate_reason(exit_cause(status)) if status else "0"


def exit_help(status: int) -> str:
    """Return an exit status with its meaning and a remedy, in the current language."""
    return translate_reason(exit_advice(status)) if status else "0"


_WORDS = (
    # states of batches
    N_("init"), N_("in progress"), N_("complete"), N_("retired"),
    # of jobs
    N_("waiting"), N_("running"), N_("done"), N_("failed"), N_("cancelled"),
    # of parts of the server
    N_("failing"), N_("stuck"), N_("not running"),
    # actions
    N_("advance roll-out"), N_("hold roll-out"), N_("start roll-out"), N_("roll back version"), N_("block host"),
    N_("unblock host"), N_("block user"), N_("unblock user"), N_("cancel batch"), N_("retry batch"), N_("cancel workunit"),
    N_("retry workunit"), N_("set role"), N_("set rights to submit"), N_("delete user"), N_("reset password"),
    N_("send password reset"), N_("publish news"), N_("edit news"), N_("withdraw news"), N_("repair"),
    # what people are asked to agree to
    N_("terms"), N_("statistics"),
)  # fmt: skip

_CALLED = {"aborted": "cancelled"}  # what the family's name of a state is called by those who do it
_SHOWN = 160


def word(name: str) -> str:
    """Return a fixed name in the language of the page; unknown names are unchanged."""
    text = name.lower().replace("_", " ")
    text = _CALLED.get(text, text)
    return _(text) if text in _WORDS else text


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """One value changed by an action; an empty text: it did not exist before, or no longer does."""

    name: str
    before: str
    after: str


def changes(before: str, after: str) -> list[ChangedValue]:
    """Return what differs between the two values of an entry of the audit log, which are JSON."""
    old, new = dict(_leaves("", msgspec.json.decode(before))), dict(_leaves("", msgspec.json.decode(after)))
    names = [*old, *(name for name in new if name not in old)]
    return [
        ChangedValue(name, old.get(name, ""), new.get(name, ""))
        for name in names
        if old.get(name, "") != new.get(name, "")
    ]


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the leaf values of nested ones, with dotted names."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _leaves(f"{name}.{key}".lstrip("."), item)
    elif value is not None:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield name.replace("_", " "), text if len(text) <= _SHOWN else text[: _SHOWN - 2] + " …"
