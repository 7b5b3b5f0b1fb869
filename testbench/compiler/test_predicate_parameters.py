"""Predicates as parameters and results of functions: each is passed as a word of its own, 1 or 0."""

import pytest

from testbench.compiler.runs import compiled, words_left
from testbench.ptx import text

_THREADS = 32
_DIGITS = "\n".join(f"@p{at} add.u32 r, r, {1 << at};" for at in range(16))
FUNCTIONS = f"""
.func (.reg .u32 r, .reg .pred q) over (.reg .u32 x)
{{ add.u32 r, x, 1; setp.gt.u32 q, x, 15; ret; }}
.func (.reg .u32 r) digits ({", ".join(f".reg .pred p{at}" for at in range(16))})
{{ mov.u32 r, 0; {_DIGITS} ret; }}
.func ({", ".join(f".reg .pred p{at}" for at in range(16))}) bits (.reg .u32 x)
{{ .reg .u32 y;
{"".join(f"and.b32 y, x, {1 << at}; setp.ne.u32 p{at}, y, 0;" for at in range(16))} ret; }}
.func (.reg .pred q) odd (.reg .u32 x, .reg .pred q0)
{{ .reg .pred p; setp.eq.u32 p, x, 0; @p bra END; sub.u32 x, x, 1; not.pred q0, q0; call (q0), odd, (x, q0);
END: mov.pred q, q0; ret; }}
.func (.reg .u32 r, .reg .pred q) mixed (.reg .u64 a, .reg .pred p, .reg .u16 h, .param .u32 v)
{{ .reg .u32 x; cvt.u32.u64 r, a; @p add.u32 r, r, 1000; cvt.u32.u16 x, h; add.u32 r, r, x; ld.param.u32 x, [v];
  add.u32 r, r, x; setp.lt.u32 q, r, 1100; ret; }}
"""
_BITS = ", ".join(f"p{at}" for at in range(16))
_SIXTEEN = f".reg .pred {_BITS};"
BODIES = {
    "a result beside another": (
        "call (r0, p), over, (t); @p add.u32 r0, r0, 1000;",
        lambda t: t + 1 + 1000 * (t > 15),
    ),
    "a result that nobody wants": (
        "setp.lt.u32 p, t, 8; call (r0, _), over, (t); @p add.u32 r0, r0, 500;",
        lambda t: t + 1 + 500 * (t < 8),
    ),
    "a result under a guard": (
        "setp.lt.u32 p, t, 20; setp.eq.u32 q, t, 31; mov.u32 r0, 7; @p call (r0, q), over, (t);"
        "@q add.u32 r0, r0, 1000;",
        lambda t: t + 1 + 1000 * (t > 15) if t < 20 else 7 + 1000 * (t == 31),
    ),
    "more than there are registers": (
        f"{{ {_SIXTEEN} mul.lo.u32 r1, t, 2477; call ({_BITS}), bits, (r1); call (r0), digits, ({_BITS}); }}",
        lambda t: 2477 * t & 0xFFFF,
    ),
    "in another order, and numbers": (
        f"{{ {_SIXTEEN} call ({_BITS}), bits, (t); call (r0), digits, (p4, p3, p2, p1, p0, 1, 0, 1, 0, 0, 0, p0, p1,"
        "p2, p3, p4); }",
        lambda t: int(f"{t:05b}"[::-1], 2) | 0xA0 | (t & 31) << 11,
    ),
    "a recursion": (
        "setp.ne.u32 p, 0, 0; call (q), odd, (t, p); selp.u32 r0, 3, 8, q;",
        lambda t: 3 if t % 2 else 8,
    ),
    "among other types": (
        "{ .param .u32 v; st.param.u32 [v], 50; cvt.u64.u32 d2, t; setp.gt.u32 p, t, 4; cvt.u16.u32 h0, t;"
        "call (r0, q), mixed, (d2, p, h0, v); @q add.u32 r0, r0, 100000; }",
        lambda t: 2 * t + 50 + 1000 * (t > 4) + 100000 * (2 * t + 50 + 1000 * (t > 4) < 1100),
    ),
    "called by address": (
        "P: .callprototype (.reg .u32 _, .reg .pred _) _ (.reg .u32 _);"
        "mov.u64 d2, over; call (r0, p), d2, (t), P; @p add.u32 r0, r0, 1000;",
        lambda t: t + 1 + 1000 * (t > 15),
    ),
    "called out of a list": (
        "T: .calltargets odd; mov.u64 d2, odd; setp.gt.u32 p, t, 9; call (p), d2, (5, p), T; selp.u32 r0, 1, 2, p;",
        lambda t: 1 if t <= 9 else 2,
    ),
}


@pytest.mark.parametrize("body", BODIES)
def test_predicates_arrive_as_they_were_passed(body):
    lines, expected = BODIES[body]
    program = FUNCTIONS + text.KERNEL + lines + text.END
    wanted = [expected(thread) for thread in range(_THREADS)]
    assert text.words_left(program, [0] * _THREADS) == wanted
    for registers in (255, 20):
        assert words_left(compiled(text.HEADER + program, registers), _THREADS, _THREADS) == wanted
