"""Faults from outside: memory that answers with errors or late, launch descriptors that are wrong, damaged files.

==============  ======================================================================================================
file            content
==============  ======================================================================================================
victim          a program that needs memory in every way, with a trap handler that ends warps that fail
memory_errors   any answer of memory is an error, or late
descriptors     each field of a launch descriptor is wrong in turn
check           all of it: ``python -m testbench.faults.check``
==============  ======================================================================================================
"""
