"""Opcodes of operations: machine instructions with typed modifiers, and pseudo-instructions.

An :class:`Opcode` is a name and the values of all modifiers. The instruction table
(:mod:`rtl.isa.table`) defines its operands, its forms, and the operands that fit each form. Each
opcode is a unique object, so derived facts are computed once. This module adds what the table does
not define: commutative operations, and forms that are not used.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property

from rtl.isa.kinds import (
    AtomicOperation,
    AtomicType,
    BarrierMode,
    BarrierRead,
    BarrierReduction,
    Boolean,
    BreakpointMode,
    CacheOperation,
    Compare,
    FloatCompare,
    FloatFlush,
    FloatFormat,
    FloatRange,
    FloatRounding,
    FunnelWidth,
    Logic,
    MembarScope,
    MemorySize,
    MultiFunction,
    PermuteMode,
    PredicateTest,
    ProductAddend,
    ShuffleMode,
    SumShift,
    VideoScale,
    VideoSecond,
    VoteMode,
)
from rtl.isa.syntax import (
    Access,
    Address,
    Choice,
    Constant,
    Field,
    Form,
    Immediate,
    Modifier,
    Operand,
    Pipe,
    Predicate,
    Register,
)
from rtl.isa.table import BY_NAME

__all__ = [
    "ARRIVALS",
    "LONG_FORMS",
    "LOWEST",
    "RELATIONS",
    "SHUFFLE_MASKS",
    "TOGETHER",
    "FieldValue",
    "Fields",
    "IntegerFormat",
    "Opcode",
    "OpcodeShape",
    "OperandRole",
    "WholeRounding",
    "address_field",
    "opcode",
    "value_of",
]

FieldValue = Enum | int
Fields = Mapping[str, FieldValue]

LONG_FORMS = {
    "FADD": "FADD32I",
    "FMUL": "FMUL32I",
    "IADD": "IADD32I",
    "LOP": "LOP32I",
    "MOV": "MOV32I",
}
"""Instruction forms with a 32-bit immediate."""
LOWEST = 0xFFF
"""The low bits of a number in single precision that a short immediate cannot hold."""
ARRIVALS = frozenset({"BAR"})
TOGETHER = ARRIVALS | {"VOTE", "SHFL", "B2R", "CAL", "ICAL", "BPT", "MEMBAR", "PRET"}
"""Operations that involve several threads or cannot be guarded."""


class IntegerFormat(Enum):
    """The integer format of a conversion: bits 0 and 1 are the binary logarithm of its bytes, bit 2
    says that it is signed.
    """

    U8 = 0
    U16 = 1
    U32 = 2
    U64 = 3
    S8 = 4
    S16 = 5
    S32 = 6
    S64 = 7


class WholeRounding(Enum):
    """How F2F rounds a number to an integral value of the same format."""

    NONE = 0
    ROUND = 4
    FLOOR = 5
    CEIL = 6
    TRUNC = 7


RELATIONS: Mapping[FieldValue, Callable[[int, int], bool]] = {
    Compare.LT: int.__lt__,
    Compare.LE: int.__le__,
    Compare.GT: int.__gt__,
    Compare.GE: int.__ge__,
    Compare.EQ: int.__eq__,
    Compare.NE: int.__ne__,
}
"""The comparison of integers for each relation."""
_PSEUDO = frozenset({"ADD64", "SETP64", "MAD", "MULHI", "MULWIDE", "DIV", "REM", "CAL", "ICAL"})
"""Pseudo-instructions, and instructions whose operands differ from the table, with the numbers of
their results and sources.
"""
_CALLS = frozenset({"CAL", "ICAL"})
_TAKES_ANYTHING = frozenset({"ADD64", "MAD", "MULHI", "MULWIDE", "DIV", "REM"})
"""Operations whose sources may be any numbers and constants, as they are expanded before
legalisation.
"""
_COMMUTATIVE = frozenset({"IADD", "LOP", "IMNMX", "FADD", "FMUL", "FFMA", "FMNMX"})
"""Operations whose first two sources commute."""
_VIDEO = frozenset({"VADD", "VMAD", "VMNMX", "VABSDIFF", "VABSDIFF4", "VSHL", "VSHR", "VSET"})
_COMPUTING = frozenset({Pipe.ALU, Pipe.PREDICATE, Pipe.MULTIPLY, Pipe.CONVERSION, Pipe.DOUBLE})
_CHANGING = frozenset({"VOTE", "CS2R"})
"""Operations on registers whose result is not a function of the sources: it depends on other
threads, or on a clock.
"""
_READING = frozenset({"LDG", "LD", "LDS", "LDL", "LDC", "VOTE", "CS2R"})
"""Operations without side effects whose result depends on more than their sources."""
SHUFFLE_MASKS = {"lane": 0x1F, "clamp": 0x1F1F}
"""The immediate fields of SHFL, and the bits of each that SHFL reads."""
_NOT_LONG: Mapping[str, Fields] = {"IADD": {"saturate": 1}, "LOP": {"operation": Logic.PASS_B}}
"""Modifier values that are not used with 32-bit immediates, though the table has them."""
_ORDER = {"ST": ("address", "x", "b")}
"""Instructions whose source order differs from the text: the data, whose number depends on the
size, is last.
"""
_FLOAT_COMPARISONS = frozenset({"FSETP", "FSET", "FCMP", "DSETP", "DSET"})
_TYPES: Mapping[str, type[Enum] | Mapping[str, type[Enum]]] = {
    "addend": ProductAddend,
    "combine": Boolean,
    "combine_first": Boolean,
    "compare": {"": Compare, **dict.fromkeys(_FLOAT_COMPARISONS, FloatCompare)},
    "destination": {
        "I2I": IntegerFormat,
        "F2I": IntegerFormat,
        "I2F": FloatFormat,
        "F2F": FloatFormat,
    },
    "flush": FloatFlush,
    "function": MultiFunction,
    "mode": {
        "PRMT": PermuteMode,
        "SHFL": ShuffleMode,
        "VOTE": VoteMode,
        "BAR": BarrierMode,
        "B2R": BarrierRead,
        "BPT": BreakpointMode,
        "RRO": FloatRange,
    },
    "operation": {
        "LOP": Logic,
        "ATOM": AtomicOperation,
        "ATOMS": AtomicOperation,
        "RED": AtomicOperation,
        "CCTL": CacheOperation,
        "CCTLL": CacheOperation,
    },
    "predicate_test": PredicateTest,
    "reduction": BarrierReduction,
    "round": FloatRounding,
    "scale": {"VMAD": VideoScale},
    "scope": MembarScope,
    "shift": {"IADD3": SumShift},
    "size": MemorySize,
    "source": {"I2I": IntegerFormat, "F2I": FloatFormat, "I2F": IntegerFormat, "F2F": FloatFormat},
    "then": VideoSecond,
    "type": {"ATOM": AtomicType, "RED": AtomicType},
    "whole": WholeRounding,
    "width": FunnelWidth,
}
"""The types of field values, by instruction where they differ; other values are integers."""


def _typed(name: str, field: str, value: FieldValue) -> FieldValue:
    """Returns a field's value in its type."""
    if isinstance(value, Enum):
        return value
    kind = _TYPES.get(field)
    if isinstance(kind, Mapping):
        kind = kind.get(name, kind.get(""))
    return int(value) if kind is None else kind(int(value))


