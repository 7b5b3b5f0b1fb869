"""Compiled programs against the PTX interpreter, which knows nothing of registers, stacks and masks."""

import pytest

from sim.launch import Buffer, Scalar, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as run_ptx
from sim.model.warp import Machine
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler_runs import compiled

_THREADS = 40
_FEW = 24
_HEAD = """.version 7.8
.target sm_50
.address_size 64
"""
_KERNEL = """.visible .entry k(.param .u64 out, .param .u32 n)
{ .reg .pred p, q; .reg .b16 h<9>; .reg .b32 r<40>, t; .reg .b64 d<20>;
 mov.u32 t, %tid.x; ld.param.u64 d1, [out]; mul.wide.u32 d2, t, 64; add.u64 d1, d1, d2; ld.param.u32 r1, [n];
"""
_PROGRAMS = {
    "arguments on the stack": """
.func (.param .b32 r) many (.param .b64 a, .param .b32 b, .param .b64 c, .param .b64 d, .param .b32 e, .param .b64
 f, .param .b64 g, .param .b32 h, .param .b32 i, .param .b64 j)
{ .reg .b64 x<12>; .reg .b32 y<12>; ld.param.b64 x1,[a]; ld.param.b32 y1,[b]; ld.param.b64 x2,[c]; ld.param.b64
 x3,[d]; ld.param.b32 y2,[e]; ld.param.b64 x4,[f]; ld.param.b64 x5,[g]; ld.param.b32 y3,[h]; ld.param.b32 y4,[i];
 ld.param.b64 x6,[j];
.local .align 8 .b8 buf[16]; st.local.u64 [buf], x6; add.u64 x1,x1,x2; add.u64 x1,x1,x3; mul.lo.u64 x1,x1,x4;
 add.u64 x1,x1,x5; ld.local.u64 x7,[buf]; xor.b64 x1,x1,x7; cvt.u32.u64 y5,x1; add.u32 y5,y5,y1; mad.lo.u32
 y5,y5,y2,y3; sub.u32 y5,y5,y4; st.param.b32 [r],y5; ret; }
""" + _KERNEL + """
 cvt.u64.u32 d3,t; mul.lo.u64 d4,d3,77; add.u64 d5,d4,0x100000003;
{ .param .b64 a,c,d,f,g,j; .param .b32 b,e,h,i,z; st.param.b64 [a],d3; st.param.b32 [b],t; st.param.b64 [c],d4;
 st.param.b64 [d],d5; st.param.b32 [e],7; st.param.b64 [f],d5; st.param.b64 [g],99; st.param.b32 [h],t; st.param.b32
 [i],r1; st.param.b64 [j],d4;
call (z), many, (a,b,c,d,e,f,g,h,i,j); ld.param.b32 r2,[z]; } st.global.u32 [d1],r2; ret; }
""",
    "vectors of bytes and halves": _KERNEL + """
 st.global.v4.u8 [d1], {t, r1, t, r1}; st.global.v2.u16 [d1+4], {t, r1}; ld.global.v4.u8 {h1,h2,h3,h4},[d1];
 ld.global.v2.s8 {h5,h6},[d1+2]; add.u16 h1,h1,h2; add.u16 h1,h1,h5; st.global.u16 [d1+8],h1; cvt.s32.s16 r2,h6;
 st.global.u32 [d1+12],r2; ld.global.s8 d5,[d1]; st.global.u64 [d1+16], d5; ld.global.u16 r3,[d1+4]; st.global.u32
 [d1+24],r3; ret; }
""",
    "parameters that are arrays, of bytes and halves": """
.func (.param .align 8 .b8 r[16]) f (.param .align 4 .b8 s[12], .param .b8 c, .param .b16 w)
{ .reg .b32 x<9>; .reg .b64 y; ld.param.u8 x1,[s+1]; ld.param.s16 x2,[s+2]; ld.param.b32 x3,[s+8]; ld.param.s8
 x4,[c]; ld.param.u16 x5,[w]; add.u32 x1,x1,x2; st.param.b32 [r],x1; st.param.b8 [r+4],x3; st.param.b8 [r+5],x4;
 st.param.b16 [r+6],x5; cvt.s64.s32 y,x4; st.param.b64 [r+8],y; ret; }
""" + _KERNEL + """
 { .param .align 4 .b8 s[12]; .param .b8 c; .param .b16 w; .param .align 8 .b8 z[16]; st.param.b32 [s],t; st.param.b8
 [s+1],r1; st.param.b16 [s+2],-5; st.param.b32 [s+8],t; mul.lo.u32 r3,t,9; st.param.b8 [c],r3; st.param.b16 [w],r3;
 call (z), f, (s,c,w); ld.param.b32 r4,[z]; ld.param.b32 r5,[z+4]; ld.param.b64 d5,[z+8]; } st.global.u32 [d1],r4;
 st.global.u32 [d1+4],r5; st.global.u64 [d1+8],d5; ret; }
""",
    "atomic operations on double words in shared memory": _KERNEL + """
 { .shared .align 8 .b8 s[512]; mov.u32 r2,s; and.b32 r3,t,3; shl.b32 r3,r3,3; add.u32 r2,r2,r3; mov.u64 d3,0;
 st.shared.u64 [r2],d3; st.shared.u64 [r2+64],d3; st.shared.u64 [r2+128],-1; st.shared.u64 [r2+192],0; bar.sync 0;
 cvt.u64.u32 d4,t; add.u64 d4,d4,0xfffffff0; setp.ne.u32 p,t,9; @p atom.shared.add.u64 d5,[r2],d4;
 red.shared.max.u64 [r2+64],d4; red.shared.min.s64 [r2+128],d4; atom.shared.or.b64 d6,[r2+192],d4; bar.sync 0;
 ld.shared.u64 d5,[r2]; ld.shared.u64 d6,[r2+64]; ld.shared.u64 d7,[r2+128]; ld.shared.u64 d8,[r2+192];
 st.global.v2.u64 [d1],{d5,d6}; st.global.v2.u64 [d1+16],{d7,d8}; ret; } }
""",
    "generic addresses of every space": _KERNEL + """
 { .shared .align 8 .b8 s[256]; .local .align 8 .b8 l[64]; mov.u64 d3,s; cvta.shared.u64 d3,d3; mul.wide.u32 d4,t,4;
 add.u64 d3,d3,d4; mov.u64 d5,l; cvta.local.u64 d5,d5; st.u32 [d3],t; st.u32 [d5+8],r1; and.b32 r2,t,1; setp.eq.u32
 p,r2,0; selp.b64 d6,d3,d1,p; setp.lt.u32 q,t,7; selp.b64 d6,d5,d6,q; @!q atom.add.u32 r3,[d6],5; mov.u32 r4,7; @q
 mov.u32 r3,1; isspacep.shared p,d6; selp.u32 r5,1,0,p; isspacep.local p,d6; selp.u32 r6,2,0,p; isspacep.global
 p,d6; selp.u32 r7,4,0,p; add.u32 r5,r5,r6; add.u32 r5,r5,r7; cvta.to.shared.u64 d7,d3; ld.shared.u32 r8,[d7];
 ld.u32 r9,[d5+8]; st.global.u32 [d1+4],r5; st.global.u32 [d1+8],r8; st.global.u32 [d1+12],r9; @!q st.global.u32
 [d1+16],r3; ret; } }
""",
    "calls and jump tables under a guard": """
.func (.param .b32 r) tw (.param .b32 a) { .reg .b32 x; ld.param.b32 x,[a]; shl.b32 x,x,1; st.param.b32 [r],x; ret;
 }
""" + _KERNEL + """
 mov.u32 r2,5; setp.lt.u32 p,t,11; { .param .b32 x,y; st.param.b32 [x],t; @p call (y), tw, (x); @p ld.param.b32
 r2,[y]; } and.b32 r3,t,3; TS: .branchtargets A,B,C,A; @!p brx.idx r3,TS; add.u32 r2,r2,100; bra D; A: add.u32
 r2,r2,1; bra D; B: add.u32 r2,r2,2; C: add.u32 r2,r2,3; D: st.global.u32 [d1],r2; @p exit; st.global.u32 [d1+4],r2;
 ret; }
""",
    "two kernels that share a function and variables": """
.const .align 4 .u32 c[4] = {1,2,3}; .global .align 8 .u64 g = 5; .global .align 4 .u32 z[3];
.func (.param .b32 r) tw (.param .b32 a) { .reg .b32 x; ld.param.b32 x,[a]; shl.b32 x,x,1; st.param.b32 [r],x; ret;
 }
.visible .entry other(.param .u64 out) { .reg .b32 r<3>; .reg .b64 d; ld.param.u64 d,[out]; { .param .b32 x,y;
 st.param.b32 [x],3; call (y), tw, (x); ld.param.b32 r1,[y]; } st.global.u32 [d],r1; ret; }
""" + _KERNEL + """
 { .param .b32 x,y; st.param.b32 [x],t; call (y), tw, (x); ld.param.b32 r2,[y]; } ld.const.u32 r3,[c+4]; and.b32
 r5,t,3; shl.b32 r5,r5,2; mov.u32 r6,c; add.u32 r6,r6,r5; ld.const.u32 r7,[r6]; ld.global.u64 d4,[g]; ld.global.u32
 r8,[z+4]; add.u32 r2,r2,r3; add.u32 r2,r2,r7; cvt.u32.u64 r9,d4; add.u32 r2,r2,r9; add.u32 r2,r2,r8; st.global.u32
 [d1],r2; ret; }
""",
    "functions that call each other by address": """
.func (.param .b32 r) a (.param .b32 n, .param .b64 f); .func (.param .b32 r) b (.param .b32 n, .param .b64 f)
{ .reg .pred p; .reg .b32 x,y,z; .reg .b64 g; ld.param.b32 x,[n]; ld.param.b64 g,[f]; setp.eq.u32 p,x,0; mov.u32
 z,1; @p bra E; sub.u32 y,x,1; P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _); { .param .b32
 q,w; .param .b64 v; st.param.b32 [q],y; st.param.b64 [v],g; call (w), g, (q,v), P; ld.param.b32 z,[w]; } mad.lo.u32
 z,z,3,x;
E: st.param.b32 [r],z; ret; }
.func (.param .b32 r) a (.param .b32 n, .param .b64 f)
{ .reg .pred p; .reg .b32 x,y,z; .reg .b64 g; ld.param.b32 x,[n]; ld.param.b64 g,[f]; mov.u32 z,2; setp.lt.u32
 p,x,2; @p bra E; sub.u32 y,x,2; { .param .b32 q,w; .param .b64 v; st.param.b32 [q],y; st.param.b64 [v],g; call (w),
 b, (q,v); ld.param.b32 z,[w]; } xor.b32 z,z,x;
E: st.param.b32 [r],z; ret; }
""" + _KERNEL + """
 and.b32 r2,t,7; mov.u64 d3,a; mov.u64 d4,b; and.b32 r3,t,8; setp.eq.u32 p,r3,0; selp.b64 d5,d3,d4,p; { .param .b32
 q,w; .param .b64 v; st.param.b32 [q],r2; st.param.b64 [v],d5; call (w), b, (q,v); ld.param.b32 r4,[w]; }
 st.global.u32 [d1],r4; ret; }
""",
}


@pytest.mark.parametrize("registers", [None, _FEW])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_memory_is_what_the_interpreter_leaves(name, registers):
    text = _HEAD + _PROGRAMS[name]
    arguments = [Buffer("out", bytes(range(256)) * 10), Scalar(5, 4)]
    meant = place(parse_ptx(text, "test.ptx"), arguments, entry="k", block=(_THREADS, 1, 1))
    run_ptx(meant)
    module = compiled(text) if registers is None else compiled(text, registers)
    launch = prepare(module, arguments, entry="k", block=(_THREADS, 1, 1))
    result = Machine(launch, warps=4).run(400_000)
    assert result.status == "ok", (result.reason, result.error_status)
    assert launch.memory.read(*launch.buffers["out"]) == meant.memory.read(*meant.buffers["out"])
