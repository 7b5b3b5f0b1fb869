"""Speed of the warp model in warp instructions per second, with and without compiled instructions;
and the compile time of a new kernel.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory
from time import process_time
from types import MappingProxyType
from typing import Any

import numpy as np

from sim.api import Machine
from sim.checks.benchmarks.table import table
from sim.engine import cache
from sim.model.warp import native
from sim.model.warp.native.executor import compiled
from sim.model.warp.native.library import CompiledFunctions

__all__ = [
    "MODEL_AIMS",
    "ModelRow",
    "model_rows",
    "model_text",
]

MODEL_AIMS: Mapping[str, int] = MappingProxyType({"compiled": 10_000_000, "model alone": 45_000})
"""Target speeds on the matrix product, in warp instructions per second."""
_COMPILED, _ALONE = MODEL_AIMS
_PRESET = "programs"
_LIMIT = 1 << 40
_SIDE = 16
"""Threads of a block along a side."""
_HEAD = """.version 7.8
.target sm_50
.address_size 64
"""
_TILED = (
    _HEAD
    + """
.visible .entry tiled(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .shared .align 4 .b8 left[1024];
    .shared .align 4 .b8 right[1024];
    .reg .pred %p<2>; .reg .b32 %r<40>; .reg .f32 %f<8>; .reg .b64 %d<12>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
    ld.param.u32 %r5, [n]; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];
    shl.b32 %r6, %r4, 4; add.u32 %r6, %r6, %r2; shl.b32 %r7, %r3, 4; add.u32 %r7, %r7, %r1;
    mov.u32 %r9, 0; mov.f32 %f1, 0f00000000; mov.u32 %r20, left; mov.u32 %r21, right;
    shl.b32 %r22, %r2, 4; add.u32 %r22, %r22, %r1; shl.b32 %r22, %r22, 2;
    add.u32 %r23, %r20, %r22; add.u32 %r24, %r21, %r22;
    shl.b32 %r27, %r2, 6; add.u32 %r27, %r20, %r27; shl.b32 %r28, %r1, 2; add.u32 %r28, %r21, %r28;
TILE:
    setp.ge.u32 %p1, %r9, %r5; @%p1 bra END;
    mad.lo.u32 %r10, %r6, %r5, %r9; add.u32 %r10, %r10, %r1; mul.wide.u32 %d4, %r10, 4; add.u64 %d4, %d1, %d4;
    ld.global.f32 %f2, [%d4]; st.shared.f32 [%r23], %f2;
    add.u32 %r12, %r9, %r2; mad.lo.u32 %r12, %r12, %r5, %r7; mul.wide.u32 %d5, %r12, 4; add.u64 %d5, %d2, %d5;
    ld.global.f32 %f3, [%d5]; st.shared.f32 [%r24], %f3;
    bar.sync 0;
    mov.u32 %r14, 0; mov.u32 %r25, %r27; mov.u32 %r26, %r28;
INNER:
    ld.shared.f32 %f4, [%r25]; ld.shared.f32 %f5, [%r26]; fma.rn.f32 %f1, %f4, %f5, %f1;
    ld.shared.f32 %f4, [%r25+4]; ld.shared.f32 %f5, [%r26+64]; fma.rn.f32 %f1, %f4, %f5, %f1;
    ld.shared.f32 %f4, [%r25+8]; ld.shared.f32 %f5, [%r26+128]; fma.rn.f32 %f1, %f4, %f5, %f1;
    ld.shared.f32 %f4, [%r25+12]; ld.shared.f32 %f5, [%r26+192]; fma.rn.f32 %f1, %f4, %f5, %f1;
    add.u32 %r25, %r25, 16; add.u32 %r26, %r26, 256; add.u32 %r14, %r14, 4;
    setp.lt.u32 %p1, %r14, 16; @%p1 bra INNER;
    bar.sync 0;
    add.u32 %r9, %r9, 16; bra TILE;
END:
    mad.lo.u32 %r17, %r6, %r5, %r7; mul.wide.u32 %d6, %r17, 4; add.u64 %d3, %d3, %d6; st.global.f32 [%d3], %f1; ret;
}
"""
)
_NAIVE = (
    _HEAD
    + """
.visible .entry naive(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<20>; .reg .f32 %f<4>; .reg .b64 %d<12>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ntid.y; mov.u32 %r3, %tid.y; mad.lo.u32 %r5, %r1, %r2, %r3;
    ld.param.u32 %r6, [n]; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];
    mul.lo.u32 %r7, %r5, %r6; mul.wide.u32 %d4, %r7, 4; add.u64 %d1, %d1, %d4;
    mul.wide.u32 %d5, %r4, 4; add.u64 %d2, %d2, %d5; mul.wide.u32 %d6, %r6, 4;
    mov.u32 %r8, 0; mov.f32 %f1, 0f00000000;
INNER:
    ld.global.f32 %f2, [%d1]; ld.global.f32 %f3, [%d2]; fma.rn.f32 %f1, %f2, %f3, %f1;
    add.u64 %d1, %d1, 4; add.u64 %d2, %d2, %d6; add.u32 %r8, %r8, 1;
    setp.lt.u32 %p1, %r8, %r6; @%p1 bra INNER;
    add.u32 %r9, %r7, %r4; mul.wide.u32 %d7, %r9, 4; add.u64 %d3, %d3, %d7; st.global.f32 [%d3], %f1; ret;
}
"""
)
_COLLATZ = (
    _HEAD
    + """
