"""Proofs: what a theorem is made of, and how Yosys's sby and Z3 are asked about it.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
theorem         what a file of ``testbench/formal`` says: the theorem, its hardware, the faults it must find
surroundings    free inputs, and other parts of the hardware around what is proved
fault           a deliberate fault: another text in the source of one module of the hardware
convert         from a theorem, or one with a fault, to RTLIL; a process of its own, since a fault stays imported
prover          the questions: induction or a bound, covers, faults; their answers
step            an induction that is asked about one assertion at a time, and covers one by one
==============  =======================================================================================================
"""
