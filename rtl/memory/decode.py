"""What an instruction word says to the memory unit."""

from collections.abc import Callable, Iterator
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.isa.kinds import AtomicType, MemorySize, size_bytes
from rtl.isa.syntax import PT, RZ, WORD_BITS, Address, Constant, Field, Form, Immediate, Pipe, Predicate, Register
from rtl.isa.table import FORMS
from rtl.word import field_of, pattern_of

from .instruction import FLOAT_ADD, DataRegisters, MemoryInstruction, MemoryOperation, MemorySpace

__all__ = ["MEMORY_FORMS", "MemoryDecoder", "data_register"]

MEMORY_FORMS: tuple[Form, ...] = tuple(form for form in FORMS if form.pipe is Pipe.MEMORY)
"""The instructions of the memory unit."""

_SPACES = {
    "LDG": MemorySpace.GLOBAL, "STG": MemorySpace.GLOBAL, "LDL": MemorySpace.LOCAL, "STL": MemorySpace.LOCAL,
    "LDS": MemorySpace.SHARED, "STS": MemorySpace.SHARED, "ATOMS": MemorySpace.SHARED, "LD": MemorySpace.GENERIC,
    "ST": MemorySpace.GENERIC, "ATOM": MemorySpace.OUTSIDE, "RED": MemorySpace.OUTSIDE, "LDC": MemorySpace.CONSTANT,
    "SHFL": MemorySpace.GLOBAL}
"""Space of each instruction that does something."""
_ATOMICS = ("ATOM", "ATOMS", "RED")
_SIGNED_SIZES = (MemorySize.S8.value, MemorySize.S16.value)
_SIGNED_TYPES = (AtomicType.S32.value, AtomicType.S64.value)
_SHARED_TYPES = (AtomicType.U32, AtomicType.S32, AtomicType.U64, AtomicType.S64)
_KIND = slice(52, 56)
"""Bits of the operation of ATOM and ATOMS, and of the kind of a compare and swap; the highest one of ATOMS.CAS is a bit
of its opcode, 0. Instructions that are not atomic may have anything there."""
_DEPENDS = ("size", "type", "wide_data", "compare_and_swap")
"""Fields of which one decides how many registers a thread's data are; the first that an instruction has."""


def _kind(form: Form) -> tuple[MemoryOperation, MemorySpace, bool]:
    """What is done, where, and whether it is a compare and swap."""
    operation = (
        MemoryOperation.SHUFFLE if form.name == "SHFL" else MemoryOperation.ATOMIC if form.name in _ATOMICS
        else MemoryOperation.LOAD if "d" in form.operands else MemoryOperation.STORE)
    return operation, _SPACES[form.name], operation is MemoryOperation.ATOMIC and "c" in form.operands


def _register(form: Form, *names: str) -> Field | None:
    """The field of the first of these operands that is a register."""
    found = (form.operands.get(name) for name in names)
    return next((form.fields[operand.field] for operand in found if isinstance(operand, Register)), None)


def _immediate(form: Form, name: str) -> Field | None:
    """The field of an operand that is a number."""
    operand = form.operands.get(name)
    return form.fields[operand.field] if isinstance(operand, Immediate) else None


def _address(form: Form) -> Address | Constant | None:
    return next((operand for operand in form.operands.values() if isinstance(operand, Address | Constant)), None)


def _wide(form: Form) -> Field | None:
    """What tells whether the address has 64 bits."""
    address = _address(form)
    return form.fields[address.wide] if isinstance(address, Address) and address.wide is not None else None


def _offset(form: Form) -> tuple[Field, int] | None:
    """The number that is added to the address, and its scale; or the step of a shuffle."""
    address = _address(form)
    field = _immediate(form, "b") if address is None else form.fields[address.offset]
    return None if field is None else (field, field.scale)


def _results(form: Form) -> tuple[Field | None, Field | None]:
    """The register and the predicate that are written."""
    flag = form.operands.get("p")
    return _register(form, "d"), form.fields[flag.field] if isinstance(flag, Predicate) else None


def _sizes(form: Form) -> tuple[Field | None, tuple[tuple[int, int, int, int], ...]]:
    """A field, and for each value of it the size, whether numbers have signs, and the words of a thread."""
    if form.name == "SHFL":
        return None, ((0, 2, 0, 1),)
    depends = next(name for name in _DEPENDS if name in form.fields)
    field, span = form.fields[depends], next(
        operand.span for operand in form.operands.values() if isinstance(operand, Register))
    assert callable(span)
    codes = [code for modifier in form.modifiers if modifier.field == depends for code in modifier.texts]
    rows = []
    for code in codes or field.bounds:
        words = span({depends: code})
        if form.name in _ATOMICS:
            kind = _SHARED_TYPES[code].value if form.name == "ATOMS" and depends == "type" else code
            rows.append((code, 2 if words == 1 else 3, depends == "type" and kind in _SIGNED_TYPES, words))
        else:
            rows.append((code, ceil_log2(size_bytes(code)), code in _SIGNED_SIZES, words))
    return field, tuple(rows)


def _reduction(form: Form) -> Field | None:
    """The field of the operation of an instruction that has it at a place of its own."""
    field = form.fields.get("operation")
    return field if field is not None and field.pieces[0][0] != _KIND.start else None


def _float_type(form: Form) -> tuple[Field, int] | None:
    """The field of the type, and its value for floats, if memory has them."""
    has_type = form.name in ("ATOM", "RED") and "type" in form.fields
    return (form.fields["type"], AtomicType.F32.value) if has_type else None