.visible .entry collatz(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<3>; .reg .b32 %r<20>; .reg .b64 %d<4>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mul.lo.u32 %r5, %r1, %r2; mov.u32 %r2, %ntid.x;
    mad.lo.u32 %r4, %r5, %r2, %r4; mov.u32 %r1, %tid.y; mad.lo.u32 %r4, %r4, 16, %r1;
    add.u32 %r6, %r4, 1; mov.u32 %r7, 0; ld.param.u64 %d1, [c];
STEP:
    setp.le.u32 %p1, %r6, 1; @%p1 bra END;
    and.b32 %r8, %r6, 1; setp.eq.u32 %p2, %r8, 0; @%p2 bra EVEN;
    mad.lo.u32 %r6, %r6, 3, 1; bra NEXT;
EVEN:
    shr.u32 %r6, %r6, 1;
NEXT:
    add.u32 %r7, %r7, 1; bra STEP;
END:
    mul.wide.u32 %d2, %r4, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r7; ret;
}
"""
)
_PROGRAMS: Mapping[str, str] = MappingProxyType(
    {
        "matrix product, shared memory": _TILED,
        "matrix product": _NAIVE,
        "Collatz, divergent": _COLLATZ,
    }
)
_SIZES = {_COMPILED: 1600, _ALONE: 64}
_COMPILED_SIZE = 64
"""A size at which a program is compiled."""
_QUICK_SIZES = {_COMPILED: 128, _ALONE: 32}


@dataclass(frozen=True)
class ModelRow:
    """A program of ``size`` by ``size`` threads, and its executor.

    Attributes:
        instructions: Warp instructions.
        seconds: Processor time in seconds.
        compiling: Seconds of compilation without a cache.
    """

    program: str
    executor: str
    size: int
    instructions: int
    seconds: float
    compiling: float | None = None

    @property
    def per_second(self) -> float:
        """Warp instructions per second."""
        return self.instructions / self.seconds

    def record(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        return asdict(self) | {
            "instructions_per_second": self.per_second,
            "aim": MODEL_AIMS[self.executor],
        }


def _run(machine: Machine, text: str, size: int) -> tuple[int, float]:
    """Runs a program; returns its warp instructions and the processor time in seconds.
    AssertionError if a matrix product is wrong.
    """
    kernel = machine.load(text)
    numbers = np.random.default_rng(size)
    a, b = (numbers.integers(-8, 9, (size, size)).astype(np.float32) for _ in range(2))
    c = np.zeros((size, size), np.float32)
    begin = process_time()
    run = kernel(
        a, b, c, size, grid=(size // _SIDE, size // _SIDE), block=(_SIDE, _SIDE), limit=_LIMIT
    )
    seconds = process_time() - begin
    assert run.status == "ok", run.report
    assert text is _COLLATZ or (c == a @ b).all(), "the matrix product is wrong"
    return run.instructions, seconds


def _compiling(text: str) -> float:
    """Returns the processor time in seconds of compiling a program without a cache, except for the
    core.
    """
    shared = compiled()
    functions, shared.functions = shared.functions, CompiledFunctions()
    kept = os.environ.get(cache.VARIABLE)
    try:
        with TemporaryDirectory() as folder:
            os.environ[cache.VARIABLE] = folder
            before = shared.seconds
            _run(Machine(_PRESET, engine="model"), text, _COMPILED_SIZE)
            return shared.seconds - before
    finally:
        shared.functions = functions
        if kept is None:
            os.environ.pop(cache.VARIABLE, None)
        else:
            os.environ[cache.VARIABLE] = kept


def model_rows(quick: bool = False) -> list[ModelRow]:
    """Returns a row for every program and executor; compiled instructions only if there is a
    compiler.
    """
    was, rows = native.is_on(), []
    try:
        for executor, size in (_QUICK_SIZES if quick else _SIZES).items():
            native.switch(executor == _COMPILED)
            if executor == _COMPILED and not native.is_available():
                continue
            for name, text in _PROGRAMS.items():
                compiling = _compiling(text) if executor == _COMPILED else None
                _run(
                    Machine(_PRESET, engine="model"),
                    text,
                    _COMPILED_SIZE if executor == _COMPILED else _SIDE,
                )
                instructions, seconds = _run(Machine(_PRESET, engine="model"), text, size)
                rows.append(ModelRow(name, executor, size, instructions, seconds, compiling))
    finally:
        native.switch(was)
    return rows


def model_text(rows: list[ModelRow]) -> str:
    """Returns the rows as a table of text."""
    lines = [
        (
            row.program,
            row.executor,
            f"{row.size} x {row.size}",
            f"{row.instructions:,}",
            f"{row.seconds:.2f}",
            f"{row.per_second:,.0f}",
            f"{MODEL_AIMS[row.executor]:,}",
            "" if row.compiling is None else f"{row.compiling:.2f}",
        )
        for row in rows
    ]
    return table(
        "Speed of the warp model, by second of processor; compiling: seconds for a kernel that is new",
        (
            "program",
            "executed",
            "threads",
            "warp instructions",
            "processor",
            "instructions/second",
            "aim",
            "compiling",
        ),
        lines,
    )
