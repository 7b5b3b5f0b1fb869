"""The PTX interpreter: every thread of the grid runs its own PTX, without machine code, masks or tokens.

It knows only :mod:`sim.toolchain.ptx.module`: compiled code, NVIDIA's or this project's, must leave the same memory.

==================== ==========================================================================================
module               content
==================== ==========================================================================================
launch               the program placed in memory: variables, functions' addresses, buffers, parameters
run                  the threads, round robin
state                a thread with its frames; groups of neighbours, CTAs and their barriers
program              functions as lists of operations
slots, site          an instruction in its place: where its operands are, what is around it
numbers, bits,       what instructions compute: with integers, bits, floating-point numbers
floats
video                likewise, of video instructions
select, special      comparisons, selections, conversions, moves; special registers
access               loads, stores, atomics
flow                 branches, calls, ends of threads
together             votes, shuffles, barriers
==================== ==========================================================================================
"""
