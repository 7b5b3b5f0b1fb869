"""From an instruction word to what the scheduler has to know of it, and whether anybody can execute it."""

from collections.abc import Iterable, Mapping
from functools import partial, reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.legality import exists, register_groups, rules
from rtl.isa.rate import quarter_rules
from rtl.isa.syntax import RZ, WORD_BITS, Constant, Field, Form, Pipe, Register, Target
from rtl.isa.table import FORMS
from rtl.layouts import InstructionKind
from rtl.word import field_of, pattern_of

from .outcomes import Condition, Outcomes

__all__ = ["CONSTANT_FIELDS", "ERROR_BITS", "PLACES", "Predecoded", "Predecoder", "constant_of", "has_group",
           "kind_of"]

_ERRORS = (WarpError.ILLEGAL_INSTR_ENCODING, WarpError.OOR_REG, WarpError.MISALIGNED_REG, WarpError.MMU_FAULT)
"""What an instruction can be refused for."""
ERROR_BITS = max(error.value for error in _ERRORS).bit_length()

_PUSHES = {"SSY", "PBK", "PCNT", "PRET", "PEXIT", "PLONGJMP"}
_FROM_REGISTER = {"SETCRSPTR", "SETLMEMBASE"}
_TO_REGISTER = {"GETCRSPTR", "GETLMEMBASE"}
_KINDS = {Pipe.ALU: InstructionKind.LANES, Pipe.PREDICATE: InstructionKind.LANES, Pipe.MULTIPLY: InstructionKind.LANES,
          Pipe.CONVERSION: InstructionKind.CONVERSION, Pipe.DOUBLE: InstructionKind.CONVERSION,
          Pipe.MEMORY: InstructionKind.MEMORY,
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


def constant_of(form: Form) -> tuple[Field, Field] | None:
    """Offset and bank of the form's constant operand, if that has a fixed address."""
    for operand in form.operands.values():
        if isinstance(operand, Constant) and operand.index is None:
            return form.fields[operand.offset], form.fields[operand.bank]
    return None


CONSTANT_FIELDS = tuple(dict.fromkeys(where for form in FORMS if (where := constant_of(form)) is not None))
"""The places in the word where offset and bank of a constant operand can be."""


class Predecoded(data.Struct):
    """What is known of a word. ``error`` is a warp error's code, for REFUSED. ``quarter``: it passes the full lanes
    only."""

    kind: InstructionKind
    quarter: unsigned(1)
    error: unsigned(ERROR_BITS)
    constant: range(len(CONSTANT_FIELDS) + 1)
    """0: no constant operand at a fixed address; otherwise its place among CONSTANT_FIELDS, from 1."""


def _register_places() -> tuple[Field, ...]:
    """Where register numbers are in the word."""
    return tuple(dict.fromkeys(
        form.fields[name] for form in FORMS for groups in Outcomes(form, partial(register_groups, form))
        for name in groups))


PLACES = _register_places()
"""The places in the word where numbers of registers can be."""


class Predecoder(wiring.Component):
    """Reads the instruction table. Refuses what rtl.isa.legality.encoding_error refuses on a machine with floating
    point (``floats``) and double precision (``doubles``), or without.

    Members
    -------
    word : In(64)
    registers : In(9)
        Of a thread.
    predecoded : Out(Predecoded)
        Of ``word`` a cycle later. What the form says is known in the cycle of the word, and a register keeps it;
        numbers of registers are compared behind that.
    """

    word: In(WORD_BITS)
    registers: In(9)
    predecoded: Out(Predecoded)

    def __init__(self, floats: bool, doubles: bool) -> None:
        self._knobs = floats, doubles
        self._forms = tuple(form for form in FORMS if exists(form, floats, doubles))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        found: dict[Form, Any] = {}
        for number, form in enumerate(self._forms):
            found[form] = Signal(name=f"form_{number}")
            special = [other for other in FORMS if other.mask & form.mask == form.mask != other.mask
                       and other.match & form.mask == form.match]
            m.d.comb += found[form].eq(self.word.matches(pattern_of(form))
                                       & ~_any(self.word.matches(pattern_of(other)) for other in special))

        refused = ~_any(found.values()) | self._where(
            found, ((form, Outcomes(form, rule).when(bool))
                    for form in self._forms for rule in rules(form, *self._knobs)))
        beyond, misaligned = self._registers(m, found)
        quarter = self._where(
            found, ((form, Outcomes(form, rule).when(bool)) for form in self._forms for rule in quarter_rules(form)))
        kind = reduce(or_, (Mux(_any(found[form] for form in self._forms if kind_of(form) is kind), kind.value, 0)
                            for kind in InstructionKind))
        places = (Mux(_any(found[form] for form in self._forms if constant_of(form) == where), index + 1, 0)
                  for index, where in enumerate(CONSTANT_FIELDS))
        told: Any = Signal(Predecoded)
        illegal = Signal()
        m.d.sync += [told.constant.eq(reduce(or_, places)), told.kind.as_value().eq(kind), told.quarter.eq(quarter),
                     illegal.eq(refused)]
        m.d.comb += self.predecoded.eq(told)
        with m.If(illegal | beyond | misaligned):
            m.d.comb += [
                self.predecoded.kind.eq(InstructionKind.REFUSED),
                self.predecoded.error.eq(Mux(illegal, WarpError.ILLEGAL_INSTR_ENCODING.value, Mux(
                    beyond, WarpError.OOR_REG.value, WarpError.MISALIGNED_REG.value)))]
        return m

    def _where(self, found: Mapping[Form, Any], conditions: Iterable[tuple[Form, Condition]]) -> Any:
        """Whether the word has one of these forms, and its condition holds."""
        forms: dict[Condition, list[Any]] = {}
        for form, condition in conditions:
            if condition.codes:
                forms.setdefault(condition, []).append(found[form])
        return _any(condition.of(self.word) & _any(having) for condition, having in forms.items())

    def _registers(self, m: Module, found: Mapping[Form, Any]) -> tuple[Any, Any]:
        """Whether a register is beyond those of the launch, and whether a group of registers is not aligned; a cycle
        later."""
        beyond, misaligned, word = [], [], Signal.like(self.word)
        m.d.sync += word.eq(self.word)
        groups = {form: Outcomes(form, partial(register_groups, form)) for form in self._forms}
        for place in PLACES:
            named = [(form, name) for form in self._forms for name in next(iter(groups[form]))
                     if form.fields[name] == place]
            # Registers of the group behind the first: 0, 1 or 3.
            extra, used, number = Signal(2), Signal(), field_of(word, place)
            m.d.sync += [
                extra.eq(Cat(self._where(found, ((form, groups[form].when(partial(has_group, name, size)))
                                                 for form, name in named)) for size in (2, 4))),
                used.eq(_any(found[form] for form, _ in named) & (field_of(self.word, place) != RZ))]
            beyond.append(used & (number + extra >= self.registers))
            misaligned.append(used & (number & extra).any())
        return _any(beyond), _any(misaligned)


def has_group(name: str, size: int, groups: Mapping[str, int]) -> bool:
    """Whether the group that begins at a register field has so many registers."""
    return groups[name] >= size


def _any(values: Iterable[Any]) -> Any:
    return Cat(*values).any()
