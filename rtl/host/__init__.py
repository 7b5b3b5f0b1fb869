"""The host's registers: error status, work distributor, counters.

::

    bus --> HostPort ---+--> ErrorStatus (outside) <--- errors of all units, events of traps
            selects a   |        `--------------------> report mask, interrupt
            block       +--> DebuggerRegisters <------> trap unit
                        +--> WorkRegisters <----------> work distributor, trap unit
                        `--> Counters <---------------- events of a cycle

The registers, their addresses and fields are listed in :mod:`rtl.isa.registers`. Those of the error
status are in :mod:`rtl.error_status`, beside the units that raise errors; the bus accesses them
through the port ``error_status``.

HWW_WARP_ESR holds code and warp of the first reported error, HWW_WARP_ESR_PC the address of its
instruction; further errors only set MULTIPLE_WARP_ERRORS. To clear them, drivers write the value
that they have read from HWW_GLOBAL_ESR to it, and 0 to HWW_WARP_ESR, in either order; the address
holds until the next error. The interrupt is 1 while there is an error, while BPT_PAUSE or the bit
of a BPT.TRAP is set in HWW_GLOBAL_ESR, and while another bit is set there that the report mask has.
"""

from .unit import HostPort

__all__ = ["HostPort"]
