"""Rewrites a WebAssembly module so that an engine without an instruction count runs it as the native launcher does.

Browsers' engines count nothing.  So the module that they get counts for itself, exactly what wasmtime 50 calls fuel, calls its
host every so often, and asks for no more memory than its job has.  What it computes is the same.  Its NaNs have one form already
(:mod:`cobblestone.sdk.wasm.one_nan`).

The count lives in a local variable of each function and is kept in a global one across calls, as wasmtime does it: each
stretch of code without a jump adds its instructions at its end.  Two more globals hold the count at which the host is to be
called, from the head of the next loop, and the most pages of memory.  The host's function stands in a table of its own.
Code that stays as it is is copied; no number of a function, type, table or global changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.errors import JobError
from cobblestone.sdk.wasm import binary
from cobblestone.sdk.wasm.binary import Bytes, FunctionType, UnknownConstructError
from cobblestone.sdk.wasm.one_nan import with_one_nan

#: Exports that the module gets: three 64-bit globals, and a table for the host's function.
FUEL, NEXT_CALL = "cobblestone:fuel", "cobblestone:next_call"
MEMORY_PAGES, HOST = "cobblestone:memory_pages", "cobblestone:host"

_ORDER = (1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11)
#: Up to so many, wasmtime counts pages of memory before it knows whether they are to be had.
_FEW_PAGES = 128
_MOST = 0x7FFF_FFFF_FFFF_FFFF


@dataclass(slots=True, kw_only=True)
class _Surroundings:
    """What the code of a function refers to."""

    types: list[FunctionType]
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
        return binary.signed(self.blocks.setdefault(tuple(results), len(self.types) + 1 + len(self.blocks)))


def instrument(module: bytes, name: str) -> bytes:
    """Return a module that counts its own instructions, for engines that do not; with one form of NaN.

    Raises:
        JobError: the module uses what is not known here, so that the count could not be exact.
    """
    try:
        return _instrument(with_one_nan(module))
    except UnknownConstructError as problem:
        raise JobError(
            f"{name} cannot be computed in browsers: {problem}. Compile it without, or offer the app without --browser."
        ) from None
    except (IndexError, ValueError):
        raise JobError(f"{name} is not a whole WebAssembly module.") from None


def _instrument(module: bytes) -> bytes:
    sections = {
        number: content for number, content in binary.read_sections(module) if number
    }  # 0: names and such
    types = binary.read_types(sections.get(binary.TYPES, b"\0"))
    # functions only: globals begin with the module's own
    binary.read_imports(sections.get(binary.IMPORTS, b"\0"))
    surroundings = _Surroundings(
        types=types,
        blocks={},
        fuel=Bytes(sections.get(binary.GLOBALS, b"\0")).number(),
        table=Bytes(sections.get(binary.TABLES, b"\0")).number(),
        host_type=len(types),
    )
    surroundings.next_call, surroundings.memory_pages = surroundings.fuel + 1, surroundings.fuel + 2
    functions = binary.read_numbers(sections.get(binary.FUNCTIONS, b"\0"))
    bodies = binary.read_bodies(sections.get(binary.CODE, b"\0"))
    sections[binary.CODE] = binary.write_bodies(
        [
            _Function(body, *types[kind], surroundings).rewritten()
            for body, kind in zip(bodies, functions, strict=True)
        ]
    )
    block_types = [
        b"\x60\0" + binary.unsigned(len(results)) + bytes(results) for results in surroundings.blocks
    ]
    _append(sections, binary.TYPES, [b"\x60\0\0", *block_types])
    _append(sections, binary.TABLES, [bytes([binary.FUNCREF, 0, 1])])
    _append(
        sections,
        binary.GLOBALS,
        [
            bytes([binary.I64, 1, 0x42]) + binary.signed(value) + b"\x0b"
            for value in (_startup(sections), _MOST, _MOST)
        ],
    )
    exports = [(FUEL, 3, surroundings.fuel), (NEXT_CALL, 3, surroundings.next_call)]
    exports += [(MEMORY_PAGES, 3, surroundings.memory_pages), (HOST, 1, surroundings.table)]
    _append(
        sections,
        binary.EXPORTS,
        [
            binary.unsigned(len(name)) + name.encode() + bytes([kind]) + binary.unsigned(at)
            for name, kind, at in exports
        ],
    )
    return module[:8] + b"".join(
        binary.write_section(number, sections[number]) for number in _ORDER if number in sections
    )


def _append(sections: dict[int, bytes], number: int, entries: list[bytes]) -> None:
    """Append entries to a section."""
    reader = Bytes(sections.get(number, b"\0"))
    count = reader.number()
    sections[number] = binary.unsigned(count + len(entries)) + reader.data[reader.at :] + b"".join(entries)


def _startup(sections: dict[int, bytes]) -> int:
    """Return what wasmtime counts before the module's first instruction: copied data, and the call of a start function."""
    reader = Bytes(sections.get(binary.DATA, b"\0"))
    count = 0
    for _ in range(reader.number()):
        kind = reader.number()
        if kind == 2:
            reader.skip_number()
        if kind != 1:  # not passive
            if reader.byte() not in (0x41, 0x23):  # a number, a global
                raise UnknownConstructError("it computes where its data belong")
            reader.skip_number()
            if reader.byte() != binary.END:
                raise UnknownConstructError("it computes where its data belong")
        size = reader.number()
        reader.take(size)
        count += 0 if kind == 1 else 1 + size
    count += binary.START in sections
    return count + 1 if count else 0


