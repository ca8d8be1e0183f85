"""A project's own validator and assimilator: they work, and whatever they do wrong hurts only themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.work import OutputSpec
from cobblestone.server.operation.alerts import queue_warnings
from cobblestone.store.operation.figures import project_figures

QUICK = {"checks": {"timeout": 2, "memory_bytes": 300_000_000}}


def two_results(world: World, first: bytes, second: bytes) -> None:
    """Two volunteers compute a job."""
    for user, answer in (("alice", first), ("bob", second)):
        host = world.host(world.user(user))
        host.rpc(ask=1)
        (name,) = host.new_results()
        world.now += 150
        host.rpc(reports=[host.finish(name, answer)])


def python_rule(world: World, code: str) -> ComparisonRule:
    (world.ctx.folder.root / "check.py").write_text(code)
    return ComparisonRule(kind="python", options={"function": "check.py:compare"})


def test_a_projects_own_comparison_decides(world: World):
    rule = python_rule(
        world,
        "def compare(a, b):\n    return a['out'].read_text().lower() == b['out'].read_text().lower()\n",
    )
    world.add_jobs(world.add_app(quorum=2, comparison=rule))
    two_results(world, b"ABC", b"abc")
    world.settle()
    assert world.query("SELECT validate_state FROM result") == [(1,), (1,)]


@pytest.mark.parametrize(
    "code",
    [
        "def compare(a, b):\n    raise ValueError('no')\n",
        "def compare(a, b):\n    return 'yes'\n",
        "def compare(a, b):\n    while True: pass\n",
        "def compare(a, b):\n    return bool(len(bytearray(4_000_000_000)))\n",
        "def compare(a, b):\n    import os; os.kill(os.getpid(), 9)\n",
        "syntax error",
        "x = 1\n",
    ],
    ids=["raises", "no bool", "hangs", "eats memory", "dies", "does not load", "is not there"],
)
def test_a_broken_comparison_delays_only_its_own_jobs_and_is_tried_again(make_world, code: str):
    world = make_world(**QUICK)
    broken = world.add_app("broken", quorum=2, comparison=python_rule(world, code))
    world.add_jobs(broken)
    two_results(world, b"a", b"a")
    world.settle()
    assert world.value("SELECT need_validate FROM workunit") == 1
    assert world.value("SELECT handler_failures FROM workunit") == 1
    assert world.value("SELECT COUNT(*) FROM credit_entry") == 0
    python_rule(world, "def compare(a, b):\n    return True\n")
    world.now += 61
    world.settle()
    assert world.query("SELECT validate_state FROM result") == [(1,), (1,)]


def test_numeric_comparison_accepts_what_is_near_and_says_where_the_rest_differs(world: World):
    rule = ComparisonRule(kind="numeric", options={"rtol": 1e-6})
    app = world.add_app(quorum=2, comparison=rule, outputs=(OutputSpec(open_name="out.json"),))
    world.add_jobs(app, n=2)
    hosts = [world.host(world.user(name)) for name in ("alice", "bob")]
    for host, answers in zip(
        hosts, ((b'{"x": 1.0}', b'{"x": 1.0}'), (b'{"x": 1.0000001}', b'{"x": 2.0}')), strict=True
    ):
        host.rpc(ask=1e6)
        names = sorted(host.new_results())
        world.now += 100
        host.rpc(reports=[host.finish(name, answer) for name, answer in zip(names, answers, strict=True)])
    world.settle()
    states = dict(world.query("SELECT name, validate_state FROM result WHERE sent_time IS NOT NULL"))
    assert states == {"demo_1_0_0": 1, "demo_1_0_1": 1, "demo_1_1_0": 4, "demo_1_1_1": 4}


def test_an_output_that_is_not_what_the_rule_compares_is_a_validate_error(world: World):
    rule = ComparisonRule(kind="numeric", options={"rtol": 1e-6})
    world.add_jobs(world.add_app(quorum=2, comparison=rule, outputs=(OutputSpec(open_name="out.json"),)))
    two_results(world, b'{"x": 1.0}', b'{"x": ')
    world.settle()
    assert world.query("SELECT outcome FROM result WHERE validate_state = 2") == [(6,)]


def test_the_assimilator_gets_every_answer_with_its_files(world: World):
    (world.ctx.folder.root / "merge.py").write_text(
        "def assimilate(workunit):\n"
        "    (workunit.folder / f'{workunit.name}.txt').write_bytes(workunit.outputs['out'].read_bytes())\n"
    )
    world.add_jobs(world.add_app(quorum=2, assimilator="merge.py:assimilate"))
    two_results(world, b"answer", b"answer")
    world.settle()
    assert (world.ctx.folder.results / "demo" / "demo_1_0.txt").read_bytes() == b"answer"
    assert world.value("SELECT assimilate_state FROM workunit") == 2


def test_the_assimilator_hears_of_failures_too(world: World):
    from cobblestone.store.work import batches

    (world.ctx.folder.root / "merge.py").write_text(
        "def assimilate(workunit):\n"
        "    assert not workunit.succeeded and not workunit.outputs\n"
        "    (workunit.folder / 'error.txt').write_text(workunit.error)\n"
    )
    batch = world.add_jobs(world.add_app(assimilator="merge.py:assimilate"))
    world.write(lambda tx: batches.cancel_jobs(tx, batch.id, now=world.now))
    world.settle()
    assert "cancelled" in (world.ctx.folder.results / "demo" / "error.txt").read_text()


def test_a_failing_assimilator_is_called_again_and_nothing_is_lost(make_world):
    world = make_world(**QUICK)
    script = world.ctx.folder.root / "merge.py"
    script.write_text("def assimilate(workunit):\n    raise RuntimeError('disk full')\n")
    world.add_jobs(world.add_app(quorum=2, assimilator="merge.py:assimilate"))
    two_results(world, b"answer", b"answer")
    world.settle()
    assert world.query("SELECT assimilate_state, handler_failures FROM workunit") == [(1, 1)]
    script.write_text("def assimilate(workunit):\n    (workunit.folder / 'ok').touch()\n")
    world.now += 11
    world.settle()
    assert world.query("SELECT assimilate_state FROM workunit") == [(2,)]
    assert (world.ctx.folder.results / "demo" / "ok").exists()


def test_answers_can_simply_be_written_to_a_folder(world: World):
    world.add_jobs(world.add_app(quorum=2, assimilator="folder:answers"))
    two_results(world, b"answer", b"answer")
    world.settle()
    (path,) = (path for path in (world.ctx.folder.root / "answers").rglob("*") if path.is_file())
    assert path.name == "out"
    assert path.read_bytes() == b"answer"


def test_a_folder_outside_of_the_project_is_not_written_to(world: World):
    world.add_jobs(world.add_app(quorum=2, assimilator="folder:../elsewhere"))
    two_results(world, b"answer", b"answer")
    world.settle()
    assert world.value("SELECT assimilate_state FROM workunit") == 1
    assert not (world.ctx.folder.root.parent / "elsewhere").exists()


def test_a_function_that_keeps_failing_parks_its_job_and_says_so(make_world: Callable[..., World]) -> None:
    world = make_world(checks={"max_attempts": 2})
    (world.ctx.folder.root / "broken.py").write_text(
        "def take(job):\n    raise ValueError('no such column: flux')\n"
    )
    world.add_jobs(world.add_app(assimilator="broken.py:take"))
    host = world.host(world.user("ada"))
    host.rpc(ask=1.0)
    (name,) = host.new_results()
    host.rpc(reports=[host.finish(name, b"answer")])
    for _ in range(4):
        world.settle()
        world.now += 7200
    assert world.value("SELECT handler_failures FROM workunit") == 2, "it is not called any more"
    found = ApiClient(world).get("/explain/workunits/1")
    assert "no such column: flux" in str(found["reasons"])
    figures = world.run(world.ctx.store.aread(lambda db: project_figures(db, now=world.now)))
    assert {warning.code for warning in queue_warnings(figures, world.ctx.settings)} == {"jobs_parked"}
    (world.ctx.folder.root / "broken.py").write_text("def take(job):\n    pass\n")
    ApiClient(world).post("/workunits/1/retry", {})
    world.settle()
    assert world.value("SELECT assimilate_state FROM workunit") == 2
    assert world.value("SELECT handler_problem FROM workunit") == ""
