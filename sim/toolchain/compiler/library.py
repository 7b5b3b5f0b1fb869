"""Functions of the runtime library that instructions are translated to calls of, as compiler-rt's: PTX text, which is
selected like that of a program.
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
    """A function of the library as operations, made again each time: passes change them."""
    module = _division()
    return select_function(module.functions[name], Layout.of(module))
