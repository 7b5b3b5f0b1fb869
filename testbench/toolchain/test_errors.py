"""Every message about invalid text, and the reactions of the commands to invalid input."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Token

from sim import asm, dis
from sim.toolchain.assembly.assembler import assemble, read_sass
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.grammar import SourceError, part_of
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import ProgramError
from testbench.programs import PROGRAMS
from testbench.refusal import refused

BEFORE = ".global g 4\n.const 3 con\n.word 7\n.function f\nRET\n.kernel k\n"
LINE = BEFORE.count("\n") + 1


@pytest.mark.parametrize(
    ("place", "line", "column"),
    [
        (Token("NAME", "x", line=7, column=3), 7, 3),
        (Token("NAME", "x", line=7), 7, 1),
        (Token("NAME", "x", column=3), 1, 3),
        (Token("NAME", "x"), 1, 1),
    ],
)
def test_an_error_in_a_text_is_at_its_place_or_where_nothing_is_known_at_the_beginning(
    place, line, column
):
    error = SourceError(place, "what is wrong")
    assert (str(error), error.line, error.column) == ("what is wrong", line, column)


def test_a_part_of_a_token_is_behind_its_beginning():
    """Columns are counted from 1, also if the column of the token is unknown."""
    token = Token("NAME", "R1.reuse", line=7, column=3)
    part = part_of(token, "SUFFIX", "reuse", 3)
    assert (part, part.type, part.line, part.column) == ("reuse", "SUFFIX", 7, 6)
    assert part_of(Token("NAME", "R1.reuse"), "SUFFIX", "reuse", 3).column == 4


def message(text: str) -> str:
    with pytest.raises(ProgramError) as caught:
        assemble(text, "t.sass")
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        # mnemonics
        ("FOO R0", 1, "unknown instruction FOO"),
        ("IADD.FOO R0, R1, R2", 1, "IADD has no modifier .FOO here: expected .PO, .SAT, .X"),
        ("ISETP.GE.AND.U32 P0, PT, R0, R1, PT", 1, "ISETP.GE.AND has no modifier .U32 here"),
        (
            "ISETP.GE P0, PT, R0, R1, PT",
            1,
            "ISETP.GE lacks a modifier: expected .AND, .OR, .U32, .X, .XOR",
        ),
        ("NOP NOP", 5, "NOP is not defined"),
        # number of operands
        ("IADD R0, R1", 1, "IADD takes 3 operands, not 2"),
        ("MOV R0, R1, 0x1, R2", 1, "MOV takes 2 to 3 operands, not 4"),
        ("CCTL.IVALL [R0]", 1, "CCTL.IVALL takes 0 operands, not 1"),
        # kinds of operands
        ("IADD R0, [R1], R2", 11, "expected a register"),
        ("IADD R0, R1, P0", 14, "expected a register or c[bank][offset] or a number"),
        ("LDG.E R0, R1", 11, "expected [register+offset]"),
        ("BRA R1", 5, "expected a label or c[bank][offset]"),
        ("BRX 0x40", 5, "expected a register or c[bank][offset]"),
        ("SEL R0, R1, R2, !R0", 17, "expected a predicate"),
        ("CSETP.LT.AND P0, PT, R0, PT", 22, "expected CC"),
        ("S2R R0, SR_FOO", 9, "expected a name such as SR_LANEID"),
        ("P2R R0, PT, R1, 0x1", 9, "expected PR or CC"),
        ("DEPBAR.LE R0, 0x1", 11, "expected SB0 or SB1 or SB2 or SB3 or SB4 or SB5"),
        ("DEPBAR 5", 8, "expected a set of scoreboards such as {3,0}"),
        # registers, predicates, their signs and suffixes
        ("IADD R0, R256, R1", 10, "there is no R256: R0 to R254, and RZ"),
        ("IADD R0, R1.H1, R2", 10, ".H1 means nothing here"),
        ("I2I.U32.U16 R0, R1.B1", 17, ".B1 means nothing here: expected .H1"),
        ("LDG.E R0.reuse, [R1]", 7, ".reuse means nothing here"),
        ("IADD R0, ~R1, R2", 10, "~ can't stand before a register here"),
        ("IADD.PO R0, -R1, R2", 13, "- can't stand before a register here"),
        ("ISETP.GE.AND !P0, PT, R0, R1, PT", 14, "a result can't be negated"),
        ("@R0 NOP", 2, "R0 is no predicate: P0 to P6, and PT"),
        ("@P0 SSY 0x40", 2, "SSY has no guard"),
        ("ATOM.E.CAS R0, [R2], R4, R6", 26, "R6 does not go with the operands before it"),
        ("IMAD32I R0, R1, 0x1, R2", 22, "R2 does not go with the operands before it"),
        ("DEPBAR {6}", 9, "there is no scoreboard 6"),
        # numbers
        ("IADD R0, R1, 0x80000", 14, "0x80000 is not in -0x80000..0x7ffff"),
        ("BAR.SYNC 0x100", 10, "0x100 does not fit 8 bits"),
        ("MOV32I R0, 0x100000000", 12, "0x100000000 does not fit 32 bits"),
        ("MOV R0, c[0x20][0x0]", 11, "0x20 does not fit 5 bits"),
        ("MOV R0, c[0x0][0x3]", 16, "0x3 does not fit 14 bits in steps of 4"),
        ("LDS R0, [R1+0x800000]", 10, "0x800000 is not in -0x800000..0x7fffff"),
        ("LDS R0, [0x1000000]", 10, "0x1000000 does not fit 24 bits"),
        ("BRA 0x1000000", 5, "0x1000000 is too far away"),
        (".raw 0x10000000000000000", 6, "0x10000000000000000 does not fit 64 bits"),
        # sums in brackets
        ("LDG.E R0, [R1.H1]", 12, "R1.H1 can't stand here"),
        ("LDG.E R0, [R1+R2]", 15, "R2 can't stand here"),
        ("LDG.E R0, [R1-R2]", 15, "R2 can't stand here"),
        ("MOV R0, c[0x0][R1]", 16, "R1 can't stand here"),
        # names
        ("IADD R0, R1, foo", 14, "foo is not defined"),
        ("BRA nowhere", 5, "nowhere is no label in k"),
        ("BRA f", 5, "f is not in k: only JMP and JCAL reach it"),
        ("JMP nowhere", 5, "nowhere has no address"),
        (f"MOV32I R0, {'1' * 5000}", 12, "a number of 5000 characters is too large"),
        ("MOV32I R0, 0828", 12, "0828 is no number: a decimal one does not start with 0"),
        (f"MOV R{'1' * 5000}, R0", 5, "a number of 5000 characters is too large"),
        (
            "MOV32I R0, g",
            12,
            "g has an address, which is not known yet: expected 32@lo(g) and 32@hi(g)",
        ),
        ("MOV32I R0, 32@lo(con)", 18, "con has no address"),
        ("MOV32I R0, 32@lo(5)", 18, "expected a name, and numbers added to it"),
        ("MOV R0, 32@lo(g)", 9, "32@lo needs an instruction with a 32-bit number"),
        ("NOP -> nowhere", 8, "nowhere is no label in k"),
        ("R5: NOP", 1, "R5 can't be defined: it has a meaning already"),
        (".next: NOP", 1, ".next can't be defined: it has a meaning already"),
        ("L: NOP; L: NOP", 9, f"L is defined twice, first in line {LINE}"),
        (".global g 8", 9, "g is defined twice, first in line 1"),
        (".function k", 11, f"k is defined twice, first in line {LINE - 1}"),
        (".param PT 8", 8, "PT can't be defined: it has a meaning already"),
        # control codes
        (
            "[B6] NOP",
            1,
            "control codes [B6]: B6 is no part of them, or stands twice: expected B, R, W, Y and S, such as "
            "[B01:R2:W3:Y:S5]",
        ),
        (
            "[B0:B1] NOP",
            1,
            "control codes [B0:B1]: B1 is no part of them, or stands twice: expected B, R, W, Y and S, "
            "such as [B01:R2:W3:Y:S5]",
        ),
        ("[S16] NOP", 1, "control codes [S16]: a stall of 16 cycles is not in 0..15"),
        ("[U16] NOP", 1, "control codes [U16]: reuse bits 16 are not in 0..15"),
        (
            "[S1] MOV R0, RZ; IADD R1, R0, R0",
            18,
            "this instruction must come 5 cycles later: the control codes before it "
            "do not stall for long enough",
        ),
        (
            "[S1] LDG R0, [R2]; MOV R1, R0",
            20,
            "this instruction must wait for an earlier one whose control codes name no "
            "scoreboard: give it one, or leave them to the assembler",
        ),
        (
            "LDG R0, [R2]; [S1] MOV R1, R0",
            20,
            "this instruction must wait for an earlier one without control codes, for "
            "which its own do not: leave them to the assembler",
        ),
        # directives
        (".foo 3", 1, "unknown directive .foo"),
        (".word 5", 1, ".word belongs to nothing: expected .const or .global before it"),
        (".const 0; .word 5", 8, "bank 0 holds the parameters: expected another one"),
        (".global v", 9, "v has neither a size nor data"),
        (".global v; .byte 256", 18, "0x100 does not fit 1 bytes"),
        (
            ".global v; .byte g",
            18,
            "g has an address, for which .byte has no room: expected .word or .dword",
        ),
        (".global v; .word g+con", 18, "expected one address, and numbers added to it"),
        (".global v; .word -g", 19, "expected one address, and numbers added to it"),
        (".global v; .word nosuch", 18, "nosuch is not defined"),
        (".global v; .zero con", 18, "expected a number of bytes"),
        (".global v; .zero 0x20000000", 18, "0x20000000 bytes are too many: 0x10000000 at most"),
        (".shared 8 align 3", 17, "3 is no power of two up to 0x1000"),
        (".shared 8 align 0x2000", 17, "0x2000 is no power of two up to 0x1000"),
        (".info FOO 3", 7, "unknown attribute FOO"),
        (".info 0x5 nosuch", 11, "nosuch is no symbol of the file"),
        (".info MAXREG_COUNT half", 7, "MAXREG_COUNT: expected one value behind half"),
        (".info MAXREG_COUNT half 0x10000", 25, "0x10000 does not fit 16 bits"),
        (".symbols nosuch", 10, "nosuch is no symbol of the file"),
        (".section .s 0x70000005; .word g", 31, ".s can't hold addresses"),
        (".section .s 5", 13, "5 is no kind of section that is carried: 0x70000000 at least"),
        (".section .s 0x100000000", 13, "0x100000000 is too large: 0xffffffff at most"),
        (
            ".section .s 0x70000005 entry 0x100000000",
            30,
            "0x100000000 is too large: 0xffffffff at most",
        ),
        (".section .text.k 0x70000005", 10, ".text.k is a section that the assembler makes"),
        (
            ".section .s 0x70000005; .section .s 0x70000006",
            34,
            f".s is defined twice, first in line {LINE}",
        ),
        (".registers 256", 12, "256 is too large: 0xff at most"),
        (".barriers 32", 11, "32 is too large: 0x1f at most"),
        (".crs 0x100000000", 6, "0x100000000 is too large: 0xffffffff at most"),
        (".frame 0x100000000", 8, "0x100000000 is too large: 0xffffffff at most"),
        (".param big 0x4000", 12, "0x4000 is too large: 0x3fff at most"),
        (".param far 8 at 0xfeb9", 8, "far ends at 0xfec1: parameters have 0xfec0 bytes at most"),
        (".const 32; .word 5", 8, "32 is too large: 0x1f at most"),
        (".info 0x100 3", 7, "0x100 is too large: 0xff at most"),
        ("NOP -> 0x100000000", 8, "0x100000000 is too large: 0xffffffff at most"),
        (
            "MOV32I R0, 32@lo(g+0x8000000000000000)",
            18,
            "0x8000000000000000, which is added to g, does not fit 64 bits",
        ),
        # grammar
        (
            "IADD R0, R1,",
            13,
            "the line ends here: expected '32@lo' or '32@hi', '[', 'c[', '{', '|', a name, a number or "
            "a sign",
        ),
        (
            "IADD R0 R1",
            9,
            "unexpected 'R1': expected '+', ',', '-', '->', a number, a suffix or the end of the line",
        ),
        ("MUFU.RCP R0, |R1", 17, "the line ends here: expected '|'"),
        (".param x", 9, "the line ends here: expected a number"),
        (".kernel 5", 9, "unexpected '5': expected a name"),
        (".const 3 a at", 14, "the line ends here: expected a number"),
        (
            "[Q] NOP",
            1,
            "unexpected '[': expected '@', a directive, a name, control codes or the end of the line",
        ),
        ("NOP ^", 5, "unexpected '^'"),
        (
            "->",
            1,
            "unexpected '->': expected '@', a directive, a name, control codes or the end of the line",
        ),
    ],
)
def test_a_mistake_in_a_line_is_named_with_its_place(line, column, expected):
    assert message(f"{BEFORE}{line}\nEXIT\n") == f"t.sass:{LINE}:{column}: {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "t.sass: has no kernel"),
        (".function f\nRET", "t.sass: has no kernel"),
        ("NOP", "t.sass:1:1: NOP stands outside of any kernel: expected .kernel before it"),
        (
            ".kernel k\n.end\nNOP",
            "t.sass:3:1: NOP stands outside of any kernel: expected .kernel before it",
        ),
        (
            ".const 2 x",
            "t.sass:1:1: .const stands outside of any kernel: expected .kernel before it",
        ),
        (".crs 64", "t.sass:1:1: .crs stands outside of any kernel: expected .kernel before it"),
        (".function f\n.param x 4", "t.sass:2:8: f is no kernel: only kernels have parameters"),
        (".function f\n.shared 4", "t.sass:2:9: f is no kernel: only kernels have shared memory"),
        (".function f\n.const 2", "t.sass:2:1: f is no kernel: only kernels have constant banks"),
        (".kernel k\nNOP\n.warp_wide", "t.sass:3:1: no instruction follows .warp_wide"),
    ],
)
def test_messages_about_the_whole(text, expected):
    assert message(text) == expected


TOKEN = re.compile(r"\s+|[\w.$]+|\W")
TOKENS = TOKEN.findall(
    listing(read_object((PROGRAMS / "k06_switch_brx.O3.cubin").read_bytes(), "k06"))
)
ANY_TOKEN = st.one_of(
    st.sampled_from(sorted(set(TOKENS))),
    st.sampled_from(
        [
            "-1",
            "0xffffffffffffffff",
            "99999999999",
            "R255",
            "32@lo(",
            "c[",
            "\n",
            "-> call",
            "align 0",
            "at 5",
            ".zero 5",
            "half",
            "visible",
            ".const 5",
            ".function f",
            ".kernel z",
            ".end",
            ".section .s 0x70000001",
        ]
    ),
)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, len(TOKENS) - 1), ANY_TOKEN), min_size=1, max_size=3))
def test_damaged_text_is_assembled_or_refused(changes):
    """Every text is assembled to a file that can be read again, or refused with one line that has
    the position of the error.
    """
    tokens = TOKENS.copy()
    for at, token in changes:
        tokens[at] = token
    try:
        file = assemble("".join(tokens), "t")
    except ProgramError as error:
        assert re.match(r"t:\d+:\d+: .+$", str(error)) or str(error) == "t: has no kernel"
    else:
        assert read_object(write_object(file), "t").sections.keys() == file.sections.keys()


def test_places_count_tabs_and_lines_as_they_are():
    assert message("\n\n.kernel k\n\tNOP; /* \n */ FOO") == "t.sass:5:5: unknown instruction FOO"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "not a text: invalid start byte at byte 0x0"),
    ],
)
def test_files_that_are_no_text(content, expected, tmp_path):
    path = tmp_path / "in.sass"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProgramError) as caught:
        read_sass(path)
    assert str(caught.value) == f"{path}: {expected}"


def test_the_assembler_writes_nothing_when_there_is_an_error(tmp_path, capsys):
    (tmp_path / "in.sass").write_text(".kernel k\nFOO\n")
    out = tmp_path / "out.cubin"
    assert asm.main([str(tmp_path / "in.sass"), "-o", str(out)]) == 2
    assert capsys.readouterr() == (
        "",
        f"python -m sim.asm: {tmp_path}/in.sass:2:1: unknown instruction FOO\n",
    )
    out.write_bytes(b"kept")
    assert asm.main([str(tmp_path / "in.sass"), "-o", str(out)]) == 2
    assert out.read_bytes() == b"kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.sass", "out.cubin"]


def test_an_output_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "in.sass").write_text(".kernel k\nEXIT\n")
    (tmp_path / "out").mkdir()
    for name, reason in (("out", "Is a directory"), ("in.sass/out", "Not a directory")):
        assert asm.main([str(tmp_path / "in.sass"), "-o", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err == f"python -m sim.asm: {tmp_path}/{name}: {reason}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.sass", "out"]


def test_the_commands_go_round(tmp_path, capsys):
    path = PROGRAMS / "k08_fib_recursion.O3.cubin"
    assert dis.main(["--source", str(path)]) == 0
    (tmp_path / "in.sass").write_text(capsys.readouterr().out)
    assert asm.main([str(tmp_path / "in.sass"), "-o", str(tmp_path / "out.cubin")]) == 0
    assert capsys.readouterr() == ("", "")
    assert dis.main([str(path)]) == 0
    theirs = capsys.readouterr().out
    assert dis.main([str(tmp_path / "out.cubin")]) == 0
    assert capsys.readouterr().out == theirs
    assert "/*0028*/ CAL 0x70; " in theirs


def test_bare_code_is_disassembled_and_must_be_whole_words(tmp_path, capsys):
    path = tmp_path / "code.bin"
    path.write_bytes(
        b"".join(
            word.to_bytes(8, "little")
            for word in (0x001FFC00FFE007ED, 0xE30000000007000F, 0xFFFF << 48, 0x50B0000000070F00)
        )
    )
    assert dis.main(["--raw", str(path)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "/* 0x001ffc00ffe007ed */",
        "/*0008*/ EXIT; /* 0xe30000000007000f */",
        "/*0010*/ ILLEGAL; /* 0xffff000000000000 */",
        "/*0018*/ NOP; /* 0x50b0000000070f00 */",
    ]
    path.write_bytes(bytes(33))
    assert dis.main(["--raw", str(path)]) == 2
    assert capsys.readouterr() == ("", f"python -m sim.dis: {path}: 33 bytes are no groups of 32\n")


@pytest.mark.parametrize("option", [[], ["--source"]])
def test_files_that_cannot_be_disassembled(option, tmp_path, capsys):
    path = tmp_path / "in.cubin"
    for content, expected in ((b"text", "not an ELF file"), (None, "No such file or directory")):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        assert dis.main([*option, str(path)]) == 2
        assert capsys.readouterr() == ("", f"python -m sim.dis: {path}: {expected}\n")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (asm.main, ["in.sass"]),
        (dis.main, []),
        (dis.main, ["--foo", "x"]),
        (dis.main, ["--raw", "--source", "x"]),
    ],
)
def test_wrong_arguments_end_with_code_2(command, arguments, capsys):
    assert refused(capsys, command, arguments)
