"""A Python that is sent along: packed here, and unpacked once for all jobs of a project by the native launcher."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.launcher_slot import CONTROL, STATUS, Slot, until
from tests.helpers.wasm_slot import native_launcher

from cobblestone import launcher
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher import cobblestone_runtime
from cobblestone.launcher.packing import DESCRIPTION_FILE, STARTS_LAUNCHER, bundle_description
from cobblestone.sdk.packing import bundle
from cobblestone.sdk.packing.app_package import Command
from cobblestone.sdk.packing.bundle import TARGETS, PythonBuild, bundle_command, fetch_interpreter, pack

LINUX, WINDOWS = TARGETS["x86_64-pc-linux-gnu"], TARGETS["windows_x86_64"]
PROGRAM = "import sys\nopen('out', 'w').write(sys.executable)\n"
#: Not this computer's Python: says where it lies, and hands on.
INTERPRETER = f"""#!/bin/sh
echo "$0" >>found
case "$*" in
"-I -m cobblestone_runtime"*) shift 3; exec "{sys.executable}" -I "{launcher.__path__[0]}/cobblestone_runtime.py" "$@" ;;
*) exec "{sys.executable}" "$@" ;;
esac
"""
#: Does nothing more: what is looked at is done by then.
QUICK = '#!/bin/sh\necho "$0" >>found\n'


class World:
    """A project's folder and slots of the stock client's, with soft links."""

    def __init__(self, root: Path) -> None:
        self.root, self.project, self.slots = root, root / "projects" / "sky", root / "slots"
        self.project.mkdir(parents=True)
        self.sha256 = ""

    @property
    def store(self) -> Path:
        """Where Python lies unpacked."""
        return self.project / "cobblestone_python"

    @property
    def home(self) -> Path:
        """The folder of the archive that was stored last."""
        return self.store / self.sha256[:12]

    def put(self, python: str = INTERPRETER, *, name: str = "bundle_1.tar") -> None:
        """Store an archive; ``python`` is a script in the interpreter's place."""
        root = self.root / "stage"
        (root / "bin").mkdir(parents=True, exist_ok=True)
        (root / "lib").mkdir(exist_ok=True)
        (root / "bin" / "python3").write_text(python)
        (root / "bin" / "python3").chmod(0o755)
        for number in range(60):
            (root / "lib" / f"module_{number}.py").write_text(f"x = {number}\n")
        self.store_archive(gzip.decompress(pack(root, LINUX)), name)

    def store_archive(self, data: bytes, name: str = "bundle_1.tar") -> None:
        (self.project / name).write_bytes(data)
        self.sha256 = hashlib.sha256(data).hexdigest()

    def slot(self, number: int = 0, name: str = "bundle_1.tar") -> Slot:
        folder = self.slots / str(number)
        folder.mkdir(parents=True)
        slot = Slot(folder)
        slot.write(launcher.BUNDLE_FILE, f"<soft_link>../../projects/sky/{name}</soft_link>\n")
        slot.write(launcher.APP_FILE, launcher.app_description(["python3", "program.py"]).decode())
        text = bundle_description(STARTS_LAUNCHER, name=launcher.BUNDLE_FILE, sha256=self.sha256, files={})
        slot.write(DESCRIPTION_FILE, text.decode())
        slot.write("program.py", PROGRAM)
        return slot

    def run(self, slot: Slot, *options: str, limit: int = 0) -> tuple[int, str]:
        start(slot, *options, limit=limit)
        return slot.wait(), slot.read("stderr.txt")


def count(world: World) -> int:
    return sum(len(names) for _, _, names in os.walk(world.home / "lib"))  # goes on where something vanishes


def await_files(world: World, process: subprocess.Popen[bytes], least: int) -> None:
    """Wait until so many files are unpacked, or the launcher has ended."""
    until(lambda: count(world) >= least or process.poll() is not None)


def start(slot: Slot, *options: str, limit: int = 0) -> subprocess.Popen[bytes]:
    """Start the launcher as the client does; no file may grow beyond ``limit`` blocks of 512 bytes."""
    words = [str(native_launcher()), *options]
    if limit:
        words = ["sh", "-c", f'trap "" XFSZ; ulimit -f {limit}; exec "$@"', "sh", *words]
    with (slot.folder / "stderr.txt").open("ab") as stderr:
        slot.process = subprocess.Popen(words, cwd=slot.folder, stdin=subprocess.DEVNULL, stderr=stderr)
    return slot.process


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_jobs_of_a_project_share_one_python_which_is_unpacked_once(world: World):
    world.put()
    first, second = world.slot(0), world.slot(1)
    assert world.run(first) == (0, "")
    unpacked = (world.home / "bin" / "python3").stat()
    assert world.run(second) == (0, "")
    assert (world.home / "bin" / "python3").stat().st_ctime_ns == unpacked.st_ctime_ns
    for slot in (first, second):
        assert (
            slot.read("found").strip()
            == f"../../projects/sky/cobblestone_python/{world.sha256[:12]}/bin/python3"
        )
        assert slot.exists("out")
        assert slot.read("boinc_finish_called") == "0\n"
    assert (world.home / "lib" / "module_7.py").stat().st_mode & 0o777 == 0o644