def _code(value: FieldValue) -> int:
    """Returns the encoding of a field's value."""
    return value.value if isinstance(value, Enum) else int(value)


@dataclass(frozen=True)
class OperandRole:
    """The role of an operand: its key in the table, its number of registers, and whether it is a
    predicate.
    """

    key: str
    count: int
    predicate: bool
    field: str


@dataclass(frozen=True)
class OpcodeShape:
    """The results and sources of an opcode. A group is a list of the indices of registers that must
    be consecutive.
    """

    results: tuple[OperandRole, ...]
    sources: tuple[OperandRole, ...]

    @cached_property
    def result_groups(self) -> list[list[int]]:
        """The groups of the results."""
        return _groups(self.results)

    @cached_property
    def source_groups(self) -> list[list[int]]:
        """The groups of the sources: each comes from one field of the instruction."""
        return _groups(self.sources)

    @cached_property
    def grouped(self) -> frozenset[int]:
        """The sources that belong to a group."""
        return frozenset(at for group in self.source_groups for at in group)

    @cached_property
    def predicates(self) -> frozenset[int]:
        """The sources that are predicates."""
        return frozenset(at for at, role in _indexed(self.sources) if role.predicate)

    @cached_property
    def roles(self) -> dict[int, OperandRole]:
        """The role of each source."""
        return dict(_indexed(self.sources))

    @property
    def wide(self) -> bool:
        """Whether it has an address of two registers."""
        return any(role.key == "address" and role.count > 1 for role in self.sources)


