"""Which host record belongs to a request."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.hosts import Host, HostDescription
from cobblestone.domain.ids import UserId
from cobblestone.domain.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """How a client introduces the computer it runs on."""

    user_id: UserId
    rpc_seqno: int
    hashed_cpid: str = ""  #: ``hashed_cpid()`` of the client's host CPID; empty = it sent none
    description: HostDescription = HostDescription()
    allow_multiple_clients: bool = False
    lists_jobs: bool = False  #: the client lists or reports at least one job


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Host records that may be the one, as the store found them."""

    claimed: Host | None = None  #: the record of the id that the client sent
    claimed_number: int = 0  #: the id that the client sent; 0 = none
    same_cpid: tuple[Host, ...] = ()  #: hosts of this user with this hashed CPID, newest first
    similar: tuple[Host, ...] = ()  #: hosts of this user with the same domain name, newest first


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDecision:
    """The record to use."""

    host: Host | None  #: None = make a new one
    send_host_id: bool  #: the reply must carry the id, since the client has none or another one
    detached: bool = False  #: results in progress on this host are lost for good: CLIENT_DETACHED
    reasons: tuple[Reason, ...] = ()


def hashed_cpid(host_cpid: str, email_addr: str) -> str:
    """The host CPID as the project stores it: MD5 of the client's id followed by the e-mail address."""
    raise NotImplementedError


def identify_host(introduction: Introduction, facts: HostFacts) -> HostDecision:
    """Choose the host record of a request whose user is authenticated."""
    raise NotImplementedError
