"""A project's own validator and assimilator: they work, and whatever they do wrong hurts only themselves."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.hostile_outputs import npy_of
from tests.helpers.project_world import World

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.work import OutputSpec
from cobblestone.policy.lifecycle.states import WorkunitView
from cobblestone.policy.validation import canonical
from cobblestone.policy.validation.canonical import ValidationDecision, ValidationReport
from cobblestone.server.daemons.project_work import ValidationTask
from cobblestone.server.daemons.workers import WorkerFailedError
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
        world, "def compare(a, b):\n    return a['out'].read_text().lower() == b['out'].read_text().lower()\n"
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
    world.settle()
    assert warnings_of(world) == {"function_fails"}
    for _ in range(4):
        world.now += 7200
        world.settle()
    assert world.value("SELECT handler_failures FROM workunit") == 2, "it is not called any more"
    found = ApiClient(world).get("/explain/workunits/1")
    assert "no such column: flux" in str(found["reasons"])
    assert warnings_of(world) == {"jobs_parked"}
    (world.ctx.folder.root / "broken.py").write_text("def take(job):\n    pass\n")
    ApiClient(world).post("/workunits/1/retry", {})
    world.settle()
    assert world.value("SELECT assimilate_state FROM workunit") == 2
    assert world.value("SELECT handler_problem FROM workunit") == ""


def warnings_of(world: World) -> set[str]:
    figures = world.run(world.ctx.store.aread(lambda db: project_figures(db, now=world.now)))
    return {warning.code for warning in queue_warnings(figures, world.ctx.settings)}


HOSTILE_FILES = {
    "a unit on text": ("r.npy", npy_of("<S5[ns]", data=b"12345")),
    "a shape beyond all numbers": ("r.npy", npy_of("<f8", f"({'9' * 4000},{'9' * 4000})")),
    "digits and a letter": ("r.txt", b"1" * 60_000 + b"x"),
}


@pytest.mark.both_databases
@pytest.mark.parametrize("case", list(HOSTILE_FILES))
def test_a_hostile_output_costs_its_host_and_nobody_else(world: World, case: str):
    name, content = HOSTILE_FILES[case]
    rule = ComparisonRule(kind="numeric", options={"rtol": 1e-6})
    app = world.add_app(quorum=2, comparison=rule, outputs=(OutputSpec(open_name=name, max_nbytes=10**6),))
    world.add_jobs(app)
    honest = npy_of("<f8", data=b"\0" * 8) if name.endswith("npy") else b"1.0\n"
    users = [world.user(name) for name in ("mallory", "alice", "bob")]
    for user, answer in zip(users, (content, honest, honest), strict=True):
        host = world.host(user)
        host.rpc(ask=1)
        (result,) = host.new_results()
        world.now += 150
        host.rpc(reports=[host.finish(result, answer)])
        world.settle()
    bad, *good = world.query("SELECT validate_state, granted_credit FROM result ORDER BY id LIMIT 3")
    assert bad[0] == 2
    assert not bad[1]
    assert all(state == 1 and credit > 0 for state, credit in good)


WORDS = {
    "half a pair": "raise ValueError('\\ud800')",
    "nothing": "raise ValueError('\\0')",
    "no words": "class Silent(Exception):\n        def __str__(self):\n            raise ValueError\n    raise Silent",
    "a name of bytes": "open('\\udcff')",
    "not a number": "return float('nan')",
    "too much": "return 1e400",
    "a stop": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
}


@pytest.mark.both_databases
def test_whatever_a_projects_function_says_its_job_is_parked_or_goes_on(make_world):
    world: World = make_world(checks={"timeout": 2, "max_attempts": 1})
    names = {}
    for number, (case, words) in enumerate(WORDS.items()):
        (world.ctx.folder.root / f"keep{number}.py").write_text(f"def assimilate(workunit):\n    {words}\n")
        names[f"app{number}"] = case
        world.add_jobs(world.add_app(f"app{number}", assimilator=f"keep{number}.py:assimilate"))
    host = world.host(world.user("alice"))
    host.rpc(ask=1e6)
    world.now += 150
    host.rpc(reports=[host.finish(name, b"1") for name in host.new_results()])
    world.settle()
    found = world.query(
        "SELECT w.id, a.name, assimilate_state, handler_problem, granted_credit FROM workunit w JOIN app a ON a.id = w.app_id"
        " JOIN result r ON r.id = w.canonical_result_id"
    )
    assert {name for _, name, *_ in found} == names.keys()
    for id_, name, state, problem, credit in found:
        assert (state, bool(problem)) in ((2, False), (1, True)), names[name]
        assert ApiClient(world).get(f"/explain/workunits/{id_}")
        assert math.isfinite(credit)


UNSPEAKABLE = {
    "half a pair": ("r.json", rb'{"a": "\ud800", "\ud800\u0000": 1}'),
    "nothing": ("r.json", rb'{"a": "\u0000", "\u0000": 1}'),
    "orders to a terminal": ("r.txt", b"\x1b[31m \x01\n"),
    "a text without end": ("r.json", b'{"' + b"k" * 100_000 + b'": [1]}'),
}


@pytest.mark.both_databases
def test_how_outputs_differ_is_said_and_shown_whatever_stands_in_them(world: World):
    rule = ComparisonRule(kind="numeric", options={"rtol": 1e-6})
    answers: dict[str, tuple[bytes, bytes]] = {}
    for number, (name, content) in enumerate(UNSPEAKABLE.values()):
        outputs = (OutputSpec(open_name=name, max_nbytes=10**6),)
        world.add_jobs(world.add_app(f"app{number}", quorum=2, comparison=rule, outputs=outputs))
        answers[f"app{number}"] = (content, b'{"a": "x"}' if name.endswith("json") else b"red 1\n")

    def compute(user: str, which: int) -> None:
        host = world.host(world.user(user))
        host.rpc(ask=1e6)
        results = host.new_results()
        assert len(results) == len(answers)
        world.now += 150
        host.rpc(reports=[host.finish(name, answers[name.partition("_")[0]][which]) for name in results])
        world.settle()

    compute("mallory", 0)
    compute("alice", 1)
    assert set(world.query("SELECT validate_state FROM result WHERE sent_time IS NOT NULL")) == {(4,)}
    api = ApiClient(world)
    for id_ in range(1, len(answers) + 1):
        assert all(character.isprintable() for character in str(api.get(f"/explain/workunits/{id_}")))
        for page in (f"workunit.php?wuid={id_}", f"result.php?resultid={id_}"):
            assert world.get(f"/{page}").status_code == 200
    compute("bob", 1)
    assert world.value("SELECT COUNT(canonical_result_id) FROM workunit") == len(answers)


def test_outputs_that_cannot_be_read_in_time_are_their_hosts_affair(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    calls: list[int] = []

    async def call(function: Callable[..., object], task: ValidationTask, *, app: str) -> object:
        calls.append(len(task.results))
        if any(result.outputs[0].data == b"[1]" for result in task.results):
            raise WorkerFailedError("It took longer than 60 seconds and was stopped.")
        return function(task)

    monkeypatch.setattr(world.workers, "call", call)
    rule = ComparisonRule(kind="numeric", options={"rtol": 1e-6})
    world.add_jobs(world.add_app(quorum=2, comparison=rule, outputs=(OutputSpec(open_name="out.json"),)))
    two_results(world, b"[1]", b"[2]")
    world.settle()
    assert world.query("SELECT validate_state FROM result WHERE sent_time IS NOT NULL ORDER BY id") == [
        (2,),
        (4,),
    ]
    assert calls == [2, 1, 1, 1]


DECIDED = "SELECT COUNT(*) FROM workunit WHERE canonical_result_id IS NOT NULL"


def test_a_stuck_comparison_does_not_delay_other_workunits(make_world):
    world = make_world(
        checks={"timeout": 30, "memory_bytes": 300_000_000}, scheduler={"max_jobs_per_day_init": 20}
    )
    rule = python_rule(
        world,
        "import time\ndef compare(a, b):\n    if b'slow' in a['out'].read_bytes():\n        time.sleep(60)\n    return True\n",
    )
    world.add_jobs(world.add_app(quorum=2, comparison=rule), n=12)
    hosts = [world.host(world.user(name)) for name in ("alice", "bob")]
    for host in hosts:
        host.rpc(ask=1e6)
        names = sorted(host.new_results())
        world.now += 100
        host.rpc(reports=[host.finish(name, b"slow" if n < 2 else b"quick") for n, name in enumerate(names)])

    async def until_the_quick_ones_are_done() -> None:
        side_work = world.validator.side_work
        # A comparison that ended is unfinished for another moment after its workunit is written.
        while world.value(DECIDED) < 10 or len(side_work.unfinished) > 2:
            await world.transitioner.step()
            await world.validator.step()
        assert len(side_work.unfinished) == 2

    world.run(asyncio.wait_for(until_the_quick_ones_are_done(), timeout=25))
    world.workers.close()


def test_one_workunit_that_spoils_the_write_of_a_batch_is_set_aside(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.add_jobs(world.add_app(quorum=2), n=3)
    hosts = [world.host(world.user(name)) for name in ("alice", "bob")]
    for host in hosts:
        host.rpc(ask=1e6)
        names = sorted(host.new_results())
        world.now += 100
        host.rpc(reports=[host.finish(name, b"answer") for name in names])
    judge = canonical.judge

    def judge_but_one(view: WorkunitView, report: ValidationReport, *, now: float) -> ValidationDecision:
        if view.workunit.name == "demo_1_1":
            raise ZeroDivisionError("a bug")
        return judge(view, report, now=now)

    monkeypatch.setattr(canonical, "judge", judge_but_one)
    world.settle()
    rows = world.query("SELECT name, assimilate_state, handler_problem FROM workunit ORDER BY id")
    assert rows == [("demo_1_0", 2, ""), ("demo_1_1", 0, "ZeroDivisionError: a bug"), ("demo_1_2", 2, "")]
