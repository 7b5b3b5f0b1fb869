"""Listings of an object file's constants and variables: directives, alignments, names, addresses."""

import pytest

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.object_file import Binding, Relocation, Section, Symbol
from sim.toolchain.cubin.relocation import RelocationKind
from sim.toolchain.listing.data_listing import data_lines, memory_lines, shared_line
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import ProgramError

from .objects import function, object_file, of_section, section, variable

KIND = RelocationKind
DATA = ".nv.global.init"


def lines(made: Section, *symbols: Symbol, labels: dict[int, str] | None = None) -> list[str]:
    """Returns the lines for all bytes of a section, without indentation."""
    file = object_file([made, section(".nv.constant3", bytes(16), 4)], *symbols)
    return [line.strip() for line in data_lines(file, made, 0, made.size, labels or {})]


def memory(made: Section, *symbols: Symbol, directive: str = ".global") -> list[str]:
    """Returns the directives of a section, without the values."""
    file = object_file([made], *symbols)
    return [line for line in memory_lines(file, made, directive, {}) if not line.startswith(" ")]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\1\2\3", [".byte 0x1, 0x2, 0x3"]),
        (b"\1\2\3\4\5", [".byte 0x1, 0x2, 0x3, 0x4", ".byte 0x5"]),
        (b"\1\2\3\4" * 2, [".word 0x4030201, 0x4030201"]),
        (b"\1\0\0\0" * 5, [".word 0x1, 0x1, 0x1, 0x1", ".word 0x1"]),
        (bytes(28), [".word 0x0, 0x0, 0x0, 0x0", ".word 0x0, 0x0, 0x0"]),
        (bytes(32), [".zero 0x20"]),
        (b"\1\0\0\0" + bytes(36) + b"\2\0\0\0", [".word 0x1", ".zero 0x24", ".word 0x2"]),
        (bytes(35) + b"\1", [".zero 0x20", ".word 0x1000000"]),
        (bytes(33), [".zero 0x20", ".byte 0x0"]),
        (bytes(34) + b"\1", [".zero 0x20", ".byte 0x0, 0x0, 0x1"]),
        (b"\1" + bytes(32), [".byte 0x1", ".zero 0x20"]),
    ],
)
def test_bytes_are_words_where_they_are_whole_ones_and_many_zeros_a_number(content, text):
    """A line has four values; zeros are one number from 32 bytes on."""
    assert lines(section(DATA, content)) == text


def test_words_that_are_places_in_code_have_names():
    made = section(".nv.constant2.k", b"\x08\0\0\0\x10\0\0\0\x18\0\0\0")
    assert lines(made, labels={8: ".L1", 0x18: ".L2"}) == [".word .L1, 0x10, .L2"]


@pytest.mark.parametrize(
    ("kind", "addend", "text"),
    [
        (KIND.DATA_32, 4, [".word v+0x4, 0x11111111"]),
        (KIND.DATA_32, -4, [".word v-0x4, 0x11111111"]),
        (KIND.DATA_32, None, [".word v+0x11111111, 0x11111111"]),
        (KIND.DATA_64, 0, [".dword v"]),
        (KIND.GENERIC_64, 0, [".dword v"]),
        (KIND.DATA_8_16, 1, [".byte 8@16(v+0x1), 0x11, 0x11, 0x11", ".byte 0x11, 0x11, 0x11, 0x11"]),
        (KIND.DATA_8_8, None, [".byte 8@8(v+0x1100), 0x11, 0x11, 0x11", ".byte 0x11, 0x11, 0x11, 0x11"]),
        (KIND.NONE, 0, [".word 0x11111111, 0x11111111"]),
        (KIND.UNUSED_CLEAR32, 0, [".word 0x11111111, 0x11111111"]),
    ],
)  # fmt: skip
def test_a_place_that_is_completed_has_the_name_that_it_gets_the_address_of(kind, addend, text):
    made = section(DATA, b"\x11" * 8, 8, Relocation(0, kind, 1, addend))
    assert lines(made, variable("v", DATA)) == text


@pytest.mark.parametrize(
    "data",
    [
        ".byte 1, 0, 0, 0\n.zero 32\n.word v\n.byte 9",
        ".word 1\n.zero 32\n.dword v",
        ".byte 8@0(v), 1, 2, 3, 4, 5, 6, 7",
        ".byte 8@0(v), 1, 2, 3\n.word v+1",
        ".word 1\n.byte 8@0(v), 0, 0, 0\n.zero 64\n.byte 8@8(v), 8@16(v), 0, 0",
        ".dword generic(c+4), v\n.word generic(c)",
    ],
)
def test_addresses_among_other_bytes_stay_at_their_places(data):
    text = f".const 3 c\n.word 5\n.global v\n.word 7\n.global w\n{data}\n.kernel k\nEXIT"
    file = assemble(text, "t")
    assert assemble(listing(file), "t").sections[DATA] == file.sections[DATA]


