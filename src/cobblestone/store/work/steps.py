"""Steps of the life cycle as SQL, generated from the transition tables of `cobblestone.policy.lifecycle.states`.

No statement of the store names a state to come by itself: it sets what a `Step` sets, under the step's condition, so the
database takes no step that the tables lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from cobblestone.domain.errors import IllegalTransition, PolicyViolation
from cobblestone.domain.work import (
    AssimilateState,
    BatchState,
    FileDeleteState,
    Outcome,
    ServerState,
    ValidateState,
)
from cobblestone.policy.lifecycle.states import IN_PROGRESS, UNSENT, Cause, ResultState
from cobblestone.store.engine.database import Transaction
from cobblestone.store.engine.engine import Parameters

Table = Mapping[tuple[Any, Cause], Any]  # of one kind of states; tables of several kinds are handled alike

#: Before a column of a row that its key finds: no index of the rows in a state is used.  PostgreSQL would take the one of unsent
#: results, which is not by key, where it was empty when the plan was made, and go over all of them for each row from then on.
FOUND = "+"

_COLUMNS: Mapping[type[IntEnum], str] = {
    ValidateState: "validate_state",
    AssimilateState: "assimilate_state",
    FileDeleteState: "file_delete_state",
    BatchState: "state",
}


@dataclass(frozen=True, slots=True)
class StateStep:
    """The effect of a cause on a row: text after SET, and a condition on the previous state."""

    cause: Cause
    sets: str
    before: str  #: with {0} before each column; empty: any state will do

    def update(self, table: str, *, also: str = "", key: str = "id", few: bool = True) -> str:
        """Return the UPDATE for the rows of one key; ``also`` names further columns to set.

        ``few``: the key finds them.  Else an index of all rows in the previous state may.
        """
        further = f", {also}" if also else ""
        condition = f" AND {self.before}".format(FOUND if few else "") if self.before else ""
        return f"UPDATE {table} SET {self.sets}{further} WHERE {key} = ?{condition}"


def step(cause: Cause, *tables: Table) -> StateStep:
    """Return the effect of ``cause`` in all of ``tables``.

    Raises:
        PolicyViolation: a table has no step of this cause, or more than one state to come.
    """
    sets: list[str] = []
    before: list[str] = []
    for table in tables:
        steps = {state: after for (state, each), after in table.items() if each is cause}
        if len(set(steps.values())) != 1:
            raise PolicyViolation(f"'{cause.value}' must lead to one state of each table")
        after = next(iter(steps.values()))
        sets += _assignments(after, steps)
        known = {state for state, _ in table} | set(table.values())
        if set(steps) != known:  # else nothing is excluded
            before.append(matching(*steps, row="{0}"))
    return StateStep(cause, ", ".join(sets), " AND ".join(before))


def matching(*states: Any, row: str = "") -> str:
    """Return the condition that a row is in one of these states of one kind; ``row`` is a prefix such as ``r.``.

    For example ``r.validate_state IN (0, 4)`` for INIT and INCONCLUSIVE.
    """
    if not isinstance(states[0], ResultState):
        return row + is_in(_COLUMNS[type(states[0])], states)
    parts: list[str] = []
    waiting = [state.server_state for state in states if state.server_state is not ServerState.OVER]
    if waiting:  # without an outcome as yet
        parts.append(row + is_in("server_state", waiting))
    outcomes = [state.outcome for state in states if state.server_state is ServerState.OVER]
    if outcomes:
        parts.append(f"{row}server_state = {ServerState.OVER} AND {row}{is_in('outcome', outcomes)}")
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def is_in(column: str, numbers: Iterable[int]) -> str:
    """Return the condition that a column has one of these numbers."""
    texts = [str(int(number)) for number in numbers]
    return f"{column} = {texts[0]}" if len(texts) == 1 else f"{column} IN ({', '.join(texts)})"


IS_UNSENT = matching(UNSENT)
IS_IN_PROGRESS = matching(IN_PROGRESS)
#: Of a result: it did not go with the state of a client, so it counts as one that its user has.
IS_NOT_LOST = f"outcome <> {Outcome.CLIENT_DETACHED}"
TO_ASSIMILATE = matching(AssimilateState.READY)
DELETABLE = matching(FileDeleteState.READY)
OPEN_BATCH = matching(BatchState.INIT, BatchState.IN_PROGRESS)
#: Conditions on results, workunits and batches.  Indexes have some of them, and are used where the text is the same.
TO_ARCHIVE = f"{matching(BatchState.RETIRED)} AND archived = 0"


def _assignments(after: Any, before: Iterable[Any]) -> list[str]:
    if not isinstance(after, ResultState):
        return [f"{_COLUMNS[type(after)]} = {int(after)}"]
    sets: list[str] = []
    if any(state.server_state is not after.server_state for state in before):
        sets.append(f"server_state = {int(after.server_state)}")
    if any(state.outcome is not after.outcome for state in before):
        sets.append(f"outcome = {int(after.outcome)}")
    return sets


def take(tx: Transaction, taken: StateStep, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Run a step's statement once per row of parameters, of which the last is the row's key.

    Raises:
        IllegalTransition: at the latest before the commit: a row was in a state that the step does not begin with, or is missing.
    """

    def refusal(refused: Sequence[Parameters], changed: int) -> IllegalTransition:
        keys = ", ".join(str(row[-1]) for row in refused[:20])
        return IllegalTransition(
            f"{statement.split()[1]} {keys}: {len(refused)} should become '{taken.cause.value}', but only {changed} can;"
            " nothing was changed. See: cobblestone doctor"
        )

    tx.execute_expecting(statement, rows, refusal)
