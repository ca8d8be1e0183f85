"""What is installed: pins that agree with pyproject.toml, and a wheel that holds everything."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import cobblestone

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+?))? \\$", re.MULTILINE
)
PYTHONS = ("3.11", "3.12", "3.13")


def pins(name: str, python: str = "3.11") -> dict[str, str]:
    """Names and versions in a requirements file, for a Python on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    text = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")
    return {
        canonicalize_name(match["name"]): match["version"]
        for match in PIN.finditer(text)
        if match["marker"] is None or Marker(match["marker"]).evaluate(environment)
    }


def wanted(*lists: list[Any]) -> list[Requirement]:
    return [Requirement(item) for items in lists for item in items if isinstance(item, str)]


@pytest.mark.parametrize("name", ["core", "lab", "dev"])
def test_every_pin_has_a_hash_and_no_line_has_an_address(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"\w+://\S*|^--?(?!-hash).*|^-.*", text, flags=re.MULTILINE) == []


@pytest.mark.parametrize("python", PYTHONS)
def test_the_pins_satisfy_pyproject(python: str) -> None:
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    extras = [project["optional-dependencies"][name] for name in ("postgres", "lab", "sweep")]
    for name, lists in {
        "core": [project["dependencies"], groups["build"]],
        "lab": [project["dependencies"], groups["build"], project["optional-dependencies"]["lab"]],
        "dev": [project["dependencies"], groups["build"], groups["dev"], *extras],
    }.items():
        pinned = pins(name, python)
        missing = [
            str(r) for r in wanted(*lists) if pinned.get(canonicalize_name(r.name), "0") not in r.specifier
        ]
        assert missing == [], f"requirements/{name}.txt is older than pyproject.toml: run `make lock`"


@pytest.mark.parametrize("python", PYTHONS)
def test_all_pins_agree_so_that_one_environment_serves_everything(python: str) -> None:
    development = pins("dev", python)
    for name in ("core", "lab"):
        few = pins(name, python)
        assert {name: development.get(name) for name in few} == few


def test_the_core_runs_server_and_client_and_brings_no_other_extra() -> None:
    lists = PROJECT["project"]["optional-dependencies"]
    of_client = {canonicalize_name(each.name) for each in wanted(lists["client"])}
    others = {canonicalize_name(each.name) for each in wanted(*lists.values())} - of_client
    assert of_client <= pins("core").keys()
    assert others.isdisjoint(pins("core"))


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"cobblestone-{cobblestone.__version__}-py3-none-any.whl"
    packed = set(zipfile.ZipFile(wheel).namelist())

    listing = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    tracked = {name.removeprefix("src/") for name in listing if (ROOT / name).exists()}
    missing = {name for name in tracked - packed if not name.endswith("/ruff.toml")}
    assert missing == set()
    assert "cobblestone/store/schema/migrations/script.py.mako" in packed
    assert "cobblestone/examples/sunspots/period.py" in packed


def test_worker_processes_may_load_the_main_module_without_running_a_command():
    assert callable(runpy.run_path(str(ROOT / "src/cobblestone/__main__.py"), run_name="__mp_main__")["main"])
