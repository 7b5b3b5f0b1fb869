"""Comparisons, selections, conversions and moves."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace

from sim.toolchain.ptx.module import (
    Comparison,
    FunctionRef,
    Operand,
    PtxBoolean,
    PtxRegister,
    PtxSpace,
    PtxSpecialRegister,
    PtxVector,
    Sink,
    Type,
    VariableRef,
)

from .floats import compares, converted
from .numbers import number_of, saturated
from .site import Maker, Site
from .special import special_value
from .state import Operation, PtxThread

__all__ = ["SELECT"]

_COMPARED: Mapping[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}
_COMBINED: Mapping[PtxBoolean | None, Callable[[int, int], int]] = {
    None: lambda result, other: result,
    PtxBoolean.AND: operator.and_,
    PtxBoolean.OR: operator.or_,
    PtxBoolean.XOR: operator.xor,
}

_ONE = 0x3F80_0000
"""The bits of 1.0 in single precision."""

Read = Callable[[PtxThread, list[int]], int]
"""Reads an operand."""


def _comparison(
    site: Site, kind: Type, operands: tuple[Operand, ...]
) -> Callable[[list[int]], tuple[int, int]]:
    """Returns a function that compares two operands; it returns the result and its complement, each
    combined with the predicate operand.
    """
    instruction = site.instruction
    assert instruction.compare is not None
    combine = _COMBINED[instruction.combine]
    if kind.floating:
        compare = compares(instruction)
    else:
        relation = _COMPARED[instruction.compare]
        compare = lambda x, y: relation(number_of(x, kind), number_of(y, kind))  # noqa: E731
    a, b = (site.slots.of_operand(operand) for operand in operands[:2])
    c, negated = site.slots.predicate(operands[2]) if len(operands) > 2 else (0, 0)

    def run(values: list[int]) -> tuple[int, int]:
        result = int(compare(values[a], values[b]))
        other = values[c] ^ negated
        return combine(result, other), combine(1 - result, other)

    return run


def _set_predicates(site: Site) -> Operation:
    p, q = (site.slots.of_operand(operand) for operand in site.instruction.operands[:2])
    compare = _comparison(site, site.instruction.type, site.instruction.operands[2:])

    def run(thread: PtxThread, values: list[int]) -> None:
        values[p], values[q] = compare(values)

    return run


def _set(site: Site) -> Operation:
    d = site.slots.of_operand(site.instruction.operands[0])
    compare = _comparison(site, site.instruction.types[1], site.instruction.operands[1:])
    true = _ONE if site.instruction.type.floating else 0xFFFF_FFFF

    def run(thread: PtxThread, values: list[int]) -> None:
        result, _ = compare(values)
        values[d] = true if result else 0

    return run


def _select(site: Site) -> Operation:
    *places, predicate = site.instruction.operands
    d, a, b = (site.slots.of_operand(operand) for operand in places)
    c, negated = site.slots.predicate(predicate)

    def run(thread: PtxThread, values: list[int]) -> None:
        values[d] = values[a] if values[c] ^ negated else values[b]

    return run


def _select_by_sign(site: Site) -> Operation:
    d, a, b, c = site.operand_slots
    if site.instruction.types[1].floating:
        holds = compares(replace(site.instruction, compare=Comparison.GE))

        def by_number(thread: PtxThread, values: list[int]) -> None:
            values[d] = values[a] if holds(values[c], 0) else values[b]

        return by_number

    def run(thread: PtxThread, values: list[int]) -> None:
        values[d] = values[b] if values[c] >> 31 else values[a]

    return run


# Conversions and moves


def _reader(site: Site, operand: Operand) -> Read:
    """Returns a function that reads any operand of mov."""
    launch = site.program.launch
    match operand:
        case PtxSpecialRegister():
            return lambda thread, values: special_value(operand, thread)
        case FunctionRef(name):
            address = launch.addresses[name]
            return lambda thread, values: address
        case VariableRef(variable, offset) if variable in launch.local_offsets[0]:
            address = launch.local_offsets[0][variable] + offset
            return lambda thread, values: address
        case VariableRef(variable, offset) if variable.space is PtxSpace.LOCAL:
            at = site.locals[variable] + offset
            return lambda thread, values: thread.frame.base + at
        case VariableRef(variable, offset) if variable.space is PtxSpace.PARAM:
            place = launch.parameter_offsets[variable] + offset
            return lambda thread, values: place
        case VariableRef(variable, offset):
            address = launch.addresses[variable.name] + offset
            return lambda thread, values: address
        case _:
            place, negated = site.slots.predicate(operand)
            return lambda thread, values: values[place] ^ negated


def _convert(site: Site) -> Operation:
    target, source = site.instruction.types
    register, operand = site.instruction.operands
    assert isinstance(register, PtxRegister)
    d, read = site.slots.register(register), _reader(site, operand)
    saturates, mask = site.instruction.saturate, (1 << register.type.bits) - 1
    if target.floating or source.floating:
        compute = converted(site.instruction)

        def convert(thread: PtxThread, values: list[int]) -> None:
            values[d] = compute(read(thread, values)) & mask

        return convert

    def run(thread: PtxThread, values: list[int]) -> None:
        number = number_of(read(thread, values), source)
        # A wider register is sign-extended if the result's type is signed.
        values[d] = (saturated(number, target) if saturates else number_of(number, target)) & mask

    return run


def _move(site: Site) -> Operation:
    target, source = site.instruction.operands
    bits = site.instruction.type.bits
    if isinstance(target, PtxVector):
        width = bits // len(target.elements)
        read = _reader(site, source)
        places = [
            (site.slots.of_operand(element), number * width)
            for number, element in enumerate(target.elements)
            if not isinstance(element, Sink)
        ]

        def unpack(thread: PtxThread, values: list[int]) -> None:
            value = read(thread, values)
            for place, shift in places:
                values[place] = value >> shift & (1 << width) - 1

        return unpack
    d = site.slots.of_operand(target)
    if isinstance(source, PtxVector):
        width = bits // len(source.elements)
        parts = [
            (site.slots.of_operand(element), number * width)
            for number, element in enumerate(source.elements)
        ]

        def pack(thread: PtxThread, values: list[int]) -> None:
            values[d] = sum(values[place] << shift for place, shift in parts)

        return pack
    value = _reader(site, source)

    def run(thread: PtxThread, values: list[int]) -> None:
        values[d] = value(thread, values) & (1 << bits) - 1

    return run


def _convert_address(site: Site) -> Operation:
    register, operand = site.instruction.operands
    assert site.instruction.space is not None
    window = site.program.launch.windows.get(site.instruction.space, range(0))
    base = window.start * (-1 if site.instruction.to else 1)
    d, read = site.slots.of_operand(register), _reader(site, operand)
    mask = (1 << site.instruction.type.bits) - 1

    def run(thread: PtxThread, values: list[int]) -> None:
        values[d] = read(thread, values) + base & mask

    return run


SELECT: Mapping[str, Maker] = {
    "setp": _set_predicates,
    "set": _set,
    "selp": _select,
    "slct": _select_by_sign,
    "cvt": _convert,
    "mov": _move,
    "cvta": _convert_address,
}
"""Makers of operations, by opcode."""
