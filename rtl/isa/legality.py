"""Which words are illegal, with any guard (ours): the one list that every decoder reads.

A word that has no form, or that its form refuses, is no instruction. :data:`REFUSALS` are
instructions of the instruction set, with a text, that this machine does not have: their meaning is
not public and compiled code does not use them, or they are floating-point or graphics instructions.
The other rules are about registers: registers beyond the launch's limit, and misaligned groups of
registers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType

from amaranth.lib import enum

from .double import DOUBLE
from .errors import WarpError
from .floating import FLOATING
from .functions import OF_DOUBLES
from .kinds import (
    AtomicOperation,
    AtomicType,
    BreakpointMode,
    FloatFormat,
    FunnelPart,
    MultiFunction,
    ReturnFromTrapMode,
    ShiftPart,
)
from .syntax import RZ, Address, Constant, Form, Register, Target, Values
from .table import find

__all__ = [
    "REFUSALS",
    "Refusal",
    "encoding_error",
    "exists",
    "is_refused",
    "lacks",
    "refusal_of",
    "register_groups",
    "rules",
]


@dataclass(frozen=True)
class Refusal:
    """A group of instructions that this machine refuses.

    Attributes
    ----------
    names : tuple of str
        Their names.
    field, codes : str or None, frozenset of int
        Only words whose ``field`` has one of ``codes``; None: all words. A form without the field
        is not refused.
    why : str
        Completes the sentence "is refused: ...".
    variant : str or None
        Only forms of this variant.
    beside : tuple of str and int, or None
        Only words in which this field has this code.
    """

    names: tuple[str, ...]
    field: str | None
    codes: frozenset[int]
    why: str
    variant: str | None = None
    beside: tuple[str, int] | None = None

    def covers(self, form: Form, values: Values) -> bool:
        """Whether the instruction is one of these."""
        return (form.name in self.names and self.variant in (None, form.variant)
                and (self.field is None or values.get(self.field) in self.codes)
                and (self.beside is None or values.get(self.beside[0]) == self.beside[1]))

    def covers_all(self, form: Form) -> bool:
        """Whether all instructions of a form are, by its fixed bits."""
        field = None if self.field is None else form.fields.get(self.field)
        fixed = self.field is None or (field is not None and not field.mask & ~form.mask)
        return fixed and self.covers(form, form.values(form.match))


def _refuse(
    *names: str,
    field: str | None = None,
    codes: tuple[enum.Enum | int, ...] = (),
    why: str,
    variant: str | None = None,
    beside: tuple[str, int] | None = None,
) -> Refusal:
    numbers = (code.value if isinstance(code, enum.Enum) else code for code in codes)
    return Refusal(names, field, frozenset(numbers), why, variant, beside)


_NO_MEANING = "no public document says what it does"

_OTHER_BYTES = "compiled code takes all bytes of two registers in their order, without bounds"
_ONLY_ADD = "of atomic operations on floats only the sum is described in public"
_NOT_ADD = tuple(code.value for code in AtomicOperation if code is not AtomicOperation.ADD)

REFUSALS: tuple[Refusal, ...] = (
    _refuse("SHL", "LOP32I", "LOP3.LUT", field="extended", codes=(1,), why=_NO_MEANING),
    _refuse("SHR", field="part", codes=(ShiftPart.X, ShiftPart.XHI), why=_NO_MEANING),
    _refuse(
        "SHF.L",
        "SHF.R",
        field="part",
        codes=(FunnelPart.HI, FunnelPart.X, FunnelPart.XHI),
        why=_NO_MEANING,
    ),
    _refuse(
        "F2I", field="no_part", codes=(1,), why="only a number of 16 bits has halves to choose from"
    ),
    _refuse("F2I", "F2F", field="part", codes=(1,), variant="i", why=_NO_MEANING),
    _refuse("F2F", field="whole", codes=(1, 2, 3), why=_NO_MEANING),
    _refuse("LDC", field="mode", codes=(1, 2, 3), why=_NO_MEANING),
    _refuse("ATOM", "RED", field="type", codes=(AtomicType.U128,), why=_NO_MEANING),
    _refuse("ATOM", field="operation", codes=(AtomicOperation.SAFEADD,), why=_NO_MEANING),
    _refuse(
        "ATOM",
        field="operation",
        codes=_NOT_ADD,
        why=_ONLY_ADD,
        beside=("type", AtomicType.F32.value),
    ),
    _refuse(
        "RED",
        field="operation",
        codes=tuple(code for code in _NOT_ADD if code <= AtomicOperation.XOR.value),
        why=_ONLY_ADD,
        beside=("type", AtomicType.F32.value),
    ),
    _refuse(
        "BPT",
        field="mode",
        codes=(BreakpointMode.DRAIN_ILLEGAL, BreakpointMode.CAL, 7),
        why=_NO_MEANING,
    ),
    _refuse("RTT", field="mode", codes=(ReturnFromTrapMode.PREEMPTED,), why=_NO_MEANING),
    _refuse("VOTE.VTG", why="it is a graphics instruction"),
    *(_refuse("VABSDIFF4", variant=variant, why=_OTHER_BYTES) for variant in ("parts", "i")),
)
"""What this machine does not have, with any parameters (ours)."""

_NONE = "the machine has no floating point"
_SINGLE = "the machine has no double precision"
_WITHOUT_FLOATS = (
    *(_refuse(name, why=_NONE) for name in dict.fromkeys(form.name for form in FLOATING)),
    _refuse(
        "MUFU",
        field="function",
        codes=tuple(code for code in MultiFunction if code is not MultiFunction.RCP),
        why=_NONE,
    ),
    _refuse("I2F", "F2F", field="destination", codes=(FloatFormat.F16,), why=_NONE),
    _refuse("F2I", "F2F", field="source", codes=(FloatFormat.F16,), why=_NONE),
    _refuse("F2F", field="destination", codes=(FloatFormat.F64,), why=_NONE),
    _refuse("F2F", field="source", codes=(FloatFormat.F64,), why=_NONE),
    _refuse("F2F", field="Rb", codes=tuple(range(RZ)), why=_NONE),
    _refuse("F2F", field="negate_b", codes=(1,), why=_NONE),
    _refuse("F2F", why=_NONE, variant="c"),
    _refuse("F2F", why=_NONE, variant="i"),
    _refuse("ATOM", "RED", field="type", codes=(AtomicType.F32,), why=_NONE),
)
"""What a machine without floating point does not have: integers are divided by MUFU.RCP, and
F2F.F32.F32 of the zero in RZ sets CC where the lower word of a 64-bit test is known to be 0."""
_WITHOUT_DOUBLES = (
    *(_refuse(name, why=_SINGLE) for name in dict.fromkeys(form.name for form in DOUBLE)),
    _refuse("MUFU", field="function", codes=tuple(OF_DOUBLES), why=_SINGLE),
)
"""What a machine without double precision does not have."""


def _missing(floats: bool, doubles: bool) -> tuple[Refusal, ...]:
    """What a machine does not have for its parameters."""
    return (() if floats else _WITHOUT_FLOATS) + (() if doubles else _WITHOUT_DOUBLES)


def lacks(form: Form, values: Values, floats: bool, doubles: bool) -> Refusal | None:
    """Why a machine with these parameters does not have an instruction that others have, None if it
    has it."""
    refusals = _missing(floats, doubles)
    return next((refusal for refusal in refusals if refusal.covers(form, values)), None)


def refusal_of(form: Form, values: Values) -> Refusal | None:
    """Why the machine does not have an instruction, None if it has it."""
    return next((refusal for refusal in REFUSALS if refusal.covers(form, values)), None)


def exists(form: Form, floats: bool = True, doubles: bool = True) -> bool:
    """Whether a machine with these parameters has any word of a form."""
    return (floats or form not in FLOATING) and (doubles or form not in DOUBLE)


def is_refused(form: Form) -> bool:
    """Whether no machine has an instruction of a form."""
    return any(refusal.covers_all(form) for refusal in REFUSALS)


@cache
def rules(form: Form, floats: bool = True,
          doubles: bool = True) -> tuple[Callable[[Values], bool], ...]:
    """Rules for field values: if one is true, the word is no instruction of this machine, which has
    floating point if ``floats`` and double precision if ``doubles``."""
    refusals = (*REFUSALS, *_missing(floats, doubles))
    of_form = [refusal for refusal in refusals if form.name in refusal.names]
    ours = tuple(partial(refusal.covers, form) for refusal in of_form)
    return (*form.rules, *ours)


def register_groups(form: Form, values: Values) -> Mapping[str, int]:
    """Of each register field: how many registers the group has that begins there."""
    groups: dict[str, int] = {}
    for operand in form.operands.values():
        match operand:
            case Register(field):
                span = operand.span(values) if callable(operand.span) else operand.span
                offset = operand.offset(values) if callable(operand.offset) else operand.offset
                groups[field] = max(groups.get(field, 1), offset + span)
            case Address(register, _, wide):
                groups[register] = 2 if wide and values[wide] else 1
            case Constant(index) | Target(index=index) if index is not None:
                groups[index] = 1
    return MappingProxyType(groups)


def encoding_error(word: int, registers: int, floats: bool = True,
                   doubles: bool = True) -> WarpError:
    """The error of ``word`` when each thread has ``registers`` registers; NONE if it can be
    executed. ``floats``: the machine has floating point, ``doubles``: double precision, too
    (parameters of :class:`~rtl.params.SmParams`).

    The first that applies: ILLEGAL_INSTR_ENCODING for what the machine does not have, OOR_REG for a
    register beyond those of the launch, MISALIGNED_REG for a group of registers that does not begin
    at a multiple of its size.
    """
    form = find(word)
    if form is None or not exists(form, floats, doubles):
        return WarpError.ILLEGAL_INSTR_ENCODING
    values = form.values(word)
    if any(rule(values) for rule in rules(form, floats, doubles)):
        return WarpError.ILLEGAL_INSTR_ENCODING
    groups = register_groups(form, values)
    used = [(values[field], count) for field, count in groups.items() if values[field] != RZ]
    if any(first + count > registers for first, count in used):
        return WarpError.OOR_REG
    if any(first % count for first, count in used):
        return WarpError.MISALIGNED_REG
    return WarpError.NONE
