"""Every instruction with every kind of operand: numbers at the limits of all fields, written or
propagated.
"""

from random import Random

import pytest

from sim.launch import Buffer, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as interpret
from sim.toolchain import from_ptx
from sim.toolchain.assembly import statements
from sim.toolchain.assembly.program import Line
from sim.toolchain.assembly.source import Statement
from sim.toolchain.compiler import layout
from sim.toolchain.cuda import CompilerError, cubin_of_ptx
from sim.toolchain.from_ptx import CompilerFaultError, compiled_object
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.module import PtxModule
from testbench.compiler.every_form import (
    THREAD_BYTES,
    WHOLE,
    Writer,
    all_forms,
    check,
    computing_program,
    program,
    random_program,
    refused_line,
    taken_by_nvidia,
)
from testbench.compiler.runs import compiled, words_left
from testbench.ended import on_warps
from testbench.ptx import text
from testbench.words import contents

_THREADS = 32
_CHOSEN_OTHERWISE = (
    "atomic operations are in global and shared space",
    "an entry's parameters can't be changed",
)
"""Instructions that NVIDIA's assembler accepts, but that would not do what they say."""


@pytest.mark.parametrize("seed", range(6))
def test_programs_are_compiled_or_a_line_of_theirs_is_refused(seed):
    assert len(check(random_program(seed, 40))) < 10


@pytest.mark.parametrize("seed", range(5))
def test_numbers_mean_the_same_written_or_propagated(seed):
    lines = computing_program(seed, 40).split("\n")
    while (refused := refused_line(lines)) is not None:
        lines[refused[0] - 1] = ""
    source, program = Random(seed), "\n".join(lines)
    content = bytearray(_THREADS * THREAD_BYTES)
    for thread in range(_THREADS):
        number = source.choice([source.getrandbits(64), source.choice(WHOLE) & (1 << 64) - 1])
        content[thread * THREAD_BYTES : thread * THREAD_BYTES + 8] = number.to_bytes(8, "little")
    launch = place(
        parse_ptx(program, "t.ptx"), [Buffer("o", bytes(content))], block=(_THREADS, 1, 1)
    )
    interpret(launch)
    run = on_warps(
        prepare(compiled(program), [Buffer("o", bytes(content))], block=(_THREADS, 1, 1))
    )
    assert contents(run, "o") == contents(launch, "o")


def test_what_nvidias_assembler_takes_is_taken():
    """Each form is checked once, with registers and numbers."""
    source = Random(7)
    writer = Writer(source)
    written = [line for form in all_forms() if (line := writer.instruction(*form)) is not None]
    refused = {
        line: why
        for line, why in check(program(source, written))
        if not why.endswith(_CHOSEN_OTHERWISE)
    }
    try:
        cubin_of_ptx(text.HEADER + text.KERNEL + "ret; }\n")
    except CompilerError as error:
        pytest.skip(str(error))
    assert not {line: why for line, why in refused.items() if taken_by_nvidia(line)}


