"""The binary format of WebAssembly: reading, writing as far as modules are rewritten, and the instructions.

The instructions of WebAssembly, as far as their length, their cost and their results matter to the instrumentation.

Numbers: the WebAssembly core specification 2.0, section 5.4 ("instructions"), with the proposals that engines switch on by
default and compilers use: sign extension, saturating conversions, bulk memory, reference types, tail calls, 128-bit SIMD.

Reads and writes the binary format of WebAssembly, as far as modules are rewritten.

Format: the WebAssembly core specification 2.0, section 5 ("binary format").
"""

from __future__ import annotations

import re
from enum import IntEnum


class Immediate(IntEnum):
    """The kind of operand after an instruction's number."""

    NONE = 0
    NUMBER = 1  #: one LEB128 number
    MEMORY = 2  #: alignment and offset
    FOUR = 3  #: four bytes
    EIGHT = 4  #: eight bytes
    TWO_NUMBERS = 5
    TARGETS = 6  #: of br_table
    TYPES = 7  #: of a select with types
    BLOCK = 8  #: type of a block


UNREACHABLE, NOP, BLOCK, LOOP, IF, ELSE, END = 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x0B
BR, BR_IF, BR_TABLE, RETURN = 0x0C, 0x0D, 0x0E, 0x0F
CALL, CALL_INDIRECT, RETURN_CALL, RETURN_CALL_INDIRECT, DROP = 0x10, 0x11, 0x12, 0x13, 0x1A
SELECT, SELECT_TYPED, LOCAL_GET, LOCAL_SET, LOCAL_TEE = 0x1B, 0x1C, 0x20, 0x21, 0x22
F32_CONST, F64_CONST = 0x43, 0x44
MEMORY_GROW, BULK_PREFIX, VECTOR_PREFIX = 0x40, 0xFC, 0xFD
#: Type of a block without parameters and results.
NO_VALUE = 0x40

#: Cost no fuel; every other instruction costs one, and so does entering a function.
FREE = frozenset({UNREACHABLE, NOP, BLOCK, LOOP, ELSE, END, RETURN, DROP})
#: What follows them in their block is never reached.
ENDS_CODE = frozenset({UNREACHABLE, BR, BR_TABLE, RETURN, RETURN_CALL, RETURN_CALL_INDIRECT})
CALLS = frozenset({CALL, CALL_INDIRECT})
LEAVES = frozenset({UNREACHABLE, RETURN, RETURN_CALL, RETURN_CALL_INDIRECT})


def _immediates() -> dict[int, Immediate]:
    found = dict.fromkeys(
        [UNREACHABLE, NOP, ELSE, END, RETURN, DROP, 0x1B, 0xD1, *range(0x45, 0xC5)], Immediate.NONE
    )
    found |= dict.fromkeys([BLOCK, LOOP, IF], Immediate.BLOCK)
    found |= dict.fromkeys(
        [BR, BR_IF, CALL, RETURN_CALL, *range(0x20, 0x27), 0x3F, 0x40, 0x41, 0x42, 0xD0, 0xD2],
        Immediate.NUMBER,
    )
    found |= dict.fromkeys([CALL_INDIRECT, RETURN_CALL_INDIRECT], Immediate.TWO_NUMBERS)
    found |= dict.fromkeys(range(0x28, 0x3F), Immediate.MEMORY)
    return found | {
        BR_TABLE: Immediate.TARGETS,
        0x1C: Immediate.TYPES,
        0x43: Immediate.FOUR,
        0x44: Immediate.EIGHT,
    }


#: Of instructions of one byte.
IMMEDIATES = _immediates()

#: Of those after :data:`BULK_PREFIX`; not table.init and table.grow, whose cost depends on more than their size.
BULK_IMMEDIATES = {
    **dict.fromkeys(range(8), Immediate.NONE),  # saturating conversions
    **dict.fromkeys([9, 11, 13, 16, 17], Immediate.NUMBER),
    **dict.fromkeys([8, 10, 14], Immediate.TWO_NUMBERS),
}

#: Of those: they cost one more for each byte, or entry of a table, that they fill or copy.
SIZED = frozenset([8, 10, 11, 14, 17])

#: Bytes after the number of an instruction after :data:`VECTOR_PREFIX`; of those not listed none.
VECTOR_BYTES = {
    **dict.fromkeys([12, 13], 16),  # a constant, a shuffle
    **dict.fromkeys(range(21, 35), 1),  # a lane
}
VECTOR_MEMORY = frozenset([*range(12), *range(84, 94)])
VECTOR_MEMORY_LANE = range(84, 92)
#: Those above are relaxed SIMD, whose results depend on the computer.
MAX_VECTOR = 0xFF

