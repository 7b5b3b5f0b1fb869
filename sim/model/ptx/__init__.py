"""The PTX interpreter: every thread of the grid runs its own PTX, without machine code, masks or
tokens.

It depends on :mod:`sim.toolchain.ptx.module` alone. Compiled code, NVIDIA's or this project's, must
leave the same memory.

==================== ==========================================================================================
module               content
==================== ==========================================================================================
launch               the program placed in memory: variables, functions' addresses, buffers, parameters
run                  the threads, round robin
state                a thread with its frames; groups of neighbours, CTAs and their barriers
program              functions as lists of operations
slots, site          the positions of an instruction's operands, and its context
numbers, bits,       arithmetic on integers, bits and floating-point numbers
floats
video                video instructions
select, special      comparisons, selections, conversions, moves; special registers
access               loads, stores, atomics
flow                 branches, calls, ends of threads
together             votes, shuffles, barriers
==================== ==========================================================================================
"""
