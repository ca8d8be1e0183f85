"""The last jobs of a batch, which clients report as soon as they are done.

A client reports finished jobs with its next request for work, or after an hour (BOINC's ``cs_scheduler.cpp``, facts), and one
that lately got no work asks seldom.  So a batch may end an hour later than its last job.  A job with ``report_immediately``
costs a request of its own; to ask for that where a batch ends brings its answer forward for few requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cobblestone.domain.ids import BatchId, ResultId
from cobblestone.domain.values import value
from cobblestone.policy.dispatch.catalogue import Candidate
from cobblestone.policy.dispatch.fairness import turns


@value(kw_only=True)
class BatchProgress:
    """How far a batch is."""

    unfinished: int  #: jobs without an answer
    last_turn: float  #: of its last job
    fair_weight: float = 1.0


def reported_at_once(
    candidates: Sequence[Candidate],
    batches: Mapping[BatchId, BatchProgress],
    *,
    ncpus: float,
    served: float,
) -> frozenset[ResultId]:
    """Those of a reply's results that the client shall report as soon as they are done.

    They are of batches in their last round: no more jobs wait than are on computers, so those that wait begin before most of
    the others are back.  Of each batch they are the last ones in the reply, as many as the host computes at a time
    (``ncpus``), since earlier ones are reported along with them.  ``served`` is the turn that was sent last.
    """
    found: set[ResultId] = set()
    left: dict[BatchId, int] = {}
    for candidate in reversed(candidates):
        batch = None if candidate.batch_id is None else batches.get(candidate.batch_id)
        if batch is None or candidate.batch_id is None:
            continue
        room = left.setdefault(candidate.batch_id, max(int(ncpus), 1))
        if room and jobs_waiting(candidate, batch, served=served) <= batch.unfinished / 2:
            left[candidate.batch_id] = room - 1
            found.add(candidate.result_id)
    return frozenset(found)


def jobs_waiting(candidate: Candidate, batch: BatchProgress, *, served: float) -> float:
    """About how many jobs of its batch wait behind a result that was just sent, were they all of its size.

    Jobs are sent in the order of their turns.  A retry has the turn of a job that was sent long ago; what counts then is the
    turn that was sent last.
    """
    place = max(candidate.turn, served) if candidate.retry else candidate.turn
    operations = candidate.limits.rsc_fpops_est * (2 if candidate.replicated else 1)
    (step,) = turns([operations], weight=batch.fair_weight, served=0.0, last=0.0)
    return max(batch.last_turn - place, 0.0) / step if step > 0 else 0.0
