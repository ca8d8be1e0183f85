"""Checks that are drawn after an upload, audits of finished jobs, and files that stay for them."""

from __future__ import annotations

from itertools import count

import pytest
from tests.helpers.lifecycle_builders import NOW, a_workunit, in_progress, over, success, unsent, valid

from cobblestone.domain.values import HostId, ResultId, changed
from cobblestone.domain.work import AssimilateState, Outcome, Recipients, ReplicationRules, ValidateState
from cobblestone.policy.lifecycle.states import CreateResult, DropResult, NoteCheck, RaiseQuorum, WorkunitView
from cobblestone.policy.lifecycle.transition import (
    SAFETY_NET_SECONDS,
    apply_transition,
    audit_failed,
    next_transition,
    wants_check,
)
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    apply_decision,
    judge,
    wait_for_third,
)

ALONE = {"min_quorum": 1, "target_nresults": 1}


def after(view: WorkunitView) -> WorkunitView:
    """What the transitioner makes of a workunit; asked again, it wants nothing more."""
    new = apply_transition(view, next_transition(view, now=NOW), NOW, map(ResultId, count(900)))
    assert next_transition(new, now=NOW).effects == ()
    return new


def test_a_check_is_drawn_when_the_quorum_is_complete_and_not_again():
    view = WorkunitView(workunit=a_workunit(**ALONE), results=(success(0),))
    assert wants_check(view) == (100,)
    assert wants_check(changed(view, results=(in_progress(0),))) == ()
    checked = after(changed(view, checks=1))
    assert checked.workunit.rules == ReplicationRules(
        min_quorum=2, target_nresults=2, max_error_results=2, max_total_results=7, max_success_results=5
    )
    assert [result.checks for result in checked.results] == [1, 0]
    assert not checked.workunit.need_validate
    both = changed(checked, results=(checked.results[0], success(1)), checks=1)
    assert wants_check(both) == ()
    assert after(both).workunit.need_validate


def test_without_a_check_the_job_is_decided_at_once_and_nothing_is_drawn_again():
    view = after(WorkunitView(workunit=a_workunit(**ALONE), results=(success(0),)))
    assert view.workunit.need_validate
    assert wants_check(view) == ()


def test_a_job_for_one_person_is_checked_by_no_one():
    workunit = a_workunit(**ALONE, target=Recipients(host_id=HostId(0)))
    assert wants_check(WorkunitView(workunit=workunit, results=(success(0),))) == ()


def finished(*results: object, **fields: object) -> WorkunitView:
    workunit = a_workunit(
        **ALONE,
        canonical_result_id=ResultId(100),
        assimilate_state=AssimilateState.DONE,
        transition_time=None,
    )
    return WorkunitView(workunit=workunit, results=results, **fields)  # type: ignore[arg-type]  # fields of a view


def test_an_audit_has_a_finished_job_computed_once_more():
    effects = next_transition(finished(valid(0), audited=True, in_escrow=True), now=NOW).effects
    assert [type(effect) for effect in effects] == [CreateResult]
    waiting = finished(valid(0), unsent(1), audited=True, in_escrow=True)
    assert next_transition(waiting, now=NOW).effects == ()
    assert (
        DropResult(result_id=ResultId(101)) in next_transition(finished(valid(0), unsent(1)), now=NOW).effects
    )


def test_an_audit_that_fails_too_often_is_given_up():
    failures = [over(n, Outcome.CLIENT_ERROR) for n in range(1, 4)]
    assert not audit_failed(finished(valid(0), *failures[:2], audited=True))
    view = finished(valid(0), *failures, audited=True, in_escrow=True)
    assert audit_failed(view)
    assert next_transition(view, now=NOW).effects == ()


def test_files_stay_while_credit_is_provisional():
    held = next_transition(finished(valid(0), in_escrow=True), now=NOW)
    assert held.effects == ()
    assert held.next_check == NOW + SAFETY_NET_SECONDS
    assert next_transition(finished(valid(0)), now=NOW).effects != ()


@pytest.mark.parametrize("agrees", [True, False])
def test_what_an_audit_finds_is_no_fault_of_the_computer_that_looked(agrees: bool):
    view = finished(valid(0), success(1), audited=True, in_escrow=True)
    view = changed(view, workunit=changed(view.workunit, need_validate=True))
    report = ValidationReport(
        checked=tuple(OutputCheck(result_id=ResultId(id_), usable=True) for id_ in (100, 101)),
        matches=frozenset({(ResultId(100), ResultId(101))} if agrees else ()),
    )
    decision = judge(view, report, now=NOW)
    assert decision.audit is agrees
    state = apply_decision(view, decision, NOW).results[1].validate_state
    assert state is (ValidateState.VALID if agrees else ValidateState.TOO_LATE)


def test_two_results_that_agree_can_wait_for_a_third():
    view = WorkunitView(workunit=a_workunit(need_validate=True), results=(success(0), success(1, checks=1)))
    ids = ResultId(100), ResultId(101)
    report = ValidationReport(
        checked=tuple(OutputCheck(result_id=id_, usable=True) for id_ in ids), matches=frozenset({ids})
    )
    decision = wait_for_third(view, judge(view, report, now=NOW), now=NOW)
    waiting = apply_decision(view, decision, NOW)
    assert RaiseQuorum(min_quorum=3) in decision.effects
    assert NoteCheck(result_id=ids[1], checks=2) in decision.effects
    assert (waiting.workunit.canonical_result_id, waiting.workunit.need_validate) == (None, False)
    assert len(after(waiting).results) == 3
