"""Three models that execute programs. The hardware, the toolchain and each model are checked against the others.

================  ====================================================  ================================================
model             what it runs, and how                                 what it is for
================  ====================================================  ================================================
:mod:`.warp`      machine code, a warp at a time: active masks, the     the golden model: in lockstep with the hardware
                  call/return stack, barriers, traps; each retired      the hardware, and what ``--engine model`` runs
                  instruction is a record of what it changed            programs on
:mod:`.thread`    machine code, each thread alone: a pc and a list of   checks masks and stack of the warp model, which
                  places to go back to, no masks, no tokens             it does not have, by the memory that is left
:mod:`.ptx`       PTX, each thread alone; there is no machine code      checks the compiler, and machine code of others,
                                                                        against their source
================  ====================================================  ================================================

What they share:

- The warp model and the thread model: the instruction table (:mod:`rtl.isa`), the launch (:mod:`sim.launch`) and the
  assembler, and no semantics. No instruction's formula is in code that both run, so that a mistake in one shows as a
  difference.
- The thread model and the PTX interpreter: the threads of a grid, their groups, barriers and turns, the lane that a
  shuffle reads (:mod:`.threads`), lop3 and prmt (:mod:`.bits`), and exact floating-point rounding
  (:mod:`sim.model.thread.floats`).
- The PTX interpreter knows neither the instruction table nor machine code: it runs what the PTX front end
  (:mod:`sim.toolchain.ptx`) has checked.
"""
