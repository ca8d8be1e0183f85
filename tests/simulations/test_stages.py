"""Workunits that go through stages have the same lives as those to which the rules are applied with their real ids and times."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.helpers.effort import times

from cobblestone.domain.values import AppId, HostId, ResultId, UserId, WorkunitId, changed
from cobblestone.domain.work import (
    AssimilateState,
    JobLimits,
    Outcome,
    ReplicationRules,
    Result,
    ResultClientState,
    ValidateState,
    Workunit,
)
from cobblestone.policy.dispatch.limits import after_valid
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.lifecycle.application import advance, advance_assimilation, apply_transition
from cobblestone.policy.lifecycle.states import Cause, TimeOutResult, WorkunitView, is_over
from cobblestone.policy.lifecycle.transition import next_transition
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    apply_decision,
    judge,
    pairs_to_compare,
    results_to_check,
)
from cobblestone.simulator.population.stages import NOW, Stage, Step, looked_at, reported, sent

LIMITS = JobLimits(delay_bound=2 * 86400.0)
#: What stages do not know of a workunit and its results.
APART = {
    "transition_time": None, "id": WorkunitId(0), "name": "", "create_time": 0.0,
}  # fmt: skip
APART_OF_RESULT = {
    "name": "", "workunit_id": WorkunitId(0), "create_time": 0.0, "host_id": None, "user_id": None, "sent_time": None,
    "report_deadline": None, "received_time": None, "elapsed_time": 0.0,
}  # fmt: skip


class Life:
    """A workunit with its real ids and times."""

    def __init__(self, rules: ReplicationRules, rng: random.Random) -> None:
        self.rng = rng
        self.now = rng.uniform(1e3, 1e9)
        self.ids = map(ResultId, itertools.count(rng.randint(100, 10**6)))
        workunit = Workunit(
            id=WorkunitId(7), name="real", app_id=AppId(1), create_time=self.now, limits=LIMITS, rules=rules
        )
        self.view = WorkunitView(workunit=workunit)
        self.wrong: set[ResultId] = set()
        self.on_hosts: set[ResultId] = set()

    def put(self, row: Result) -> None:
        rows = tuple(row if each.id == row.id else each for each in self.view.results)
        self.view = changed(self.view, results=rows)

    def look(self) -> tuple[int, Counter[tuple[str, ResultId]], ResultId | None]:
        """Apply the rules until nothing is left to do."""
        happened: Counter[tuple[str, ResultId]] = Counter()
        timed_out, canonical = 0, None
        while True:
            transition = next_transition(self.view, now=self.now)
            late = [each.result_id for each in transition.effects if isinstance(each, TimeOutResult)]
            timed_out += len(late)
            happened.update(("failure", each) for each in late)
            self.view = apply_transition(self.view, transition, self.now, self.ids)
            workunit = self.view.workunit
            if workunit.need_validate:
                ids = results_to_check(self.view)
                pairs = pairs_to_compare(self.view, ids)
                report = ValidationReport(
                    checked=tuple(OutputCheck(result_id=each, usable=True) for each in ids),
                    matches=frozenset(pair for pair in pairs if self.wrong.isdisjoint(pair)),
                )
                decision = judge(self.view, report, now=self.now)
                happened.update(("valid", each) for each in decision.newly_valid)
                happened.update(("failure", each) for each in decision.newly_invalid)
                canonical = decision.canonical_id if decision.newly_canonical else canonical
                self.view = apply_decision(self.view, decision, self.now)
            elif workunit.assimilate_state is AssimilateState.READY:
                workunit = advance_assimilation(workunit, Cause.ASSIMILATED)
                self.view = changed(self.view, workunit=workunit)
                if self.over and not self.on_hosts:
                    break
            else:
                break
        return timed_out, happened, canonical

    @property
    def over(self) -> bool:
        done = self.view.workunit.assimilate_state is AssimilateState.DONE
        return done and all(map(is_over, self.view.results))


def alike(life: Life, stage: Stage) -> None:
    """Compare everything that a stage knows."""
    number = {row.id: ResultId(i) for i, row in enumerate(life.view.results)}
    canonical = life.view.workunit.canonical_result_id
    canonical = None if canonical is None else number[canonical]
    assert changed(life.view.workunit, **APART, canonical_result_id=canonical) == changed(
        stage.view.workunit, **APART
    )
    assert [changed(row, **APART_OF_RESULT, id=number[row.id]) for row in life.view.results] == [
        changed(row, **APART_OF_RESULT) for row in stage.view.results
    ]
    assert stage.wrong == {number[each] for each in life.wrong}
    assert stage.over == life.over


def look_both(life: Life, stage: Stage) -> Stage:
    """Let both look, and compare what happened and when to look again."""
    rows = life.view.results
    late = tuple(each for each in stage.in_progress if (rows[each].report_deadline or 0.0) <= life.now)
    step: Step = looked_at(stage, late, out=bool(life.on_hosts))
    timed_out, happened, canonical = life.look()
    rows = life.view.results
    told = Counter(
        ("valid" if change is after_valid else "failure", rows[each].id)
        for change, numbers in step.rated
        for each in numbers
    )
    assert (step.timed_out, told) == (timed_out, happened)
    assert (None if step.canonical is None else rows[step.canonical].id) == canonical
    after = step.stage.view.workunit.transition_time
    deadlines = [rows[each].report_deadline or 0.0 for each in step.stage.in_progress]
    at = None if after is None else min([life.now + after, *deadlines])
    assert at == life.view.workunit.transition_time
    alike(life, step.stage)
    return step.stage


def act(life: Life, stage: Stage) -> Stage:
    """Send a result, report one, or let time pass."""
    rng, rows = life.rng, life.view.results
    unsent = stage.unsent
    held = [ResultId(i) for i, row in enumerate(rows) if row.id in life.on_hosts]
    life.now += rng.choice((0.0, rng.uniform(0, 3600.0), rng.uniform(0, 3 * 86400.0)))
    if unsent and rng.random() < 0.6:
        number = rng.choice(unsent)
        row = advance(rows[number], Cause.SENT)
        life.on_hosts.add(row.id)
        life.put(
            changed(
                row,
                host_id=HostId(5),
                user_id=UserId(5),
                sent_time=life.now,
                report_deadline=life.now + LIMITS.delay_bound,
            )
        )
        return sent(stage, number)
    if held and rng.random() < 0.4:
        number = rng.choice(held)
        success, wrong = rng.random() < 0.75, rng.random() < 0.2
        report = AcceptedReport(
            client_state=ResultClientState.FILES_UPLOADED if success else ResultClientState.COMPUTE_ERROR,
            outcome=Outcome.SUCCESS if success else Outcome.CLIENT_ERROR,
            validate_state=ValidateState.INIT if success else ValidateState.INVALID,
            exit_status=0 if success else rng.choice((1, 203)),
            cpu_time=NOW,
            elapsed_time=NOW,
            received_time=NOW,
        )
        life.on_hosts.discard(rows[number].id)
        life.wrong |= {rows[number].id} if wrong else set()
        life.put(
            changed(
                advance(rows[number], Cause.REPORTED_SUCCESS if success else Cause.REPORTED_FAILURE),
                client_state=report.client_state,
                validate_state=report.validate_state,
                exit_status=report.exit_status,
                received_time=life.now,
            )
        )
        return reported(stage, number, report, wrong=wrong)
    return stage


@pytest.mark.parametrize("part", range(4))
def test_stages_are_what_the_rules_make_of_real_workunits(part: int, rng: random.Random) -> None:
    seen: Counter[str] = Counter()
    for _ in range(times(100)):
        quorum = rng.choice((1, 1, 2, 3))
        rules = replace(
            ReplicationRules(),
            min_quorum=quorum,
            target_nresults=quorum + rng.choice((0, 0, 1, 2)),
            max_error_results=rng.choice((0, 1, 3)),
            max_total_results=rng.choice((quorum + 2, 10)),
            max_success_results=rng.choice((quorum, 6)),
        )
        life = Life(rules, rng)
        stage = Stage(
            WorkunitView(
                workunit=Workunit(id=WorkunitId(0), name="w", app_id=AppId(1), limits=LIMITS, rules=rules)
            ),
            frozenset(),
        )
        stage = look_both(life, stage)
        for _ in range(60):
            stage = act(life, stage)
            alike(life, stage)
            if life.rng.random() < 0.7:
                stage = look_both(life, stage)
            seen["timed out"] += any(row.outcome is Outcome.NO_REPLY for row in stage.view.results)
            seen["in progress"] += bool(stage.in_progress)
            if stage.over and not life.on_hosts:
                break
        rows = stage.view.results
        seen["failed"] += bool(stage.view.workunit.error_mask)
        seen["canonical"] += stage.view.workunit.canonical_result_id is not None
        seen["invalid"] += any(row.validate_state is ValidateState.INVALID for row in rows)
    assert len(seen) == 5
    assert min(seen.values()) > 0, seen
