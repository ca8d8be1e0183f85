"""How numbers, times and states are put into words for volunteers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from cobblestone.domain.states import ExitStatus, Outcome, ServerState, ValidateState, WorkunitError
from cobblestone.domain.work import Result, Workunit
from cobblestone.store.pages import TaskState

# -- numbers -------------------------------------------------------------------


def count(value: float) -> str:
    """A whole number with separators."""
    return f"{value:,.0f}"


def credit(value: float) -> str:
    """An amount of credit: fewer decimals the larger it is."""
    digits = 2 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """A length of time in its two largest units."""
    if not math.isfinite(seconds) or seconds < 0:
        return "unknown"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days:,} d {hours} h"


def nbytes(value: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def flops(value: float) -> str:
    """A speed in floating-point operations per second."""
    for unit in ("FLOPS", "kFLOPS", "MFLOPS", "GFLOPS", "TFLOPS", "PFLOPS"):
        if abs(value) < 1000:
            return f"{value:.2f} {unit}"
        value /= 1000
    return f"{value:,.1f} EFLOPS"


def version_number(number: int) -> str:
    """An app version's number as it is usually written."""
    return f"{number // 100}.{number % 100:02d}"


def client_version(number: int) -> str:
    """A client's version as it is usually written."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def moment(time: float) -> str:
    """A moment in UTC, to the minute."""
    return _utc(time).strftime("%-d %b %Y, %H:%M UTC")


def day(time: float) -> str:
    """A day in UTC."""
    return _utc(time).strftime("%-d %b %Y")


def iso(time: float) -> str:
    """A moment for machines."""
    return _utc(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def ago(time: float, now: float) -> str:
    """How far a moment is away, roughly."""
    seconds = now - time
    text = _rough(abs(seconds))
    if text == "now":
        return "just now"
    return f"{text} ago" if seconds > 0 else f"in {text}"


def _rough(seconds: float) -> str:
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            n = int(seconds // size)
            return f"{n:,} {unit}{'s' if n > 1 else ''}"
    return "now" if seconds < 10 else f"{seconds:.0f} seconds"


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


def task_state(result: Result) -> TaskState | None:
    """The kind of state that a task's list shows it under; None: not sent yet."""
    if result.server_state == ServerState.IN_PROGRESS:
        return TaskState.IN_PROGRESS
    if result.server_state != ServerState.OVER:
        return None
    if result.outcome == Outcome.VALIDATE_ERROR:
        return TaskState.INVALID
    if result.outcome != Outcome.SUCCESS:
        return TaskState.ERROR
    match result.validate_state:
        case ValidateState.VALID:
            return TaskState.VALID
        case ValidateState.INVALID:
            return TaskState.INVALID
        case ValidateState.INIT | ValidateState.INCONCLUSIVE:
            return TaskState.WAITING
        case _:
            return TaskState.ERROR


def task_status(result: Result, *, now: float) -> Status:
    """What became of a task."""
    match result.server_state:
        case ServerState.INACTIVE:
            return Status("Not released", "idle", "The task is not released yet.")
        case ServerState.UNSENT:
            return Status("Not sent", "idle", "The task waits for a computer that asks for work.")
        case ServerState.IN_PROGRESS:
            if result.report_deadline is not None and result.report_deadline < now:
                return Status(
                    "Overdue",
                    "wait",
                    "The deadline has passed. If the task comes back before another copy of it is done, it still counts.",
                )
            return Status("In progress", "busy", "The computer has the task and has not reported it yet.")
        case ServerState.OVER:
            return (
                _SUCCESSES[result.validate_state] if result.outcome == Outcome.SUCCESS else _failure(result)
            )


_SUCCESSES = {
    ValidateState.INIT: Status(
        "Waiting for validation",
        "wait",
        "The task came back. It is checked as soon as enough results of its workunit are here.",
    ),
    ValidateState.VALID: Status("Valid", "good", "The result passed the check."),
    ValidateState.INVALID: Status(
        "Invalid",
        "bad",
        "The result differs from the one that the computers of this workunit agree on, so it earns no credit.",
    ),
    ValidateState.NO_CHECK: Status(
        "Not checked",
        "idle",
        "The workunit was given up or cancelled before this result could be checked.",
    ),
    ValidateState.INCONCLUSIVE: Status(
        "Inconclusive",
        "wait",
        "The results so far do not agree. Another computer gets the same work, and its result will decide.",
    ),
    ValidateState.TOO_LATE: Status(
        "Too late",
        "idle",
        "The task came back when its workunit was finished already, so it could not be compared any more.",
    ),
}

