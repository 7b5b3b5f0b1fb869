"""Directives of a listing: only those that the assembler can't derive."""

from dataclasses import replace

import pytest

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.cubin.nvinfo import Attribute, Record, RecordFormat, decode
from sim.toolchain.cubin.object_file import ObjectFile, Section, SectionKind, Symbol
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import ProgramError

from .objects import function, object_file, records, section

ALWAYS = [".kernel k", ".registers 0", ".barriers 0"]


def directives(text: str) -> list[str]:
    """Returns the directives in the listing of a text, which must be assembled to the same file
    again.
    """
    file = assemble(text, "t")
    shown = listing(file)
    again = assemble(shown, "t")
    assert (again.sections, again.symbols) == (file.sections, file.symbols)
    return [line for line in shown.splitlines() if line.startswith(".") and not line.endswith(":")]


@pytest.mark.parametrize(
    "line",
    [
        ".local 0x30",
        ".crs 0x20",
        ".param p0 8",
        ".param p0 4 at 0x10",
        ".info MAX_THREADS 0x20, 0x1, 0x1",
        ".info MAXREG_COUNT half 0x10",
        ".info 0x99 byte 0x3",
        ".info 0x98 0x1, 0x2",
        ".info EXPLICIT_CACHING",
        ".info FRAME_SIZE k, 0x10",
        ".shared 0x40 align 32",
        ".shared 0x40",
    ],
)
def test_what_a_kernel_says_stays(line):
    assert directives(f".kernel k\n{line}\nEXIT") == [*ALWAYS, line]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (".frame 0x10", [".local 0x10"]),
        (".local 0x10\n.frame 0x10", [".local 0x10"]),
        (".local 0x30\n.frame 0x10", [".local 0x30", ".frame 0x10"]),
        (".local 0x30\n.frame 0", [".local 0x30", ".frame 0x0"]),
        (".local 0\n.frame 0x10", [".local 0x0", ".frame 0x10"]),
        (".local 0\n.frame 0", []),
        (".crs 0", []),
        (".info MAXREG_COUNT half 0xff", []),
        (".param a 8\n.param b 4\n.param c 8", [".param p0 8", ".param p1 4", ".param p2 8"]),
        (".param a 4\n.param b 8 at 4", [".param p0 4", ".param p1 8 at 0x4"]),
        (".param a 12\n.param b 4", [".param p0 12", ".param p1 4"]),
        (".param a 8 at 8\n.param b 8 at 0", [".param p0 8 at 0x8", ".param p1 8 at 0x0"]),
    ],
)
def test_what_the_assembler_finds_by_itself_is_left_out(line, text):
    assert directives(f".kernel k\n{line}\nEXIT") == ALWAYS + text


def test_functions_within_a_kernel_and_beside_it_have_their_bindings_and_stacks():
    text = (
        ".kernel k weak\n.registers 9\n.barriers 3\nEXIT\n.function inner weak\n.local 0x8\nRET\n"
        ".function last\nRET\n.end\n.function g visible\n.frame 4\nRET\n.kernel j\nEXIT"
    )
    assert directives(text) == [
        ".kernel k weak", ".registers 9", ".barriers 3", ".function inner weak", ".local 0x8",
        ".function last", ".end", ".function g visible", ".registers 0", ".barriers 0", ".local 0x4",
        ".kernel j", ".registers 0", ".barriers 0",
    ]  # fmt: skip


def test_the_order_of_symbols_is_said_where_it_is_another():
    file = assemble(".global a 4\n.global b 4\n.kernel k\nEXIT", "t")
    assert ".symbols" not in listing(file)
    names = [symbol.name for symbol in file.symbols]
    a, b = names.index("a"), names.index("b")
    order = list(range(len(names)))
    order[a], order[b] = b, a
    turned = replace(file, symbols=tuple(file.symbols[at] for at in order))
    first, *_ = listing(turned).splitlines()
    assert first == f".symbols {', '.join(names[at] for at in order[1:])}"
    again = assemble(listing(turned), "t").symbols
    assert [symbol.name for symbol in again] == [names[at] for at in order]


@pytest.mark.parametrize("name", ["a-b", "1a", "", "a,b", "ä", "a b"])
def test_names_that_are_none_in_a_text_are_refused(name):
    code = section(".text.k", bytes(32), 32)
    made = section(f".mine{name}", b"")
    symbols = (function("k", entry=True), replace(function(name), section=".text.k"))
    with pytest.raises(ProgramError) as caught:
        listing(object_file([code], *symbols))
    assert str(caught.value) == f"x: the name {name!r} can't be written in assembly text"
    if name not in ("", "1a"):
        with pytest.raises(ProgramError, match=r"^x: the name '\.mine"):
            listing(object_file([code, made], symbols[0]))


