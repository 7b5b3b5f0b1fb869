"""What the memory unit does with an instruction: the decoded form, and what its parts hand to each
other.

==================  =========================  ==============================================
from                to                         struct
==================  =========================  ==============================================
front               all                        :class:`MemoryInstruction`, :func:`queued`
lanes               addresses, operands        :func:`~rtl.memory.front.matched_beat`
limits              addresses                  :func:`~rtl.memory.limits.address_limits`
addresses           operands                   :func:`~rtl.memory.operands.beat_places`
addresses           access, writeback          :func:`judged_layout`
operands            access                     :class:`~rtl.memory.operands.LinesPort`
access, lines       crossbar                   :func:`beat_job`
crossbar, atomic    banks, lines, operands     :func:`bank_read`, :func:`bank_write`
==================  =========================  ==============================================
"""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2

from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation, ShuffleMode
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import BLOCK_ADDRESS_BITS, GATHER_REGISTERS, SEQUENCE_BITS
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

_SINGLE_LANES = 2
"""Lanes at most with which only one instruction is in flight at a time."""
_LEAST_PORTS = 2
"""Ports that the crossbar has at least."""
_WORD_BYTES = 4
LINE_WORDS = LINE_BYTES // _WORD_BYTES
"""Words of a line."""
OFFSET_BITS = ceil_log2(LINE_BYTES)
"""Lower bits of an address: the offset in its line."""

WORDS = 4
"""Words that a thread can load or store at once, or that make the operands of an atomic
operation."""
FLOAT_ADD = 9
"""What ``atomic`` is for sums of floats: a number that no operation has in a word (ours)."""
WordLayout = data.ArrayLayout(8, _WORD_BYTES)
"""A word as its bytes."""


class MemoryOperation(enum.Enum, shape=3):
    """What an instruction does with its addresses."""

    NONE = 0
    """It orders or hints: it is complete when the warp's instructions before it are; there is no
    data cache."""
    LOAD = 1
    STORE = 2
    ATOMIC = 3
    SHUFFLE = 4
    """It has no addresses: threads read each other's registers."""


class MemorySpace(enum.Enum, shape=3):
    """What an address is relative to."""

    GLOBAL = 0
    LOCAL = 1
    SHARED = 2
    GENERIC = 3
    """Shared and local memory through windows, global memory around them."""
    OUTSIDE = 4
    """As GENERIC, but an address inside of a window is an error."""
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
    """Registers that are read: first a register pair for the address, or step and clamp of a
    shuffle, and the first word of data; then the other three words of data. RZ where there is
    none."""
    second: unsigned(1)
    """There are other words of data: a second gather."""
    destination: unsigned(8)
    results: unsigned(3)
    """Registers that are written."""
    predicate: unsigned(3)
    """The predicate that is written; PT: none."""
    atomic: AtomicOperation
    compare: unsigned(1)
    """Compare and swap; then ``atomic`` is the kind, a CompareAndSwapType if it is in shared
    memory. Those that only report whether they have swapped are the ones without its bit 2."""
    bank: unsigned(5)
    """The constant bank."""
    mode: ShuffleMode
    clamp: unsigned(13)
    """Of a shuffle, unless a register holds it; the step is its ``offset``."""


class DataRegisters(data.Struct):
    """Where a thread's words of data are: word ``n`` is in register ``register | n - first``, for
    ``n`` from ``first`` up to before ``end``; other words are zeros."""

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
    """An instruction that waits for its slot.

    Fields
    ------
    warp, sequence, pc, word
        As dispatched.
    gather : 3 registers
        What its first gather reads.
    second : 1
        There is a second gather.
    idle : 1
        It has nothing to do.
    threads : 32
        They execute it.
    write_barrier, read_barrier : 3
        Scoreboards.
    local_base : in units of the CRS granule
        Where its warp's block of local memory began when it was dispatched.
    """
    return data.StructLayout({
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "pc": 32,
        "word": 64,
        "gather": data.ArrayLayout(8, GATHER_REGISTERS),
        "second": 1,
        "idle": 1,
        "threads": WARP_THREADS,
        "write_barrier": 3,
        "read_barrier": 3,
        "local_base": BLOCK_ADDRESS_BITS,
    })


def slot_bits(params: SmParams) -> int:
    """Width of the number of an instruction in flight: eight of them, or more on more than eight
    lanes, which take them faster. On two lanes, and on one, there is one at a time, so that none
    need be distinguished."""
    if params.lanes <= _SINGLE_LANES:
        return 0
    return max(3, min(4, ceil_log2(params.lanes)))


def entry_bits(params: SmParams) -> int:
    """Width of the number of an entry, which has an instruction's operands and the lines of its
    threads: the low bits of its slot."""
    return min(slot_bits(params), max(2, 4 - ceil_log2(params.beats)))


def memory_tag_bits(params: SmParams) -> int:
    """Width of the unit's tags at the memory port: so many lines are in flight at most."""
    return slot_bits(params)


