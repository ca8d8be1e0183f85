"""Reasons as data: why something happened or did not, the meaning of exit statuses, and the faults found by a check.

A reason is a code with named values.  ``text()`` gives the sentence that people read; codes are stable, sentences are not.
A value may be a part of a sentence with values of its own (`phrase`), so that the whole can be said in another language.
A word that depends on a number is written in all its forms, ``{n} {n:file|files}``: each language has as many as it needs.

What the exit statuses of tasks mean, and what to do about them: one table for pages, mails, commands and the API.

Source: BOINC's ``lib/error_numbers.h`` and ``lib/common_defs.h``, POSIX (128 + signal, as shells say it), and Microsoft's list
of NTSTATUS values (facts only).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from cobblestone.domain.values import value

Value: TypeAlias = "str | int | float | bool | Reason | None"

_EMPTY: Mapping[str, Value] = MappingProxyType({})
_FORMS = re.compile(r"\{(\w+):([^{}|]+\|[^{}]+)\}")


def with_forms(
    sentence: str, values: Mapping[str, Value], plural: Callable[[int], int] = lambda n: int(n != 1)
) -> str:
    """Return a sentence with the forms of words that go with its numbers; ``plural`` says which, as gettext counts them."""

    def form(word: re.Match[str]) -> str:
        forms, n = word[2].split("|"), values[word[1]]
        return forms[min(plural(n) if isinstance(n, int) else 1, len(forms) - 1)]

    return _FORMS.sub(form, sentence) if "|" in sentence else sentence  # most have none


@value()
class Reason:
    """One reason: a stable code, a sentence with ``{names}``, and the values that fill it."""

    code: str
    sentence: str
    values: Mapping[str, Value] = field(default_factory=lambda: _EMPTY)

    def text(self) -> str:
        """Return the sentence with its values filled in."""
        return with_forms(self.sentence, self.values).format_map(dict(self.values))

    def __str__(self) -> str:
        """Return it as part of another sentence."""
        return self.text()

    def as_json(self) -> dict[str, object]:
        """Return a form for JSON: code, values, the finished sentence, and the sentence as translatable parts."""
        return {
            "code": self.code,
            "text": self.text(),
            "sentence": self.sentence,
            "values": self.plain_values(),
        }

    def plain_values(self) -> dict[str, object]:
        """Return the values, parts of sentences as mappings; `restored` reads them."""
        return {
            name: {"text": part.text(), "sentence": part.sentence, "values": part.plain_values()}
            if isinstance(part, Reason)
            else part
            for name, part in self.values.items()
        }


def reason(code: str, sentence: str, **values: Value) -> Reason:
    """Make a reason; ``sentence`` may name any of ``values`` in braces."""
    return Reason(code, sentence, values)


def phrase(sentence: str, **values: Value) -> Reason:
    """Make a part of a sentence, to be used as a value of a reason or of another part."""
    return Reason("", sentence, values)


def joined(parts: Sequence[Reason]) -> Reason:
    """Join several reasons with semicolons."""
    names = [f"part{number}" for number in range(len(parts))]
    sentence = "; ".join(f"{{{name}}}" for name in names)
    return phrase(sentence, **dict(zip(names, parts, strict=True)))


def sayable(text: str) -> str:
    """Return an untrusted program's text for databases and pages, with surrogates and NUL spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")


def sayable_reason(given: Reason) -> Reason:
    """Return an untrusted program's reason for databases and pages.

    Raises whatever it raises when it is put into words, for example because its sentence names a value that it lacks.
    """
    values = {name: _sayable_value(each) for name, each in given.values.items()}
    said = Reason(sayable(given.code), sayable(given.sentence), values)
    said.text()
    return said


def _sayable_value(given: object) -> Value:
    if isinstance(given, Reason):
        return sayable_reason(given)
    if given is None or type(given) in (int, float, bool):
        return cast("Value", given)
    return sayable(str(given))


def restored(code: str, sentence: str, values: Mapping[str, Any]) -> Reason:  # as JSON has them
    """Rebuild a reason from its stored form (`Reason.plain_values`)."""
    return Reason(code, sentence, {name: _restored_value(each) for name, each in values.items()})


def _restored_value(stored: object) -> Value:
    if isinstance(stored, dict):
        part = cast("dict[str, Any]", stored)
        return restored("", part["sentence"], part["values"])
    return cast("Value", stored)


@dataclass(frozen=True, slots=True)
class ExitMeaning:
    """The meaning of an exit status."""

    meaning: Reason
    remedy: Reason


