"""Checks and measurements of the project that use ``testbench``: the only part of ``sim`` that
depends on it.

==========  ===========================================================================================================
module      content
==========  ===========================================================================================================
run_tb      ``python -m sim.run_tb``: runs testbenches
testbench   the base of testbenches
report      the results of a testbench
waves       ``python -m sim.waves``: records the waveform of a testbench
fuzz        ``python -m sim.fuzz``: random programs on the hardware
prove       ``python -m sim.prove``: theorems about the hardware
formal      the parts of theorems, and their proofs
mutate      ``python -m sim.mutate``: small changes of the hardware, and whether its tests detect them
mutation    the changes, and their results
bench       ``python -m sim.bench``: throughput of the machine, speed of its simulation, quality of compiled code
benchmarks  the measurements
workers     work spread over cores or a cluster
==========  ===========================================================================================================

Kernels and their expected results are in ``testbench/kernels``, random programs in
``testbench/fuzz``.
"""
