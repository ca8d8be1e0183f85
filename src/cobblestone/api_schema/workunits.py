"""Single workunits, for operators."""

from __future__ import annotations

from cobblestone.api_schema.apps import AppName, Few, LimitsBody, Some
from cobblestone.api_schema.batches import Priority
from cobblestone.api_schema.people import OwnTask
from cobblestone.api_schema.values import Body, Id, PageQuery, Reply
from cobblestone.domain.states import JobState


class WorkunitsQuery(PageQuery, frozen=True):
    """Which workunits; app and status are sought among the newest 20,000 before the place."""

    app: AppName | None = None
    batch: Id | None = None
    status: JobState | None = None


class Workunit(Reply, frozen=True):
    """A workunit."""

    id: int
    name: str
    label: str  #: the submitter's own name of the job
    app: str
    batch: int | None
    status: str  #: ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``
    created: float
    priority: int


class WorkunitList(Reply, frozen=True):
    """Workunits, the newest first."""

    workunits: list[Workunit]


class Task(OwnTask, frozen=True):
    """A result of a workunit."""

    user: int | None


class WorkunitDetails(Workunit, frozen=True):
    """A workunit with its limits, rules and results."""

    command_line: str
    inputs: list[str]  #: physical names
    min_quorum: int
    target_nresults: int
    max_error_results: int
    max_total_results: int
    max_success_results: int
    rsc_fpops_est: float
    rsc_fpops_bound: float
    rsc_memory_bound: float  #: bytes
    rsc_disk_bound: float  #: bytes
    delay_bound: float  #: seconds
    canonical_result: int | None
    tasks: list[Task]  #: the first 200


class WorkunitChanges(Body, frozen=True):
    """What is to be changed for results that are not sent yet; what is left out stays."""

    priority: Priority | None = None
    limits: LimitsBody = LimitsBody()
    max_error_results: Some | None = None
    max_total_results: Few | None = None
    max_success_results: Few | None = None
