"""What is remembered of the rules of the life cycle is what they say."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times

from cobblestone.domain.values import AppId, AppVersionId, HostId, WorkunitId, changed
from cobblestone.domain.work import (
    DAY,
    ExitStatus,
    JobLimits,
    Outcome,
    ReplicationRules,
    Result,
    ResultClientState,
    ValidateState,
    Workunit,
)
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.lifecycle.application import advance
from cobblestone.policy.lifecycle.states import Cause, WorkunitView, is_unsent
from cobblestone.policy.lifecycle.transition import LifecycleTiming
from cobblestone.simulator.population import workunit_paths
from cobblestone.simulator.population.workunit_paths import (
    CHECK,
    DEADLINE,
    FIRST,
    NOW,
    OF_RESULT,
    RECEIVED,
    SENT,
    PathVisit,
    Tape,
    Ways,
    WorkunitPaths,
)

TIMING = LifecycleTiming(delete_delay_seconds=3600.0)
PATHS = WorkunitPaths(TIMING)  # the same for all examples: what one asks, the next ones find remembered

OF_A_HOST = ("host_id", "user_id", "app_version_id", "peak_flops", "elapsed_time")


class Walk:
    """A workunit that goes the remembered way, and its rows, of which the rules are asked each time."""

    def __init__(self, rules: ReplicationRules, bound: float) -> None:
        limits = JobLimits(rsc_fpops_est=1e12, delay_bound=bound)
        workunit = Workunit(id=WorkunitId(1), name="w", app_id=AppId(1), limits=limits, rules=rules)
        self.now = 0.0
        self.view = WorkunitView(workunit=workunit)
        self.wrong: frozenset[int] = frozenset()
        self.stand = PATHS.first(workunit)
        self.times = [0.0, math.inf, 0.0]
        self.look()

    def look(self) -> None:
        self.times[NOW] = self.now
        look = PATHS.look(self.stand, self.times)
        self.stand = look.after
        visit = PathVisit(self.view, self.wrong, self.now, TIMING)
        visit.work()
        self.view = visit.view
        assert look.events == tuple(visit.events)
        self.check()

    def check(self) -> None:
        at = self.view.workunit.transition_time
        assert self.times[CHECK] == (math.inf if at is None else at)
        rows = zip(self.view.results, self.stand.view.results, strict=True)
        bare = [changed(row, **{name: getattr(kept, name) for name in OF_A_HOST}) for row, kept in rows]
        assert self.stand is PATHS.at(changed(self.view, results=tuple(bare)), self.wrong)
        for place, row in enumerate(self.view.results):
            kept = self.times[FIRST + OF_RESULT * place :][:OF_RESULT]
            known = (row.create_time, row.sent_time, row.report_deadline, row.received_time)
            assert kept == [0.0 if time is None else time for time in known]

    def put(self, place: int, row: Result) -> None:
        results = (*self.view.results[:place], row, *self.view.results[place + 1 :])
        workunit = changed(self.view.workunit, transition_time=self.times[CHECK])
        self.view = changed(self.view, workunit=workunit, results=results)

    def send(self, place: int, seconds: float) -> None:
        first, due = FIRST + OF_RESULT * place, self.now + seconds
        self.stand = PATHS.sent(self.stand, place)
        self.times[first + SENT], self.times[first + DEADLINE] = self.now, due
        self.times[CHECK] = min(self.times[CHECK], due)
        row = changed(
            advance(self.view.results[place], Cause.SENT),
            host_id=HostId(place + 1),
            app_version_id=AppVersionId(1),
            sent_time=self.now,
            report_deadline=due,
        )
        self.put(place, row)

    def report(self, place: int, status: int, *, wrong: bool) -> None:
        success = not status
        report = AcceptedReport(
            client_state=ResultClientState.FILES_UPLOADED if success else ResultClientState.COMPUTE_ERROR,
            outcome=Outcome.SUCCESS if success else Outcome.CLIENT_ERROR,
            validate_state=ValidateState.INIT if success else ValidateState.INVALID,
            exit_status=status,
            cpu_time=1.0,
            elapsed_time=1.0,
            received_time=self.now,
        )
        self.stand = PATHS.reported(self.stand, place, report, wrong=wrong)
        self.times[FIRST + OF_RESULT * place + RECEIVED] = self.now
        self.times[CHECK] = min(self.times[CHECK], self.now)
        self.wrong |= {place} if wrong else set()
        row = changed(
            advance(self.view.results[place], Cause.REPORTED_SUCCESS if success else Cause.REPORTED_FAILURE),
            client_state=report.client_state,
            validate_state=report.validate_state,
            exit_status=status,
            elapsed_time=1.0,
            received_time=self.now,
        )
        self.put(place, row)


@settings(max_examples=times(24), deadline=None)
@given(
    quorum=st.integers(1, 3),
    spare=st.integers(0, 2),
    total=st.integers(4, 8),
    errors=st.integers(0, 3),
    luck=st.randoms(use_true_random=False),
)
def test_the_remembered_way_is_the_one_that_the_rules_go(
    quorum: int, spare: int, total: int, errors: int, luck: random.Random
) -> None:
    rules = ReplicationRules(
        min_quorum=quorum,
        target_nresults=quorum + spare,
        max_error_results=errors,
        max_total_results=total,
        max_success_results=5,
    )
    walk = Walk(rules, luck.choice([0.5, 2.0, 20.0]) * DAY)
    out: set[int] = set()
    for _ in range(40):
        unsent = [place for place, row in enumerate(walk.view.results) if is_unsent(row)]
        walk.now += luck.choice([0.0, 60.0, 0.3 * DAY, luck.random() * DAY])
        if unsent and luck.random() < 0.6:
            place = luck.choice(unsent)
            walk.send(place, luck.choice([0.2, 1.0, 1.0, 3.0]) * DAY)
            out.add(place)
        elif out and luck.random() < 0.7:
            place = luck.choice(sorted(out))
            out.discard(place)
            status = luck.choice([0, 0, 0, 1, ExitStatus.ABORTED_BY_USER])
            walk.report(place, int(status), wrong=not status and luck.random() < 0.3)
        else:
            walk.now = max(walk.now, min(walk.times[CHECK], walk.now + 10 * DAY))
        if walk.times[CHECK] <= walk.now:
            walk.look()


def test_a_full_memory_is_emptied_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workunit_paths, "MOST_STANDS", 1)
    monkeypatch.setattr(workunit_paths, "MOST_WAYS", 1)
    paths = WorkunitPaths()
    limits = JobLimits(delay_bound=DAY)
    stand = paths.first(Workunit(id=WorkunitId(1), name="w", app_id=AppId(1), limits=limits))
    looks = [paths.look(stand, [now, math.inf, now]) for now in (0.0, 5.0)]
    assert looks[0] is looks[1]
    assert looks[0].events == (("made", (0,)),)
    sent = paths.sent(looks[0].after, 0)
    late = paths.look(sent, [DAY, DAY, 0.0, 0.0, 0.0, DAY, 0.0])
    early = paths.look(sent, [9.0, DAY, 0.0, 0.0, 0.0, DAY, 0.0])
    assert [each[0] for each in late.events] == ["timed out", "made"]
    assert early.events == ()
    assert sent.looks.find([9.0, DAY, 0.0, 0.0, 0.0, DAY, 0.0])
    assert sent.looks.find([DAY, DAY, 0.0, 0.0, 0.0, DAY, 0.0]) is None


def test_a_marked_number_notes_what_is_done_with_it() -> None:
    tape = Tape()
    one, two = tape.number(0, 1.0), tape.number(1, 4.0)
    found = min(2.0 * one + 3.0, two - 0.5)
    assert max(0.0, one)
    assert math.floor(two // 3.0) == 1.0
    way = tape.way([found, "plain"])
    assert way([1.0, 4.0], None) == (3.5, "plain")
    assert way([0.75, 3.5], None) == (3.0, "plain")
    assert way([1.0, 9.0], None) is None  # the other one is less
    assert way([0.0, 3.0], None) is None
    with pytest.raises(TypeError):
        round(one)  # not known: nothing is said without notice
    with pytest.raises(TypeError):
        hash(one)


def test_others_are_asked_again() -> None:
    tape = Tape()
    tape.take_note("ask('door', 3)", ("open", 1))
    ways = Ways[str]()
    ways.add(tape.way([tape.number(0, 1.0) / 2.0]), "in")
    assert ways.find([5.0], lambda *_: ("open", 1)) == ("in", (2.5,))
    assert ways.find([5.0], lambda *_: ("shut", 1)) is None
