"""The back end of the PTX compiler: from a typed PTX module to a program of the assembler.

=================== =============================================================================================
module              content
=================== =============================================================================================
compiler            all passes in order: :func:`compile_statements`, :func:`compile_module`
ir                  operations on virtual registers of 32 bits, in basic blocks
opcodes, operands   what operations do, from the instruction table; what each can encode
abi, layout         how functions are called; where variables are
select              instruction selection, by groups of PTX opcodes; calls and inline expansion
library             functions of the runtime library, for divisions, reciprocals and roots
analysis            graphs, dominators, post-dominators, loops, liveness, single definitions, divergence
passes              simplify_cfg, carry, rotate, full_unroll, unroll, webs, optimise (constant_folding,
                    constant_propagation, cse, combine, dead_code), expand, legalise, if_conversion, licm,
                    reconvergence
regalloc            register groups, interference, coalesce, pressure, color, spill
emit                words, functions, programs of the assembler
=================== =============================================================================================

Ours, where neither PTX nor the machine decides:

- Threads that diverge at a branch meet at its immediate post-dominator among the paths that stay in the innermost
  loop: those that leave the loop, return or exit are not waited for. Threads that leave a loop meet where it is left
  to.
- The token of a region that is left past the tokens of others is BREAK, CONTINUE or LONGJMP; all others are SYNC.
- A quotient or remainder by zero is all ones, as in code of NVIDIA's assembler for 32 bits.
- Values of 8 and 16 bits have undefined bits above in their registers.
- A carry that other code comes between is kept in a register.
- A stack of call/return tokens is estimated as regions, divergent branches (32 in a loop) and calls on the deepest way;
  a function that calls itself counts 32 times.
"""

from .compiler import compile_module, compile_statements
from .select.builder import CompileError

__all__ = ["CompileError", "compile_module", "compile_statements"]
