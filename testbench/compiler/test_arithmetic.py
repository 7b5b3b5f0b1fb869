"""Compiled arithmetic against Python: every instruction on edge values and on random numbers."""

import random
import re
import struct

import pytest

from testbench.compiler.operations import LONGS, OPERATIONS, WORDS, Operation
from testbench.compiler.runs import compiled, words_left
from testbench.ptx.text import HEADER

_THREADS = 96
_BODY = (
    HEADER
    + """.visible .entry k(.param .u64 out)
{{ .reg .pred p, q, o; .reg .b16 h, g; .reg .b32 t, e, f, n; .reg .b64 l, k, x, y; .reg .b{bits} a, b; .reg .b{third} c;
 .reg .b{result} d;
 mov.u32 t, %tid.x; ld.param.u64 x, [out]; mul.wide.u32 y, t, 32; add.u64 x, x, y;
 ld.global.b{bits} a, [x]; ld.global.b{bits} b, [x+8]; ld.global.b{third} c, [x+16]; ld.global.b32 n, [x+16];
 and.b32 n, n, 1; setp.eq.u32 o, n, 1; mov.b{result} d, 0;
 {wide} {text};
 st.global.b{result} [x+24], d; ret; }}
"""
)


def _operands(operation: Operation, seed: int) -> list[tuple[int, int, int]]:
    source = random.Random(f"{operation.text} {seed}")
    edges = WORDS if operation.bits == 32 else LONGS

    def one() -> int:
        if source.randrange(3):
            return source.choice(edges)
        return source.getrandbits(source.randrange(1, operation.bits + 1))

    return [
        (one(), one(), source.randrange(80) if source.randrange(2) else one())
        for _ in range(_THREADS)
    ]


def _text(operation: Operation) -> str:
    by_count = " C" in operation.text
    third = 32 if by_count or operation.bits == 32 else 64
    wide = "mov.b64 l, {a, b}; mov.b64 k, {b, a};" if operation.bits == 32 else ""
    return _BODY.format(
        bits=operation.bits,
        third=third,
        result=operation.result,
        wide=wide,
        text=re.sub(r"\bC\b", "c", operation.text),
    )


def check(operation: Operation, seed: int) -> None:
    """Executes an instruction on many operands at once and compares the results."""
    operands = _operands(operation, seed)
    if " C" in operation.text:
        operands = [(x, y, z & 0xFFFF_FFFF) for x, y, z in operands]
    content = b"".join(struct.pack("<4Q", x, y, z, 0) for x, y, z in operands)
    left = words_left(
        compiled(_text(operation)), _THREADS, 8 * _THREADS, content=content, alone=False
    )
    mask = (1 << operation.result) - 1
    for at, (x, y, z) in enumerate(operands):
        found = (left[8 * at + 6] | left[8 * at + 7] << 32) & mask
        exact = operation.compute(x, y, z) & mask
        assert found == exact, (
            f"{operation.text} of {x:#x}, {y:#x}, {z:#x} is {found:#x}, not {exact:#x}"
        )


@pytest.mark.parametrize(
    "operation", OPERATIONS, ids=lambda operation: f"{operation.bits}: {operation.text}"
)
def test_an_instruction_computes_what_it_says(operation):
    check(operation, 1)
