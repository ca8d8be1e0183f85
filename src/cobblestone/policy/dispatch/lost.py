"""Results that the host should have, but does not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cobblestone.domain.ids import ResultId
from cobblestone.domain.reasons import Reason
from cobblestone.domain.states import WorkunitError
from cobblestone.domain.work import Result
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue
from cobblestone.policy.dispatch.decision import Assignment
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import WorkRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class LostResult:
    """A lost result with what is needed to send it again."""

    candidate: Candidate
    report_deadline: float  #: Unix seconds, as the client was told (no grace period)
    error_mask: WorkunitError = WorkunitError.NONE
    has_canonical_result: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredResult:
    """A lost result that is not sent again: it times out at once."""

    result_id: ResultId
    result_name: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class LostDecision:
    """What to do with lost results."""

    resent: tuple[Assignment, ...] = ()
    expired: tuple[ExpiredResult, ...] = ()


def find_lost(
    in_progress: Sequence[Result],
    listed: AbstractSet[str] | None,
    *,
    reported: AbstractSet[str] = frozenset(),
) -> tuple[Result, ...]:
    """Results in progress on the host that are neither in the client's list nor reported.  ``listed`` is ``None`` when it sent no list."""
    raise NotImplementedError


def resend_lost(
    request: WorkRequest,
    lost: Sequence[LostResult],
    catalogue: Catalogue,
    *,
    limits: DispatchLimits,
    now: float,
    rng: random.Random,
) -> LostDecision:
    """Decide which lost results are sent again.  When any is, the reply carries no new work."""
    raise NotImplementedError
