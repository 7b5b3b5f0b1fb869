"""Runs of real programs: the launches of the kernels in ``testbench/programs``, and the memory that
they must leave.

==============  ===========================================================================================
module          content
==============  ===========================================================================================
manifest        the runs of ``manifest.toml`` as launches
expected        compares a finished launch with what the kernel's PTX defines
expected_...    one function for each kernel, written from the PTX alone
outcome         kinds of expectations: exact bytes, one of several values, a rule
==============  ===========================================================================================
"""
