"""Jobs on a client that are not wanted any more.

Source: BOINC's ``sched_resend.cpp`` and ``handle_request.cpp`` (facts).
"""

from __future__ import annotations

from enum import Enum

from cobblestone.domain.ids import HostId
from cobblestone.domain.states import AssimilateState, Outcome, ServerState, WorkunitError
from cobblestone.domain.values import value
from cobblestone.domain.work import Result


class Abort(Enum):
    """What the client is told about a job it holds."""

    NO = "no"
    IF_NOT_STARTED = "if_not_started"
    ALWAYS = "always"


@value(kw_only=True)
class HeldJob:
    """A job that the client lists, with what the server knows of it."""

    name: str
    result: Result | None  #: None = no such row
    error_mask: WorkunitError = WorkunitError.NONE
    assimilate_state: AssimilateState = AssimilateState.INIT


def judge_held_job(job: HeldJob, *, host_id: HostId) -> Abort:
    """Decide whether host ``host_id`` shall abort a job that it lists.

    A job that nobody needs is aborted only before it starts: once it runs, its volunteer gets credit for it.
    Jobs that this very request reports must not be judged.
    """
    result = job.result
    if result is None or result.host_id != host_id:
        return Abort.ALWAYS
    timed_out = result.server_state == ServerState.OVER and result.outcome == Outcome.NO_REPLY
    if result.server_state != ServerState.IN_PROGRESS and not timed_out:
        return Abort.ALWAYS
    if WorkunitError.CANCELLED in job.error_mask:
        return Abort.ALWAYS
    if job.assimilate_state == AssimilateState.DONE or timed_out:
        return Abort.IF_NOT_STARTED
    return Abort.NO