@pytest.mark.parametrize("name", ["A.b_$9?", "_a", "$x", ".y"])
def test_names_of_letters_digits_and_some_signs_stay(name):
    file = assemble(f".global {name} 4\n.kernel k\nEXIT", "t")
    assert f".global {name} 0x4\n" in listing(file)


def test_a_name_of_what_is_elsewhere_may_be_any():
    file = assemble(".kernel k\nEXIT", "t")
    symbols = (*file.symbols, Symbol("a b", 1, 1, None))
    assert listing(replace(file, symbols=symbols)) == listing(file)


def test_records_that_no_text_can_have_are_left_out():
    """They have an unknown attribute and a payload that is no multiple of a word; others are kept."""
    file = assemble(".kernel k\nEXIT", "t")
    info = file.sections[".nv.info.k"]
    odd = records(
        "odd",
        Record(0x99, RecordFormat.SIZED, payload=b"abc"),
        Record(0x99, RecordFormat.SIZED, payload=b"abcd"),
        Record(0x9A, RecordFormat.SIZED, payload=b"abcd"),
        Record(Attribute.CTAIDZ_USED, RecordFormat.NONE),
    ).content
    content = info.content + odd
    changed = Section(info.name, SectionKind.CUDA_INFO, 0, content, len(content), 1)
    found = listing(replace(file, sections={**file.sections, info.name: changed}))
    lines = [line for line in found.splitlines() if line.startswith(".info")]
    assert lines == [".info 0x9a 0x64636261", ".info CTAIDZ_USED"]


@pytest.mark.parametrize("size", [8, 31, 33])
def test_code_that_is_no_whole_groups_is_refused(size):
    code = section(".text.k", bytes(size), 32)
    with pytest.raises(ProgramError) as caught:
        listing(object_file([code], function("k", entry=True)))
    assert str(caught.value) == (f"x: .text.k has {size} bytes, which are no whole groups of 32")


STACKS = """\
.kernel k
.local 0x30
.frame 0x10
CAL g
EXIT
.function g
.local 8
RET
.end
.function h
.local 4
RET
.kernel j
EXIT"""
BOTH = (Attribute.MIN_STACK_SIZE, Attribute.FRAME_SIZE)


def information(file: ObjectFile) -> list[Record]:
    """Returns the records about the whole file."""
    return decode(file.sections[".nv.info"].content)


def with_records(file: ObjectFile, made: list[Record], name: str = ".nv.info") -> ObjectFile:
    """Returns a file whose section of this name has these records."""
    return replace(file, sections={**file.sections, name: records(name, *made)})


def of_function(name: str, file: ObjectFile, attribute: int, record: Record) -> bool:
    """Returns whether a record has this attribute and is about a function of this name."""
    return record.attribute == attribute and file.symbols[record.words[0]].name == name


@pytest.mark.parametrize(
    ("name", "missing", "lines"),
    [
        ("k", BOTH[:1], [".local 0x10", ".local 0x8", ".local 0x4"]),
        ("k", BOTH[1:], [".local 0x30", ".frame 0x0", ".local 0x8", ".local 0x4"]),
        ("k", BOTH, [".local 0x8", ".local 0x4"]),
        ("g", BOTH[:1], [".local 0x30", ".frame 0x10", ".local 0x8", ".local 0x4"]),
        ("g", BOTH[1:], [".local 0x30", ".frame 0x10", ".local 0x8", ".frame 0x0", ".local 0x4"]),
        ("g", BOTH, [".local 0x30", ".frame 0x10", ".local 0x4"]),
        ("h", BOTH[:1], [".local 0x30", ".frame 0x10", ".local 0x8", ".local 0x4"]),
        ("h", BOTH[1:], [".local 0x30", ".frame 0x10", ".local 0x8", ".local 0x4", ".frame 0x0"]),
        ("h", BOTH, [".local 0x30", ".frame 0x10", ".local 0x8"]),
        ("j", BOTH, [".local 0x30", ".frame 0x10", ".local 0x8", ".local 0x4"]),
    ],
)
def test_of_a_function_without_a_record_of_its_stack_the_listing_has_what_the_others_say(
    name, missing, lines
):
    """The whole stack has the frame's size, and a frame without a record is omitted. All existing
    records are kept.
    """
    file = assemble(STACKS, "t")
    kept = [
        record
        for record in information(file)
        if not any(of_function(name, file, attribute, record) for attribute in missing)
    ]
    shown = listing(with_records(file, kept))
    assert [line for line in shown.splitlines() if line.startswith((".local", ".frame"))] == lines
    again = information(assemble(shown, "t"))
    assert sorted(again, key=repr) == sorted(kept, key=repr)


