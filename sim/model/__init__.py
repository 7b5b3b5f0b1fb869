"""Three models that execute programs. The hardware, the toolchain and each model are checked
against the others.

================  ====================================================  ================================================
model             what it executes, and how                             purpose
================  ====================================================  ================================================
:mod:`.warp`      machine code, a warp at a time: active masks, the     golden model: in lockstep with the hardware it
                  call/return stack, barriers, traps; each retired      checks every retirement; ``--engine model`` runs
                  instruction is a record of what it changed            programs on it
:mod:`.thread`    machine code, each thread alone: a pc and a stack of  checks the masks and tokens of the warp model,
                  return points, no masks, no tokens                    which it lacks, by comparing final memory
:mod:`.ptx`       PTX, each thread alone; there is no machine code      checks the compiler, and third-party machine
                                                                        code, against the PTX source
================  ====================================================  ================================================

Shared code:

- The warp model and the thread model share the instruction table (:mod:`rtl.isa`), the launch
  (:mod:`sim.launch`) and the assembler, but no semantics. Both never run the same code to compute
  an instruction, so that a mistake in one is a difference between them.
- The thread model and the PTX interpreter share the scheduling of threads, their groups, barriers
  and the lane that a shuffle reads (:mod:`.threads`), lop3 and prmt (:mod:`.bits`), and exact
  floating-point rounding (:mod:`sim.model.thread.floats`).
- The PTX interpreter uses neither the instruction table nor machine code: it runs the module that
  the PTX front end (:mod:`sim.toolchain.ptx`) has checked.
"""
