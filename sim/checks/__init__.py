"""What checks and measures the project by ``testbench``: the one part of ``sim`` that knows it.

==========  ===========================================================================================================
module      content
==========  ===========================================================================================================
run_tb      ``python -m sim.run_tb``: runs testbenches
testbench   what testbenches are written in
report      what a testbench has checked and measured
waves       ``python -m sim.waves``: records the waveform of a testbench
fuzz        ``python -m sim.fuzz``: random programs on the hardware
prove       ``python -m sim.prove``: theorems about the hardware
formal      what theorems are made of, and how they are proved
mutate      ``python -m sim.mutate``: small changes of the hardware, and whether its tests notice
mutation    the changes, and what becomes of them
bench       ``python -m sim.bench``: what the machine gets done, how fast it is simulated, the compiler's code
benchmarks  what that measures
workers     work spread over cores or a cluster
==========  ===========================================================================================================

Kernels and what they must leave in memory are in ``testbench/kernels``, random programs in ``testbench/fuzz``.
"""
