"""The whole life of a workunit under random reports, time-outs, aborts, validation, and stragglers.

After every step the invariants hold and the transitioner's answer is a fixed point; from every state that can
be reached, the workunit comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import hypothesis.strategies as st
from hypothesis import given, note, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.helpers.effort import times

from cobblestone.domain.reasons import phrase
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, WorkunitId
from cobblestone.domain.work import (
    AssimilateState,
    FileDeleteState,
    JobLimits,
    Outcome,
    ReplicationRules,
    Result,
    ServerState,
    ValidateState,
    Workunit,
    WorkunitError,
)
from cobblestone.policy.lifecycle import application
from cobblestone.policy.lifecycle.deadlines import why_not_purge
from cobblestone.policy.lifecycle.states import (
    Cause,
    FailWorkunit,
    SetCanonical,
    WorkunitView,
    check_invariants,
    is_over,
    is_settled,
    is_unsent,
)
from cobblestone.policy.lifecycle.transition import apply_transition, next_transition
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    apply_decision,
    judge,
    pairs_to_compare,
    results_to_check,
)

DELAY_BOUND = 1000.0
EXIT_STATUSES = (1, 195, 202, 203)
LATE_OUTCOMES = (Outcome.NO_REPLY, Outcome.CLIENT_DETACHED)


@st.composite
def replication_rules(draw: st.DrawFn) -> ReplicationRules:
    """Rules that a job may have: quorum <= target <= successes <= total."""
    quorum = draw(st.integers(1, 5))
    target = draw(st.integers(quorum, quorum + 2))
    success = draw(st.integers(target, target + 3))
    return ReplicationRules(
        min_quorum=quorum,
        target_nresults=target,
        max_success_results=success,
        max_total_results=draw(st.integers(success, success + 4)),
        max_error_results=draw(st.integers(0, 4)),
    )


class WorkunitLife(RuleBasedStateMachine):
    """Hosts, daemons and an operator act on one workunit, in any order."""

    @initialize(
        rules=replication_rules(), delete_delay=st.sampled_from([0.0, 300.0]), committed=st.booleans()
    )
    def submit(self, rules: ReplicationRules, delete_delay: float, committed: bool) -> None:
        self.now = 10_000.0
        self.ids = map(ResultId, count(1))
        self.delete_delay = delete_delay
        self.answers: dict[ResultId, int] = {}
        self.canonical_choices = 0
        workunit = Workunit(
            id=WorkunitId(1),
            name="wu",
            app_id=AppId(1),
            create_time=self.now,
            transition_time=self.now,
            limits=JobLimits(delay_bound=DELAY_BOUND),
            rules=rules,
            hr_class=2 if committed else 0,
            app_version_id=AppVersionId(7) if committed else None,
        )
        self.view = WorkunitView(workunit=workunit)

    # What may happen to results.

    def some(self, data: st.DataObject, wanted: Callable[[Result], bool]) -> Result | None:
        candidates = [result for result in self.view.results if wanted(result)]
        return data.draw(st.sampled_from(candidates)) if candidates else None

    def put(self, result: Result) -> None:
        results = tuple(result if each.id == result.id else each for each in self.view.results)
        self.view = replace(self.view, results=results)
        self.check()

    def set_workunit(self, workunit: Workunit) -> None:
        self.view = replace(self.view, workunit=workunit)
        self.check()

    def wake_transitioner(self) -> None:
        self.view = replace(self.view, workunit=replace(self.view.workunit, transition_time=self.now))

    @rule(data=st.data(), patience=st.sampled_from([1.0, 500.0, DELAY_BOUND]))
    def send(self, data: st.DataObject, patience: float) -> None:
        result = self.some(data, lambda r: r.server_state is ServerState.UNSENT)
        if result is not None and not self.view.workunit.error_mask:
            self.send_to_host(result, patience)

    def send_to_host(self, result: Result, patience: float) -> None:
        sent = application.advance(result, Cause.SENT)
        self.put(replace(sent, host_id=HostId(1), sent_time=self.now, report_deadline=self.now + patience))

    @rule(data=st.data(), answer=st.integers(0, 3), exit_status=st.sampled_from((0, 0, 0, *EXIT_STATUSES)))
    def report(self, data: st.DataObject, answer: int, exit_status: int) -> None:
        """A host reports, perhaps long after it was given up."""
        result = self.some(
            data,
            lambda r: (
                r.server_state is ServerState.IN_PROGRESS or (is_over(r) and r.outcome in LATE_OUTCOMES)
            ),
        )
        if result is not None:
            self.receive(result, answer, exit_status)

    def receive(self, result: Result, answer: int, exit_status: int) -> None:
        if is_over(result):
            result = application.advance_files(result, Cause.REPORTED_LATE)
        if exit_status:
            result = application.advance(result, Cause.REPORTED_FAILURE)
            result = application.advance_validation(result, Cause.REPORTED_FAILURE)
        else:
            result = application.advance(result, Cause.REPORTED_SUCCESS)
            self.answers[result.id] = answer
        self.wake_transitioner()
        self.put(replace(result, received_time=self.now, exit_status=exit_status))

    @rule(answers=st.lists(st.sampled_from([0, 0, 0, 0, 1, None]), max_size=8), patience=st.just(500.0))
    def hosts_work(self, answers: list[int | None], patience: float) -> None:
        """Everything is sent, most is reported, and most of that agrees: leads quickly to late states."""
        self.transitioner_looks()
        for result in self.view.results:
            if result.server_state is ServerState.UNSENT:
                self.send_to_host(result, patience)
        running = [r for r in self.view.results if r.server_state is ServerState.IN_PROGRESS]
        for result, answer in zip(running, answers, strict=False):
            if answer is not None:
                self.receive(result, answer, 0)
        self.transitioner_looks()

    @rule(data=st.data())
    def detach_host(self, data: st.DataObject) -> None:
        result = self.some(data, lambda r: r.server_state is ServerState.IN_PROGRESS)
        if result is not None:
            self.wake_transitioner()
            self.put(application.advance(result, Cause.DETACHED))

    @rule(data=st.data())
    def give_up_lost_result_before_its_deadline(self, data: st.DataObject) -> None:
        result = self.some(data, lambda r: r.server_state is ServerState.IN_PROGRESS)
        if result is not None:
            self.wake_transitioner()
            self.put(application.advance(result, Cause.DEADLINE_PASSED))

    @rule(data=st.data())
    def fail_to_send(self, data: st.DataObject) -> None:
        result = self.some(data, lambda r: r.server_state is ServerState.UNSENT)
        if result is not None and data.draw(st.integers(0, 7)) == 7:
            self.wake_transitioner()
            self.put(application.advance(result, Cause.COULD_NOT_SEND))

    @rule(seconds=st.sampled_from([1.0, 100.0, 400.0, DELAY_BOUND, 30_000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    # What the daemons and the operator do.

    @rule()
    def transitioner_looks(self) -> None:
        """It may look at any time, due or not; asked again at once, it wants nothing more."""
        transition = next_transition(self.view, delete_delay=self.delete_delay, now=self.now)
        self.view = apply_transition(self.view, transition, self.now, self.ids)
        self.check()
        again = next_transition(self.view, delete_delay=self.delete_delay, now=self.now)
        assert again.effects == (), f"not a fixed point: {again.effects}"
        assert again.next_check is None or again.next_check > self.now

    @precondition(lambda self: self.view.workunit.need_validate)
    @rule(data=st.data())
    def validator_looks(self, data: st.DataObject) -> None:
        found = st.sampled_from(["usable"] * 6 + ["malformed", "postponed", "unseen"])
        self.validate(lambda: data.draw(found))

    @precondition(lambda self: self.view.workunit.need_validate)
    @rule()
    def validator_finds_all_usable(self) -> None:
        self.validate(lambda: "usable")

    def validate(self, state_of: Callable[[], str]) -> None:
        states = {each: state_of() for each in results_to_check(self.view)}
        files = {r.id: r.file_delete_state for r in self.view.results}
        assert all(files[each] is FileDeleteState.INIT for each in states), "outputs are gone too early"
        note(f"validator finds {states}")
        checked = tuple(
            OutputCheck(
                result_id=each,
                usable=state == "usable",
                problem=phrase(state),
                transient=state == "postponed",
            )
            for each, state in states.items()
            if state != "unseen"
        )
        same = (
            pair
            for pair in pairs_to_compare(self.view, results_to_check(self.view))
            if self.answers[pair[0]] == self.answers[pair[1]]
        )
        facts = ValidationReport(checked=checked, matches=frozenset(same))
        decision = judge(self.view, facts, now=self.now)
        self.canonical_choices += sum(isinstance(effect, SetCanonical) for effect in decision.effects)
        credited = {*decision.newly_valid}
        assert not credited & {r.id for r in self.view.results if r.validate_state is ValidateState.VALID}
        self.view = apply_decision(self.view, decision, self.now)
        assert not self.view.workunit.need_validate
        self.check()

    @precondition(lambda self: self.view.workunit.assimilate_state is AssimilateState.READY)
    @rule(defer=st.booleans())
    def assimilator_looks(self, defer: bool) -> None:
        waiting = defer and not self.view.workunit.error_mask and not all(map(is_over, self.view.results))
        self.assimilate(Cause.DEFERRED if waiting else Cause.ASSIMILATED)

    def assimilate(self, cause: Cause) -> None:
        self.wake_transitioner()
        self.set_workunit(application.advance_assimilation(self.view.workunit, cause))

    @rule(success=st.booleans())
    def file_deleter_looks(self, success: bool) -> None:
        """Deletes what may go; it may fail."""
        cause = Cause.FILES_DELETED if success else Cause.DELETION_FAILED
        may_go = (FileDeleteState.READY, FileDeleteState.ERROR)
        if self.view.workunit.file_delete_state in may_go:
            self.set_workunit(application.advance_inputs(self.view.workunit, cause))
        for result in self.view.results:
            if result.file_delete_state in may_go:
                self.put(application.advance_files(result, cause))

    @precondition(lambda self: self.view.workunit.canonical_result_id is None)
    @rule(whim=st.integers(0, 7))
    def operator_cancels(self, whim: int) -> None:
        if whim == 7 and not self.view.workunit.error_mask:
            self.view = application.apply_effect(self.view, FailWorkunit(error_mask=WorkunitError.CANCELLED))
            self.wake_transitioner()
            self.check()

    # What always holds.

    def check(self) -> None:
        assert check_invariants(self.view) == []
        workunit, results = self.view.workunit, self.view.results
        assert len(results) <= workunit.rules.max_total_results
        assert self.canonical_choices <= 1
        assert (self.canonical_choices == 1) is (workunit.canonical_result_id is not None)
        if workunit.assimilate_state is AssimilateState.DONE and not workunit.error_mask:
            canonical = [r for r in results if r.id == workunit.canonical_result_id]
            assert [r.validate_state for r in canonical] == [ValidateState.VALID]
        valid = [r for r in results if r.validate_state is ValidateState.VALID]
        assert len({self.answers[r.id] for r in valid}) <= 1, "two valid results disagree"
        if self.canonical_choices:
            assert len(valid) > workunit.rules.min_quorum // 2
            assert not workunit.error_mask, "a workunit with an answer failed"

    def teardown(self) -> None:
        """From here, with daemons that work and hosts that never report, the workunit comes to its end."""
        if not hasattr(self, "view"):
            return
        for _ in range(200):
            self.transitioner_looks()
            if self.view.workunit.need_validate:
                self.validate(lambda: "usable")
            elif self.view.workunit.assimilate_state is AssimilateState.READY:
                self.assimilate(Cause.ASSIMILATED)
            elif is_settled(self.view) and why_not_purge(self.view, now=self.now) is None:
                return
            else:
                self.wait_or_send()
        raise AssertionError(f"does not come to its end: {self.view}")

    def wait_or_send(self) -> None:
        """Send everything, delete what may go, and wait for the next check."""
        for result in self.view.results:
            if is_unsent(result):
                sent = application.advance(result, Cause.SENT)
                self.put(replace(sent, host_id=HostId(1), sent_time=self.now, report_deadline=self.now + 10))
        self.file_deleter_looks(success=True)
        next_check = self.view.workunit.transition_time
        if next_check is not None:
            self.now = max(self.now + 10, next_check)


TestWorkunitLife = WorkunitLife.TestCase
TestWorkunitLife.settings = settings(max_examples=times(120))


@given(patience=st.sampled_from([500.0, 1.0]))
def test_a_report_that_missed_an_older_result_is_followed_by_a_whole_one(patience: float):
    life = WorkunitLife()
    rules = ReplicationRules(
        min_quorum=2, target_nresults=2, max_error_results=0, max_total_results=3, max_success_results=2
    )
    life.submit(rules=rules, delete_delay=0.0, committed=False)
    life.hosts_work(answers=[1, 0], patience=500.0)
    life.validator_finds_all_usable()
    life.hosts_work(answers=[0], patience=patience)
    found = iter(["usable", "unseen", "usable"])
    life.validate(lambda: next(found))
    life.teardown()