class _Function:
    """Rewrites the code of one function."""

    def __init__(
        self, body: bytes, parameters: list[int], results: list[int], surroundings: _Surroundings
    ) -> None:
        self._reader = Bytes(body)
        self._results = results
        self._around = surroundings
        self._groups = [(self._reader.number(), self._reader.byte()) for _ in range(self._reader.number())]
        self._nlocals = len(parameters) + sum(count for count, _ in self._groups)
        self._locals: dict[tuple[int, str], int] = {}  # of ours: type and use, number
        self._count = self._local(binary.I64)
        self._out = bytearray()
        self._copied = self._reader.at  # what lies before is in the output
        self._pending = 1  # instructions that are not counted yet: the first for entering the function

    def rewritten(self) -> bytes:
        """Return the function's new locals and code."""
        around = self._around
        self._emit(0x23, around.fuel, 0x21, self._count)
        self._out += bytes([binary.BLOCK]) + around.block_type(self._results)
        self._walk()
        self._out.append(binary.END)
        self._save()
        self._out.append(binary.END)
        groups = [*self._groups, *((1, kind) for kind, _ in self._locals)]
        head = b"".join(binary.unsigned(count) + bytes([kind]) for count, kind in groups)
        return binary.unsigned(len(groups)) + head + bytes(self._out)

    def _walk(self) -> None:
        """Process the instructions up to the function's end, which is left out."""
        reader, data = self._reader, self._reader.data
        depth = 0
        dead = 0  # depth of the blocks that were opened in code that is never reached, plus one
        while True:
            start = reader.at
            code = reader.byte()
            number = reader.skip_immediates(code)
            if code in (binary.BLOCK, binary.LOOP, binary.IF):
                depth += 1
            if dead:
                if code in (binary.BLOCK, binary.LOOP, binary.IF):
                    dead += 1
                    continue
                if code not in (binary.ELSE, binary.END):
                    continue
                dead -= code == binary.END or dead == 1
                if dead:
                    depth -= code == binary.END
                    continue
            self._count_instruction(code, start)
            if code == binary.END:
                depth -= 1
                if depth < 0:
                    self._copy_to(start)
                    if reader.at != len(data):
                        raise ValueError("code after the end of a function")
                    return
            self._after(code, number, start)
            dead = 1 if code in binary.ENDS_CODE else 0

    def _count_instruction(self, code: int, start: int) -> None:
        """Add the instructions executed so far to the count, where control may branch."""
        self._pending += code not in binary.FREE
        if code in _JUMPS:
            self._copy_to(start)
            if self._pending:
                self._emit(0x20, self._count, 0x42)
                self._out += binary.signed(self._pending) + b"\x7c"
                self._emit(0x21, self._count)
                self._pending = 0
            if code in binary.CALLS or code in binary.LEAVES:
                self._save()

    def _after(self, code: int, number: int, start: int) -> None:
        """Emit the code after an instruction, or in its place."""
        around = self._around
        if code in binary.CALLS:
            self._copy_to(self._reader.at)
            self._emit(0x23, around.fuel, 0x21, self._count)
        elif code == binary.LOOP:
            self._copy_to(self._reader.at)
            self._emit(0x20, self._count, 0x23, around.next_call)
            self._out += b"\x55\x04\x40"  # greater: if
            self._save()
            self._out += (
                b"\x41\0\x11" + binary.unsigned(around.host_type) + binary.unsigned(around.table) + b"\x0b"
            )
        elif code == binary.MEMORY_GROW:
            self._copy_to(start)
            self._grow()
            self._copied = self._reader.at
        elif code == binary.BULK_PREFIX and number in binary.SIZED:
            self._copy_to(start)
            self._count_size()

    def _count_size(self) -> None:
        """Add the size on the stack to the count, and leave it there."""
        size = self._local(binary.I32)
        self._emit(0x22, size)
        self._add(size)

    def _add(self, size: int) -> None:
        """Add an unsigned number of 32 bits, a local variable, to the count."""
        self._emit(0x20, size, 0xAD)
        self._emit(0x20, self._count, 0x7C)
        self._emit(0x21, self._count)

    def _grow(self) -> None:
        """Grow the memory, unless the job may not have more; a failed request for many pages is not counted."""
        pages, got = self._local(binary.I32), self._local(binary.I32, "got")
        self._emit(0x22, pages)
        self._out += b"\xad\x3f\0\xad\x7c"  # as 64 bits, memory.size, as 64 bits, sum
        self._emit(0x23, self._around.memory_pages)
        self._out += b"\x56\x04\x7f\x41\x7f\x05"  # greater, unsigned: if; -1; else
        self._emit(0x20, pages)
        self._out += b"\x40\0\x0b"
        self._emit(0x22, got)
        self._out += b"\x41\x7f\x47"  # is not -1
        self._emit(0x20, pages)
        self._out += b"\x41" + binary.signed(_FEW_PAGES) + b"\x4d\x72\x04\x40"  # not more, unsigned; or: if
        self._add(pages)
        self._out.append(binary.END)
        self._emit(0x20, got)

    def _save(self) -> None:
        self._emit(0x20, self._count, 0x24, self._around.fuel)

    def _emit(self, *pairs: int) -> None:
        """Emit instructions that have only a number; the last one may be missing."""
        for place in range(0, len(pairs), 2):
            self._out.append(pairs[place])
            if place + 1 < len(pairs):
                self._out += binary.unsigned(pairs[place + 1])

    def _copy_to(self, end: int) -> None:
        self._out += self._reader.data[self._copied : end]
        self._copied = end

    def _local(self, kind: int, use: str = "") -> int:
        """Return the number of our local variable for a type and a use."""
        return self._locals.setdefault((kind, use), self._nlocals + len(self._locals))


_JUMPS = (
    frozenset({binary.LOOP, binary.IF, binary.BR_IF, binary.END, binary.ELSE})
    | binary.ENDS_CODE
    | binary.CALLS
)
