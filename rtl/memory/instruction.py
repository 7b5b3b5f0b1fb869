"""What the memory unit does with an instruction: the decoded form, and what its rooms hand to each other."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2

from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation, ShuffleMode
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BLOCK_ADDRESS_BITS, GATHER_REGISTERS, SERIAL_BITS
from rtl.params import WARP_THREADS, SmParams

__all__ = [
    "FLOAT_ADD",
    "LINE_WORDS",
    "OFFSET_BITS",
    "WORDS",
    "BeatKind",
    "BeatOwner",
    "DataRegisters",
    "MemoryEvents",
    "MemoryInstruction",
    "MemoryOperation",
    "MemorySpace",
    "ThreadSets",
    "WordLayout",
    "bank_read",
    "bank_write",
    "beat_job",
    "entry_bits",
    "judged_layout",
    "memory_tag_bits",
    "port_count",
    "queued",
    "row_bits",
    "slot_bits",
]

_LEAST_LANES = 2
LINE_WORDS = LINE_BYTES // 4
"""Words of a line."""
OFFSET_BITS = ceil_log2(LINE_BYTES)
"""Lower bits of an address, which tell where in its line it is."""

WORDS = 4
"""Words that a thread can load or store at once, or that make the operands of an atomic operation."""
FLOAT_ADD = 9
"""What ``atomic`` is for sums of floats: a number that no operation has in a word (ours)."""
WordLayout = data.ArrayLayout(8, 4)
"""A word as its bytes."""


class MemoryOperation(enum.Enum, shape=3):
    """What an instruction does with its addresses."""

    NONE = 0
    """It orders or hints: it is complete when the warp's instructions before it are; there is no data cache."""
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
    """Registers that are read: first a register pair for the address, or step and clamp of a shuffle, and the first
    word of data; then the other three words of data. RZ where there is none."""
    second: unsigned(1)
    """There are other words of data."""
    destination: unsigned(8)
    results: unsigned(3)
    """Registers that are written."""
    predicate: unsigned(3)
    """The predicate that is written; PT: none."""
    atomic: AtomicOperation
    compare: unsigned(1)
    """Compare and swap; then ``atomic`` is the kind, a CompareAndSwapType if it is of shared memory. Those that only
    tell whether they have swapped are the ones without its bit 2."""
    bank: unsigned(5)
    """The constant bank."""
    mode: ShuffleMode
    clamp: unsigned(13)
    """Of a shuffle, unless a register holds it; the step is its ``offset``."""


class DataRegisters(data.Struct):
    """Where a thread's words of data are: word ``n`` is in register ``register | n - first``, which are those from
    ``first`` up to before ``end``; others are zeros."""

    register: unsigned(8)
    first: range(WORDS)
    end: range(2 * WORDS)


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
    memory began when it came, in units of the CRS granule. Decoded are what its first ``gather`` reads, whether there
    is a ``second`` one, and that it is ``idle``: it has nothing to do."""
    return data.StructLayout({
        "warp": params.warp_bits, "serial": SERIAL_BITS, "pc": 32, "word": 64,
        "gather": data.ArrayLayout(8, GATHER_REGISTERS), "second": 1, "idle": 1, "threads": WARP_THREADS,
        "write_barrier": 3, "read_barrier": 3, "local_base": BLOCK_ADDRESS_BITS})


def slot_bits(params: SmParams) -> int:
    """Width of the number of an instruction in flight: eight of them, or more on more than eight lanes, which take them
    faster. On two lanes, and on one, it is one at a time, so that nothing has to be told apart."""
    return 0 if params.lanes <= _LEAST_LANES else max(3, min(4, ceil_log2(params.lanes)))


def entry_bits(params: SmParams) -> int:
    """Width of the number of a place for the operands of an instruction: the low bits of its slot."""
    return min(slot_bits(params), max(2, 4 - ceil_log2(params.beats)))


def memory_tag_bits(params: SmParams) -> int:
    """Width of the unit's tags at the memory port: as many lines as they can tell apart are under way."""
    return slot_bits(params)


