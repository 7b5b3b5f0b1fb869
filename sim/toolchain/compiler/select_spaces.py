"""Selection of conversions between generic addresses and those of a space.

The windows of shared and of local memory are 16 MiB of the generic addresses each.
"""

from sim.toolchain.ptx.module import Instruction, Register, Space

from .builder import Builder, constant, handles
from .ir import PT, RZ, Source, number
from .layout import DriverWord

__all__ = ["WINDOW_MASK", "in_window"]

WINDOW_MASK = 0xFF00_0000
"""The bits of an address that tell a window."""


def in_window(b: Builder, address: list[Source], window: int) -> Source:
    """Whether a generic address lies in a window of 16 MiB."""
    upper = b.compute("LOP", address[0], number(WINDOW_MASK), mods=".AND")
    same, inside = b.temporary(True), b.temporary(True)
    b.compare(same, ".EQ.U32.AND", upper, constant(0, window))
    b.compare(inside, ".EQ.U32.AND", address[1], RZ, with_=Source(same))
    return Source(inside)


_WINDOWS = {Space.SHARED: DriverWord.SHARED_WINDOW, Space.LOCAL: DriverWord.LOCAL_WINDOW}


@handles("cvta")
def _convert_address(b: Builder, i: Instruction) -> None:
    source = b.read(i.operands[1], i.type.bits)
    results = b.write(i.operands[0], i.type.bits)
    if i.space is Space.GLOBAL:
        b.move(results, source)
        return
    assert i.space is not None
    window = constant(0, _WINDOWS[i.space])
    if i.to:
        low = b.compute("LOP", source[0], number(~WINDOW_MASK), mods=".AND")
    else:
        low = b.compute("IADD", source[0], window)
    b.move(results, [low, RZ][:len(results)])


@handles("isspacep")
def _is_in_space(b: Builder, i: Instruction) -> None:
    operand = i.operands[1]
    address = b.read(operand, operand.type.bits if isinstance(operand, Register) else 64)
    address = [*address, RZ][:2]
    result = b.write(i.operands[0])[0]
    if i.space in _WINDOWS:
        inside = in_window(b, address, _WINDOWS[i.space])
        b.op("PSETP", [result, None], inside, PT, PT, mods=".AND.AND")
    elif i.space is Space.GLOBAL:
        one, other = (in_window(b, address, window) for window in _WINDOWS.values())
        b.op("PSETP", [result, None], one.invert(), other.invert(), PT, mods=".AND.AND")
    else:       # const space: it has no generic addresses
        b.op("PSETP", [result, None], PT.invert(), PT, PT, mods=".AND.AND")
