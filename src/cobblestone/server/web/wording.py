"""How numbers, times and states are put into words for volunteers, in the language of the page."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from babel.dates import format_datetime
from babel.numbers import format_decimal

from cobblestone.domain.states import ExitStatus, Outcome, ServerState, ValidateState, WorkunitError
from cobblestone.domain.work import Result, Workunit
from cobblestone.service.languages import ENGLISH, N_, current, ngettext
from cobblestone.service.languages import gettext as _

# -- numbers -------------------------------------------------------------------


def number(value: float, digits: int = 0) -> str:
    """A number with separators and so many decimals."""
    if not math.isfinite(value):
        return "–"
    if current().code == ENGLISH:
        return f"{value:,.{digits}f}"
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return format_decimal(round(value, digits), format=pattern, locale=current().locale)


def count(value: float) -> str:
    """A whole number with separators."""
    return number(value)


def credit(value: float) -> str:
    """An amount of credit: fewer decimals the larger it is."""
    return number(value, 2 if abs(value) < 1000 else 0)


def percent(share: float) -> str:
    """A share (0 to 1) in per cent: one decimal only close to the ends."""
    digits = 1 if 0.0 < share < 0.02 or 0.98 < share < 1.0 else 0
    return _("%(number)s %%") % {"number": number(100 * share, digits)}


def duration(seconds: float) -> str:
    """A length of time in its two largest units."""
    if not math.isfinite(seconds) or seconds < 0:
        return _("unknown")
    if seconds < 60:
        return _("%(seconds)s s") % {"seconds": number(seconds, 1 if seconds < 10 else 0)}
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _("%(minutes)d min %(seconds)02d s") % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return _("%(hours)d h %(minutes)02d min") % {"hours": hours, "minutes": minutes}
    days, hours = divmod(hours, 24)
    return _("%(days)s d %(hours)d h") % {"days": number(days), "hours": hours}


_SIZES = (N_("%(number)s bytes"), N_("%(number)s kB"), N_("%(number)s MB"), N_("%(number)s GB"))


def nbytes(value: float) -> str:
    """A number of bytes with a unit."""
    for place, unit in enumerate(_SIZES):
        if abs(value) < 1000:
            return _(unit) % {"number": number(value, 1 if place else 0)}
        value /= 1000
    return _("%(number)s TB") % {"number": number(value, 1)}


def flops(value: float) -> str:
    """A speed in floating-point operations per second."""
    for unit in ("FLOPS", "kFLOPS", "MFLOPS", "GFLOPS", "TFLOPS", "PFLOPS"):
        if abs(value) < 1000:
            return f"{number(value, 2)} {unit}"
        value /= 1000
    return f"{number(value, 1)} EFLOPS"


def version_number(number: int) -> str:
    """An app version's number as it is usually written."""
    return f"{number // 100}.{number % 100:02d}"


def client_version(number: int) -> str:
    """A client's version as it is usually written."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


# -- times ---------------------------------------------------------------------


def moment(time: float) -> str:
    """A moment in UTC, to the minute."""
    return f"{day(time)}, {_utc(time):%H:%M} UTC"


def day(time: float) -> str:
    """A day in UTC."""
    utc = _utc(time)
    if current().code == ENGLISH:
        return utc.strftime("%-d %b %Y")
    # Translators: how your language writes a date, in the notation of Unicode TR 35
    return format_datetime(utc, format=_("d MMM y"), locale=current().locale)


def iso(time: float) -> str:
    """A moment for machines."""
    return _utc(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def ago(time: float, now: float) -> str:
    """How far a moment is away, roughly."""
    seconds, past = abs(now - time), now >= time
    if seconds < 10:
        return _("just now")
    if seconds >= 86400:
        n = int(seconds // 86400)
        if past:
            text = ngettext("%(number)s day ago", "%(number)s days ago", n)
        else:
            text = ngettext("in %(number)s day", "in %(number)s days", n)
    elif seconds >= 3600:
        n = int(seconds // 3600)
        if past:
            text = ngettext("%(number)s hour ago", "%(number)s hours ago", n)
        else:
            text = ngettext("in %(number)s hour", "in %(number)s hours", n)
    elif seconds >= 60:
        n = int(seconds // 60)
        if past:
            text = ngettext("%(number)s minute ago", "%(number)s minutes ago", n)
        else:
            text = ngettext("in %(number)s minute", "in %(number)s minutes", n)
    else:
        n = round(seconds)
        if past:
            text = ngettext("%(number)s second ago", "%(number)s seconds ago", n)
        else:
            text = ngettext("in %(number)s second", "in %(number)s seconds", n)
    return text % {"number": number(n)}


def _utc(time: float) -> datetime:
    bounded = min(max(time, 0.0), 4e9) if math.isfinite(time) else 0.0
    return datetime.fromtimestamp(bounded, UTC)


_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?(?![\w.])|(?<![\w.])\d+e[+-]?\d+(?!\w)")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def tidy_numbers(text: str) -> str:
    """A reason's sentence with its long decimals cut to what a reader needs."""
    return _DECIMAL.sub(lambda found: _tidy(float(found[0])), text)


