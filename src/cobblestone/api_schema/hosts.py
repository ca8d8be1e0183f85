"""Computers of volunteers, for operators."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from cobblestone.api_schema.values import Body, Id, PageQuery, Reply


class HostsQuery(PageQuery, frozen=True):
    """Which computers."""

    user: Id | None = None
    blocked: bool | None = None  #: by an operator


class Host(Reply, frozen=True):
    """A computer."""

    id: int
    name: str  #: as its client says
    label: str  #: its owner's own name for it
    user: int
    created: float
    last_contact: float
    total_credit: float
    recent_average_credit: float
    blocked: str  #: why it gets no tasks; empty: it does


class HostList(Reply, frozen=True):
    """Computers, the newest first."""

    hosts: list[Host]


class HostDetails(Host, frozen=True):
    """A computer with what its client says of it."""

    venue: str
    hidden: bool
    client_version: int  #: 10000 * major + 100 * minor + release
    platforms: list[str]  #: the primary one first
    processor: str
    cpus: int
    fpops: float  #: floating-point operations per second of one CPU
    memory: float  #: bytes
    disk_free: float  #: bytes
    system: str
    gpus: list[str]
    contributions: dict[
        str, float
    ]  #: totals of storage (byte-days), received and sent (bytes), see docs/contributions.md
    lacks: str  #: what apps of every platform need and it has not
    tasks: dict[str, int]  #: by state, of the newest 20,000


class HostChanges(Body, frozen=True):
    """What is to be changed; what is left out stays."""

    label: Annotated[str, msgspec.Meta(max_length=60, pattern=r"\A[^\x00-\x1f\x7f]*\Z")] | None = None
    venue: Literal["", "home", "work", "school"] | None = None
    hidden: bool | None = None