def test_jobs_that_start_together_do_no_harm(world: World):
    world.put()
    slots = [world.slot(number) for number in range(6)]
    for slot in slots:
        start(slot)
    assert [slot.wait() for slot in slots] == [0] * 6
    assert [slot.read("stderr.txt") for slot in slots] == [""] * 6
    assert sorted(path.name for path in world.store.iterdir()) == sorted(
        [world.home.name, f"{world.home.name}.whole", "lock"]
    )


def test_who_waits_for_another_obeys_the_client(world: World):
    world.put(QUICK)
    world.store.mkdir()
    hold = "import fcntl; f = open('lock', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold],
        cwd=world.store, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdin
    assert holder.stdout
    holder.stdout.readline()
    slot = world.slot()
    start(slot)
    until(lambda: slot.receive(STATUS))
    slot.send(CONTROL, "<abort/>")
    assert slot.wait() == 194
    slot.memory[:] = bytes(len(slot.memory))
    start(slot)
    until(lambda: slot.receive(STATUS))
    holder.communicate(b"\n")
    assert slot.wait() == 0


def test_a_suspended_job_unpacks_for_the_others_and_waits_before_it_starts(world: World):
    world.put(QUICK)
    slot = world.slot()
    slot.send(CONTROL, "<suspend/>")
    start(slot)
    until(world.home.with_suffix(".whole").exists)
    assert world.run(world.slot(1)) == (0, "")
    assert not slot.exists("found")
    slot.send(CONTROL, "<resume/>")
    assert slot.wait() == 0


def test_a_kill_in_the_middle_of_unpacking_does_no_harm(world: World):
    world.put(QUICK)
    for number in range(5):
        process = start(world.slot(number))
        await_files(world, process, 12 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert world.run(world.slot(9)) == (0, "")
    assert count(world) == 60


def test_what_belongs_to_a_version_that_has_gone_is_removed(world: World):
    world.put(QUICK)
    for key, archive in (("a" * 12, "gone.tar"), ("b" * 12, "bundle_1.tar"), ("c" * 12, "")):
        (world.store / key / "lib").mkdir(parents=True)
        (world.store / key / "lib" / "x.py").write_text("")
        (world.store / key / "link").symlink_to(world.slots)
        if archive:
            (world.store / f"{key}.whole").write_text(archive)
    (world.store / "other").mkdir()
    slot = world.slot()
    assert world.run(slot) == (0, "")
    assert slot.exists("found")
    kept = ["b" * 12, "b" * 12 + ".whole", "lock", "other", world.home.name, f"{world.home.name}.whole"]
    assert sorted(path.name for path in world.store.iterdir()) == sorted(kept)


def test_what_somebody_has_changed_is_mended(world: World):
    world.put(QUICK)
    assert world.run(world.slot(0)) == (0, "")
    library, interpreter = world.home / "lib", world.home / "bin" / "python3"
    module = library / "module_7.py"
    spoils: list[Callable[[], object]] = [
        lambda: module.write_text("x = 8\n"),
        module.unlink,
        lambda: shutil.rmtree(library),
        lambda: os.truncate(interpreter, 3),
        lambda: (module.unlink(), module.symlink_to("/etc/passwd")),
        lambda: (module.unlink(), (module / "x").mkdir(parents=True)),
        lambda: (shutil.rmtree(library), library.write_text("")),
    ]
    for number, spoil in enumerate(spoils, 1):
        spoil()
        untouched = interpreter.stat().st_ino if number != 4 else 0
        slot = world.slot(number)
        assert world.run(slot) == (0, "")
        assert slot.exists("found")
        assert (module.read_text(), count(world)) == ("x = 7\n", 60)
        assert interpreter.stat().st_ino == untouched or not untouched


def test_an_archive_that_nobody_signed_is_not_unpacked(world: World):
    world.put("#!/bin/sh\ntouch evil\n", name="evil.tar")
    world.put(QUICK)
    slot = world.slot(0, name="evil.tar")
    status, error = world.run(slot)
    assert status == 206
    assert "differs from the one that the project signed" in error
    assert not world.home.exists()
    assert world.run(world.slot(1)) == (0, "")
    assert world.run(world.slot(2, name="evil.tar"))[0] == 206, "nor when the right one lies there"
    assert not slot.exists("evil")


def tar(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members:
            about = tarfile.TarInfo(name)
            about.type, about.size, about.linkname = kind, len(data), "/etc/passwd"
            archive.addfile(about, io.BytesIO(data))
    return target.getvalue()


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (tar(("../../evil", b"x")), "such a name is not allowed"),
        (tar(("/tmp/evil", b"x")), "such a name is not allowed"),
        (tar(("a//evil", b"x")), "such a name is not allowed"),
        (tar(("./evil", b"x")), "such a name is not allowed"),
        (tar(("a\\evil", b"x")), "such a name is not allowed"),
        (tar(("c:evil", b"x")), "such a name is not allowed"),
        (tar(("evil.", b"x")), "such a name is not allowed"),
        (tar(("\xe4", b"x")), "such a name is not allowed"),
        (tar(("evil", b""), kind=tarfile.SYMTYPE), "neither a file nor a folder"),
        (tar(("evil", b""), kind=tarfile.LNKTYPE), "neither a file nor a folder"),
        (tar(("evil", b""), kind=tarfile.FIFOTYPE), "neither a file nor a folder"),
        (tar(("one", b"x"), ("one", b"y")), "two files have this name here"),
        (tar(("one", b"x" * 2000))[:1000], "ends too early"),
        (tar(("one", b"x" * 600))[:1536], "ends too early"),
        (tar(("one", b"x")).replace(b"ustar", b"ustir", 1), "it is damaged"),
        (tar(("one", b"x")).replace(b"00000000001\0", b"77777777777\0", 1), "it is damaged"),
        (b"not a tar file at all" * 100, "a number is none"),
    ],
)
def test_a_hostile_archive_leaves_nothing_outside(world: World, archive: bytes, words: str):
    world.store_archive(archive)
    status, error = world.run(world.slot())
    assert status == 206
    assert words in error
    names = {path.name for path in world.root.rglob("*evil*")} | {
        path.name for path in Path("/tmp").glob("evil*")
    }
    assert not names
    assert [path.name for path in world.store.iterdir()] == ["lock"]


