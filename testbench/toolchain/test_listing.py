"""Which directives a listing has: those that say what the assembler does not find by itself."""

from dataclasses import replace

import pytest

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.nvinfo import Attribute, Record, RecordFormat
from sim.toolchain.cubin.object_file import Section, SectionKind, Symbol
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import ProgramError

from .objects import function, object_file, records, section

ALWAYS = [".kernel k", ".registers 0", ".barriers 0"]


def directives(text: str) -> list[str]:
    """The directives in the listing of a text, which is assembled to the same file again."""
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
    """Those of an unknown attribute whose payload is no whole words; those of others stay."""
    file = assemble(".kernel k\nEXIT", "t")
    info = file.sections[".nv.info.k"]
    odd = records(
        "odd",
        Record(0x99, RecordFormat.SIZED, payload=b"abc"),
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
