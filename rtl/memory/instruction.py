"""What the memory unit does with an instruction: the decoded form that its parts share."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum

from rtl.isa.kinds import AtomicOperation, ShuffleMode
from rtl.layouts import BLOCK_ADDRESS_BITS, GATHER_REGISTERS, SERIAL_BITS
from rtl.params import ADDRESS_BITS, WARP_THREADS, SmParams

__all__ = [
    "WORDS",
    "MemoryEvents",
    "MemoryInstruction",
    "MemoryOperation",
    "MemorySpace",
    "WordLayout",
    "access_job",
    "place_layout",
    "queued",
]

WORDS = 4
"""Words that a thread can load or store at once, or that make the operands of an atomic operation."""
WordLayout = data.ArrayLayout(8, 4)
"""A word as its bytes."""


class MemoryOperation(enum.Enum, shape=3):
    """What an instruction does with its addresses."""

    NONE = 0
    """It orders or hints, which needs nothing: the unit does one instruction after the other, without a cache."""
    LOAD = 1
    STORE = 2
    ATOMIC = 3
    SHUFFLE = 4
    """It has no addresses: threads read each other's registers."""


class MemorySpace(enum.Enum, shape=3):
    """What an address counts in."""

    GLOBAL = 0
    LOCAL = 1
    SHARED = 2
    GENERIC = 3
    """Shared and local memory through windows, global memory around them."""
    OUTSIDE = 4
    """As GENERIC, but what is inside of a window is an error."""
    CONSTANT = 5


class MemoryInstruction(data.Struct):
    """A decoded instruction of the memory unit."""

    operation: MemoryOperation
    space: MemorySpace
    size: unsigned(3)
    """Bytes of a thread, as a power of two."""
    words: unsigned(3)
    """Words of a thread: 1, 2 or 4."""
    is_signed: unsigned(1)
    """A narrow number is extended by its sign; minimum and maximum compare signed numbers."""
    wide: unsigned(1)
    """The address has 64 bits."""
    offset: signed(33)
    gathers: data.ArrayLayout(data.ArrayLayout(8, GATHER_REGISTERS), 2)
    """Registers that are read: first a register pair for the address and the first word of data, or what a shuffle
    reads; then the other three words of data. RZ where there is none."""
    second: unsigned(1)
    """There are other words of data."""
    destination: unsigned(8)
    results: unsigned(3)
    """Registers that are written."""
    predicate: unsigned(3)
    """The predicate that is written; PT: none."""
    atomic: AtomicOperation
    compare: unsigned(1)
    """Compare and swap, whatever ``atomic`` says."""
    bank: unsigned(5)
    """The constant bank."""
    mode: ShuffleMode
    step: unsigned(5)
    """Of a shuffle, unless a register holds it."""
    clamp: unsigned(13)
    """Of a shuffle, unless a register holds it."""


class MemoryEvents(data.Struct):
    """What happened in one cycle, for counters."""

    line: unsigned(1)
    """Memory took a request."""
    write: unsigned(1)
    """It was one to write."""
    shared: unsigned(1)
    """Shared memory served some threads' words."""
    atomic: unsigned(1)
    """A thread's atomic operation was done."""


def queued(params: SmParams) -> data.StructLayout:
    """An instruction that waits for its turn. ``threads`` execute it. ``local_base`` is where its warp's block of local
    memory began when it came, in units of the CRS granule."""
    return data.StructLayout({
        "warp": params.warp_bits, "serial": SERIAL_BITS, "pc": 32, "word": 64, "threads": WARP_THREADS,
        "write_barrier": 3, "read_barrier": 3, "local_base": BLOCK_ADDRESS_BITS})


def access_job() -> data.StructLayout:
    """Accesses of ``threads``, of ``words`` words or less each: to shared memory or, for ``line``, to lines of memory.
    In ``local`` memory they are of word ``word`` alone. ``modify`` stands for atomic operations."""
    return data.StructLayout({
        "threads": WARP_THREADS, "line": 1, "local": 1, "word": range(WORDS), "write": 1, "modify": 1,
        "words": range(WORDS + 1), "size": 3, "signed": 1})


def place_layout(params: SmParams) -> data.ArrayLayout:
    """For each thread of a beat, the address in memory, or in the machine's shared memory."""
    return data.ArrayLayout(ADDRESS_BITS, params.lanes)
