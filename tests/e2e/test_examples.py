"""The examples, by the very commands of their pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.conftest import LiveProject

EXAMPLES = Path(__file__).parents[2] / "examples"


def commands_of(example: str) -> list[str]:
    """The shell commands under "With cobblestone", without those that make and run the project."""
    text = (EXAMPLES / example / "README.md").read_text()
    block = re.search(r"## With cobblestone.*?```sh\n(.*?)```", text, re.DOTALL)
    assert block
    lines = [line.partition("  #")[0].strip() for line in block[1].replace("\\\n", " ").splitlines()]
    return [line for line in lines if line and "project create" not in line and "cobblestone run" not in line]


def small_exponents(folder: Path) -> None:
    """Three files with small exponents."""
    folder.mkdir(exist_ok=True)
    for number, exponents in enumerate(("521 523", "601 607", "1277 1279")):
        (folder / f"exponents-{number}.txt").write_text("\n".join(exponents.split()) + "\n")


def small_pieces(folder: Path) -> None:
    """Three short stretches of numbers."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in range(3):
        (folder / f"piece-{number}").write_text(f"{1000 + number * 1000} {2000 + number * 1000}\n")


@pytest.mark.parametrize(
    ("example", "make_inputs", "expected"),
    [
        ("mersenne", small_exponents, {"M521 prime", "M523 composite", "M607 prime", "M1279 prime"}),
        ("native", small_pieces, {"135", "127", "120"}),  # primes between 1000 and 2000, and so on
    ],
    ids=["mersenne", "native"],
)
def test_an_example_runs_by_the_commands_of_its_page(
    live: Callable[..., LiveProject], example: str, make_inputs: Callable[[Path], None], expected: set[str]
):
    project = live()
    folder = project.root / example
    shutil.copytree(EXAMPLES / example, folder)
    environment = {**os.environ, "COBBLESTONE_PROJECT": str(project.folder)}
    tool = f'cobblestone() {{ "{sys.executable}" -m cobblestone "$@"; }}\n'
    for command in commands_of(example):
        if "cobblestone submit" in command:
            make_inputs(folder / "inputs")
        if "cobblestone batch results" not in command:
            done = subprocess.run(
                ["bash", "-c", tool + command], cwd=folder, capture_output=True, text=True, env=environment
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    clients = [project.volunteer("alice"), project.volunteer("bob")]
    batch = project.project.batch(1)
    project.wait_for_batch(batch, *clients, seconds=200)
    assert (batch.status().n_success, batch.status().n_error) == (3, 0)
    text = " ".join(result.text() for result in batch.results(timeout=60))
    assert [phrase for phrase in expected if not re.search(rf"\b{phrase}\b", text)] == []
