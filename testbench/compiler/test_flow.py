"""Compiled control flow: random programs against Python, and their tokens."""

import re

import pytest

from sim.launch import Buffer, Scalar, prepare
from sim.model.warp.model import WarpModel
from sim.toolchain.compiler import compile_module
from sim.toolchain.compiler.ir import WORD
from sim.toolchain.module import Module, ProgramError
from sim.toolchain.ptx.front_end import parse_ptx, read_ptx
from testbench.compiler.random_functions import THREADS, Program, structured, unstructured
from testbench.compiler.runs import compiled, words_left
from testbench.kernels.manifest import cubin
from testbench.ptx.text import HEADER

_FEW = 12


def _check(program: Program, registers: int | None = None) -> None:
    module = compiled(program.text) if registers is None else compiled(program.text, registers)
    for same in (0, 5):
        found = words_left(module, THREADS, 4 * THREADS, same, alone=same == 0)
        assert found == program.expected(same)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_that_branch_anywhere(seed):
    _check(unstructured(seed))


@pytest.mark.parametrize("seed", range(30))
def test_nested_statements(seed):
    _check(structured(seed))


@pytest.mark.parametrize("seed", range(40, 46))
def test_nested_statements_in_few_registers(seed):
    _check(structured(seed), _FEW)


def _text(kernel: str) -> str:
    return compile_module(read_ptx(cubin(kernel, "O3").parent / f"{kernel}.ptx"))


def _ptx(body: str, functions: str = "") -> str:
    return f"""{HEADER}{functions}.visible .entry k(.param .u64 out, .param .u32 n)
{{ .reg .pred p, q; .reg .b32 r<9>, t; .reg .b64 d<4>; mov.u32 t, %tid.x; ld.param.u64 d1, [out]; mul.wide.u32 d2, t, 4;
 add.u64 d1, d1, d2; ld.param.u32 r1, [n]; mov.u32 r0, 0;
{body} }}
"""


def test_a_uniform_loop_pushes_nothing():
    text = compile_module(
        parse_ptx(
            _ptx("""
L: add.u32 r0, r0, t; sub.u32 r1, r1, 1; setp.ne.u32 p, r1, 0; @p bra L; st.global.u32 [d1], r0; ret;"""),
            "x",
        )
    )
    assert not re.search("SSY|PBK|SYNC", text)


def test_a_loop_that_counts_up_to_a_uniform_limit_does_four_iterations_at_a_time():
    """The body exists five times: four in a row, and once for the remaining iterations."""
    text = compile_module(
        parse_ptx(
            _ptx("""
 mov.u32 r2, 0;
L: xor.b32 r0, r0, t; shf.l.wrap.b32 r0, r0, r0, 3; add.u32 r2, r2, 1; setp.lt.s32 p, r2, r1; @p bra L;
 st.global.u32 [d1], r0; ret;"""),
            "x",
        )
    )
    assert len(re.findall(r"\bSHF\.L", text)) == 5


def test_a_loop_that_threads_leave_at_different_times_collects_them():
    text = compile_module(
        parse_ptx(
            _ptx("""
 mov.u32 r2, t;
L: add.u32 r0, r0, 3; sub.u32 r2, r2, 1; setp.gt.s32 p, r2, 0; @p bra L; st.global.u32 [d1], r0; ret;"""),
            "x",
        )
    )
    assert len(re.findall(r"\bSSY\b", text)) == len(re.findall(r"\bSYNC\b", text)) == 1


def test_a_branch_said_to_be_uniform_pushes_nothing():
    store = "st.global.u32 [d1], r0; "
    body = "setp.eq.u32 p, t, 5; @p bra{} E; mul.lo.u32 r0, t, t; " + store * 9 + f"E: {store} ret;"
    assert "SSY" in compile_module(parse_ptx(_ptx(body.format("")), "x"))
    assert "SSY" not in compile_module(parse_ptx(_ptx(body.format(".uni")), "x"))


def test_leaving_two_loops_at_once_takes_a_token_of_another_kind():
    text = compile_module(
        parse_ptx(
            _ptx("""
A: mov.u32 r2, t;
B: add.u32 r0, r0, r2; setp.gt.u32 p, r0, 1000; @p bra DONE; sub.u32 r2, r2, 1; setp.gt.s32 p, r2, 0; @p bra B;
 add.u32 r0, r0, 1; setp.lt.u32 p, r0, 500; @p bra A;
DONE: st.global.u32 [d1], r0; ret;"""),
            "x",
        )
    )
    assert re.search(r"\bPBK\b", text)
    assert re.search(r"\bBRK\b", text)