def _indexed(roles: Iterable[OperandRole]) -> Iterable[tuple[int, OperandRole]]:
    """Yields each operand's index with its role."""
    at = 0
    for role in roles:
        for _ in range(role.count):
            yield at, role
            at += 1


def _groups(roles: Iterable[OperandRole]) -> list[list[int]]:
    found: dict[str, list[int]] = {}
    for at, role in _indexed(roles):
        found.setdefault(role.field, []).append(at)
    return [group for group in found.values() if len(group) > 1]


class Opcode:
    """An instruction with its modifiers, or a pseudo-instruction.

    Attributes:
        name: The name of the instruction in the table, or of the pseudo-instruction.
        fields: The values of all modifiers, and of operands that are no source, such as a shift or
            a special register.
        forms: The possible forms in the table, those with a 32-bit immediate last.
        codes: The encodings of the fields.
        commutes: Whether the first two sources commute.
        pure: Whether it has no effect except its results, which depend on its sources alone.
        needless: Whether it can be removed if its results are not used.
        exact: Whether modifiers of numbers are not folded into the numbers (video instructions).
        takes_anything: Whether its sources may be any numbers and constants.
        may_drop_results: Whether a result may be unused.
    """

    def __init__(self, name: str, fields: Fields, forms: tuple[Form, ...]) -> None:
        self.name = name
        self.fields = fields
        self.forms = forms
        self.codes = {field: _code(value) for field, value in fields.items()}
        self._shapes: dict[tuple[int, int], OpcodeShape] = {}
        pipe = forms[0].pipe if forms else None
        self.commutes = name in _COMMUTATIVE
        computes = pipe in _COMPUTING and name not in _CHANGING
        self.pure = name not in _CALLS and (not forms or computes or name == "S2R")
        self.needless = self.pure or (name in _READING and not self._volatile)
        self.exact = name in _VIDEO
        self.takes_anything = name in _TAKES_ANYTHING
        self.may_drop_results = self._may_drop_results()

    def __repr__(self) -> str:
        return self.name + "".join(
            modifier.texts[self.codes[modifier.field]] for modifier in self._modifiers
        )

    def __reduce__(self) -> tuple:
        return opcode, (self.name, tuple(self.fields.items()))

    @property
    def _modifiers(self) -> tuple:
        return self.forms[0].modifiers if self.forms else ()

    @cached_property
    def operand_fields(self) -> dict[str, int]:
        """The values of operands that are no source."""
        spelled = {modifier.field for modifier in self._modifiers}
        return {
            name: code for name, code in self.codes.items() if self.forms and name not in spelled
        }

    @property
    def _volatile(self) -> bool:
        return any(
            modifier.field == "cache" and modifier.texts[self.codes["cache"]] == ".CV"
            for modifier in self._modifiers
        )

    @cached_property
    def plain(self) -> bool:
        """Whether all modifiers have their default values."""
        return not self.forms or all(
            self.codes[modifier.field] == _absent(self.forms[0], modifier)
            for modifier in self._modifiers
        )

    def with_fields(self, **changes: FieldValue) -> "Opcode":
        """Returns the opcode with other values of some fields."""
        return opcode(self.name, tuple({**self.fields, **changes}.items()))

    def _may_drop_results(self) -> bool:
        """Whether the register of a result may be RZ. Consecutive registers must all exist."""
        if self.name in _CALLS or self.name == "MOV":
            return False
        return not any(
            isinstance(operand, Register)
            and operand.access is not Access.READ
            and (self._span(operand) > 1 or (form.pipe is Pipe.MEMORY and callable(operand.span)))
            for form in self.forms[:1]
            for operand in form.operands.values()
        )

    def _span(self, operand: Register) -> int:
        return operand.span(self._values) if callable(operand.span) else operand.span

    @cached_property
    def _values(self) -> Mapping[str, int]:
        """The values of all fields except operands."""
        return self.forms[0].values(self.word(self.forms[0])) if self.forms else {}

    def word(self, form: Form) -> int:
        """Returns the word of a form with the modifiers and without operands."""
        word = form.default
        for name, value in self.codes.items():
            if name in form.fields:
                word = form.fields[name].put(word, value)
        return word

    def shape(self, results: int, sources: int) -> OpcodeShape:
        """Returns the roles for these numbers of results and sources. Optional operands are
        included if the numbers suffice.
        """
        found = self._shapes.get((results, sources))
        if found is None:
            found = self._shapes[results, sources] = self._shape(results, sources)
        return found

    def _shape(self, results: int, sources: int) -> OpcodeShape:
        if not self.forms or self.name in _CALLS:
            return OpcodeShape((), ())
        written: list[tuple[OperandRole, bool]] = []
        read: list[tuple[OperandRole, bool]] = []
        operands = self.forms[0].operands
        for key in _ORDER.get(self.name, operands):
            for role, optional, is_result in self._roles(key, operands[key]):
                (written if is_result else read).append((role, optional))
        return OpcodeShape(_chosen(written, results), _chosen(read, sources))

    def _roles(self, key: str, operand: Operand) -> Iterable[tuple[OperandRole, bool, bool]]:
        """Yields the role of an operand, whether it is optional, and whether it is a result."""
        match operand:
            case Register(field, access):
                yield (
                    OperandRole(key, self._span(operand), False, field),
                    operand.optional,
                    access is Access.WRITE,
                )
            case Predicate(field, access):
                yield OperandRole(key, 1, True, field), operand.optional, access is Access.WRITE
            case Address(register, _, wide):
                yield (
                    OperandRole(key, 2 if wide and self.codes.get(wide) else 1, False, register),
                    False,
                    False,
                )
            case Constant(index) if index is not None:
                yield OperandRole(key, 1, False, index), False, False
            case Immediate(field) if field not in self.codes:
                yield OperandRole(key, 1, False, field), operand.default is not None, False

    # Operands that can be encoded

    def constant_fits(self, key: str) -> bool:
        """Whether an operand may be ``c[bank][offset]``."""
        return key in self._constants

    @cached_property
    def _constants(self) -> frozenset[str]:
        if not self._uses_constants:
            return frozenset()
        return frozenset(
            key
            for form in self.forms
            for key, operand in form.operands.items()
            if isinstance(operand, Constant) and operand.index is None
        )

    @property
    def _uses_constants(self) -> bool:
        return not (
            self.name == "LEA"
            or self.name in _VIDEO
            or self._is_long_conversion
            or (self.name == "LEA.HI" and "shift" not in self.fields)
        )

    @property
    def _is_long_conversion(self) -> bool:
        """Whether it is a conversion other than between single precision and words: its sources
        stay in registers.
        """
        if self.name == "I2F":
            return self.fields["destination"] is FloatFormat.F64 or self.fields["source"] in (
                IntegerFormat.U64,
                IntegerFormat.S64,
            )
        return self.name == "F2F" and (
            self.fields["source"] is not FloatFormat.F32
            or self.fields["destination"] is FloatFormat.F64
        )

    @cached_property
    def immediates(self) -> dict[str, tuple[Immediate, Field]]:
        """The operands that may be a number, with the form's field for it."""
        if (
            self.name == "LEA"
            or self.name in _VIDEO
            or self.name == "F2I"
            or self._is_long_conversion
        ):
            return {}
        return {
            key: (operand, form.fields[operand.field])
            for form in reversed(
                [form for form in self.forms if form.name == self.name or self.name == "MOV"]
            )
            for key, operand in form.operands.items()
            if isinstance(operand, Immediate) and operand.field not in self.codes
        }

    @cached_property
    def long_form(self) -> Form | None:
        """The form with a 32-bit immediate, or None."""
        return next((form for form in self.forms if form.name == LONG_FORMS.get(self.name)), None)

    @cached_property
    def single(self) -> bool:
        """Whether its numbers are in single precision."""
        return self.name == "MUFU" or any(
            operand.real == 32 for operand, _ in self.immediates.values()
        )

    def mask(self, key: str) -> int | None:
        """Returns the bits of a number that the instruction reads, or None if it reads all."""
        operand = self.immediates.get(key)
        return SHUFFLE_MASKS.get(operand[0].field) if operand is not None else None

    def number_fits(self, key: str, value: int) -> bool:
        """Whether an operand may be an immediate with this unsigned 32-bit value."""
        if key not in self.immediates:
            return False
        operand, field = self.immediates[key]
        if self.long_form is not None:
            return True
        if operand.field in SHUFFLE_MASKS:
            return not value & ~SHUFFLE_MASKS[operand.field]
        if operand.real:
            return not value & LOWEST
        if operand.bits is not None:
            return value in field.bounds
        return value - (value >> 31 << 32) in field.bounds

    @property
    def several_numbers(self) -> bool:
        """Whether more than one source may be a number."""
        return self.name == "SHFL"


