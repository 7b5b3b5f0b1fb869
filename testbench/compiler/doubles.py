"""Operands in double precision, and a kernel that computes with them."""

from random import Random

import numpy as np

from testbench.compiler.singles import Precision
from testbench.ptx.text import HEADER

__all__ = ["DOUBLE", "EDGES", "doubles"]

DOUBLE = Precision(
    np.dtype(np.uint64),
    HEADER
    + """.visible .entry k(.param .u64 out)
{{ .reg .b32 i, t, e; .reg .b16 w; .reg .pred p, q; .reg .b64 a, b, c, d, l, x, y;
  mov.u32 t, %ctaid.x; mov.u32 i, %ntid.x; mov.u32 e, %tid.x; mad.lo.u32 t, t, i, e;
  ld.param.u64 x, [out]; mul.wide.u32 y, t, {bytes}; add.u64 x, x, y;
  ld.global.b64 a, [x]; ld.global.b64 b, [x+8]; ld.global.b64 c, [x+16]; mov.b64 {{i, e}}, a; cvt.u16.u32 w, i;
  setp.lt.u32 p, e, i; sub.u32 t, t, 40; mov.b64 d, c;
{body} ret; }}
""",
)
_POSITIVE = (
    0,
    1,
    2,
    0x8_0000_0000_0000,
    0xF_FFFF_FFFF_FFFF,
    1 << 52,
    (1 << 52) + 1,
    0x3690 << 48,
    0x36A0 << 48,
    0x380F_FFFF_E000_0000,
    0x3810 << 48,
    0x3FEF_FFFF_FFFF_FFFF,
    0x3FF0 << 48,
    0x3FF0_0000_0000_0001,
    0x41DF_FFFF_FFC0_0000,
    0x41EF_FFFF_FFE0_0000,
    0x4340 << 48,
    0x47EF_FFFF_E000_0000,
    0x47EF_FFFF_F000_0000,
    0x7FE0 << 48,
    0x7FEF_FFFF_FFFF_FFFF,
    0x7FF0 << 48,
    0x7FF0_0000_0000_0001,
    0x7FF8 << 48,
)
EDGES = [number | sign << 63 for number in _POSITIVE for sign in (0, 1)]
"""Numbers at the limits of double precision, of the integers, and of single precision."""


def _one(source: Random) -> int:
    """Returns a random number: an edge value, any number, one near the limits of the range, or one
    near 1.
    """
    sign, fraction = source.getrandbits(1) << 63, source.getrandbits(52)
    match source.randrange(4):
        case 0:
            return source.choice(EDGES)
        case 1:
            return source.getrandbits(64)
        case 2:
            exponent = source.choice([0, 1, 2, 53, 54, 900, 1022, 1023, 1100, 2000, 2045, 2046])
        case _:
            exponent = source.randrange(1000, 1050)
    return (
        sign
        | exponent << 52
        | (
            fraction & source.choice([0xFFFF << 36, 1, 0xFF, 1 << 51, 0])
            if source.random() < 0.4
            else fraction
        )
    )


def doubles(count: int, seed: int) -> np.ndarray:
    """Returns three numbers for each thread.

    Some of the second are chosen so that a quotient nearly leaves the range, some of the third are
    close to the negated product of the others.
    """
    source = Random(seed)
    rows = [[source.choice(EDGES) for _ in range(3)] for _ in range(count // 2)]
    while len(rows) < count:
        a, b, c = (_one(source) for _ in range(3))
        if source.random() < 0.3:
            far = source.choice([-1023, -1022, -1021, 1021, 1022, 1023, 1040, 1070, 1075])
            b = b & ~(0x7FF << 52) | max(0, min((a >> 52 & 0x7FF) - far, 2046)) << 52
        if source.random() < 0.3:
            with np.errstate(all="ignore"):
                product = -np.prod(np.array([a, b], np.uint64).view(np.float64))
            c = int(product.view(np.uint64)) + source.randrange(-3, 4) & (1 << 64) - 1
        rows.append([a, b, c])
    return np.array(rows, np.uint64)
