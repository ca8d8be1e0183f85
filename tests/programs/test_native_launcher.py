"""The native launcher runs WebAssembly modules and obeys the client; the test plays the client, the runtime is the real one."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.helpers.launcher_slot import CONTROL, STATUS, TRICKLE_UP, until
from tests.helpers.wasm_calls import every_call
from tests.helpers.wasm_slot import (
    CHECKPOINT_INSTRUCTIONS,
    COPY,
    DRAWS_MANY,
    DRAWS_OFTEN,
    FOREVER,
    LIBRARY,
    WasmSlot,
    diary,
    draws,
    module,
    native_launcher,
    open_wasm_slot,
    steps,
)

IN_OUT = ("--input", "input=input", "--output", "output=output")


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[WasmSlot]:
    with open_wasm_slot(tmp_path) as made:
        yield made


def stderr(slot: WasmSlot) -> str:
    return slot.read("stderr.txt")


def test_a_module_reads_its_input_and_writes_its_output(slot: WasmSlot):
    slot.write("input", "one two\n")
    assert slot.run_module(COPY, *IN_OUT) == 0
    assert slot.read("output") == "one two\n"
    assert slot.read("boinc_finish_called") == "0\n"
    assert "instructions counted" in stderr(slot)


def test_the_compiled_form_is_kept_for_the_next_job_and_made_again_when_it_is_torn(slot: WasmSlot):
    assert slot.run_module(COPY, *IN_OUT) == 0
    kept = slot.compiled
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    assert slot.run_module(COPY, *IN_OUT) == 0
    assert len(kept.read_bytes()) == len(whole)
    before = kept.stat().st_mtime_ns
    assert slot.run_module(COPY, *IN_OUT) == 0
    assert kept.stat().st_mtime_ns == before
    assert not list(kept.parent.glob("*.tmp"))


def test_the_command_gets_what_the_job_says_percent_decoded(slot: WasmSlot):
    show = module(
        "(drop (call $args_get (i32.const 4096) (i32.const 8192))) (call $save @out (i32.const 8192) (i32.const 60))",
        out="output",
    )
    slot.lay_out(show, words=("program", "{{x}}", "{arg:a b}", "{inputs}", "{output:main}"))
    slot.write("one.txt", "1")
    slot.start_module("--output", "main=output", "--arg", "a b=%C3%A4 %7B", "--input", "one=one.txt")
    assert slot.wait() == 0
    words = (slot.folder / "output").read_bytes().rstrip(b"\0").split(b"\0")
    assert [word.decode() for word in words] == ["program", "{x}", "ä {", "one.txt", "output"]


def test_what_the_module_prints_can_be_an_output(slot: WasmSlot):
    hello = module(
        "(call $put (i32.const 1) @text) (call $put (i32.const 2) @other)", text="hello", other="a ]]> b"
    )
    assert slot.run_module(hello, stdout="output") == 0
    assert slot.read("output") == "hello"
    assert "a ]] > b" in stderr(slot)


def test_the_module_sees_its_own_files_only(slot: WasmSlot):
    peek = module(
        """(if (call $load @inside (i32.const 8192) (i32.const 10)) (then (call $proc_exit (i32.const 11))))
        (if (call $load @above (i32.const 8192) (i32.const 10)) (then (call $proc_exit (i32.const 12))))
        (if (call $load @root (i32.const 8192) (i32.const 10)) (then (call $proc_exit (i32.const 13))))
        (drop (call $environ_get (i32.const 4096) (i32.const 8192)))
        (call $save @out (i32.const 8192) (i32.const 100))""",
        inside="init_data.xml",
        above="../init_data.xml",
        root="/etc/passwd",
        out="output",
    )
    assert slot.run_module(peek) == 0
    seen = (slot.folder / "output").read_bytes().rstrip(b"\0").split(b"\0")
    assert seen == [b"COBBLESTONE_FOLDER=.", b"PYTHONHASHSEED=0", b"PYTHONDONTWRITEBYTECODE=1"]


def test_a_link_in_place_of_an_output_is_not_handed_over(slot: WasmSlot):
    slot.room.mkdir()
    (slot.room / "output").symlink_to("../init_data.xml")
    assert slot.run_module(module("(nop)")) == 208
    assert not slot.exists("output")
    assert "did not write its output" in stderr(slot)


def test_links_in_place_of_the_files_that_the_launcher_reads_and_writes_do_no_harm(slot: WasmSlot):
    slot.write("other", "0.7")
    slot.write_bounds(checkpoint_period=0.1)
    slot.lay_out(WAITS)
    slot.start_module()
    slot.status(lambda seen: seen["intops_cumulative"] > 0)
    (slot.room / "cobblestone_progress").symlink_to("../other")
    (slot.room / "cobblestone_time_to_checkpoint").unlink(missing_ok=True)
    (slot.room / "cobblestone_time_to_checkpoint").symlink_to("../victim")
    assert slot.status(lambda seen: seen["fraction_done"] > 0)["fraction_done"] < 0.7
    slot.send(CONTROL, "<quit/>")
    assert slot.wait() == 0
    assert not slot.exists("victim")


def test_time_and_randomness_are_those_of_the_job(slot: WasmSlot):
    # A sleep of an hour: one clock subscription, relative.
    look = module(
        """(drop (call $random_get (i32.const 8192) (i32.const 40)))
        (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 8232)))
        (i64.store (i32.const 4120) (i64.const 3600000000000))
        (drop (call $poll_oneoff (i32.const 4096) (i32.const 4200) (i32.const 1) (i32.const 4300)))
        (drop (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 8240)))
        (call $save @out (i32.const 8192) (i32.const 56))""",
        out="output",
    )
    seen: list[bytes] = []
    for _ in range(2):
        assert slot.run_module(look) == 0
        seen.append((slot.folder / "output").read_bytes())
    assert seen[0] == seen[1]
    early, late = struct.unpack_from("<QQ", seen[0], 40)
    assert early // 10**9 == 946684800
    assert late - early >= 3600 * 10**9
    text = slot.read("init_data.xml")
    slot.write("init_data.xml", text.replace("wu_1<", "wu_2<"))
    assert slot.run_module(look) == 0
    assert (slot.folder / "output").read_bytes()[:40] != seen[0][:40]


def test_a_program_learns_the_same_of_its_files_in_every_folder(slot: WasmSlot, tmp_path: Path):
    """Other times, other numbers and another order of files: the same answers, and the same count."""
    seen: list[tuple[bytes, int]] = []
    (tmp_path / "other").mkdir()
    with open_wasm_slot(tmp_path / "other") as other:
        for each, names in ((slot, ("one", "two", "input")), (other, ("x", "y", "input", "two", "one"))):
            each.room.mkdir()
            for place, name in enumerate(names):
                (each.room / name).write_text("some bytes to read")
                os.utime(each.room / name, (1e9 + place * len(names), 1e9 + place))
            for name in "xy":
                (each.room / name).unlink(missing_ok=True)
            each.write_bounds()
            assert each.run_module(every_call()) == 0, each.read("stderr.txt")
            seen.append(((each.folder / "output").read_bytes(), each.counted))
    assert seen[0] == seen[1]


def test_what_the_launcher_makes_and_takes_away_is_not_listed(slot: WasmSlot):
    code = module(
        "(drop (call $fd_readdir (i32.const 3) (i32.const 8192) (i32.const 400) (i64.const 0) (i32.const 4096)))"
        "(call $save @out (i32.const 8192) (i32.load (i32.const 4096)))",
        out="output",
    )
    slot.room.mkdir()
    for name in ("cobblestone_time_to_checkpoint", "cobblestone_trickle_up_1_1", "cobblestone_trickle"):
        (slot.room / name).touch()
    slot.write_bounds(checkpoint_period=0.001)
    assert slot.run_module(code) == 0
    listed = (slot.folder / "output").read_bytes()
    assert listed.count(b"cobblestone") == 1
    assert b"cobblestone_trickle" in listed


def test_a_folder_of_many_files_is_listed_whole(slot: WasmSlot):
    """More than the runtime lists at once, and than the program asks for at once."""
    code = module(
        """(local $n i64) (local $used i32)
        (loop $more
          (drop (call $fd_readdir (i32.const 3) (i32.const 8192) (i32.const 4096) (local.get $n) (i32.const 4096)))
          (local.set $used (i32.load (i32.const 4096)))
          (call $put (i32.const 1) (i32.const 8192) (local.get $used))
          (local.set $n (i64.add (local.get $n) (i64.extend_i32_u (i32.div_u (local.get $used) (i32.const 32)))))
          (br_if $more (i32.eq (local.get $used) (i32.const 4096))))"""
    )
    slot.room.mkdir()
    names = [f"{number:08d}" for number in range(12_000)]  # 32 bytes an entry
    for name in random.Random(1).sample(names, len(names)):
        (slot.room / name).touch()
    assert slot.run_module(code, "--output", "main=output", stdout="output") == 0, stderr(slot)
    listed = re.findall(rb"[0-9]{8}", (slot.folder / "output").read_bytes())
    assert [name.decode() for name in dict.fromkeys(listed)] == names


def test_a_call_of_the_host_counts_as_a_thousand_instructions_and_one_for_each_byte(slot: WasmSlot):
    counted: list[int] = []
    for calls, size in ((0, 0), (1, 0), (1, 5000)):
        call = f"(drop (call $random_get (i32.const 8192) (i32.const {size})))"
        assert slot.run_module(module(f"{call * calls} (call $save @o @o)", o="output")) == 0
        counted.append(slot.counted)
    assert counted[1] - counted[0] == 1000 + 3
    assert counted[2] - counted[1] == 5000


def test_a_nan_has_one_form(slot: WasmSlot):
    nan = module(
        """(f64.store (i32.const 8192) (f64.div (f64.load (i32.const 8300)) (f64.load (i32.const 8300))))
        (f64.store (i32.const 8200) (f64.add (f64.reinterpret_i64 (i64.const 0xfff8000000000123)) (f64.const 1)))
        (call $save @out (i32.const 8192) (i32.const 16))""",
        out="output",
    )
    assert slot.run_module(nan) == 0
    assert struct.unpack("<QQ", (slot.folder / "output").read_bytes()) == (0x7FF8000000000000,) * 2


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("(call $proc_exit (i32.const 7))", 7, "ended with exit status 7"),
        ("(unreachable)", 134, "the module failed: wasm trap: wasm `unreachable` instruction executed"),
        ("(i32.store (i32.const -4) (i32.const 1))", 134, "out of bounds memory access"),
        ("(drop (i32.div_s (i32.const 1) (i32.load (i32.const 9000))))", 134, "integer divide by zero"),
        ("(loop $again (br $again))", 197, "more than 5e+07 instructions"),
        (
            "(loop $more (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (unreachable))) (br $more))",
            134,
            "its memory is near the job's bound of 50 MB",
        ),
        ("(nop)", 208, "did not write its output output (output)"),
    ],
)
def test_ends_are_told_in_words(slot: WasmSlot, body: str, status: int, words: str):
    slot.write_bounds(fpops_bound=5e7, memory_bound=5e7)
    assert slot.run_module(module(body)) == status
    assert words in stderr(slot)
    assert not slot.exists("boinc_finish_called")


def test_deep_recursion_ends_the_module_and_not_the_launcher(slot: WasmSlot):
    code = module("(call $save @out @out)", out="output")
    deep = module(
        "(call $put (i32.const 2) @text) (call_indirect (i32.const 0)))"
        " (table funcref (elem $again)) (func $again (call $again) (nop)",
        text="deep",
    )
    assert slot.run_module(deep) == 134
    assert "call stack exhausted" in stderr(slot)
    assert slot.run_module(code) == 0


def test_the_disk_bound_is_enforced(slot: WasmSlot):
    slot.write_bounds(disk_bound=1e6)
    flood = module(
        """(local $f i32) (local.set $f (call $open @name (i32.const 9)))
        (loop $more (call $put (local.get $f) (i32.const 0) (i32.const 65536)) (br $more))""",
        name="big",
    )
    assert slot.run_module(flood) == 196
    assert "MB of disk, its bound is 1 MB" in stderr(slot)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("slot.lay_out(b'no module')", "the module cannot be used"),
        (
            "(slot.project / 'program.wasm').unlink()",
            "../../projects/sky/program.wasm is missing in the slot",
        ),
        ("(slot.project / 'library.so').unlink()", "the WebAssembly runtime is missing"),
        (
            "slot.lay_out(COPY, native=[b'text']); slot.write('wasmtime_library', 'text')",
            "cannot be loaded on this computer",
        ),
        ("slot.write('cobblestone_wasm.txt', 'word x\\nmagic 1\\n')", "unknown or incomplete entry magic"),
        ("slot.write('cobblestone_wasm.txt', 'word x\\n')", "lacks library, module or word"),
        (
            "slot.write('cobblestone_wasm.txt', 'module ../../x 12\\n')",
            "is not the name of a file in the slot",
        ),
        ("(slot.folder / 'cobblestone_wasm.txt').unlink()", "cobblestone_wasm.txt is missing"),
        ("slot.write('data.txt', 'changed')", "data.txt differs from the one that the project signed"),
    ],
)
def test_what_cannot_be_run_is_said(slot: WasmSlot, spoil: str, words: str):
    slot.lay_out(COPY, files={"data.txt": b"signed"})
    exec(spoil, {"slot": slot, "COPY": COPY})  # lines of this table
    slot.start_module()
    assert slot.wait() == 206
    assert words in stderr(slot)


def test_a_compiled_form_that_was_sent_along_is_used_instead_of_compiling(slot: WasmSlot):
    slot.lay_out(COPY)
    compile_module(slot, COPY, slot.project / "sent")
    sent = (slot.project / "sent").read_bytes()
    slot.lay_out(COPY, native=[sent])
    slot.link("compiled_module", "sent")
    slot.write("input", "read")
    slot.start_module(*IN_OUT)
    assert slot.wait() == 0
    assert slot.read("output") == "read"
    assert not slot.compiled.exists()


def compile_module(slot: WasmSlot, code: bytes, target: Path) -> None:
    (slot.project / "other.wasm").write_bytes(code)
    words = [native_launcher(), "--compile", "x86_64-unknown-linux-gnu", LIBRARY, "other.wasm", target]
    subprocess.run(words, cwd=slot.project, check=True, timeout=60)


#: A server that does not have the project's key chooses names and content of a job's inputs.
UNSIGNED = {
    "library": "slot.link('wasmtime_library', 'evil')",
    "module": "slot.link('program.wasm', 'evil')",
    "compiled": "slot.link('compiled_module', 'evil')",
    "cache": "(slot.project / 'program.wasm.cwasm50').write_bytes(evil)",
}


@pytest.mark.parametrize("how", UNSIGNED)
def test_an_input_of_a_job_does_not_become_code(slot: WasmSlot, how: str):
    compile_module(slot, FOREVER, slot.project / "evil")
    slot.lay_out(COPY)
    slot.write("input", "read")
    exec(UNSIGNED[how], {"slot": slot, "evil": (slot.project / "evil").read_bytes()})  # lines of this table
    slot.start_module(*IN_OUT)
    refused = how in ("library", "module")
    assert slot.wait() == (206 if refused else 0)
    assert ("project signed" in stderr(slot)) == refused
    assert slot.read("output") == ("" if refused else "read")


def test_what_was_compiled_for_a_version_that_has_gone_goes_too(slot: WasmSlot):
    slot.compiled.parent.mkdir()
    left = slot.compiled.with_name("old.wasm.cwasm50")
    left.write_bytes(b"old")
    kept = slot.compiled.with_name("other.wasm.cwasm50")
    kept.write_bytes(b"of another app")
    (slot.project / "other.wasm").write_bytes(b"other")
    assert slot.run_module(COPY, *IN_OUT) == 0
    assert sorted(slot.compiled.parent.iterdir()) == [kept, slot.compiled]


def test_a_job_does_not_compile_for_others(slot: WasmSlot):
    slot.lay_out(COPY)
    slot.start_module("--compile", "a", "b", "c", "d")
    assert slot.wait() == 206
    assert "--compile is not for jobs" in stderr(slot)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--input", "a=../secret"], "is not the name of a file in the slot"),
        (["--input", "a=%2Fetc%2Fpasswd"], "is not the name of a file in the slot"),
        (["--output", "a=init_data.xml/.."], "is not the name of a file in the slot"),
        (["--command", "a=b"], "unknown option --command"),
        (["--input", "a"], "needs NAME=VALUE"),
        (["--input"], "needs NAME=VALUE"),
        (["--arg", "a=1", "--arg", "a=2"], "given twice"),
        (["--input", "a=gone", "--output", "output=output"], "the file gone is missing"),
        (["--arg", "a=1"], "the command uses {input}"),
    ],
)
def test_options_name_files_of_the_slot_only(slot: WasmSlot, options: list[str], words: str):
    slot.lay_out(COPY, words=("program", "{input}"))
    slot.start_module(*options)
    assert slot.wait() == 206
    assert words in stderr(slot)


# ---------------------------------------------------------------------------------- the client's orders


def running(slot: WasmSlot, code: bytes = FOREVER, **bounds: float) -> subprocess.Popen[bytes]:
    """Start a module, and wait until it works."""
    slot.write_bounds(**bounds)
    slot.lay_out(code)
    process = slot.start_module()
    slot.status(lambda seen: seen["intops_cumulative"] > 0)
    return process


def cpu(process: subprocess.Popen[bytes]) -> int:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def rests(slot: WasmSlot, process: subprocess.Popen[bytes]) -> bool:
    """Whether the module uses no CPU while the launcher goes through some rounds of its loop."""
    before = cpu(process)
    for _ in range(4):  # each takes the launcher one round to read
        slot.send(CONTROL, "<reread_app_info/>")
    return cpu(process) <= before + 1


def test_the_count_of_instructions_is_progress_and_reported_work(slot: WasmSlot):
    running(slot, fpops_est=1e15)
    figures = slot.status(lambda seen: seen["current_cpu_time"] > 0.3)
    assert figures["intops_cumulative"] > 1e6
    assert figures["fraction_done"] == pytest.approx(figures["intops_cumulative"] / 1e15, rel=1e-4)
    assert figures["checkpoint_cpu_time"] == 0


def test_progress_of_a_job_beyond_its_estimate_stays_below_1(slot: WasmSlot):
    running(slot, fpops_est=1e3)
    assert 0.99 < slot.status(lambda seen: seen["intops_cumulative"] > 1e7)["fraction_done"] < 1


def test_what_the_module_says_of_its_progress_counts(slot: WasmSlot):
    code = module(
        "(call $save @name @value) (loop $again (br $again))", name="cobblestone_progress", value="0.375"
    )
    running(slot, code)
    assert slot.status(lambda seen: seen["fraction_done"] > 0.3)["fraction_done"] == pytest.approx(0.375)


WAITS = module(
    "(loop $again (br_if $again (call $path_filestat_get (i32.const 3) (i32.const 0) @go (i32.const 4096))))"
    "(call $save @out (i32.const 0) (i32.const 1))",
    out="output",
    go="go",
)


def test_messages_of_the_module_go_to_the_client_one_by_one_and_in_order(slot: WasmSlot):
    slot.room.mkdir()
    for number, text in (("1_2", "two"), ("1_1", "one"), ("2_1", "</msg_from_host>"), ("x", "strange")):
        (slot.room / f"cobblestone_trickle_up_{number}").write_text(f"<variety>news</variety>{text}")
    running(slot, WAITS)
    said: list[str] = []
    for _ in range(2):
        assert "<have_new_trickle_up/>" in until(lambda: slot.receive(TRICKLE_UP))
        said.append(slot.read("trickle_up.xml"))
        (slot.folder / "trickle_up.xml").unlink()
    assert said == ["<variety>news</variety>one", "<variety>news</variety>two"]
    until(lambda: "a trickle of the module cannot be sent: cobblestone_trickle_up_2_1" in stderr(slot))
    (slot.room / "go").touch()
    assert slot.wait() == 0
    assert not slot.exists("trickle_up.xml")
    assert not list(slot.room.glob("cobblestone_trickle_up_[0-9]*"))


def test_suspend_stops_the_module_and_resume_continues_it(slot: WasmSlot):
    process = running(slot)
    slot.send(CONTROL, "<suspend/>")
    until(lambda: slot.memory[1024 * CONTROL] == 0)
    slot.receive(STATUS)
    until(lambda: rests(slot, process))
    assert slot.receive(STATUS) == ""
    slot.send(CONTROL, "<resume/>")
    before = cpu(process)
    until(lambda: cpu(process) > before + 10)


@pytest.mark.parametrize("code", [DRAWS_MANY, DRAWS_OFTEN], ids=["many", "often"])
def test_suspend_stops_a_module_within_its_calls_of_the_host(slot: WasmSlot, code: bytes):
    process = running(slot, code, memory_bound=5e7)
    slot.send(CONTROL, "<suspend/>")
    until(lambda: rests(slot, process), seconds=5)
    slot.send(CONTROL, "<resume/>")
    before = cpu(process)
    until(lambda: cpu(process) > before + 10)


@pytest.mark.parametrize("suspended", [False, True])
def test_quit_ends_without_a_finish_file_and_abort_with_194(slot: WasmSlot, suspended: bool):
    for order, status in (("<quit/>", 0), ("<abort/>", 194)):
        running(slot)
        if suspended:
            slot.send(CONTROL, "<suspend/>")
        slot.send(CONTROL, order)
        assert slot.wait() == status
        assert not slot.exists("boinc_finish_called")


def test_sigterm_is_a_quit(slot: WasmSlot):
    running(slot).send_signal(signal.SIGTERM)
    assert slot.wait() == 0
    assert not slot.exists("boinc_finish_called")


def test_stops_when_the_client_has_died(slot: WasmSlot):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as client:
        running(slot, client_pid=client.pid)
        client.kill()
        client.wait()
        assert slot.wait() == 0
    assert "the client has ended" in stderr(slot)


def test_a_second_launcher_waits_for_the_first(slot: WasmSlot):
    first = running(slot)
    second = slot.start_module()
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(0.5)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    slot.send(CONTROL, "<abort/>")
    assert slot.wait() == 194


def test_continues_counting_from_the_cpu_time_that_the_client_knows(slot: WasmSlot):
    running(slot, cpu_time=5000.0)
    assert slot.status()["checkpoint_cpu_time"] == 5000.0


def test_runs_without_control_when_there_is_no_segment(slot: WasmSlot):
    (slot.folder / "boinc_mmap_file").unlink()
    assert slot.run_module(COPY, *IN_OUT) == 0


def test_a_job_interrupted_anywhere_gives_the_same_bytes(slot: WasmSlot, tmp_path: Path):
    """A power cut, or an orderly end, at some random moments; ``make everywhere`` does it between two systems."""
    code = steps(300_000_000)  # a second: the order to end comes in time on a busy machine, too
    (tmp_path / "straight").mkdir()
    with open_wasm_slot(tmp_path / "straight") as straight:
        assert straight.run_module(code) == 0
        expected = (straight.folder / "output").read_bytes()
    rng = random.Random(14)
    slot.write_bounds(checkpoint_period=3600)
    slot.lay_out(code)
    for number in range(5):
        interrupt(slot, rng.uniform(0, 0.05), signal.SIGTERM if number % 2 else signal.SIGKILL)
    process = slot.start_module()
    until((slot.room / "state").exists)  # however busy the machine is, one of them comes after a checkpoint
    process.kill()
    process.wait(60)
    slot.start_module()
    assert slot.wait() == 0
    assert (slot.folder / "output").read_bytes() == expected


def test_a_killed_job_goes_on_with_its_random_bytes_its_time_and_its_count(slot: WasmSlot, tmp_path: Path):
    code = draws(150, 20)
    (tmp_path / "straight").mkdir()
    with open_wasm_slot(tmp_path / "straight") as straight:
        assert straight.run_module(code) == 0
        expected, counted = (straight.folder / "output").read_bytes(), straight.counted
    slot.write_bounds()
    for seconds in (0.02, 0.1, 0.25):
        reset(slot)
        slot.lay_out(code)
        process = slot.start_module()
        until((slot.folder / "job_files.kept1" / "files").exists)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()
        process.wait(60)
        slot.start_module()
        assert slot.wait() == 0
        assert (slot.folder / "output").read_bytes() == expected
        assert slot.counted == counted


def reset(slot: WasmSlot) -> None:
    """Make the slot that of a new job."""
    for path in slot.folder.glob("job_files*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


DIARY = ("output", "printed", "days")


def finished(slot: WasmSlot) -> tuple[list[bytes], int]:
    """The outputs of a diary that has come to its end, and its count."""
    return [(slot.folder / name).read_bytes() for name in DIARY], slot.counted


@pytest.mark.parametrize("seed", range(4))
def test_files_bytes_and_count_do_not_depend_on_suspends_kills_and_the_volunteers_preferences(
    slot: WasmSlot, tmp_path: Path, seed: int
):
    """Whatever the program had done to its files when it was interrupted, and however often it was."""
    code, rng = diary(400), random.Random(seed)
    options = [word for name in DIARY for word in ("--output", f"{name}={name}")]
    (tmp_path / "straight").mkdir()
    with open_wasm_slot(tmp_path / "straight") as straight:
        assert straight.run_module(code, *options, stdout="printed") == 0
        expected = finished(straight)
    slot.write_bounds(checkpoint_period=rng.choice((0.001, 0.05, 3600)))
    slot.lay_out(code, stdout="printed")
    kept = {"", "0"}
    for number in range(100):
        process = slot.start_module(*options)
        if rng.random() < 0.3:
            slot.send(CONTROL, "<suspend/>")
            until(lambda: slot.memory[1024 * CONTROL] == 0)
            slot.send(CONTROL, "<resume/>")
        if number == 12:
            assert slot.wait() == 0
            break
        if rng.random() < 0.8:  # after a checkpoint, or at the end
            until(lambda process=process: checkpoint_of(slot) not in kept or process.poll() is not None)
        with suppress(subprocess.TimeoutExpired):
            assert process.wait(rng.uniform(0, 0.1)) == 0
            break
        how = rng.choice((signal.SIGKILL, signal.SIGTERM, None))
        if how:
            process.send_signal(how)
        else:
            slot.send(CONTROL, "<quit/>")
        process.wait(60)
        slot.memory[1024 * CONTROL] = 0
        if (slot.folder / "boinc_finish_called").exists():
            break
        kept.add(checkpoint_of(slot))
    assert finished(slot) == expected
    assert kept - {"", "0"}, "no start went on from a checkpoint"


def checkpoint_of(slot: WasmSlot) -> str:
    """The number of the checkpoint from which the next start goes on."""
    return "".join(slot.read("job_files.state").split()[4:5])


def test_a_checkpoint_that_cannot_be_kept_is_made_later(slot: WasmSlot):
    slot.write("job_files.kept1", "in the way")
    slot.lay_out(diary(400))
    slot.start_module()
    assert slot.wait() == 0
    assert "the checkpoint cannot be kept; trying again" in stderr(slot)
    assert slot.exists("boinc_temporary_exit")
    (slot.folder / "job_files.kept1").unlink()
    slot.start_module()
    assert slot.wait() == 0
    assert slot.exists("output")


def test_a_module_that_marks_at_each_start_comes_to_its_end(slot: WasmSlot):
    """A mark before it is time is no checkpoint: else each one would lead to the next."""
    code = module(
        "(call $save @makes @makes) (drop (call $random_get (i32.const 8192) (i32.const 8)))"
        "(i64.store (i32.const 8192) (i64.or (i64.load (i32.const 8192)) (i64.const 0x4040404040404040)))"
        "(call $save @mark (i32.const 8192) (i32.const 8)) (call $save @out @out)",
        makes="cobblestone_checkpoints",
        mark="cobblestone_checkpoint",
        out="output",
    )
    assert slot.run_module(code) == 0


def test_what_a_start_takes_is_a_tenth_of_the_time_between_checkpoints_at_most(slot: WasmSlot):
    """Loading takes longer than the usual time between checkpoints."""
    loop = """(local.set $n (i64.const {}))
        (loop $w{} (br_if $w{} (i64.ne (i64.const 0) (local.tee $n (i64.sub (local.get $n) (i64.const 1))))))"""
    code = module(
        "(local $n i64)"
        + loop.format(4 * CHECKPOINT_INSTRUCTIONS // 10, 1, 1)
        + "(call $save @makes @makes)"
        + loop.format(4 * CHECKPOINT_INSTRUCTIONS // 10, 2, 2)
        + "(if (i32.eqz (call $path_filestat_get (i32.const 3) (i32.const 0) @flag (i32.const 4096))) (then (unreachable)))"
        + loop.format(5 * CHECKPOINT_INSTRUCTIONS, 3, 3)
        + "(drop (call $random_get (i32.const 8192) (i32.const 8)))"
        "(if (call $path_filestat_get (i32.const 3) (i32.const 0) @flag (i32.const 4096)) (then (unreachable)))"
        "(call $save @out @out)",
        makes="cobblestone_checkpoints",
        flag="cobblestone_time_to_checkpoint",
        out="output",
    )
    assert slot.run_module(code) == 0, stderr(slot)


def interrupt(slot: WasmSlot, seconds: float, number: signal.Signals) -> None:
    """Start the module, and end the launcher so much after it has begun to work, if it still runs then."""
    begun = slot.room / "cobblestone_checkpoints"
    begun.unlink(missing_ok=True)
    process = slot.start_module()
    until(begun.exists)
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.send_signal(number)
    process.wait(60)


def test_the_library_of_the_tests_is_the_pinned_one():
    from cobblestone.sdk.wasm.toolchain import expected_hashes, library, library_name

    assert expected_hashes()[library_name("x86_64-pc-linux-gnu")]
    assert library("x86_64-pc-linux-gnu") == LIBRARY.read_bytes()
