"""Rewrites a WebAssembly module so that its NaNs have the same bits in every engine.

WebAssembly leaves open which bits a NaN has that arithmetic makes, and engines and processors differ.  The rewritten module
computes everywhere what the original one computes in the specification's deterministic profile: such a NaN is positive, and of
its fraction only the first bit is set.  Engines can do that themselves, after each operation, which makes floating point some
times slower.  Here a NaN gets its form only where its bits can be seen.

Why that is enough.  Values of floating point come about in three ways:

* *plain*: numbers, and NaNs that have the form: a constant, a converted integer;
* *given*: a NaN in it has bits that the program chose, and copying must keep them: loaded from memory, made from an integer,
  a parameter, the result of a call, a global;
* *made* by arithmetic: a NaN in it has any bits.

Arithmetic, comparisons and conversions to numbers tell no NaN from another.  All other instructions are taken for ones that see
the bits (stores, reinterpretation, a sign taken or changed, calls, returns, globals, lanes of vectors, ends of blocks and
jumps), and get a made value only after it has its form.  That is given right where the value comes about, by an instruction
that :meth:`_Walk._see` marks: a stack's value has one consumer, so what is consumed by arithmetic is left alone.  To give a
made value its form too early changes nothing in the deterministic profile; to do it to a given one would, and is never done.

A local variable that holds made and plain values only is made, and so is what is read from it.  One that holds made and given
ones in turns, and that anything but arithmetic reads, gets made values in their form only.  What a variable holds is found for
the whole function by walking through it until nothing more is learned.  Vectors get their form before they go anywhere but into
arithmetic on lanes of the same width.  Code that is never reached is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from cobblestone.sdk.wasm import binary
from cobblestone.sdk.wasm.binary import Bytes, FunctionType

#: First section of a module that was rewritten: the launcher leaves NaNs of such a one alone.
_MARK = binary.write_section(0, b"\x13cobblestone:one_nan")
_F32_NAN, _F64_NAN = b"\x00\x00\xc0\x7f", b"\x00\x00\x00\x00\x00\x00\xf8\x7f"
#: Type, the one form of NaN, comparison: unequal for single values, equal for vectors.
_FORMS = {
    "f32": (binary.F32, b"\x43" + _F32_NAN, b"\x5c"),
    "f64": (binary.F64, b"\x44" + _F64_NAN, b"\x62"),
    "f32x4": (binary.V128, b"\xfd\x0c" + _F32_NAN * 4, b"\xfd\x41"),
    "f64x2": (binary.V128, b"\xfd\x0c" + _F64_NAN * 2, b"\xfd\x47"),
}
_SCALARS = {binary.F32: "f32", binary.F64: "f64"}


class _Origin(IntEnum):
    PLAIN = 0
    GIVEN = 1
    MADE = 2
    MIXED = 3  #: made or given: read from a variable of both kinds
    BUILT = 4  #: given, once those made values have their form of which it was built


@dataclass(frozen=True, slots=True)
class _Value:
    """A value on the stack."""

    origin: _Origin
    shape: str = ""
    #: ends of the instructions behind which it, or what it was built of, gets its form
    marks: tuple[int, ...] = ()
    variable: int = -1  #: from which it was read


_PLAIN, _GIVEN = _Value(_Origin.PLAIN), _Value(_Origin.GIVEN)


@dataclass(slots=True)
class _Block:
    height: int  #: of the stack below it
    nparameters: int
    nresults: int
    is_loop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    types: Sequence[FunctionType]
    functions: Sequence[int]  #: number of the type of each function, imported ones first


def with_one_nan(module: bytes) -> bytes:
    """Return a module whose NaNs have the same bits in every engine; one that was already rewritten is returned unchanged.

    Raises:
        UnknownConstructError: it uses instructions that are not known here.
        IndexError, ValueError: it is not a whole module.
    """
    if module.startswith(_MARK, 8):
        return module
    sections = [
        (number, content)
        for number, content in binary.read_sections(module)
        if number or not Bytes(content, 1).data[1:].startswith(b".debug")  # addresses of the code as it was
    ]
    found = dict(sections)
    types = binary.read_types(found.get(binary.TYPES, b"\0"))
    own = binary.read_numbers(found.get(binary.FUNCTIONS, b"\0"))
    imported = binary.read_imports(found.get(binary.IMPORTS, b"\0"))
    about = _Module(types=types, functions=[*imported, *own])
    bodies = binary.read_bodies(found.get(binary.CODE, b"\0"))
    code = binary.write_bodies(
        [_rewritten(body, types[kind], about) for body, kind in zip(bodies, own, strict=True)]
    )
    return (
        module[:8]
        + _MARK
        + b"".join(
            binary.write_section(number, code if number == binary.CODE else content)
            for number, content in sections
        )
    )


def _rewritten(body: bytes, kind: FunctionType, module: _Module) -> bytes:
    """Return the locals and the code of a function."""
    if not binary.ARITHMETIC_BYTES.search(body):
        return body
    reader = Bytes(body)
    groups = [(reader.number(), reader.byte()) for _ in range(reader.number())]
    start = reader.at
    locals_ = _Locals(
        [*kind[0], *(each for count, each in groups for _ in range(count))], given=set(range(len(kind[0])))
    )
    while True:
        walk = _Walk(Bytes(body, start), kind, locals_, module)
        walk.run()
        if not locals_.learned:
            break
        locals_.learned = False
    if not walk.marks:
        return body
    ours: dict[int, int] = {}
    out = bytearray()
    for end, shape in sorted(walk.marks.items()):
        local_type = _FORMS[shape][0]
        local = binary.unsigned(ours.setdefault(local_type, len(locals_.types) + len(ours)))
        out += body[start:end] + _put_into_form(shape, local)
        start = end
    head = b"".join(
        binary.unsigned(count) + bytes([each]) for count, each in [*groups, *((1, each) for each in ours)]
    )
    return binary.unsigned(len(groups) + len(ours)) + head + bytes(out) + body[start:]


def _put_into_form(shape: str, local: bytes) -> bytes:
    """Return code that gives the value on the stack the one form; a branch that is never taken is cheaper than a select."""
    local_type, form, compare = _FORMS[shape]
    get, tee = b"\x20" + local, b"\x22" + local
    if local_type == binary.V128:
        return tee + form + get + get + compare + b"\xfd\x52"  # the bits of one or the other
    return tee + get + compare + b"\x04\x40" + form + b"\x21" + local + b"\x0b" + get  # if: set, end


@dataclass(slots=True)
class _Locals:
    """What is known about a function's variables; grows with each walk."""

    types: list[int]
    given: set[int]
    made: set[int] = field(default_factory=set[int])
    strict: set[int] = field(default_factory=set[int])  #: hold made values in their form only
    learned: bool = False

    def learn(self, known: set[int], local: int) -> None:
        if local not in known:
            known.add(local)
            self.learned = True


