"""Jobs on a client that are not wanted any more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cobblestone.domain.ids import HostId
from cobblestone.domain.states import AssimilateState, WorkunitError
from cobblestone.domain.work import Result


class Abort(Enum):
    """What the client is told about a job it holds."""

    NO = "no"
    IF_NOT_STARTED = "if_not_started"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A job that the client lists, with what the server knows of it."""

    name: str
    result: Result | None  #: None = no such row
    error_mask: WorkunitError = WorkunitError.NONE
    assimilate_state: AssimilateState = AssimilateState.INIT


def judge_held_job(job: HeldJob, *, host_id: HostId) -> Abort:
    """Decide whether host ``host_id`` shall abort a job that it lists."""
    raise NotImplementedError
