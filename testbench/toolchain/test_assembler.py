"""The assembly language: the output for each of its statements."""

import re
import textwrap

import pytest

import sim.toolchain.assembly.assembler
from rtl.isa.control_code import NO_BARRIER, ControlCode
from sim.launch import Scalar, prepare
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.assembly.control_text import control_text
from sim.toolchain.assembly.source import parse
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.cubin.loader import load
from sim.toolchain.cubin.nvinfo import Attribute, Record, RecordFormat, decode
from sim.toolchain.cubin.object_file import ObjectFile, info_name
from sim.toolchain.listing.code_listing import instructions
from sim.toolchain.module import EntryParameter, Module, Patch, PatchKind, ProgramError


def module(text: str) -> Module:
    """Assembles a program, writes the file and reads it again."""
    return load(read_object(write_object(assemble(text, "test.sass")), "test.sass"))


def texts(made: Module) -> list[str]:
    return [
        spell(word, address, code.reuse) for address, word, code in instructions(made.code.content)
    ]


def codes(text: str) -> list[ControlCode]:
    return [code for _, _, code in instructions(module(text).code.content)]


def words(content: bytes) -> list[int]:
    return [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]


def records(file: ObjectFile, kernel: str) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for record in decode(file.sections[info_name(kernel)].content):
        found.setdefault(record.attribute, []).append(record)
    return found


def example() -> str:
    match = re.search(r"::\n\n(.*?)\n\n===", sim.toolchain.assembly.assembler.__doc__ or "", re.S)
    assert match is not None
    return textwrap.dedent(match[1])


def test_the_example_of_the_manual():
    made = module(example())
    kernel = made.kernel()
    assert (kernel.name, kernel.entry, kernel.registers, kernel.barriers) == ("increment", 0, 5, 0)
    assert kernel.parameters == (
        EntryParameter(0, 0, 8),
        EntryParameter(1, 8, 8),
        EntryParameter(2, 16, 4),
    )
    assert texts(made)[1] == "ISETP.GE.U32.AND P0, PT, R0, c[0x0][0x150], PT"
    assert texts(made)[10:] == ["EXIT", "BRA 0x78"]
    prepare(made, [Scalar(0, 8), Scalar(0, 8), Scalar(1, 4)])


def test_the_shortest_kernel():
    made = module(".kernel k; EXIT")
    assert texts(made) == ["EXIT", "BRA 0x10", "NOP", "NOP", "NOP", "NOP"]
    assert made.kernel().registers == 0


def test_comments_and_line_ends():
    made = module(".kernel k // one\r\n# two ; three\nNOP; NOP /* four\n EXIT\n*/ ; EXIT")
    assert texts(made)[:3] == ["NOP", "NOP", "EXIT"]


def test_labels_go_by_their_group():
    """A label before a group's first instruction has the group's address, others that of their
    instruction.
    """
    made = module(".kernel k\nA: BRA A\nB: BRA B\nC: BRA C\nD: BRA D\nE: BRA F\nF:")
    assert texts(made)[:6] == [
        "BRA 0x0",
        "BRA 0x10",
        "BRA 0x18",
        "BRA 0x20",
        "BRA 0x38",
        "BRA 0x38",
    ]


def test_parameters_are_aligned_by_their_size():
    made = module(
        ".kernel k\n.param a 1\n.param b 2\n.param c 8\n.param d 12 at 0x20\n.param e 4\n"
        "MOV R0, c[0][e]\nEXIT"
    )
    assert [(entry.offset, entry.size) for entry in made.kernel().parameters] == [
        (0, 1),
        (2, 2),
        (8, 8),
        (0x20, 12),
        (0x2C, 4),
    ]
    assert texts(made)[0] == "MOV R0, c[0x0][0x16c]"


def test_shared_memory_and_its_names():
    made = module(
        ".kernel k\n.shared a 10\n.shared 4\n.shared b 16 align 16\nLDS R0, [R1+b+4]\nMOV R2, b\nEXIT"
    )
    assert made.kernel().shared == 32
    assert texts(made)[:2] == ["LDS R0, [R1+0x14]", "MOV R2, 0x10"]


def test_constants_of_a_kernel_and_of_all():
    made = module("""
        .const factors
            .word 3, 5
            .half 7, -1
        .const 3 more align 16
            .dword 0x1122334455667788
        .kernel k
        .const 2
            .word L, f, L+4, 9
        .const 2 own
            .byte 1, 2, 3
            .zero 2
            IMUL R0, R0, c[0x3][factors+4]
            LDC R1, c[0x3][R2+more]
            LDC.U8 R2, c[0x2][own+1]
        L:  NOP
            EXIT
        .function f
            RET
    """)
    kernel = made.kernel()
    assert words(kernel.constants[2].content[:16]) == [0x20, 0x38, 0x24, 9]
    assert kernel.constants[2].content[16:] == bytes((1, 2, 3, 0, 0))
    assert made.constants[3].content == bytes.fromhex(
        "03000000 05000000 0700ffff 00000000 8877665544332211"
    )
    assert made.constants[3].symbols == {"factors": 0, "more": 16}
    assert texts(made)[:3] == [
        "IMUL R0, R0, c[0x3][0x4]",
        "LDC R1, c[0x3][R2+0x10]",
        "LDC.U8 R2, c[0x2][0x11]",
    ]