def test_a_size_beyond_the_bound_is_refused_before_it_is_written(world: World):
    head = bytearray(tar(("huge", b""))[:512])
    head[124:136] = b"%011o\0" % 2_000_000_000
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    world.store_archive(bytes(head) + bytes(4096))
    status, error = world.run(world.slot())
    assert status == 206
    assert "it is too large" in error
    assert not world.home.exists()


def test_a_full_disk_fails_no_job_and_the_next_one_starts_again(world: World):
    root = world.root / "large"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python3").write_text(INTERPRETER)
    (root / "bin" / "python3").chmod(0o755)
    (root / "data").write_bytes(bytes(300_000))
    world.store_archive(gzip.decompress(pack(root, LINUX)))
    first = world.slot(0)
    status, error = world.run(first, limit=200)
    assert status == 0
    assert not first.exists("boinc_finish_called")
    assert first.read("boinc_temporary_exit").startswith("600\n")
    assert "(is the disk full?); trying again in 600 s" in error
    assert [path.name for path in world.store.iterdir()] == ["lock"]
    assert world.run(world.slot(1)) == (0, "")


def test_where_jobs_may_write_to_their_slot_only_each_unpacks_for_itself(world: World):
    world.put()
    world.store.write_text("in the way, as nothing can be made there")
    slot = world.slot()
    assert world.run(slot) == (0, "")
    assert slot.read("found").strip() == f"cobblestone_python/{world.sha256[:12]}/bin/python3"


def test_an_interpreter_that_cannot_be_started_is_told(world: World):
    world.put("#!/no/such/shell\n")
    status, error = world.run(world.slot())
    assert status == 206
    assert "the job cannot be started" in error


# ---- made here


