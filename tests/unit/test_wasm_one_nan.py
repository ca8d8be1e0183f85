"""Modules whose NaNs have one form: beside the runtime's own way of giving it, which looks after each operation."""

from __future__ import annotations

import itertools
import os
import random
import re
import struct

import pytest
import wasmtime
from tests.helpers.float_torture import DOUBLES, float_torture
from tests.helpers.wasm_slot import COPY, steps

from cobblestone.sdk.wasm import binary as op
from cobblestone.sdk.wasm.binary import UnknownConstructError, unsigned, write_section
from cobblestone.sdk.wasm.one_nan import with_one_nan

PROGRAMS = int(os.environ.get("WASM_PROGRAMS", "30"))


def memory_after(code: bytes, *, by_the_runtime: bool) -> bytes:
    """Run a module; its memory at the end."""
    config = wasmtime.Config()
    config.cranelift_nan_canonicalization = by_the_runtime
    engine = wasmtime.Engine(config)
    store = wasmtime.Store(engine)
    store.set_limits(memory_size=1000 * 65536)
    linker = wasmtime.Linker(engine)
    loaded = wasmtime.Module(engine, code)
    for each in loaded.imports:
        assert isinstance(each.type, wasmtime.FuncType)
        answer = 0 if each.type.results else None
        linker.define(
            store,
            each.module,
            each.name or "",
            wasmtime.Func(store, each.type, lambda *_, answer=answer: answer),
        )
    exports = linker.instantiate(store, loaded).exports(store)
    start, memory = exports["_start"], exports["memory"]
    assert isinstance(start, wasmtime.Func)
    assert isinstance(memory, wasmtime.Memory)
    start(store)
    return bytes(memory.read(store, 0))


def test_the_hardest_numbers_get_the_bits_that_they_get_when_each_operation_is_looked_after():
    code = float_torture()
    expected = memory_after(code, by_the_runtime=True)
    assert memory_after(with_one_nan(code), by_the_runtime=False) == expected
    assert memory_after(code, by_the_runtime=False) != expected  # (else this would show nothing)


LOCALS = ("$a", "$b", "$c", "$p")
_WAYS = (
    *(f"(f64.{name} {{}} {{}})" for name in ("add", "mul", "sub", "min", "copysign")),
    *(f"(f64.{name} {{}})" for name in ("neg", "abs", "sqrt", "floor")),
    "(select {} {} (f64.lt {} {}))",
    "(if (result f64) (f64.eq {} {}) (then {}) (else {}))",
    "(block (result f64) (br_if 0 {} (f64.ne {} {})))",
    *(f"(local.tee {name} {{}})" for name in LOCALS),
    "(call $f {} {})",
    "(f64.promote_f32 (f32.demote_f64 {}))",
    "(f64.reinterpret_i64 (i64.xor (i64.const 5) (i64.reinterpret_f64 {})))",
    "(f64x2.extract_lane 1 (f64x2.add (f64x2.splat {}) (f64x2.splat {})))",
)
_STATEMENTS = (
    *(f"(local.set {name} {{}})" for name in LOCALS),
    *(f"(f64.store offset={place} (local.get $o) {{}})" for place in range(0, 64, 8)),
    "(global.set $g {})",
    "(if (f64.lt {} {}) (then (local.set $b {})) (else (local.set $a {})))",
)