@pytest.mark.parametrize(("is_relocatable", "local"), [(False, 0xFFFF_FFFF), (True, 0x10 + 8 + 4)])
def test_a_linked_kernel_that_does_not_know_its_stack_has_the_frames_of_all_functions(
    is_relocatable, local
):
    file = assemble(STACKS, "t")
    (index,) = (index for index, symbol in enumerate(file.symbols) if symbol.name == "k")
    unknown = [
        Record.sized(record.attribute, (index, 0xFFFF_FFFF))
        if of_function("k", file, Attribute.MIN_STACK_SIZE, record)
        else record
        for record in information(file)
    ]
    shown = listing(replace(with_records(file, unknown), relocatable=is_relocatable))
    assert f".kernel k\n.registers 0\n.barriers 0\n.local {local:#x}\n.frame 0x10\n" in shown


@pytest.mark.parametrize(
    "line",
    [
        ".info 0x98 0x1, 0x2",
        ".info CUDA_API_VERSION 0x76",
        ".info MAX_STACK_SIZE k, 0x10",
        ".info 0x99 byte 0x3",
        ".info MAXREG_COUNT half 0x10",
        ".info EXPLICIT_CACHING",
    ],
)
def test_what_is_said_of_the_whole_file_stands_before_the_first_kernel(line):
    assert directives(f"{line}\n.kernel k\nEXIT") == [line, *ALWAYS]


def test_records_of_code_that_is_not_there_are_left_out_and_those_behind_them_stay():
    """A section about a function without code is not assembled."""
    file = assemble(".kernel k\nEXIT\n.kernel j\nEXIT", "t")
    odd = [Record.sized(0x98, (1,))]
    for name in ("k", "j"):
        made = decode(file.sections[f".nv.info.{name}"].content) + odd
        file = with_records(file, made, f".nv.info.{name}")
    gone = records(".nv.info.gone", *odd)
    shown = listing(replace(file, sections={gone.name: gone, **file.sections}))
    assert shown.count(".info 0x98 0x1\n") == 2
    assert ".info 0x98 0x1\n" in shown.partition(".kernel j")[2]
    assert "gone" not in shown


@pytest.mark.parametrize("bit", [0, 1, 2])
def test_words_that_assemble_to_others_are_numbers_in_the_section_that_has_them(bit):
    """The bits are not part of the instruction's form: only that instruction is written as a
    number.
    """
    file = assemble(
        ".kernel k\nNOP\nIADD R0, R1, R2\nEXIT\n.kernel j\nNOP\nIADD R0, R1, R2\nEXIT", "t"
    )
    assert ".raw" not in listing(file)
    code = file.sections[".text.j"]
    content = bytearray(code.content)
    word = int.from_bytes(content[16:24], "little") | 1 << 40 + bit
    content[16:24] = word.to_bytes(8, "little")
    changed = replace(
        file, sections={**file.sections, code.name: replace(code, content=bytes(content))}
    )
    assert spell(word) == "IADD R0, R1, R2"
    shown = listing(changed)
    first, second = shown.split(".kernel j")
    assert ".raw" not in first
    assert [line.split(".raw ")[1] for line in second.splitlines() if ".raw" in line] == [
        f"{word:#018x}  // IADD R0, R1, R2"
    ]
    assert assemble(shown, "t").sections == changed.sections


def test_records_about_functions_that_are_elsewhere_are_left_out():
    """No text can name them; therefore all records of the attribute are derived by the assembler."""
    file = assemble(STACKS, "t")
    outside = replace(file, symbols=(*file.symbols, Symbol("outside", 1, 1, None)))
    odd = [
        Record.sized(Attribute.FRAME_SIZE, (len(file.symbols), 4)),
        Record.sized(Attribute.MAX_STACK_SIZE, (1, 4)),
    ]
    shown = listing(with_records(outside, [*information(file), *odd]))
    lines = [line for line in shown.splitlines() if line.startswith(".info")]
    assert all(line.startswith(".info MAX_STACK_SIZE ") for line in lines) and len(lines) == 5
