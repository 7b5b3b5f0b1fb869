"""From an instruction word to what the scheduler has to know of it, and whether anybody can execute it."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.legality import register_groups, rules
from rtl.isa.syntax import RZ, WORD_BITS, Constant, Field, Form, Pipe, Register, Target
from rtl.isa.table import FORMS
from rtl.layouts import InstructionKind
from rtl.word import field_of, pattern_of

from .outcomes import Outcomes

__all__ = ["CONSTANT_FIELDS", "ERROR_BITS", "Predecoded", "Predecoder", "kind_of"]

_ERRORS = (WarpError.ILLEGAL_INSTR_ENCODING, WarpError.OOR_REG, WarpError.MISALIGNED_REG, WarpError.MMU_FAULT)
"""What an instruction can be refused for."""
ERROR_BITS = max(error.value for error in _ERRORS).bit_length()

_PUSHES = {"SSY", "PBK", "PCNT", "PRET", "PEXIT", "PLONGJMP"}
_FROM_REGISTER = {"SETCRSPTR", "SETLMEMBASE"}
_TO_REGISTER = {"GETCRSPTR", "GETLMEMBASE"}
_KINDS = {Pipe.ALU: InstructionKind.LANES, Pipe.PREDICATE: InstructionKind.LANES, Pipe.MULTIPLY: InstructionKind.LANES,
          Pipe.CONVERSION: InstructionKind.CONVERSION, Pipe.MEMORY: InstructionKind.MEMORY,
          Pipe.TRAP: InstructionKind.TRAP}
_NAMED = {"S2R": InstructionKind.LANES, "B2R": InstructionKind.BARRIER_READ, "NOP": InstructionKind.NOTHING,
          "DEPBAR": InstructionKind.DEPENDENCY}


def kind_of(form: Form) -> InstructionKind:
    """What the scheduler has to know of a form."""
    operands = form.operands.values()
    if form.pipe is Pipe.FLOW:
        if form.name in _PUSHES:
            return InstructionKind.PUSH
        if form.name in _TO_REGISTER:
            return InstructionKind.FLOW_READ
        indexed = any(isinstance(operand, Constant | Target) and operand.index is not None for operand in operands)
        return InstructionKind.FLOW_INDEXED if indexed or form.name in _FROM_REGISTER else InstructionKind.FLOW
    if form.pipe is Pipe.BARRIER:
        indexed = any(isinstance(operand, Register) for operand in operands)
        return InstructionKind.BARRIER_INDEXED if indexed else InstructionKind.BARRIER
    return _NAMED[form.name] if form.name in _NAMED else _KINDS[form.pipe]


def _constant(form: Form) -> tuple[Field, Field] | None:
    """Offset and bank of the form's constant operand, if that has a fixed address."""
    for operand in form.operands.values():
        if isinstance(operand, Constant) and operand.index is None:
            return form.fields[operand.offset], form.fields[operand.bank]
    return None


CONSTANT_FIELDS = tuple(dict.fromkeys(where for form in FORMS if (where := _constant(form)) is not None))
"""The places in the word where offset and bank of a constant operand can be."""


class Predecoded(data.Struct):
    """What is known of a word. ``error`` is a warp error's code, for REFUSED."""

    kind: InstructionKind
    error: unsigned(ERROR_BITS)
    constant: range(len(CONSTANT_FIELDS) + 1)
    """0: no constant operand at a fixed address; otherwise its place among CONSTANT_FIELDS, from 1."""


def _register_places() -> tuple[Field, ...]:
    """Where register numbers are in the word."""
    return tuple(dict.fromkeys(
        form.fields[name] for form in FORMS for groups in Outcomes(form, lambda values, form=form: register_groups(
            form, values)) for name in groups))


_PLACES = _register_places()


class Predecoder(wiring.Component):
    """Reads the instruction table; combinational. Refuses what rtl.isa.legality.encoding_error refuses.

    Members
    -------
    word : In(64)
    registers : In(9)
        Of a thread.
    predecoded : Out(Predecoded)
    """

    word: In(WORD_BITS)
    registers: In(9)
    predecoded: Out(Predecoded)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kind, refused = Signal(InstructionKind), Signal()
        used = Signal(len(_PLACES))
        extra = Signal(data.ArrayLayout(2, len(_PLACES)))     # registers of the group behind the first
        with m.Switch(self.word):
            for form in sorted(FORMS, key=lambda form: -form.mask.bit_count()):
                with m.Case(pattern_of(form)):
                    m.d.comb += [kind.eq(kind_of(form)), refused.eq(self._refused(form))]
                    m.d.comb += self._groups(form, used, extra)
                    if (where := _constant(form)) is not None:
                        m.d.comb += self.predecoded.constant.eq(1 + CONSTANT_FIELDS.index(where))
            with m.Default():
                m.d.comb += refused.eq(1)

        numbers = [field_of(self.word, place) for place in _PLACES]
        real = [used[index] & (number != RZ) for index, number in enumerate(numbers)]
        beyond = Cat(real[index] & (number + extra[index] >= self.registers) for index, number in enumerate(numbers))
        misaligned = Cat(real[index] & (number & extra[index]).any() for index, number in enumerate(numbers))
        with m.If(refused | beyond.any() | misaligned.any()):
            m.d.comb += [
                self.predecoded.kind.eq(InstructionKind.REFUSED),
                self.predecoded.error.eq(Mux(refused, WarpError.ILLEGAL_INSTR_ENCODING.value, Mux(
                    beyond.any(), WarpError.OOR_REG.value, WarpError.MISALIGNED_REG.value)))]
        with m.Else():
            m.d.comb += self.predecoded.kind.eq(kind)
        return m

    def _refused(self, form: Form) -> Value:
        return Cat(Outcomes(form, rule).holds(self.word, bool) for rule in rules(form)).any()

    def _groups(self, form: Form, used: Value, extra: Value) -> list:
        """Which places of the word hold registers, and how many follow each. Groups have 1, 2 or 4."""
        table = Outcomes(form, lambda values: register_groups(form, values))
        statements = []
        for name in next(iter(table)):
            index = _PLACES.index(form.fields[name])
            more = [table.holds(self.word, lambda groups, name=name, size=size: groups[name] >= size)
                    for size in (2, 4)]
            statements += [used[index].eq(1), extra[index].eq(Cat(more))]
        return statements
