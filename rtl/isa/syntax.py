"""How one instruction is described: fields, modifiers, operands, and the form that joins them.

Everything here is plain data. A :class:`Form` has an instruction's fixed bits, its fields, the
spelling of its text, what it reads and writes, and its pipe. The tables are in the modules beside
this one; the decoder, the disassembler, the assembler and the manual only read them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as with_default
from enum import Enum
from functools import cached_property

__all__ = [
    "PT",
    "RZ",
    "WORD_BITS",
    "Access",
    "Address",
    "Adjust",
    "Choice",
    "ConditionTest",
    "Constant",
    "Field",
    "Form",
    "Immediate",
    "Literal",
    "Modifier",
    "Operand",
    "Pipe",
    "Predicate",
    "Register",
    "ScoreboardSet",
    "Target",
    "Values",
]

RZ = 255
"""The register number that reads as zero and ignores writes."""
PT = 7
"""The predicate number that is always true and ignores writes."""
WORD_BITS = 64
"""Bits in an instruction word, and in a control word."""

Values = Mapping[str, int]
"""The fields of one instruction word, by name."""


@dataclass(frozen=True)
class Field:
    """Some bits of the instruction word, read as one number.

    ``pieces`` are ``(lowest bit, width)`` pairs, least significant piece first. ``scale`` is the
    unit of the number: the value is the encoded one times the scale.
    """

    pieces: tuple[tuple[int, int], ...]
    signed: bool = False
    scale: int = 1

    @cached_property
    def width(self) -> int:
        """Bits in the field."""
        return sum(width for _, width in self.pieces)

    @cached_property
    def mask(self) -> int:
        """The bits of the word that belong to the field."""
        return sum(((1 << width) - 1) << lowest for lowest, width in self.pieces)

    @cached_property
    def bounds(self) -> range:
        """All values that the field can hold."""
        steps = 1 << self.width
        first = -(steps >> 1) if self.signed else 0
        return range(first * self.scale, (first + steps) * self.scale, self.scale)

    def get(self, word: int) -> int:
        """The field's value in ``word``."""
        value = position = 0
        for lowest, width in self.pieces:
            value |= (word >> lowest & (1 << width) - 1) << position
            position += width
        if self.signed and value >> position - 1:
            value -= 1 << position
        return value * self.scale

    def put(self, word: int, value: int) -> int:
        """``word`` with the field set to ``value``; ValueError when it does not fit."""
        if value not in self.bounds:
            unit = f" in steps of {self.scale}" if self.scale > 1 else ""
            least, most = self.bounds[0], self.bounds[-1]
            raise ValueError(f"{value:#x} is not in {least:#x}..{most:#x}{unit}")
        number = value // self.scale
        word &= ~self.mask
        for lowest, width in self.pieces:
            word |= (number & (1 << width) - 1) << lowest
            number >>= width
        return word


@dataclass(frozen=True)
class Modifier:
    """A field that is spelled behind the mnemonic. A value without a text is illegal."""

    field: str
    texts: Mapping[int, str]
    aliases: Mapping[str, int] = with_default(default_factory=dict)
    """Further texts that the assembler reads."""


class Access(Enum):
    """What an instruction does with a register or predicate."""

    READ = "read"
    WRITE = "write"
    BOTH = "both"


@dataclass(frozen=True, eq=False)
class Adjust:
    """What is done to a source before it is used; each name is a field's."""

    negate: str | None = None
    absolute: str | None = None
    invert: str | None = None
    select: str | None = None
    """Picks a part of the source."""
    parts: Mapping[int, str] | Callable[[Values], Mapping[int, str]] = with_default(
        default_factory=dict)
    """How the parts are spelled, where it depends on other fields as a function of them; a value
    without a text is illegal."""

    def part_texts(self, values: Values) -> Mapping[int, str]:
        """How the parts are spelled beside these field values."""
        return self.parts(values) if callable(self.parts) else self.parts


PLAIN = Adjust()
"""A source that is used as it is."""


@dataclass(frozen=True)
class Register:
    """A register operand: ``span`` registers from the number in ``field`` plus ``offset`` on."""

    field: str
    access: Access = Access.READ
    span: int | Callable[[Values], int] = 1
    offset: int | Callable[[Values], int] = 0
    """Not 0 for a second register that the number of the first implies."""
    adjust: Adjust = PLAIN
    set_cc: str | None = None
    """Field whose 1 is spelled ``.CC`` behind the register: the instruction writes CC."""
    reuse: int | None = None
    """Bit of the control code's reuse field that belongs to this operand."""
    optional: bool = False
    """Not spelled when it is RZ."""


@dataclass(frozen=True)
class Predicate:
    """A predicate operand; an ``optional`` one is not spelled when it is PT."""

    field: str
    access: Access = Access.READ
    negate: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class Constant:
    """``c[bank][offset]``, offset in bytes, or ``c[bank][index+offset]`` with a register
    ``index``."""

    index: str | None = None
    adjust: Adjust = PLAIN
    spaced: bool = False
    """Spelled ``c[bank] [offset]``."""
    bank: str = "bank"
    offset: str = "offset"


