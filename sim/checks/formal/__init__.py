"""Proofs: what a theorem is made of, and how Yosys's sby and Z3 check it.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
theorem         the content of a file in ``testbench/formal``: the theorem, its hardware, the faults it must find
surroundings    free inputs, and other parts of the hardware around what is proved
fault           a deliberate fault: another text in the source of one module of the hardware
convert         from a theorem, or one with a fault, to RTLIL; a separate process, since a fault stays imported
prover          the questions: induction or a bound, covers, faults; their answers
step            an induction that checks one assertion at a time, and covers one by one
==============  =======================================================================================================
"""
