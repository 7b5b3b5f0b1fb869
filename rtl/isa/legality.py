"""Which words nobody can execute, whatever their guard says (ours): the one list that every decoder reads.

A word that has no form, or that its form refuses, is no instruction at all. :data:`REFUSALS` are instructions of the
instruction set, with a text, that this machine does not have: their meaning is not public and compiled code does
without them, or they belong to floating point or to graphics. The rest is about registers: those that the launch
does not give a thread, and groups of registers that do not begin where such a group can.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType

from amaranth.lib import enum

from .conversion import DOUBLE_WORD
from .errors import WarpError
from .floating import FLOATING
from .kinds import (
    AtomicOperation,
    AtomicType,
    BreakpointMode,
    CompareAndSwapType,
    FloatFormat,
    FunnelPart,
    MultiFunction,
    ReturnFromTrapMode,
    ShiftPart,
)
from .syntax import RZ, Address, Constant, Form, Register, Target, Values
from .table import find

__all__ = ["REFUSALS", "Refusal", "encoding_error", "is_floating", "is_refused", "refusal_of", "register_groups",
           "rules"]


@dataclass(frozen=True)
class Refusal:
    """Instructions that this machine does not have: those of ``names`` in which ``field`` has one of ``codes``.

    A form without the field is not meant; without a ``field`` every word of these names is. With a ``variant`` only
    forms of that one are. ``why`` completes the sentence "is refused: ...".
    """

    names: tuple[str, ...]
    field: str | None
    codes: frozenset[int]
    why: str
    variant: str | None = None

    def covers(self, form: Form, values: Values) -> bool:
        """Whether the instruction is one of these."""
        return (form.name in self.names and self.variant in (None, form.variant)
                and (self.field is None or values.get(self.field) in self.codes))

    def covers_all(self, form: Form) -> bool:
        """Whether all instructions of a form are, by its fixed bits."""
        fixed = self.field is None or (self.field in form.fields and not form.fields[self.field].mask & ~form.mask)
        return fixed and self.covers(form, form.values(form.match))


def _refuse(*names: str, field: str | None = None, codes: tuple[enum.Enum | int, ...] = (), why: str,
            variant: str | None = None) -> Refusal:
    numbers = (code.value if isinstance(code, enum.Enum) else code for code in codes)
    return Refusal(names, field, frozenset(numbers), why, variant)


_NO_MEANING = "what it does is not public, and compiled code does without it"
_ONE_WORD = "an operand of this machine is at most one word of a constant bank"
_NO_FLOATS = "of floating point there is single precision, without atomic operations"
_NO_DOUBLES = "of floating point there is single precision"

REFUSALS: tuple[Refusal, ...] = (
    _refuse("SHL", "LOP32I", "LOP3.LUT", field="extended", codes=(1,), why=_NO_MEANING),
    _refuse("SHR", field="part", codes=(ShiftPart.X, ShiftPart.XHI), why=_NO_MEANING),
    _refuse("SHF.L", "SHF.R", field="part", codes=(FunnelPart.HI, FunnelPart.X, FunnelPart.XHI), why=_NO_MEANING),
    _refuse("I2F", field="source", codes=(DOUBLE_WORD, DOUBLE_WORD | 4), variant="c", why=_ONE_WORD),
    _refuse("F2I", "F2F", field="source", codes=(FloatFormat.F64,), variant="c", why=_ONE_WORD),
    _refuse("F2I", field="no_part", codes=(1,), why="only a number of 16 bits has halves to choose from"),
    _refuse("F2I", "F2F", field="part", codes=(1,), variant="i", why=_NO_MEANING),
    _refuse("F2F", field="whole", codes=(1, 2, 3), why=_NO_MEANING),
    _refuse("MUFU", field="function", codes=(MultiFunction.RCP64H, MultiFunction.RSQ64H), why=_NO_DOUBLES),
    _refuse("LDC", field="mode", codes=(1, 2, 3), why=_NO_MEANING),
    _refuse("ATOM", "RED", field="type", codes=(AtomicType.F32, AtomicType.U128), why=_NO_FLOATS),
    _refuse("ATOM", field="operation", codes=(AtomicOperation.SAFEADD,), why=_NO_MEANING),
    _refuse("ATOMS", field="compare_and_swap",
            codes=(CompareAndSwapType.CAST, CompareAndSwapType.CAST_64, CompareAndSwapType.CAST_SPIN,
                   CompareAndSwapType.CAST_SPIN_64), why=_NO_MEANING),
    _refuse("BPT", field="mode", codes=(BreakpointMode.DRAIN_ILLEGAL, BreakpointMode.CAL, 7), why=_NO_MEANING),
    _refuse("RTT", field="mode", codes=(ReturnFromTrapMode.PREEMPTED,), why=_NO_MEANING),
    _refuse("VOTE.VTG", why="it belongs to graphics"),
)
"""What this machine does not have, whatever its knobs (ours)."""

_refuse_without_floats = partial(_refuse, why="the machine has no floating point")
_WITHOUT_FLOATS = (
    _refuse_without_floats("MUFU", field="function", codes=tuple(
        code for code in MultiFunction if code is not MultiFunction.RCP)),
    _refuse_without_floats("I2F", "F2F", field="destination", codes=(FloatFormat.F16,)),
    _refuse_without_floats("F2I", "F2F", field="source", codes=(FloatFormat.F16,)),
    _refuse_without_floats("F2F", field="destination", codes=(FloatFormat.F64,)),
    _refuse_without_floats("F2F", field="source", codes=(FloatFormat.F64,)),
    _refuse_without_floats("F2F", field="Rb", codes=tuple(range(RZ))),
    _refuse_without_floats("F2F", field="negate_b", codes=(1,)),
    _refuse_without_floats("F2F", variant="c"),
    _refuse_without_floats("F2F", variant="i"),
)
"""What a machine without floating point does not have beside the instructions of FLOATING: integers are divided by
MUFU.RCP, and F2F.F32.F32 of the zero in RZ sets CC where the lower word of a 64-bit test is known to be 0."""


def is_floating(form: Form, values: Values) -> bool:
    """Whether a machine without floating point does not have an instruction for that reason."""
    return form in FLOATING or any(refusal.covers(form, values) for refusal in _WITHOUT_FLOATS)


def refusal_of(form: Form, values: Values) -> Refusal | None:
    """Why the machine does not have an instruction, None if it has it."""
    return next((refusal for refusal in REFUSALS if refusal.covers(form, values)), None)


def is_refused(form: Form) -> bool:
    """Whether the machine has no instruction of a form."""
    return any(refusal.covers_all(form) for refusal in REFUSALS)


@cache
def rules(form: Form, floats: bool = True) -> tuple[Callable[[Values], bool], ...]:
    """Field values of which one of these holds make no instruction that this machine has, which has floating point if
    ``floats``."""
    refusals = REFUSALS if floats else (*REFUSALS, *_WITHOUT_FLOATS)
    ours = tuple(partial(refusal.covers, form) for refusal in refusals if form.name in refusal.names)
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


def encoding_error(word: int, registers: int, floats: bool = True) -> WarpError:
    """Why nobody can execute ``word`` when each thread has ``registers`` registers; NONE if somebody can. ``floats``:
    the machine has floating point (a knob of :class:`~rtl.params.SmParams`).

    The first that applies: ILLEGAL_INSTR_ENCODING for what the machine does not have, OOR_REG for a register beyond
    those of the launch, MISALIGNED_REG for a group of registers that does not begin at a multiple of its size.
    """
    form = find(word)
    if form is None or (form in FLOATING and not floats):
        return WarpError.ILLEGAL_INSTR_ENCODING
    values = form.values(word)
    if any(rule(values) for rule in rules(form, floats)):
        return WarpError.ILLEGAL_INSTR_ENCODING
    used = [(values[field], count) for field, count in register_groups(form, values).items() if values[field] != RZ]
    if any(first + count > registers for first, count in used):
        return WarpError.OOR_REG
    if any(first % count for first, count in used):
        return WarpError.MISALIGNED_REG
    return WarpError.NONE
