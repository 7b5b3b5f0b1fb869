"""Proofs: the parts of a theorem, and how Yosys's sby and Z3 check it.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
theorem         the content of a file in ``testbench/formal``: the theorem, its hardware, the faults it must detect
surroundings    free inputs, and other parts of the hardware around what is proved
fault           a deliberate fault: a text replacement in the source of one module of the hardware
convert         from a theorem, or one with a fault, to RTLIL; a separate process, since a fault stays imported
prover          the questions (induction or a bound, covers, faults) and their answers
step            an induction that checks one assertion at a time, and covers one by one
==============  =======================================================================================================
"""