#: Arithmetic that may give a NaN of any form: rounding, root, the four operations, minimum, maximum, conversion from f64.
F32_RESULTS = frozenset([*range(0x8D, 0x98), 0xB6])
F64_RESULTS = frozenset([*range(0x9B, 0xA6), 0xBB])
F32X4_RESULTS = frozenset([0x67, 0x68, 0x69, 0x6A, 0x5E, *range(0xE3, 0xEA)])
F64X2_RESULTS = frozenset([0x74, 0x75, 0x7A, 0x94, 0x5F, *range(0xEF, 0xF6)])

#: Comparisons, arithmetic and conversions to integers: which form a NaN has that they are given makes no difference.
IGNORES_FORM = frozenset([*range(0x5B, 0x67), *F32_RESULTS, *F64_RESULTS, *range(0xA8, 0xB2)]) - {0xAC, 0xAD}
ABSOLUTE = frozenset([0x8B, 0x99])
#: Take or change the sign only, also that of a NaN: absolute value, negation, sign of another number.
SIGNS = ABSOLUTE | {0x8C, 0x98, 0x9A, 0xA6}
#: Give floating-point values whose bits the program chose: globals, loads, reinterpreted integers.
GIVES_BITS = frozenset([0x23, 0x2A, 0x2B, 0xBE, 0xBF])
#: One of these is in the code of each function that has floating-point arithmetic.
ARITHMETIC_BYTES = re.compile(
    b"[" + b"".join(re.escape(bytes([code])) for code in (*F32_RESULTS, *F64_RESULTS, VECTOR_PREFIX)) + b"]"
)


def _stack_effects() -> dict[int, tuple[int, int]]:
    conversions = [*range(0xA7, 0xC0), *range(0xC0, 0xC5)]
    unary = [0x45, 0x50, *range(0x67, 0x6A), *range(0x79, 0x7C), *range(0x8B, 0x92), *range(0x99, 0xA0)]
    binary = [*range(0x46, 0x50), *range(0x51, 0x67), *range(0x6A, 0x79), *range(0x7C, 0x8B)]
    binary += [*range(0x92, 0x99), *range(0xA0, 0xA7)]
    found = dict.fromkeys([*unary, *conversions, 0x25, *range(0x28, 0x36), MEMORY_GROW, 0xD1], (1, 1))
    found |= dict.fromkeys(binary, (2, 1)) | dict.fromkeys([0x26, *range(0x36, 0x3F)], (2, 0))
    found |= dict.fromkeys([0x23, 0x3F, 0x41, 0x42, 0xD0, 0xD2], (0, 1))
    return found | {NOP: (0, 0), DROP: (1, 0), 0x24: (1, 0)}


#: Values that instructions of one byte take from the stack, and put there; not of those for control, variables, constants of
#: floating point and choices.
STACK_EFFECTS = _stack_effects()
#: Numbers below are saturating conversions to integers.
BULK_CONVERSIONS = 8
BULK_STACK_EFFECTS = {
    **dict.fromkeys(range(BULK_CONVERSIONS), (1, 1)),
    **dict.fromkeys([8, 10, 11, 14, 17], (3, 0)),
    **dict.fromkeys([9, 13], (0, 0)),
    16: (0, 1),
}

_VECTOR_UNARY = (
    frozenset([*range(11), *range(15, 23), 24, *range(25, 35, 2), 92, 93])  # loads, splats, lanes taken out
    | frozenset([77, 83, *range(96, 101), *range(124, 130), 131, 132, *range(135, 139)])  # bits, i8x16, i16x8
    | frozenset([160, 161, 163, 164, *range(167, 171), 192, 193, 195, 196, *range(199, 203)])  # i32x4, i64x2
    | frozenset([94, 95, *range(103, 107), 116, 117, 122, 148, 224, 225, 227, 236, 237, 239])  # f32x4, f64x2
    | frozenset(range(248, 256))  # conversions between integers and floats
)


def vector_stack_effect(number: int) -> tuple[int, int]:
    """Return how many values a vector instruction pops from the stack and pushes."""
    if number == 12:  # a constant
        return 0, 1
    if number == 82:  # choice by bits
        return 3, 1
    return (1 if number in _VECTOR_UNARY else 2), int(number not in (11, *range(88, 92)))


#: Shape of what arithmetic on vectors gives.
VECTOR_RESULTS = dict.fromkeys(F32X4_RESULTS, "f32x4") | dict.fromkeys(F64X2_RESULTS, "f64x2")
#: Shape of what instructions take to which one NaN is like the other: arithmetic, comparisons, conversions to integers.
VECTOR_READS = {
    **VECTOR_RESULTS,
    **dict.fromkeys([*range(0x41, 0x47), 0xF8, 0xF9], "f32x4"),
    **dict.fromkeys([*range(0x47, 0x4D), 0xFC, 0xFD], "f64x2"),
    0x5E: "f64x2",
    0x5F: "f32x4",
}


TYPES, IMPORTS, FUNCTIONS, TABLES, GLOBALS, EXPORTS, START, CODE, DATA = 1, 2, 3, 4, 6, 7, 8, 10, 11
I32, I64, F32, F64, V128, FUNCREF = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B, 0x70

#: Parameters and results.
FunctionType = tuple[list[int], list[int]]


