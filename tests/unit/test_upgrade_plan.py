"""Which steps of an upgrade may be taken while other programs run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.engine.process_group import Program
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.schema.project import PROJECT


def schema(folder: Path, *names: str) -> Schema:
    (folder / "versions").mkdir()
    before = None
    for name in names:
        revision, _, rest = name.partition("_")
        kind, _, bears = rest.partition(":")
        text = f'revision = "{revision}"\ndown_revision = {f"{before!r}" if before else None}\n'
        text += f'bears = "{bears}"\n' if bears else ""
        (folder / "versions" / f"{revision}_x_{kind}.py").write_text(text)
        before = revision
    return Schema(what="database", migrations=folder)


def program(schema: str) -> Program:
    return Program(f"m{schema}", "alpha", 1, "1.0", schema)


@pytest.fixture
def steps(tmp_path: Path) -> Schema:
    return schema(tmp_path, "1_expand", "2_expand", "3_contract", "4_expand", "5_contract:3")


@pytest.mark.parametrize(
    ("current", "running", "taken", "waiting", "bears"),
    [
        (None, ["1"], "12345", "", None),
        ("1", [], "2345", "", "3"),
        ("1", ["1"], "2", "345", None),
        ("2", ["1", "2"], "", "345", None),
        ("2", ["2"], "34", "5", "2"),
        ("2", ["3", "5"], "345", "", "3"),
        ("4", ["2"], "", "5", None),
        ("4", [""], "", "5", None),
        ("5", ["1"], "", "", None),
    ],
)
def test_steps_are_taken_up_to_the_first_that_a_running_program_cannot_bear(
    steps: Schema, current: str | None, running: list[str], taken: str, waiting: str, bears: str | None
):
    plan = steps.plan(current, [program(each) for each in running])
    assert "".join(step.revision for step in plan.steps) == taken
    assert "".join(step.revision for step in plan.waiting) == waiting
    assert plan.bears == bears
    assert bool(plan.in_the_way) == bool(plan.waiting)


def test_a_program_starts_without_a_step_that_only_takes_away_but_not_without_one_that_adds(steps: Schema):
    steps.plan("4", [program("2")]).refuse("the database")
    with pytest.raises(Busy, match=r"schema 5 must wait .* process 1 on alpha \(cobblestone 1.0, schema 1\)"):
        steps.plan("2", [program("1")]).refuse("the database")


def test_after_a_step_of_no_kind_nobody_older_works(tmp_path: Path):
    plan = schema(tmp_path, "1_expand", "2_other").plan("1", [program("1")])
    with pytest.raises(Busy):
        plan.refuse("the database")


def test_steps_that_do_not_follow_each_other_are_refused(tmp_path: Path):
    found = schema(tmp_path, "1_expand")
    (tmp_path / "versions" / "9_x_expand.py").write_text('revision = "9"\ndown_revision = "8"\n')
    with pytest.raises(StoreError, match="Install it again"):
        found.steps()


@pytest.mark.parametrize("of", [PROJECT, MANAGER], ids=["project", "manager"])
def test_every_step_says_whether_it_expands_or_contracts_and_sorts_behind_the_one_before(of: Schema):
    revisions = [step.revision for step in of.steps()]
    assert revisions == sorted(of.known())
    for path in (of.migrations / "versions").glob("*.py"):
        kind = path.stem.rpartition("_")[2]
        assert kind in ("expand", "contract")
        assert f"({kind})." in path.read_text().splitlines()[0]
        assert ("\nbears = " in path.read_text()) == (kind == "contract")
