"""The host's registers: error status, work distributor, counters.

::

    bus --> HostPort: which block? --> ErrorStatus  <--- errors of all units, events of traps
                                   |       `-----------> report mask, interrupt
                                   +-> DebuggerRegisters <-> trap unit
                                   +-> WorkRegisters <-> work distributor, trap unit
                                   `-> Counters     <--- events of a cycle

Which registers there are, and what is in them, stands in :mod:`rtl.isa.registers`.

HWW_WARP_ESR keeps code and warp of the first reported error, HWW_WARP_ESR_PC its address; further
errors only set MULTIPLE_WARP_ERRORS. Drivers clear them by writing back what they have read from
HWW_GLOBAL_ESR, and 0 to HWW_WARP_ESR, in either order; the address stays until there is another
one. The host is interrupted while there is an error, while BPT_PAUSE or a BPT.TRAP's bit is set in
HWW_GLOBAL_ESR, and while another bit is set there that the report mask has.
"""

from .unit import HostPort

__all__ = ["HostPort"]
