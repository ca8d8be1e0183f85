"""Reasons of decisions as data: a code and its values.  Sentences are made here and nowhere else.

Codes are stable; logs, the interfaces of the daemon and tests refer to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Value = str | int | float | bool | None


class Why(NamedTuple):
    """One reason."""

    code: str
    values: Mapping[str, Value]


def why(code: str, **values: Value) -> Why:
    """Make a reason."""
    return Why(code, values)


def named(reasons: Iterable[Why], names: Sequence[str]) -> tuple[Why, ...]:
    """Return reasons that name projects by their positions with their identities instead."""
    return tuple(
        [
            Why(each.code, {**each.values, "project": names[n]})
            if isinstance(n := each.values.get("project"), int)
            else each
            for each in reasons
        ]
    )


#: Sentences by code; names in braces are values.
SENTENCES: dict[str, str] = {
    # what runs
    "run.debt": "{job}: its project's turn, short-term debt {debt:.0f} s",
    "run.deadlines": (
        "{job}: {misses} of its project's jobs would be late in turn; due in {hours:.1f} h, {left:.1f} h left to compute"
    ),
    "run.edf": "{job}: would be late in turn; due in {hours:.1f} h, {left:.1f} h left to compute",
    "run.rec": "{job}: its project's turn, recent estimated credit {rec:.1f}",
    "run.always": "{job}: uses hardly any CPU and always runs",
    # what waits
    "wait.slice": "{job} waits until a running job's time slice is over",
    "wait.turn": "it waits for its turn",
    "wait.files": "its files have not arrived yet",
    "wait.stalled": "its files do not arrive",
    "wait.suspended": "the volunteer has suspended it",
    "wait.project_suspended": "the volunteer has suspended its project",
    "wait.deferred": "it asked to be started again in {minutes:.0f} min",
    "wait.memory": "it is expected to need {needs:.3g} bytes of memory; {left:.3g} are left",
    "wait.swap": "there is no swap space left for it",
    "wait.gpu": "no {gpu} device is free that it may use",
    "wait.gpu_quitting": "it waits until another task has left its {gpu} device",
    "wait.project": "its project runs as many jobs as the volunteer allows",
    "wait.app": "its app runs as many jobs as the volunteer allows",
    "wait.cpus": "all processors are in use",
    "wait.cpu_suspended": "computing is suspended ({cause})",
    "wait.gpu_suspended": "GPU computing is suspended ({cause})",
    "wait.network_suspended": "it needs the network, which is suspended ({cause})",
    "wait.quitting": "its process is about to end",
    "wait.given_up": "it is given up",
    "wait.uploading": "it is done; its output files are being uploaded",
    "wait.report": "it is done and waits to be reported",
    # work fetch
    "fetch.queue": "{project}: {need:.0f} s below its queue of {target:.0f} s",
    "fetch.dcf": "{project}: its correction factor {dcf:.3g} is not reliable and it has work",
    "fetch.chosen": "{project} is asked for {seconds:.0f} s: it is owed most",
    "fetch.first": "{project} is asked: highest priority of those that can help",
    "fetch.nothing": "{project} has no work of the needed kind",
    "fetch.not_contactable": "{project} is not contacted now: the wait after its last contact is not over",
    "fetch.backup": "{project} has no share: it is asked only for idle devices",
    "fetch.misses": "{project} has {misses} jobs in deadline trouble",
    "fetch.blocked": "{project} has a stalled download or a suspended job",
    "fetch.overworked": "{project} has had more than its share",
    "fetch.late": "{project}: no more of its jobs would be in time",
    "fetch.no_shortfall": "{project} has enough work",
    "fetch.uploads": "{project} has {uploading} results to upload",
    "fetch.uploading": "{project} has been uploading for a short time: one contact will do for both",
    "fetch.runnable": "{project} has enough runnable jobs",
    "fetch.suspended": "the volunteer has suspended {project}",
    "fetch.no_new_work": "the volunteer wants no new work from {project}",
    "fetch.group": "{project} comes after projects of a higher group, which have work",
    "fetch.non_cpu_intensive": "{project} is asked for the one job that it keeps running",
    "fetch.deadlines": "no work is fetched: the buffer is full and jobs are in deadline trouble",
    "fetch.full": "no work is fetched: the buffer is full and no project is owed work",
    "fetch.busy": "no work is fetched: all devices are busy for the minimal buffer",
    # contacts
    "contact.waits": "no contact for {hours:.1f} h: jobs that need a little more would be late with the next one",
    "contact.report": "{job} must be reported",
    "contact.work": "work is needed",
    "contact.asked": "{who} wants it",
    # giving up
    "give_up.job": "{job} is given up",
    "give_up.late": "it would be late",
    "give_up.alone": "it would be {hours:.1f} h late even if it ran alone from now on, and less than half of it is done",
    "give_up.project": "its project no longer wants it",
    # reports
    "report.no_new_work": "{job} is done, and its project is asked for no more work",
    "report.many": "{job} is done, as are {count} others",
    "report.at_once": "{job} is done and must be reported at once",
    "report.sporadic": "{job} is done, and contacts are rare",
    "report.deadline": "{job} is done, and its deadline is near",
    "report.hour": "{job} has been done for an hour",
    "report.suspension": "{job} is done, and the network or computing will soon be suspended",
}

#: Why an activity is suspended, by the ``cause`` that a reason names.
CAUSES: dict[str, str] = {
    **dict.fromkeys(("run_mode_never", "gpu_mode_never", "network_mode_never"), "switched off by you"),
    **dict.fromkeys(("exclusive_app", "exclusive_gpu_app"), "a program with exclusive use is running"),
    **dict.fromkeys(("time_of_day", "network_time_of_day"), "not allowed at this time of day"),
    "start_delay": "the client has just started",
    "hot": "the computer is hot",
    "no_recent_input": "the computer has not been used for a while",
    "other_load": "other programs need the CPUs",
    "battery_charge": "the battery is low",
    "battery_heat": "the battery is hot",
    "user_active": "the computer is in use",
    "quota": "the limit of transfers is reached",
    "benchmarks": "the computer's speed is being measured",
    "batteries": "the computer runs on battery",
    **{kind: f"the connection is {kind}" for kind in ("mobile", "metered")},
}


def sentence(reason: Why) -> str:
    """Return the reason in words."""
    text, values = SENTENCES.get(reason.code), dict(reason.values)
    values["cause"] = CAUSES.get(str(values.get("cause")), values.get("cause"))
    return reason.code if text is None else text.format_map(values)
