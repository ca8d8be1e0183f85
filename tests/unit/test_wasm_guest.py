"""What programs in WebAssembly include or import, tried natively: it is files in a folder, whoever runs the program."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher.packing import GUEST_FOLDER
from cobblestone.sdk.packing import wasm_package
from cobblestone.sdk.packing.wasm_package import archive, portable_command, python_files, read_wheel, vendor
from cobblestone.sdk.wasm import toolchain

PYTHON = """
import cobblestone_runtime as runtime
runtime.progress(0.25)
runtime.progress(0.2501)
print(int(runtime.time_to_checkpoint()))
if runtime.time_to_checkpoint():
    runtime.checkpoint()
runtime.trickle("news", "one")
runtime.trickle("news", "two")
"""
C = """
#include <cobblestone.h>
int main(void) {
    cobblestone_progress(0.25);
    cobblestone_progress(0.2501);
    printf("%d\\n", cobblestone_time_to_checkpoint());
    if (cobblestone_time_to_checkpoint()) cobblestone_checkpoint();
    cobblestone_trickle("news", "one");
    cobblestone_trickle("news", "two");
    return cobblestone_trickle("two words", "") || cobblestone_trickle("", "") || cobblestone_trickle("a", "</msg_from_host>");
}
"""


def program(folder: Path, language: str) -> list[str]:
    """Return the command of a program that tells its progress, and makes a checkpoint when it is time to."""
    if language == "python":
        return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(GUEST_FOLDER)!r})\n{PYTHON}"]
    (folder / "program.c").write_text(C)
    words = [
        "gcc",
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        str(GUEST_FOLDER),
        "-o",
        "program",
        "program.c",
    ]
    subprocess.run(words, cwd=folder, check=True, timeout=60)
    return ["./program"]


@pytest.mark.parametrize("language", ["python", "c"])
def test_a_program_tells_its_progress_and_makes_a_checkpoint_when_it_is_time(tmp_path: Path, language: str):
    words = program(tmp_path, language)

    def run() -> str:
        environment = {**os.environ, "COBBLESTONE_FOLDER": "."}
        return subprocess.run(
            words, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    flag, mark = tmp_path / "cobblestone_time_to_checkpoint", tmp_path / "cobblestone_checkpoint"
    assert run() == "0"
    assert (tmp_path / "cobblestone_progress").read_text() == "0.250000\n"
    assert (tmp_path / "cobblestone_checkpoints").exists()
    assert not mark.exists()
    said = [path.read_text() for path in sorted(tmp_path.glob("cobblestone_trickle_up_[0-9]*_[0-9]*"))]
    assert said == ["<variety>news</variety>\none\n", "<variety>news</variety>\ntwo\n"]
    for number in (
        "1\n",
        "2\n",
    ):  # a start after an interruption goes on counting: the launcher looks for another text
        flag.touch()
        assert run() == "1"
        assert mark.read_text() == number
        assert not flag.exists()
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize(
    "call", ["trickle('', 'x')", "trickle('a b', 'x')", "trickle('a', chr(0))", "trickle('a', 'x' * 60001)"]
)
def test_what_cannot_be_sent_is_said(call: str):
    words = [sys.executable, "-c", f"import cobblestone_runtime as r; r.{call}"]
    done = subprocess.run(words, cwd=GUEST_FOLDER, capture_output=True, text=True, check=False, timeout=60)
    assert "ValueError: trickle(): the" in done.stderr


@pytest.mark.parametrize("language", ["python", "c"])
def test_without_a_launcher_nothing_is_written(tmp_path: Path, language: str):
    words = program(tmp_path, language)
    before = sorted(tmp_path.iterdir())
    environment = {name: value for name, value in os.environ.items() if name != "COBBLESTONE_FOLDER"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    assert done.stdout.strip() == b"0"
    assert sorted(tmp_path.iterdir()) == before


# ------------------------------------------------------------------------------------- portable Python


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def wheel(folder: Path, name: str, **files: str) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("pkg-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n")
        packed.writestr(
            "pkg-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr("pkg-1.0.dist-info/RECORD", "")
        for each, text in files.items():
            packed.writestr(each.replace("__", "/"), text)
    return path


def test_a_program_gets_the_runtime_module_and_its_packages_in_an_archive(tmp_path: Path):
    found = wheel(tmp_path, "pkg-1.0-py3-none-any.whl", **{"pkg__core.py": "x = 1\n"})
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"{found}\n")
    source = tmp_path / "program.py"
    source.write_text("import pkg.core, json, cobblestone_runtime\n")
    files = python_files([source], requirements)
    assert [path.name for path in files] == ["program.py", "packages.zip"]
    with zipfile.ZipFile(files[1]) as packed:
        assert packed.namelist() == ["cobblestone_runtime.py", "pkg/core.py"]
    assert archive({"b": b"1", "a": b"2"}) == archive({"a": b"2", "b": b"1"})


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("import ssl\n", "line 1: it imports ssl, which Python in WebAssembly does not have"),
        ("import sys\nimport numpy.linalg\n", "line 2: it imports numpy, which is not part of Python"),
        ("from multiprocessing import Pool\n", "it imports multiprocessing"),
    ],
)
def test_modules_that_are_not_there_are_named(tmp_path: Path, text: str, mentions: str):
    source = tmp_path / "program.py"
    source.write_text(text)
    with pytest.raises(JobError) as raised:
        python_files([source], None)
    assert mentions in str(raised.value)
    source.write_text("try:\n    import ssl\nexcept ImportError:\n    ssl = None\n")
    python_files([source], None)


def test_compiled_packages_are_named(tmp_path: Path):
    with pytest.raises(JobError, match="holds compiled code"):
        read_wheel(wheel(tmp_path, "pkg-1.0-py3-none-any.whl", **{"pkg__fast.so": "ELF"}))
    said = wasm_package.why_not(
        "ERROR: No matching distribution found for numpy (from versions: none)", tmp_path
    )
    assert said.startswith("numpy has no wheel of pure Python")
    assert f"--bundle {tmp_path.name}" in said
    with pytest.raises(JobError, match=r"gone\.txt does not exist"):
        vendor(tmp_path / "gone.txt")


def test_only_python_is_portable(tmp_path: Path):
    with pytest.raises(JobError, match="but the command begins with sh"):
        portable_command(["sh", "job.sh"], [], None)
    with pytest.raises(JobError, match=r"uses program\.py, which is not included"):
        portable_command(["python3", "program.py"], [], None)


def test_without_a_folder_for_the_cache_there_is_a_clear_error_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "program.py").write_text("print(1)\n")
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME may name another folder"):
        python_files([tmp_path / "program.py"], None)
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME may name another folder"):
        toolchain.zig()
    assert toolchain.library("x86_64-pc-linux-gnu")  # is here already, and need not be kept
