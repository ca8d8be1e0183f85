"""docs/operations.md names every metric, warning and check that there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cobblestone.ops.metrics import METRICS, ProcessMetrics
from cobblestone.server.operation import alerts
from cobblestone.server.operation.doctor import CHECKS

TEXT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| `")]


def first_cells(names: str) -> set[str]:
    """Names in the first cells of tables that match."""
    found = {name for row in ROWS for name in re.findall(r"`([a-z_A-Z]+)`", row.split("|")[1])}
    return {name for name in found if re.fullmatch(names, name)}


def test_the_table_of_metrics_is_complete():
    exposed = (
        ProcessMetrics()
        .exposition({name: ({"x": 1.0} if info.label else 1.0) for name, info in METRICS.items()})
        .decode()
    )
    families = {
        (name if kind != "counter" or name.endswith("_total") else f"{name}_total")
        for name, kind in re.findall(r"^# TYPE (cobblestone_\w+) (\w+)$", exposed, re.MULTILINE)
        if not name.endswith("_created")
    }
    # counters of requests have no sample before the first request, but their families are there
    assert first_cells(r"cobblestone_\w+") == families


def test_alerts_are_about_metrics_that_there_are():
    (rules,) = re.findall(r"```yaml\n# cobblestone\.rules\.yml\n(.*?)```", TEXT, re.DOTALL)
    named = {name.removesuffix("_bucket") for name in re.findall(r"cobblestone_\w+", rules)}
    assert len(named) >= 6
    assert named <= first_cells(r"cobblestone_\w+")
    assert rules.count("- alert:") == rules.count("expr:") == rules.count("for:")


def test_labels_of_metrics_are_documented():
    for name, info in METRICS.items():
        if info.label:
            suffix = "_total" if info.kind == "counter" else ""
            assert f"| `cobblestone_{name}{suffix}` | {info.label} |" in TEXT, name


def test_every_check_of_the_doctor_is_documented():
    assert first_cells("|".join(CHECKS)) == set(CHECKS)


@pytest.mark.parametrize("code", sorted(set(re.findall(r'code="(\w+)"', Path(alerts.__file__).read_text()))))
def test_every_warning_is_documented(code: str):
    assert f"`{code}`" in TEXT
