"""Compiled programs against the PTX interpreter, which is independent of registers, stacks and
masks.
"""

import pytest

from sim.launch import Buffer, Scalar, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as run_ptx
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.runs import compiled
from testbench.ended import on_warps
from testbench.ptx.text import HEADER

_THREADS = 40
_FEW = 24
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
"""
    + _KERNEL
    + """
 cvt.u64.u32 d3,t; mul.lo.u64 d4,d3,77; add.u64 d5,d4,0x100000003;
{ .param .b64 a,c,d,f,g,j; .param .b32 b,e,h,i,z; st.param.b64 [a],d3; st.param.b32 [b],t; st.param.b64 [c],d4;
 st.param.b64 [d],d5; st.param.b32 [e],7; st.param.b64 [f],d5; st.param.b64 [g],99; st.param.b32 [h],t; st.param.b32
 [i],r1; st.param.b64 [j],d4;
call (z), many, (a,b,c,d,e,f,g,h,i,j); ld.param.b32 r2,[z]; } st.global.u32 [d1],r2; ret; }
""",
    "vectors of bytes and halves": _KERNEL
    + """
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
"""
    + _KERNEL
    + """
 { .param .align 4 .b8 s[12]; .param .b8 c; .param .b16 w; .param .align 8 .b8 z[16]; st.param.b32 [s],t; st.param.b8
 [s+1],r1; st.param.b16 [s+2],-5; st.param.b32 [s+8],t; mul.lo.u32 r3,t,9; st.param.b8 [c],r3; st.param.b16 [w],r3;
 call (z), f, (s,c,w); ld.param.b32 r4,[z]; ld.param.b32 r5,[z+4]; ld.param.b64 d5,[z+8]; } st.global.u32 [d1],r4;
 st.global.u32 [d1+4],r5; st.global.u64 [d1+8],d5; ret; }
""",
    "atomic operations on double words in shared memory": _KERNEL
    + """
 { .shared .align 8 .b8 s[512]; mov.u32 r2,s; and.b32 r3,t,3; shl.b32 r3,r3,3; add.u32 r2,r2,r3; mov.u64 d3,0;
 st.shared.u64 [r2],d3; st.shared.u64 [r2+64],d3; st.shared.u64 [r2+128],-1; st.shared.u64 [r2+192],0; bar.sync 0;
 cvt.u64.u32 d4,t; add.u64 d4,d4,0xfffffff0; setp.ne.u32 p,t,9; @p atom.shared.add.u64 d5,[r2],d4;
 red.shared.max.u64 [r2+64],d4; red.shared.min.s64 [r2+128],d4; atom.shared.or.b64 d6,[r2+192],d4; bar.sync 0;
 ld.shared.u64 d5,[r2]; ld.shared.u64 d6,[r2+64]; ld.shared.u64 d7,[r2+128]; ld.shared.u64 d8,[r2+192];
 st.global.v2.u64 [d1],{d5,d6}; st.global.v2.u64 [d1+16],{d7,d8}; ret; } }
""",
    "atomic operations on double words at generic addresses": _KERNEL
    + """
 { .shared .align 8 .b8 s[512]; mov.u64 d3,s; cvta.shared.u64 d3,d3; and.b32 r3,t,3; mul.wide.u32 d4,r3,64; add.u64
 d3,d3,d4; ld.param.u64 d10,[out]; add.u64 d10,d10,d4; add.u64 d10,d10,40; and.b32 r4,t,4; setp.eq.u32 p,r4,0;
 selp.b64 d5,d3,d10,p; mov.u64 d6,0; st.u64 [d5],d6; st.u64 [d5+8],0x7fffffffffffffff; bar.sync 0; cvt.u64.u32 d7,t;
 mul.lo.u64 d7,d7,0x1fffffff0; setp.lt.u32 q,t,29; @q atom.add.u64 d8,[d5],d7; @!q red.min.s64 [d5+8],d7; bar.sync 0;
 ld.u64 d8,[d5]; ld.u64 d9,[d5+8]; bar.sync 0; st.u64 [d5],d6; bar.sync 0; @!q atom.xor.b64 d11,[d5],d7;
 @q red.max.u64 [d5+8],d7; bar.sync 0; ld.u64 d11,[d5]; ld.u64 d12,[d5+8]; st.global.v2.u64 [d1],{d8,d9};
 st.global.v2.u64 [d1+16],{d11,d12}; ret; } }
""",
    "reductions at barriers in registers": _KERNEL
    + """
 add.u32 r2,r1,1; setp.lt.u32 p,t,11; mov.u32 r3,64; bar.red.popc.u32 r4,r2,p; bar.red.popc.u32 r5,r2,r3,!p;
 bar.red.and.pred q,3,r3,p; selp.u32 r6,1,2,q; bar.red.or.pred q,r1,64,p; selp.u32 r7,1,2,q; barrier.cta.red.popc.u32
 r8,2,p; st.global.v4.u32 [d1],{r4,r5,r6,r7}; st.global.u32 [d1+16],r8; ret; }
