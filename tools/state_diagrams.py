"""Draw the states of results, workunits and batches from the transition tables, as docs/states.md.

python -m tools.state_diagrams          write the page
python -m tools.state_diagrams --check  change nothing; fail if the page is not as the tables are
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cobblestone.domain.work import AssimilateState, BatchState, FileDeleteState, ValidateState
from cobblestone.policy.lifecycle import application, states
from cobblestone.policy.lifecycle.states import Cause
from cobblestone.store.operation import figures
from cobblestone.store.work import batches, dispatch, lifecycle
from cobblestone.store.work.steps import StateStep, Table

PAGE = Path(__file__).parents[1] / "docs" / "states.md"
TABLES: Mapping[str, tuple[Table, Any]] = {
    "Result: server state and outcome": (states.RESULT_TRANSITIONS, states.UNSENT),
    "Result: validate state": (states.VALIDATE_TRANSITIONS, ValidateState.INIT),
    "Workunit: assimilate state": (states.ASSIMILATE_TRANSITIONS, AssimilateState.INIT),
    "Workunit (inputs) and result (outputs): file delete state": (
        states.FILE_DELETE_TRANSITIONS,
        FileDeleteState.INIT,
    ),
    "Batch: state": (states.BATCH_TRANSITIONS, BatchState.INIT),
}
"""Tables, with the state in which rows are made."""
HEAD = """# States

<!-- Written by `python -m tools.state_diagrams` from the transition tables; do not edit. -->

These tables, in [`policy/lifecycle/states.py`](../src/cobblestone/policy/lifecycle/states.py), are what runs. A decision about a
workunit takes its steps in memory by them ([`application.py`](../src/cobblestone/policy/lifecycle/application.py)), and the store
writes what differs; the statements for single steps ([`steps.py`](../src/cobblestone/store/work/steps.py)) are made from them.
The database takes no other step. A workunit
has no single state: canonical result, errors, assimilation and files together are where it stands.
"""
NOT_TAKEN = (
    "\nSteps that belong to the tables, but that no statement of the server takes: {causes}."
    " Rows that came from elsewhere may be in the states that they lead to.\n"
)


def page() -> str:
    """Return the page as it should be."""
    parts = [HEAD]
    known: set[Cause] = set()
    for title, (table, first) in TABLES.items():
        parts.append(f"\n## {title}\n\n```mermaid\n{draw(table, first)}```\n")
        known |= {cause for _, cause in table}
    unused = sorted(cause.value for cause in known - taken())
    return "".join(parts) + (
        NOT_TAKEN.format(causes=", ".join(f"*{each}*" for each in unused)) if unused else ""
    )


def draw(table: Table, first: Any) -> str:
    """Draw a table as a mermaid state diagram; ``first`` is the state in which rows are made."""
    labels: dict[tuple[str, str], list[str]] = {}
    for (state, cause), after in table.items():
        if after != state:
            labels.setdefault((state.name, after.name), []).append(cause.value)
    lines = ["stateDiagram-v2", f"    [*] --> {first.name}"]
    lines += [f"    {start} --> {end}: {' / '.join(causes)}" for (start, end), causes in labels.items()]
    with_exit = {start for start, _ in labels}
    ends = dict.fromkeys(end for _, end in labels if end not in with_exit)
    lines += [f"    {end} --> [*]" for end in ends]
    return "\n".join(lines) + "\n"


def taken() -> set[Cause]:
    """Return the causes of all steps that are taken: those of the store's statements, and those that decisions name."""
    stated = {
        each.cause
        for module in (batches, dispatch, figures, lifecycle)
        for each in _steps(vars(module).values())
    }
    return stated | {
        Cause[name] for name in re.findall(r"\bCause\.([A-Z_]+)", inspect.getsource(application))
    }


def _steps(values: Iterable[object]) -> Iterable[StateStep]:
    for each in values:
        if isinstance(each, StateStep):
            yield each
        elif isinstance(each, dict):
            yield from _steps(each.values())


def main() -> int:
    """Write or check the page; the exit status."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        print(f"{PAGE.name} is not as the tables are. Write it with: python -m tools.state_diagrams")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
