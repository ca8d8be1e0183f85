"""The examples on Linux and on Windows under wine: the same bytes; ``pytest -s`` shows the CPU times beside native ones."""

from __future__ import annotations

import random
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.everywhere.conftest import Windows
from tests.helpers.launcher_slot import until
from tests.helpers.wasm_slot import open_wasm_slot

from cobblestone.launcher.packing import GUEST_FOLDER
from cobblestone.sdk.packing.app_package import read_files
from cobblestone.sdk.packing.wasm_package import PACKAGES_FILE, compile_source, portable_command
from cobblestone.sdk.wasm.one_nan import with_one_nan

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = ("--input", "input=input", "--output", "output=output")
SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Example:
    """A program as a module and natively, with an input."""

    module: bytes
    words: Sequence[str]
    native: Sequence[str]
    given: bytes
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    environment: dict[str, str] = field(default_factory=dict[str, str])


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_native(example: Example, folder: Path) -> tuple[bytes, float]:
    folder.mkdir()
    (folder / "input").write_bytes(example.given)
    before = cpu_of_children()
    subprocess.run([*example.native, "input", "output"], cwd=folder, check=True, timeout=SECONDS)
    return (folder / "output").read_bytes(), cpu_of_children() - before


def run_linux(example: Example, folder: Path) -> tuple[bytes, int, float]:
    """Run it twice: the first job on a computer compiles the module."""
    folder.mkdir()
    before = 0.0
    with open_wasm_slot(folder) as slot:
        slot.write_bounds()
        for _ in range(2):
            slot.lay_out(
                example.module, words=example.words, files=example.files, environment=example.environment
            )
            (slot.folder / "input").write_bytes(example.given)
            before = cpu_of_children()
            slot.start_module(*OPTIONS)
            assert slot.wait(SECONDS) == 0, slot.read("stderr.txt")
        return (slot.folder / "output").read_bytes(), slot.counted, cpu_of_children() - before


def run_windows(example: Example, windows: Windows) -> tuple[bytes, int, float]:
    told = ""
    for _ in range(2):
        (windows.slot / "input").write_bytes(example.given)
        told = windows.run(
            example.module,
            "end",
            options=" ".join(OPTIONS),
            words=example.words,
            files=example.files,
            environment=example.environment,
        )
        assert "ended with 0" in told, windows.stderr()
    found = re.search(r"<current_cpu_time>([\d.e+]+)<", told)
    assert found, told
    counted = re.findall(r"(\d+) instructions counted", windows.stderr())
    return (windows.slot / "output").read_bytes(), int(counted[-1]), float(found[1])


def orbits(folder: Path) -> Example:
    """10,000 years of the solar system, in C."""
    source, program, inputs = folder / "orbits.c", folder / "native", folder / "inputs"
    source.write_bytes((EXAMPLES / "wasm" / "orbits.c").read_bytes())
    flags = ("-O2", "-ffp-contract=off", "-I", str(GUEST_FOLDER))
    subprocess.run(["gcc", *flags, "-o", str(program), str(source), "-lm"], check=True, timeout=SECONDS)
    words = [sys.executable, str(EXAMPLES / "wasm" / "make_inputs.py"), "--years", "10000", "--systems", "1"]
    subprocess.run([*words, "--folder", str(inputs)], check=True, timeout=SECONDS)
    return Example(
        module=with_one_nan(compile_source([source]).read_bytes()),
        words=["orbits", "{input}", "{output}"],
        native=[str(program)],
        given=(inputs / "system-00.txt").read_bytes(),
    )


def sunspots(folder: Path) -> Example:
    """A band of frequencies with 100 shuffles, in Python."""
    program, inputs = EXAMPLES / "sunspots" / "period.py", folder / "inputs"
    words = [sys.executable, str(EXAMPLES / "sunspots" / "make_inputs.py"), "--quick"]
    subprocess.run([*words, "--folder", str(inputs)], check=True, timeout=SECONDS)
    module, words, files = portable_command(["python3", "period.py", "{input}", "{output}"], [program], None)
    return Example(
        module=with_one_nan(module.read_bytes()),
        words=words,
        native=[sys.executable, str(program)],
        given=(inputs / "band-00.json").read_bytes(),
        files=read_files(files),
        environment={"PYTHONPATH": PACKAGES_FILE},
    )


FOLDERS = """
import os, random, shutil, sys, tempfile, time
seen = [os.listdir("."), [list(os.stat(name)) for name in os.listdir(".")]]
os.makedirs("new/deep")
for number in range(30):
    with open(f"new/deep/{7 * number % 30}.txt", "w") as file:
        file.write("x" * number)
shutil.copytree("new", "newer")
shutil.rmtree("new")
seen += [[(entry.name, entry.inode(), entry.stat().st_mtime_ns) for entry in os.scandir("newer/deep")]]
seen += [list(os.walk(".")), os.path.samefile("newer", "./newer/deep/.."), random.random(), time.time()]
with tempfile.TemporaryFile(dir=".") as file:
    file.write(random.randbytes(200_000))
    file.seek(0)
    seen.append(sum(file.read()))
with open(sys.argv[2], "w") as file:
    print(seen, file=file)
"""


