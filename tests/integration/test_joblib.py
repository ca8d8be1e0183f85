"""joblib, and scikit-learn by way of it, on volunteers' computers."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy
import pytest
from joblib import delayed, parallel_config
from tests.helpers.project_world import World
from tests.helpers.served_world import LoopThread, Volunteers, connect

import cobblestone.joblib
from cobblestone.api_schema.apps import AppChanges, LimitsBody
from cobblestone.domain.errors import JobError
from cobblestone.sdk import executor
from cobblestone.sdk.api.connection import JobFailed, NotRunning
from cobblestone.sdk.frameworks import cobblestone_call, joblib_backend
from cobblestone.sdk.project import Project

Parallel: Any = joblib.Parallel  # its types depend on its options


@pytest.fixture
def project(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project with an app that runs functions of this Python."""
    monkeypatch.setattr(executor, "POLL_SECONDS", 0.3)
    with LoopThread(world), connect(world) as project:
        project.create_app("functions", joblib_backend.COMMAND, [joblib_backend.RUNNER])
        yield project


@pytest.fixture
def computing(world: World, project: Project, tmp_path: Path) -> Iterator[list[int]]:
    """A host that calls functions; how many inputs each of its jobs had."""
    sizes: list[int] = []

    def compute(inputs: list[Path]) -> bytes:
        answer = tmp_path / "answer"
        cobblestone_call.main([joblib_backend.PYTHON, str(answer), *map(str, inputs)])
        sizes.append(len(inputs))
        world.now += 4.0  # what a job takes
        return answer.read_bytes()

    enough = threading.Event()
    thread = threading.Thread(target=Volunteers(world, compute=compute).work_until, args=[enough])
    thread.start()
    yield sizes
    enough.set()
    thread.join()


@pytest.fixture
def settling(world: World, project: Project) -> Iterator[None]:
    """The server's daemons at work, without any volunteer."""
    enough = threading.Event()

    def settle() -> None:
        while not enough.wait(0.02):
            world.settle()

    thread = threading.Thread(target=settle)
    thread.start()
    yield
    enough.set()
    thread.join()


def on_volunteers(project: Project, **more: Any) -> parallel_config:
    return parallel_config("cobblestone", project=project, **more)


