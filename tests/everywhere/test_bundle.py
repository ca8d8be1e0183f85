"""Bundles with NumPy, from a mirror with Debian's Python, on a computer without Python, under Debian's stock client.

It needs uv (``pip install uv``) and Debian's python3 with its standard library.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
from joblib import Parallel, delayed, parallel_config
from tests.e2e.conftest import LiveProject, live  # noqa: F401  # a fixture
from tests.e2e.test_wasm import without_python

import cobblestone.joblib
from cobblestone.sdk.api.jobs import Job

PLATFORM = "x86_64-pc-linux-gnu"
PYTHON = "3.11.2"
PROGRAM = """
import sys
import numpy
import cobblestone_runtime as runtime
runtime.progress(0.5)
values = numpy.array([float(word) for word in open(sys.argv[1]).read().split()])
open(sys.argv[2], "w").write(f"{numpy.linalg.norm(values):.6f} {'cobblestone_python/' in sys.executable}")
"""
SITE = "import os, site\nsite.addsitedir(os.path.join(os.path.dirname(__file__), 'site-packages'))\n"


def make_mirror(folder: Path) -> Path:
    """Assemble a relocatable Python from Debian's; return the list that uv reads."""
    stage = folder / "stage" / "python"
    library = stage / "lib" / "python3.11"
    (stage / "bin").mkdir(parents=True)
    shutil.copy("/usr/bin/python3.11", stage / "bin" / "python3.11")
    (stage / "bin" / "python3").symlink_to("python3.11")
    left_out = shutil.ignore_patterns("test", "idlelib", "config-*", "__pycache__", "sitecustomize.py")
    shutil.copytree("/usr/lib/python3.11", library, ignore=left_out, ignore_dangling_symlinks=True)
    (library / "site-packages").mkdir()
    (library / "sitecustomize.py").write_text(SITE)
    archive = folder / "cpython.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(stage, "python")
    major, minor, patch = map(int, PYTHON.split("."))
    entry = {
        "name": "cpython", "arch": {"family": "x86_64", "variant": None}, "os": "linux", "libc": "gnu",
        "major": major, "minor": minor, "patch": patch, "prerelease": "", "url": archive.as_uri(),
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(), "variant": None, "build": "20240101",
    }  # fmt: skip
    known = folder / "downloads.json"
    known.write_text(json.dumps({f"cpython-{PYTHON}-linux-x86_64-gnu": entry}))
    return known


def test_a_program_with_numpy_runs_where_no_python_is(
    live: Callable[..., LiveProject],  # noqa: F811  # the fixture
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    project = live()
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", str(make_mirror(mirror)))
    (project.root / "norm.py").write_text(PROGRAM)
    (project.root / "requirements.txt").write_text("numpy<2.3\n")
    project.cli(
        "app", "create", "norm", "--project", str(project.folder), "--command", "python3 norm.py {input} {output}",
        "--files", str(project.root / "norm.py"), "--bundle", str(project.root / "requirements.txt"),
        "--bundle-python", PYTHON, "--platform", PLATFORM,
    )  # fmt: skip
    (project.root / "input").write_text("3 4\n")
    batch = project.project.submit(
        "norm", [Job(inputs=[project.root / "input"]), Job(inputs=[project.root / "input"])]
    )
    without_python(tmp_path / "bin", monkeypatch)
    client = project.volunteer("alice")
    project.wait_for_batch(batch, client, seconds=300)
    assert [result.text() for result in batch.results(timeout=60)] == ["5.000000 True"] * 2


def test_functions_of_joblib_run_where_no_python_is(
    live: Callable[..., LiveProject],  # noqa: F811  # the fixture
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    project = live()
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", str(make_mirror(mirror)))
    (project.root / "requirements.txt").write_text("numpy\n")
    cobblestone.joblib.create_app(
        bundle=project.root / "requirements.txt", project=project.folder, platforms=[PLATFORM]
    )

    def spread(values: numpy.ndarray, scale: int) -> tuple[numpy.ndarray, bool]:
        return values * scale, "cobblestone_python/" in sys.executable

    def compute() -> list:
        values = numpy.arange(50_000.0)
        with parallel_config("cobblestone", project=project.project):
            return list(Parallel()(delayed(spread)(values, scale) for scale in (2, 3)))

    without_python(tmp_path / "bin", monkeypatch)
    client = project.volunteer("alice")
    with ThreadPoolExecutor() as pool:
        answers = pool.submit(compute)
        project.wait(answers.done, client, seconds=300, what="answers")
    (twice, bundled), (thrice, _) = answers.result()
    assert bundled
    assert (twice[-1], thrice[-1]) == (99_998.0, 149_997.0)