def test_global_variables_and_their_addresses():
    made = module("""
        .global counter 4
        .global table visible
            .word counter, 5, k_table+8
            .dword counter-4
        .global k_table 16 align 32
        .kernel k
            MOV32I R0, 32@lo(counter)
            MOV32I R1, 32@hi(counter+8)
            MOV32I R2, 32@lo(table)
            EXIT
    """)
    assert made.data.symbols == {"table": 0, "counter": 32, "k_table": 64}
    assert words(made.data.content[:12]) == [0, 5, 0]
    assert made.data.patches == (
        Patch(0, PatchKind.WORD, "counter"),
        Patch(8, PatchKind.WORD, "k_table", 8),
        Patch(12, PatchKind.DOUBLE_WORD, "counter", -4),
    )
    assert made.code.patches == (
        Patch(0x8, PatchKind.IMMEDIATE_LOW, "counter"),
        Patch(0x10, PatchKind.IMMEDIATE_HIGH, "counter", 8),
        Patch(0x18, PatchKind.IMMEDIATE_LOW, "table"),
    )


@pytest.mark.parametrize(
    ("directive", "size"), [(".byte", 1), (".half", 2), (".word", 4), (".dword", 8)]
)
def test_a_value_fits_its_directive_with_or_without_a_sign(directive, size):
    least, most = -(1 << 8 * size - 1), (1 << 8 * size) - 1
    made = module(f".global v\n {directive} {least}, {most}, -1\n.kernel k\n EXIT")
    assert made.data.content[: 3 * size] == least.to_bytes(size, "little", signed=True) + (
        b"\xff" * 2 * size
    )
    for outside in (least - 1, most + 1):
        with pytest.raises(ProgramError, match=f"does not fit {size} bytes"):
            module(f".global v\n {directive} {outside}\n.kernel k\n EXIT")


def test_functions_inside_a_kernel():
    made = module("""
        .global entries
            .word f, g
        .kernel k
        .local 24
            CAL f
            MOV32I R3, g
            PRET L
            BRX R3 -.next
        L:  EXIT
        .function f
        .frame 8
            RET
        .function g weak
            CAL f
            RET
    """)
    assert made.code.symbols == {"k": 0, "f": 0x38, "g": 0x40}
    assert words(made.data.content) == [0x38, 0x40]
    assert texts(made)[:5] == ["CAL 0x38", "MOV32I R3, 0x40", "PRET 0x30", "BRX R3 -0x30", "EXIT"]
    assert made.kernel().local == 24


def test_functions_of_their_own():
    made = module("""
        .kernel k
            JCAL f
            JCAL inner
            JMP L+8
            MOV32I R0, 32@lo(f)
        L:  EXIT
        .function inner
            RET
        .end
        .function f
        .registers 40
        .barriers 3
            JCAL f
            RET
        .kernel other
            BRA L
        L:  EXIT
        .global pointers
            .word f, 0
    """)
    k, other = made.kernels["k"], made.kernels["other"]
    assert made.code.symbols == {"k": 0, "inner": 0x38, "f": 0x80, "other": 0xC0, ".text.k": 0}
    assert (k.entry, other.entry, k.registers, other.barriers) == (0, 0xC0, 40, 3)
    assert made.code.patches == (
        Patch(0x8, PatchKind.IMMEDIATE_LOW, "f"),
        Patch(0x10, PatchKind.IMMEDIATE_LOW, "inner"),
        Patch(0x18, PatchKind.IMMEDIATE_LOW, ".text.k", 0x38),
        Patch(0x28, PatchKind.IMMEDIATE_LOW, "f"),
        Patch(0x88, PatchKind.IMMEDIATE_LOW, "f"),
    )
    assert made.data.patches == (Patch(0, PatchKind.WORD, "f"),)


def test_numbers_of_registers_and_barriers_are_found():
    made = module(
        ".kernel k\nLDG.E.128 R8, [R20]\nBAR.SYNC 0x3\nEXIT\n.kernel l\nBAR.SYNC R2\nEXIT"
    )
    assert (made.kernels["k"].registers, made.kernels["k"].barriers) == (22, 4)
    assert made.kernels["l"].barriers == 16


def test_given_numbers_stand():
    kernel = module(
        ".kernel k\n.registers 32\n.barriers 2\n.crs 0x200\n.local 64\n.frame 16\nEXIT"
    ).kernel()
    assert (kernel.registers, kernel.barriers, kernel.crs, kernel.local) == (32, 2, 0x200, 64)


