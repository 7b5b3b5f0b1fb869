"""The host's interface: a bus of 32-bit registers, and the events of the counters."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.registers import BLOCK_BYTES, COUNTERS, HostRegister

__all__ = ["HOST_ADDRESS_BITS", "CounterEvents", "HostBus", "RegisterAccess", "place_of"]

HOST_ADDRESS_BITS = 24
"""Width of a register's byte address."""
_PLACE_BITS = (BLOCK_BYTES // 4 - 1).bit_length()

CounterEvents = data.StructLayout(dict.fromkeys(COUNTERS, 1))
"""What happened in a cycle: a bit for each counter."""


class HostBus(wiring.Signature):
    """A bus of registers, directions are the host's.

    Members
    -------
    address : Out(24)
        Of a register, in bytes. The lowest two bits are ignored; addresses without a register read
        0.
    read, write, data : Out(1), Out(1), Out(32)
        The access is performed in this cycle; a read and a write are never in the same one.
    value : In(32)
        The value read, in the cycle after ``read``.
    """

    def __init__(self) -> None:
        super().__init__({
            "address": Out(HOST_ADDRESS_BITS),
            "read": Out(1),
            "write": Out(1),
            "data": Out(32),
            "value": In(32),
        })


class RegisterAccess(wiring.Signature):
    """Access to a block of the host's registers; directions are the block's.

    Members
    -------
    place : In
        Number of a word in the block.
    read, write, data : In(1), In(1), In(32)
    value : Out(32)
        The word at ``place``, in the same cycle.
    """

    def __init__(self) -> None:
        super().__init__({
            "place": In(_PLACE_BITS),
            "read": In(1),
            "write": In(1),
            "data": In(32),
            "value": Out(32),
        })


def place_of(register: HostRegister) -> int:
    """Number of a register's word in its block."""
    return register.offset // 4
