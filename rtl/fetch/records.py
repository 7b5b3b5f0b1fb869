"""What the stages of fetch hand to each other."""


from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2

from rtl.isa.control_code import CODE_BITS, GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from rtl.isa.syntax import WORD_BITS
from rtl.isa.tokens import LINE_BYTES
from rtl.params import SmParams

from .predecode import Predecoded

__all__ = [
    "GROUP_BITS",
    "LINE_GROUPS",
    "LINE_WORDS",
    "Place",
    "StoredGroup",
    "StoredInstruction",
    "fetched",
    "lookup",
]

GROUP_BITS = 32 - ceil_log2(GROUP_BYTES)
"""Width of a group's number: its pc without the bits that are 0."""
LINE_GROUPS = LINE_BYTES // GROUP_BYTES
LINE_WORDS = LINE_BYTES // INSTRUCTION_BYTES


class Place(data.Struct):
    """A pc: a group, and the instruction in it."""

    group: unsigned(GROUP_BITS)
    first: range(GROUP_INSTRUCTIONS)


class StoredInstruction(data.Struct):
    """An instruction in the cache: what it is was found out when its line came from memory."""

    word: unsigned(WORD_BITS)
    predecoded: Predecoded


class StoredGroup(data.Struct):
    """A group in the cache."""

    codes: unsigned(CODE_BITS * GROUP_INSTRUCTIONS)
    instructions: data.ArrayLayout(StoredInstruction, GROUP_INSTRUCTIONS)


def fetched(params: SmParams) -> data.StructLayout:
    """A group of a warp, its constants not yet read."""
    return data.StructLayout({"warp": params.warp_bits, "place": Place, "group": StoredGroup})


def lookup() -> data.StructLayout:
    """A word of a constant bank that is wanted: by an instruction of a group, ``slot``, or by the other client."""
    return data.StructLayout({
        "valid": 1, "indexed": 1, "slot": range(GROUP_INSTRUCTIONS), "bank": 5, "address": 32})
