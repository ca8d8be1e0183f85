"""Tasks on this computer: what the end of a process means, the CPU throttle, and the volunteer's ``app_config.xml``.

What the end of a job's process means: finished, failed, to be started again, or later.

The rules are those of the family's client (``client/app_control.cpp``; facts), with three differences, each in favour of the
work done: a finish file counts as success although the process lingers and has to be killed; a kill by the system for want of
memory is a memory error at once, not an endless row of restarts; and a job that is killed again and again without a checkpoint
in between is given up.

CPU throttle: computing only a part of the time, second by second.

Source: BOINC's ``cpu_usage_limit``: a level rises by the limit each second; at 100 % the jobs run for that
second and the level falls by 100 %, below it they stop.

The volunteer's ``app_config.xml``, applied to what a project says of an app version.

It is applied again to the project's own figures each time, so that a line taken out of the file is undone at once.
Source: BOINC's ``client/app_config.cpp`` (facts): a command line takes the place of the project's, 0 is as good as absent.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from cobblestone.domain.computing import AppConfig, AppLimits, VersionUsage
from cobblestone.domain.reasons import meaning_of
from cobblestone.domain.values import changed, value

#: Ends without a finish file and without a checkpoint in between; one more is an error.
MAX_PREMATURE_ENDS = 100
MAX_DEFERRAL = 86_400.0
DEFAULT_DEFERRAL = 300.0

EXIT_ABORTED_BY_CLIENT = 194
EXIT_DISK_LIMIT = 196
EXIT_TIME_LIMIT = 197
EXIT_MEMORY_LIMIT = 198
EXIT_ABORTED_BY_USER = 203
ERR_NOT_STARTED = -148
ERR_FILE_TOO_BIG = -131
ERR_FILE_MISSING = -161
ERR_TOO_MANY_EXITS = -226

#: Signals that people and systems send to stop a program: HUP, INT, QUIT, KILL, TERM, STOP.  Others are crashes.
STOP_SIGNALS = frozenset({1, 2, 3, 9, 15, 19})

#: Meanings that `meaning_of` lacks: to the server such a status is the program's own.
_MORE_MEANINGS = {
    126: "The program is not executable.",
    127: "The program, or the interpreter that it names, is not on this computer.",
    209: "The job was overdue for too long.",
}
SIZE_SIGNAL = 25


class Ending(Enum):
    """What to do with the task."""

    FINISHED = "finished"
    FAILED = "failed"
    ABORTED = "aborted"
    STOPPED = "stopped"  #: on our order; to be started again from its checkpoint when its turn comes
    RESTART = "restart"  #: it ended too early; to be started again from its checkpoint
    POSTPONED = "postponed"  #: it asked for a pause


@value(kw_only=True)
class FinishFile:
    """``boinc_finish_called``: the job says that it has done all."""

    status: int = 0
    message: str = ""
    as_notice: bool = False


@value(kw_only=True)
class TemporaryExit:
    """``boinc_temporary_exit``: the job wants to be started again later."""

    seconds: float = DEFAULT_DEFERRAL
    reason: str = ""
    as_notice: bool = False


@value(kw_only=True)
class AbortOrder:
    """Our order to end a job for good."""

    exit_status: int = EXIT_ABORTED_BY_USER
    text: str = ""


@value(kw_only=True)
class ProcessEnd:
    """All that is known when a job's process has ended."""

    exit_code: int = 0  #: meaningful when ``signal`` is 0
    signal: int = 0
    codes_hide_signals: bool = False
    """The process ran under a program that reports the end by signal n as exit code 128 + n."""
    finish: FinishFile | None = None
    temporary: TemporaryExit | None = None
    quit_ordered: bool = False
    abort: AbortOrder | None = None
    killed_while_lingering: bool = False  #: we killed it because it stayed after its finish file
    out_of_memory: bool = False  #: the system killed one of its processes at its memory limit


@value(kw_only=True)
class ExitVerdict:
    """The meaning of an end."""

    ending: Ending
    exit_status: int = 0
    text: str = ""
    delay_seconds: float = 0.0
    as_notice: bool = False
    counts_as_premature: bool = False


def judge_exit(end: ProcessEnd, *, premature_ends: int = 0) -> ExitVerdict:
    """Decide what becomes of the task; every combination has an answer.

    ``premature_ends`` counts those since its last checkpoint, without this one.
    """
    if end.abort is not None:
        return ExitVerdict(ending=Ending.ABORTED, exit_status=end.abort.exit_status, text=end.abort.text)
    signal, code = _split(end)
    finished = end.finish is not None and end.finish.status == 0
    if finished and (end.killed_while_lingering or (signal == 0 and code == 0)):
        return _finished(end.finish)
    if end.temporary is not None:
        return _postponed(end.temporary, premature_ends)
    if end.out_of_memory and not end.quit_ordered:
        text = "the system ended the job at its memory limit"
        return ExitVerdict(ending=Ending.FAILED, exit_status=EXIT_MEMORY_LIMIT, text=text)
    if end.quit_ordered:
        return ExitVerdict(ending=Ending.STOPPED)
    if end.finish is not None and not finished:
        return _failed_with(end.finish.status)
    if signal:
        return _ended_by(signal, premature_ends)
    if code == 0:
        return _too_early("ended with exit status 0 but without a finish file", premature_ends)
    return _failed_with(code)


