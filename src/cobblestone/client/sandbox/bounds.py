"""Which bounds of a job hold on this computer, by what, and what is said about those that the system does not enforce."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.reasons import Reason, reason

POLL_SECONDS = 1.0
"""Between two looks at each job: orders, reports, run time."""
MEASURE_SECONDS = 10.0
"""Between two measurements of a job's memory, processes and disk space."""
_AS_A_SERVICE = "run the client as a service of systemd (cobblestone client unit)"


class Holder(StrEnum):
    """Who keeps a job within a bound."""

    SYSTEM = "system"  #: it cannot be passed
    CLIENT = "client"  #: it can be passed for a while, until the client looks
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound of jobs."""

    name: str
    holder: Holder
    means: str  #: what holds it; empty: nothing
    remark: Reason | None = (
        None  #: for the volunteer: that it does not hold at every moment, why, and what can be done
    )

    def as_json(self) -> dict[str, object]:
        """Return a form for JSON."""
        return {
            "bound": self.name,
            "held_by": self.holder.value,
            "means": self.means,
            "remark": self.remark.text() if self.remark else None,
        }


def job_bounds(
    *, bubblewrap: bool, account: bool, groups: Collection[str], counted: bool, why_not_counted: str = ""
) -> tuple[Bound, ...]:
    """Return all bounds of a job.

    ``account``: jobs have one of their own; ``groups``: control groups that can be made; ``counted``: the system counts a job's
    processes apart from others.
    """
    return (
        _processes("pids" in groups, counted, why_not_counted),
        _memory("memory" in groups),
        Bound(
            "space of the slot",
            Holder.CLIENT,
            _looks(MEASURE_SECONDS),
            reason(
                "disk_watched",
                "The space of a job's slot is looked at every {seconds:.0f} seconds only; the system bounds single files.",
                seconds=MEASURE_SECONDS,
            ),
        ),
        Bound("size of single files, core dumps", Holder.SYSTEM, "resource limits"),
        Bound("run time", Holder.CLIENT, _looks(POLL_SECONDS)),
        Bound("size of outputs", Holder.CLIENT, "before the upload"),
        Bound(
            "processors",
            Holder.NOBODY,
            "lowest priority",
            reason(
                "processors_free",
                "Nothing keeps a job to its number of processors; its priority lets other programs go first.",
            ),
        ),
        *_reach(bubblewrap, account),
        _remains(bubblewrap, bool(groups)),
    )


def _looks(seconds: float) -> str:
    return "a look each second" if seconds == 1 else f"a look every {seconds:.0f} s"


def _processes(grouped: bool, counted: bool, why_not: str) -> Bound:
    name = "number of processes and threads"
    if grouped or counted:
        return Bound(name, Holder.SYSTEM, "control groups" if grouped else "a user namespace")
    return Bound(
        name,
        Holder.CLIENT,
        _looks(MEASURE_SECONDS),
        reason(
            "processes_watched",
            "A job's processes are counted every {seconds:.0f} seconds only: there are no control groups, and {why}. In between "
            "the system bounds the processes of the whole account. What helps: {remedy}, or let bubblewrap work.",
            seconds=MEASURE_SECONDS,
            why=why_not,
            remedy=_AS_A_SERVICE,
        ),
    )


def _memory(grouped: bool) -> Bound:
    if grouped:
        return Bound("memory", Holder.SYSTEM, "control groups")
    return Bound(
        "memory",
        Holder.CLIENT,
        _looks(MEASURE_SECONDS),
        reason(
            "memory_watched",
            "A job's memory is looked at every {seconds:.0f} seconds only, since there are no control groups; when the computer "
            "has none left, the system ends jobs first. What helps: {remedy}.",
            seconds=MEASURE_SECONDS,
            remedy=_AS_A_SERVICE,
        ),
    )


def _reach(bubblewrap: bool, account: bool) -> tuple[Bound, Bound]:
    """Network and files; that there is no sandbox, and why, is a sentence of its own."""
    if bubblewrap:
        return Bound("network", Holder.SYSTEM, "bubblewrap"), Bound(
            "files of others", Holder.SYSTEM, "bubblewrap"
        )
    files = (
        Bound("files of others", Holder.SYSTEM, "an account of their own")
        if account
        else Bound("files of others", Holder.NOBODY, "")
    )
    return Bound("network", Holder.NOBODY, ""), files


def _remains(bubblewrap: bool, grouped: bool) -> Bound:
    name = "no process outlives its job"
    if bubblewrap or grouped:
        return Bound(name, Holder.SYSTEM, "bubblewrap" if bubblewrap else "control groups")
    return Bound(
        name,
        Holder.CLIENT,
        "parents and a mark",
        reason(
            "processes_may_hide",
            "A job can hide processes from the client, so that they outlive it. What helps: install bubblewrap.",
        ),
    )


def sentences(bounds: Collection[Bound]) -> tuple[Reason, ...]:
    """Say what the system enforces, in one sentence, and of everything else that it does not."""
    enforced = [f"{each.name} ({each.means})" for each in bounds if each.holder is Holder.SYSTEM]
    return (
        reason("enforced", "The system enforces: {what}.", what=", ".join(enforced)),
        *(each.remark for each in bounds if each.remark),
    )
