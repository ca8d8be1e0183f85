"""Rewrites a WebAssembly module so that an engine without a count of instructions runs it as the native launcher does.

Browsers' engines count nothing and leave open which bits a NaN has.  So the module that they get counts for itself, exactly
what wasmtime 50 calls fuel, calls its host every so often, gives every NaN that arithmetic makes one form, and asks for no more
memory than its job has.  What it computes is the same.

The count lives in a local variable of each function and is kept in a global one across calls, as wasmtime does it: each
stretch of code without a jump adds its instructions at its end.  Two more globals hold the count at which the host is to be
called, from the head of the next loop, and the most pages of memory.  The host's function stands in a table of its own.
Code that stays as it is is copied; no number of a function, type, table or global changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.errors import JobError
from cobblestone.sdk import wasm_opcodes as op
from cobblestone.sdk.wasm_opcodes import Immediate

FUEL, NEXT_CALL, MEMORY_PAGES, HOST = (
    "cobblestone:fuel",
    "cobblestone:next_call",
    "cobblestone:memory_pages",
    "cobblestone:host",
)
"""Exports that the module gets: three 64-bit globals, and a table for the host's function."""

_TYPES, _IMPORTS, _FUNCTIONS, _TABLES, _GLOBALS, _EXPORTS, _START, _CODE, _DATA = 1, 2, 3, 4, 6, 7, 8, 10, 11
_ORDER = (1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11)
_I32, _I64, _F32, _F64, _V128, _FUNCREF = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B, 0x70
_FEW_PAGES = 128
"""Up to so many, wasmtime counts pages of memory before it knows whether they are to be had."""
_MOST = 0x7FFF_FFFF_FFFF_FFFF

_F32_NAN = b"\x43\x00\x00\xc0\x7f"
_F64_NAN = b"\x44\x00\x00\x00\x00\x00\x00\xf8\x7f"
_F32X4_NAN = b"\xfd\x0c" + b"\x00\x00\xc0\x7f" * 4
_F64X2_NAN = b"\xfd\x0c" + b"\x00\x00\x00\x00\x00\x00\xf8\x7f" * 2
#: Type, the one form of NaN, equality, choice between the value and that form.
_CANONICAL = {
    "f32": (_F32, _F32_NAN, b"\x5b", b"\x1b"),
    "f64": (_F64, _F64_NAN, b"\x61", b"\x1b"),
    "f32x4": (_V128, _F32X4_NAN, b"\xfd\x41", b"\xfd\x52"),
    "f64x2": (_V128, _F64X2_NAN, b"\xfd\x47", b"\xfd\x52"),
}


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


