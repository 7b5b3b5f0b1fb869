"""Results of single instructions: all modes, edge values of operands, and expected results.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
cases           words of a form in all its modes, edge values, threads before and, by the thread model, after
condition       the meaning of the tests of CC, defined by numbers that were compared
functions       error bounds of MUFU's functions, from mathematics and the PTX manual
test_models     the warp model against the thread model, every instruction of the lanes in every mode
test_sequences  both models against Python's integers: numbers of several words, as compiled code computes with them
==============  =======================================================================================================

Errors that both models could share are found by independent references: MPFR and NumPy
(``testbench/model``), code of host compilers and third-party kernels (``testbench/programs``),
third-party test suites (``testbench/cuda``).
"""
