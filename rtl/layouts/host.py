"""The host's way in: a bus of 32-bit registers, and what the counters count."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.registers import COUNTERS

__all__ = ["HOST_ADDRESS_BITS", "CounterEvents", "HostBus"]

HOST_ADDRESS_BITS = 24
"""Width of a register's byte address."""

CounterEvents = data.StructLayout(dict.fromkeys(COUNTERS, 1))
"""What happened in a cycle: a bit for each counter."""


class HostBus(wiring.Signature):
    """A bus of registers, seen from the host.

    Members
    -------
    address : Out(24)
        Of a register, in bytes. The lowest two bits are ignored; addresses without a register read 0.
    read, write, data : Out(1), Out(1), Out(32)
        Done in this cycle; not both at once.
    value : In(32)
        What was read, in the cycle after ``read``.
    """

    def __init__(self) -> None:
        super().__init__({
            "address": Out(HOST_ADDRESS_BITS), "read": Out(1), "write": Out(1), "data": Out(32), "value": In(32)})
