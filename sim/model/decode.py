"""From an instruction word to what it does and needs."""

from collections.abc import Mapping
from dataclasses import dataclass

from rtl.isa.condition import ConditionCode
from rtl.isa.effects import effects
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ, Address, ConditionTest, Form, Register, Values
from rtl.isa.table import find

from .action import Action, Maker
from .barriers import barrier_action, read_action, write_action
from .compute import compute_action
from .flow import FLOW
from .state import Warp
from .system import SYSTEM
from .transfer import TRANSFERS
from .vector.bitwise import UndefinedModeError
from .vector.operations import OPERATIONS

__all__ = ["Instruction", "decode"]

_BARRIERS: Mapping[str, Maker] = {"BAR": barrier_action, "B2R": read_action, "R2B": write_action}
_MAKERS: Mapping[str, Maker] = {**dict.fromkeys(OPERATIONS, compute_action), **FLOW, **TRANSFERS, **_BARRIERS, **SYSTEM}


@dataclass(frozen=True, slots=True)
class Instruction:
    """A decoded word. ``error`` other than NONE: nobody can execute it, whatever the guard says (ours)."""

    word: int
    error: WarpError
    action: Action
    guard: int = PT
    guard_flip: bool = False
    test: int = ConditionCode.T.value

    def threads(self, warp: Warp) -> int:
        """The active threads whose guard and CC test hold."""
        threads = warp.masks.active
        if self.guard != PT or self.guard_flip:
            guard = warp.predicates[self.guard]
            threads &= ~guard if self.guard_flip else guard
        if self.test != ConditionCode.T.value:
            threads &= warp.condition.holds(self.test)
        return threads


def _misaligned(form: Form, values: Values) -> bool:
    """Whether a register that begins a group of two or four is not a multiple of that."""
    extents: dict[str, int] = {}
    for operand in form.operands.values():
        match operand:
            case Register(field):
                span = operand.span(values) if callable(operand.span) else operand.span
                offset = operand.offset(values) if callable(operand.offset) else operand.offset
                extents[field] = max(extents.get(field, 1), offset + span)
            case Address(register, _, wide):
                extents[register] = 2 if wide and values[wide] else 1
    return any(values[field] != RZ and values[field] % extent for field, extent in extents.items())


def _refused(core: object, warp: Warp, threads: int, record: object) -> None:
    """The action of a word that has an error instead."""


def decode(word: int, registers: int) -> Instruction:
    """What ``word`` is on a machine whose launch gives each thread ``registers`` registers.

    Errors, the first that applies: ILLEGAL_INSTR_ENCODING for what the machine does not have or refuses, OOR_REG
    for a register beyond those of the launch, MISALIGNED_REG.
    """
    form = find(word)
    if form is None or form.name not in _MAKERS or form.refuses(values := form.values(word)):
        return Instruction(word, WarpError.ILLEGAL_INSTR_ENCODING, _refused)
    try:
        action = _MAKERS[form.name](form, values)
    except UndefinedModeError:
        return Instruction(word, WarpError.ILLEGAL_INSTR_ENCODING, _refused)
    used = effects(form, values)
    if max(used.reads | used.writes, default=-1) >= registers:
        return Instruction(word, WarpError.OOR_REG, _refused)
    if _misaligned(form, values):
        return Instruction(word, WarpError.MISALIGNED_REG, _refused)
    test = values["test"] if any(isinstance(o, ConditionTest) for o in form.operands.values()) else None
    return Instruction(word, WarpError.NONE, action, values.get("guard", PT), bool(values.get("guard_not", 0)),
                       ConditionCode.T.value if test is None else test)