def _chosen(roles: list[tuple[OperandRole, bool]], count: int) -> tuple[OperandRole, ...]:
    """Returns the roles of ``count`` operands; surplus optional ones are omitted from the end."""
    chosen = list(roles)
    for item in reversed(roles):
        if item[1] and sum(role.count for role, _ in chosen) > count:
            chosen.remove(item)
    return tuple(role for role, _ in chosen)


@cache
def address_field(name: str) -> Field | None:
    """Returns the field of the offset in an instruction's address, or None if it has no address."""
    for form in BY_NAME.get(name, ()):
        for operand in form.operands.values():
            if isinstance(operand, Address) or (
                isinstance(operand, Constant) and operand.index is not None
            ):
                return form.fields[operand.offset]
    return None


@cache
def value_of(name: str, field: str, text: str) -> FieldValue:
    """Returns the value of a modifier or choice that the table spells as ``text``."""
    for form in BY_NAME[name]:
        spelled = [modifier.texts for modifier in form.modifiers if modifier.field == field]
        spelled += [
            operand.texts
            for operand in form.operands.values()
            if isinstance(operand, Choice) and operand.field == field
        ]
        for texts in spelled:
            for value, spelling in texts.items():
                if spelling == text:
                    return _typed(name, field, value)
    raise ValueError(f"{name} has no {field} {text}")


