"""Whether the people at hand are enough for the quorum of a job.

Each result of a job goes to another person (or another computer, as the project's rules say), and with homogeneous
redundancy or one version for all, only to computers that compute alike.  So a quorum may be out of reach though computers
wait for work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from cobblestone.domain.ids import HostId, UserId
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import value
from cobblestone.policy.dispatch.explain import PASSING
from cobblestone.policy.dispatch.limits import DispatchLimits

AT_HAND_SECONDS = 7 * 86400.0
"""A computer that called within this time is at hand: clients that want work call at least once a day."""


@value(kw_only=True)
class Taker:
    """A computer that could take a job, now or after a while."""

    host_id: HostId
    user_id: UserId
    alike: tuple[int, int] = (0, 0)  #: class and version: results of one job go to computers that share them


@value(kw_only=True)
class Shortage:
    """A quorum that is out of reach."""

    needed: int  #: answers that must still come, each of somebody else
    found: int  #: people (or computers) who could give one
    by_person: bool  #: whether they are people


def could_take(given: bool, refusals: Collection[Reason]) -> bool:
    """Whether a computer takes such jobs, if not now, then when what it holds is done or a day has passed."""
    return given or (bool(refusals) and all(each.code in PASSING for each in refusals))


def shortage(
    takers: Iterable[Taker],
    *,
    needed: int,
    limits: DispatchLimits,
    served: Collection[UserId | HostId] = frozenset(),
) -> Shortage | None:
    """Return what is missing to get ``needed`` more answers from ``takers``; None when there are enough.

    ``served``: who has had a result of the job (people, or computers if the rules tell these apart only).  ``takers`` are
    read no further than needed.
    """
    by_person = limits.one_result_per_user_per_wu
    apart = by_person or limits.one_result_per_host_per_wu
    required = needed if apart else min(needed, 1)
    if required <= 0:
        return None
    alike: dict[tuple[int, int], set[UserId | HostId]] = defaultdict(set)
    for taker in takers:
        who = taker.user_id if by_person else taker.host_id
        if not apart or who not in served:
            alike[taker.alike].add(who)
            if len(alike[taker.alike]) >= required:
                return None
    found = max(map(len, alike.values()), default=0)
    return Shortage(needed=required, found=found, by_person=by_person)
