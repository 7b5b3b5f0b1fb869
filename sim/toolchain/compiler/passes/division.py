"""Strength reduction of divisions: a word divided by a number becomes a product with a fixed-point
reciprocal.

The algorithm is from Granlund and Montgomery, "Division by invariant integers using
multiplication", 1994. Other divisions of words become an inlined function of the runtime library.
"""

from dataclasses import replace
from functools import cache

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.ir import RZ, WORD, Function, Op, Source, Value, number
from sim.toolchain.compiler.layout import MemoryLayout
from sim.toolchain.compiler.library import functions_with
from sim.toolchain.compiler.select.builder import Builder
from sim.toolchain.compiler.select.inlining import inlined

from .combine import combine
from .emitter import Emitter

__all__ = ["divide"]


def divide(e: Emitter, op: Op) -> None:
    """Expands DIV and REM."""
    result = op.results[0]
    if result is None:
        return
    x, y = op.sources
    signed, remainder = bool(op.fields["signed"]), op.name == "REM"
    if not isinstance(x.operand, Value):
        x = e.compute("MOV", x)
    divisor = y.number
    if divisor:
        _by_number(e, result, x, divisor, signed, remainder)
        return
    if not isinstance(y.operand, Value):
        y = e.compute("MOV", y)
    _by_library(e, result, x, y, f"__{op.name.lower()}_{'s' if signed else 'u'}32")


@cache
def _body(name: str) -> tuple[list[Op], list[Value]]:
    """Returns the operations of a library function of one block, of which the last computes the
    result, and the parameters.
    """
    functions = functions_with(name)
    b = Builder(Function(name, False, []), MemoryLayout(), {}, Value("stack"), library=functions)
    b.begin(b.block)
    parameters = [b.temporary() for _ in functions[name].parameters]
    ((result,),) = inlined(b, functions[name], [[Source(value)] for value in parameters])
    assert b.block.ops[-1].results == [result.value]
    combine(b.function, Definitions(b.function))
    return b.block.ops, parameters


def _by_library(e: Emitter, result: Value, x: Source, y: Source, name: str) -> None:
    """Adds the body of a library function, with a new value for each value that it writes (as in
    SSA).
    """
    ops, parameters = _body(name)
    new: dict[Value, Value] = {}
    for parameter, source in zip(parameters, (x, y), strict=True):
        new[parameter] = e.value()
        e.op("MOV", [new[parameter]], source)
    for op in ops:
        sources = [
            source if (value := source.value) is None else source.with_operand(new[value])
            for source in op.sources
        ]
        new.update({value: e.value(value.predicate) for value in op.writes()})
        line, column = e.origin.line, e.origin.column
        copy = replace(op, sources=sources, line=line, column=column)
        copy.results = [None if value is None else new[value] for value in op.results]
        e.ops.append(copy)
    copy.results = [result]
    copy.guard, copy.fresh = e.origin.guard, e.origin.fresh


def _by_number(
    e: Emitter, result: Value, x: Source, divisor: int, signed: bool, remainder: bool
) -> None:
    magnitude = -divisor & WORD if signed and divisor >> 31 else divisor
    quotient = e.value()
    if signed:
        _signed_by_number(e, quotient, x, divisor, magnitude)
    else:
        _unsigned_by_number(e, quotient, x, divisor)
    if remainder:
        e.low_product(result, Source(quotient), number(-divisor), x)
    else:
        e.op("MOV", [result], Source(quotient))


def _unsigned_by_number(e: Emitter, result: Value, x: Source, divisor: int) -> None:
    bits = (divisor - 1).bit_length()
    if divisor & divisor - 1 == 0:
        e.op("SHR", [result], x, number(bits), signed=False)
        return
    factor, shift = _reciprocal(divisor, 32)
    if factor <= WORD:
        product = e.value()
        e.high_product(product, x, number(factor), False)
        e.op("SHR", [result], Source(product), number(shift - 32), signed=False)
        return
    # The factor has 33 bits: x is added once more, halved first so that the sum does not overflow.
    product = e.value()
    e.high_product(product, x, number(factor & WORD), False)
    half = e.compute("SHR", e.compute("IADD", x, Source(product).negate()), number(1), signed=False)
    e.op(
        "SHR", [result], e.compute("IADD", half, Source(product)), number(shift - 33), signed=False
    )


def _reciprocal(divisor: int, bits: int) -> tuple[int, int]:
    """Returns a factor and a shift s >= 32 with x * factor >> s == x // divisor for every x of
    ``bits`` bits.
    """
    for shift in range(32, 65):
        factor = (1 << shift) // divisor + 1
        if factor * divisor - (1 << shift) <= 1 << shift - bits:
            return factor, shift
    raise AssertionError(divisor)


def _signed_by_number(e: Emitter, result: Value, x: Source, divisor: int, magnitude: int) -> None:
    negative = divisor >> 31
    if magnitude == 1:
        e.op("IADD", [result], x.negate() if negative else x, RZ)
        return
    found = e.value()
    if magnitude & magnitude - 1 == 0:
        bits = magnitude.bit_length() - 1
        bias = e.compute("SHR", e.compute("SHR", x, number(31)), number(32 - bits), signed=False)
        e.op("SHR", [found], e.compute("IADD", x, bias), number(bits))
    else:
        factor, shift = _reciprocal(magnitude, 31)
        product = e.value()
        e.high_product(product, x, number(factor), True)
        total = Source(product)
        if factor >> 31:
            total = e.compute("IADD", total, x)
        shifted = e.compute("SHR", total, number(shift - 32))
        e.op("IADD", [found], shifted, e.compute("SHR", x, number(31), signed=False))
    e.op("IADD", [result], Source(found).negate() if negative else Source(found), RZ)
