"""docs/volunteer.md says of every bound of a job who keeps it, as the client itself does."""

from __future__ import annotations

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


def table() -> list[str]:
    head = ["bound", *SITUATIONS]
    rows = [[each[0].name, *map(cell, each)] for each in zip(*SITUATIONS.values(), strict=True)]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def test_the_table_for_volunteers_is_what_the_client_says():
    assert "\n".join(table()) in DOCS.read_text(), "\n".join(table())


@pytest.mark.parametrize("bounds", SITUATIONS.values(), ids=SITUATIONS)
def test_every_bound_is_said_to_be_enforced_or_said_not_to_be(bounds: tuple[Bound, ...]):
    enforced, *remarks = [each.text() for each in sentences(bounds)]
    assert all(each.name in enforced for each in bounds if each.holder is Holder.SYSTEM)
    weak = {each.name for each in bounds if each.holder is not Holder.SYSTEM}
    said_elsewhere = {"network", "files of others"}  # by the sentence that there is no sandbox
    exact = {"run time", "size of outputs"}  # a second more, and before anything is sent
    assert len(remarks) == len(weak - said_elsewhere - exact)
