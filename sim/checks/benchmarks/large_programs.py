"""Large PTX programs, each of one kind that is hard for compilers. They compute nothing useful.

``size`` is the number of the program's repeated parts; the text grows linearly with it, except that
``pressure`` has ``size`` squared sums in registers.
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random

__all__ = ["LARGE_PROGRAMS"]

_HEADER = ".version 7.8\n.target sm_50\n.address_size 64\n"
_SEED = 1


def _kernel(name: str, registers: str, lines: Iterator[str]) -> str:
    """Returns a kernel with one pointer parameter, in ``%rd0``, and the thread number in ``%r0``."""
    body = "\n".join(lines)
    return (
        f".visible .entry {name}(.param .u64 out)\n{{\n{registers}\nld.param.u64 %rd0, [out];\n"
        f"cvta.to.global.u64 %rd0, %rd0;\nmov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
    )


def _kernels(size: int) -> str:
    """Kernels with a loop, branches, shared memory and a call."""
    return _HEADER + "".join(_small_kernel(at) for at in range(size))


def _small_kernel(at: int) -> str:
    function = (
        f".func (.reg .f32 y) helper{at}(.reg .f32 x, .reg .u32 n)\n{{\n.reg .pred %p<2>;\n.reg .b32 %r<3>;\n"
        f"mov.u32 %r0, 0;\nmov.f32 y, x;\nL1:\nfma.rn.f32 y, y, x, 0f3F800000;\nadd.u32 %r0, %r0, {at + 1};\n"
        "setp.lt.u32 %p0, %r0, n;\n@%p0 bra L1;\nret;\n}\n"
    )
    lines = [
        f".shared .align 4 .b32 tile[{64 + at}];",
        "mov.u32 %r1, %r0;",
        "mov.f32 %f0, 0f00000000;",
        "NEXT:",
        "mul.wide.u32 %rd1, %r1, 4;",
        "add.u64 %rd1, %rd0, %rd1;",
        "ld.global.f32 %f1, [%rd1];",
        "shl.b32 %r2, %r0, 2;",
        "mov.u32 %r3, tile;",
        "add.u32 %r2, %r2, %r3;",
        "st.shared.f32 [%r2], %f1;",
        "bar.sync 0;",
        f"and.b32 %r4, %r1, {at % 7 + 1};",
        "setp.eq.u32 %p0, %r4, 0;",
        "@%p0 bra OTHER;",
        f"call (%f1), helper{at}, (%f1, %r1);",
        "bra.uni JOIN;",
        "OTHER:",
        "sqrt.rn.f32 %f1, %f1;",
        "JOIN:",
        f"ld.shared.f32 %f2, [%r2+{4 * at}];",
        "fma.rn.f32 %f0, %f1, %f2, %f0;",
        "bar.sync 0;",
        "add.u32 %r1, %r1, 64;",
        "setp.lt.u32 %p1, %r1, 4096;",
        "@%p1 bra NEXT;",
        "st.global.f32 [%rd1], %f0;",
    ]
    registers = ".reg .pred %p<2>;\n.reg .b32 %r<5>;\n.reg .f32 %f<3>;\n.reg .b64 %rd<2>;"
    return function + _kernel(f"kernel{at}", registers, iter(lines))


def _functions(size: int) -> str:
    """Functions, and as many kernels that each call half of them: each kernel has a copy of those."""
    text = [_HEADER]
    for at in range(size):
        following = f"call (y), f{at - 1}, (y);\n" if at % 4 else ""
        text.append(
            f".func (.reg .u32 y) f{at}(.reg .u32 x)\n{{\n.reg .pred %p<1>;\nmul.lo.u32 y, x, {2 * at + 3};\n"
            f"setp.gt.u32 %p0, y, {at};\n@%p0 bra DONE;\nxor.b32 y, y, x;\n{following}DONE:\n"
            f"add.u32 y, y, {at};\nret;\n}}\n"
        )
    for kernel in range(size):
        lines = (f"call (%r0), f{at}, (%r0);" for at in range(size) if (at + kernel) % 2)
        text.append(_kernel(f"k{kernel}", ".reg .b32 %r<1>;\n.reg .b64 %rd<1>;", lines))
    return "".join(text)


def _blocks(size: int) -> str:
    """One kernel of nested branches and loops, with conditions unknown to the compiler."""
    random = Random(_SEED)
    return _HEADER + _kernel(
        "blocks",
        ".reg .pred %p<1>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<1>;",
        (line for at in range(size) for line in _statement(random, f"L{at}", 0)),
    )


def _statement(random: Random, label: str, depth: int) -> Iterator[str]:
    """Yields a branch, a loop or a computation; labels begin with ``label``."""
    first, second = (f"%r{random.randrange(1, 9)}" for _ in range(2))
    number = random.randrange(1, 1000)
    kind = random.randrange(4) if depth < 4 else 3
    if kind == 3:
        yield f"mad.lo.u32 {first}, {second}, {number}, %r0;"
        yield f"st.global.u32 [%rd0+{4 * number}], {first};"
        return
    if kind == 2:
        yield f"{label}_loop:"
    else:
        yield f"setp.gt.u32 %p0, {first}, {number};"
        yield f"@%p0 bra {label}_else;"
    for part in range(3):
        yield from _statement(random, f"{label}_{part}", depth + 1)
    if kind == 2:
        yield f"add.u32 {first}, {first}, {number};"
        yield f"setp.lt.u32 %p0, {first}, {second};"
        yield f"@%p0 bra {label}_loop;"
        return
    yield f"bra.uni {label}_join;"
    yield f"{label}_else:"
    yield from _statement(random, f"{label}_e", depth + 1)
    yield f"{label}_join:"


def _exits(size: int) -> str:
    """One kernel with exits everywhere."""

    def lines() -> Iterator[str]:
        for at in range(size):
            yield f"ld.global.u32 %r2, [%rd0+{4 * at}];"
            yield f"mad.lo.u32 %r1, %r1, {at + 3}, %r2;"
            yield "setp.ne.u32 %p0, %r1, %r0;"
            yield f"@%p0 bra L{at};"
            yield f"st.global.u32 [%rd0+{4 * at}], %r1;"
            yield "bra.uni DONE;"
            yield f"L{at}:"
        yield "DONE:"

    return _HEADER + _kernel(
        "exits", ".reg .pred %p<1>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<1>;", lines()
    )


def _straight(size: int) -> str:
    """One kernel without a branch."""
    random = Random(_SEED)
    forms = (
        "xor.b32 {0}, {1}, {2};",
        "mad.lo.u32 {0}, {1}, {3}, {2};",
        "shf.l.wrap.b32 {0}, {1}, {2}, {4};",
        "max.u32 {0}, {1}, {2};",
        "add.u32 {0}, {1}, {3};",
        "ld.global.u32 {0}, [%rd0+{4}00];",
        "st.global.u32 [%rd0+{4}], {1};",
        "lop3.b32 {0}, {1}, {2}, %r0, {4};",
    )

    def lines() -> Iterator[str]:
        for _ in range(size):
            names = [f"%r{random.randrange(1, 64)}" for _ in range(3)]
            yield random.choice(forms).format(
                *names, random.randrange(1 << 31), 4 * random.randrange(1, 8)
            )

    return _HEADER + _kernel("straight", ".reg .b32 %r<64>;\n.reg .b64 %rd<1>;", lines())


def _pressure(size: int) -> str:
    """One loop with more sums than there are registers."""

    def lines() -> Iterator[str]:
        sums = range(size * size)
        yield from (f"ld.global.f32 %s{at}, [%rd0+{4 * at}];" for at in sums)
        yield "NEXT:"
        yield from (f"ld.global.f32 %x{at}, [%rd0+{4 * at}];" for at in range(2 * size))
        yield from (
            f"fma.rn.f32 %s{at}, %x{at % size}, %x{size + at // size}, %s{at};" for at in sums
        )
        yield "add.u32 %r0, %r0, 1;\nsetp.lt.u32 %p0, %r0, 1000;\n@%p0 bra NEXT;"
        yield from (f"st.global.f32 [%rd0+{4 * at}], %s{at};" for at in sums)

    registers = (
        f".reg .pred %p<1>;\n.reg .b32 %r<1>;\n.reg .f32 %s<{size * size}>;\n.reg .f32 %x<{2 * size}>;\n"
        ".reg .b64 %rd<1>;"
    )
    return _HEADER + _kernel("pressure", registers, lines())


def _variables(size: int) -> str:
    """Small variables of every kind, and as many kernels that each use some of them."""
    text = [_HEADER]
    text += [
        f".global .u32 g{at} = {at};\n.const .u32 c{at} = {3 * at};\n.global .align 2 .b16 h{at}[3];\n"
        f".global .u64 p{at} = generic(g{at});\n.shared .b32 s{at}[{at % 7 + 1}];\n"
        for at in range(size)
    ]
    for at in range(size):
        lines = [
            ".local .b32 kept[4];",
            f"ld.const.u32 %r1, [c{at}];",
            f"ld.const.u32 %r2, [c{at * 7 % size}];",
            "add.u32 %r1, %r1, %r2;",
            f"st.shared.u32 [s{at}], %r1;",
            f"ld.global.u64 %rd1, [p{at}];",
            "ld.u32 %r2, [%rd1];",
            "st.local.u32 [kept+4], %r2;",
            "bar.sync 0;",
            f"ld.shared.u32 %r1, [s{at}];",
            f"st.global.u16 [h{at}+2], %r1;",
            "ld.local.u32 %r2, [kept+8];",
            "st.global.u32 [%rd0], %r2;",
        ]
        text.append(_kernel(f"k{at}", ".reg .b32 %r<3>;\n.reg .b64 %rd<2>;", iter(lines)))
    return "".join(text)


def _doubles(size: int) -> str:
    """Kernels of polynomials, quotients and roots in double precision, with branches for special cases."""

    def lines(at: int) -> Iterator[str]:
        yield "ld.global.f64 %fd0, [%rd0];"
        for part in range(8):
            yield "abs.f64 %fd1, %fd0;"
            yield f"setp.gt.f64 %p0, %fd1, 0d40{part:x}0000000000000;"
            yield f"@%p0 bra LARGE{part};"
            for term in range(12):
                yield f"fma.rn.f64 %fd1, %fd1, %fd0, 0d3F{(at * 13 + term * 7) % 256:02X}555555555555;"
            yield f"bra.uni JOIN{part};"
            yield f"LARGE{part}:"
            yield (
                "div.rn.f64 %fd1, 0d3FF0000000000000, %fd1;"
                if part % 4
                else "sqrt.rn.f64 %fd1, %fd1;"
            )
            yield f"JOIN{part}:"
            yield "mov.b64 {%r1, %r2}, %fd1;"
            yield f"add.s32 %r2, %r2, {part << 20};"
            yield "mov.b64 %fd0, {%r1, %r2};"
        yield "st.global.f64 [%rd0], %fd0;"

    registers = ".reg .pred %p<1>;\n.reg .b32 %r<3>;\n.reg .f64 %fd<2>;\n.reg .b64 %rd<1>;"
    return _HEADER + "".join(_kernel(f"double{at}", registers, lines(at)) for at in range(size))


def _unrolled(size: int) -> str:
    """Kernels whose loops a front end has unrolled, as those of tinygrad and numba: loads at
    constant distances, products and sums in single precision, selp, and calls of a function for
    rare cases.
    """
    function = (
        ".func (.reg .f32 y) edge(.reg .f32 x, .reg .u32 n)\n{\n.reg .pred %p<1>;\n.reg .f32 %f<1>;\n"
        "setp.gt.u32 %p0, n, 100;\nmov.f32 y, x;\n@%p0 ret;\nex2.approx.f32 %f0, x;\n"
        "add.f32 %f0, %f0, 0f3F800000;\nrcp.approx.f32 y, %f0;\nret;\n}\n"
    )

    def lines(kernel: int) -> Iterator[str]:
        yield "mul.wide.u32 %rd1, %r0, 4;"
        yield "add.u64 %rd1, %rd0, %rd1;"
        for at in range(16):
            yield f"mov.f32 %f{at}, 0f00000000;"
        for tap in range(12):
            for at in range(8):
                yield f"add.s64 %rd2, %rd1, {4 * (tap * 96 + at * (kernel % 5 + 3))};"
                yield f"add.s32 %r1, %r0, {tap - at};"
                yield f"setp.lt.u32 %p0, %r1, {1000 + kernel};"
                yield "mov.f32 %f16, 0f00000000;"
                yield "@%p0 ld.global.f32 %f16, [%rd2];"
                yield f"ld.global.f32 %f17, [%rd0+{4 * (tap * 8 + at)}];"
                yield f"selp.f32 %f18, %f16, %f17, %p{at % 2};"
                yield f"fma.rn.f32 %f{at}, %f16, %f17, %f{at};"
                yield f"fma.rn.f32 %f{at + 8}, %f18, %f17, %f{at + 8};"
            yield f"setp.gt.f32 %p1, %f{tap}, 0f3F000000;"
            yield f"@%p1 bra SKIP{tap};"
            yield f"call (%f{tap}), edge, (%f{tap}, %r0);"
            yield f"SKIP{tap}:"
        for at in range(16):
            yield f"max.f32 %f{at}, %f{at}, 0f00000000;"
            yield f"st.global.f32 [%rd1+{4 * at}], %f{at};"

    registers = ".reg .pred %p<2>;\n.reg .b32 %r<2>;\n.reg .f32 %f<19>;\n.reg .b64 %rd<3>;\nsetp.eq.u32 %p1, 0, 0;"
    kernels = (_kernel(f"unrolled{at}", registers, lines(at)) for at in range(size))
    return _HEADER + function + "".join(kernels)


LARGE_PROGRAMS: Mapping[str, tuple[Callable[[int], str], int]] = {
    "kernels": (_kernels, 280),
    "functions": (_functions, 70),
    "blocks": (_blocks, 70),
    "exits": (_exits, 2400),
    "straight": (_straight, 11000),
    "pressure": (_pressure, 40),
    "variables": (_variables, 400),
    "doubles": (_doubles, 60),
    "unrolled": (_unrolled, 17),
}
"""Maker of the text of each kind, and the size for a few hundred kilobytes."""
