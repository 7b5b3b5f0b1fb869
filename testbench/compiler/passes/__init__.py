"""Each pass of the compiler on a small function: from PTX to the listing of its operations."""

from collections.abc import Callable

from sim.toolchain.compiler.ir import Function
from sim.toolchain.compiler.layout import MemoryLayout
from sim.toolchain.compiler.listing import function_listing
from sim.toolchain.compiler.select.functions import select_function
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.ptx.text import HEADER

__all__ = ["after", "selected"]

_HEAD = (
    ".visible .entry k(.param .u32 x, .param .u32 y)\n{ .reg .pred p, q; .reg .b32 a, b, c, d, i, n; "
    ".reg .b64 e, f, g;\n"
)


def selected(body: str) -> Function:
    """Returns a kernel's function after instruction selection. Registers are a to d, i, n; 64-bit
    ones e to g.
    """
    module = parse_ptx(f"{HEADER}{_HEAD}{body}\nret; }}\n", "pass.ptx")
    return select_function(module.functions["k"], MemoryLayout.of(module))


def after(body: str, *passes: Callable[[Function], object]) -> str:
    """Returns the listing after some passes; after register allocation it has registers.

    A pass that returns whether it has changed the function must do so correctly.
    """
    function, registers = selected(body), None
    listing = function_listing(function, registers)
    for each in passes:
        found = each(function)
        registers = found if isinstance(found, dict) else registers
        before, listing = listing, function_listing(function, registers)
        assert not isinstance(found, bool) or found == (listing != before)
    return listing
