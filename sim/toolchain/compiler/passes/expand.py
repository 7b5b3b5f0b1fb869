"""Pseudo-instruction expansion: replaces each pseudo-instruction by several instructions.

===========  =======================================================================================
``ADD64``    sum of two pairs
``SETP64``   comparison of two pairs
``MAD``      a * b + c, lower word
``MULHI``    a * b, upper word; if unsigned optionally plus c
``MULWIDE``  a * b, both words
``DIV REM``  quotient and remainder of words (:mod:`.division`)
===========  =======================================================================================
"""

from collections.abc import Callable

from rtl.isa.kinds import Compare
from sim.toolchain.compiler.ir import PT, RZ, Function, Op, Source, number
from sim.toolchain.compiler.opcodes import RELATIONS

from . import division
from .combine import pair_number
from .emitter import Emitter

__all__ = ["expand"]

_Rule = Callable[[Emitter, Op], None]


def _add_pairs(e: Emitter, op: Op) -> None:
    low, high, *_ = op.results
    x_low, x_high, y_low, y_high = op.sources
    if high is None:
        e.op("IADD", [low], x_low, y_low)
        return
    x, y = pair_number(x_low, x_high), pair_number(y_low, y_high)
    if x is not None and y is not None:
        if low is not None:
            e.op("MOV", [low], number(x + y))
        e.op("MOV", [high], number(x + y >> 32))
        return
    if y_low.number == 0 and x_low.plain:
        first = (
            Source(e.value())
            if low in (x_high.value, y_high.value)
            else Source(low)
            if low is not None
            else RZ
        )
        if low is not None:
            e.op("MOV", [first.value], x_low)
        e.op("IADD", [high], x_high, y_high)
        if low is not None and first.value is not low:
            e.op("MOV", [low], first)
        return
    kept = e.value() if low is not None and low in (x_high.value, y_high.value) else low
    e.op("IADD", [kept], x_low, y_low, sets_carry=True)
    e.op("IADD", [high], x_high, y_high, takes_carry=True)
    if kept is not low and kept is not None:
        e.op("MOV", [low], Source(kept))


def _compare_pairs(e: Emitter, op: Op) -> None:
    x_low, x_high, y_low, y_high = op.sources
    relation, signed = op.fields["compare"], op.fields["signed"]
    x, y = pair_number(x_low, x_high), pair_number(y_low, y_high)
    if x is not None and y is not None:
        if signed:
            x, y = (value - (value >> 63 << 64) for value in (x, y))
        e.op("PSETP", [op.results[0], None], Source(int(RELATIONS[relation](x, y))), PT, PT)
        return
    if relation in (Compare.LT, Compare.GE) and signed and (y_low.number, y_high.number) == (0, 0):
        e.op("ISETP", [op.results[0], None], x_high, RZ, PT, compare=relation)
        return
    if x_high.number is not None and x_high.number == y_high.number:
        e.op("ISETP", [op.results[0], None], x_low, y_low, PT, compare=relation, signed=False)
        return
    e.op("IADD", [None], x_low, y_low.negate(), sets_carry=True)
    e.op(
        "ISETP",
        [op.results[0], None],
        x_high,
        y_high,
        PT,
        compare=relation,
        signed=signed,
        takes_carry=True,
    )


def _multiply_add(e: Emitter, op: Op) -> None:
    result = op.results[0]
    if result is not None:
        x, y, addend = op.sources
        if x.number is not None and y.number is not None:
            e.op("IADD", [result], addend, number(x.number * y.number))
        else:
            e.low_product(result, x, y, addend)


def _multiply_high(e: Emitter, op: Op) -> None:
    result = op.results[0]
    if result is not None:
        x, y, *addend = op.sources
        e.high_product(result, x, y, bool(op.fields["signed"]), *addend)


def _multiply_wide(e: Emitter, op: Op) -> None:
    low, high = op.results
    x, y = op.sources
    if y.number is None and x.number is not None:
        x, y = y, x
    signed = bool(op.fields["signed"])
    factor = y.number
    if factor is not None and not factor >> 31 and factor & factor - 1 == 0 and factor:
        shift = factor.bit_length() - 1
        kept = e.value() if low is not None and high is not None and low is x.value else low
        if kept is not None:
            e.op("SHL" if shift else "MOV", [kept], x, *([number(shift)] if shift else []))
        if high is not None:
            if shift or signed:
                e.op(
                    "SHR",
                    [high],
                    x,
                    number(min(32 - shift, 31) if signed else 32 - shift),
                    signed=signed,
                )
            else:
                e.op("MOV", [high], RZ)
        if kept is not low and kept is not None:
            e.op("MOV", [low], Source(kept))
        return
    kept = e.value() if high is not None and low is not None and low in (x.value, y.value) else low
    if kept is not None:
        e.low_product(kept, x, y, RZ)
    if high is not None:
        e.high_product(high, x, y, signed)
    if kept is not low and kept is not None:
        e.op("MOV", [low], Source(kept))


_DIVISIONS: dict[str, _Rule] = {"DIV": division.divide, "REM": division.divide}
_RULES: dict[str, _Rule] = {
    "ADD64": _add_pairs,
    "SETP64": _compare_pairs,
    "MAD": _multiply_add,
    "MULHI": _multiply_high,
    "MULWIDE": _multiply_wide,
}


def expand(function: Function) -> bool:
    """Expands all pseudo-instructions of a function, divisions first, as they expand to others.

    Returns:
        Whether there were any.
    """
    expanded = False
    for block in function.blocks:
        for rules in (_DIVISIONS, _RULES):
            if any(op.name in rules for op in block.ops):
                block.ops = _expanded(block.ops, rules)
                expanded = True
    return expanded


def _expanded(ops: list[Op], rules: dict[str, _Rule]) -> list[Op]:
    found: list[Op] = []
    for op in ops:
        if op.name in rules:
            rules[op.name](Emitter(op, found), op)
        else:
            found.append(op)
    return found
