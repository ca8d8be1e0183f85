"""The example in C: its numbers, and that an interruption changes none of its bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.eventually import eventually

from cobblestone.launcher.packing import GUEST_FOLDER

EXAMPLE = Path(__file__).parents[2] / "examples" / "wasm"
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")


@pytest.fixture(scope="module")
def orbits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("orbits") / "orbits"
    words = ["gcc", *FLAGS, "-I", str(GUEST_FOLDER), "-o", str(program), str(EXAMPLE / "orbits.c"), "-lm"]
    subprocess.run(words, check=True, timeout=60)
    return program


def make_input(folder: Path, years: int) -> Path:
    folder.mkdir(parents=True)
    words = [sys.executable, str(EXAMPLE / "make_inputs.py"), "--systems", "2", "--years", str(years)]
    subprocess.run([*words, "--folder", str(folder)], check=True, capture_output=True, timeout=60)
    return folder / "system-01.txt"


def run(orbits: Path, folder: Path, given: Path) -> bytes:
    subprocess.run([str(orbits), str(given), "output"], cwd=folder, check=True, timeout=60)
    return (folder / "output").read_bytes()


def test_the_orbits_begin_as_they_are_and_the_energy_keeps(orbits: Path, tmp_path: Path):
    text = run(orbits, tmp_path, make_input(tmp_path / "inputs", 400)).decode()
    head, names, first, *_ = text.splitlines()
    assert float(head.split("changed by")[1].split()[0]) < 1e-6
    found = dict(zip(names.split()[1:], map(float, first.split()[1:]), strict=True))
    known = {
        "mercury": 0.2056,
        "venus": 0.0068,
        "earth": 0.0167,
        "mars": 0.0934,
    }  # textbooks, of the year 2000
    assert found == pytest.approx(known, abs=2e-4)
    words = [sys.executable, str(EXAMPLE / "merge.py"), str(tmp_path / "output")]
    table = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
    assert "0.0167" in table


def test_what_was_interrupted_goes_on_where_it_was_with_the_same_bytes(orbits: Path, tmp_path: Path):
    given = make_input(tmp_path / "inputs", 4000)
    expected = run(orbits, tmp_path, given)
    folder = tmp_path / "interrupted"
    folder.mkdir()
    (folder / "cobblestone_time_to_checkpoint").touch()
    words = [str(orbits), str(given), "output"]
    process = subprocess.Popen(words, cwd=folder, env={**os.environ, "COBBLESTONE_FOLDER": "."})
    eventually((folder / "cobblestone_checkpoint").exists, pause=0.002)
    process.kill()
    process.wait()
    assert (folder / "state").exists()
    assert not (folder / "output").exists()
    assert run(orbits, folder, given) == expected


def test_an_input_that_makes_no_sense_is_refused(orbits: Path, tmp_path: Path):
    given = tmp_path / "input"
    given.write_text((EXAMPLE / "planets.txt").read_text())
    done = subprocess.run([str(orbits), str(given), "output"], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"make no sense" in done.stderr