def _data(form: Form) -> tuple[Field | None, bool, bool]:
    """The field of the data registers, and whether the first operand and the second one of a compare and swap are among
    them."""
    if form.name == "SHFL":
        return _register(form, "a"), True, False
    return (_register(form, "b", "c"), "c" not in form.operands or _register(form, "b") is not None,
            _register(form, "c") is not None)


def data_register(data: Any, index: Any) -> Any:
    """The register of a thread's word of data, of that index."""
    return Mux((data.first <= index) & (index < data.end), data.register | index & ~data.first, RZ)


class MemoryDecoder(wiring.Component):
    """Reads the instruction table; combinational. What several instructions have in common is decided once. ``floats``:
    the machine has floating point.

    Members
    -------
    word : In(64)
        An instruction that the machine has; of others anything may come.
    instruction : Out(MemoryInstruction)
    data : Out(DataRegisters)
        What the words of data among its ``gathers`` come from.
    """

    word: In(WORD_BITS)
    instruction: Out(MemoryInstruction)
    data: Out(DataRegisters)

    def __init__(self, floats: bool) -> None:
        self._floats = floats
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, base = self.instruction, Signal(8)
        shuffles, fixed = instruction.operation == MemoryOperation.SHUFFLE, base == RZ
        for operation, space, compare in self._forms(m, _kind):
            m.d.comb += [
                instruction.operation.eq(operation), instruction.space.eq(space), instruction.compare.eq(compare)]
        for field, rows in self._forms(m, _sizes):
            with m.Switch(self._field(field)):
                for code, size, is_signed, words in rows:
                    with m.Case(code):
                        m.d.comb += [instruction.size.eq(size), instruction.is_signed.eq(is_signed),
                                     instruction.words.eq(words)]
        m.d.comb += instruction.atomic.as_value().eq(self.word[_KIND])
        self._choose(m, _reduction, instruction.atomic.as_value())
        if self._floats:
            for field, code in self._forms(m, _float_type):
                with m.If(self._field(field) == code):
                    m.d.comb += instruction.atomic.as_value().eq(FLOAT_ADD)
        for name, target in (("bank", instruction.bank), ("mode", instruction.mode.as_value())):
            self._choose(m, lambda form, name=name: form.fields.get(name), target)

        # A signed offset from a register or a pair of them, or an address that is not signed without a register.
        for field, scale in self._forms(m, _offset):
            raw = Cat(Const(0, ceil_log2(scale)), self._field(field))
            m.d.comb += instruction.offset.eq(Cat(raw, Mux(fixed | shuffles, 0, raw[-1]).replicate(
                len(instruction.offset) - len(raw))))
        self._choose(m, _wide, instruction.wide)
        self._choose(m, lambda form: _immediate(form, "c"), instruction.clamp)
        with m.If(shuffles):
            m.d.comb += instruction.wide.eq(1)

        # Registers. A group of them begins at a multiple of its size, and RZ is the highest one: no sums are needed.
        address, step, clamp, words = instruction.gathers[0], Signal(8), Signal(8), instruction.words
        number, first, end = self.data.register, self.data.first, self.data.end
        for target, name in ((base, "Ra"), (instruction.destination, "Rd")):
            self._choose(m, lambda form, name=name: form.fields.get(name), target)
        for target, name in ((step, "b"), (clamp, "c")):
            m.d.comb += target.eq(RZ)
            self._choose(m, lambda form, name=name: _register(form, name), target)
        for field, has_first, has_second in self._forms(m, _data):
            m.d.comb += [
                number.eq(self._field(field)), first.eq(0 if has_first else words),
                end.eq(Mux(shuffles, 1, words << has_second if field is not None else 0))]
        m.d.comb += [
            address[0].eq(Mux(shuffles, step, base)), address[1].eq(Mux(shuffles, clamp, Mux(
                instruction.wide, base | 1, RZ))), instruction.second.eq(~shuffles & (instruction.compare | (end > 1)))]
        for index, register in enumerate((address[2], *instruction.gathers[1])):
            m.d.comb += register.eq(data_register(self.data, index))

        # Results.
        for field, flag in self._forms(m, _results):
            m.d.comb += instruction.predicate.eq(self._field(flag) if flag is not None else PT)
            if field is not None:
                m.d.comb += instruction.results.eq(Mux(
                    (self._field(field) == RZ) & (instruction.predicate == PT), 0, words))
        return m

    def _forms(self, m: Module, key: Callable[[Form], Any]) -> Iterator[Any]:
        """What the instructions say, one after the other, each within the statement for those that say so."""
        found: dict[Any, list[str]] = {}
        for form in MEMORY_FORMS:
            if form.name in _SPACES and (said := key(form)) is not None:
                found.setdefault(said, []).append(pattern_of(form))
        with m.Switch(self.word):
            for said, patterns in found.items():
                with m.Case(*patterns):
                    yield said

    def _choose(self, m: Module, key: Callable[[Form], Field | None], target: Value) -> None:
        """A field of the word, wherever an instruction has it."""
        for field in self._forms(m, key):
            m.d.comb += target.eq(self._field(field))

    def _field(self, field: Field | None) -> Value:
        """A field of the word, as a number without sign; 0 if there is none."""
        return Const(0, 1) if field is None else field_of(self.word, field).as_unsigned()
