"""The examples give right answers, also after an interruption, and with nothing but what they say they need."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lxml import etree
from tests.helpers.launcher_slot import CONTROL, Slot, open_slot, until

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Stands in for the runtime library: checkpoints whenever asked, and dies after some of them.
DYING_RUNTIME = """
import os
LEFT = [{checkpoints}]
def progress(fraction):
    assert 0 <= fraction <= 1
def job_info():
    return {{"gpu": -1}}
def time_to_checkpoint():
    return True
def checkpoint():
    LEFT[0] -= 1
    if LEFT[0] == 0:
        os._exit(77)
"""


def copy_of(name: str, folder: Path) -> Path:
    ignored = shutil.ignore_patterns("inputs", "results", "__pycache__", "gaps", "try", "spectrum_*")
    return Path(shutil.copytree(EXAMPLES / name, folder / name, ignore=ignored))


def python(folder: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def run_with_interruptions(folder: Path, program: str, given: str, every: int) -> tuple[bytes, int]:
    """Run a program that dies after each ``every`` checkpoints, until it ends; return its output and the deaths."""
    (folder / "cobblestone_runtime.py").write_text(DYING_RUNTIME.format(checkpoints=every))
    for deaths in range(1000):
        done = subprocess.run([sys.executable, program, given, "interrupted"], cwd=folder, timeout=60)
        if done.returncode == 0:
            (folder / "cobblestone_runtime.py").unlink()
            return (folder / "interrupted").read_bytes(), deaths
        assert done.returncode == 77
    raise AssertionError("it never came to an end")


# -- sunspots


@pytest.fixture
def sunspots(tmp_path: Path) -> Path:
    return copy_of("sunspots", tmp_path)


def make_bands(folder: Path, *, bands: int, n_bootstrap: int, oversampling: int = 4) -> list[str]:
    code = f"""
import json, make_inputs
for one in make_inputs.make_inputs(bands={bands}, n_bootstrap={n_bootstrap}, oversampling={oversampling}):
    with open("in-%d-{bands}.json" % one["band"], "w") as file:
        json.dump(one, file)
