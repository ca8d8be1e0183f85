"""Modules that mean harm, or were made for another engine: each ends in a bounded way, with a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import wasmtime
from tests.helpers.wasm_slot import WasmSlot, module, open_wasm_slot, put_native_launcher

from cobblestone.domain.errors import JobError
from cobblestone.sdk.packing.wasm_package import compiled_modules

OWN = "x86_64-pc-linux-gnu"
FLOOD = "(loop $more (call $put (i32.const {file}) (i32.const 0) (i32.const 65536)) (br $more))"
HEAD = '(memory (export "memory") 1) (func (export "_start"))'


def written(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(f"(module {text})"))


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[WasmSlot]:
    with open_wasm_slot(tmp_path) as made:
        yield made


HOSTILE = {
    "memory at the start": (
        written('(memory (export "memory") 20000) (func (export "_start"))'),
        134,
        "the module failed: memory minimum size of 20000 pages exceeds memory limits",
    ),
    "a table without end": (
        module(
            """(loop $more (if (i32.eq (table.grow $t (ref.null func) (i32.const 1000000)) (i32.const -1))
            (then (unreachable))) (br $more))) (table $t 1 funcref) (func"""
        ),
        134,
        "the module failed: wasm trap: wasm `unreachable`",
    ),
    "error output without end": (module(FLOOD.format(file=2)), 196, "MB of disk, its bound is 3 MB"),
    "output without end": (module(FLOOD.format(file=1)), 196, "MB of disk, its bound is 3 MB"),
    "an endless loop before the start": (
        written(f"{HEAD} (func $first (loop $again (br $again))) (start $first)"),
        197,
        "more than 5e+08 instructions",
    ),
    "random bytes beyond its memory": (
        module("(call $proc_exit (call $random_get (i32.const 0) (i32.const -1)))"),
        21,
        "ended with exit status 21",
    ),
    "links": (
        module("(call $proc_exit (call $path_symlink @up (i32.const 3) @link))", up="..", link="out"),
        58,
        "ended with exit status 58",
    ),
    "threads": (
        written('(memory (export "memory") 1 2 shared) (func (export "_start"))'),
        206,
        "the module cannot be used",
    ),
    "relaxed SIMD, whose bits depend on the processor": (
        written(
            f"""{HEAD} (func (drop (f32x4.relaxed_madd (v128.const i64x2 0 0) (v128.const i64x2 0 0)
            (v128.const i64x2 0 0))))"""
        ),
        206,
        "the module cannot be used",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_module_ends_in_a_bounded_way_with_a_sentence(slot: WasmSlot, name: str):
    code, status, words = HOSTILE[name]
    slot.write_bounds(fpops_bound=5e8 if status == 197 else 1e12, memory_bound=5e7, disk_bound=3e6)
    assert slot.run_module(code) == status, slot.read("stderr.txt")
    assert words in slot.read("stderr.txt")
    assert not slot.exists("boinc_finish_called")


@pytest.mark.parametrize("name", ["threads", "relaxed SIMD, whose bits depend on the processor"])
def test_what_the_engine_refuses_is_said_when_the_app_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv("COBBLESTONE_LAUNCHERS", str(tmp_path))
    put_native_launcher(tmp_path / f"cobblestone_launcher_{OWN}")
    with pytest.raises(JobError, match=r"program\.wasm: the module cannot be used: "):
        compiled_modules("program.wasm", HOSTILE[name][0], [OWN])


def test_a_good_module_is_compiled_for_the_platform_of_its_maker_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COBBLESTONE_LAUNCHERS", str(tmp_path))
    put_native_launcher(tmp_path / f"cobblestone_launcher_{OWN}")
    code = module("(nop)")
    assert list(compiled_modules("program.wasm", code, [OWN, "windows_x86_64"])) == [OWN]
    assert compiled_modules("program.wasm", code, ["windows_x86_64"]) == {}
    (tmp_path / f"cobblestone_launcher_{OWN}").write_bytes(b"for another system")
    assert compiled_modules("program.wasm", code, [OWN]) == {}