_FAILURES = {
    Outcome.INIT: Status("Ended", "idle", "The task ended; the server does not know how."),
    Outcome.SUCCESS: Status("Ended", "idle", "The task ended."),
    Outcome.COULDNT_SEND: Status("Not sent", "idle", "The task could not be sent to any computer."),
    Outcome.CLIENT_ERROR: Status("Error", "bad", "The task failed on the computer."),
    Outcome.NO_REPLY: Status(
        "No reply",
        "bad",
        "The task was not reported before its deadline, so another computer got the same work.",
    ),
    Outcome.DIDNT_NEED: Status("Not needed", "idle", "The workunit was finished without this task."),
    Outcome.VALIDATE_ERROR: Status(
        "Invalid", "bad", "The output could not be read by the project's check, so it earns no credit."
    ),
    Outcome.CLIENT_DETACHED: Status(
        "Detached",
        "idle",
        "The computer left the project or lost its data; the same work went to another computer.",
    ),
}


def _failure(result: Result) -> Status:
    if result.outcome == Outcome.CLIENT_ERROR and result.exit_status == ExitStatus.ABORTED_BY_USER:
        return Status("Aborted", "idle", "The task was aborted on the computer by its user.")
    if result.outcome == Outcome.CLIENT_ERROR and result.exit_status == ExitStatus.ABORTED_BY_PROJECT:
        return Status("Cancelled", "idle", "The project did not need the task any more and cancelled it.")
    return _FAILURES[result.outcome]


def workunit_status(workunit: Workunit) -> Status:
    """What became of a workunit."""
    if workunit.error_mask:
        sentences = [text for flag, text in _WORKUNIT_ERRORS.items() if flag in workunit.error_mask]
        cancelled = WorkunitError.CANCELLED in workunit.error_mask
        return Status(
            "Cancelled" if cancelled else "Given up", "idle" if cancelled else "bad", " ".join(sentences)
        )
    if workunit.canonical_result_id is not None:
        return Status("Finished", "good", "The answer is known.")
    needed = workunit.rules.min_quorum
    sentence = "One valid result is needed." if needed == 1 else f"{needed} results must agree."
    return Status("In progress", "busy", sentence)


_WORKUNIT_ERRORS = {
    WorkunitError.COULDNT_SEND_RESULT: "No computer could run it.",
    WorkunitError.TOO_MANY_ERROR_RESULTS: "It failed on too many computers.",
    WorkunitError.TOO_MANY_SUCCESS_RESULTS: "Too many results came back without any agreement.",
    WorkunitError.TOO_MANY_TOTAL_RESULTS: "Too many copies were made without an answer.",
    WorkunitError.CANCELLED: "The project cancelled it.",
    WorkunitError.NO_CANONICAL_RESULT: "Its answer was lost.",
}

# The client's own exit statuses (BOINC's ``lib/error_numbers.h``: facts).
_EXIT_STATUSES = {
    0: "success",
    192: "the program could not write its checkpoint",
    193: "the program was ended by a signal (a crash)",
    194: "the program was not started by the client as it should",
    195: "a program started by the task failed",
    196: "the task used more disk space than allowed",
    197: "the task ran longer than allowed",
    198: "the task used more memory than allowed",
    199: "the client was stopping",
    200: "the task had not started by its deadline",
    201: "the graphics processor that the task needs is missing",
    202: "cancelled by the project",
    203: "aborted by the user",
    205: "the program ran out of memory",
    206: "the program could not be started",
    -1073741819: "the program crashed (access violation)",
    -1073741515: "the program could not start (a library is missing)",
    -1073741510: "the program was ended by the system",
}


def exit_status(status: int) -> str:
    """An exit status with what it means, where that is known."""
    number = f"{status} (0x{status & 0xFFFFFFFF:x})" if status else "0"
    meaning = _EXIT_STATUSES.get(status)
    return f"{number}: {meaning}" if meaning else number
