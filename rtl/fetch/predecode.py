"""The predecoder: what the scheduler has to know of an instruction word, and whether anybody can
execute it. It is made from the instruction table."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.legality import exists, register_groups, rules
from rtl.isa.rate import quarter_rules
from rtl.isa.syntax import RZ, WORD_BITS, Constant, Field, Form, Pipe, Register, Target
from rtl.isa.table import FORMS
from rtl.layouts import InstructionKind
from rtl.one_hot import chosen_of
from rtl.word import field_of, pattern_of

from .outcomes import Condition, Outcomes

__all__ = [
    "CONSTANT_FIELDS",
    "ERROR_BITS",
    "PLACES",
    "Predecoded",
    "Predecoder",
    "constant_of",
    "has_group",
    "kind_of",
    "refuse",
]

_ERRORS = (
    WarpError.ILLEGAL_INSTR_ENCODING,
    WarpError.OOR_REG,
    WarpError.MISALIGNED_REG,
    WarpError.MMU_FAULT,
)
"""What an instruction can be refused for."""
ERROR_BITS = max(error.value for error in _ERRORS).bit_length()

_PUSHES = {"SSY", "PBK", "PCNT", "PRET", "PEXIT", "PLONGJMP"}
_FROM_REGISTER = {"SETCRSPTR", "SETLMEMBASE"}
_TO_REGISTER = {"GETCRSPTR", "GETLMEMBASE"}
_KIND_OF_PIPE = {
    Pipe.ALU: InstructionKind.LANES,
    Pipe.PREDICATE: InstructionKind.LANES,
    Pipe.MULTIPLY: InstructionKind.LANES,
    Pipe.CONVERSION: InstructionKind.CONVERSION,
    Pipe.DOUBLE: InstructionKind.CONVERSION,
    Pipe.MEMORY: InstructionKind.MEMORY,
    Pipe.TRAP: InstructionKind.TRAP,
}
_KIND_OF_NAME = {
    "S2R": InstructionKind.LANES,
    "B2R": InstructionKind.BARRIER_READ,
    "NOP": InstructionKind.NOTHING,
    "DEPBAR": InstructionKind.DEPENDENCY,
}


def kind_of(form: Form) -> InstructionKind:
    """The kind of a form's instructions, for the scheduler."""
    if form.pipe is Pipe.FLOW:
        return _kind_of_flow(form)
    if form.pipe is Pipe.BARRIER:
        if any(isinstance(operand, Register) for operand in form.operands.values()):
            return InstructionKind.BARRIER_INDEXED
        return InstructionKind.BARRIER
    if form.name in _KIND_OF_NAME:
        return _KIND_OF_NAME[form.name]
    return _KIND_OF_PIPE[form.pipe]


def _kind_of_flow(form: Form) -> InstructionKind:
    """The kind of a flow instruction."""
    is_indexed = any(
        isinstance(operand, Constant | Target) and operand.index is not None
        for operand in form.operands.values())
    if form.name in _PUSHES:
        return InstructionKind.PUSH
    if form.name in _TO_REGISTER:
        return InstructionKind.FLOW_READ
    if is_indexed or form.name in _FROM_REGISTER:
        return InstructionKind.FLOW_INDEXED
    return InstructionKind.FLOW


def constant_of(form: Form) -> tuple[Field, Field] | None:
    """Offset and bank of the form's constant operand, if that has a fixed address."""
    for operand in form.operands.values():
        if isinstance(operand, Constant) and operand.index is None:
            return form.fields[operand.offset], form.fields[operand.bank]
    return None


CONSTANT_FIELDS = tuple(dict.fromkeys(
    place for form in FORMS if (place := constant_of(form)) is not None))
"""The bit fields of the word that can be offset and bank of a constant operand."""


class Predecoded(data.Struct):
    """What is known of a word before it issues.

    Fields
    ------
    kind : InstructionKind
        REFUSED if nobody can execute it.
    quarter : 1
        Only a full lane, every fourth one (see rtl.execute.lanes), can compute it, so it takes four
        times as long; which ones: rtl.isa.rate.
    error : ERROR_BITS
        Of a REFUSED one: the code of its warp error.
    constant : 0 to all of CONSTANT_FIELDS
        0: no constant operand at a fixed address; else its position in CONSTANT_FIELDS, from 1.
    """

    kind: InstructionKind
    quarter: unsigned(1)
    error: unsigned(ERROR_BITS)
    constant: range(len(CONSTANT_FIELDS) + 1)


def _register_places() -> tuple[Field, ...]:
    """The bit fields of the word that can be register numbers, each once."""
    return tuple(dict.fromkeys(
        form.fields[name]
        for form in FORMS
        for groups in Outcomes(form, partial(register_groups, form))
        for name in groups))


PLACES = _register_places()
"""The bit fields of the word that can be register numbers."""


