"""What an instruction reads and writes: registers, predicates, CC."""

from dataclasses import dataclass

from .condition import ConditionCode
from .kinds import MinMaxPart
from .syntax import (
    PT,
    RZ,
    Access,
    Address,
    Constant,
    Form,
    Literal,
    Predicate,
    Register,
    Target,
    Values,
)

__all__ = ["Effects", "effects"]

ALL_PREDICATES = frozenset(range(PT))


@dataclass(frozen=True)
class Effects:
    """Register numbers (never RZ), predicate numbers (never PT), and whether CC is read or
    written."""

    reads: frozenset[int]
    writes: frozenset[int]
    predicate_reads: frozenset[int]
    predicate_writes: frozenset[int]
    reads_cc: bool
    writes_cc: bool


def _registers(number: int, span: int) -> set[int]:
    return set() if number == RZ else set(range(number, number + span))


def _reads_cc(form: Form, values: Values) -> bool:
    """An extended operation, a test of CC, or a move from it."""
    is_wide_shift = form.name in ("SHR", "SHF.L", "SHF.R")
    if values.get("extended", 0) or (is_wide_shift and values.get("part", 0) >= 2):
        return True
    if form.name == "IMNMX":  # the high part comes first and leaves its verdict in CC to the others
        return values["part"] in (MinMaxPart.XLO.value, MinMaxPart.XMED.value)
    if form.name in ("P2R", "R2P"):     # R2P leaves the flags that its mask does not name
        return values["which"] == 1
    operands = form.operands.values()
    if any(isinstance(operand, Literal) and operand.text == "CC" for operand in operands):
        return True
    return values.get("test", ConditionCode.T.value) != ConditionCode.T.value


def effects(form: Form, values: Values) -> Effects:
    """What the instruction does to the register file when its guard holds."""
    reads: set[int] = set()
    writes: set[int] = set()
    predicate_reads: set[int] = set()
    predicate_writes: set[int] = set()
    if form.guarded:
        predicate_reads.add(values["guard"])
    for operand in form.operands.values():
        match operand:
            case Register(field, access):
                span = operand.span(values) if callable(operand.span) else operand.span
                offset = operand.offset(values) if callable(operand.offset) else operand.offset
                number = values[field]
                covered = _registers(number if number == RZ else number + offset, span)
                if access is not Access.WRITE:
                    reads |= covered
                if access is not Access.READ:
                    writes |= covered
            case Predicate(field, access):
                (predicate_reads if access is Access.READ else predicate_writes).add(values[field])
            case Address(register, _, wide):
                reads |= _registers(values[register], 2 if wide and values[wide] else 1)
            case Constant(index) | Target(index=index) if index is not None:
                reads |= _registers(values[index], 1)
    writes_cc = bool(values.get("cc", 0))
    if form.name == "R2P":
        if values["which"] == 1:
            writes_cc = True
        else:
            predicate_writes |= ALL_PREDICATES
    if form.name == "P2R" and values["which"] == 0:
        predicate_reads |= ALL_PREDICATES
    return Effects(frozenset(reads), frozenset(writes), frozenset(predicate_reads - {PT}),
                   frozenset(predicate_writes - {PT}), _reads_cc(form, values), writes_cc)
