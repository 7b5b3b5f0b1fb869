"""Decodes the instructions of the memory unit, by the instruction table."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.isa.kinds import AtomicType, MemorySize, size_bytes
from rtl.isa.syntax import (
    PT,
    RZ,
    WORD_BITS,
    Address,
    Constant,
    Field,
    Form,
    Immediate,
    Pipe,
    Predicate,
    Register,
)
from rtl.isa.table import FORMS
from rtl.word import field_of, pattern_of

from .instruction import (
    FLOAT_ADD,
    DataRegisters,
    MemoryInstruction,
    MemoryOperation,
    MemorySpace,
)

__all__ = ["MEMORY_FORMS", "MemoryDecoder", "data_register"]

MEMORY_FORMS: tuple[Form, ...] = tuple(form for form in FORMS if form.pipe is Pipe.MEMORY)
"""The instructions of the memory unit."""

_SPACES = {
    "LDG": MemorySpace.GLOBAL,
    "STG": MemorySpace.GLOBAL,
    "LDL": MemorySpace.LOCAL,
    "STL": MemorySpace.LOCAL,
    "LDS": MemorySpace.SHARED,
    "STS": MemorySpace.SHARED,
    "ATOMS": MemorySpace.SHARED,
    "LD": MemorySpace.GENERIC,
    "ST": MemorySpace.GENERIC,
    "ATOM": MemorySpace.OUTSIDE,
    "RED": MemorySpace.OUTSIDE,
    "LDC": MemorySpace.CONSTANT,
    "SHFL": MemorySpace.GLOBAL,
}
"""Space of each instruction that does something."""
_ATOMICS = ("ATOM", "ATOMS", "RED")
_SIGNED_SIZES = (MemorySize.S8.value, MemorySize.S16.value)
_SIGNED_TYPES = (AtomicType.S32.value, AtomicType.S64.value)
_SHARED_TYPES = (AtomicType.U32, AtomicType.S32, AtomicType.U64, AtomicType.S64)
_WORD_SIZE = 2
_DOUBLE_SIZE = 3
"""Sizes of a word and of two, as powers of two of bytes."""
_KIND = slice(52, 56)
"""Bits of the operation of ATOM and ATOMS, and of the kind of a compare and swap; the highest one
of ATOMS.CAS is a bit of its opcode, 0. Instructions that are not atomic may have anything there."""
_SIZE_FIELDS = ("size", "type", "wide_data", "compare_and_swap")
"""Fields that decide how many registers a thread's data takes; the first one that an instruction
has counts."""


class _Kind(NamedTuple):
    """What an instruction does."""

    operation: MemoryOperation
    space: MemorySpace
    is_compare_and_swap: bool


class _Size(NamedTuple):
    """The meaning of a value of the size field."""

    code: int
    size: int
    is_signed: bool
    words: int


class _SizeTable(NamedTuple):
    """A field, and the meaning of each of its values; without a field the first row is used."""

    field: Field | None
    rows: tuple[_Size, ...]


class _Offset(NamedTuple):
    """The number that is added to the address, in units of ``scale``; or the step of a shuffle."""

    field: Field
    scale: int


class _FloatType(NamedTuple):
    """The field of the type, and its value for floats."""

    field: Field
    code: int


class _DataOperands(NamedTuple):
    """The field of the data registers, and whether the first operand, and the second one of a
    compare and swap, are among them."""

    field: Field | None
    has_first: bool
    has_second: bool


class _Results(NamedTuple):
    """The fields of the register and of the predicate that are written."""

    register: Field | None
    predicate: Field | None


def _kind(form: Form) -> _Kind:
    """What is done, and where."""
    if form.name == "SHFL":
        operation = MemoryOperation.SHUFFLE
    elif form.name in _ATOMICS:
        operation = MemoryOperation.ATOMIC
    elif "d" in form.operands:
        operation = MemoryOperation.LOAD
    else:
        operation = MemoryOperation.STORE
    is_atomic = operation is MemoryOperation.ATOMIC
    return _Kind(operation, _SPACES[form.name], is_atomic and "c" in form.operands)


def _register(form: Form, *names: str) -> Field | None:
    """The field of the first of these operands that is a register."""
    for name in names:
        operand = form.operands.get(name)
        if isinstance(operand, Register):
            return form.fields[operand.field]
    return None


def _immediate(form: Form, name: str) -> Field | None:
    """The field of an operand that is a number."""
    operand = form.operands.get(name)
    return form.fields[operand.field] if isinstance(operand, Immediate) else None


def _address(form: Form) -> Address | Constant | None:
    """The operand that is an address."""
    return next(
        (each for each in form.operands.values() if isinstance(each, Address | Constant)), None)


def _wide(form: Form) -> Field | None:
    """The field for an address of 64 bits."""
    address = _address(form)
    if isinstance(address, Address) and address.wide is not None:
        return form.fields[address.wide]
    return None


def _offset(form: Form) -> _Offset | None:
    """What is added to the address."""
    address = _address(form)
    field = _immediate(form, "b") if address is None else form.fields[address.offset]
    return None if field is None else _Offset(field, field.scale)


def _results(form: Form) -> _Results:
    """What is written."""
    predicate = form.operands.get("p")
    has_predicate = isinstance(predicate, Predicate)
    return _Results(
        _register(form, "d"), form.fields[predicate.field] if has_predicate else None)


def _sizes(form: Form) -> _SizeTable:
    """How many bytes and words a thread's data have."""
    if form.name == "SHFL":
        return _SizeTable(None, (_Size(0, _WORD_SIZE, False, 1),))
    decides = next(name for name in _SIZE_FIELDS if name in form.fields)
    field = form.fields[decides]
    span = next(
        operand.span for operand in form.operands.values() if isinstance(operand, Register))
    assert callable(span)
    codes = [
        code for modifier in form.modifiers if modifier.field == decides
        for code in modifier.texts]
    rows = []
    for code in codes or field.bounds:
        words = span({decides: code})
        if form.name in _ATOMICS:
            has_type = decides == "type"
            shared_type = form.name == "ATOMS" and has_type
            number_type = _SHARED_TYPES[code].value if shared_type else code
            size = _WORD_SIZE if words == 1 else _DOUBLE_SIZE
            rows.append(_Size(code, size, has_type and number_type in _SIGNED_TYPES, words))
        else:
            size = ceil_log2(size_bytes(code))
            rows.append(_Size(code, size, code in _SIGNED_SIZES, words))
    return _SizeTable(field, tuple(rows))


