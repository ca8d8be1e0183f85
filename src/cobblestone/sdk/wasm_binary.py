"""Reads and writes the binary format of WebAssembly, as far as modules are rewritten.

Format: the WebAssembly core specification 2.0, section 5 ("binary format").
"""

from __future__ import annotations

from cobblestone.sdk import wasm_opcodes as op
from cobblestone.sdk.wasm_opcodes import Immediate

TYPES, IMPORTS, FUNCTIONS, TABLES, GLOBALS, EXPORTS, START, CODE, DATA = 1, 2, 3, 4, 6, 7, 8, 10, 11
I32, I64, F32, F64, V128, FUNCREF = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B, 0x70

FunctionType = tuple[list[int], list[int]]
"""Parameters and results."""


class UnknownConstructError(Exception):
    """The module uses something that is not known here; the text says what."""


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
    """Walks over bytes of a module; raises IndexError at their end."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        """Read one byte."""
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """Read an unsigned LEB128 number."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip_number(self) -> None:
        """Go behind a LEB128 number."""
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
        """Go behind what belongs to an instruction; its number after a prefix, else 0.

        Raises UnknownConstructError for an instruction that is not known.
        """
        if code == op.VECTOR_PREFIX:
            return self._skip_vector()
        number = 0
        if code == op.BULK_PREFIX:
            number = self.number()
            kind = op.BULK_IMMEDIATES.get(number)
        else:
            kind = op.IMMEDIATES.get(code)
        if kind is None:
            raise UnknownConstructError(
                f"it has an instruction that is not known here (0x{code:02x} {number})"
            )
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
        if number > op.MAX_VECTOR:
            raise UnknownConstructError("it uses relaxed SIMD, whose results depend on the computer")
        if number in op.VECTOR_MEMORY:
            self._skip_memory()
            if number in op.VECTOR_MEMORY_LANE:
                self.take(1)
        else:
            self.take(op.VECTOR_BYTES.get(number, 0))
        return number

    def _skip_memory(self) -> None:
        if self.number() & 0x40:
            raise UnknownConstructError("it has several memories")
        self.skip_number()


def read_sections(module: bytes) -> list[tuple[int, bytes]]:
    """Return the sections of a module in their order: number and content."""
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
            raise UnknownConstructError("it has types that are not of functions (garbage collection)")
        found.append((list(reader.take(reader.number())), list(reader.take(reader.number()))))
    if any(kind < 0x6F for pair in found for kinds in pair for kind in kinds):
        raise UnknownConstructError("it has values of types that are not known here (typed references)")
    return found


def read_imports(section: bytes) -> list[int]:
    """Return the numbers of the types of the imported functions.

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
    """Return the numbers that a section consists of, such as the types of the module's functions."""
    reader = Bytes(section)
    return [reader.number() for _ in range(reader.number())]


def read_bodies(section: bytes) -> list[bytes]:
    """Return the module's functions: locals and code of each."""
    reader = Bytes(section)
    return [reader.take(reader.number()) for _ in range(reader.number())]


def write_bodies(bodies: list[bytes]) -> bytes:
    """Return the section of the module's functions."""
    return unsigned(len(bodies)) + b"".join(unsigned(len(body)) + body for body in bodies)


def write_section(number: int, content: bytes) -> bytes:
    """Return a section with its head."""
    return bytes([number]) + unsigned(len(content)) + content
