"""From an instruction word to what the lanes do with it."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.isa.kinds import FloatRange
from rtl.isa.legality import is_refused
from rtl.isa.syntax import (
    PT,
    RZ,
    WORD_BITS,
    Constant,
    Field,
    Form,
    Immediate,
    Operand,
    Predicate,
    Register,
)
from rtl.isa.table import FORMS
from rtl.word import field_of, telling_patterns

from .float_control import FLOAT_OPERATIONS
from .instruction import LaneInstruction, OperandSource, ValueSource
from .operations import OPERATIONS, WITHOUT_EFFECT_UNLESS

__all__ = ["LANE_FORMS", "LaneDecoder"]

LANE_FORMS: tuple[Form, ...] = tuple(form for form in FORMS if form.name in OPERATIONS and not is_refused(form))
"""The instructions that pass the lanes and have their results then."""

_OTHER_VALUES = {"S2R": ValueSource.SPECIAL, "CS2R": ValueSource.SPECIAL, "LEPC": ValueSource.NEXT_PC,
                 "VOTE": ValueSource.BALLOT}

_Bits = Sequence[Value]
"""Lowest bit first."""


class LaneDecoder(wiring.Component):
    """Reads the instruction table; combinational. ``floats``: the lanes have floating point. ``names``: it knows no
    other instructions.

    Of every bit that it gives it is known by the table where each form has it: it is one bit of the word in some forms,
    another one in others, a constant in the rest, or it does not matter. A group of forms is told from the others by
    as few bits as do that. So a word that is no instruction of the lanes makes anything.

    Members
    -------
    word : In(64)
    instruction : Out(LaneInstruction)
    """

    word: In(WORD_BITS)
    instruction: Out(LaneInstruction)

    def __init__(self, floats: bool, names: Container[str] = OPERATIONS) -> None:
        self._forms = tuple(form for form in LANE_FORMS if form.name in names and (
            floats or form.name not in FLOAT_OPERATIONS))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction: Any = self.instruction
        groups = _Groups(m, self.word, self._forms)
        predicates = (instruction.guard, *instruction.predicates)
        nothing: list[tuple[Any, int]] = [
            *((register, RZ) for register in (*instruction.registers, instruction.destination)),
            *((number, PT) for number in (instruction.p, instruction.q, *(each.number for each in predicates))),
            (instruction.quad, ~0)]
        m.d.comb += [part.eq(number) for part, number in nothing]
        unused = {repr(Value.cast(part)): number for part, number in nothing}
        parts: dict[str, tuple[Value, dict[Form, _Bits | None]]] = {}
        for form in self._forms:
            for part, value in self._decode(form):
                target = Value.cast(part)
                _, of_form = parts.setdefault(repr(target), (target, {}))
                of_form[form] = None if value is None else _bits(value, len(target))
        for name, (target, of_form) in parts.items():
            m.d.comb += target.eq(Cat(
                groups.chosen({form: None if bits is None else bits[place] for form, bits in of_form.items()},
                              unused.get(name, 0) >> place & 1)
                for place in range(len(target))))
        return m

    def _decode(self, form: Form) -> Iterator[tuple[Any, Any]]:
        """Parts of the instruction and what they are: a value, bits of the word, or None if it does not matter. All
        others are unused."""
        instruction = self.instruction

        def field(name: str) -> Value:
            return field_of(self.word, form.fields[name]) if name in form.fields else Const(0, 8)

        def place(name: str) -> _Bits:
            return self._place(form.fields[name])

        yield instruction.guard.number, place("guard")
        yield instruction.guard.negated, place("guard_not")
        for index, name in enumerate("abc"):
            yield from self._source(form, index, form.operands.get(name))
        if not any(isinstance(form.operands.get(name), Immediate) for name in "bc"):
            yield instruction.immediate, None
        for target, name in zip(instruction.predicates, "xyz", strict=True):
            operand = form.operands.get(name)
            if isinstance(operand, Predicate):
                yield target.number, place(operand.field)
                if operand.negate is not None:
                    yield target.negated, place(operand.negate)
        for name in "pq":
            operand = form.operands.get(name)
            if isinstance(operand, Predicate):
                yield instruction[name], place(operand.field)
        destination = form.operands.get("d")
        if isinstance(destination, Register):
            yield instruction.destination, place(destination.field)
        yield instruction.writes_cc, field("which" if form.name == "R2P" else "cc")
        if "lanes" in form.fields:
            yield instruction.quad, place("lanes")
        if form.name in _OTHER_VALUES:
            yield instruction.source_a, _OTHER_VALUES[form.name]
        if form.name == "RRO":
            yield instruction.source_a, Mux(field("mode") == FloatRange.EX2.value, ValueSource.ONE, ValueSource.TURN)
        yield instruction.special, place("special") if "special" in form.fields else None
        yield instruction.vote, place("mode") if form.name == "VOTE" else None
        for name, value in FLOAT_OPERATIONS.get(form.name, lambda _: {})(field).items():
            yield instruction.control.floating[name], value
        signals = OPERATIONS[form.name](field)
        for name, value in signals.items():
            yield instruction.control[name], value
        for name, (other, values) in WITHOUT_EFFECT_UNLESS.items():
            setting = signals.get(other)
            if not isinstance(setting, Value) and setting not in values:
                yield instruction.control[name], None

    def _source(self, form: Form, index: int, operand: Operand | None) -> Iterator[tuple[Any, Any]]:
        """Operand a, b or c."""
        instruction = self.instruction
        source, register = (None, instruction.source_b, instruction.source_c)[index], None
        match operand:
            case Register(field):
                register = self._place(form.fields[field])
            case Constant() if source is not None:
                yield source, OperandSource.CONSTANT
            case Immediate(name) if source is not None:
                field = form.fields[name]
                bits = [*[Const(0, 1)] * exact_log2(field.scale), *self._place(field)]
                missing = len(instruction.immediate) - len(bits)
                yield source, OperandSource.IMMEDIATE
                yield instruction.immediate, [*bits, *[bits[-1] if field.signed else Const(0, 1)] * missing]
        yield instruction.registers[index], register

    def _place(self, field: Field) -> _Bits:
        """The bits of the word where a field is."""
        return [self.word[bit] for lowest, width in field.pieces for bit in range(lowest, lowest + width)]


def _bits(value: Any, width: int) -> _Bits:
    """The bits of a value, or bits, in this width."""
    if isinstance(value, list):
        return value
    value = Value.cast(value)
    if isinstance(value, Const):
        return [Const(value.value >> place & 1, 1) for place in range(width)]
    above = value[-1] if value.shape().signed else Const(0, 1)
    return [value[place] if place < len(value) else above for place in range(width)]


class _Groups:
    """Groups of forms, to each of which a word belongs or not if it is one of the forms."""

    def __init__(self, m: Module, word: Value, forms: Iterable[Form]) -> None:
        self._m, self._word, self._forms = m, word, tuple(forms)
        self._known: dict[tuple[frozenset[Form], frozenset[Form]], Signal] = {}

    def chosen(self, bits: Mapping[Form, Value | None], otherwise: int) -> Value:
        """The bit that is given for the word's form; anything if that is None, ``otherwise`` if none is given."""
        groups: dict[str, tuple[Value, set[Form]]] = {}
        for form, bit in bits.items():
            if bit is not None:
                groups.setdefault(repr(bit), (bit, set()))[1].add(form)
        whatever = frozenset(form for form, bit in bits.items() if bit is None)
        differing = (self._belongs(frozenset(forms), whatever) & (bit ^ otherwise) for bit, forms in groups.values()
                     if not isinstance(bit, Const) or bit.value != otherwise)
        return reduce(or_, differing, Const(0, 1)) ^ otherwise

    def _belongs(self, group: frozenset[Form], whatever: frozenset[Form]) -> Value:
        """Whether the word's form is of the group; anything if it is of the second one."""
        if (group, whatever) not in self._known:
            patterns = telling_patterns([form for form in self._forms if form in group],
                                        [form for form in self._forms if form not in group | whatever])
            belongs = self._known[group, whatever] = Signal(name=f"group_{len(self._known)}")
            self._m.d.comb += belongs.eq(self._word.matches(*patterns))
        return self._known[group, whatever]
