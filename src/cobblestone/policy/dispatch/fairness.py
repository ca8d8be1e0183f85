"""Fairness between submitters and between their batches: the place of each job in the queue.

Among results of one priority the one with the smallest *turn* is sent first.  A batch's jobs get turns at equal distances,
from the turn that is being served when they are submitted; the distance is the size of a job divided by the batch's
weight.  So two batches of equal weight that wait at the same time are served alternately, in proportion to their
operations, however large each is and whichever came first; nobody who comes late is preferred over the backlog, and
whoever was idle has no claim on what was computed meanwhile.

The weight of a batch is the share of its submitter divided by the number of batches that he has running when it begins,
itself included.  With k batches a submitter therefore gets at most 1 + ln k times his share, not k times.

Source: start-time fair queueing (Goyal, Vin, Cheng 1996).  Difference from BOINC's ``allocation_priority``, which
remembers for ever what each user computed and orders whole batches: here past use is not held against anybody.
"""

from __future__ import annotations

from collections.abc import Sequence

OPERATIONS_PER_TURN = 1e9  #: a turn is one second at a GFLOPS
_LARGEST_STEP = 1e12


def batch_weight(share: float, running_batches: int) -> float:
    """Weight of a new batch of a submitter with this share who has ``running_batches`` others unfinished."""
    return max(share, 1e-6) / (1 + max(running_batches, 0))


def turns(operations: Sequence[float], *, weight: float, served: float, last: float) -> list[float]:
    """Return turns of jobs that are added to a batch.

    ``operations`` are those of each job with all its results; ``served`` is the turn that was sent last, ``last`` that of
    the batch's last job so far.
    """
    turn = max(served, last)
    found: list[float] = []
    for each in operations:
        turn += min(max(each, 0.0) / OPERATIONS_PER_TURN / weight, _LARGEST_STEP)
        found.append(turn)
    return found