def calls(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    return [delayed(function)(each) for each in arguments]


def states(project: Project) -> list[str]:
    return [batch.state for batch in project.batches()]


def test_results_come_in_order_and_what_is_not_needed_any_more_is_deleted(
    project: Project, computing: list[int]
) -> None:
    with on_volunteers(project):
        found = Parallel()(calls(lambda n: {"n": n, "half": numpy.arange(n) / 2}, *range(5)))
    assert [each["n"] for each in found] == [0, 1, 2, 3, 4]
    assert found[4]["half"].tolist() == [0, 0.5, 1, 1.5]
    assert states(project) == ["retired"]


def test_a_large_array_goes_to_the_project_once(world: World, project: Project, computing: list[int]) -> None:
    table = numpy.arange(50_000.0)
    with on_volunteers(project):
        found = Parallel()(delayed(lambda n, table: float(table[n]))(n, table) for n in range(4))
    assert found == [0.0, 1.0, 2.0, 3.0]
    assert computing == [2, 2, 2, 2], "the calls, and the array"
    assert world.value("SELECT COUNT(*) FROM file WHERE nbytes = ?", table.nbytes) == 1


def test_a_grid_search_finds_what_it_finds_here(project: Project, computing: list[int]) -> None:
    # Two seconds, which a worker that only collects this test need not wait.
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    flowers, kinds = load_iris(return_X_y=True)
    grid = {"C": [0.01, 1.0], "max_iter": [200]}
    here = GridSearchCV(LogisticRegression(), grid, cv=3).fit(flowers, kinds)
    with on_volunteers(project):
        there = GridSearchCV(LogisticRegression(), grid, cv=3).fit(flowers, kinds)
    assert there.best_params_ == here.best_params_
    for name in ("mean_test_score", "rank_test_score", "params"):
        assert numpy.array_equal(there.cv_results_[name], here.cv_results_[name])
    assert len(computing) == 6


def test_models_do_not_come_back(project: Project, computing: list[int]) -> None:
    from sklearn.ensemble import RandomForestClassifier

    with on_volunteers(project), pytest.raises(JobFailed, match="DecisionTreeClassifier cannot be sent back"):
        RandomForestClassifier(2).fit([[0], [1]], [0, 1])


def test_short_calls_share_jobs(project: Project, computing: list[int]) -> None:
    """A call takes some seconds, of which a job should have more."""
    with on_volunteers(project, n_jobs=2):
        assert Parallel()(calls(abs, *range(40))) == list(range(40))
    assert len(computing) < 25
    with on_volunteers(project, n_jobs=2):
        assert Parallel(batch_size=20)(calls(abs, *range(40))) == list(range(40))


def test_an_exception_of_a_function_ends_the_call_with_its_words_and_cancels_the_rest(
    project: Project, computing: list[int]
) -> None:
    def inverse(number: int) -> float:
        return 1 / number

    with (
        on_volunteers(project),
        pytest.raises(JobFailed, match="ZeroDivisionError: division by zero") as caught,
    ):
        Parallel()(calls(inverse, 2, 1, 0, 4))
    assert "in inverse" in caught.value.stderr
    assert states(project) == ["retired"]


def test_a_module_that_is_not_there_is_told_with_what_to_do(project: Project, computing: list[int]) -> None:
    def works_elsewhere(number: int) -> object:
        return importlib.import_module("a_module_of_mine")

    with (
        on_volunteers(project),
        pytest.raises(JobFailed, match=r"a_module_of_mine'\. Name .* bundle of create_app"),
    ):
        Parallel()(calls(works_elsewhere, 1))


def test_parallel_calls_inside_a_job_take_one_process(project: Project, computing: list[int]) -> None:
    def inside(number: int) -> tuple[int, list[int]]:
        return os.getpid(), Parallel(n_jobs=3)(delayed(os.getpid)() for _ in range(number))

    with on_volunteers(project):
        ((process, others),) = Parallel()(calls(inside, 3))
    assert others == [process] * 3


def test_a_time_limit_and_an_interruption_cancel_the_jobs(
    project: Project, settling: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_volunteers(project), pytest.raises(multiprocessing.TimeoutError):
        Parallel(timeout=0.1)(calls(abs, 1, 2))
    sleep, start = time.sleep, time.monotonic()

    def interrupted(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread() and time.monotonic() > start + 0.5:
            raise KeyboardInterrupt
        sleep(seconds)

    monkeypatch.setattr("joblib.parallel.time.sleep", interrupted)
    with on_volunteers(project), pytest.raises(KeyboardInterrupt):
        Parallel()(calls(abs, 1, 2))
    monkeypatch.undo()
    assert states(project) == ["retired", "retired"]
    jobs = [job.status for batch in project.batches() for job in project.batch(batch.id).jobs()]
    assert set(jobs) <= {"cancelled"}


def test_what_cannot_be_sent_is_refused_before_there_is_a_batch(project: Project) -> None:
    with on_volunteers(project):
        with pytest.raises(JobError, match=r"cannot be sent: TypeError: cannot pickle '_thread.lock' object"):
            Parallel()(calls(repr, threading.Lock()))
        project.change_app("functions", AppChanges(limits=LimitsBody(rsc_memory_bound=1e6)))
        with pytest.raises(JobError, match=r"arguments of a job have 2 MB; a job of functions may use 1 MB"):
            Parallel()(calls(len, bytes(2_000_000)))
    assert project.batches() == []


def test_an_app_of_another_python_is_refused_before_anything_is_sent(
    project: Project, tmp_path: Path
) -> None:
    runner = joblib_backend.RUNNER
    project.create_app("older", ["python3", runner.name, "3.9", "{output}", "{inputs}"], [runner])
    with (
        on_volunteers(project, app="older"),
        pytest.raises(JobError, match=r"older runs 'python3 .* 3\.9 .* not functions"),
    ):
        Parallel()(calls(abs, 1))
    assert project.batches() == []


def test_a_project_that_does_not_run_is_told_at_once(world: World, project: Project) -> None:
    with connect(world, running=False) as stopped, on_volunteers(stopped), pytest.raises(NotRunning):
        Parallel()(calls(abs, 1))


def test_an_answer_that_a_stranger_made_up_is_not_believed(world: World, project: Project) -> None:
    made_up = iter([b"cos\nsystem\n(S'true'\ntR.", b"[1, 2, 3]\n"])
    for words in ("cannot be used", "does not have the 1 results"):
        enough = threading.Event()
        thread = threading.Thread(
            target=Volunteers(world, compute=lambda inputs: next(made_up)).work_until, args=[enough]
        )
        thread.start()
        try:
            with on_volunteers(project), pytest.raises(JobFailed, match=words):
                Parallel()(calls(abs, 1))
        finally:
            enough.set()
            thread.join()


def test_an_app_is_made_with_a_python_of_this_version_and_its_cloudpickle(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def bundled(command: Any, requirements: Path, python: str, **_: Any) -> Any:
        seen.update(python=python, lines=requirements.read_text().splitlines())
        raise JobError("enough")

    monkeypatch.setattr("cobblestone.sdk.packing.bundle.bundle_command", bundled)
    monkeypatch.setattr(joblib_backend, "connect", lambda *_: project)
    (tmp_path / "packages.txt").write_text("numpy\n")
    with pytest.raises(JobError, match="enough"):
        cobblestone.joblib.create_app("mine", bundle=tmp_path / "packages.txt")
    assert seen["python"] == joblib_backend.PYTHON
    assert seen["lines"][0] == f"-r {tmp_path / 'packages.txt'}"
    assert seen["lines"][1].startswith("cloudpickle==")
