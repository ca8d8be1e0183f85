"""Modules that count their instructions themselves: the same results, and the same count as that of the native launcher."""

from __future__ import annotations

import contextlib

import pytest
import wasmtime
from tests.helpers.float_torture import float_torture
from tests.helpers.wasm_slot import COPY, steps

from cobblestone.domain.errors import JobError
from cobblestone.sdk.wasm.instrument import FUEL, HOST, MEMORY_PAGES, NEXT_CALL, instrument
from cobblestone.sdk.wasm.one_nan import with_one_nan

MOST = 1 << 62


def run(code: bytes, *, native: bool, pages: int | None = None, start: str = "_start") -> tuple[bytes, int]:
    """Run a module as the native launcher does, or instrumented in an engine that counts nothing; memory and count."""
    config = wasmtime.Config()
    if native:
        config.consume_fuel = True
        config.memory_init_cow = False
    engine = wasmtime.Engine(config)
    store = wasmtime.Store(engine)
    loaded = wasmtime.Module(engine, with_one_nan(code) if native else instrument(code, "program.wasm"))
    if native:
        store.set_fuel(MOST)
        if pages is not None:
            store.set_limits(memory_size=pages * 65536)
    linker = wasmtime.Linker(engine)
    for each in loaded.imports:
        assert isinstance(each.type, wasmtime.FuncType)
        answer = 0 if each.type.results else None
        host = wasmtime.Func(store, each.type, lambda *given, answer=answer: answer)
        linker.define(store, each.module, each.name or "", host)
    exports = linker.instantiate(store, loaded).exports(store)
    if not native and pages is not None:
        limit = exports[MEMORY_PAGES]
        assert isinstance(limit, wasmtime.Global)
        limit.set_value(store, wasmtime.Val.i64(pages))
    function, memory = exports[start], exports.get("memory")
    assert isinstance(function, wasmtime.Func)
    function(store)
    content = bytes(memory.read(store, 0)) if isinstance(memory, wasmtime.Memory) else b""
    if native:
        return content, MOST - store.get_fuel()
    count = exports[FUEL]
    assert isinstance(count, wasmtime.Global)
    return content, int(count.value(store))


def test_every_floating_point_instruction_gives_the_same_bits_and_the_same_count_on_the_hardest_numbers():
    code = float_torture()
    content, count = run(code, native=True, pages=1000)
    assert (content, count) == run(code, native=False, pages=1000)
    assert len(set(content)) > 240
    assert count > 400_000


@pytest.mark.parametrize(
    "body",
    [
        "",
        "nop nop i32.const 1 drop",
        "call $g call $g",
        "(if (i32.const 1) (then (drop (i32.const 3))) (else nop))",
        "(if (i32.const 0) (then (drop (i32.const 3))) (else (call $g)))",
        "(if (i32.const 0) (then (drop (i32.const 3)))) (drop (i32.const 1))",
        "(block (br 0) (drop (i32.const 1)) (block (drop (i32.const 1))) ) (drop (i32.const 1))",
        "(block (block (br 1) (if (i32.const 1) (then nop) (else nop))) (drop (i32.const 1))) (drop (i32.const 1))",
        "(block (br_if 0 (i32.const 1)) (drop (i32.const 1)))",
        "(block (br_if 0 (i32.const 0)) (drop (i32.const 1)))",
        "(block (return)) (drop (i32.const 1))",
        "(if (i32.const 1) (then (return)) (else (return)))",
        "(br 0)",
        "(block (block (br_table 0 1 0 (i32.const 1))) (drop (i32.const 1)))",
        "(loop (br_if 0 (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 10))))",
        "(call_indirect (type $none) (i32.const 0))",
        "(drop (call $two)) drop",
        "(drop (call $last (i32.const 3)))",
        "(call $tail (i32.const 9))",
        "(drop (memory.grow (i32.const 5)))",
        "(drop (memory.grow (i32.const -1)))",
        "(drop (memory.grow (i32.const 90))) (drop (memory.grow (i32.const 90)))",
        "(drop (memory.grow (i32.const 200)))",
        "(drop (memory.grow (i32.const 129))) (drop (memory.grow (i32.const 128)))",
        "(memory.fill (i32.const 1) (i32.const 1) (i32.const 5000))",
        "(memory.copy (i32.const 1) (i32.const 9) (i32.const 5000))",
        "(memory.init $d (i32.const 1) (i32.const 1) (i32.const 7)) (data.drop $d)",
        "(table.fill 0 (i32.const 1) (ref.null func) (i32.const 2))",
        "(table.copy 0 0 (i32.const 1) (i32.const 1) (i32.const 2)) (drop (select (i32.const 1) (i32.const 0) (i32.const 0)))",
    ],
)
def test_the_count_is_that_of_the_native_launcher(body: str):
    code = bytes(
        wasmtime.wat2wasm(f"""(module (memory (export "memory") 1 150) (table 4 funcref) (elem (i32.const 0) $g)
        (data $d "abcdefgh") (data (i32.const 99) "ijkl") (data (global.get $place) "mn") (start $g)
        (global $place i32 (i32.const 7)) (type $none (func)) (global $old (mut i32) (i32.const 0))
        (func $g (global.set $old (i32.add (global.get $old) (i32.const 1))))
        (func $two (result i32 i32) (if (result i32 i32) (i32.const 1)
          (then (i32.const 1) (i32.const 2)) (else (return (i32.const 3) (i32.const 4)))))
        (func $last (param i32) (result i32) (block (result i32) (br_if 0 (local.get 0) (i32.const 1))))
        (func $tail (param i32) (if (local.get 0) (then (return_call $tail (i32.sub (local.get 0) (i32.const 1))))))
        (func (export "_start") (local i32) {body}))""")
    )
    assert run(code, native=True, pages=120) == run(code, native=False, pages=120)


