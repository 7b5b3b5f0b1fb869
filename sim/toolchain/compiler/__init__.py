"""The back end of the PTX compiler: from a typed PTX module to a program of the assembler.

=================== =============================================================================================
module              content
=================== =============================================================================================
compiler            all passes in order: :func:`compile_statements`, :func:`compile_module`
ir                  what they work on: operations on virtual registers of 32 bits, in blocks
instructions        how each operation is written, and what it can encode
builder, select_*   instruction selection, by groups of PTX opcodes (with special, long_division)
abi, layout         how functions are called; where variables are
dataflow            liveness, names of their own for each meaning of a register
graphs              dominators and strongly connected components of any graph
dominance, loops    what is passed on every way to what; natural loops
cleanup             blocks that do nothing
carry               carries that outlive the condition code
turn_loops, unroll  tests at loops' ends, loops written out, four turns at a time
optimise, patterns  copies, numbers, equal and dead operations; what one instruction does together (with definitions)
expand, division    operations that stand for several instructions (with emitter)
legalise            constants that cannot be encoded go into registers
predicate, hoist    short bodies under guards; what is the same each turn before the loop
convergence         where divergent threads meet again (with convergence_graph, uniform)
allocate, spill     registers (with interference, neighbours, pressure)
emit, text          instructions of the assembler: operations, functions; program_text: all around them
=================== =============================================================================================

Ours, where neither PTX nor the machine decides:

- Threads that a branch parts meet at its immediate post-dominator among the ways that stay in the innermost loop: those
  that leave the loop, return or exit are not waited for. Threads that leave a loop meet where it is left to.
- The token of a region that is left past the tokens of others is BREAK, CONTINUE or LONGJMP; all others are SYNC.
- A quotient or remainder by zero is all ones, as NVIDIA's assembler has it for 32 bits.
- Values of 8 and 16 bits have undefined bits above in their registers.
- A carry that other code comes between is kept in a register.
- A stack of call/return tokens is estimated as regions, parted branches (32 in a loop) and calls on the deepest way;
  a function that calls itself counts 32 times.
"""

from .builder import CompileError
from .compiler import compile_module, compile_statements

__all__ = ["CompileError", "compile_module", "compile_statements"]