"""
    python(folder, "-c", code)
    return [f"in-{band}-{bands}.json" for band in range(bands)]


def search(folder: Path, **options: int) -> list[str]:
    """Compute all bands; return the names of the results."""
    results: list[str] = []
    for name in make_bands(folder, **options):
        results.append(name.replace("in", "out"))
        python(folder, "period.py", name, results[-1])
    return results


def test_the_data_are_those_whose_provenance_is_told(sunspots: Path) -> None:
    digest = hashlib.sha256((sunspots / "sunspots.csv").read_bytes()).hexdigest()
    assert f"`{digest}`" in (sunspots / "PROVENANCE.md").read_text()


def test_the_spectrum_shows_the_eleven_year_cycle(sunspots: Path) -> None:
    results = search(sunspots, bands=3, n_bootstrap=30)
    said = python(sunspots, "-S", "merge.py", *results)  # -S: without matplotlib
    period = re.search(r"Strongest period: ([\d.]+) years", said)
    assert period
    assert 10.5 < float(period[1]) < 11.5
    assert "p <= 0.03" in said  # 1 / 31: none of the shuffled series came near
    rows = (sunspots / "spectrum.csv").read_text().splitlines()
    assert rows[0] == "period_years,cycles_per_year,power"
    highest = max((row.split(",") for row in rows[1:]), key=lambda row: float(row[2]))
    assert 10.5 < float(highest[0]) < 11.5
    picture = (sunspots / "spectrum.svg").read_bytes()
    words = etree.fromstring(picture).itertext()
    assert f"{float(period[1]):.1f} years" in list(words)
    assert b"prefers-color-scheme: dark" in picture


def test_the_significance_does_not_depend_on_how_the_work_is_split(sunspots: Path) -> None:
    code = "import sys, json, merge; print(merge.Spectrum([json.load(open(n)) for n in sys.argv[1:]]).maxima)"
    whole = python(sunspots, "-c", code, *search(sunspots, bands=1, n_bootstrap=10, oversampling=2))
    split = python(sunspots, "-c", code, *search(sunspots, bands=4, n_bootstrap=10, oversampling=2))
    assert json.loads(split) == pytest.approx(json.loads(whole), rel=1e-12)


def test_results_of_different_searches_are_not_mixed(sunspots: Path) -> None:
    results = search(sunspots, bands=2, n_bootstrap=1, oversampling=1)
    other = search(sunspots, bands=3, n_bootstrap=1, oversampling=1)
    assert "belongs to another search" in python(sunspots, "merge.py", results[0], other[1], status=1)


@pytest.mark.parametrize("every", [1, 4])
def test_an_interrupted_band_gives_the_same_bytes(sunspots: Path, every: int) -> None:
    (name,) = make_bands(sunspots, bands=1, n_bootstrap=9, oversampling=1)
    python(sunspots, "period.py", name, "straight")
    output, deaths = run_with_interruptions(sunspots, "period.py", name, every)
    assert deaths == 9 // every
    assert output == (sunspots / "straight").read_bytes()
    assert not list(sunspots.glob("*.checkpoint"))


def test_a_band_quit_by_the_client_continues_to_the_same_bytes(sunspots: Path, tmp_path: Path) -> None:
    (name,) = make_bands(sunspots, bands=1, n_bootstrap=600, oversampling=1)
    (tmp_path / "slot").mkdir()
    with open_slot(tmp_path / "slot") as slot:
        shutil.copy(sunspots / name, slot.folder / "in.json")
        program = (sunspots / "period.py").read_text()
        command = ["python3", "program.py", "{input}", "{output}"]
        options = ["--input", "input=in.json", "--output", "output=out.json"]
        slot.start(program, options, command=command, change="r.STATUS_SECONDS = 0.05")
        slot.status(lambda seen: seen["fraction_done"] > 0)
        slot.send(CONTROL, "<quit/>")
        assert slot.wait() == 0
        assert 0 < len(json.loads(slot.read("out.json.checkpoint"))) < 600
        assert slot.run(program, options, command=command) == 0
        python(sunspots, "period.py", name, "straight")
        assert slot.read("out.json") == (sunspots / "straight").read_text()


@dataclass
class FinishedWorkunit:
    """What the server hands to ``assimilate``."""

    name: str
    folder: Path
    outputs: dict[str, Path] = field(default_factory=dict[str, Path])
    succeeded: bool = True
    error: str | None = None
    batch_id: int = 1


@pytest.fixture
def assimilate(sunspots: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.syspath_prepend(str(sunspots))
    import assimilate as module  # type: ignore[import-not-found]  # of the example

    yield module.assimilate
    for name in ("assimilate", "merge", "picture", "make_inputs"):
        sys.modules.pop(name, None)


def test_the_assimilator_may_be_repeated_and_merges_what_is_there(sunspots: Path, assimilate) -> None:
    folder = sunspots / "answers"
    once: dict[str, bytes] = {}
    answer: dict[str, float] = {}
    for band, result in enumerate(search(sunspots, bands=2, n_bootstrap=3, oversampling=3)):
        workunit = FinishedWorkunit(f"wu_{band}", folder, {"output.json": sunspots / result})
        assimilate(workunit)
        once = {path.name: path.read_bytes() for path in (folder / "batch-1").glob("*.*")}
        assimilate(workunit)
        assert {path.name: path.read_bytes() for path in (folder / "batch-1").glob("*.*")} == once
        answer = json.loads(once["answer.json"])
        assert answer["missing_bands"] == 1 - band
    assert set(once) == {"answer.json", "spectrum.csv", "spectrum.svg"}
    assert 10.5 < answer["period_years"] < 11.5


def test_the_assimilator_notes_a_workunit_without_an_answer(sunspots: Path, assimilate) -> None:
    assimilate(FinishedWorkunit("wu_7", sunspots, succeeded=False, error="too many errors"))
    assert (sunspots / "batch-1" / "wu_7.failed.txt").read_text() == "too many errors\n"


# -- mersenne


@pytest.fixture
def mersenne(tmp_path: Path) -> Path:
    return copy_of("mersenne", tmp_path)


def test_the_known_mersenne_primes_are_found(mersenne: Path) -> None:
    (mersenne / "in").write_text("".join(f"{exponent}\n" for exponent in range(2, 1300)))
    python(mersenne, "lucas_lehmer.py", "in", "out")
    lines = (mersenne / "out").read_text().splitlines()
    assert len(lines) == 1298
    found = [int(line.split()[0][1:]) for line in lines if line.split()[1] == "prime"]
    assert found == [2, 3, 5, 7, 13, 17, 19, 31, 61, 89, 107, 127, 521, 607, 1279]
    assert "M11 composite 00000000000006c8" in lines  # 1736, by hand
    assert "M9 composite, since 9 is" in lines


@pytest.mark.parametrize("every", [1, 3])
def test_an_interrupted_test_gives_the_same_bytes(mersenne: Path, every: int) -> None:
    (mersenne / "in").write_text("1277\n1279\n89\n")
    python(mersenne, "lucas_lehmer.py", "in", "straight")
    output, deaths = run_with_interruptions(mersenne, "lucas_lehmer.py", "in", every)
    assert deaths == 12 // every
    assert output == (mersenne / "straight").read_bytes()
    assert not list(mersenne.glob("*.checkpoint"))


@pytest.mark.parametrize("word", ["1", "-3", "x", "10000001"])
def test_a_wrong_exponent_is_named_with_its_line(mersenne: Path, word: str) -> None:
    (mersenne / "in").write_text(f"13  # fine\n{word}\n")
    said = python(mersenne, "lucas_lehmer.py", "in", "out", status=1)
    assert f"in, line 2: '{word}' is not an exponent" in said


def test_the_inputs_are_prime_exponents(mersenne: Path) -> None:
    python(mersenne, "make_inputs.py", "--first", "80", "--last", "110", "--per-file", "4")
    texts = [path.read_text() for path in sorted((mersenne / "inputs").iterdir(), reverse=True)]
    assert texts == ["83\n89\n97\n101\n", "103\n107\n109\n"]


# -- native


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_of("native", tmp_path_factory.mktemp("native"))
    flags = "CFLAGS=-O2 -Wall -Wextra -Werror -std=c11"
    subprocess.run(["make", flags, "gaps", "inputs"], cwd=folder, check=True, capture_output=True, timeout=50)
    return folder / "gaps"


def count(gaps: Path, folder: Path, first: int, last: int) -> dict[str, list[int]]:
    folder.mkdir()
    (folder / "input").write_text(f"{first} {last}\n")
    subprocess.run([gaps], cwd=folder, check=True, timeout=50)
    lines = (folder / "output").read_text().splitlines()
    return {line.split()[0]: [int(word) for word in re.findall(r"\d+", line)] for line in lines}


def test_the_native_program_counts_right(gaps: Path, tmp_path: Path) -> None:
    found = count(gaps, tmp_path / "million", 0, 1_000_000)
    expected = {"interval": [0, 1_000_000], "primes": [78498], "twins": [8169], "largest_gap": [114, 492113]}
    assert found == expected


def test_neighbouring_intervals_add_up(gaps: Path, tmp_path: Path) -> None:
    edges = [0, 3, 24, 500_009, 10_000_000]  # two of them primes, one within a gap
    parts = [count(gaps, tmp_path / f"{first}", first, last) for first, last in itertools.pairwise(edges)]
    assert sum(part["primes"][0] for part in parts) == 664579
    assert sum(part["twins"][0] for part in parts) == 58980
    assert max(part["largest_gap"] for part in parts) == [154, 4652353]


@pytest.mark.parametrize("text", ["", "7", "9 9", "0 1000000000000001", "a b"])
def test_the_native_program_refuses_a_wrong_input(gaps: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "input").write_text(text)
    assert subprocess.run([gaps], cwd=tmp_path, timeout=50).returncode == 1
    assert re.search(r"gaps: (the input must|FIRST must)", (tmp_path / "stderr.txt").read_text())


UNINTERRUPTED = """interval 1000000000000 1002000000000
primes 72381054
twins 3456503
largest_gap 462 after 1001473527781
"""


def test_the_native_program_reports_and_continues_after_a_quit(gaps: Path, tmp_path: Path) -> None:
    (tmp_path / "slot").mkdir()
    with open_slot(tmp_path / "slot") as slot:
        slot.write_init_data(checkpoint_period=1)  # the API takes whole seconds
        slot.write("input", "1000000000000 1002000000000\n")
        start_native(slot, gaps)
        until(lambda: slot.exists("gaps_state"))
        slot.send(CONTROL, "<quit/>")
        assert slot.wait() == 0
        assert not slot.exists("output")
        start_native(slot, gaps)
        assert slot.status(lambda seen: seen["fraction_done"] > 0)
        assert slot.wait(100) == 0  # it computes with the lowest priority
        assert "gaps: continuing at" in slot.read("stderr.txt")
        assert slot.read("output") == UNINTERRUPTED


def start_native(slot: Slot, gaps: Path) -> None:
    with (slot.folder / "stderr.txt").open("ab") as stderr:
        slot.process = subprocess.Popen([gaps], cwd=slot.folder, stderr=stderr)


# -- all


@pytest.mark.parametrize("program", ["sunspots/period.py", "mersenne/lucas_lehmer.py"])
def test_what_volunteers_run_needs_only_python_3_6(program: str) -> None:
    tree = ast.parse((EXAMPLES / program).read_text(), feature_version=(3, 6))
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    assert modules - {"cobblestone_runtime"} <= sys.stdlib_module_names


# -- gpu


@pytest.fixture
def on_gpu(tmp_path: Path) -> Path:
    folder = copy_of("gpu", tmp_path)
    shutil.copytree(EXAMPLES / "sunspots", tmp_path / "sunspots")
    subprocess.run(
        ["make", "CFLAGS=-O3 -Wall -Wextra -Werror -std=c11", "spectrum_cpu"], cwd=folder, check=True
    )
    python(folder, "make_inputs.py", "--jobs", "1", "--shuffles", "2500", "--oversampling", "1")
    return folder


def test_numpy_and_c_agree_also_after_interruptions(on_gpu: Path) -> None:
    given = "inputs/shuffles-0.txt"
    output, deaths = run_with_interruptions(on_gpu, "spectrum.py", given, 1)
    assert deaths == 3
    subprocess.run([on_gpu / "spectrum_cpu", given, "in_c"], cwd=on_gpu, check=True, timeout=60)
    pairs = [line.rsplit(" ", 1) for line in output.decode().splitlines()]
    in_c = [line.rsplit(" ", 1) for line in (on_gpu / "in_c").read_text().splitlines()]
    assert [name for name, _ in in_c] == [name for name, _ in pairs]
    assert [float(number) for _, number in in_c] == pytest.approx(
        [float(number) for _, number in pairs], rel=1e-4
    )
    said = python(on_gpu, "merge.py", "in_c")
    assert "Strongest period: 10.12 years; it explains 15.2%" in said  # on a coarse grid
    assert "p <= 4.0e-04" in said


def test_the_powers_are_those_of_the_sunspots_example(on_gpu: Path) -> None:
    code = """