class _Bytes:
    """Walks over bytes of a module."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
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
        data, at = self.data, self.at
        while data[at] >= 0x80:
            at += 1
        self.at = at + 1

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise IndexError
        self.at += count
        return self.data[self.at - count : self.at]


@dataclass(slots=True, kw_only=True)
class _Surroundings:
    """What the code of a function refers to."""

    types: list[tuple[list[int], list[int]]]  #: parameters and results
    blocks: dict[tuple[int, ...], int]  #: number of the type of a block with several results
    fuel: int = 0  #: numbers of the globals
    next_call: int = 0
    memory_pages: int = 0
    table: int = 0  #: number of the host's table
    host_type: int = 0

    def block_type(self, results: list[int]) -> bytes:
        """Return the type of a block that gives ``results``."""
        if len(results) < 2:
            return bytes(results) or b"\x40"
        return signed(self.blocks.setdefault(tuple(results), len(self.types) + 1 + len(self.blocks)))


def instrument(module: bytes, name: str) -> bytes:
    """Return a module that counts its instructions, for engines that do not.

    Raises:
        JobError: the module uses what is not known here, so that the count could not be exact.
    """
    try:
        return _instrument(module)
    except _Unknown as problem:
        raise JobError(
            f"{name} cannot be computed in browsers: {problem}. Compile it without, or offer the app without --browser."
        ) from None
    except (IndexError, ValueError):
        raise JobError(f"{name} is not a whole WebAssembly module.") from None


class _Unknown(Exception):
    """The module uses something that is not known here."""


def _instrument(module: bytes) -> bytes:
    sections: dict[int, bytes] = {}
    reader = _Bytes(module, 8)
    while reader.at < len(module):
        number = reader.byte()
        content = reader.take(reader.number())
        if number:  # custom sections hold names and such
            sections[number] = content
    types = _read_types(sections.get(_TYPES, b"\0"))
    _check_imports(sections.get(_IMPORTS, b"\0"))
    surroundings = _Surroundings(
        types=types,
        blocks={},
        fuel=_Bytes(sections.get(_GLOBALS, b"\0")).number(),
        table=_Bytes(sections.get(_TABLES, b"\0")).number(),
        host_type=len(types),
    )
    surroundings.next_call, surroundings.memory_pages = surroundings.fuel + 1, surroundings.fuel + 2
    functions = _Bytes(sections.get(_FUNCTIONS, b"\0"))
    signatures = [types[functions.number()] for _ in range(functions.number())]
    code = _Bytes(sections.get(_CODE, b"\0"))
    bodies = [b"" for _ in range(code.number())]
    for place, (parameters, results) in zip(range(len(bodies)), signatures, strict=True):
        bodies[place] = _Function(code.take(code.number()), parameters, results, surroundings).rewritten()
    sections[_CODE] = unsigned(len(bodies)) + b"".join(unsigned(len(body)) + body for body in bodies)
    block_types = [b"\x60\0" + unsigned(len(results)) + bytes(results) for results in surroundings.blocks]
    _append(sections, _TYPES, [b"\x60\0\0", *block_types])
    _append(sections, _TABLES, [bytes([_FUNCREF, 0, 1])])
    _append(
        sections,
        _GLOBALS,
        [bytes([_I64, 1, 0x42]) + signed(value) + b"\x0b" for value in (_startup(sections), _MOST, _MOST)],
    )
    exports = [(FUEL, 3, surroundings.fuel), (NEXT_CALL, 3, surroundings.next_call)]
    exports += [(MEMORY_PAGES, 3, surroundings.memory_pages), (HOST, 1, surroundings.table)]
    _append(
        sections,
        _EXPORTS,
        [unsigned(len(name)) + name.encode() + bytes([kind]) + unsigned(at) for name, kind, at in exports],
    )
    return module[:8] + b"".join(
        bytes([number]) + unsigned(len(sections[number])) + sections[number]
        for number in _ORDER
        if number in sections
    )


def _append(sections: dict[int, bytes], number: int, entries: list[bytes]) -> None:
    """Put further entries at the end of a section."""
    reader = _Bytes(sections.get(number, b"\0"))
    count = reader.number()
    sections[number] = unsigned(count + len(entries)) + reader.data[reader.at :] + b"".join(entries)


def _read_types(section: bytes) -> list[tuple[list[int], list[int]]]:
    reader = _Bytes(section)
    found: list[tuple[list[int], list[int]]] = []
    for _ in range(reader.number()):
        if reader.byte() != 0x60:
            raise _Unknown("it has types that are not of functions (garbage collection)")
        found.append((list(reader.take(reader.number())), list(reader.take(reader.number()))))
    if any(kind < 0x6F for pair in found for kinds in pair for kind in kinds):
        raise _Unknown("it has values of types that are not known here (typed references)")
    return found


def _check_imports(section: bytes) -> None:
    """Make sure that only functions are imported, so that the numbers of globals and tables begin with the module's own."""
    reader = _Bytes(section)
    for _ in range(reader.number()):
        reader.take(reader.number())
        reader.take(reader.number())
        if reader.byte() != 0:
            raise _Unknown("it imports a memory, a table or a global")
        reader.number()


def _startup(sections: dict[int, bytes]) -> int:
    """Return what wasmtime counts before the module's first instruction: data put into the memory, and the call of a start."""
    reader = _Bytes(sections.get(_DATA, b"\0"))
    count = 0
    for _ in range(reader.number()):
        kind = reader.number()
        if kind == 2:
            reader.skip_number()
        if kind != 1:  # not passive
            if reader.byte() not in (0x41, 0x23):  # a number, a global
                raise _Unknown("it computes where its data belong")
            reader.skip_number()
            if reader.byte() != op.END:
                raise _Unknown("it computes where its data belong")
        size = reader.number()
        reader.take(size)
        count += 0 if kind == 1 else 1 + size
    count += _START in sections
    return count + 1 if count else 0


