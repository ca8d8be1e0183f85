"""The statements of the store do what the transition tables say: every effect, against the reference in policy."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.store_content import add_app

import cobblestone.store
from cobblestone.domain.errors import IllegalTransition, PolicyViolation
from cobblestone.domain.values import HostId, ResultId
from cobblestone.domain.work import (
    AssimilateState,
    BatchState,
    FileDeleteState,
    Outcome,
    ResultClientState,
    ServerState,
    ValidateState,
    WorkunitError,
)
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.lifecycle import application, states
from cobblestone.policy.lifecycle.states import Cause, Effect, Transition, WorkunitView
from cobblestone.store.engine.database import Store, Transaction
from cobblestone.store.work import dispatch, lifecycle
from cobblestone.store.work.rows import result_text
from cobblestone.store.work.steps import is_in, matching, step

NOW = 1_800_000_000.0
CASES = 4000
"""Random workunits, each with a random effect."""

RESULT_STATES = sorted(
    {state for state, _ in states.RESULT_TRANSITIONS} | set(states.RESULT_TRANSITIONS.values())
)
RESULT_EFFECTS: list[Callable[[ResultId], Effect]] = [
    lambda id_: states.TimeOutResult(result_id=id_),
    lambda id_: states.DropResult(result_id=id_),
    lambda id_: states.MarkTooLate(result_id=id_),
    lambda id_: states.SkipValidation(result_id=id_),
    lambda id_: states.MarkValid(result_id=id_),
    lambda id_: states.MarkInvalid(result_id=id_),
    lambda id_: states.MarkInconclusive(result_id=id_),
    lambda id_: states.MarkUnusable(result_id=id_),
    lambda id_: states.PostponeValidation(result_id=id_),
    lambda id_: states.DeleteOutputs(result_id=id_),
    lambda id_: states.SetCanonical(result_id=id_),
]
WORKUNIT_EFFECTS: list[Effect] = [
    states.CreateResult(number=7, priority=3),
    states.RequestValidation(),
    states.ClearNeedValidate(),
    states.FailWorkunit(error_mask=WorkunitError.TOO_MANY_ERROR_RESULTS),
    states.ReadyToAssimilate(),
    states.DeleteInputs(),
    states.ReleaseCommitment(),
    states.RaiseTarget(target_nresults=5),
]


def fill(tx: Transaction, app_id: int, rng: random.Random, n: int) -> None:
    """Workunits with results in every state, also in such that do not go together."""
    for number in range(n):
        workunit_id = tx.insert(
            "INSERT INTO workunit (name, app_id, create_time, need_validate, error_mask, assimilate_state,"
            " file_delete_state, hr_class, target_nresults) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                f"wu{number}",
                app_id,
                NOW,
                rng.randrange(2),
                rng.choice((0, 1, 16)),
                int(rng.choice(list(AssimilateState))),
                int(rng.choice(list(FileDeleteState))),
                rng.randrange(3),
                rng.randrange(1, 4),
            ),
        )
        for place in range(rng.randrange(1, 4)):
            state = rng.choice(RESULT_STATES)
            tx.execute(
                "INSERT INTO result (name, workunit_id, app_id, create_time, server_state, outcome, validate_state,"
                " file_delete_state) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    f"wu{number}_{place}",
                    workunit_id,
                    app_id,
                    NOW,
                    int(state.server_state),
                    int(state.outcome),
                    int(rng.choice(list(ValidateState))),
                    int(rng.choice(list(FileDeleteState))),
                ),
            )


def any_effect(rng: random.Random, view: WorkunitView) -> Effect:
    chosen = rng.randrange(len(RESULT_EFFECTS) + len(WORKUNIT_EFFECTS))
    if chosen < len(RESULT_EFFECTS):
        return RESULT_EFFECTS[chosen](rng.choice(view.results).id)
    return WORKUNIT_EFFECTS[chosen - len(RESULT_EFFECTS)]


def by_reference(view: WorkunitView, effect: Effect) -> WorkunitView | None:
    """What the reference makes of a view; None: the step does not exist."""
    try:
        return application.apply_effects(view, [effect], view.workunit.transition_time, NOW, new_ids())
    except IllegalTransition:
        return None


def new_ids() -> Iterator[ResultId]:
    yield ResultId(0)


def without_ids_of_new(view: WorkunitView, old: WorkunitView) -> WorkunitView:
    known = {result.id for result in old.results}
    results = tuple(each if each.id in known else replace(each, id=ResultId(0)) for each in view.results)
    return replace(view, results=results)


def all_views(store: Store) -> list[WorkunitView]:
    def read(db: Any) -> list[WorkunitView]:
        return lifecycle.views(db, [row[0] for row in db.query("SELECT id FROM workunit ORDER BY id")])

    return store.read(read)


def test_every_effect_changes_what_the_reference_changes(store: Store):
    rng = random.Random(20261122)
    app = add_app(store)
    store.write(lambda tx: fill(tx, app.id, rng, CASES))
    before = all_views(store)
    chosen = [(view, any_effect(rng, view)) for view in before]
    expected = [by_reference(view, effect) for view, effect in chosen]
    possible = [(view, after) for view, after in zip(before, expected, strict=True) if after]
    done = {type(effect) for (_, effect), after in zip(chosen, expected, strict=True) if after}
    assert {type(effect) for _, effect in chosen} == done
    assert len(before) - len(possible) > CASES / 4
    store.write(lambda tx: lifecycle.save_changes(tx, possible, now=NOW))
    for old, after, found in zip(before, expected, all_views(store), strict=True):
        assert without_ids_of_new(found, old) == (after or old)


def test_an_impossible_effect_undoes_the_whole_write(store: Store):
    app = add_app(store)
    store.write(lambda tx: fill(tx, app.id, random.Random(3), 40))
    before = all_views(store)
    over = next(
        (view, each) for view in before for each in view.results if each.server_state is ServerState.OVER
    )
    fits = Transition(effects=(states.RequestValidation(),), next_check=NOW + 9)
    wanted = [(before[0], fits), (over[0], Transition(effects=(states.TimeOutResult(result_id=over[1].id),)))]
    with pytest.raises(IllegalTransition, match=f"result {over[1].id} .* cannot become 'deadline passed'"):
        store.write(lambda tx: lifecycle.apply_transitions(tx, wanted, now=NOW))
    assert all_views(store) == before


@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.CLIENT_ERROR])
def test_reports_are_taken_in_the_states_of_the_table_only(store: Store, outcome: Outcome):
    cause = Cause.REPORTED_SUCCESS if outcome is Outcome.SUCCESS else Cause.REPORTED_FAILURE
    app = add_app(store)
    store.write(lambda tx: fill(tx, app.id, random.Random(5), 300))
    validate = ValidateState.INIT if outcome is Outcome.SUCCESS else ValidateState.INVALID
    accepted = AcceptedReport(
        client_state=ResultClientState.FILES_UPLOADED,
        outcome=outcome,
        validate_state=validate,
        exit_status=0,
        cpu_time=1.0,
        elapsed_time=2.0,
        received_time=NOW,
    )
    taken = refused = 0
    for view in all_views(store):
        for result in view.results:
            possible = (states.result_state(result), cause) in states.RESULT_TRANSITIONS and (
                outcome is Outcome.SUCCESS or (result.validate_state, cause) in states.VALIDATE_TRANSITIONS
            )

            written = "žluťoučký\n" * (result.id % 3 * 300)  # nothing, little, and more than a small window

            def record(tx: Transaction, of: Any = result, stderr: str = written) -> None:
                dispatch.record_report(tx, of, accepted, stderr=stderr, report={}, host_id=HostId(1), now=NOW)

            if not possible:
                refused += 1
                with pytest.raises(IllegalTransition):
                    store.write(record)
                continue
            taken += 1
            store.write(record)
            after = store.read(lambda db, of=result: lifecycle.views(db, [of.workunit_id]))[0]
            (row,) = [each for each in after.results if each.id == result.id]
            assert store.read(lambda db, of=result: result_text(db, of.id)).stderr == written
            assert states.result_state(row) == states.RESULT_TRANSITIONS[states.result_state(result), cause]
            assert row.file_delete_state is FileDeleteState.INIT
            if outcome is Outcome.CLIENT_ERROR:
                assert row.validate_state is ValidateState.INVALID
    assert taken > 20
    assert refused > 50


def test_a_detached_host_loses_what_it_computes_and_nothing_else(store: Store):
    app = add_app(store)
    store.write(lambda tx: fill(tx, app.id, random.Random(7), 200))
    store.write(lambda tx: tx.execute("UPDATE result SET host_id = 1"))
    before = {result.id: result for view in all_views(store) for result in view.results}
    n = store.write(lambda tx: dispatch.detach_host(tx, HostId(1), now=NOW))
    after = {result.id: result for view in all_views(store) for result in view.results}
    in_progress = [each for each in before.values() if each.server_state is ServerState.IN_PROGRESS]
    assert n == len(in_progress) > 20
    for id_, old in before.items():
        state = states.result_state(old)
        expected = states.RESULT_TRANSITIONS.get((state, Cause.DETACHED), state)
        assert states.result_state(after[id_]) == expected


# -- the statements themselves -------------------------------------------------


def test_a_step_is_made_of_its_table():
    sent = step(Cause.SENT, states.RESULT_TRANSITIONS)
    assert sent.update("result", also="host_id = ?") == (
        "UPDATE result SET server_state = 4, host_id = ? WHERE id = ? AND +server_state = 2"
    )
    assert sent.update("result", key="host_id", few=False) == (
        "UPDATE result SET server_state = 4 WHERE host_id = ? AND server_state = 2"
    )
    late = step(Cause.REPORTED_SUCCESS, states.RESULT_TRANSITIONS)
    assert late.before == "({0}server_state = 4 OR {0}server_state = 5 AND {0}outcome IN (4, 7))"
    unusable = step(Cause.FOUND_UNUSABLE, states.RESULT_TRANSITIONS, states.VALIDATE_TRANSITIONS)
    assert unusable.sets == "outcome = 6, validate_state = 2"
    assert step(Cause.REPORTED_LATE, states.FILE_DELETE_TRANSITIONS).before == ""


def test_a_step_changes_with_its_table():
    table = dict(states.ASSIMILATE_TRANSITIONS)
    table[AssimilateState.DONE, Cause.ASSIMILATED] = AssimilateState.DONE
    assert step(Cause.ASSIMILATED, table).before == "{0}assimilate_state IN (1, 2)"


NO_STEP: dict[Any, Any] = {}
TWO_STEPS: dict[Any, Any] = {
    (AssimilateState.INIT, Cause.ASSIMILATED): AssimilateState.DONE,
    (AssimilateState.READY, Cause.ASSIMILATED): AssimilateState.INIT,
}


@pytest.mark.parametrize("table", [NO_STEP, TWO_STEPS])
def test_a_table_without_one_state_to_come_makes_no_step(table: Any):
    with pytest.raises(PolicyViolation, match="one state"):
        step(Cause.ASSIMILATED, table)


def test_conditions_name_the_columns_of_their_states():
    assert matching(states.UNSENT) == "server_state = 2"
    assert matching(ValidateState.INIT, ValidateState.INCONCLUSIVE, row="r.") == "r.validate_state IN (0, 4)"
    assert matching(BatchState.RETIRED) == "state = 4"
    assert is_in("outcome", [Outcome.CLIENT_ERROR]) == "outcome = 3"


NUMBER_FOR_A_STATE = re.compile(
    r"(?:server_state|validate_state|assimilate_state|file_delete_state|outcome|\bstate|error_mask) *(?:=|<>|!=|IN|&) *\(?[1-9]"
)


def test_no_statement_names_a_state_by_its_number():
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(Path(cobblestone.store.__path__[0]).rglob("*.py"))
        if "migrations" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if NUMBER_FOR_A_STATE.search(line)
    ]
    assert found == []
