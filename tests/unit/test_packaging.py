"""What is installed: lists of requirements that need nothing else, and a wheel that holds everything."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools import lock

import cobblestone

ROOT = Path(__file__).parents[2]
#: What markers of requirements look at, for each Python and system that a list must serve.
PYTHONS = ("3.11.0", "3.11.2", "3.11.14", "3.12.1", "3.13.0", "3.14.0", "3.15.0")
SYSTEMS = (
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"},
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "aarch64"},
    {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64"},
    {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"},
)
ENVIRONMENTS = [
    {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "implementation_name": "cpython",
        "implementation_version": python,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_version": "",
        **system,
    }
    for python in PYTHONS
    for system in SYSTEMS
]


@pytest.mark.parametrize("name", ["core", "lab", "dev"])
def test_every_pin_has_a_hash_and_no_line_has_an_address(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"\w+://\S*|^--?(?!-hash).*|^-.*", text, flags=re.MULTILINE) == []


def test_what_is_installed_from_a_list_does_not_depend_on_the_day() -> None:
    """pip and uv must look for nothing beyond the list (``--no-deps``), and build nothing, which takes the newest tools."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tools").glob("*.sh")]
    texts += [(ROOT / "Makefile").read_text(encoding="utf-8"), (ROOT / ".ci/run").read_text(encoding="utf-8")]
    commands = re.findall(r"pip install (?:\\\n|.)*?--requirement", "\n".join(texts))
    assert len(commands) == 3
    assert [command for command in commands if " $as_listed " not in command] == []
    assert 'as_listed="--no-deps --require-hashes --only-binary :all:"\n' in "".join(texts)


@pytest.mark.parametrize("name", lock.LISTS)
def test_a_list_names_everything_that_it_needs_on_each_python_and_system(name: str) -> None:
    walks = [lock.walk(name, environment) for environment in ENVIRONMENTS]
    lacking = {text for _, texts in walks for text in texts}
    assert lacking == set(), f"requirements/{name}.txt is not closed: run `make lock`"
    used = set[str]().union(*(used for used, _ in walks))
    pins = {f"{canonicalize_name(match['name'])}=={match['version']}" for match in lock.pins_of(name)}
    assert pins - used == set(), "needed by nothing"


def test_a_list_without_a_needed_pin_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    text = lock.list_text("dev")
    monkeypatch.setattr(lock, "list_text", lambda name: re.sub(r"(?m)^coverage==", "unheard-of==", text))
    _, lacking = lock.walk("dev", ENVIRONMENTS[0])
    assert [line.partition(" needs ")[0].partition("==")[0] for line in lacking] == ["pytest-cov"]


def test_the_metadata_are_those_of_the_pinned_packages() -> None:
    needs = lock.metadata()
    assert set(needs) == {match["pin"] for match in lock.pins_of("dev")}, "run `make lock`"
    compared = 0
    for match in lock.pins_of("dev"):
        installed = lock.installed_needs(match["name"], match["version"])
        if installed is not None:
            assert sorted(installed) == needs[match["pin"]], f"{match['pin']}: run `make lock`"
            compared += 1
    assert compared > 150


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda each: f"{each['python_full_version']}")
def test_all_pins_agree_so_that_one_environment_serves_everything(environment: dict[str, str]) -> None:
    development = lock.pinned("dev", environment)
    for name in ("core", "lab"):
        few = lock.pinned(name, environment)
        assert {name: development.get(name) for name in few} == few


def test_the_core_runs_server_and_client_and_brings_no_other_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        extra: {canonicalize_name(Requirement(line).name) for line in lines}
        for extra, lines in project["optional-dependencies"].items()
    }
    others = set[str]().union(*extras.values()) - extras["client"]
    core = lock.pinned("core", ENVIRONMENTS[0]).keys()
    assert extras["client"] <= core
    assert others.isdisjoint(core)


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"cobblestone-{cobblestone.__version__}-py3-none-any.whl"
    packed = set(zipfile.ZipFile(wheel).namelist())

    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "src"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    tracked = {name.removeprefix("src/") for name in listing if (ROOT / name).exists()}
    missing = {name for name in tracked - packed if not name.endswith("/ruff.toml")}
    assert missing == set()
    assert "cobblestone/store/schema/migrations/env.py" in packed
    assert "cobblestone/examples/sunspots/period.py" in packed
    assert_shows_its_documentation(wheel, tmp_path / "installed")


def assert_shows_its_documentation(wheel: Path, place: Path) -> None:
    """``cobblestone docs`` of an unpacked wheel, elsewhere than in the checkout."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(place)
    command = [sys.executable, "-u", "-m", "cobblestone", "docs", "--port", "0"]
    path = {**os.environ, "PYTHONPATH": str(place)}
    with subprocess.Popen(command, cwd=place, env=path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[2]
            for page, words in (("", "Volunteer computing"), ("docs/glossary.md", "quorum")):
                answer = httpx.get(address + page, timeout=30, trust_env=False)
                assert words in answer.text
            picture = httpx.get(f"{address}docs/pictures/job.svg", timeout=30, trust_env=False)
            assert picture.headers["content-type"].startswith("image/svg")
        finally:
            process.terminate()


def test_worker_processes_may_load_the_main_module_without_running_a_command():
    assert callable(runpy.run_path(str(ROOT / "src/cobblestone/__main__.py"), run_name="__mp_main__")["main"])