def _reduction(form: Form) -> Field | None:
    """The field of the operation of an instruction that does not have it where ATOM has it."""
    field = form.fields.get("operation")
    return field if field is not None and field.pieces[0][0] != _KIND.start else None


def _float_type(form: Form) -> _FloatType | None:
    """The type of floats, if the operation has it and is in memory."""
    has_type = form.name in ("ATOM", "RED") and "type" in form.fields
    return _FloatType(form.fields["type"], AtomicType.F32.value) if has_type else None


def _data(form: Form) -> _DataOperands:
    """The registers of a thread's data; of a shuffle the one that others read."""
    if form.name == "SHFL":
        return _DataOperands(_register(form, "a"), True, False)
    has_first = "c" not in form.operands or _register(form, "b") is not None
    has_second = _register(form, "c") is not None
    return _DataOperands(_register(form, "b", "c"), has_first, has_second)


def _named(name: str) -> Callable[[Form], Field | None]:
    """Returns a function that finds the field of this name."""
    return lambda form: form.fields.get(name)


def data_register(data: Any, index: Any) -> Any:
    """The register of a thread's word of data, of that index. A group of registers begins at a
    multiple of its size: no sum is needed."""
    is_there = (data.first <= index) & (index < data.end)
    return Mux(is_there, data.register | index & ~data.first, RZ)


