"""The back end of the PTX compiler: compiles a typed PTX module to an assembly program.

=================== ================================================================================
module              content
=================== ================================================================================
compiler            all passes in order: :func:`compile_statements`, :func:`compile_module`
ir                  operations on virtual registers of 32 bits, in basic blocks
opcodes, operands   what operations do, from the instruction table; which operands each can encode
abi, layout         the calling convention; the addresses of variables
select              instruction selection, by groups of PTX opcodes; calls and inline expansion
library             functions of the runtime library, for divisions, reciprocals and roots
analysis            graphs, dominators, post-dominators, loops, liveness, single definitions,
                    divergence
passes              simplify_cfg, carry, rotate, full_unroll, unroll, webs, optimise
                    (constant_folding,
                    constant_propagation, cse, combine, dead_code), expand, legalise, if_conversion,
                    licm,
                    reconvergence
regalloc            register groups, interference, coalesce, pressure, color, spill
emit                instruction words, functions, assembly programs
=================== ================================================================================

These choices are ours, where neither PTX nor the machine decides:

- Threads that diverge at a branch reconverge at its immediate post-dominator among the paths that
  stay in the innermost loop. They do not wait for threads that leave the loop, return or exit.
  Threads that leave a loop reconverge at the loop's exit target.
- A region that is left past the tokens of inner regions uses a BREAK, CONTINUE or LONGJMP token;
  all others use SYNC.
- A quotient or remainder by zero is all ones, as in 32-bit code of NVIDIA's assembler.
- The bits of a register above a value of 8 or 16 bits are undefined.
- A carry is kept in a register if other code lies between its definition and its use.
- The depth of the call/return stack is estimated as the regions, divergent branches (32 for one in
  a loop) and calls on the deepest path of the call graph; a recursive function counts 32 times.
"""

from .compiler import compile_module, compile_statements
from .select.builder import CompileError

__all__ = ["CompileError", "compile_module", "compile_statements"]
