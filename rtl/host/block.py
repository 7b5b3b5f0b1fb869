"""A block of registers, as the host port sees it."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.registers import BLOCK_BYTES, HostRegister

__all__ = ["RegisterAccess", "place_of"]

_PLACE_BITS = (BLOCK_BYTES // 4 - 1).bit_length()


class RegisterAccess(wiring.Signature):
    """Access to a block, seen from the block.

    Members
    -------
    place : In
        Number of a word in the block.
    read, write, data : In(1), In(1), In(32)
    value : Out(32)
        What is there, in the same cycle.
    """

    def __init__(self) -> None:
        super().__init__({"place": In(_PLACE_BITS), "read": In(1), "write": In(1), "data": In(32), "value": Out(32)})


def place_of(register: HostRegister) -> int:
    """Number of a register's word in its block."""
    return register.offset // 4
