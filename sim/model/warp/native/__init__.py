"""A second executor of the warp model: the same state and the same instructions, compiled from C++.

::

                    OPERATIONS, SHFL                        words of the program
                           |                                        |
      recording     run once on values that record                  |
                           |                                        |
      translation   a shape: one function in C for        instructions: which function,
                    all instructions that differ          which registers, predicates,
                    only in operands                      immediates and constants
                           |                                        |
      library       compiled, cached by content                     |
                           |________________________________________|
                                            |
      core.cc, core.h       scheduling of warps: fetch, guard, function; flow, barriers, CTAs, memory
                                            |
      executor      has the model execute, one by one, the instructions that the core does not

A warp instruction is a call of a function that loops over the 32 threads, which a C++ compiler
vectorises. The semantics of an instruction are not written again: its function is *derived* from
that of :mod:`sim.model.warp.vector`, by running it once on values that record the operations on
them. Functions belong to shapes and not to programs, so that a new kernel needs few new ones, and
the cached libraries serve all programs.

The core executes one instruction of one warp after the other, in the model's order, so that races
have the same outcome as on the model and counts of instructions are equal. Control flow, barriers
and memory accesses are written in C++ by hand, and tests compare them with the model. The core
never raises an error: an instruction that would raise one is left to the model, with the state
unchanged. The model also executes the instructions without a translation (video instructions, a
DFMA with a rounding direction that the host lacks) and everything that involves traps.

==============  ======================================================================
module          content
==============  ======================================================================
recording       vectors and masks that record
translation     from an instruction to a shape, and to C
library         compiler, cache, addresses of functions
instructions    from a word to the core's form of it
state, memory   the core's structures, and its view of the launch's memory
protocol        the model's interface for the executor
executor        runs a machine: decides what is compiled when, and what the model executes
==============  ======================================================================

Without a compiler, or with ``WARPSTACK_COMPILED_MODEL=0``, the model runs alone.
"""

from .executor import Executor, executor_for, is_available, is_on, switch

__all__ = ["Executor", "executor_for", "is_available", "is_on", "switch"]