@pytest.mark.parametrize(
    ("kind", "first", "by"), [("u32", 0, 1), ("s32", 0, 1), ("u32", 5, 3), ("s32", 7, 2)]
)
def test_a_counted_loop_turns_as_often_as_it_says(kind, first, by):
    """It executes four iterations at a time while at least four remain."""
    module = compiled(
        _ptx(f"""
 mov.u32 r2, {first};
L: mad.lo.u32 r0, r0, 3, r2; add.u32 r2, r2, {by}; setp.lt.{kind} p, r2, r1; @p bra L; mad.lo.u32 r0, r0, 5, r2;
 st.global.u32 [d1], r0; ret;""")
    )
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
    text = compile_module(
        parse_ptx(
            _ptx("""
 mov.u32 r2, 0;
L: mad.lo.u32 r0, r0, t, r2; add.u32 r2, r2, 1; setp.lt.u32 p, r2, 10; @p bra L; st.global.u32 [d1], r0; ret;"""),
            "x",
        )
    )
    assert "BRA" not in text
    assert len(re.findall("XMAD.PSL.CBCC", text)) >= 8


def test_irreducible_code_meets_at_its_end():
    text = _text("k52_irreducible")
    assert len(re.findall(r"\bSSY\b", text)) == 1


def test_a_jump_table_is_in_the_second_bank():
    text = _text("k06_switch_brx")
    assert re.search(r"\.const 2 \S+ align 4(\n +\.word \.L\S+){7}\n", text)
    assert "BRX" in text


def test_a_function_that_is_known_is_called_by_its_address():
    functions = """.func none(.reg .b32 a) {}
.func (.reg .b32 r) nine(.reg .b32 a) { mul.lo.u32 r, a, 9; ret; }
"""
    text = _ptx(
        "N: .callprototype _ (.reg .b32 _); P: .callprototype (.reg .b32 _) _ (.reg .b32 _); mov.u32 r2, t; "
        "mov.u64 d3, none; call d3, (r2), N; mov.u64 d3, nine; call (r2), d3, (r2), P; st.global.u32 [d1], r2; "
        "ret;",
        functions,
    )
    assert words_left(compiled(text), 8, 8, 0) == [9 * t for t in range(8)]


def _counted(t: int, step: int, factor: int) -> int:
    """Returns the result of a function of the next test."""
    if t & 1:
        return t * factor
    t += step
    while t < 9:
        t += step
    return t


@pytest.mark.parametrize(
    "names", [("f$a", "f_a"), ("f", "f_1"), ("table0", "other"), ("functions", "f")]
)
def test_functions_of_like_names_and_code_have_labels_and_tables_of_their_own(names):
    function = """.func (.reg .b32 r) {}(.reg .b32 a) {{ .reg .b32 x; .reg .pred p; and.b32 x, a, 1;
 T: .branchtargets A, B; brx.idx x, T;
A: add.u32 a, a, {}; setp.lt.u32 p, a, 9; @p bra A; mov.b32 r, a; ret; B: mul.lo.u32 r, a, {}; ret; }}
"""
    calls = (
        "call (r2), {}, (t); call (r3), {}, (t); sub.u32 r2, r2, r3; st.global.u32 [d1], r2; ret;"
    )
    functions = function.format(names[0], 1, 5) + function.format(names[1], 4, 2)
    expected = [_counted(t, 1, 5) - _counted(t, 4, 2) & 0xFFFF_FFFF for t in range(12)]
    assert words_left(compiled(_ptx(calls.format(*names), functions)), 12, 12, 0) == expected


RECURSION = """
.func (.reg .b32 r) f(.reg .b32 n, .reg .b32 x)
{ .reg .pred p; .reg .b32 a, b, c;
 setp.ne.u32 p, n, 0; @p bra MORE; mov.b32 r, x; ret;
MORE: sub.u32 a, n, 1; mad.lo.u32 b, x, 5, n; call (c), f, (a, b); xor.b32 c, c, n; add.u32 r, c, x; ret; }
"""
LOOPING = """
.func (.reg .b32 r) f(.reg .b32 n, .reg .b32 x)
{ .reg .pred p; .reg .b32 a, b, c;
 and.b32 b, n, 3; mov.b32 r, x;
L: setp.eq.u32 p, b, 0; @p bra E; shr.b32 a, n, 1; call (c), f, (a, b); mad.lo.u32 r, r, 3, c; sub.u32 b, b, 1; bra L;
E: add.u32 r, r, n; ret; }
"""
VOTING = """
.func (.reg .b32 r) f(.reg .b32 n, .reg .b32 x)
{ .reg .pred p; .reg .b32 a, b;
 setp.eq.u32 p, n, 0; mov.b32 b, x; @p bra E; sub.u32 a, n, 1; call (b), f, (a, x); add.u32 b, b, 1;
E: vote.ballot.b32 a, 1; xor.b32 r, b, a; ret; }
"""


def _recursion(n: int, x: int) -> int:
    return x if n == 0 else (_recursion(n - 1, 5 * x + n) ^ n) + x


def _looping(n: int, x: int) -> int:
    for turns in range(n & 3, 0, -1):
        x = 3 * x + _looping(n >> 1, turns)
    return x + n


