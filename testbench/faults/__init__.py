"""Faults from outside: memory that answers with errors or late, launch descriptors that are wrong, damaged files.

==============  ======================================================================================================
file            content
==============  ======================================================================================================
victim          a program that needs memory in every way, with a trap handler that ends warps that fail
memory_errors   any answer of memory is an error, or late
descriptors     each field of a launch descriptor is made wrong, one at a time
files           what reads files that a user gives
check           memory and descriptors: ``python -m testbench.faults.check``
guided          files, changed where it counts: ``python -m testbench.faults.guided``
==============  ======================================================================================================
"""