_LANES = list(range(_THREADS))
MASKED = {
    # For each instruction the PTX description of how a number is read that is too large for its
    # field.
    "shfl.up.b32 r0|p, t, K, 0; @!p add.u32 r0, r0, 1000;": (32, _LANES),
    "shfl.down.b32 r0, t, K, 0x1f;": (33, [min(lane + 1, 31) for lane in _LANES]),
    "shfl.idx.b32 r0, t, K, 0x1f;": (0xFFFF_FFE5, [5] * 32),
    "shfl.bfly.b32 r0, t, 1, K;": (0xFFFF_E0FF, [lane ^ 1 for lane in _LANES]),
    "shfl.up.b32 r0, t, 1, K;": (
        0x8000_1800,
        [lane if lane % 8 == 0 else lane - 1 for lane in _LANES],
    ),
    "shl.b32 r0, t, K;": (32, [0] * 32),
    "shr.u32 r0, t, K;": (0x8000_0001, [0] * 32),
    "mov.b64 d2, {t, t}; shl.b64 d2, d2, K; mov.b64 {_, r0}, d2;": (
        33,
        [2 * lane for lane in _LANES],
    ),
    "mov.b64 d2, {t, t}; shr.u64 d2, d2, K; cvt.u32.u64 r0, d2;": (1 << 31, [0] * 32),
    "cvt.u16.u32 h0, t; shl.b16 h0, h0, K; cvt.u32.u16 r0, h0;": (16, [0] * 32),
    "shf.l.wrap.b32 r0, 0, t, K;": (33, [2 * lane for lane in _LANES]),
    "shf.l.clamp.b32 r0, 7, t, K;": (64, [7] * 32),
    "shf.r.wrap.b32 r0, t, 0, K;": (0xFFFF_FFE1, [lane >> 1 for lane in _LANES]),
    "bfe.u32 r0, t, K, 3;": (0x101, [lane >> 1 & 7 for lane in _LANES]),
    "bfe.u32 r0, t, 1, K;": (0x103, [lane >> 1 & 7 for lane in _LANES]),
    "bfe.s32 r0, t, 0, K;": (1 << 20, [0] * 32),
    "bfi.b32 r0, t, 0, K, 8;": (0x304, [lane << 4 & 0xFF0 for lane in _LANES]),
    "bfi.b32 r0, -1, t, 4, K;": (0x104, [lane & ~0xF0 | 0xF0 for lane in _LANES]),
    "prmt.b32 r0, t, 0, K;": (0xFFFF_4440, _LANES),
    "prmt.b32.rc8 r0, t, 0, K;": (0x104, [lane * 0x0101_0101 for lane in _LANES]),
    "lop3.b32 r0, t, K, 0, 0x3c;": (0x8765_4321, [lane ^ 0x8765_4321 for lane in _LANES]),
    "mul24.lo.u32 r0, t, K;": (0x1100_0003, [3 * lane for lane in _LANES]),
    "vshl.u32.u32.u32.wrap r0, t, K;": (33, [2 * lane for lane in _LANES]),
    "vadd.u32.u32.u32 r0, t, K.b0;": (0x1_00FF & 0xFFFF_FFFF, [lane + 255 for lane in _LANES]),
    "setp.ne.u32 p, 0, 1; vote.sync.ballot.b32 r0, p, K;": (0x8000_0001, [0x8000_0001] * 32),
    "setp.lt.u32 p, t, 4; bar.red.popc.u32 r0, K, p;": (15, [4] * 32),
    "setp.lt.u32 p, t, 4; bar.red.popc.u32 r0, 3, K, p;": (32, [4] * 32),
}


@pytest.mark.parametrize("line", MASKED)
def test_a_number_beyond_its_field_means_what_ptx_says(line):
    number, expected = MASKED[line]
    body = f".reg .b32 K; mov.b32 K, {number}; {line}"
    assert text.kernel(body) == expected
    module = compiled(text.HEADER + text.KERNEL + body + text.END)
    assert words_left(module, _THREADS, _THREADS, alone=False) == expected


_FAR = 1 << 24
ADDRESSES = {
    "shared": (".shared .align 4 .b8 v[64];", "mov.u32 r1, v; mov.u32 r2, v;", "r"),
    "local": (
        ".local .align 4 .b8 v[64];",
        "mov.u64 d2, v; cvt.u32.u64 r1, d2; mov.u32 r2, r1;",
        "r",
    ),
    "global": ("", "mov.u64 d2, d1; mov.u64 d3, d1;", "d"),
}


@pytest.mark.parametrize("space", ADDRESSES)
@pytest.mark.parametrize(
    "offset", [_FAR, -_FAR, 0x7FFF_FFF0, -(1 << 23) - 4, (1 << 23) - 4, 1 << 19]
)
def test_offsets_of_any_size_are_added_to_addresses(space, offset):
    declared, addresses, letter = ADDRESSES[space]
    wide = "u64" if letter == "d" else "u32"
    body = f"""{declared} {addresses} sub.{wide} {letter}2, {letter}2, {offset}; add.u32 r5, t, 77;
        st.{space}.u32 [{letter}2{offset:+}], r5; mov.{wide} {letter}3, {letter}2;
        ld.{space}.u32 r0, [{letter}3{offset:+}];"""
    module = compiled(text.HEADER + text.KERNEL + body + text.END)
    assert words_left(module, 1, 1) == text.kernel(body, block=1) == [77]


