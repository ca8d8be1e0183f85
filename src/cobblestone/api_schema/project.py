"""How the project is doing, its plan classes, and messages of running jobs."""

from __future__ import annotations

from cobblestone.api_schema.values import Body, FilledLine, Limit, Position, Query, Reply, Text


class Counts(Reply, frozen=True):
    """Numbers of what is in the project and what waits in it."""

    users: int
    hosts: int
    active_hosts: int
    apps: int
    unsigned_versions: int
    open_batches: int
    results_unsent: int
    results_in_progress: int
    workunits_unfinished: int
    workunits_to_validate: int
    workunits_to_assimilate: int
    workunits_to_delete: int


class DaemonState(Reply, frozen=True):
    """A part of the server."""

    name: str
    state: str  #: running, failing, stuck, not running
    last_beat: float | None
    last_error: str


class ServerProcess(Reply, frozen=True):
    """A process of the server."""

    host: str
    pid: int
    roles: list[str]
    version: str
    started: float
    last_beat: float
    alive: bool  #: heard of lately, and not told to stop
    ended: bool  #: told to stop
    daemons: list[DaemonState]


class ProjectWarning(Reply, frozen=True):
    """Something to look at."""

    code: str
    text: str
    severe: bool
    since: float


class ProjectStatus(Reply, frozen=True):
    """The project and what is going on."""

    name: str
    url: str
    version: str
    counts: Counts
    started: float | None  #: None: no server runs it
    disk_free: int  #: bytes
    database_bytes: int
    write_backlog: int
    backlog_seconds: float  #: for how long the workunit that is due first has waited
    oldest_unsent_seconds: float
    error_rate: float  #: of the results that ended within a day
    results_last_day: int
    daemons: list[DaemonState]  #: of all processes that are there
    processes: list[ServerProcess]  #: heard of within a day
    warnings: list[ProjectWarning]


class PlanClass(Reply, frozen=True):
    """A plan class and which of the known hosts it fits."""

    name: str
    gpu_type: str
    max_threads: int
    hosts_matched: int
    hosts_known: int
    refusals: dict[str, int]  #: code of the reason -> hosts


class PlanClassList(Reply, frozen=True):
    """The plan classes of plan_classes.toml."""

    plan_classes: list[PlanClass]


class TricklesQuery(Query, frozen=True):
    """A part of the list."""

    after: Position = 0
    limit: Limit = 100


class Trickle(Reply, frozen=True):
    """A message that a running job sent."""

    id: int
    host_id: int
    result: str  #: name
    variety: str
    time: int  #: Unix seconds, by the host's clock
    received: float
    text: str


class TrickleList(Reply, frozen=True):
    """Messages in the order of their arrival."""

    trickles: list[Trickle]


class NewTrickle(Body, frozen=True):
    """A message for a running job; its program gets it by ``receive_trickles()``."""

    result: FilledLine  #: name
    text: Text


class SentTrickle(Reply, frozen=True):
    """A queued message: it goes out with the host's next request."""

    id: int
