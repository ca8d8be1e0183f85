"""A Python that is sent along: unpacked once for all jobs of a project, by the head of the launcher, which the shell reads."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.helpers.launcher_slot import LAUNCHER_FILE, Slot

from cobblestone import launcher
from cobblestone.domain.errors import JobError
from cobblestone.sdk import bundle
from cobblestone.sdk.app_package import Command
from cobblestone.sdk.bundle import bundle_command, pack

PROGRAM = "import sys\nopen('out', 'w').write(sys.executable)\n"


class BundleSlot:
    """A project's folder and a slot of the stock client's, with soft links."""

    def __init__(self, root: Path) -> None:
        self.project = root / "projects" / "sky"
        self.project.mkdir(parents=True)
        (self.project / "launcher_1.py").write_bytes(LAUNCHER_FILE.read_bytes())
        self.slots = root / "slots"

    def put(self, python: str, *, name: str = "bundle_1.tar.gz") -> str:
        """Store an archive; ``python`` is a script in the interpreter's place."""
        root = self.project.parent / "stage" / "bin"
        root.mkdir(parents=True, exist_ok=True)
        (root / "python3").write_text(python)
        (root / "python3").chmod(0o755)
        (self.project / name).write_bytes(pack(root.parent))
        return hashlib.sha256((self.project / name).read_bytes()).hexdigest()

    def slot(self, number: int, sha256: str, name: str = "bundle_1.tar.gz") -> Path:
        folder = self.slots / str(number)
        folder.mkdir(parents=True)
        slot = Slot(folder)
        slot.memory.close()
        (folder / launcher.BUNDLE_FILE).write_text(f"<soft_link>../../projects/sky/{name}</soft_link>\n")
        description = json.loads(launcher.app_description(["python3", "program.py"], bundle=sha256))
        (folder / launcher.APP_FILE).write_text(json.dumps(description, indent=1))
        (folder / "program.py").write_text(PROGRAM)
        return folder

    def start(self, folder: Path) -> subprocess.Popen[str]:
        words = ["sh", "../../projects/sky/launcher_1.py"]
        return subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)

    def run(self, folder: Path) -> tuple[int, str]:
        process = self.start(folder)
        _, error = process.communicate(timeout=60)
        return process.returncode, error

    def unpacked(self) -> list[str]:
        return sorted(path.name for path in self.project.glob("cobblestone_python_*"))


#: Not this computer's Python: says where it lies, and hands on.
INTERPRETER = f'#!/bin/sh\necho "$0" >>found\nexec {sys.executable} "$@"\n'


@pytest.fixture
def world(tmp_path: Path) -> BundleSlot:
    return BundleSlot(tmp_path)


def test_the_jobs_of_a_project_share_one_python_which_is_unpacked_once(world: BundleSlot):
    sha256 = world.put(INTERPRETER)
    first, second = world.slot(0, sha256), world.slot(1, sha256)
    assert world.run(first) == (0, "")
    (kept,) = world.unpacked()
    changed = (world.project / kept / "python").stat().st_ctime_ns
    assert world.run(second) == (0, "")
    assert (world.project / kept / "python").stat().st_ctime_ns == changed
    for folder in (first, second):
        assert (folder / "found").read_text().strip() == f"../../projects/sky/{kept}/python/bin/python3"
        assert (folder / "out").exists()


def test_two_at_once_do_no_harm(world: BundleSlot):
    sha256 = world.put(INTERPRETER)
    started = [world.start(world.slot(number, sha256)) for number in range(6)]
    assert [process.communicate(timeout=60)[1] for process in started] == [""] * 6
    assert [process.returncode for process in started] == [0] * 6
    (kept,) = world.unpacked()
    assert sorted(path.name for path in (world.project / kept).iterdir()) == ["archive", "python"]


def test_what_a_kill_left_and_what_belongs_to_a_version_that_has_gone_is_removed(world: BundleSlot):
    sha256 = world.put(INTERPRETER)
    ended = subprocess.Popen(["true"])
    ended.wait()
    (world.project / f"cobblestone_python_{sha256}.new.{ended.pid}" / "python").mkdir(parents=True)
    for name, archive in (("a" * 64, "gone.tar.gz"), ("b" * 64, "launcher_1.py")):
        (world.project / f"cobblestone_python_{name}").mkdir()
        (world.project / f"cobblestone_python_{name}" / "archive").write_text(f"{archive}\n")
    assert world.run(world.slot(0, sha256)) == (0, "")
    assert world.unpacked() == sorted([f"cobblestone_python_{'b' * 64}", f"cobblestone_python_{sha256}"])


def test_an_archive_that_nobody_signed_is_not_unpacked(world: BundleSlot):
    sha256 = world.put(INTERPRETER)
    world.put("#!/bin/sh\ntouch evil\n", name="evil.tar.gz")
    folder = world.slot(0, sha256, name="evil.tar.gz")
    status, error = world.run(folder)
    assert status == 206
    assert "differs from the one that the project signed" in error
    assert world.unpacked() == []
    assert not (folder / "evil").exists()


def test_a_torn_archive_leaves_nothing_behind(world: BundleSlot):
    world.put(INTERPRETER)
    path = world.project / "bundle_1.tar.gz"
    path.write_bytes(path.read_bytes()[:-20])
    status, error = world.run(world.slot(0, hashlib.sha256(path.read_bytes()).hexdigest()))
    assert status == 195
    assert "cannot be unpacked" in error
    assert world.unpacked() == []


def test_an_archive_has_the_same_bytes_each_time_and_nothing_but_files(tmp_path: Path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3.1").write_text("x")
    (tmp_path / "bin" / "python3").symlink_to("python3.1")
    (tmp_path / "lib" / "__pycache__").mkdir(parents=True)
    (tmp_path / "lib" / "__pycache__" / "a.pyc").write_text("x")
    first = pack(tmp_path)
    (tmp_path / "bin" / "python3.1").touch()
    assert pack(tmp_path) == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        names = archive.getnames()
    assert names == ["python/bin", "python/bin/python3", "python/bin/python3.1", "python/lib"]


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bundle, "MAX_BUNDLE_BYTES", 10)
    (tmp_path / "file").write_text("eleven byte")
    with pytest.raises(JobError, match="The bundle is 0 MB, more than"):
        pack(tmp_path)


@pytest.mark.parametrize(
    ("words", "more", "mentions"),
    [
        (["sh", "x.sh"], {}, "the command begins with sh"),
        (["python3", "x.py"], {"requirements": Path("gone.txt")}, "gone.txt does not exist"),
        (["python3", "x.py"], {"python": "2.7"}, "write a version such as 3.12"),
        (["python3", "x.py"], {"platforms": ["windows_x86_64"]}, "bundles run on x86_64-pc-linux-gnu"),
    ],
)
def test_mistakes_are_said_before_anything_is_fetched(
    tmp_path: Path, words: list[str], more: dict[str, object], mentions: str
):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("numpy\n")
    given = {"requirements": requirements, "python": "3.12", "platforms": []} | more
    command = Command(words=words, platforms=given["platforms"])  # type: ignore[arg-type]  # a list of the table
    with pytest.raises(JobError, match=mentions):
        bundle_command(command, given["requirements"], given["python"])  # type: ignore[arg-type]  # as above
