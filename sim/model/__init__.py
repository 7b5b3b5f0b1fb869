"""Three models that execute programs. The hardware, the toolchain and each model are checked
against the others.

================  ====================================================  ================================================
model             what it runs, and how                                 what it is for
================  ====================================================  ================================================
:mod:`.warp`      machine code, a warp at a time: active masks, the     the golden model: in lockstep with the hardware
                  call/return stack, barriers, traps, one retired       each retired instruction is
                  a record of what must have
                  instruction after the other                           changed; ``--engine model`` runs programs on it
:mod:`.thread`    machine code, each thread alone: a pc and a list of   checks masks and stack of the warp model, which
                  places to go back to, no masks, no tokens             it does not have, by the memory that is left
:mod:`.ptx`       PTX, each thread alone; there is no machine code      checks the compiler, and machine code of others,
                                                                        against their source
================  ====================================================  ================================================

The warp model and the thread model share the instruction table (:mod:`rtl.isa`), the launch
(:mod:`sim.launch`) and the assembler, and no semantics: no instruction's formula is in code that
both run, so that a mistake in one shows as a difference. The PTX interpreter knows neither the
table nor machine code: it reads what the PTX front end (:mod:`sim.toolchain.ptx`) has checked, and
shares exact floating-point rounding with the thread model (:mod:`sim.model.thread.floats`).
"""