def test_a_program_of_loops_and_files_counts_alike():
    for code in (COPY, steps(20_000)):
        assert run(code, native=True) == run(code, native=False)


def test_the_host_is_called_from_loops_as_often_as_it_asks_and_may_end_the_run():
    code = bytes(wasmtime.wat2wasm('(module (func (export "_start") (loop (br 0))))'))
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, wasmtime.Module(engine, instrument(code, "x")), []).exports(store)
    fuel, next_call, table, start = (exports[name] for name in (FUEL, NEXT_CALL, HOST, "_start"))
    assert isinstance(fuel, wasmtime.Global)
    assert isinstance(next_call, wasmtime.Global)
    assert isinstance(table, wasmtime.Table)
    assert isinstance(start, wasmtime.Func)
    counts: list[int] = []

    def host() -> None:
        counts.append(int(fuel.value(store)))
        next_call.set_value(store, wasmtime.Val.i64(counts[-1] + 1000))
        if len(counts) == 5:
            raise RuntimeError("enough")

    table.set(store, 0, wasmtime.Func(store, wasmtime.FuncType([], []), host))
    next_call.set_value(store, wasmtime.Val.i64(1000))
    with pytest.raises(RuntimeError, match="enough"):
        start(store)
    assert [count // 1000 for count in counts] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(func (drop (f32x4.relaxed_min (v128.const i64x2 0 0) (v128.const i64x2 0 0))))", "relaxed SIMD"),
        ('(import "wasi_snapshot_preview1" "x" (global i32))', "imports a memory, a table or a global"),
        ("(memory 1) (memory 1) (func (drop (i32.load 1 (i32.const 0))))", "several memories"),
        ("(type (struct))", "garbage collection"),
        ("(tag $t) (func (throw $t))", "0x08"),
    ],
)
def test_what_cannot_be_counted_exactly_is_refused_with_the_reason(text: str, why: str):
    code = bytes(wasmtime.wat2wasm(f"(module {text})"))
    with pytest.raises(JobError, match=rf"program\.wasm cannot be computed in browsers: .*{why}"):
        instrument(code, "program.wasm")


def test_a_module_that_is_cut_anywhere_is_refused_and_nothing_worse():
    for size in range(9, len(COPY), 7):
        with contextlib.suppress(JobError):  # (where a section ends, what is left is a module)
            instrument(COPY[:size], "program.wasm")
    with pytest.raises(JobError, match="not a whole WebAssembly module"):
        instrument(COPY[: len(COPY) // 2], "program.wasm")