def port_count(params: SmParams) -> int:
    """Threads whose words pass the crossbar in one cycle: half of a beat's. Lanes ``port`` and ``port + port_count``
    have the same port. But there are two ports at least, since an atomic operation's number may have two words: then
    all of a beat is its lower half."""
    return max(_LEAST_LANES, params.lanes // 2)


def row_bits(params: SmParams) -> int:
    """Width of the number of a row: a word in each bank of shared memory, of which there are as many as lanes."""
    return params.shared_bits - 2 - ceil_log2(params.lanes)


class ThreadSets(data.Struct):
    """The threads that access memory at their place, their own words in local memory, or shared memory. A thread is
    in one of the sets at most. For a shuffle ``shared`` are those that execute it, and ``local`` those that read a
    thread of their segment."""

    memory: WARP_THREADS
    local: WARP_THREADS
    shared: WARP_THREADS


def judged_layout(params: SmParams) -> data.StructLayout:
    """What came of an instruction's addresses: the threads that access something, and ``some`` of which sets there are;
    and if it is ``bad`` the error of the lowest ``thread`` that has one: those below it access something all the
    same."""
    return data.StructLayout({
        "slot": slot_bits(params), "sets": ThreadSets, "some": 3, "bad": 1, "error": WarpError,
        "thread": range(WARP_THREADS)})


class BeatKind(enum.Enum, shape=2):
    """Which banks a beat's words are in."""

    SHARED = 0
    LINE = 1
    """The line of a tag, which is filled or modified."""
    LANES = 2
    """The first data words of all threads, for shuffles: bank and row are a thread's lane and beat."""
    ANSWER = 3
    """The line that memory has answered last."""


class BeatOwner(enum.Enum, shape=2):
    """Who is told that the last of some beats has passed the crossbar."""

    NOBODY = 0
    ACCESS = 1
    """An instruction of shared memory, or a shuffle."""
    FILL = 2
    """A line that is to be written."""
    ANSWER = 3
    """A line that was read."""


def beat_job(params: SmParams) -> data.StructLayout:
    """A word of each of some ``lanes`` of a beat, which passes between threads and banks.

    The word is number ``word`` of the thread's, but for the lanes of its second half, or of its second to fourth
    quarter, the one that ``spread`` makes of it: so are all banks at work for threads with neighbouring words of 64 or
    128 bits. In ``local`` memory each word has a line of its own. ``size`` and ``signed`` are the instruction's.
    ``last`` of its ``owner``, and ``final``: of the lines that an instruction fills. ``skips``: there are none in the
    lower half. ``single``: or none in the upper half, or they all read at the places of threads in the lower half.
    """
    return data.StructLayout({
        "slot": slot_bits(params), "beat": range(params.beats), "lanes": params.lanes, "kind": BeatKind, "write": 1,
        "tag": memory_tag_bits(params), "word": range(WORDS), "spread": 2, "local": 1, "size": 3, "signed": 1,
        "owner": BeatOwner, "last": 1, "final": 1, "skips": 1, "single": 1})


def bank_read(params: SmParams) -> data.StructLayout:
    """A word of each bank is read, if ``used``; it is there a cycle later."""
    return data.StructLayout({
        "used": 1, "kind": BeatKind, "tag": memory_tag_bits(params), "slot": slot_bits(params),
        "rows": data.ArrayLayout(row_bits(params), params.lanes)})


def bank_write(params: SmParams) -> data.StructLayout:
    """Bytes of a word of each bank are written, if ``used``: of shared memory, or of the ``line`` of a tag."""
    bank = data.StructLayout({"row": row_bits(params), "bytes": 4, "value": WordLayout})
    return data.StructLayout({
        "used": 1, "line": 1, "tag": memory_tag_bits(params), "banks": data.ArrayLayout(bank, params.lanes)})
