"""Functions of the runtime library, which the compiler calls for instructions that the machine does not have.

They are PTX text, compiled like a program. compiler-rt is the model.
"""

from functools import cache

from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.module import PtxModule
from sim.toolchain.runtime import division_text

from .ir import Function
from .layout import Layout
from .select.functions import select_function

__all__ = ["library_function"]


@cache
def _division() -> PtxModule:
    return parse_ptx(division_text(), "the runtime library")


def library_function(name: str) -> Function:
    """A function of the library as operations. Each call returns a new copy, since passes change it."""
    module = _division()
    return select_function(module.functions[name], Layout.of(module))
