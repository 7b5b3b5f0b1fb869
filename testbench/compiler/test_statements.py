"""The words and statements that the compiler passes to the assembler agree with its listing."""

import re
from pathlib import Path

import pytest

from sim.toolchain.assembly.assembler import assemble, assemble_statements
from sim.toolchain.assembly.program import Emitted, Line
from sim.toolchain.assembly.source import SassInstruction
from sim.toolchain.compiler import compile_module, compile_statements
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx, read_ptx
from testbench.compiler.runs import compiled, words_left
from testbench.programs import PROGRAMS
from testbench.ptx.text import HEADER

_FILES = (
    "tour/call.ptx",
    "video/bytes.ptx",
    "cuda/c35_virtual.ptx",
    "cuda/c45_switch_200.ptx",
    "cuda/c49_atomics.ptx",
)
"""Programs with calls, calls by address, branch tables, parts of registers, and atomic operations."""

_SPELLINGS = f"""{HEADER}.const .u32 table[4] = {{1, 2, 3, 4}};
.global .u32 sum;
.global .u64 pointers[3] = {{generic(table)+4, sum, sum+8}};
.global .u8 bytes[3] = {{0xFF(sum), 0xFF00(table), 0xFF(generic(table))}};
.global .u32 R7;
.visible .entry k(.param .u64 out, .param .f32 x, .param .u32 P1)
.maxntid 64, 2
{{ .shared .u32 own[4]; .reg .pred p, q; .reg .b32 a, b, r<4>; .reg .f32 f, g; .reg .b64 d, e; .local .u32 kept[8];
 ld.param.u64 d, [out]; ld.param.f32 f, [x]; mov.u32 a, %tid.x;
 abs.f32 g, f; neg.f32 g, g; fma.rn.f32 g, f, g, 0f3fc00000;
 setp.lt.and.f32 p|q, f, 0f40000000, !p; vote.ballot.b32 b, !q;
 mad.lo.s32 a, a, -123456, b; ld.const.u32 r0, [table+8]; xor.b32 a, a, r0;
 st.local.u32 [kept+4], a; ld.local.u32 r1, [kept+8]; sub.u32 a, r1, a;
 mov.u64 e, sum; atom.global.cas.b32 r2, [e], a, b; shfl.down.b32 r3|p, a, 1, 31; @p bra L;
 st.shared.u32 [own+4], a; ld.param.u32 r2, [P1]; st.global.u32 [R7], r2;
 bar.red.popc.u32 r2, 1, 64, p; membar.gl; @!q st.global.u32 [d+12], r2;
L: st.global.v2.u32 [d+-8], {{a, r3}}; ret; }}
"""


@pytest.mark.parametrize("path", _FILES)
def test_a_file_assembles_alike_from_statements_and_from_their_text(path):
    module = read_ptx(Path(PROGRAMS, path))
    direct = assemble_statements(compile_statements(module), "file")
    assert write_object(direct) == write_object(assemble(compile_module(module), "file"))


def test_every_kind_of_operand_is_assembled_alike_from_words_and_from_the_listing():
    module = parse_ptx(_SPELLINGS, "test.ptx")
    direct = assemble_statements(compile_statements(module), "file")
    assert write_object(direct) == write_object(assemble(compile_module(module), "file"))


def test_only_what_names_something_is_a_statement():
    """The compiler encodes all other instructions itself."""
    named = {
        str(item.node.mnemonic)
        for item in compile_statements(parse_ptx(_SPELLINGS, "test.ptx"))
        if isinstance(item, Line) and isinstance(item.node, SassInstruction)
    }
    emitted = {
        str(item.node)
        for item in compile_statements(parse_ptx(_SPELLINGS, "test.ptx"))
        if isinstance(item, Line) and isinstance(item.node, Emitted)
    }
    assert named == {"EXIT", "IADD32I", "MOV", "MOV32I", "SSY", "SYNC"}
    for name in ("FSETP", "XMAD", "SHFL", "STG", "BAR"):
        assert any(re.match(rf"(@\S+ )?{name}\b", text) for text in emitted), name


_PATTERN = bytes(range(0x81, 0x91))
_REGISTERS = {1: "h", 2: "h", 4: "w", 8: "d"}


