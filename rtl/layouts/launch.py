"""The work distributor: configuration of the grid, launches of warps, its interface to the host."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.registers import REFERENCE_COUNTERS
from rtl.params import ADDRESS_BITS, SmParams

from .stack import BLOCK_ADDRESS_BITS, CRS_GRANULE_BITS

__all__ = [
    "CONSTANT_BANKS",
    "REFERENCE_BITS",
    "ConstantBank",
    "GridConfiguration",
    "GridControl",
    "LaunchRejection",
    "LaunchSettings",
    "ReferenceAccess",
    "described_bank",
    "shared_clear",
    "thread_index",
    "warp_exit",
    "warp_launch",
]

CONSTANT_BANKS = 8
"""Constant banks that a launch descriptor describes."""
REFERENCE_BITS = 16
"""Width of a reference counter (ours)."""


class ConstantBank(data.Struct):
    """A constant bank: ``size`` bytes of memory from ``address`` on."""

    valid: unsigned(1)
    address: unsigned(ADDRESS_BITS)
    size: unsigned(17)


def described_bank() -> data.StructLayout:
    """A constant bank, as a launch descriptor describes it."""
    return data.StructLayout({"number": range(CONSTANT_BANKS), "bank": ConstantBank})


class GridConfiguration(data.Struct):
    """The grid that runs; it does not change while a warp lives. Sizes in bytes unless said
    otherwise. A serial machine does not use ``banks``: it receives the banks one by one."""

    program: unsigned(ADDRESS_BITS)
    """Address of pc 0."""
    entry: unsigned(32)
    """The kernel's pc."""
    registers: unsigned(9)
    """Registers of a thread."""
    barriers: unsigned(5)
    """Barriers of a CTA."""
    shared: unsigned(18)
    """Shared memory of a CTA."""
    local: unsigned(25)
    """Local memory of a thread."""
    stack: unsigned(CRS_GRANULE_BITS)
    """Region of a warp's call/return stack, in units of the CRS granule."""
    check_calls: unsigned(1)
    """Whether the API call depth is limited."""
    grid: data.StructLayout({"x": 32, "y": 16, "z": 16})
    """CTAs."""
    block: data.StructLayout({"x": 16, "y": 16, "z": 16})
    """Threads of a CTA."""
    banks: data.ArrayLayout(ConstantBank, CONSTANT_BANKS)


def warp_launch(params: SmParams) -> data.StructLayout:
    """A warp is launched in slot ``warp``; each unit stores the fields that it needs. The warp's
    threads start later, with its flow_launch.

    ``number`` is the warp's number in its CTA. The CTA has ``cta_warps`` warps, is in CTA slot
    ``cta``, and has the position ``index`` in the grid. ``first_row`` is the row of the register
    file with the warp's R0. ``shared_base`` is the first address of the CTA's shared memory,
    ``local_base`` that of the warp's block of local memory, in units of the CRS granule.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "number": 6, "cta": params.warp_bits, "cta_warps": 7,
        "index": data.StructLayout({"x": 32, "y": 16, "z": 16}), "first_row": params.row_bits,
        "shared_base": params.shared_bits, "local_base": BLOCK_ADDRESS_BITS})


def thread_index(params: SmParams) -> data.StructLayout:
    """The position of a thread of a warp in its block."""
    return data.StructLayout({"warp": params.warp_bits, "thread": 5, "x": 16, "y": 16, "z": 16})


class LaunchSettings(data.Struct):
    """The host's settings of a grid, as byte addresses. They are sampled when a grid starts."""

    program: unsigned(ADDRESS_BITS)
    """The address of pc 0."""
    local: unsigned(ADDRESS_BITS)
    """Local memory of all warp slots, consecutively; a multiple of the CRS granule, lower bits are
    ignored."""


class LaunchRejection(enum.Enum, shape=4):
    """Why a grid did not run. The first that applies, in this order (ours)."""

    NONE = 0
    ADDRESS = 1
    """The descriptor is not aligned to its size."""
    MEMORY = 2
    """The descriptor could not be read; or, after the grid has run, its release could not be
    written."""
    VERSION = 3
    """Not the version of descriptor that this machine reads."""
    DISABLED = 4
    """It must not run on this multiprocessor."""
    EMPTY = 5
    """A dimension of grid or block is 0."""
    BARRIERS = 6
    """More barriers than a CTA can have."""
    STACK = 7
    """The call/return stack is not a multiple of its granule, or too large."""
    LOCAL = 8
    """The local memory of a warp's threads is not a multiple of the CRS granule, which a stack has
    to begin at."""
    SHARED = 9
    """More shared memory than there is."""
    WARPS = 10
    """More threads than there are warps for."""
    REGISTERS = 11
    """More registers than there are for the warps of one CTA."""


class ReferenceAccess(wiring.Signature):
    """The host's access to the reference counters, directions are the host's.

    Members
    -------
    number, read, count : Out, Out(1), In(16)
        A counter, and its value: in the same cycle; in a machine of one lane, in the cycle after
        ``read``.
    set, value : Out(1), Out(16)
        The counter is set to this value, within two cycles, or after the grid's next changes of a
        counter. During the sweep after a reset, only the last of several is stored and then done.
    """

    def __init__(self) -> None:
        super().__init__({
            "number": Out(range(REFERENCE_COUNTERS)),
            "read": Out(1),
            "count": In(REFERENCE_BITS),
            "set": Out(1),
            "value": Out(REFERENCE_BITS),
        })


class GridControl(wiring.Signature):
    """Grids, one at a time; directions are the host's.

    Members
    -------
    settings : Out(LaunchSettings)
    start : Out(stream of 40-bit addresses)
        Addresses of launch descriptors. Accepted when no grid runs.
    busy : In(1)
        A grid runs.
    done, rejection : In(1), In(LaunchRejection)
        For one cycle: the grid has ended; and why it was rejected, or NONE.
    references : Out(ReferenceAccess)
    """

    def __init__(self) -> None:
        super().__init__({
            "settings": Out(LaunchSettings),
            "start": Out(stream.Signature(ADDRESS_BITS)),
            "busy": In(1),
            "done": In(1),
            "rejection": In(LaunchRejection),
            "references": Out(ReferenceAccess()),
        })


def warp_exit(params: SmParams) -> data.StructLayout:
    """Fields of a warp's flow result. ``terminated``: the warp has ended. ``kept``: some thread has
    executed EXIT.KEEPREFCOUNT."""
    return data.StructLayout({"warp": params.warp_bits, "terminated": 1, "kept": 1})


def shared_clear(params: SmParams) -> data.StructLayout:
    """Shared memory that is to be cleared: ``bytes`` from ``base`` on."""
    return data.StructLayout({"base": params.shared_bits, "bytes": params.shared_bits + 1})
