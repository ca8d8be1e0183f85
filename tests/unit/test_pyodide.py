"""Pyodide's files, and what is said of programs that it shall run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cobblestone.domain import pyodide as known
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.sdk import apps
from cobblestone.sdk.app_definition import AppSpec
from cobblestone.sdk.packing import pyodide
from cobblestone.sdk.packing.app_package import Command
from cobblestone.sdk.packing.dependencies import NoWheelError


def test_only_the_files_of_the_known_version_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"pyodide\.mjs cannot be read.*must hold pyodide\.mjs"):
        pyodide.read_pyodide(tmp_path)
    for name in known.SHA256:
        (tmp_path / name).write_bytes(name.encode())
    with pytest.raises(ConfigError, match=r"pyodide\.mjs is not that of Pyodide 314"):
        pyodide.read_pyodide(tmp_path)
    right = {name: hashlib.sha256(name.encode()).hexdigest() for name in known.SHA256}
    monkeypatch.setattr(known, "SHA256", right)
    assert pyodide.read_pyodide(tmp_path) == {name: name.encode() for name in right}


def test_a_package_without_a_wheel_for_browsers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def none(*_: object) -> None:
        raise NoWheelError("numpy")

    monkeypatch.setattr(pyodide, "install_wheels", none)
    with pytest.raises(JobError, match=r"numpy has no wheel for browsers .*PIP_FIND_LINKS"):
        pyodide.packages_archive(tmp_path / "requirements.txt")


def test_packages_and_the_runtime_make_the_same_archive_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def install(_requirements: Path, packages: Path, *_: object) -> None:
        (packages / "thing" / "__pycache__").mkdir(parents=True)
        (packages / "thing" / "__pycache__" / "a.pyc").write_bytes(b"x")
        (packages / "thing" / "__init__.py").write_text("1\n")

    monkeypatch.setattr(pyodide, "install_wheels", install)
    first = pyodide.packages_archive(tmp_path)
    assert first == pyodide.packages_archive(tmp_path)
    assert b"thing/__init__.py" in first
    assert b"cobblestone_runtime.py" in first
    assert b"a.pyc" not in first
    monkeypatch.setattr(pyodide, "MAX_PACKAGES_BYTES", 1)
    with pytest.raises(JobError, match="more than the 0 MB"):
        pyodide.packages_archive(tmp_path)


@pytest.mark.parametrize(
    ("words", "program", "mentions"),
    [
        (["python3", "-m", "norm"], b"", "not '-m'"),
        (["python3", "norm.py"], b"import curses\n", "imports curses"),
        (["python3", "norm.py"], b"import scipy\n", "imports scipy"),
    ],
)
def test_a_program_that_browsers_could_not_run_is_refused(words: list[str], program: bytes, mentions: str):
    with pytest.raises(JobError, match=mentions):
        pyodide.check_program(Command(words=words, installed={"numpy"}), {"norm.py": program})
    pyodide.check_program(
        Command(words=["python3", "norm.py"], installed={"numpy"}), {"norm.py": b"import numpy\n"}
    )


def test_answers_of_compiled_packages_in_browsers_are_not_compared_bit_by_bit():
    spec = AppSpec(
        name="norm", command="python3 norm.py {input} {output}", bundle="r.txt", in_browsers=True, quorum=2
    )
    with pytest.raises(JobError, match=r"different last bits in a browser.*--compare numeric:rtol=1e-6"):
        apps.AppMethods(None).create_app(spec)  # type: ignore[arg-type]  # the project is not asked
