"""The outcome of a run as text, and the generated parts of the manual.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
run             report of the warp model: status, buffers, errors
hardware        report of the hardware
testbench       report of a testbench
output          what kernels print, and their failed assertions
profile         a profile as text, JSON and HTML
timeline        a timeline as HTML, for Perfetto, and for Konata
error_status    error registers decoded, and logged as drivers do
exceptions      CUDA's names of errors
surroundings    the code around an instruction
diagrams        the manual's block diagrams
ports           the manual's tables of ports
reference       the manual's tables of instructions, registers and error codes
==============  =======================================================================================================
"""
