"""A slot for the native launcher, and modules written as text for it to run."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import wasmtime
from tests.helpers.launcher_slot import Slot

from cobblestone.launcher.packing import (
    COMPILED_FOLDER,
    DESCRIPTION_FILE,
    LIBRARY_NAME,
    NATIVE_FOLDER,
    SOURCES,
    wasm_description,
)

CHECKPOINT_INSTRUCTIONS = 50_000_000  #: fewer than usual: more checkpoints
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror")
LIBRARY = Path(wasmtime.__file__).parent / "linux-x86_64" / "_libwasmtime.so"

#: What the programs below call; strings and buffers lie in the first page.
PRELUDE = """
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename" (func $path_rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $path_unlink_file (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink" (func $path_symlink (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get"
    (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_readdir" (func $fd_readdir (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 2)
  (func $open (param $path i32) (param $size i32) (param $how i32) (result i32)
    (drop (call $path_open (i32.const 3) (i32.const 0) (local.get $path) (local.get $size) (local.get $how)
      (i64.const 0x1fffffff) (i64.const 0x1fffffff) (i32.const 0) (i32.const 64)))
    (i32.load (i32.const 64)))
  (func $put (param $file i32) (param $data i32) (param $size i32)
    (i32.store (i32.const 72) (local.get $data)) (i32.store (i32.const 76) (local.get $size))
    (drop (call $fd_write (local.get $file) (i32.const 72) (i32.const 1) (i32.const 80))))
  (func $save (param $path i32) (param $psize i32) (param $data i32) (param $size i32) (local $file i32)
    (local.set $file (call $open (local.get $path) (local.get $psize) (i32.const 9)))
    (call $put (local.get $file) (local.get $data) (local.get $size))
    (drop (call $fd_close (local.get $file))))
  (func $load (param $path i32) (param $psize i32) (param $data i32) (param $size i32) (result i32) (local $file i32)
    (i32.store (i32.const 64) (i32.const -1))
    (local.set $file (call $open (local.get $path) (local.get $psize) (i32.const 0)))
    (if (i32.eq (local.get $file) (i32.const -1)) (then (return (i32.const 0))))
    (i32.store (i32.const 72) (local.get $data)) (i32.store (i32.const 76) (local.get $size))
    (drop (call $fd_read (local.get $file) (i32.const 72) (i32.const 1) (i32.const 80)))
    (drop (call $fd_close (local.get $file)))
    (i32.load (i32.const 80)))
"""


def module(start: str, also: str = "", **texts: str) -> bytes:
    """Return a program; in ``start``, ``@name`` stands for address and length of one of the texts."""
    data, address = also, 1024
    for name, text in texts.items():
        data += f'(data (i32.const {address}) "{text}")\n'
        start = re.sub(rf"@{name}\b", f"(i32.const {address}) (i32.const {len(text)})", start)
        address += len(text) + 8
    return bytes(wasmtime.wat2wasm(f'(module {PRELUDE} {data} (func (export "_start") {start}))'))


#: Writes what it reads.
COPY = module(
    "(local $n i32) (local.set $n (call $load @in (i32.const 8192) (i32.const 60000)))"
    "(call $save @out (i32.const 8192) (local.get $n))",
    **{"in": "input", "out": "output"},
)
#: Never ends; tells so first.
FOREVER = module("(call $save @pid @pid) (loop $again (br $again))", pid="pid")


def steps(count: int) -> bytes:
    """Return a program that steps a generator and writes its state; it saves and continues wherever it was interrupted."""
    text = """(local $i i64) (local $x i64)
    (call $save @makes @makes)
    (drop (call $load @state (i32.const 8192) (i32.const 16)))
    (local.set $i (i64.load (i32.const 8192))) (local.set $x (i64.load (i32.const 8200)))
    (loop $next
      (local.set $x (i64.add (i64.mul (local.get $x) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (if (i64.eqz (i64.rem_u (local.get $i) (i64.const 100000))) (then
        (if (i32.eqz (call $path_filestat_get (i32.const 3) (i32.const 0) @flag (i32.const 4096))) (then
          (i64.store (i32.const 8192) (local.get $i)) (i64.store (i32.const 8200) (local.get $x))
          (call $save @new (i32.const 8192) (i32.const 16))
          (drop (call $path_rename (i32.const 3) @new (i32.const 3) @state))
          (i64.store (i32.const 8208) (i64.add (i64.const 0x4141414141414141) (i64.div_u (local.get $i) (i64.const 100000))))
          (call $save @mark (i32.const 8208) (i32.const 8))
          (drop (call $path_unlink_file (i32.const 3) @flag))))))
      (br_if $next (i64.lt_u (local.get $i) (i64.const COUNT))))
    (i64.store (i32.const 8200) (local.get $x))
    (call $save @out (i32.const 8200) (i32.const 8))"""
    return module(
        text.replace("COUNT", str(count)),
        makes="cobblestone_checkpoints",
        flag="cobblestone_time_to_checkpoint",
        mark="cobblestone_checkpoint",
        state="state",
        new="state.new",
        out="output",
    )


STEPS = steps(30_000_000)


def draws(count: int, kept_at: int) -> bytes:
    """Return a program that draws random bytes and sleeps a second, again and again, with much to compute between.

    It makes one checkpoint; what it writes at the end is made of the bytes, and of the seconds that have passed.
    """
    text = """(local $i i64) (local $x i64) (local $n i32)
    (call $save @makes @makes)
    (drop (call $load @state (i32.const 8192) (i32.const 16)))
    (local.set $i (i64.load (i32.const 8192))) (local.set $x (i64.load (i32.const 8200)))
    (i64.store (i32.const 4120) (i64.const 1000000000))
    (loop $next
      (drop (call $random_get (i32.const 9000) (i32.const 7)))
      (local.set $x (i64.add (i64.mul (local.get $x) (i64.const 3)) (i64.load (i32.const 9000))))
      (drop (call $poll_oneoff (i32.const 4096) (i32.const 4200) (i32.const 1) (i32.const 4300)))
      (local.set $n (i32.const 1000000)) (loop $work (br_if $work (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (if (i64.eq (local.get $i) (i64.const KEPT_AT)) (then
        (i64.store (i32.const 8192) (local.get $i)) (i64.store (i32.const 8200) (local.get $x))
        (call $save @new (i32.const 8192) (i32.const 16))
        (drop (call $path_rename (i32.const 3) @new (i32.const 3) @state))
        (call $save @mark @mark)))
      (br_if $next (i64.lt_u (local.get $i) (i64.const COUNT))))
    (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 8200)))
    (i64.store (i32.const 8200) (i64.div_u (i64.load (i32.const 8200)) (i64.const 1000000000)))
    (i64.store (i32.const 8192) (local.get $x))
    (call $save @out (i32.const 8192) (i32.const 16))"""
    return module(
        text.replace("COUNT", str(count)).replace("KEPT_AT", str(kept_at)),
        makes="cobblestone_checkpoints",
        mark="cobblestone_checkpoint",
        state="state",
        new="state.new",
        out="output",
    )


def diary(count: int) -> bytes:
    """Return a program that leaves its folder in disorder when it is killed.

    Each of its days it draws random bytes, sleeps, computes, writes its state in place, adds to a file and prints; it makes
    checkpoints when it is asked.
    """
    text = """(local $i i64) (local $x i64) (local $n i32)
    (call $save @makes @makes)
    (drop (call $load @state (i32.const 8192) (i32.const 16)))
    (local.set $i (i64.load (i32.const 8192))) (local.set $x (i64.load (i32.const 8200)))
    (i64.store (i32.const 4120) (i64.const 1000000000))
    (loop $next
      (drop (call $random_get (i32.const 9000) (i32.const 7)))
      (drop (call $poll_oneoff (i32.const 4096) (i32.const 4200) (i32.const 1) (i32.const 4300)))
      (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 9008)))
      (local.set $x (i64.add (i64.mul (local.get $x) (i64.const 3)) (i64.load (i32.const 9000))))
      (local.set $x (i64.add (local.get $x) (i64.load (i32.const 9008))))
      (local.set $n (i32.const 300000)) (loop $work (br_if $work (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (i64.store (i32.const 8192) (local.get $i)) (i64.store (i32.const 8200) (local.get $x))
      (call $save @state (i32.const 8192) (i32.const 16))
      (drop (call $path_open (i32.const 3) (i32.const 0) @days (i32.const 1)
        (i64.const 0x1fffffff) (i64.const 0x1fffffff) (i32.const 1) (i32.const 64)))
      (local.set $n (i32.load (i32.const 64)))
      (call $put (local.get $n) (i32.const 8200) (i32.const 8))
      (drop (call $fd_close (local.get $n)))
      (call $put (i32.const 1) (i32.const 8200) (i32.const 8))
      (if (i32.eqz (call $path_filestat_get (i32.const 3) (i32.const 0) @flag (i32.const 4096))) (then
        (i32.store (i32.const 8208) (i32.add (i32.const 0x41414141) (i32.wrap_i64 (i64.rem_u (local.get $i) (i64.const 100)))))
        (i32.store (i32.const 8212) (i32.add (i32.const 0x41414141) (i32.wrap_i64 (i64.div_u (local.get $i) (i64.const 100)))))
        (call $save @mark (i32.const 8208) (i32.const 8))
        (unreachable)))
      (br_if $next (i64.lt_u (local.get $i) (i64.const COUNT))))
    (call $save @out (i32.const 8200) (i32.const 8))"""
    return module(
        text.replace("COUNT", str(count)),
        makes="cobblestone_checkpoints",
        flag="cobblestone_time_to_checkpoint",
        mark="cobblestone_checkpoint",
        state="state",
        days="days",
        out="output",
    )


#: Draws random bytes for ever: many at once, or some again and again.
DRAWS_MANY = module(
    "(drop (memory.grow (i32.const 600))) (call $save @pid @pid)"
    " (loop $again (drop (call $random_get (i32.const 65536) (i32.const 39000000))) (br $again))",
    pid="pid",
)
DRAWS_OFTEN = module(
    "(call $save @pid @pid) (loop $again (drop (call $random_get (i32.const 65536) (i32.const 60000))) (br $again))",
    pid="pid",
)


@functools.cache
def native_launcher() -> Path:
    """Return the launcher, compiled for this machine with its own compiler, once for all tests of this process."""
    path = Path(_kept_folder().name, "launcher")
    words = ["gcc", *FLAGS, "-o", str(path), *SOURCES, "-lpthread", "-ldl", "-lm"]
    subprocess.run(words, cwd=NATIVE_FOLDER, check=True, timeout=100)
    return path


def put_native_launcher(target: Path) -> None:
    """Have the launcher at a place of its own."""
    shutil.copy2(native_launcher(), target)


@functools.cache
def library_sha256() -> str:
    return hashlib.sha256(LIBRARY.read_bytes()).hexdigest()


@functools.cache
def _kept_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cobblestone-launcher-")


class WasmSlot(Slot):
    """A slot with links of the client's to the files of an app version."""

    def __init__(self, root: Path) -> None:
        self.code = b""
        self.project = root / "projects" / "sky"
        self.project.mkdir(parents=True)
        folder = root / "slots" / "0"
        folder.mkdir(parents=True)
        super().__init__(folder)
        (self.project / "library.so").symlink_to(LIBRARY)
        self.link(LIBRARY_NAME, "library.so")

    @property
    def room(self) -> Path:
        """The folder that the module sees."""
        return self.folder / "job_files"

    @property
    def compiled(self) -> Path:
        """Where the launcher keeps the compiled form."""
        return self.project / COMPILED_FOLDER / "program.wasm.cwasm50"

    def link(self, name: str, target: str) -> None:
        self.write(name, f"<soft_link>../../projects/sky/{target}</soft_link>\n")

    def write_bounds(self, *, fpops_est: float = 1e12, fpops_bound: float = 1e13, **more: float) -> None:
        """Write the client's description of the job, with the bounds of its work."""
        self.write_init_data(**more)  # type: ignore[arg-type]  # numbers
        text = self.read("init_data.xml").replace(
            "</app_init_data>",
            f"<rsc_fpops_est>{fpops_est:f}</rsc_fpops_est>\n<rsc_fpops_bound>{fpops_bound:f}</rsc_fpops_bound>\n</app_init_data>",
        )
        self.write("init_data.xml", text)

    def lay_out(
        self,
        code: bytes,
        *,
        words: Sequence[str] = ("program",),
        files: Mapping[str, bytes] | None = None,
        stdout: str = "",
        environment: Mapping[str, str] | None = None,
        native: Iterable[bytes] = (),
    ) -> None:
        """Put an app version into the slot."""
        (self.project / "program.wasm").write_bytes(code)
        if code != self.code:  # files of real projects have other names when their content is another
            self.compiled.unlink(missing_ok=True)
            self.code = code
        self.link("program.wasm", "program.wasm")
        text = wasm_description(
            words,
            module="program.wasm",
            module_sha256=hashlib.sha256(code).hexdigest(),
            native_sha256=[library_sha256(), *(hashlib.sha256(each).hexdigest() for each in native)],
            files=files,
            stdout=stdout,
            environment=environment,
            checkpoint_instructions=CHECKPOINT_INSTRUCTIONS,
        )
        (self.folder / DESCRIPTION_FILE).write_bytes(text)
        for name, data in (files or {}).items():
            (self.folder / name).write_bytes(data)

    def start_module(self, *options: str) -> subprocess.Popen[bytes]:
        """Start the launcher as the client does."""
        words = [str(native_launcher()), *(options or ("--output", "output=output"))]
        with (self.folder / "stderr.txt").open("ab") as stderr:
            self.process = subprocess.Popen(
                words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr
            )
        return self.process

    @property
    def counted(self) -> int:
        """The instructions of the run that has ended."""
        found = re.findall(r"(\d+) instructions counted", self.read("stderr.txt"))
        return int(found[-1])

    def run_module(self, code: bytes, *options: str, stdout: str = "") -> int:
        """Run a module to its end; return the exit status."""
        self.lay_out(code, stdout=stdout)
        if "--input" in options and not (self.folder / "input").exists():
            self.write("input", "something\n")
        self.start_module(*options)
        return self.wait()


@contextmanager
def open_wasm_slot(root: Path) -> Iterator[WasmSlot]:
    """Make a slot; at the end its process is killed, whatever happened."""
    slot = WasmSlot(root)
    try:
        yield slot
    finally:
        if slot.process and slot.process.poll() is None:
            slot.process.kill()
            slot.process.wait()
        slot.memory.close()
