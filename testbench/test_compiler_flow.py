"""Compiled control flow: random programs against Python, and the tokens that it is made of."""

import re

import pytest

from sim.toolchain.compiler import compile_module
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx, read_ptx
from testbench.compiler_random import THREADS, Program, structured, unstructured
from testbench.compiler_runs import compiled, words_left
from testbench.programs.manifest import cubin

_FEW = 12


def _check(program: Program, registers: int | None = None) -> None:
    module = compiled(program.text) if registers is None else compiled(program.text, registers)
    for same in (0, 5):
        found = words_left(module, THREADS, 4 * THREADS, same, oracle=same == 0)
        assert found == program.expected(same)


@pytest.mark.parametrize("seed", range(40))
def test_blocks_that_branch_anywhere(seed):
    _check(unstructured(seed))


@pytest.mark.parametrize("seed", range(60))
def test_nested_statements(seed):
    _check(structured(seed))


@pytest.mark.parametrize("seed", range(60, 66))
def test_nested_statements_in_few_registers(seed):
    _check(structured(seed), _FEW)


def _text(kernel: str) -> str:
    return compile_module(read_ptx(cubin(kernel, "O3").parent / f"{kernel}.ptx"))


def _ptx(body: str) -> str:
    return f""".version 7.8
.target sm_50
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{{ .reg .pred p, q; .reg .b32 r<9>, t; .reg .b64 d<4>; mov.u32 t, %tid.x; ld.param.u64 d1, [out]; mul.wide.u32 d2, t, 4;
 add.u64 d1, d1, d2; ld.param.u32 r1, [n]; mov.u32 r0, 0;
{body} }}
"""


def test_a_uniform_loop_pushes_nothing():
    text = compile_module(parse_ptx(_ptx("""
L: add.u32 r0, r0, t; sub.u32 r1, r1, 1; setp.ne.u32 p, r1, 0; @p bra L; st.global.u32 [d1], r0; ret;"""), "x"))
    assert not re.search("SSY|PBK|SYNC", text)


def test_a_loop_that_threads_leave_at_different_times_collects_them():
    text = compile_module(parse_ptx(_ptx("""
 mov.u32 r2, t;
L: add.u32 r0, r0, 3; sub.u32 r2, r2, 1; setp.gt.s32 p, r2, 0; @p bra L; st.global.u32 [d1], r0; ret;"""), "x"))
    assert len(re.findall(r"\bSSY\b", text)) == len(re.findall(r"\bSYNC\b", text)) == 1


def test_a_branch_said_to_be_uniform_pushes_nothing():
    store = "st.global.u32 [d1], r0; "
    body = "setp.eq.u32 p, t, 5; @p bra{} E; mul.lo.u32 r0, t, t; " + store * 9 + f"E: {store} ret;"
    assert "SSY" in compile_module(parse_ptx(_ptx(body.format("")), "x"))
    assert "SSY" not in compile_module(parse_ptx(_ptx(body.format(".uni")), "x"))


def test_leaving_two_loops_at_once_takes_a_token_of_another_kind():
    text = compile_module(parse_ptx(_ptx("""
A: mov.u32 r2, t;
B: add.u32 r0, r0, r2; setp.gt.u32 p, r0, 1000; @p bra DONE; sub.u32 r2, r2, 1; setp.gt.s32 p, r2, 0; @p bra B;
 add.u32 r0, r0, 1; setp.lt.u32 p, r0, 500; @p bra A;
DONE: st.global.u32 [d1], r0; ret;"""), "x"))
    assert re.search(r"\bPBK\b", text)
    assert re.search(r"\bBRK\b", text)


@pytest.mark.parametrize(("kind", "first", "by"), [("u32", 0, 1), ("s32", 0, 1), ("u32", 5, 3), ("s32", 7, 2)])
def test_a_counted_loop_turns_as_often_as_it_says(kind, first, by):
    """It runs four turns at a time as long as four are left."""
    module = compiled(_ptx(f"""
 mov.u32 r2, {first};
L: mad.lo.u32 r0, r0, 3, r2; add.u32 r2, r2, {by}; setp.lt.{kind} p, r2, r1; @p bra L; mad.lo.u32 r0, r0, 5, r2;
 st.global.u32 [d1], r0; ret;"""))
    for limit in (*range(14), 40, 41, 42, 43, 0xFFFF_FFFB):
        counter, total = first, 0
        bound = limit - (limit >> 31 << 32) if kind == "s32" else limit
        if bound > 100:
            continue
        while True:
            total = total * 3 + counter
            counter += by
            if counter >= bound:
                break
        assert words_left(module, 1, 1, limit) == [(total * 5 + counter) & 0xFFFF_FFFF], limit


def test_a_loop_with_a_known_number_of_turns_is_written_out():
    text = compile_module(parse_ptx(_ptx("""
 mov.u32 r2, 0;
L: mad.lo.u32 r0, r0, t, r2; add.u32 r2, r2, 1; setp.lt.u32 p, r2, 10; @p bra L; st.global.u32 [d1], r0; ret;"""), "x"))
    assert "BRA" not in text
    assert len(re.findall("XMAD.PSL.CBCC", text)) >= 8


def test_irreducible_code_meets_at_its_end():
    text = _text("k52_irreducible")
    assert len(re.findall(r"\bSSY\b", text)) == 1


def test_a_jump_table_is_in_the_second_bank():
    text = _text("k06_switch_brx")
    assert re.search(r"\.const 2 \S+ align 4(\n +\.word \.L\S+){7}\n", text)
    assert "BRX" in text


def test_recursion_counts_its_tokens_often():
    tokens = re.findall(r"\.crs (\d+)", _text("k08_fib_recursion"))
    assert int(tokens[0]) >= 32 * 16


def test_what_is_not_translated_is_named_with_its_place():
    function = ".func f(.param .b32 a)\n{ .reg .b32 r; ld.param.b32 r, [a+4]; ret; }\n"
    text = _ptx("ret;").replace(".visible", function + ".visible")
    with pytest.raises(ProgramError, match="x:5:16: 4 lies outside of a"):
        compile_module(parse_ptx(text, "x"))
