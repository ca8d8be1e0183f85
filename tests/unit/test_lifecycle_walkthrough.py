"""The life of a workunit from submission to purge, as the field tells it (quorum 2, target 2)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from tests.helpers.lifecycle_builders import NOW, a_view

from cobblestone.domain.values import HostId, ResultId
from cobblestone.domain.work import (
    AssimilateState,
    FileDeleteState,
    Outcome,
    Result,
    ServerState,
    ValidateState,
    WorkunitError,
)
from cobblestone.policy.lifecycle import application
from cobblestone.policy.lifecycle.deadlines import why_not_purge
from cobblestone.policy.lifecycle.states import Cause, WorkunitView, check_invariants
from cobblestone.policy.lifecycle.transition import apply_transition, next_transition
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    apply_decision,
    judge,
    pairs_to_compare,
    results_to_check,
)


@dataclass
class Life:
    """One workunit in the hands of the daemons; ``answers`` are the outputs by result id."""

    view: WorkunitView
    now: float = NOW
    ids: count[int] = field(default_factory=lambda: count(100))
    answers: dict[ResultId, str] = field(default_factory=dict)

    def transition(self) -> None:
        transition = next_transition(self.view, now=self.now)
        self.view = apply_transition(self.view, transition, self.now, map(ResultId, self.ids))
        assert check_invariants(self.view) == []

    def send(self, number: int) -> None:
        result = application.advance(self.view.results[number], Cause.SENT)
        times = {"sent_time": self.now, "report_deadline": self.now + 1000}
        self.replace(number, replace(result, host_id=HostId(number + 1), **times))

    def report(self, number: int, answer: str) -> None:
        result = application.advance(self.view.results[number], Cause.REPORTED_SUCCESS)
        self.answers[result.id] = answer
        self.view = replace(self.view, workunit=replace(self.view.workunit, transition_time=self.now))
        self.replace(number, replace(result, received_time=self.now))
        self.transition()

    def replace(self, number: int, result: Result) -> None:
        results = list(self.view.results)
        results[number] = result
        self.view = replace(self.view, results=tuple(results))
        assert check_invariants(self.view) == []

    def validate(self) -> None:
        assert self.view.workunit.need_validate
        checked = tuple(OutputCheck(result_id=each, usable=True) for each in results_to_check(self.view))
        matches = frozenset(
            p
            for p in pairs_to_compare(self.view, results_to_check(self.view))
            if self.answers[p[0]] == self.answers[p[1]]
        )
        decision = judge(self.view, ValidationReport(checked=checked, matches=matches), now=self.now)
        self.view = apply_decision(self.view, decision, self.now)
        assert check_invariants(self.view) == []

    def assimilate(self) -> None:
        workunit = application.advance_assimilation(self.view.workunit, Cause.ASSIMILATED)
        self.view = replace(self.view, workunit=replace(workunit, transition_time=self.now))
        self.transition()

    def delete_files(self) -> None:
        workunit = application.advance_inputs(self.view.workunit, Cause.FILES_DELETED)
        results = tuple(
            application.advance_files(r, Cause.FILES_DELETED)
            if r.file_delete_state is FileDeleteState.READY
            else r
            for r in self.view.results
        )
        self.view = WorkunitView(workunit=workunit, results=results)

    @property
    def server_states(self) -> list[str]:
        return [result.server_state.name for result in self.view.results]

    @property
    def validate_states(self) -> list[str]:
        return [result.validate_state.name for result in self.view.results]


def sent_twice() -> Life:
    life = Life(a_view(create_time=NOW))
    life.transition()
    assert life.server_states == ["UNSENT", "UNSENT"]
    life.send(0)
    life.send(1)
    return life


def test_two_results_that_agree_go_all_the_way():
    life = sent_twice()
    life.report(0, "42")
    assert not life.view.workunit.need_validate, "one result is no quorum"
    life.report(1, "42")
    life.validate()
    workunit = life.view.workunit
    assert life.validate_states == ["VALID", "VALID"]
    assert (workunit.canonical_result_id, workunit.assimilate_state) == (100, AssimilateState.READY)
    assert workunit.transition_time is None, "the assimilator sets it"
    assert why_not_purge(life.view, now=life.now) is not None
    life.assimilate()
    assert life.view.workunit.file_delete_state is FileDeleteState.READY
    assert {result.file_delete_state for result in life.view.results} == {FileDeleteState.READY}
    life.delete_files()
    assert why_not_purge(life.view, now=life.now) is None


def test_a_mismatch_asks_for_a_third_result_that_decides():
    life = sent_twice()
    life.report(0, "41")
    life.report(1, "42")
    life.validate()
    assert life.validate_states == ["INCONCLUSIVE", "INCONCLUSIVE"]
    assert life.view.workunit.rules.target_nresults == 3
    assert life.view.workunit.transition_time == life.now
    life.transition()
    life.send(2)
    life.report(2, "42")
    life.validate()
    assert life.validate_states == ["INVALID", "VALID", "VALID"]
    assert life.view.workunit.canonical_result_id == 101


def test_a_workunit_on_which_nobody_agrees_fails_and_the_project_is_told():
    life = sent_twice()
    life.report(0, "0")
    life.report(1, "1")
    for number in range(2, 5):
        life.validate()
        life.transition()
        life.send(number)
        life.report(number, str(number))
    life.validate()
    assert life.view.workunit.error_mask == WorkunitError.TOO_MANY_SUCCESS_RESULTS
    life.transition()
    assert life.validate_states == ["NO_CHECK"] * 5
    assert life.view.workunit.assimilate_state is AssimilateState.READY
    life.assimilate()
    life.delete_files()
    assert why_not_purge(life.view, now=life.now) is None


def test_a_straggler_is_validated_before_the_files_go():
    life = sent_twice()
    life.now += 2000
    life.transition()
    assert [result.outcome for result in life.view.results[:2]] == [Outcome.NO_REPLY] * 2
    life.send(2)
    life.send(3)
    life.report(0, "42")
    life.report(2, "42")
    life.validate()
    life.assimilate()
    assert life.view.workunit.file_delete_state is FileDeleteState.INIT, "one result is still out"
    life.report(3, "42")
    life.validate()
    life.transition()
    assert life.validate_states == ["VALID", "INIT", "VALID", "VALID"]
    assert life.view.workunit.file_delete_state is FileDeleteState.READY
    life.report(1, "42")
    assert life.view.results[1].validate_state is ValidateState.TOO_LATE
    assert life.view.results[1].server_state is ServerState.OVER
