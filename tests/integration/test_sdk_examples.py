"""``import cobblestone`` shows what there is, and the examples in the docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import pydoc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.project_world import World
from tests.helpers.served_world import LoopThread, Volunteers, connect

import cobblestone
from cobblestone.api_schema.apps import AppChanges, RulesBody
from cobblestone.sdk.project import Project
from cobblestone.server.operation.create_project import NewProject, create_project

MODULES = (
    "cobblestone",
    *(
        f"cobblestone.sdk.{name}"
        for name in ("api.batch", "api.connection", "api.jobs", "app_definition", "project")
    ),
)
PUBLIC = sorted(set(cobblestone.__all__) - {"__version__"})


@pytest.fixture
def sky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that nobody runs, in the current folder, with an app and inputs."""
    monkeypatch.chdir(tmp_path)
    create_project(Path("sky"), NewProject(name="sky"), now=1.7e9)
    Path("inputs").mkdir()
    for name in ("a", "b"):
        Path("inputs", f"{name}.json").write_text("1")
    Path("period.py").write_text("print(1)\n")
    with cobblestone.connect("sky") as project:
        project.create_app("period", "python3 period.py {input} {output}", ["period.py"])


@pytest.fixture
def project(world: World) -> Iterator[Project]:
    """A running project with the app ``echo`` and volunteers who work."""
    enough = threading.Event()
    with LoopThread(world), connect(world) as project:
        project.create_app("echo", "cat {input}", stdout="output")
        project.change_app("echo", AppChanges(rules=RulesBody(max_error_results=0)))
        volunteers = Volunteers(world)
        volunteers.failing = {"bad"}
        thread = threading.Thread(target=volunteers.work_until, args=[enough])
        thread.start()
        try:
            yield project
        finally:
            enough.set()
            thread.join()


@pytest.mark.usefixtures("sky")
@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_docstrings_do_what_they_say(module: str, project: Project):
    found = doctest.testmod(
        importlib.import_module(module),
        extraglobs={"project": project, "cobblestone": cobblestone},
        optionflags=doctest.ELLIPSIS,
    )
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_explained(name: str):
    assert name in dir(cobblestone)
    thing = getattr(cobblestone, name)
    assert inspect.getdoc(thing)
    assert name in pydoc.render_doc(cobblestone)


@pytest.mark.parametrize(
    "name", ["AppSpec", "Batch", "BatchStatus", "Content", "Job", "JobResult", "JobFailed", "RequestRefused"]
)
def test_every_attribute_is_explained(name: str, project: Project):
    kind = getattr(cobblestone, name)
    _, _, listed = (inspect.getdoc(kind) or "").partition("Attributes:")
    members = getattr(kind, "__struct_fields__", None) or list(getattr(kind, "__dataclass_fields__", ()))
    if name == "Batch":
        members = [each for each in vars(project.submit("echo", [1])) if not each.startswith("_")]
    if name == "JobResult":
        members = [
            each for each in vars(next(project.submit("echo", [1]).results())) if not each.startswith("_")
        ]
    if issubclass(kind, Exception):
        members = list(inspect.signature(kind).parameters)[1:]
    assert members
    assert [each for each in members if f"\n    {each}: " not in listed] == []


def test_the_package_is_imported_without_an_http_client():
    program = "import cobblestone, json, sys; dir(cobblestone); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = json.loads(done.stdout)
    assert [name for name in loaded if name.startswith(("httpx", "msgspec", "rich", "cobblestone."))] == []


@pytest.mark.usefixtures("sky")
def test_a_program_that_opens_a_folder_prints_nothing_of_the_server():
    program = "import cobblestone\nwith cobblestone.connect('sky') as project: project.submit('period', [1])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("", "")
