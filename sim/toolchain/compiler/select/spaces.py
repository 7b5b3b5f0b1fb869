"""Selection of conversions between generic addresses and addresses in a space.

The windows of shared and local memory are 16 MiB of the generic addresses each. Constants are also
in global memory; the driver writes the address to bank 0.
"""

from rtl.isa.kinds import Compare, Logic
from sim.toolchain.compiler.ir import PT, RZ, Source, number
from sim.toolchain.compiler.layout import DriverWord
from sim.toolchain.ptx.module import PtxInstruction, PtxRegister, PtxSpace

from .builder import Builder, constant, handles
from .long import comparison

__all__ = ["WINDOW_MASK", "in_window"]

WINDOW_MASK = 0xFF00_0000
"""The bits of a generic address that select a window."""


def in_window(b: Builder, address: list[Source], window: int) -> Source:
    """Returns the predicate that a generic address is in a window of 16 MiB."""
    upper = b.compute("LOP", address[0], number(WINDOW_MASK), operation=Logic.AND)
    same = b.test_unsigned(Compare.EQ, upper, constant(0, window))
    return b.test_unsigned(Compare.EQ, address[1], RZ, with_=same)


_CONSTANTS = [constant(0, DriverWord.CONSTANTS + at) for at in (0, 4)]
"""The generic address of the first constant."""
_WINDOWS = {PtxSpace.SHARED: DriverWord.SHARED_WINDOW, PtxSpace.LOCAL: DriverWord.LOCAL_WINDOW}


@handles("cvta")
def _convert_address(b: Builder, i: PtxInstruction) -> None:
    source = b.read(i.operands[1], i.type.bits)
    results = b.write(i.operands[0], i.type.bits)
    if i.space is PtxSpace.GLOBAL:
        b.move(results, source)
        return
    if i.space is PtxSpace.CONST and i.type.bits == 32:
        base = _CONSTANTS[0].negate() if i.to else _CONSTANTS[0]
        b.move(results, [b.compute("IADD", source[0], base)])
        return
    if i.space is PtxSpace.CONST:
        if i.to:
            b.move(results, _from_constants(b, source))
        else:
            b.op("ADD64", results, *source, *_CONSTANTS)
        return
    assert i.space is not None
    window = constant(0, _WINDOWS[i.space])
    if i.to:
        low = b.compute("LOP", source[0], number(~WINDOW_MASK), operation=Logic.AND)
    else:
        low = b.compute("IADD", source[0], window)
    b.move(results, [low, RZ][: len(results)])


@handles("isspacep")
def _is_in_space(b: Builder, i: PtxInstruction) -> None:
    operand = i.operands[1]
    address = b.read(operand, operand.type.bits if isinstance(operand, PtxRegister) else 64)
    address = [*address, RZ][:2]
    result = b.write(i.operands[0])[0]
    if i.space in _WINDOWS:
        inside = in_window(b, address, _WINDOWS[i.space])
        b.op("PSETP", [result, None], inside, PT, PT)
    elif i.space is PtxSpace.GLOBAL:
        one, other = (in_window(b, address, window) for window in _WINDOWS.values())
        third = _among_constants(b, address)
        b.op("PSETP", [result, None], one.invert(), other.invert(), third.invert())
    else:
        b.op("PSETP", [result, None], _among_constants(b, address), PT, PT)


def _from_constants(b: Builder, address: list[Source]) -> list[Source]:
    """Returns the offset of a generic address from the first constant."""
    return b.compute_pair("ADD64", *address, *(word.negate() for word in _CONSTANTS))


def _among_constants(b: Builder, address: list[Source]) -> Source:
    """Returns the predicate that a generic address is that of a constant."""
    return comparison(
        b, Compare.LT, False, _from_constants(b, address), [number(b.layout.constant_bytes), RZ]
    )
