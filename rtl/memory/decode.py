"""What an instruction word says to the memory unit."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.isa.kinds import AtomicType, MemorySize, size_bytes
from rtl.isa.syntax import PT, RZ, WORD_BITS, Address, Constant, Field, Form, Immediate, Pipe, Predicate, Register
from rtl.isa.table import FORMS
from rtl.word import field_of, pattern_of

from .instruction import MemoryInstruction, MemoryOperation, MemorySpace

__all__ = ["MEMORY_FORMS", "MemoryDecoder"]

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
_DEPENDS = ("size", "type", "wide_data", "compare_and_swap")
"""Fields of which one decides how many registers a thread's data are; the first that an instruction has."""


class MemoryDecoder(wiring.Component):
    """Reads the instruction table; combinational.

    Members
    -------
    word : In(64)
        An instruction that the machine has; of others anything may come.
    instruction : Out(MemoryInstruction)
    """

    word: In(WORD_BITS)
    instruction: Out(MemoryInstruction)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.instruction.predicate.eq(PT)
        with m.Switch(self.word):
            for form in MEMORY_FORMS:
                if form.name in _SPACES:
                    with m.Case(pattern_of(form)):
                        self._decode(m, form)
        return m

    def _decode(self, m: Module, form: Form) -> None:
        m.d.comb += self.instruction.space.eq(_SPACES[form.name])
        if form.name == "SHFL":
            self._shuffle(m, form)
            return
        self._data(m, form)
        self._address(m, form)
        if form.name in _ATOMICS:
            self._atomic(m, form)
        else:
            operation = MemoryOperation.LOAD if "d" in form.operands else MemoryOperation.STORE
            m.d.comb += [
                self.instruction.operation.eq(operation),
                self.instruction.size.eq(self._table(form, "size", lambda code: ceil_log2(size_bytes(code)))),
                self.instruction.is_signed.eq(self._table(form, "size", lambda code: code in _SIGNED_SIZES))]

    def _address(self, m: Module, form: Form) -> None:
        """A signed offset from a register or a pair of them, or an address that is not signed without a register."""
        operand = form.operands["a" if form.name == "LDC" else "address"]
        assert isinstance(operand, Address | Constant)
        name = operand.register if isinstance(operand, Address) else operand.index
        wide = operand.wide if isinstance(operand, Address) else None
        if isinstance(operand, Constant):
            m.d.comb += self.instruction.bank.eq(self._field(form.fields[operand.bank]))
        assert name is not None
        number = self._field(form.fields[name])
        fixed = number == RZ
        offset = form.fields[operand.offset]
        raw = Cat(Const(0, ceil_log2(offset.scale)), self._field(offset))
        is_wide = self._field(form.fields[wide]) if wide is not None else Const(0, 1)
        registers = self.instruction.gathers[0]
        m.d.comb += [
            self.instruction.wide.eq(is_wide), self.instruction.offset.eq(Mux(fixed, raw, raw.as_signed())),
            registers[0].eq(number), registers[1].eq(Mux(fixed | ~is_wide, RZ, number + 1))]

    def _data(self, m: Module, form: Form) -> None:
        """The data registers: operand b, and behind it operand c of a compare and swap."""
        instruction, operands = self.instruction, form.operands
        depends = next(name for name in _DEPENDS if name in form.fields)
        span = next(operand.span for operand in operands.values() if isinstance(operand, Register))
        assert callable(span)
        words = Signal.like(instruction.words)
        m.d.comb += [words.eq(self._table(form, depends, lambda code: span({depends: code}))),
                     instruction.words.eq(words)]
        if isinstance(result := operands.get("d"), Register):
            number = self._field(form.fields[result.field])
            m.d.comb += [instruction.destination.eq(number), instruction.results.eq(Mux(number == RZ, 0, words))]
        sources = [operand for key in ("b", "c") if isinstance(operand := operands.get(key), Register)]
        m.d.comb += [register.eq(RZ) for register in (instruction.gathers[0][2], *instruction.gathers[1])]
        if not sources:
            return
        number = self._field(form.fields[sources[0].field])
        first = Const(0) if isinstance(operands["b"], Register) else words
        end = words << 1 if isinstance(operands.get("c"), Register) else words
        for index, register in enumerate((instruction.gathers[0][2], *instruction.gathers[1])):
            with m.If((number != RZ) & (first <= index) & (index < end)):
                m.d.comb += register.eq(number + index - first)
        m.d.comb += instruction.second.eq(1 if "c" in operands else end > 1)

    def _atomic(self, m: Module, form: Form) -> None:
        instruction = self.instruction
        m.d.comb += [
            instruction.operation.eq(MemoryOperation.ATOMIC), instruction.compare.eq("c" in form.operands),
            instruction.size.eq(Mux(instruction.words == 1, 2, 3))]
        if "operation" in form.fields:
            shared = form.name == "ATOMS"
            m.d.comb += [
                instruction.atomic.as_value().eq(self._field(form.fields["operation"])),
                instruction.is_signed.eq(self._table(form, "type", lambda code: (
                    _SHARED_TYPES[code].value if shared else code) in _SIGNED_TYPES))]

    def _shuffle(self, m: Module, form: Form) -> None:
        instruction, operands = self.instruction, form.operands
        destination, predicate = operands["d"], operands["p"]
        assert isinstance(destination, Register) and isinstance(predicate, Predicate)
        number, flag = self._field(form.fields[destination.field]), self._field(form.fields[predicate.field])
        m.d.comb += [
            instruction.operation.eq(MemoryOperation.SHUFFLE), instruction.destination.eq(number),
            instruction.predicate.eq(flag), instruction.results.eq((number != RZ) | (flag != PT)),
            instruction.words.eq(1), instruction.size.eq(2),
            instruction.mode.as_value().eq(self._field(form.fields["mode"]))]
        m.d.comb += instruction.wide.eq(1)
        for key, register in zip("bca", instruction.gathers[0], strict=True):
            operand = operands[key]
            if isinstance(operand, Register):
                m.d.comb += register.eq(self._field(form.fields[operand.field]))
            elif isinstance(operand, Immediate):
                immediate = instruction.offset if key == "b" else instruction.clamp
                m.d.comb += [register.eq(RZ), immediate.eq(self._field(form.fields[operand.field]))]

    def _table(self, form: Form, name: str, function: Callable[[int], int]) -> Value:
        """What a function makes of a field's value, as a table of those values that have a meaning."""
        field = form.fields[name]
        codes = [code for modifier in form.modifiers if modifier.field == name for code in modifier.texts]
        result: Value = Const(0)
        for code in codes or field.bounds:
            result = Mux(self._field(field) == code, int(function(code)), result)
        return result

    def _field(self, field: Field) -> Value:
        """A field of the word, as a number without sign."""
        return field_of(self.word, field).as_unsigned()