def test_records_for_the_loader():
    file = assemble(
        """
        .kernel k
        .info MAXREG_COUNT half 32
        .info EXPLICIT_CACHING
        .info 0x5 32, 1, 1
            S2R R0, SR_CTAID.X
            S2R R1, SR_CTAID.Z
            SSY L
        .coop_group
            VOTE.ANY R2, PT, PT
            @P0 SYNC -> L
            BRX R3 -> L, 0x40
            BRX R3 -.next -> call
        L:  @P0 EXIT
            EXIT
    """,
        "test.sass",
    )
    found = records(file, "k")
    assert found[Attribute.MAXREG_COUNT] == [Record(Attribute.MAXREG_COUNT, RecordFormat.HALF, 32)]
    assert found[Attribute.EXPLICIT_CACHING] == [
        Record(Attribute.EXPLICIT_CACHING, RecordFormat.NONE)
    ]
    assert found[5] == [Record.sized(5, (32, 1, 1))]
    assert found[Attribute.S2RCTAID_INSTR_OFFSETS][0].words == (0x8, 0x10)
    assert Attribute.CTAIDZ_USED in found
    assert found[Attribute.COOP_GROUP_INSTR_OFFSETS][0].words == (0x28,)
    assert found[Attribute.EXIT_INSTR_OFFSETS][0].words == (0x50, 0x58)
    assert found[Attribute.INDIRECT_BRANCH_TARGETS][0].words == (
        0x30,
        0,
        1,
        0x50,
        0x38,
        0,
        2,
        0x50,
        0x40,
        0x48,
        1,
        0,
    )


def test_symbols_in_a_given_order():
    file = assemble(".symbols .text.k, a\n.global a 4\n.global b 4\n.kernel k\nEXIT", "test.sass")
    assert [symbol.name for symbol in file.symbols] == [
        "",
        ".text.k",
        "a",
        ".nv.global",
        "b",
        ".nv.constant0.k",
        "k",
    ]


def test_sections_that_are_carried():
    section = assemble(
        ".section .mine 0x70000077 align 8 entry 4\n.word 1, 2\n.kernel k\nEXIT", "t"
    ).sections[".mine"]
    assert (section.kind, section.alignment, section.entry_size, section.content) == (
        0x70000077,
        8,
        4,
        bytes((1, 0, 0, 0, 2, 0, 0, 0)),
    )


def test_control_codes_are_taken_as_they_are():
    found = codes(
        ".kernel k\n[B015:R2:W3:Y:S13] NOP\n[S4] NOP\n[B-1----:R-:W-:-:S00] NOP\n"
        "[R1] .raw 0x50b0000000070f00\n[U5:S2] IADD R0, R1, R2.reuse\nEXIT"
    )
    assert found[:5] == [
        ControlCode(13, 0, 3, 2, 0b100011),
        ControlCode(4),
        ControlCode(0, wait=0b10),
        ControlCode(1, read_barrier=1),
        ControlCode(2, reuse=7),
    ]


@pytest.mark.parametrize(
    "code",
    [
        ControlCode(0, 0, NO_BARRIER, NO_BARRIER, 0),
        ControlCode(15, 1, 0, 5, 0b111111),
        ControlCode(7, 0, 5, 0, 0b10101),
    ],
)
def test_control_codes_as_text_and_back(code):
    assert codes(f".kernel k\n{control_text(code)} NOP\nEXIT")[0] == code


def test_a_closed_end_is_left_alone():
    text = ".kernel k\n" + "[S5] NOP\n" * 4 + "[S5] EXIT\nL: [S5] BRA L"
    assert len(codes(text)) == 6


def test_a_name_means_the_nearest_thing():
    """Labels are local to their kernel, so that two kernels may use the same name."""
    made = module(".kernel a\nL: BRA L\n.kernel b\nNOP\nL: BRA L")
    assert texts(made)[0] == "BRA 0x0" and "BRA 0x50" in texts(made)


@pytest.mark.parametrize(
    "line",
    [
        "IADD R0, ~R1, -R2",
        "DEPBAR.LE SB0, {5,0}",
        "FADD R0, |R1|, -|R2|",
        "FADD R0, R1, -1e-05",
        "@!P0 BRA L1",
        "L1:",
        "[B------:R-:W3:-:S01] LDG.E R0, [R2+0x4]",
        ".raw 0x5",
        "[B------:R-:W3:-:S01] .raw 0x5",
        "LDC R0, c[0x3][R2+table+4]",
        "MOV32I R0, 32@lo(g-4)",
        "BRX R0 -> L1, L2",
        ".kernel k",
        ".param x 8 at 0x10",
        ".shared s 16",
        ".const 3",
        ".info 0x11 5",
        ".word 1, 2, g+4",
    ],
)
def test_a_statement_is_printed_as_it_is_written(line):
    (statement,) = parse(f"{line}\n")
    assert str(statement).strip() == line


@pytest.mark.parametrize("addend", [-1 << 63, (1 << 63) - 1])
def test_what_is_added_to_an_address_has_64_bits_with_a_sign(addend):
    text = f".global g 4\n.kernel k\nMOV32I R0, 32@lo(g{addend:+#x})\nEXIT\n"
    sections = assemble(text, "t.sass").sections.values()
    assert [each.addend for section in sections for each in section.relocations] == [addend]