_OUTPUT = phrase("The end of the task's error output says more.")
_NONE_NEEDED = phrase("Nothing to do.")
_MEMORY = phrase(
    "The app's memory limit (--memory) must cover what its jobs need, or the computer needs more free memory."
)
_DISK = phrase(
    "The app's disk limit (--disk) must cover what its jobs write; on the computer, check the free "
    "disk space."
)
_BUG = phrase(
    "If it happens on many computers, the program has a bug. If it happens on one computer only, "
    "check its memory and overclocking."
)
_AGAIN = phrase("If it happens again on this computer, check its disk and network.")
_LIBRARY = phrase(
    "Build the program with all its libraries included, or install the missing one on the computer."
)
_PLATFORM = phrase("The version is for another kind of computer: check its platform.")
_SECURITY = phrase("A virus scanner may be blocking the file: exclude the client's folder.")
_START = phrase("Check that the main program runs on such computers and that virus scanners let it start.")
_EXITS = phrase("Computers that are switched off then do it; the work goes to another computer.")
_SLOW = phrase("The estimate (--flops-est) and its bound (--flops-bound) must match what the jobs need.")
_SIZE = phrase("The app's limit for the size of an output (--max-output) must cover what its jobs write.")
_NAMES = phrase(
    "The program must write all outputs that are not optional, under the names that the app declares."
)
_DOWNLOADS = phrase(
    "`cobblestone doctor` checks that they are intact on the server; if they are, look at the "
    "computer's network."
)
_APP_INFO = phrase("An app_info.xml must use the project's names for app, version, platform and plan class.")
_STACK = phrase("Give the program a larger stack, or use less recursion.")

_CRASHED = phrase("The program crashed: it accessed memory that is not its own.")
_STOPPED = phrase("The program was ended from outside, or the computer was shut down.")
_ILLEGAL = phrase("The program uses an instruction that this processor does not have.")
_DIVIDED = phrase("The program crashed: an impossible calculation, such as a division by zero.")
_ABORTED = phrase("The program stopped: it detected an internal error.")
_KILLED = phrase("The program was killed, either by the system because memory was short or by a person.")
_START_FAILED = phrase("The program could not be started.")
_NO_MEMORY = phrase("The program ran out of memory.")
_TOO_MUCH_MEMORY = phrase("The task used more memory than allowed.")
_TOO_MUCH_DISK = phrase("The task used more disk space than allowed.")
_TOO_LONG = phrase("The task ran longer than allowed.")
_BY_USER = phrase("The task was aborted on the computer by its user.")
_BY_PROJECT = phrase("The project did not need the task any more and cancelled it.")
_LIBRARY_MISSING = phrase("The program could not start: a library is missing.")
_ISA = phrase("Build the program for older processors too, or give this version a plan class.")

_CLIENT: Mapping[int, tuple[Reason, Reason]] = {
    192: (phrase("The program could not write its checkpoint."), _DISK),
    193: (phrase("The program was ended by a signal: it crashed."), _BUG),
    194: (phrase("The client ended the program, or did not start it as it should."), _OUTPUT),
    195: (phrase("A program that the task started failed, or could not be started."), _OUTPUT),
    196: (_TOO_MUCH_DISK, _DISK),
    197: (_TOO_LONG, _SLOW),
    198: (_TOO_MUCH_MEMORY, _MEMORY),
    199: (phrase("The client was stopping."), _NONE_NEEDED),
    200: (phrase("The task had not been started by its deadline."), _EXITS),
    201: (
        phrase("The graphics processor that the task needs is missing."),
        phrase("Check whether the computer's driver works; a client that runs as a service may not have "
            "access to it."),
    ),
    202: (_BY_PROJECT, _NONE_NEEDED),
    203: (_BY_USER, _NONE_NEEDED),
    204: (phrase("The program failed without saying why."), _OUTPUT),
    205: (_NO_MEMORY, _MEMORY),
    206: (_START_FAILED, _START),
    207: (phrase("The program found no task to run."), _OUTPUT),
    208: (phrase("A part of the task failed."), _OUTPUT),
    -1: (phrase("The client did not say how the program ended."), _OUTPUT),
    -108: (phrase("A file could not be opened."), _SECURITY),
    -112: (phrase("A file of the task is not valid XML."), _OUTPUT),
    -114: (phrase("A file of the task could not be downloaded for too long."), _AGAIN),
    -115: (phrase("An output could not be uploaded for too long."), _AGAIN),
    -119: (phrase("A file arrived damaged: its checksum is wrong."), _AGAIN),
    -120: (
        phrase("The signature of a program file is wrong."),
        phrase("On the project's side: `cobblestone doctor` compares files and signatures. Sign the "
            "version again."),
    ),
    -131: (phrase("An output is larger than allowed."), _SIZE),
    -148: (_START_FAILED, _START),
    -161: (phrase("An output is missing: the program did not write it."), _NAMES),
    -163: (phrase("A file of the task is missing on the computer."), _SECURITY),
    -177: (phrase("The task exceeded one of its limits of time, memory or disk."), _OUTPUT),
    -178: (phrase("The program was started with an unknown argument."), _OUTPUT),
    -185: (_START_FAILED, _START),
    -186: (phrase("The files of the task could not be downloaded."), _DOWNLOADS),
    -187: (phrase("The outputs of the task could not be uploaded."), _AGAIN),
    -195: (phrase("The client has no version of the app for this task."), _APP_INFO),
    -197: (_BY_USER, _NONE_NEEDED),
    -198: (phrase("The computer does not have enough memory, disk space or processors for the task."), _MEMORY),
    -226: (phrase("The program ended too often without having finished."), _OUTPUT),
}  # fmt: skip

