"""Runs of real programs: how the kernels of ``testbench/programs`` are launched, and what they must leave in memory.

==============  ===========================================================================================
module          content
==============  ===========================================================================================
manifest        the runs of ``manifest.toml`` as launches
expected        compares a finished launch with what the kernel's PTX says
expected_...    one function a kernel, written from the PTX alone
outcome         what an expectation can be: exact bytes, one of several values, a rule
==============  ===========================================================================================
"""
