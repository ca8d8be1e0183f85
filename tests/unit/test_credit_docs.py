"""The page about credit tells the truth: names, and the example of a project's own system."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.helpers.credit_builders import NOW, WORKUNIT, facts

from cobblestone.policy.credit.claims import COMBINATIONS, Statistics
from cobblestone.policy.credit.registry import ENTRY_POINT_GROUP, credit_system_names
from cobblestone.policy.credit.system import grant_workunit
from cobblestone.server.daemons.project_work import CreditedResult

PAGE = Path(__file__).parents[2].joinpath("docs", "credit.md").read_text(encoding="utf-8")


def test_every_system_is_described() -> None:
    for name in credit_system_names():
        plain, _, combination = name.partition(":")
        assert f"| `{plain}` |" in PAGE
        assert combination == "" or combination in COMBINATIONS
    assert [name for name in COMBINATIONS if f"`:{name}`" not in PAGE] == []


def example(name: str) -> str:
    """The Python example that holds a name."""
    (code,) = [
        code for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if f" {name}" in code
    ]
    return code


def test_the_example_of_a_credit_function_reads_outputs(tmp_path: Path) -> None:
    (tmp_path / "found.txt").write_text("a\nb\nc\n")
    module = ModuleType("worth")
    exec(compile(example("credit(result)"), "docs/credit.md", "exec"), module.__dict__)
    outputs = {"found.txt": tmp_path / "found.txt"}
    result = CreditedResult(id=1, name="r_0", outputs=outputs, elapsed_time=1.0, cpu_time=1.0, peak_flops=1e9)
    assert module.credit(result) == 1.5


def test_the_example_of_an_own_system_grants_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    code = example("EnergySystem")
    module = ModuleType("my_project_credit")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    exec(compile(code, "docs/credit.md", "exec"), module.__dict__)
    inputs = [facts(1, cpu_time=3600.0), facts(2, cpu_time=7200.0)]
    outcome = grant_workunit(module.EnergySystem(), WORKUNIT, inputs, Statistics(), now=NOW)
    assert [result.granted for result in outcome.results] == pytest.approx([0.01, 0.01])
    assert outcome.system == "energy"


def test_the_page_names_the_group_of_entry_points() -> None:
    assert f'"{ENTRY_POINT_GROUP}"' in PAGE
