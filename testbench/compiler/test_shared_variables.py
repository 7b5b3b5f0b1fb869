"""Shared variables: a kernel has those that it or the functions that it calls use, independent of
other kernels.

Sizes and offsets are those of NVIDIA's assembler of CUDA 11.8.
"""

import pytest

from sim.launch import Buffer, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as interpret
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.runs import compiled
from testbench.compiler.singles import assembled_by_nvidia
from testbench.ended import on_warps
from testbench.ptx.text import HEADER
from testbench.words import contents

_THREADS = 8


def _kernel(name: str, own: str, body: str) -> str:
    """Returns a kernel that stores r0 to r3."""
    return f""".visible .entry {name}(.param .u64 o)
{{ {own} .reg .b32 t, r<8>; .reg .b64 d<4>; .reg .pred p; ld.param.u64 d0, [o]; mov.u32 t, %tid.x;
  mul.wide.u32 d1, t, 16; add.u64 d0, d0, d1; mov.u32 r0, 0; mov.u32 r1, 0; mov.u32 r2, 0; mov.u32 r3, 0;
  {body} st.global.v4.u32 [d0], {{r0, r1, r2, r3}}; ret; }}
"""


TEXT = (
    HEADER
    + """
.shared .align 4 .b8 m1[100]; .shared .align 16 .b8 m2[40]; .shared .align 1 .b8 m3[3];
.shared .align 4 .b8 large[9000];
.extern .shared .align 8 .b8 dynamic[];
.func (.reg .b32 r) f(.reg .b32 t)
{ .shared .align 8 .b8 fs[64]; .reg .b32 q; mov.u32 q, fs; mad.lo.u32 q, t, 4, q; mul.lo.u32 r, t, 7;
  st.shared.u32 [q], r; ld.shared.u32 r, [q]; mov.u32 q, m2; shl.b32 q, q, 16; add.u32 r, r, q; ret; }
.func (.reg .b32 r) top(.reg .b32 t) { .reg .b32 q; mov.u32 r, dynamic; mul.lo.u32 q, t, 1000; add.u32 r, r, q; ret; }
.func (.reg .b32 r) deep(.reg .b32 t) { call (r), f, (t); add.u32 r, r, 5; ret; }
.func (.reg .b32 r) big(.reg .b32 t) { .shared .b8 bs[500]; mov.u32 r, bs; add.u32 r, r, t; ret; }
.func (.reg .b32 r) huge(.reg .b32 t) { mov.u32 r, large; add.u32 r, r, t; ret; }
.func (.reg .b32 r) fib(.reg .b32 n)
{ .reg .pred p; .reg .b32 x, y; setp.lt.u32 p, n, 2; mov.u32 r, m3; add.u32 r, r, n; @p ret;
  sub.u32 x, n, 1; call (x), fib, (x); sub.u32 y, n, 2; call (y), fib, (y); add.u32 r, x, y; ret; }
.global .u64 table[1] = { big };
"""
    + "".join(
        [
            _kernel("nothing", ".shared .align 4 .b8 unused[64];", "mov.u32 r0, t;"),
            _kernel(
                "own",
                ".shared .align 4 .b8 x[4]; .shared .align 8 .b8 y[8];",
                "mov.u32 r0, y; mov.u32 r1, x; mov.u32 r2, m3; mov.u32 r3, m1;",
            ),
            _kernel(
                "calls",
                ".shared .align 4 .b8 x[4];",
                "mov.u32 r0, x; call (r1), f, (t); mov.u32 r2, dynamic;",
            ),
            _kernel(
                "calls_too",
                "",
                "mov.u32 r0, m3; mov.u32 r1, m1; call (r2), f, (t); call (r3), top, (t);",
            ),
            _kernel(
                "deeper",
                ".shared .align 4 .b8 x[20];",
                "mov.u32 r0, x; call (r1), deep, (t); call (r3), top, (t);",
            ),
            _kernel("recursive", "", "call (r0), fib, (6); mov.u32 r1, m1; call (r2), top, (t);"),
            _kernel("recursive_too", ".shared .b8 z[1];", "mov.u32 r1, z; call (r0), fib, (6);"),
            _kernel(
                "listed",
                "",
                "T: .calltargets big; mov.u64 d2, big; call (r0), d2, (t), T; mov.u32 r1, m3;",
            ),
        ]
    )
)
SIZES = {
    "nothing": 0,
    "own": 119,
    "calls": 128,
    "calls_too": 224,
    "deeper": 144,
    "recursive": 112,
    "recursive_too": 4,
    "listed": 503,
}
"""Size in bytes for each kernel, computed by hand from declared sizes and alignments."""


def _f(thread: int, m2: int) -> int:
    return 7 * thread + (m2 << 16)


def _fib(n: int, leaf: int) -> int:
    return leaf + n if n < 2 else _fib(n - 1, leaf) + _fib(n - 2, leaf)


EXPECTED = {
    "nothing": lambda t: [t, 0, 0, 0],
    "own": lambda t: [8, 0, 116, 16],
    "calls": lambda t: [0, _f(t, 16), 128, 0],
    "calls_too": lambda t: [152, 0, _f(t, 112), 224 + 1000 * t],
    "deeper": lambda t: [0, _f(t, 32) + 5, 0, 144 + 1000 * t],
    "recursive": lambda t: [_fib(6, 100), 0, 112 + 1000 * t, 0],
    "recursive_too": lambda t: [_fib(6, 1), 0, 0, 0],
    "listed": lambda t: [3 + t, 0, 0, 0],
}
"""Results of the threads: addresses of variables, computed by hand from alignments and sizes."""


def left(module: Module, entry: str) -> list[list[int]]:
    launch = prepare(
        module, [Buffer("o", bytes(16 * _THREADS))], entry=entry, block=(_THREADS, 1, 1)
    )
    words = contents(on_warps(launch, 100_000), "o")
    return [words[at : at + 4] for at in range(0, len(words), 4)]


@pytest.mark.parametrize("entry", EXPECTED)
def test_variables_are_where_the_kernel_alone_would_have_them(entry):
    expected = [EXPECTED[entry](thread) for thread in range(_THREADS)]
    assert left(compiled(TEXT), entry) == expected
    launch = place(
        parse_ptx(TEXT, "t.ptx"),
        [Buffer("o", bytes(16 * _THREADS))],
        entry=entry,
        block=(_THREADS, 1, 1),
    )
    interpret(launch)
    words = contents(launch, "o")
    assert [words[at : at + 4] for at in range(0, len(words), 4)] == expected


def test_a_kernel_is_charged_for_what_it_uses():
    assert {name: kernel.shared for name, kernel in compiled(TEXT).kernels.items()} == SIZES
    module = parse_ptx(TEXT, "t.ptx")
    for entry, size in SIZES.items():
        assert place(module, [Buffer("o", bytes(16 * _THREADS))], entry=entry).shared == size


def test_nvidias_assembler_leaves_the_same(tmp_path):
    module = assembled_by_nvidia(TEXT, tmp_path)
    for entry in EXPECTED:
        assert left(module, entry) == [EXPECTED[entry](thread) for thread in range(_THREADS)]
