"""The whole machine in simulation, and a host's view of it, in simulation or on a board.

======================  ==============================================================================================
module                  content
======================  ==============================================================================================
base                    a machine as a host drives it: registers, launches, results
host                    a driver's view: registers by name, memory, time
hardware                the hardware in simulation, with its lockstep and its waveform
harness                 the hardware with memory behind its port
traces                  the traces of its waveform
memory_...              memory behind a port: with any latency, stalls and order; for long runs
retirement_events       the events of the retirement interface
lockstep                compares the hardware's instructions with the warp model's, in order
hardware_instructions   an instruction of the hardware, assembled from its events
comparison              the comparison of an instruction's effects, and of memory
warp_state              masks and stack of a warp
timeline                the state of every warp in every cycle
profile                 the costs of each instruction
diagnosis               why warps do not continue
======================  ==============================================================================================
"""
