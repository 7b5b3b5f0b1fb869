"""What the stages of fetch hand to each other.

===================  ==========================  ==================================
from                 to                          struct
===================  ==========================  ==================================
instruction cache    fetch unit                  :class:`StoredGroup`
fetch unit           resolver, CHOOSE            :func:`fetched`
CHOOSE               BANK                        :func:`constant_lookup`
BANK                 READ, COMPARE               :func:`located_constant`
line loader          both caches                 :func:`line_part`
===================  ==========================  ==================================
"""

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2

from rtl.isa.control_code import CODE_BITS, GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.isa.syntax import WORD_BITS
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import indexed_request
from rtl.params import LINE_ADDRESS_BITS, SmParams

from .predecode import Predecoded

__all__ = [
    "CONSTANT_BITS",
    "GROUP_BITS",
    "LINE_CONSTANTS",
    "LINE_GROUPS",
    "LINE_WORDS",
    "TAG_BITS",
    "WORD_ADDRESS_BITS",
    "LineRequest",
    "Place",
    "StoredGroup",
    "StoredInstruction",
    "constant_lookup",
    "constant_reader",
    "fetched",
    "line_part",
    "located_constant",
]

GROUP_BITS = 32 - ceil_log2(GROUP_BYTES)
"""Width of a group's number: its pc without the bits that are 0."""
LINE_GROUPS = LINE_BYTES // GROUP_BYTES
LINE_WORDS = LINE_BYTES // INSTRUCTION_BYTES
CONSTANT_BITS = 32
"""Width of a constant: of a word of a constant bank."""
LINE_CONSTANTS = 8 * LINE_BYTES // CONSTANT_BITS
WORD_ADDRESS_BITS = LINE_ADDRESS_BITS + ceil_log2(LINE_CONSTANTS)
"""Width of the address of a 32-bit word."""
TAG_BITS = 1
"""Width of the memory port's tags: 0 for lines of the instruction cache, 1 for those of the
constant cache. Each has one line outstanding at most."""


class Place(data.Struct):
    """A pc: a group, and the instruction in it."""

    group: unsigned(GROUP_BITS)
    first: range(GROUP_INSTRUCTIONS)


class StoredInstruction(data.Struct):
    """An instruction in the cache, predecoded when its line came from memory."""

    word: unsigned(WORD_BITS)
    predecoded: Predecoded


class StoredGroup(data.Struct):
    """A group in the cache."""

    codes: unsigned(CODE_BITS * GROUP_INSTRUCTIONS)
    instructions: data.ArrayLayout(StoredInstruction, GROUP_INSTRUCTIONS)


class LineRequest(data.Struct):
    """A miss: the line that a cache requests from memory.

    Fields
    ------
    valid : 1
    line : LINE_ADDRESS_BITS
        Its address.
    """

    valid: unsigned(1)
    line: unsigned(LINE_ADDRESS_BITS)


def line_part() -> data.StructLayout:
    """A word of a line from memory. The words of a line follow each other, from number 0.

    Fields
    ------
    valid : 1
    constant : 1
        It is for the constant cache.
    line : LINE_ADDRESS_BITS
    number : range(LINE_WORDS)
        Of the word in its line.
    word : WORD_BITS
    error : 1
        Memory has no such line; the word means nothing.
    """
    return data.StructLayout({
        "valid": 1,
        "constant": 1,
        "line": LINE_ADDRESS_BITS,
        "number": range(LINE_WORDS),
        "word": WORD_BITS,
        "error": 1,
    })


def fetched(params: SmParams) -> data.StructLayout:
    """A group of a warp, before its constants are read."""
    return data.StructLayout({"warp": params.warp_bits, "place": Place, "group": StoredGroup})


def constant_reader(params: SmParams) -> data.StructLayout:
    """For whom a stage of the resolver looks up a word.

    Fields
    ------
    valid : 1
        There is a word to look up.
    is_indexed : 1
        The word is for the client of ``indexed``, not for the group.
    slot : range(GROUP_INSTRUCTIONS)
        The instruction of the group that reads the word.
    group : fetched
    is_last : 1
        The group leaves the resolver with this word. It may do so with a word of ``indexed``, or
        without a word, if it needs no more.
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
    """BANK to READ and to COMPARE: where the word is.

    Fields
    ------
    reader : constant_reader
    address : WORD_ADDRESS_BITS
        Of the word in memory.
    is_missing : 1
        The word is beyond the end of its bank, or there is no such bank.
    """
    return data.StructLayout({
        "reader": constant_reader(params),
        "address": WORD_ADDRESS_BITS,
        "is_missing": 1,
    })