class UnknownConstructError(Exception):
    """The module uses an unsupported construct; the text names it."""


def unsigned(value: int) -> bytes:
    """Return a number in unsigned LEB128."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def signed(value: int) -> bytes:
    """Return a number in signed LEB128."""
    found = bytearray()
    while not -0x40 <= value < 0x40:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value & 0x7F)
    return bytes(found)


class Bytes:
    """Reads the bytes of a module in order; raises IndexError at the end."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        """Read one byte."""
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """Read an unsigned LEB128 number; ValueError for one of more than 64 bits."""
        value = shift = 0
        while shift < 70:
            byte = self.data[self.at]
            self.at += 1
            if byte < 0x80:
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            shift += 7
        raise ValueError("a number is too long")

    def skip_number(self) -> None:
        """Skip a LEB128 number."""
        data, at = self.data, self.at
        while data[at] >= 0x80:
            at += 1
        self.at = at + 1

    def take(self, count: int) -> bytes:
        """Read some bytes."""
        if count > len(self.data) - self.at:
            raise IndexError
        self.at += count
        return self.data[self.at - count : self.at]

    def skip_immediates(self, code: int) -> int:
        """Skip the immediates of an instruction; return its number after a prefix, else 0.

        Raises UnknownConstructError for an instruction that is not known.
        """
        if code == VECTOR_PREFIX:
            return self._skip_vector()
        number = 0
        if code == BULK_PREFIX:
            number = self.number()
            kind = BULK_IMMEDIATES.get(number)
        else:
            kind = IMMEDIATES.get(code)
        if kind is None:
            raise UnknownConstructError(f"it has an unknown instruction (0x{code:02x} {number})")
        if kind is Immediate.NUMBER or kind is Immediate.BLOCK:
            self.skip_number()
        elif kind is Immediate.MEMORY:
            self._skip_memory()
        elif kind is Immediate.TWO_NUMBERS:
            self.skip_number()
            self.skip_number()
        elif kind is Immediate.FOUR:
            self.take(4)
        elif kind is Immediate.EIGHT:
            self.take(8)
        elif kind is Immediate.TARGETS:
            for _ in range(self.number() + 1):
                self.skip_number()
        elif kind is Immediate.TYPES:
            self.take(self.number())
        return number

    def _skip_vector(self) -> int:
        number = self.number()
        if number > MAX_VECTOR:
            raise UnknownConstructError("it uses relaxed SIMD, whose results depend on the computer")
        if number in VECTOR_MEMORY:
            self._skip_memory()
            if number in VECTOR_MEMORY_LANE:
                self.take(1)
        else:
            self.take(VECTOR_BYTES.get(number, 0))
        return number

    def _skip_memory(self) -> None:
        if self.number() & 0x40:
            raise UnknownConstructError("it has several memories")
        self.skip_number()


def read_sections(module: bytes) -> list[tuple[int, bytes]]:
    """Return the sections of a module in order: number and content."""
    found: list[tuple[int, bytes]] = []
    reader = Bytes(module, 8)
    while reader.at < len(module):
        number = reader.byte()
        found.append((number, reader.take(reader.number())))
    return found


def read_types(section: bytes) -> list[FunctionType]:
    """Return the types of functions.  Raises UnknownConstructError for other types."""
    reader = Bytes(section)
    found: list[FunctionType] = []
    for _ in range(reader.number()):
        if reader.byte() != 0x60:
            raise UnknownConstructError("it has types other than functions (garbage collection)")
        found.append((list(reader.take(reader.number())), list(reader.take(reader.number()))))
    if any(kind < 0x6F for pair in found for kinds in pair for kind in kinds):
        raise UnknownConstructError("it has values of unknown types (typed references)")
    return found


def read_imports(section: bytes) -> list[int]:
    """Return the type numbers of the imported functions.

    Raises UnknownConstructError for other imports, so that the numbers of globals and tables begin with the module's own.
    """
    reader = Bytes(section)
    found: list[int] = []
    for _ in range(reader.number()):
        reader.take(reader.number())
        reader.take(reader.number())
        if reader.byte() != 0:
            raise UnknownConstructError("it imports a memory, a table or a global")
        found.append(reader.number())
    return found


def read_numbers(section: bytes) -> list[int]:
    """Return the numbers in a section, such as the types of the module's functions."""
    reader = Bytes(section)
    return [reader.number() for _ in range(reader.number())]


def read_bodies(section: bytes) -> list[bytes]:
    """Return the locals and code of each function of the module."""
    reader = Bytes(section)
    return [reader.take(reader.number()) for _ in range(reader.number())]


def write_bodies(bodies: list[bytes]) -> bytes:
    """Return the section of the module's functions."""
    return unsigned(len(bodies)) + b"".join(unsigned(len(body)) + body for body in bodies)


def write_section(number: int, content: bytes) -> bytes:
    """Return a section with its header."""
    return bytes([number]) + unsigned(len(content)) + content
