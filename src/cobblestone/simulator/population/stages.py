"""Stages of a workunit: what the rules of its life cycle see of it, and what they make of it, worked out once for all alike.

The rules look at no host, and at times only to see whether they have passed.  So in a stage results are numbered from 0, it is
always the time 0, and a deadline has passed or is never.  Workunits with the same past share a stage, and the rules are asked
what follows from it when the first of them gets there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.values import ResultId, changed
from cobblestone.domain.work import AssimilateState, Outcome, Result, ServerState
from cobblestone.policy.dispatch.limits import after_failure, after_valid
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.lifecycle.application import advance, advance_assimilation, apply_transition
from cobblestone.policy.lifecycle.states import Cause, TimeOutResult, WorkunitView, is_over, is_unsent
from cobblestone.policy.lifecycle.transition import next_transition
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    apply_decision,
    judge,
    pairs_to_compare,
    results_to_check,
)

NOW, _PASSED, _NEVER = 0.0, -1.0, math.inf
#: Stages, and steps of each kind, that are remembered; workunits with dozens of results are hardly ever alike.
_MOST = 4096
#: What becomes of a host's record.
_Rating = Callable[[HostAppVersion, int], HostAppVersion]


class Stage:
    """A workunit with its results, of which some are ``wrong``."""

    def __init__(self, view: WorkunitView, wrong: frozenset[ResultId]) -> None:
        self.view, self.wrong = view, wrong
        self.over = _is_over(view)
        self.unsent = [row.id for row in view.results if is_unsent(row)]
        self.in_progress = [row.id for row in view.results if row.server_state is ServerState.IN_PROGRESS]


class Step(NamedTuple):
    """The stage in which nothing is left to do now, and what happened on the way there."""

    stage: Stage
    timed_out: int
    rated: list[tuple[_Rating, list[ResultId]]]
    canonical: ResultId | None  #: if it was found now


_stage = lru_cache(maxsize=_MOST)(Stage)


@lru_cache(maxsize=_MOST)
def sent(stage: Stage, result: ResultId) -> Stage:
    """Return the stage after a result was sent."""
    row = changed(advance(stage.view.results[result], Cause.SENT), report_deadline=_NEVER)
    return _stage(_with_row(stage.view, row), stage.wrong)


@lru_cache(maxsize=_MOST)
def reported(stage: Stage, result: ResultId, report: AcceptedReport, *, wrong: bool) -> Stage:
    """Return the stage after a result was reported; the times of ``report`` are `NOW`."""
    success = report.outcome is Outcome.SUCCESS
    row = changed(
        advance(stage.view.results[result], Cause.REPORTED_SUCCESS if success else Cause.REPORTED_FAILURE),
        client_state=report.client_state,
        validate_state=report.validate_state,
        exit_status=report.exit_status,
        received_time=report.received_time,
    )
    return _stage(_with_row(stage.view, row), stage.wrong | {result} if wrong else stage.wrong)


@lru_cache(maxsize=_MOST)
def looked_at(stage: Stage, late: tuple[ResultId, ...], *, out: bool) -> Step:
    """Let transitioner, validator and assimilator work.

    The deadlines of the ``late`` results have passed; ``out``: some of all results are still on hosts.
    """
    view = stage.view
    for each in late:
        view = _with_row(view, changed(view.results[each], report_deadline=_PASSED))
    ids = map(ResultId, itertools.count(len(view.results)))
    rated: list[tuple[_Rating, list[ResultId]]] = []
    timed_out, canonical = 0, None
    while True:  # a transition is a fixed point, so the next one would have no effect
        transition = next_transition(view, now=NOW)
        lost = sorted(each.result_id for each in transition.effects if isinstance(each, TimeOutResult))
        timed_out += len(lost)
        rated.append((after_failure, lost))
        view = apply_transition(view, transition, NOW, ids)
        if view.workunit.need_validate:
            decision = judge(view, _compared(view, stage.wrong), now=NOW)
            rated.append((after_valid, sorted(decision.newly_valid)))
            rated.append((after_failure, sorted((*decision.newly_invalid, *decision.unusable))))
            canonical = decision.canonical_id if decision.newly_canonical else canonical
            view = apply_decision(view, decision, NOW)
        elif view.workunit.assimilate_state is AssimilateState.READY:
            view = changed(view, workunit=advance_assimilation(view.workunit, Cause.ASSIMILATED))
            if _is_over(view) and not out:  # what would follow is the release of its files
                break
        else:
            break
    return Step(_stage(view, stage.wrong), timed_out, [each for each in rated if each[1]], canonical)


def _compared(view: WorkunitView, wrong: frozenset[ResultId]) -> ValidationReport:
    """Return what a validator finds: all outputs are usable, and those that are not wrong agree."""
    ids = results_to_check(view)
    agree = frozenset(pair for pair in pairs_to_compare(view, ids) if wrong.isdisjoint(pair))
    checked = tuple(OutputCheck(result_id=each, usable=True) for each in ids)
    return ValidationReport(checked=checked, matches=agree)


def _is_over(view: WorkunitView) -> bool:
    """Return whether everything is assimilated, and nothing more is expected of the results."""
    done = view.workunit.assimilate_state is AssimilateState.DONE
    return done and all(is_over(row) for row in view.results)


def _with_row(view: WorkunitView, row: Result) -> WorkunitView:
    return changed(view, results=tuple([row if each.id == row.id else each for each in view.results]))