class Writer:
    """Writes programs by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def filled(self, text: str, depth: int) -> str:
        """Put values into the places of a text."""
        return re.sub(r"\{\}", lambda _: self.value(depth), text)

    def value(self, depth: int = 3) -> str:
        if depth and self.chance.random() < 0.7:
            return self.filled(self.chance.choice(_WAYS), depth - 1)
        constants = ("1", "nan", "nan:0x123", "-nan")
        return self.chance.choice(
            (
                f"(local.get {self.chance.choice(LOCALS)})",
                f"(f64.load (i32.const {8 * self.chance.randrange(len(DOUBLES))}))",
                f"(f64.const {self.chance.choice(constants)})",
                "(global.get $g)",
            )
        )

    def program(self) -> bytes:
        """Return a module with a loop, in which values go in all ways between variables, calls and the memory."""
        data = "".join(f"\\{byte:02x}" for number in DOUBLES for byte in struct.pack("<Q", number))
        names = " ".join(f"(local {name} f64)" for name in LOCALS if name != "$p")
        statements = [self.filled(self.chance.choice(_STATEMENTS), 3) for _ in range(10)]
        return bytes(
            wasmtime.wat2wasm(f"""(module (memory (export "memory") 1) (data (i32.const 0) "{data}")
            (global $g (mut f64) (f64.const 0))
            (func $f (param $p f64) (param f64) (result f64) {names} (local.set $c (local.get 1))
              (local.set $a (f64.mul (local.get $p) (local.get 1))) {self.value().replace("call $f", "f64.div")})
            (func (export "_start") (local $o i32) (local $p f64) {names}
              (local.set $o (i32.const 512)) (local.set $a {self.value()})
              (loop $again {" ".join(statements)}
                (local.set $o (i32.add (local.get $o) (i32.const 64)))
                (br_if $again (i32.lt_u (local.get $o) (i32.const 900))))
              (f64.store (local.get $o) (local.get $a)) (f64.store offset=8 (local.get $o) (local.get $b))))""")
        )


def test_any_program_gets_the_bits_that_it_gets_when_each_operation_is_looked_after():
    for seed in range(PROGRAMS):
        code = Writer(seed).program()
        expected = memory_after(code, by_the_runtime=True)
        assert memory_after(with_one_nan(code), by_the_runtime=False) == expected, seed


TYPES = {
    0x7B: b"\xfd\x0c" + bytes(16),
    0x7F: b"\x41\0",
    0x7D: b"\x43" + bytes(4),
    0x7C: b"\x44" + bytes(8),
    0x7E: b"\x42\0",
}


def takes_and_gives(engine: wasmtime.Engine, instruction: bytes) -> tuple[int, int] | None:
    """Find by trying what an instruction takes from the stack and puts there; None: the engine knows no such one."""
    head = b"\0asm\1\0\0\0"
    for count in range(4):
        for operands in itertools.product(TYPES, repeat=count):
            for result in ([], *([kind] for kind in TYPES)):
                kind = b"\x60\0" + unsigned(len(result)) + bytes(result)
                body = b"\0" + b"".join(TYPES[each] for each in operands) + instruction + b"\x0b"
                module = (
                    head
                    + write_section(1, b"\1" + kind)
                    + write_section(3, b"\1\0")
                    + write_section(5, b"\1\0\1")
                )
                module += write_section(10, b"\1" + unsigned(len(body)) + body)
                try:
                    wasmtime.Module.validate(engine, module)
                except wasmtime.WasmtimeError:
                    continue
                return count, len(result)
    return None


@pytest.mark.parametrize("first", range(0, 256, 64))
def test_the_table_of_what_vector_instructions_take_and_give_is_the_engines(first: int):
    engine = wasmtime.Engine()
    for number in range(first, first + 64):
        operands = b"\0\0" if number in op.VECTOR_MEMORY else b""
        operands += b"\0" * op.VECTOR_BYTES.get(number, number in op.VECTOR_MEMORY_LANE)
        found = takes_and_gives(engine, b"\xfd" + unsigned(number) + operands)
        assert found in (None, op.vector_stack_effect(number)), number


def test_the_table_of_what_other_instructions_take_and_give_is_the_engines():
    engine = wasmtime.Engine()
    for code, effect in op.STACK_EFFECTS.items():
        if code in range(0x45, 0xC5):
            assert takes_and_gives(engine, bytes([code])) == effect, hex(code)
        elif code in range(0x28, 0x3F):
            assert takes_and_gives(engine, bytes([code, 0, 0])) == effect, hex(code)


def test_what_has_no_arithmetic_stays_as_it_is_and_a_second_time_changes_nothing():
    for code in (COPY, steps(10)):
        once = with_one_nan(code)
        assert once[8 + 22 :] == code[8:]
        assert with_one_nan(once) == once
    twice = with_one_nan(with_one_nan(float_torture()))
    assert twice == with_one_nan(float_torture())


def test_instructions_that_are_not_known_are_left_to_the_runtime():
    with pytest.raises(UnknownConstructError, match="0x08"):
        with_one_nan(
            bytes(wasmtime.wat2wasm("(module (tag $t) (func (drop (f64.sqrt (f64.const 1))) (throw $t)))"))
        )