_SIGNALS: Mapping[int, tuple[Reason, Reason]] = {
    2: (_STOPPED, _EXITS),
    4: (_ILLEGAL, _ISA),
    6: (_ABORTED, _OUTPUT),
    7: (_CRASHED, _BUG),
    8: (_DIVIDED, _BUG),
    9: (_KILLED, _MEMORY),
    11: (_CRASHED, _BUG),
    15: (_STOPPED, _EXITS),
    24: (_TOO_LONG, _SLOW),
    25: (phrase("The program wrote a file larger than the system allows."), _DISK),
    31: (phrase("The program did something that the computer's sandbox forbids."), _OUTPUT),
}

_WINDOWS: Mapping[int, tuple[Reason, Reason]] = {
    0x40010004: (_STOPPED, _EXITS),
    0x80000003: (_ABORTED, _OUTPUT),
    0xC0000005: (_CRASHED, _BUG),
    0xC0000006: (phrase("The program's own file could not be read."), _AGAIN),
    0xC0000017: (_NO_MEMORY, _MEMORY),
    0xC000001D: (_ILLEGAL, _ISA),
    0xC0000022: (phrase("The system denied the program access to a file."), _SECURITY),
    0xC000007B: (_START_FAILED, _PLATFORM),
    0xC0000094: (_DIVIDED, _BUG),
    0xC0000096: (_ILLEGAL, _BUG),
    0xC00000FD: (phrase("The program crashed: its stack was too small."), _STACK),
    0xC0000135: (_LIBRARY_MISSING, _LIBRARY),
    0xC0000139: (phrase("The program could not start: a library has the wrong version."), _LIBRARY),
    0xC000013A: (_STOPPED, _EXITS),
    0xC0000142: (phrase("The program could not start: a library failed when it was loaded."), _LIBRARY),
    0xC0000374: (phrase("The program crashed: it corrupted its own memory."), _BUG),
    0xC0000409: (_ABORTED, _BUG),
    0xE06D7363: (phrase("The program ended with an unhandled C++ exception."), _OUTPUT),
}  # fmt: skip


def meaning_of(status: int) -> ExitMeaning | None:
    """Return the meaning of an exit status; None if it is the program's own, or 0."""
    found = _CLIENT.get(status) or _WINDOWS.get(status & 0xFFFFFFFF)
    if found is None and 128 < status < 160:
        found = _SIGNALS.get(status - 128)
    return None if found is None else ExitMeaning(*found)


def written(status: int) -> str:
    """Return an exit status in the forms that people look up: also in hexadecimal, as Windows shows it."""
    return f"{status} (0x{status & 0xFFFFFFFF:x})" if status else "0"


def exit_cause(status: int) -> Reason:
    """Return an exit status with its meaning."""
    found = meaning_of(status)
    if found is None:
        return reason("exit_status", "Exit status {status}.", status=written(status))
    return reason(
        "exit_status", "Exit status {status}: {meaning}", status=written(status), meaning=found.meaning
    )


def exit_advice(status: int) -> Reason:
    """Return an exit status with its meaning and a remedy."""
    found = meaning_of(status)
    return reason(
        "exit_status",
        "{cause} {remedy}",
        cause=exit_cause(status),
        remedy=_OUTPUT if found is None else found.remedy,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthWarning:
    """A condition that an operator should examine."""

    code: str  #: stable; docs/operations.md says what each means
    text: str
    severe: bool = False  #: something is refused or stands still already
    since: float = 0.0  #: Unix seconds


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault found by a check."""

    code: str  #: what is wrong, for programs: stays when the sentence changes
    kind: str  #: table of the row, or what else it is: ``result``, ``file``, ``database``
    id: int | str | None  #: of the row or file; None: there is only one
    text: str

    @property
    def target(self) -> str:
        """Return kind and id for people: ``result 12``."""
        return self.kind if self.id is None else f"{self.kind} {self.id}"
