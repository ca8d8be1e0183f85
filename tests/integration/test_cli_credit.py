"""``cobblestone credit`` on a project."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.project_world import World, succeeded

from cobblestone.cli import run_command
from cobblestone.domain.people import Scope
from cobblestone.domain.work import OutputSpec
from cobblestone.ops.files import write_private
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Store
from cobblestone.store.people.credentials import create_token, new_secret

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, str]:
    """The folder of a project in which a result was granted, and the result's name."""
    world = World(tmp_path / "project")
    app = world.add_app(outputs=(OutputSpec(open_name="out", optional=True),))
    world.write(lambda tx: apps.update_app(tx, replace(app, credit_system="creditnew-deployed")))
    world.add_jobs(app)
    host = world.host(world.user("alice"), p_fpops=3e9)
    host.rpc(ask=1)
    world.now += 2000
    name = next(iter(host.held))
    host.rpc(reports=[replace(succeeded(name), final_cpu_time=1000.0)])
    world.settle()
    secret = new_secret()
    world.write(lambda tx: create_token(tx, secret, name="admin", scopes=list(Scope), now=0))
    write_private(tmp_path / "project" / "keys" / "admin.token", secret.encode())
    world.close()
    return tmp_path / "project", name


@pytest.fixture
def run(project: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str]:
        status = run_command(["credit", *arguments, "--project", str(project[0])])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return call


def test_explain_prints_the_whole_derivation_with_numbers(run: Run, project: tuple[Path, str]):
    status, text = run("explain", project[1])
    assert status == 0
    assert "by creditnew-deployed" in text
    assert "elapsed_time 1000.0" in text
    assert (
        "1000.0 s x 3000000000.0 FLOPS x version scale 1.0 (not known yet: versions need 100 samples)"
        " x host scale 1.0 (not known yet: fewer than 10 samples of this host) = 3000000000000.0" in text
    )
    _, as_json = run("explain", project[1], "--json")
    found = json.loads(as_json)
    assert f"Granted in total: {found['granted']!r}" in text


def test_recompute_ends_with_0_when_all_agrees_and_1_when_not(run: Run, project: tuple[Path, str]):
    status, text = run("recompute")
    assert status == 0
    assert "All totals and averages agree" in text
    assert run("correct", "1", "-2.5", "--reason", "twice as fast as light")[0] == 0
    status, text = run("recompute", "--json")
    proof = json.loads(text)
    assert (status, proof["agrees"], proof["corrections"]) == (0, True, 1)
    store = Store(project[0] / "project.sqlite", readers=1)
    store.write(lambda tx: tx.execute("UPDATE host SET expavg_credit = 1"))
    store.close()
    status, text = run("recompute")
    assert status == 1
    assert "host 1 average: stored 1.0" in text


def test_a_correction_that_takes_too_much_is_refused(run: Run):
    status, text = run("correct", "1", "-100", "--reason", "x")
    assert status == 1
    assert "cannot be taken back" in text


def test_systems_are_listed(run: Run):
    status, text = run("systems", "--quiet")
    assert status == 0
    assert "creditnew-designed" in text.split()
