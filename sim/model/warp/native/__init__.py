"""A second executor of the warp model: the same state, the same instructions, in C.

::

                    OPERATIONS, SHFL                        words of the program
                           |                                        |
      recording     run once on values that record                  |
                           |                                        |
      translation   a shape: one function in C for        instructions: which function,
                    all instructions that differ          which registers, predicates,
                    in operands alone                     immediates and constants
                           |                                        |
      library       compiled, kept by content                       |
                           |________________________________________|
                                            |
      core.cc, core.h       scheduling of warps: fetch, guard, function; flow, barriers, CTAs, memory
                                            |
      executor      what the core does not execute, the model does, instruction by instruction

A warp instruction is a call of a function that loops over the 32 threads, which a C++ compiler turns into vector
instructions. What an instruction computes is not written again: its function is *derived* from that of
:mod:`sim.model.warp.vector`, by running it once on values that record what is done to them. Functions belong to shapes
and not to programs, so a new kernel needs few new ones, and a kept library serves all programs.

The core executes one instruction of one warp after the other, in the model's order, so that races end as they do on the
model and counts of instructions are the same. Of control flow, barriers and memory accesses it has its own text, which
is compared with the model's. It never raises an error: an instruction that would is left to the
model, with the state unchanged. The same is done with what has no translation (DFMA with a rounding
that the host has not, video instructions), and with everything of traps.

==============  ======================================================================
module          content
==============  ======================================================================
recording       vectors and masks that record
translation     from an instruction to a shape, and to C
library         compiler, cache, addresses of functions
instructions    from a word to what the core needs
state, memory   the core's structures, and its view of the launch's memory
protocol        the model's interface for the executor
executor        runs a machine: what is compiled when, and what the model does
==============  ======================================================================

Without a compiler, or with ``WARPSTACK_COMPILED_MODEL=0``, the model runs alone.
"""

from .executor import Executor, executor_for, is_available, is_on, switch

__all__ = ["Executor", "executor_for", "is_available", "is_on", "switch"]
