"""A program that tries every floating-point instruction on the numbers that are hardest, and writes all bits of what it gets."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.helpers.wasm_slot import module

#: As the bits of a double: zeros, ones, smallest and largest, subnormal, infinities, NaNs of all kinds, ties of rounding, roots …
DOUBLES = (
    0x0000000000000000, 0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x0000000000000001,
    0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000,
    0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFF4000000000123,
    0x7FFFFFFFFFFFFFFF, 0x4000000000000000, 0x3FE0000000000000, 0x4004000000000000, 0xC00C000000000000,
    0x3FB999999999999A, 0x400921FB54442D18, 0x36A0000000000000, 0x47EFFFFFF0000000, 0x4340000000000001,
)  # fmt: skip
FLOATS = (
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF,
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFA00123, 0x7FFFFFFF, 0x40000000, 0x3F000000,
    0x40200000, 0xC0600000, 0x3DCCCCCD, 0x40490FDB, 0x4B800001, 0x5F000000, 0x3F7FFFFF,
)  # fmt: skip
_UNARY = ("ceil", "floor", "trunc", "nearest", "sqrt", "abs", "neg")
_BINARY = ("add", "sub", "mul", "div", "min", "max", "copysign")
_VECTOR_BINARY = ("add", "sub", "mul", "div", "min", "max", "pmin", "pmax")
_INPUTS, _OUTPUT = 4096, 65536
COUNT = len(DOUBLES)


def _scalar(kind: str, size: int) -> list[str]:
    store, load = f"{kind}.store", f"({kind}.load (local.get $a))"
    other = f"({kind}.load (local.get $b))"
    found = [f"({store} (local.get $o) ({kind}.{name} {load}))" for name in _UNARY]
    found += [f"({store} (local.get $o) ({kind}.{name} {load} {other}))" for name in _BINARY]
    # A chain, in which what is in the middle need not have one form; and one through a sign, where it must.
    found.append(f"({store} (local.get $o) ({kind}.add ({kind}.mul {load} {other}) ({kind}.sqrt {load})))")
    found.append(
        f"({store} (local.get $o) ({kind}.copysign ({kind}.mul {load} {other}) ({kind}.div {other} {load})))"
    )
    found += [f"({store} (local.get $o) {value})" for value in _ways(kind, load, other)]
    return [each + _advance(size) for each in found]


def _ways(kind: str, load: str, other: str) -> list[str]:
    """Return ways of NaNs that arithmetic makes, and of those that are copied, to where their bits are seen."""
    made, x, y = f"({kind}.add {load} {other})", f"$x{kind}", f"$y{kind}"
    get, positive = f"(local.get {x})", f"({kind}.gt {load} ({kind}.const 0))"
    more = f"({kind}.mul (local.get {y}) {other})"
    integer = "i64" if kind == "f64" else "i32"
    return [
        f"({kind}.neg {made})",
        f"({kind}.abs ({kind}.neg {made}))",
        f"(local.set {x} {made}) ({kind}.neg {get})",
        f"(local.set {x} {load}) (if {positive} (then (local.set {x} {made}))) {get}",
        f"(local.set {y} {load}) (if {positive} (then (local.set {y} {more}))) (local.set {x} (local.get {y})) {get}",
        f"(select {made} {load} {positive})",
        f"(select ({kind}.const -1) {made} {positive})",
        f"(if (result {kind}) {positive} (then {load}) (else {made}))",
        f"(block (result {kind}) (drop (br_if 0 {load} {positive})) {made})",
        f"(call $twice_{kind} {made})",
        f"({kind}.reinterpret_{integer} ({integer}.add ({integer}.reinterpret_{kind} {made}) ({integer}.const 1)))",
        f"(global.set $g{kind} {made}) (global.get $g{kind})",
        f"({kind}.add (local.tee {x} {made}) (local.tee {y} {other})) (drop) (local.get {y})",
        f"({kind}.copysign {load} ({kind}.neg {made}))",
    ]


def _vector(shape: str) -> list[str]:
    left, right = "(v128.load (local.get $a))", "(v128.load (local.get $b))"
    found = [f"(v128.store (local.get $o) ({shape}.{name} {left}))" for name in _UNARY]
    found += [f"(v128.store (local.get $o) ({shape}.{name} {left} {right}))" for name in _VECTOR_BINARY]
    change = "f32x4.demote_f64x2_zero" if shape == "f64x2" else "f64x2.promote_low_f32x4"
    found.append(f"(v128.store (local.get $o) ({change} {left}))")
    scalar, wrong = shape.partition("x")[0], "f64x2" if shape == "f32x4" else "f32x4"
    first = f"({scalar}.neg ({shape}.extract_lane 0 ({shape}.add {left} {right})))"
    found.append(f"(v128.store (local.get $o) ({shape}.replace_lane 1 {right} {first}))")
    # Lanes of another width see parts of a NaN as numbers.
    found.append(f"(v128.store (local.get $o) ({wrong}.add ({shape}.mul {left} {right}) {right}))")
    found.append(f"(v128.store (local.get $o) (i32x4.add ({shape}.div {left} {right}) {right}))")
    return [each + _advance(16) for each in found]


def _advance(size: int) -> str:
    return f"(local.set $o (i32.add (local.get $o) (i32.const {size})))"


def _pairs(base: int, size: int, body: Sequence[str]) -> str:
    """Do ``body`` for every pair of numbers."""
    end = base + COUNT * size
    text = " ".join(body)
    return f"""(local.set $a (i32.const {base}))
    (loop $outer (local.set $b (i32.const {base}))
      (loop $inner {text}
        (local.set $b (i32.add (local.get $b) (i32.const {size})))
        (br_if $inner (i32.lt_u (local.get $b) (i32.const {end}))))
      (local.set $a (i32.add (local.get $a) (i32.const {size})))
      (br_if $outer (i32.lt_u (local.get $a) (i32.const {end}))))"""


def _text(numbers: Sequence[int], form: str) -> str:
    packed = b"".join(struct.pack(form, number) for number in (*numbers, *numbers[:4]))  # a vector reads on
    return "".join(f"\\{byte:02x}" for byte in packed)


def float_torture() -> bytes:
    """Return the program; it writes about 600 kB to ``output``."""
    doubles, floats = _INPUTS, _INPUTS + 1024
    changes = [
        "(f32.store (local.get $o) (f32.demote_f64 (f64.load (local.get $a))))" + _advance(4),
        "(i64.store (local.get $o) (i64.trunc_sat_f64_s (f64.load (local.get $a))))" + _advance(8),
    ]
    changes_back = [
        "(f64.store (local.get $o) (f64.promote_f32 (f32.load (local.get $a))))" + _advance(8),
        "(i32.store (local.get $o) (i32.trunc_sat_f32_u (f32.load (local.get $a))))" + _advance(4),
    ]
    body = "(local $a i32) (local $b i32) (local $o i32)"
    body += "(local $xf64 f64) (local $yf64 f64) (local $xf32 f32) (local $yf32 f32)"
    body += f"(drop (memory.grow (i32.const 40))) (local.set $o (i32.const {_OUTPUT}))"
    body += _pairs(doubles, 8, [*_scalar("f64", 8), *_vector("f64x2"), *changes])
    body += _pairs(floats, 4, [*_scalar("f32", 4), *_vector("f32x4"), *changes_back])
    # Fuel, the clock and memory that is refused are part of the answer.
    body += (
        "(drop (call $clock_time_get (i32.const 1) (i64.const 1) (local.get $o)))" + _advance(8)
        + "(i32.store (local.get $o) (memory.grow (i32.const 60000)))" + _advance(4)
        + "(memory.fill (local.get $o) (i32.const 7) (i32.const 1000))"
        + "(drop (call $clock_time_get (i32.const 1) (i64.const 1) (local.get $o)))" + _advance(8)
        + "(drop (call $random_get (local.get $o) (i32.const 100)))" + _advance(100)
    )  # fmt: skip
    body += f"(call $save @out (i32.const {_OUTPUT}) (i32.sub (local.get $o) (i32.const {_OUTPUT})))"
    data = f'(data (i32.const {doubles}) "{_text(DOUBLES, "<Q")}") (data (i32.const {floats}) "{_text(FLOATS, "<I")}")'
    for kind in ("f32", "f64"):
        data += f"(global $g{kind} (mut {kind}) ({kind}.const 0))"
        data += (
            f"(func $twice_{kind} (param {kind}) (result {kind}) ({kind}.add (local.get 0) (local.get 0)))"
        )
    return module(body, data, out="output")