def _calling(function: str, parts: str) -> str:
    """Returns a kernel that calls a function with its number, plus the thread's number if they are
    to diverge, and the thread's number.
    """
    return _ptx(f"{parts} call (r2), f, (r1, t); st.global.u32 [d1], r2; ret;", function)


def _tokens(module: Module, levels: int) -> int:
    """Returns the largest number of tokens on the stack, which must fit in a launch's default
    stack.
    """
    machine = WarpModel(prepare(module, [Buffer("out", bytes(128)), Scalar(levels, 4)]), warps=1)
    most = 0
    while (retired := machine.step()) is not None:
        most = max(most, retired.depth_after)
    assert machine.run().status == "ok"
    return most


def test_a_recursion_takes_one_token_a_level():
    module = compiled(_calling(RECURSION, ""))
    assert [_tokens(module, levels) for levels in (0, 60, 181)] == [1, 61, 182]


@pytest.mark.parametrize(
    ("function", "value", "levels"), [(RECURSION, _recursion, 181), (LOOPING, _looping, 29)]
)
@pytest.mark.parametrize("parts", ["", "add.u32 r1, r1, t;"])
def test_recursion_without_places_to_meet(function, value, levels, parts):
    found = words_left(compiled(_calling(function, parts)), 32, 32, levels)
    assert found == [value(levels + t * bool(parts), t) & 0xFFFF_FFFF for t in range(32)]


def _voting(t: int) -> int:
    """Odd threads recurse one level deeper than the others, and vote alone there."""
    value = ((t ^ 0xAAAA_AAAA) + 1 if t & 1 else t) ^ WORD
    for _ in range(2):
        value = (value + 1 & WORD) ^ WORD
    return value


def test_what_threads_do_together_at_the_end_of_a_function_they_meet_for():
    module = compiled(_calling(VOTING, "and.b32 r1, t, 1; add.u32 r1, r1, 2;"))
    assert words_left(module, 32, 32, 0, alone=False) == [_voting(t) for t in range(32)]


_MANY = 24


def _helped(n: int, x: int) -> int:
    return (
        x
        if n == 0
        else 3 * _helped(n - 1, x) + sum((x + at) * (x + (at + 7) % _MANY) for at in range(_MANY))
    )


def test_a_function_keeps_what_those_that_it_calls_change():
    """A recursive function preserves registers for its callers, and calls a function that needs
    many.
    """
    sums = "".join(f"add.u32 v{at}, x, {at};" for at in range(_MANY))
    products = "".join(f"mad.lo.u32 r, v{at}, v{(at + 7) % _MANY}, r;" for at in range(_MANY))
    functions = f"""
.func (.reg .b32 r) many(.reg .b32 x) {{ .reg .b32 v<{_MANY}>; {sums} mov.u32 r, 0; {products} ret; }}
.func (.reg .b32 r) f(.reg .b32 n, .reg .b32 x)
{{ .reg .pred p; .reg .b32 a, b, c; setp.eq.u32 p, n, 0; mov.b32 r, x; @p ret;
 call (b), many, (x); sub.u32 a, n, 1; call (c), f, (a, x); mad.lo.u32 r, c, 3, b; ret; }}
"""
    kept = [f".reg .b32 k<{_MANY}>;", *(f"mad.lo.u32 k{at}, t, t, {at};" for at in range(_MANY))]
    added = "".join(f"add.u32 r2, r2, k{at};" for at in range(_MANY))
    body = f"{' '.join(kept)} call (r2), f, (r1, t); {added} st.global.u32 [d1], r2; ret;"
    expected = [
        _helped(2, t) + sum(t * t + at for at in range(_MANY)) & 0xFFFF_FFFF for t in range(8)
    ]
    assert words_left(compiled(_ptx(body, functions)), 8, 8, 2) == expected


def test_recursion_counts_its_tokens_often():
    tokens = re.findall(r"\.crs (\d+)", _text("k08_fib_recursion"))
    assert int(tokens[0]) >= 32 * 16


def test_what_is_not_translated_is_named_with_its_place():
    function = ".func f(.param .b32 a)\n{ .reg .b32 r; ld.param.b32 r, [a+4]; ret; }\n"
    text = _ptx("ret;", function)
    with pytest.raises(ProgramError, match="x:5:16: 4 lies outside of a"):
        compile_module(parse_ptx(text, "x"))


@pytest.mark.parametrize(
    ("address", "load"), [("out+2", "c[0x0][0x142]"), ("out+0x10000", "c[0x0][R0]")]
)
def test_parameters_are_read_wherever_the_address_is(address, load):
    """The machine reports misaligned addresses and addresses beyond the bank."""
    text = _ptx(
        f"{{ .reg .u32 r; .reg .u64 d; ld.param.u32 r, [{address}]; st.global.u32 [d], r; }} ret;"
    )
    assert f"LDC R0, {load}" in compile_module(parse_ptx(text, "x"))