@pytest.mark.parametrize(
    ("size", "vector"),
    [(size, vector) for size in (1, 2, 4, 8) for vector in (1, 2, 4) if size * vector <= 16],
)
def test_every_part_of_a_parameter_is_stored_and_loaded_at_its_place(size, vector):
    """The parameter has 16 bytes and is stored last part first; the function returns its argument."""
    kind = f"v{vector}.u{8 * size}" if vector > 1 else f"u{8 * size}"
    moves = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}[size]
    letter = _REGISTERS[size]
    names = [f"{letter}{at}" for at in range(vector)]
    listed = f"{{{', '.join(names)}}}" if vector > 1 else names[0]
    stores = loads = ""
    for place in reversed(range(0, 16, size * vector)):
        for at, name in enumerate(names):
            part = _PATTERN[place + at * size : place + (at + 1) * size]
            stores += f"mov.{moves} {name}, {int.from_bytes(part, 'little'):#x}; "
        stores += f"st.param.{kind} [s+{place}], {listed};\n"
        loads += f"ld.param.{kind} {listed}, [r+{place}]; st.global.{kind} [o+{place}], {listed};\n"
    registers = ".reg .b16 h<4>; .reg .b32 w<4>; .reg .b64 d<4>;"
    text = f"""{HEADER}.func (.param .align 16 .b8 r[16]) f(.param .align 16 .b8 s[16])
{{ .reg .b64 d0, d1; ld.param.v2.b64 {{d0, d1}}, [s]; st.param.v2.b64 [r], {{d0, d1}}; ret; }}
.visible .entry k(.param .u64 out)
{{ {registers} .reg .u64 o; .param .align 16 .b8 s[16], r[16]; ld.param.u64 o, [out];
{stores}call (r), f, (s);\n{loads}ret; }}
"""
    content = b"".join(word.to_bytes(4, "little") for word in words_left(compiled(text), 1, 4))
    assert content == _PATTERN


@pytest.mark.parametrize(
    ("size", "part"), [(size, part) for size in (2, 4, 8) for part in (1, 2, 4) if part < size]
)
def test_a_scalar_parameter_is_stored_in_parts(size, part):
    """A store of some of a parameter's bytes leaves the others as they are."""
    letter, kind = _REGISTERS[part], f"b{8 * size}"
    moves = {1: "b16", 2: "b16", 4: "b32"}[part]
    stores = ""
    for place in reversed(range(0, size, part)):
        value = int.from_bytes(_PATTERN[place : place + part], "little")
        stores += (
            f"mov.{moves} {letter}0, {value:#x}; st.param.b{8 * part} [s+{place}], {letter}0;\n"
        )
    result = _REGISTERS[size]
    text = f"""{HEADER}.func (.param .{kind} r) f(.param .{kind} s)
{{ .reg .b16 h0; .reg .b32 w0; .reg .b64 d0; ld.param.{kind} {result}0, [s]; st.param.{kind} [r], {result}0; ret; }}
.visible .entry k(.param .u64 out)
{{ .reg .b16 h0; .reg .b32 w0; .reg .b64 d0; .reg .u64 o; .param .{kind} s, r; ld.param.u64 o, [out];
{stores}call (r), f, (s);\nld.param.{kind} {result}0, [r]; st.global.{kind} [o], {result}0; ret; }}
"""
    words = words_left(compiled(text), 1, 2)
    content = b"".join(word.to_bytes(4, "little") for word in words)
    assert content[:size] == _PATTERN[:size]


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("st.param.b64 [s], d", "0 lies outside of s"),
        ("ld.param.b64 d, [s]", "0 lies outside of s"),
        ("st.param.b32 [s+4], w", "4 lies outside of s"),
        ("st.param.b32 [s-4], w", "-4 lies outside of s"),
        ("ld.param.b16 h, [s+1]", "1 is no multiple of 2, the bytes of an access"),
        ("ld.param.b32 w, [a+3]", "3 is no multiple of 4, the bytes of an access"),
    ],
)
def test_an_access_outside_of_a_parameter_or_misaligned_is_refused(access, message):
    text = f"""{HEADER}.func f(.param .b32 s, .param .align 4 .b8 a[8]) {{ ret; }}
.visible .entry k()
{{ .reg .b16 h; .reg .b32 w; .reg .b64 d; .param .b32 s; .param .align 4 .b8 a[8];
{access}; call f, (s, a); ret; }}
"""
    with pytest.raises(ProgramError, match=re.escape(message)):
        compiled(text)