import sys; sys.path.append("../sunspots")
import period, spectrum
job, years, values = spectrum.read("inputs/shuffles-0.txt")
frequencies = [job["lowest"] + n * job["step"] for n in range(int(job["frequencies"]))]
powers = [period.power(period.normalise(list(values)), period.waves(list(years), f)) for f in frequencies]
print(max(powers), 1 / frequencies[powers.index(max(powers))])
"""
    power, years = map(float, python(on_gpu, "-c", code).split())
    python(on_gpu, "spectrum.py", "inputs/shuffles-0.txt", "answer")
    assert (on_gpu / "answer").read_text().splitlines()[1:3] == [f"power {power:.6g}", f"period {years:.6g}"]


def test_a_program_in_c_saves_its_work_when_it_is_told_to_quit(on_gpu: Path) -> None:
    python(on_gpu, "make_inputs.py", "--jobs", "1", "--shuffles", "12000", "--oversampling", "1")
    words = [on_gpu / "spectrum_cpu", "inputs/shuffles-0.txt", "answer"]
    running = subprocess.Popen(words, cwd=on_gpu, env={"COBBLESTONE_FOLDER": "."})
    until((on_gpu / "cobblestone_progress").exists)
    running.terminate()
    assert running.wait(60) == 1
    saved = (on_gpu / "answer.checkpoint").stat().st_size
    assert 0 < saved < 4 * 12000
    subprocess.run(words, cwd=on_gpu, check=True, timeout=60)
    interrupted = (on_gpu / "answer").read_bytes()
    subprocess.run([*words[:2], "straight"], cwd=on_gpu, check=True, timeout=60)
    assert interrupted == (on_gpu / "straight").read_bytes()