def _split(end: ProcessEnd) -> tuple[int, int]:
    hidden = end.exit_code - 128
    if end.codes_hide_signals and not end.signal and hidden in (*STOP_SIGNALS, SIZE_SIGNAL):
        return hidden, 0
    return end.signal, end.exit_code


def _finished(finish: FinishFile | None) -> ExitVerdict:
    message = finish.message if finish else ""
    return ExitVerdict(
        ending=Ending.FINISHED, text=message, as_notice=bool(finish and finish.as_notice and message)
    )


def _postponed(exit_: TemporaryExit, premature_ends: int) -> ExitVerdict:
    if premature_ends >= MAX_PREMATURE_ENDS:
        return _too_early(f"asked for a pause: {exit_.reason}", premature_ends)
    seconds = exit_.seconds if 0.0 <= exit_.seconds <= MAX_DEFERRAL else DEFAULT_DEFERRAL
    return ExitVerdict(
        ending=Ending.POSTPONED,
        text=exit_.reason,
        delay_seconds=seconds,
        as_notice=exit_.as_notice,
        counts_as_premature=True,
    )


def _too_early(what: str, premature_ends: int) -> ExitVerdict:
    if premature_ends < MAX_PREMATURE_ENDS:
        return ExitVerdict(ending=Ending.RESTART, text=f"the program {what}", counts_as_premature=True)
    text = f"the program {what}, for the {premature_ends + 1}th time without a checkpoint in between"
    return ExitVerdict(ending=Ending.FAILED, exit_status=ERR_TOO_MANY_EXITS, text=text)


def _ended_by(signal: int, premature_ends: int) -> ExitVerdict:
    if signal in STOP_SIGNALS:
        return _too_early(f"was ended by signal {signal}", premature_ends)
    if signal == SIZE_SIGNAL:
        text = "process got signal 25: it wrote a file larger than its disk bound"
        return ExitVerdict(ending=Ending.FAILED, exit_status=EXIT_DISK_LIMIT, text=text)
    text = _explained(f"process got signal {signal}", 128 + signal)
    return ExitVerdict(ending=Ending.FAILED, exit_status=signal, text=text)


def _failed_with(code: int) -> ExitVerdict:
    # The form of the sentence, with the code as hexadecimal and as a negative number, is what servers and people know.
    text = f"process exited with code {code} (0x{code & 0xFFFFFFFF:x}, {code - 256 if code > 0 else code})"
    return ExitVerdict(ending=Ending.FAILED, exit_status=code, text=_explained(text, code))


def _explained(text: str, status: int) -> str:
    found = meaning_of(status)
    meaning = found.meaning.text() if found else _MORE_MEANINGS.get(status)
    return f"{text}: {meaning}" if meaning else text


FULL = 100.0


def throttle_second(level: float, *, limit_percent: float) -> tuple[bool, float]:
    """Return whether jobs run during the next second, and the level after it.

    ``limit_percent`` is the wanted part of the time, 0 to 100; start with a level of 0.  Over ``n`` seconds the
    jobs run for ``n * limit_percent / 100``, rounded down.
    """
    limit = min(FULL, max(0.0, limit_percent))
    level += limit
    if level >= FULL:
        return True, level - FULL
    return False, level


_NO_LIMITS = AppLimits()


def override_usage(usage: VersionUsage, config: AppConfig) -> VersionUsage:
    """Return the version's usage with the volunteer's overrides; ``usage`` is the project's."""
    limits = config.apps.get(usage.app_name)
    if limits and usage.gpu_usage > 0 and limits.gpu_usage > 0 and limits.cpu_usage > 0:
        usage = changed(usage, gpu_usage=limits.gpu_usage, avg_ncpus=limits.cpu_usage)
    for each in config.versions:
        if (each.app_name, each.plan_class) == (usage.app_name, usage.plan_class):
            usage = changed(
                usage,
                cmdline=each.cmdline or usage.cmdline,
                avg_ncpus=each.avg_ncpus or usage.avg_ncpus,
                gpu_usage=(each.ngpus or usage.gpu_usage) if usage.gpu_usage else 0.0,
            )
    return usage


def limits_of(config: AppConfig, app: str) -> AppLimits:
    """Return the file's limits for an app."""
    return config.apps.get(app, _NO_LIMITS)


def unmatched_entries(
    config: AppConfig, apps: Collection[str], versions: Collection[tuple[str, str]]
) -> tuple[str, ...]:
    """Sentences about entries for what the project does not have; ``versions`` are names of apps with their plan classes.

    Of a project that has named no app yet, and of an app that has no version here yet, nothing can be said.
    """
    if not apps:
        return ()
    named = {*config.apps, *(each.app_name for each in config.versions)}
    known = ", ".join(sorted(apps))
    problems = [f"the project has no app {name!r}; it has: {known}" for name in sorted(named - set(apps))]
    here = {app for app, _ in versions}
    problems += [
        f"the app {each.app_name!r} has no version of the plan class {each.plan_class!r} here"
        for each in config.versions
        if each.app_name in here and (each.app_name, each.plan_class) not in versions
    ]
    return tuple(problems)
