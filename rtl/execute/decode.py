"""Decodes an instruction word into a LaneInstruction, by the instruction table."""

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

LANE_FORMS: tuple[Form, ...] = tuple(
    form for form in FORMS if form.name in OPERATIONS and not is_refused(form))
"""The instructions whose results the lanes compute."""

_OTHER_VALUES = {
    "S2R": ValueSource.SPECIAL,
    "CS2R": ValueSource.SPECIAL,
    "LEPC": ValueSource.NEXT_PC,
    "VOTE": ValueSource.BALLOT,
}
"""The source of operand a, if it is no register."""

_Bits = Sequence[Value]
"""Lowest bit first."""


class LaneDecoder(wiring.Component):
    """Decodes by the instruction table; combinational.

    By the table, each bit of the decoded instruction is one bit of the word in some forms, another
    one in others, a constant in the rest, or a don't-care. A group of forms is distinguished from
    the others by as few bits as possible. So the outcome for a word that is no instruction of the
    lanes is undefined.

    Parameters
    ----------
    floats : bool
        The lanes have floating point.
    names
        The names of the instructions that it decodes.

    Members
    -------
    word : In(64)
    instruction : Out(LaneInstruction)
    """

    word: In(WORD_BITS)
    instruction: Out(LaneInstruction)

    def __init__(self, floats: bool, names: Container[str] = OPERATIONS) -> None:
        self._names = tuple(
            form.name for form in LANE_FORMS
            if form.name in names and (floats or form.name not in FLOAT_OPERATIONS))
        super().__init__()

    @property
    def _forms(self) -> tuple[Form, ...]:
        """The instructions that it decodes."""
        return tuple(form for form in LANE_FORMS if form.name in self._names)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        groups = _Groups(m, self.word, self._forms)
        unused = self._unused()
        for part, number in unused:
            m.d.comb += part.eq(number)

        otherwise = {repr(Value.cast(part)): number for part, number in unused}
        parts: dict[str, tuple[Value, dict[Form, _Bits | None]]] = {}
        for form in self._forms:
            for part, value in self._decode(form):
                target = Value.cast(part)
                _, of_form = parts.setdefault(repr(target), (target, {}))
                of_form[form] = None if value is None else _bits(value, len(target))
        for name, (target, of_form) in parts.items():
            number = otherwise.get(name, 0)
            m.d.comb += target.eq(Cat(
                groups.chosen(_bit_of(of_form, place), number >> place & 1)
                for place in range(len(target))))
        return m

    def _unused(self) -> list[tuple[Any, int]]:
        """Parts of the instruction, with their values in forms that do not have them, if not 0."""
        instruction: Any = self.instruction
        destination = instruction.destination
        registers = (*instruction.registers, destination.register)
        operands = (instruction.guard, *instruction.predicates)
        predicates = (
            destination.p, destination.q, *(operand.number for operand in operands))
        return [
            *((register, RZ) for register in registers),
            *((predicate, PT) for predicate in predicates),
            (instruction.quad, ~0)]

    def _decode(self, form: Form) -> Iterator[tuple[Any, Any]]:
        """The parts of the instruction that a form has, and for each a value, bits of the word, or
        None for a don't-care."""
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
                yield instruction.destination[name], place(operand.field)
        register = form.operands.get("d")
        if isinstance(register, Register):
            yield instruction.destination.register, place(register.field)
        yield instruction.destination.writes_cc, field("which" if form.name == "R2P" else "cc")
        if "lanes" in form.fields:
            yield instruction.quad, place("lanes")
        if form.name in _OTHER_VALUES:
            yield instruction.source_a, _OTHER_VALUES[form.name]
        if form.name == "RRO":
            is_ex2 = field("mode") == FloatRange.EX2.value
            yield instruction.source_a, Mux(is_ex2, ValueSource.ONE, ValueSource.TURN)
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
        source = (None, instruction.source_b, instruction.source_c)[index]
        register = None
        match operand:
            case Register(field):
                register = self._place(form.fields[field])
            case Constant() if source is not None:
                yield source, OperandSource.CONSTANT
            case Immediate(name) if source is not None:
                field = form.fields[name]
                bits = [*[Const(0, 1)] * exact_log2(field.scale), *self._place(field)]
                missing = len(instruction.immediate) - len(bits)
                above = bits[-1] if field.signed else Const(0, 1)
                yield source, OperandSource.IMMEDIATE
                yield instruction.immediate, [*bits, *[above] * missing]
        yield instruction.registers[index], register

    def _place(self, field: Field) -> _Bits:
        """The bits of the word that are a field."""
        return [
            self.word[bit] for lowest, width in field.pieces
            for bit in range(lowest, lowest + width)]


def _bit_of(bits: Mapping[Form, _Bits | None], place: int) -> dict[Form, Value | None]:
    """One bit of the value in each form; None for a don't-care."""
    return {form: None if of_form is None else of_form[place] for form, of_form in bits.items()}


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
    """Comparators of the word with groups of forms. Their outcome is undefined for a word that is
    none of the forms."""

    def __init__(self, m: Module, word: Value, forms: Iterable[Form]) -> None:
        self._m = m
        self._word = word
        self._forms = tuple(forms)
        self._known: dict[tuple[frozenset[Form], frozenset[Form]], Signal] = {}

    def chosen(self, bits: Mapping[Form, Value | None], otherwise: int) -> Value:
        """The bit of the word's form: undefined if that is None, ``otherwise`` if the form is not
        in ``bits``."""
        groups: dict[str, tuple[Value, set[Form]]] = {}
        for form, bit in bits.items():
            if bit is not None:
                groups.setdefault(repr(bit), (bit, set()))[1].add(form)
        ignored = frozenset(form for form, bit in bits.items() if bit is None)
        differing = [
            self._belongs(frozenset(forms), ignored) & (bit ^ otherwise)
            for bit, forms in groups.values()
            if not isinstance(bit, Const) or bit.value != otherwise]
        return reduce(or_, differing, Const(0, 1)) ^ otherwise

    def _belongs(self, group: frozenset[Form], ignored: frozenset[Form]) -> Value:
        """Whether the word's form is in the group; undefined if it is an ignored one."""
        if (group, ignored) not in self._known:
            inside = [form for form in self._forms if form in group]
            outside = [form for form in self._forms if form not in group | ignored]
            belongs = Signal(name=f"group_{len(self._known)}")
            patterns = telling_patterns(inside, outside)
            self._m.d.comb += belongs.eq(self._word.matches(*patterns))
            self._known[group, ignored] = belongs
        return self._known[group, ignored]
