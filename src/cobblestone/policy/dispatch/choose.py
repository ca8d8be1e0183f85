"""The dispatch rule: which of the unsent results a request gets."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from cobblestone.domain.ids import WorkunitId
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue
from cobblestone.policy.dispatch.decision import DispatchDecision
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import WorkRequest

HeldWorkunits = AbstractSet[WorkunitId] | Callable[[Sequence[WorkunitId]], AbstractSet[WorkunitId]]
"""Workunits of which a result is already there: a set, or a look-up that is asked for a few workunits at a time."""


def choose_work(
    request: WorkRequest,
    candidates: Iterable[Candidate],
    catalogue: Catalogue,
    *,
    limits: DispatchLimits,
    already_at_user: HeldWorkunits = frozenset(),
    already_at_host: HeldWorkunits = frozenset(),
    now: float,
    rng: random.Random,
) -> DispatchDecision:
    """Choose results for one request.

    ``candidates`` come in the order in which they should be served: targeted ones for this host first, then by priority, then by age.  They
    are read lazily, and only as far as needed.  ``already_at_user`` is asked when ``one_result_per_user_per_wu`` is on;
    since a host belongs to one user, ``already_at_host`` is needed only when that rule is off.
    """
    raise NotImplementedError