def port_count(params: SmParams) -> int:
    """Threads whose words pass the crossbar in one cycle: half of a beat's. Lanes ``port`` and
    ``port + port_count`` have the same port. But there are two ports at least, since an atomic
    operation's number may have two words: then all of a beat is its lower half."""
    return max(_LEAST_PORTS, params.lanes // 2)


def row_bits(params: SmParams) -> int:
    """Width of the number of a row: a word in each bank of shared memory; there are as many banks
    as lanes."""
    return params.shared_bits - ceil_log2(_WORD_BYTES) - ceil_log2(params.lanes)


class ThreadSets(data.Struct):
    """The threads that access memory at their place, their own words in local memory, or shared
    memory. A thread is in one of the sets at most. For a shuffle ``shared`` are the threads that
    execute it, and ``local`` the threads that read a thread of their segment."""

    memory: WARP_THREADS
    local: WARP_THREADS
    shared: WARP_THREADS


def judged_layout(params: SmParams) -> data.StructLayout:
    """Addresses to access and writeback: what an instruction's threads access.

    Fields
    ------
    slot
    sets : ThreadSets
        The threads that access something.
    some : 3
        Which of the sets have a thread.
    bad : 1
        A thread has an error.
    error, thread : WarpError, 0 to 31
        The error of the lowest such thread. The threads below it access something all the same.
    """
    return data.StructLayout({
        "slot": slot_bits(params),
        "sets": ThreadSets,
        "some": 3,
        "bad": 1,
        "error": WarpError,
        "thread": range(WARP_THREADS),
    })


class BeatKind(enum.Enum, shape=2):
    """Which banks a beat's words are in."""

    SHARED = 0
    LINE = 1
    """The line of a tag, which is filled or modified."""
    LANES = 2
    """The first data words of all threads, for shuffles: bank and row are a thread's lane and
    beat."""
    ANSWER = 3
    """The line that memory has answered last."""


class BeatOwner(enum.Enum, shape=2):
    """The part of the unit that is notified when the last beat of a job has passed the crossbar."""

    NOBODY = 0
    ACCESS = 1
    """An instruction of shared memory, or a shuffle."""
    FILL = 2
    """A line that is to be written."""
    ANSWER = 3
    """A line that was read."""


def beat_job(params: SmParams) -> data.StructLayout:
    """A word of each of some threads of a beat, which passes between threads and banks.

    Fields
    ------
    slot, beat
    lanes
        The threads.
    kind : BeatKind
        Where the words are.
    write : 1
        Threads supply the words, as in a store; else they receive them.
    tag
        The tag of the line, if they are in one.
    word : 0 to 3
        Which of the thread's words.
    spread : 2
        For lanes of its second half, or of its second to fourth quarter, it is that word with
        ``spread`` applied: so all banks are used when threads access neighbouring 64 or 128 bits.
    local : 1
        In local memory: each word is in another line.
    size, signed
        The instruction's.
    owner, last : BeatOwner, 1
        Whose beat it is, and whether it is the last one, which is reported to that owner.
    final : 1
        The job is for the last line that an instruction fills.
    skips : 1
        There are no threads in the lower half: the beat begins with the upper one.
    single : 1
        The beat passes as one half: there are no threads in one of its halves, or those of the
        upper half read at the addresses of the lower half's; or it has no upper half, see
        :func:`port_count`.
    """
    return data.StructLayout({
        "slot": slot_bits(params),
        "beat": range(params.beats),
        "lanes": params.lanes,
        "kind": BeatKind,
        "write": 1,
        "tag": memory_tag_bits(params),
        "word": range(WORDS),
        "spread": 2,
        "local": 1,
        "size": 3,
        "signed": 1,
        "owner": BeatOwner,
        "last": 1,
        "final": 1,
        "skips": 1,
        "single": 1,
    })


def bank_read(params: SmParams) -> data.StructLayout:
    """A word of each bank is read; it is there a cycle later.

    Fields
    ------
    used : 1
        One is.
    kind, tag, slot
        Where: in shared memory; in the line of a tag, or the last answer; among a slot's operands.
    rows : a row for each bank
    """
    return data.StructLayout({
        "used": 1,
        "kind": BeatKind,
        "tag": memory_tag_bits(params),
        "slot": slot_bits(params),
        "rows": data.ArrayLayout(row_bits(params), params.lanes),
    })


def bank_write(params: SmParams) -> data.StructLayout:
    """Bytes of a word of each bank are written.

    Fields
    ------
    used : 1
        Some are.
    line, tag
        To the line of a tag; else to shared memory.
    banks : row, bytes and value for each bank
        ``bytes`` has a bit for each byte of the word that is written.
    """
    bank = data.StructLayout({
        "row": row_bits(params),
        "bytes": _WORD_BYTES,
        "value": WordLayout,
    })
    return data.StructLayout({
        "used": 1,
        "line": 1,
        "tag": memory_tag_bits(params),
        "banks": data.ArrayLayout(bank, params.lanes),
    })