LIMITS = {
    "shared": (
        ".shared .b8 x[200000000]; .shared .b8 y[200000000]; st.shared.u8 [x], h0; st.shared.u8 [y], h0;",
        "k has 400000000 bytes of shared variables: 268435456 at most",
    ),
    "local": (
        ".local .b8 x[9000000]; .local .b8 y[9000000]; st.local.u8 [x], h0; st.local.u8 [y], h0;",
        "k has 18000000 bytes of local variables: 16777216 at most",
    ),
    "targets": (
        f"L: .branchtargets {', '.join(['A'] * 17000)}; brx.idx t, L; A:",
        "k and the functions it calls have 68000 bytes of branch targets and functions: 65536 at most",
    ),
}


@pytest.mark.parametrize("what", LIMITS)
def test_what_is_too_large_is_refused_by_a_line_about_the_program(what):
    body, message = LIMITS[what]
    with pytest.raises(from_ptx.ProgramError) as caught:
        compiled_object(text.module_of(text.KERNEL + body + "ret; }"), "t.ptx")
    assert type(caught.value) is not CompilerFaultError
    assert str(caught.value) == f"t.ptx:4:17: {message}"


OLD_LIMITS = {
    "2.3": (
        ".local .b8 x[16777217];\n.entry k { ret; }",
        1,
        "k has 16777232 bytes of local variables: 16777216 at most",
    ),
    "1.3": (
        ".entry k\n{ .param .b8 x[4353]; ret; }",
        0,
        "k has 4353 bytes of parameters: 4352 at most",
    ),
}


@pytest.mark.parametrize("version", OLD_LIMITS)
def test_what_is_too_large_in_old_texts_is_refused_by_a_line_about_the_entry(version):
    body, below, message = OLD_LIMITS[version]
    with pytest.raises(from_ptx.ProgramError) as caught:
        compiled_object(parse_ptx(f".version {version}\n.target sm_13\n{body}\n", "t.ptx"), "t.ptx")
    assert str(caught.value) == f"t.ptx:{3 + below}:8: {message}"


@pytest.mark.parametrize("far", [layout.FAR_TABLE, 64])
def test_tables_of_targets_are_read_wherever_they_are(far, monkeypatch):
    """Beyond 32 KB, a limit that is lower in this test, an instruction can't add the table's offset
    to the index.
    """
    monkeypatch.setattr(layout, "FAR_TABLE", far)
    targets = ", ".join("A" if at % 3 else "B" for at in range(40))
    body = f"""L: .branchtargets {targets}; add.u32 r1, t, 7; brx.idx r1, L;
        A: mov.u32 r0, 1; bra C; B: mov.u32 r0, 2; C:"""
    expected = [1 if (lane + 7) % 3 else 2 for lane in _LANES]
    module = compiled(text.HEADER + text.KERNEL + body + text.END)
    assert words_left(module, _THREADS, _THREADS, alone=False) == expected == text.kernel(body)


def test_what_the_assembler_refuses_names_the_line_of_the_ptx(monkeypatch):
    """The test causes an error of the compiler: a number of the text that fits no field."""
    module = text.module_of(text.KERNEL + "\nbar.sync 3;\n ret; }")
    real = from_ptx.compile_statements

    def wrong(module: PtxModule, registers: int) -> list[Statement | Line]:
        found = real(module, registers)
        for item in found:
            if isinstance(item, Line) and str(item.node).startswith("BAR.SYNC"):
                item.node = statements.instruction(
                    "BAR.SYNC",
                    [statements.number(0x333)],
                    line=item.node.token.line,
                    column=item.node.token.column,
                )
        return found

    monkeypatch.setattr(from_ptx, "compile_statements", wrong)
    with pytest.raises(
        CompilerFaultError,
        match=r"^t\.ptx:8:1: this is compiled wrong, which is an error of this "
        r"project: 0x333 ",
    ):
        compiled_object(module, "t.ptx")


def test_what_no_instruction_fits_names_the_line_of_the_ptx(monkeypatch):
    """The test causes an error of the compiler: a number that should have been loaded to a
    register.
    """
    module = text.module_of(
        text.KERNEL + "\nlop3.b32 r0, t, 0x12345678, t, 0x3c; st.global.u32 [d1], r0;\n ret; }"
    )
    monkeypatch.setattr("sim.toolchain.compiler.compiler.legalise", lambda function: None)
    with pytest.raises(
        CompilerFaultError,
        match=r"^t\.ptx:8:1: this is compiled wrong, which is an error of this "
        r"project: LOP3.LUT.* 0x12345678 does not fit",
    ):
        compiled_object(module, "t.ptx")
