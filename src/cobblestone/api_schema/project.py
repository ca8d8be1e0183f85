"""The state of the project, its plan classes, messages of running jobs, and its code-signing keys."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.apps import SignedFile
from cobblestone.api_schema.values import Body, FileName, FilledLine, Limit, Position, Query, Reply, Text
from cobblestone.domain.reasons import HealthWarning


class Counts(Reply, frozen=True):
    """Numbers of objects in the project and of waiting work."""

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


class ProjectStatus(Reply, frozen=True):
    """The project and its current state."""

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
    warnings: list[HealthWarning]


class PlanClass(Reply, frozen=True):
    """A plan class and which of the known hosts it matches."""

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
    """Messages in the order of arrival."""

    trickles: list[Trickle]


class NewTrickle(Body, frozen=True):
    """A message for a running job; its program gets it by ``receive_trickles()``."""

    result: FilledLine  #: name
    text: Text


class SentTrickle(Reply, frozen=True):
    """A queued message: it is sent with the reply to the host's next request."""

    id: int


KeyText = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
SignatureText = Annotated[str, msgspec.Meta(max_length=1000)]
KeyId = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,15}\Z")]
MAX_FILES = 5000


class ManifestQuery(Query, frozen=True):
    """Which files to list."""

    all: bool = False  #: also those that are signed already (for a new key)


class FileToSign(SignedFile, frozen=True):
    """A file of an app version in use."""

    app: str
    url: str


class Manifest(Reply, frozen=True):
    """The files that the current key must sign."""

    public_key: str  #: empty: the project has none yet
    files: list[FileToSign]


class Signatures(Body, frozen=True):
    """Signatures by physical file name."""

    signatures: Annotated[dict[FileName, SignatureText], msgspec.Meta(min_length=1, max_length=MAX_FILES)]


class SigningReply(Reply, frozen=True):
    """The result of an import."""

    versions_changed: int
    still_unsigned: list[str]


class Key(Reply, frozen=True):
    """A public key."""

    id: int
    public_key: str
    created: float
    current: bool
    has_successor_signature: bool  #: without it, clients that hold this older key must attach again


class KeyList(Reply, frozen=True):
    """Public keys, newest first."""

    keys: list[Key]


class NewKey(Body, frozen=True):
    """A new current key, with signatures that only holders of private keys can make."""

    public_key: KeyText
    #: by the id of an older key: the new key's text, signed with that one
    successor_signatures: Annotated[dict[KeyId, SignatureText], msgspec.Meta(max_length=100)]
    #: of all files of versions in use, made with the new key; those left out become unsigned
    signatures: Annotated[dict[FileName, SignatureText], msgspec.Meta(max_length=MAX_FILES)]
