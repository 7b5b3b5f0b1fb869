"""Selection of divisions, remainders, reciprocals and roots: functions of the runtime library,
inlined or called.

Divisions and remainders of up to 32 bits remain pseudo-instructions until
:mod:`sim.toolchain.compiler.passes.division`, where it is known whether the divisor is a number.
"""

from rtl.isa.kinds import MultiFunction
from sim.toolchain.compiler.ir import RZ
from sim.toolchain.compiler.library import function_name, functions_with, is_called
from sim.toolchain.ptx.module import FunctionRef, PtxInstruction

from .builder import Builder, ComputeKind, handles
from .calls import called
from .inlining import has_branches, inlined

__all__: list[str] = []

_SINGLE = {"rcp": MultiFunction.RCP, "rsqrt": MultiFunction.RSQ}
_DOUBLE = {"rcp": MultiFunction.RCP64H, "rsqrt": MultiFunction.RSQ64H}
"""MUFU functions for approximations in double precision with .ftz: they use the upper word; the
lower word of the result is zero.
"""


@handles("div", "rcp", "sqrt", "rsqrt", kind=ComputeKind.SINGLES)
def _single(b: Builder, i: PtxInstruction) -> None:
    if i.approximation and i.flush and i.opcode in _SINGLE:
        b.op("MUFU", b.write(i.operands[0]), b.word(i.operands[1]), function=_SINGLE[i.opcode])
    else:
        _by_library(b, i)


@handles("div", "rcp", "sqrt", "rsqrt", kind=ComputeKind.DOUBLES)
def _double(b: Builder, i: PtxInstruction) -> None:
    if i.approximation and i.flush:
        _, high = b.read(i.operands[1], 64)
        found = b.compute("MUFU", high, function=_DOUBLE[i.opcode])
        b.move(b.write(i.operands[0], 64), [RZ, found])
    else:
        _by_library(b, i)


@handles("div", "rem", kind=ComputeKind.LONGS)
def _by_library(b: Builder, i: PtxInstruction) -> None:
    """Inlines or calls the library function of an instruction. A function without branches runs
    without the guard, which applies only to the result.
    """
    name, bits = function_name(i), i.type.bits
    outer, b.library = b.library, functions_with(name)
    function = b.library[name]
    arguments = [b.read(operand, bits) for operand in i.operands[1:]]
    behind = b.guarded_block() if has_branches(function, b.library) else None
    guard, b.guard = b.guard, None
    if is_called(function):
        (words,) = called(b, FunctionRef(name), function.signature, arguments)
    else:
        (words,) = inlined(b, function, arguments)
    b.guard, b.library = guard, outer
    b.move(b.write(i.operands[0], bits), words)
    b.leave_guarded_block(behind)