def test_an_archive_has_the_same_bytes_each_time_and_nothing_but_what_jobs_need(tmp_path: Path):
    for name in ("bin/python3.1", "lib/__pycache__/a.pyc", "share/man/x", "bin/pip", "lib/real.so.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "bin" / "python3").symlink_to("python3.1")
    (tmp_path / "lib" / "link.so").symlink_to("real.so.1")
    (tmp_path / "lib" / "outside").symlink_to("/etc/passwd")
    (tmp_path / "lib" / "folder").symlink_to(".")
    first = pack(tmp_path, LINUX)
    (tmp_path / "bin" / "python3.1").touch()
    assert pack(tmp_path, LINUX) == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        members = archive.getmembers()
    assert [(each.name, each.size) for each in members] == [
        ("bin", 0), ("bin/python3", 13), ("lib", 0), ("lib/link.so", 13), ("lib/real.so.1", 13),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "mentions"),
    [
        (["A.py", "a.py"], "A.py and a.py, which are one"),
        (["lib/\xe4.py"], "not every system can store"),
        (["lib/x "], "not every system can store"),
        (["lib/a:b"], "not every system can store"),
        (["x" * 100 + "/" + "y" * 80], "too long a name"),
    ],
)
def test_names_that_a_system_cannot_store_are_refused(tmp_path: Path, names: list[str], mentions: str):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    with pytest.raises(JobError, match=mentions):
        pack(tmp_path, WINDOWS)


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bundle, "MAX_BUNDLE_BYTES", 512 + 10)
    (tmp_path / "file").write_text("eleven byte")
    with pytest.raises(JobError, match="The bundle is 0 MB, more than"):
        pack(tmp_path, LINUX)


@pytest.mark.parametrize(
    ("words", "more", "mentions"),
    [
        (["sh", "x.sh"], {}, "the command begins with sh"),
        (["python3", "x.py"], {"requirements": Path("gone.txt")}, "gone.txt does not exist"),
        (["python3", "x.py"], {"python": "2.7"}, "write a version such as 3.12"),
        (["python3", "x.py"], {"platforms": ["windows_intelx86"]}, "bundles run on x86_64-pc-linux-gnu"),
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


def test_a_program_that_needs_another_system_is_not_made_for_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bundle, "make_archive", lambda *_: (b"", set()))
    program, requirements = tmp_path / "x.py", tmp_path / "requirements.txt"
    requirements.write_text("numpy\n")
    program.write_text("import numpy\n")
    command = Command(words=["python3", "x.py"], files=[program])
    assert bundle_command(command, requirements, "3.12").platforms == tuple(TARGETS)
    program.write_text("import fcntl\n")
    assert "windows_x86_64" not in bundle_command(command, requirements, "3.12").platforms
    command = replace(command, platforms=["windows_x86_64"])
    with pytest.raises(JobError, match="modules that Windows does not have"):
        bundle_command(command, requirements, "3.12")


@pytest.mark.parametrize(
    ("target", "files"),
    [(LINUX, ["lib/python3.13/os.py", "bin/python3"]), (WINDOWS, ["python3.dll", "python313.dll", "python.exe", "Lib/os.py"])],
)  # fmt: skip
def test_interpreters_are_known_by_their_layout(tmp_path: Path, target: PythonBuild, files: list[str]):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    library, version = target.library(tmp_path)
    assert (version, (library / "os.py").exists()) == ("3.13", True)
    (tmp_path / target.interpreter).unlink()
    with pytest.raises(ConfigError, match=f"has no {target.interpreter}"):
        target.library(tmp_path)


def fail(error: Exception) -> None:
    raise error


def test_on_windows_the_library_speaks_to_the_native_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    slot = Slot(tmp_path)
    (tmp_path / "job_files").mkdir()
    monkeypatch.setattr(cobblestone_runtime, "POSIX", False)
    side = cobblestone_runtime._AppSide(str(tmp_path / "job_files"))
    assert not side.time_to_checkpoint()
    assert (tmp_path / "job_files" / "cobblestone_checkpoints").exists()
    slot.write("job_files/cobblestone_time_to_checkpoint", "")
    assert side.time_to_checkpoint()
    side.checkpoint()
    assert not side.time_to_checkpoint()
    failures, replace_file = [PermissionError(), PermissionError()], os.replace
    monkeypatch.setattr(
        os, "replace", lambda *names: fail(failures.pop()) if failures else replace_file(*names)
    )
    side.progress(1.0)
    assert (failures, slot.read("job_files/cobblestone_progress")) == ([], "1.000000\n")
    slot.write("trickle_down_1", "<text>\nhello\n</text>")
    assert (side.receive_trickles(), side.receive_trickles()) == (["hello"], [])
    monkeypatch.setenv("COBBLESTONE_ARGUMENTS", "k=a%20b n=3 ")
    about = side.job_info()
    assert (about["workunit_name"], about["arguments"]) == ("wu_1", {"k": "a b", "n": "3"})
    slot.memory.close()


def test_an_interpreter_that_cannot_be_fetched_is_told_with_its_cause_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_PYTHON_INSTALL_MIRROR", (tmp_path / "nothing").as_uri())
    with pytest.raises(
        ConfigError, match=r"(?s)cpython-3\.12-linux-x86_64-gnu.*UV_PYTHON_INSTALL_MIRROR"
    ) as problem:
        fetch_interpreter(tmp_path, TARGETS["x86_64-pc-linux-gnu"], "3.12")
    assert len(str(problem.value).splitlines()) == 2
