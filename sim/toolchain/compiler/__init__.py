"""The back end of the PTX compiler: from a typed PTX module to assembly text.

==================  ===================================================================================
module              content
==================  ===================================================================================
compiler            all passes in order: :func:`compile_module`
ir                  what they work on: operations on virtual registers of 32 bits
instructions        how each operation is printed, and what it can encode
builder, select_*   instruction selection, by groups of PTX opcodes
abi, layout         how functions are called; where variables are
dataflow, loops     liveness, webs, dominators; natural loops
optimise, patterns  copies, numbers, equal and dead operations; what one instruction does together
expand, division    operations that stand for several instructions
legalise            constants that cannot be encoded go into registers
convergence         where threads that part meet again (with convergence_graph, uniform)
allocate, spill     registers (with interference, neighbours)
emit, text          assembly text: operations, functions; program_text: all around them
==================  ===================================================================================
"""

from .builder import CompileError
from .compiler import compile_module

__all__ = ["CompileError", "compile_module"]