@dataclass(frozen=True)
class Immediate:
    """A number in the instruction; ``bits`` makes it spelled as that many bits without sign, except
    where ``signed_if`` holds.
    """

    field: str
    bits: int | None = None
    adjust: Adjust = PLAIN
    default: int | None = None
    """Not spelled when it has this value."""
    minus: bool = False
    """Its negation is spelled as a minus before it."""
    signed_if: Callable[[Values], bool] | None = None
    real: int = 0
    """If it is a floating-point number, and spelled as one: how many bits that has; the field's
    value is theirs."""


@dataclass(frozen=True)
class Address:
    """``[register+offset]``; ``wide`` names the flag that makes the register a pair."""

    register: str
    offset: str
    wide: str | None = None
    glued: bool = False
    """Spelled right behind the mnemonic."""


@dataclass(frozen=True)
class Target:
    """A place in the program, in bytes from its base; ``relative`` ones are encoded from the next
    instruction.

    With an ``index`` register its value is added, and the text is ``register offset``.
    """

    field: str
    relative: bool = True
    index: str | None = None


@dataclass(frozen=True)
class Choice:
    """A field whose values have names. A value without one is illegal."""

    field: str
    texts: Mapping[int, str]
    default: int | None = None
    """Not spelled when it has this value."""


@dataclass(frozen=True)
class ConditionTest:
    """A test of CC, spelled ``CC.NE``; not spelled when it is always true."""

    field: str = "test"


@dataclass(frozen=True)
class Literal:
    """A word that is always spelled."""

    text: str


@dataclass(frozen=True)
class ScoreboardSet:
    """A set of scoreboards, one bit each, spelled ``{5,0}``; nothing when it is empty."""

    field: str


Operand = (
    Register
    | Predicate
    | Constant
    | Immediate
    | Address
    | Target
    | Choice
    | ConditionTest
    | Literal
    | ScoreboardSet
)


class Pipe(Enum):
    """Where an instruction runs, and so what its timing is.

    ALU, PREDICATE and MULTIPLY have a fixed latency. CONVERSION, DOUBLE, MEMORY and SYSTEM have a
    variable one, signalled by a write barrier; within each of them but SYSTEM a warp's instructions
    complete in order. The rest change which instruction is next, or hold the warp.
    """

    ALU = "one result in 6 cycles"
    PREDICATE = "moves between registers and predicates, 15 cycles"
    MULTIPLY = "32-bit products, 15 cycles"
    CONVERSION = "conversions, bit counts, reciprocal"
    DOUBLE = "double precision"
    MEMORY = "loads, stores, atomics, shuffles"
    SYSTEM = "special registers and stack pointers"
    FLOW = "branches, pushes, unwinds"
    BARRIER = "CTA barriers"
    TRAP = "traps, pauses, trap enable"
    ISSUE = "done by the time it issues"


@dataclass(frozen=True, eq=False)
class Form:
    """One instruction in one operand form.

    ``operands`` are in the order of the text. Their keys are their roles: ``d`` the result, ``a``
    ``b`` ``c`` sources, ``p`` ``q`` predicate results, ``x`` ``y`` ``z`` predicate sources,
    ``address`` and ``target`` an address or a jump's target.
    """

    name: str
    variant: str
    """Where operand b (or c) comes from: ``r`` register, ``c`` constant, ``i`` immediate; ``rc``
    has a register as b and a constant as c. Empty when the instruction has one form."""
    match: int
    mask: int
    pipe: Pipe
    fields: Mapping[str, Field]
    modifiers: tuple[Modifier, ...] = ()
    operands: Mapping[str, Operand] = with_default(default_factory=dict)
    default: int = 0
    """The word that NVIDIA's assembler writes when every field is left at its default."""
    illegal: tuple[Callable[[Values], bool], ...] = ()
    """Rules for field values: the machine refuses a word if one is true."""

    @property
    def guarded(self) -> bool:
        """Whether a guard predicate decides, thread by thread, if the instruction is executed."""
        return "guard" in self.fields

    def values(self, word: int) -> dict[str, int]:
        """All fields of ``word``, by name."""
        return {name: field.get(word) for name, field in self.fields.items()}

    @cached_property
    def rules(self) -> tuple[Callable[[Values], bool], ...]:
        """Rules for field values: the machine refuses a word if one is true. Each looks at few
        fields."""
        rules = [_not_in(modifier.field, modifier.texts) for modifier in self.modifiers]
        for operand in self.operands.values():
            adjust = getattr(operand, "adjust", PLAIN)
            if adjust.select is not None:
                rules.append(_no_part(adjust.select, adjust))
            if isinstance(operand, Choice):
                rules.append(_not_in(operand.field, operand.texts))
        return (*rules, *self.illegal)

    def refuses(self, values: Values) -> bool:
        """Whether the machine refuses this combination of field values."""
        return any(rule(values) for rule in self.rules)


def _not_in(field: str, texts: Mapping[int, str]) -> Callable[[Values], bool]:
    """The field's value has no text."""
    return lambda values: values[field] not in texts


def _no_part(field: str, adjust: Adjust) -> Callable[[Values], bool]:
    """The field's value is no part of the source."""
    return lambda values: values[field] not in adjust.part_texts(values)