def folders(folder: Path) -> Example:
    """Python that lists folders and looks at files."""
    program = folder / "folders.py"
    program.write_text(FOLDERS)
    module, words, files = portable_command(["python3", program.name, "{input}", "{output}"], [program], None)
    return Example(
        module=with_one_nan(module.read_bytes()),
        words=words,
        native=[sys.executable, str(program)],
        given=b"some bytes",
        files=read_files(files),
        environment={"PYTHONPATH": PACKAGES_FILE},
    )


@pytest.mark.parametrize(("make", "exact"), [(orbits, True), (sunspots, False), (folders, False)])
def test_an_example_gives_the_same_bytes_and_count_everywhere(
    make: Callable[[Path], Example], exact: bool, windows: Windows, tmp_path: Path
):
    """A C program without transcendental functions gives those of the native one, too; Python brings its own sine."""
    example = make(tmp_path)
    native, native_cpu = run_native(example, tmp_path / "native_run")
    linux, linux_count, linux_cpu = run_linux(example, tmp_path / "linux")
    wine, wine_count, wine_cpu = run_windows(example, windows)
    print(f"\nCPU time: native {native_cpu:.1f} s, Linux {linux_cpu:.1f} s, wine {wine_cpu:.1f} s")
    assert (linux, linux_count) == (wine, wine_count)
    assert (linux == native) == exact


CPP = """
#include <fstream>
#include <map>
#include <string>
extern "C" double half(double x);
int main(int, char **words) {
    std::ifstream in(words[1]);
    std::ofstream out(words[2]);
    std::map<std::string, int> counts;
    for (std::string word; in >> word;) counts[word]++;
    for (const auto &[word, count] : counts) out << word << ' ' << half(count) << '\\n';
}
"""


def test_cpp_with_file_streams_and_a_part_in_c_is_compiled(tmp_path: Path):
    sources = [tmp_path / "words.cpp", tmp_path / "half.c"]
    for source, text in zip(sources, (CPP, "double half(double x) { return x / 2; }\n"), strict=True):
        source.write_text(text)
    example = Example(
        module=compile_source(sources).read_bytes(),
        words=["words", "{input}", "{output}"],
        native=(),
        given=b"over and over and over",
    )
    assert run_linux(example, tmp_path / "linux")[0] == b"and 1\nover 1.5\n"


WALK = """
import json, os, random, sys
import cobblestone_runtime as runtime
place, seen = 0, []
if os.path.exists("walk.json"):
    place, seen = json.load(open("walk.json"))
for step in range(len(seen), 150):
    seen.append(sum(random.choice((-1, 1)) for _ in range(20_000)))
    runtime.progress(step / 150)
    if runtime.time_to_checkpoint():
        with open("walk.json.new", "w") as file:
            json.dump([place, seen], file)
        os.replace("walk.json.new", "walk.json")
        runtime.checkpoint()
json.dump(seen, open(sys.argv[2], "w"))
"""


def walk(folder: Path) -> Example:
    """A random walk in Python that does not save the state of its generator."""
    (folder / "walk.py").write_text(WALK)
    module, words, files = portable_command(
        ["python3", "walk.py", "{input}", "{output}"], [folder / "walk.py"], None
    )
    return Example(
        module=with_one_nan(module.read_bytes()),
        words=words,
        native=[],
        given=b"",
        files=read_files(files),
        environment={"PYTHONPATH": PACKAGES_FILE},
    )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", [orbits, walk])
def test_bytes_and_count_of_an_example_are_the_same_however_often_it_is_killed(
    tmp_path: Path, make: Callable[[Path], Example]
):
    example, rng = make(tmp_path), random.Random(26)
    expected, counted, _ = run_linux(example, tmp_path / "straight")
    for kills in (1, 20):
        folder = tmp_path / f"killed-{kills}"
        folder.mkdir()
        with open_wasm_slot(folder) as slot:
            slot.write_bounds()
            slot.lay_out(
                example.module, words=example.words, files=example.files, environment=example.environment
            )
            (slot.folder / "input").write_bytes(example.given)
            for _ in range(kills):
                before = slot.read("job_files.state")
                process = slot.start_module(*OPTIONS)
                until(
                    lambda before=before, process=process: (
                        slot.read("job_files.state") not in ("", before) or process.poll() is not None
                    ),
                    seconds=SECONDS,
                )
                with suppress(subprocess.TimeoutExpired):
                    process.wait(rng.uniform(0, 0.1))
                    break
                process.send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
                process.wait(20)
            if not slot.exists("boinc_finish_called"):
                slot.start_module(*OPTIONS)
                assert slot.wait(SECONDS) == 0, slot.read("stderr.txt")
            assert ((slot.folder / "output").read_bytes(), slot.counted) == (expected, counted)
            print(
                f"{make.__name__}: {kills} kills, checkpoint {slot.read('job_files.state')}, {counted} instructions"
            )