def test_an_address_goes_by_the_last_name_before_it_in_a_section():
    """The relocation names the section itself, with an offset."""
    symbols = (
        of_section(DATA), variable("first", DATA, 0, 8), variable("last", DATA, 8, 8),
        variable("other", ".nv.global", 4),
    )  # fmt: skip
    for addend, text in ((0, "first"), (7, "first+0x7"), (8, "last"), (0x1C, "last+0x14")):
        made = section(DATA, bytes(16), 8, Relocation(0, KIND.DATA_64, 1, addend))
        assert lines(made, *symbols)[0] == f".dword {text}"


@pytest.mark.parametrize(
    ("symbols", "name"),
    [
        ([of_section(DATA)], ""),
        ([of_section(DATA), variable("late", DATA, 8)], ""),
        ([variable("v", None)], "v"),
        ([of_section(DATA), function("f"), variable("v", ".nv.global")], ""),
    ],
)
def test_an_address_without_a_name_is_refused(symbols, name):
    made = section(DATA, bytes(16), 8, Relocation(0, KIND.DATA_64, 1, 4))
    with pytest.raises(ProgramError) as caught:
        lines(made, *symbols)
    assert str(caught.value) == f"x: symbol {name or DATA} is not defined"


def test_an_address_of_a_constant_is_generic_where_the_kind_says_so():
    symbols = (variable("c", ".nv.constant3", 4), variable("v", DATA))
    for kind, symbol, text in (
        (KIND.GENERIC_64, 1, "generic(c+0x4)"), (KIND.DATA_64, 1, "c+0x4"), (KIND.GENERIC_64, 2, "v+0x4")
    ):  # fmt: skip
        made = section(DATA, bytes(8), 8, Relocation(0, kind, symbol, 4))
        assert lines(made, *symbols) == [f".dword {text}"]


def test_variables_are_in_the_order_of_their_places_with_what_is_between_them():
    """Padding is omitted, and nonzero bytes outside of all variables get a name; of two variables
    at one address the longer one is listed.
    """
    content = bytes(4) + b"\1" * 4 + bytes(8) + b"\2" * 4 + bytes(4) + b"\3"
    symbols = (
        variable("b", DATA, 8, 8), variable("inner", DATA, 10, 2), variable("a", DATA, 0, 4),
        variable("short", DATA, 0, 2), variable("elsewhere", ".nv.global", 0, 4), function("f", 0, DATA),
    )  # fmt: skip
    own = [".global a align 8", ".global .nameless_0x4", ".global b"]
    for end, rest in ((21, [".global .nameless_0x10"]), (18, [".global .nameless_0x10"]), (16, [])):
        assert memory(section(DATA, content[:end], 8), *symbols) == own + rest
    assert memory(section(DATA, bytes(24), 8), *symbols) == [own[0], own[2]]


def test_the_end_of_a_bank_stays_though_it_is_nobodys():
    """It defines the size of the bank; the same applies to a bank without variables."""
    made = section(".nv.constant2", bytes(12), 4)
    assert memory(made, variable("a", ".nv.constant2", 0, 4), directive=".const 2") == [
        ".const 2 a", ".const 2 align 4",
    ]  # fmt: skip
    assert memory(made, directive=".const 2") == [".const 2"]
    assert memory(section(".nv.constant2", b"", 4), directive=".const 2") == []


@pytest.mark.parametrize(
    ("size", "place", "alignment", "text"),
    [
        (4, 0, 4, ""), (8, 0, 8, ""), (1, 0, 4, ""), (1, 0, 1, ""), (3, 0, 4, ""),
        (4, 0, 8, " align 8"), (4, 0, 256, " align 256"), (8, 0, 16, " align 16"),
        (4, 4, 4, " at 0x4"), (4, 12, 16, " align 16 at 0xc"), (16, 0, 4, " align 4"), (8, 0, 4, " align 4"),
    ],
)  # fmt: skip
def test_alignments_and_places_are_told_where_they_are_not_those_of_the_size(size, place, alignment, text):  # fmt: skip
    made = section(".nv.global", place + size, alignment)
    found = memory(made, variable("v", ".nv.global", place, size))
    assert found == [f".global v {size:#x}{text}"]


@pytest.mark.parametrize(
    ("binding", "text"),
    [(Binding.LOCAL, ""), (Binding.GLOBAL, " visible"), (Binding.WEAK, " weak")],
)
def test_a_variable_has_its_binding_unless_it_is_local(binding, text):
    symbol = variable("v", ".nv.global", binding=binding)
    assert memory(section(".nv.global", 4, 4), symbol) == [f".global v 0x4{text}"]


@pytest.mark.parametrize(
    ("size", "alignment", "text"),
    [
        (64, 16, ".shared 0x40 align 16"), (64, 8, ".shared 0x40"), (64, 4, ".shared 0x40 align 4"),
        (4, 4, ".shared 0x4"),
        (1, 4, ".shared 0x1"), (1, 1, ".shared 0x1 align 1"), (12, 4, ".shared 0xc"), (8, 8, ".shared 0x8"),
        (0, 4, ".shared 0x0"),
    ],
)  # fmt: skip
def test_shared_memory_has_the_alignment_of_its_size_or_its_own(size, alignment, text):
    assert shared_line(section(".nv.shared.k", size, alignment)) == text
