"""The structs between the stages of fetch.

===================  ==========================  ==================================
from                 to                          type
===================  ==========================  ==================================
SELECT               LOOK UP                     :func:`group_lookup`
instruction cache    fetch unit                  :class:`StoredGroup`
fetch unit           resolver, CHOOSE            :func:`fetched`
CHOOSE               BANK                        :func:`constant_lookup`
BANK                 READ, COMPARE               :func:`located_constant`
COMPARE, bypass      group                       :func:`resolved_group`
fetch unit           prefetcher                  :func:`claimed_group`
prefetcher           instruction cache           :class:`PrefetchedLine`
both caches          line loader, and back       :class:`LineLoaderPort`
===================  ==========================  ==================================
"""

from amaranth.hdl import Shape, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.isa.control_code import CODE_BITS, GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.isa.syntax import WORD_BITS
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import Event, indexed_request, indexed_response
from rtl.params import LINE_ADDRESS_BITS, SmParams

from .predecode import Predecoded

__all__ = [
    "CONSTANT_BITS",
    "GROUP_BITS",
    "LINES_IN_FLIGHT",
    "LINE_BITS",
    "LINE_CONSTANTS",
    "LINE_GROUPS",
    "LINE_WORDS",
    "TAG_BITS",
    "WORD_ADDRESS_BITS",
    "LineLoaderPort",
    "LinePart",
    "Place",
    "PrefetchedLine",
    "StoredGroup",
    "StoredInstruction",
    "cache_line",
    "claimed_group",
    "constant_lookup",
    "constant_reader",
    "fetched",
    "group_constants",
    "group_lookup",
    "line_of",
    "located_constant",
    "resolved_group",
]

GROUP_BITS = 32 - ceil_log2(GROUP_BYTES)
"""Width of a group's number: its pc without the bits that are 0."""
LINE_GROUPS = LINE_BYTES // GROUP_BYTES
LINE_BITS = GROUP_BITS - ceil_log2(LINE_GROUPS)
"""Width of a line's number, counted from pc 0."""
LINE_WORDS = LINE_BYTES // INSTRUCTION_BYTES
CONSTANT_BITS = 32
"""Width of a constant, which is a word of a constant bank."""
LINE_CONSTANTS = 8 * LINE_BYTES // CONSTANT_BITS
WORD_ADDRESS_BITS = LINE_ADDRESS_BITS + ceil_log2(LINE_CONSTANTS)
"""Width of the address of a 32-bit word."""
LINES_IN_FLIGHT = 3
"""Lines of instructions that are outstanding at most."""
TAG_BITS = ceil_log2(LINES_IN_FLIGHT + 1)
"""Width of the memory port's tags. Tags 0 to LINES_IN_FLIGHT - 1 are for lines of instructions, the
next one is for the constant cache, which has at most one line outstanding."""


class Place(data.Struct):
    """A pc, as a group and an instruction in it."""

    group: unsigned(GROUP_BITS)
    first: range(GROUP_INSTRUCTIONS)
    """The instruction at which the warp continues in the group."""


class StoredInstruction(data.Struct):
    """An instruction in the cache, predecoded when its line arrived from memory."""

    word: unsigned(WORD_BITS)
    predecoded: Predecoded


class StoredGroup(data.Struct):
    """A group in the cache."""

    codes: unsigned(CODE_BITS * GROUP_INSTRUCTIONS)
    instructions: data.ArrayLayout(StoredInstruction, GROUP_INSTRUCTIONS)


class LinePart(data.Struct):
    """A word of a line from memory. The words of a line arrive in order, from number 0."""

    line: unsigned(LINE_ADDRESS_BITS)
    """The line's address."""
    number: range(LINE_WORDS)
    """The word's position in the line."""
    word: unsigned(WORD_BITS)
    error: unsigned(1)
    """Memory has no such line; the word is undefined."""


class PrefetchedLine(data.Struct):
    """A line of instructions that a warp may need soon."""

    line: unsigned(LINE_BITS)
    may_evict: unsigned(1)
    """The line may evict another one; otherwise it is requested only if its index is free."""


class LineLoaderPort(wiring.Signature):
    """Lines from memory, one at a time, as the cache sees the port.

    Members
    -------
    miss : Out(Event(LINE_ADDRESS_BITS))
        The address of a line that is requested. It is accepted in a cycle in which ``free`` is 1.
    free : In(1)
        The cache can request a line.
    in_flight : In(1)
        A line was requested, and is not ``filled`` yet.
    part : In(Event(LinePart))
    filled : Out(1)
        The cache writes the last word of its line.
    """

    def __init__(self) -> None:
        super().__init__({
            "miss": Out(Event(LINE_ADDRESS_BITS)),
            "free": In(1),
            "in_flight": In(1),
            "part": In(Event(LinePart)),
            "filled": Out(1),
        })


def cache_line(params: SmParams) -> Shape:
    """The index of a line, wide enough for both caches."""
    instruction_lines = params.instruction_groups // LINE_GROUPS
    constant_lines = params.constant_words // LINE_CONSTANTS
    return Shape.cast(range(max(instruction_lines, constant_lines)))


def group_lookup(params: SmParams) -> data.StructLayout:
    """A warp, and its group that is looked up."""
    return data.StructLayout({"warp": params.warp_bits, "place": Place})


def line_of(group: Value) -> Value:
    """The number of the line that contains a group."""
    return group[ceil_log2(LINE_GROUPS):]


def claimed_group() -> data.StructLayout:
    """A group that a warp receives, and the instruction at which it enters the group."""
    return data.StructLayout({"place": Place, "stored": StoredGroup})


def fetched(params: SmParams) -> data.StructLayout:
    """A group for a warp, before its constants are read."""
    return data.StructLayout({"lookup": group_lookup(params), "group": StoredGroup})


def group_constants() -> data.ArrayLayout:
    """The words that the constant operands of a group's instructions read."""
    return data.ArrayLayout(indexed_response(), GROUP_INSTRUCTIONS)


def resolved_group(params: SmParams) -> data.StructLayout:
    """A group with all its constants."""
    return data.StructLayout({"fetched": fetched(params), "constants": group_constants()})


def constant_reader(params: SmParams) -> data.StructLayout:
    """The reader of a word that a stage of the resolver looks up.

    Fields
    ------
    valid : 1
        There is a word to look up.
    is_indexed : 1
        The reader is the client of ``indexed``, not an instruction of the group.
    slot : range(GROUP_INSTRUCTIONS)
        The instruction of the group that reads the word.
    group : fetched
    is_last : 1
        The group leaves the resolver with this lookup. A group that needs no further word also
        leaves with a lookup for ``indexed``, or with one that is not valid.
    """
    return data.StructLayout({
        "valid": 1,
        "is_indexed": 1,
        "slot": range(GROUP_INSTRUCTIONS),
        "group": fetched(params),
        "is_last": 1,
    })


def constant_lookup(params: SmParams) -> data.StructLayout:
    """CHOOSE to BANK: a word of a constant bank.

    Fields
    ------
    reader : constant_reader
    word : indexed_request
        Bank, and address in bytes.
    """
    return data.StructLayout({"reader": constant_reader(params), "word": indexed_request()})


def located_constant(params: SmParams) -> data.StructLayout:
    """BANK to READ and to COMPARE: the location of the word.

    Fields
    ------
    reader : constant_reader
    address : WORD_ADDRESS_BITS
        The word's address in memory.
    is_missing : 1
        The word is beyond the end of its bank, or there is no such bank.
    """
    return data.StructLayout({
        "reader": constant_reader(params),
        "address": WORD_ADDRESS_BITS,
        "is_missing": 1,
    })
