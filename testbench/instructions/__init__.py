"""What single instructions compute: all modes, operands at their edges, and what they must give.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
cases           words of a form in all its modes, operands at the edges, threads before and, by the thread model, after
condition       what the tests of CC say of numbers that were compared
functions       error bounds of MUFU's functions, from mathematics and the PTX manual
test_models     the warp model against the thread model, every instruction of the lanes in every mode
test_sequences  both models against Python's integers: numbers of several words, as compiled code computes with them
==============  =======================================================================================================

What both models could have wrong alike is compared with what they do not know: MPFR and NumPy (``testbench/model``),
code of host compilers and kernels of others (``testbench/programs``), the suites of others (``testbench/cuda``).
"""
