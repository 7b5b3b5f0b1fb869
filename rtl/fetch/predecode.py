"""The predecoder: the facts about an instruction word that the scheduler needs, and whether some
unit can execute it. It is generated from the instruction table."""

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
"""The errors for which the predecoder or the instruction cache refuses an instruction."""
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
    """The fields of offset and bank of the form's constant operand; None if it has none, or if the
    address depends on a register."""
    for operand in form.operands.values():
        if isinstance(operand, Constant) and operand.index is None:
            return form.fields[operand.offset], form.fields[operand.bank]
    return None


CONSTANT_FIELDS = tuple(dict.fromkeys(
    place for form in FORMS if (place := constant_of(form)) is not None))
"""The pairs of bit fields that can be offset and bank of a constant operand."""


class Predecoded(data.Struct):
    """The predecoder's facts about a word.

    Fields
    ------
    kind : InstructionKind
        REFUSED if no unit can execute the word.
    quarter : 1
        Only full lanes can compute the instruction, so it takes four times as long. Every fourth
        lane is full (see rtl.execute.lanes); rtl.isa.rate lists the instructions.
    error : ERROR_BITS
        The code of the warp error, if the kind is REFUSED.
    constant : range(len(CONSTANT_FIELDS) + 1)
        0 if the word has no constant operand at a fixed address; otherwise n if the n-th pair of
        CONSTANT_FIELDS, counted from 1, gives its offset and bank.
    """

    kind: InstructionKind
    quarter: unsigned(1)
    error: unsigned(ERROR_BITS)
    constant: range(len(CONSTANT_FIELDS) + 1)


def _register_places() -> tuple[Field, ...]:
    """The bit fields that can be register numbers, without duplicates."""
    return tuple(dict.fromkeys(
        form.fields[name]
        for form in FORMS
        for groups in Outcomes(form, partial(register_groups, form))
        for name in groups))


PLACES = _register_places()
"""The bit fields that can be register numbers."""


class Predecoder(wiring.Component):
    """Decodes a word by the instruction table, in two stages with a register between them. ::

        word --> FORM: kind, constant operand, rules of --> REGISTERS: numbers of --> predecoded
                 the form, sizes of register groups         registers are compared

    Refuses the words that :func:`rtl.isa.legality.encoding_error` refuses for the machine's
    ``floats`` and ``doubles``. Of several errors, an illegal encoding has priority, then a register
    number that is out of range, then a misaligned register group.

    Members
    -------
    word : In(64)
    registers : In(9)
        Registers of a thread.
    predecoded : Out(Predecoded)
        The facts about the ``word`` of the previous cycle.

    Parameters
    ----------
    floats, doubles : bool
        The machine executes single precision, double precision.
    """

    word: In(WORD_BITS)
    registers: In(9)
    predecoded: Out(Predecoded)

    def __init__(self, floats: bool, doubles: bool) -> None:
        self._floats = floats
        self._doubles = doubles
        self._has_form: dict[Form, Any] = {}
        """Form -> 1 if the word has this form. At most one of them is 1."""
        super().__init__()

    @property
    def _forms(self) -> tuple[Form, ...]:
        """The forms that the machine executes."""
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
        """FORM: matches the word with each form. A form with more fixed bits may be a special case
        of another form; then the word has the special form. This also holds if the machine does
        not execute the special form."""
        for number, form in enumerate(self._forms):
            special_cases = [other for other in FORMS if _is_special_case(other, form)]
            is_special = _any(self.word.matches(pattern_of(other)) for other in special_cases)
            has_form = Signal(name=f"form_{number}")
            m.d.comb += has_form.eq(self.word.matches(pattern_of(form)) & ~is_special)
            self._has_form[form] = has_form

    def _is_illegal(self) -> Any:
        """FORM: whether the word has no form, or a rule of its form forbids it."""
        is_forbidden = self._has_condition(
            (form, Outcomes(form, rule).when(bool))
            for form in self._forms for rule in rules(form, self._floats, self._doubles))
        return ~_any(self._has_form.values()) | is_forbidden

    def _kind(self) -> Any:
        """FORM: the word's kind; 0 if it has no form."""
        is_kind = Cat(
            _any(self._has_form[form] for form in self._forms if kind_of(form) is kind)
            for kind in InstructionKind)
        return chosen_of(is_kind, [kind.value for kind in InstructionKind])

    def _constant(self) -> Any:
        """FORM: the field ``constant`` of Predecoded."""
        is_there = Cat(
            _any(self._has_form[form] for form in self._forms if constant_of(form) == place)
            for place in CONSTANT_FIELDS)
        return chosen_of(is_there, range(1, len(CONSTANT_FIELDS) + 1))

    def _has_condition(self, conditions: Iterable[tuple[Form, Condition]]) -> Any:
        """Whether the word has one of these forms and the form's condition holds. A condition that
        several forms share is evaluated once."""
        forms: dict[Condition, list[Any]] = {}
        for form, condition in conditions:
            if condition.codes:
                forms.setdefault(condition, []).append(self._has_form[form])
        return _any(
            condition.of(self.word) & _any(has_form) for condition, has_form in forms.items())

    def _check_registers(self, m: Module) -> tuple[Any, Any]:
        """REGISTERS: whether a register number is out of the range of the launch, and whether a
        group of registers is misaligned. FORM computes the sizes of the groups."""
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
            more = Signal(2)            # number of the group's registers after the first: 0, 1, 3
            is_used = Signal()
            m.d.sync += more.eq(Cat(has_size))
            m.d.sync += is_used.eq(is_named & (field_of(self.word, place) != RZ))
            number = field_of(word, place)
            is_out_of_range.append(is_used & (number + more >= self.registers))
            is_misaligned.append(is_used & (number & more).any())
        return _any(is_out_of_range), _any(is_misaligned)


def refuse(m: Module, predecoded: Any, is_illegal: Any, is_out_of_range: Any,
           is_misaligned: Any) -> None:
    """Refuses a word that has one of these errors. The first error in the parameters' order is
    reported."""
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
    """Whether the group that begins at the register field ``name`` has at least ``size``
    registers."""
    return groups[name] >= size


def _is_special_case(special: Form, general: Form) -> bool:
    """Whether the form ``special`` has all fixed bits of the form ``general``, and others."""
    has_more_bits = special.mask & general.mask == general.mask != special.mask
    return has_more_bits and special.match & general.mask == general.match


def _any(values: Iterable[Any]) -> Any:
    return Cat(*values).any()
