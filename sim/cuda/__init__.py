"""CUDA programs on this machine: ``python -m sim.cuda -- COMMAND``.

The program loads ``libcuda.so.1`` of this project, which sends its calls to a server in the
command's process; the server places modules in device memory and runs launches, on the machine in
simulation or on the warp model.

============  ==========================================================================================
module        content
============  ==========================================================================================
command       the command: server, program, table of launches
protocol      the protocol of libraries and server: the one table from which both sides are made
library       libcuda and libcudart in C, one function a call
build         compiles them, with a stub for every public name that has no function
setup         the environment that a program needs
server        connections, and an answer for each call
device        memory, modules, launches and limits of contexts
images        PTX, cubins and fatbins
compilers     compilers of PTX, and linking
recording     waveform, timeline and profile of one launch
report        all launches as a table, and as JSON
names         readable names of kernels
errors        CUDA's results, and the mapping of the machine's errors to them
============  ==========================================================================================
"""