""",
    "prefetches change nothing": _KERNEL
    + """
 { .local .align 8 .b8 l[64]; .global .b8 g[8]; mov.u64 d3,l; st.local.u32 [l+4],t; prefetch.local.L1 [l+5];
 prefetch.local.L2 [d3+8]; prefetch.global.L1 [d1+3]; prefetch.L2 [d1-5]; prefetchu.L1 [d1+1]; prefetch.global.L2
 [g+1]; prefetch.global.L1 [g]; ld.local.u32 r2,[l+4]; st.global.u32 [d1],r2; ret; } }
""",
    "const space has no generic addresses": _KERNEL
    + """
 isspacep.const p,d1; selp.u32 r2,1,2,p; mov.u64 d3,0; isspacep.const p,d3; selp.u32 r3,1,2,p; st.global.v2.u32
 [d1],{r2,r3}; ret; }
""",
    "results on the stack": """
.func (.param .b32 q, .param .align 8 .b8 r[48], .param .b32 s, .param .b64 u, .param .b64 v) many (.param .b64 a,
 .param .b64 b, .param .align 8 .b8 c[40], .param .b32 n)
{ .reg .pred p; .reg .b64 x<9>; .reg .b32 y<9>; ld.param.b64 x1,[a]; ld.param.b64 x2,[b]; ld.param.b64 x3,[c+32];
 ld.param.b32 y1,[n]; .local .align 8 .b8 buf[16]; st.local.u64 [buf], x3; st.param.b32 [q],y1; st.param.b64 [r],x1;
 st.param.b64 [r+40],x2; st.param.b32 [r+36],y1; add.u64 x4,x1,x2; setp.lt.u32 p,y1,20; st.param.b64 [v],x4;
 st.param.b32 [s],77; ld.local.u64 x5,[buf]; st.param.b64 [u],x5; @p ret; add.u32 y1,y1,1; st.param.b32 [s],y1; ret; }
.func (.param .align 8 .b8 r[64]) deep (.param .b32 n)
{ .reg .pred p; .reg .b64 x; .reg .b32 y,z; ld.param.b32 y,[n]; setp.eq.u32 p,y,0; mov.u64 x,3; @p bra E; sub.u32
 z,y,1; { .param .align 8 .b8 o[64]; .param .b32 m; st.param.b32 [m],z; call (o), deep, (m); ld.param.b64 x,[o+56]; }
E: cvt.u64.u32 x,y; mad.lo.u64 x,x,5,x; st.param.b64 [r+56],x; st.param.b32 [r],y; ret; }
"""
    + _KERNEL
    + """
 cvt.u64.u32 d3,t; mul.lo.u64 d4,d3,77; and.b32 r9,t,7; mov.u64 d9,deep;
{ .param .b64 a,b,u,v; .param .align 8 .b8 c[40], z[48]; .param .b32 n,q,s; st.param.b64 [a],d3; st.param.b64 [b],d4;
 st.param.b64 [c+32],d1; st.param.b32 [n],t; call (q,z,s,u,v), many, (a,b,c,n); ld.param.b32 r2,[q]; ld.param.b64
 d5,[z+40]; ld.param.b32 r3,[s]; ld.param.b64 d6,[u]; ld.param.b64 d7,[v]; ld.param.b32 r4,[z+36]; }
{ .param .align 8 .b8 o[64]; .param .b32 m; st.param.b32 [m],r9; P: .callprototype (.param .align 8 .b8 _[64]) _
 (.param .b32 _); call (o), d9, (m), P; ld.param.b64 d8,[o+56]; ld.param.b32 r5,[o]; } sub.u64 d6,d6,d1; add.u64
 d6,d6,d8; st.global.v4.u32 [d1],{r2,r3,r4,r5}; st.global.v2.u64 [d1+16],{d5,d6}; st.global.u64 [d1+32],d7; ret; }
""",
    "generic addresses of every space": _KERNEL
    + """
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
"""
    + _KERNEL
    + """
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
"""
    + _KERNEL
    + """
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
"""
    + _KERNEL
    + """
 and.b32 r2,t,7; mov.u64 d3,a; mov.u64 d4,b; and.b32 r3,t,8; setp.eq.u32 p,r3,0; selp.b64 d5,d3,d4,p; { .param .b32
 q,w; .param .b64 v; st.param.b32 [q],r2; st.param.b64 [v],d5; call (w), b, (q,v); ld.param.b32 r4,[w]; }
 st.global.u32 [d1],r4; ret; }
""",
}


@pytest.mark.parametrize("registers", [None, _FEW])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_memory_is_what_the_interpreter_leaves(name, registers):
    text = HEADER + _PROGRAMS[name]
    arguments = [Buffer("out", bytes(range(256)) * 10), Scalar(5, 4)]
    meant = place(parse_ptx(text, "test.ptx"), arguments, entry="k", block=(_THREADS, 1, 1))
    run_ptx(meant)
    module = compiled(text) if registers is None else compiled(text, registers)
    launch = on_warps(prepare(module, arguments, entry="k", block=(_THREADS, 1, 1)))
    assert launch.memory.read(*launch.buffers["out"]) == meant.memory.read(*meant.buffers["out"])
