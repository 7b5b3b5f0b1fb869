"""Large programs are compiled correctly, in a time that is linear in their size and not quadratic."""

import sys
import time
from types import FrameType

import pytest

from sim.checks.benchmarks.large_programs import LARGE_PROGRAMS
from sim.toolchain.assembly.assembler import assemble, assemble_statements
from sim.toolchain.compiler import compile_module, compile_statements
from sim.toolchain.compiler.analysis.loops import find_loops
from sim.toolchain.compiler.ir import Block, Function, Terminator
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.runs import compiled, words_left
from testbench.ptx.text import HEADER

_WORD = 0xFFFF_FFFF
_SECONDS = 60
"""Limit of processor time in seconds, for compilations that take a few."""


def _kernel(registers: int, body: str, more: str = "") -> str:
    return f"""{HEADER}{more}.visible .entry k(.param .u64 out)
{{ .reg .pred p; .reg .b32 a, t, r<{registers}>; .reg .b64 d, e; ld.param.u64 d, [out]; mov.u32 t, %tid.x;
 mul.wide.u32 e, t, 4; add.u64 d, d, e; mov.u32 a, 0;
{body}
 st.global.u32 [d], a; ret; }}
"""


def _soon(text: str) -> Module:
    """Compiles a program, which must take only a few seconds."""
    begun = time.process_time()
    module = compiled(text)
    assert time.process_time() - begun < _SECONDS
    return module


def _many_live(values: int) -> str:
    return _kernel(
        values,
        "\n".join(
            [
                *(f"xor.b32 r{at}, t, {at * 7919};" for at in range(values)),
                *(f"mad.lo.u32 a, a, 3, r{at * 37 % values};" for at in range(values)),
            ]
        ),
    )


@pytest.mark.parametrize("values", [300, 2000])
def test_many_values_live_at_once(values):
    module = _soon(_many_live(values))
    expected = []
    for thread in range(4):
        a = 0
        for at in range(values):
            a = a * 3 + (thread ^ at * 37 % values * 7919) & _WORD
        expected.append(a)
    assert words_left(module, 4, 4, alone=values < 1000) == expected


def test_many_predicates_live_at_once():
    body = "\n".join(
        [
            *(f"setp.gt.u32 p{at}, t, {at % 32};" for at in range(200)),
            *(f"@p{at} add.u32 a, a, {at};" for at in range(200)),
        ]
    )
    module = compiled(_kernel(1, body).replace(".reg .pred p;", ".reg .pred p, p<200>;"))
    assert words_left(module, 32, 32) == [
        sum(at for at in range(200) if thread > at % 32) for thread in range(32)
    ]


def test_many_branches_one_behind_the_other():
    body = "\n".join(
        f"setp.gt.u32 p, a, {3 * at}; @p bra L{at}; xor.b32 a, a, t; L{at}: add.u32 a, a, 3;"
        for at in range(1500)
    )
    module = _soon(_kernel(1, body))
    expected = []
    for thread in range(4):
        a = 0
        for at in range(1500):
            a = (a if a > 3 * at else a ^ thread) + 3
        expected.append(a)
    assert words_left(module, 4, 4, alone=False) == expected


def test_many_loops_in_each_other():
    """The compiler must assume that threads may leave each of them at different times; two of them
    do.
    """
    depth = 22
    body = "\n".join(
        [
            *(
                f"shr.u32 s, t, {at if at < 2 else 5}; and.b32 s, s, 1; add.u32 n{at}, s, 1; mov.u32 r{at}, 0;\nL{at}:"
                for at in range(depth)
            ),
            "add.u32 a, a, 1;",
            *(
                f"add.u32 r{at}, r{at}, 1; setp.lt.u32 p, r{at}, n{at}; @p bra L{at};"
                for at in reversed(range(depth))
            ),
        ]
    )
    module = _soon(_kernel(depth, body).replace(".reg .b32 a,", f".reg .b32 s, n<{depth}>, a,"))
    assert words_left(module, 4, 4, alone=False) == [1, 2, 2, 4]


def test_many_copies_into_neighbours():
    body = "\n".join(
        f"ld.global.u32 r{at}, [d]; add.u32 r{at}, r{at}, {at}; st.global.u32 [d], r{at};"
        for at in range(1500)
    )
    module = _soon(_kernel(1500, f"{body}\nld.global.u32 a, [d];"))
    assert words_left(module, 4, 4, alone=False) == [sum(range(1500))] * 4


def _calls_made(text: str) -> int:
    """Returns the number of function calls, in Python and in C, during a compilation: the same on
    every computer.
    """
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        assemble_statements(compile_statements(parse_ptx(text, "test.ptx")), "test")
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("kind", "size"), [("exits", 50), ("loops", 15)])
def test_twice_the_program_takes_twice_the_steps(kind, size):
    generator = _loops if kind == "loops" else LARGE_PROGRAMS[kind][0]
    small, large = (generator(count) for count in (size, 2 * size))
    _calls_made(small)  # work that is done only once
    assert _calls_made(large) / _calls_made(small) < 1.07 * len(large) / len(small)


def _loops(size: int) -> str:
    """Returns a sequence of loops that test first and contain a loop-invariant computation."""
    return _kernel(
        2,
        "\n".join(
            f"mov.u32 r0, t; L{at}: setp.ge.u32 p, r0, {at + 40}; @p bra M{at}; mul.lo.u32 r1, t, {at + 3}; "
            f"add.u32 a, a, r1; add.u32 r0, r0, 1; bra L{at}; M{at}: add.u32 a, a, {at};"
            for at in range(size)
        ),
    )


def test_calls_deeper_than_pythons_own():
    """The estimate of the stack's depth follows all calls."""
    count = 1100
    functions = ".func (.reg .u32 r) f0 (.reg .u32 a) { add.u32 r, a, 1; ret; }\n" + "".join(
        f".func (.reg .u32 r) f{at} (.reg .u32 a) {{ call (r), f{at - 1}, (a); ret; }}\n"
        for at in range(1, count)
    )
    text = compile_module(
        parse_ptx(_kernel(1, f"call (a), f{count - 1}, (t);", functions), "test.ptx")
    )
    assert load(assemble(text, "test")).kernel("k").crs >= 16 * count


def test_loops_deeper_than_pythons_calls():
    count = 1500
    headers, ends = ([Block(f"{name}{at}") for at in range(count)] for name in ("header", "end"))
    last = Block("last", terminator=Terminator.EXIT)
    for at, header in enumerate(headers):
        header.successors = [headers[at + 1] if at + 1 < count else ends[-1]]
    for at, end in enumerate(ends):
        end.terminator, end.successors = (
            Terminator.BRANCH,
            [headers[at], ends[at - 1] if at else last],
        )
    loops = find_loops(Function("f", True, [*headers, *reversed(ends), last]))
    assert [loop.depth for loop in loops] == list(range(1, count + 1))
    assert [loop.header for loop in loops] == headers
