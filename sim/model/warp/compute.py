"""Arithmetic instructions: read the sources, apply a vector operation, write its outcome."""

from collections.abc import Callable

import numpy as np

from rtl.isa.effects import effects
from rtl.isa.errors import WarpError
from rtl.isa.syntax import (
    RZ,
    Access,
    Constant,
    Form,
    Immediate,
    Operand,
    Predicate,
    Register,
    Values,
)
from rtl.isa.table import BY_NAME

from .action import Action, Core, constant_address
from .faults import WarpFaultError
from .retirement import Retirement
from .state import Warp
from .vector.lanes import ALL_THREADS, Condition, LaneOutcome, Sources, Words, mask_of, uniform
from .vector.operations import OPERATIONS
from .vector.predicates import move_lanes

__all__ = ["compute_action", "constant_word"]

_WORD = 4
_Reader = Callable[[Core, Warp], Words]


def _reader(values: Values, operand: Operand, word: int = 0) -> _Reader | None:
    """Returns a function that reads the low or the high word of an operand; None if it is no vector
    source.
    """
    match operand:
        case Register(field, access) if access is not Access.WRITE:
            number = values[field] if values[field] == RZ else values[field] + word
            return lambda core, warp: warp.rows[number]
        case Constant(bank=bank):
            address = constant_address(values, operand) + _WORD * word
            return lambda core, warp: uniform(
                constant_word(core, values[bank], address, optional=bool(word))
            )
        case Immediate(field):
            vector = uniform(values[field] >> 32 * word)
            return lambda core, warp: vector
        case _:
            return None


def constant_word(core: Core, bank: int, address: int, *, optional: bool) -> int:
    """Reads a word of a constant bank.

    Beyond the bank's end an ``optional`` word, the second of an operand, is 0 (ours).
    """
    try:
        return core.constant(bank, address, _WORD, WarpError.INVALID_CONST_ADDR)
    except WarpFaultError:
        if optional:
            return 0
        raise


def _is_wide(form: Form, values: Values, name: str) -> bool:
    """Whether an operand has 64 bits: in the instruction's register form it is a register pair."""
    for sibling in BY_NAME[form.name]:
        match sibling.operands.get(name):
            case Register(span=span) if sibling.variant == "r":
                return (span(values) if callable(span) else span) > 1
    return False


def _vector_sources(form: Form, values: Values) -> list[tuple[str, _Reader]]:
    """Returns readers of the vector operands of a form, by their names in Sources."""
    found = [
        (name, _reader(values, form.operands[name])) for name in "abc" if name in form.operands
    ]
    found += [
        (f"{name}_high", _reader(values, form.operands[name], word=1))
        for name in "abc"
        if name in form.operands and _is_wide(form, values, name)
    ]
    return [(name, reader) for name, reader in found if reader is not None]


def _predicate_sources(form: Form, values: Values) -> list[tuple[str, int, int]]:
    """Returns name, number and mask to flip of the predicate sources of a form."""
    return [
        (
            name,
            values[operand.field],
            ALL_THREADS if operand.negate and values[operand.negate] else 0,
        )
        for name in "xyz"
        if isinstance(operand := form.operands.get(name), Predicate)
    ]


def _condition_of(outcome: LaneOutcome) -> Condition:
    """Returns CC after an outcome: its own condition, or zero and sign of its value with its carry
    and overflow.
    """
    if outcome.condition is not None or outcome.value is None:
        return outcome.condition or Condition()
    zero, top = outcome.value == 0, outcome.value
    if outcome.value_high is not None:
        zero, top = zero & (outcome.value_high == 0), outcome.value_high
    return Condition(
        mask_of(zero),
        mask_of(top.view(np.int32) < 0),
        0 if outcome.carry is None else mask_of(outcome.carry),
        0 if outcome.overflow is None else mask_of(outcome.overflow),
    )


def compute_action(form: Form, values: Values) -> Action:
    """Returns the action of an instruction whose operation is in OPERATIONS.

    Sources are read, and may raise errors, only if there are threads to execute it.
    """
    operation = OPERATIONS[form.name]
    vectors, predicates = _vector_sources(form, values), _predicate_sources(form, values)
    destination = values["Rd"] if "d" in form.operands else RZ
    results = [
        (name, values[operand.field])
        for name in "pq"
        if isinstance(operand := form.operands.get(name), Predicate)
    ]
    lanes = move_lanes(values) if "lanes" in values else ALL_THREADS
    writes_cc = effects(form, values).writes_cc

    def run(core: Core, warp: Warp, threads: int, record: Retirement) -> None:
        threads &= lanes
        if not threads:
            return
        sources = Sources(threads, warp.predicates, warp.condition)
        for name, read in vectors:
            setattr(sources, name, read(core, warp))
        for name, number, flip in predicates:
            setattr(sources, name, warp.predicates[number] ^ flip)
        outcome = operation(sources, values)
        # CC is computed first: a plain move's value is a view of its source, which the write may
        # change.
        if writes_cc:
            warp.write_condition(record, _condition_of(outcome), threads)
        if outcome.value is not None:
            warp.write_register(record, destination, outcome.value, threads)
        if outcome.value_high is not None and destination != RZ:
            warp.write_register(record, destination + 1, outcome.value_high, threads)
        for name, number in results:
            if (holds := getattr(outcome, name)) is not None:
                warp.write_predicate(record, number, holds, threads)
        for number, holds in (outcome.predicates or {}).items():
            warp.write_predicate(record, number, holds, threads)

    return run
