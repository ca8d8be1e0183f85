"""docs/volunteer.md says of every bound of a job who keeps it, as the client itself does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cobblestone.client.sandbox.sandbox import Bound, Holder, job_bounds, sentences

DOCS = Path(__file__).parents[2] / "docs" / "volunteer.md"
SITUATIONS = {
    "service of root": job_bounds(bubblewrap=True, account=True, groups={"memory", "pids"}, counted=False),
    "you, bubblewrap": job_bounds(bubblewrap=True, account=False, groups=(), counted=True),
    "you, no bubblewrap": job_bounds(bubblewrap=False, account=False, groups=(), counted=True),
    "you, no user namespaces": job_bounds(
        bubblewrap=False, account=False, groups=(), counted=False, why_not_counted="it is so"
    ),
}
WORDS = {Holder.SYSTEM: "enforced", Holder.CLIENT: "watched", Holder.NOBODY: "not held"}


def cell(bound: Bound) -> str:
    return f"{WORDS[bound.holder]}: {bound.means}" if bound.means else WORDS[bound.holder]


ROWS = {each[0].name: [cell(bound) for bound in each] for each in zip(*SITUATIONS.values(), strict=True)}


def table() -> list[str]:
    head = ["bound", *SITUATIONS]
    rows = [[name, *cells] for name, cells in ROWS.items() if len(set(cells)) > 1]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def always() -> list[str]:
    return [f"* {name}: {cells[0]}" for name, cells in ROWS.items() if len(set(cells)) == 1]


@pytest.mark.parametrize("written", [table, always])
def test_the_bounds_for_volunteers_are_what_the_client_says(written: Callable[[], list[str]]):
    assert "\n".join(written()) in DOCS.read_text(), "\n".join(written())


@pytest.mark.parametrize("bounds", SITUATIONS.values(), ids=SITUATIONS)
def test_every_bound_is_said_to_be_enforced_or_said_not_to_be(bounds: tuple[Bound, ...]):
    enforced, *remarks = [each.text() for each in sentences(bounds)]
    assert all(each.name in enforced for each in bounds if each.holder is Holder.SYSTEM)
    weak = {each.name for each in bounds if each.holder is not Holder.SYSTEM}
    said_elsewhere = {"network", "files of others"}  # by the sentence that there is no sandbox
    exact = {"run time", "size of outputs"}  # a second more, and before anything is sent
    assert len(remarks) == len(weak - said_elsewhere - exact)
