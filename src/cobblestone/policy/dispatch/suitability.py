"""Which of the waiting jobs suit a host best: those whose files it has, and those of its size class.

Only apps that ask for it are looked at, and only the first `LOOK_AHEAD` candidates are put into another order; so a host
is never kept waiting, and a job that suits nobody is sent when it comes to the head of the queue.

Source of the scores: BOINC's ``sched_score.cpp`` (facts): priority counts as much as a point.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from cobblestone.domain.apps import App
from cobblestone.domain.ids import AppId
from cobblestone.policy.dispatch.catalogue import Candidate
from cobblestone.policy.dispatch.match import Match
from cobblestone.policy.dispatch.request import WorkRequest

LOOK_AHEAD = 1000

HAS_FILE = 10
SAME_CLASS = 5
SMALLER_JOB = -1
LARGER_JOB = -2


def size_class_of(speed: float, bounds: tuple[float, ...]) -> int:
    """Return the size class of a speed (or of the operations per second that a job asks for): 0 is the smallest."""
    return bisect_right(bounds, speed)


def by_suitability(
    candidates: Iterable[Candidate],
    request: WorkRequest,
    apps: Mapping[AppId, App],
    match_of: Callable[[Candidate], Match | None],
) -> Iterator[Candidate]:
    """Yield the candidates, of the next `LOOK_AHEAD` always the most suitable first; equal ones keep their order."""
    source = iter(candidates)
    while block := list(islice(source, LOOK_AHEAD)):
        block.sort(key=lambda each: -_score(each, request, apps.get(each.app_id), match_of))
        yield from block


def _score(
    candidate: Candidate, request: WorkRequest, app: App | None, match_of: Callable[[Candidate], Match | None]
) -> int:
    score = candidate.priority
    if app is None or not app.dispatch.scored:
        return score
    rules = app.dispatch
    if rules.locality and request.sticky_files:
        score += HAS_FILE * any(
            file.sticky and file.name in request.sticky_files for file in candidate.input_files
        )
    if rules.size_classes and candidate.size_class >= 0:
        match = match_of(candidate)
        if match is not None:
            own = size_class_of(match.usage.flops * match.available, rules.size_classes)
            if own == candidate.size_class:
                score += SAME_CLASS
            else:
                score += LARGER_JOB if own < candidate.size_class else SMALLER_JOB
    return score