def _tidy(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if value >= 1e7 or 0 < value < 1e-3:
        digits, _, exponent = f"{value:.3e}".partition("e")
        return f"{float(digits):g} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return f"{value:,.0f}" if value >= 1000 or value.is_integer() else f"{value:.4g}"


# -- states --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Status:
    """A state in words: a short label, a colour, and a sentence that explains it."""

    label: str
    tone: str  #: good, bad, busy, wait or idle
    sentence: str


def _said(status: Status) -> Status:
    """A state in the current language."""
    return Status(_(status.label), status.tone, _(status.sentence))


def task_status(result: Result, *, now: float) -> Status:
    """What became of a task."""
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
            "The task came back when its workunit was finished already, so it could not be compared any more."
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
    """What became of a workunit."""
    if workunit.error_mask:
        sentences = [_(text) for flag, text in _WORKUNIT_ERRORS.items() if flag in workunit.error_mask]
        cancelled = WorkunitError.CANCELLED in workunit.error_mask
        return Status(
            _("Cancelled") if cancelled else _("Given up"),
            "idle" if cancelled else "bad",
            " ".join(sentences),
        )
    if workunit.canonical_result_id is not None:
        return Status(_("Finished"), "good", _("The answer is known."))
    needed = workunit.rules.min_quorum
    sentence = ngettext("One valid result is needed.", "%(count)d results must agree.", needed)
    return Status(_("In progress"), "busy", sentence % {"count": needed})


_WORKUNIT_ERRORS = {
    WorkunitError.COULDNT_SEND_RESULT: N_("No computer could run it."),
    WorkunitError.TOO_MANY_ERROR_RESULTS: N_("It failed on too many computers."),
    WorkunitError.TOO_MANY_SUCCESS_RESULTS: N_("Too many results came back without any agreement."),
    WorkunitError.TOO_MANY_TOTAL_RESULTS: N_("Too many copies were made without an answer."),
    WorkunitError.CANCELLED: N_("The project cancelled it."),
    WorkunitError.NO_CANONICAL_RESULT: N_("Its answer was lost."),
}

# The client's own exit statuses (BOINC's ``lib/error_numbers.h``: facts).
_EXIT_STATUSES = {
    0: N_("success"),
    192: N_("the program could not write its checkpoint"),
    193: N_("the program was ended by a signal (a crash)"),
    194: N_("the program was not started by the client as it should"),
    195: N_("a program started by the task failed"),
    196: N_("the task used more disk space than allowed"),
    197: N_("the task ran longer than allowed"),
    198: N_("the task used more memory than allowed"),
    199: N_("the client was stopping"),
    200: N_("the task had not started by its deadline"),
    201: N_("the graphics processor that the task needs is missing"),
    202: N_("cancelled by the project"),
    203: N_("aborted by the user"),
    205: N_("the program ran out of memory"),
    206: N_("the program could not be started"),
    -1073741819: N_("the program crashed (access violation)"),
    -1073741515: N_("the program could not start (a library is missing)"),
    -1073741510: N_("the program was ended by the system"),
}


def exit_status(status: int) -> str:
    """An exit status with what it means, where that is known."""
    number = f"{status} (0x{status & 0xFFFFFFFF:x})" if status else "0"
    meaning = _EXIT_STATUSES.get(status)
    return _("%(number)s: %(meaning)s") % {"number": number, "meaning": _(meaning)} if meaning else number