class Predecoder(wiring.Component):
    """Decodes a word by the instruction table, a cycle later. ::

        word --> FORM: kind, constant operand, rules of --> REGISTERS: numbers of --> predecoded
                 the form, sizes of register groups         registers are compared

    Refuses what :func:`rtl.isa.legality.encoding_error` refuses on a machine with floating point
    (``floats``) and double precision (``doubles``), or without. Of several errors an illegal
    encoding counts first, then a register that the launch does not have.

    Members
    -------
    word : In(64)
    registers : In(9)
        Of a thread.
    predecoded : Out(Predecoded)
        Of ``word`` a cycle ago.
    """

    word: In(WORD_BITS)
    registers: In(9)
    predecoded: Out(Predecoded)

    def __init__(self, floats: bool, doubles: bool) -> None:
        self._floats = floats
        self._doubles = doubles
        self._has_form: dict[Form, Any] = {}
        """Form -> whether the word has this form. At most one is 1."""
        super().__init__()

    @property
    def _forms(self) -> tuple[Form, ...]:
        """The instructions of the machine."""
        return tuple(form for form in FORMS if exists(form, self._floats, self._doubles))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._match_forms(m)
        facts: Any = Signal(Predecoded)
        is_illegal = Signal()
        m.d.sync += facts.kind.as_value().eq(self._kind())
        m.d.sync += facts.constant.eq(self._constant())
        m.d.sync += facts.quarter.eq(self._has_condition(
            (form, Outcomes(form, rule).when(bool))
            for form in self._forms for rule in quarter_rules(form)))
        m.d.sync += is_illegal.eq(self._is_illegal())

        is_out_of_range, is_misaligned = self._check_registers(m)
        m.d.comb += self.predecoded.eq(facts)
        refuse(m, self.predecoded, is_illegal, is_out_of_range, is_misaligned)
        return m

    def _match_forms(self, m: Module) -> None:
        """FORM: which form the word has. A form may be a special case of others, which have fewer
        fixed bits; also one that this machine does not have is no other form."""
        for number, form in enumerate(self._forms):
            special_cases = [other for other in FORMS if _is_special_case(other, form)]
            is_special = _any(self.word.matches(pattern_of(other)) for other in special_cases)
            has_form = Signal(name=f"form_{number}")
            m.d.comb += has_form.eq(self.word.matches(pattern_of(form)) & ~is_special)
            self._has_form[form] = has_form

    def _is_illegal(self) -> Any:
        """FORM: no form, or a rule of the form forbids the word."""
        is_forbidden = self._has_condition(
            (form, Outcomes(form, rule).when(bool))
            for form in self._forms for rule in rules(form, self._floats, self._doubles))
        return ~_any(self._has_form.values()) | is_forbidden

    def _kind(self) -> Any:
        """FORM: the word's kind; 0 without a form."""
        is_kind = Cat(
            _any(self._has_form[form] for form in self._forms if kind_of(form) is kind)
            for kind in InstructionKind)
        return chosen_of(is_kind, [kind.value for kind in InstructionKind])

    def _constant(self) -> Any:
        """FORM: where the word's constant operand is, see Predecoded."""
        is_there = Cat(
            _any(self._has_form[form] for form in self._forms if constant_of(form) == place)
            for place in CONSTANT_FIELDS)
        return chosen_of(is_there, range(1, len(CONSTANT_FIELDS) + 1))

    def _has_condition(self, conditions: Iterable[tuple[Form, Condition]]) -> Any:
        """Whether the word has one of these forms, and its condition holds. A condition that
        several forms share is evaluated once."""
        forms: dict[Condition, list[Any]] = {}
        for form, condition in conditions:
            if condition.codes:
                forms.setdefault(condition, []).append(self._has_form[form])
        return _any(
            condition.of(self.word) & _any(has_form) for condition, has_form in forms.items())

    def _check_registers(self, m: Module) -> tuple[Any, Any]:
        """REGISTERS: whether the launch does not have a register, and whether a group of registers
        is not aligned to its size. FORM finds out the sizes of the groups."""
        word = Signal.like(self.word)
        m.d.sync += word.eq(self.word)
        groups = {form: Outcomes(form, partial(register_groups, form)) for form in self._forms}
        is_out_of_range = []
        is_misaligned = []
        for place in PLACES:
            users = [
                (form, name)
                for form in self._forms
                for name in next(iter(groups[form]))
                if form.fields[name] == place]
            has_size = [
                self._has_condition(
                    (form, groups[form].when(partial(has_group, name, size)))
                    for form, name in users)
                for size in (2, 4)]
            is_named = _any(self._has_form[form] for form, _ in users)
            more = Signal(2)            # registers behind the first one: 0, 1 or 3
            is_used = Signal()
            m.d.sync += more.eq(Cat(has_size))
            m.d.sync += is_used.eq(is_named & (field_of(self.word, place) != RZ))
            number = field_of(word, place)
            is_out_of_range.append(is_used & (number + more >= self.registers))
            is_misaligned.append(is_used & (number & more).any())
        return _any(is_out_of_range), _any(is_misaligned)


def refuse(m: Module, predecoded: Any, is_illegal: Any, is_out_of_range: Any,
           is_misaligned: Any) -> None:
    """Makes a word REFUSED that has one of these errors, with the first of them."""
    with m.If(is_illegal):
        m.d.comb += predecoded.kind.eq(InstructionKind.REFUSED)
        m.d.comb += predecoded.error.eq(WarpError.ILLEGAL_INSTR_ENCODING.value)
    with m.Elif(is_out_of_range):
        m.d.comb += predecoded.kind.eq(InstructionKind.REFUSED)
        m.d.comb += predecoded.error.eq(WarpError.OOR_REG.value)
    with m.Elif(is_misaligned):
        m.d.comb += predecoded.kind.eq(InstructionKind.REFUSED)
        m.d.comb += predecoded.error.eq(WarpError.MISALIGNED_REG.value)


def has_group(name: str, size: int, groups: Mapping[str, int]) -> bool:
    """Whether the group that begins at a register field has so many registers."""
    return groups[name] >= size


def _is_special_case(special: Form, general: Form) -> bool:
    """Whether a form has the fixed bits of another one, and more."""
    has_more_bits = special.mask & general.mask == general.mask != special.mask
    return has_more_bits and special.match & general.mask == general.match


def _any(values: Iterable[Any]) -> Any:
    return Cat(*values).any()
