"""A run's outcome as text.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
run             of the warp model: status, buffers, errors
hardware        of the hardware
testbench       of a testbench
error_status    registers of an error decoded, and logged as drivers do it
exceptions      what CUDA calls an error
surroundings    the code around an instruction
diagrams        the manual's block diagrams
==============  =======================================================================================================
"""