class _Walk:
    """Walks once through a function's code, with a stack of what is known about values."""

    def __init__(self, reader: Bytes, kind: FunctionType, locals_: _Locals, module: _Module) -> None:
        self.marks: dict[int, str] = {}  #: behind which byte of the code a value gets its form, and its shape
        self._reader = reader
        self._locals = locals_
        self._module = module
        self._stack: list[_Value] = []
        self._blocks = [_Block(0, 0, len(kind[1]))]
        self._unreached = 0  #: blocks that were opened in code that is never reached, plus one

    def run(self) -> None:
        """Walk to the function's end."""
        reader = self._reader
        while self._blocks:
            start = reader.at
            code = reader.byte()
            number = reader.skip_immediates(code)
            if self._unreached:
                self._go_past(code)
            elif (simple := binary.STACK_EFFECTS.get(code)) is not None:
                self._simple(code, *simple)
            elif code == binary.VECTOR_PREFIX:
                self._vector(number)
            elif code == binary.BULK_PREFIX:
                takes, gives = binary.BULK_STACK_EFFECTS[number]
                self._see(takes, unless=number < binary.BULK_CONVERSIONS)
                self._push(_PLAIN, gives)
            else:
                self._other(code, Bytes(reader.data, start + 1))

    def _go_past(self, code: int) -> None:
        if code in (binary.BLOCK, binary.LOOP, binary.IF):
            self._unreached += 1
        elif code == binary.ELSE and self._unreached == 1:
            self._else()
        elif code == binary.END:
            self._unreached -= 1
            if not self._unreached:
                self._end()

    # ------------------------------------------------------------------------------------- the stack

    def _push(self, value: _Value, count: int = 1) -> None:
        self._stack.extend([value] * count)

    def _see(self, count: int, *, unless: bool = False) -> None:
        """Take values from the stack; the instruction sees their bits, unless it is arithmetic."""
        if not count:
            return
        taken = self._stack[-count:]
        if len(taken) < count:
            raise ValueError("an instruction without its operands")
        del self._stack[-count:]
        if not unless:
            for value in taken:
                self._settle(value)

    def _settle(self, value: _Value) -> _Value:
        """Convert a value to the form that may be observed; return what is then known about it."""
        if value.origin is _Origin.MIXED:
            self._locals.learn(self._locals.strict, value.variable)
            return _GIVEN
        for mark in value.marks:
            self.marks[mark] = value.shape
        if value.origin is _Origin.MADE:
            return _PLAIN
        return _GIVEN if value.origin is _Origin.BUILT else value

    def _build(self, *values: _Value) -> _Value:
        """Return the value composed of the bits of these."""
        shape, marks = "", ()
        for value in values:
            if value.origin is _Origin.MIXED or value.shape not in _SCALARS.values():
                self._settle(value)
            else:
                shape, marks = value.shape, (*marks, *value.marks)
        return _Value(_Origin.BUILT, shape, marks) if marks else _GIVEN

    def _made(self, shape: str) -> _Value:
        return _Value(_Origin.MADE, shape, (self._reader.at,))

    # ------------------------------------------------------------------------------------- instructions

    def _simple(self, code: int, takes: int, gives: int) -> None:
        """Process an instruction whose immediates do not matter."""
        if code in binary.IGNORES_FORM:
            self._see(takes, unless=True)
            shape = "f64" if code in binary.F64_RESULTS else "f32" if code in binary.F32_RESULTS else ""
            self._push(self._made(shape) if shape else _PLAIN)
        elif code in binary.SIGNS:
            if takes == 2:
                self._see(1)  # whose sign it takes: that of a NaN shows in a number
            self._push(self._sign(code, self._stack.pop()))
        else:
            self._see(takes)
            self._push(_GIVEN if code in binary.GIVES_BITS else _PLAIN, gives)

    def _sign(self, code: int, value: _Value) -> _Value:
        if code in binary.ABSOLUTE and value.origin is _Origin.MADE:
            return self._made(value.shape)  # the form is positive
        return self._build(value)

    def _vector(self, number: int) -> None:
        takes, gives = binary.vector_stack_effect(number)
        shape = binary.VECTOR_RESULTS.get(number, "")
        same = binary.VECTOR_READS.get(number)
        taken = self._stack[-takes:] if takes else []
        self._see(takes, unless=same is not None and all(each.shape in (same, "") for each in taken))
        self._push(_Value(_Origin.BUILT, shape, (self._reader.at,)) if shape else _GIVEN, gives)

    def _other(self, code: int, operand: Bytes) -> None:
        if code in (binary.BLOCK, binary.LOOP, binary.IF):
            self._open(code, operand)
        elif code == binary.ELSE:
            self._see(self._blocks[-1].nresults)
            self._else()
        elif code == binary.END:
            self._see(self._blocks[-1].nresults)
            self._end()
        elif code in (binary.SELECT, binary.SELECT_TYPED):
            self._select()
        elif code in (binary.LOCAL_GET, binary.LOCAL_SET, binary.LOCAL_TEE):
            self._variable(code, operand.number())
        elif code in (binary.F32_CONST, binary.F64_CONST):
            self._push(_constant(operand.take(4 if code == binary.F32_CONST else 8)))
        else:
            self._leave(code, operand)

    def _leave(self, code: int, operand: Bytes) -> None:
        """Process a jump or call."""
        if code in (binary.CALL_INDIRECT, binary.RETURN_CALL_INDIRECT, binary.BR_IF, binary.BR_TABLE):
            self._see(1)
        if code in (binary.BR, binary.BR_IF, binary.BR_TABLE):
            if code == binary.BR_TABLE:
                operand.number()
            block = self._blocks[-1 - operand.number()]
            count = block.nparameters if block.is_loop else block.nresults
            self._see(count)
            self._push(_GIVEN, count)
        elif code == binary.RETURN:
            self._see(self._blocks[0].nresults)
        elif code != binary.UNREACHABLE:
            number = operand.number()
            direct = code in (binary.CALL, binary.RETURN_CALL)
            parameters, results = self._module.types[self._module.functions[number] if direct else number]
            self._see(len(parameters))
            self._push(_GIVEN, len(results))
        self._unreached = int(code in binary.ENDS_CODE)

    def _open(self, code: int, operand: Bytes) -> None:
        self._see(code == binary.IF)
        first = operand.data[operand.at]
        if first == binary.NO_VALUE:
            nparameters, nresults = 0, 0
        elif 0x40 < first < 0x80:
            nparameters, nresults = 0, 1
        else:
            nparameters, nresults = map(len, self._module.types[operand.number()])
        self._see(nparameters)
        self._blocks.append(_Block(len(self._stack), nparameters, nresults, code == binary.LOOP))
        self._push(_GIVEN, nparameters)

    def _else(self) -> None:
        self._unreached = 0
        block = self._blocks[-1]
        del self._stack[block.height :]
        self._push(_GIVEN, block.nparameters)

    def _end(self) -> None:
        block = self._blocks.pop()
        del self._stack[block.height :]
        self._push(_GIVEN, block.nresults)

    def _select(self) -> None:
        self._see(1)
        values = [self._stack.pop(), self._stack.pop()]
        origins = {value.origin for value in values}
        if _Origin.MADE in origins and origins <= {_Origin.MADE, _Origin.PLAIN}:
            self._push(self._made(next(value.shape for value in values if value.shape)))
        else:
            self._push(_PLAIN if origins == {_Origin.PLAIN} else self._build(*values))

    def _variable(self, code: int, local: int) -> None:
        about = self._locals
        shape = _SCALARS.get(about.types[local])
        if code == binary.LOCAL_GET:
            self._push(self._read(local, shape) if shape else _GIVEN)
            return
        value = self._stack.pop()
        if value.origin is not _Origin.MADE or local in about.strict:
            value = self._settle(value)
        if shape and value.origin is not _Origin.PLAIN:
            about.learn(about.made if value.origin is _Origin.MADE else about.given, local)
        if code == binary.LOCAL_TEE:
            self._push(value)

    def _read(self, local: int, shape: str) -> _Value:
        about = self._locals
        given = local in about.given
        if local not in about.made or local in about.strict:
            return _GIVEN if given else _PLAIN
        if given:
            return _Value(_Origin.MIXED, shape, variable=local)
        return self._made(shape)


def _constant(data: bytes) -> _Value:
    """Return what is known about a constant: the program may have chosen a NaN of another form."""
    magnitude = int.from_bytes(data, "little") & (1 << 8 * len(data) - 1) - 1
    infinity = 0x7F80_0000 if len(data) == 4 else 0x7FF0_0000_0000_0000
    return _GIVEN if magnitude > infinity and data not in (_F32_NAN, _F64_NAN) else _PLAIN
