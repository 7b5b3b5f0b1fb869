"""External faults: memory that answers with errors or late, invalid launch descriptors, damaged
files.

==============  ======================================================================================================
file            content
==============  ======================================================================================================
victim          a program with all kinds of memory accesses, with a trap handler that ends warps with errors
memory_errors   any answer of memory is an error, or late
descriptors     each field of a launch descriptor is made invalid, one at a time
files           readers of files from users
check           memory and descriptors: ``python -m testbench.faults.check``
guided          files, changed under coverage guidance: ``python -m testbench.faults.guided``
==============  ======================================================================================================
"""
