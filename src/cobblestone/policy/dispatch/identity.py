"""Identification: the host record of a request, and the code-signing key.

Which host record belongs to a request.

A client normally names its host. When it does not, or names one that cannot be its own (another user's, or
one that has heard later sequence numbers: the state was copied or restored), the same machine is looked for
among the user's hosts, first by CPID, then by name, address and hardware; only then a new record is made.

Source: BOINC's ``handle_request.cpp`` (facts).  Difference: the family gives up the jobs of every machine that it has
recognised so and that lists none; here only those of a client that has started over, since after a lost reply, or with an old
copy of its state, the client may have them again.

Handing the code-signing key to a client.

The client keeps the first key that it gets from a project, and takes another only with a signature made by
the key that it holds. A client with a key that no one knows would refuse every program, so it gets no work.

Source: BOINC's ``handle_request.cpp`` (facts) and the observed behaviour of client 7.20.5: keys are compared
without surrounding white space, and sending the current key again is only noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter

from cobblestone.domain.hosts import Host, HostDescription
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import UserId, value


@value(kw_only=True)
class Introduction:
    """A client's description of its computer's identity."""

    user_id: UserId
    rpc_seqno: int
    hashed_cpid: str = ""  #: ``hashed_cpid()`` of the client's host CPID; empty = it sent none
    description: HostDescription = HostDescription()
    allow_multiple_clients: bool = False
    lists_jobs: bool = False  #: the client lists or reports at least one job


@value(kw_only=True)
class SimilarHosts:
    """Host records that may be the one, as the store found them."""

    claimed: Host | None = None  #: the record of the id that the client sent, merged records followed
    claimed_number: int = 0  #: the id that the client sent; 0 = none
    same_cpid: tuple[Host, ...] = ()  #: hosts of this user with this hashed CPID, newest first
    similar: tuple[Host, ...] = ()  #: hosts of this user with the same domain name, newest first


@value(kw_only=True)
class HostDecision:
    """The record to use; its ``rpc_seqno`` becomes that of the request, also when that is lower."""

    host: Host | None  #: None = make a new one
    send_host_id: bool  #: the reply must carry the id, since the client has none or another one
    detached: bool = False  #: results in progress on this host are lost for good: CLIENT_DETACHED
    reasons: tuple[Reason, ...] = ()


@lru_cache(2048)  # computers ask again
def hashed_cpid(host_cpid: str, email_addr: str) -> str:
    """Return the host CPID as the project stores it: MD5 of the client's id followed by the e-mail address, in hex.

    Empty when the client sent no id: hosts without one must not look alike.
    """
    if not host_cpid:
        return ""
    text = host_cpid + email_addr
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def seqno_is_credible(rpc_seqno: int, stored: int) -> bool:
    """Return whether a client with this sequence number can be the one that was heard before.  Gaps are normal."""
    return rpc_seqno >= stored


def identify_host(introduction: Introduction, facts: SimilarHosts) -> HostDecision:
    """Choose the host record of a request whose user is authenticated."""
    claimed = facts.claimed
    doubt = _doubt(introduction, facts)
    if claimed is not None and doubt is None:
        return HostDecision(host=claimed, send_host_id=claimed.id != facts.claimed_number)
    found = _same_machine(introduction, facts)
    doubts = () if doubt is None else (doubt,)
    if found is None:
        made = reason("host_new", "A new host record was created.")
        return HostDecision(host=None, send_host_id=True, reasons=(*doubts, made))
    known = reason("host_recognised", "The computer was recognised as host {host}.", host=found.id)
    return HostDecision(
        host=found,
        send_host_id=found.id != facts.claimed_number,
        detached=not introduction.lists_jobs
        and found.id != facts.claimed_number
        and not _counts_on(introduction, found),
        reasons=(*doubts, known),
    )


def _counts_on(introduction: Introduction, host: Host) -> bool:
    """Return whether a client without the host's id goes on with its numbers: the replies that named the host were lost.

    A client that lost its state begins with 0 again.  One that tried without success often enough since then is taken for the
    other kind: its jobs are sent to it again, instead of to others.
    """
    return introduction.rpc_seqno > host.rpc_seqno


def _doubt(introduction: Introduction, facts: SimilarHosts) -> Reason | None:
    """Return why the host that the client names cannot be its own; None also if it names none."""
    if not facts.claimed_number:
        return None
    claimed = facts.claimed
    if claimed is None:
        return reason("host_unknown", "There is no host {host}.", host=facts.claimed_number)
    if claimed.user_id != introduction.user_id:
        return reason("host_of_other_user", "Host {host} belongs to another user.", host=claimed.id)
    if not seqno_is_credible(introduction.rpc_seqno, claimed.rpc_seqno):
        return reason(
            "host_sequence",
            "Host {host} was at request {stored}, and this is number {sent}: "
            "the client's state was copied or restored.",
            host=claimed.id,
            stored=claimed.rpc_seqno,
            sent=introduction.rpc_seqno,
        )
    return None


def _same_machine(introduction: Introduction, facts: SimilarHosts) -> Host | None:
    """Return the user's newest host that is this machine."""
    own = introduction.description
    if introduction.hashed_cpid:
        for host in _of_user(facts.same_cpid, introduction.user_id):
            if host.host_cpid == introduction.hashed_cpid and _hardware(own) == _hardware(host.description):
                return host
    if introduction.allow_multiple_clients or not own.domain_name:
        # Several clients on one machine look alike; and machines without a name cannot be told apart.
        return None
    for host in _of_user(facts.similar, introduction.user_id):
        if _looks(own) == _looks(host.description):
            return host
    return None


def _of_user(hosts: Iterable[Host], user_id: UserId) -> Iterable[Host]:
    return (host for host in hosts if host.user_id == user_id)


#: What two clients with the same id of their computer must have in common to be on the same machine …
_hardware = attrgetter("p_ncpus", "p_vendor", "p_model", "os_name", "os_version")
#: … and those that have no such id.
_looks = attrgetter("domain_name", "ip_addr", "os_name", "p_model", "m_nbytes")


@value(kw_only=True)
class RetiredKey:
    """A code-signing key that was in use before, and the current key's signature made with it."""

    key: str
    signature: str  #: over the current key's text, stripped


@value(kw_only=True)
class KeyExchange:
    """The code-signing key in the reply."""

    key: str = ""  #: put into the reply; empty = leave it out
    signature: str = ""
    may_send_work: bool = True
    reason: Reason | None = None


def exchange_key(sent: str | None, *, current: str, retired: Sequence[RetiredKey] = ()) -> KeyExchange:
    """Decide what to answer to a client that holds the key ``sent`` (``None`` or empty: none)."""
    held = (sent or "").strip()
    own = current.strip()
    if held == own:
        return KeyExchange()
    if not held:
        return KeyExchange(key=current)
    if not own:
        return KeyExchange(
            may_send_work=False,
            reason=reason(
                "project_without_key",
                "The project's code-signing key is missing, so it sends no tasks. "
                "Its administrators must restore it.",
            ),
        )
    for old in retired:
        if old.key.strip() == held and old.signature:
            return KeyExchange(key=current, signature=old.signature)
    return KeyExchange(
        may_send_work=False,
        reason=reason(
            "key_unknown",
            "The project's code-signing key has changed, and this client cannot replace its copy "
            "safely. To get tasks, remove the project from the client and add it again.",
        ),
    )