class MemoryDecoder(wiring.Component):
    """Reads the instruction table; combinational. What several instructions have in common is
    decided once. ``floats``: the machine has floating point.

    Members
    -------
    word : In(64)
        An instruction that the machine has; what is decoded of another word is undefined.
    instruction : Out(MemoryInstruction)
    data : Out(DataRegisters)
        Where the words of data among its ``gathers`` are.
    """

    word: In(WORD_BITS)
    instruction: Out(MemoryInstruction)
    data: Out(DataRegisters)

    def __init__(self, floats: bool) -> None:
        self._floats = floats
        super().__init__()
        self._base = Signal(8, name="base")
        """The register of the address."""
        self._is_shuffle = Signal(name="is_shuffle")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._decode_kind(m)
        self._decode_size(m)
        self._decode_atomic(m)
        self._decode_address(m)
        self._decode_data(m)
        self._decode_gathers(m)
        self._decode_results(m)
        return m

    def _decode_kind(self, m: Module) -> None:
        """What is done, and where."""
        instruction = self.instruction
        m.d.comb += self._is_shuffle.eq(instruction.operation == MemoryOperation.SHUFFLE)
        for kind in self._cases(m, _kind):
            m.d.comb += instruction.operation.eq(kind.operation)
            m.d.comb += instruction.space.eq(kind.space)
            m.d.comb += instruction.compare.eq(kind.is_compare_and_swap)
        self._select(m, _named("bank"), instruction.bank)
        self._select(m, _named("mode"), instruction.mode.as_value())

    def _decode_size(self, m: Module) -> None:
        """A thread's bytes and words."""
        for table in self._cases(m, _sizes):
            with m.Switch(self._field(table.field)):
                for row in table.rows:
                    with m.Case(row.code):
                        m.d.comb += self.instruction.size.eq(row.size)
                        m.d.comb += self.instruction.is_signed.eq(row.is_signed)
                        m.d.comb += self.instruction.words.eq(row.words)

    def _decode_atomic(self, m: Module) -> None:
        """The operation of an atomic one; what is not atomic has anything here."""
        operation = self.instruction.atomic.as_value()
        m.d.comb += operation.eq(self.word[_KIND])
        self._select(m, _reduction, operation)
        if self._floats:
            for float_type in self._cases(m, _float_type):
                with m.If(self._field(float_type.field) == float_type.code):
                    m.d.comb += operation.eq(FLOAT_ADD)

    def _decode_address(self, m: Module) -> None:
        """A signed offset from a register or a pair of them, or an address that is not signed
        without a register. The step and the clamp of a shuffle are low and high word of one."""
        instruction = self.instruction
        has_no_base = self._base == RZ
        is_unsigned = has_no_base | self._is_shuffle
        self._select(m, _named("Ra"), self._base)
        for offset in self._cases(m, _offset):
            raw = Cat(Const(0, ceil_log2(offset.scale)), self._field(offset.field))
            upper_bits = len(instruction.offset) - len(raw)
            sign = Mux(is_unsigned, 0, raw[-1])
            m.d.comb += instruction.offset.eq(Cat(raw, sign.replicate(upper_bits)))
        self._select(m, _wide, instruction.wide)
        self._select(m, lambda form: _immediate(form, "c"), instruction.clamp)
        with m.If(self._is_shuffle):
            m.d.comb += instruction.wide.eq(1)

    def _decode_data(self, m: Module) -> None:
        """The registers of a thread's words of data."""
        words = self.instruction.words
        for operands in self._cases(m, _data):
            m.d.comb += self.data.register.eq(self._field(operands.field))
            m.d.comb += self.data.first.eq(0 if operands.has_first else words)
            has_any = operands.field is not None
            end = words << operands.has_second if has_any else Const(0)
            m.d.comb += self.data.end.eq(Mux(self._is_shuffle, 1, end))

    def _decode_gathers(self, m: Module) -> None:
        """Registers that are read. A pair begins with an even number, and RZ is odd: no sum is
        needed."""
        instruction = self.instruction
        first, others = instruction.gathers
        step = Signal(8, init=RZ)
        clamp = Signal(8, init=RZ)
        self._select(m, lambda form: _register(form, "b"), step)
        self._select(m, lambda form: _register(form, "c"), clamp)
        with m.If(self._is_shuffle):
            m.d.comb += first[0].eq(step)
            m.d.comb += first[1].eq(clamp)
        with m.Else():
            has_more_data = self.data.end > 1
            m.d.comb += first[0].eq(self._base)
            m.d.comb += first[1].eq(Mux(instruction.wide, self._base | 1, RZ))
            m.d.comb += instruction.second.eq(instruction.compare | has_more_data)
        for index, register in enumerate((first[2], *others)):
            m.d.comb += register.eq(data_register(self.data, index))

    def _decode_results(self, m: Module) -> None:
        """The registers and the predicate that are written. If there is a predicate, so are the
        registers, though they may be RZ."""
        instruction = self.instruction
        self._select(m, _named("Rd"), instruction.destination)
        for results in self._cases(m, _results):
            if results.predicate is None:
                m.d.comb += instruction.predicate.eq(PT)
            else:
                m.d.comb += instruction.predicate.eq(self._field(results.predicate))
            if results.register is not None:
                is_rz = self._field(results.register) == RZ
                writes_nothing = is_rz & (instruction.predicate == PT)
                m.d.comb += instruction.results.eq(
                    Mux(writes_nothing, 0, instruction.words))

    def _cases(self, m: Module, find: Callable[[Form], Any]) -> Iterator[Any]:
        """A Switch over the word: each result of ``find`` is a Case, for all instructions with this
        result. The body of the caller's loop is the body of the Case.
        """
        found: dict[Any, list[str]] = {}
        for form in MEMORY_FORMS:
            if form.name in _SPACES and (what := find(form)) is not None:
                found.setdefault(what, []).append(pattern_of(form))
        with m.Switch(self.word):
            for what, patterns in found.items():
                with m.Case(*patterns):
                    yield what

    def _select(self, m: Module, find: Callable[[Form], Field | None], target: Value) -> None:
        """A field of the word, at its position in each instruction."""
        for field in self._cases(m, find):
            m.d.comb += target.eq(self._field(field))

    def _field(self, field: Field | None) -> Value:
        """A field of the word, as a number without sign; 0 if there is none."""
        return Const(0, 1) if field is None else field_of(self.word, field).as_unsigned()
