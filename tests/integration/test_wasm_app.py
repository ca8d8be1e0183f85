"""A WebAssembly app: one command, one module, a version for each of six platforms."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.project_world import World
from tests.helpers.served_world import LoopThread, connect
from tests.helpers.wasm_slot import COPY, FOREVER, module

from cobblestone.api_schema import endpoints
from cobblestone.api_schema.apps import NewVersion, VersionFileBody
from cobblestone.cli.work.app import app_lines
from cobblestone.domain import pyodide as known
from cobblestone.domain.apps import BROWSER_PLATFORM
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher.packing import PYODIDE_DESCRIPTION_FILE
from cobblestone.sdk.api.connection import RequestRefused
from cobblestone.sdk.app_definition import AppSpec
from cobblestone.sdk.packing import bundle, pyodide, wasm_package
from cobblestone.sdk.project import Project
from cobblestone.sdk.wasm import toolchain

COMMAND = "program {input} {output}"
OWN = "x86_64-pc-linux-gnu"


@pytest.fixture
def project(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project, and a module; launchers and libraries are stood in for, since they are not fetched for a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COBBLESTONE_LAUNCHERS", str(tmp_path))
    for platform in toolchain.TARGETS:
        Path(toolchain.launcher_name(platform)).write_text(f"launcher for {platform}")
    monkeypatch.setattr(toolchain, "library", lambda platform: f"library for {platform}".encode())
    monkeypatch.setattr(wasm_package, "compiled_modules", lambda name, module, platforms: {OWN: b"compiled"})
    Path("program.wasm").write_bytes(COPY)
    Path("table.txt").write_text("1 2 3\n")
    Path("python.wasm").write_bytes(COPY)
    monkeypatch.setattr(wasm_package, "python_module", lambda: Path("python.wasm"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with LoopThread(world), connect(world) as project:
        yield project


def test_versions_for_all_platforms_are_made_and_signed_in_one_go_and_share_what_they_can(project: Project):
    app = project.create_app("copy", COMMAND, ["table.txt"], wasm="program.wasm")
    assert {version.platform for version in app.versions} == set(toolchain.TARGETS)
    assert {version.version_num for version in app.versions} == {100}
    assert all(version.signed for version in app.versions)
    files = [[file.file for file in version.files if not file.executable] for version in app.versions]
    assert all(each == files[0] for each in files)
    assert [file.open_name for file in app.versions[0].files if not file.executable] == [
        "program.wasm",
        "cobblestone_wasm.txt",
        "table.txt",
    ]
    own = {file.file for version in app.versions for file in version.files if file.executable}
    assert len(own) == 13
    compiled = {v.platform for v in app.versions for file in v.files if file.open_name == "compiled_module"}
    assert compiled == {OWN}
    for version in app.versions:
        (main,) = [file for file in version.files if file.main_program]
        assert main.file.endswith(".exe") == version.platform.startswith("windows")
        assert version.platform[:18] in main.file  # names are cut for the paths of Windows
    assert any("bit by bit" in line for line in app_lines(app))


def test_a_new_module_is_a_new_version_everywhere_and_cannot_be_forgotten(project: Project):
    project.create_app("copy", COMMAND, wasm="program.wasm")
    with pytest.raises(JobError, match="--wasm FILE"):
        project.update_app("copy", ["table.txt"])
    Path("program.wasm").write_bytes(FOREVER)
    assert project.update_app("copy", [], wasm="program.wasm").version_num == 101
    assert sorted(v.platform for v in project.versions("copy") if v.version_num == 101) == sorted(
        toolchain.TARGETS
    )


def test_some_platforms_only(project: Project):
    app = project.create_app("copy", COMMAND, wasm="program.wasm", platforms=["x86_64-pc-linux-gnu"])
    assert [version.platform for version in app.versions] == ["x86_64-pc-linux-gnu"]


def test_a_module_that_nobody_can_run_makes_no_app(project: Project):
    Path("program.wasm").write_bytes(module("(nop)")[:-3])
    with pytest.raises(JobError, match="not a whole WebAssembly module"):
        project.create_app("copy", COMMAND, wasm="program.wasm")
    with pytest.raises(FileNotFoundError):
        project.create_app("copy", COMMAND, wasm="gone.wasm")
    assert project.apps() == []


def test_files_of_a_platform_that_the_version_is_not_for_are_refused(project: Project):
    app = project.create_app("copy", COMMAND, wasm="program.wasm", platforms=["x86_64-pc-linux-gnu"])
    (version,) = app.versions
    file = VersionFileBody(file=version.files[0].file, open_name="x", main_program=True)
    body = NewVersion(platform="windows_x86_64", files=[file], platform_files={"windows_arm64": [file]})
    with pytest.raises(RequestRefused, match="windows_arm64 is neither the platform nor in also_for"):
        project.connection.call(endpoints.ADD_VERSION, "copy", body=body)


def test_a_portable_python_program_stays_one_when_it_changes(project: Project):
    Path("double.py").write_text("import sys\n")
    words = "python3 double.py {input} {output}"
    app = project.create_app("double", words, ["double.py"], portable=True)
    assert len(app.versions) == len(toolchain.TARGETS)
    assert app.command == ["python", "double.py", "{input}", "{output}"]
    names = [file.open_name for file in app.versions[0].files if not file.executable]
    assert names == ["python.wasm", "cobblestone_wasm.txt", "double.py", "packages.zip"]
    Path("double.py").write_text("import json\n")
    changed = project.update_app("double", ["double.py"])
    assert [file.open_name for file in changed.files if not file.executable] == names
    Path("double.py").write_text("import numpy\n")
    with pytest.raises(JobError, match="it imports numpy"):
        project.update_app("double", ["double.py"])


def test_browsers_get_a_version_of_their_own_whose_module_counts_for_itself(project: Project):
    app = project.create_app("copy", COMMAND, wasm="program.wasm", in_browsers=True, quorum=2)
    (browsers,) = [version for version in app.versions if version.platform == BROWSER_PLATFORM]
    assert browsers.signed
    assert browsers.version_num == app.versions[0].version_num
    (main,) = [file for file in browsers.files if file.main_program]
    assert main.open_name == wasm_package.BROWSER_MODULE
    assert not main.executable
    assert "cobblestone_wasm.txt" in [file.open_name for file in browsers.files]
    assert any("bit by bit" in line for line in app_lines(app))
    project.update_app("copy", [], command=COMMAND, wasm="program.wasm")
    numbers = {version.platform: version.version_num for version in project.app("copy").versions}
    assert numbers[BROWSER_PLATFORM] == numbers["windows_x86_64"] == 101


def test_a_browser_is_never_believed_alone_and_computes_no_other_commands(project: Project):
    with pytest.raises(JobError, match="--quorum 2"):
        project.create_app("copy", COMMAND, wasm="program.wasm", in_browsers=True)
    with pytest.raises(JobError, match="Browsers compute WebAssembly, and Python"):
        project.create_app("list", "cat {input}", stdout="output", in_browsers=True, quorum=2)
    project.create_app("copy", COMMAND, wasm="program.wasm")
    with pytest.raises(JobError, match="--quorum 2"):
        project.update_app("copy", [], command=COMMAND, wasm="program.wasm", browsers=True)


def test_a_bundle_is_for_browsers_too_where_the_project_has_pyodide(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bundle, "make_archive", lambda *_: (gzip.compress(b"archive"), {"numpy"}))
    monkeypatch.setattr(pyodide, "packages_archive", lambda _: b"packages")
    Path("norm.py").write_text("import numpy\n")
    Path("requirements.txt").write_text("numpy\n")
    spec = AppSpec(
        name="norm", command="python3 norm.py {input} {output}", files=["norm.py"], bundle="requirements.txt",
        in_browsers=True, quorum=2, compare="numeric:rtol=1e-6", platforms=["x86_64-pc-linux-gnu", "windows_x86_64"],
    )  # fmt: skip
    with pytest.raises(ConfigError, match="cobblestone project pyodide"):
        project.create_app(spec)
    place = world.ctx.folder.pyodide / known.VERSION
    place.mkdir(parents=True)
    for name in known.SHA256:
        (place / name).write_text("")
    names = {
        each.platform: {file.open_name for file in each.files} for each in project.create_app(spec).versions
    }
    assert names[BROWSER_PLATFORM] == {known.PACKAGES_NAME, PYODIDE_DESCRIPTION_FILE, "norm.py"}
    both = {"cobblestone_bundle", "norm.py", "cobblestone_wasm.txt"}
    linux, windows = names["x86_64-pc-linux-gnu"], names["windows_x86_64"]
    assert linux == {*both, "cobblestone_launcher_x86_64-pc-linux-gnu", "cobblestone_app.json"}
    assert windows == {*both, "cobblestone_launcher_windows_x86_64.exe"}
    assert "the same bit by bit" not in "\n".join(app_lines(project.app("norm")))
