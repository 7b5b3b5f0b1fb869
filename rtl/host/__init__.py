"""The host's registers: error status, work distributor, counters.

::

    bus --> HostPort: which block? --> ErrorStatus  <--- errors of all units, BPT
                                   |       `-----------> report mask, halt, interrupt
                                   +-> WorkRegisters <-> work distributor
                                   `-> Counters     <--- events of a cycle

Which registers there are, and what is in them, stands in :mod:`rtl.isa.registers`.

The first reported error of a warp, or BPT.TRAP, halts the machine: HWW_WARP_ESR keeps code and warp, HWW_WARP_ESR_PC
the address; further errors only set MULTIPLE_WARP_ERRORS. It goes on when the host has cleared the error, and the bits
of trap reasons in HWW_GLOBAL_ESR, as drivers do: they write back what they have read from HWW_GLOBAL_ESR, and 0 to
HWW_WARP_ESR. While it is halted, and while a bit of HWW_GLOBAL_ESR is set that its report mask has, the host is
interrupted.
"""

from .unit import HostPort

__all__ = ["HostPort"]