@cache
def opcode(name: str, fields: tuple[tuple[str, FieldValue], ...] = ()) -> Opcode:
    """Returns the opcode with a name and some field values; other fields have the table's defaults.

    Raises:
        ValueError: The table has no such instruction.
    """
    given = {field: _typed(name, field, value) for field, value in fields}
    if name in _PSEUDO:
        return _interned(name, tuple(sorted(given.items())), ())
    for form in BY_NAME[name]:
        complete = {
            modifier.field: given[modifier.field]
            if modifier.field in given
            else _typed(name, modifier.field, _absent(form, modifier))
            for modifier in form.modifiers
        }
        complete |= given
        if _is_possible(form, complete, complete):
            forms = tuple(
                other
                for other in (*BY_NAME[name], *BY_NAME.get(LONG_FORMS.get(name, ""), ()))
                if _is_possible(other, complete, _chosen_fields(form, complete))
            )
            return _interned(name, tuple(sorted(complete.items())), forms)
    raise ValueError(f"{name} has no form with {dict(fields)}")


def _absent(form: Form, modifier: Modifier) -> int:
    """Returns the value of a modifier that is absent from the text."""
    default = form.fields[modifier.field].get(form.default)
    unspelled = [value for value, text in modifier.texts.items() if not text]
    return default if default in unspelled or not unspelled else unspelled[0]


def _chosen_fields(form: Form, complete: Fields) -> Fields:
    """Returns the fields whose values differ from those of absent modifiers."""
    absent = {
        modifier.field: _absent(form, modifier)
        for modifier in form.modifiers
        if "" in modifier.texts.values()
    }
    return {field: value for field, value in complete.items() if _code(value) != absent.get(field)}


def _is_possible(form: Form, complete: Fields, needed: Fields) -> bool:
    """Whether a form can have these field values, and has all fields that are needed."""
    if not needed.keys() <= form.fields.keys():
        return False
    if form.name in LONG_FORMS.values() and any(
        needed.get(field) == value
        for field, value in _NOT_LONG.get(_SHORT_FORMS[form.name], {}).items()
    ):
        return False
    texts = {modifier.field: modifier.texts for modifier in form.modifiers}
    for name, value in complete.items():
        if name in form.fields:
            field, code = form.fields[name], _code(value)
            if (
                code not in field.bounds
                or field.put(form.match, code) & form.mask != form.match
                or code not in texts.get(name, (code,))
            ):
                return False
    return True


_SHORT_FORMS = {long: short for short, long in LONG_FORMS.items()}


@cache
def _interned(
    name: str, fields: tuple[tuple[str, FieldValue], ...], forms: tuple[Form, ...]
) -> Opcode:
    return Opcode(name, dict(fields), forms)