class _Function:
    """Rewrites the code of one function."""

    def __init__(
        self, body: bytes, parameters: list[int], results: list[int], surroundings: _Surroundings
    ) -> None:
        self._reader = _Bytes(body)
        self._results = results
        self._around = surroundings
        self._groups = [(self._reader.number(), self._reader.byte()) for _ in range(self._reader.number())]
        self._nlocals = len(parameters) + sum(count for count, _ in self._groups)
        self._locals: dict[tuple[int, str], int] = {}  # of ours: type and use, number
        self._count = self._local(_I64)
        self._out = bytearray()
        self._copied = self._reader.at  # what lies before is in the output
        self._pending = 1  # instructions that are not counted yet: the first for entering the function

    def rewritten(self) -> bytes:
        """Return the function's new locals and code."""
        around = self._around
        self._emit(0x23, around.fuel, 0x21, self._count)
        self._out += bytes([op.BLOCK]) + around.block_type(self._results)
        self._walk()
        self._out.append(op.END)
        self._save()
        self._out.append(op.END)
        groups = [*self._groups, *((1, kind) for kind, _ in self._locals)]
        head = b"".join(unsigned(count) + bytes([kind]) for count, kind in groups)
        return unsigned(len(groups)) + head + bytes(self._out)

    def _walk(self) -> None:
        """Go through the instructions up to the function's end, which is left away."""
        reader, data = self._reader, self._reader.data
        depth = 0
        dead = 0  # depth of the blocks that were opened in code that is never reached, plus one
        while True:
            start = reader.at
            code = reader.byte()
            number = self._skip_immediates(code)
            if code in (op.BLOCK, op.LOOP, op.IF):
                depth += 1
            if dead:
                if code in (op.BLOCK, op.LOOP, op.IF):
                    dead += 1
                    continue
                if code not in (op.ELSE, op.END):
                    continue
                dead -= code == op.END or dead == 1
                if dead:
                    depth -= code == op.END
                    continue
            self._count_instruction(code, start)
            if code == op.END:
                depth -= 1
                if depth < 0:
                    self._copy_to(start)
                    if reader.at != len(data):
                        raise ValueError("code after the end of a function")
                    return
            self._after(code, number, start)
            dead = 1 if code in op.ENDS_CODE else 0

    def _count_instruction(self, code: int, start: int) -> None:
        """Add to the count what was executed up to here, where control may go elsewhere."""
        self._pending += code not in op.FREE
        if code in _JUMPS:
            self._copy_to(start)
            if self._pending:
                self._emit(0x20, self._count, 0x42)
                self._out += signed(self._pending) + b"\x7c"
                self._emit(0x21, self._count)
                self._pending = 0
            if code in op.CALLS or code in op.LEAVES:
                self._save()

    def _after(self, code: int, number: int, start: int) -> None:
        """Do what belongs behind an instruction, or in its place."""
        around = self._around
        if code in op.CALLS:
            self._copy_to(self._reader.at)
            self._emit(0x23, around.fuel, 0x21, self._count)
        elif code == op.LOOP:
            self._copy_to(self._reader.at)
            self._emit(0x20, self._count, 0x23, around.next_call)
            self._out += b"\x55\x04\x40"  # greater: if
            self._save()
            self._out += b"\x41\0\x11" + unsigned(around.host_type) + unsigned(around.table) + b"\x0b"
        elif code == op.MEMORY_GROW:
            self._copy_to(start)
            self._grow()
            self._copied = self._reader.at
        elif code == op.BULK_PREFIX and number in op.SIZED:
            self._copy_to(start)
            self._count_size()
        elif (kind := _result_kind(code, number)) and not self._next_ignores_form():
            self._copy_to(self._reader.at)
            local_type, form, equal, choose = _CANONICAL[kind]
            value = self._local(local_type)
            self._emit(0x22, value)
            self._out += form
            self._emit(0x20, value, 0x20, value)
            self._out += equal + choose

    def _count_size(self) -> None:
        """Add the size on the stack to the count, and leave it there."""
        size = self._local(_I32)
        self._emit(0x22, size)
        self._add(size)

    def _add(self, size: int) -> None:
        """Add an unsigned number of 32 bits, a local variable, to the count."""
        self._emit(0x20, size, 0xAD)
        self._emit(0x20, self._count, 0x7C)
        self._emit(0x21, self._count)

    def _grow(self) -> None:
        """Ask for more memory, unless the job may not have it; many pages that are not to be had are not counted."""
        pages, got = self._local(_I32), self._local(_I32, "got")
        self._emit(0x22, pages)
        self._out += b"\xad\x3f\0\xad\x7c"  # as 64 bits, memory.size, as 64 bits, sum
        self._emit(0x23, self._around.memory_pages)
        self._out += b"\x56\x04\x7f\x41\x7f\x05"  # greater, unsigned: if; -1; else
        self._emit(0x20, pages)
        self._out += b"\x40\0\x0b"
        self._emit(0x22, got)
        self._out += b"\x41\x7f\x47"  # is not -1
        self._emit(0x20, pages)
        self._out += b"\x41" + signed(_FEW_PAGES) + b"\x4d\x72\x04\x40"  # not more, unsigned; or: if
        self._add(pages)
        self._out.append(op.END)
        self._emit(0x20, got)

    def _save(self) -> None:
        self._emit(0x20, self._count, 0x24, self._around.fuel)

    def _emit(self, *pairs: int) -> None:
        """Write instructions of one number each; a last one may come without."""
        for place in range(0, len(pairs), 2):
            self._out.append(pairs[place])
            if place + 1 < len(pairs):
                self._out += unsigned(pairs[place + 1])

    def _copy_to(self, end: int) -> None:
        self._out += self._reader.data[self._copied : end]
        self._copied = end

    def _local(self, kind: int, use: str = "") -> int:
        """Return the number of our local of a type, and for a use."""
        return self._locals.setdefault((kind, use), self._nlocals + len(self._locals))

    def _next_ignores_form(self) -> bool:
        """Whether the next instruction takes the value from the stack and does not care which NaN it is."""
        code = self._reader.data[self._reader.at]
        if code == op.VECTOR_PREFIX:
            return _Bytes(self._reader.data, self._reader.at + 1).number() in op.IGNORES_FORM_VECTOR
        return code in op.IGNORES_FORM

    def _skip_immediates(self, code: int) -> int:
        """Go behind what belongs to an instruction; its number after a prefix, else 0."""
        reader = self._reader
        if code == op.VECTOR_PREFIX:
            return self._skip_vector()
        number = 0
        if code == op.BULK_PREFIX:
            number = reader.number()
            kind = op.BULK_IMMEDIATES.get(number)
        else:
            kind = op.IMMEDIATES.get(code)
        if kind is None:
            raise _Unknown(f"it has an instruction that is not known here (0x{code:02x} {number})")
        if kind is Immediate.NUMBER or kind is Immediate.BLOCK:
            reader.skip_number()
        elif kind is Immediate.MEMORY:
            self._skip_memory()
        elif kind is Immediate.TWO_NUMBERS:
            reader.skip_number()
            reader.skip_number()
        elif kind is Immediate.FOUR:
            reader.take(4)
        elif kind is Immediate.EIGHT:
            reader.take(8)
        elif kind is Immediate.TARGETS:
            for _ in range(reader.number() + 1):
                reader.skip_number()
        elif kind is Immediate.TYPES:
            reader.take(reader.number())
        return number

    def _skip_vector(self) -> int:
        number = self._reader.number()
        if number > op.MAX_VECTOR:
            raise _Unknown("it uses relaxed SIMD, whose results depend on the computer")
        if number in op.VECTOR_MEMORY:
            self._skip_memory()
            if number in op.VECTOR_MEMORY_LANE:
                self._reader.take(1)
        else:
            self._reader.take(op.VECTOR_BYTES.get(number, 0))
        return number

    def _skip_memory(self) -> None:
        if self._reader.number() & 0x40:
            raise _Unknown("it has several memories")
        self._reader.skip_number()


_JUMPS = frozenset({op.LOOP, op.IF, op.BR_IF, op.END, op.ELSE}) | op.ENDS_CODE | op.CALLS


def _result_kind(code: int, number: int) -> str:
    """Return what kind of floating-point result an instruction gives that may be a NaN of any form; empty: none."""
    if code in op.F64_RESULTS:
        return "f64"
    if code in op.F32_RESULTS:
        return "f32"
    if code != op.VECTOR_PREFIX:
        return ""
    if number in op.F32X4_RESULTS:
        return "f32x4"
    return "f64x2" if number in op.F64X2_RESULTS else ""
